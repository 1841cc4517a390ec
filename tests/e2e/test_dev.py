"""``rye dev`` of the built file: an editor saves, and the item is signed and run."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.built import Machine
from tests.support.endings import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="signals of POSIX"),
]


@pytest.fixture
def tool(machine: Machine) -> Path:
    """A new tool, not signed, of a user with a key."""
    machine.ask("init", "--project", ".", "-q")
    machine.ask("new", "tool", "mine/hello", "--language", "yaml", "-q")
    return machine.project / ".ai/tools/mine/hello.yaml"


def test_each_save_is_signed_and_run_and_a_mistake_is_reported(
    machine: Machine, tool: Path
) -> None:
    log = machine.temporary / "dev.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*machine.rye, "dev", "mine/hello", "--name", "Ada", "--yes"],
            cwd=machine.project,
            env=machine.environ(),
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        wait_until(lambda: log.read_text("utf-8").count("waiting for") == 1)
        text = tool.read_text("utf-8")
        body = text.partition("\n")[2].partition("\n")[2]
        tool.write_text(body.replace("echo hello", "echo good day"), encoding="utf-8")
        wait_until(lambda: log.read_text("utf-8").count("waiting for") == 2)
        tool.write_text(body.replace("config:", "confog:"), encoding="utf-8")
        wait_until(lambda: log.read_text("utf-8").count("waiting for") == 3)
        process.send_signal(signal.SIGINT)
        status = process.wait(60)
    finally:
        process.kill()
        process.wait()

    said = log.read_text("utf-8")
    assert said.index("hello Ada") < said.index("good day Ada") < said.index("error: ")
    assert "confog" in said
    assert status == 130


def test_nothing_is_signed_without_consent(machine: Machine, tool: Path) -> None:
    refused = machine.run("dev", "mine/hello", "--no-input")
    bundled = machine.run("dev", "rye/bash/bash", "--yes")

    assert (refused.returncode, bundled.returncode) == (4, 2)
    assert "rye:signed" not in tool.read_text("utf-8")
