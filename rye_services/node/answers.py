"""Answers of a node's routes, as shapes: what is answered, and described in OpenAPI.

A field that is not always there has a default. Tests hold real answers to them
(``tests/rye_services/web/test_openapi.py``, ``tests/rye_services/web/test_schemathesis.py``).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from lillux.shapes import FLAT, LEFT_OUT, Key
from lillux.values import dataclass, field
from rye_services.node.moves import Move
from rye_services.node.webhooks import BindingAnswer
from rye_services.people.audit import AuditEntry
from rye_services.people.people import KeyFingerprint, PersonKeyAnswer
from rye_services.people.teams import Invitation, Member


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusAnswer:
    """How busy a node is, and what it can execute."""

    node_id: str
    node_name: str
    healthy: bool
    active: int
    max_concurrent: int
    capabilities: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityAnswer:
    """Who a node is: its keys, signed by itself."""

    kind: str
    principal_id: str
    signing_key: str
    box_key: str
    created_at: str
    public_key_pem: str
    items_key: str = ""
    previous: tuple[Mapping[str, Any], ...] = ()
    signature: Annotated[Any, Key("_signature")] = None


# --- objects and pushes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentAnswer:
    """Which digests are in the store, and which are not."""

    present: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The digests that were stored."""

    stored: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesAnswer:
    """What is there of the digests that were asked for."""

    entries: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushAnswer:
    """The head that a push made."""

    status: Literal["ok"]
    remote_name: str
    project_path: str
    project_manifest_hash: str
    user_manifest_hash: str | None
    snapshot_hash: str
    snapshot_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpaceAnswer:
    """The user space as it is now."""

    user_manifest_hash: str
    revision: int
    snapshot_revision: int
    remote_name: str
    pushed_at: Annotated[str | None, LEFT_OUT] = None
    left_out: Annotated[tuple[Mapping[str, str], ...], LEFT_OUT] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAnswer:
    """A snapshot that the node has lost; when an operator accepted that, null before."""

    hash: str
    accepted_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTerms:
    """What a push that follows has to know.

    takes_changes       whether `/push` takes ``changes`` and ``entries``
    engine_version      as `/health` has it
    user_manifest_hash  the user space; null where none was pushed, or the caller may not push
    """

    takes_changes: bool
    engine_version: str
    user_manifest_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAnswer:
    """The snapshots that led to the head of a project, the newest first."""

    project_path: str
    head: str
    revision: int
    snapshots: tuple[Mapping[str, Any], ...]
    remote_name: str
    lost: LostAnswer | None
    push_terms: PushTerms


