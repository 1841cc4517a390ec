"""Every tool of the bundle declares what it may do; each is tried at one thing that it may not.

The tool itself never tries: its file is run with a body of ours in its place, signed as it is, so
what is held is what its own header says.
"""

import ast
import re
from pathlib import Path

import pytest

from lillux.landlock import landlock_version
from lillux.seccomp import can_filter
from ryeos.items.headers import parse_header
from ryeos.items.rights import ANYTHING, Rights
from ryeos.items.specs import tool_spec
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import ROOT, Workspace

TOOLS = ROOT / "bundle.ai" / "tools"
_NOT_RUN = {"library", "runtime", "primitive", "extractor", "config", "parser", None}

linux = pytest.mark.skipif(
    not (landlock_version() and can_filter()), reason="rights are held by Landlock and seccomp"
)


def runnable() -> dict[str, Path]:
    """Id and file of each tool that can be run."""
    found = {}
    for path in sorted(TOOLS.rglob("*")):
        if path.suffix not in {".py", ".yaml"} or path.name.endswith(".test.yaml"):
            continue
        spec = tool_spec(parse_header(path.suffix, path.read_text("utf-8"), path.name), path.suffix)
        if spec.tool_type not in _NOT_RUN and isinstance(spec.executor_id, str):
            found[path.relative_to(TOOLS).with_suffix("").as_posix()] = path
    return found


RUNNABLE = runnable()
READ = "open({secret!r}).read()"
WRITE = "open(project_path + '/x', 'w').write('x')"
SOCKET = "__import__('socket').socket(2, 1)"
PROGRAM = "__import__('subprocess').run(['/bin/true'], check=True)"
VARIABLE = "__import__('os').environ['GITHUB_TOKEN']"
KEY = "open({key!r}).read()"

# A forbidden action of each; with KEY where an agent runs it.
REFUSED = {
    "rye/bash/bash": KEY,
    "rye/code/git": SOCKET,
    "rye/core/bundler/bundler": KEY,
    "rye/core/init/init": SOCKET,
    "rye/core/keys/keys": SOCKET,
    "rye/core/lock/lock": SOCKET,
    "rye/core/processes/cancel": SOCKET,
    "rye/core/processes/list": SOCKET,
    "rye/core/processes/status": SOCKET,
    "rye/core/processes/steps": SOCKET,
    "rye/core/registry/registry": KEY,
    "rye/core/remote/remote": KEY,
    "rye/core/telemetry/telemetry": SOCKET,
    "rye/core/testing/test": KEY,
    "rye/fetch": SOCKET,
    "rye/sign": SOCKET,
    "rye/examples/approval": READ,
    "rye/examples/measure": WRITE,
    "rye/examples/summarize": READ,
    "rye/file-system/edit_lines": PROGRAM,
    "rye/file-system/glob": WRITE,
    "rye/file-system/grep": SOCKET,
    "rye/file-system/ls": VARIABLE,
    "rye/file-system/read": WRITE,
    "rye/file-system/write": READ,
    "rye/mcp/manager": KEY,
    "rye/web/fetch": READ,
    "rye/web/search": WRITE,
}
GRAPHS = {"rye/examples/approval-gate", "rye/examples/fan-out", "rye/examples/retry-and-resume"}
THREAD = "rye/agent/threads/thread_directive"
"""What a thread may do is held for each item that it calls."""


def declared(item_id: str) -> Rights:
    path = RUNNABLE[item_id]
    spec = tool_spec(parse_header(path.suffix, path.read_text("utf-8"), path.name), path.suffix)
    assert spec.sandbox is not None, item_id
    return spec.sandbox


def test_every_tool_of_the_bundle_declares_and_is_tried() -> None:
    assert RUNNABLE.keys() == REFUSED.keys() | GRAPHS | {THREAD}
    for item_id in RUNNABLE:
        declared(item_id)


def test_only_tools_that_start_shells_or_rye_have_all_rights() -> None:
    anything = {item_id for item_id in RUNNABLE if declared(item_id) == ANYTHING}

    assert anything == {
        *(item_id for item_id, code in REFUSED.items() if code is KEY),
        *("rye/examples/approval-gate", "rye/examples/retry-and-resume", THREAD),
    }


@linux
@pytest.mark.parametrize("item_id", REFUSED)
def test_a_tool_has_no_undeclared_right(workspace: Workspace, item_id: str) -> None:
    secret = workspace.home / ".ssh" / "id"
    secret.parent.mkdir()
    secret.write_text("secret", "utf-8")
    key = workspace.home / ".ai/config/keys/signing/private_key.pem"
    key.parent.mkdir(parents=True, exist_ok=True)
    key.write_text("key", "utf-8")
    workspace.env["GITHUB_TOKEN"] = "token"
    code = REFUSED[item_id].format(secret=str(secret), key=str(key))
    block = declared(item_id).describe()
    resolve = "CONFIG_RESOLVE = {'path': 'mine/none.yaml', 'spaces': ['user', 'system']}\n"
    name = "mine/" + re.sub(r"\W", "_", item_id)
    workspace.project.signed_tool(
        name,
        f"def execute(params, project_path):\n    return {{'found': str({code})}}\n",
        executor="rye/core/runtimes/python/function",
        extra=f"{resolve}SANDBOX = {ast.literal_eval(repr(block))!r}\n",
    )
    rye = workspace.rye(confines=REFUSED[item_id] is KEY)

    result = rye.executor.execute(ExecutionRequest(item_id=name))

    assert not result.success, result.data
    assert result.failure is None, result.failure
    known = ("PermissionError", "KeyError: 'GITHUB_TOKEN'")
    assert str(result.error).startswith(known), result.error
