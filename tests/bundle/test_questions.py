"""Questions as a model types them find what answers them first or second, and never a library."""

import pytest

from lillux.cancellation import Cancellation
from ryeos.app.progress import CallContext
from ryeos.app.settings import SETTINGS
from ryeos.app.verbs import answer
from ryeos.app.workspace import Rye
from ryeos.items.refs import Space, id_gives_rights
from tests.support.built import ROOT
from tests.support.workspace import Workspace

# What a model types, and what is first or second: `|` between equals.
_QUESTIONS = {
    "find text in files": "tool:rye/file-system/grep",
    "search code for a string": "tool:rye/file-system/grep",
    "grep": "tool:rye/file-system/grep",
    "regex search in project": "tool:rye/file-system/grep",
    "find usages of a function": "tool:rye/file-system/grep",
    "rename symbol": "tool:rye/file-system/grep|tool:rye/file-system/edit_lines",
    "replace text in file": "tool:rye/file-system/edit_lines",
    "edit file": "tool:rye/file-system/edit_lines",
    "apply a patch": "tool:rye/file-system/edit_lines",
    "insert line": "tool:rye/file-system/edit_lines",
    "read file": "tool:rye/file-system/read",
    "open a file": "tool:rye/file-system/read",
    "show picture": "tool:rye/file-system/read",
    "image": "tool:rye/file-system/read",
    "view png": "tool:rye/file-system/read",
    "write file": "tool:rye/file-system/write",
    "create a new file": "tool:rye/file-system/write",
    "make directory": "tool:rye/file-system/write|tool:rye/bash/bash",
    "list files": "tool:rye/file-system/ls|tool:rye/file-system/glob",
    "list directory": "tool:rye/file-system/ls",
    "find files by name": "tool:rye/file-system/glob",
    "glob": "tool:rye/file-system/glob",
    "run shell command": "tool:rye/bash/bash",
    "bash": "tool:rye/bash/bash",
    "execute a program": "tool:rye/bash/bash|tool:rye/core/primitives/execute",
    "run tests": "tool:rye/core/testing/test|tool:rye/bash/bash",
    "install package": "tool:rye/bash/bash|knowledge:rye/bash/bash-execution",
    "git commit": "tool:rye/code/git",
    "git diff": "tool:rye/code/git",
    "version control": "tool:rye/code/git",
    "http request": "tool:rye/core/primitives/http_client",
    "call a rest api": "tool:rye/core/primitives/http_client",
    "post json": "tool:rye/core/primitives/http_client",
    "fetch web page": "tool:rye/web/fetch",
    "download url": "tool:rye/web/fetch",
    "search the internet": "tool:rye/web/search",
    "google": "tool:rye/web/search",
    "background job": (
        "knowledge:rye/core/processes|tool:rye/core/processes/list|tool:rye/core/processes/status"
    ),
    "cancel a run": "tool:rye/core/processes/cancel",
    "kill process": "tool:rye/core/processes/cancel",
    "wait for a run": "tool:rye/core/processes/status|knowledge:rye/core/processes",
    "status of a run": "tool:rye/core/processes/status",
    "running processes": "tool:rye/core/processes/list",
    "steps of a graph": "tool:rye/core/processes/steps",
    "create tool": "directive:rye/authoring/create_tool|knowledge:rye/authoring/tool-format",
    "write a python tool": (
        "directive:rye/authoring/create_tool|knowledge:rye/authoring/tool-format"
    ),
    "create directive": (
        "directive:rye/authoring/create_directive|knowledge:rye/authoring/directive-format"
    ),
    "workflow": (
        "directive:rye/authoring/create_graph|knowledge:rye/core/runtimes/state-graph-runtime"
    ),
    "retry a failed step": (
        "tool:rye/examples/retry-and-resume|knowledge:rye/core/runtimes/state-graph-runtime"
    ),
    "run steps in parallel": (
        "tool:rye/examples/fan-out|knowledge:rye/core/runtimes/state-graph-runtime"
    ),
    "approve": "knowledge:rye/core/signing-and-integrity|knowledge:rye/primary/sign-semantics",
    "sign item": (
        "knowledge:rye/primary/sign-semantics|"
        "tool:rye/sign|"
        "knowledge:rye/core/signing-and-integrity"
    ),
    "sandbox": "knowledge:rye/core/capability-strings|knowledge:rye/core/secrets",
    "permission denied": "knowledge:rye/core/secrets",
    "api key": "knowledge:rye/core/secrets",
    "secrets": "knowledge:rye/core/secrets",
    "environment variable": "knowledge:rye/core/secrets",
    "mcp server": "tool:rye/mcp/manager|knowledge:rye/mcp/mcp-integration",
    "add mcp server": "tool:rye/mcp/manager|knowledge:rye/mcp/mcp-integration",
    "run on another machine": (
        "tool:rye/core/remote/remote|knowledge:rye/core/remote/remote-operations"
    ),
    "publish an item": "tool:rye/core/registry/registry|knowledge:rye/core/registry/registry-api",
    "validate item": (
        "knowledge:rye/primary/sign-semantics|"
        "tool:rye/core/testing/test|"
        "knowledge:rye/testing/item-tests"
    ),
    "test a tool": "tool:rye/core/testing/test|knowledge:rye/testing/item-tests",
    "lock versions": "tool:rye/core/lock/lock",
    "environment variable missing": "knowledge:rye/core/secrets",
    "run python code": "knowledge:rye/authoring/tool-format|tool:rye/bash/bash",
    "show receipts": "knowledge:rye/core/processes",
    "trust a key": "knowledge:rye/core/signing-and-integrity|tool:rye/core/keys/keys",
    "search and replace": (
        "knowledge:rye/file-system/file-operations|tool:rye/file-system/edit_lines"
    ),
    "delete file": "knowledge:rye/file-system/file-operations|tool:rye/bash/bash",
    "undo a change": "knowledge:rye/file-system/file-operations",
    "webhook": "tool:rye/core/remote/remote",
    "cancel run": "tool:rye/core/processes/cancel",
    "limit cost": "knowledge:rye/core/configuration",
    "timeout": "knowledge:rye/core/configuration",
    "settings": "knowledge:rye/core/configuration",
    "configuration file": "knowledge:rye/core/configuration",
    "resilience.yaml": "knowledge:rye/core/configuration",
    "agent.yaml": "knowledge:rye/core/configuration",
    "sandbox.yaml": "knowledge:rye/core/configuration",
}


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory, bundle: Space) -> Rye:
    """A project with nothing but the bundle."""
    return Workspace(tmp_path_factory.mktemp("questions"), (bundle,)).rye()


