"""OpenAPI 3.0 and 3.1 documents, read as HTTP tools: one for each operation. Nothing is requested.

(1) references are followed inside of the document alone; a cycle becomes "anything"
(2) every text of the document that gets into a request has no mark of a template
(3) secrets are variables; the tool reaches the server of the document and no other
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote, urljoin

from lillux.errors import LilluxError
from lillux.foreign_text import one_line
from lillux.schema import validate_schema
from lillux.values import dataclass
from ryeos.imports.plan import (
    MAX_ITEMS,
    ImportPlan,
    ImportSource,
    ProposedItem,
    plain_name,
    shown_path,
    source_error,
    source_text,
)
from ryeos.imports.proposed_rights import rights_of_address
from ryeos.items.refs import ItemRef, Kind
from ryeos.items.yaml import parse_yaml
from ryeos.items.yaml_text import yaml_text
from ryeos.run.http_bodies import FORM_TYPE, TEXT, MediaType, media_type_of
from ryeos.run.http_styles import FORM, JSON, PLACES, QUERY

CATEGORY = "api"
MAX_DOCUMENT, MAX_CHOICES, MAX_DEPTH, MAX_NODES = 16 * 1024 * 1024, 500, 12, 3000
MAX_DESCRIPTION = 300
METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_MARKS = re.compile(r"[{}$\x00-\x1f\x7f]")
_PLACE = re.compile(r"\{([^{}]*)\}")
_ENCODED = re.compile(r"(%(?!00)[0-9A-Fa-f]{2})")
_COOKIE_NAME = re.compile(r"[!#%&'*+.^_`|~0-9A-Za-z-]+")
# A document of 3.0 says nothing by a body in these: "SHALL be ignored by consumers".
_BODILESS = frozenset({"get", "head"})
_HEADER = re.compile(r"[!#%&'*+.^_`|~0-9A-Za-z-]{1,80}")
# Names that stand for something else in the config of a tool.
_TAKEN = frozenset(
    {"anchor_path", "params_json", "project_path", "runtime_lib", "timeout", "tool_id", "tool_path"}
    | {"protocol", "user_space"}
)
# Headers that say how the request itself is sent.
_OWN_HEADERS = frozenset(
    {"authorization", "connection", "content-encoding", "content-length", "cookie", "expect"}
    | {"host", "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)
_IGNORED_HEADERS = frozenset({"accept", "content-type"})
_MAX_DIGITS = 10
_SAY_SERVER = "say it: --server https://HOST"
_KEPT = (
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "multipleOf"),
    *("uniqueItems", "minProperties", "maxProperties"),
)
# What a document means that says the rules of a type and not the type.
_TYPE_OF = {"properties": "object", "items": "array"}
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


class OperationError(LilluxError):
    """An operation that no tool can be made of."""

    code, exit_status = "VALIDATION_FAILED", 6


def read_openapi(source: ImportSource) -> ImportPlan:
    """A tool for each operation of a document. Raises RyeError `IMPORT_UNREADABLE`."""
    where = shown_path(source.path, source.project)
    said = _document(source)
    version = said.get("openapi")
    version = str(version) if isinstance(version, float) else version  # of YAML, without quotes
    if not isinstance(version, str) or not version.startswith(("3.0", "3.1")):
        found = version or (f"swagger {said['swagger']}" if "swagger" in said else "no version")
        raise source_error(where, f"expected OpenAPI 3.0 or 3.1, found {str(found)[:40]}")
    paths = said.get("paths") or {}
    info = said.get("info") or {}
    if not isinstance(paths, Mapping) or not isinstance(info, Mapping):
        raise source_error(where, "paths, info: expected objects")
    api = plain_name(str(info.get("title") or source.path.stem))
    items, left, notes = list[ProposedItem](), 0, list[str]()
    for path, one in paths.items():
        entry, problem = _path_item(said, one)
        if problem and not str(path).startswith("x-"):
            notes.append(f"{where}: paths: {_plain(str(path))[:80]}: not taken: {problem}")
        for method in METHODS:
            if not isinstance(entry.get(method), Mapping):
                continue
            if len(items) >= MAX_ITEMS:
                left += 1
                continue
            operation = _Operation(said, api, str(path), method, entry, server=source.server)
            items.append(operation.item(where))
    notes += [] if items else [f"{where}: no operations in it"]
    return ImportPlan(tuple(items), tuple(notes), left)


def _document(source: ImportSource) -> Mapping[str, Any]:
    where = shown_path(source.path, source.project)
    text = source_text(source.path, MAX_DOCUMENT)
    if text.lstrip()[:1] != "{":
        try:
            return parse_yaml(text, where, is_core=True)
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
    """The value, its own reference followed. Raises OperationError for one that leads out."""
    reference = value.get("$ref") if isinstance(value, Mapping) else None
    if reference is None:
        return value
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise OperationError(f"$ref {str(reference)[:80]!r}: expected one inside of the document")
    if depth > MAX_DEPTH:
        raise OperationError(f"$ref {reference[:80]!r}: leads in a circle")
    found: object = said
    for part in reference[2:].split("/"):
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            is_index = name.isascii() and name.isdigit() and len(name) < _MAX_DIGITS
            found = found[int(name)] if is_index and int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, Mapping) else None
    if found is None:
        raise OperationError(f"$ref {reference[:80]!r}: not in the document")
    return _resolved(said, found, depth + 1)


def _path_item(said: Mapping[str, Any], value: object) -> tuple[Mapping[str, Any], str]:
    """The value under a path, and why there is none."""
    try:
        found = _resolved(said, value)
    except OperationError as error:
        return {}, str(error)
    if not isinstance(found, Mapping):
        return {}, "expected an object"
    beside = value if isinstance(value, Mapping) else {}
    return {**found, **{key: one for key, one in beside.items() if key != "$ref"}}, ""


class _Operation:
    """One operation, on its way to a tool."""

    def __init__(
        self,
        said: Mapping[str, Any],
        api: str,
        path: str,
        method: str,
        entry: Mapping[str, Any],
        *,
        server: str,
    ) -> None:
        self._said, self._api, self._path, self._method = said, api, path, method
        self._given_server = server
        self._entry: Mapping[str, Any] = entry
        self._operation: Mapping[str, Any] = entry[method]
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._variables: list[str] = []
        self._notes: list[str] = []
        self._styles: dict[str, Any] = {}

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
        places = {place: dict[str, Any]() for place in ("query", "header", "cookie")}
        in_path: dict[str, str] = {}
        for parameter in self._parameters():
            place, name = str(parameter.get("in")), str(parameter.get("name", ""))
            if place == "header" and name.lower() in _IGNORED_HEADERS:
                continue  # the document says it elsewhere, by the rule of OpenAPI
            own = self._add(name, self._styled_schema(parameter, place), parameter, place)
            is_own = place == "header" and name.lower() in _OWN_HEADERS
            if place not in PLACES or is_own or not self._style(own, place, name, parameter):
                self._drop(own, f"{place} {name}"[:80])
            elif place == "path":
                in_path[name] = own
                self._require(own)
            else:
                places[place][_name_in(place, name)] = f"{{{own}}}"
        config["url"] = f"{base}{self._filled_path(in_path)}"
        self._body(config)
        self._security(config, places)
        keys = {"query": "query", "header": "headers", "cookie": "cookies"}
        config |= {keys[place]: said for place, said in places.items() if said}
        config |= {"styles": self._styles} if self._styles else {}
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

    def _filled_path(self, parameters: Mapping[str, str]) -> str:
        """The path with the tool's own names. Raises OperationError for one that is not sent so."""
        path = self._path
        missing = next((name for name in parameters if f"{{{name}}}" not in path), None)
        if missing is not None:
            raise OperationError(
                f"path {missing[:60]}: expected {{{missing[:60]}}} in {path[:60]!r}"
            )
        if not path.startswith("/") or "?" in path or "#" in path:
            expected = "one that begins with /, without ? and #"
            raise OperationError(f"path: expected {expected}, found {path[:60]!r}")
        unknown = next((one for one in _PLACE.findall(path) if one not in parameters), None)
        if unknown is not None:
            raise OperationError(f"path: {f'{{{unknown}}}'[:60]!r} is no parameter of it")
        filled = ""
        # Every second part is the name of a parameter; what is encoded in the document stays so.
        for number, part in enumerate(_PLACE.split(path)):
            if number % 2:
                filled += f"{{{parameters[part]}}}"
            elif part:
                pieces = _ENCODED.split(_no_marks(part, "path"))
                quoted = [quote(one, safe="/:@!&'()*+,;=-._~") for one in pieces]
                pieces[::2] = quoted[::2]
                filled += "".join(pieces)
        return filled

    def _description(self) -> str:
        texts = (self._operation.get("summary"), self._operation.get("description"))
        text = next((one for one in texts if isinstance(one, str) and one.strip()), "")
        return _plain(text) or f"{self._method.upper()} {_plain(self._path)}"

    def _server(self) -> str:
        """The address of the server, variables with their defaults.

        A person may give one: it takes the place of the document's, and is what an address there
        is relative to.
        """
        listed = next(
            (one for one in (self._operation, self._entry, self._said) if one.get("servers")), {}
        ).get("servers")
        first = listed[0] if isinstance(listed, list) and listed else {}
        server = first if isinstance(first, Mapping) else {}
        said = server.get("url")
        url = said if isinstance(said, str) else ""
        if self._given_server and ("://" in url or url.startswith("//")):
            url = self._given_server
        else:
            url = self._filled(url, server.get("variables"))
            url = _joined(self._given_server, url) if self._given_server else url
        if not url:
            raise OperationError(f"servers: expected an address; {_SAY_SERVER}")
        url = _no_marks(url, "servers").rstrip("/")
        if not re.match(r"https?://[^/?#@\s]+(/[^?#\s]*)?$", url):
            raise OperationError(
                f"servers: expected https://HOST, found {url[:80]!r}; {_SAY_SERVER}"
            )
        if url.startswith("http:"):
            self._notes.append("its server is asked without TLS")
        if len(listed or ()) > 1 and not self._given_server:
            self._notes.append("of its servers this is the first")
        return url

    def _filled(self, url: str, variables: object) -> str:
        """An address with the defaults of its variables. Raises OperationError without one."""
        known = variables if isinstance(variables, Mapping) else {}
        chosen = dict[str, str]()
        for name in _PLACE.findall(url):
            if name not in known:
                continue
            said = known[name]
            one = said if isinstance(said, Mapping) else {}
            default, choices = one.get("default"), one.get("enum")
            if isinstance(default, bool) or not isinstance(default, str | int):
                raise OperationError(f"servers: expected a default of {name[:40]!r}")
            if isinstance(choices, list) and default not in choices:
                listed = ", ".join(map(str, choices))[:80] or "none"
                raise OperationError(
                    f"servers: {name[:40]}: expected one of {listed}, found {str(default)[:40]!r}"
                )
            chosen[name] = str(default)
        if chosen and not self._given_server:
            said = ", ".join(f"{name} {_plain(value)}" for name, value in chosen.items())
            self._notes.append(f"of its server: {_plain(said)}")
        return _PLACE.sub(lambda match: chosen.get(match[1], match[0]), url)

    def _parameters(self) -> Iterator[Mapping[str, Any]]:
        """Those of the operation, and of its path those that it does not say anew."""
        found: dict[tuple[object, object], Mapping[str, Any]] = {}
        for listed in (self._entry.get("parameters"), self._operation.get("parameters")):
            seen = set[tuple[object, object]]()
            for one in listed if isinstance(listed, list) else ():
                parameter = _resolved(self._said, one)
                if not isinstance(parameter, Mapping):
                    raise OperationError("parameters: expected objects")
                place, name = str(parameter.get("in")), str(parameter.get("name", ""))
                key = (place, name.lower() if place == "header" else name)
                if key in seen:
                    raise OperationError(f"parameters: expected {place} {name[:60]!r} once")
                seen.add(key)
                found[key] = parameter
        yield from found.values()

    def _add(self, name: str, schema: object, said: Mapping[str, Any], place: str) -> str:
        """The name of a parameter, once it is among the properties."""
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "value"
        own = plain = plain if plain[0].isalpha() else f"p_{plain}"
        while own in self._properties or own in _TAKEN:
            own += "_"
        written = self._schema(schema)
        about = said.get("description")
        text = about if isinstance(about, str) and about.strip() else ""
        # Of two with one name a reader must see which is which.
        text = f"({place} {name}) {text}" if own != plain else text
        if text:
            written["description"] = _plain(text)
        self._properties[own] = written
        if said.get("required") is True:
            self._require(own)
        return own

    def _require(self, own: str) -> None:
        if own not in self._required:
            self._required.append(own)

    def _drop(self, own: str, what: str) -> None:
        if own in self._required:
            raise OperationError(
                f"{what}: a parameter in this place, or of this style, is not sent"
            )
        del self._properties[own]
        self._styles.pop(own, None)
        self._notes.append(f"left out: {_plain(what)}")

    def _styled_schema(self, parameter: Mapping[str, Any], place: str) -> object:
        """The schema of a parameter, which may stand under a form of content."""
        content = parameter.get("content")
        if isinstance(content, Mapping) and content and place in PLACES:
            kind, media = next(iter(content.items()))
            return media.get("schema") if _is_json(str(kind)) and isinstance(media, Mapping) else {}
        return parameter.get("schema")

    def _style(self, own: str, place: str, name: str, parameter: Mapping[str, Any]) -> bool:
        """Note how a parameter is written; False for one that cannot be written so."""
        content = parameter.get("content")
        if isinstance(content, Mapping) and content:
            self._styles[own] = {"style": JSON, "name": name}
            return _is_json(str(next(iter(content))))
        style = parameter.get("style", PLACES[place][0])
        explode = parameter.get("explode", style in {"form", "deepObject"})
        if style not in PLACES[place] or style == JSON or not isinstance(explode, bool):
            return False
        kinds = _kinds_of(self._properties[own])
        is_plain, reserved = not kinds & {"array", "object"}, parameter.get("allowReserved") is True
        if style == "deepObject":
            explode = True
            is_known = "object" in kinds
        elif style in {"spaceDelimited", "pipeDelimited"}:
            is_known = is_plain or not explode
        else:
            # What two of a list in one cookie mean is not said.
            is_known = place != "cookie" or is_plain or not explode
        if not is_known:
            return False
        reserved = reserved and place == QUERY
        if not is_plain or "null" in kinds or reserved or style in {"label", "matrix"}:
            self._styles[own] = {"style": style, "explode": explode, "name": name}
            self._styles[own] |= {"reserved": True} if reserved else {}
        return True

    def _body(self, config: dict[str, Any]) -> None:
        body = _resolved(self._said, self._operation.get("requestBody"))
        if not isinstance(body, Mapping):
            return
        content = body.get("content")
        listed = content if isinstance(content, Mapping) else {}
        chosen, found = self._body_kind(listed), ", ".join(map(str, listed))[:80] or "none"
        is_ignored = self._method in _BODILESS and str(self._said.get("openapi")).startswith("3.0")
        if chosen is None or is_ignored:
            if body.get("required") is True:
                expected = f"none in a {self._method.upper()}"
                expected = expected if is_ignored else f"JSON, {FORM_TYPE} or text"
                raise OperationError(f"requestBody: expected {expected}, found {found}")
            self._notes.append("its body is of a form that is not sent, and may be left out")
            return
        kind, said = chosen
        media = said if isinstance(said, Mapping) else {}
        own = self._add("body", media.get("schema"), body, "the request's")
        config |= {"body": f"{{{own}}}", "media_type": kind.text}
        if len(listed) > 1:
            self._notes.append(f"of the types of its body this is {kind.text}")
        if kind.form == FORM:
            styles = _form_styles(media.get("encoding"))
            config |= {"body_styles": styles} if styles else {}

    def _body_kind(self, content: Mapping[str, Any]) -> tuple[MediaType, object] | None:
        """Of the media types of a body the first that is sent, JSON before forms before texts."""
        known = list[tuple[MediaType, object]]()
        for text, media in content.items():
            kind = media_type_of(text)
            schema = media.get("schema") if isinstance(media, Mapping) else None
            if kind is not None and _suits(kind, self._schema(schema)):
                known.append((kind, media))
        return min(known, key=lambda one: (JSON, FORM, TEXT).index(one[0].form), default=None)

    def _schema(self, value: object) -> dict[str, Any]:
        return _schema_of(self._said, value, [MAX_NODES])

    def _security(self, config: dict[str, Any], places: Mapping[str, dict[str, Any]]) -> None:
        """Credentials as variables: of the alternatives the first that can be sent, all of it."""
        listed = self._operation.get("security", self._said.get("security"))
        choices = listed if isinstance(listed, list) and listed else [{}]
        first: OperationError | None = None
        for number, chosen in enumerate(choices):
            try:
                keys = [
                    self._key(str(name)) for name in (chosen if isinstance(chosen, Mapping) else ())
                ]
                _require_all_sent(keys, places)
            except OperationError as error:
                first = first or error
                continue
            if number:
                self._notes.append(f"of its alternatives this is number {number + 1}")
            self._send(keys, config, places)
            return
        raise first or OperationError("security: expected a list")

    def _key(self, name: str) -> "_Key":
        """A scheme of the document. Raises OperationError for one that is not sent."""
        components = self._said.get("components") or {}
        schemes = components.get("securitySchemes") if isinstance(components, Mapping) else {}
        scheme = _resolved(self._said, (schemes or {}).get(name))
        if not isinstance(scheme, Mapping):
            raise OperationError(f"security: {name[:60]!r} is no scheme of the document")
        kind, place = scheme.get("type"), scheme.get("in")
        said = str(scheme.get("scheme", "")).lower()
        if kind == "http" and said == "basic":
            return _Key(name, "PASSWORD", "header", "Authorization", "basic")
        if (kind == "http" and said == "bearer") or kind in {"oauth2", "openIdConnect"}:
            return _Key(name, "TOKEN", "header", "Authorization", "bearer")
        spelt = str(scheme.get("name", ""))
        if place == "header" and spelt.lower() in _OWN_HEADERS - {"authorization"}:
            raise OperationError(f"security: a key in the header {spelt[:40]!r} is not sent")
        if kind == "apiKey" and place == "header":
            return _Key(name, "KEY", "header", _header(spelt), "api_key")
        if kind == "apiKey" and place in {"query", "cookie"}:
            return _Key(name, "KEY", str(place), _name_in(str(place), spelt), "api_key")
        found = said if kind == "http" else place if kind == "apiKey" else kind
        raise OperationError(f"security: a key by {str(found)[:40]!r} is not sent")

    def _send(
        self,
        keys: "Sequence[_Key]",
        config: dict[str, Any],
        places: Mapping[str, dict[str, Any]],
    ) -> None:
        auth: list[dict[str, Any]] = []
        for key in keys:
            variable = self._variable(key.scheme, key.word)
            value = f"${{{variable}}}"
            if key.place != "header":
                places[key.place][key.name] = value
            elif key.kind == "basic":
                places["header"][key.name] = f"Basic {value}"
                self._notes.append(f"{variable} is user:password in base64")
            elif key.kind == "bearer":
                auth.append({"type": "bearer", "token": value})
            else:
                auth.append({"type": "api_key", "key": value, "header": key.name})
            self._notes.append(f"set {variable} yourself")
        if auth:
            config["auth"] = auth[0] if len(auth) == 1 else auth

    def _variable(self, name: str, word: str) -> str:
        # A document must not choose a variable that is set for another purpose.
        plain = re.sub(r"[^A-Z0-9]+", "_", f"API_{self._api}_{name}".upper()).strip("_")
        start = variable = plain[:60] if plain.endswith(word) else f"{plain[:50]}_{word}"
        number = 1
        while variable in self._variables:
            number += 1
            variable = f"{start}_{number}"
        self._variables.append(variable)
        return variable


