"""JSON Schema: all problems of a value, and the defaults of absent keys.

Dialect: draft 2020-12 and its predecessors down to draft 6, as far as docs/items.md, Parameter
schemas, says. Where they differ, both spellings work (``prefixItems`` and a list under ``items``,
``$defs`` and ``definitions``, ``dependentRequired`` and ``dependencies``). ``format`` is a remark
and checks nothing, a pattern may match anywhere, ``$ref`` stays inside the schema and keywords
beside it count, ``3.0`` is an integer and ``true`` is not.

A schema is read once: each keyword is checked, and becomes a function that judges values. Then one
pass over a value finds all that is wrong with it. A schema comes from a signed item: it cannot run
code or reach the network, but one written to be slow (a pathological pattern) is slow.
"""

import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lillux.canonical_json import (
    MAX_DEPTH,
    CanonicalJsonError,
    canonical_json,
    json_pointer,
    require_json,
)
from lillux.schema_checks import (
    PROBE,
    Check,
    Report,
    Unfit,
    accept_all,
    check_all,
    check_rules,
    composite_checks,
    refuse_all,
)
from lillux.schema_keywords import (
    KEYWORDS,
    RULES,
    Schema,
    SchemaError,
    SchemaPath,
    compiled_search,
    require_list,
    require_mapping,
    require_members,
    require_names,
    schema_error,
    wrong_keyword,
)
from lillux.values import dataclass

_MAX_REMEMBERED = 128


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule of a schema that a value breaks.

    ``pointer`` (RFC 6901) is where in the value, ``""`` the value itself; of what is missing, where
    it should be. ``expected`` and ``found`` are words: ``integer``, ``string "x"``.
    """

    pointer: str
    expected: str
    found: str

    def __str__(self) -> str:
        from lillux.foreign_text import printable

        where = printable(self.pointer) or "(root)"
        return f"{where}: expected {self.expected}, found {self.found}"


def violations(value: object, schema: Mapping[str, Any]) -> tuple[Violation, ...]:
    """Everything in which a value breaks a schema, in the order of the value, nothing twice.

    A value that JSON cannot hold (NaN, a date, a key that is a number, 129 levels) breaks every
    schema, and only that is reported. Raises SchemaError for a schema that is wrong itself.
    """
    checked = _checked_schema(schema)
    try:
        require_json(value)
    except CanonicalJsonError as error:
        return (Violation(error.pointer, error.expected, error.found),)
    report = Report()
    try:
        checked.check(value, None, report)
    except RecursionError:
        expected, found = "references that end sooner", "more in a row than can be followed"
        return (Violation("", expected, found),)
    if not report.findings:
        return ()
    from lillux.schema_words import Writer

    writer = Writer(checked.targets, checked.accepts)
    return tuple(dict.fromkeys(Violation(*writer.words(*one)) for one in report.findings))


def with_defaults(value: object, schema: Mapping[str, Any]) -> object:
    """The value with the defaults of its schema, at any depth, where a key is absent.

    Only what ``properties`` (also behind ``$ref``) declare is filled in: nothing inside ``anyOf``
    and the like, nothing in arrays. A default of null counts only where null is allowed. The value
    is never changed; the defaults are copies. What JSON cannot hold comes back as it is.

    Raises SchemaError for a schema that is wrong itself, or whose defaults have no end.
    """
    checked = _checked_schema(schema)
    try:
        require_json(value)
    except CanonicalJsonError:
        return value
    return _DefaultFiller(checked).fill(checked.root, value, ())


def validate_schema(schema: Mapping[str, Any]) -> None:
    """Refuse a schema that cannot validate values. Raises SchemaError."""
    _checked_schema(schema)


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The verdict on a value, and in words what is wrong with it."""

    valid: bool
    errors: tuple[str, ...]


class SchemaValidator:
    """`violations` under the name and in the shape that embedders of Rye know."""

    def validate_parameters(self, value: object, schema: Mapping[str, Any]) -> ValidationResult:
        """The verdict on a value, and each violation as one line. Raises SchemaError."""
        errors = tuple(str(violation) for violation in violations(value, schema))
        return ValidationResult(valid=not errors, errors=errors)


def _checked_schema(schema: Mapping[str, Any]) -> "_CheckedSchema":
    """The schema, read; one that was read lately is remembered. Raises SchemaError."""
    if not isinstance(schema, Mapping):
        raise wrong_keyword((), "a mapping", schema)
    try:
        return _remembered_schema(marshal.dumps(dict(schema), 2))
    except ValueError:  # of types that only behave like those of JSON, or what JSON cannot hold
        return _remembered_schema(marshal.dumps(_own_copy(schema), 2))


@lru_cache(maxsize=_MAX_REMEMBERED)
def _remembered_schema(data: bytes) -> "_CheckedSchema":
    return _CheckedSchema(_own_copy(marshal.loads(data)))  # noqa: S302 - written just above


