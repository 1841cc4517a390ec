"""A schema rewritten so that fastjsonschema judges it right, whatever its texts say.

The library turns a schema into Python source. This form spares it what it trips over, or reads
otherwise than the standard:

- every ``$ref`` becomes a number: the library derives function names from references, and
  ``#/$defs/a-b`` and ``#/$defs/A_B`` would share one;
- what is nested deeper than `_MAX_LEVELS` moves behind a number too: Python compiles at most 20
  nested blocks;
- ``const`` becomes ``enum``, in which the library does not look for ``$id`` and ``$ref``;
- ``$`` in patterns is written so that it means the very end everywhere;
- ``prefixItems``, ``dependentRequired``, ``dependentSchemas`` take their older names;
- what restricts nothing is left out: annotations, ``format``, unknown keywords.
"""

from collections.abc import Mapping
from typing import Any

from lillux.schema.keywords import (
    COUNTS,
    NUMBERS,
    SCHEMA_LISTS,
    Schema,
    dependent_names,
    dependent_schemas,
    item_schemas,
    python_pattern,
)

_MAX_LEVELS = 5
_COPIED = ("type", "enum", "multipleOf", "uniqueItems", "required", *NUMBERS, *COUNTS)
_SCHEMAS = ("not", "if", "then", "else", "contains", "propertyNames")


def library_form(schema: Schema, targets: Mapping[str, Schema]) -> dict[str, Any]:
    """The schema, a part of one whose references lead to ``targets``, as the library should see it.

    Nothing of the result is shared with ``schema`` but values that nobody changes.
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
        if level == _MAX_LEVELS:
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
