"""Signals to ``rye.pyz run``: all processes of the tool end with it."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.built import BASE_PYTHON, Machine, run

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals"),
]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_tool_and_its_children_and_is_answered(
    name: str, machine: Machine
) -> None:
    held = machine.home / "held"
    os.mkfifo(held)
    # Every process of the tool holds the pipe open: its end is read when the last one is gone.
    script = f"exec 9>'{held}'; echo ready >&9; sleep 600 & sleep 600"
    started = subprocess.Popen(
        [*machine.rye, "run", "rye/bash/bash", f"command={script}", "--json"],
        env=machine.environ(),
        cwd=machine.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with held.open("rb") as pipe:
        assert pipe.readline() == b"ready\n"
        started.send_signal(getattr(signal, name))
        assert pipe.read() == b""
    answer, _ = started.communicate()

    assert started.returncode == 130
    assert b'"status": "error"' in answer


INTERRUPTED = """
import os, runpy, signal, sys
def interrupt(event, arguments):
    if event == "import" and arguments[0] == os.environ["AT"]:
        signal.raise_signal(signal.SIGINT)
sys.addaudithook(interrupt)
sys.argv = [os.environ["PYZ"], *os.environ["ARGUMENTS"].split()]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_an_interrupted_command_answers_with_one_document_as_well(
    machine: Machine, built_pyz: Path
) -> None:
    environ = machine.environ(
        PYZ=str(built_pyz),
        AT="ryeos.run.engine",
        ARGUMENTS="run rye/bash/bash command=true --json",
    )

    ended = run([BASE_PYTHON, "-I", "-c", INTERRUPTED], environ=environ)

    assert ended.returncode == 130
    assert json.loads(ended.stdout)["code"] == "CANCELLED"


@pytest.mark.parametrize("module", ["ryeos", "ryeos.cli.entry"])
def test_an_interrupt_before_anything_has_begun_is_the_silent_end(
    module: str, machine: Machine, built_pyz: Path
) -> None:
    environ = machine.environ(PYZ=str(built_pyz), AT=module, ARGUMENTS="mcp")

    ended = run([BASE_PYTHON, "-I", "-c", INTERRUPTED], environ=environ)

    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
