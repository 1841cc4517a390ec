from typing import Any, NoReturn

import pytest

from lillux.cancellation import Cancellation
from lillux.mcp_client.versions import MODERN
from ryeos.app.workspace import Rye
from ryeos.items.errors import no_project_error
from ryeos.mcp.features import RyeFeatures
from ryeos.mcp.hints import USERS_COMMAND
from ryeos.mcp.revisions import McpCall, McpCaller, Pace, RpcError
from tests.support.background_runs import program_of
from tests.support.mcp_conversation import NEWEST_LEGACY, Conversation
from tests.support.workspace import Workspace

NO_CURSOR = "cursor: expected one that this server gave"


def features(make: Any) -> RyeFeatures:  # noqa: ANN401 - any maker of the public API
    """Features on a public API that is made so."""
    return RyeFeatures(make, lambda _: program_of(Workspace.__new__(Workspace)), lambda: None)


def call(name: str, **arguments: Any) -> McpCall:  # noqa: ANN401 - JSON
    """A call of a tool."""
    params = {"name": name, "arguments": arguments}
    return McpCall(1, "tools/call", params, McpCaller(version="2025-11-25"))


def error_of(offered: RyeFeatures, request: McpCall) -> dict[str, Any]:
    """The envelope of an answer."""
    result = offered.answer(request, Cancellation(), lambda *_: None)
    assert result["isError"]
    found: dict[str, Any] = result["structuredContent"]
    return found


@pytest.mark.parametrize("name", ["search", "execute"])
def test_a_failure_of_ours_is_an_envelope_with_a_number_and_no_traceback(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> NoReturn:
        raise ZeroDivisionError("of ours")

    answer = error_of(features(fail), call(name, query="x"))

    reference = answer["error_ref"]
    assert answer == {
        "status": "error",
        "error": "internal error",
        "code": "INTERNAL",
        "error_ref": reference,
        "hint": f"this is a bug in rye; standard error has more under {reference}",
    }
    said = capsys.readouterr().err
    assert said.startswith(f"rye: internal error {reference}\nTraceback")
    assert said.endswith("ZeroDivisionError: of ours\n")


@pytest.mark.parametrize("name", ["search", "execute"])
def test_an_invalid_environment_is_reported_by_each_tool(name: str) -> None:
    def fail() -> Rye:
        raise no_project_error("lost is no folder")

    assert error_of(features(fail), call(name, query="x"))["code"] == "NO_PROJECT"


@pytest.mark.parametrize("name", ["execute", "rye_execute", "mcp__rye__execute"])
def test_only_programs_run_long(name: str) -> None:
    offered = features(lambda: None)

    assert offered.pace(call(name)) is Pace.LONG
    assert offered.pace(call("search")) is Pace.SHORT
    assert (
        offered.pace(McpCall(1, "tools/list", {}, McpCaller(version="2025-11-25"))) is Pace.AT_ONCE
    )


@pytest.mark.parametrize("version", [MODERN, NEWEST_LEGACY])
@pytest.mark.parametrize("cursor", ["no-such", "", 5])
def test_tools_are_one_page_and_have_no_cursor(
    cursor: object, version: str, workspace: Workspace
) -> None:
    error = Conversation(workspace.rye(), version=version).error("tools/list", cursor=cursor)

    assert (error["code"], error["message"]) == (-32602, NO_CURSOR)


# --- without a project ----------------------------------------------------------------------------

TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def nowhere() -> Rye:
    """The environment of a server whose project folder does not exist."""
    raise no_project_error("lost is no folder")


def result_without_project(method: str, version: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The result of a request to such a server. Raises RpcError."""
    caller = McpCaller(version=version, capabilities=TASKS)
    return features(nowhere).answer(
        McpCall(1, method, params, caller), Cancellation(), lambda *_: None
    )


@pytest.mark.parametrize("version", [MODERN, NEWEST_LEGACY])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/list", {}),
        ("resources/read", {"uri": "rye://tool/x"}),
        ("resources/read", {"uri": f"rye://output/{'0' * 32}"}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "x"}),
        ("tasks/get", {"taskId": "x.y"}),
        ("skills/list", {}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "x"},
                "argument": {"name": "x", "value": ""},
            },
        ),
    ],
)
def test_an_invalid_environment_is_reported_by_each_method(
    method: str, params: dict[str, Any], version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RpcError) as refused:
        result_without_project(method, version, **params)

    error = no_project_error("lost is no folder")
    assert refused.value.message == str(error)
    data = {name: value for name, value in (refused.value.data or {}).items() if name != "uri"}
    asked = error.hint.replace(" with: rye", f": {USERS_COMMAND}rye")
    assert data == {"code": "NO_PROJECT", "hint": asked}
    assert capsys.readouterr().err == ""


def test_templates_and_their_arguments_need_no_project() -> None:
    templates = result_without_project("resources/templates/list", MODERN)["resourceTemplates"]
    reference = {"type": "ref/resource", "uri": templates[2]["uriTemplate"]}
    argument = {"name": "topic", "value": "over"}
    completed = result_without_project(
        "completion/complete", MODERN, ref=reference, argument=argument
    )

    assert len(templates) == 3
    assert completed["completion"]["values"][0] == "overview"


@pytest.mark.parametrize(
    ("topic", "said"),
    [("search", "Finding items by words"), ("overview", "lost is no folder (name one with")],
)
def test_help_needs_no_project(topic: str, said: str) -> None:
    (content,) = result_without_project("resources/read", MODERN, uri=f"rye://help/{topic}")[
        "contents"
    ]

    assert said in content["text"]


def test_no_task_can_be_reported_without_a_project() -> None:
    assert features(nowhere).task("x.y") is None
