"""The dialect of Anthropic's Messages API."""

import json
from typing import Any

import pytest

from ryeos.agent.dialects.anthropic_messages import PATH, Stream, headers
from ryeos.agent.messages import (
    Answer,
    End,
    Picture,
    Question,
    Results,
    ToolCall,
    ToolOffer,
    ToolResult,
    Usage,
)
from ryeos.agent.provider_errors import CutError, ProviderError
from tests.support.model_streams import (
    Json,
    a_request,
    answered,
    anthropic,
    anthropic_block,
    anthropic_call,
    anthropic_end,
    anthropic_start,
    anthropic_text,
    joined,
    pieces_of,
    results_for,
    sent,
)

DIALECT = "anthropic-messages"
CACHE = {"type": "ephemeral"}


def read(*events: Json) -> Answer:
    """The answer of a stream with these events in the middle, or at its end."""
    return answered(Stream(), anthropic(anthropic_start(), *events))


# --- the request ----------------------------------------------------------------------------------


def test_the_key_goes_into_its_own_header_and_a_local_server_gets_none() -> None:
    assert PATH == "/messages"
    assert headers("k")["x-api-key"] == "k"
    assert headers("k")["anthropic-version"] == "2023-06-01"
    assert "x-api-key" not in headers("")


def test_a_request_has_tools_by_name_then_system_then_messages() -> None:
    other = ToolOffer(name="a", description="First.", schema={"type": "object"})

    body = sent(DIALECT, tools=(*a_request().tools, other))

    assert list(body)[:4] == ["model", "tools", "system", "messages"]
    assert [tool["name"] for tool in body["tools"]] == ["a", "weather"]
    assert body["tools"][0]["input_schema"] == {"type": "object", "properties": {}}
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Go"}]}]
    assert (body["max_tokens"], body["stream"]) == (1000, True)


def test_with_a_cache_system_is_marked_and_the_provider_marks_the_end() -> None:
    body = sent(DIALECT, features=frozenset({"cache"}))

    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": CACHE}]
    assert body["cache_control"] == CACHE
    assert "cache_control" not in json.dumps([body["messages"], body["tools"]])


def test_with_a_cache_and_no_system_text_the_last_tool_is_marked() -> None:
    body = sent(DIALECT, features=frozenset({"cache"}), system="")

    assert "system" not in body
    assert body["tools"][-1]["cache_control"] == CACHE


def test_a_turn_of_many_blocks_marks_the_end_of_the_last_request() -> None:
    calls = [event for place in range(12) for event in anthropic_call(place, f"c{place}", "{}")]
    answer = read(*calls, *anthropic_end("tool_use"))

    body = sent(DIALECT, Question("Go"), answer, results_for(answer), features={"cache"})

    assert body["messages"][0]["content"][-1]["cache_control"] == CACHE
    assert json.dumps(body).count("cache_control") == 3  # four are the most


def test_a_call_that_must_be_made_excludes_thinking() -> None:
    features = frozenset({"thinking", "parallel_tools"})

    free = sent(DIALECT, features=features)
    forced = sent(DIALECT, features=features, must_call="weather")

    assert free["thinking"] == {"type": "adaptive"}
    assert "tool_choice" not in free
    assert "thinking" not in forced
    assert forced["tool_choice"] == {"type": "tool", "name": "weather"}


def test_a_model_without_parallel_calls_is_asked_for_one_at_a_time() -> None:
    assert sent(DIALECT)["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "tool_choice" not in sent(DIALECT, tools=())


def test_all_results_go_back_in_one_message_in_the_order_of_the_calls() -> None:
    answer = read(
        *anthropic_call(0, "a", "{}"), *anthropic_call(1, "b", "{}"), *anthropic_end("tool_use")
    )
    results = Results(
        (
            ToolResult(call_id="a", name="weather", text="rain"),
            ToolResult(call_id="b", name="weather", text=" ", is_error=True),
        )
    )

    *_, last = sent(DIALECT, Question("Go"), answer, results)["messages"]

    assert last == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "a",
                "content": [{"type": "text", "text": "rain"}],
            },
            {
                "type": "tool_result",
                "tool_use_id": "b",
                "content": [{"type": "text", "text": "(no output)"}],
                "is_error": True,
            },
        ],
    }


