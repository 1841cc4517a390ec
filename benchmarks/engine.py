"""Time that the engine adds to the command it runs, in one process."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Figure, medians
from lillux.values import replace
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import Workspace, publish

ROUNDS = 200
TOOL = "rye/bash/bash"
COMMAND = "echo hi"


def figures(scratch: Path) -> Iterator[Figure]:
    """Rows for a warm call, one without reach of keys, and for building a chain warm and cold."""
    workspace = Workspace(scratch / "engine", (publish(scratch / "bundle"),))
    executor = workspace.warm.executor
    request = ExecutionRequest(item_id=TOOL, parameters={"command": COMMAND})
    agents = replace(request, confined=True)
    bash = ["bash", "-c", COMMAND]
    env = dict(workspace.env)
    paths = [e.path for e in executor.build_chain(TOOL).elements if e.path]

    def call() -> None:
        if not executor.execute(request).success:
            raise RuntimeError(TOOL)

    def confined() -> None:
        if not executor.execute(agents).success:
            raise RuntimeError(TOOL)

    def bare() -> None:
        subprocess.run(
            bash, env=env, cwd=workspace.project_path, check=True, capture_output=True, input=b"{}"
        )

    found = medians(
        {
            "call": call,
            "confined": confined,
            "bare": bare,
            "warm": lambda: executor.build_chain(TOOL),
            "cold": lambda: workspace.rye().executor.build_chain(TOOL),
            "read": lambda: [path.read_bytes() for path in paths],
        },
        ROUNDS,
    )
    yield Figure("warm call", found["call"], "subprocess.run", found["bare"], "at most +3 ms")
    yield Figure("call for an agent", found["confined"], "warm call", found["call"])
    yield Figure("chain, warm", found["warm"], "reading its files", found["read"])
    yield Figure("chain, cold", found["cold"], "reading its files", found["read"])