# --- executions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionAnswer:
    """What an execution made, or that it was accepted; ``detail`` for a delivery that came before.

    ``result`` is the answer of the item, and ``status`` its own.
    """

    status: str = ""
    thread_id: str = ""
    is_async: Annotated[bool, Key("async")] = False
    message: str = ""
    detail: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    snapshot_hash: str | None = None
    merge_type: str | None = None
    execution_snapshot_hash: str | None = None
    runtime_outputs_bundle_hash: str | None = None
    new_object_hashes: tuple[str, ...] = ()
    system_version: str = ""
    callee_thread_id: str | None = None
    conflicts: Mapping[str, Any] = field(default_factory=dict)
    unmerged_snapshot: str = ""
    masked_paths: tuple[str, ...] = ()
    left_out: tuple[Mapping[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedAnswer:
    """An execution that was accepted; ``queue_place`` is 0 for one that has a place."""

    status: Literal["accepted"]
    thread_id: str
    is_async: Annotated[bool, Key("async")]
    queue_place: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAnswer:
    """The state of an execution that a user wants to end."""

    thread_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswer:
    """Pieces of what programs wrote; ``after`` is the number of the last one."""

    pieces: tuple[Mapping[str, Any], ...]
    after: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadAnswer:
    """An execution as its row has it.

    One that is asked for by its id has ``parameters``, the names of those that are secret, and once
    it is over what its objects say, from ``result`` on.
    """

    thread_id: str
    user_id: str
    started_by: str | None = None
    item_type: str
    item_id: str
    remote_name: str
    project_path: str
    state: str
    created_at: str
    started_at: str | None
    completed_at: str | None
    snapshot_hash: str | None
    merge_type: str | None
    error_message: str | None
    error_phase: str | None
    execution_mode: str | None = None
    project_manifest_hash: str | None = None
    user_manifest_hash: str | None = None
    system_version: str | None = None
    execution_snapshot_hash: str | None = None
    runtime_outputs_bundle_hash: str | None = None
    result_hash: str | None = None
    merge_conflicts: Any = None
    merge_conflict_count: int | None = None
    unmerged_snapshot_hash: str | None = None
    hook_id: str | None = None
    attempt: int | None = None
    retryable: bool | None = None
    cancelled_by: str | None = None
    warnings: Any = None
    log_bytes: int | None = None
    parameters: Mapping[str, Any] | None = None
    parameters_left_out: tuple[str, ...] = ()
    result: Any = None
    execution_status: str = ""
    execution_errors: tuple[Mapping[str, Any], ...] = ()
    runtime_output_files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadsAnswer:
    """The executions of a user, the newest first."""

    threads: tuple[ThreadAnswer, ...]
    remote_name: str


# --- keys and storage -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedAnswer:
    """A key that was let in."""

    fingerprint: KeyFingerprint
    label: str
    scopes: tuple[str, ...]
    authorized_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedKeyAnswer:
    """A key that may sign requests."""

    fingerprint: KeyFingerprint
    label: str
    scopes: tuple[str, ...]
    created_via: str
    created_at: str
    expires_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedKeysAnswer:
    """The keys that may sign requests."""

    keys: tuple[AuthorizedKeyAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAnswer:
    """Changes, the newest first; ``next`` is the ``before`` of the next page."""

    entries: tuple[AuditEntry, ...]
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedAnswer:
    """What counts no longer."""

    revoked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserGarbageAnswer:
    """What a collection did for one user; ``code``, ``problem`` and ``hint`` where it refused."""

    user_id: str
    state: Literal["done", "uploading", "busy", "refused"]
    removed: int
    freed_bytes: int
    kept: int
    stored_bytes: int
    forgotten: Annotated[int, Key("forgotten_executions")]
    code: Annotated[str, LEFT_OUT] = ""
    cause: Annotated[str, Key("problem"), LEFT_OUT] = ""
    hint: Annotated[str, LEFT_OUT] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageAnswer:
    """What a collection did, user by user."""

    status: Literal["ok"]
    dry_run: bool
    users: tuple[UserGarbageAnswer, ...]


# --- secrets and webhooks -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsStoredAnswer:
    """Which secrets were kept, and which were passed over."""

    stored: tuple[str, ...]
    count: int
    skipped: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretEntryAnswer:
    """A secret, without its value."""

    name: str
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsAnswer:
    """The secrets of a user, without their values."""

    secrets: tuple[SecretEntryAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedStoredAnswer:
    """The name of the secret that was kept."""

    stored: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesAnswer:
    """The names of the secrets of a user."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedAnswer:
    """The name of what was forgotten."""

    deleted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBindingAnswer:
    """A new hook; its ``hmac_secret`` is shown this once."""

    hook_id: str
    hmac_secret: str
    item_id: str
    project_path: str
    has_secret_envelope: bool
    vault_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingsAnswer:
    """The hooks of a user, the newest first."""

    bindings: tuple[BindingAnswer, ...]


# --- people, teams and projects -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipAnswer:
    """A team of the caller, and what they may there."""

    team_id: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountAnswer:
    """Who the caller is. ``team`` and ``role`` are of a token that is for one team."""

    user_id: str
    key_id: str
    scopes: tuple[str, ...] | None
    team: str | None
    role: str | None
    teams: tuple[MembershipAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonKeysAnswer:
    """The keys of a person; ``first`` is the one that the operator let in."""

    first: str | None
    keys: tuple[PersonKeyAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer:
    """A token, without its text."""

    id: str
    name: str
    key_prefix: str
    scopes: tuple[str, ...] | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    role: str | None
    created_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensAnswer:
    """Tokens, the newest first."""

    tokens: tuple[TokenAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokenAnswer:
    """A new token; its text is shown this once."""

    facts: Annotated[TokenAnswer, FLAT]
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamsAnswer:
    """The teams of the caller."""

    teams: tuple[MembershipAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAnswer:
    """A member of a team."""

    team_id: str
    user_id: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAnswer:
    """A team, its members, and how much it stores."""

    team_id: str
    members: tuple[Member, ...]
    stored_bytes: int
    allowed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedMemberAnswer:
    """Who is a member no longer, and which of their runs were ended."""

    team_id: str
    user_id: str
    cancelled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInvitationAnswer:
    """A new invitation; its text is shown this once."""

    facts: Annotated[Invitation, FLAT]
    invitation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationsAnswer:
    """Invitations, the newest first."""

    invitations: tuple[Invitation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedAnswer:
    """The team that a user is a member of now; null: they may use the node."""

    team_id: str | None
    role: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAnswer:
    """A project and its head."""

    project_path: str
    snapshot_hash: str
    revision: int
    pushed_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectsAnswer:
    """The projects of an owner."""

    owner: str
    projects: tuple[ProjectAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedAnswer:
    """A project that was moved; ``webhooks``: how many of its former owner ended."""

    status: Literal["moved"]
    move: Annotated[Move, FLAT]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSignInAnswer:
    """A machine that waits: its secret, and what its person types where."""

    device_code: str
    user_code: str
    verification_url: str
    interval_s: int
    expires_in_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInStateAnswer:
    """How the sign-in of a machine is."""

    state: Literal["waiting", "approved", "refused", "over"]
    user_id: str
