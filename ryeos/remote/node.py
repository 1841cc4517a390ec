"""The client of a node: a method for each route.

Nothing that shows who asks is sent before `Node.verify` has found that this is the pinned node.
The formats: ``docs/remote.md``.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import urlencode, urlsplit

from lillux.cancellation import Cancellation
from lillux.http.client import HttpClient, Wait, wait_for
from lillux.http.model import (
    ExchangeCancelledError,
    ExchangeTimeoutError,
    HttpClientError,
    HttpRequest,
    ResponseTooLargeError,
    Retry,
    TlsError,
    UnreachableError,
    delay_s,
    is_loopback,
    parse_retry_after,
)
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.remote.errors import (
    HeadMovedError,
    RemoteError,
    RemoteReplyError,
    RemoteTimeoutError,
    RemoteUnreachableError,
    ReplyTooLargeError,
    detail_text,
)
from ryeos.remote.replies import (
    Health,
    RemoteExecution,
    RemoteHead,
    UserSpaceHead,
    actual_head,
    detail_of,
    digest_at,
    digests_at,
    parse_reply,
    read_executed,
    read_head,
    read_health,
    read_user_space,
    rows_at,
)
from ryeos.remote.requests import NodeIdentity, read_identity
from ryeos.remote.settings import RemoteConfig
from ryeos.sync.entries import (
    MEDIA_TYPE,
    PUT_HEADER,
    START,
    ContentEntry,
    decode,
    encode,
    encode_json,
    framed,
    read_entries,
)
from ryeos.sync.objects import EntryError, ManifestChanges
from ryeos.trust.keys import SigningKey

if TYPE_CHECKING:
    from datetime import datetime

    from lillux.http.model import HttpResponse


# --- transport ------------------------------------------------------------------------------------
# What carries requests to a node and its replies back: the seam of everything that asks a node.
#
# Two implementations: `HttpTransport`, and a node in memory for tests.

MIB = 1024 * 1024
MAX_SMALL_REPLY = 4 * MIB
"""Of a reply that holds no content: heads, lists of names, rows."""

QueryPairs: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NodeReply:
    """What a node answered. ``headers`` are by lower-case name, the body is decoded."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """What the body is, in lower case and without parameters; ``""`` where no header says."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Transport(Protocol):
    """Carries one request at a time; may be used from several threads."""

    @property
    def name(self) -> str:
        """The name of the remote, for messages."""

    @property
    def netloc(self) -> str:
        """Host and port of the node, for its pin."""

    @property
    def sender(self) -> str:
        """Who requests show, in the node's words; ``""`` where only the node knows."""

    def exchange(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
        may_repeat: bool = True,
    ) -> NodeReply:
        """The reply, whatever its status.

        path        begins with a slash; no query, no character that needs escaping
        body        JSON, or None if absent
        timeout_s   of one attempt, None for what is configured
        may_repeat  whether asking twice does no more than asking once
        Raises RemoteUnreachableError, ReplyTooLargeError.
        """

    def identify(self, fingerprint: str) -> None:
        """Requests carry credentials from now on: the node is known to be this one."""

    def outlive_cancellation(self) -> None:
        """Later requests pass, though what ends requests was set."""


# --- node -----------------------------------------------------------------------------------------

COMPATIBLE_ENGINES = frozenset({"0.1"})
"""The first two parts of the versions whose nodes take what this program pushes."""

MAX_GET_REPLY = 64 * MIB
"""Of the encoded entries of one request: base64 of the largest file, and then some."""

ACCEPT_TIMEOUT_S = 30.0
_OK, _MOVED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 200, 300, 403, 404, 409
_UNKNOWN_NAMES = "secret "
"""How a node begins what it says about secrets that it has not; no other 404 begins like this."""


class PinBook(Protocol):
    """Remembers which node a name and an address belong to. See `ryeos.remote.pins.Pins`."""

    def check(
        self, name: str, netloc: str, identity: NodeIdentity, *, expected: str | None
    ) -> object:
        """Pin a node that is new; raise PinMismatchError for another one than before."""


