"""A parameter schema, bent into the form in which a provider accepts it. Pure.

Providers refuse a request for one keyword in the schema of one tool. So what is sent may be wider
than the schema of the tool; the arguments that come back are validated with the tool's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from lillux.fields import Fields
from lillux.schema import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS
from lillux.values import dataclass

Schema: TypeAlias = Mapping[str, Any]

MAX_INLINED = 64
"""References followed in one schema where a provider takes none: a reference in a reference in
... doubles the schema each time."""

_REMARKS = frozenset({"$schema", "$id", "$comment", "$anchor"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRules:
    """The limits of schemas that a provider accepts.

    root                   ``merge``: no `oneOf`, `anyOf`, `allOf`, `$ref` at the root
    additional_properties  ``demand``: false at each object; ``refuse``: never; else as it is
    unsupported            keywords that are left out wherever they stand. Of `const`, `oneOf` and
                           `$ref` the meaning is kept where another keyword can say it
    """

    root: Literal["keep", "merge"] = "merge"
    additional_properties: Literal["keep", "demand", "refuse"] = "keep"
    unsupported: frozenset[str] = frozenset()


def schema_rules(fields: Fields, default: SchemaRules) -> SchemaRules:
    """The rules that a mapping of the configuration changes. ``fields`` reports wrong values."""
    root = fields.read("root", ("keep", "merge").__contains__, "keep or merge")
    additional = fields.read(
        "additional_properties",
        ("keep", "demand", "refuse").__contains__,
        "keep, demand or refuse",
    )
    return SchemaRules(
        root=root or default.root,
        additional_properties=additional or default.additional_properties,
        unsupported=frozenset(fields.texts("unsupported")) or default.unsupported,
    )


def bend(schema: Schema, rules: SchemaRules) -> dict[str, Any]:
    """The schema to send: that of an object, changed as the rules say. Changes nothing."""
    root = dict(schema)
    if rules.root == "merge":
        merging = _Merging(schema)
        root = merging.merged(schema)
        if merging.left < 0:  # properties are missing
            root.pop("additionalProperties", None)
    bent = _Bending(schema, rules).schema(root)
    found = {"type": "object", "properties": {}, **(bent if isinstance(bent, dict) else {})}
    found["type"] = "object"
    return found


_MAX_BRANCHES = 256


class _Merging:
    """Makes one object schema of a root that is several. ``left`` bounds the branches."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self.left = _MAX_BRANCHES

    def merged(self, schema: Schema) -> dict[str, Any]:
        """The schema without `oneOf`, `anyOf`, `allOf` and `$ref`, with the properties of all.

        Of `allOf` every branch counts, so all that is required stays required. Of the others one
        counts, so only what every branch requires is required.
        """
        rest = {key: value for key, value in schema.items() if key not in {*SCHEMA_LISTS, "$ref"}}
        target = _target(schema.get("$ref"), self._document)
        wholes = self._branches([*schema.get("allOf", ()), target])
        found = _all_of([rest, *wholes])
        for keyword in ("anyOf", "oneOf"):
            branches = self._branches(schema.get(keyword, ()))
            if branches:
                found = _all_of([found, _any_of(branches)])
        return found

    def _branches(self, values: Sequence[Any]) -> list[dict[str, Any]]:
        """The branches that allow anything at all; one too many allows everything."""
        found: list[dict[str, Any]] = []
        for value in values:
            if value is None or value is False:
                continue
            self.left -= 1
            found.append(
                self.merged(value) if isinstance(value, Mapping) and self.left >= 0 else {}
            )
        return found


