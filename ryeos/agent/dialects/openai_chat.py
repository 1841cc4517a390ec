"""The dialect of OpenAI's Chat Completions, which most other servers speak too. Pure.

A stream is chunks with ``choices[0].delta``, one with a ``finish_reason``, one with the usage, and
the text ``[DONE]``. Servers differ most in how they send calls: by ``index``, as OpenAI; without
one (Ollama); with 0 for all (LiteLLM); with the name in every part (vLLM); with arguments as an
object (llama.cpp). `_Calls` takes all of them apart, or refuses; it never joins two calls.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lillux.digests import sha256_hex
from ryeos.agent.dialects import DIALECTS
from ryeos.agent.dialects.wire import (
    EventReader,
    Part,
    argument_text,
    auth_headers,
    body_bytes,
    data_url,
    end_with,
    marked_text,
    parsed_object,
    require_new_id,
    returnable_text,
)
from ryeos.agent.messages import (
    Answer,
    End,
    Entry,
    Picture,
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

PATH = "/chat/completions"

_DEFAULTS = DIALECTS["openai-chat"]


def headers(key: str) -> dict[str, str]:
    """The headers of a request; without a key, no header of the key."""
    return auth_headers(key, "authorization", "Bearer ")


# Thinking as text: some servers want it back, others refuse it.
_THOUGHTS = ("reasoning_content", "reasoning")


def body(request: Request, schema: SchemaRules) -> bytes:
    """The body of a request: the same bytes for the same request, always."""
    require_answered(request.history)
    tools = [
        {
            "type": "function",
            "function": {
                "name": offer.name,
                "description": offer.description,
                "parameters": bend(offer.schema, schema),
            },
        }
        for offer in request.offers
    ]
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    limit = "max_completion_tokens"
    parts: dict[str, object] = {
        "model": request.model,
        "tools": tools or None,
        "messages": [
            *system,
            *(
                message
                for entry in request.history
                for message in _messages(entry, request.features)
            ),
        ],
        limit if limit in request.features else "max_tokens": request.max_tokens,
        "tool_choice": _tool_choice(request),
        "stream": True,
        "stream_options": {"include_usage": True},  # without it there is no usage at all
    }
    return body_bytes(parts)


def _tool_choice(request: Request) -> dict[str, Any] | None:
    if not request.must_call:
        return None
    return {"type": "function", "function": {"name": request.must_call}}


def _messages(entry: Entry, features: frozenset[str]) -> Iterable[Mapping[str, Any]]:
    match entry:
        case Question(text):
            return [{"role": "user", "content": text}] if text.strip() else []
        case Answer():
            return [_returned(block, features) for block in entry.blocks]
        case Results(results):
            return _results(results, shows_pictures="images" in features)


def _returned(block: Mapping[str, Any], features: frozenset[str]) -> dict[str, Any]:
    left_out = () if "thinking" in features else _THOUGHTS
    return {key: value for key, value in block.items() if key not in left_out}


def _results(results: Iterable[ToolResult], *, shows_pictures: bool) -> list[dict[str, Any]]:
    """A message for each result; their pictures, which those cannot hold, in one more."""
    messages: list[dict[str, Any]] = []
    shown: list[tuple[ToolResult, Picture]] = []
    for result in results:
        text = marked_text(result, left_out=() if shows_pictures else result.pictures)
        messages.append({"role": "tool", "tool_call_id": result.call_id, "content": text})
        shown += [(result, picture) for picture in result.pictures] if shows_pictures else []
    content: list[dict[str, Any]] = []
    for result, picture in shown:
        words = f"A picture in the result of {result.name} ({result.call_id}):"
        content.append({"type": "text", "text": words})
        content.append({"type": "image_url", "image_url": {"url": data_url(picture)}})
    return [*messages, {"role": "user", "content": content}] if content else messages


class _Call:
    """One call while it comes. ``extra``: Gemini's signature of its thinking, which goes back."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id, self.name = call_id, name
        self.parts: list[str] = []
        self.size = 0
        self.extra: dict[str, Any] = {}

    @property
    def arguments(self) -> str:
        """The text of the arguments; a call without any has an empty object."""
        text = "".join(self.parts)
        return text if text.strip() else "{}"


_MAX_READ_AGAIN = 8 * 1024 * 1024


