"""The dialect of OpenAI's Responses API."""

from typing import Any

import pytest

from ryeos.agent.dialects.openai_responses import PATH, Stream, headers
from ryeos.agent.messages import (
    Answer,
    End,
    Picture,
    Question,
    Results,
    ToolCall,
    ToolResult,
    Usage,
)
from ryeos.agent.provider_errors import CutError, ProviderError
from tests.support.model_streams import (
    Json,
    answered,
    joined,
    pieces_of,
    responses,
    responses_call,
    responses_end,
    responses_item,
    responses_message,
    results_for,
    sent,
)

DIALECT = "openai-responses"
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "gAAAA+/==",
}


def read(*items: Json, **response: Any) -> Answer:  # noqa: ANN401
    """The answer of a stream with these items, each whole."""
    events = [event for index, item in enumerate(items) for event in responses_item(index, item)]
    return answered(Stream(), responses(*events, responses_end(items, **response)))


# --- the request ----------------------------------------------------------------------------------


def test_the_key_is_a_bearer_and_a_local_server_gets_none() -> None:
    assert PATH == "/responses"
    assert headers("k")["authorization"] == "Bearer k"
    assert "authorization" not in headers("")


def test_nothing_is_stored_and_a_thinking_model_gives_its_thoughts_encrypted() -> None:
    plain, thinking = sent(DIALECT), sent(DIALECT, features={"thinking"})

    assert plain["store"] is False
    assert "include" not in plain
    assert thinking["include"] == ["reasoning.encrypted_content"]


def test_a_request_has_tools_instructions_and_input_before_what_changes() -> None:
    body = sent(DIALECT)

    assert list(body)[:4] == ["model", "tools", "instructions", "input"]
    assert body["instructions"] == "Be brief."
    assert body["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}
    ]
    assert (body["max_output_tokens"], body["stream"]) == (1000, True)
    assert body["parallel_tool_calls"] is False


def test_a_tool_is_not_strict_so_that_optional_parameters_stay_optional() -> None:
    (tool,) = sent(DIALECT)["tools"]

    assert (tool["type"], tool["name"], tool["strict"]) == ("function", "weather", False)


def test_requests_with_the_same_beginning_share_a_cache_key() -> None:
    features = {"cache"}
    first = sent(DIALECT, features=features)["prompt_cache_key"]

    assert sent(DIALECT, Question("Other"), features=features)["prompt_cache_key"] == first
    assert sent(DIALECT, system="Other", features=features)["prompt_cache_key"] != first
    assert "prompt_cache_key" not in sent(DIALECT)


def test_a_call_can_be_forced() -> None:
    forced = sent(DIALECT, must_call="weather")["tool_choice"]

    assert forced == {"type": "function", "name": "weather"}


def test_encrypted_reasoning_calls_and_messages_go_back_as_they_came() -> None:
    items = [REASONING, responses_message("Let me see."), responses_call("c", '{"city": "Rome"}')]
    answer = read(*items)

    body = sent(DIALECT, Question("Go"), answer, results_for(answer, "rain"))

    assert body["input"][1:] == [
        *items,
        {"type": "function_call_output", "call_id": "c", "output": "rain"},
    ]


def test_reasoning_that_is_only_a_reference_stays_out_with_the_ids_that_belong_to_it() -> None:
    bare: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    call = responses_call("c", "{}")
    answer = read(bare, call)

    body = sent(DIALECT, Question("Go"), answer, results_for(answer))

    assert body["input"][1] == {key: value for key, value in call.items() if key != "id"}


def test_empty_messages_and_questions_are_left_out() -> None:
    empty = read(responses_message(" "))

    body = sent(DIALECT, Question("Go"), empty, Question(""), Question("Well?"))

    assert [one["content"][0]["text"] for one in body["input"]] == ["Go", "Well?"]


def test_an_error_is_marked_in_the_text_and_an_empty_result_is_not_empty() -> None:
    answer = read(responses_call("a", "{}"), responses_call("b", "{}"))
    results = Results(
        (
            ToolResult(call_id="a", name="weather", text="no such city", is_error=True),
            ToolResult(call_id="b", name="weather", text=""),
        )
    )

    body = sent(DIALECT, Question("Go"), answer, results)

    outputs = [one["output"] for one in body["input"][-2:]]
    assert outputs == ["Error: no such city", "(no output)"]


def test_a_picture_goes_into_the_result_or_words_stand_for_it() -> None:
    answer = read(responses_call("a", "{}"))
    picture = Picture(media_type="image/png", data=b"png")
    results = Results((ToolResult(call_id="a", name="w", text="see", pictures=(picture,)),))

    shown = sent(DIALECT, Question("Go"), answer, results, features={"images"})["input"][-1]
    hidden = sent(DIALECT, Question("Go"), answer, results)["input"][-1]

    assert shown["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,cG5n", "detail": "auto"},
    ]
    assert hidden["output"] == "see\n[a picture, image/png, 3 bytes: not shown to this model]"


# --- the answer -----------------------------------------------------------------------------------


