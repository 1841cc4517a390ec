"""The description of the interface: who may ask, and with which statuses a route refuses.

FastAPI writes the document. What it cannot know is added here: the ways to show who one is, the
limits that hold for every route, and the one form of refusals. A route names what else it refuses
with `refuses`, and what it answers with `answers`. Tests hold what is answered to the document:
``tests/rye_services/web/test_schemathesis.py``, ``tests/rye_services/web/test_openapi.py``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.models import HTTPBase
from fastapi.security.base import SecurityBase

from lillux import shapes
from ryeos.items.error_table import refusal_table
from ryeos.remote.deliveries import DELIVERY_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP
from ryeos.remote.requests import KEY_ID, NONCE, SIGNATURE, TIMESTAMP

Responses = dict[int | str, dict[str, Any]]

_REFUSAL: dict[str, Any] = {
    "title": "Refusal",
    "type": "object",
    "required": ["detail"],
    "properties": {"detail": {"title": "Why"}},
}
_IN_REFUSALS = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}

_SIGNED_HEADERS = (KEY_ID, TIMESTAMP, NONCE, SIGNATURE)
_HOOK_HEADERS = (WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, DELIVERY_ID)


class CallerScheme(SecurityBase):
    """Marks in the document that a route has a caller; `document` says how one shows who they are.

    Nothing is checked here: `rye_services.people.callers` does that.
    """

    def __init__(self, name: str) -> None:
        self.model = HTTPBase(scheme="bearer")  # in its place come those of `_schemes`
        self.scheme_name = name

    async def __call__(self) -> None:
        """Nothing."""


CALLER, OPTIONAL_CALLER = CallerScheme("caller"), CallerScheme("optional caller")
CALLER_OR_HOOK = CallerScheme("caller or hook")
ROLE_MARK = "role:"
"""Begins the mark, beside scopes, of the role that a member of a team needs for a route."""

_MARKERS = (CALLER.scheme_name, OPTIONAL_CALLER.scheme_name, CALLER_OR_HOOK.scheme_name)


def refuses(*statuses: int) -> Responses:
    """The ``responses`` of a route that refuses with these, in the form of all refusals."""
    words = refusal_table()
    return {
        status: {"description": words[status].meaning, "content": _IN_REFUSALS}
        for status in statuses
    }


def answers(shape: type, *refused: int) -> Responses:
    """The ``responses`` of a route whose answer is a document of a shape; and as `refuses`."""
    return {200: answer(shape), **refuses(*refused)}


def answer(
    shape: type,
    description: str = "Successful Response",
    others: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A response that is a document of a shape. ``others``: what else it can be, by media type."""
    name = shapes.full_name(shape)
    _ANSWERED[name] = shape
    as_json = {"schema": {"$ref": f"{shapes.SCHEMAS}{name}"}}
    return {"description": description, "content": {"application/json": as_json, **(others or {})}}


_ANSWERED: dict[str, type] = {}
"""The shapes of answers, by their full names."""


def _add_answers(schema: dict[str, Any]) -> None:
    """Add the schemas of the shapes that a document refers to, by short names if unique."""
    known = schema.setdefault("components", {}).setdefault("schemas", {})
    found: dict[str, Any] = {}
    for name in {one["$ref"].removeprefix(shapes.SCHEMAS) for one in _references(schema)}:
        if name in _ANSWERED:
            found |= shapes.definitions(_ANSWERED[name], _title)
    uses = Counter([*known, *(one["title"] for one in found.values())])
    names = {name: one["title"] if uses[one["title"]] == 1 else name for name, one in found.items()}
    known |= {names[name]: one for name, one in found.items()}
    for one in _references(schema):
        name = one["$ref"].removeprefix(shapes.SCHEMAS)
        one["$ref"] = f"{shapes.SCHEMAS}{names.get(name, name)}"
    schema["components"]["schemas"] = dict(sorted(known.items()))


def _references(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema
        for one in schema.values():
            yield from _references(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from _references(one)


def _title(key: str) -> str:
    """As FastAPI makes that of a field."""
    return key.title().replace("_", " ").strip()


def describe(app: FastAPI, *, unlimited_paths: frozenset[str]) -> None:
    """Complete the description of an application; ``unlimited_paths`` read no body."""
    app.openapi = partial(document, app, app.openapi, unlimited_paths)  # type: ignore[method-assign]


def document(app: FastAPI, made: Any, unlimited_paths: frozenset[str]) -> dict[str, Any]:  # noqa: ANN401 - FastAPI's own method
    """The OpenAPI document: that of FastAPI, and what it cannot know."""
    if app.openapi_schema:
        return app.openapi_schema
    schema: dict[str, Any] = made()
    for path, _, operation in _operations(schema):
        scopes = _secure(operation)
        statuses = [] if scopes is None else [401, 403, 507]
        statuses += [] if path in unlimited_paths else [400, 408, 413, 503]
        statuses += [422] if "requestBody" in operation else []
        for status, response in refuses(*statuses).items():
            operation["responses"].setdefault(str(status), response)
        roles = [one.removeprefix(ROLE_MARK) for one in scopes or () if one.startswith(ROLE_MARK)]
        if roles:
            operation["x-rye-role"] = roles[0]
        named = [one for one in scopes or () if not one.startswith(ROLE_MARK)]
        if named:
            operation["x-rye-scopes"] = named
        for response in operation["responses"].values():
            response.setdefault("headers", {})["X-Request-Id"] = {
                "description": "The number of the request in the log of the server",
                "schema": {"type": "string"},
            }
    _add_answers(schema)
    components = schema["components"]
    components["schemas"].update(_definitions(schema))
    components["schemas"]["Refusal"] = _REFUSAL
    components["securitySchemes"] = _schemes()
    return schema


def _operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema.get("paths", {}).items():
        for method, operation in methods.items():
            yield path, method, operation


def _definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """The definitions beside the bodies of `rye_services.web.http.described`, taken out."""
    found: dict[str, Any] = {}
    for _, _, operation in _operations(schema):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            found |= content.get("schema", {}).pop("$defs", {})
    return found


def _secure(operation: dict[str, Any]) -> list[str] | None:
    """Describe how a caller authenticates. The scopes; None for a route without callers."""
    marked = {name: scopes for one in operation.get("security", ()) for name, scopes in one.items()}
    found = next((name for name in _MARKERS if name in marked), None)
    if found is None:
        return None
    ways: list[dict[str, list[str]]] = [
        {"bearer": []},
        {name: [] for name in _SIGNED_HEADERS},
    ]
    if found == CALLER_OR_HOOK.scheme_name:
        ways.append({name: [] for name in _HOOK_HEADERS})
    if found == OPTIONAL_CALLER.scheme_name:
        ways.insert(0, {})
    operation["security"] = ways
    return list(marked[found])


def _schemes() -> dict[str, Any]:
    bearer = {"type": "http", "scheme": "bearer", "description": "An API key of this server"}
    signed = "All four headers together sign a request: docs/remote.md"
    hook = "These headers together sign a delivery of a webhook: docs/node.md"
    headers = {**dict.fromkeys(_SIGNED_HEADERS, signed), **dict.fromkeys(_HOOK_HEADERS, hook)}
    return {
        "bearer": bearer,
        **{
            name: {"type": "apiKey", "in": "header", "name": name, "description": words}
            for name, words in headers.items()
        },
    }
