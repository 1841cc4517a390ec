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
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import lru_cache
from itertools import product, repeat
from math import isinf
from operator import ge, gt, le, lt
from typing import Any, NoReturn, TypeAlias

from lillux.digests import MAX_DEPTH, CanonicalJsonError, canonical_json, json_pointer, require_json
from lillux.errors import LilluxError
from lillux.patterns import pattern
from lillux.values import dataclass

Schema: TypeAlias = dict[str, Any] | bool
"""A schema as JSON gives it: a mapping of keywords, or ``True`` (all) and ``False`` (nothing)."""

_MAX_REMEMBERED = 128


class SchemaError(LilluxError):
    """A schema is wrong itself. ``pointer`` (RFC 6901) is where in it, ``""`` the schema itself."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, pointer: str, problem: str) -> None:
        from lillux.foreign_text import printable

        self.pointer, self.problem = pointer, problem
        super().__init__(f"schema {printable(pointer) or '(root)'}: {problem}")


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
    report = _Report()
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
        """Whether the value fits, and each violation as one line. Raises SchemaError."""
        errors = tuple(str(violation) for violation in violations(value, schema))
        return ValidationResult(valid=not errors, errors=errors)


def _checked_schema(schema: Mapping[str, Any]) -> "_CheckedSchema":
    """The schema, read; one that was read lately is remembered. Raises SchemaError."""
    if not isinstance(schema, Mapping):
        raise _wrong((), "a mapping", schema)
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


# --- report ---------------------------------------------------------------------------------------
# Where a pass over a value leaves what it finds.

Place: TypeAlias = tuple[Any, str | int] | None
"""A place in a value: the place above it and the last step, None for the value itself."""


class _Report:
    """All that breaks a schema; `lillux.schema_words` finds the words for it.

    findings  each: its place, whether it is about the name of the key there, its kind and what
              there is to say about that
    """

    def __init__(self) -> None:
        self.findings: list[tuple[Place, bool, str, tuple[Any, ...]]] = []
        self._is_of_name = False

    def add(self, place: Place, kind: str, *details: object) -> None:
        self.findings.append((place, self._is_of_name, kind, details))

    def add_name(self, place: Place, names: "Check", key: str) -> None:
        self._is_of_name = True
        names(key, place, self)
        self._is_of_name = False


class _Unfit(Exception):  # noqa: N818 - a verdict
    """A value does not fit."""


class _Probe:
    """The report of who asks only whether a value fits: the first finding ends the pass."""

    def add(self, *_: object) -> NoReturn:
        raise _Unfit

    def add_name(self, place: Place, names: "Check", key: str) -> None:
        names(key, place, self)


_PROBE = _Probe()

Check: TypeAlias = Callable[[Any, Place, _Report | _Probe], None]
"""Reports each way in which a value, which is at a place, breaks a schema."""

Fits: TypeAlias = Callable[[Any], bool]
"""Whether a value fits one keyword."""


# --- checked schema -------------------------------------------------------------------------------
# A schema becomes functions, while every keyword of it is checked.

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

REFUSED = (
    "unevaluatedProperties",
    "unevaluatedItems",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$recursiveRef",
)
"""Keywords that restrict values and are not supported: refused, not ignored."""

_Path: TypeAlias = tuple[str | int, ...]


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
        self._readers: dict[str, Callable[[Any, _Path], Any]] = {
            **_KEYWORDS,
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
        """Whether the value fits a part of the schema."""
        try:
            self._read(part, ())(value, None, _PROBE)
        except _Unfit:
            return False
        return True

    def _read(self, schema: object, path: _Path) -> Check:
        if isinstance(schema, bool):
            return _accept if schema else _refuse
        if not isinstance(schema, dict):
            raise _wrong(path, "a schema", schema)
        if id(schema) not in self._checks:
            # References back to here get the function before it has anything to judge by.
            parts: list[Check] = []
            self._checks[id(schema)] = _check_all(parts)
            read: dict[str, Any] = {}
            for keyword, rule in schema.items():
                if keyword in self._readers:
                    read[keyword] = self._readers[keyword](rule, (*path, keyword))
            rules = [(read[name], name, schema[name]) for name in _RULES if name in read]
            parts += [_check_rules(rules)] if rules else []
            if len(rules) < len(read):
                _require_one_tuple(schema, path)
                _require_allowed(schema, read.get("patternProperties", ()), path)
                parts += _parts(schema, read)
            if len(parts) == 1:
                self._checks[id(schema)] = parts[0]
        return self._checks[id(schema)]

    def _read_list(self, schemas: object, path: _Path) -> list[Check]:
        return [self._read(one, (*path, index)) for index, one in enumerate(_list(schemas, path))]

    def _read_items(self, rule: object, path: _Path) -> Check | list[Check]:
        return (self._read_list if isinstance(rule, list) else self._read)(rule, path)

    def _read_members(self, schemas: object, path: _Path) -> list[Check]:
        return self._read_list(_members(schemas, path), path)

    def _read_map(self, schemas: object, path: _Path) -> dict[str, Check]:
        return {
            name: self._read(one, (*path, name)) for name, one in _mapping(schemas, path).items()
        }

    def _read_patterns(self, schemas: object, path: _Path) -> list[tuple[Any, Check]]:
        searches = [_search(text, (*path, text)) for text in _mapping(schemas, path)]
        return [*zip(searches, self._read_map(schemas, path).values(), strict=True)]

    def _read_dependencies(self, rule: object, path: _Path) -> dict[str, Check | list[str]]:
        return {
            key: (_names if isinstance(one, list) else self._read)(one, (*path, key))
            for key, one in _mapping(rule, path).items()
        }

    def _read_reference(self, ref: object, path: _Path) -> Check:
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise _wrong(path, 'a reference inside this schema, like "#/$defs/name"', ref)
        target_path = _reference_path(ref)
        if ref not in self.targets:
            target = _look_up(self.root, target_path)
            if not isinstance(target, dict | bool):
                from lillux.wording import describe_value, json_text

                found = "nothing" if target is None else describe_value(target)
                raise _error(path, f"expected a schema at {json_text(ref)}, found {found}")
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


def _require_one_tuple(schema: dict[str, Any], path: _Path) -> None:
    if "prefixItems" in schema and isinstance(schema.get("items"), list):
        raise _wrong((*path, "items"), "a schema beside prefixItems", schema["items"])


def _require_allowed(schema: dict[str, Any], patterns: Iterable[Any], path: _Path) -> None:
    if schema.get("additionalProperties", True) is False:
        for name in schema.get("required", ()):
            declared = name in schema.get("properties", {})
            if not declared and not any(search(name) for search, _ in patterns):
                from lillux.wording import json_text

                problem = f"{json_text(name)} is required, but additionalProperties forbids it"
                raise _error((*path, "required"), problem)


def _error(path: _Path, problem: str) -> SchemaError:
    return SchemaError(json_pointer(path), problem)


def _wrong(path: _Path, expected: str, found: object) -> SchemaError:
    from lillux.wording import describe_value

    return _error(path, f"expected {expected}, found {describe_value(found)}")


def _mapping(rule: object, path: _Path) -> dict[str, Any]:
    if not isinstance(rule, dict):
        raise _wrong(path, "a mapping", rule)
    return rule


def _list(rule: object, path: _Path, expected: str = "a list") -> list[Any]:
    if not isinstance(rule, list):
        raise _wrong(path, expected, rule)
    return rule


def _members(rule: object, path: _Path) -> list[Any]:
    if not _list(rule, path):
        raise _wrong(path, "a list with at least one member", rule)
    return _list(rule, path)


# --- keywords -------------------------------------------------------------------------------------
# Keywords without schemas in them: each is checked, and becomes a function that judges a value.

_ARRAY, _NUMBER = (list, tuple), (int, float)  # `|` would make a new type for each value
_TYPES: dict[str, tuple[type, ...]] = {
    "array": _ARRAY,
    "boolean": (),  # true and false are numbers to Python
    "integer": (int,),
    "null": (type(None),),
    "number": _NUMBER,
    "object": (dict,),
    "string": (str,),
}


def _type(rule: Any, path: _Path) -> Fits:  # noqa: ANN401
    is_list = isinstance(rule, list)
    names = _members(rule, path) if is_list else [rule]
    for index, name in enumerate(names):
        if not isinstance(name, str) or name not in _TYPES:
            from lillux.wording import listed

            place = (*path, index) if is_list else path
            raise _wrong(place, f"one of {listed(_TYPES)}", name)
    kinds = tuple(kind for name in names for kind in _TYPES[name])
    takes_boolean, takes_whole = "boolean" in names, "integer" in names

    def fits(value: object) -> bool:
        if isinstance(value, bool):
            return takes_boolean
        is_whole = takes_whole and isinstance(value, float) and value.is_integer()
        return is_whole or isinstance(value, kinds)

    return fits


def _is_number(value: object) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


def _number(compare: Callable[[float, float], bool]) -> Callable[[Any, _Path], Fits]:
    def read(rule: Any, path: _Path) -> Fits:  # noqa: ANN401
        if not _is_number(rule):
            raise _wrong(path, "a number", rule)
        return lambda value: not _is_number(value) or compare(value, rule)

    return read


def _count(
    compare: Callable[[float, float], bool], *kinds: type[Sized]
) -> Callable[[Any, _Path], Fits]:
    def read(rule: Any, path: _Path) -> Fits:  # noqa: ANN401
        if not _is_number(rule) or rule < 0 or rule % 1:
            raise _wrong(path, "a whole number of at least 0", rule)
        return lambda value: not isinstance(value, kinds) or compare(len(value), rule)

    return read


def _multiple_of(rule: Any, path: _Path) -> Fits:  # noqa: ANN401
    if not _is_number(rule) or rule <= 0:
        raise _wrong(path, "a number above 0", rule)
    return lambda value: not _is_number(value) or _is_multiple(value, rule)


def _is_multiple(value: float, divisor: float) -> bool:
    """Whether a number is a multiple of another, as they are written: 0.3 is one of 0.1."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    try:
        if isinf(value / divisor):
            return False
    except OverflowError:  # an integer beyond all fractions
        return False
    from decimal import Context, Decimal

    # Exact: of a quotient that is no infinity, 309 digits stand before the point.
    return not Context(prec=400).remainder(Decimal(repr(value)), Decimal(repr(divisor)))


