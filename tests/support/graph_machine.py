"""A machine with graphs, for tests of the built file: signed items, and runs that are cut short."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.built import Machine

HEAD = (
    'version: "1.0.0"\ntool_type: {type}\nexecutor_id: rye/core/runtimes/{runtime}\n'
    "category: t\ndescription: {description}\n"
)
# Each call leaves its word in `log`; one for whose word there is a `Gate` waits there first.
NOTE = """\
config_schema: {type: object, required: [word], properties: {word: {type: string}}}
config:
  command: >-
    if [ -p gate-{word} ]; then echo . > gate-{word}; read -r _ < way-{word}; fi;
    echo {word} >> log; echo {word}
"""
STEPS = 10


def _head(tool_type: str, runtime: str, description: str = "for tests") -> str:
    return HEAD.format(type=tool_type, runtime=runtime, description=description)


def a_line(steps: int = STEPS) -> dict[str, Any]:
    """A graph whose nodes follow one another: each notes its number, and adds it to the state."""
    nodes: dict[str, Any] = {}
    for number in range(1, steps):
        nodes[f"n{number}"] = {
            "action": {"item_id": "tool:t/note", "params": {"word": f"n{number}"}},
            "assign": {"seen": "${state.seen} ${result.stdout | trim}"},
            "next": f"n{number + 1}",
        }
    output = {"seen": "${state.seen}", "who": "${inputs.who}"}
    nodes[f"n{steps}"] = {"type": "return", "output": output}
    return {"start": "n1", "state": {"seen": ""}, "nodes": nodes}


class GraphMachine:
    """Writes graphs into the project of a machine, runs them, and reads their records."""

    def __init__(self, machine: Machine, *, with_key: bool = True) -> None:
        self.machine = machine
        self.project = machine.project
        self.state = self.project / ".ai" / "state"
        (self.project / ".ai").mkdir(exist_ok=True)
        if with_key:
            machine.ask("keys", "generate", "-q")
            self.tool("note", NOTE)

    # ------------------------------------------------------------------ items

    def tool(self, name: str, body: str, runtime: str = "bash/bash") -> str:
        """Write and sign a shell tool; its id."""
        return self._signed(name, _head("bash", runtime) + body)

    def command(self, name: str, command: str) -> str:
        """Write and sign a shell command; its id."""
        return self.tool(name, f"config: {{command: {json.dumps(command)}}}\n")

    def graph(self, name: str, config: Mapping[str, Any], **header: Any) -> str:  # noqa: ANN401 - YAML
        """Write and sign a graph; return its id. By default it may call all tools in ``t``."""
        text = _head("graph", "state-graph/runtime", header.pop("description", "for tests"))
        header_and_config = {"permissions": ["rye.execute.tool.t.*"], **header, "config": config}
        text += "".join(f"{key}: {json.dumps(value)}\n" for key, value in header_and_config.items())
        return self._signed(name, text)

    def _signed(self, name: str, text: str) -> str:
        path = self.project / ".ai" / "tools" / "t" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        ended = self.machine.run("sign", str(path), "-q", "--force")
        assert ended.returncode == 0, ended.stderr
        return f"t/{name}"

    # ------------------------------------------------------------------ runs

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the machine."""
        return self.machine.run(*arguments)

    def run_json(self, *arguments: str) -> tuple[int, Any]:
        """The status and the envelope of a command."""
        ended = self.machine.run(*arguments, "--json")
        return ended.returncode, json.loads(ended.stdout)

    def started(self, *arguments: str) -> "subprocess.Popen[str]":
        """A running command."""
        return subprocess.Popen(
            [*self.machine.rye, *arguments],
            env=self.machine.environ(),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def runs(self) -> list[str]:
        """The ids of all runs, the newest first."""
        _, listed = self.run_json("threads", "list", "--all")
        return [thread["thread_id"] for thread in listed["threads"]]

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """The whole lines of a run's transcript."""
        data = (self.state / "graphs" / run_id / "transcript.jsonl").read_bytes()
        return [json.loads(line) for line in data.splitlines(keepends=True) if line[-1:] == b"\n"]

    def completed(self, run_id: str) -> list[str]:
        """The nodes of the steps that a run has completed, in order."""
        return [
            event["payload"]["node"]
            for event in self.events(run_id)
            if event["event_type"] == "step_completed"
        ]

    @property
    def log(self) -> list[str]:
        """The notes of the tools."""
        path = self.project / "log"
        return path.read_text("utf-8").split() if path.exists() else []


class Gate:
    """Holds a call of ``t/note`` with this word after its start, before its note.

    A pipe for each direction: in one, the call could read its own word.
    """

    def __init__(self, graphs: GraphMachine, word: str) -> None:
        self.path: Path = graphs.project / f"gate-{word}"
        self._way: Path = graphs.project / f"way-{word}"
        os.mkfifo(self.path)
        os.mkfifo(self._way)

    def await_call(self) -> None:
        """Return when the call waits."""
        with self.path.open("rb") as pipe:
            assert pipe.read() == b".\n"

    def open(self) -> None:
        """Let the call go on."""
        with self._way.open("wb") as pipe:
            pipe.write(b".\n")

    def remove(self) -> None:
        """Hold no further call."""
        self.path.unlink()
        self._way.unlink()
