"""The dialect of OpenAI's Responses API, also that of Open Responses. Pure.

An answer is a list of items: reasoning, messages, calls. Each is whole in its
``response.output_item.done``; the deltas before it are for readers. Nothing is stored at the
provider (``store: false``), so reasoning goes back with its encrypted content, or not at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lillux.digests import sha256_hex
from ryeos.agent.dialects import DIALECTS
from ryeos.agent.dialects.wire import (
    EventReader,
    Part,
    auth_headers,
    body_bytes,
    data_url,
    end_with,
    marked_text,
    require_new_id,
    returnable_text,
    wire_json,
)
from ryeos.agent.messages import (
    Answer,
    End,
    Entry,
    Piece,
    Question,
    Request,
    Results,
    ToolCall,
    ToolResult,
    require_answered,
)
from ryeos.agent.provider_errors import (
    CutError,
    RetryRules,
    error_in_stream,
    error_of,
    invalid_stream,
)
from ryeos.agent.schemas import SchemaRules, bend
from ryeos.agent.usage import UsageRules, read_usage

__all__ = ["PATH", "Stream", "body", "error_of", "headers"]

PATH = "/responses"

_DEFAULTS = DIALECTS["openai-responses"]
_CACHE_KEY_CHARACTERS = 32


def headers(key: str) -> dict[str, str]:
    """The headers of a request; without a key, no header of the key."""
    return auth_headers(key, "authorization", "Bearer ")


def body(request: Request, schema: SchemaRules) -> bytes:
    """The body of a request: the same bytes for the same request, always."""
    require_answered(request.history)
    tools = [
        {
            "type": "function",
            "name": offer.name,
            "description": offer.description,
            "parameters": bend(offer.schema, schema),
            "strict": False,  # the default would refuse every schema with an optional property
        }
        for offer in request.offers
    ]
    shows_pictures = "images" in request.features
    parts: dict[str, object] = {
        "model": request.model,
        "tools": tools or None,
        "instructions": request.system if request.system.strip() else None,
        "input": [item for entry in request.history for item in _items(entry, shows_pictures)],
        "prompt_cache_key": _cache_key(request, tools),
        "include": ["reasoning.encrypted_content"] if "thinking" in request.features else None,
        "max_output_tokens": request.max_tokens,
        "parallel_tool_calls": None if not tools else "parallel_tools" in request.features,
        "tool_choice": _tool_choice(request),
        "store": False,
        "stream": True,
    }
    return body_bytes(parts)


def _cache_key(request: Request, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """A name for all requests with this beginning: they are sent to where it is cached."""
    if "cache" not in request.features:
        return None
    begins = wire_json([request.model, request.system, list(tools)])
    return sha256_hex(begins)[:_CACHE_KEY_CHARACTERS]


def _tool_choice(request: Request) -> dict[str, Any] | None:
    return {"type": "function", "name": request.must_call} if request.must_call else None


def _items(entry: Entry, shows_pictures: bool) -> Iterable[Mapping[str, Any]]:  # noqa: FBT001
    match entry:
        case Question(text):
            content = [{"type": "input_text", "text": text}] if text.strip() else []
            return [{"type": "message", "role": "user", "content": content}] if content else []
        case Answer():
            return _returned(entry.blocks)
        case Results(results):
            return [_result(one, shows_pictures) for one in results]


def _returned(blocks: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The items that can go back, unchanged.

    Reasoning without content is only a reference to what the provider did not store. Where it is
    left out the ids of the others are too: by them the provider would miss it.
    """
    kept = [dict(block) for block in blocks if not _is_empty(block)]
    has_gap = any(_is_reference(block) for block in kept)
    for block in kept:
        if _is_reference(block):
            continue
        if has_gap:
            block.pop("id", None)
        yield block


def _is_reference(item: Mapping[str, Any]) -> bool:
    parts = ("encrypted_content", "content", "summary")
    return item.get("type") == "reasoning" and not any(item.get(part) for part in parts)


def _is_empty(item: Mapping[str, Any]) -> bool:
    """True if it is a message that says nothing."""
    content = item.get("content")
    return item.get("type") == "message" and not (
        isinstance(content, list) and any(_says_something(one) for one in content)
    )


def _says_something(part: object) -> bool:
    if not isinstance(part, Mapping) or part.get("type") not in {"output_text", "refusal"}:
        return True
    return bool(str(part.get("text") or part.get("refusal") or "").strip())


def _result(result: ToolResult, shows_pictures: bool) -> dict[str, Any]:  # noqa: FBT001
    text = marked_text(result, left_out=() if shows_pictures else result.pictures)
    output: object = text
    if shows_pictures and result.pictures:
        output = [
            {"type": "input_text", "text": text},
            *(
                {"type": "input_image", "image_url": data_url(one), "detail": "auto"}
                for one in result.pictures
            ),
        ]
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THINKING = frozenset(
    {
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning.delta",  # of Open Responses
    }
)
_ARGUMENTS = "response.function_call_arguments.delta"
_INCOMPLETE = {"max_output_tokens": End.MAX_TOKENS, "content_filter": End.REFUSAL}


