"""A wrong command line is answered with a hint."""

import pytest

from tests.support.command_line import CommandLine


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("run tool:rye/bash/bash --timeout nan", "no limit: --timeout 0"),
        ("search x --limit 0", "leave it out for 10; --offset goes on behind them"),
        ("search x --offset -1", "see: rye search --help"),
        ("keys import nope", "name the file of a PEM key; to make a new key: rye keys generate"),
        ("keys import", "see: rye keys import --help"),
        ("threads list --limit 0", "see: rye threads list --help"),
        ("threads wait x --timeout nan", "see: rye threads wait --help"),
        ("completion bash --bin ;", "see: rye completion --help"),
    ],
)
def test_a_wrong_line_gets_a_hint(line: str, hint: str, cli: CommandLine) -> None:
    done = cli(*line.split())

    assert done.status == 2
    assert done.stderr.endswith(f"\n  hint: {hint}\n")


def test_a_hint_is_in_the_envelope_too(cli: CommandLine) -> None:
    assert cli("search", "x", "--offset", "-1", "--json").json["hint"] == "see: rye search --help"


def test_an_empty_detached_signature_gets_a_hint(cli: CommandLine) -> None:
    path = cli.project_space.ai / "tools" / "mine" / "data.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}", "utf-8")
    path.with_name("data.json.sig").touch()

    done = cli("load", "tool:mine/data")

    assert done.status == 4
    assert f"hint: read the item, and if you trust it: rye sign {path}\n" in done.stderr


def test_an_unknown_log_level_gets_a_hint(cli: CommandLine) -> None:
    assert "hint: see: rye help environment\n" in cli("doctor", RYE_LOG="loud").stderr


def test_help_on_mcp_names_prompts_resources_tasks_and_skills(cli: CommandLine) -> None:
    text = cli("help", "mcp").stdout

    assert [word for word in ("prompts", "resources", "tasks", "skills") if word not in text] == []
