"""The dialect of OpenAI's Chat Completions, and what its many servers do differently."""

from time import process_time

import pytest

from ryeos.agent.dialects.openai_chat import PATH, Stream, headers
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
    DONE,
    Json,
    answered,
    chat,
    chat_call,
    chat_chunk,
    joined,
    pieces_of,
    results_for,
    sent,
)

DIALECT = "openai-chat"
ROME, OSLO = '{"city": "Rome"}', '{"city": "Oslo"}'
WEATHERS = (
    ToolCall(id="a", name="weather", arguments=ROME),
    ToolCall(id="b", name="weather", arguments=OSLO),
)


def read(*deltas: Json, reason: str = "stop", usage: Json | None = None) -> Answer:
    """The answer of a whole stream with these deltas."""
    return answered(Stream(), chat(*deltas, reason=reason, usage=usage))


# --- the request ----------------------------------------------------------------------------------


def test_the_key_is_a_bearer_and_a_local_server_gets_none() -> None:
    assert PATH == "/chat/completions"
    assert headers("k")["authorization"] == "Bearer k"
    assert "authorization" not in headers("")


def test_a_request_has_tools_and_messages_before_what_changes_and_asks_for_the_usage() -> None:
    body = sent(DIALECT)

    assert list(body)[:3] == ["model", "tools", "messages"]
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go"},
    ]
    assert body["stream_options"] == {"include_usage": True}
    assert (body["max_tokens"], body["stream"]) == (1000, True)


def test_the_limit_has_the_newer_name_where_the_model_wants_it() -> None:
    body = sent(DIALECT, features={"max_completion_tokens"})

    assert body["max_completion_tokens"] == 1000
    assert "max_tokens" not in body


def test_a_call_can_be_forced() -> None:
    forced = sent(DIALECT, must_call="weather")["tool_choice"]

    assert forced == {"type": "function", "function": {"name": "weather"}}


def test_each_result_is_a_message_and_an_error_is_marked_in_its_text() -> None:
    answer = read(chat_call(0, "a", "weather", ROME), chat_call(1, "b", "weather", OSLO))
    results = Results(
        (
            ToolResult(call_id="a", name="weather", text=""),
            ToolResult(call_id="b", name="weather", text="no such city", is_error=True),
        )
    )

    body = sent(DIALECT, Question("Go"), answer, results)

    assert body["messages"][2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": "weather", "arguments": call.arguments},
                }
                for call in WEATHERS
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "(no output)"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no such city"},
    ]


def test_pictures_of_results_follow_in_a_message_of_the_user_or_words_stand_for_them() -> None:
    answer = read(chat_call(0, "a", "weather", ROME), chat_call(1, "b", "weather", OSLO))
    picture = Picture(media_type="image/png", data=b"png")
    results = Results(
        (
            ToolResult(call_id="a", name="weather", text="see", pictures=(picture,)),
            ToolResult(call_id="b", name="weather", text="rain"),
        )
    )

    shown = sent(DIALECT, Question("Go"), answer, results, features={"images"})["messages"]
    hidden = sent(DIALECT, Question("Go"), answer, results)["messages"]

    assert [one["role"] for one in shown[-3:]] == ["tool", "tool", "user"]
    assert shown[-1]["content"] == [
        {"type": "text", "text": "A picture in the result of weather (a):"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
    ]
    assert [one["role"] for one in hidden[-2:]] == ["tool", "tool"]
    words = "see\n[a picture, image/png, 3 bytes: not shown to this model]"
    assert hidden[-2]["content"] == words


def test_empty_messages_are_left_out() -> None:
    body = sent(DIALECT, Question("Go"), read({"content": " "}), Question(""), system="")

    assert body["messages"] == [{"role": "user", "content": "Go"}]


# --- the answer -----------------------------------------------------------------------------------


def test_an_answer_has_its_text_calls_model_and_usage() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 80},
    }
    events = chat(
        {"role": "assistant", "content": ""},
        {"content": "Let me"},
        {"content": " see."},
        chat_call(0, "a", "weather", ""),
        chat_call(0, "", "", '{"city":'),
        chat_call(0, "", "", ' "Rome"}'),
        reason="tool_calls",
        usage=usage,
    )

    stream = Stream()
    pieces = pieces_of(stream, events)
    answer = stream.answer()

    assert (answer.text, answer.end, answer.model) == ("Let me see.", End.TOOL_CALLS, "m-1")
    assert answer.calls == WEATHERS[:1]
    assert answer.usage == Usage(input_tokens=20, output_tokens=7, cache_read_tokens=80)
    assert joined(pieces, "text") == "Let me see."
    assert joined(pieces, "arguments") == ROME
    assert {one.call_id for one in pieces if one.kind == "arguments"} == {"a"}


