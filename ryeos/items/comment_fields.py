"""Lines of comments and docstrings that seem to declare a field: ``executor_id: a/b``.

Which fields count depends on the place. Among the lines of a header every field counts whose value
looks like one of its own; further down only names that no prose has, as ``executor_id``, with the
exact value. A line that says what Rye reads of the header anyway misleads no one.

A file of its own, imported late by `ryeos.items.declarations` and the readers of file types.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.header_names import Unread, squashed, with_plain_signs
from ryeos.items.header_values import TAGS, unquoted
from ryeos.items.specs import SPELLINGS, header_field

_BLOCK = pattern(r"(?s)[\[{]\s*(?:$|[\"'\[\]{}].*|[\w-]+\s*:.*)")
_WORD = pattern(r"[\w.-]+")
_FLAG = pattern(r"(?i)true|false|yes|no|on|off")
_SHAPES: Mapping[str, Any] = {
    "version": pattern(r"v?\d+\.\d+(?:\.\d+)?\S*"),
    "executor_id": pattern(r"[\w.-]+(?:/[\w.-]+)+"),
    "tool_type": _WORD,
    "category": pattern(r"[\w.-]+(?:/[\w.-]+)*"),
    "params_mode": _WORD,
    "execution_owner": _WORD,
    "retryable": _FLAG,
    "native_async": _FLAG,
    "config_resolve": pattern(r"(?s)[\[{].*|[\w.-]+(?:/[\w.-]+)+"),
    **dict.fromkeys(
        ("config_schema", "env_config", "verify_deps", "child_constraints", "execution_params"),
        _BLOCK,
    ),
    **dict.fromkeys(("config", "parameters", "inputs", "outputs", "anchor", "variants"), _BLOCK),
}
"""The form of a value of each field, in full; prose has other words behind the sign."""
_IN_BODY = frozenset(
    {"executor_id", "config_schema", "env_config", "verify_deps", "child_constraints"}
    | {"execution_params", "native_async"}
)
"""Fields whose names prose does not have: they count further down, too."""

_NAMES: Mapping[str, str] = {
    **{squashed(tag): tag for tag in TAGS},
    **{squashed(name): field for field, names in SPELLINGS.items() for name in names},
}
_PROSE = frozenset({"name", "description", "tool_description", "author"})
_LINE = pattern(
    r"[^\w@]*(?P<name>\w+(?:[ -]\w+)?)[\"'`*)\]]*[ \t\xa0]*(?::=?|=(?!=))[ \t\xa0]*(?P<value>.*)"
)
_TAG = pattern(r"[^\w@]*@(?P<name>\w+(?:-\w+)*)(?:[ \t\xa0]*[:=])?[ \t\xa0]*(?P<value>.*)")
_WORDS = "|".join(sorted("[_ -]?".join(name.strip("_").split("_")) for name in (*SPELLINGS, *TAGS)))
_MAY_DECLARE = pattern(
    rf"(?im)[#/*@][^\w\n]*_{{0,2}}(?:{_WORDS}|input[_ -]?schema)_{{0,2}}\b"
    rf"|^[^\w\n]*(?:{_WORDS}|input[_ -]?schema)[\"'`*)]*[ \t]*[:=]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentField:
    """A field that a line seems to declare: the name as written, the field, and the value."""

    name: str
    field: str
    value: str


def may_have_fields(text: str) -> bool:
    """True if a line of a text may be one that `field_in` finds: a quick search."""
    return _MAY_DECLARE.search(text) is not None


def field_in(line: str, *, is_header: bool) -> CommentField | None:
    """The field that a line seems to declare, without marks of a comment around it or with them.

    ``is_header``: it stands among the lines of a header.
    """
    found = _declared(line)
    if found is None or found.field not in _SHAPES:
        return None
    is_exact = found.name.startswith("__") or (found.field in _IN_BODY and "_" in found.name)
    is_value = _SHAPES[found.field].fullmatch(found.value) is not None
    return found if is_value and (is_header or is_exact) else None


def misspelt_prose(line: str) -> CommentField | None:
    """A field of prose, like ``Description``, in a place where the right letters would be read."""
    found = _declared(line)
    return found if found and found.value and found.field in _PROSE else None


def _declared(line: str) -> CommentField | None:
    said = with_plain_signs(line).rstrip(" \t\r*/")
    found = _TAG.fullmatch(said) or _LINE.fullmatch(said)
    field = _NAMES.get(squashed(found["name"])) if found else None
    if found is None or field is None:
        return None
    value = unquoted(found["value"].strip().rstrip(";,"))
    return CommentField(name=found["name"], field=field, value=value)


def repeats_header(found: CommentField, header: Mapping[str, Any]) -> bool:
    """True if a line says what is read of the header."""
    read = header_field(header, found.field)
    return isinstance(read, str) and read == found.value


def unread_lines(
    lines: Iterable[tuple[int, str]], header: Mapping[str, Any], *, is_header: bool, fix: str
) -> Iterator[Unread]:
    """Of lines with their numbers, those that declare a field and say another value than is read.

    ``fix`` says what to write instead; ``{field}`` in it is the name of the field.
    """
    for number, line in lines:
        found = field_in(line, is_header=is_header)
        if found and not repeats_header(found, header):
            problem = f"is not read here; {fix.format(field=found.field)}, or remove it"
            yield Unread(line=number, name=found.name, field=found.field, problem=problem)
