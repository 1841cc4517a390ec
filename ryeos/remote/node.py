"""The client of a node: a method for each route.

Nothing that shows who asks is sent before `Node.verify` has found that this is the pinned node.
The formats: ``docs/remote.md``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Protocol

from ryeos.items.errors import RyeError
from ryeos.remote.errors import (
    HeadMovedError,
    RemoteError,
    RemoteReplyError,
    RemoteTimeoutError,
    detail_text,
)
from ryeos.remote.identity import NodeIdentity, read_identity
from ryeos.remote.peer_client import PeerClient
from ryeos.remote.peers import NODE
from ryeos.remote.replies import (
    Health,
    RemoteExecution,
    RemoteHead,
    UserSpaceHead,
    actual_head,
    digest_at,
    digests_at,
    parse_reply,
    read_executed,
    read_head,
    read_health,
    read_user_space,
    rows_at,
)
from ryeos.remote.transport import MAX_SMALL_REPLY, MIB, NodeReply, QueryPairs, Transport
from ryeos.sync.entries import ContentEntry, decode, encode, encode_json
from ryeos.sync.framed_entries import MEDIA_TYPE, PUT_HEADER, framed, read_entries
from ryeos.sync.object_shapes import EntryError
from ryeos.sync.objects import ManifestChanges

COMPATIBLE_ENGINES = frozenset({"0.1"})
"""The first two parts of the versions whose nodes take what this program pushes."""

MAX_GET_REPLY = 64 * MIB
"""Of the encoded entries of one request: base64 of the largest file, and then some."""

ACCEPT_TIMEOUT_S = 30.0
_OK, _MOVED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 200, 300, 403, 404, 409
_UNKNOWN_NAMES = "secret "
"""The beginning of a node's words on secrets that it has not; no other 404 begins like this."""


class PinBook(Protocol):
    """Remembers which node a name and an address belong to. See `ryeos.remote.pins.Pins`."""

    def check(
        self, name: str, netloc: str, identity: NodeIdentity, *, expected: str | None
    ) -> object:
        """Pin a node that is new; raise PinMismatchError for another one than before."""


class Node(PeerClient):
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
        super().__init__(NODE, transport, owner)
        self._pins, self._expected = pins, expected
        self._hints = hints or {}
        self._identity: NodeIdentity | None = None
        self.takes_frames = False  # known once `missing` was asked: whether `put` sends them
        self._lock = Lock()

    @property
    def sender(self) -> str:
        """The caller that requests show, in the node's words; ``""`` where only the node knows."""
        return self._transport.sender

    @property
    def sealed_for(self) -> str:
        """The owner of what is asked about, for whom a secret is sealed."""
        return self.owner or self._transport.sender

    def verify(self) -> NodeIdentity:
        """The identity of the node, checked against its pin; asked once.

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

    def health(self) -> Health:
        """The state of a node: up or not, and its versions."""
        return read_health(self._open("GET", "/health"), self._what("/health"))

    def status(self) -> dict[str, Any]:
        """The offers of the node, and how busy it is."""
        return self._open("GET", "/status")

    def system_version(self, engine_version: str = "") -> str:
        """The version to push as: the node's own where that fits, else ours.

        ``engine_version`` is the node's where that is known: else it is asked for.
        """
        from ryeos import __version__

        engine = engine_version or self.health().engine_version
        fits = ".".join(engine.split(".")[:2]) in COMPATIBLE_ENGINES
        return engine if fits else __version__

    def missing(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Those of the digests that the node does not have, in their order."""
        return self._ask_missing({"hashes": list(digests)}, digests)

    def missing_or_damaged(self, digests: Sequence[str]) -> tuple[str, ...]:
        """The `missing` ones, and those that the node finds damaged when it reads them."""
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
        """Those of these that the node has, each hashed again; nothing that was not asked for."""
        return self.entries_of(self.get_reply(digests, max_response_bytes), digests)

    def get_reply(self, digests: Sequence[str], max_response_bytes: int) -> NodeReply:
        """The reply for `entries_of`: waiting for it and reading it can be two threads' work."""
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

    def head(self, project_path: str) -> RemoteHead | None:
        """The project's head, None where the node has none of this name."""
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
        """Push all of it in one request: what is new, and how the manifest differs.

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
        """Push; where the node has lost the snapshot of the head, history begins anew."""
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
        """True if `execute` takes ``awaited``, so that a run can be followed. Raises as `ask`."""
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
        """The output of a run's programs behind a piece: ``pieces``, ``after``, ``state``.

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

    def _advice(self, status: int) -> str:
        if status == _FORBIDDEN and self.owner:
            return f"roles are given by the admins of {self.owner}: rye remote teams list"
        return self._hints.get(status, "")

    def _history(self, project_path: str, limit: int) -> dict[str, Any]:
        query = [("project_path", project_path), ("limit", str(limit))]
        return self.ask("GET", "/history", query=query)


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
