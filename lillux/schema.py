"""JSON Schema: all problems of a value, and the defaults of absent keys.

The rules are fastjsonschema's, and this package is the only one that imports it. Supported
keywords and how they are read: docs/items.md, Parameter schemas. ``format`` is a remark and
checks nothing, a pattern may match anywhere, ``$ref`` stays inside the schema, ``3.0`` is an
integer and ``true`` is not.

A schema comes from a signed item: it cannot run code or reach the network, but one written to be
slow (a pathological pattern) is slow.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

from lillux.digests import MAX_DEPTH, CanonicalJsonError, canonical_json, json_pointer, require_json
from lillux.schema_keywords import (
    COUNTS,
    NUMBERS,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    SCHEMAS,
    Path,
    Schema,
    SchemaError,
    dependent_names,
    dependent_schemas,
    describe_value,
    expected_by,
    found_for,
    item_schemas,
    json_text,
    library_form,
    listed,
    printable,
    python_pattern,
    require_list,
    require_mapping,
    require_members,
    require_names,
    same_value_schemas,
    schema_error,
    validate_keyword,
    wrong,
)
from lillux.values import dataclass

# --- definition -----------------------------------------------------------------------------------
# A schema that has been checked: what it says is possible, and every reference leads somewhere.


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
            validate_keyword(keyword, rule, (*path, keyword))
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


# --- judge ----------------------------------------------------------------------------------------
# Verdicts on values, by a schema, by a part of it or by one keyword of a part.

Verdict: TypeAlias = Callable[[object], bool]
Compile: TypeAlias = Callable[[dict[str, Any]], Verdict]


class Judge:
    """Asks the library, compiling the root at once and each part when first asked for it.

    Safe to share between threads: at worst two of them compile the same part.
    """

    def __init__(self, definition: Definition, compile_form: Compile) -> None:
        self.definition = definition
        self._compile = compile_form
        self._parts: dict[tuple[int, str], Verdict] = {}
        self._root = self._compiled(definition.root)

    def accepts(self, value: object) -> bool:
        """Whether the value fits the whole schema."""
        return self._root(value)

    def part_accepts(self, schema: Schema, value: object, keyword: str = "") -> bool:
        """Whether the value fits ``schema``, a part of the definition; of it, only ``keyword``."""
        if isinstance(schema, bool):
            return schema
        place = (id(schema), keyword)  # parts live as long as the definition
        verdict = self._parts.get(place)
        if verdict is None:
            part = {keyword: schema[keyword]} if keyword else schema
            verdict = self._parts[place] = self._compiled(part)
        return verdict(value)

    def _compiled(self, schema: Schema) -> Verdict:
        return self._compile(library_form(schema, self.definition.targets))


# --- walk -----------------------------------------------------------------------------------------
# Every way in which a value breaks a schema, found by walking both together.
#
# The library says only what it stumbled over first. The walk asks it about one keyword at a time,
# and goes only into what it refuses.

_OWN_KEYWORDS = (
    "type", "enum", "const", *NUMBERS, "multipleOf", *COUNTS, "pattern", "uniqueItems", "contains",
    "anyOf", "oneOf", "not",
)  # fmt: skip
_MAX_GUESSES = 16
_MAX_COMPARED = 64


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
        where = printable(self.pointer) or "(root)"
        return f"{where}: expected {self.expected}, found {self.found}"


def collect_violations(judge: Judge, value: object) -> tuple[Violation, ...]:
    """What is wrong with a value, in the order of the value, nothing twice.

    The value must be JSON (`lillux.digests.require_json`).
    """
    walk = _Walk(judge)
    walk.visit(judge.definition.root, value, ())
    return tuple(dict.fromkeys(walk.violations))


class _Walk:
    def __init__(self, judge: Judge) -> None:
        self.violations: list[Violation] = []
        self._judge = judge
        self._targets = judge.definition.targets
        self._guesses = 0

    def visit(self, schema: Schema, value: object, path: Path) -> None:
        if self._judge.part_accepts(schema, value):
            return
        before = len(self.violations)
        if not isinstance(schema, bool):
            self._own_keywords(schema, value, path)
            self._find_missing(schema, value, path)
            for inner in self._same_value(schema, value):
                self.visit(inner, value, path)
            if isinstance(value, dict):
                self._keys(schema, value, path)
            elif isinstance(value, list | tuple):
                self._array(schema, value, path)
        if len(self.violations) == before:
            expected = "nothing" if schema is False else "a value that fits the whole schema"
            self._add(path, expected, describe_value(value))

    def _add(self, path: Path, expected: str, found: str) -> None:
        self.violations.append(Violation(json_pointer(path), expected, found))

    def _own_keywords(self, schema: dict[str, Any], value: object, path: Path) -> None:
        for keyword in _OWN_KEYWORDS:
            if keyword in schema and not self._judge.part_accepts(schema, value, keyword):
                expected = expected_by(keyword, schema[keyword], self._targets)
                meant = self._similar_value(schema[keyword], value) if keyword == "enum" else ""
                self._add(path, expected + meant, self._found_text(keyword, schema, value))

    def _similar_value(self, allowed: Iterable[object], value: object) -> str:
        """Which of the values was meant, where one is much like what is there."""
        names = {text: True for text in allowed if isinstance(text, str)}
        similar = self._similar(value, names, {}) if isinstance(value, str) else ""
        return f" (did you mean {json_text(similar)}?)" if similar else ""

    @staticmethod
    def _named_type(schema: Schema, name: str) -> str:
        """The type that a property is declared to have; a value where it has none, or several."""
        properties = schema.get("properties") if isinstance(schema, dict) else None
        declared = properties.get(name) if isinstance(properties, dict) else None
        kind = declared.get("type") if isinstance(declared, dict) else None
        return kind if isinstance(kind, str) else "a value"

    def _found_text(self, keyword: str, schema: dict[str, Any], value: object) -> str:
        found = found_for(keyword, value)
        if keyword != "oneOf":
            return found
        fitting = sum(self._judge.part_accepts(inner, value) for inner in schema["oneOf"])
        return f"{found}, which fits {fitting} of them" if fitting else found

    def _same_value(self, schema: dict[str, Any], value: object) -> Iterator[Schema]:
        if "$ref" in schema:
            yield self._targets[schema["$ref"]]
        yield from schema.get("allOf", ())
        if "if" in schema:
            chosen = "then" if self._judge.part_accepts(schema["if"], value) else "else"
            yield schema.get(chosen, True)
        if isinstance(value, dict):
            for key, dependent in dependent_schemas(schema).items():
                if key in value:
                    yield dependent

    def _find_missing(self, schema: dict[str, Any], value: object, path: Path) -> None:
        if not isinstance(value, dict):
            return
        for name in schema.get("required", ()):
            if name not in value:
                self._add((*path, name), f"{self._named_type(schema, name)} (required)", "nothing")
        for key, names in dependent_names(schema).items():
            for name in names:
                if key in value and name not in value:
                    expected = f"a value (required by {json_text(key)})"
                    self._add((*path, name), expected, "nothing")

    def _keys(self, schema: dict[str, Any], value: dict[str, Any], path: Path) -> None:
        properties, patterns = schema.get("properties", {}), _patterns(schema)
        names, rest = schema.get("propertyNames", True), schema.get("additionalProperties", True)
        known = f" (known: {listed(properties)})" if properties else ""
        for key, child in value.items():
            if not self._judge.part_accepts(names, key):
                self._key_name(names, key, path)
            declared = [inner for pattern, inner in patterns if pattern.search(key)]
            if key in properties:
                declared.append(properties[key])
            for inner in declared:
                self.visit(inner, child, (*path, key))
            if not declared and rest is False:
                similar = self._similar(key, properties, value)
                hint = f" (did you mean {json_text(similar)}?)" if similar else known
                self._add((*path, key), f"no such key{hint}", describe_value(child))
            elif not declared:
                self.visit(rest, child, (*path, key))

    def _key_name(self, names: Schema, key: str, path: Path) -> None:
        walk = _Walk(self._judge)
        walk.visit(names, key, ())
        for violation in walk.violations:
            self._add((*path, key), f"as key name {violation.expected}", violation.found)

    def _similar(self, key: str, names: Mapping[str, Schema], taken: Mapping[str, object]) -> str:
        # Comparing is slow, and the sender chose how many keys there are and how long.
        if self._guesses == _MAX_GUESSES or len(key) > _MAX_COMPARED:
            return ""
        self._guesses += 1
        from difflib import get_close_matches

        free = [name for name in names if name not in taken and len(name) <= _MAX_COMPARED]
        return next(iter(get_close_matches(key, free, n=1)), "")

    def _array(self, schema: dict[str, Any], value: Sequence[Any], path: Path) -> None:
        first, rest = item_schemas(schema)
        for index, item in enumerate(value):
            inner = first[index] if index < len(first) else rest
            self.visit(inner, item, (*path, index))


def _patterns(schema: dict[str, Any]) -> list[tuple[re.Pattern[str], Schema]]:
    return [
        (re.compile(python_pattern(text)), inner)
        for text, inner in schema.get("patternProperties", {}).items()
    ]


# --- schema ---------------------------------------------------------------------------------------

_MAX_REMEMBERED = 128


def violations(value: object, schema: Mapping[str, Any]) -> tuple[Violation, ...]:
    """Everything in which a value breaks a schema, in the order of the value; empty if it fits.

    A value that JSON cannot hold (NaN, a date, a key that is a number, 129 levels) breaks every
    schema, and only that is reported. Raises SchemaError for a schema that is wrong itself.
    """
    judge = _judge_for(schema)
    try:
        require_json(value)
    except CanonicalJsonError as error:
        return (Violation(error.pointer, error.expected, error.found),)
    try:
        return () if judge.accepts(value) else collect_violations(judge, value)
    except RecursionError:
        expected, found = "references that end sooner", "more in a row than can be followed"
        return (Violation("", expected, found),)


def with_defaults(value: object, schema: Mapping[str, Any]) -> object:
    """The value with the defaults of its schema, at any depth, where a key is absent.

    Only what ``properties`` (also behind ``$ref``) declare is filled in: nothing inside ``anyOf``
    and the like, nothing in arrays. A default of null counts only where null is allowed. The value
    is never changed; the defaults are copies. What JSON cannot hold comes back as it is.

    Raises SchemaError for a schema that is wrong itself, or whose defaults have no end.
    """
    judge = _judge_for(schema)
    try:
        require_json(value)
    except CanonicalJsonError:
        return value
    return fill_defaults(value, judge)


def validate_schema(schema: Mapping[str, Any]) -> None:
    """Refuse a schema that cannot validate values. Raises SchemaError."""
    _judge_for(schema)


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The verdict on a value, and in words what is wrong with it."""

    valid: bool
    errors: tuple[str, ...]