class Node:
    """Asks one node. Safe to use from several threads.

    ``expected`` is the fingerprint that the configuration names, if it does. ``hints`` are what to
    do about a status that the node refuses with, where that depends on the configuration.
    ``owner`` is the team whose projects are asked about, "" for one's own.
    """

    def __init__(
        self,
        transport: Transport,
        pins: PinBook,
        expected: str | None = None,
        hints: Mapping[int, str] | None = None,
        owner: str = "",
    ) -> None:
        self._transport, self._pins, self._expected = transport, pins, expected
        self.owner = owner
        self._hints = hints or {}
        self._identity: NodeIdentity | None = None
        self.takes_frames = False  # known once `missing` was asked: whether `put` sends them
        self._lock = Lock()

    @property
    def name(self) -> str:
        """The name of the remote."""
        return self._transport.name

    @property
    def sender(self) -> str:
        """Who requests show, in the node's words; ``""`` where only the node knows."""
        return self._transport.sender

    @property
    def sealed_for(self) -> str:
        """Whom a secret is sealed for: who owns what is asked about."""
        return self.owner or self._transport.sender

    def verify(self) -> NodeIdentity:
        """Who the node is, checked against its pin; asked once.

        Raises IdentityError, PinMismatchError, and what asking raises.
        """
        with self._lock:
            if self._identity is None:
                document = self._open("GET", "/public-key")
                identity = read_identity(document)
                self._pins.check(
                    self._transport.name,
                    self._transport.netloc,
                    identity,
                    expected=self._expected or None,
                )
                self._transport.identify(identity.fingerprint)
                self._identity = identity
            return self._identity

    # ------------------------------------------------------------------ open routes

    def health(self) -> Health:
        """Whether it is up, and its versions."""
        return read_health(self._open("GET", "/health"), self._what("/health"))

    def status(self) -> dict[str, Any]:
        """What it offers, and how busy it is."""
        return self._open("GET", "/status")

    def system_version(self, engine_version: str = "") -> str:
        """What to push as: the node's own version where that fits, else ours.

        ``engine_version`` is the node's where that is known: else it is asked for.
        """
        from ryeos import __version__

        engine = engine_version or self.health().engine_version
        fits = ".".join(engine.split(".")[:2]) in COMPATIBLE_ENGINES
        return engine if fits else __version__

    # ------------------------------------------------------------------ objects

    def missing(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Those of the digests that the node does not have, in their order."""
        return self._ask_missing({"hashes": list(digests)}, digests)

    def missing_or_damaged(self, digests: Sequence[str]) -> tuple[str, ...]:
        """As `missing`, and those that the node finds damaged when it reads them."""
        return self._ask_missing({"hashes": list(digests), "verify": True}, digests)

    def _ask_missing(self, body: Mapping[str, Any], digests: Sequence[str]) -> tuple[str, ...]:
        what = self._what("/objects/has")
        self.verify()
        answer = self._reply("POST", "/objects/has", body)
        self.takes_frames = answer.headers.get(PUT_HEADER.lower(), "").strip() == MEDIA_TYPE
        reply = parse_reply(answer.body, what)
        missing, present = digests_at(reply, "missing", what), digests_at(reply, "present", what)
        if {*missing, *present} != {*digests}:
            raise RemoteReplyError(what, "expected an answer for each digest that was asked for")
        return missing

    def put(self, entries: Iterable[ContentEntry]) -> None:
        """Store content; what is good of it stays, also where some is refused.

        In frames where the node has said that it takes them, else as JSON.
        """
        digests: list[str] = []
        if self.takes_frames:
            body = b"".join(framed(_noting_digests(entries, digests)))
        else:
            encoded = map(encode_json, _noting_digests(entries, digests))
            body = b'{"entries":[' + b",".join(encoded) + b"]}"
        what = self._what("/objects/put")
        stored = digests_at(self.ask("POST", "/objects/put", body), "stored", what)
        lost = {*digests} - {*stored}
        if lost:
            raise RemoteReplyError(what, f"expected {min(lost)} to be stored as well")

    def get(
        self, digests: Sequence[str], max_response_bytes: int = MAX_GET_REPLY
    ) -> tuple[ContentEntry, ...]:
        """What the node has of these, each hashed again; nothing that was not asked for."""
        return self.entries_of(self.get_reply(digests, max_response_bytes), digests)

    def get_reply(self, digests: Sequence[str], max_response_bytes: int) -> NodeReply:
        """What `entries_of` reads: waiting for it and reading it can be two threads' work."""
        self.verify()
        return self._reply(
            "POST",
            "/objects/get",
            {"hashes": list(digests)},
            query=self._owned(()),
            max_response_bytes=max_response_bytes,
        )

    def entries_of(self, reply: NodeReply, digests: Sequence[str]) -> tuple[ContentEntry, ...]:
        """The pieces in a reply, each hashed again; nothing that was not asked for."""
        what = self._what("/objects/get")
        try:
            if reply.media_type == MEDIA_TYPE:
                return tuple(read_entries(reply.body, frozenset(digests)))
            rows = rows_at(parse_reply(reply.body, what), "entries", what)
            if len(rows) > len(digests):
                problem = f"expected at most {len(digests)} entries, found {len(rows)}"
                raise RemoteReplyError(what, problem)
            entries = tuple(map(decode, rows))
        except EntryError as error:
            raise RemoteReplyError(what, str(error)) from error
        foreign = {entry.digest for entry in entries} - {*digests}
        if foreign:
            raise RemoteReplyError(what, f"{min(foreign)} was not asked for")
        return entries

    # ------------------------------------------------------------------ heads

    def head(self, project_path: str) -> RemoteHead | None:
        """Where the project is, None where the node has none of this name."""
        try:
            reply = self._history(project_path, 1)
        except RemoteError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return read_head(reply, self._what("/history"))

    def history(self, project_path: str, limit: int) -> tuple[dict[str, Any], ...]:
        """The latest snapshots, along their first parents; each with its ``_hash``."""
        return rows_at(self._history(project_path, limit), "snapshots", self._what("/history"))

    def push(
        self, project_path: str, manifest_hash: str, expected: str | None, system_version: str
    ) -> str:
        """The snapshot that is the head now. Raises HeadMovedError: nothing was changed."""
        return self._push(_push_body(project_path, manifest_hash, expected, system_version))

    def push_changes(
        self,
        project_path: str,
        manifest_hash: str,
        expected: str,
        system_version: str,
        *,
        changes: ManifestChanges,
        entries: Iterable[ContentEntry],
    ) -> str:
        """As `push`, with all of it in one request: what is new, and how the manifest differs.

        For a node with `PushTerms`. A refusal with status 400 says that this is not all it lacks.
        """
        body = _push_body(project_path, manifest_hash, expected, system_version)
        return self._push(
            {
                **body,
                "changes": {"items": dict(changes.items), "files": dict(changes.files)},
                "entries": [encode(entry) for entry in entries],
            }
        )

    def restore(
        self, project_path: str, manifest_hash: str, expected: str | None, system_version: str
    ) -> str:
        """As `push`; where the node has lost the snapshot of the head, history begins anew."""
        body = _push_body(project_path, manifest_hash, expected, system_version)
        return self._push({**body, "restores_head": True})

    def _push(self, body: Mapping[str, Any]) -> str:
        expected = body["expected_snapshot_hash"]
        try:
            reply = self.ask("POST", "/push", body)
        except RemoteError as error:
            has_moved, actual = actual_head(error.detail)
            if error.status == _CONFLICT and has_moved:
                raise HeadMovedError(expected, actual) from error
            raise
        return digest_at(reply, "snapshot_hash", self._what("/push"))

    def user_space(self) -> UserSpaceHead | None:
        """The user space that runs see, None where none was pushed."""
        try:
            reply = self.ask("GET", "/user-space")
        except RemoteError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return read_user_space(reply, self._what("/user-space"))

    def push_user_space(self, manifest_hash: str, expected_revision: int | None) -> None:
        """Replace it; ``expected_revision`` is of the one that is replaced."""
        self.ask(
            "POST",
            "/push/user-space",
            {"user_manifest_hash": manifest_hash, "expected_revision": expected_revision},
        )

    # ------------------------------------------------------------------ runs

    def execute(self, body: Mapping[str, Any], *, timeout_s: float | None) -> RemoteExecution:
        """Run an item of the head. Never asked twice: it may have run though no reply came.

        Raises RyeError, `TIMEOUT` or `SECRET_NOT_FOUND`, and as `ask`.
        """
        self.verify()  # a node that is slow at that runs nothing yet
        try:
            reply = self.ask(
                "POST",
                "/execute",
                body,
                timeout_s=ACCEPT_TIMEOUT_S if body.get("async") else timeout_s,
                max_response_bytes=MAX_GET_REPLY,
                may_repeat=False,
            )
        except RemoteTimeoutError as error:
            raise RyeError(
                f"remote {self.name}: no result within {error.timeout_s:g} s; the run continues"
                " there",
                code="TIMEOUT",
                hint=f"find it with: rye remote threads --remote {self.name}; then wait for it"
                " with:"
                f" rye remote thread ID --wait --remote {self.name}",
            ) from error
        except RemoteError as error:
            if error.status == _NOT_FOUND and str(error.detail).startswith(_UNKNOWN_NAMES):
                raise RyeError(
                    f"remote {self.name}: {detail_text(error.detail)}",
                    code="SECRET_NOT_FOUND",
                    hint=f"what it has: rye remote secrets list --remote {self.name}",
                ) from error
            raise
        return read_executed(reply, self._what("/execute"))

    def outlive_cancellation(self) -> None:
        """Let later requests pass, though what ends requests was set."""
        self._transport.outlive_cancellation()

    def keeps_answers(self) -> bool:
        """Whether `execute` takes ``awaited``, so that a run can be followed. Raises as `ask`."""
        try:
            capabilities = self.status().get("capabilities")
        except RemoteError:  # the route is of nodes of this kind
            return False
        found = capabilities.get("executes") if isinstance(capabilities, dict) else None
        return isinstance(found, list) and "awaited" in found

    def take_answer(self, thread_id: str) -> RemoteExecution:
        """The answer of a run that was ``awaited`` and has ended; a node gives it once.

        Raises as `ask`.
        """
        path = f"/threads/{thread_id}/answer"
        reply = self.ask("POST", path, max_response_bytes=MAX_GET_REPLY, may_repeat=False)
        return read_executed(reply, self._what(path))

    def threads(self, limit: int, project_path: str = "") -> tuple[dict[str, Any], ...]:
        """The latest runs, newest first."""
        query = [("limit", str(limit))]
        query += [("project_path", project_path)] if project_path else []
        return rows_at(self.ask("GET", "/threads", query=query), "threads", self._what("/threads"))

    def thread(self, thread_id: str) -> dict[str, Any]:
        """One run. ``thread_id`` is checked by the caller: it is a part of the address.

        Raises RyeError `THREAD_NOT_FOUND`, and as `ask`.
        """
        return self._of_thread("GET", thread_id, "")

    def log_of(self, thread_id: str, after: int) -> dict[str, Any]:
        """What programs of a run wrote behind a piece: ``pieces``, ``after``, ``state``.

        Raises as `thread`.
        """
        return self._of_thread("GET", thread_id, "/log", query=[("after", str(after))])

    def cancel(self, thread_id: str) -> dict[str, Any]:
        """Ask for the end of a run; its ``state`` then. Raises as `thread`."""
        return self._of_thread("POST", thread_id, "/cancel")

    def _of_thread(
        self, method: str, thread_id: str, part: str, *, query: QueryPairs = ()
    ) -> dict[str, Any]:
        try:
            return self.ask(method, f"/threads/{thread_id}{part}", query=query)
        except RemoteError as error:
            if error.status == _NOT_FOUND:
                raise RyeError(
                    f"remote {self.name}: no run {thread_id}",
                    code="THREAD_NOT_FOUND",
                    hint=f"list them with: rye remote threads --all --remote {self.name}",
                ) from error
            raise

    # ------------------------------------------------------------------ asking

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        query: QueryPairs = (),
        timeout_s: float | None = None,
        max_response_bytes: int = MAX_SMALL_REPLY,
        may_repeat: bool = True,
    ) -> dict[str, Any]:
        """The JSON that a route answers, asked with credentials. A body of bytes is JSON already.

        Raises RemoteError for what is no success, RemoteReplyError, RemoteUnreachableError,
        and as `verify`.
        """
        self.verify()
        return self._exchange(
            method,
            path,
            body,
            query=self._owned(query),
            timeout_s=timeout_s,
            max_response_bytes=max_response_bytes,
            may_repeat=may_repeat,
        )

    def _owned(self, query: QueryPairs) -> QueryPairs:
        return [*query, ("owner", self.owner)] if self.owner else query

    def _open(self, method: str, path: str) -> dict[str, Any]:
        return self._exchange(method, path, None)

    def _exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None,
        **request: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        return parse_reply(self._reply(method, path, body, **request).body, self._what(path))

    def _reply(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None,
        *,
        query: QueryPairs = (),
        timeout_s: float | None = None,
        max_response_bytes: int = MAX_SMALL_REPLY,
        may_repeat: bool = True,
    ) -> NodeReply:
        reply = self._transport.exchange(
            method,
            path,
            query,
            _json(body) if isinstance(body, Mapping) else body,
            timeout_s=timeout_s,
            max_response_bytes=max_response_bytes,
            may_repeat=may_repeat,
        )
        if not _OK <= reply.status < _MOVED:  # what leads elsewhere is no answer either
            detail, hint = detail_of(reply.body), self._hints.get(reply.status, "")
            if reply.status == _FORBIDDEN and self.owner:
                hint = f"roles are given by the admins of {self.owner}: rye remote teams list"
            raise RemoteError(reply.status, detail, what=self._what(path), hint=hint)
        return reply

    def _history(self, project_path: str, limit: int) -> dict[str, Any]:
        query = [("project_path", project_path), ("limit", str(limit))]
        return self.ask("GET", "/history", query=query)

    def _what(self, path: str) -> str:
        return f"remote {self.name}: {path}"


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def _noting_digests(entries: Iterable[ContentEntry], digests: list[str]) -> Iterator[ContentEntry]:
    for entry in entries:
        digests.append(entry.digest)
        yield entry


