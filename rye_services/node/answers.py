"""Answers of a node's routes as its OpenAPI document describes them. Nothing is answered here.

A field that is not always there has a default. Tests hold real answers to them
(``tests/rye_services/web/test_openapi.py``, ``tests/rye_services/web/test_schemathesis.py``).
"""

from typing import Any, Literal

from pydantic import BaseModel, Field


class StatusAnswer(BaseModel):
    """How busy a node is, and what it can execute."""

    node_id: str
    node_name: str
    healthy: bool
    active: int
    max_concurrent: int
    capabilities: dict[str, list[Any]]


class IdentityAnswer(BaseModel):
    """Who a node is: its keys, signed by itself."""

    kind: str
    principal_id: str
    signing_key: str
    box_key: str
    created_at: str
    public_key_pem: str
    items_key: str = ""
    previous: list[dict[str, Any]] = []
    signature: Any = Field(alias="_signature", default=None)


# --- objects and pushes ---------------------------------------------------------------------------


class PresentAnswer(BaseModel):
    """Which digests are in the store, and which are not."""

    present: list[str]
    missing: list[str]


class StoredAnswer(BaseModel):
    """The digests that were stored."""

    stored: list[str]


class EntriesAnswer(BaseModel):
    """What is there of the digests that were asked for."""

    entries: list[dict[str, Any]]


class PushAnswer(BaseModel):
    """The head that a push made."""

    status: Literal["ok"]
    remote_name: str
    project_path: str
    project_manifest_hash: str
    user_manifest_hash: str | None
    snapshot_hash: str
    snapshot_revision: int


class UserSpaceAnswer(BaseModel):
    """The user space as it is now."""

    user_manifest_hash: str
    revision: int
    snapshot_revision: int
    remote_name: str
    pushed_at: str | None = None
    left_out: list[dict[str, str]] = []


class LostAnswer(BaseModel):
    """A snapshot that the node has lost; when an operator accepted that, null before."""

    hash: str
    accepted_at: str | None


class PushTerms(BaseModel):
    """What a push that follows has to know.

    takes_changes       whether `/push` takes ``changes`` and ``entries``
    engine_version      as `/health` has it
    user_manifest_hash  the user space; null where none was pushed, or the caller may not push
    """

    takes_changes: bool
    engine_version: str
    user_manifest_hash: str | None


class HistoryAnswer(BaseModel):
    """The snapshots that led to the head of a project, the newest first."""

    project_path: str
    head: str
    revision: int
    snapshots: list[dict[str, Any]]
    remote_name: str
    lost: LostAnswer | None
    push_terms: PushTerms


# --- executions -----------------------------------------------------------------------------------


class ExecutionAnswer(BaseModel):
    """What an execution made, or that it was accepted; ``detail`` for a delivery that came before.

    ``result`` is the answer of the item, and ``status`` its own.
    """

    status: str = ""
    thread_id: str = ""
    is_async: bool = Field(default=False, alias="async")
    message: str = ""
    detail: str = ""
    result: dict[str, Any] = {}
    snapshot_hash: str | None = None
    merge_type: str | None = None
    execution_snapshot_hash: str | None = None
    runtime_outputs_bundle_hash: str | None = None
    new_object_hashes: list[str] = []
    system_version: str = ""
    callee_thread_id: str | None = None
    conflicts: dict[str, Any] = {}
    unmerged_snapshot: str = ""
    masked_paths: list[str] = []
    left_out: list[dict[str, str]] = []
    warnings: list[str] = []


class AcceptedAnswer(BaseModel):
    """An execution that was accepted; ``queue_place`` is 0 for one that has a place."""

    status: Literal["accepted"]
    thread_id: str
    is_async: bool = Field(alias="async")
    queue_place: int
    message: str


class CancelAnswer(BaseModel):
    """The state of an execution that a user wants to end."""

    thread_id: str
    state: str


class LogAnswer(BaseModel):
    """Pieces of what programs wrote; ``after`` is the number of the last one."""

    pieces: list[dict[str, Any]]
    after: int
    state: str


class ThreadAnswer(BaseModel):
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
    parameters: dict[str, Any] | None = None
    parameters_left_out: list[str] = []
    result: Any = None
    execution_status: str = ""
    execution_errors: list[dict[str, Any]] = []
    runtime_output_files: int = 0


class ThreadsAnswer(BaseModel):
    """The executions of a user, the newest first."""

    threads: list[ThreadAnswer]
    remote_name: str


# --- keys and storage -----------------------------------------------------------------------------


class AuthorizedAnswer(BaseModel):
    """A key that was let in."""

    fingerprint: str
    label: str
    scopes: list[str]
    authorized_by: str


class AuthorizedKeyAnswer(BaseModel):
    """A key that may sign requests."""

    fingerprint: str
    label: str
    scopes: list[str]
    created_via: str
    created_at: str
    expires_at: str | None


class AuthorizedKeysAnswer(BaseModel):
    """The keys that may sign requests."""

    keys: list[AuthorizedKeyAnswer]


class AuditEntryAnswer(BaseModel):
    """A change of what may be done."""

    id: int
    at: str
    actor: str
    address: str
    action: str
    target: str
    details: dict[str, Any] | None


class AuditAnswer(BaseModel):
    """Changes, the newest first; ``next`` is the ``before`` of the next page."""

    entries: list[AuditEntryAnswer]
    next: int | None


class RevokedAnswer(BaseModel):
    """What counts no longer."""

    revoked: str


