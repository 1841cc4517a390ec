"""Tools that behave badly, run by the built file: too much output, no reading, no text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.built import Machine

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform == "win32", reason="the tools are POSIX commands"),
    pytest.mark.heavy,
]

MIB = 1024 * 1024
MANY_LINES = "head -c {size} /dev/zero | tr '\\0' x"


def peak_memory(machine: Machine, *arguments: str) -> tuple[int, int]:
    """The status of a run, and the most memory in bytes that it or a child of it had."""
    process = subprocess.Popen(
        [*machine.rye, *arguments],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return process.returncode, usage.ru_maxrss * unit


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_gibibyte_of_output_does_not_fill_the_memory(machine: Machine, stream: str) -> None:
    command = f"{MANY_LINES.format(size=1024 * MIB)} >&{stream}"
    _, small = peak_memory(machine, "run", "rye/bash", "command=echo hi", "--json")

    status, large = peak_memory(machine, "run", "rye/bash", f"command={command}", "--json")

    assert status == (1 if stream == "1" else 0)
    assert large - small < 160 * MIB


def test_too_much_output_is_an_error_that_is_never_read_as_json(machine: Machine) -> None:
    command = f"printf '['; {MANY_LINES.format(size=20 * MIB)}; printf ']'"

    ended = machine.run("run", "rye/bash", f"command={command}", "--json")

    document = json.loads(ended.stdout)
    assert (document["code"], ended.returncode) == ("RESOURCE_EXCEEDED", 1)
    assert document["metadata"]["truncated"]["stdout"] is True


def test_a_tool_that_never_reads_gets_ten_mebibytes_all_the_same(
    machine: Machine, tmp_path: Path
) -> None:
    tool = machine.project / ".ai/tools/mine/deaf.py"
    tool.parent.mkdir(parents=True)
    tool.write_text(
        '__version__ = "1.0.0"\n__tool_type__ = "python"\n__category__ = "mine"\n'
        '__executor_id__ = "rye/core/runtimes/python/script"\n__tool_description__ = "deaf"\n'
        "print(7)\n",
        encoding="utf-8",
    )
    machine.run("keys", "generate")
    machine.run("sign", str(tool))
    given = tmp_path / "params.json"
    given.write_text(json.dumps({"text": "x" * 10 * MIB}), encoding="utf-8")

    ended = machine.run("run", "mine/deaf", "--params", f"@{given}")

    assert (ended.stdout, ended.returncode) == ("7\n", 0)


def test_a_script_cannot_get_ten_mebibytes_as_an_argument(machine: Machine, tmp_path: Path) -> None:
    given = tmp_path / "params.json"
    given.write_text(json.dumps({"command": "true", "x": "x" * 10 * MIB}), encoding="utf-8")

    ended = machine.run("run", "rye/bash", "--params", f"@{given}", "--json")

    document = json.loads(ended.stdout)
    assert document["status"] == "error"
    assert ended.returncode not in (0, 70)
    assert "Traceback" not in ended.stderr


def test_bytes_that_are_no_text_come_out_as_replacement_characters(machine: Machine) -> None:
    ended = machine.run("run", "rye/bash", r"command=printf 'a\377\376b\n'", "--json")

    assert json.loads(ended.stdout)["data"]["stdout"] == "a��b\n"
    assert ended.returncode == 0


def test_a_null_and_control_characters_in_the_output_stay_valid_json(machine: Machine) -> None:
    ended = machine.run("run", "rye/bash", r"command=printf 'a\000\033[31mb'", "--json")

    assert json.loads(ended.stdout)["data"]["stdout"] == "a\0\x1b[31mb"


def test_a_child_that_keeps_the_output_open_is_not_waited_for(machine: Machine) -> None:
    ended = machine.run("run", "rye/bash", "command=sleep 600 & echo done")

    assert (ended.stdout, ended.returncode) == ("done\n", 0)