def _push_body(
    project_path: str, manifest_hash: str, expected: str | None, system_version: str
) -> dict[str, Any]:
    return {
        "project_path": project_path,
        "project_manifest_hash": manifest_hash,
        "system_version": system_version,
        "expected_snapshot_hash": expected,
    }


# --- credentials ----------------------------------------------------------------------------------
# What shows a node who asks: an API key, or a signature over each request.


class Credentials(Protocol):
    """Makes the headers of one attempt at a request."""

    @property
    def depends_on_time(self) -> bool:
        """Whether a wrong clock makes them worthless."""

    @property
    def sender(self) -> str:
        """Who they show, in the node's words; ``""`` where only the node knows."""

    def headers(
        self, method: str, path: str, query: QueryPairs, body: bytes, *, audience: str, now_s: int
    ) -> dict[str, str]:
        """Headers for the node ``audience`` (``fp:...``), new ones each time."""


class BearerCredentials:
    """An API key, which the node knows by its digest."""

    depends_on_time = False
    sender = ""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key

    def headers(
        self,
        method: str,  # noqa: ARG002 - the seam
        path: str,  # noqa: ARG002
        query: QueryPairs,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
        *,
        audience: str,  # noqa: ARG002
        now_s: int,  # noqa: ARG002
    ) -> dict[str, str]:
        """The key itself."""
        return {"Authorization": f"Bearer {self._api_key}"}


