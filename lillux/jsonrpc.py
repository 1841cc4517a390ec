"""JSON-RPC 2.0 messages, and their framing as lines of text. Pure: bytes in, values out.

Both sides use it. What comes in is never trusted: whatever the bytes, `parse_messages` and
`LineDecoder` give values and raise nothing.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping

from lillux.foreign_text import one_line
from lillux.values import dataclass, field

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from typing import Any, NoReturn


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = str | int
_ANSWERS = frozenset({"result", "error"})
_SHOWN_CHARACTERS = 200
_START_BYTES = 4096
_BOM = b"\xef\xbb\xbf"  # some programs begin every file and every pipe with it
_EXACT = 2**53  # whole numbers up to here are exact in every JSON reader


@dataclass(frozen=True, slots=True)
class Request:
    """Asks for a result or an error with the same ``id``."""

    id: Id
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification: it has no answer."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a request."""

    id: Id
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that a request gave. ``id`` is None where the other side could not read it."""

    id: Id | None
    code: int
    message: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class MalformedMessage:
    """Input that is no message: the beginning of its text, and the fault in it.

    ``code`` is what a server answers it with; ``id`` the one it had, if any. What was meant as an
    answer, as far as can be seen, gets no answer: its id is one of ours. ``is_empty`` is an answer
    without an id and with nothing in it, as some servers answer a notification. ``is_bare``: it has
    an id, and neither method, result nor error.
    """

    problem: str
    shown: str
    code: int = INVALID_REQUEST
    id: Id | None = None
    is_answer: bool = False
    is_empty: bool = False
    is_bare: bool = False


Message = Request | Notification | Result | Failure
Incoming = Message | MalformedMessage


def encode(message: Message) -> bytes:
    """The message as one line of JSON, without the line's end."""
    return json.dumps(as_json(message), ensure_ascii=True, separators=(",", ":")).encode("ascii")


def encode_line(message: Message) -> bytes:
    """The message as it goes over a pipe."""
    return encode(message) + b"\n"


def as_json(message: Message) -> dict[str, Any]:
    """The message as JSON values. ``params`` are left out where there are none."""
    body: dict[str, Any] = {"jsonrpc": "2.0"}
    match message:
        case Request() | Notification():
            if isinstance(message, Request):
                body["id"] = message.id
            body["method"] = message.method
            if message.params:
                body["params"] = dict(message.params)
        case Result():
            body |= {"id": message.id, "result": dict(message.result)}
        case Failure():
            error: dict[str, Any] = {"code": message.code, "message": message.message}
            if message.data is not None:
                error["data"] = message.data
            body |= {"id": message.id, "error": error}
    return body


def parse_messages(text: bytes, max_depth: int | None = None) -> tuple[Incoming, ...]:
    """The messages of one frame: one, or all of a batch. Never raises.

    ``max_depth`` is how many levels of objects and lists a frame may have; without it, as many as
    can be read.
    """
    text = text.removeprefix(_BOM)
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError:
        return (_unreadable(text, "expected UTF-8"),)
    except RecursionError:
        return (_unreadably_deep(text, max_depth),)
    except json.JSONDecodeError:
        return (_unreadable(text, "expected JSON"),)
    except ValueError:  # Python refuses longer ones, which would take long to read
        return (_unreadably_long(text),)
    if max_depth is not None and _is_deeper(value, text, max_depth):
        return (_too_deep(text, max_depth, _id_of(value), is_answer=_is_answer(value)),)
    return _messages(value, text)


def _messages(value: object, text: bytes) -> tuple[Incoming, ...]:
    if not isinstance(value, list):
        return (_message(value, text),)
    if not value:
        return (MalformedMessage("expected a message, found an empty batch", "[]"),)
    return tuple(_message(entry, text) for entry in value)


def _is_deeper(value: object, text: bytes, max_depth: int) -> bool:
    if text.count(b"{") + text.count(b"[") <= max_depth:  # what nearly every message shows at once
        return False
    return is_deeper(value, max_depth)


