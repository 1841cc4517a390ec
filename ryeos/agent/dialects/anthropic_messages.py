"""The dialect of Anthropic's Messages API. Pure.

A stream is ``message_start``; for each block of content ``content_block_start``, deltas and
``content_block_stop``; ``message_delta`` with the reason and the usage; ``message_stop``, with
which alone it is an answer. Blocks go back as they came, thinking with its signature too: the
provider refuses a thread whose thinking was changed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ryeos.agent.dialects import DIALECTS
from ryeos.agent.dialects.wire import (
    EventReader,
    Part,
    argument_text,
    auth_headers,
    base64_text,
    body_bytes,
    end_with,
    require_new_id,
    result_text,
    returnable_arguments,
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
    Usage,
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

PATH = "/messages"
VERSION = "2023-06-01"

_DEFAULTS = DIALECTS["anthropic-messages"]
_CACHED = {"cache_control": {"type": "ephemeral"}}
# How many blocks the provider looks back from the end for a prefix that it knows, less some.
_LOOKBACK = 18
_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def headers(key: str) -> dict[str, str]:
    """The headers of a request; without a key, no header of the key."""
    return {**auth_headers(key, "x-api-key"), "anthropic-version": VERSION}


def body(request: Request, schema: SchemaRules) -> bytes:
    """The body of a request: the same bytes for the same request, always."""
    require_answered(request.history)
    caches = "cache" in request.features
    tools = [
        _tool(offer.name, offer.description, bend(offer.schema, schema)) for offer in request.offers
    ]
    system: object = request.system
    if caches and request.system.strip():
        system = [{"type": "text", "text": request.system, **_CACHED}]
    elif caches and tools:
        tools[-1] |= _CACHED
    parts: dict[str, object] = {
        "model": request.model,
        "tools": tools or None,
        "system": system if request.system.strip() else None,
        "messages": _messages(request, caches=caches),
        # The provider puts this mark on the last block itself, so that no mark has to wander.
        "cache_control": _CACHED["cache_control"] if caches else None,
        "max_tokens": request.max_tokens,
        "thinking": _thinking(request),
        "tool_choice": _tool_choice(request),
        "stream": True,
    }
    return body_bytes(parts)


def _tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema}


def _thinking(request: Request) -> dict[str, Any] | None:
    # (A call that is forced, and thinking, exclude each other.)
    wanted = "thinking" in request.features and not request.must_call
    return {"type": "adaptive"} if wanted else None


def _tool_choice(request: Request) -> dict[str, Any] | None:
    if not request.tools:
        return None
    one_call = {} if "parallel_tools" in request.features else {"disable_parallel_tool_use": True}
    if request.must_call:
        return {"type": "tool", "name": request.must_call, **one_call}
    return {"type": "auto", **one_call} if one_call else None


def _messages(request: Request, *, caches: bool) -> list[dict[str, Any]]:
    shows_pictures = "images" in request.features
    messages = [
        message
        for entry in request.history
        for message in [_message(entry, shows_pictures=shows_pictures)]
        if message["content"]
    ]
    if caches:
        _mark_before_many(messages)
    return messages


def _mark_before_many(messages: list[dict[str, Any]]) -> None:
    """Mark the end of the last request where the mark of this one would not look back so far."""
    answers = [place for place, one in enumerate(messages) if one["role"] == "assistant"]
    if not answers or not answers[-1]:
        return
    new = sum(len(one["content"]) for one in messages[answers[-1] :])
    if new > _LOOKBACK:
        messages[answers[-1] - 1]["content"][-1] |= _CACHED


def _message(entry: Entry, *, shows_pictures: bool) -> dict[str, Any]:
    match entry:
        case Question(text):
            return {"role": "user", "content": _texts([text])}
        case Answer():
            return {"role": "assistant", "content": _returned(entry.blocks)}
        case Results(results):
            content = [_result(one, shows_pictures=shows_pictures) for one in results]
            return {"role": "user", "content": content}


def _texts(texts: Iterable[str]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def _returned(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The blocks without empty texts and without thinking at the end: both are refused."""
    kept = [
        dict(block)
        for block in blocks
        if block.get("type") != "text" or str(block.get("text", "")).strip()
    ]
    while kept and kept[-1].get("type") in {"thinking", "redacted_thinking"}:
        kept.pop()
    return kept