class UserGarbageAnswer(BaseModel):
    """What a collection did for one user; ``code``, ``problem`` and ``hint`` where it refused."""

    user_id: str
    state: Literal["done", "uploading", "busy", "refused"]
    removed: int
    freed_bytes: int
    kept: int
    stored_bytes: int
    forgotten_executions: int
    code: str = ""
    problem: str = ""
    hint: str = ""


class GarbageAnswer(BaseModel):
    """What a collection did, user by user."""

    status: Literal["ok"]
    dry_run: bool
    users: list[UserGarbageAnswer]


# --- secrets and webhooks -------------------------------------------------------------------------


class SecretsStoredAnswer(BaseModel):
    """Which secrets were kept, and which were passed over."""

    stored: list[str]
    count: int
    skipped: list[dict[str, str]]


class SecretEntryAnswer(BaseModel):
    """A secret, without its value."""

    name: str
    created_at: str
    updated_at: str


class SecretsAnswer(BaseModel):
    """The secrets of a user, without their values."""

    secrets: list[SecretEntryAnswer]


class SealedStoredAnswer(BaseModel):
    """The name of the secret that was kept."""

    stored: str


class NamesAnswer(BaseModel):
    """The names of the secrets of a user."""

    names: list[str]


class DeletedAnswer(BaseModel):
    """The name of what was forgotten."""

    deleted: str


class NewBindingAnswer(BaseModel):
    """A new hook; its ``hmac_secret`` is shown this once."""

    hook_id: str
    hmac_secret: str
    item_id: str
    project_path: str
    has_secret_envelope: bool
    vault_keys: list[str]


class BindingAnswer(BaseModel):
    """What a hook executes."""

    hook_id: str
    item_id: str
    project_path: str
    description: str
    created_at: str
    revoked_at: str | None
    has_secret_envelope: bool
    vault_keys: list[str]
    owner: str


class BindingsAnswer(BaseModel):
    """The hooks of a user, the newest first."""

    bindings: list[BindingAnswer]


# --- people, teams and projects -------------------------------------------------------------------


class MembershipAnswer(BaseModel):
    """A team of the caller, and what they may there."""

    team_id: str
    role: str


class AccountAnswer(BaseModel):
    """Who the caller is. ``team`` and ``role`` are of a token that is for one team."""

    user_id: str
    key_id: str
    scopes: list[str] | None
    team: str | None
    role: str | None
    teams: list[MembershipAnswer]


class PersonKeyAnswer(BaseModel):
    """A further key of a person; ``scopes`` null: whatever the person may do."""

    fingerprint: str
    label: str
    scopes: list[str] | None
    created_at: str
    created_by: str
    expires_at: str | None


class PersonKeysAnswer(BaseModel):
    """The keys of a person; ``first`` is the one that the operator let in."""

    first: str | None
    keys: list[PersonKeyAnswer]


class TokenAnswer(BaseModel):
    """A token, without its text."""

    id: str
    name: str
    key_prefix: str
    scopes: list[str] | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    role: str | None
    created_by: str | None


class TokensAnswer(BaseModel):
    """Tokens, the newest first."""

    tokens: list[TokenAnswer]


class NewTokenAnswer(TokenAnswer):
    """A new token; its text is shown this once."""

    token: str


class TeamsAnswer(BaseModel):
    """The teams of the caller."""

    teams: list[MembershipAnswer]


class MemberAnswer(BaseModel):
    """A member of a team."""

    team_id: str
    user_id: str
    role: str


class KnownMemberAnswer(MemberAnswer):
    """A member, and who made them one when."""

    added_at: str
    added_by: str


class TeamAnswer(BaseModel):
    """A team, its members, and how much it stores."""

    team_id: str
    members: list[KnownMemberAnswer]
    stored_bytes: int
    allowed_bytes: int


class RemovedMemberAnswer(BaseModel):
    """Who is a member no longer, and which of their runs were ended."""

    team_id: str
    user_id: str
    cancelled: list[str]


class InvitationAnswer(BaseModel):
    """An invitation, without its text."""

    id: str
    team_id: str | None
    role: str | None
    email: str
    created_at: str
    created_by: str
    expires_at: str
    ended_at: str | None
    used_by: str | None


class NewInvitationAnswer(InvitationAnswer):
    """A new invitation; its text is shown this once."""

    invitation: str


class InvitationsAnswer(BaseModel):
    """Invitations, the newest first."""

    invitations: list[InvitationAnswer]


class JoinedAnswer(BaseModel):
    """The team that a user is a member of now; null: they may use the node."""

    team_id: str | None
    role: str | None


class ProjectAnswer(BaseModel):
    """A project and its head."""

    project_path: str
    snapshot_hash: str
    revision: int
    pushed_at: str


class ProjectsAnswer(BaseModel):
    """The projects of an owner."""

    owner: str
    projects: list[ProjectAnswer]


class MovedAnswer(BaseModel):
    """A project that was moved; ``webhooks``: how many of its former owner ended."""

    status: Literal["moved"]
    project_path: str
    owner: str
    new_path: str
    new_owner: str
    snapshot_hash: str
    revision: int
    copied_bytes: int
    webhooks: int


class NewSignInAnswer(BaseModel):
    """A machine that waits: its secret, and what its person types where."""

    device_code: str
    user_code: str
    verification_url: str
    interval_s: int
    expires_in_s: int


class SignInStateAnswer(BaseModel):
    """How the sign-in of a machine is."""

    state: Literal["waiting", "approved", "refused", "over"]
    user_id: str
