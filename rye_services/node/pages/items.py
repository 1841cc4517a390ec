"""The pages of what a user has on a node: items and a form that starts one, secrets, webhooks.

A form is made of the schema that the item's header says, and read by it again when it comes. What
it starts is what `/execute` starts: the item is verified where it runs, and its parameters too.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from lillux.errors import LilluxError
from lillux.values import dataclass
from rye_services.node.pages.data import PageData
from rye_services.node.pages.routes import Guest, Pages
from rye_services.node.runs.execution import Order
from rye_services.node.worker.jobs import JobAction
from rye_services.people.credentials import EXECUTE, SECRETS, WEBHOOKS, Role
from rye_services.web.http import RequestProblem
from rye_services.web.page import (
    DELETE_SECRET,
    FORM_PAGE,
    HEADERS,
    ITEMS,
    RUN,
    SECRETS_PAGE,
    SET_SECRET,
    START,
    WEBHOOKS_PAGE,
    page_of,
)
from ryeos.items.errors import RyeError
from ryeos.items.headers import parse_header
from ryeos.items.refs import Kind
from ryeos.items.rendering import input_schema
from ryeos.items.specs import tool_spec
from ryeos.sync.item_files import item_ref, kind_of

MOST_ITEMS, _MOST_FIELDS = 500, 60
_LONGEST_FORM, _MOST_CHOICES = 256 * 1024, 200
FIELD = "parameter."
"""What the names of fields of a form begin with, before that of the parameter."""

# --- items ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item of a project, and whether it can be started."""

    ref: str
    path: str
    can_start: bool


def items_of(paths: list[str], words: str) -> Iterator[ShownItem]:
    """The items among the files of a project whose ids have these words."""
    wanted = words.lower().split()
    for path in paths:
        kind = kind_of(path)
        if kind is None or kind is Kind.CONFIG:
            continue
        ref = item_ref(kind, path)
        if all(word in ref.lower() for word in wanted):
            yield ShownItem(ref, path, kind in {Kind.TOOL, Kind.DIRECTIVE})


# --- a form ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a form: one parameter.

    form  ``text``, ``number``, ``choice``, ``truth``, ``secret``, or ``json`` for any other
    """

    name: str
    form: str
    is_required: bool
    about: str = ""
    default: str = ""
    choices: tuple[str, ...] = ()
    step: str = "any"

    def value(self, text: str) -> object:
        """The parameter that a person typed. Raises RequestProblem."""
        try:
            match self.form:
                case "text" | "secret":
                    return text
                case "number":
                    return int(text) if self.step == "1" else float(text)
                case _:
                    return json.loads(text)
        except (ValueError, RecursionError):
            expected = "a number" if self.form == "number" else "JSON"
            raise RequestProblem(400, f"{self.name}: expected {expected}.") from None


def fields_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of a form for a schema; none where it has no plain list of parameters."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or len(properties) > _MOST_FIELDS:
        return ()
    needed = [str(name) for name in required] if isinstance(required, list) else []
    further: dict[str, Any] = {
        name: {} for name in needed[: _MOST_FIELDS - len(properties)] if name not in properties
    }
    return tuple(
        _field(str(name), about if isinstance(about, Mapping) else {}, is_required=name in needed)
        for name, about in {**properties, **further}.items()
    )


def _field(name: str, about: Mapping[str, Any], *, is_required: bool) -> Field:
    kind, choices = about.get("type"), about.get("enum")
    form = {"string": "text", "integer": "number", "number": "number", "boolean": "truth"}.get(
        str(kind), "json"
    )
    shown: tuple[str, ...] = ()
    if isinstance(choices, list) and 0 < len(choices) <= _MOST_CHOICES:
        form, shown = "choice", tuple(json.dumps(one, ensure_ascii=False) for one in choices)
    elif form == "text" and (about.get("writeOnly") is True or about.get("format") == "password"):
        form = "secret"
    default = about.get("default")
    text = default if isinstance(default, str) and form == "text" else _json(default)
    return Field(
        name=name,
        form=form,
        is_required=is_required and default is None,
        about=str(about.get("description") or ""),
        default=text if form != "secret" else "",
        choices=shown,
        step="1" if kind == "integer" else "any",
    )


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def parameters_of(fields: tuple[Field, ...], typed: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of a form; a field that was left empty is none.

    Raises RequestProblem for what is no value, and with the names of those that are missing: it is
    said here, before a run is kept of what cannot run.
    """
    given: dict[str, Any] = {}
    for one in fields:
        text = typed.get(f"{FIELD}{one.name}", "")
        if text != "":
            given[one.name] = one.value(text)
    if more := typed.get("more", "").strip():
        try:
            further = json.loads(more)
        except (ValueError, RecursionError):
            further = None
        if not isinstance(further, dict):
            raise RequestProblem(400, "Further parameters: expected a JSON object.")
        given = {**further, **given}
    if missing := [one.name for one in fields if one.is_required and one.name not in given]:
        raise RequestProblem(400, f"{', '.join(missing)}: required, and empty here.")
    return given


def schema_of(path: str, text: str) -> Mapping[str, Any]:
    """What an item takes, by its header; nothing where it does not say, or cannot be read."""
    try:
        if kind_of(path) is Kind.DIRECTIVE:
            return input_schema(text)
        suffix = PurePosixPath(path).suffix
        return tool_spec(parse_header(suffix, text, path), suffix).config_schema or {}
    except LilluxError:
        return {}


