import json
import re

import pytest

import ryeos.app.workspace  # noqa: F401 - brings in every class of failure
from lillux.errors import LilluxError
from ryeos.app.command_line import CommandEntry
from ryeos.app.commands import ALIASES, DAILY, HABITS, PROGRAMS, TABLE
from ryeos.cli.help import TOPICS, text_for_person
from ryeos.graph.schemas import SCHEMAS
from tests.support.command_line import CommandLine
from tests.support.workspace import ROOT


def failures(of: type[LilluxError] = LilluxError) -> list[type[LilluxError]]:
    """Every class of failure of the program itself; tests and the build have further ones."""
    below = [found for sub in of.__subclasses__() for found in failures(sub)]
    return [of, *below] if of.__module__.startswith(("lillux", "ryeos")) else below


@pytest.mark.parametrize("argv", [(), ("help",), ("-h",), ("--help",), ("--color", "never")])
def test_rye_alone_lists_everyday_commands_and_how_to_list_the_rest(
    cli: CommandLine, argv: tuple[str, ...]
) -> None:
    done = cli(*argv)

    listed = re.findall(r"^  (\S+(?: \S+)?)  ", done.stdout, re.MULTILINE)
    assert (done.status, done.stderr) == (0, "")
    assert listed == list(DAILY)
    assert {"approve", "import"} < set(listed)
    assert len(listed) == 14
    assert "\nrye help --all lists all " in done.stdout


def test_help_all_lists_every_command_and_topic(cli: CommandLine) -> None:
    done = cli("help", "--all")

    assert (done.status, done.stderr) == (0, "")
    assert all(f"  {entry.words} " in done.stdout for entry in TABLE)
    assert all(f"  {topic} " in done.stdout for topic in TOPICS)


def test_help_on_a_topic_takes_no_all(cli: CommandLine) -> None:
    done = cli("help", "search", "--all")

    assert done.status == 2
    assert done.stderr == ("error: expected --all or a topic, found both\n  hint: rye help --all\n")


def test_the_list_of_commands_is_json_too(cli: CommandLine) -> None:
    listed = cli.json("help")

    assert [row["command"] for row in listed["commands"]] == [entry.words for entry in TABLE]
    assert list(listed["topics"]) == list(TOPICS)


@pytest.mark.parametrize("words", [entry.words for entry in TABLE])
def test_help_on_a_command_is_the_output_of_its_help_flag(cli: CommandLine, words: str) -> None:
    helped = cli("help", *words.split())
    flagged = cli(*words.split(), "--help")

    assert (helped.status, flagged.status) == (0, 0)
    own_name = words if words in PROGRAMS else f"rye {words}"
    assert helped.stdout.startswith(f"usage: {own_name} ")
    assert helped.stdout.startswith(flagged.stdout)


@pytest.mark.parametrize("group", ["keys", "self", "lock"])
def test_help_on_a_group_is_the_output_of_its_help_flag(cli: CommandLine, group: str) -> None:
    helped, flagged = cli("help", group), cli(group, "--help")

    assert (helped.status, flagged.status) == (0, 0)
    assert flagged.stdout == helped.stdout


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.words)
def test_every_command_of_the_table_has_an_example(entry: CommandEntry) -> None:
    command = entry.spec()

    assert command.examples
    assert all(f"rye {entry.words}" in example for example in command.examples)


@pytest.mark.parametrize("topic", list(TOPICS))
def test_a_topic_prints_its_text(cli: CommandLine, topic: str) -> None:
    done = cli("help", topic)

    assert done.status == 0
    assert done.stdout.endswith(text_for_person(topic))
    assert cli.json("help", topic)["text"].endswith(text_for_person(topic).rstrip())


def test_each_file_of_a_text_is_a_topic() -> None:
    folder = ROOT / "ryeos" / "app" / "help_texts"

    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.md" for name in TOPICS)


def test_an_alias_has_the_help_of_its_command(cli: CommandLine) -> None:
    (alias, command), *_ = ALIASES.items()

    assert cli("help", alias).stdout == cli("help", command).stdout