def test_a_picture_goes_into_the_result_or_words_stand_for_it() -> None:
    answer = read(*anthropic_call(0, "a", "{}"), *anthropic_end("tool_use"))
    pictures = (
        Picture(media_type="image/png", data=b"png"),
        Picture(media_type="image/tiff", data=b"tiff"),
    )
    results = Results((ToolResult(call_id="a", name="w", text="see", pictures=pictures),))

    with_pictures = sent(DIALECT, Question("Go"), answer, results, features={"images"})
    without = sent(DIALECT, Question("Go"), answer, results)

    png = {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    tiff = "[a picture, image/tiff, 4 bytes: not shown to this model]"
    assert with_pictures["messages"][-1]["content"][0]["content"] == [
        {"type": "text", "text": f"see\n{tiff}"},
        {"type": "image", "source": png},
    ]
    assert without["messages"][-1]["content"][0]["content"] == [
        {
            "type": "text",
            "text": f"see\n[a picture, image/png, 3 bytes: not shown to this model]\n{tiff}",
        }
    ]


def test_empty_texts_are_left_out_with_the_messages_that_have_nothing_else() -> None:
    empty = read(*anthropic_text(0, "", " \n"), *anthropic_end("end_turn"))

    body = sent(DIALECT, Question("Go"), empty, Question(" "), Question("Well?"))

    assert [one["content"][0]["text"] for one in body["messages"]] == ["Go", "Well?"]


def test_a_call_without_its_result_is_never_sent() -> None:
    answer = read(*anthropic_call(0, "a", "{}"), *anthropic_end("tool_use"))
    other = Results((ToolResult(call_id="b", name="weather", text="rain"),))

    for history in ([answer], [answer, Question("And?")], [answer, other], [other]):
        with pytest.raises(Exception, match="expected a result for each of the calls") as error:
            sent(DIALECT, Question("Go"), *history)
        assert getattr(error.value, "code", "") == "INTERNAL"


# --- the answer -----------------------------------------------------------------------------------


def test_an_answer_has_its_text_calls_model_and_usage() -> None:
    events = anthropic(
        anthropic_start(input_tokens=10, cache_read_input_tokens=3, output_tokens=1),
        {"type": "ping"},
        *anthropic_text(0, "Let me", " see."),
        *anthropic_call(1, "a", '{"city": ', '"Rome"}'),
        *anthropic_end("tool_use", output_tokens=7),
    )

    stream = Stream()
    pieces = pieces_of(stream, events)
    answer = stream.answer()

    assert (answer.text, answer.end, answer.model) == (
        "Let me see.",
        End.TOOL_CALLS,
        "m-1-20260101",
    )
    assert answer.calls == (ToolCall(id="a", name="weather", arguments='{"city": "Rome"}'),)
    assert answer.usage == Usage(input_tokens=10, output_tokens=7, cache_read_tokens=3)
    assert answer.blocks[1] == {
        "type": "tool_use",
        "id": "a",
        "name": "weather",
        "input": {"city": "Rome"},
    }
    assert joined(pieces, "text") == "Let me see."
    assert [one.call_id for one in pieces if one.kind == "arguments"] == ["a", "a"]


def test_thinking_with_its_signature_and_redacted_thinking_go_back_unchanged() -> None:
    redacted = {"type": "redacted_thinking", "data": "EmwKA+/="}
    unknown = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"x": [1, 2.5]}]}
    events = anthropic(
        anthropic_start(),
        *anthropic_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm \ud83d\ude00\u2028"},
            {"type": "thinking_delta", "thinking": "..."},
            {"type": "signature_delta", "signature": "Eo+/=="},
        ),
        *anthropic_block(1, redacted),
        *anthropic_block(2, unknown),
        *anthropic_text(3, "Yes"),
        *anthropic_end("end_turn"),
    )
    stream = Stream()
    pieces = pieces_of(stream, events)
    answer = stream.answer()

    body = sent(DIALECT, Question("Go"), answer, Question("More"))

    thinking = {"type": "thinking", "thinking": "Hm 😀\u2028...", "signature": "Eo+/=="}
    text = {"type": "text", "text": "Yes"}
    assert body["messages"][1]["content"] == [thinking, redacted, unknown, text]
    assert joined(pieces, "thinking") == "Hm 😀\u2028..."


