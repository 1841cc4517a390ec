"""The guide is true: its commands run, in their order, against the built file."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^(`{3,4})console\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
_STATUS = re.compile(r"\[status (\d+)\]")


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the guide, what it prints there, and its exit status."""

    command: str
    output: str
    status: int


def steps(text: str) -> list[Step]:
    """Every command of the console blocks, in order. ``> `` continues one, as a shell shows it."""
    found = []
    for _, block in _BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, output = _command_and_output(part.splitlines())
            status = _STATUS.search(output)
            shown = _STATUS.sub("", output).strip()
            found.append(Step(command, shown, int(status[1]) if status else 0))
    return found


def _command_and_output(lines: list[str]) -> tuple[str, str]:
    typed = 1
    while typed < len(lines) and lines[typed][:1] == ">":
        typed += 1
    command = [lines[0], *(re.sub(r"^> ?", "", line) for line in lines[1:typed])]
    return "\n".join(command), "\n".join(lines[typed:])


def matches(shown: str, printed: str) -> bool:
    """Whether an output is what the guide shows, where ``...`` is anything."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.mark.e2e
def test_every_command_of_the_guide_prints_what_the_guide_shows(
    tmp_path: Path, built_pyz: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, file in (("rye", built_pyz), ("rye-node", ROOT / "rye_node.py")):
        program = programs / name
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{file}' \"$@\"\n", "utf-8")
        program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    env = {"HOME": str(tmp_path), "PATH": path, "LANG": "C.UTF-8"}
    folder = tmp_path

    for step in steps((ROOT / "GUIDE.md").read_text("utf-8")):
        if step.command.startswith("cd "):
            folder /= step.command[3:]
            continue
        done = subprocess.run(
            ["bash", "-c", step.command],
            env=env,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            check=False,
        )

        assert done.returncode == step.status, f"$ {step.command}\n{done.stdout}"
        assert matches(step.output, done.stdout), f"$ {step.command}\n{done.stdout}"
