"""Fills templates: ``${VARIABLE}`` from an environment, ``{name}`` from named values. Pure.

Templates come from trusted files, values from anywhere. So a template is read once, left to right,
and what is inserted is never read again: a value that looks like a template stays as it is.
Only values that are templates themselves (``templates``) are filled in turn, three levels deep.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

from lillux.patterns import pattern
from lillux.values import dataclass, field, replace

MAX_ROUNDS = 3

# ``${lower}`` is no placeholder: shells and other languages write their variables so.
_TOKEN = pattern(r"\$\{([A-Z_][A-Z0-9_]*)(?::-([^}]*))?\}|(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LONE_NAME = pattern(r"\s*\{([A-Za-z_][A-Za-z0-9_]*)\}\s*")

Quote = Callable[[str, str], str]
"""From a value and its placeholder as written to what stands in the text."""


class _MissingName:
    """No such name; the placeholder stays in the text."""


_MISSING = _MissingName()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Sources of values, in lookup order: ``fixed``, ``templates``, ``opaque``.

    fixed      values that no other source can name
    templates  values that may hold placeholders themselves
    opaque     values of a caller, inserted as they are
    hidden     names of ``templates`` that placeholders never reach
    quote      applied to every inserted text, for templates that another language will parse; a
               default of ``${VARIABLE:-default}`` is that language's own, so it gets ``""`` then
    verbatim   names whose value is inserted without ``quote``
    """

    variables: Mapping[str, str]
    fixed: Mapping[str, object] = field(default_factory=dict)
    templates: Mapping[str, object] = field(default_factory=dict)
    opaque: Mapping[str, object] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    quote: Quote | None = None
    verbatim: frozenset[str] = frozenset()


def fill(template: object, names: Names, rounds: int = MAX_ROUNDS) -> object:
    """A template with its placeholders replaced, through lists and mappings.

    A string that is exactly one ``{name}`` takes the value with its type. A missing variable
    gives its default or nothing, an empty one too; an unknown name stays as it is.
    """
    match template:
        case str():
            return _fill_text(template, names, rounds)
        case list() | tuple():
            return [fill(entry, names, rounds) for entry in template]
        case dict():
            return {key: fill(value, names, rounds) for key, value in template.items()}
        case _:
            return template


def unknown_names(template: object, names: Names, rounds: int = MAX_ROUNDS) -> tuple[str, ...]:
    """The names of ``{name}`` placeholders that `fill` would leave standing, in order."""
    found: dict[str, None] = {}
    for text in _texts(template):
        for match in _TOKEN.finditer(text):
            name = match.group(3)
            if not name or name in names.fixed:
                continue
            inner = _template(name, names)
            if isinstance(inner, _MissingName):
                found |= {} if name in names.opaque else {name: None}
            elif not rounds:
                found[name] = None
            else:
                found |= dict.fromkeys(unknown_names(inner, names, rounds - 1))
    return tuple(found)


def empty_variables(template: object, names: Names, rounds: int = MAX_ROUNDS) -> tuple[str, ...]:
    """The names of ``${VARIABLE}`` placeholders that come to nothing: no value and no default."""
    found: dict[str, None] = {}
    for text in _texts(template):
        for match in _TOKEN.finditer(text):
            variable, default, name = match.groups()
            if variable and not (names.variables.get(variable) or default):
                found[variable] = None
            inner = _template(name, names) if name and name not in names.fixed else None
            if rounds and not isinstance(inner, _MissingName):
                found |= dict.fromkeys(empty_variables(inner, names, rounds - 1))
    return tuple(found)


def _texts(template: object) -> Iterator[str]:
    match template:
        case str():
            yield template
        case list() | tuple():
            for entry in template:
                yield from _texts(entry)
        case dict():
            for value in template.values():
                yield from _texts(value)


def as_text(value: object) -> str:
    """A value as it stands inside a text or an argument: JSON for all that is no string."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _fill_text(template: str, names: Names, rounds: int) -> object:
    lone = _LONE_NAME.fullmatch(template)
    if lone:
        value = _value(lone.group(1), names, rounds)
        if isinstance(value, _MissingName):
            return template
        return _inserted_value(value, lone.group(1), names)
    return _TOKEN.sub(lambda match: _replacement(match, names, rounds), template)


def _replacement(match: re.Match[str], names: Names, rounds: int) -> str:
    variable, default, name = match.groups()
    if variable:
        found = names.variables.get(variable, "")
        return names.quote(found, match.group()) if names.quote else found or default or ""
    value = _value(name, names, rounds)
    return (
        match.group()
        if isinstance(value, _MissingName)
        else as_text(_inserted_value(value, name, names))
    )


def _inserted_value(value: object, name: str, names: Names) -> object:
    """The value, quoted where that is asked for and has not been done to its parts already."""
    is_quoted_inside = name not in names.fixed and isinstance(_template(name, names), str)
    if names.quote is None or name in names.verbatim or is_quoted_inside:
        return value
    return names.quote(as_text(value), f"{{{name}}}")


def _value(name: str, names: Names, rounds: int) -> object:
    if name in names.fixed:
        return names.fixed[name]
    template = _template(name, names)
    if isinstance(template, _MissingName):
        return names.opaque.get(name, _MISSING)
    if not rounds:
        return _MISSING
    # A list or mapping is quoted as a whole, after it was written out as JSON.
    whole = names if isinstance(template, str) else replace(names, quote=None)
    return fill(template, whole, rounds - 1)


def _template(name: str, names: Names) -> object:
    return _MISSING if name in names.hidden else names.templates.get(name, _MISSING)