def _enum(rule: object, path: _Path) -> Fits:
    texts = frozenset(one for one in _members(rule, path) if isinstance(one, str))
    others = [one for one in _members(rule, path) if not isinstance(one, str)]

    def fits(value: object) -> bool:
        if isinstance(value, str):
            return value in texts
        return any(map(_is_same, others, repeat(value)))

    return fits


def _is_same(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Whether JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, dict):
        is_alike = isinstance(other, dict) and one.keys() == other.keys()
        return is_alike and all(map(_is_same, one.values(), map(other.get, one)))
    if isinstance(one, _ARRAY):
        is_alike = isinstance(other, _ARRAY) and len(one) == len(other)
        return is_alike and all(map(_is_same, one, other))
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _unique_items(rule: object, path: _Path) -> Fits:
    if not isinstance(rule, bool):
        raise _wrong(path, "true or false", rule)

    def fits(value: Any) -> bool:  # noqa: ANN401
        return not isinstance(value, _ARRAY) or len({*map(_hashable, value)}) == len(value)

    return fits if rule else lambda _: True


def _hashable(value: Any) -> Any:  # noqa: ANN401
    """A value that is equal for values that `_is_same` finds equal, and for no others."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, dict):
        return frozenset(zip(value, map(_hashable, value.values()), strict=True))
    return tuple(map(_hashable, value)) if isinstance(value, _ARRAY) else value


def _pattern(rule: object, path: _Path) -> Fits:
    search = _search(rule, path)
    return lambda value: not isinstance(value, str) or search(value) is not None


def _search(rule: object, path: _Path) -> Callable[[str], object]:
    if not isinstance(rule, str):
        raise _wrong(path, "a regular expression", rule)
    try:
        return re.compile(_python_pattern(rule)).search
    except (re.error, OverflowError, RecursionError) as error:
        from lillux.wording import json_text

        problem = f"{json_text(rule)} is not a regular expression Python can read: {error}"
        raise _error(path, problem) from error


def _python_pattern(text: str) -> str:
    r"""The pattern, in which ``$`` is the very end of a text, as Python writes it.

    To Python a bare ``$`` also stands before a last newline. ``\Z`` says it without doubt; inside
    a set ``$`` is only a character, and is escaped so that no reader takes it for more.
    """
    return _DOLLAR_OR_SHIELD.sub(_translate, text)


_DOLLAR_OR_SHIELD = pattern(
    r"""
      \\ (?: . | \Z )                                     # an escaped character
    | \[ \^? \]? (?: \\ (?: . | \Z ) | [^\]\\] )* \]?     # a set; ``]`` may be its first member
    | \$
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_SET = pattern(r"\\.|[$\[&~|]", re.DOTALL)  # the last four: Python warns of doubled ones