def found(rye: Rye, query: str) -> list[str]:
    calling = CallContext(cancellation=Cancellation(), progress=lambda *_: None)
    envelope = answer(rye, "search", {"query": query, "limit": 50}, calling).envelope
    return [one["ref"] for one in envelope["results"]]


def test_there_are_sixty_questions() -> None:
    assert len(_QUESTIONS) >= 60


@pytest.mark.parametrize(("query", "wanted"), _QUESTIONS.items(), ids=str)
def test_a_question_finds_its_answer_first_or_second(rye: Rye, query: str, wanted: str) -> None:
    assert set(found(rye, query)[:2]) & set(wanted.split("|"))


@pytest.mark.parametrize("path", SETTINGS)
def test_the_name_and_the_path_of_a_settings_file_find_the_page_on_it(rye: Rye, path: str) -> None:
    for query in (path, path.rpartition("/")[2]):
        assert "knowledge:rye/core/configuration" in found(rye, query)[:2]


@pytest.mark.parametrize("path", SETTINGS)
def test_the_page_on_configuration_names_each_file_and_whether_an_agent_may_propose_it(
    path: str,
) -> None:
    page = (ROOT / "bundle.ai/knowledge/rye/core/configuration.md").read_text("utf-8")

    (row,) = [line for line in page.splitlines() if line.startswith("| `") and f"`{path}`" in line]
    assert row.split("|")[3].strip().startswith("no" if id_gives_rights(path) else "yes")


@pytest.mark.parametrize(
    "query",
    ["*", "walks the files", "guard import", "texts", "host function", "remotes JSON schema"],
)
def test_what_is_not_run_is_never_found(rye: Rye, query: str) -> None:
    refs = found(rye, query)

    assert not [ref for ref in refs if "/lib/" in ref]
    assert "tool:rye/core/runtimes/python/function_host" not in refs
    assert "tool:rye/core/remote.config-schema" not in refs
