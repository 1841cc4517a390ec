"""Filling in templates: ``${VARIABLE}`` from an environment, ``{name}`` from named values. Pure.

Templates come from trusted files, values from anywhere. So a template is read once, left to right,
and what is inserted is never read again: a value that looks like a template stays as it is.
Only values that are templates themselves (``templates``) are filled in turn, three levels deep.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MAX_ROUNDS = 3

_TOKEN = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)(?::-([^}]*))?\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LONE_NAME = re.compile(r"\s*\{([A-Za-z_][A-Za-z0-9_]*)\}\s*")

Quote = Callable[[str], str]


class _Missing:
    """No such name; the placeholder stays in the text."""


_MISSING = _Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Where values come from, in lookup order: ``fixed``, ``templates``, ``opaque``.

    fixed      values that nobody else can name
    templates  values that may hold placeholders themselves
    opaque     values of a caller, inserted as they are
    hidden     names of ``templates`` that placeholders never reach
    quote      applied to every inserted text, for templates that a shell will parse
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
        if isinstance(value, _Missing):
            return template
        return value if _as_is(lone.group(1), names) else _quoted(as_text(value), names)
    return _TOKEN.sub(lambda match: _replacement(match, names, rounds), template)


def _replacement(match: re.Match[str], names: Names, rounds: int) -> str:
    variable, default, name = match.groups()
    if variable:
        return _quoted(names.variables.get(variable) or default or "", names)
    value = _value(name, names, rounds)
    if isinstance(value, _Missing):
        return match.group()
    text = as_text(value)
    return text if _as_is(name, names) else _quoted(text, names)


def _quoted(text: str, names: Names) -> str:
    return names.quote(text) if names.quote else text


def _as_is(name: str, names: Names) -> bool:
    """Templates quote what is inserted into them; quoting the whole would quote twice."""
    return names.quote is None or name in names.verbatim or _is_template(name, names)


def _value(name: str, names: Names, rounds: int) -> object:
    if name in names.fixed:
        return names.fixed[name]
    if _is_template(name, names):
        return fill(names.templates[name], names, rounds - 1) if rounds else _MISSING
    return names.opaque.get(name, _MISSING)


def _is_template(name: str, names: Names) -> bool:
    return name not in names.fixed and name in names.templates and name not in names.hidden