class SignedCredentials:
    """The user's signing key; what is signed is for one request and one node."""

    depends_on_time = True

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.sender = key.fingerprint

    def headers(
        self, method: str, path: str, query: QueryPairs, body: bytes, *, audience: str, now_s: int
    ) -> dict[str, str]:
        """The four headers of ``docs/remote.md``."""
        from ryeos.remote.requests import new_nonce, sign_request

        return sign_request(
            self._key,
            method=method,
            path=path,
            query=urlencode(query),
            body=body,
            audience=audience,
            now_s=now_s,
            nonce=new_nonce(),
        )


def credentials_for(remote: RemoteConfig, key: Callable[[], SigningKey]) -> Credentials:
    """The API key where one is configured and set, else the user's signing key.

    ``key`` reads that one, and raises what it raises.
    """
    return BearerCredentials(remote.api_key) if remote.api_key else SignedCredentials(key())


# --- http transport -------------------------------------------------------------------------------
# Requests to a node over HTTP. Each attempt is signed anew, so that none is taken for a replay.

ATTEMPTS = 4
MAX_SKEW_S = 240
"""A clock that is wrong by this much makes signatures worthless: a node takes 300 s."""
_RETRY = Retry(max_attempts=ATTEMPTS, max_delay_s=20.0)
_BUSY = (429, 503)
_GATEWAY = (502, 504)
_UNAUTHORIZED = 401
_ACCEPTED = f"{MEDIA_TYPE}, application/json;q=0.9"


