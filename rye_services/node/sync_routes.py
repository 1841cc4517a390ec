"""Routes for blobs and objects: ``/objects/has``, ``/objects/put``, ``/objects/get``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel, Field

import ryeos
from lillux.shapes import write
from rye_services.node.answers import (
    EntriesAnswer,
    HistoryAnswer,
    LostAnswer,
    PresentAnswer,
    PushAnswer,
    PushTerms,
    StoredAnswer,
    UserSpaceAnswer,
)
from rye_services.node.services import NodeServices
from rye_services.node.store.heads import Head, first_parents, valid_project_path
from rye_services.node.store.objects import (
    AnswerTooLargeError,
    QuotaExceededError,
    answer_pieces,
    decode_entries,
    find_present,
    find_sound,
    keep_entries,
    put_entries,
)
from rye_services.node.store.push import (
    MAX_NAMED,
    HeadMovedError,
    ManifestGraphError,
    ProjectPush,
    RevisionMovedError,
    SystemVersionError,
    kept_user_manifest,
)
from rye_services.people.callers import owner_caller
from rye_services.people.credentials import OBJECTS, PUSH, THREADS, Principal, Role, allows
from rye_services.people.teams import RoleError
from rye_services.web.http import RequestProblem, described, weight_of
from rye_services.web.openapi import answer, answers
from ryeos.items.errors import http_status_of
from ryeos.sync.framed_entries import MEDIA_TYPE, PUT_HEADER, read_entries
from ryeos.sync.object_shapes import EntryError
from ryeos.sync.objects import ManifestChanges

# --- objects routes -------------------------------------------------------------------------------

MAX_DIGESTS = 200_000
"""Of one request, which keeps a thread for some seconds."""

Sender = Annotated[Principal, owner_caller(OBJECTS, Role.PUSH)]
Fetcher = Annotated[Principal, owner_caller(OBJECTS, Role.READ)]

_JSON = "application/json"
_ENTRIES_ANSWERED: dict[int | str, dict[str, Any]] = {
    200: answer(
        EntriesAnswer, others={MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    )
}


class Hashes(BaseModel):
    """Digests that are asked for."""

    hashes: Annotated[list[str], Field(max_length=MAX_DIGESTS)]


class PresenceQuery(Hashes):
    """Digests that a client may have to send. ``verify``: what is damaged counts as missing."""

    verify: bool = False


class Entries(BaseModel):
    """Entries to store. What is wrong with one is said of it, and the others are stored."""

    entries: Annotated[list[dict[str, Any]], Field(max_length=MAX_DIGESTS)]


_ENTRIES_SENT = described(Entries)
_ENTRIES_SENT["requestBody"]["content"][MEDIA_TYPE] = {
    "schema": {"type": "string", "format": "binary"}
}


def objects_router(services: NodeServices) -> APIRouter:
    """The routes of what a user has stored."""
    routes = APIRouter(prefix="/objects", tags=["objects"])
    threads = services.sync.threads

    @routes.post("/has", openapi_extra=described(PresenceQuery), responses=answers(PresentAnswer))
    async def has(principal: Sender, request: Request, response: Response) -> dict[str, Any]:
        """Which digests are there, as blob or as object."""
        response.headers[PUT_HEADER] = MEDIA_TYPE
        return await threads.answer(request, PresenceQuery, partial(_has, services, principal))

    @routes.post("/put", openapi_extra=_ENTRIES_SENT, responses=answers(StoredAnswer))
    async def put(principal: Sender, request: Request) -> dict[str, Any]:
        """Store blobs and objects. Of JSON each is kept or refused by itself, of frames all."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE:
            return await threads.answer_bytes(request, partial(_put_frames, services, principal))
        return await threads.answer(request, Entries, partial(_put, services, principal))

    @routes.post("/get", openapi_extra=described(Hashes), responses=_ENTRIES_ANSWERED)
    async def get(principal: Fetcher, request: Request) -> StreamingResponse:
        """Blobs and objects by digest. What is not there is left out."""
        is_framed = _wants_frames(request.headers.getlist("accept"))
        work = partial(_get, services, principal, is_framed=is_framed)
        pieces = await threads.answer(request, Hashes, work)
        media_type = MEDIA_TYPE if is_framed else _JSON
        return StreamingResponse(pieces, media_type=media_type, headers={"Vary": "Accept"})

    return routes


