"""Replies of nodes and registries as values. Pure. Another shape is `REMOTE_REPLY_INVALID`."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from lillux.fields import ABSENT, is_text
from lillux.shapes import ANYTHING, Form, Key, Wrong, read
from lillux.store_layout import are_digests, is_digest
from lillux.values import dataclass, field, replace
from ryeos.items.errors import RyeError
from ryeos.remote.errors import HeadLostError, RemoteReplyError
from ryeos.remote.registry_errors import registry_reply_error

_T = TypeVar("_T")

MakeError = Callable[[str, str], RyeError]
"""Of what was asked, and a problem of the reply: what is raised."""

# What fields of replies hold. A list may be long: messages do not show what was found in its place.

_DIGESTS, _ROWS, _FILES = "a list of digests", "a list of objects", "a mapping of paths"
_UNSHOWN = frozenset({_DIGESTS, _ROWS, _FILES})


def _is_unicode(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _texts(value: object, *_: object) -> tuple[str, ...]:
    return tuple(filter(is_text, value)) if isinstance(value, list) else ()


def _left_out(value: object, *_: object) -> tuple[str, ...]:
    rows = value if isinstance(value, list) else []
    return tuple(
        f"{row.get('path')!a}: {row.get('problem')}"
        for row in rows
        if isinstance(row, dict) and row
    )


def _contents(value: Mapping[str, Any], place: str, wrong: Wrong) -> dict[str, str]:
    """The content of each file. What was found is not shown."""
    files = {}
    for path, entry in value.items():
        content = entry.get("content") if isinstance(entry, dict) else None
        if not isinstance(content, str):
            raise wrong(f"{place}.{path[:80]!a}.content", "text", ABSENT)
        files[path] = content
    return files


def _lenient(make: Callable[[Any], Any]) -> Form:
    """Any value, of which something is made: a node of another version may answer otherwise."""
    return Form("a value", lambda _: True, make=lambda value, *_: make(value))


_TEXT = Form("text", is_text)
_UNICODE = Form("text", _is_unicode)
_DIGEST = Form("a digest", is_digest)
_LIST_OF_DIGESTS = Form(
    _DIGESTS,
    lambda value: isinstance(value, list) and are_digests(value),
    make=lambda value, *_: tuple(value),
)
_LIST_OF_ROWS = Form(_ROWS, _is_rows, make=lambda value, *_: tuple(value))
_OR_BLANK = Form(
    "a digest",
    lambda value: not value or is_digest(value),
    make=lambda value, *_: value or "",
    absent="",
)

Text = Annotated[str, _TEXT]
UnicodeText = Annotated[str, _UNICODE]
"""A text that can be written as UTF-8."""

DigestOrBlank = Annotated[str, _OR_BLANK]
"""A digest, ``""`` for null, nothing or none."""

Digests = Annotated[tuple[str, ...], _LIST_OF_DIGESTS]
AnyText = Annotated[str, _lenient(lambda value: str(value or ""))]
AnyTexts = Annotated[tuple[str, ...], _lenient(_texts)]
AnyMapping = Annotated[
    Mapping[str, Any], _lenient(lambda value: value if isinstance(value, dict) else {})
]
Contents = Annotated[
    Mapping[str, str], Form(_FILES, lambda value: isinstance(value, dict), make=_contents)
]


def _wrong_in(what: str, error: MakeError) -> Wrong:
    def wrong(place: str, expected: str, found: object) -> RyeError:
        shown = "" if found is ABSENT or expected in _UNSHOWN else f", found {found!r:.80}"
        return error(what, f"{place}: expected {expected}{shown}")

    return wrong


def read_reply(
    shape: type[_T], value: Mapping[str, Any], what: str, error: MakeError = RemoteReplyError
) -> _T:
    """The value in a reply."""
    return read(shape, value, _wrong_in(what, error))


def parse_reply(body: bytes, what: str, error: MakeError = RemoteReplyError) -> dict[str, Any]:
    """The JSON object of a body."""
    value = parse_json(body, what, error)
    if not isinstance(value, dict):
        raise error(what, f"expected a JSON object, found {type(value).__name__}")
    return value


def parse_json(body: bytes, what: str, error: MakeError = RemoteReplyError) -> Any:  # noqa: ANN401 - any JSON
    """The JSON of a body."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise error(what, f"expected JSON, found {body[:60]!r}") from None