class SchemaValidator:
    """`violations` under the name and in the shape that embedders of Rye know."""

    def validate_parameters(self, value: object, schema: Mapping[str, Any]) -> ValidationResult:
        """Whether the value fits, and each violation as one line. Raises SchemaError."""
        errors = tuple(str(violation) for violation in violations(value, schema))
        return ValidationResult(valid=not errors, errors=errors)


def _judge_for(schema: Mapping[str, Any]) -> Judge:
    if not isinstance(schema, Mapping):
        raise SchemaError("", f"expected a mapping, found {describe_value(schema)}")
    try:
        text = canonical_json(dict(schema))
    except CanonicalJsonError as error:
        problem = f"expected {error.expected}, found {error.found}"
        raise SchemaError(error.pointer, problem) from error
    return _judge(text)


@lru_cache(maxsize=_MAX_REMEMBERED)
def _judge(text: bytes) -> Judge:
    # From its text the schema comes back as a private copy.
    return Judge(read_definition(json.loads(text)), _compile)


def _compile(form: dict[str, Any]) -> Callable[[object], bool]:
    """The door to the library: a verdict function for a schema in its form."""
    import fastjsonschema

    # Without details: they would repeat the whole schema in the source of every rule.
    validate = fastjsonschema.compile(
        form, use_default=False, use_formats=False, detailed_exceptions=False
    )

    def accepts(value: object) -> bool:
        try:
            validate(value)
        except (fastjsonschema.JsonSchemaValueException, ArithmeticError):
            return False  # arithmetic: multiples of a fraction are not exact beyond 10**308
        return True

    return accepts


