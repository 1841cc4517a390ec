"""The JSON that all dialects send and receive: bodies of requests, events of streams. Pure.

Every byte of a stream is foreign. An event is bounded, its JSON is strict (no key twice, finite
numbers, bounded nesting), each value is read with its type, and what does not fit is a
`ProviderError` that names the place. So nothing that a provider sends can end in a request that
cannot be written, turns later.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, NoReturn

from lillux.canonical_json import MAX_DEPTH, CanonicalJsonError, require_json
from lillux.fields import Fields
from lillux.wording import json_text
from ryeos.agent.messages import End, Picture, ToolCall, ToolResult
from ryeos.agent.provider_errors import invalid_stream

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_EVENTS = 100_000
MAX_STREAM_BYTES = 64 * 1024 * 1024


NO_OUTPUT = "(no output)"
"""The text for an empty result: some providers refuse an empty text."""


def body_bytes(parts: Mapping[str, object]) -> bytes:
    """The body of a request: its parts in the order given, each as one text of JSON.

    What changes from turn to turn stands last, so that the bytes before it stay the same. None
    leaves a part out.
    """
    written = (
        wire_json(name) + b":" + wire_json(value)
        for name, value in parts.items()
        if value is not None
    )
    return b"{" + b",".join(written) + b"}"


def wire_json(value: object) -> bytes:
    """The JSON of a value: keys sorted, no blanks, in UTF-8. Raises CanonicalJsonError.

    Not the canonical JSON of `lillux.digests`, which escapes all but ASCII: reservations count
    the bytes of what is sent, and other scripts would cost up to three times as much.
    """
    require_json(value)
    text = _encoded(value)
    # Half a surrogate pair has no UTF-8; Python's escape of it is that of JSON.
    return text.encode("utf-8", "backslashreplace")


_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def auth_headers(key: str, name: str, prefix: str = "") -> dict[str, str]:
    """The headers of a request, with the key in the header of that name; without a key, none."""
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    return {**headers, name: f"{prefix}{key}"} if key else headers


def base64_text(picture: Picture) -> str:
    """The bytes of a picture as base64."""
    return b64encode(picture.data).decode("ascii")


def data_url(picture: Picture) -> str:
    """A picture as an address that contains it."""
    return f"data:{picture.media_type};base64,{base64_text(picture)}"


def placeholder(picture: Picture) -> str:
    """The words that stand for a picture where the model takes none."""
    return f"[a picture, {picture.media_type}, {len(picture.data)} bytes: not shown to this model]"


def result_text(result: ToolResult, *, left_out: tuple[Picture, ...] = ()) -> str:
    """The text of a result, with a line for each picture that is left out; never empty."""
    lines = [result.text] if result.text.strip() else []
    return "\n".join([*lines, *map(placeholder, left_out)]) or NO_OUTPUT


def marked_text(result: ToolResult, *, left_out: tuple[Picture, ...] = ()) -> str:
    """`result_text` for a dialect that has no field for "this is an error"."""
    text = result_text(result, left_out=left_out)
    return f"Error: {text}" if result.is_error else text


INVALID_JSON = "INVALID_JSON"


def parsed_object(text: str) -> dict[str, Any] | None:
    """The object of a text of JSON; None where it is none, not strict, or nested too deeply."""
    try:
        value = _parsed(text)
    except (ValueError, RecursionError, CanonicalJsonError):
        return None
    return value if isinstance(value, dict) else None


def returnable_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as an object that can go back to the model.

    Servers parse them again, and one broken text would make them refuse the thread from there on.
    So a text that is no object goes back as the value of a single key. The call itself keeps its
    text (`ToolCall.arguments`): nothing runs with this.
    """
    found = parsed_object(text)
    return {INVALID_JSON: text} if found is None else found


def returnable_text(text: str) -> str:
    """`returnable_arguments` for a dialect that sends them as a text: as it came, if it can be."""
    found = parsed_object(text)
    return text if found is not None else wire_json({INVALID_JSON: text}).decode("utf-8")


