"""Templates of graphs: validate and fill them. Pure.

A template is a JSON value whose texts may hold ``${path || fallback | pipe}`` and
``{input:name}``; ``docs/graphs.md`` has every rule. A text is read once: what comes
from the document is inserted as it is and never read again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ryeos.graph.pipes import PIPES, PipeError, text_of
from ryeos.graph.template_syntax import (
    Expression,
    Input,
    Literal,
    MalformedExpression,
    Part,
    Path,
    has_marks,
    look_up,
    parse_template,
    pipe_problem,
)
from ryeos.items.errors import RyeError

# What a template or a condition can do wrong while a graph runs.

_SHOWN_ERROR = 200
SYNTAX_HINT = "rye graph validate shows where it is"
VALUE_HINT = "look at where the value comes from, or give it another pipe"


class ExpressionError(RyeError):
    """An expression of a graph has no value. ``text`` is the expression, as the file has it."""

    code = "EXPRESSION_ERROR"

    def __init__(self, text: str, problem: str, *, hint: str = "") -> None:
        self.text, self.problem = text, problem
        super().__init__(
            f"{shortened(text)}: {problem}", hint=hint or "rye graph validate shows where it is"
        )


def shortened(text: str) -> str:
    """A text as a message shows it, its beginning where it is long."""
    return text if len(text) <= _SHOWN_ERROR else text[:_SHOWN_ERROR] + "..."


MAX_DEPTH = 100
MAX_TEXT_CHARS = 16 * 1024 * 1024

Document: TypeAlias = Mapping[str, Any]
Warn: TypeAlias = Callable[[str], None]


def fill(template: Any, document: Document, warn: Warn) -> Any:  # noqa: ANN401 - JSON
    """A template with its values; lists and mappings are new, what is inserted is not copied.

    A text that is one expression takes the value with its type. Inside a longer text None is
    nothing, with a warning; an unknown pipe is left out, with a warning.

    document  ``state``, ``inputs``, ``result``, ``_now`` ... as the step has them
    warn      called with a line for a person

    Raises ExpressionError for what cannot be read or computed, and beyond `MAX_DEPTH` levels or
    `MAX_TEXT_CHARS` characters of one text.
    """
    return _fill_template(template, document, warn, MAX_DEPTH)


def problems(template: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON
    """Problems of a template before any run: (place in it, words), ``("a.b[0]", "...")``.

    A template without problems fills, or fails for its values only.
    """
    try:
        for place, text in _texts(template, "", MAX_DEPTH):
            for part in parse_template(text):
                yield from (
                    (place, f"{shortened(part_source(part))}: {line}")
                    for line in _part_problems(part)
                )
    except _TooDeepError as error:
        yield error.place, f"expected at most {MAX_DEPTH} levels of lists and mappings"


def references(template: Any) -> Iterator[Path]:  # noqa: ANN401 - JSON
    """Every path that a template asks for, in order, as often as it does; inputs as such."""
    try:
        for _, text in _texts(template, "", MAX_DEPTH):
            for part in parse_template(text):
                if isinstance(part, Input):
                    yield ("inputs", part.name)
                elif isinstance(part, Expression):
                    yield from (one for one in part.alternatives if not isinstance(one, Literal))
    except _TooDeepError:
        return  # `problems` reports them


def unquoted_in(text: str) -> list[str]:
    """The expressions inside a shell command whose values the shell would read as code.

    That is all that do not end in ``| sh``, but literals. A text that is one expression is a
    command that another person wrote, and is none of these.
    """
    parts = parse_template(text)
    if len(parts) == 1:
        return []
    return [part_source(part) for part in parts if _is_unquoted(part)]


def part_source(part: Part) -> str:
    """A part of a template as the file has it."""
    return part if isinstance(part, str) else part.source


def _is_unquoted(part: Part) -> bool:
    match part:
        case str():
            return False
        case Expression(_, alternatives, pipes) if pipes:
            return pipes[-1].name != "sh" and not _are_literals(alternatives)
        case Expression(_, alternatives, _):
            return not _are_literals(alternatives)
        case _:
            return True


def _are_literals(alternatives: tuple[Path | Literal, ...]) -> bool:
    return all(isinstance(one, Literal) for one in alternatives)


def _part_problems(part: Part) -> Iterator[str]:
    match part:
        case MalformedExpression(_, problem):
            yield problem
        case Expression(_, _, pipes):
            yield from filter(None, map(pipe_problem, pipes))


class _TooDeepError(ValueError):
    """A template with more levels than `MAX_DEPTH`; ``place`` is one beyond."""

    def __init__(self, place: str) -> None:
        self.place = place


def _texts(template: Any, place: str, levels: int) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Every text with its place: keys behind dots, indexes in brackets."""
    if isinstance(template, str):
        if has_marks(template):
            yield place, template
    elif isinstance(template, (dict, list, tuple)):
        if not levels:
            raise _TooDeepError(place)
        for step, entry in _entries(template):
            yield from _texts(entry, f"{place}{step}" if place else step.lstrip("."), levels - 1)