def test_citations_go_back_with_their_text() -> None:
    one, two = {"type": "char_location", "start": 1}, {"type": "char_location", "start": 2}
    deltas: list[Json] = [
        {"type": "citations_delta", "citation": one},
        {"type": "text_delta", "text": "A"},
    ]
    start = {"type": "text", "text": "", "citations": None}
    block = anthropic_block(0, start, *deltas, {"type": "citations_delta", "citation": two})

    answer = read(*block, *anthropic_end("end_turn"))

    assert answer.blocks == ({"type": "text", "text": "A", "citations": [one, two]},)


def test_thinking_that_was_cut_at_the_end_is_not_sent_back() -> None:
    start = {"type": "thinking", "thinking": "", "signature": ""}
    thinking = anthropic_block(0, start, {"type": "thinking_delta", "thinking": "Hm"})
    answer = read(*thinking, *anthropic_end("max_tokens"))

    body = sent(DIALECT, Question("Go"), answer, Question("Go on"))

    assert answer.end is End.MAX_TOKENS
    assert [one["role"] for one in body["messages"]] == ["user", "user"]


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("end_turn", End.END_TURN),
        ("stop_sequence", End.END_TURN),
        ("max_tokens", End.MAX_TOKENS),
        ("pause_turn", End.PAUSED),
        ("refusal", End.REFUSAL),
        ("model_context_window_exceeded", End.CONTEXT_FULL),
        ("tool_use", End.END_TURN),  # without a call there is nothing to wait for
    ],
)
def test_each_reason_is_an_end(reason: str, end: End) -> None:
    answer = read(*anthropic_text(0, "So"), *anthropic_end(reason))

    assert answer.end is end
    assert answer.refusal == ("So" if end is End.REFUSAL else "")


@pytest.mark.parametrize(
    "reported",
    [
        {},
        {"usage": None},
        {"usage": {}},
        {"usage": {"input_tokens": 10}},
        {"usage": {"output_tokens": None}},
        {"usage": {"output_tokens": -1}},
    ],
)
def test_what_a_message_starts_with_is_no_report_of_an_answer_that_ends_without_one(
    reported: dict[str, Any],
) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, **reported}

    answer = answered(
        Stream(),
        anthropic(
            anthropic_start(input_tokens=10, output_tokens=1),
            *anthropic_text(0, "a" * 999),
            end,
            {"type": "message_stop"},
        ),
    )

    assert answer.usage == Usage()


def test_a_refusal_says_why_if_the_provider_does() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    delta = {"stop_reason": "refusal", "stop_details": details}

    answer = read({"type": "message_delta", "delta": delta}, {"type": "message_stop"})

    assert (answer.end, answer.refusal, answer.text) == (End.REFUSAL, "Not this.", "")


def test_a_paused_answer_goes_back_as_the_end_of_the_history() -> None:
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
    answer = read(*anthropic_block(0, search), *anthropic_end("pause_turn"))

    body = sent(DIALECT, Question("Go"), answer)

    assert (answer.end, answer.calls) == (End.PAUSED, ())
    assert body["messages"][-1] == {"role": "assistant", "content": [search]}


def test_half_arguments_stay_half_in_the_call_and_can_go_back() -> None:
    answer = read(*anthropic_call(0, "a", '{"city": "Ro'), *anthropic_end("max_tokens"))

    body = sent(DIALECT, Question("Go"), answer, results_for(answer))

    assert answer.end is End.MAX_TOKENS
    assert answer.calls[0].arguments == '{"city": "Ro'
    assert body["messages"][1]["content"][0]["input"] == {"INVALID_JSON": '{"city": "Ro'}


