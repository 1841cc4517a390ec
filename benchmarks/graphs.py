"""The cost of a step of a graph, with all records that resuming needs."""

import json
import os
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.timing import Figure, elapsed_ms, medians
from lillux.process.model import Outcome
from ryeos.run.function_worker import Function
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest, Invocation
from tests.support.workspace import Workspace, publish

ROOT = Path(__file__).resolve().parents[1]
PEER_PYTHON = ROOT / "build" / "langgraph" / "bin" / "python"
PEER = ROOT / "benchmarks" / "langgraph_peer.py"

STEPS, FEW, MANY, ITEMS = 1000, 100, 10_000, 1000
ROUNDS, FAN_ROUNDS = 5, 3
# As many steps lie between two forced writes of a run (`ryeos.graph.run_store.CheckpointPace`).
CHECKPOINT = 200

GRAPH = "rye/core/runtimes/state-graph/runtime"
FUNCTION = "rye/core/runtimes/python/function"
ADD_ONE = "\ndef execute(params):\n    return {'n': params['n'] + 1}\n"
# About two milliseconds of work that only a processor does.
WORK = """
def execute(params):
    number = params["n"]
    for _ in range(40_000):
        number = (number * 1103515245 + 12345) % 2147483648
    return {"n": number}
"""
COUNTING = """
permissions: ["rye.execute.tool.mine.*"]
config:
  start: count
  max_steps: 20000
  state: {{n: 0}}
  nodes:
    count:
      {work}
      next:
        - {{to: count, when: {{path: state.n, op: lt, value: "${{inputs.visits}}"}}}}
        - {{to: done}}
    done: {{type: return, output: {{n: "${{state.n}}"}}}}
"""
# No expression adds; a list and its sum do.
BY_GATE = """type: gate
      assign: {pair: ["${state.n}", 1], n: "${state.pair | sum}"}"""
BY_ACTION = """action: {item_id: "tool:mine/add", params: {n: "${state.n}"}}
      assign: {n: "${result.n}"}"""
FAN_OUT = """
permissions: ["rye.execute.tool.mine.*"]
config:
  start: fan
  nodes:
    fan:
      type: foreach
      over: "${inputs.numbers}"
      as: n
      parallel: true
      collect: results
      action: {item_id: "tool:mine/work", params: {n: "${n}"}}
      next: done
    done: {type: return, output: {count: "${state.results | length}"}}
"""


def figures(scratch: Path) -> Iterator[Figure]:
    """Rows for steps of gates and of functions, a parallel foreach, and against LangGraph."""
    if not hasattr(os, "fork"):
        return
    bench = Bench(scratch)
    yield from _gates(bench, scratch)
    yield from _actions(bench)
    yield from _fan_out(bench)
    bench.close()


class Bench:
    """A workspace with the graphs and functions that are measured, in one warm process."""

    def __init__(self, scratch: Path) -> None:
        workspace = Workspace(scratch / "graphs", (publish(scratch / "graphs-bundle"),))
        project = workspace.project
        project.signed_tool("mine/add", ADD_ONE, executor=FUNCTION)
        project.signed_tool("mine/work", WORK, executor=FUNCTION)
        for name, text in {
            "gates": COUNTING.format(work=BY_GATE),
            "actions": COUNTING.format(work=BY_ACTION),
            "fan": FAN_OUT,
        }.items():
            project.signed_yaml(f"mine/{name}", text, executor=GRAPH)
        self.host = RememberingHost()
        self.executor = workspace.rye(functions=self.host).executor

    def count(self, name: str, steps: int) -> None:
        """Run a counting graph for so many steps, the return node one of them."""
        request = ExecutionRequest(item_id=f"mine/{name}", parameters={"visits": steps - 1})
        result = self.executor.execute(request)
        if not result.success or result.data["steps"] != steps:
            raise RuntimeError(result.error or result.data)

    def fan_out(self, most: int) -> None:
        """Run the foreach, so many calls at once."""
        parameters = {"numbers": list(range(ITEMS)), "max_concurrency": most}
        result = self.executor.execute(ExecutionRequest(item_id="mine/fan", parameters=parameters))
        if not result.success or result.data["output"] != {"count": ITEMS}:
            raise RuntimeError(result.error or result.data)

    def call_directly(self, calls: int) -> None:
        """Call the graph's function so many times, without a graph."""
        if self.host.last is None:
            self.executor.execute(ExecutionRequest(item_id="mine/add", parameters={"n": 0}))
        if self.host.last is None:
            raise RuntimeError("no call was made")
        function, invocation = self.host.last
        for _ in range(calls):
            outcome = self.host.call(function, invocation)
            if outcome is None or json.loads(outcome.stdout.data)["n"] != 1:
                raise RuntimeError(outcome)

    def close(self) -> None:
        """End the workers."""
        self.host.close()