class _Calls:
    """The calls of one answer, from parts that name them in one of several ways."""

    def __init__(self) -> None:
        self.all: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._unread = _MAX_READ_AGAIN  # what `_is_whole` may still read: no stream makes it slow

    def take(self, said: Part) -> Piece | None:
        """Take one entry of ``tool_calls``. Raises ProviderError."""
        function = said.part("function")
        text = _argument_part(function)
        call = self._known(said, function.words("name"), text) or self._begin(said, function)
        call_id = said.words("id")
        if call_id and not call.id:
            call.id = call_id
            self._by_id[call_id] = call
        call.extra |= {
            key: value
            for key, value in said.data.items()
            if key not in _KEYS_OF_CALL and value is not None
        }
        if not text:
            return None
        call.parts.append(text)
        call.size += len(text)
        return Piece(kind="arguments", text=text, call_id=call.id)

    def _known(self, said: Part, name: str, text: str) -> _Call | None:
        """The call that this is a part of, None if it begins one.

        (1) an id that is known: that call, at its own index only
        (2) an id that is not: a call of its own if it has a name, else a part of that at its index
        (3) no id: the last call at its index, or of all without an index; a call of its own if it
            has another name, or a name and arguments from their beginning behind whole ones
        """
        call_id, index = said.words("id"), said.index("index")
        last = self.all[-1] if self.all else None
        there = last if index is None else self._by_index.get(index)
        found = self._by_id.get(call_id) if call_id else there
        if call_id and found is None:
            return None if name else there
        if found is None or not name:
            return found
        begins = text.lstrip().startswith("{") and self._is_whole(found)
        if call_id and (begins or there is not found):
            require_new_id(call_id, self._by_id, said.at("id"))
        return None if begins or found.name != name else found

    def _is_whole(self, call: _Call) -> bool:
        """True if the arguments that came are an object."""
        self._unread -= call.size
        return self._unread > 0 and call.size > 0 and parsed_object(call.arguments) is not None

    def _begin(self, said: Part, function: Part) -> _Call:
        index = said.index("index")
        if index is not None and index > len(self.all):
            raise invalid_stream(
                said.at("index"), f"expected at most {len(self.all)}, found {index}"
            )
        call = _Call(said.words("id"), function.name("name"))
        self.all.append(call)
        if call.id:
            require_new_id(call.id, self._by_id, said.at("id"))
            self._by_id[call.id] = call
        self._by_index[len(self.all) - 1 if index is None else index] = call
        return call

    def finish(self, seed: str) -> tuple[ToolCall, ...]:
        """The calls. One without an id gets one, from the place and the text of the answer."""
        for place, call in enumerate(self.all):
            if not call.id:
                text = f"{seed}\0{place}\0{call.name}\0{call.arguments}"
                digest = sha256_hex(text.encode("utf-8", "surrogatepass"))
                call.id = f"call_{digest[:_ID_CHARACTERS]}"
                require_new_id(call.id, self._by_id, "tool_calls")
        return tuple(
            ToolCall(id=one.id, name=one.name, arguments=one.arguments) for one in self.all
        )


def _argument_part(function: Part) -> str:
    """A part of the arguments, which some servers send as an object."""
    value = function.read("arguments", _is_text_or_object, "a text or an object")
    return argument_text(value) if isinstance(value, Mapping) else value or ""


def _is_text_or_object(value: object) -> bool:
    return isinstance(value, str | Mapping)


_KEYS_OF_CALL = frozenset({"id", "index", "type", "function"})
_ID_CHARACTERS = 24


_ENDS = {
    "stop": End.END_TURN,
    "eos": End.END_TURN,
    "tool_calls": End.TOOL_CALLS,
    "function_call": End.TOOL_CALLS,
    "length": End.MAX_TOKENS,
    "model_length": End.CONTEXT_FULL,
    "content_filter": End.REFUSAL,
}


