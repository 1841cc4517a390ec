"""Streams of answers of models, written as the providers' specifications say, and read."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from lillux.sse import EventParser
from ryeos.agent.dialects import DIALECTS, AnswerStream, load
from ryeos.agent.messages import (
    Answer,
    Entry,
    Piece,
    Question,
    Request,
    Results,
    ToolOffer,
    ToolResult,
)

Json: TypeAlias = dict[str, Any]
Event: TypeAlias = tuple[str, str]
"""The type of an event, ``message`` without one, and its data."""

WEATHER = ToolOffer(
    name="weather",
    description="The weather of a city.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)


def a_request(*history: Entry, **changes: Any) -> Request:  # noqa: ANN401
    """A request with a history, the question "Go" unless given."""
    standard: Json = {
        "model": "m-1",
        "system": "Be brief.",
        "history": history or (Question("Go"),),
        "tools": (WEATHER,),
        "max_tokens": 1000,
    }
    return Request(**{**standard, **changes})


def sent(dialect: str, *history: Entry, **changes: Any) -> Json:  # noqa: ANN401
    """The body of such a request, read again."""
    request = a_request(*history, **changes)
    body: Json = json.loads(load(dialect).body(request, DIALECTS[dialect].schema))
    return body


def answered(stream: AnswerStream, events: Iterable[Event]) -> Answer:
    """The answer of a whole stream."""
    pieces_of(stream, events)
    return stream.answer()


def pieces_of(stream: AnswerStream, events: Iterable[Event]) -> list[Piece]:
    """All pieces that a follower of a stream gets."""
    return [piece for event, data in events for piece in stream.feed(event, data)]


def joined(pieces: Iterable[Piece], kind: str) -> str:
    """The text of all pieces of a kind."""
    return "".join(piece.text for piece in pieces if piece.kind == kind)


def as_bytes(events: Iterable[Event]) -> bytes:
    """The events as a server sends them."""
    return b"".join(f"event: {event}\ndata: {data}\n\n".encode() for event, data in events)


def from_bytes(chunks: Iterable[bytes]) -> list[Event]:
    """The events of a stream that came in such chunks."""
    parser = EventParser()
    return [(one.event, one.data) for chunk in chunks for one in parser.feed(chunk)]


def results_for(answer: Answer, text: str = "fine") -> Results:
    """A result for each call of an answer."""
    return Results(
        tuple(ToolResult(call_id=one.id, name=one.name, text=text) for one in answer.calls)
    )


# --- anthropic-messages ---------------------------------------------------------------------------


def anthropic(*events: Json) -> list[Event]:
    """Events with the type in the event line and in the data, as this provider sends them."""
    return [(event["type"], json.dumps(event)) for event in events]


def anthropic_start(**usage: int) -> Json:
    """The first event."""
    message = {"id": "msg_1", "role": "assistant", "model": "m-1-20260101", "content": []}
    return {"type": "message_start", "message": {**message, "usage": usage or {"input_tokens": 9}}}


def anthropic_block(index: int, start: Json, *deltas: Json) -> list[Json]:
    """The events of one block."""
    place = {"index": index}
    return [
        {"type": "content_block_start", **place, "content_block": start},
        *({"type": "content_block_delta", **place, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **place},
    ]


def anthropic_text(index: int, *texts: str) -> list[Json]:
    """A block of text."""
    deltas = ({"type": "text_delta", "text": text} for text in texts)
    return anthropic_block(index, {"type": "text", "text": ""}, *deltas)


def anthropic_call(index: int, call_id: str, *arguments: str, name: str = "weather") -> list[Json]:
    """A block that calls a tool."""
    deltas = ({"type": "input_json_delta", "partial_json": text} for text in arguments)
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return anthropic_block(index, start, *deltas)


def anthropic_end(reason: str, **usage: int) -> list[Json]:
    """The last two events."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": usage or {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


# --- openai-responses -----------------------------------------------------------------------------


def responses(*events: Json) -> list[Event]:
    """Events with the type in the event line and in the data, as this provider sends them."""
    return [
        (event["type"], json.dumps({**event, "sequence_number": number}))
        for number, event in enumerate(events)
    ]


def responses_item(index: int, item: Json, *deltas: Json) -> list[Json]:
    """The events of one item, which begins without its content."""
    place = {"output_index": index}
    begun = {**item, "status": "in_progress"}
    return [
        {"type": "response.output_item.added", **place, "item": begun},
        *({**delta, **place, "item_id": item.get("id", "")} for delta in deltas),
        {"type": "response.output_item.done", **place, "item": item},
    ]


def responses_message(text: str, kind: str = "output_text") -> Json:
    """A message with one text."""
    field = {"output_text": "text", "refusal": "refusal"}[kind]
    content = [{"type": kind, field: text}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


def responses_call(call_id: str, arguments: str, name: str = "weather") -> Json:
    """An item that calls a tool."""
    known = {"type": "function_call", "id": f"fc_{call_id}", "status": "completed"}
    return {**known, "call_id": call_id, "name": name, "arguments": arguments}


def responses_end(items: Sequence[Json], kind: str = "completed", **response: Any) -> Json:  # noqa: ANN401
    """The last event."""
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    known = {"id": "resp_1", "model": "m-1", "status": kind, "output": list(items), "usage": usage}
    return {"type": f"response.{kind}", "response": {**known, **response}}


# --- openai-chat ----------------------------------------------------------------------------------

DONE: Event = ("message", "[DONE]")


def chat(*deltas: Json, reason: str = "stop", usage: Json | None = None) -> list[Event]:
    """A whole stream with these deltas."""
    known = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return [
        *(chat_chunk({"index": 0, "delta": delta, "finish_reason": None}) for delta in deltas),
        chat_chunk({"index": 0, "delta": {}, "finish_reason": reason}),
        chat_chunk(usage=known if usage is None else usage),
        DONE,
    ]


def chat_chunk(*choices: Json, **more: Any) -> Event:  # noqa: ANN401
    """One chunk."""
    known = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1"}
    return "message", json.dumps({**known, "choices": list(choices), **more})


def chat_call(index: int | None, call_id: str, name: str, arguments: object) -> Json:
    """A delta with a part of one call; what is None or ``""`` is left out."""
    place = {} if index is None else {"index": index}
    names = {"id": call_id, "type": "function"} if call_id else {}
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return {"tool_calls": [{**place, **names, "function": function}]}
