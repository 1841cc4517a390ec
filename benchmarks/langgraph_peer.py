"""The graph of `benchmarks.graphs` that counts, in LangGraph with its SQLite checkpointer.

``python langgraph_peer.py FOLDER STEPS ROUNDS`` prints the milliseconds of each round as JSON. It
runs in a venv of its own, where nothing of this repository is installed.
"""

import gc
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    """The state that is handed on."""

    n: int
    visits: int


def count(state: State) -> dict[str, int]:
    """The node's work."""
    return {"n": state["n"] + 1}


def onward(state: State) -> str:
    """The condition behind it."""
    return "count" if state["n"] < state["visits"] else END


def main() -> None:
    """Measure so many rounds, each a run of its own in one database."""
    folder, steps, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    builder = StateGraph(State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", onward, ["count", END])
    times = []
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        graph = builder.compile(checkpointer=saver)
        for number in range(rounds + 1):
            config = {
                "configurable": {"thread_id": f"run-{number}"},
                "recursion_limit": steps + 10,
            }
            given = {"n": 0, "visits": steps if number else 10}  # the first one warms up
            gc.collect()
            gc.disable()
            started = perf_counter()
            # "sync" is written before the next step begins, as in a graph of Rye.
            answer = graph.invoke(given, config, durability="sync")
            times.append((perf_counter() - started) * 1000)
            gc.enable()
            if answer["n"] != given["visits"]:
                raise RuntimeError(answer)
    print(json.dumps(times[1:]))


main()