def _translate(match: re.Match[str]) -> str:
    text = match[0]
    if text == "$":
        return r"\Z"
    if text.startswith("["):
        return "[" + _IN_SET.sub(_escape, text[1:])
    return text


def _escape(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else "\\" + match[0]


def _names(rule: object, path: _Path) -> list[str]:
    seen: set[str] = set()
    for index, name in enumerate(_list(rule, path, "a list of names of keys")):
        if not isinstance(name, str):
            raise _wrong((*path, index), "the name of a key", name)
        if name in seen:
            from lillux.wording import json_text

            raise _error((*path, index), f"{json_text(name)} is named twice")
        seen.add(name)
    return _list(rule, path)


def _name_lists(rule: object, path: _Path) -> dict[str, list[str]]:
    return {key: _names(names, (*path, key)) for key, names in _mapping(rule, path).items()}


def _refused(_: object, path: _Path) -> None:
    raise _error(path, "this keyword is not supported")


# In the order in which a report names them.
_RULES: dict[str, Callable[[Any, _Path], Fits]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda rule, path: _enum([rule], path),
    "minimum": _number(ge),
    "maximum": _number(le),
    "exclusiveMinimum": _number(gt),
    "exclusiveMaximum": _number(lt),
    "multipleOf": _multiple_of,
    "minLength": _count(ge, str),
    "maxLength": _count(le, str),
    "minItems": _count(ge, *_ARRAY),
    "maxItems": _count(le, *_ARRAY),
    "minProperties": _count(ge, dict),
    "maxProperties": _count(le, dict),
    "pattern": _pattern,
    "uniqueItems": _unique_items,
}
_KEYWORDS: dict[str, Callable[[Any, _Path], Any]] = {
    **_RULES,
    "required": _names,
    "dependentRequired": _name_lists,
    **dict.fromkeys(REFUSED, _refused),
}


# --- parts ----------------------------------------------------------------------------------------
# The functions that a schema becomes. Each call counts: a value leads them as deep as it is nested.


def _parts(schema: dict[str, Any], read: dict[str, Any]) -> Iterator[Check]:
    """All that a schema asks for beside its rules, from what has been read of its keywords."""
    for name in ("contains", "anyOf", "oneOf", "not"):
        if name in read:
            yield _check_fitting(name, schema[name], read[name])
    older, names = read.get("dependencies", {}), read.get("dependentRequired", {})
    names = {key: one for key, one in older.items() if isinstance(one, list)} | names
    if read.get("required") or names:
        yield _check_missing(schema, read.get("required", ()), names)
    if "$ref" in read:
        yield read["$ref"]
    yield from read.get("allOf", ())
    if "if" in read:
        yield _check_condition(read["if"], read.get("then", _accept), read.get("else", _accept))
    checks = {key: one for key, one in older.items() if not isinstance(one, list)}
    if checks := checks | read.get("dependentSchemas", {}):
        yield _check_dependents(checks)
    if not read.keys().isdisjoint(_OF_KEYS):
        yield _check_keys(read, is_closed=schema.get("additionalProperties") is False)
    if not read.keys().isdisjoint(_OF_ITEMS):
        yield _check_items(read)


_OF_KEYS = ("properties", "patternProperties", "additionalProperties", "propertyNames")
_OF_ITEMS = ("items", "prefixItems")


def _accept(_: object, __: Place, ___: _Report | _Probe) -> None:
    pass


def _refuse(value: object, place: Place, report: _Report | _Probe) -> None:
    report.add(place, "nothing", value)


def _check_all(parts: list[Check]) -> Check:
    def check(value: object, place: Place, report: _Report | _Probe) -> None:
        for part in parts:
            part(value, place, report)

    return check


def _check_rules(rules: list[tuple[Fits, str, Any]]) -> Check:
    def check(value: object, place: Place, report: _Report | _Probe) -> None:
        for fits, keyword, rule in rules:
            if not fits(value):
                report.add(place, "rule", keyword, rule, value)

    return check


def _check_fitting(keyword: str, rule: object, read: Any) -> Check:  # noqa: ANN401
    """Counts the schemas that a value fits, or the items that fit a schema."""
    is_of_items = keyword == "contains"
    wanted, enough = int(keyword != "not"), 1 + (keyword == "oneOf")
    checks = read if isinstance(read, list) else [read]

    def check(value: Any, place: Place, report: _Report | _Probe) -> None:  # noqa: ANN401
        if is_of_items and not isinstance(value, _ARRAY):
            return
        fitting = 0
        for inner, one in product(checks, value if is_of_items else (value,)):
            try:
                inner(one, None, _PROBE)
            except _Unfit:
                continue
            fitting += 1
            if fitting == enough:
                break
        if fitting != wanted:
            report.add(place, "rule", keyword, rule, value)

    return check


def _check_missing(
    schema: dict[str, Any], required: Sequence[str], dependents: dict[str, list[str]]
) -> Check:
    def check(value: object, place: Place, report: _Report | _Probe) -> None:
        if not isinstance(value, dict):
            return
        for name in required:
            if name not in value:
                report.add((place, name), "missing", name, schema)
        for key, names in dependents.items():
            for name in names if key in value else ():
                if name not in value:
                    report.add((place, name), "dependent", key)

    return check


def _check_condition(condition: Check, then: Check, otherwise: Check) -> Check:
    def check(value: object, place: Place, report: _Report | _Probe) -> None:
        chosen = then
        try:
            condition(value, None, _PROBE)
        except _Unfit:
            chosen = otherwise
        chosen(value, place, report)

    return check


def _check_dependents(checks: dict[str, Check]) -> Check:
    def check(value: object, place: Place, report: _Report | _Probe) -> None:
        for key, dependent in checks.items():
            if isinstance(value, dict) and key in value:
                dependent(value, place, report)

    return check


def _check_keys(read: dict[str, Any], *, is_closed: bool) -> Check:
    properties: dict[str, Check] = read.get("properties", {})
    patterns, names = read.get("patternProperties", ()), read.get("propertyNames", _accept)
    rest = read.get("additionalProperties", _accept)

    def refuse(key: str, taken: dict[str, Any]) -> Check:
        return lambda child, place, report: report.add(place, "key", key, child, properties, taken)

    def name(key: str) -> Check:
        return lambda _, place, report: report.add_name(place, names, key)

    def checks_of(key: str, taken: dict[str, Any]) -> Sequence[Check]:
        declared = [check for search, check in patterns if search(key)]
        if key in properties:
            declared.append(properties[key])
        if not declared:
            declared.append(refuse(key, taken) if is_closed else rest)
        return [name(key), *declared] if names is not _accept else declared

    # The keys of most objects: nothing else has a say about them.
    is_simple = not patterns and names is _accept
    alone = {key: (check,) for key, check in properties.items() if is_simple}

    def check(value: object, place: Place, report: _Report | _Probe) -> None:
        if isinstance(value, dict):
            for key, child in value.items():
                for inner in alone.get(key) or checks_of(key, value):
                    inner(child, (place, key), report)

    return check


def _check_items(read: dict[str, Any]) -> Check:
    first, rest = read.get("prefixItems", []), read.get("items", _accept)
    if isinstance(rest, list):
        first, rest = rest, read.get("additionalItems", _accept)

    def check(value: object, place: Place, report: _Report | _Probe) -> None:
        if isinstance(value, _ARRAY):
            for index, item in enumerate(value):
                inner = first[index] if index < len(first) else rest
                inner(item, (place, index), report)

    return check


# --- defaults -------------------------------------------------------------------------------------
# Values with the defaults of their schema filled in.

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
        raise _wrong((), "a list of parameters", parameters)
    properties: dict[str, Any] = {}
    names: list[str] = []
    for index, parameter in enumerate(parameters):
        entry = dict(_mapping(parameter, (index,)))
        name, required = entry.pop("name", None), entry.pop("required", False)
        if not isinstance(name, str) or not name:
            raise _wrong((index, "name"), "the name of a parameter", name)
        if name in properties:
            from lillux.wording import json_text

            raise _error((index, "name"), f"{json_text(name)} is declared twice")
        if not isinstance(required, bool):
            raise _wrong((index, "required"), "true or false", required)
        properties[name] = entry
        names += [name] if required else []
    return {"type": "object", "properties": properties, "required": names}