def _all_of(parts: Sequence[Schema]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            found.setdefault(key, value)
    properties = _properties(parts)
    if properties:
        found["properties"] = properties
    required = sorted({name for part in parts for name in part.get("required", ())})
    found.pop("required", None)
    if required:
        found["required"] = required
    if len(parts) > 1 and any(part.get("properties") for part in parts[1:]):
        found.pop("additionalProperties", None)  # each branch meant only its own properties
    return found


def _any_of(branches: Sequence[Schema]) -> dict[str, Any]:
    required = set.intersection(*({*branch.get("required", ())} for branch in branches))
    return {"properties": _properties(branches), "required": sorted(required)}


def _properties(parts: Sequence[Schema]) -> dict[str, Any]:
    """The properties of all parts; one that differs between them is any of its forms."""
    forms: dict[str, list[Any]] = {}
    for part in parts:
        for name, rules in part.get("properties", {}).items():
            known = forms.setdefault(name, [])
            if rules not in known:
                known.append(rules)
    return {
        name: known[0] if len(known) == 1 else _one_form(known) for name, known in forms.items()
    }


def _one_form(forms: Sequence[Any]) -> dict[str, Any]:
    values = [_values(form) for form in forms]
    if all(value is not None for value in values):
        return {"enum": [one for value in values for one in value or ()]}
    return {"anyOf": list(forms)}


def _values(form: object) -> list[Any] | None:
    """The values that a form lists, None if it does not."""
    if not isinstance(form, Mapping):
        return None
    if "const" in form:
        return [form["const"]]
    listed = form.get("enum")
    return list(listed) if isinstance(listed, list | tuple) else None


class _Bending:
    """Goes once over a schema, with all that the rules say of each level."""

    def __init__(self, document: Schema, rules: SchemaRules) -> None:
        self._document, self._rules = document, rules
        self._inlined = 0
        self._open: tuple[str, ...] = ()

    def schema(self, schema: object) -> object:
        if not isinstance(schema, Mapping):
            return schema
        if "$ref" in schema and "$ref" in self._rules.unsupported:
            return self._inline(schema)
        return self._level(schema)

    def _level(self, schema: Schema) -> dict[str, Any]:
        bent: dict[str, Any] = {}
        for keyword, value in schema.items():
            if not _is_remark(keyword):
                bent |= self._keyword(keyword, value)
        self._close(bent)
        return bent

    def _keyword(self, keyword: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        unsupported = self._rules.unsupported
        if keyword in unsupported:
            keyword, value = _REPLACED.get(keyword, _dropped)(value)
            if not keyword or keyword in unsupported:
                return {}
        if keyword in SCHEMA_MAPS and isinstance(value, Mapping):
            if keyword in _DEFINITIONS and "$ref" in unsupported:
                return {}
            return {keyword: {name: self.schema(one) for name, one in value.items()}}
        if isinstance(value, list | tuple) and keyword in _LISTS:
            return {keyword: [self.schema(one) for one in value]}
        return {keyword: self.schema(value) if keyword in _SINGLE else value}

    def _close(self, bent: dict[str, Any]) -> None:
        match self._rules.additional_properties:
            case "keep":
                return
            case "refuse":
                bent.pop("additionalProperties", None)
            case "demand" if bent.get("type") == "object" or "properties" in bent:
                bent["additionalProperties"] = False
        # A provider that looks so closely refuses a name that is required and not declared.
        if "required" in bent:
            declared = bent.get("properties", {})
            bent["required"] = [name for name in bent["required"] if name in declared]

    def _inline(self, schema: Schema) -> object:
        """A reference's target in its place; one that leads back to itself allows anything."""
        ref = schema["$ref"]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        target = _target(ref, self._document)
        self._inlined += 1
        if target is None or ref in self._open or self._inlined > MAX_INLINED:
            return self._level(rest)
        before, self._open = self._open, (*self._open, ref)
        found = self.schema({**target, **rest})
        self._open = before
        return found


_LISTS = frozenset({*SCHEMA_LISTS, "prefixItems", "items"})
_SINGLE = frozenset({*SCHEMAS, "items"})
_DEFINITIONS = frozenset({"$defs", "definitions"})


def _dropped(_: object) -> tuple[str, Any]:
    return "", None


_REPLACED: Mapping[str, Any] = {
    "const": lambda value: ("enum", [value]),
    "oneOf": lambda value: ("anyOf", value),
}


def _is_remark(keyword: str) -> bool:
    """True if a keyword says nothing of the value to anyone but us."""
    return keyword in _REMARKS or keyword.startswith("x-")


def _target(ref: object, document: Schema) -> Schema | None:
    """The schema that a reference within the document names."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    found: object = document
    for step in filter(None, ref[1:].split("/")):
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None
