"""Extractors: the fields of each kind of item, and their rules as data.

A rule names a field, whether it is required, and which checks its value must pass. Checks are a
closed set of words; adding a rule is adding a row. The table is printed in ``docs/items.md``; the
bundle's extractors say the same as data (``docs/items.md``), and a test compares them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.fields import ABSENT
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.header_values import MetadataError
from ryeos.items.headers import parse_header
from ryeos.items.refs import FieldRule, FileType, ItemRef, Kind
from ryeos.items.specs import SPELLINGS, header_field, type_name

_SEMVER = pattern(r"[0-9]+\.[0-9]+\.[0-9]+")
_SNAKE_CASE = pattern(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Extractor:
    """The rules of a kind, and how much a search hit in each field weighs."""

    rules: tuple[FieldRule, ...]
    search_fields: Mapping[str, float]


# The text of a tool is a program, that of a directive for who carries it out: what they are for
# stands in their header.
_FIELDS_OF_HEADER = {"title": 3.0, "name": 3.0, "description": 2.0, "category": 1.5, "content": 0.3}
_FIELDS_OF_PAGE = {"title": 3.0, "name": 3.0, "description": 2.0, "category": 1.5, "content": 0.6}
_SEARCH_FIELDS = {"title": 3.0, "name": 3.0, "description": 2.0, "category": 1.5, "content": 1.0}

EXTRACTORS: Mapping[Kind, Extractor] = {
    Kind.TOOL: Extractor(
        (
            FieldRule("version", checks=("text", "semver")),
            FieldRule("tool_type"),
            FieldRule("category", checks=("text", "match_path")),
            FieldRule("description"),
        ),
        _FIELDS_OF_HEADER,
    ),
    Kind.DIRECTIVE: Extractor(
        (
            FieldRule("name", checks=("text", "match_filename", "snake_case")),
            FieldRule("version", checks=("text", "semver")),
            FieldRule("description"),
            FieldRule("category", checks=("text", "match_path")),
            FieldRule("author"),
        ),
        _FIELDS_OF_HEADER,
    ),
    Kind.KNOWLEDGE: Extractor(
        (
            FieldRule("name", checks=("text", "match_filename")),
            FieldRule("title"),
            FieldRule("version", checks=("text", "semver")),
            FieldRule("entry_type"),
            FieldRule("category", required=False, checks=("text", "match_path")),
        ),
        _FIELDS_OF_PAGE,
    ),
    Kind.CONFIG: Extractor(
        (
            FieldRule("version", checks=("text", "semver")),
            FieldRule("category", checks=("text", "match_path")),
        ),
        _SEARCH_FIELDS,
    ),
}


def extract(
    kind: Kind, suffix: str, text: str, where: str, file_type: FileType | None = None
) -> dict[str, Any]:
    """The metadata of an item's verified or reviewed text, field names without dunders.

    Raises MetadataError when the text cannot be parsed.
    """
    if kind in (Kind.TOOL, Kind.CONFIG):
        return _plain_names(parse_header(suffix, text, where, file_type))
    try:
        is_directive = kind is Kind.DIRECTIVE
        return _directive_fields(text) if is_directive else _knowledge_fields(text, suffix)
    except MetadataError as error:
        place = f"{where}: {error.place}"
        raise MetadataError(
            error.parser, error.problem, error.line, place=place, hint=error.hint
        ) from error


def problems(
    ref: ItemRef, header: Mapping[str, Any], further: tuple[FieldRule, ...] = ()
) -> tuple[str, ...]:
    """Every rule of its kind that an item breaks, in the order of the table, then ``further``."""
    found: list[str] = []
    for rule in (*EXTRACTORS[ref.kind].rules, *further):
        value = header.get(rule.field)
        if value is None or (value == "" and "match_path" not in rule.checks):
            if rule.required:
                found.append(f"Missing required field: {rule.field}")
            continue
        failures = (_CHECKS[check](rule.field, value, ref) for check in rule.checks)
        found.extend(filter(None, [next(filter(None, failures), "")]))
    return tuple(found)


def _plain_names(header: dict[str, Any]) -> dict[str, Any]:
    named = {name: header_field(header, name) for name in SPELLINGS}
    return header | {name: value for name, value in named.items() if value is not ABSENT}


def _directive_fields(text: str) -> dict[str, Any]:
    from ryeos.items.directives import parse_directive

    directive = parse_directive(text)
    return dict(directive.extra) | {
        "name": directive.name,
        "version": directive.version,
        "description": directive.description,
        "category": directive.category,
        "author": directive.author,
    }


def _knowledge_fields(text: str, suffix: str) -> dict[str, Any]:
    """An older spelling of ``name`` is ``id``."""
    from ryeos.items.knowledge import parse_knowledge

    metadata = dict(parse_knowledge(text, suffix).metadata)
    return {"name": metadata["id"], **metadata} if "id" in metadata else metadata


def _text(field: str, value: object, _: ItemRef) -> str:
    if isinstance(value, str):
        return ""
    return f"Field '{field}' must be a string, got {type_name(value)}"


def _semver(field: str, value: str, _: ItemRef) -> str:
    if _SEMVER.fullmatch(value):
        return ""
    return f"Field '{field}' must be semver format (X.Y.Z), got '{value[:60]}'"


def _match_filename(field: str, value: str, ref: ItemRef) -> str:
    if value == ref.name:
        return ""
    return f"Field '{field}' value '{value[:60]}' must match filename '{ref.name}'"


def _match_path(field: str, value: str, ref: ItemRef) -> str:
    if value == ref.category:
        return ""
    return f"Field '{field}' value '{value[:60]}' must match path category '{ref.category}'"


def _snake_case(field: str, value: str, _: ItemRef) -> str:
    if _SNAKE_CASE.fullmatch(value):
        return ""
    return f"Field '{field}' must be snake_case, got '{value[:60]}'"


_CHECKS: Mapping[str, Callable[[str, Any, ItemRef], str]] = {
    "text": _text,
    "semver": _semver,
    "match_filename": _match_filename,
    "match_path": _match_path,
    "snake_case": _snake_case,
}