class HttpTransport:
    """See `Transport`. Connections are kept for the next requests.

    now, wait, jitter   the clock, waiting, and chance from 0 to 1; passed for tests
    """

    def __init__(
        self,
        remote: RemoteConfig,
        credentials: Credentials,
        client: HttpClient,
        *,
        cancellation: Cancellation | None = None,
        now: Callable[[], float] = time.time,
        wait: Wait = wait_for,
        jitter: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._remote, self._credentials, self._client = remote, credentials, client
        self._cancellation, self._now, self._wait = cancellation, now, wait
        self._jitter = jitter
        # Packing takes longer there than it saves.
        self._is_near = is_loopback(urlsplit(remote.url).hostname or "")
        self._audience = ""
        self._ahead_s = 0.0

    @property
    def name(self) -> str:
        """The name of the remote."""
        return self._remote.name

    @property
    def netloc(self) -> str:
        """Host and port, as the address has them."""
        return urlsplit(self._remote.url).netloc

    @property
    def sender(self) -> str:
        """Who the credentials show."""
        return self._credentials.sender

    def outlive_cancellation(self) -> None:
        """See the seam."""
        self._cancellation = None

    def identify(self, fingerprint: str) -> None:
        """Credentials are for this node only: no other can use what it is sent."""
        self._audience = f"fp:{fingerprint}"

    def exchange(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
        may_repeat: bool = True,
    ) -> NodeReply:
        """See the seam. Tried up to `ATTEMPTS` times where that may help and can do no harm."""
        attempt, has_new_clock = 0, False
        while True:
            attempt += 1
            is_last = attempt >= ATTEMPTS
            try:
                reply = self._send(
                    method,
                    path,
                    query,
                    body,
                    timeout_s=timeout_s,
                    max_response_bytes=max_response_bytes,
                )
            except HttpClientError as error:
                was_sent = not isinstance(error, UnreachableError)
                if is_last or not error.may_pass or (was_sent and not may_repeat):
                    raise self._error_for_caller(error, path) from error
                self._pause(delay_s(_RETRY, attempt, self._jitter), path)
                continue
            if reply.status == _UNAUTHORIZED and not has_new_clock and self._take_clock(reply):
                has_new_clock = True
                continue
            busy = reply.status in _BUSY or (reply.status in _GATEWAY and may_repeat)
            if not busy or is_last:
                return NodeReply(reply.status, reply.headers, reply.body)
            wait_s = parse_retry_after(reply.headers.get("retry-after", ""), _utc_time(self._now()))
            self._pause(delay_s(_RETRY, attempt, self._jitter, wait_s), path)

    def _send(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: bytes | None,
        *,
        timeout_s: float | None,
        max_response_bytes: int,
    ) -> "HttpResponse":
        headers = {"Accept": _ACCEPTED}
        if self._is_near:
            headers["Accept-Encoding"] = "identity"
        if body is not None:
            # (No JSON begins like that.)
            headers["Content-Type"] = MEDIA_TYPE if body.startswith(START) else "application/json"
        if self._audience:
            headers |= self._credentials.headers(
                method,
                path,
                query,
                body or b"",
                audience=self._audience,
                now_s=int(self._now() + self._ahead_s),
            )
        request = HttpRequest(
            method=method,
            url=f"{self._remote.url.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else ""),
            headers=headers,
            body=body,
            timeout_s=self._remote.timeout_s if timeout_s is None else timeout_s,
            max_response_bytes=max_response_bytes,
            max_redirects=0,  # what was signed is for this address
        )
        return self._client.send(request, self._cancellation)

    def _take_clock(self, reply: "HttpResponse") -> bool:
        """Whether the node's clock is another than the one that was signed with; it is now ours."""
        if not (self._audience and self._credentials.depends_on_time):
            return False
        node_time_s = _date(reply.headers.get("date", ""))
        if node_time_s is None or abs(node_time_s - self._now() - self._ahead_s) <= MAX_SKEW_S:
            return False
        self._ahead_s = node_time_s - self._now()
        return True

    def _pause(self, seconds: float, path: str) -> None:
        self._wait(seconds, self._cancellation)
        if self._cancellation is not None and self._cancellation.is_set:
            raise ExchangeCancelledError(f"{self._remote.url}{path}")

    def _error_for_caller(self, error: HttpClientError, path: str) -> Exception:
        """The error for callers. A cancelled request stays one."""
        if isinstance(error, ExchangeCancelledError):
            return error
        if isinstance(error, ResponseTooLargeError):
            return ReplyTooLargeError(f"remote {self.name}: {path}", error.problem)
        problem = f"{error.url}: {error.problem}"
        if isinstance(error, ExchangeTimeoutError):
            return RemoteTimeoutError(self.name, problem, error.timeout_s)
        hint = error.hint if isinstance(error, TlsError) else ""
        return RemoteUnreachableError(self.name, problem, hint=hint)


def _utc_time(now_s: float) -> "datetime":
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now_s, UTC)


def _date(text: str) -> float | None:
    """The seconds since the epoch that an HTTP date means."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
