"""``rye import``."""

import json
from typing import Any

from tests.support.command_line import CommandLine

ECHO = {"command": "echo-server", "args": ["--fast"], "env": {"ECHO_TOKEN": "t0p-secret"}}


def settings(cli: CommandLine, **servers: Any) -> None:  # noqa: ANN401 - JSON
    (cli.project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")


def test_a_dry_run_shows_what_would_be_made_and_writes_nothing(cli: CommandLine) -> None:
    settings(cli, echo=ECHO)

    done = cli("import", "--dry-run")

    assert done.status == 0, done.stderr
    assert "new" in done.stdout
    assert "tool:mcp/servers/echo" in done.stdout
    assert "echo-server --fast" in done.stdout
    assert not (cli.project / ".ai").exists()


def test_what_is_imported_waits_unsigned(signer: CommandLine) -> None:
    settings(signer, echo=ECHO)

    done = signer("import", "--json").json

    assert [row["state"] for row in done["proposals"]] == ["waiting"]
    assert signer("verify", "tool:mcp/servers/echo").status == 1
    waiting = signer("approve", "--list", "--json").json["proposals"]
    assert [row["ref"] for row in waiting] == ["tool:mcp/servers/echo"]


def test_what_a_person_agrees_to_at_once_is_signed(signer: CommandLine) -> None:
    settings(signer, echo=ECHO)

    done = signer("import", "--yes", "--json").json

    assert [row["state"] for row in done["proposals"]] == ["signed"]
    assert signer("verify", "tool:mcp/servers/echo").status == 0


def test_no_secret_is_written_into_an_item_or_shown(signer: CommandLine) -> None:
    settings(signer, echo=ECHO)

    done = signer("import", "--yes")

    text = (signer.project / ".ai/tools/mcp/servers/echo.yaml").read_text("utf-8")
    assert "${MCP_ECHO_ECHO_TOKEN}" in text
    assert "t0p-secret" not in text + done.stdout + done.stderr
    kept = signer.home / ".ai/.env"
    assert kept.read_text("utf-8") == "MCP_ECHO_ECHO_TOKEN='t0p-secret'\n"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_an_item_that_is_there_is_not_overwritten_without_a_word(signer: CommandLine) -> None:
    settings(signer, echo=ECHO)
    signer("import", "--yes")
    settings(signer, echo={**ECHO, "args": ["--slow"]})

    refused = signer("import", "--yes")
    forced = signer("import", "--yes", "--force")

    assert refused.status == 1
    assert "--force replaces it" in refused.stdout
    assert "signed   tool:mcp/servers/echo" in forced.stdout
    folder = signer.project / ".ai/tools/mcp/servers"
    assert "--slow" in (folder / "echo.yaml").read_text("utf-8")
    assert "--fast" in (folder / "echo.yaml.bak").read_text("utf-8")


def test_the_same_again_changes_nothing(signer: CommandLine) -> None:
    settings(signer, echo=ECHO)
    signer("import", "--yes")

    again = signer("import", "--yes", "--json").json

    assert [row["state"] for row in again["items"]] == ["there already"]


def test_a_wrong_name_is_answered_with_the_closest_one(cli: CommandLine) -> None:
    settings(cli, echo=ECHO)

    assert "did you mean mcp?" in cli("import", "--from", "mcpp").stderr
    assert "did you mean echo?" in cli("import", "--only", "ecko", "--dry-run").stderr
    assert ".mcp.json?" in cli("import", ".mpc.json").stderr


def test_what_cannot_be_read_is_refused_with_its_place(cli: CommandLine) -> None:
    (cli.project / ".mcp.json").write_text('{"mcpServers": {', "utf-8")

    done = cli("import", ".mcp.json")

    assert done.status == 6
    assert "line 1" in done.stderr