def _unreadable(text: bytes, problem: str) -> MalformedMessage:
    given = id_of_text(text)
    if given is None or not begins_an_answer(text):  # any line that is printed
        return MalformedMessage(problem, _first_text(text), PARSE_ERROR)
    return MalformedMessage(problem, _first_text(text), PARSE_ERROR, given, is_answer=True)


def _unreadably_deep(text: bytes, max_depth: int | None) -> MalformedMessage:
    if max_depth is None:
        return MalformedMessage("expected JSON", _first_text(text), PARSE_ERROR)
    return _too_deep(text, max_depth, id_of_text(text), is_answer=begins_an_answer(text))


def _unreadably_long(text: bytes) -> MalformedMessage:
    problem = f"expected integers of at most {sys.get_int_max_str_digits()} digits, found more"
    given, is_answer = id_of_text(text), begins_an_answer(text)
    return MalformedMessage(problem, _first_text(text), id=given, is_answer=is_answer)


def _too_deep(
    text: bytes, max_depth: int, given: Id | None, *, is_answer: bool
) -> MalformedMessage:
    problem = f"expected at most {max_depth} levels of objects and lists, found more"
    return MalformedMessage(problem, _first_text(text), id=given, is_answer=is_answer)


def _id_of(value: object) -> Id | None:
    given: Any = value.get("id") if isinstance(value, dict) else None
    if isinstance(given, float) and given.is_integer() and abs(given) < _EXACT:
        return int(given)  # JSON has one kind of number: 1.0 is 1
    return given if is_id(given) else None


def _is_answer(value: object) -> bool:
    return (
        isinstance(value, dict) and "method" not in value and not value.keys().isdisjoint(_ANSWERS)
    )


def _message(value: object, text: bytes) -> Incoming:
    message_id = _id_of(value)
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        problem, is_answer = "expected an object with jsonrpc 2.0", _is_answer(value)
        return MalformedMessage(problem, _first_text(text), id=message_id, is_answer=is_answer)
    if "method" in value:
        return _call(value, message_id, text)
    problem = _answer_problem(value)
    if problem:
        return MalformedMessage(
            problem,
            _first_text(text),
            id=message_id,
            is_answer=_is_answer(value),
            is_bare=message_id is not None and not _is_answer(value),
        )
    if "error" in value:
        error = value["error"]
        return Failure(message_id, error["code"], error["message"], error.get("data"))
    if message_id is None:
        return MalformedMessage(
            f"expected an id that is a string or an integer, found {_shown_id(value)}",
            _first_text(text),
            is_answer=True,
            is_empty=value.get("id") is None and not value["result"],
        )
    return Result(message_id, value["result"])


def _shown_id(value: Mapping[str, Any]) -> str:
    return json.dumps(value["id"])[:80] if "id" in value else "none"


def _call(value: Mapping[str, Any], message_id: Id | None, text: bytes) -> Incoming:
    method, params = value["method"], value.get("params")
    params = {} if params is None else params  # some clients write null for none
    if not isinstance(method, str) or not isinstance(params, dict):
        problem = "expected a method that is a string, and params that are an object"
        return MalformedMessage(problem, _first_text(text), id=message_id)
    if "id" not in value:
        return Notification(method, params)
    if message_id is None:
        return MalformedMessage("expected an id that is a string or an integer", _first_text(text))
    return Request(message_id, method, params)


def _answer_problem(value: Mapping[str, Any]) -> str:
    if ("result" in value) == ("error" in value):
        return "expected a method, a result or an error"
    if "result" in value:
        return "" if isinstance(value["result"], dict) else "expected a result that is an object"
    error = value["error"]
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return "expected an error with a message"
    code = error.get("code")
    is_code = isinstance(code, int) and not isinstance(code, bool)
    return "" if is_code else "expected an error with an integer code"