def _entries(template: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if isinstance(template, dict):
        return ((f".{key}", entry) for key, entry in template.items())
    return ((f"[{index}]", entry) for index, entry in enumerate(template))


def _fill_template(template: Any, document: Document, warn: Warn, levels: int) -> Any:  # noqa: ANN401
    if isinstance(template, str):
        return _filled_text(template, document, warn) if has_marks(template) else template
    if not isinstance(template, (dict, list, tuple)):
        return template
    if not levels:
        raise ExpressionError("template", f"expected at most {MAX_DEPTH} levels, found more")
    if isinstance(template, dict):
        return {
            k: _fill_template(entry, document, warn, levels - 1) for k, entry in template.items()
        }
    return [_fill_template(entry, document, warn, levels - 1) for entry in template]


def _filled_text(text: str, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    parts = parse_template(text)
    if len(parts) == 1:
        return _value(parts[0], document, warn)
    texts: list[str] = []
    room = MAX_TEXT_CHARS
    for part in parts:
        texts.append(_part_text(part, document, warn))
        room -= len(texts[-1])
        if room < 0:
            raise _too_long(part_source(part))
    return "".join(texts)


def _part_text(part: Part, document: Document, warn: Warn) -> str:
    """A part as it stands inside a longer text."""
    if isinstance(part, str):
        return part
    value = _value(part, document, warn)
    if value is None:
        warn(f"{shortened(part.source)}: there is no value, nothing stands in its place")
        return ""
    try:
        return text_of(value)
    except PipeError as error:
        raise ExpressionError(part.source, str(error), hint=VALUE_HINT) from error


def _value(part: Part, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    match part:
        case str():
            return part
        case MalformedExpression(source, problem):
            raise ExpressionError(source, problem, hint=SYNTAX_HINT)
        case Input():
            return _input_value(part, document, warn)
        case Expression():
            return _expression_value(part, document, warn)


def _input_value(part: Input, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    """The input, its default, or the reference itself where there is neither."""
    inputs = document.get("inputs")
    if isinstance(inputs, Mapping) and inputs.get(part.name) is not None:
        return inputs[part.name]
    if part.default is None:
        warn(f"{shortened(part.source)}: no such input, it is left as it is")
        return part.source
    return part.default


def _expression_value(part: Expression, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    value = None
    for one in part.alternatives:
        value = one.value if isinstance(one, Literal) else look_up(document, one)
        if value is not None:
            break
    for call in part.pipes:
        pipe = PIPES.get(call.name)
        if pipe is None:
            warn(f"{shortened(part.source)}: {pipe_problem(call)}; the value is left as it is")
        elif value is not None or pipe.sees_none:
            try:
                value = pipe.apply(value, call.argument.value if call.argument else None)
            except PipeError as error:
                problem = f"{call.name}: {error}"
                raise ExpressionError(part.source, problem, hint=VALUE_HINT) from error
            if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
                raise _too_long(part.source)
    return value


def _too_long(source: str) -> ExpressionError:
    return ExpressionError(
        source,
        f"expected a text of at most {MAX_TEXT_CHARS} characters, found more",
        hint="hand the value over whole, as an expression of its own",
    )
