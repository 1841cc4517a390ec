"""Requests to a model and its answers, the same for all dialects. Values.

A dialect turns a `Request` into the bytes of one provider's format, and the events of a stream into
an `Answer`. What stands in `Answer.blocks` is the provider's own; all other fields have one meaning
everywhere.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from lillux.values import dataclass, field
from ryeos.items.errors import RyeError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """A tool that the model may call. ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture that a tool gave. ``media_type`` is like ``image/png``."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The outcome of one call. ``call_id`` and ``name`` are those of the call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A message of the user: the directive, a correction, what a person adds."""

    text: str


@dataclass(frozen=True, slots=True)
class Results:
    """The results of all calls of one answer, in the order of the calls."""

    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model wants. ``arguments`` is its text of JSON as it came, never repaired."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens that the provider reported, each of them counted in exactly one of the fields.

    None: not reported, negative, or no number. ``input_tokens`` are those that were neither read
    from a cache nor written to one, ``cache_write_tokens`` leave out those written for an hour.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None


class End(StrEnum):
    """Why the model stopped."""

    END_TURN = "end_turn"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    CONTEXT_FULL = "context_full"
    PAUSED = "paused"
    """The provider wants the same history with this answer at its end, to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the model.

    blocks   the provider's, in the form in which they must go back in the next request
    text     all text for a reader
    model    the model that answered, as the provider names it; ``""`` if it does not
    refusal  the model's words when it refused, else ``""``
    """

    blocks: tuple[Mapping[str, Any], ...]
    text: str
    calls: tuple[ToolCall, ...]
    end: End
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an answer that is still coming, for a reader who follows it."""

    kind: Literal["text", "thinking", "arguments"]
    text: str
    call_id: str = ""


Entry: TypeAlias = Question | Answer | Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All that one call of a model says.

    must_call  the name of a tool that the model has to call, or ``""``
    features   of the model: ``parallel_tools``, ``images``, ``thinking``, ``cache``, and
               ``max_completion_tokens`` (openai-chat: the limit is sent under that name)
    """

    model: str
    system: str
    history: tuple[Entry, ...]
    max_tokens: int
    tools: tuple[ToolOffer, ...] = ()
    must_call: str = ""
    features: frozenset[str] = frozenset()

    @property
    def offers(self) -> list[ToolOffer]:
        """The tools by name: an order that no chance changes, so that a provider's cache holds."""
        return sorted(self.tools, key=lambda offer: offer.name)


def require_answered(history: Sequence[Entry]) -> None:
    """Refuse a history in which a call has no result right behind it, or one too many.

    Every provider refuses such a request, and all that follow in the same thread. Raises RyeError.
    """
    for place, entry in enumerate(history):
        before = history[place - 1] if place else None
        wanted = [call.id for call in before.calls] if isinstance(before, Answer) else []
        given = [one.call_id for one in entry.results] if isinstance(entry, Results) else []
        if wanted != given:
            raise _unanswered(place, wanted, given)
    if history and isinstance(history[-1], Answer) and history[-1].calls:
        raise _unanswered(len(history), [call.id for call in history[-1].calls], [])


def _unanswered(place: int, wanted: Sequence[str], given: Sequence[str]) -> RyeError:
    return RyeError(
        f"history[{place}]: expected a result for each of the calls {list(wanted)},"
        f" found {list(given)}",
        code="INTERNAL",
    )
