"""``rye agent models``: what threads can use, what it costs, and whose key is there."""

import pytest

from tests.support.command_line import CommandLine

LOCAL = """\
version: "1.0.0"
category: agent/providers
dialect: openai-chat
base_url: http://127.0.0.1:9/v1
credential: mine
models:
  small: {prices: {input: 250, output: "1250.5"}, context: 4096}
  odd: {}
"""
CREDENTIAL = """\
version: "1.0.0"
category: credentials
hosts: ["127.0.0.1:9"]
source: {variable: MINE_KEY}
"""


@pytest.fixture
def local(signer: CommandLine) -> CommandLine:
    config = signer.user_space.ai / "config"
    for name, text in (("agent/providers/local", LOCAL), ("credentials/mine", CREDENTIAL)):
        path = config / f"{name}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
        assert signer("sign", path, "--yes").status == 0
    return signer


def test_without_a_key_the_places_of_keys_are_named(cli: CommandLine) -> None:
    done = cli("agent", "models", "anthropic")

    assert done.status == 0
    assert "anthropic/claude-haiku-4-5" in done.stdout
    assert "1.00 in, 5.00 out  (variable ANTHROPIC_API_KEY is not there)" in done.stdout


def test_models_that_can_be_used_are_listed(cli: CommandLine) -> None:
    said = cli.json("agent", "models", OPENAI_API_KEY="sk-x")

    names = [row["name"] for row in said["models"]]
    assert "openai/gpt-5-mini" in names
    assert "ollama/*" in names
    assert not [name for name in names if name.startswith("anthropic/")]
    assert said["daily"] == {"limit": "5.00", "left": "5.00"}
    assert set(said["tiers"]) == {"fast", "general", "reasoning"}


def test_the_models_of_a_tier_are_listed_in_its_order(cli: CommandLine) -> None:
    said = cli.json("agent", "models", "general")

    assert [row["name"] for row in said["models"]] == said["tiers"]["general"]
    assert [row["usable"] for row in said["models"]] == [False, False, False]


def test_a_key_is_named_by_its_place_and_never_shown(local: CommandLine) -> None:
    done = local("agent", "models", "local", MINE_KEY="sk-secret-99")

    assert "0.25 in, 1.2505 out  (variable MINE_KEY)" in done.stdout
    assert "sk-secret-99" not in done.stdout + done.stderr
    said = local.json("agent", "models", "local/small", MINE_KEY="sk-secret-99")
    assert "sk-secret-99" not in str(said)
    assert said["models"][0]["usable"] is True


def test_a_model_without_a_price_is_shown_as_not_used(local: CommandLine) -> None:
    done = local("agent", "models", "local", MINE_KEY="x")

    assert "local/odd" in done.stdout
    assert "not used: local/odd: expected a price" in done.stdout


def test_a_file_of_a_project_is_named_as_one_that_does_not_count(signer: CommandLine) -> None:
    path = signer.project / ".ai" / "config" / "agent" / "agent.yaml"
    path.parent.mkdir(parents=True)
    path.write_text('daily: {spend: "9000"}\n', "utf-8")

    done = signer("agent", "models")

    assert ".ai/config/agent/agent.yaml of the project does not count" in done.stderr
    assert "today 5.00 of 5.00 dollars are left" in done.stderr


def test_a_broken_provider_hides_no_other(local: CommandLine) -> None:
    path = local.user_space.ai / "config" / "agent" / "providers" / "local.yaml"
    path.write_text(path.read_text("utf-8").replace("small", "large"), "utf-8")

    said = local.json("agent", "models", "--all")

    rows = {row["name"]: row for row in said["models"]}
    assert rows["local"]["usable"] is False
    assert rows["ollama/*"]["usable"] is True


def test_a_name_that_is_none_is_refused_with_those_that_are(cli: CommandLine) -> None:
    done = cli("agent", "models", "antropic")

    assert done.status == 2
    assert "anthropic" in done.stderr
    assert "reasoning" in done.stderr


def test_a_source_of_later_is_named_as_one_that_cannot_be_read(local: CommandLine) -> None:
    path = local.user_space.ai / "config" / "credentials" / "mine.yaml"
    path.write_text(CREDENTIAL.replace("variable: MINE_KEY", "keychain: rye/mine"), "utf-8")

    signed = local("sign", path, "--yes")

    assert signed.status == 6
    assert "source: keychain cannot be read yet" in signed.stderr


def test_without_any_key_the_command_that_stores_one_is_named(cli: CommandLine) -> None:
    assert "store one: rye agent set-up" in cli("agent", "models").stderr