def is_id(value: object) -> bool:
    """True if a value can be the id of a request."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _refuse(constant: str) -> NoReturn:
    raise json.JSONDecodeError("expected JSON", constant, 0)


def _first_text(text: bytes) -> str:
    """The beginning of a text as one printable line."""
    return one_line(text[:_SHOWN_CHARACTERS].decode("utf-8", "replace"), _SHOWN_CHARACTERS)


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line that was dropped because it is longer than ``max_bytes``, and how it begins."""

    max_bytes: int
    start: bytes = b""


class LineDecoder:
    """Cuts a stream of bytes into lines, however it was split on its way.

    Keeps at most ``max_line_bytes`` of a line that has not ended. Blank lines are left out.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._begun = bytearray()
        self._is_dropping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | OverlongLine]:
        """The lines that end in this chunk, without their ends; an overlong one at once."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            yield from self._take(chunk[start:end])
            start = end + 1
            line = bytes(self._begun).rstrip(b"\r")
            self._begun.clear()
            if not self._is_dropping and line.strip():
                yield line
            self._is_dropping = False
        yield from self._take(chunk[start:])

    def end(self) -> Iterator[bytes]:
        """The last line, where the stream ended without the end of a line."""
        line = bytes(self._begun)
        self._begun.clear()
        if line.strip():
            yield line

    def _take(self, part: bytes) -> Iterator[OverlongLine]:
        if self._is_dropping:
            return
        if len(self._begun) + len(part) > self._max_line_bytes:
            self._is_dropping = True
            # As much as is known of any overlong line, however the stream was split.
            shown = min(_START_BYTES, self._max_line_bytes + 1)
            start = bytes(self._begun[:shown] + part[:shown])[:shown]
            self._begun.clear()
            yield OverlongLine(self._max_line_bytes, start)
            return
        self._begun += part


# How deep JSON is nested, and the id of a message that is nested too deep. Nothing recurs.
#
# An object or a list is one level deeper than what holds it; the outermost is at level one.

# The ends of a message that are looked at for its id, however long the rest is.
SEARCHED_BYTES = 4096
# Characters are taken for good, groups are not: before 3.11.5 possessive groups lose matches.
# The patterns are compiled when they are needed: a server that starts has no use for them.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_SCALAR = rb"(?:" + _STRING + rb"|[-+.0-9A-Za-z]++)"
_MEMBER = _STRING + rb"\s*+:\s*+" + _SCALAR
_ID = rb'"id"\s*+:\s*+(' + _STRING + rb"|-?[0-9]++)\s*+"
_AT_THE_START = rb"\s*+\{\s*+(?:(?!\"id\")" + _MEMBER + rb"\s*+,\s*+)*" + _ID + rb"[,}]"
_ANSWER = rb"\s*+\{\s*+(?:" + _MEMBER + rb"\s*+,\s*+)*\"(?:result|error)\"\s*+:"
_AT_THE_END = rb",\s*+" + _ID + rb"(?:,\s*+" + _MEMBER + rb"\s*+)*\}\s*+\Z"


def is_deeper(value: Any, max_depth: int) -> bool:  # noqa: ANN401 - JSON
    """True if a value has more levels than this. Takes about as long as reading it did."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def id_of_text(text: bytes) -> str | int | None:
    """The ``id`` of an object that was not read; None where it lies between two deep members.

    Found is one that has nothing but scalars between it and an end of the object.
    """
    if not text.lstrip().startswith(b"{"):
        return None
    found = re.match(_AT_THE_START, text[:SEARCHED_BYTES])
    return _read(found or re.search(_AT_THE_END, text[-SEARCHED_BYTES:]))


def id_at_start(text: bytes) -> str | int | None:
    """The ``id`` of an object of which only the start is there; None where it is not in it."""
    return _read(re.match(_AT_THE_START, text[:SEARCHED_BYTES]))


def begins_an_answer(text: bytes) -> bool:
    """True if an object has a ``result`` or an ``error`` before any member that is no scalar."""
    return re.match(_ANSWER, text[:SEARCHED_BYTES]) is not None


def _read(found: re.Match[bytes] | None) -> str | int | None:
    try:
        given = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return given if isinstance(given, str | int) else None
