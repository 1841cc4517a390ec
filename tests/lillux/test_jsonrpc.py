"""Messages of JSON-RPC, and lines cut out of streams."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Failure,
    Id,
    LineDecoder,
    MalformedMessage,
    Message,
    Notification,
    OverlongLine,
    Request,
    Result,
    encode,
    encode_line,
    parse_messages,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
ids = st.text() | st.integers()
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Request, ids, st.text(), objects),
    st.builds(Notification, st.text(), objects),
    st.builds(Result, ids, objects),
    st.builds(Failure, st.none() | ids, st.integers(), st.text(), json_values),
)


@pytest.mark.property
@given(messages)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    assert parse_messages(encode(message)) == (message,)


@pytest.mark.property
@given(messages)
def test_a_message_is_one_line_of_ascii(message: Message) -> None:
    line = encode_line(message)

    assert line.isascii()
    assert line.count(b"\n") == 1


@pytest.mark.property
@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_line_is_a_message_or_malformed(data: bytes) -> None:
    assert parse_messages(data)


@pytest.mark.property
@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_lines_do_not_depend_on_how_a_stream_was_split(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"\n".join(lines) + b"\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in pairwise([0, *cuts, len(stream)])]

    decoder, whole = LineDecoder(30), LineDecoder(30)
    split = [line for piece in pieces for line in decoder.feed(piece)]

    assert split == list(whole.feed(stream))


def test_a_batch_is_several_messages() -> None:
    one, other = Notification("a"), Request(1, "b")

    assert parse_messages(b"[" + encode(one) + b"," + encode(other) + b"]") == (one, other)


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":4,"result":{"text":"caf\xe9"}}',
        b'{"jsonrpc":"2.0","id":4,"result":{"n":NaN}}',
        b'{"jsonrpc":"2.0","id":4,"error":{"code":1,',
    ],
)
def test_an_answer_that_cannot_be_read_keeps_its_id(text: bytes) -> None:
    (found,) = parse_messages(text)

    assert isinstance(found, MalformedMessage)
    assert (found.id, found.is_answer) == (4, True)


def test_a_message_of_an_id_alone_is_bare() -> None:
    (found,) = parse_messages(b'{"jsonrpc":"2.0","id":4}')

    assert isinstance(found, MalformedMessage)
    assert (found.id, found.is_answer, found.is_bare) == (4, False, True)


@pytest.mark.parametrize("text", [b'{"error": "no file"', b'error: {"id": 4}', b"\xff"])
def test_a_line_that_is_printed_is_no_answer(text: bytes) -> None:
    (found,) = parse_messages(text)

    assert isinstance(found, MalformedMessage)
    assert not found.is_answer


@pytest.mark.parametrize(
    ("text", "problem", "code"),
    [
        (b"hello", "expected JSON", PARSE_ERROR),
        (b"\xff", "expected UTF-8", PARSE_ERROR),
        (b"[" * 100_000, "expected JSON", PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"result":NaN}', "expected JSON", PARSE_ERROR),
        (b"[]", "expected a message, found an empty batch", INVALID_REQUEST),
        (b"1", "expected an object with jsonrpc 2.0", INVALID_REQUEST),
        (b'{"jsonrpc":"1.0"}', "expected an object with jsonrpc 2.0", INVALID_REQUEST),
        (b'{"jsonrpc":"2.0"}', "expected a method, a result or an error", INVALID_REQUEST),
        (
            b'{"jsonrpc":"2.0","id":true,"result":{}}',
            "expected an id that is a string or an integer, found true",
            INVALID_REQUEST,
        ),
        (
            b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
            "expected an id that is a string or an integer",
            INVALID_REQUEST,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"result":[]}',
            "expected a result that is an object",
            INVALID_REQUEST,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":""}}',
            "expected an error with an integer code",
            INVALID_REQUEST,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"error":"no"}',
            "expected an error with a message",
            INVALID_REQUEST,
        ),
    ],
)
def test_a_malformed_message_says_why(text: bytes, problem: str, code: int) -> None:
    (found,) = parse_messages(text)

    assert isinstance(found, MalformedMessage)
    assert (found.problem, found.code) == (problem, code)


def test_the_excerpt_of_garbage_is_short_and_printable() -> None:
    (found,) = parse_messages(b"\x1b[2J" + b"x" * 1000)

    assert isinstance(found, MalformedMessage)
    assert found.shown.startswith("\\u001b[2Jxxx")
    assert len(found.shown) <= 210


def test_an_overlong_line_is_dropped_at_once_and_the_next_one_is_read() -> None:
    decoder = LineDecoder(5)

    assert list(decoder.feed(b"123456")) == [OverlongLine(5, b"123456")]
    assert list(decoder.feed(b"7" * 100)) == []
    assert list(decoder.feed(b"\r\n\n ok\r\n")) == [b" ok"]


@pytest.mark.parametrize(
    ("line", "message_id"),
    [
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1),
        (b'{"id":"q","method":"ping"}', "q"),
        (b'{"id":null,"method":"ping"}', None),
    ],
)
def test_a_message_of_another_version_keeps_its_id(line: bytes, message_id: Id | None) -> None:
    (message,) = parse_messages(line)

    assert isinstance(message, MalformedMessage)
    assert (message.code, message.id) == (INVALID_REQUEST, message_id)


@pytest.mark.parametrize(
    ("line", "message_id"),
    [
        (b'{"jsonrpc":"2.0","id":2,"method":"m","params":{"a":%b}}', 2),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":[-%b]},"id":"x"}', "x"),
        (b'{"jsonrpc":"2.0","id":%b,"method":"m"}', None),
        (b"%b", None),
    ],
)
def test_an_integer_too_long_to_be_read_leaves_the_id(line: bytes, message_id: Id | None) -> None:
    (message,) = parse_messages(line % (b"9" * 5000))

    assert isinstance(message, MalformedMessage)
    assert (message.code, message.id) == (INVALID_REQUEST, message_id)
    assert message.problem == "expected integers of at most 4300 digits, found more"


def test_an_answer_with_an_integer_too_long_to_be_read_is_seen_as_one() -> None:
    (message,) = parse_messages(b'{"jsonrpc":"2.0","id":2,"result":{"a":%b}}' % (b"9" * 5000))

    assert isinstance(message, MalformedMessage)
    assert message.is_answer


def test_params_of_null_are_none() -> None:
    assert parse_messages(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}') == (
        Request(1, "ping"),
    )
    assert parse_messages(b'{"jsonrpc":"2.0","method":"n","params":null}') == (Notification("n"),)


def test_a_byte_order_mark_before_a_message_is_passed_over() -> None:
    assert parse_messages(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}') == (Result(1, {}),)


@pytest.mark.parametrize(("given", "read"), [("1.0", 1), ("1e2", 100), ("-0.0", 0)])
def test_a_whole_number_with_a_point_is_an_id(given: str, read: int) -> None:
    text = f'{{"jsonrpc":"2.0","id":{given},"result":{{}}}}'

    assert parse_messages(text.encode()) == (Result(read, {}),)


@pytest.mark.parametrize("given", ["1.5", "null", "true", "[1]", "1e300", '{"a":1}'])
def test_an_answer_with_another_id_is_an_answer_that_says_so(given: str) -> None:
    text = f'{{"jsonrpc":"2.0","id":{given},"result":{{"content":[]}}}}'

    (message,) = parse_messages(text.encode())

    assert isinstance(message, MalformedMessage)
    assert message.is_answer
    assert not message.is_empty
    assert "expected an id that is a string or an integer" in message.problem


def test_a_last_line_without_an_end_is_a_line() -> None:
    decoder = LineDecoder(100)
    assert list(decoder.feed(b"one\ntw")) == [b"one"]
    assert list(decoder.feed(b"o")) == []

    assert list(decoder.end()) == [b"two"]
    assert list(decoder.end()) == []