# --- defaults -------------------------------------------------------------------------------------
# Values with the defaults of their schema filled in.

MAX_FILLED = 10_000
"""Defaults that one value may get; a few nested schemas could ask for millions."""


def fill_defaults(value: object, judge: Judge) -> object:
    """The value, in which each absent key has its default, at any depth through ``properties``.

    Nothing of the value is changed; what is not touched is shared with the result. Raises
    SchemaError when the defaults have no end.
    """
    return _DefaultFiller(judge).fill(judge.definition.root, value, ())


class _DefaultFiller:
    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._targets = judge.definition.targets
        self._filled = 0

    def fill(self, schema: Schema, value: object, path: tuple[str, ...]) -> object:
        if not isinstance(value, dict):
            return value
        result = dict(value)
        for name, inner in _properties(schema, self._targets):
            if name in result:
                result[name] = self.fill(inner, result[name], (*path, name))
            elif (default := self._default(inner)) is not _NOTHING:
                self._count(path)
                result[name] = self.fill(inner, deepcopy(default), (*path, name))
        return result

    def _default(self, schema: Schema) -> object:
        for part in _with_references(schema, self._targets):
            if "default" in part:
                default = part["default"]
                # Many write "default: null" and mean that there is none.
                unwanted = default is None and not self._judge.part_accepts(schema, None)
                return _NOTHING if unwanted else default
        return _NOTHING

    def _count(self, path: tuple[str, ...]) -> None:
        self._filled += 1
        if self._filled > MAX_FILLED or len(path) > MAX_DEPTH:
            raise SchemaError("", f"its defaults have no end, see {json_pointer(path[:3])}")


