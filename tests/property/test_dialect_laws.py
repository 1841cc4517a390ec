"""Laws of the dialects: streams in any pieces, histories of any length, blocks there and back."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ryeos.agent.dialects import DIALECTS, load
from ryeos.agent.dialects.wire import wire_json
from ryeos.agent.messages import Answer, Entry, Question
from ryeos.agent.provider_errors import ProviderError
from tests.support.model_streams import (
    Event,
    Json,
    a_request,
    answered,
    anthropic,
    anthropic_block,
    anthropic_call,
    anthropic_end,
    anthropic_start,
    anthropic_text,
    as_bytes,
    chat,
    chat_call,
    from_bytes,
    responses,
    responses_call,
    responses_end,
    responses_item,
    responses_message,
    results_for,
)

pytestmark = pytest.mark.property

names = st.sampled_from(sorted(DIALECTS))
texts = st.text(max_size=30)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(texts, json_values, max_size=3).map(json.dumps)


def parts_of(text: str, cuts: list[int]) -> list[str]:
    """The text in parts, cut at these places."""
    places = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [text[first:last] for first, last in pairwise(places)]


def events_of(name: str, said: str, calls: list[str], cuts: list[int]) -> list[Event]:
    """A whole stream with a text and calls with these arguments, in parts."""
    parts = [parts_of(one, cuts) for one in (said, *calls)]
    match name:
        case "anthropic-messages":
            blocks = [anthropic_text(0, *parts[0])] + [
                anthropic_call(place, f"c{place}", *given)
                for place, given in enumerate(parts[1:], 1)
            ]
            flat = [event for block in blocks for event in block]
            return anthropic(anthropic_start(), *flat, *anthropic_end("end_turn"))
        case "openai-responses":
            items = [responses_message(said)] + [
                responses_call(f"c{place}", one) for place, one in enumerate(calls, 1)
            ]
            kinds = ["output_text"] + ["function_call_arguments"] * len(calls)
            blocks = [
                responses_item(
                    place,
                    item,
                    *({"type": f"response.{kind}.delta", "delta": part} for part in given),
                )
                for place, (item, kind, given) in enumerate(zip(items, kinds, parts, strict=True))
            ]
            return responses(*(event for block in blocks for event in block), responses_end(items))
        case _:
            deltas: list[Json] = [{"content": part} for part in parts[0]]
            for place, given in enumerate(parts[1:]):
                deltas.append(chat_call(place, f"c{place + 1}", "weather", ""))
                deltas += [chat_call(place, "", "", part) for part in given]
            return chat(*deltas)


@given(names, texts, st.lists(arguments, max_size=3), st.lists(st.integers(0), max_size=8))
def test_an_answer_is_the_same_in_whatever_parts_its_texts_come(
    name: str, said: str, calls: list[str], cuts: list[int]
) -> None:
    whole = answered(load(name).Stream(), events_of(name, said, calls, []))
    parts = answered(load(name).Stream(), events_of(name, said, calls, cuts))

    assert parts == whole
    assert whole.text == said
    assert [one.arguments for one in whole.calls] == calls


@given(names, texts, st.lists(arguments, max_size=2), st.lists(st.integers(0), max_size=8))
def test_an_answer_is_the_same_in_whatever_chunks_its_bytes_come(
    name: str, said: str, calls: list[str], cuts: list[int]
) -> None:
    data = as_bytes(events_of(name, said, calls, []))
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    chunks = [data[first:last] for first, last in pairwise(places)]

    answer = answered(load(name).Stream(), from_bytes(chunks))

    assert (answer.text, [one.arguments for one in answer.calls]) == (said, calls)


@given(names, st.lists(st.tuples(texts, st.lists(arguments, max_size=2)), max_size=4), texts)
def test_the_messages_of_a_history_are_the_beginning_of_those_of_a_longer_one(
    name: str, turns: list[tuple[str, list[str]]], question: str
) -> None:
    history: list[Entry] = [Question(f"Go {question}")]
    module, rules = load(name), DIALECTS[name].schema
    bodies = []
    for said, calls in turns:
        bodies.append(module.body(a_request(*history), rules))
        answer = answered(module.Stream(), events_of(name, said, calls, []))
        history += [answer, results_for(answer)] if answer.calls else [answer, Question("More")]
    bodies.append(module.body(a_request(*history), rules))

    for short, long in pairwise(bodies):
        end = short.rindex(b"}],")  # of the messages: what follows has no list of objects
        assert long.startswith(short[:end])


@given(json_values, texts, texts)
def test_what_a_provider_sends_goes_back_with_the_same_values(
    value: object, thinking: str, secret: str
) -> None:
    block = {"type": "of_tomorrow", "value": value}
    start = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [
        {"type": "thinking_delta", "thinking": thinking},
        {"type": "signature_delta", "signature": secret},
    ]
    item = {"type": "reasoning", "id": "r", "encrypted_content": secret + "x", "content": value}
    events = {
        "anthropic-messages": anthropic(
            anthropic_start(),
            *anthropic_block(0, start, *deltas),
            *anthropic_block(1, block),
            *anthropic_end("end_turn"),
        ),
        "openai-responses": responses(
            *responses_item(0, item), *responses_item(1, block), responses_end([])
        ),
    }
    expected: dict[str, list[Json]] = {
        "anthropic-messages": [
            {"type": "thinking", "thinking": thinking, "signature": secret},
            block,
        ],
        "openai-responses": [item, block],
    }
    for name, stream in events.items():
        answer = answered(load(name).Stream(), stream)
        body = load(name).body(a_request(Question("Go"), answer), DIALECTS[name].schema)

        assert wire_json(list(answer.blocks)) == wire_json(expected[name])
        assert all(wire_json(one) in body for one in expected[name])


PARTS = (
    *("type", "index", "delta", "content_block", "message", "usage", "id", "name", "text", "input"),
    *("item", "output_index", "response", "output", "call_id", "arguments", "content", "choices"),
    *("tool_calls", "function", "finish_reason", "error", "code", "incomplete_details", "reason"),
    *("stop_reason", "partial_json", "reasoning_details", "extra_content"),
)
WORDS = (
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
    *("message_delta", "message_stop", "text", "tool_use", "text_delta", "input_json_delta"),
    *("response.output_item.added", "response.output_item.done", "response.completed"),
    *("response.incomplete", "function_call", "message", "output_text", "stop", "end_turn", "a"),
)
scalars = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(WORDS) | texts
odd_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(PARTS), inner, max_size=5)
    ),
    max_leaves=20,
)


def places_in(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401
    """The places of all values in a value of JSON."""
    keys: list[Any] = list(value) if isinstance(value, dict) else []
    keys += range(len(value)) if isinstance(value, list) else []
    return [place, *(one for key in keys for one in places_in(value[key], (*place, key)))]


@st.composite
def changed_streams(draw: st.DrawFn) -> tuple[str, list[Event]]:
    """A good stream in which a few values were replaced, or events lost, repeated or moved."""
    name = draw(names)
    events = events_of(name, "Let me see", draw(st.lists(arguments, max_size=2)), [4, 9])
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(events) - 1))
        kind, data = events[index]
        change = draw(st.sampled_from(["value", "value", "value", "lost", "again", "moved"]))
        if change == "value" and data != "[DONE]":
            root = [json.loads(data)]
            *path, last = draw(st.sampled_from(places_in(root)[1:]))
            target: Any = root
            for step in path:
                target = target[step]
            target[last] = draw(odd_values)
            events[index] = (kind, json.dumps(root[0]))
        elif change == "again":
            events.insert(draw(st.integers(0, len(events))), events[index])
        else:
            moved = events.pop(index)
            if change == "moved" or not events:
                events.insert(draw(st.integers(0, len(events))), moved)
    return name, events


odd_events = st.dictionaries(st.sampled_from(PARTS), odd_values, max_size=6).map(json.dumps)


def either_ends_well_or_as_a_provider_error(name: str, events: list[Event]) -> None:
    stream = load(name).Stream()
    try:
        answer: Answer | None = answered(stream, events)
    except ProviderError as error:
        assert str(error).isprintable()  # noqa: PT017 - either may happen
        return
    assert answer is not None
    assert len({one.id for one in answer.calls}) == len(answer.calls)
    history = [answer, results_for(answer)] if answer.calls else [answer]
    assert load(name).body(a_request(*history), DIALECTS[name].schema)


odd_streams = st.lists(
    st.tuples(st.sampled_from(WORDS), odd_events | st.just("[DONE]") | st.text(max_size=20)),
    max_size=8,
)


@given(names, odd_streams)
def test_no_stream_ends_in_another_error_than_one_of_the_provider(
    name: str, events: list[Event]
) -> None:
    either_ends_well_or_as_a_provider_error(name, events)


@settings(max_examples=400)
@given(changed_streams())
def test_no_change_of_a_good_stream_ends_in_another_error(changed: tuple[str, list[Event]]) -> None:
    either_ends_well_or_as_a_provider_error(*changed)
