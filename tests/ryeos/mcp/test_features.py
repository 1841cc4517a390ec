from typing import Any, NoReturn

import pytest

from lillux.mcp_client.versions import MODERN
from lillux.process import Cancellation
from ryeos.app import Rye
from ryeos.errors import NoProjectError
from ryeos.mcp.eras import Caller
from ryeos.mcp.events import Call, Pace
from ryeos.mcp.features import RyeFeatures
from tests.support.background_runs import program_of
from tests.support.mcp_conversation import NEWEST_LEGACY, Conversation
from tests.support.workspace import Workspace

NO_CURSOR = "cursor: expected one that this server gave"


def features(make: Any) -> RyeFeatures:  # noqa: ANN401 - any maker of the public API
    """Features on a public API that is made so."""
    return RyeFeatures(make, lambda _: program_of(Workspace.__new__(Workspace)), lambda: None)


def call(name: str, **arguments: Any) -> Call:  # noqa: ANN401 - JSON
    """A call of a tool."""
    params = {"name": name, "arguments": arguments}
    return Call(1, "tools/call", params, Caller(version="2025-11-25"))


def told(offered: RyeFeatures, asked: Call) -> dict[str, Any]:
    """The envelope of an answer."""
    result = offered.answer(asked, Cancellation(), lambda *_: None)
    assert result["isError"]
    found: dict[str, Any] = result["structuredContent"]
    return found


@pytest.mark.parametrize("name", ["search", "execute"])
def test_a_failure_of_ours_is_an_envelope_with_a_number_and_no_traceback(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> NoReturn:
        raise ZeroDivisionError("of ours")

    answer = told(features(fail), call(name, query="x"))

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
def test_surroundings_that_are_refused_are_told_by_each_tool(name: str) -> None:
    def fail() -> Rye:
        raise NoProjectError("lost is no folder")

    assert told(features(fail), call(name, query="x"))["code"] == "NO_PROJECT"


@pytest.mark.parametrize("name", ["execute", "rye_execute", "mcp__rye__execute"])
def test_only_programs_run_long(name: str) -> None:
    offered = features(lambda: None)

    assert offered.pace(call(name)) is Pace.LONG
    assert offered.pace(call("search")) is Pace.SHORT
    assert offered.pace(Call(1, "tools/list", {}, Caller(version="2025-11-25"))) is Pace.AT_ONCE


@pytest.mark.parametrize("version", [MODERN, NEWEST_LEGACY])
@pytest.mark.parametrize("cursor", ["no-such", "", 5])
def test_tools_are_one_page_and_have_no_cursor(
    cursor: object, version: str, workspace: Workspace
) -> None:
    error = Conversation(workspace.rye(), version=version).error("tools/list", cursor=cursor)

    assert (error["code"], error["message"]) == (-32602, NO_CURSOR)