@dataclass(frozen=True, slots=True)
class _Key:
    """A credential: its scheme, the last word of its variable, and where it is sent as what."""

    scheme: str
    word: str
    place: str
    name: str
    kind: str


def _joined(given: str, url: str) -> str:
    """An address of a document, relative to the one that a person gives, or that one itself."""
    is_relative = url not in {"", "/"} and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url)
    return urljoin(given, url) if is_relative else given


def _require_all_sent(keys: Sequence[_Key], places: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise OperationError where two keys, or a key and a parameter, have one place."""
    taken = {(place, str(name).lower()) for place, said in places.items() for name in said}
    for key in keys:
        own = (key.place, key.name.lower())
        if own in taken:
            raise OperationError(f"security: two values in the {key.place} {key.name[:60]!r}")
        taken.add(own)


def _is_json(kind: str) -> bool:
    said = media_type_of(kind)
    return said is not None and said.form == JSON


def _suits(kind: MediaType, schema: Mapping[str, Any]) -> bool:
    """True if a body of a schema may have a form in a media type."""
    kinds = _kinds_of(schema)
    if kind.form == FORM:
        return "object" in kinds
    return kind.form == JSON or bool(kinds - {"array", "object", "null"})


def _form_styles(encoding: object) -> dict[str, Any]:
    """Styles of the members of a form, where the document says them. Raises OperationError."""
    styles: dict[str, Any] = {}
    for name, said in encoding.items() if isinstance(encoding, Mapping) else ():
        one = said if isinstance(said, Mapping) else {}
        where = f"requestBody: encoding of {str(name)[:40]!r}"
        if one.keys() & {"style", "explode", "allowReserved"}:
            style = one.get("style", FORM)
            explode = one.get("explode", style in {FORM, "deepObject"})
            if style not in PLACES[QUERY] or style == JSON or not isinstance(explode, bool):
                raise OperationError(f"{where}: expected a style of a query, found {style!r}")
            if explode and style in {"spaceDelimited", "pipeDelimited"}:
                raise OperationError(f"{where}: {style} has no form with explode")
            styles[str(name)] = {"style": style, "explode": explode}
            styles[str(name)] |= {"reserved": True} if one.get("allowReserved") is True else {}
        elif "contentType" in one:
            kind = media_type_of(one["contentType"])
            if kind is None or kind.form == FORM:
                raise OperationError(
                    f"{where}: expected JSON or text, found {one['contentType']!r}"
                )
            styles |= {str(name): {"style": JSON}} if kind.form == JSON else {}
    return styles


def _kinds_of(schema: Mapping[str, Any]) -> set[str]:
    """The types that a value of a schema may have; all where it does not say."""
    said = schema.get("type")
    kinds = {said} if isinstance(said, str) else set(said or ())
    if kinds:
        return kinds
    for key in ("anyOf", "oneOf", "allOf"):
        found = [_kinds_of(one) for one in schema.get(key) or ()]
        if found:
            return set.intersection(*found) if key == "allOf" else set.union(*found)
    choices = schema.get("enum")
    if choices and not any(isinstance(one, list | dict) for one in choices):
        return {"string", "null"} if None in choices else {"string"}
    return set(_TYPES)


def _schema_of(
    said: Mapping[str, Any],
    value: object,
    left: list[int],
    above: tuple[str, ...] = (),
    unsent: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """A schema of the document as JSON Schema without references; ``{}`` is anything.

    It is that of a request: members that are read only are ``unsent``, and not asked for.
    """
    left[0] -= 1
    if left[0] < 0 or len(above) > MAX_DEPTH:
        return {}
    reference = value.get("$ref") if isinstance(value, Mapping) else None
    if isinstance(reference, str):
        if reference in above:
            return {}
        return _schema_of(said, _resolved(said, value), left, (*above, reference), unsent)
    if not isinstance(value, Mapping):
        return {}
    deeper = (*above, "")
    written = _of_values(value)
    unsent |= _read_only(said, value, MAX_DEPTH)
    properties = value.get("properties")
    if isinstance(properties, Mapping):
        written["properties"] = {
            str(name): _schema_of(said, one, left, deeper)
            for name, one in properties.items()
            if name not in unsent
        }
        required = value.get("required")
        if isinstance(required, list):
            written["required"] = [one for one in required if one in written["properties"]]
    if "items" in value:
        written["items"] = _schema_of(said, value["items"], left, deeper)
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(value.get(key), list) and value[key]:
            written[key] = [_schema_of(said, one, left, deeper, unsent) for one in value[key]]
    return written


def _read_only(said: Mapping[str, Any], value: object, depth: int) -> frozenset[str]:
    """Members of an object that only an answer has, of all parts of its schema."""
    if depth <= 0 or not isinstance(value, Mapping):
        return frozenset()
    found = set()
    properties = value.get("properties")
    for name, one in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(one, Mapping) and _is_read_only(said, one):
            found.add(str(name))
    parts = value.get("allOf")
    for part in parts[:MAX_CHOICES] if isinstance(parts, list) else ():
        with suppress(OperationError):
            found |= _read_only(said, _resolved(said, part), depth - 1)
    return frozenset(found)


def _is_read_only(said: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    if value.get("readOnly") is True:
        return True
    with suppress(OperationError):
        found = _resolved(said, value)
        return isinstance(found, Mapping) and found.get("readOnly") is True
    return False


def _of_values(value: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a schema that hold no schema."""
    types, choices, about = value.get("type"), value.get("enum"), value.get("description")
    named = [
        one
        for one in (types if isinstance(types, list) else [types])
        if isinstance(one, str) and one in _TYPES
    ]
    if not types:
        named = [kind for word, kind in _TYPE_OF.items() if word in value][:1]
    if named and value.get("nullable") is True:
        named.append("null")
    written: dict[str, Any] = {"type": named[0] if len(named) == 1 else named} if named else {}
    if isinstance(about, str) and about.strip():
        written["description"] = _plain(about)
    written |= {key: value[key] for key in _KEPT if isinstance(value.get(key), int | float)}
    if isinstance(choices, list) and named == ["string"]:
        # A word that YAML reads as an integer or as true is still a text to the server; of one that
        # it reads as 1.1 no caller knows any more whether it was 1.10.
        is_known = not any(isinstance(one, float) for one in choices)
        texts = [one if isinstance(one, str | None) else json.dumps(one) for one in choices]
        choices = texts if is_known else None
    if isinstance(choices, list) and 0 < len(choices) <= MAX_CHOICES:
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


def _name_in(place: str, name: str) -> str:
    """The name of a parameter as a config has it. Raises OperationError for no name."""
    if place == "header":
        return _header(name)
    if place == "cookie" and not _COOKIE_NAME.fullmatch(name):
        raise OperationError(f"cookie: expected a name, found {name[:60]!r}")
    return _no_marks(name, place)


def _plain(text: str) -> str:
    return one_line(text, MAX_DESCRIPTION)
