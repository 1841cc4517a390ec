"""Over MCP a hint names calls of tools; a command stands only where it is the user's to run."""

import ast
import json
import re
from collections.abc import Iterator

import pytest

from ryeos.graph.errors import GraphInputError, GraphInvalidError
from ryeos.graph.expressions import SYNTAX_HINT
from ryeos.items.errors import (
    ExecutorNotFoundError,
    InvalidQueryError,
    ItemNotFoundError,
    NoSigningKeyError,
    SystemImmutableError,
    UnsignedError,
    no_project_error,
)
from ryeos.items.header_values import MetadataError
from ryeos.mcp.hints import COMMAND, COMMAND_WORDS, USERS_COMMAND, for_callers
from ryeos.mcp.request_context import refusal
from ryeos.mcp.results import tool_result
from ryeos.trust.approvals import not_approved
from tests.support.workspace import ROOT

VALIDATE = '{"item_id": "tool:mine/g", "parameters": {"validate": true}}'
# Commands that tools do; every other one gives rights, or maintains a machine, and is the user's.
DONE_BY_TOOLS = {
    *("run", "execute", "search", "load", "sign", "help", "graph", "threads", "lock", "test"),
    *("chain", "info"),
}
_CALL = re.compile(r"\b(execute|load|search|sign|help|fetch) (\{.*?\}+)(?=[^}]|$)")


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("leave out --async", "leave out async"),
        (
            "replace it with --overwrite; what it holds is kept in user space",
            "replace it with overwrite; what it holds is kept in user space",
        ),
        (
            no_project_error("x").hint,
            "name one with project_path, of those that the policy of your user lists",
        ),
        (
            SystemImmutableError("tool:a/b").hint,
            'copy it first: load {"item_id": "tool:a/b", "destination": "project"}',
        ),
        (
            UnsignedError("/a b/.ai/tools/mine/x.y.py", "rye sign /a b/.ai/tools/mine/x.y.py").hint,
            'read it, and if you trust it: sign {"item_id": "tool:mine/x.y"}',
        ),
        (
            "if the change is yours: rye sign '/a b/.ai/tools/mine/x.py'",
            'if the change is yours: sign {"item_id": "tool:mine/x"}',
        ),
        (
            "if the change is yours: rye sign /a/.ai/knowledge/x.md",
            'if the change is yours: sign {"item_id": "knowledge:x"}',
        ),
        (
            "rye sign --force tool:mine/x",
            'sign {"item_id": "tool:mine/x", "options": {"force": true}}',
        ),
        (
            MetadataError("yaml", "no", place="/a/b.md: yaml header").hint,
            "fix the file, then sign it again: sign with its item_id",
        ),
        (
            InvalidQueryError("no", 0).hint,
            InvalidQueryError("no", 0).hint.replace("rye help search", 'help {"topic": "search"}'),
        ),
        (
            "see what it takes: rye run tool:mine/x --help",
            'see what it takes: load {"item_id": "tool:mine/x"}',
        ),
        (
            GraphInputError("tool:mine/g", ["no"]).hint,
            'see what the graph takes: load {"item_id": "tool:mine/g"}',
        ),
        (GraphInvalidError("tool:mine/g", []).hint, f"see all there is to it: execute {VALIDATE}"),
        (SYNTAX_HINT, 'execute with parameters {"validate": true} shows where it is'),
        (
            "list threads with: rye threads list --all",
            'list threads with: execute {"item_id": "rye/core/processes/list"}',
        ),
        (
            "resume it with: rye graph resume r1",
            'resume it with: execute {"resume_thread_id": "r1"}',
        ),
        (
            "what steers a run of a graph: rye help graphs",
            'what steers a run of a graph: help {"topic": "graphs"}',
        ),
        (
            "merge what is there: rye remote pull; or push again",
            (
                'merge what is there: execute {"item_id": "rye/core/remote/remote", "parameters":'
                ' {"action": "pull"}}; or push again'
            ),
        ),
        (
            ExecutorNotFoundError("a", "b").hint,
            'list what there is with: search {"item_type": "tool"}',
        ),
        (ItemNotFoundError("tool:x", ["project"]).hint, "list what there is with: search {}"),
        (NoSigningKeyError("/k").hint, "make one: ask your user to run: rye keys generate"),
        ("see: rye keys --help", "see: ask your user to run: rye keys --help"),
        ("rye trust shows it", "ask your user to run: rye trust shows it"),
        ("decide with: rye approve", "decide: ask your user to run: rye approve"),
        ("ask your user to run: rye approve", "ask your user to run: rye approve"),
    ],
)
def test_a_hint_over_mcp_names_a_call_and_no_command_or_flag(hint: str, expected: str) -> None:
    result = tool_result({"status": "error", "error": "no", "code": "X", "hint": hint})

    assert result["structuredContent"]["hint"] == expected