def _result(result: ToolResult, *, shows_pictures: bool) -> dict[str, Any]:
    shown = [one for one in result.pictures if shows_pictures and one.media_type in _PICTURES]
    left_out = tuple(one for one in result.pictures if one not in shown)
    text = result_text(result, left_out=left_out)
    sources = [
        {"type": "base64", "media_type": one.media_type, "data": base64_text(one)} for one in shown
    ]
    block = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": [
            {"type": "text", "text": text},
            *({"type": "image", "source": source} for source in sources),
        ],
    }
    return {**block, "is_error": True} if result.is_error else block


_ENDS = {
    "end_turn": End.END_TURN,
    "stop_sequence": End.END_TURN,
    "tool_use": End.TOOL_CALLS,
    "max_tokens": End.MAX_TOKENS,
    "pause_turn": End.PAUSED,
    "refusal": End.REFUSAL,
    "model_context_window_exceeded": End.CONTEXT_FULL,
}
# Delta -> its own field, the field of the block that it extends, and what the block may be.
_DELTAS: Mapping[str, tuple[str, str, frozenset[str]]] = {
    "text_delta": ("text", "text", frozenset({"text"})),
    "thinking_delta": ("thinking", "thinking", frozenset({"thinking"})),
    "signature_delta": ("signature", "signature", frozenset({"thinking"})),
    "input_json_delta": (
        "partial_json",
        "input",
        frozenset({"tool_use", "server_tool_use", "mcp_tool_use"}),
    ),
}


class _Block:
    """One block of content while it comes: what it began with, and the texts that extend it."""

    def __init__(self, start: Mapping[str, Any], kind: str) -> None:
        self.kind = kind
        self.is_open = True
        self._start = dict(start)
        self._texts: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    @property
    def id(self) -> str:
        """The id of a call, ``""`` of any other block."""
        found = self._start.get("id")
        return found if isinstance(found, str) and self.kind == "tool_use" else ""

    def extend(self, field: str, text: str) -> None:
        """Append to a field."""
        self._texts.setdefault(field, []).append(text)

    def cite(self, citation: object) -> None:
        """Append a citation."""
        self._citations.append(citation)

    def text(self, field: str) -> str:
        """A field of text, complete."""
        begun = self._start.get(field)
        return "".join([begun if isinstance(begun, str) else "", *self._texts.get(field, ())])

    def arguments(self) -> str:
        """The arguments of a call as a text."""
        streamed = "".join(self._texts.get("input", ()))
        return streamed if streamed.strip() else argument_text(self._start.get("input") or {})

    def value(self) -> dict[str, Any]:
        """The block as it goes back."""
        value = dict(self._start)
        for field in self._texts:
            value[field] = (
                returnable_arguments(self.arguments()) if field == "input" else self.text(field)
            )
        if self._citations:
            value["citations"] = [*(value.get("citations") or ()), *self._citations]
        return value


