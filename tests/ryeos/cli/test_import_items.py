"""``rye import``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, program_of
from tests.support.mcp_servers import LISTING_SERVER
from tests.support.programs import require_program
from tests.support.replaced import kept_copies

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "imports"
ECHO = {"command": "echo-server", "args": ["--fast"], "env": {"ECHO_TOKEN": "t0p-secret"}}


def settings(cli: CommandLine, **servers: Any) -> None:  # noqa: ANN401 - JSON
    (cli.project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")


def test_a_dry_run_shows_the_new_items_and_writes_nothing(cli: CommandLine) -> None:
    settings(cli, echo=ECHO)

    done = cli("import", "--dry-run")

    assert done.status == 0, done.stderr
    assert "new" in done.stdout
    assert "tool:mcp/servers/echo" in done.stdout
    assert "echo-server --fast" in done.stdout
    assert not (cli.project / ".ai").exists()


def test_imported_items_wait_unsigned(signer: CommandLine) -> None:
    settings(signer, echo=ECHO)

    done = signer("import", "--json").json

    assert [row["state"] for row in done["proposals"]] == ["waiting"]
    assert signer("verify", "tool:mcp/servers/echo").status == 1
    waiting = signer("approve", "--list", "--json").json["proposals"]
    assert [row["ref"] for row in waiting] == ["tool:mcp/servers/echo"]


def test_items_that_a_person_agrees_to_at_once_are_signed(signer: CommandLine) -> None:
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


API = """\
openapi: 3.0.0
info: {title: Pets, version: "1"}
servers: [{url: https://pets.example.com}]
paths: {/pets: {get: {operationId: listPets, responses: {"200": {description: ok}}}}}
"""
CODEX = '[mcp_servers.e]\ncommand = "echo"\n'


@pytest.mark.parametrize(
    ("name", "text", "ref"),
    [
        ("api.yaml", API, "tool:api/pets/list-pets"),
        ("mcp.json", API, "tool:api/pets/list-pets"),
        ("nn.json", json.dumps({"mcpServers": {"e": {"command": "echo"}}}), "tool:mcp/servers/e"),
        ("x", '// mine\n{"servers": {"e": {"url": "https://e.example"}}}', "tool:mcp/servers/e"),
        ("openapi.json", json.dumps({"e": {"command": "echo"}}), "tool:mcp/servers/e"),
        ("settings.toml", CODEX, "tool:mcp/servers/e"),
    ],
)
def test_a_document_is_of_the_kind_that_its_content_says(
    cli: CommandLine, name: str, text: str, ref: str
) -> None:
    (cli.project / name).write_text(text, "utf-8")

    done = cli("import", name, "--dry-run")

    assert done.status == 0, done.stderr
    assert ref in done.stdout


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("nn.json", b'{"foo": 1, "bar": {}}', "found JSON with foo, bar"),
        ("half.json", b'{"a": ', "found JSON that cannot be read: line 1, column 7"),
        ("list.yaml", b"- a\n", "found YAML without keys"),
        ("compose.yaml", b"services:\n  web: {}\n", "found YAML with services"),
        ("package.lock.json", b'{"repository": {"url": "x"}, "name": "n"}', "found JSON with"),
        ("pdf.md", b"---\nname: pdf\ndescription: d\n---\n# x\n", "found the text of a skill"),
        ("x.bin", b"\xff\xfe\x00", "found no UTF-8"),
    ],
)
def test_a_file_of_no_known_kind_says_what_was_expected_and_found(
    cli: CommandLine, name: str, data: bytes, found: str
) -> None:
    (cli.project / name).write_bytes(data)

    done = cli("import", name)

    assert done.status == 2
    assert "expected MCP servers in the settings of a client; skills" in done.stderr
    assert found in done.stderr
    assert f"rye import {name} --from" in done.stderr


def test_an_existing_item_is_not_overwritten_without_consent(signer: CommandLine) -> None:
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
    first = kept_copies(signer.user_space.ai, folder / "echo.yaml")[0]
    assert "--fast" in first.read_text("utf-8")
    assert f"what was replaced: {first}" in forced.stderr


def test_a_second_import_changes_nothing(signer: CommandLine) -> None:
    settings(signer, echo=ECHO)
    signer("import", "--yes")

    again = signer("import", "--yes", "--json").json

    assert [row["state"] for row in again["items"]] == ["there already"]


def test_a_wrong_name_is_answered_with_the_closest_one(cli: CommandLine) -> None:
    settings(cli, echo=ECHO)

    assert "did you mean mcp?" in cli("import", "--from", "mcpp").stderr
    assert "did you mean echo?" in cli("import", "--only", "ecko", "--dry-run").stderr
    assert ".mcp.json?" in cli("import", ".mpc.json").stderr


def test_a_malformed_source_is_refused_with_its_place(cli: CommandLine) -> None:
    (cli.project / ".mcp.json").write_text('{"mcpServers": {', "utf-8")

    done = cli("import", ".mcp.json")

    assert done.status == 6
    assert "line 1" in done.stderr


def offering(cli: CommandLine) -> dict[str, Any]:
    """An entry whose server offers one tool, with a secret in it."""
    tools = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
    (cli.home / "list.json").write_text(json.dumps(tools), "utf-8")
    words = ["-I", "-S", str(LISTING_SERVER), str(cli.home / "list.json")]
    return {"command": sys.executable, "args": words, "env": {"ADD_KEY": "k3y-of-add"}}


def test_the_rights_of_a_local_server_are_tried_before_they_are_proposed(
    signer: CommandLine, tmp_path: Path
) -> None:
    rates, code = tmp_path / "rates/rates.json", tmp_path / "code/server.py"
    for path, text in (
        (rates, "{}"),
        (code, f"open({str(rates)!r})\n{LISTING_SERVER.read_text('utf-8')}"),
    ):
        path.parent.mkdir()
        path.write_text(text, "utf-8")
    refused = offering(signer)
    refused["args"][2] = str(code)
    settings(signer, add=offering(signer), rates=refused)

    done = signer("import", "--yes", "--json")

    notes = {one["name"]: one["notes"] for one in done.json["items"]}
    assert notes["add"] == []
    assert notes["rates"][-1] == (
        f"with these rights it does not start: it was refused: read {rates}; if it may have that,"
        f' write into its header: sandbox: {{read: ["{rates}"]}}'
    )
    assert "rates: with these rights it does not start" in done.stderr


@pytest.mark.parametrize("how", [[], ["--dry-run", "--yes"]])
def test_a_server_is_tried_only_once_a_person_agreed(
    signer: CommandLine, tmp_path: Path, how: list[str]
) -> None:
    mark, code = tmp_path / "mark/started.txt", tmp_path / "code/server.py"
    for path in (mark, code):
        path.parent.mkdir()
    code.write_text("import sys\nopen(sys.argv[1], 'a').write('x')\n", "utf-8")
    mark.write_text("", "utf-8")
    settings(signer, one={"command": sys.executable, "args": ["-I", str(code), str(mark)]})

    signer("import", *how)

    assert mark.read_text("utf-8") == ""


def test_rye_takes_the_place_of_the_servers_in_a_client(
    signer: CommandLine, tmp_path: Path
) -> None:
    settings(signer, add=offering(signer), other={"command": "sh", "args": ["-c", "x"]})
    words = [str(program_of(signer, tmp_path)), "import", ".mcp.json", "--replace", "--yes"]

    done = subprocess.run(
        words,
        cwd=signer.project,
        env=signer.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    file = signer.project / ".mcp.json"
    left = json.loads(file.read_text("utf-8"))["mcpServers"]
    assert done.returncode == 0, done.stderr
    assert sorted(left) == ["other", "rye"]
    assert left["rye"]["args"][-1] == "mcp"
    (kept_settings,) = kept_copies(signer.user_space.ai, file)
    assert "k3y-of-add" in kept_settings.read_text("utf-8")
    assert kept_settings.stat().st_mode & 0o777 == 0o600
    assert [*signer.project.rglob("*.bak*")] == []
    assert '-    "add"' in done.stderr or '-{"mcpServers": {"add"' in done.stderr
    assert "k3y-of-add" not in done.stdout + done.stderr


def test_servers_that_were_imported_before_are_replaced_by_a_second_import(
    signer: CommandLine, tmp_path: Path
) -> None:
    settings(signer, add=offering(signer), other=ECHO)
    program = str(program_of(signer, tmp_path))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "import", ".mcp.json", *words],
            cwd=signer.project,
            env=signer.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    assert run("--only", "add", "--yes").returncode == 0
    run("--only", "other")  # it waits for a person
    file = signer.project / ".mcp.json"
    before = file.read_text("utf-8")

    dry = run("--replace", "--dry-run")
    unchanged = file.read_text("utf-8")
    done = run("--replace", "--yes")

    left = json.loads(file.read_text("utf-8"))["mcpServers"]
    assert (dry.returncode, unchanged) == (0, before)
    assert done.returncode == 0, done.stderr
    # What nobody signed stays with its client.
    assert sorted(left) == ["other", "rye"]
    assert done.stdout == f"{file}: rye for add\n"


def test_a_server_whose_settings_say_something_else_than_its_item_is_not_replaced(
    signer: CommandLine, tmp_path: Path
) -> None:
    settings(signer, add=offering(signer))
    program = str(program_of(signer, tmp_path))
    words = [program, "import", ".mcp.json", "--yes", "--json"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, *more],
            cwd=signer.project,
            env=signer.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=False,
        )

    assert run().returncode == 0
    settings(signer, add={"command": "sh", "args": ["-c", "another"]})

    done = run("--replace")

    assert done.returncode == 1
    assert [one["done"] for one in json.loads(done.stdout)["replaced"]] == [False]
    assert "add" in (signer.project / ".mcp.json").read_text("utf-8")


def test_the_settings_of_a_client_are_found_by_its_name(signer: CommandLine) -> None:
    folder = signer.home / ".cursor"
    folder.mkdir()
    text = json.dumps({"mcpServers": {"echo": ECHO}})
    (folder / "mcp.json").write_text(text, "utf-8")

    found = signer("import", "--from", "cursor", "--space", "user", "--dry-run", "--json").json
    missing = signer("import", "--from", "gemini", "--dry-run")

    assert [item["ref"] for item in found["items"]] == ["tool:mcp/servers/echo"]
    assert missing.status == 2
    assert "rye import FILE --from gemini" in missing.stderr


def test_one_file_that_cannot_be_read_keeps_no_other_from_being_taken(signer: CommandLine) -> None:
    (signer.project / "package.json").write_text("{", "utf-8")
    (signer.project / "Makefile").write_text("t:\n\techo t\n", "utf-8")

    done = signer("import", "--yes", "--json")
    alone = signer("import", "package.json")

    assert [row["ref"] for row in done.json["proposals"]] == ["tool:tasks/make/t"]
    assert "not read: " in done.json["notes"][0]
    assert "package.json: expected JSON" in done.json["notes"][0]
    assert alone.status == 6


def skill_folders(cli: CommandLine, count: int) -> None:
    for number in range(count):
        folder = cli.project / f".claude/skills/s{number}"
        folder.mkdir(parents=True)
        text = f"---\nname: s{number}\ndescription: d\n---\nx\n"
        (folder / "SKILL.md").write_text(text, "utf-8")


@pytest.mark.heavy
def test_all_of_more_than_two_hundred_skills_are_signed(signer: CommandLine) -> None:
    skill_folders(signer, 205)

    done = signer("import", "--yes", "--json")

    assert done.status == 0, done.stderr
    assert [row["state"] for row in done.json["proposals"]] == ["signed"] * 205


@pytest.mark.heavy
def test_what_could_not_be_proposed_has_a_number_and_a_status(signer: CommandLine) -> None:
    skill_folders(signer, 205)

    done = signer("import", "--json")

    assert done.status == 1
    assert len(done.json["proposals"]) == 200
    assert "5 of 205" in done.stderr
    assert done.json["next"].count("directive:skills/") == 5


def test_everything_that_a_task_runs_is_in_the_table(signer: CommandLine) -> None:
    line = f"echo {'x' * 300} && rm -rf ./precious"
    (signer.project / "Makefile").write_text(f"all: wipe\nwipe:\n\t{line}\n", "utf-8")

    done = signer("import", "--dry-run")

    assert f"wipe: {line}" in done.stdout


def test_an_address_is_given_to_a_document_without_one(signer: CommandLine) -> None:
    said = {"openapi": "3.1.0", "info": {"title": "Zoo"}, "paths": {"/c": {"get": {}}}}
    (signer.project / "openapi.json").write_text(json.dumps(said), "utf-8")

    without = signer("import", "openapi.json")
    given = signer("import", "openapi.json", "--server", "https://zoo.example/v1", "--yes")

    assert without.status == 1
    assert "say it: --server https://HOST" in without.stdout
    assert given.status == 0, given.stderr
    assert signer("import", "openapi.json", "--server", "zoo").status == 2


def test_a_parameter_that_a_task_does_not_take_is_named_with_those_it_takes(
    signer: CommandLine,
) -> None:
    (signer.project / "Makefile").write_text("t:\n\techo $(ENV) $(TAG)\n", "utf-8")
    signer("import", "--yes")

    done = signer("run", "tasks/make/t", "ENV=prod")

    assert done.status == 6
    assert "unknown parameter ENV, it takes env, tag; did you mean env?" in done.stderr


def test_a_clone_with_the_line_ends_of_windows_is_used_as_it_was_signed(
    signer: CommandLine,
) -> None:
    require_program("make")
    skill_folders(signer, 1)
    files = {
        "hi.py": "# /// script\n# dependencies = []\n# ///\nprint('hi')\n",
        "Makefile": "t:\n\t@echo task\n",
    }
    for name, text in files.items():
        (signer.project / name).write_text(text, "utf-8")
    signer("import", "--yes")
    skill = signer.project / ".claude/skills/s0/SKILL.md"
    for path in (skill, *(signer.project / name for name in files)):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    used = [
        signer("run", "directive:skills/s0"),
        signer("skill", "verify"),
        signer("run", "scripts/hi"),
        signer("run", "tasks/make/t"),
    ]
    skill.write_bytes(skill.read_bytes().replace(b"\r\n", b"\n", 1))
    mixed = signer("run", "directive:skills/s0")

    assert [one.status for one in used] == [0, 0, 0, 0], [one.stderr for one in used]
    assert mixed.status == 4


MAKEFILE = "t:\n\t@echo task $(ENV)\n"


def test_a_task_is_a_short_item_that_says_what_it_runs_and_is_refused_once_that_changes(
    signer: CommandLine,
) -> None:
    require_program("make")
    makefile = signer.project / "Makefile"
    makefile.write_text(MAKEFILE, "utf-8")
    signer("import", "--yes")
    text = (signer.project / ".ai/tools/tasks/make/t.py").read_text("utf-8")

    ran = signer("run", "tasks/make/t", "env=prod")
    makefile.write_text(MAKEFILE.replace("task", "other"), "utf-8")
    changed = signer("run", "tasks/make/t")
    again = signer("import", "--yes", "--force")

    assert len(text.splitlines()) <= 17
    assert "    \"runs\": [\n        '@echo task $(ENV)',\n    ],\n" in text
    assert (ran.status, ran.stdout) == (0, "task prod\n"), ran.stderr
    assert changed.status == 1
    assert "Makefile: changed since it was signed" in changed.stderr
    assert "rye import --force" in changed.stderr
    assert again.status == 0, again.stderr
    assert signer("run", "tasks/make/t").stdout == "other\n"


def earlier_task(cli: CommandLine) -> Path:
    """A task as an earlier version imported it: Python, signed."""
    (cli.project / "Makefile").write_text(MAKEFILE, "utf-8")
    tool = cli.project / ".ai/tools/tasks/make/t.py"
    tool.parent.mkdir(parents=True)
    tool.write_bytes((VECTORS / "earlier_task.txt").read_bytes())
    cli.json("sign", "tool:tasks/make/t")
    return tool


def test_a_task_that_was_imported_as_python_goes_on_working(signer: CommandLine) -> None:
    require_program("make")
    earlier_task(signer)

    ran = signer("run", "tasks/make/t", "env=prod")
    again = signer.json("import", "--yes")

    assert (ran.status, ran.stdout) == (0, "task prod\n"), ran.stderr
    assert [row["state"] for row in again["items"]] == ["there already"]


def test_a_task_that_was_imported_as_python_is_replaced_when_that_is_asked_for(
    signer: CommandLine,
) -> None:
    require_program("make")
    tool = earlier_task(signer)
    (signer.project / "Makefile").write_text(MAKEFILE.replace("task", "other"), "utf-8")

    refused = signer("import", "--yes")
    replaced = signer("import", "--yes", "--force")

    assert refused.status == 1
    assert "--force replaces it" in refused.stdout
    assert replaced.status == 0, replaced.stderr
    assert b"CONFIG = {" in tool.read_bytes()
    assert len(kept_copies(signer.user_space.ai, tool)) == 1
    assert signer("run", "tasks/make/t").stdout == "other\n"
