"""Graphs in a real workspace, with small tools that they call. Each run is one of `Rye.execute`."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from ryeos.app.workspace import Rye
from ryeos.graph.run_places import run_place
from ryeos.graph.runner import StepEvent
from ryeos.items.errors import Answer
from ryeos.items.refs import Kind, Reference
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest
from ryeos.run.threads.thread import Thread
from tests.support.workspace import Workspace

FUNCTION = "rye/core/runtimes/python/function"
WALKER = "rye/core/runtimes/state-graph/runtime"
SCHEMAS = {
    "add": "a: {type: number}, b: {type: number}",
    "square": "n: {type: number}",
}
TOOLS = {
    "add": 'return {"success": True, "sum": params["a"] + params["b"]}',
    "square": """\
        n = params["n"]
        if n < 0:
            return {"success": False, "error": f"negative: {n}"}
        return {"success": True, "sq": n * n}
        """,
    "needs_flag": """\
        from pathlib import Path
        with open(Path(project_path) / "attempts", "a", encoding="utf-8") as attempts:
            attempts.write("x")
        if not (Path(project_path) / "flag").exists():
            return {"success": False, "error": "flag missing"}
        return {"success": True}
        """,
    "echo": 'return {"success": True, **params}',
    "odd": 'return {"success": True, "n": float(params["text"])}',
    "env": """\
        import os
        return {"success": True, "value": os.environ.get(params["name"])}
        """,
}


class GraphGround:
    """A workspace with the tools of ``demo``, which are written when a graph first names them."""

    def __init__(self, workspace: Workspace, functions: FunctionHost | None) -> None:
        self.workspace, self._functions = workspace, functions
        self.rye = self.fresh()
        self.events: list[StepEvent] = []
        for name, body in TOOLS.items():
            lines = textwrap.indent(textwrap.dedent(body), "    ")
            text = f"def execute(params, project_path):\n{lines}"
            workspace.project.signed_tool(f"demo/{name}", text, executor=FUNCTION)

    def fresh(self) -> Rye:
        """The public API as in a new process."""
        return self.workspace.rye(functions=self._functions)

    def graph(self, item_id: str, text: str, *, permissions: str | None = '["rye.*"]') -> Path:
        """Write a graph and sign it; ``text`` begins with ``config:`` or other top-level keys."""
        listed = "" if permissions is None else f"permissions: {permissions}\n"
        category = item_id.rpartition("/")[0]
        body = (
            f'version: "1.0.0"\ntool_type: graph\nexecutor_id: {WALKER}\ncategory: "{category}"\n'
            f"description: test graph\n{listed}{textwrap.dedent(text)}"
        )
        return self.workspace.project.signed(f"tools/{item_id}.yaml", body)

    def answer(
        self,
        item_id: str,
        params: Mapping[str, Any] | None = None,
        *,
        cancellation: Cancellation | None = None,
        rye: Rye | None = None,
        **request: Any,  # noqa: ANN401 - fields of Request
    ) -> Answer:
        """Run a graph, or resume a run of it."""
        wanted = ExecutionRequest(
            item_id=item_id, parameters=params or {}, use_lockfile=False, **request
        )
        reference = Reference(Kind.TOOL, item_id)
        return (rye or self.rye).execute(
            reference, wanted, cancellation=cancellation, on_step=self.events.append
        )

    def run(
        self,
        item_id: str,
        params: Mapping[str, Any] | None = None,
        **more: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        """The data of the run's answer."""
        envelope = self.answer(item_id, params, **more).envelope
        assert "data" in envelope, envelope
        data: dict[str, Any] = envelope["data"]
        return data

    def output(self, item_id: str, **params: Any) -> Any:  # noqa: ANN401 - JSON
        """The output of a run that completes."""
        data = self.run(item_id, params)
        assert data["success"], data
        return data["output"]

    def refusal(self, item_id: str, params: Mapping[str, Any] | None = None, **more: Any) -> str:  # noqa: ANN401
        """The reason why a run does not begin."""
        envelope = self.answer(item_id, params, **more).envelope
        assert envelope["status"] == "error", envelope
        assert not (envelope.get("data") or {}).get("graph_run_id"), envelope
        return str(envelope["error"])

    def thread(self, run_id: str) -> Thread:
        """The run among the threads."""
        return self.fresh().threads.get(run_id)

    def runs(self) -> list[str]:
        """The ids of all recorded runs."""
        folder = run_place(self.rye.context.spaces).runs
        return sorted(
            path.parent.relative_to(folder).as_posix() for path in folder.rglob("transcript.jsonl")
        )

    def transcript(self, run_id: str) -> list[dict[str, Any]]:
        """The transcript of a run."""
        path = run_place(self.rye.context.spaces).runs / run_id / "transcript.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def happened(self, run_id: str) -> list[str]:
        """The types of the events of a run."""
        return [event["event_type"] for event in self.transcript(run_id)]

    @property
    def project(self) -> Path:
        """The folder of the project."""
        return self.workspace.project_path


@pytest.fixture
def ground(workspace: Workspace) -> Iterator[GraphGround]:
    """A workspace for graphs, with a warm worker for its tools where the system has any."""
    import os

    host = FunctionHost() if hasattr(os, "fork") else None
    yield GraphGround(workspace, host)
    if host:
        host.close()