def _wants_frames(accept: Sequence[str]) -> bool:
    """Whether a client names frames, and likes nothing better."""
    return 0 < weight_of(accept, MEDIA_TYPE) >= weight_of(accept, _JSON, "application/*", "*/*")


def _has(services: NodeServices, principal: Principal, request: PresenceQuery) -> dict[str, Any]:
    services.sync.uploads.renew(principal.user_id)
    find = find_sound if request.verify else find_present
    found = find(services.stores.of(principal.user_id), request.hashes)
    return write(PresentAnswer(present=tuple(found.present), missing=tuple(found.missing)))


def _put(services: NodeServices, principal: Principal, sent: Entries) -> dict[str, Any]:
    with _storing(services, principal) as own:
        result = put_entries(sent.entries, **own)
    if result.failures:
        raise RequestProblem(400, _refusal(result.stored, result.failures))
    return {"stored": list(result.stored)}


def _put_frames(services: NodeServices, principal: Principal, body: bytes) -> dict[str, Any]:
    try:
        entries = [*islice(read_entries(body), MAX_DIGESTS + 1)]
    except EntryError as error:
        raise RequestProblem(400, _refusal((), (error,))) from error
    if len(entries) > MAX_DIGESTS:
        raise RequestProblem(422, f"expected at most {MAX_DIGESTS} entries, found more")
    with _storing(services, principal) as own:
        return {"stored": list(keep_entries(entries, **own))}


@contextmanager
def _storing(services: NodeServices, principal: Principal) -> Iterator[dict[str, Any]]:
    """Where what a client sends is stored. Raises RequestProblem where there is no room."""
    services.sync.uploads.renew(principal.user_id)
    try:
        yield {
            "user_id": principal.user_id,
            "store": services.stores.of(principal.user_id),
            "usage": services.sync.usage,
            "known": services.sync.known_items,
            "max_bytes": services.settings.max_user_storage_bytes,
        }
    except QuotaExceededError as error:
        raise RequestProblem(http_status_of(error), str(error)) from error
    if services.settings.is_cluster:  # the push that names it may go to another machine
        services.sync.durable.force(services.stores.of(principal.user_id))


def _get(
    services: NodeServices, principal: Principal, request: Hashes, *, is_framed: bool
) -> Iterator[bytes]:
    store = services.stores.of(principal.user_id)
    # A caller who may store so much may get it at once, but not the same again and again.
    limit = services.settings.max_user_storage_bytes
    try:
        return answer_pieces(store, request.hashes, max_bytes=limit, is_framed=is_framed)
    except AnswerTooLargeError as error:
        raise RequestProblem(http_status_of(error), str(error)) from error


def _refusal(stored: Sequence[str], failures: Sequence[EntryError]) -> dict[str, Any]:
    errors = [{"hash": failure.digest, "error": failure.problem} for failure in failures]
    return {"stored": [*stored], "errors": errors}


# --- push routes ----------------------------------------------------------------------------------
# The route that moves the head of a project: ``/push``.

Pusher = Annotated[Principal, owner_caller(PUSH, Role.PUSH)]

_LONGEST_HASH, _LONGEST_VERSION = (
    1000,
    200,
)  # for other texts there are better words than "too long"


ChangedPaths = dict[str, Annotated[str, Field(max_length=_LONGEST_HASH)] | None]


class ChangesBody(BaseModel):
    """How a manifest differs from that of the head: digests by path, null for a path that goes."""

    items: ChangedPaths = {}
    files: ChangedPaths = {}


class PushBody(BaseModel):
    """A manifest that a project is to have, and the head that it was made on.

    ``restores_head``: if the snapshot of that head is lost, history begins anew.
    ``changes``: the manifest is made of that of the head; ``entries``: what is new, as for
    `/objects/put`. Both need the scope of that route too.
    """

    project_path: Annotated[str, AfterValidator(valid_project_path)]
    project_manifest_hash: Annotated[str, Field(max_length=_LONGEST_HASH)]
    system_version: Annotated[str, Field(max_length=_LONGEST_VERSION)] = ""
    expected_snapshot_hash: Annotated[str, Field(max_length=_LONGEST_HASH)] | None = None
    restores_head: bool = False
    changes: ChangesBody | None = None
    entries: Annotated[list[dict[str, Any]], Field(max_length=MAX_DIGESTS)] = []