def argument_text(value: object) -> str:
    """The text of arguments that came as an object instead of as a text."""
    return wire_json(value).decode("utf-8")


class Part(Fields):
    """One object of an event, with its place in the event for messages.

    An answer has thousands of events: what has the type that it should have is taken at once, and
    only the rest goes through the rules of `Fields`.
    """

    def __init__(self, data: Mapping[str, Any], place: str = "") -> None:
        self.place = place
        # (Not a method of this: a part that refers to itself would keep its event for long.)
        super().__init__(data, partial(_refuse, place))

    def at(self, key: str) -> str:
        """The place of a key."""
        return _at(self.place, key)

    def words(self, key: str) -> str:
        """A text, ``""`` if it is not there."""
        value = self.data.get(key)
        return value if isinstance(value, str) else self.text(key) or ""

    def name(self, key: str) -> str:
        """A text that has to be there and not to be empty."""
        return self.text(key) or _refuse(self.place, key, "a text", self.data.get(key))

    def index(self, key: str) -> int | None:
        """A place in a list."""
        return self.count(key, 0, MAX_EVENTS)

    def part(self, key: str) -> "Part":
        """An object, an empty one if it is not there."""
        value = self.data.get(key)
        return Part(value if type(value) is dict else self.mapping(key) or {}, self.at(key))

    def parts(self, key: str) -> Iterator["Part"]:
        """The objects of a list."""
        for place, value in enumerate(self.sequence(key) if key in self.data else ()):
            if not isinstance(value, dict):
                _refuse(self.place, f"{key}[{place}]", "an object", value)
            yield Part(value, self.at(f"{key}[{place}]"))


def _at(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _refuse(place: str, key: str, expected: str, value: object) -> NoReturn:
    raise invalid_stream(_at(place, key), f"expected {expected}, found {json_text(value)}")


class EventReader:
    """Reads the events of one stream and holds its bounds. ``events`` counts them."""

    def __init__(self) -> None:
        self.events = 0
        self._bytes = 0

    def count(self, event: str, data: str) -> None:
        """Count an event. Raises ProviderError beyond a bound."""
        size = _size(data)
        self.events += 1
        self._bytes += size + _size(event)
        if size > MAX_EVENT_BYTES:
            raise invalid_stream("event", f"expected at most {MAX_EVENT_BYTES} bytes, found {size}")
        if self.events > MAX_EVENTS:
            raise invalid_stream("stream", f"expected at most {MAX_EVENTS} events, found more")
        if self._bytes > MAX_STREAM_BYTES:
            raise invalid_stream("stream", f"expected at most {MAX_STREAM_BYTES} bytes, found more")

    def read(self, data: str) -> Part:
        """The object that an event holds. Raises ProviderError."""
        try:
            value = _parsed(data)
        except (ValueError, RecursionError, CanonicalJsonError) as error:
            raise invalid_stream("event", f"expected JSON: {error}") from error
        if not isinstance(value, dict):
            raise invalid_stream("event", f"expected an object, found {json_text(value)}")
        return Part(value)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _parsed(text: str) -> object:
    value: object = _DECODER.decode(text)
    if text.count("{") + text.count("[") > MAX_DEPTH or len(text) > _LONGEST_INTEGER:
        require_json(value)
    return value


# A text without a longer number has no integer that could not be written again.
_LONGEST_INTEGER = 3000


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"a number is too large or none: {text[:20]}")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)


def require_new_id(call_id: str, known: Mapping[str, object] | set[str], place: str) -> None:
    """Refuse the id of a call that another call of the answer has. Raises ProviderError."""
    if call_id in known:
        raise invalid_stream(place, f"expected an id for each call, found {call_id!r} twice")


def end_with(end: End, calls: Sequence[ToolCall]) -> End:
    """Why the model stopped, where the provider's reason and the calls disagree.

    Many servers end an answer with calls as any other. An answer that is cut, refused or too long
    stays that: its calls do not run.
    """
    if calls and end in {End.END_TURN, End.PAUSED}:
        return End.TOOL_CALLS
    return End.END_TURN if end is End.TOOL_CALLS and not calls else end
