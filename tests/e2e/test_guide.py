"""The README, the guide and the operations page are true: their commands run, in their order."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.documents import Step, prints, steps
from tests.support.model_server import ModelServer, words
from tests.support.programs import require_program

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[2]
# Behind the language stand the programs that a block needs: ```console git
_BLOCK = re.compile(
    r"^(?P<fence>`{3,4})console(?P<needs>(?: [\w.+-]+)*)\n(?P<text>.*?)^(?P=fence)$"
    r"|^<!-- an agent proposes (?P<ref>\S+) -->\n```python\n(?P<content>.*?)^```$",
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


@dataclass(frozen=True, slots=True)
class Proposal:
    """A tool that the page lets an agent propose."""

    ref: str
    content: str


def parts(text: str) -> Iterator[tuple[list[Step] | Proposal, set[str]]]:
    """Commands and proposals in the order of the page, and the programs missing here for them."""
    for block in _BLOCK.finditer(text):
        if block["ref"]:
            yield Proposal(block["ref"], block["content"]), set()
        else:
            missing = {name for name in block["needs"].split() if shutil.which(name) is None}
            yield steps(block["text"]), missing


def propose(proposal: Proposal, rye: Path, folder: Path, env: dict[str, str]) -> str:
    """The answers to an agent that writes a tool and asks for its signature, over MCP."""
    arguments = {"item_id": proposal.ref, "content": proposal.content}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    calls = [
        ("initialize", {**hello, "clientInfo": {"name": "agent", "version": "1"}}),
        ("tools/call", {"name": "sign", "arguments": arguments}),
    ]
    with subprocess.Popen(
        [rye, "mcp"],
        env=env,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for at, (method, params) in enumerate(calls):
            call = {"jsonrpc": "2.0", "id": at, "method": method, "params": params}
            server.stdin.write(json.dumps(call) + "\n")
        server.stdin.flush()
        return next(line for line in server.stdout if json.loads(line).get("id") == 1)


@contextmanager
def servers_ended(home: Path) -> Iterator[None]:
    """End processes that a page has started and recorded in ``NAME.pid``, also where it failed."""
    try:
        yield
    finally:
        for file in home.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text("utf-8")), signal.SIGTERM)


@pytest.mark.e2e
@pytest.mark.parametrize("page", ["README.md", "GUIDE.md", "docs/operating.md"])
def test_every_command_of_a_page_prints_the_text_of_the_page(
    page: str, tmp_path: Path, built_pyz: Path
) -> None:
    # Beside the home, not in it: a second person of a page has another home.
    programs, home = tmp_path / "bin", tmp_path / "home"
    programs.mkdir()
    home.mkdir()
    for name, file in (("rye", built_pyz), ("rye-node", ROOT / "rye_node.py")):
        program = programs / name
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{file}' \"$@\"\n", "utf-8")
        program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}
    folder = home
    text = (ROOT / page).read_text("utf-8")
    left_out: set[str] = set()

    with servers_ended(home), ModelServer(always=words("Dear Ada, your tea is here.")) as model:
        text = text.replace("http://127.0.0.1:11434", model.url)
        for part, missing in parts(with_free_ports(text)):
            left_out |= missing
            if isinstance(part, Proposal):
                assert "APPROVAL_REQUIRED" in propose(part, programs / "rye", folder, env)
                continue
            for step in () if missing else part:
                if step.command.startswith("cd "):
                    folder /= step.command[3:].replace("~", str(home))
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


def test_the_readme_fits_on_two_screens() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_the_guide_has_at_most_2500_words() -> None:
    assert len((ROOT / "GUIDE.md").read_text("utf-8").split()) <= 2500


def test_the_alias_of_the_readme_works_in_a_folder_with_a_blank(
    tmp_path: Path, built_pyz: Path
) -> None:
    checkout = tmp_path / "a checkout"
    (checkout / "dist").mkdir(parents=True)
    (checkout / "dist" / "rye.pyz").symlink_to(built_pyz)
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    alias = next(line for line in lines if line.startswith("alias rye="))

    said = subprocess.run(
        ["bash", "-c", f"shopt -s expand_aliases\n{alias}\nrye version"],
        cwd=checkout,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )

    assert said.stdout.startswith("rye ")