def test_openai_sends_parts_of_several_calls_by_their_index() -> None:
    answer = read(
        chat_call(0, "a", "weather", ""),
        chat_call(1, "b", "weather", ""),
        chat_call(0, "", "", ROME[:5]),
        chat_call(1, "", "", OSLO),
        chat_call(0, "", "", ROME[5:]),
    )

    assert answer.calls == WEATHERS


def test_ollama_sends_whole_calls_without_an_index() -> None:
    together = {
        "tool_calls": [
            *chat_call(None, "a", "weather", ROME)["tool_calls"],
            *chat_call(None, "b", "weather", OSLO)["tool_calls"],
        ]
    }

    assert read(together, reason="stop").calls == WEATHERS
    assert read(together, reason="stop").end is End.TOOL_CALLS


def test_calls_without_an_index_or_an_id_are_kept_apart_and_get_an_id() -> None:
    answer = read(
        chat_call(None, "", "weather", ROME),
        chat_call(None, "", "weather", OSLO),
        chat_call(None, "", "weather", OSLO),
    )

    assert [one.arguments for one in answer.calls] == [ROME, OSLO, OSLO]
    assert len({one.id for one in answer.calls}) == 3
    assert [one["id"] for one in answer.blocks[0]["tool_calls"]] == [one.id for one in answer.calls]


@pytest.mark.parametrize("has_ids", [True, False])
def test_litellm_sends_every_call_at_index_0(*, has_ids: bool) -> None:
    answer = read(
        chat_call(0, "a" if has_ids else "", "weather", ""),
        chat_call(0, "", "", ROME),
        chat_call(0, "b" if has_ids else "", "weather", OSLO[:4]),
        chat_call(0, "", "", OSLO[4:]),
    )

    assert [one.arguments for one in answer.calls] == [ROME, OSLO]


@pytest.mark.parametrize("call_id", ["", "a"])
@pytest.mark.parametrize("index", [None, 0])
def test_vllm_repeats_the_name_and_perhaps_the_id_in_each_part(
    call_id: str, index: int | None
) -> None:
    parts = ["", '{"city"', ": ", '"Rome"}', ""]

    answer = read(*(chat_call(index, call_id, "weather", part) for part in parts))

    assert [(one.name, one.arguments) for one in answer.calls] == [("weather", ROME)]


def test_a_new_id_in_each_part_of_a_call_does_not_tear_it() -> None:
    answer = read(
        chat_call(0, "a", "weather", '{"city": '),
        chat_call(0, "x", "", '"Rome"'),
        chat_call(0, "y", "", "}"),
    )

    assert answer.calls == WEATHERS[:1]


def test_an_id_may_follow_its_call() -> None:
    answer = read(chat_call(0, "", "weather", ""), chat_call(0, "a", "", ROME))

    assert answer.calls == WEATHERS[:1]


def test_names_that_are_repeated_without_end_do_not_slow_a_stream_down() -> None:
    parts = [chat_call(None, "", "weather", text) for text in ['{"a": "', *["{"] * 20_000, '"}']]
    stream = Stream()
    begun = process_time()

    answer = answered(stream, chat(*parts))

    assert process_time() - begun < 10  # a second, and not a minute
    assert answer.calls[0].arguments == '{"a": "' + "{" * 20_000 + '"}'