def _own_copy(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the schema as its canonical text has it, its keys in one order."""
    try:
        copy: dict[str, Any] = json.loads(canonical_json(dict(schema)))
    except CanonicalJsonError as error:
        problem = f"expected {error.expected}, found {error.found}"
        raise SchemaError(error.pointer, problem) from error
    return copy


SCHEMAS = (
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalProperties",
    "additionalItems",
)
SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
SCHEMA_MAPS = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs")


class _CheckedSchema:
    """A schema without mistakes, whose references all lead somewhere. Threads may share it.

    root     the schema, JSON that is not changed
    targets  the schemas in it that its references (``$ref``) name
    """

    def __init__(self, root: dict[str, Any]) -> None:
        """Raises SchemaError for the first thing wrong in a schema."""
        self.root = root
        self.targets: dict[str, Schema] = {}
        self._checks: dict[int, Check] = {}
        self._ending: set[int] = set()
        self._readers: dict[str, Callable[[Any, SchemaPath], Any]] = {
            **KEYWORDS,
            **dict.fromkeys(SCHEMAS, self._read),
            **dict.fromkeys(SCHEMA_LISTS, self._read_members),
            **dict.fromkeys(SCHEMA_MAPS, self._read_map),
            "patternProperties": self._read_patterns,
            "prefixItems": self._read_list,
            "items": self._read_items,
            "dependencies": self._read_dependencies,
            "$ref": self._read_reference,
        }
        try:
            self.check = self._read(root, ())
            for ref, target in self.targets.items():
                self._require_end(target, ref, frozenset())
        except RecursionError:
            raise SchemaError("", "more references in a row than can be followed") from None

    def accepts(self, part: Schema, value: object) -> bool:
        """True if the value fits a part of the schema."""
        try:
            self._read(part, ())(value, None, PROBE)
        except Unfit:
            return False
        return True

    def _read(self, schema: object, path: SchemaPath) -> Check:
        if isinstance(schema, bool):
            return accept_all if schema else refuse_all
        if not isinstance(schema, dict):
            raise wrong_keyword(path, "a schema", schema)
        if id(schema) not in self._checks:
            # References back to here get the function before it has anything to judge by.
            parts: list[Check] = []
            self._checks[id(schema)] = check_all(parts)
            read: dict[str, Any] = {}
            for keyword, rule in schema.items():
                if keyword in self._readers:
                    read[keyword] = self._readers[keyword](rule, (*path, keyword))
            rules = [(read[name], name, schema[name]) for name in RULES if name in read]
            parts += [check_rules(rules)] if rules else []
            if len(rules) < len(read):
                _require_one_tuple(schema, path)
                _require_allowed(schema, read.get("patternProperties", ()), path)
                parts += composite_checks(schema, read)
            if len(parts) == 1:
                self._checks[id(schema)] = parts[0]
        return self._checks[id(schema)]

    def _read_list(self, schemas: object, path: SchemaPath) -> list[Check]:
        return [
            self._read(one, (*path, index)) for index, one in enumerate(require_list(schemas, path))
        ]

    def _read_items(self, rule: object, path: SchemaPath) -> Check | list[Check]:
        return (self._read_list if isinstance(rule, list) else self._read)(rule, path)

    def _read_members(self, schemas: object, path: SchemaPath) -> list[Check]:
        return self._read_list(require_members(schemas, path), path)

    def _read_map(self, schemas: object, path: SchemaPath) -> dict[str, Check]:
        return {
            name: self._read(one, (*path, name))
            for name, one in require_mapping(schemas, path).items()
        }

    def _read_patterns(self, schemas: object, path: SchemaPath) -> list[tuple[Any, Check]]:
        searches = [compiled_search(text, (*path, text)) for text in require_mapping(schemas, path)]
        return [*zip(searches, self._read_map(schemas, path).values(), strict=True)]

    def _read_dependencies(self, rule: object, path: SchemaPath) -> dict[str, Check | list[str]]:
        return {
            key: (require_names if isinstance(one, list) else self._read)(one, (*path, key))
            for key, one in require_mapping(rule, path).items()
        }

    def _read_reference(self, ref: object, path: SchemaPath) -> Check:
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise wrong_keyword(path, 'a reference inside this schema, like "#/$defs/name"', ref)
        target_path = _reference_path(ref)
        if ref not in self.targets:
            target = _look_up(self.root, target_path)
            if not isinstance(target, dict | bool):
                from lillux.wording import describe_value, json_text

                found = "nothing" if target is None else describe_value(target)
                raise schema_error(path, f"expected a schema at {json_text(ref)}, found {found}")
            self.targets[ref] = target
        return self._read(self.targets[ref], target_path)

    def _require_end(self, schema: Schema, ref: str, trail: frozenset[int]) -> None:
        """Refuse references that come back to where they started with the same value."""
        if isinstance(schema, bool) or id(schema) in self._ending:
            return
        if id(schema) in trail:
            raise SchemaError(ref[1:], "refers to itself without end")
        trail |= {id(schema)}
        if "$ref" in schema:
            self._require_end(self.targets[schema["$ref"]], ref, trail)
        for inner in _same_value_schemas(schema):
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


def _same_value_schemas(schema: dict[str, Any]) -> Iterator[Schema]:
    """The schemas inside ``schema``, ``$ref`` apart, that judge the same value as it does."""
    for name in SCHEMA_LISTS:
        yield from schema.get(name, ())
    for name in ("not", "if", "then", "else"):
        yield schema.get(name, True)
    for name in ("dependencies", "dependentSchemas"):
        yield from (one for one in schema.get(name, {}).values() if not isinstance(one, list))


def _require_one_tuple(schema: dict[str, Any], path: SchemaPath) -> None:
    if "prefixItems" in schema and isinstance(schema.get("items"), list):
        raise wrong_keyword((*path, "items"), "a schema beside prefixItems", schema["items"])


def _require_allowed(schema: dict[str, Any], patterns: Iterable[Any], path: SchemaPath) -> None:
    if schema.get("additionalProperties", True) is False:
        for name in schema.get("required", ()):
            declared = name in schema.get("properties", {})
            if not declared and not any(search(name) for search, _ in patterns):
                from lillux.wording import json_text

                problem = f"{json_text(name)} is required, but additionalProperties forbids it"
                raise schema_error((*path, "required"), problem)


MAX_FILLED = 10_000
"""Defaults that one value may get; a few nested schemas could ask for millions."""


class _DefaultFiller:
    """Fills in each absent key. What is not touched is shared between the value and the result."""

    def __init__(self, checked: _CheckedSchema) -> None:
        self._checked = checked
        self._filled = 0

    def fill(self, schema: Schema, value: object, path: tuple[str, ...]) -> object:
        """Raises SchemaError when the defaults have no end."""
        if not isinstance(value, dict):
            return value
        result = dict(value)
        for part in self._with_references(schema):
            for name, inner in part.get("properties", {}).items():
                if name in result:
                    result[name] = self.fill(inner, result[name], (*path, name))
                elif (default := self._default(inner)) is not _NOTHING:
                    self._count(path)
                    result[name] = self.fill(inner, _copied(default), (*path, name))
        return result

    def _default(self, schema: Schema) -> object:
        for part in self._with_references(schema):
            if "default" in part:
                default = part["default"]
                # Many write "default: null" and mean that there is none.
                unwanted = default is None and not self._checked.accepts(schema, None)
                return _NOTHING if unwanted else default
        return _NOTHING

    def _count(self, path: tuple[str, ...]) -> None:
        self._filled += 1
        if self._filled > MAX_FILLED or len(path) > MAX_DEPTH:
            raise SchemaError("", f"its defaults have no end, see {json_pointer(path[:3])}")

    def _with_references(self, schema: Schema) -> Iterator[dict[str, Any]]:
        """The schema and what it refers to, as one reads it: nearest first."""
        while isinstance(schema, dict):
            yield schema
            if "$ref" not in schema:
                return
            schema = self._checked.targets[schema["$ref"]]


_NOTHING = object()


def _copied(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items()}
    return [_copied(child) for child in value] if isinstance(value, list) else value


def schema_from_parameter_list(parameters: Sequence[object]) -> dict[str, Any]:
    """The schema that a list like ``[{name: x, type: string, required: true}]`` stands for.

    An entry has a ``name``, may be ``required`` (``false`` if it does not say), and all its other
    keys (``type``, ``default``, ``description``, ``enum``, ...) are the schema of that parameter.
    Unknown parameters are allowed, as in a schema that does not forbid them.

    Raises SchemaError, its pointer into the list. The schema itself is not checked here.
    """
    if not isinstance(parameters, list | tuple):
        raise wrong_keyword((), "a list of parameters", parameters)
    properties: dict[str, Any] = {}
    names: list[str] = []
    for index, parameter in enumerate(parameters):
        entry = dict(require_mapping(parameter, (index,)))
        name, required = entry.pop("name", None), entry.pop("required", False)
        if not isinstance(name, str) or not name:
            raise wrong_keyword((index, "name"), "the name of a parameter", name)
        if name in properties:
            from lillux.wording import json_text

            raise schema_error((index, "name"), f"{json_text(name)} is declared twice")
        if not isinstance(required, bool):
            raise wrong_keyword((index, "required"), "true or false", required)
        properties[name] = entry
        names += [name] if required else []
    return {"type": "object", "properties": properties, "required": names}
