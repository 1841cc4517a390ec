import sys
from pathlib import Path

import pytest

from lillux.process import ProcessManager
from ryeos.cli.client_settings import ServerLaunch
from ryeos.cli.doctor_probes import LEGACY, MODERN, ProtocolProbe, handshake_finding

# A server that answers to everything; each test adds the rest.
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    method = message["method"]
    result = {"tools": [{"name": "search"}]} if method == "tools/list" else {}
"""
ANSWER = """
    if "id" in message:
        print(json.dumps(answer | {"result": result}), flush=True)
"""


def finding(folder: Path, text: str, probe: ProtocolProbe = MODERN) -> tuple[str, str]:
    """The finding on a server with this program."""
    program = folder / "server.py"
    program.write_text(text, "utf-8")
    launch = ServerLaunch(argv=(sys.executable, str(program), "mcp"))
    check = handshake_finding(probe, launch, {}, ProcessManager())
    return check.status, check.message


@pytest.mark.parametrize("probe", [MODERN, LEGACY])
def test_a_server_that_lists_its_tools_is_fine(probe: ProtocolProbe, tmp_path: Path) -> None:
    status, message = finding(tmp_path, SERVER + ANSWER, probe)

    assert status == "ok"
    assert message.startswith(f"{probe.version}: answers, started and ended in ")


def test_text_on_its_standard_output_fails(tmp_path: Path) -> None:
    status, message = finding(tmp_path, 'print("Welcome!")' + SERVER + ANSWER)

    assert (status, message) == (
        "fail",
        "2026-07-28: expected JSON on standard output, found b'Welcome!'",
    )


def test_a_server_that_ends_is_quoted(tmp_path: Path) -> None:
    status, message = finding(tmp_path, 'import sys; sys.exit("no\\x1b room")', LEGACY)

    assert status == "fail"
    assert message == r"2025-11-25: no answer to initialize; it says: no\u001b room"


def test_a_refused_revision_fails(tmp_path: Path) -> None:
    refusal = '    print(json.dumps(answer | {"error": {"code": -32022}}))\n'

    status, message = finding(tmp_path, SERVER + refusal)

    assert (status, message) == ("fail", "2026-07-28: server/discover: {'code': -32022}")


def test_a_server_without_tools_fails(tmp_path: Path) -> None:
    status, message = finding(tmp_path, SERVER + "    result = {}\n" + ANSWER)

    assert (status, message) == ("fail", "2026-07-28: it lists no tools")


def test_a_program_that_cannot_be_started_fails(tmp_path: Path) -> None:
    launch = ServerLaunch(argv=(str(tmp_path / "python"), "rye.pyz", "mcp"))

    assert handshake_finding(MODERN, launch, {}, ProcessManager()).status == "fail"
