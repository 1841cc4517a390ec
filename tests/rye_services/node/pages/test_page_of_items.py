"""The pages of items, and the form that starts one; of secrets and webhooks."""

import json
from html import unescape
from urllib.parse import quote

import pytest

from rye_services.node.pages.items import Field, fields_of, parameters_of
from tests.rye_services.node.pages.test_page_of_runs import Visitor, words_of
from tests.support.node import Node, Reply
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import Workspace

SCHEMA = """\
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What is <b>said</b>"},
        "times": {"type": "integer", "default": 2},
        "loud": {"type": "boolean"},
        "mode": {"enum": ["fast", 7]},
        "tags": {"type": "array"},
        "token": {"type": "string", "writeOnly": True},
    },
    "required": ["text"],
    "additionalProperties": False,
}
def execute(params, project_path):
    return params
"""


@pytest.fixture
def project(workspace: Workspace, shared_node: Node) -> RemoteProject:
    workspace.project.signed_tool("deep/told", SCHEMA, executor=FUNCTION)
    return RemoteProject.with_tools(workspace, shared_node.user())


@pytest.fixture
def visitor(project: RemoteProject) -> Visitor:
    return Visitor(project.user)


def form_page(project: RemoteProject, item: str) -> str:
    return f"/page/form?path={quote(project.name)}&item={quote(item)}"


def start(visitor: Visitor, project: RemoteProject, item: str, **typed: str) -> Reply:
    fields = {f"parameter.{name}": text for name, text in typed.items()}
    return visitor.send("/page/start", {"path": project.name, "item": item, **fields})


def thread_of(reply: Reply) -> str:
    assert reply.status == 303, reply.body
    return unescape(reply.headers["location"]).partition("id=")[2].replace("%3A", ":")


def test_the_items_of_a_project_are_listed_and_found_by_words(
    project: RemoteProject, visitor: Visitor
) -> None:
    page = f"/page/items?path={quote(project.name)}"

    whole, narrow = visitor.read(page), visitor.read(f"{page}&q=told+deep")

    assert "tool:echo" in whole
    assert "tool:deep/told" in narrow
    assert "tool:echo" not in narrow
    assert visitor.ask("/page/items?path=other").status == 404
    assert "tool:echo" in visitor.read("/page/items")


def test_a_form_of_the_schema_starts_an_item_with_what_was_typed(
    project: RemoteProject, visitor: Visitor
) -> None:
    source = visitor.source(form_page(project, "tool:deep/told"))
    typed = {"text": "a", "times": "3", "loud": "true", "mode": "7", "tags": '["x"]', "token": ""}

    thread_id = thread_of(start(visitor, project, "tool:deep/told", **typed))

    assert "What is &lt;b&gt;said&lt;/b&gt;" in source
    assert 'type="password"' in source
    assert "text (required)" in words_of(source)
    row = project.ended(thread_id)
    assert row["state"] == "completed", row
    expected = {"text": "a", "times": 3, "loud": True, "mode": 7, "tags": ["x"]}
    assert row["result"]["data"] == expected


@pytest.mark.parametrize(
    ("typed", "problem"),
    [({"times": "many"}, "times: expected a number"), ({"tags": "["}, "tags: expected JSON")],
)
def test_what_is_no_value_of_a_parameter_is_named(
    project: RemoteProject, visitor: Visitor, typed: dict[str, str], problem: str
) -> None:
    reply = start(visitor, project, "tool:deep/told", text="a", **typed)

    assert reply.status == 400
    assert problem in words_of(reply.body.decode())


def test_a_required_field_that_is_empty_is_named_and_no_run_begins(
    project: RemoteProject, visitor: Visitor
) -> None:
    without = start(visitor, project, "tool:deep/told", times="3")
    empty = start(visitor, project, "tool:deep/told", text="", times="3")

    for reply in (without, empty):
        assert reply.status == 400
        assert "text: required, and empty here." in words_of(reply.body.decode())
    assert project.user.ask("GET", "/threads").json["threads"] == []


def test_an_item_without_a_schema_takes_json(project: RemoteProject, visitor: Visitor) -> None:
    given = {"path": project.name, "item": "tool:echo", "more": '{"text": "hello"}'}

    thread_id = thread_of(visitor.send("/page/start", given))
    refused = visitor.send("/page/start", {**given, "more": "[]"})

    assert project.ended(thread_id)["result"]["data"] == {"said": "hello"}
    assert refused.status == 400


def test_no_form_starts_what_the_project_does_not_have(
    project: RemoteProject, visitor: Visitor
) -> None:
    assert visitor.ask(form_page(project, "tool:none")).status == 404
    assert start(visitor, project, "tool:rye/bash/bash", command="id").status == 404


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": {str(number): {} for number in range(100)}},
        {"properties": {"a": 3}, "required": 5},
        {"properties": {"a": {"enum": [], "type": ["string", "null"]}}},
    ],
)
def test_any_schema_makes_a_form(schema: dict[str, object]) -> None:
    for field in fields_of(schema):
        assert field.form in {"text", "json"}


def test_an_empty_field_is_no_parameter() -> None:
    fields = (Field(name="a", form="text", is_required=False),)

    assert parameters_of(fields, {"parameter.a": "", "parameter.other": "x"}) == {}


def test_a_required_name_without_a_property_has_a_field_too() -> None:
    (field,) = fields_of({"properties": {}, "required": ["a"]})

    assert (field.name, field.form, field.is_required) == ("a", "json", True)


# --- secrets and webhooks -------------------------------------------------------------------------


def test_secrets_are_set_and_deleted_and_no_value_is_shown(
    project: RemoteProject, visitor: Visitor
) -> None:
    secret = {"name": "MY_TOKEN", "value": "s3cret-value"}

    made = visitor.send("/page/secrets/set", secret)
    shown = visitor.source("/page/secrets")
    refused = visitor.send("/page/secrets/set", {"name": "PATH", "value": "x"})
    gone = visitor.send("/page/secrets/delete", {"name": "MY_TOKEN"})

    assert made.status == gone.status == 303
    assert "MY_TOKEN" in shown
    assert "s3cret-value" not in shown
    assert refused.status == 400
    assert "MY_TOKEN" not in visitor.source("/page/secrets")
    assert json.dumps(project.user.ask("GET", "/secrets").json).count("MY_TOKEN") == 0


def test_webhooks_of_all_projects_are_on_one_page_and_can_be_revoked(
    project: RemoteProject, visitor: Visitor
) -> None:
    body = {"item_id": "tool:echo", "project_path": project.name, "description": "on push"}
    hook_id = project.user.ask("POST", "/webhook-bindings", body).json["hook_id"]

    shown = visitor.source("/page/webhooks")
    revoked = visitor.send("/page/webhooks/revoke", {"hook_id": hook_id})

    assert hook_id in shown
    assert "on push" in shown
    assert (revoked.status, revoked.headers["location"]) == (303, "/page/webhooks")
    assert hook_id not in visitor.source("/page/webhooks")


def test_pages_that_a_key_may_not_see_are_not_in_its_navigation(shared_node: Node) -> None:
    reader = Visitor(shared_node.user(scopes=("remote:threads",)))

    header = reader.source("/").partition("</header>")[0]

    assert "/page/items" in header
    assert "/page/secrets" not in header
    assert reader.ask("/page/secrets").status == 403
    assert reader.ask("/page/webhooks").status == 403
