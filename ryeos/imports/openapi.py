"""OpenAPI 3.0 and 3.1 documents, read as HTTP tools: one for each operation. Nothing is requested.

(1) references are followed inside of the document alone; a cycle becomes "anything"
(2) every text of the document that gets into a request has no mark of a template
(3) secrets are variables; the tool reaches the server of the document and no other
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from lillux.errors import LilluxError
from lillux.schema import validate_schema
from ryeos.imports.launches import rights_of_address
from ryeos.imports.plan import (
    ImportPlan,
    ImportSource,
    ProposedItem,
    plain_name,
    shown_path,
    source_error,
    source_text,
)
from ryeos.items.refs import ItemRef, Kind
from ryeos.items.yaml import parse_yaml, yaml_text

CATEGORY = "api"
MAX_DOCUMENT, MAX_OPERATIONS, MAX_DEPTH, MAX_NODES = 16 * 1024 * 1024, 500, 12, 3000
MAX_DESCRIPTION = 300
METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_MARKS = re.compile(r"[{}$\x00-\x1f\x7f]")
_PLACE = re.compile(r"\{([^{}]*)\}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,80}")
_OWN_HEADERS = frozenset({"accept", "authorization", "content-length", "content-type", "host"})
_KEPT = (
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "multipleOf"),
    *("uniqueItems", "minProperties", "maxProperties"),
)
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


class OperationError(LilluxError):
    """An operation that no tool can be made of."""

    code, exit_status = "VALIDATION_FAILED", 6


def read_openapi(source: ImportSource) -> ImportPlan:
    """A tool for each operation of a document. Raises RyeError `IMPORT_UNREADABLE`."""
    where = shown_path(source.path, source.project)
    said = _document(source)
    version = said.get("openapi")
    if not isinstance(version, str) or not version.startswith(("3.0", "3.1")):
        found = version or (f"swagger {said['swagger']}" if "swagger" in said else "no version")
        raise source_error(where, f"expected OpenAPI 3.0 or 3.1, found {str(found)[:40]}")
    paths = said.get("paths") or {}
    info = said.get("info") or {}
    if not isinstance(paths, Mapping) or not isinstance(info, Mapping):
        raise source_error(where, "paths, info: expected objects")
    api = plain_name(str(info.get("title") or source.path.stem))
    items, left = list[ProposedItem](), 0
    for path, one in paths.items():
        entry = _resolved_or_empty(said, one)
        for method in METHODS:
            if not isinstance(entry.get(method), Mapping):
                continue
            if len(items) >= MAX_OPERATIONS:
                left += 1
                continue
            items.append(_Operation(said, api, str(path), method, entry).item(where))
    notes = [f"{where}: {left} more operations: choose with --only"] if left else []
    return ImportPlan(tuple(items), tuple(notes if items else [f"{where}: no operations in it"]))


def _document(source: ImportSource) -> Mapping[str, Any]:
    where = shown_path(source.path, source.project)
    text = source_text(source.path, MAX_DOCUMENT)
    if text.lstrip()[:1] != "{":
        try:
            return parse_yaml(text, where)
        except LilluxError as error:
            raise source_error(where, str(error)) from None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise source_error(where, f"expected JSON: {error}") from None
    if not isinstance(said, Mapping):
        raise source_error(where, "expected an object")
    return said


def _resolved(said: Mapping[str, Any], value: object, depth: int = 0) -> object:
    """What a value is, its own reference followed. Raises OperationError for one that leads out."""
    reference = value.get("$ref") if isinstance(value, Mapping) else None
    if reference is None:
        return value
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise OperationError(f"$ref {str(reference)[:80]!r}: expected one inside of the document")
    if depth > MAX_DEPTH:
        raise OperationError(f"$ref {reference[:80]!r}: leads in a circle")
    found: object = said
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    if found is None:
        raise OperationError(f"$ref {reference[:80]!r}: not in the document")
    return _resolved(said, found, depth + 1)


def _resolved_or_empty(said: Mapping[str, Any], value: object) -> Mapping[str, Any]:
    try:
        found = _resolved(said, value)
    except OperationError:
        return {}
    return found if isinstance(found, Mapping) else {}


class _Operation:
    """One operation, on its way to a tool."""

    def __init__(
        self, said: Mapping[str, Any], api: str, path: str, method: str, entry: Mapping[str, Any]
    ) -> None:
        self._said, self._api, self._path, self._method = said, api, path, method
        self._entry: Mapping[str, Any] = entry
        self._operation: Mapping[str, Any] = entry[method]
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._variables: list[str] = []
        self._notes: list[str] = []

    def item(self, where: str) -> ProposedItem:
        """The tool; what keeps it from being made is among its problems."""
        called = self._operation.get("operationId")
        name = called if isinstance(called, str) and called else f"{self._method} {self._path}"
        spelt = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.replace("/", " "))
        ref = ItemRef(Kind.TOOL, f"{CATEGORY}/{self._api}/{plain_name(spelt)}")
        problems: tuple[str, ...] = ()
        values: dict[str, Any] = {}
        try:
            values = self._values(ref)
            validate_schema(values["config_schema"])
        except (LilluxError, ValueError, RecursionError) as error:
            problems = (str(error) or type(error).__name__,)
        data = b""
        if not problems:
            data = f"# Written by rye import.\n{yaml_text(values)}".encode()
        return ProposedItem(
            name=name[:100],
            ref=ref,
            suffix=".yaml",
            data=data,
            origin=f"{where}: {self._method.upper()} {_plain(self._path)}",
            shown=values.get("description", ""),
            notes=tuple(self._notes),
            problems=problems,
        )

    def _values(self, ref: ItemRef) -> dict[str, Any]:
        base = self._server()
        config: dict[str, Any] = {"method": self._method.upper()}
        path, query, headers = self._path, dict[str, Any](), dict[str, Any]()
        for parameter in self._parameters():
            place, name = parameter.get("in"), str(parameter.get("name", ""))
            own = self._add(name, parameter.get("schema"), parameter)
            if place == "path":
                path = path.replace(f"{{{name}}}", f"\0{own}\1")
                self._require(own)
            elif place == "query":
                query[_no_marks(name, "query")] = f"{{{own}}}"
            elif place == "header" and name.lower() not in _OWN_HEADERS:
                headers[_header(name)] = f"{{{own}}}"
            else:
                self._drop(own, f"{place} {name}"[:80])
        left = _PLACE.search(path)
        if left:
            raise OperationError(f"path: {left[0][:60]!r} is no parameter of it")
        _no_marks(path.replace("\0", "").replace("\1", ""), "path")
        filled = quote(path, safe="/:@!&'()*+,;=-._~").replace("%00", "{").replace("%01", "}")
        if not filled.startswith("/"):
            raise OperationError(f"path: expected one that begins with /, found {path[:60]!r}")
        config["url"] = f"{base}{filled}"
        self._body(config)
        self._security(config, query, headers)
        config |= {"query": query} if query else {}
        config |= {"headers": headers} if headers else {}
        rights = rights_of_address(base) | {"env": list(dict.fromkeys(self._variables))}
        return {
            "version": "1.0.0",
            "tool_type": "http",
            "executor_id": "rye/core/primitives/http_client",
            "category": ref.category,
            "description": self._description(),
            "sandbox": rights,
            "config_schema": {
                "type": "object",
                "properties": self._properties,
                "required": self._required,
                "additionalProperties": False,
            },
            "config": config,
        }

    def _description(self) -> str:
        texts = (self._operation.get("summary"), self._operation.get("description"))
        text = next((one for one in texts if isinstance(one, str) and one.strip()), "")
        return _plain(text) or f"{self._method.upper()} {_plain(self._path)}"

    def _server(self) -> str:
        """The address of the server, variables with their defaults."""
        listed = next(
            (one for one in (self._operation, self._entry, self._said) if one.get("servers")), {}
        ).get("servers")
        server = listed[0] if isinstance(listed, list) and listed else {}
        url = server.get("url") if isinstance(server, Mapping) else None
        if not isinstance(url, str):
            raise OperationError("servers: expected an address")
        variables = server.get("variables") or {}
        for name, one in variables.items() if isinstance(variables, Mapping) else ():
            default = one.get("default") if isinstance(one, Mapping) else None
            url = url.replace(f"{{{name}}}", str(default))
        url = _no_marks(url, "servers").rstrip("/")
        if not re.match(r"https?://[^/?#@\s]+(/[^?#\s]*)?$", url):
            raise OperationError(f"servers: expected https://HOST, found {url[:80]!r}")
        if url.startswith("http:"):
            self._notes.append("its server is asked without TLS")
        if len(listed or ()) > 1:
            self._notes.append("of its servers this is the first")
        return url

    # ------------------------------------------------------------------ what it takes

    def _parameters(self) -> Iterator[Mapping[str, Any]]:
        found: dict[tuple[object, object], Mapping[str, Any]] = {}
        for listed in (self._entry.get("parameters"), self._operation.get("parameters")):
            for one in listed if isinstance(listed, list) else ():
                parameter = _resolved(self._said, one)
                if not isinstance(parameter, Mapping):
                    raise OperationError("parameters: expected objects")
                found[parameter.get("in"), parameter.get("name")] = parameter
        yield from found.values()

    def _add(self, name: str, schema: object, said: Mapping[str, Any]) -> str:
        """The name of a parameter, once it is among the properties."""
        own = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "value"
        own = own if own[0].isalpha() else f"p_{own}"
        while own in self._properties:
            own += "_"
        written = self._schema(schema)
        about = said.get("description")
        if isinstance(about, str) and about.strip():
            written["description"] = _plain(about)
        self._properties[own] = written
        if said.get("required") is True:
            self._require(own)
        return own

    def _require(self, own: str) -> None:
        if own not in self._required:
            self._required.append(own)

    def _drop(self, own: str, what: str) -> None:
        if own in self._required:
            raise OperationError(f"{what}: a parameter in this place is not sent")
        del self._properties[own]
        self._notes.append(f"left out: {_plain(what)}")

    def _body(self, config: dict[str, Any]) -> None:
        body = _resolved(self._said, self._operation.get("requestBody"))
        if not isinstance(body, Mapping):
            return
        content = body.get("content")
        listed = content if isinstance(content, Mapping) else {}
        for kind, media in listed.items():
            plain = kind.partition(";")[0].strip().lower()
            if plain == "application/json" or plain.endswith("+json"):
                schema = media.get("schema") if isinstance(media, Mapping) else None
                config["body"] = f"{{{self._add('body', schema, body)}}}"
                return
        if body.get("required") is True:
            found = ", ".join(map(str, listed))[:80] or "none"
            raise OperationError(f"requestBody: expected JSON, found {found}")
        self._notes.append("its body is of a form that is not sent, and may be left out")

    def _schema(self, value: object) -> dict[str, Any]:
        return _schema_of(self._said, value, [MAX_NODES])

    # ------------------------------------------------------------------ credentials

    def _security(
        self, config: dict[str, Any], query: dict[str, Any], headers: dict[str, Any]
    ) -> None:
        """Credentials as variables: the first of the alternatives."""
        listed = self._operation.get("security", self._said.get("security"))
        chosen = listed[0] if isinstance(listed, list) and listed else {}
        components = self._said.get("components") or {}
        schemes = components.get("securitySchemes") if isinstance(components, Mapping) else {}
        for name in chosen if isinstance(chosen, Mapping) else ():
            scheme = _resolved(self._said, (schemes or {}).get(name))
            if not isinstance(scheme, Mapping):
                raise OperationError(f"security: {str(name)[:60]!r} is no scheme of the document")
            kind, place = scheme.get("type"), scheme.get("in")
            basic = str(scheme.get("scheme", "")).lower() == "basic"
            word = "PASSWORD" if basic else "KEY" if kind == "apiKey" else "TOKEN"
            variable = self._variable(str(name), word)
            key = str(scheme.get("name", ""))
            if kind == "http" and basic:
                headers["Authorization"] = f"Basic ${{{variable}}}"
                self._notes.append(f"{variable} is user:password in base64")
            elif kind in {"http", "oauth2", "openIdConnect"}:
                config["auth"] = {"type": "bearer", "token": f"${{{variable}}}"}
            elif kind == "apiKey" and place == "header":
                config["auth"] = {
                    "type": "api_key",
                    "key": f"${{{variable}}}",
                    "header": _header(key),
                }
            elif kind == "apiKey" and place == "query":
                query[_no_marks(key, "security")] = f"${{{variable}}}"
            else:
                raise OperationError(f"security: a key in {str(place)[:40]!r} is not sent")
            self._notes.append(f"set {variable} yourself")

    def _variable(self, name: str, word: str) -> str:
        # A document must not choose a variable that is set for another purpose.
        plain = re.sub(r"[^A-Z0-9]+", "_", f"API_{self._api}_{name}".upper()).strip("_")
        variable = plain[:60] if plain.endswith(word) else f"{plain[:50]}_{word}"
        self._variables.append(variable)
        return variable


def _schema_of(
    said: Mapping[str, Any], value: object, left: list[int], above: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A schema of the document as JSON Schema without references; ``{}`` is anything."""
    left[0] -= 1
    if left[0] < 0 or len(above) > MAX_DEPTH:
        return {}
    reference = value.get("$ref") if isinstance(value, Mapping) else None
    if isinstance(reference, str):
        if reference in above:
            return {}
        return _schema_of(said, _resolved(said, value), left, (*above, reference))
    if not isinstance(value, Mapping):
        return {}
    deeper = (*above, "")
    written = _of_values(value)
    properties = value.get("properties")
    if isinstance(properties, Mapping):
        written["properties"] = {
            str(name): _schema_of(said, one, left, deeper) for name, one in properties.items()
        }
        required = value.get("required")
        if isinstance(required, list):
            written["required"] = [one for one in required if one in written["properties"]]
    if "items" in value:
        written["items"] = _schema_of(said, value["items"], left, deeper)
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(value.get(key), list) and value[key]:
            written[key] = [_schema_of(said, one, left, deeper) for one in value[key]]
    return written