@dataclass(frozen=True, slots=True)
class _Startable:
    """An item of HEAD that a form starts."""

    item: ShownItem
    fields: tuple[Field, ...]
    is_open: bool


def _startable(data: PageData, project_path: str, ref: str) -> _Startable | None:
    project = data.project(project_path)
    snapshot = data.snapshot(project.snapshot_hash) if project else None
    if snapshot is None:
        return None
    found = [one for one in items_of(data.paths(snapshot), "") if one.ref == ref and one.can_start]
    side = data.file(snapshot, found[0].path) if found else None
    if side is None or not side.is_text:
        return None
    schema = schema_of(found[0].path, side.content)
    fields = fields_of(schema)
    return _Startable(found[0], fields, not fields or "additionalProperties" not in schema)


# --- routes ---------------------------------------------------------------------------------------

Text = Annotated[str, Query(max_length=1024)]


def item_page_router(pages: Pages) -> APIRouter:
    """The pages of items, and the form that starts one."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(ITEMS)
    def items(request: Request, path: Text = "", q: Text = "") -> Response:
        def page(guest: Guest) -> Response | None:
            data = pages.data(guest)
            projects = data.projects()
            chosen = path or (projects[0].project_path if projects else "")
            project = data.project(chosen) if chosen else None
            if path and project is None:
                return None
            snapshot = data.snapshot(project.snapshot_hash) if project else None
            found = tuple(items_of(data.paths(snapshot), q)) if snapshot else ()
            return pages.page(
                guest,
                "node/items.html",
                here=ITEMS,
                projects=projects,
                project=project,
                words=q,
                items=found[:MOST_ITEMS],
                left_out=max(0, len(found) - MOST_ITEMS),
            )

        return pages.shown(request, page)

    _add_form(routes, pages)
    _add_secret_pages(routes, pages)
    _add_webhook_page(routes, pages)
    return routes


def _add_form(routes: APIRouter, pages: Pages) -> None:
    @routes.get(FORM_PAGE)
    def form(request: Request, path: Text, item: Text) -> Response:
        def page(guest: Guest) -> Response | None:
            found = _startable(pages.data(guest), path, item)
            if found is None:
                return None
            return pages.page(
                guest, "node/start.html", here=ITEMS, path=path, found=found, prefix=FIELD
            )

        return pages.shown(request, page)

    @routes.post(START)
    async def start(request: Request) -> Response:
        def change(guest: Guest, typed: Mapping[str, str]) -> Response:
            path, ref = typed.get("path", ""), typed.get("item", "")
            found = _startable(pages.data(guest), path, ref)
            if found is None:
                raise RequestProblem(404, "There is no such item in this project.")
            order = Order(
                user_id=guest.user_id,
                started_by=guest.principal.person,
                may_change=guest.may(EXECUTE, Role.PUSH),
                project_path=path,
                action=JobAction.EXECUTE,
                item_ref=ref,
                parameters=parameters_of(found.fields, typed),
                is_async=True,
            )
            thread_id = str(pages.services.executions.accept(order)["thread_id"])
            return RedirectResponse(page_of(RUN, id=thread_id), 303, HEADERS)

        limits = (_LONGEST_FORM, _MOST_FIELDS + 10)
        return await pages.changed(request, EXECUTE, change, Role.RUN, limits=limits)


def _add_secret_pages(routes: APIRouter, pages: Pages) -> None:
    services = pages.services

    @routes.get(SECRETS_PAGE)
    def secrets(request: Request) -> Response:
        def page(guest: Guest) -> Response:
            if not guest.may(SECRETS, Role.RUN):
                raise RequestProblem(403, f"This key lacks the scope {SECRETS}.")
            return pages.page(
                guest,
                "node/secrets.html",
                here=SECRETS_PAGE,
                secrets=services.vault.entries(guest.user_id),
                may_change=guest.may(SECRETS, Role.ADMIN),
            )

        return pages.shown(request, page)

    @routes.post(SET_SECRET)
    async def put(request: Request) -> Response:
        def change(guest: Guest, typed: Mapping[str, str]) -> Response:
            try:
                services.vault.put(
                    guest.user_id, {typed.get("name", "").strip(): typed.get("value", "")}
                )
            except RyeError as error:  # a name or value that no secret may have, or too many
                raise RequestProblem(400, str(error)) from None
            return RedirectResponse(SECRETS_PAGE, 303, HEADERS)

        return await pages.changed(request, SECRETS, change, Role.ADMIN, limits=(_LONGEST_FORM, 10))

    @routes.post(DELETE_SECRET)
    async def delete(request: Request) -> Response:
        def change(guest: Guest, typed: Mapping[str, str]) -> Response:
            if not services.vault.delete(guest.user_id, typed.get("name", "")):
                raise RequestProblem(404, "There is no such secret.")
            return RedirectResponse(SECRETS_PAGE, 303, HEADERS)

        return await pages.changed(request, SECRETS, change, Role.ADMIN)


def _add_webhook_page(routes: APIRouter, pages: Pages) -> None:
    @routes.get(WEBHOOKS_PAGE)
    def webhooks(request: Request) -> Response:
        def page(guest: Guest) -> Response:
            if not guest.may(WEBHOOKS):
                raise RequestProblem(403, f"This key lacks the scope {WEBHOOKS}.")
            found = pages.services.webhooks.listed(guest.user_id)
            return pages.page(
                guest,
                "node/webhooks.html",
                here=WEBHOOKS_PAGE,
                webhooks=tuple(one for one in found if not one.revoked_at),
            )

        return pages.shown(request, page)