def test_a_call_without_arguments_has_an_empty_object() -> None:
    answer = read(*anthropic_call(0, "a"), *anthropic_call(1, "b", ""), *anthropic_end("tool_use"))

    assert [one.arguments for one in answer.calls] == ["{}", "{}"]
    assert [one["input"] for one in answer.blocks] == [{}, {}]


def test_arguments_that_come_with_the_start_of_a_block_count() -> None:
    start = {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Rome"}}

    answer = read(*anthropic_block(0, start), *anthropic_end("tool_use"))

    assert answer.calls[0].arguments == '{"city":"Rome"}'


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_stream_without_message_stop_is_no_answer(cut: int) -> None:
    events = anthropic(
        anthropic_start(), *anthropic_call(0, "a", '{"a"', ": 1}"), *anthropic_end("tool_use")
    )
    stream = Stream()
    pieces_of(stream, events[: min(cut, len(events) - 1)])

    with pytest.raises(CutError) as error:
        stream.answer()

    assert (error.value.code, error.value.is_retryable) == ("STREAM_CUT", True)


def test_an_error_within_the_stream_can_be_tried_again_if_the_provider_is_overloaded() -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    events = anthropic(anthropic_start(), {"type": "error", "error": error})

    with pytest.raises(ProviderError) as raised:
        pieces_of(Stream(), events)

    assert (raised.value.code, raised.value.is_retryable) == ("PROVIDER_UNAVAILABLE", True)
    assert str(raised.value) == (
        "provider: expected an answer, found an error within its answer (overloaded_error):"
        " Overloaded"
    )


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (anthropic_text(1, "a"), "content_block_start.index: expected 0, found 1"),
        (
            [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}],
            "index: expected an open block, found 0",
        ),
        (
            [*anthropic_text(0), {"type": "content_block_stop", "index": 0}],
            "index: expected an open block, found 0",
        ),
        (
            anthropic_block(0, {"type": "text"}, {"type": "new_delta", "x": 1}),
            "delta.type: found 'new_delta' in a block of type 'text'",
        ),
        (
            anthropic_block(0, {"type": "text"}, {"type": "thinking_delta", "thinking": "x"}),
            "delta.type: found 'thinking_delta' in a block of type 'text'",
        ),
        (
            [*anthropic_call(0, "a"), *anthropic_call(1, "a")],
            "content_block_start.content_block.id: expected an id for each call, found 'a' twice",
        ),
        (anthropic_call(0, ""), "content_block.id: expected a text, found "),
        (anthropic_call(0, "a", name=""), "content_block.name: expected a text, found "),
        (
            anthropic_block(0, {"type": "text"}, {"type": "text_delta", "text": 5}),
            "delta.text: expected a string, found 5",
        ),
        ([{"type": "message_delta", "delta": []}], "delta: expected a mapping, found []"),
        (anthropic_end("tired"), "message_delta.delta.stop_reason: expected one of end_turn,"),
        ([{"type": "message_stop"}], "message_delta.delta.stop_reason: expected one of end_turn,"),
    ],
)
def test_what_breaks_the_dialect_is_an_error_that_names_the_place(
    events: list[Json], problem: str
) -> None:
    with pytest.raises(ProviderError) as error:
        read(*events)

    assert error.value.code == "PROVIDER_INVALID"
    assert str(error.value).startswith(f"answer of the provider: {problem}")


def test_usage_that_starts_at_nothing_takes_the_larger_figures_of_the_end() -> None:
    events = anthropic(
        anthropic_start(input_tokens=0, output_tokens=0),
        *anthropic_text(0, "So"),
        *anthropic_end("end_turn", input_tokens=30, output_tokens=4),
    )

    assert answered(Stream(), events).usage == Usage(input_tokens=30, output_tokens=4)