def _of_values(value: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a schema that hold no schema."""
    types, choices, about = value.get("type"), value.get("enum"), value.get("description")
    named = [
        one
        for one in (types if isinstance(types, list) else [types])
        if isinstance(one, str) and one in _TYPES
    ]
    if named and value.get("nullable") is True:
        named.append("null")
    written: dict[str, Any] = {"type": named[0] if len(named) == 1 else named} if named else {}
    if isinstance(about, str) and about.strip():
        written["description"] = _plain(about)
    written |= {key: value[key] for key in _KEPT if isinstance(value.get(key), int | float)}
    if isinstance(choices, list) and 0 < len(choices) <= MAX_OPERATIONS:
        written["enum"] = [*choices, *([None] if "null" in named and None not in choices else [])]
    if isinstance(value.get("additionalProperties"), bool):
        written["additionalProperties"] = value["additionalProperties"]
    return written


def _no_marks(text: str, where: str) -> str:
    """The text, if it can be no part of a template. Raises OperationError."""
    if not text or _MARKS.search(text):
        raise OperationError(f"{where}: {text[:60]!r}: expected no '{{', '}}', '$' in it")
    return text


def _header(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise OperationError(f"header: expected a name, found {name[:60]!r}")
    return name


def _plain(text: str) -> str:
    plain = " ".join(text.split())[:MAX_DESCRIPTION]
    return "".join(letter for letter in plain if letter.isprintable())