def detail_of(body: bytes) -> object:
    """The text of an error: ``detail`` of its JSON, else its text."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body[:2000].decode("utf-8", "replace").strip() or "no reason given"
    return value.get("detail", value) if isinstance(value, dict) else value


def digests_at(value: Mapping[str, Any], key: str, what: str) -> tuple[str, ...]:
    """A list of digests."""
    digests: tuple[str, ...] = _at(_LIST_OF_DIGESTS, value, key, what, RemoteReplyError)
    return digests


def rows_at(
    value: Mapping[str, Any], key: str, what: str, error: MakeError = RemoteReplyError
) -> tuple[dict[str, Any], ...]:
    """A list of objects."""
    rows: tuple[dict[str, Any], ...] = _at(_LIST_OF_ROWS, value, key, what, error)
    return rows


def digest_at(value: Mapping[str, Any], key: str, what: str) -> str:
    """A digest."""
    return str(_at(_DIGEST, value, key, what, RemoteReplyError))


def optional_digest_at(value: Mapping[str, Any], key: str, what: str) -> str:
    """A digest, ``""`` for null, nothing or none."""
    return str(_at(_OR_BLANK, value, key, what, RemoteReplyError))


def text_at(value: Mapping[str, Any], key: str, what: str) -> str:
    """A text."""
    return str(_at(_TEXT, value, key, what, RemoteReplyError))


def unicode_text_at(value: Mapping[str, Any], key: str, what: str, error: MakeError) -> str:
    """A text that can be written as UTF-8."""
    return str(_at(_UNICODE, value, key, what, error))


def _at(form: Form, value: Mapping[str, Any], key: str, what: str, error: MakeError) -> Any:  # noqa: ANN401 - of any type
    return form.read(value.get(key), key, _wrong_in(what, error))


# --- nodes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTerms:
    """A node's terms for the push that follows, with its head.

    engine_version      as in `Health`
    user_manifest_hash  the user space that it has, ``""`` for none
    """

    engine_version: Text
    user_manifest_hash: DigestOrBlank


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHead:
    """The head of a project on a node. ``user_manifest_hash`` is ``""`` where none was ever pushed.

    ``terms``: None of a node that does not take what has changed alone (`Node.push_changes`).
    """

    snapshot_hash: str
    project_manifest_hash: str
    user_manifest_hash: str = ""
    terms: PushTerms | None = None


@dataclass(frozen=True, slots=True)
class UserSpaceHead:
    """The user space that runs on a node see, and how often it was replaced."""

    user_manifest_hash: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """``GET /health``; ``engine_version`` is what a push has to fit."""

    status: str
    version: str
    engine_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteExecution:
    """The outcome of a run on a node.

    result            the envelope of the run, as ``rye run --json`` gives it here
    merge_type        ``no-op``, ``fast-forward``, ``merge``, ``conflict`` or ``retry_exhausted``
    new_objects       what the run made that the node did not have before
    conflicts         by path, where the node could not merge what the run changed
    warnings          what the node has to say about what the run left
    left_out          files that the node did not take into the project, with the reason
    masked_paths      files of the project in which the node found a secret, and masked it
    is_accepted_only  it was started, and nothing of the result is known yet
    """

    thread_id: Text
    status: Text
    result: Annotated[Mapping[str, Any], ANYTHING] = field(default_factory=dict)
    snapshot_hash: DigestOrBlank = ""
    merge_type: AnyText = ""
    execution_snapshot_hash: DigestOrBlank = ""
    outputs_bundle_hash: Annotated[DigestOrBlank, Key("runtime_outputs_bundle_hash")] = ""
    new_objects: Annotated[Digests, Key("new_object_hashes")] = ()
    conflicts: AnyMapping = field(default_factory=dict)
    unmerged_snapshot: DigestOrBlank = ""
    masked_paths: AnyTexts = ()
    system_version: AnyText = ""
    left_out: Annotated[tuple[str, ...], _lenient(_left_out)] = ()
    warnings: AnyTexts = ()
    is_accepted_only: Annotated[bool, _lenient(lambda value: value is True), Key("async")] = False


def read_health(value: Mapping[str, Any], what: str) -> Health:
    """``GET /health``; an older node has one version for all."""
    version = text_at(value, "version", what)
    engine = value.get("engine_version")
    return Health(
        status=text_at(value, "status", what),
        version=version,
        engine_version=engine if isinstance(engine, str) else version,
    )


def read_head(value: Mapping[str, Any], what: str) -> RemoteHead:
    """The head of ``GET /history``, by its newest snapshot. Raises HeadLostError for none."""
    snapshot_hash = digest_at(value, "head", what)
    rows = rows_at(value, "snapshots", what)
    if not rows:
        raise HeadLostError(what, snapshot_hash)
    if rows[0].get("_hash") != snapshot_hash:
        raise RemoteReplyError(what, f"expected the snapshot {snapshot_hash} first")
    return RemoteHead(
        snapshot_hash=snapshot_hash,
        project_manifest_hash=digest_at(rows[0], "project_manifest_hash", what),
        user_manifest_hash=optional_digest_at(rows[0], "user_manifest_hash", what),
        terms=read_push_terms(value.get("push_terms"), what),
    )


def read_push_terms(value: object, what: str) -> PushTerms | None:
    """``push_terms`` of ``GET /history``; None where they are absent, or of another kind."""
    if not isinstance(value, Mapping) or value.get("takes_changes") is not True:
        return None
    return read_reply(PushTerms, value, what)


def read_user_space(value: Mapping[str, Any], what: str) -> UserSpaceHead:
    """``GET /user-space``; the counter has had two names."""
    revision = value.get("revision", value.get("snapshot_revision"))
    if not isinstance(revision, int) or isinstance(revision, bool):
        raise RemoteReplyError(what, f"revision: expected a number, found {revision!r:.80}")
    return UserSpaceHead(digest_at(value, "user_manifest_hash", what), revision)


def read_executed(value: Mapping[str, Any], what: str) -> RemoteExecution:
    """``POST /execute``."""
    if value.get("async") is True:
        value = {key: value.get(key) for key in ("thread_id", "status", "async")}
        return read_reply(RemoteExecution, value, what)
    read = read_reply(RemoteExecution, {"result": None, **value}, what)
    if isinstance(read.result, dict):
        return read
    return replace(read, result={"status": read.status, "data": read.result})


def actual_head(detail: object) -> tuple[bool, str | None]:
    """True if a refused push says that the head has moved, and where it is."""
    if not isinstance(detail, dict) or "actual" not in detail:
        return False, None
    actual = detail["actual"]
    return (actual is None or is_digest(actual)), actual


# --- registries -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledReply:
    """``GET /v1/pull``; nothing of it is checked but its shape.

    suffix       of the item's file; ``""`` where the registry does not say
    attestation  a signed document about the rest, or None
    """

    item_type: UnicodeText
    item_id: UnicodeText
    version: UnicodeText
    content: UnicodeText = field(repr=False)
    author: UnicodeText
    suffix: Annotated[str, _lenient(lambda value: value if isinstance(value, str) else "")] = ""
    created_at: AnyText = ""
    attestation: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReply:
    """``GET /v1/bundle/pull``. ``files``: content by path, as it came."""

    files: Contents = field(repr=False)
    bundle_id: UnicodeText
    version: UnicodeText
    manifest: UnicodeText = field(repr=False)
    author: UnicodeText
    created_at: AnyText = ""
    attestation: object = field(default=None, repr=False)


def read_pulled(value: Mapping[str, Any], what: str) -> PulledReply:
    """The item of a reply."""
    return read_reply(PulledReply, value, what, registry_reply_error)


def read_bundle(value: Mapping[str, Any], what: str) -> BundleReply:
    """The bundle of a reply."""
    return read_reply(BundleReply, value, what, registry_reply_error)