_NOTHING = object()


def _properties(schema: Schema, targets: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    for part in _with_references(schema, targets):
        yield from part.get("properties", {}).items()


def _with_references(schema: Schema, targets: Mapping[str, Schema]) -> Iterator[dict[str, Any]]:
    """The schema and what it refers to, as one reads it: nearest first."""
    while isinstance(schema, dict):
        yield schema
        if "$ref" not in schema:
            return
        schema = targets[schema["$ref"]]


# --- parameters -----------------------------------------------------------------------------------
# The short way to declare parameters: a list instead of a schema.


def schema_from_parameter_list(parameters: Sequence[object]) -> dict[str, Any]:
    """The schema that a list like ``[{name: x, type: string, required: true}]`` stands for.

    An entry has a ``name``, may be ``required`` (``false`` if it does not say), and all its other
    keys (``type``, ``default``, ``description``, ``enum``, ...) are the schema of that parameter.
    Unknown parameters are allowed, as in a schema that does not forbid them.

    Raises SchemaError, its pointer into the list. The schema itself is not checked here.
    """
    if not isinstance(parameters, list | tuple):
        raise wrong((), "a list of parameters", parameters)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for index, parameter in enumerate(parameters):
        entry = require_mapping(parameter, (index,))
        name = _name(entry, (index,))
        if name in properties:
            raise schema_error((index, "name"), f"{json_text(name)} is declared twice")
        properties[name] = {key: entry[key] for key in entry if key not in {"name", "required"}}
        if _is_required(entry, (index,)):
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _name(entry: dict[str, Any], path: Path) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise wrong((*path, "name"), "the name of a parameter", name)
    return name


def _is_required(entry: dict[str, Any], path: Path) -> bool:
    required = entry.get("required", False)
    if not isinstance(required, bool):
        raise wrong((*path, "required"), "true or false", required)
    return required
