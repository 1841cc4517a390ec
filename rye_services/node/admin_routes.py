"""Routes that say which keys may sign requests: ``/admin/authorized-keys``."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from lillux.shapes import of_attributes, write
from rye_services.node.answers import (
    AuditAnswer,
    AuthorizedAnswer,
    AuthorizedKeyAnswer,
    AuthorizedKeysAnswer,
    BindingsAnswer,
    DeletedAnswer,
    GarbageAnswer,
    IdentityAnswer,
    NamesAnswer,
    NewBindingAnswer,
    RevokedAnswer,
    SealedStoredAnswer,
    SecretEntryAnswer,
    SecretsAnswer,
    SecretsStoredAnswer,
    StatusAnswer,
    UserGarbageAnswer,
)
from rye_services.node.services import NodeServices
from rye_services.node.storage import UserGarbage
from rye_services.node.webhooks import (
    LONGEST_DESCRIPTION,
    Binding,
    WebhookFieldError,
    canonical_item,
    valid_hook_project,
    valid_vault_keys,
)
from rye_services.people.audit import MOST_LISTED, AuditFilter
from rye_services.people.callers import caller, owner_caller
from rye_services.people.credentials import (
    DEFAULT_SCOPES,
    MANAGE,
    SECRETS,
    WEBHOOKS,
    AuthorizedKeyMissingError,
    LastManagerError,
    Principal,
    Role,
    valid_scopes,
)
from rye_services.process.server import every
from rye_services.refusal import RefusedError
from rye_services.storage.database import stamp
from rye_services.web.http import RequestProblem, refusals
from rye_services.web.openapi import Responses, answers
from ryeos import __version__
from ryeos.items.errors import RyeError, http_status_of
from ryeos.remote.envelopes import EnvelopeError
from ryeos.remote.identity import decode_public_key
from ryeos.remote.secret_names import SecretNameError, SecretValuesError, why_unsafe

Manager = Annotated[Principal, caller(MANAGE)]


class NewKey(BaseModel):
    """A key that is to be let in."""

    public_key: str
    label: str = "operator"
    scopes: list[str] = Field(default_factory=lambda: list(DEFAULT_SCOPES))


def admin_router(services: NodeServices) -> APIRouter:
    """The routes of those who manage keys."""
    routes = APIRouter(prefix="/admin/authorized-keys", tags=["admin"])
    authorized = services.authorized_keys

    @routes.post("", responses=answers(AuthorizedAnswer))
    def add(principal: Manager, new: NewKey) -> dict[str, Any]:
        """Let a key in. One that is in already gets these scopes, and loses its others.

        A user grants no scope that their own key has not.
        """
        try:
            for scope in valid_scopes(new.scopes):
                principal.require(scope)
            key = authorized.authorize(
                decode_public_key(new.public_key),
                label=new.label,
                scopes=new.scopes,
                via="admin",
                by=principal.key_id,
            )
        except RyeError as error:
            raise RequestProblem(400, str(error)) from error
        return write(
            AuthorizedAnswer(
                fingerprint=key.fingerprint,
                label=key.label,
                scopes=key.scopes,
                authorized_by=principal.key_id,
            )
        )

    @routes.get("", responses=answers(AuthorizedKeysAnswer))
    def list_keys(_: Manager) -> dict[str, Any]:
        """The keys that may sign requests now."""
        keys = tuple(of_attributes(AuthorizedKeyAnswer, key) for key in authorized.all())
        return write(AuthorizedKeysAnswer(keys=keys))

    @routes.delete("/{fingerprint}", responses=answers(RevokedAnswer, 404))
    def revoke(_: Manager, fingerprint: str) -> dict[str, str]:
        """Revoke a key; the last one that may manage keys stays."""
        bare = fingerprint.removeprefix("fp:")
        try:
            authorized.revoke_unless_last(bare)
        except (AuthorizedKeyMissingError, LastManagerError) as error:
            raise RequestProblem(http_status_of(error), str(error)) from error
        return {"revoked": f"fp:{bare}"}

    return routes


# --- audit routes ---------------------------------------------------------------------------------
# Who changed what may be done here: ``/admin/audit``.

_AUDIT_EVERY_S = 3600
_DEFAULT_ENTRIES = 100
AuditText = Annotated[str, Query(max_length=300)]
QueryTime = Annotated[datetime | None, Query()]


def audit_router(services: NodeServices) -> APIRouter:
    """The route of those who manage keys about what was changed, by whom."""
    routes = APIRouter(prefix="/admin/audit", tags=["admin"])

    @routes.get("", responses=answers(AuditAnswer))
    def entries(
        _: Manager,
        *,
        action: AuditText = "",
        actor: AuditText = "",
        since: QueryTime = None,
        until: QueryTime = None,
        before: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = _DEFAULT_ENTRIES,
    ) -> dict[str, Any]:
        """Changes, the newest first. ``next`` is the ``before`` of the next page, or null."""
        wanted = AuditFilter(
            action=action,
            actor=actor,
            since=time_text(since),
            until=time_text(until),
            before=before,
        )
        found = services.audit.entries(wanted, limit=limit)
        more = found[-1].id if len(found) == limit else None
        return write(AuditAnswer(entries=found, next=more))

    return routes


def time_text(time: datetime | None) -> str:
    """A time as rows have it; one that names no zone is in UTC. "" for None."""
    if time is None:
        return ""
    return stamp(time if time.tzinfo else time.replace(tzinfo=UTC))


def sweeping_audit(services: NodeServices) -> AbstractAsyncContextManager[None]:
    """The removal of old entries, at the start and from time to time."""
    days = services.settings.retain_audit_days
    return every(_AUDIT_EVERY_S, lambda: services.audit.forget_old(days))


# --- storage routes -------------------------------------------------------------------------------
# The route that removes what nothing names: ``/gc``, for those who manage the node.


def storage_router(services: NodeServices) -> APIRouter:
    """The route of those who manage the node."""
    routes = APIRouter(tags=["admin"])

    @routes.post("/gc", responses=answers(GarbageAnswer))
    def collect(_: Manager, dry_run: Annotated[bool, Query()] = False) -> dict[str, Any]:  # noqa: FBT002 - of a query
        """Remove what nothing names from every store, or with ``dry_run`` only count it."""
        found = sweep(services, dry_run=dry_run)
        if not dry_run:
            services.audit.note("gc", "", {"removed": sum(one.removed for one in found)})
        return {"status": "ok", "dry_run": dry_run, "users": [shown(one) for one in found]}

    return routes


def collecting_garbage(services: NodeServices) -> AbstractAsyncContextManager[None]:
    """The collection that happens by itself, at the start and from time to time.

    Of many servers one does it each time.
    """
    every_s = services.settings.gc_interval_s
    collect = partial(services.sync.storage.collect_if_due, every_s)
    return every(every_s, partial(_watched_sweep, services, collect))


def sweep(services: NodeServices, *, dry_run: bool = False) -> tuple[UserGarbage, ...]:
    """As `Storage.collect`, seen by those who watch this server. Raises SQLAlchemyError."""
    collect = partial(services.sync.storage.collect, dry_run=dry_run)
    return _watched_sweep(services, collect, is_counted=not dry_run)


def _watched_sweep(
    services: NodeServices,
    collect: Callable[[], tuple[UserGarbage, ...]],
    *,
    is_counted: bool = True,
) -> tuple[UserGarbage, ...]:
    with services.watch.span("sweep") as span:
        found = collect()
        span.note("rye.users", len(found))
        span.note("rye.freed_bytes", sum(one.freed_bytes for one in found))
    for one in found if is_counted else ():
        services.watch.metrics.swept(one.state, removed=one.removed, freed_bytes=one.freed_bytes)
    return found


def shown(found: UserGarbage) -> dict[str, Any]:
    """What became of the garbage of one user, as answers and ``--json`` show it."""
    return write(of_attributes(UserGarbageAnswer, found))


# --- nonce sweep ----------------------------------------------------------------------------------
# Forgets nonces that no request can come with any more, so that their table does not grow.

_EVERY_S = 600


def sweeping_nonces(services: NodeServices) -> AbstractAsyncContextManager[None]:
    """The sweep, at the start and from time to time."""
    return every(_EVERY_S, services.nonces.forget_old)


# --- open routes ----------------------------------------------------------------------------------
# Routes for any caller: ``/health``, ``/public-key``, ``/status``.


class HealthAnswer(BaseModel):
    """How the node is: ``degraded`` where a check of ``/ready`` fails."""

    status: Literal["ok", "degraded"]
    version: str
    engine_version: str
    ryeos_version: str


_DEGRADED: Responses = {503: {"model": HealthAnswer, "description": "Without its database"}}


def open_router(services: NodeServices) -> APIRouter:
    """The open routes. None of them waits for a disk or the database."""
    routes = APIRouter(tags=["open"])
    identity = services.keys.identity()
    provided = provided_tools(services.bundle)

    @routes.get("/health", response_model=HealthAnswer, responses=_DEGRADED)
    async def health() -> JSONResponse:
        """How the node is, as of some seconds ago, and its versions; 503 without its database."""
        state = services.watch.health.last
        answer = {
            "status": "ok" if state.is_ready else "degraded",
            "version": __version__,
            "engine_version": __version__,
            "ryeos_version": __version__,
        }
        return JSONResponse(answer, 200 if state.has_database else 503)

    @routes.get("/public-key", responses=answers(IdentityAnswer))
    async def public_key() -> dict[str, Any]:
        """Who the node is: its keys, signed by itself."""
        return identity

    @routes.get("/status", responses=answers(StatusAnswer))
    async def status() -> dict[str, Any]:
        """How busy the node is, and what it can execute."""
        queue = services.executions.queue_state
        return write(
            StatusAnswer(
                node_id=services.keys.node_id,
                node_name=services.settings.name,
                healthy=services.watch.health.last.is_ready,
                active=queue.active,
                max_concurrent=queue.places,
                capabilities={"provides": provided, "routes": (), "executes": ("awaited",)},
            )
        )

    return routes


@cache
def provided_tools(bundle: Path) -> tuple[str, ...]:
    """What the standard bundle offers: ``rye.execute.tool.`` and the id of a tool, with dots."""
    folder = bundle / ".ai" / "tools"
    found = {
        path.relative_to(folder).with_suffix("").as_posix().replace("/", ".")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in {".py", ".yaml", ".yml", ".sh", ".js", ".ts"}
    }
    return tuple(f"rye.execute.tool.{name}" for name in sorted(found))


# --- secret routes --------------------------------------------------------------------------------
# Routes for the secrets of a user: ``/secrets`` takes values, ``/vault`` sealed envelopes.
#
# Both are about the same secrets. No answer shows a value.

SecretsCaller = Annotated[Principal, owner_caller(SECRETS, Role.ADMIN)]
SecretsReader = Annotated[Principal, owner_caller(SECRETS, Role.RUN)]


class NewSecret(BaseModel):
    """A secret, to be injected as the environment variable of its name."""

    name: str
    value: str


class NewSecrets(BaseModel):
    """Secrets that are to be kept."""

    secrets: list[NewSecret]


class SealedSecret(BaseModel):
    """One secret, sealed to the box key of this node by its sender."""

    name: str
    envelope: dict[str, Any]


class SecretName(BaseModel):
    """A secret that is to be forgotten."""

    name: str


def secret_router(services: NodeServices) -> APIRouter:
    """The routes of users about their secrets."""
    routes = APIRouter(tags=["secrets"])
    vault = services.vault

    @routes.post("/secrets", responses=answers(SecretsStoredAnswer))
    def put_all(owner: SecretsCaller, new: NewSecrets) -> dict[str, Any]:
        """Keep secrets. Those with a reserved name are skipped, and listed."""
        given = {one.name: one.value for one in new.secrets if one.name and one.value}
        skipped = {name: problem for name in given if (problem := why_unsafe(name)) is not None}
        kept = {name: value for name, value in given.items() if name not in skipped}
        with refusals(SecretValuesError, RefusedError):
            vault.put(owner.user_id, kept)
        passed_over = tuple({"name": name, "reason": why} for name, why in skipped.items())
        return write(SecretsStoredAnswer(stored=tuple(kept), count=len(kept), skipped=passed_over))

    @routes.get("/secrets", responses=answers(SecretsAnswer))
    def entries(owner: SecretsReader) -> dict[str, Any]:
        """The names of the secrets, and when each was set."""
        found = vault.entries(owner.user_id)
        return write(
            SecretsAnswer(secrets=tuple(of_attributes(SecretEntryAnswer, one) for one in found))
        )

    @routes.delete("/secrets/{name}", responses=answers(DeletedAnswer, 404))
    def delete(owner: SecretsCaller, name: str) -> dict[str, str]:
        """Forget a secret."""
        if not vault.delete(owner.user_id, name):
            raise RequestProblem(404, f"secret not found: {name[:80]!a}")
        return {"deleted": name}

    @routes.post("/vault/set", responses=answers(SealedStoredAnswer))
    def put_sealed(owner: SecretsCaller, new: SealedSecret) -> dict[str, str]:
        """Keep the one secret of an envelope."""
        with refusals(EnvelopeError, SecretNameError, SecretValuesError, RefusedError):
            vault.put_sealed(owner.user_id, new.name, new.envelope, owner.names)
        return {"stored": new.name}

    @routes.get("/vault/list", responses=answers(NamesAnswer))
    def names(owner: SecretsReader) -> dict[str, list[str]]:
        """The names of the secrets, sorted."""
        return {"names": [entry.name for entry in vault.entries(owner.user_id)]}

    @routes.post("/vault/delete", responses=answers(DeletedAnswer, 404))
    def delete_named(owner: SecretsCaller, gone: SecretName) -> dict[str, str]:
        """Forget a secret."""
        if (problem := why_unsafe(gone.name)) is not None:
            raise RequestProblem(400, f"secret {gone.name[:80]!a}: {problem}")
        return delete(owner, gone.name)

    return routes


# --- webhook routes -------------------------------------------------------------------------------
# Routes for webhook bindings: ``/webhook-bindings``.

WebhooksCaller = Annotated[Principal, owner_caller(WEBHOOKS, Role.ADMIN)]
WebhooksReader = Annotated[Principal, owner_caller(WEBHOOKS, Role.READ)]


class NewBinding(BaseModel):
    """What a hook is to execute: a canonical item, or an item type and a bare id."""

    item_id: str
    project_path: str
    item_type: str | None = None
    description: str = ""
    secret_envelope: dict[str, Any] | None = None
    vault_keys: list[str] | None = None


def webhook_router(services: NodeServices) -> APIRouter:
    """The routes of users about their webhooks."""
    routes = APIRouter(prefix="/webhook-bindings", tags=["webhooks"])
    webhooks = services.webhooks

    @routes.post("", responses=answers(NewBindingAnswer))
    def create(owner: WebhooksCaller, new: NewBinding) -> dict[str, Any]:
        """Bind an item to a new hook. Its secret is shown in this answer and never again."""
        with refusals(WebhookFieldError, EnvelopeError, RefusedError):
            if new.secret_envelope is not None and len(owner.names) > 1:
                new.secret_envelope = dict(
                    services.vault.sealed_for_owner(new.secret_envelope, owner.names)
                )
            binding, secret = webhooks.create(_binding(owner, new), services.settings.name)
        return write(
            NewBindingAnswer(
                hook_id=binding.hook_id,
                hmac_secret=secret,
                item_id=binding.item_id,
                project_path=binding.project_path,
                has_secret_envelope=binding.has_secret_envelope,
                vault_keys=binding.vault_keys,
            )
        )

    @routes.get("", responses=answers(BindingsAnswer))
    def listed(owner: WebhooksReader) -> dict[str, Any]:
        """The bindings, newest first; revoked ones stay listed."""
        return {"bindings": [each.as_answer() for each in webhooks.listed(owner.user_id)]}

    @routes.delete("/{hook_id}", responses=answers(RevokedAnswer, 404))
    def revoke(owner: WebhooksCaller, hook_id: str) -> dict[str, str]:
        """End a binding: its deliveries are refused from now on."""
        if not webhooks.revoke(owner.user_id, hook_id):
            raise RequestProblem(404, f"webhook binding not found: {hook_id[:80]!a}")
        return {"revoked": hook_id}

    return routes


def _binding(owner: Principal, new: NewBinding) -> Binding:
    if len(new.description) > LONGEST_DESCRIPTION:
        raise WebhookFieldError("description", f"at most {LONGEST_DESCRIPTION} characters")
    return Binding(
        hook_id="",
        user_id=owner.user_id,
        item_id=canonical_item(new.item_id, new.item_type),
        project_path=valid_hook_project(new.project_path),
        description=new.description,
        secret_envelope=new.secret_envelope,
        vault_keys=valid_vault_keys(new.vault_keys or ()),
        owner=owner.key_id,
    )