class RememberingHost(FunctionHost):
    """Remembers the first call that was made through it."""

    last: tuple[Function, Invocation] | None = None

    def call(self, function: Function, invocation: Invocation, **how: Any) -> Outcome | None:  # noqa: ANN401
        """Make the call."""
        self.last = self.last or (function, invocation)
        return super().call(function, invocation, **how)


def _gates(bench: Bench, scratch: Path) -> Iterator[Figure]:
    written = scratch / "written"
    bench.count("gates", FEW)
    found = medians(
        {
            "gates": lambda: bench.count("gates", STEPS),
            "few": lambda: bench.count("gates", FEW),
            "written": lambda: _write_lines(written, STEPS),
        },
        ROUNDS,
    )
    per_step = found["gates"] / STEPS
    yield Figure(
        "graph, a gate step", per_step, "a line written", found["written"] / STEPS, "at most 1 ms"
    )
    many = elapsed_ms(lambda: bench.count("gates", MANY)) / MANY
    few = found["few"] / FEW
    yield Figure(f"graph, a step of {MANY}", many, f"a step of {FEW}", few, "at most 1.2")
    theirs = _langgraph(scratch)
    if theirs:
        floor = statistics.median(theirs) / STEPS
        yield Figure("graph, a gate step", per_step, "LangGraph, SQLite", floor, "at most 1.0")


def _actions(bench: Bench) -> Iterator[Figure]:
    bench.call_directly(1)
    bench.count("actions", FEW)
    found = medians(
        {
            "graph": lambda: bench.count("actions", STEPS),
            "direct": lambda: bench.call_directly(STEPS),
        },
        ROUNDS,
    )
    ours, direct = found["graph"] / STEPS, found["direct"] / STEPS
    yield Figure("graph, a function step", ours, "FunctionHost.call", direct, "at most +2 ms")


def _fan_out(bench: Bench) -> Iterator[Figure]:
    cores = os.cpu_count() or 1
    found = medians(
        {"one": lambda: bench.fan_out(1), "all": lambda: bench.fan_out(cores)}, FAN_ROUNDS
    )
    name = f"graph, {ITEMS} calls, {cores} at once"
    yield Figure(name, found["all"], "one at a time", found["one"], f"nearly 1/{cores}")


def _write_lines(path: Path, steps: int) -> None:
    """Write a short line for each step, and force them to disk now and then."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    descriptor = os.open(path, flags)
    for step in range(steps):
        os.write(descriptor, json.dumps({"step": step, "state": {"n": step}}).encode() + b"\n")
        if step % CHECKPOINT == 0:
            os.fsync(descriptor)
    os.close(descriptor)


def _langgraph(scratch: Path) -> list[float]:
    """The time of the same graph in LangGraph; no row where it is not installed."""
    if not PEER_PYTHON.is_file():
        return []
    folder = scratch / "langgraph"
    folder.mkdir()
    argv = [str(PEER_PYTHON), "-I", str(PEER), str(folder), str(STEPS), str(ROUNDS)]
    done = subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    times: list[float] = json.loads(done.stdout)
    return times
