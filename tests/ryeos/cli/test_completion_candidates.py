import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.cli import completion_candidates
from ryeos.cli.completion import command_tree, offers
from ryeos.cli.completion_candidates import SORTS
from tests.support.command_line import ROOT, CommandLine

HOSTILE = [
    "$(touch x)", "a;b", "a b", "a`b`", "a'b", 'a"b', "a&b", "a|b", "a>b", "a\\b", "a*b", "a?b",
    "a\tb", "a\nb", "a\x1b[2Jb", "a\u202eb", "a\udcffb", "{a,b}", "-rf", "~root", "=ls", "#a", "!a",
    "a:b", "a,b", "@a", "%1", "a\u2018b", "a\u00a0b",
]  # fmt: skip


def offered(cli: CommandLine, *words: str, cwd: Path | None = None) -> list[str]:
    """The output of ``rye __complete``."""
    done = cli("__complete", *words, cwd=cwd)
    assert (done.status, done.stderr) == (0, "")
    return done.stdout.splitlines()


def tool(cli: CommandLine, item_id: str, folder: str = "tools", suffix: str = ".py") -> Path:
    """An empty file where an item of the project is looked for."""
    path = cli.project_space.ai / folder / f"{item_id}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_items_of_every_space_are_offered_by_kind(cli: CommandLine) -> None:
    tool(cli, "mine/hello")
    tool(cli, "mine/howto", "knowledge", ".md")

    assert offered(cli, "refs", "tool:mine/") == ["tool:mine/hello"]
    assert offered(cli, "refs", "knowledge:m") == ["knowledge:mine/howto"]
    assert "tool:rye/bash/bash" in offered(cli, "refs", "")


def test_an_id_is_offered_without_a_kind_too(cli: CommandLine) -> None:
    tool(cli, "mine/hello")
    tool(cli, "mine/howto", "knowledge", ".md")

    assert offered(cli, "refs", "mine/h") == ["mine/hello", "mine/howto"]


def test_only_tools_have_chains_and_only_own_items_are_signed(cli: CommandLine) -> None:
    tool(cli, "mine/hello")
    tool(cli, "mine/howto", "knowledge", ".md")
    tool(cli, "mine/settings", "config", ".yaml")

    assert offered(cli, "tools", "mine/") == ["mine/hello"]
    assert offered(cli, "own", "") == [
        "config:mine/settings",
        "knowledge:mine/howto",
        "tool:mine/hello",
    ]


def test_threads_are_offered(cli: CommandLine) -> None:
    folder = cli.project_space.ai / "state" / "threads" / "mine" / "hello" / "hello-17-1-9f2c"
    folder.mkdir(parents=True)
    (folder / "thread.json").touch()

    assert offered(cli, "threads", "mine/") == ["mine/hello/hello-17-1-9f2c"]


def test_threads_behind_a_link_out_of_the_project_are_not_offered(
    cli: CommandLine, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere" / "secret"
    elsewhere.mkdir(parents=True)
    (elsewhere / "thread.json").touch()
    state = cli.project_space.ai / "state"
    state.mkdir(parents=True)
    (state / "threads").symlink_to(elsewhere.parent)

    done = cli("__complete", "threads", "", "--json")

    assert done.status != 0
    assert done.stdout == ""


def test_help_is_offered_for_topics_commands_and_items(cli: CommandLine) -> None:
    assert offered(cli, "topics", "si") == ["sign", "signing"]
    assert offered(cli, "topics", "item:tool:rye/web/f") == ["item:tool:rye/web/fetch"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_means_something_to_a_shell_is_not_offered(name: str, cli: CommandLine) -> None:
    for item_id in (name, f"{name}/inside", f"{name}/{name}", "mine/hello"):
        tool(cli, item_id)

    assert offered(cli, "own", "") == ["tool:mine/hello"]
    assert offered(cli, "own", name[:1]) == [found for found in ["tool:mine/hello"] if name == "t"]


@given(st.text())
def test_each_candidate_is_one_word_of_visible_characters(name: str) -> None:
    if completion_candidates._is_safe(name):
        assert name.isprintable()
        assert not set(name) & set(" \t\n$`'\"\\;&|<>(){}[]*?!#~=%,@^:")
        assert name[0].isalnum() or name[0] == "_"


def test_no_file_is_opened(cli: CommandLine) -> None:
    path = tool(cli, "mine/pipe")
    path.unlink()
    os.mkfifo(path)  # a process that opened it would wait for ever

    assert offered(cli, "own", "") == ["tool:mine/pipe"]


def test_the_line_chooses_the_project(cli: CommandLine, tmp_path: Path) -> None:
    tool(cli, "mine/hello")
    here = tmp_path / "elsewhere"
    here.mkdir()
    project = str(cli.project)

    for flags in (["-p", project], ["load", "--project", project], [f"--project-path={project}"]):
        assert offered(cli, "refs", "tool:m", *flags, cwd=here) == ["tool:mine/hello"]
    assert offered(cli, "refs", "tool:m", "-p", cwd=here) == []
    aliased = cli("-p", project, "__complete", "refs", "tool:m", cwd=here)
    assert aliased.stdout == "tool:mine/hello\n"


def test_a_failure_gives_no_candidates(cli: CommandLine) -> None:
    done = cli("__complete", "refs", "", "-p", "nowhere", "--json")

    assert done.status == 2
    assert done.stdout == ""
    assert cli("__complete", "everything").status == 2
    assert cli("__complete").status == 2


def test_the_hidden_command_is_neither_listed_nor_suggested(cli: CommandLine) -> None:
    assert "__complete" not in cli("help").stdout
    assert "__complete" not in cli("__complet").stderr.partition("hint")[2]


def test_every_sort_of_names_is_offered_by_a_command() -> None:
    assert {slot.sort for _, slot in offers(command_tree("rye"))} == set(SORTS)


def test_it_needs_no_library_and_no_network(cli: CommandLine) -> None:
    bundle = str(cli.bundle.base)
    code = (
        "import sys; from pathlib import Path; from ryeos.trust.bundles import BundleFolder;"
        "from ryeos.cli.entry import main;"
        f"main(['__complete', 'refs', 'tool:rye/web/f'], BundleFolder(Path({bundle!r})));"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=cli.env,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    offer, loaded = done.stdout.splitlines()
    unwanted = {"nacl", "yaml", "argparse", "shtab", "socket", "urllib3", "sqlite3", "subprocess"}
    assert offer == "tool:rye/web/fetch"
    assert set(loaded.split()) & unwanted == set()


def test_of_a_project_of_countless_folders_only_some_are_searched(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion_candidates, "MAX_FOLDERS", 3)
    for number in range(9):
        tool(cli, f"f{number}/x")

    assert offered(cli, "refs", "tool:f") == ["tool:f0/x", "tool:f1/x"]
