"""The tools of a thread: its calls, carried out or refused, and their results.

What a model says is foreign. A name that it invents, arguments that are no JSON or do not fit, a
call that is not permitted: each is an error result for the model, and nothing runs. What tools
return is data: bounded, and never read for instructions to Rye.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from lillux.cancellation import Cancellation
from lillux.schema import violations
from lillux.spelling import likely_meant
from lillux.values import dataclass
from ryeos.agent.dialects.wire import parsed_object
from ryeos.agent.means import Planned
from ryeos.agent.messages import Picture, ToolCall, ToolResult
from ryeos.agent.offers import LOAD_OFFER, RETURN, SEARCH_OFFER
from ryeos.agent.thread_state import AgentThread
from ryeos.graph.capabilities import denial
from ryeos.graph.commands import Act
from ryeos.items.errors import ONLY_FAILED, RyeError
from ryeos.items.refs import Kind, parse_reference

MAX_FLAT = 24
"""The most permitted items that are each a tool of their own."""
MAX_RESULT = 8_000
"""Characters of a result that a model gets at once; `load` of its address gives the rest."""
MAX_PICTURES = 4
_MAX_PICTURE_BYTES = 5 * 1024 * 1024
_MAX_VIOLATIONS = 5
_PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class Items(Protocol):
    """The facts that the workspace has of items."""

    def facts(self, reference: str) -> "ItemFacts":
        """Raises what finding and verifying it raises."""

    def make(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        """The envelope of the answer of a call, also of a failure."""

    def start_child(
        self, reference: str, inputs: Mapping[str, Any], call: ToolCall, cancellation: Cancellation
    ) -> Mapping[str, Any]:
        """The envelope of a thread that carries a directive out, once it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFacts:
    """Facts that decide how a call runs. ``only_reads``: neither writes, network nor programs."""

    reference: str
    only_reads: bool = False
    is_repeatable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The store of long results: ``write`` keeps one and gives its number, ``read`` gives it."""

    write: Callable[[str], int]
    read: Callable[[str, int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTools:
    """See `ryeos.agent.means.Tools`. ``thread_id`` is that of the thread."""

    thread_id: str
    items: Items
    kept: Kept

    def decide(self, call: ToolCall, thread: AgentThread) -> Planned | ToolResult:
        """(1) The name (2) the arguments (3) the item (4) the permission."""
        offers = {one.name: one for one in thread.start.offers}
        offer = offers.get(call.name)  # (1)
        if offer is None:
            return error_result(call, _unknown_tool(call.name, sorted(offers)))
        arguments = parsed_object(call.arguments or "{}")  # (2)
        if arguments is None:
            found = call.arguments[:200]
            return error_result(call, f"arguments: expected a JSON object, found {found!r}")
        wrong = violations(arguments, offer.schema)
        if wrong:
            told = "; ".join(str(one) for one in wrong[:_MAX_VIOLATIONS])
            return error_result(call, f"arguments do not fit: {told}"[:2000])
        try:
            return self._planned(call, arguments, thread)
        except RyeError as error:
            return error_result(call, _described_error(error))

    def _planned(
        self, call: ToolCall, arguments: Mapping[str, Any], thread: AgentThread
    ) -> Planned | ToolResult:
        if call.name == RETURN:
            return _returning(call, arguments, thread)
        if call.name == SEARCH_OFFER.name:
            act = Act(
                node=call.name,
                primary="fetch",
                kind=None,
                item_id="",
                params={"query": arguments["query"]},
            )
            return self._verb(call, thread, act)
        if call.name == LOAD_OFFER.name:
            return self._loading(call, arguments, thread)
        reference = thread.start.items.get(call.name) or str(arguments.get("item_id", ""))  # (3)
        parameters = arguments if call.name in thread.start.items else arguments.get("parameters")
        return self._executing(call, reference, parameters or {}, thread)

    def _executing(
        self,
        call: ToolCall,
        reference: str,
        parameters: Mapping[str, Any],
        thread: AgentThread,
    ) -> Planned | ToolResult:
        facts = self.items.facts(reference)
        parsed = parse_reference(facts.reference)
        kind = (parsed.kind or Kind.TOOL).value
        problem = denial("execute", kind, parsed.id, thread.start.grants)  # (4)
        if problem:
            return error_result(call, f"{problem}; the directive permits no such call")
        if kind == Kind.DIRECTIVE.value:
            return Planned(
                call=call,
                item=facts.reference,
                run=lambda cancellation: self._result(
                    call, self.items.start_child(facts.reference, parameters, call, cancellation)
                ),
                only_reads=True,  # children run beside each other
            )
        act = Act(
            node=call.name, primary="execute", kind=kind, item_id=parsed.id, params=parameters
        )
        return Planned(
            call=call,
            item=facts.reference,
            run=lambda cancellation: self._result(call, self.items.make(act, cancellation)),
            only_reads=facts.only_reads,
            is_repeatable=facts.is_repeatable,
        )

    def _loading(
        self, call: ToolCall, arguments: Mapping[str, Any], thread: AgentThread
    ) -> Planned | ToolResult:
        item_id, offset = str(arguments["item_id"]), int(arguments.get("offset", 0))
        if item_id.startswith("rye://thread/"):
            return self._reading(call, item_id, offset, thread)
        parsed = parse_reference(item_id)
        kind = (parsed.kind or Kind.TOOL).value
        act = Act(node=call.name, primary="fetch", kind=kind, item_id=parsed.id, params={})
        return self._verb(call, thread, act, offset=offset)

    def _reading(
        self, call: ToolCall, address: str, offset: int, thread: AgentThread
    ) -> Planned | ToolResult:
        """A part of a long result: of this thread, or of one of its children."""
        owner, _, number = address.removeprefix("rye://thread/").partition("/result/")
        if owner not in {self.thread_id, *thread.children} or not number.isdecimal():
            return error_result(
                call, f"{address[:200]}: expected a result of this thread or of its children"
            )

        def run(_cancellation: Cancellation) -> ToolResult:
            try:
                text = self.kept.read(owner, int(number))
            except FileNotFoundError:
                return error_result(call, f"{address[:200]}: there is no such result")
            return ToolResult(call_id=call.id, name=call.name, text=_window(text, offset, address))

        return Planned(call=call, item=address, run=run, only_reads=True, is_repeatable=True)

    def _verb(
        self, call: ToolCall, thread: AgentThread, act: Act, *, offset: int = 0
    ) -> Planned | ToolResult:
        """A search, or the text of an item."""
        problem = denial("fetch", act.kind, act.item_id, thread.start.grants)
        if problem:
            return error_result(call, f"{problem}; the directive permits no such call")

        def run(cancellation: Cancellation) -> ToolResult:
            envelope = self.items.make(act, cancellation)
            content = envelope.get("content")
            if isinstance(content, str) and envelope.get("status") != "error":
                text = _window(content, offset, act.reference)
                return ToolResult(call_id=call.id, name=call.name, text=text)
            return self._result(call, envelope)

        return Planned(
            call=call, item=act.reference or "search", run=run, only_reads=True, is_repeatable=True
        )

    def _result(self, call: ToolCall, envelope: Mapping[str, Any]) -> ToolResult:
        """The answer of an item as the model gets it: its data, bounded, with its pictures."""
        is_error = envelope.get("status") == "error"
        said, pictures = _without_pictures(envelope.get("data", None if is_error else envelope))
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        if is_error:
            # What a program wrote before it failed tells why.
            hint = f"; {envelope['hint']}" if envelope.get("hint") else ""
            says_more = said and not (isinstance(said, dict) and said.keys() <= ONLY_FAILED)
            text = f"{envelope.get('error')}{hint}" + (f"\n{text}" if says_more else "")
        if len(text) > MAX_RESULT:
            text = _window(text, 0, address_of(self.thread_id, self.kept.write(text)))
        return ToolResult(
            call_id=call.id, name=call.name, text=text, is_error=is_error, pictures=pictures
        )


def address_of(thread_id: str, number: int) -> str:
    """The address of a long result, for a model."""
    return f"rye://thread/{thread_id}/result/{number}"


def error_result(call: ToolCall, problem: str) -> ToolResult:
    """An error for the model in place of a result."""
    return ToolResult(call_id=call.id, name=call.name, text=problem, is_error=True)


def _returning(
    call: ToolCall, arguments: Mapping[str, Any], thread: AgentThread
) -> Planned | ToolResult:
    if len(thread.due) > 1 or len(thread.results) > 0:
        return error_result(call, f"call {RETURN} alone, when the results of other calls are there")
    done = ToolResult(call_id=call.id, name=call.name, text="done")
    return Planned(
        call=call,
        item=RETURN,
        run=lambda _cancellation: done,
        only_reads=True,
        is_repeatable=True,
        outputs=arguments,
    )


def _window(text: str, offset: int, address: str) -> str:
    """A part of a text, with the address of the rest."""
    part = text[offset : offset + MAX_RESULT]
    rest = len(text) - offset - len(part)
    if rest <= 0:
        return part
    last = offset + len(part)
    return f"{part}\n[{rest} more characters: load {address} with offset {last}]"


def _without_pictures(data: object) -> tuple[object, tuple[Picture, ...]]:
    """The data without its image blocks, and these as pictures."""
    found: list[Picture] = []

    def taken(value: object) -> object:
        if isinstance(value, Mapping):
            picture = _picture_of(value)
            if picture is not None and len(found) < MAX_PICTURES:
                found.append(picture)
                return f"[picture {len(found)}, {picture.media_type}]"
            return {key: taken(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [taken(one) for one in value]
        return value

    return taken(data), tuple(found)


def _picture_of(value: Mapping[str, Any]) -> Picture | None:
    if value.get("type") != "image" or value.get("mimeType") not in _PICTURE_TYPES:
        return None
    try:
        data = b64decode(str(value.get("data", "")), validate=True)
    except ValueError:
        return None
    if not 0 < len(data) <= _MAX_PICTURE_BYTES:
        return None
    return Picture(media_type=value["mimeType"], data=data)


def _unknown_tool(name: str, offered_names: Sequence[str]) -> str:
    """The text for a model about a tool that it was not offered."""
    problem = f"no tool {name[:80]!r}"
    if not offered_names:
        return f"{problem}: there are no tools here, so answer without one"
    meant = likely_meant(name, offered_names)
    hint = f" (did you mean {meant}?)" if meant else ""
    return f"{problem}{hint}; there are: {', '.join(offered_names)}"[:1000]


def _described_error(error: RyeError) -> str:
    return f"{error}; {error.hint}" if error.hint else str(error)