def push_router(services: NodeServices) -> APIRouter:
    """The route of pushes."""
    routes = APIRouter(tags=["push"])
    threads = services.sync.threads

    @routes.post("/push", openapi_extra=described(PushBody), responses=answers(PushAnswer, 409))
    async def push(principal: Pusher, request: Request) -> dict[str, Any]:
        """Check a manifest and all it leads to, make a snapshot of it, move the head there."""
        return await threads.answer(request, PushBody, partial(_push_project, services, principal))

    return routes


def _push_project(services: NodeServices, principal: Principal, body: PushBody) -> dict[str, Any]:
    store = services.stores.of(principal.user_id)
    services.sync.uploads.renew(principal.user_id)
    push = ProjectPush(
        project_path=body.project_path,
        project_manifest_hash=body.project_manifest_hash,
        system_version=body.system_version,
        expected_snapshot_hash=body.expected_snapshot_hash,
        restores_head=body.restores_head,
    )
    try:
        with services.watch.span("push"):
            _store_pushed(services, principal, push, body)
            guard = services.teams.guard(principal, Role.PUSH)
            head = services.sync.pushing.push_project(principal.user_id, store, push, guard)
    except (ManifestGraphError, SystemVersionError) as error:
        raise RequestProblem(http_status_of(error), str(error)) from error
    except HeadMovedError as error:
        moved = head_moved(error.expected, error.actual)
        raise RequestProblem(http_status_of(error), moved) from error
    except RoleError as error:
        raise RequestProblem(http_status_of(error), f"{error}; {error.hint}") from error
    services.sync.uploads.end(principal.user_id)
    return write(
        PushAnswer(
            status="ok",
            remote_name=services.settings.name,
            project_path=push.project_path,
            project_manifest_hash=head.project_manifest_hash,
            user_manifest_hash=head.user_manifest_hash,
            snapshot_hash=head.snapshot_hash,
            snapshot_revision=head.revision,
        )
    )


def _store_pushed(
    services: NodeServices, principal: Principal, push: ProjectPush, body: PushBody
) -> None:
    """Store what a push brings along. Raises HeadMovedError, ManifestGraphError, RequestProblem."""
    if not body.entries and body.changes is None:
        return
    principal.require(OBJECTS)
    store = services.stores.of(principal.user_id)
    entries, failures = decode_entries(body.entries)
    if failures:
        raise RequestProblem(400, _refusal((), failures))
    if body.changes is not None:
        changes = ManifestChanges(items=body.changes.items, files=body.changes.files)
        pushing = services.sync.pushing
        entries.append(pushing.changed_manifest(principal.user_id, store, push, changes))
    with _storing(services, principal) as own:
        keep_entries(entries, **own)


def head_moved(expected: str | None, actual: Head | None) -> dict[str, Any]:
    """The detail of a 409: clients continue from ``actual``."""
    return {
        "error": "HEAD has moved",
        "expected": expected,
        "actual": actual.snapshot_hash if actual else None,
        "revision": actual.revision if actual else None,
    }


# --- user space routes ----------------------------------------------------------------------------
# Routes for the user space: ``/push/user-space``, ``/user-space``.

_LARGEST = 2**63 - 1  # that databases take
_NO_USER_SPACE = (
    "a team has no user space: what its runs need beside the project belongs into the project"
)


class UserSpaceBody(BaseModel):
    """A manifest that the user space is to have, and the revision that it replaces."""

    user_manifest_hash: Annotated[str, Field(max_length=_LONGEST_HASH)]
    expected_revision: Annotated[int, Field(ge=0, le=_LARGEST)] | None = None