class Stream:
    """Reads the events of one answer."""

    def __init__(
        self, usage: UsageRules = _DEFAULTS.usage, retry: RetryRules = _DEFAULTS.retry
    ) -> None:
        self._usage_rules, self._retry = usage, retry
        self._reader = EventReader()
        self._calls = _Calls()
        self._texts: dict[str, list[str]] = {}
        self._details: list[_Detail] = []
        self._extra: dict[str, Any] = {}
        self._usage: Mapping[str, Any] = {}
        self._id = self._model = self._reason = ""
        self._is_complete = False

    def feed(self, event: str, data: str) -> tuple[Piece, ...]:
        """Take one event: its type and its data. Raises ProviderError."""
        self._reader.count(event, data)
        if self._is_complete:
            return ()
        if data.strip() == "[DONE]":
            self._is_complete = True
            return ()
        said = self._reader.read(data)
        if event == "error" or said.any("error"):
            raise error_in_stream(said.data, self._retry)
        return self._chunk(said)

    def answer(self) -> Answer:
        """The whole answer. Raises CutError unless it has its reason and ``[DONE]`` was there.

        Raises ProviderError for a reason that is not known.
        """
        if not (self._is_complete and self._reason):
            missing = "[DONE]" if self._reason else "a finish_reason and [DONE]"
            raise CutError(missing, self._reader.events)
        if self._reason not in _ENDS:
            known = ", ".join(_ENDS)
            raise invalid_stream(
                "choices[0].finish_reason", f"expected one of {known}, found {self._reason!r}"
            )
        calls = self._calls.finish(self._id)
        text, refusal = self._joined("content"), self._joined("refusal")
        end = end_with(_ENDS[self._reason], calls)
        if refusal and end in {End.END_TURN, End.TOOL_CALLS}:
            end = End.REFUSAL
        return Answer(
            blocks=self._blocks(text or refusal),
            text=text,
            calls=calls,
            end=end,
            usage=read_usage(self._usage, self._usage_rules),
            model=self._model,
            refusal=(refusal or text or "refused") if end is End.REFUSAL else "",
        )

    def _chunk(self, said: Part) -> tuple[Piece, ...]:
        self._id = self._id or said.words("id")
        self._model = self._model or said.words("model")
        reported = said.any("usage")
        if isinstance(reported, Mapping):  # sums so far: the last one counts
            self._usage = reported
        pieces: list[Piece] = []
        for choice in said.parts("choices"):
            if choice.data.get("index") and choice.index("index"):
                raise invalid_stream(choice.at("index"), f"expected 0, found {choice.any('index')}")
            pieces += self._delta(choice.part("delta"))
            self._reason = choice.words("finish_reason") or self._reason
        return tuple(pieces)

    def _delta(self, delta: Part) -> list[Piece]:
        pieces = []
        thought = next((key for key in _THOUGHTS if delta.words(key)), "")
        if thought:  # (some servers send both names with the same text)
            pieces.append(Piece(kind="thinking", text=self._add(thought, delta)))
        pieces += [
            Piece(kind="text", text=self._add(key, delta))
            for key in ("content", "refusal")
            if delta.words(key)
        ]
        for detail in delta.parts("reasoning_details"):
            self._add_detail(detail)
        self._extra |= delta.part("extra_content").data
        for entry in delta.parts("tool_calls"):
            piece = self._calls.take(entry)
            pieces += [piece] if piece else []
        return pieces

    def _add(self, key: str, delta: Part) -> str:
        text = delta.words(key)
        self._texts.setdefault(key, []).append(text)
        return text

    def _joined(self, key: str) -> str:
        return "".join(self._texts.get(key, ()))

    def _add_detail(self, detail: Part) -> None:
        """Append a part of OpenRouter's `reasoning_details`, to the last one if it is of that."""
        last = self._details[-1] if self._details else None
        if last is None or not last.goes_on_with(detail.data):
            last = _Detail()
            self._details.append(last)
        last.take(detail.data)

    def _blocks(self, text: str) -> tuple[Mapping[str, Any], ...]:
        """The message as it goes back; none where the answer has nothing."""
        block: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
        block |= {key: self._joined(key) for key in _THOUGHTS if key in self._texts}
        if self._details:
            block["reasoning_details"] = [one.value() for one in self._details]
        if self._extra:
            block["extra_content"] = self._extra
        if self._calls.all:
            block["tool_calls"] = [_returned_call(one) for one in self._calls.all]
        return (block,) if block["content"] or self._calls.all else ()


class _Detail:
    """One entry of `reasoning_details` while it comes."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._rest: dict[str, Any] = {}

    def goes_on_with(self, part: Mapping[str, Any]) -> bool:
        """True if a part is of the same entry. What is encrypted comes whole."""
        return part.get("type") != "reasoning.encrypted" and all(
            self._rest.get(key) == part.get(key) for key in ("type", "index")
        )

    def take(self, part: Mapping[str, Any]) -> None:
        """Take a part."""
        for key, value in part.items():
            if key in {"text", "summary"} and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif value is not None or key not in self._rest:
                self._rest[key] = value

    def value(self) -> dict[str, Any]:
        """The whole entry."""
        return {**self._rest, **{key: "".join(texts) for key, texts in self._texts.items()}}


def _returned_call(call: _Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": returnable_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function, **call.extra}