def test_an_answer_has_its_text_calls_model_and_usage() -> None:
    message, call = responses_message("Let me see."), responses_call("c", '{"city": "Rome"}')
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 80},
        "output_tokens": 7,
        "total_tokens": 107,
    }
    events = responses(
        {"type": "response.created", "response": {"model": "m-1", "status": "in_progress"}},
        *responses_item(
            0, REASONING, {"type": "response.reasoning_summary_text.delta", "delta": "Hm"}
        ),
        *responses_item(
            1,
            message,
            {"type": "response.output_text.delta", "delta": "Let me"},
            {"type": "response.output_text.delta", "delta": " see."},
            {"type": "response.output_text.annotation.added", "annotation": {}},
        ),
        *responses_item(
            2,
            call,
            {"type": "response.function_call_arguments.delta", "delta": '{"city": "Ro'},
            {"type": "response.function_call_arguments.delta", "delta": 'me"}'},
        ),
        responses_end([REASONING, message, call], usage=usage),
    )

    stream = Stream()
    pieces = pieces_of(stream, events)
    answer = stream.answer()

    assert (answer.text, answer.end, answer.model) == ("Let me see.", End.TOOL_CALLS, "m-1")
    assert answer.calls == (ToolCall(id="c", name="weather", arguments='{"city": "Rome"}'),)
    assert answer.usage == Usage(input_tokens=20, output_tokens=7, cache_read_tokens=80)
    assert joined(pieces, "thinking") == "Hm"
    assert joined(pieces, "text") == "Let me see."
    assert [one.call_id for one in pieces if one.kind == "arguments"] == ["c", "c"]


def test_a_server_that_sends_no_items_gives_them_at_the_end() -> None:
    items = [responses_message("Yes"), responses_call("c", "{}")]

    answer = answered(Stream(), responses(responses_end(items)))

    assert (answer.text, len(answer.calls), len(answer.blocks)) == ("Yes", 1, 2)


@pytest.mark.parametrize(
    ("reason", "end"), [("max_output_tokens", End.MAX_TOKENS), ("content_filter", End.REFUSAL)]
)
def test_an_incomplete_response_ends_as_its_reason_says(reason: str, end: End) -> None:
    call = responses_call("c", '{"city": "Ro')
    details = {"reason": reason}

    answer = read(call, kind="incomplete", incomplete_details=details)

    assert answer.end is end
    assert answer.calls[0].arguments == '{"city": "Ro'
    assert answer.blocks[0]["arguments"] == '{"INVALID_JSON":"{\\"city\\": \\"Ro"}'


def test_a_refusal_is_an_end_of_its_own() -> None:
    events = [
        *responses_item(
            0,
            responses_message("I cannot.", "refusal"),
            {"type": "response.refusal.delta", "delta": "I cannot."},
        ),
        responses_end([]),
    ]

    answer = answered(Stream(), responses(*events))

    assert (answer.end, answer.refusal, answer.text) == (End.REFUSAL, "I cannot.", "")


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert read(responses_call("c", "")).calls[0].arguments == "{}"


def test_usage_that_is_missing_is_unknown() -> None:
    assert read(responses_message("Yes"), usage=None).usage == Usage()


@pytest.mark.parametrize("cut", range(5))
def test_a_stream_without_its_last_event_is_no_answer(cut: int) -> None:
    deltas = ({"type": "response.function_call_arguments.delta", "delta": text} for text in "{}")
    events = responses_item(0, responses_call("c", "{}"), *deltas)
    stream = Stream()
    pieces_of(stream, responses(*events[:cut]))

    with pytest.raises(CutError, match=r"expected response\.completed at its end"):
        stream.answer()


@pytest.mark.parametrize(
    ("event", "code", "is_retryable"),
    [
        (
            responses_end([], "failed", error={"code": "server_error", "message": "Sorry"}),
            "PROVIDER_UNAVAILABLE",
            True,
        ),
        (
            responses_end([], "failed", error={"code": "invalid_prompt", "message": "No"}),
            "PROVIDER_REFUSED",
            False,
        ),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "Slow", "param": None},
            "PROVIDER_UNAVAILABLE",
            True,
        ),
        (
            {"type": "error", "error": {"code": "context_length_exceeded", "message": "Long"}},
            "CONTEXT_FULL",
            False,
        ),
    ],
)
def test_a_failed_response_and_an_error_event_are_errors(
    event: Json, code: str, *, is_retryable: bool
) -> None:
    with pytest.raises(ProviderError) as error:
        pieces_of(Stream(), responses(event))

    assert (error.value.code, error.value.is_retryable) == (code, is_retryable)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (responses_item(1, REASONING), "output_index: expected 0, found 1"),
        (
            [*responses_item(0, REASONING), responses_item(0, REASONING)[-1]],
            "output_index: expected an item that has begun, found 0",
        ),
        (
            [{"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "x"}],
            "output_index: expected an item that has begun, found 3",
        ),
        (
            [{"type": "response.output_item.done", "output_index": 0, "item": {}}],
            "output[0].type: expected a text, found null",
        ),
        (
            [responses_end([responses_call("c", "{}"), responses_call("c", "{}")])],
            "response.output[1].call_id: expected an id for each call, found 'c' twice",
        ),
        (
            [responses_end([responses_call("", "{}")])],
            'response.output[0].call_id: expected a text, found ""',
        ),
        (
            [responses_end([{**responses_call("c", ""), "arguments": {}}])],
            "response.output[0].arguments: expected a string, found {}",
        ),
        ([responses_end([], output=["x"])], 'response.output[0]: expected an object, found "x"'),
        (
            [responses_end([], "incomplete", incomplete_details={"reason": "tired"})],
            "response.incomplete_details.reason: expected max_output_tokens or content_filter",
        ),
    ],
)
def test_what_breaks_the_dialect_is_an_error_that_names_the_place(
    events: list[Json], problem: str
) -> None:
    with pytest.raises(ProviderError) as error:
        answered(Stream(), responses(*events))

    assert error.value.code == "PROVIDER_INVALID"
    assert str(error.value).startswith(f"answer of the provider: {problem}")