class Stream:
    """Reads the events of one answer."""

    def __init__(
        self, usage: UsageRules = _DEFAULTS.usage, retry: RetryRules = _DEFAULTS.retry
    ) -> None:
        self._usage_rules, self._retry = usage, retry
        self._reader = EventReader()
        self._blocks: list[_Block] = []
        self._ids: set[str] = set()
        self._usage: dict[str, Any] = {}
        self._model = self._reason = self._refusal = ""
        self._is_complete = self._is_counted = False
        self._readers: Mapping[str, Callable[[Part], Piece | None]] = {
            "message_start": self._start,
            "content_block_start": self._start_block,
            "content_block_delta": self._extend_block,
            "content_block_stop": self._end_block,
            "message_delta": self._end,
            "message_stop": self._complete,
            "error": self._fail,
        }

    def feed(self, event: str, data: str) -> tuple[Piece, ...]:
        """Take one event: its type and its data. Raises ProviderError."""
        self._reader.count(event, data)
        if self._is_complete:
            return ()
        said = self._reader.read(data)
        read = self._readers.get(said.words("type") or event)  # (others may come any day)
        piece = read(said) if read else None
        return (piece,) if piece else ()

    def answer(self) -> Answer:
        """The whole answer. Raises CutError unless ``message_stop`` was there.

        Raises ProviderError for a reason that is not known.
        """
        if not self._is_complete:
            raise CutError("message_stop", self._reader.events)
        calls = tuple(
            ToolCall(id=one.id, name=one.text("name"), arguments=one.arguments())
            for one in self._blocks
            if one.kind == "tool_use"
        )
        text = "".join(one.text("text") for one in self._blocks if one.kind == "text")
        end = _ENDS.get(self._reason)
        if end is None:
            known = ", ".join(_ENDS)
            raise invalid_stream(
                "message_delta.delta.stop_reason",
                f"expected one of {known}, found {self._reason!r}",
            )
        end = end_with(end, calls)
        return Answer(
            blocks=tuple(one.value() for one in self._blocks),
            text=text,
            calls=calls,
            end=end,
            # What a message starts with counts no output that was to come.
            usage=read_usage(self._usage, self._usage_rules) if self._is_counted else Usage(),
            model=self._model,
            refusal=(self._refusal or text or "refused") if end is End.REFUSAL else "",
        )

    def _start(self, said: Part) -> None:
        message = said.part("message")
        self._model = message.words("model")
        self._count(message)

    def _start_block(self, said: Part) -> None:
        block = said.part("content_block")
        if said.index("index") != len(self._blocks):
            raise invalid_stream(
                "content_block_start.index",
                f"expected {len(self._blocks)}, found {said.any('index')!r}",
            )
        begun = _Block(block.data, block.name("type"))
        if begun.kind == "tool_use":
            block.name("name")
            require_new_id(block.name("id"), self._ids, "content_block_start.content_block.id")
            self._ids.add(begun.id)
        self._blocks.append(begun)

    def _block(self, said: Part) -> _Block:
        index = said.index("index")
        if index is None or index >= len(self._blocks) or not self._blocks[index].is_open:
            raise invalid_stream("index", f"expected an open block, found {index!r}")
        return self._blocks[index]

    def _extend_block(self, said: Part) -> Piece | None:
        block, delta = self._block(said), said.part("delta")
        kind = delta.name("type")
        if kind == "citations_delta" and block.kind == "text":
            block.cite(delta.mapping("citation"))
            return None
        own, field, kinds = _DELTAS.get(kind, ("", "", frozenset()))
        if block.kind not in kinds:  # a block that lacks a part could not go back
            raise invalid_stream("delta.type", f"found {kind!r} in a block of type {block.kind!r}")
        text = delta.words(own)
        block.extend(field, text)
        match kind:
            case "text_delta":
                return Piece(kind="text", text=text)
            case "thinking_delta":
                return Piece(kind="thinking", text=text)
            case "input_json_delta" if block.id:
                return Piece(kind="arguments", text=text, call_id=block.id)
        return None

    def _end_block(self, said: Part) -> None:
        self._block(said).is_open = False

    def _end(self, said: Part) -> None:
        delta = said.part("delta")
        self._reason = delta.words("stop_reason") or self._reason
        details = delta.part("stop_details")
        self._refusal = details.words("explanation") or details.words("category")
        self._count(said)
        reported = said.any("usage")
        if isinstance(reported, Mapping):
            self._is_counted |= read_usage(reported, self._usage_rules).output_tokens is not None

    def _complete(self, _: Part) -> None:
        self._is_complete = True

    def _count(self, said: Part) -> None:
        """Keep the largest of each figure: they are sums so far, and some servers begin with 0."""
        reported = said.any("usage")
        if not isinstance(reported, Mapping):
            return
        for name, value in reported.items():
            known = self._usage.get(name)
            is_smaller = type(known) is int and type(value) is int and value < known
            if value is not None and not is_smaller:
                self._usage[name] = value

    def _fail(self, said: Part) -> None:
        raise error_in_stream(said.data, self._retry)
