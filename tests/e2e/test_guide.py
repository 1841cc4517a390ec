"""The README and the guide are true: their commands run, in their order, on the built file."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.documents import Step, prints, steps
from tests.support.programs import require_program

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[2]
# Behind the language stand the programs that a block needs: ```console git
_BLOCK = re.compile(
    r"^(?P<fence>`{3,4})console(?P<needs>(?: [\w.+-]+)*)\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)

_LONGEST_COMMAND_S = 120


def with_free_ports(text: str) -> str:
    """The page with ports that are free here in place of those that its servers listen on."""
    with ExitStack() as held:
        for port in dict.fromkeys(re.findall(r"--port (\d+)", text)):
            listening = held.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            text = text.replace(port, str(listening.getsockname()[1]))
    return text


def blocks(text: str) -> Iterator[tuple[list[Step], set[str]]]:
    """The commands of each console block, in order, and the programs missing here for it."""
    for block in _BLOCK.finditer(text):
        missing = {name for name in block["needs"].split() if shutil.which(name) is None}
        yield steps(block["text"]), missing


@contextmanager
def servers_ended(home: Path) -> Iterator[None]:
    """Ends what a page has started and written down in ``NAME.pid``, also where it failed."""
    try:
        yield
    finally:
        for file in home.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text("utf-8")), signal.SIGTERM)


@pytest.mark.e2e
@pytest.mark.parametrize("page", ["README.md", "GUIDE.md"])
def test_every_command_of_a_page_prints_what_the_page_shows(
    page: str, tmp_path: Path, built_pyz: Path
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
    text = (ROOT / page).read_text("utf-8")
    left_out: set[str] = set()

    with servers_ended(tmp_path):
        for commands, missing in blocks(with_free_ports(text)):
            left_out |= missing
            for step in () if missing else commands:
                if step.command.startswith("cd "):
                    folder /= step.command[3:].replace("~", str(tmp_path))
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
                    timeout=_LONGEST_COMMAND_S,
                )

                assert done.returncode == step.status, f"$ {step.command}\n{done.stdout}"
                assert prints(step.output, done.stdout), f"$ {step.command}\n{done.stdout}"

    for name in sorted(left_out):
        require_program(name)