class Stream:
    """Reads the events of one answer."""

    def __init__(
        self, usage: UsageRules = _DEFAULTS.usage, retry: RetryRules = _DEFAULTS.retry
    ) -> None:
        self._usage_rules, self._retry = usage, retry
        self._reader = EventReader()
        self._begun: list[str] = []  # of each item the id of its call, or ""
        self._done: dict[int, Part] = {}
        self._end: End | None = None
        self._response = Part({}, "response")
        self._readers: Mapping[str, Callable[[Part], Piece | None]] = {
            "response.output_item.added": self._begin_item,
            "response.output_item.done": self._end_item,
            "response.completed": self._complete,
            "response.incomplete": self._complete_early,
            "response.failed": self._fail,
            "response.cancelled": self._fail,
            "error": self._fail,
            _ARGUMENTS: self._arguments,
            **dict.fromkeys(_TEXT, self._text),
            **dict.fromkeys(_THINKING, self._thinking),
        }

    def feed(self, event: str, data: str) -> tuple[Piece, ...]:
        """Take one event: its type and its data. Raises ProviderError."""
        self._reader.count(event, data)
        if self._end is not None or data.strip() == "[DONE]":
            return ()
        said = self._reader.read(data)
        read = self._readers.get(said.words("type") or event)  # (others may come any day)
        piece = read(said) if read else None
        return (piece,) if piece else ()

    def answer(self) -> Answer:
        """The whole answer. Raises CutError unless the response was completed or incomplete.

        Raises ProviderError for items that are none.
        """
        if self._end is None:
            raise CutError("response.completed", self._reader.events)
        items = self._items()
        calls = _calls(items)
        texts, refusals = _said(items)
        text, refusal = "".join(texts), "".join(refusals)
        end = end_with(self._end, calls)
        if refusal and end in {End.END_TURN, End.TOOL_CALLS}:
            end = End.REFUSAL
        usage = self._response.any("usage")
        return Answer(
            blocks=tuple(_block(item) for item in items),
            text=text,
            calls=calls,
            end=end,
            usage=read_usage(usage if isinstance(usage, Mapping) else {}, self._usage_rules),
            model=self._response.words("model"),
            refusal=(refusal or text or "refused") if end is End.REFUSAL else "",
        )

    def _items(self) -> list[Part]:
        """The items as they ended; those of the response where a server sent no ends."""
        ended = [self._done[index] for index in sorted(self._done)]
        whole = list(self._response.parts("output"))
        return ended if len(ended) >= len(whole) else whole

    def _begin_item(self, said: Part) -> None:
        if said.index("output_index") != len(self._begun):
            raise invalid_stream(
                "output_index",
                f"expected {len(self._begun)}, found {said.any('output_index')!r}",
            )
        self._begun.append(said.part("item").words("call_id"))

    def _end_item(self, said: Part) -> None:
        index = said.index("output_index")
        if index == len(self._begun):  # (a server that announces none)
            self._begin_item(said)
        if index is None or index >= len(self._begun) or index in self._done:
            raise invalid_stream(
                "output_index", f"expected an item that has begun, found {index!r}"
            )
        self._done[index] = Part(said.part("item").data, f"output[{index}]")
        self._done[index].name("type")

    def _text(self, said: Part) -> Piece:
        return Piece(kind="text", text=said.words("delta"))

    def _thinking(self, said: Part) -> Piece:
        return Piece(kind="thinking", text=said.words("delta"))

    def _arguments(self, said: Part) -> Piece:
        index = said.index("output_index")
        if index is None or index >= len(self._begun):
            raise invalid_stream(
                "output_index", f"expected an item that has begun, found {index!r}"
            )
        return Piece(kind="arguments", text=said.words("delta"), call_id=self._begun[index])

    def _complete(self, said: Part) -> None:
        self._response = said.part("response")
        self._end = End.END_TURN

    def _complete_early(self, said: Part) -> None:
        self._response = said.part("response")
        reason = self._response.part("incomplete_details").words("reason")
        if reason not in _INCOMPLETE:
            known = " or ".join(_INCOMPLETE)
            raise invalid_stream(
                "response.incomplete_details.reason", f"expected {known}, found {reason!r}"
            )
        self._end = _INCOMPLETE[reason]

    def _fail(self, said: Part) -> None:
        response = said.part("response")
        raise error_in_stream(response.data or said.data, self._retry)


def _calls(items: Iterable[Part]) -> tuple[ToolCall, ...]:
    found: dict[str, ToolCall] = {}
    for item in items:
        if item.text("type") == "function_call":
            call_id = item.name("call_id")
            require_new_id(call_id, found, item.at("call_id"))
            found[call_id] = ToolCall(
                id=call_id, name=item.name("name"), arguments=_arguments_of(item)
            )
    return tuple(found.values())


def _arguments_of(item: Part) -> str:
    arguments = item.words("arguments")
    return arguments if arguments.strip() else "{}"


def _block(item: Part) -> Mapping[str, Any]:
    """The item as it goes back; only arguments that are no JSON are wrapped."""
    if item.name("type") != "function_call":
        return item.data
    return {**item.data, "arguments": returnable_text(_arguments_of(item))}


def _said(items: Iterable[Part]) -> tuple[list[str], list[str]]:
    """The texts and the refusals of all messages."""
    texts, refusals = [], []
    for item in items:
        if item.text("type") == "message":
            for part in item.parts("content"):
                texts += [part.words("text")] if part.text("type") == "output_text" else []
                refusals += [part.words("refusal")] if part.text("type") == "refusal" else []
    return texts, refusals
