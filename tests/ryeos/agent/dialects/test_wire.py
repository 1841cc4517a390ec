"""What holds for streams and bodies of every dialect: bounds, strict JSON, stable bytes."""

import json
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ryeos.agent.dialects import DIALECTS, AnswerStream, load
from ryeos.agent.dialects.wire import (
    MAX_EVENT_BYTES,
    MAX_EVENTS,
    MAX_STREAM_BYTES,
    body_bytes,
    parsed_object,
    wire_json,
)
from ryeos.agent.messages import Question, ToolOffer
from ryeos.agent.provider_errors import CutError, ProviderError
from tests.support.model_streams import (
    Event,
    a_request,
    answered,
    anthropic,
    anthropic_end,
    anthropic_text,
    chat,
    pieces_of,
    responses,
    responses_end,
)

NAMES = sorted(DIALECTS)


@pytest.fixture(params=NAMES)
def stream(request: pytest.FixtureRequest) -> AnswerStream:
    return load(request.param).Stream()


def refused(call: Callable[[], object]) -> str:
    """The message of the error that a call ends with."""
    with pytest.raises(ProviderError) as error:
        call()
    assert (error.value.code, error.value.is_retryable) == ("PROVIDER_INVALID", False)
    return str(error.value).removeprefix("answer of the provider: ")


def fed(stream: AnswerStream, events: Iterable[tuple[str, str]]) -> Callable[[], object]:
    return lambda: pieces_of(stream, events)


@pytest.mark.parametrize("name", NAMES)
def test_each_dialect_has_a_module_with_its_path_and_defaults(name: str) -> None:
    module, dialect = load(name), DIALECTS[name]

    assert module.PATH.startswith("/")
    assert {429, 529} <= dialect.retry.statuses
    assert module.error_of(429, b"", dialect.retry).is_retryable


def test_ten_megabytes_in_one_event_are_refused_unread(stream: AnswerStream) -> None:
    size = 10 * 1024 * 1024
    event = json.dumps({"x": "a" * (size - 9)})

    problem = refused(fed(stream, [("message", event)]))

    assert problem == f"event: expected at most {MAX_EVENT_BYTES} bytes, found {size}"


def test_the_bytes_of_an_event_count_not_its_characters(stream: AnswerStream) -> None:
    event = json.dumps({"x": "ä" * (MAX_EVENT_BYTES // 2)}, ensure_ascii=False)

    assert "event: expected at most" in refused(fed(stream, [("message", event)]))


def test_events_without_end_are_refused(stream: AnswerStream) -> None:
    events = (("ping", "{}") for _ in range(MAX_EVENTS + 1))

    assert refused(fed(stream, events)) == (
        f"stream: expected at most {MAX_EVENTS} events, found more"
    )


def test_bytes_without_end_are_refused_and_what_is_ignored_is_not_kept(
    stream: AnswerStream,
) -> None:
    event = json.dumps({"type": "ping", "x": "a" * (1024 * 1024)})
    tracemalloc.start()

    problem = refused(fed(stream, (("ping", event) for _ in range(64))))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert problem == f"stream: expected at most {MAX_STREAM_BYTES} bytes, found more"
    assert peak < 8 * 1024 * 1024


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", "event: expected JSON: Expecting value"),
        ("{", "event: expected JSON: Expecting property name"),
        ('{"a": 1, "a": 2}', "event: expected JSON: a key stands twice in an object"),
        ('{"a": NaN}', "event: expected JSON: a number is too large or none: NaN"),
        ('{"a": 1e999}', "event: expected JSON: a number is too large or none: 1e999"),
        ('{"a": ' + "9" * 5000 + "}", "event: expected JSON: Exceeds the limit"),
        ('{"a": ' + "9" * 4000 + "}", "event: expected JSON: /a: expected an integer of at most"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", "event: expected JSON: /a/0/0"),
        ("[" * 100_000, "event: expected JSON: maximum recursion depth"),
        ("[]", "event: expected an object, found []"),
        ("null", "event: expected an object, found null"),
        ('"\x1b[2J"', "event: expected JSON: Invalid control character"),
    ],
)
def test_an_event_that_is_no_strict_json_object_is_refused(
    stream: AnswerStream, data: str, problem: str
) -> None:
    assert refused(fed(stream, [("message", data)])).startswith(problem)


def test_an_unknown_event_is_ignored(stream: AnswerStream) -> None:
    assert stream.feed("of_tomorrow", '{"type": "of_tomorrow", "x": [1, 2]}') == ()
    assert stream.feed("of_tomorrow", '{"x": "no type"}') == ()


@pytest.mark.parametrize(
    ("name", "events"),
    [
        (
            "anthropic-messages",
            [*anthropic(*anthropic_end("end_turn")), *anthropic(*anthropic_text(7, "late"))],
        ),
        (
            "openai-responses",
            [*responses(responses_end([])), *responses(responses_end([], "failed"))],
        ),
        ("openai-chat", [*chat({"content": ""}), *chat({"content": "late"})]),
    ],
)
def test_what_comes_after_the_last_event_is_ignored(name: str, events: list[Event]) -> None:
    assert answered(load(name).Stream(), events).text == ""


def test_a_stream_of_nothing_is_no_answer(stream: AnswerStream) -> None:
    with pytest.raises(CutError) as error:
        stream.answer()

    assert error.value.facts == {"retryable": True, "events": 0}


# --- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_tools_keys_and_features_changes_no_byte(name: str) -> None:
    module, rules = load(name), DIALECTS[name].schema
    one = ToolOffer(name="a", description="A", schema={"type": "object", "properties": {}})
    two = ToolOffer(name="b", description="B", schema={"properties": {}, "type": "object"})
    features = ["cache", "images", "parallel_tools"]

    first = module.body(a_request(tools=(one, two), features=frozenset(features)), rules)
    again = module.body(a_request(tools=(two, one), features=frozenset(features[::-1])), rules)

    assert first == again


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_up_to_the_end_of_the_history_stay_when_it_grows(name: str) -> None:
    module, rules = load(name), DIALECTS[name].schema
    features = frozenset({"cache"})
    history = (Question("Go"), Question("There"))

    first = module.body(a_request(*history, features=features, max_tokens=900), rules)
    then = module.body(a_request(*history, Question("Now"), features=features), rules)

    end = first.index(b"There") + len(b'There"')
    assert then[:end] == first[:end]


@pytest.mark.parametrize("name", NAMES)
def test_any_text_can_be_sent_also_half_a_surrogate_pair(name: str) -> None:
    text = "\0 \ud800 ä 😀 \u2028 </script>"

    body = load(name).body(a_request(Question(text)), DIALECTS[name].schema)

    assert "ä 😀".encode() in body
    assert text in json.dumps(json.loads(body), ensure_ascii=False).replace("\\u0000", "\0")


def test_a_body_has_its_parts_in_order_and_leaves_out_what_is_none() -> None:
    parts: dict[str, Any] = {"b": [1, {"z": 1, "y": "é"}], "a": None, "0": False}

    assert body_bytes(parts) == '{"b":[1,{"y":"é","z":1}],"0":false}'.encode()


def test_a_value_that_is_no_json_is_refused_at_once() -> None:
    for value in (float("nan"), {1: 2}, object()):
        with pytest.raises(Exception, match="expected"):
            wire_json({"x": value})


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": 1', '{"a": 1}{"b": 2}', "[]", "null", '{"a": 1, "a": 2}', '{"a": NaN}', "'"],
)
def test_arguments_that_are_no_strict_object_are_none(text: str) -> None:
    assert parsed_object(text) is None
