"""``rye.pyz`` changed under a program that runs."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.archives import write_archive
from tests.support.built import BASE_PYTHON, Machine

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="Windows locks a file that runs"),
]

# The work of a server: start, wait, and import something later.
SERVER = """
import os, runpy, sys
sys.argv = [os.environ["PYZ"], "version"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit:
    pass
if os.environ["HOLDS"]:
    sys.modules["zipboot.launch"].program.hold()
print("up", flush=True)
sys.stdin.readline()
import ryeos.search, yaml
print("imported", flush=True)
"""


@pytest.fixture
def machine(new_machine: Machine) -> Machine:
    return new_machine


class Server:
    """A program that has started from a copy of the built file."""

    def __init__(self, pyz: Path, process: subprocess.Popen[str]) -> None:
        self.pyz = pyz
        self._process = process
        assert _line(process.stdout) == "rye 0.1.0"
        assert _line(process.stdout) == "up"

    def go_on(self) -> tuple[str, str, int]:
        """Let it import the rest; its output and its status."""
        stdout, stderr = self._process.communicate("go\n")
        return stdout, stderr, self._process.returncode


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


@contextmanager
def server(machine: Machine, built_pyz: Path, *, holds: bool) -> Iterator[Server]:
    """A server on a copy of the built file."""
    pyz = Path(shutil.copy(built_pyz, machine.home / "rye.pyz"))
    environ = machine.environ(PYZ=str(pyz), HOLDS="1" if holds else "", RYE_EXIT="normal")
    with subprocess.Popen(
        [BASE_PYTHON, "-c", SERVER],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        yield Server(pyz, process)


def other_build(folder: Path) -> Path:
    """Another archive, with the same names inside."""
    write_archive(folder / "other.pyz", b"another build" * 100_000)
    return folder / "other.pyz"


def test_a_program_goes_on_when_another_file_takes_the_name(
    machine: Machine, built_pyz: Path
) -> None:
    with server(machine, built_pyz, holds=False) as running:
        other_build(machine.home).replace(running.pyz)

        assert running.go_on() == ("imported\n", "", 0)


def test_a_program_goes_on_when_its_file_is_removed(machine: Machine, built_pyz: Path) -> None:
    with server(machine, built_pyz, holds=False) as running:
        running.pyz.unlink()

        assert running.go_on() == ("imported\n", "", 0)


def test_a_program_ends_with_a_clear_line_when_its_file_is_written_over(
    machine: Machine, built_pyz: Path
) -> None:
    with server(machine, built_pyz, holds=False) as running:
        shutil.copyfile(other_build(machine.home), running.pyz)

        said = f"rye: {running.pyz} was replaced by another file while it ran; start it again\n"
        assert running.go_on() == ("", said, 1)


def test_a_server_that_holds_its_code_goes_on_when_its_file_is_written_over(
    machine: Machine, built_pyz: Path
) -> None:
    with server(machine, built_pyz, holds=True) as running:
        shutil.copyfile(other_build(machine.home), running.pyz)

        assert running.go_on() == ("imported\n", "", 0)


@pytest.mark.parametrize("way", ["renamed", "written over"])
def test_a_tool_that_runs_meanwhile_ends_well_or_with_a_clear_line(
    way: str, machine: Machine, built_pyz: Path
) -> None:
    pyz = Path(shutil.copy(built_pyz, machine.home / "rye.pyz"))
    gate = machine.home / "gate"
    os.mkfifo(gate)
    command = f"command=echo waiting > '{gate}'; cat '{gate}'"
    with subprocess.Popen(
        [BASE_PYTHON, pyz, "run", "rye/bash/bash", command],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert gate.read_text("utf-8") == "waiting\n"
        other = other_build(machine.home)
        if way == "renamed":
            other.replace(pyz)
        else:
            shutil.copyfile(other, pyz)
        gate.write_text("done\n", "utf-8")
        stdout, stderr = process.communicate()

    clear = f"rye: {pyz} was replaced by another file while it ran; start it again\n"
    assert stdout in ("done\n", "")
    assert (stderr, process.returncode) in [("", 0), (clear, 1)]
    assert process.returncode == 0 or way == "written over"


def test_a_copy_uses_the_cache_of_the_original(machine: Machine, built_pyz: Path) -> None:
    machine.ask("run", "rye/bash/bash", "command=echo hi")
    before = kept(machine)

    machine.rye = (BASE_PYTHON, shutil.copy(built_pyz, machine.home / "another name"))
    machine.ask("run", "rye/bash/bash", "command=echo hi")

    assert kept(machine) == before


def kept(machine: Machine) -> list[Path]:
    """The contents of the cache, but for scripts that name the file they start."""
    return sorted(path for path in machine.cache.rglob("*") if "programs" not in path.parts)


def test_an_mcp_server_goes_on_when_its_file_is_written_over(
    machine: Machine, built_pyz: Path
) -> None:
    pyz = Path(shutil.copy(built_pyz, machine.home / "rye.pyz"))
    with subprocess.Popen(
        [BASE_PYTHON, pyz, "mcp"],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        result_of(process, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        # Once it has answered a call, it holds its code.
        result_of(process, "tools/call", {"name": "help", "arguments": {}})
        shutil.copyfile(other_build(machine.home), pyz)
        call = {"item_id": "rye/bash/bash", "parameters": {"command": "echo hi"}}
        executed = result_of(process, "tools/call", {"name": "execute", "arguments": call})
        found = result_of(process, "tools/call", {"name": "search", "arguments": {"query": "bash"}})
        _, stderr = process.communicate()

    assert executed["structuredContent"]["data"]["stdout"] == "hi\n"
    assert found["structuredContent"]["total"] > 0
    assert (stderr, process.returncode) == ("", 0)


def result_of(
    process: subprocess.Popen[str], method: str, params: Mapping[str, object]
) -> dict[str, Any]:
    """The result of a request to a server."""
    assert process.stdin
    message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    result: dict[str, Any] = json.loads(_line(process.stdout))["result"]
    return result


# ---------------------------------------------------------------- the server of MCP


BEGIN = {"protocolVersion": "2025-06-18", "capabilities": {}}
CALL = {
    "name": "execute",
    "arguments": {"item_id": "rye/bash/bash", "parameters": {"command": "echo hi"}},
}
BACKGROUND = {**CALL, "arguments": {**CALL["arguments"], "async": True}}  # type: ignore[dict-item]


class Client:
    """A client of a copy of the built file."""

    def __init__(self, machine: Machine, pyz: Path) -> None:
        self._process = subprocess.Popen(
            [BASE_PYTHON, pyz, "mcp"],
            env=machine.environ(),
            cwd=machine.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def ask(self, method: str, params: Mapping[str, object]) -> Any:  # noqa: ANN401 - JSON
        """The answer to a request."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(_line(self._process.stdout))

    def end(self) -> str:
        """What it has said on standard error."""
        return self._process.communicate()[1]


@pytest.mark.parametrize("calls_before", [0, 1])
@pytest.mark.parametrize("params", [CALL, BACKGROUND], ids=["call", "background"])
def test_a_server_whose_file_is_written_over_works_on_or_says_so(
    machine: Machine, built_pyz: Path, calls_before: int, params: Mapping[str, object]
) -> None:
    pyz = Path(shutil.copy(built_pyz, machine.home / "rye.pyz"))
    other = other_build(machine.home)
    client = Client(machine, pyz)
    client.ask("initialize", BEGIN)
    for _ in range(calls_before):
        client.ask("tools/call", CALL)

    shutil.copyfile(other, pyz)
    answers = [client.ask("tools/call", params) for _ in range(2)]

    for answer in answers:
        text = json.dumps(answer)
        assert "replaced by another file while it ran" in text or '"stdout": "hi' in text, text
    assert "Traceback" not in client.end()


@pytest.mark.parametrize("way", ["renamed over", "removed"])
def test_a_server_works_on_when_its_name_is_taken(
    machine: Machine, built_pyz: Path, way: str
) -> None:
    pyz = Path(shutil.copy(built_pyz, machine.home / "rye.pyz"))
    client = Client(machine, pyz)
    client.ask("initialize", BEGIN)

    if way == "removed":
        pyz.unlink()
    else:
        other_build(machine.home).replace(pyz)

    assert client.ask("tools/call", CALL)["result"]["content"][0]["text"] == "hi\n"
    assert "Traceback" not in client.end()
