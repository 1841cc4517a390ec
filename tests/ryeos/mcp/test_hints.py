import pytest

from ryeos.graph.errors import GraphInputError, GraphInvalidError
from ryeos.graph.expressions import SYNTAX_HINT
from ryeos.items.errors import (
    ExecutorNotFoundError,
    InvalidQueryError,
    ItemNotFoundError,
    NoProjectError,
    NoSigningKeyError,
    SystemImmutableError,
    UnsignedError,
)
from ryeos.items.header_values import MetadataError
from ryeos.mcp.questions import refusal
from ryeos.mcp.results import for_callers, tool_result

VALIDATE = '{"validate": true}'


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("leave out --async", "leave out async"),
        (
            "replace it with --overwrite; a .bak is kept",
            "replace it with overwrite; a .bak is kept",
        ),
        (NoProjectError("x").hint, "name one with project_path"),
        (
            SystemImmutableError("tool:a/b").hint,
            "copy it first: load with item_id tool:a/b and destination project",
        ),
        (
            UnsignedError("/a b/.ai/tools/mine/x.y.py", "rye sign /a b/.ai/tools/mine/x.y.py").hint,
            "read it, and if you trust it: sign with item_id tool:mine/x.y",
        ),
        (
            "if the change is yours: rye sign '/a b/.ai/tools/mine/x.py'",
            "if the change is yours: sign with item_id tool:mine/x",
        ),
        (
            "if the change is yours: rye sign /a/.ai/knowledge/x.md",
            "if the change is yours: sign with item_id knowledge:x",
        ),
        (
            MetadataError("yaml", "no", place="/a/b.md: yaml header").hint,
            "fix the file, then sign it again: sign with its item_id",
        ),
        (
            InvalidQueryError("no", 0).hint,
            InvalidQueryError("no", 0).hint.replace("rye help search", "help with topic search"),
        ),
        (
            "see what it takes: rye load tool:mine/x",
            "see what it takes: help with topic item:tool:mine/x",
        ),
        (
            GraphInputError("tool:mine/g", ["no"]).hint,
            "see what the graph takes: help with topic item:tool:mine/g",
        ),
        (
            GraphInvalidError("tool:mine/g", []).hint,
            f"see all there is to it: execute with item_id tool:mine/g and parameters {VALIDATE}",
        ),
        (SYNTAX_HINT, f"execute with parameters {VALIDATE} shows where it is"),
        (
            "list threads with: rye threads list --all",
            "list threads with: execute with item_id rye/core/processes/list",
        ),
        (
            "resume it with: rye graph resume r1",
            "resume it with: execute with resume_thread_id r1",
        ),
        (
            "what steers a run of a graph: rye help graphs",
            "what steers a run of a graph: help with topic graphs",
        ),
        (
            ExecutorNotFoundError("a", "b").hint,
            "list what there is: search for * with item_type tool",
        ),
        (ItemNotFoundError("tool:x", ["project"]).hint, "list what there is: search for *"),
        ("i=... is text; give JSON with i:=...", "give i as JSON, not as text"),
        (NoSigningKeyError("/k").hint, NoSigningKeyError("/k").hint),
    ],
)
def test_a_hint_over_mcp_names_the_argument_and_no_flag(hint: str, told: str) -> None:
    result = tool_result({"status": "error", "error": "no", "code": "X", "hint": hint})

    assert result["structuredContent"]["hint"] == told


def test_a_refusal_names_tools_but_keeps_the_flags_of_the_server() -> None:
    told = refusal(NoProjectError("x")).data, refusal(SystemImmutableError("tool:a/b")).data

    assert told == (
        {"code": "NO_PROJECT", "hint": NoProjectError("x").hint},
        {
            "code": "SYSTEM_IMMUTABLE",
            "hint": "copy it first: load with item_id tool:a/b and destination project",
        },
    )


def test_an_envelope_without_a_hint_stays_as_it_is() -> None:
    assert for_callers({"status": "success"}) == {"status": "success"}
