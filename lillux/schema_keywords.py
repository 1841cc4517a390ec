"""The keywords of JSON Schema: which are supported, and how fastjsonschema gets them.

Dialect: draft 2020-12 and its predecessors down to draft 6, as far as docs/items.md, Parameter
schemas, says. Where they differ, both spellings work (``prefixItems`` and a list under ``items``,
``$defs`` and ``definitions``, ``dependentRequired`` and ``dependencies``), and keywords beside
``$ref`` count.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from lillux.digests import json_pointer
from lillux.errors import LilluxError

# --- keywords -------------------------------------------------------------------------------------

Schema: TypeAlias = dict[str, Any] | bool
"""A schema as JSON gives it: a mapping of keywords, or ``True`` (all) and ``False`` (nothing)."""

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")

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


def item_schemas(schema: Mapping[str, Any]) -> tuple[list[Schema], Schema]:
    """The schemas of the first items, one each, and the schema of all items after them."""
    if "prefixItems" in schema:
        return schema["prefixItems"], schema.get("items", True)
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items


def dependent_names(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """The keys that must be there when another one is."""
    older = {
        key: names
        for key, names in schema.get("dependencies", {}).items()
        if isinstance(names, list)
    }
    return {**older, **schema.get("dependentRequired", {})}


def dependent_schemas(schema: Mapping[str, Any]) -> dict[str, Schema]:
    """The schemas that the whole object must fit when a key is there."""
    older = {
        key: dependent
        for key, dependent in schema.get("dependencies", {}).items()
        if not isinstance(dependent, list)
    }
    return {**older, **schema.get("dependentSchemas", {})}


def same_value_schemas(schema: Mapping[str, Any]) -> Iterator[Schema]:
    """The schemas inside ``schema``, ``$ref`` apart, that judge the same value as it does."""
    for name in SCHEMA_LISTS:
        yield from schema.get(name, ())
    for name in ("not", "if", "then", "else"):
        if name in schema:
            yield schema[name]
    yield from dependent_schemas(schema).values()


def python_pattern(pattern: str) -> str:
    r"""The pattern, in which ``$`` is the very end of a text, as Python writes it.

    To Python a bare ``$`` also stands before a last newline. ``\Z`` says it without doubt; inside
    a set ``$`` is only a character, and is escaped so that no reader takes it for more.
    """
    return _DOLLAR_OR_SHIELD.sub(_translate, pattern)


_DOLLAR_OR_SHIELD = re.compile(
    r"""
      \\ (?: . | \Z )                                     # an escaped character
    | \[ \^? \]? (?: \\ (?: . | \Z ) | [^\]\\] )* \]?     # a set; ``]`` may be its first member
    | \$
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_SET = re.compile(r"\\.|[$\[&~|]", re.DOTALL)  # the last four: Python warns of doubled ones


def _translate(match: re.Match[str]) -> str:
    text = match[0]
    if text == "$":
        return r"\Z"
    if text.startswith("["):
        return "[" + _IN_SET.sub(_escape, text[1:])
    return text


