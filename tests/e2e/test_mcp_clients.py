"""The MCP server of the built file, and the clients that people use, on pipes.

Each does the same things (`tests.support.mcp_python_client`, `mcp_client.mjs`), and every message
of the server is judged by the official schema of the revision that it is of.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.built import ROOT, Machine
from tests.support.mcp_messages import MODERN, NEWEST_LEGACY, Conversation, conversations
from tests.support.node_packages import CLIENTS, node_packages
from tests.support.programs import require_program
from tests.support.python_packages import FASTMCP, python_with

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

SUPPORT = ROOT / "tests" / "support"
ANY_CLIENT_S = 120
SEEN = {
    "tools": ["search", "load", "execute", "sign", "help"],
    "found": True,
    "succeeded": [False, "hello"],
    "failed": [True, "error"],
    "refused": [True, "ITEM_NOT_FOUND"],
    "unknown": -32602,
    "progress": 1,
    "cancelled": "gone",
}


def served(machine: Machine, record: Path, *client: str | Path) -> list[Conversation]:
    """The messages of a client and its servers, once it has used every feature."""
    record.mkdir()
    recorder: list[str | Path] = [sys.executable, "-I", "-S", SUPPORT / "mcp_recorder.py", record]
    ended = subprocess.run(
        [*client, *recorder, *machine.rye, "mcp"],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=ANY_CLIENT_S,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == SEEN
    return conversations(record)


def require_clean(conversation: Conversation, version: str) -> None:
    """Every message was as its schema says, every request answered but the one cancelled."""
    cancelled = [
        message["params"]["requestId"]
        for message in conversation.sent
        if message.get("method") == "notifications/cancelled"
    ]
    assert conversation.problems == []
    assert conversation.versions == {version}
    assert list(conversation.open_requests) == cancelled
    assert len(cancelled) == 1
    progress = [
        message["params"]["progress"]
        for message in conversation.heard
        if message.get("method") == "notifications/progress"
    ]
    assert progress == [1, 2, 1]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record"


@pytest.mark.parametrize(
    ("mode", "version"), [("auto", MODERN), ("legacy", NEWEST_LEGACY), (MODERN, MODERN)]
)
def test_the_official_sdk_for_python_is_served(
    machine: Machine, record: Path, mode: str, version: str
) -> None:
    client = (sys.executable, "-I", SUPPORT / "mcp_python_client.py", "mcp", mode)

    (conversation,) = served(machine, record, *client)

    require_clean(conversation, version)


@pytest.mark.parametrize(
    ("mode", "version"), [("auto", MODERN), ("legacy", NEWEST_LEGACY), (MODERN, MODERN)]
)
def test_fastmcp_is_served(machine: Machine, record: Path, mode: str, version: str) -> None:
    client = (python_with(FASTMCP), "-I", SUPPORT / "mcp_python_client.py", "fastmcp", mode)

    (conversation,) = served(machine, record, *client)

    require_clean(conversation, version)


@pytest.mark.parametrize(
    ("edition", "mode"), [("v1", "-"), ("v2", "legacy"), ("v2", MODERN), ("v2", "auto")]
)
def test_both_editions_of_the_official_sdk_for_typescript_are_served(
    machine: Machine, record: Path, edition: str, mode: str
) -> None:
    packages = node_packages(CLIENTS)
    client = (require_program("node"), SUPPORT / "mcp_client.mjs", packages, edition, mode)
    is_modern = mode in {MODERN, "auto"}

    conversation, *siblings = served(machine, record, *client)

    require_clean(conversation, MODERN if is_modern else NEWEST_LEGACY)
    # To find out whether a server knows the modern revision it starts one, and then another.
    assert len(siblings) == is_modern
    assert [problem for sibling in siblings for problem in sibling.problems] == []