def test_a_warning_is_reworded_too() -> None:
    warning = not_approved("x", "read")

    result = tool_result({"status": "success", "warnings": [warning]})

    assert result["structuredContent"]["warnings"] == [
        warning.replace("rye trust", f"{USERS_COMMAND}rye trust")
    ]


def test_a_refusal_names_tools_but_keeps_the_flags_of_the_server() -> None:
    data = refusal(no_project_error("x")).data, refusal(SystemImmutableError("tool:a/b")).data

    assert data == (
        {
            "code": "NO_PROJECT",
            "hint": "name one with --project DIR, or make one: ask your user to run: rye init"
            " --project",
        },
        {
            "code": "SYSTEM_IMMUTABLE",
            "hint": 'copy it first: load {"item_id": "tool:a/b", "destination": "project"}',
        },
    )


def test_a_run_is_named_by_its_short_id() -> None:
    envelope = {
        "error": "Cannot resume shop/all-1795504639355-5d83: already completed",
        "hint": "resume it with: rye graph resume rye/bash/bash-1795504639355-77-0f0f",
    }

    reply = for_callers({**envelope, "code": "CONFLICT"})

    assert reply == {
        "code": "CONFLICT",
        "error": "Cannot resume run-5d83: already completed",
        "hint": 'resume it with: execute {"resume_thread_id": "run-0f0f"}',
    }
    tools_own = {"code": "EXECUTION_FAILED", "error": "no file report-2026112412-beef"}
    assert for_callers(tools_own) == tools_own


def test_an_envelope_without_a_hint_stays_as_it_is() -> None:
    assert for_callers({"status": "success"}) == {"status": "success"}


# --- every hint of the source ---------------------------------------------------------------------


def _text(node: ast.expr) -> str:
    """The text of a string in the source, with X for each inserted value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(v) if isinstance(v, ast.Constant) else "mine/x" for v in node.values)
    if isinstance(node, ast.IfExp):
        return _text(node.body) or _text(node.orelse)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


def _hints() -> Iterator[tuple[str, str]]:
    """Every text that is given or kept as a hint, with its place."""
    for folder in ("lillux", "ryeos"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                values: list[ast.expr] = []
                if isinstance(node, ast.Call):
                    values = [one.value for one in node.keywords if one.arg == "hint"]
                elif isinstance(node, ast.Assign):
                    names = [one.id for one in node.targets if isinstance(one, ast.Name)]
                    values = [node.value] if any("hint" in name.lower() for name in names) else []
                for value in values:
                    if _text(value):
                        yield f"{path.relative_to(ROOT)}:{value.lineno}", _text(value)


_OF_PERSONS = re.compile(r"rye threads (resume|branch|mine/x)|rye run \S+ --fork --target")
"""What no tool does: an agent may not go on with a thread."""


def _problem(place: str, hint: str) -> str:
    """The problem of an agent with a hint; ``""`` where there is none."""
    text = for_callers({"hint": hint})["hint"]
    if USERS_COMMAND in text and _OF_PERSONS.search(text):
        return ""
    left = {word for word in re.findall(r"\brye ([a-z]+)", text) if word in COMMAND_WORDS}
    if left and USERS_COMMAND not in text:
        return f"{place}: {text}: does not say whose command it is"
    is_added = USERS_COMMAND in text and USERS_COMMAND not in hint
    if left & DONE_BY_TOOLS and is_added and not place.startswith("ryeos/cli/"):
        return f"{place}: {text}: a tool does that"
    for _, arguments in _CALL.findall(text):
        json.loads(arguments)
    return ""


@pytest.mark.heavy
def test_over_mcp_every_hint_of_the_source_names_calls_or_whose_command_it_is() -> None:
    hints = dict(_hints())

    assert len(hints) > 300
    assert sum(bool(COMMAND.search(hint)) for hint in hints.values()) > 60
    assert [found for place, hint in hints.items() if (found := _problem(place, hint))] == []
