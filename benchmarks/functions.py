"""Cost of a call of a Python function in a warm worker."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Figure, medians
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import Workspace, publish

ROUNDS = 200
FUNCTION = "\ndef execute(params, project_path):\n    return {'echo': params}\n"
SCRIPT = "\nimport json, sys\nprint(json.dumps({'echo': json.load(sys.stdin)}))\n"
PARAMETERS = {"text": "hello", "numbers": [1, 2, 3]}


def figures(scratch: Path) -> Iterator[Figure]:
    """Rows against a bare fork, and against a script that does the same."""
    if not hasattr(os, "fork"):
        return
    workspace = Workspace(scratch / "functions", (publish(scratch / "functions-bundle"),))
    function = "rye/core/runtimes/python/function"
    workspace.project.signed_tool("mine/function", FUNCTION, executor=function)
    workspace.project.signed_tool("mine/script", SCRIPT)
    host = FunctionHost()
    executor = workspace.rye(functions=host).executor

    def call(item_id: str) -> None:
        result = executor.execute(ExecutionRequest(item_id=item_id, parameters=PARAMETERS))
        if result.data != {"echo": PARAMETERS}:
            raise RuntimeError(result.error)

    found = medians(
        {
            "function": lambda: call("mine/function"),
            "script": lambda: call("mine/script"),
            "fork": _bare_fork,
        },
        ROUNDS,
    )
    host.close()
    yield Figure("function, warm", found["function"], "os.fork, json", found["fork"], "+3 ms")
    yield Figure("script", found["script"], "function, warm", found["function"], "at least 10")


def _bare_fork() -> None:
    """Fork, and get parameters back as JSON through a pipe."""
    text = json.dumps(PARAMETERS)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps({"echo": json.loads(text)}).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as result:  # noqa: PTH123 - a descriptor
        answer = json.load(result)
    os.waitpid(pid, 0)
    if answer != {"echo": PARAMETERS}:
        raise RuntimeError(answer)
