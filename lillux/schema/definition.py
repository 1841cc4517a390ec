"""A schema that has been checked: what it says is possible, and every reference leads somewhere."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lillux.schema.checks import (
    Path,
    SchemaError,
    check_rule,
    require_list,
    require_mapping,
    require_members,
    require_names,
    schema_error,
    wrong,
)
from lillux.schema.keywords import (
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    SCHEMAS,
    Schema,
    python_pattern,
    same_value_schemas,
)
from lillux.schema.wording import describe_value, json_text
from lillux.values import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """A checked schema. ``targets`` are the schemas in it that its references (``$ref``) name."""

    root: Schema
    targets: Mapping[str, Schema]


def read_definition(root: Schema) -> Definition:
    """The checked schema of a JSON value. Raises SchemaError for the first thing wrong in it."""
    reader = _Reader(root)
    try:
        reader.read()
    except RecursionError:
        raise SchemaError("", "more references in a row than can be followed") from None
    return Definition(root, MappingProxyType(reader.targets))


class _Reader:
    """Goes once over a schema and all that its references name, and checks every keyword."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.targets: dict[str, Schema] = {}
        self._seen: set[int] = set()
        self._ending: set[int] = set()

    def read(self) -> None:
        self._schema(self.root, ())
        for ref, target in self.targets.items():
            self._require_end(target, ref, frozenset())

    def _schema(self, schema: object, path: Path) -> None:
        if isinstance(schema, bool) or id(schema) in self._seen:
            return
        if not isinstance(schema, dict):
            raise wrong(path, "a schema", schema)
        self._seen.add(id(schema))
        for keyword, rule in schema.items():
            check_rule(keyword, rule, (*path, keyword))
            self._inner_schemas(keyword, rule, (*path, keyword))
        _require_one_tuple(schema, path)
        _require_allowed(schema, path)

    def _inner_schemas(self, keyword: str, rule: object, path: Path) -> None:
        if keyword == "$ref":
            self._reference(rule, path)
        elif keyword in SCHEMAS:
            self._schema(rule, path)
        elif keyword in SCHEMA_LISTS:
            self._schemas(require_members(rule, path), path)
        elif keyword in SCHEMA_MAPS:
            for name, schema in require_mapping(rule, path).items():
                self._schema(schema, (*path, name))
        elif keyword == "prefixItems":
            self._schemas(rule, path)
        elif keyword == "items":
            self._list_or_schema(self._schemas, rule, path)
        elif keyword == "dependencies":
            for name, dependent in require_mapping(rule, path).items():
                self._list_or_schema(require_names, dependent, (*path, name))

    def _schemas(self, schemas: object, path: Path) -> None:
        for index, schema in enumerate(require_list(schemas, path)):
            self._schema(schema, (*path, index))

    def _list_or_schema(
        self, check_list: Callable[[object, Path], object], rule: object, path: Path
    ) -> None:
        if isinstance(rule, list):
            check_list(rule, path)
        else:
            self._schema(rule, path)

    def _reference(self, ref: object, path: Path) -> None:
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise wrong(path, 'a reference inside this schema, like "#/$defs/name"', ref)
        if ref in self.targets:
            return
        target_path = _reference_path(ref)
        target = _look_up(self.root, target_path)
        if not isinstance(target, dict | bool):
            found = "nothing" if target is None else describe_value(target)
            raise schema_error(path, f"expected a schema at {json_text(ref)}, found {found}")
        self.targets[ref] = target
        self._schema(target, target_path)

    def _require_end(self, schema: Schema, ref: str, trail: frozenset[int]) -> None:
        """Refuse references that come back to where they started with the same value."""
        if isinstance(schema, bool) or id(schema) in self._ending:
            return
        if id(schema) in trail:
            raise SchemaError(ref[1:], "refers to itself without end")
        trail |= {id(schema)}
        if "$ref" in schema:
            self._require_end(self.targets[schema["$ref"]], ref, trail)
        for inner in same_value_schemas(schema):
            self._require_end(inner, ref, trail)
        self._ending.add(id(schema))


def _reference_path(ref: str) -> tuple[str, ...]:
    from urllib.parse import unquote

    steps = unquote(ref).split("/")[1:]
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def _look_up(root: Schema, path: tuple[str, ...]) -> object:
    found: Any = root
    for step in path:
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def _require_one_tuple(schema: dict[str, Any], path: Path) -> None:
    if "prefixItems" in schema and isinstance(schema.get("items"), list):
        raise wrong((*path, "items"), "a schema beside prefixItems", schema["items"])


def _require_allowed(schema: dict[str, Any], path: Path) -> None:
    if schema.get("additionalProperties", True) is not False:
        return
    patterns = [re.compile(python_pattern(text)) for text in schema.get("patternProperties", {})]
    for name in schema.get("required", ()):
        declared = name in schema.get("properties", {})
        if not declared and not any(pattern.search(name) for pattern in patterns):
            problem = f"{json_text(name)} is required, but additionalProperties forbids it"
            raise schema_error((*path, "required"), problem)