def user_space_router(services: NodeServices) -> APIRouter:
    """The routes of the user space."""
    routes = APIRouter(tags=["push"])
    threads = services.sync.threads

    @routes.post(
        "/push/user-space",
        openapi_extra=described(UserSpaceBody),
        responses=answers(UserSpaceAnswer, 404, 409),
    )
    async def push(principal: Pusher, request: Request) -> dict[str, Any]:
        """Check a manifest and all it leads to, and make it the user space."""
        return await threads.answer(
            request, UserSpaceBody, partial(_push_user_space, services, principal)
        )

    @routes.get("/user-space", responses=answers(UserSpaceAnswer, 404))
    def present(principal: Pusher) -> dict[str, Any]:
        """The user space as it is now."""
        ref = services.sync.user_spaces.read(principal.user_id, services.settings.name)
        if ref is None:
            raise RequestProblem(404, "no user space was pushed yet")
        return write(
            UserSpaceAnswer(
                user_manifest_hash=ref.user_manifest_hash,
                revision=ref.revision,
                snapshot_revision=ref.revision,
                pushed_at=ref.pushed_at,
                remote_name=services.settings.name,
            )
        )

    return routes


def _push_user_space(
    services: NodeServices, principal: Principal, body: UserSpaceBody
) -> dict[str, Any]:
    if principal.role is not None:
        raise RequestProblem(409, _NO_USER_SPACE)
    store = services.stores.of(principal.user_id)
    services.sync.uploads.renew(principal.user_id)
    try:
        kept = kept_user_manifest(body.user_manifest_hash, store)
        with services.watch.span("push"):
            ref = services.sync.pushing.push_user_space(
                principal.user_id, store, kept.manifest_hash, body.expected_revision
            )
    except (ManifestGraphError, RevisionMovedError) as error:
        raise RequestProblem(http_status_of(error), str(error)) from error
    answer = UserSpaceAnswer(
        user_manifest_hash=ref.user_manifest_hash,
        revision=ref.revision,
        snapshot_revision=ref.revision,
        remote_name=services.settings.name,
        left_out=tuple(
            {"path": one.path, "problem": one.problem} for one in kept.left_out[:MAX_NAMED]
        ),
    )
    return {"status": "ok", **write(answer)}


# --- history routes -------------------------------------------------------------------------------
# The route of what a project was: ``/history``.

MAX_SNAPSHOTS = 200
_DEFAULT_SNAPSHOTS = 50

Reader = Annotated[Principal, owner_caller(THREADS, Role.READ)]
ProjectPath = Annotated[str, Query(), AfterValidator(valid_project_path)]


def history_router(services: NodeServices) -> APIRouter:
    """The route of histories."""
    routes = APIRouter(tags=["history"])

    @routes.get("/history", responses=answers(HistoryAnswer, 404))
    def history(
        principal: Reader, project_path: ProjectPath, limit: int = _DEFAULT_SNAPSHOTS
    ) -> dict[str, Any]:
        """The snapshots that led to the head of a project, the newest first.

        ``lost`` is the one behind the last of them, where the node has lost it.
        """
        name = services.settings.name
        head = services.sync.heads.read(principal.user_id, name, project_path)
        if head is None:
            raise RequestProblem(404, f"no project {project_path!r} was pushed yet")
        store = services.stores.of(principal.user_id)
        shown = max(0, min(limit, MAX_SNAPSHOTS))
        snapshots = list(islice(first_parents(store, head.snapshot_hash), shown))
        behind = head.snapshot_hash
        if snapshots:
            behind = next(iter(snapshots[-1][1]["parent_hashes"]), "")
        is_lost = bool(behind) and len(snapshots) < shown
        return write(
            HistoryAnswer(
                project_path=project_path,
                head=head.snapshot_hash,
                revision=head.revision,
                snapshots=tuple({**value, "_hash": digest} for digest, value in snapshots),
                remote_name=name,
                lost=_lost(services, principal.user_id, behind) if is_lost else None,
                push_terms=_push_terms(services, principal),
            )
        )

    return routes


def _push_terms(services: NodeServices, principal: Principal) -> PushTerms:
    """What a push that follows has to know, so that it need not ask."""
    space = None
    if principal.role is None and allows(principal.scopes, PUSH):
        space = services.sync.user_spaces.read(principal.user_id, services.settings.name)
    return PushTerms(
        takes_changes=True,
        engine_version=ryeos.__version__,
        user_manifest_hash=space.user_manifest_hash if space else None,
    )


def _lost(services: NodeServices, user_id: str, digest: str) -> LostAnswer:
    """A snapshot that is named and cannot be read; ``accepted_at`` where it is gone for good."""
    accepted = services.sync.storage.losses.one(user_id, digest)
    return LostAnswer(hash=digest, accepted_at=accepted.accepted_at if accepted else None)