def _escape(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else "\\" + match[0]


# --- wording --------------------------------------------------------------------------------------
# How values are put into words: on one line, printable, never long.

MAX_SHOWN = 80
"""Characters of one value that a message shows."""

MAX_LISTED = 240
"""Characters of a list of values that a message shows."""


def printable(text: str, limit: int = MAX_LISTED) -> str:
    """The text on one line: cut to ``limit`` characters, what cannot be printed escaped."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def json_text(value: object, limit: int = MAX_SHOWN) -> str:
    """The JSON of a value, cut; of a huge or endless one only what is shown is written."""
    if isinstance(value, str):
        value = value[: limit + 1]
    text = ""
    try:
        for part in _ENCODER.iterencode(value):
            text += part
            if len(text) > limit:
                break
    except ValueError:  # Python prints no integer of thousands of digits
        text += "..."
    return printable(text, limit)


_ENCODER = json.JSONEncoder(ensure_ascii=False, skipkeys=True, check_circular=False, default=str)


def listed(values: Iterable[object]) -> str:
    """JSON values one after another, cut: ``"a", "b", 3``."""
    text = ""
    for value in values:
        text += (", " if text else "") + json_text(value)
        if len(text) > MAX_LISTED:
            break
    return printable(text)


def counted(number: float, one: str, many: str) -> str:
    """A number of things: ``1 item``, ``3 items``."""
    return f"{int(number)} {one if number == 1 else many}"


def describe_value(value: object) -> str:
    """Type and content: ``string "x"``, ``integer 3``, ``null``, ``array [1, 2]``."""
    return "null" if value is None else f"{type_name(value)} {json_text(value)}"


def type_name(value: object) -> str:
    """The JSON type of a value; a number written with a point is a ``number``."""
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return type(value).__name__


_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "boolean"),  # before int, which it is to Python
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    ((list, tuple), "array"),
    (dict, "object"),
)


# --- checks ---------------------------------------------------------------------------------------
# What each keyword of a schema may hold, and the error for one that holds something else.

Path = tuple[str | int, ...]


class SchemaError(LilluxError):
    """A schema is wrong itself. ``pointer`` (RFC 6901) is where in it, ``""`` the schema itself."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, pointer: str, problem: str) -> None:
        self.pointer, self.problem = pointer, problem
        super().__init__(f"schema {printable(pointer) or '(root)'}: {problem}")


def schema_error(path: Path, problem: str) -> SchemaError:
    """The error for a problem at a path of keys and indices."""
    return SchemaError(json_pointer(path), problem)


def wrong(path: Path, expected: str, found: object) -> SchemaError:
    """The error for a value at ``path`` that is not what it should be."""
    return schema_error(path, f"expected {expected}, found {describe_value(found)}")


def validate_keyword(keyword: str, rule: object, path: Path) -> None:
    """Refuse a rule that its keyword cannot have; keywords with parts are not looked at.

    Raises SchemaError.
    """
    if keyword in _CHECKS:
        _CHECKS[keyword](rule, path)


def require_mapping(rule: object, path: Path) -> dict[str, Any]:
    """The rule, a mapping. Raises SchemaError."""
    if not isinstance(rule, dict):
        raise wrong(path, "a mapping", rule)
    return rule


def require_list(rule: object, path: Path) -> list[Any]:
    """The rule, a list. Raises SchemaError."""
    if not isinstance(rule, list):
        raise wrong(path, "a list", rule)
    return rule


def require_members(rule: object, path: Path) -> list[Any]:
    """The rule, a list that is not empty. Raises SchemaError."""
    if not require_list(rule, path):
        raise wrong(path, "a list with at least one member", rule)
    return require_list(rule, path)


def require_names(rule: object, path: Path) -> list[str]:
    """The rule, a list of names of keys, none of them twice. Raises SchemaError."""
    if not isinstance(rule, list):
        raise wrong(path, "a list of names of keys", rule)
    seen: set[str] = set()
    for index, name in enumerate(rule):
        if not isinstance(name, str):
            raise wrong((*path, index), "the name of a key", name)
        if name in seen:
            raise schema_error((*path, index), f"{json_text(name)} is named twice")
        seen.add(name)
    return rule


def _name_lists(rule: object, path: Path) -> None:
    for name, names in require_mapping(rule, path).items():
        require_names(names, (*path, name))


def _type(rule: object, path: Path) -> None:
    if isinstance(rule, list):
        for index, name in enumerate(require_members(rule, path)):
            _type_name(name, (*path, index))
    else:
        _type_name(rule, path)


def _type_name(name: object, path: Path) -> None:
    if name not in TYPES:
        raise wrong(path, f"one of {listed(TYPES)}", name)


def _number(rule: object, path: Path) -> None:
    if isinstance(rule, bool) or not isinstance(rule, int | float):
        raise wrong(path, "a number", rule)


def _divisor(rule: object, path: Path) -> None:
    if isinstance(rule, bool) or not isinstance(rule, int | float) or rule <= 0:
        raise wrong(path, "a number above 0", rule)


def _count(rule: object, path: Path) -> None:
    if isinstance(rule, bool) or not isinstance(rule, int | float) or rule < 0 or rule % 1:
        raise wrong(path, "a whole number of at least 0", rule)


def _boolean(rule: object, path: Path) -> None:
    if not isinstance(rule, bool):
        raise wrong(path, "true or false", rule)


def _pattern(rule: object, path: Path) -> None:
    if not isinstance(rule, str):
        raise wrong(path, "a regular expression", rule)
    try:
        re.compile(python_pattern(rule))
    except (re.error, OverflowError, RecursionError) as error:
        problem = f"{json_text(rule)} is not a regular expression Python can read: {error}"
        raise schema_error(path, problem) from error


def _pattern_map(rule: object, path: Path) -> None:
    for pattern in require_mapping(rule, path):
        _pattern(pattern, (*path, pattern))


def _refuse_keyword(_: object, path: Path) -> None:
    raise schema_error(path, "this keyword is not supported")


_CHECKS: Mapping[str, Callable[[object, Path], object]] = {
    "type": _type,
    "enum": require_members,
    "pattern": _pattern,
    "patternProperties": _pattern_map,
    "multipleOf": _divisor,
    "uniqueItems": _boolean,
    "required": require_names,
    "dependentRequired": _name_lists,
    **dict.fromkeys(NUMBERS, _number),
    **dict.fromkeys(COUNTS, _count),
    **dict.fromkeys(REFUSED, _refuse_keyword),
}


# --- expectation ----------------------------------------------------------------------------------
# What a schema asks for, in a few words: ``at least 3 characters``, ``string or null``.

_MAX_LEVELS = 3
_MAX_ALTERNATIVES = 12

Targets = Mapping[str, Schema]


def expected_by(keyword: str, rule: Any, targets: Targets) -> str:  # noqa: ANN401
    """What a keyword with this rule asks for. ``targets`` are the schemas behind each ``$ref``."""
    match keyword:
        case "not":
            return f"anything but {describe_schema(rule, targets)}"
        case "contains":
            return f"at least one item that is {describe_schema(rule, targets)}"
        case "anyOf":
            return _alternatives(rule, targets, 0)
        case "oneOf":
            return f"exactly one of these: {_alternatives(rule, targets, 0)}"
        case _:
            return _WORDS[keyword](rule)


def found_for(keyword: str, value: object) -> str:
    """What was found, in the terms of the keyword: lengths where the rule is about lengths."""
    unit = _UNITS.get(keyword)
    if unit is None or not isinstance(value, str | list | tuple | dict):
        return describe_value(value)
    length = counted(len(value), *unit)
    return f"{describe_value(value)} ({length})" if isinstance(value, str) else length


def describe_schema(schema: Schema, targets: Targets, level: int = 0) -> str:
    """A schema in a few words: ``integer (at least 1)``, ``object (with "name")``."""
    if isinstance(schema, bool):
        return "anything" if schema else "nothing"
    if level == _MAX_LEVELS:
        return json_text(schema)
    if "$ref" in schema:
        return describe_schema(targets[schema["$ref"]], targets, level + 1)
    words = [to_words(schema[name]) for name, to_words in _WORDS.items() if name in schema]
    if schema.get("required"):
        words.append(f"with {_required_words(schema)}")
    words += [
        _alternatives(schema[name], targets, level + 1)
        for name in ("anyOf", "oneOf")
        if name in schema
    ]
    if not words:
        return json_text(schema)
    return words[0] + (f" ({', '.join(words[1:])})" if words[1:] else "")


def _alternatives(schemas: list[Schema], targets: Targets, level: int) -> str:
    words = [describe_schema(schema, targets, level) for schema in schemas[:_MAX_ALTERNATIVES]]
    if len(schemas) > _MAX_ALTERNATIVES:
        words.append(f"{len(schemas) - _MAX_ALTERNATIVES} more")
    return printable(" or ".join(dict.fromkeys(words)))


def _required_words(schema: Mapping[str, Any]) -> str:
    # A key that can have one value only is what tells the alternatives of a union apart.
    words = []
    for name in schema["required"]:
        rule = schema.get("properties", {}).get(name)
        fixed = isinstance(rule, dict) and "const" in rule
        words.append(json_text(name) + (f": {json_text(rule['const'])}" if fixed else ""))
    return printable(", ".join(words))


def _types(rule: str | list[str]) -> str:
    return rule if isinstance(rule, str) else " or ".join(rule)


_CHARACTERS, _ITEMS, _KEYS = ("character", "characters"), ("item", "items"), ("key", "keys")
_UNITS = {
    "minLength": _CHARACTERS,
    "maxLength": _CHARACTERS,
    "minItems": _ITEMS,
    "maxItems": _ITEMS,
    "minProperties": _KEYS,
    "maxProperties": _KEYS,
}

# In the order in which a description names them.
_WORDS: dict[str, Callable[[Any], str]] = {
    "type": _types,
    "const": json_text,
    "enum": lambda rule: f"one of {listed(rule)}",
    "minimum": lambda rule: f"at least {json_text(rule)}",
    "exclusiveMinimum": lambda rule: f"more than {json_text(rule)}",
    "maximum": lambda rule: f"at most {json_text(rule)}",
    "exclusiveMaximum": lambda rule: f"less than {json_text(rule)}",
    "multipleOf": lambda rule: f"a multiple of {json_text(rule)}",
    "minLength": lambda rule: f"at least {counted(rule, *_CHARACTERS)}",
    "maxLength": lambda rule: f"at most {counted(rule, *_CHARACTERS)}",
    "pattern": lambda rule: f"text matching {json_text(rule)}",
    "minItems": lambda rule: f"at least {counted(rule, *_ITEMS)}",
    "maxItems": lambda rule: f"at most {counted(rule, *_ITEMS)}",
    "uniqueItems": lambda _: "no item twice",
    "minProperties": lambda rule: f"at least {counted(rule, *_KEYS)}",
    "maxProperties": lambda rule: f"at most {counted(rule, *_KEYS)}",
}


# --- library form ---------------------------------------------------------------------------------
# A schema rewritten so that fastjsonschema judges it right, whatever its texts say.
#
# The library turns a schema into Python source. This form spares it what it trips over, or reads
# otherwise than the standard:
#
# - every ``$ref`` becomes a number: the library derives function names from references, and
#   ``#/$defs/a-b`` and ``#/$defs/A_B`` would share one;
# - what is nested deeper than `_MAX_LEVELS` moves behind a number too: Python compiles at most 20
#   nested blocks;
# - ``const`` becomes ``enum``, in which the library does not look for ``$id`` and ``$ref``;
# - ``$`` in patterns is written so that it means the very end everywhere;
# - ``prefixItems``, ``dependentRequired``, ``dependentSchemas`` take their older names;
# - what restricts nothing is left out: annotations, ``format``, unknown keywords.

_MAX_FORM_LEVELS = 5
_COPIED = ("type", "enum", "multipleOf", "uniqueItems", "required", *NUMBERS, *COUNTS)
_SCHEMAS = ("not", "if", "then", "else", "contains", "propertyNames")


def library_form(schema: Schema, targets: Mapping[str, Schema]) -> dict[str, Any]:
    """The schema, a part of one whose references lead to ``targets``, as the library should see it.

    Nothing of the result is shared with ``schema`` but values that are never changed.
    """
    translation = _Translation(targets)
    root = translation.translate(schema, 0)
    return {"allOf": [root], "definitions": translation.definitions()}


class _Translation:
    def __init__(self, targets: Mapping[str, Schema]) -> None:
        self._targets = targets
        self._numbered: dict[int, int] = {}
        self._schemas: list[Schema] = []

    def definitions(self) -> dict[str, Any]:
        """All that got a number on the way; translating one may number more."""
        done: dict[str, Any] = {}
        while len(done) < len(self._schemas):
            done[str(len(done))] = self.translate(self._schemas[len(done)], 0)
        return done

    def translate(self, schema: Schema, level: int) -> Schema:
        if isinstance(schema, bool):
            return schema
        if level == _MAX_FORM_LEVELS:
            return self._reference(schema)
        form = {name: schema[name] for name in _COPIED if name in schema}
        form |= {
            name: self.translate(schema[name], level + 1) for name in _SCHEMAS if name in schema
        }
        for name in SCHEMA_LISTS:
            if name in schema:
                form[name] = [self.translate(inner, level + 1) for inner in schema[name]]
        if "pattern" in schema:
            form["pattern"] = python_pattern(schema["pattern"])
        self._add_keys(form, schema, level + 1)
        self._add_items(form, schema, level + 1)
        more = self._all_of(schema, level + 1)
        if more:
            form["allOf"] = form.get("allOf", []) + more
        return form

    def _add_keys(self, form: dict[str, Any], schema: dict[str, Any], level: int) -> None:
        if schema.get("properties"):
            form["properties"] = {
                name: self.translate(inner, level) for name, inner in schema["properties"].items()
            }
        for text, inner in schema.get("patternProperties", {}).items():
            patterns = form.setdefault("patternProperties", {})
            both = patterns.setdefault(python_pattern(text), {"allOf": []})
            both["allOf"].append(self.translate(inner, level))
        rest = self.translate(schema.get("additionalProperties", True), level)
        if rest not in (True, {}):  # beside "required", the library takes {} for a prohibition
            form["additionalProperties"] = rest

    def _add_items(self, form: dict[str, Any], schema: dict[str, Any], level: int) -> None:
        first, rest = item_schemas(schema)
        if first:
            form["items"] = [self.translate(inner, level) for inner in first]
        if rest is not True:
            form["additionalItems" if first else "items"] = self.translate(rest, level)

    def _all_of(self, schema: dict[str, Any], level: int) -> list[Schema]:
        """What has no place of its own in the form, as schemas that must fit too."""
        more: list[Schema] = []
        if "const" in schema:
            more.append({"enum": [schema["const"]]})
        if "$ref" in schema:
            more.append(self._reference(self._targets[schema["$ref"]]))
        if names := dependent_names(schema):
            more.append({"dependencies": names})
        if schemas := dependent_schemas(schema):
            forms = {key: self.translate(inner, level) for key, inner in schemas.items()}
            more.append({"dependencies": forms})
        return more

    def _reference(self, schema: Schema) -> Schema:
        if isinstance(schema, bool):
            return schema
        number = self._numbered.setdefault(id(schema), len(self._schemas))
        if number == len(self._schemas):
            self._schemas.append(schema)
        return {"$ref": f"#/definitions/{number}"}