def test_a_group_lists_its_commands(cli: CommandLine) -> None:
    lines = cli("help", "keys").stdout.splitlines()

    assert lines[0] == "usage: rye keys COMMAND ..."
    assert [line.split()[2] for line in lines[2:]] == [
        entry.words.split()[1] for entry in TABLE if entry.words.startswith("keys ")
    ]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("exitstatus",), "exit-status"),
        (("serch",), "search"),
        (("keys", "sho"), "keys show"),
        (("enviroment",), "environment"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(
    cli: CommandLine, typed: tuple[str, ...], meant: str
) -> None:
    refused = cli("help", *typed)

    assert refused.status == 2
    assert refused.stdout == ""
    assert refused.stderr == (
        f"error: no help on {' '.join(typed)!r}: no such command or topic\n"
        f"  hint: did you mean: rye help {meant}\n"
    )


def test_the_words_of_a_command_may_be_one_quoted_text(cli: CommandLine) -> None:
    quoted, plain = cli("help", "keys generate"), cli("help", "keys", "generate")

    assert (quoted.status, quoted.stdout) == (0, plain.stdout)


def test_a_word_that_is_like_no_command_gets_the_list(cli: CommandLine) -> None:
    refused = cli("help", "zzzzzz", "--json")

    assert refused.status == 2
    assert refused.json == {
        "status": "error",
        "error": "no help on 'zzzzzz': no such command or topic",
        "code": "INVALID_PARAMS",
        "hint": "list what there is with: rye help",
    }


@pytest.mark.parametrize(("typed", "meant"), [("serach", "search"), ("dokter", "doctor")])
def test_a_mistyped_command_gets_a_suggestion(cli: CommandLine, typed: str, meant: str) -> None:
    refused = cli(typed)

    assert refused.status == 2
    assert refused.stderr == (
        f"error: unknown command {typed!r}\n  hint: did you mean: rye {meant}\n"
    )


@pytest.mark.parametrize("word", sorted(set(HABITS)))
def test_a_word_of_another_program_names_commands_that_exist(word: str, cli: CommandLine) -> None:
    refused = cli(word)

    assert refused.status == 2
    named = re.findall(r"\brye ([a-z]+(?: [a-z]+)?)", refused.stderr.partition("hint: ")[2])
    assert named
    assert [words for words in named if TABLE.find(words.split()) is None] == []


@pytest.mark.parametrize(
    "word", ["auditing", "stopped", "configure", "list-tools", "deploy", "scan"]
)
def test_a_word_that_is_only_a_little_like_a_command_suggests_none(
    word: str, cli: CommandLine
) -> None:
    assert cli(word).stderr.endswith("  hint: list the commands with: rye help\n")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("config", "did you mean: rye help config"),
        ("audit", "did you mean: rye verify (signatures), or: rye receipts list (what ran)"),
    ],
)
def test_a_word_with_several_meanings_says_which_command_does_what(
    word: str, hint: str, cli: CommandLine
) -> None:
    assert cli(word).stderr.endswith(f"  hint: {hint}\n")


@pytest.mark.parametrize(("alias", "command"), ALIASES.items())
def test_the_usual_words_are_other_names_of_commands(
    alias: str, command: str, cli: CommandLine
) -> None:
    assert cli(alias, "--help").stdout == cli(command, "--help").stdout


def test_an_alias_runs_its_command(signer: CommandLine) -> None:
    signer("new", "tool", "mine/hello")

    assert signer("ls").stdout == signer("list").stdout != ""
    assert signer("cat", "rye/bash/bash").stdout == signer("load", "rye/bash/bash").stdout
    assert signer("remove", "mine/hello", "--yes").status == 0
    assert signer("list").stdout == ""


@pytest.mark.parametrize("group", sorted({e.words.split()[0] for e in TABLE if " " in e.words}))
def test_a_group_alone_prints_its_help(group: str, cli: CommandLine) -> None:
    if group == "mcp":  # a command itself
        return
    done = cli(group)

    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == cli("help", group).stdout


# --- facts in the texts ---------------------------------------------------------------------------


def test_every_code_of_a_failure_is_explained() -> None:
    errors = text_for_person("errors")
    unexplained = {failure.code for failure in failures() if failure.code not in errors}

    assert unexplained == set()


def test_every_exit_status_of_a_failure_is_explained() -> None:
    listed = set(re.findall(r"^  (\d+) ", text_for_person("exit-status"), re.MULTILINE))

    assert {str(failure.exit_status) for failure in failures()} <= listed


def test_every_command_that_a_topic_names_exists() -> None:
    named = [
        words
        for text in map(text_for_person, TOPICS)
        for words in re.findall(r"\brye ([a-z]+(?: [a-z]+)?)", text)
    ]

    assert named != []
    assert [words for words in named if TABLE.find(words.split()) is None] == []


def test_topics_fit_a_narrow_screen() -> None:
    lines = [line for text in map(text_for_person, TOPICS) for line in text.splitlines()]

    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_printed_as_it_is_saved(cli: CommandLine, name: str) -> None:
    done = cli("help", "--schema", name)

    assert (done.status, done.stderr) == (0, "")
    assert json.loads(done.stdout) == SCHEMAS[name]
    assert cli.json("help", "--schema", name)["schema"] == SCHEMAS[name]


def test_an_unknown_schema_is_a_usage_error(cli: CommandLine) -> None:
    done = cli("help", "--schema", "grahp")

    assert done.status == 2
    assert "invalid choice: 'grahp' (choose from" in done.stderr


def test_a_schema_and_a_topic_exclude_each_other(cli: CommandLine) -> None:
    done = cli("help", "run", "--schema", "graph")

    assert (done.status, done.stderr) == (
        2,
        "error: expected --schema or a topic, found both\n  hint: rye help --schema graph\n",
    )