def test_llama_cpp_sends_arguments_as_an_object() -> None:
    answer = read(chat_call(0, "a", "weather", {"city": "Rome"}))

    assert answer.calls[0].arguments == '{"city":"Rome"}'
    assert answer.blocks[0]["tool_calls"][0]["function"]["arguments"] == '{"city":"Rome"}'


@pytest.mark.parametrize("arguments", [None, "", " "])
def test_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    assert read(chat_call(0, "a", "weather", arguments)).calls[0].arguments == "{}"


def test_half_arguments_stay_half_in_the_call_and_can_go_back() -> None:
    answer = read(chat_call(0, "a", "weather", '{"city": "Ro'), reason="length")

    body = sent(DIALECT, Question("Go"), answer, results_for(answer))

    assert (answer.end, answer.calls[0].arguments) == (End.MAX_TOKENS, '{"city": "Ro')
    returned = body["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert returned == '{"INVALID_JSON":"{\\"city\\": \\"Ro"}'


def test_geminis_signature_of_a_call_goes_back_with_it() -> None:
    signature = {"extra_content": {"google": {"thought_signature": "AY8+/="}}}
    call = chat_call(0, "a", "weather", ROME)
    signed = {"tool_calls": [{**call["tool_calls"][0], **signature}], **signature}
    answer = read(signed)

    message = sent(DIALECT, Question("Go"), answer, results_for(answer))["messages"][-2]

    assert message["tool_calls"][0]["extra_content"] == signature["extra_content"]
    assert message["extra_content"] == signature["extra_content"]


def test_openrouters_reasoning_details_go_back_whole() -> None:
    text = {"type": "reasoning.text", "index": 0, "format": "x"}
    secret = {"type": "reasoning.encrypted", "index": 0, "data": "gAA", "id": "r"}
    answer = read(
        {"reasoning": "Hm", "reasoning_details": [{**text, "text": "Hm", "signature": None}]},
        {"reasoning": ".", "reasoning_details": [{**text, "text": "."}]},
        {"reasoning_details": [{**text, "signature": "Eo+"}, secret, {**secret, "data": "gBB"}]},
        {"content": "Yes"},
    )

    message = sent(DIALECT, Question("Go"), answer, Question("More"))["messages"][2]

    whole = {**text, "text": "Hm.", "signature": "Eo+"}
    assert message["reasoning_details"] == [whole, secret, {**secret, "data": "gBB"}]
    assert "reasoning" not in message


def test_thinking_as_text_goes_back_only_to_a_model_that_takes_it() -> None:
    events = chat({"reasoning_content": "Hm"}, {"reasoning_content": "."}, {"content": "Yes"})
    stream = Stream()
    pieces = pieces_of(stream, events)
    history = (Question("Go"), stream.answer(), Question("More"))

    taken = sent(DIALECT, *history, features={"thinking"})["messages"][2]
    refused = sent(DIALECT, *history)["messages"][2]

    assert joined(pieces, "thinking") == "Hm."
    assert taken == {"role": "assistant", "content": "Yes", "reasoning_content": "Hm."}
    assert refused == {"role": "assistant", "content": "Yes"}


def test_a_refusal_is_an_end_of_its_own() -> None:
    said = read({"refusal": "I "}, {"refusal": "cannot."})
    filtered = read({"content": "Well"}, reason="content_filter")

    assert (said.end, said.refusal) == (End.REFUSAL, "I cannot.")
    assert (filtered.end, filtered.refusal) == (End.REFUSAL, "Well")


@pytest.mark.parametrize(
    ("reason", "end"),
    [("stop", End.END_TURN), ("tool_calls", End.END_TURN), ("length", End.MAX_TOKENS)],
)
def test_each_reason_is_an_end(reason: str, end: End) -> None:
    assert read({"content": "So"}, reason=reason).end is end


def test_usage_is_unknown_where_a_server_sends_none_and_the_last_where_it_sends_many() -> None:
    stop = {"index": 0, "delta": {"content": "So"}, "finish_reason": "stop"}
    without = [chat_chunk(stop, usage=None), DONE]
    sums = [
        chat_chunk(usage={"prompt_tokens": 9, "completion_tokens": 1}),
        chat_chunk(stop, usage={"prompt_tokens": 9, "completion_tokens": 2}),
        DONE,
    ]

    assert answered(Stream(), without).usage == Usage()
    assert answered(Stream(), sums).usage == Usage(input_tokens=9, output_tokens=2)


@pytest.mark.parametrize("missing", ["finish_reason", "[DONE]", "both"])
def test_without_a_reason_and_done_a_stream_is_no_answer(missing: str) -> None:
    events = chat(chat_call(0, "a", "weather", '{"ci'))
    if missing != "[DONE]":
        del events[1]
    if missing != "finish_reason":
        events.pop()
    stream = Stream()
    pieces_of(stream, events)

    with pytest.raises(CutError):
        stream.answer()


@pytest.mark.parametrize(
    ("event", "code", "is_retryable"),
    [
        (chat_chunk(error={"code": 502, "message": "Down"}), "PROVIDER_UNAVAILABLE", True),
        (chat_chunk(error={"code": 400, "message": "Bad"}), "PROVIDER_REFUSED", False),
        (("error", '{"code": 500, "message": "Slot"}'), "PROVIDER_UNAVAILABLE", True),
    ],
)
def test_an_error_within_the_stream_is_an_error(
    event: tuple[str, str], code: str, *, is_retryable: bool
) -> None:
    with pytest.raises(ProviderError) as error:
        pieces_of(Stream(), [event])

    assert (error.value.code, error.value.is_retryable) == (code, is_retryable)


@pytest.mark.parametrize(
    ("deltas", "problem"),
    [
        (
            [chat_call(1, "a", "weather", "")],
            "choices[0].delta.tool_calls[0].index: expected at most 0, found 1",
        ),
        (
            [chat_call(0, "a", "weather", ROME), chat_call(1, "a", "weather", OSLO)],
            "choices[0].delta.tool_calls[0].id: expected an id for each call, found 'a' twice",
        ),
        (
            [chat_call(None, "a", "weather", ROME), chat_call(None, "a", "weather", OSLO)],
            "choices[0].delta.tool_calls[0].id: expected an id for each call, found 'a' twice",
        ),
        (
            [chat_call(0, "a", "weather", ROME), chat_call(0, "a", "time", "{}")],
            "choices[0].delta.tool_calls[0].id: expected an id for each call, found 'a' twice",
        ),
        (
            [chat_call(0, "a", "", "")],
            "choices[0].delta.tool_calls[0].function.name: expected a text, found null",
        ),
        (
            [chat_call(0, "a", "weather", 5)],
            "choices[0].delta.tool_calls[0].function.arguments: expected a text or an object",
        ),
        (
            [{"tool_calls": [{"index": -1}]}],
            "choices[0].delta.tool_calls[0].index: expected a whole number from 0 to 100000",
        ),
        (
            [{"content": [{"text": "x"}]}],
            'choices[0].delta.content: expected a string, found [{"text": "x"}]',
        ),
        ([{"tool_calls": {}}], "choices[0].delta.tool_calls: expected a list, found {}"),
    ],
)
def test_what_breaks_the_dialect_is_an_error_that_names_the_place(
    deltas: list[Json], problem: str
) -> None:
    with pytest.raises(ProviderError) as error:
        read(*deltas)

    assert error.value.code == "PROVIDER_INVALID"
    assert str(error.value).startswith(f"answer of the provider: {problem}")


def test_an_unknown_reason_and_a_second_choice_are_refused() -> None:
    with pytest.raises(ProviderError, match=r"finish_reason: expected one of stop, .* 'tired'"):
        read({"content": "So"}, reason="tired")
    with pytest.raises(ProviderError, match=r"choices\[0\]\.index: expected 0, found 1"):
        pieces_of(Stream(), [chat_chunk({"index": 1, "delta": {}})])
