"""The OpenAPI document as a page for people. Pure: nothing is loaded from anywhere."""

from collections.abc import Iterator, Mapping
from typing import Any

from rye_services.node.page import links
from rye_services.node.page.markup import Html, joined, tag
from rye_services.node.page.shell import document, table

_METHODS = ("get", "post", "put", "patch", "delete")


def api_page(openapi: Mapping[str, Any]) -> str:
    """Every route: its method, path, what it does, its parameters, body and answers."""
    info = openapi["info"]
    return document(
        f"{info['title']} {info['version']}",
        tag(
            "p",
            "The same for programs: ",
            tag("a", links.OPENAPI, href=links.OPENAPI),
            " (OpenAPI ",
            str(openapi["openapi"]),
            ").",
        ),
        tag(
            "p",
            "For MCP clients: ",
            tag("code", "/mcp"),
            " (streamable HTTP) has execute, fetch and sign as tools; each call is such a request.",
        ),
        joined(_route(method, path, found) for method, path, found in _routes(openapi)),
        viewer=None,
    )


def _routes(openapi: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield method.upper(), path, methods[method]


def _route(method: str, path: str, operation: Mapping[str, Any]) -> Html:
    about = str(operation.get("description") or operation.get("summary") or "")
    answers = ", ".join(str(status) for status in operation.get("responses", {}))
    return tag(
        "section",
        tag("h2", tag("code", f"{method} {path}")),
        joined(tag("p", part) for part in about.split("\n\n") if part.strip()),
        _parameters(operation),
        _body(operation),
        tag("p", "Answers: ", answers) if answers else None,
        class_="route",
    )


def _parameters(operation: Mapping[str, Any]) -> Html | None:
    parameters = operation.get("parameters", [])
    rows = [
        tag(
            "tr",
            tag("td", tag("code", str(parameter["name"]))),
            tag("td", str(parameter["in"])),
            tag("td", "required" if parameter.get("required") else "optional"),
            tag("td", str(parameter.get("description", ""))),
        )
        for parameter in parameters
    ]
    return table("Parameters", ["Name", "In", "", ""], rows, empty="") if rows else None


def _body(operation: Mapping[str, Any]) -> Html | None:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return None
    names = [
        str(kind.get("schema", {}).get("$ref", "")).rpartition("/")[2] or media
        for media, kind in content.items()
    ]
    return tag("p", "Body: ", tag("code", ", ".join(names)))
