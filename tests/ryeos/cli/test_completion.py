import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ryeos.app.commands import ALIASES, TABLE
from ryeos.cli.completion import SHELLS, command_tree
from tests.support.command_line import CommandLine, program_of
from tests.support.programs import require_program
from tests.support.terminal import Terminal

# The work of bash when TAB is pressed: the function gets the words, and fills COMPREPLY.
PRESS_TAB = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMP_LINE="${COMP_WORDS[*]}"; COMP_LINE="${COMP_LINE// : /:}"; COMP_LINE="${COMP_LINE/% :/:}"
COMP_POINT=${#COMP_LINE}
spec=$(complete -p "${COMP_WORDS[0]}"); function=${spec##*-F }; function=${function%% *}
"$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


class Bash:
    """A bash that has read the script."""

    def __init__(self, script: Path, cwd: Path, env: Mapping[str, str] = os.environ) -> None:
        self._bash = require_program("bash")
        self._script, self._cwd, self._env = script, cwd, env

    def offers(self, *words: str) -> set[str]:
        """The candidates for the last of the words."""
        done = subprocess.run(
            [self._bash, "--norc", "-c", PRESS_TAB, "bash", self._script, *words],
            cwd=self._cwd,
            env=self._env,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return {line.strip() for line in done.stdout.splitlines() if line.strip()}


@pytest.fixture
def env(cli: CommandLine, tmp_path: Path) -> dict[str, str]:
    """An environment in which `rye` is this program, and a project with a tool."""
    program = program_of(cli, tmp_path)
    for name in ("hello.py", "$(touch injected).py"):
        path = cli.project_space.ai / "tools" / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# the tool\n", "utf-8")
    return cli.env | {"PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb"}


@pytest.fixture
def bash(cli: CommandLine, tmp_path: Path, env: dict[str, str]) -> Bash:
    script = tmp_path / "rye.bash"
    script.write_text(cli("completion", "bash").stdout, "utf-8")
    return Bash(script, cli.project, env)


def test_bash_completes_commands(bash: Bash) -> None:
    first = {entry.words.split()[0] for entry in TABLE}

    assert first | set(ALIASES) <= bash.offers("rye", "")
    assert bash.offers("rye", "ver") == {"verify", "version"}
    assert bash.offers("rye", "keys", "") >= {"generate", "show", "trust"}


def test_bash_completes_flags_and_choices(bash: Bash) -> None:
    assert bash.offers("rye", "sign", "--dr") == {"--dry-run"}
    assert bash.offers("rye", "mcp", "install", "cl") == {"claude-desktop", "claude-code", "cline"}
    assert bash.offers("rye", "sign", "x", "--space", "") >= {"project", "user"}


def test_bash_completes_files(bash: Bash, cli: CommandLine) -> None:
    (cli.project / "tool.py").touch()

    assert "tool.py" in bash.offers("rye", "verify", "tool.")


def test_bash_completes_items(bash: Bash, cli: CommandLine) -> None:
    assert bash.offers("rye", "run", "mine/h") == {"mine/hello"}
    assert bash.offers("rye", "run", "to") >= {"tool:mine/hello", "tool:rye/bash/bash"}
    assert bash.offers("rye", "sign", "") == {"tool:mine/hello"}
    assert not (cli.project / "injected").exists()


def test_bash_completes_the_parameters_of_an_item_that_verifies(
    bash: Bash, cli: CommandLine
) -> None:
    cli("keys", "generate")
    cli("new", "tool", "mine/greet")
    unsigned = bash.offers("rye", "run", "mine/greet", "")
    cli("sign", "tool:mine/greet")

    assert "name=" not in unsigned
    assert bash.offers("rye", "run", "mine/greet", "") == {"name="}
    assert bash.offers("rye", "run", "mine/greet", "name=x", "n") == set()
    assert "command=" in bash.offers("rye", "execute", "tool:rye/bash/bash", "comm")
    assert {"action=status", "action=diff"} <= bash.offers("rye", "run", "rye/code/git", "act")


COLLIDING = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: Has a parameter that is called like an option of ours
config_schema:
  properties:
    name: {type: string}
    nameless: {type: boolean}
    shape: {enum: [round, square]}
    json: {type: boolean}
config: {script: "true"}
"""


@pytest.fixture
def shaped(cli: CommandLine, env: dict[str, str]) -> CommandLine:
    """A signed tool with flags."""
    cli("keys", "generate")
    (cli.project_space.ai / "tools/mine/shaped.yaml").write_text(COLLIDING, "utf-8")
    assert cli("sign", "tool:mine/shaped").status == 0
    return cli


def test_bash_completes_the_flags_of_an_item(bash: Bash, shaped: CommandLine) -> None:
    assert bash.offers("rye", "run", "mine/shaped", "--na") == {"--name", "--nameless"}
    assert bash.offers("rye", "run", "mine/shaped", "--name", "x", "--na") == {"--nameless"}
    assert bash.offers("rye", "run", "mine/shaped", "--shape", "") == {"round", "square"}
    assert {"--shape", "--stdin"} <= bash.offers("rye", "execute", "mine/shaped", "--s")
    assert "--shape" in bash.offers("rye", "dev", "mine/shaped", "--sh")
    # An option of Rye too is offered once, and is the item's behind two dashes.
    assert bash.offers("rye", "run", "mine/shaped", "--js") == {"--json"}


def test_a_flag_that_is_ours_too_is_offered_behind_two_dashes(shaped: CommandLine) -> None:
    def offered(typed: str, *words: str) -> list[str]:
        return shaped("__complete", "parameters", typed, "run", *words, typed).stdout.split()

    assert offered("--j", "mine/shaped") == []
    assert offered("--j", "mine/shaped", "--") == ["--json"]
    assert offered("--shape=", "--timeout", "5", "mine/shaped") == [
        "--shape=round", "--shape=square",
    ]  # fmt: skip
    assert offered("--s", "mine/nowhere") == []


def test_bash_gives_the_part_behind_the_colon_that_ended_a_word(bash: Bash) -> None:
    assert bash.offers("rye", "run", "tool", ":", "mi") == {"mine/hello"}
    assert bash.offers("rye", "run", "tool", ":") >= {"mine/hello", "rye/bash/bash"}
    assert bash.offers("rye", "help", "item", ":", "tool", ":", "mi") == {"mine/hello"}
    assert bash.offers("rye", "verify", "tool", ":", "mine/hello", "--al") == {"--all"}


def test_bash_completes_topics(bash: Bash) -> None:
    assert bash.offers("rye", "help", "exit") == {"exit-status"}


def test_fish_completes_items_flags_and_topics(
    shaped: CommandLine, tmp_path: Path, env: dict[str, str]
) -> None:
    cli = shaped
    fish, script = require_program("fish"), tmp_path / "rye.fish"
    script.write_text(cli("completion", "fish").stdout, "utf-8")

    def offers(line: str) -> set[str]:
        code = "source $argv[1]; complete -C $argv[2]"
        done = subprocess.run(
            [fish, "--no-config", "-c", code, script, line],
            cwd=cli.project,
            env=env,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert offers("rye run tool:mi") == {"tool:mine/hello", "tool:mine/shaped"}
    assert offers("rye help exit") == {"exit-status"}
    assert ".ai/tools/" in offers("rye sign .ai/to")
    assert offers("rye run mine/shaped --na") == {"--name", "--nameless"}
    assert offers("rye run mine/shaped na") == {"name=", "nameless=true", "nameless=false"}
    assert offers("rye run mine/shaped --shape ") == {"round", "square"}


# A line that is typed: TAB, and the output of the completed command.
SHELLS_AT_WORK = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
}


@pytest.mark.heavy
@pytest.mark.parametrize("shell", SHELLS_AT_WORK)
@pytest.mark.parametrize("name", ["rye", "r"])
def test_a_person_at_a_terminal_completes_a_reference(
    shell: str, name: str, cli: CommandLine, tmp_path: Path, env: dict[str, str]
) -> None:
    program, script = require_program(shell), tmp_path / "scripts" / f"_{name}"
    script.parent.mkdir()
    script.write_text(cli("completion", shell, "--bin", name).stdout, "utf-8")
    setup = {
        "bash": f"source {script}",
        "zsh": f"fpath=({script.parent} $fpath); autoload -U compinit; compinit -u -D"
        "; setopt complete_aliases",  # else zsh completes the target of the alias
    }[shell]
    cli("keys", "generate")
    argv = [str(program), *SHELLS_AT_WORK[shell]]

    with Terminal(argv, env, cli.project) as terminal:
        terminal.type(f"alias r='rye -q'; {setup}; echo re''ady\n", until="ready")
        listed = terminal.type(f"{name} verify tool:mi\t; echo do''ne\n", until="done\r\n")
        path = terminal.type(f"{name} verify .ai/tools/mine/hel\t; echo it''s\n", until="its\r\n")

    assert "unsigned" in listed
    assert "tool:mine/hello " in listed
    assert "hello.py" in path
    assert not (cli.project / "injected").exists()


@pytest.mark.heavy
def test_zsh_completes_the_flags_of_an_item(
    shaped: CommandLine, tmp_path: Path, env: dict[str, str]
) -> None:
    zsh, script = require_program("zsh"), tmp_path / "scripts" / "_rye"
    script.parent.mkdir()
    script.write_text(shaped("completion", "zsh").stdout, "utf-8")
    setup = f"fpath=({script.parent} $fpath); autoload -U compinit; compinit -u -D"

    with Terminal([str(zsh), "-f", "-i"], env, shaped.project) as terminal:
        terminal.type(f"{setup}; echo re''ady\n", until="ready")
        flag = terminal.type("rye run mine/shaped --namel\t; echo do''ne\n", until="done\r\n")
        value = terminal.type("rye run mine/shaped --shape sq\t; echo it''s\n", until="its\r\n")

    assert "--nameless " in flag
    assert "--shape square " in value


PATHS = COLLIDING.replace(
    "shape: {enum: [round, square]}",
    "shape: {enum: [round, square]}\n    place: {type: string, format: path}",
)


@pytest.fixture
def placed(cli: CommandLine, env: dict[str, str]) -> CommandLine:
    """A signed tool with a path, and files for it."""
    cli("keys", "generate")
    (cli.project_space.ai / "tools/mine/placed.yaml").write_text(PATHS, "utf-8")
    assert cli("sign", "tool:mine/placed").status == 0
    (cli.project / "inner" / "deep").mkdir(parents=True)
    (cli.project / "inner" / "notes.md").touch()
    (cli.project / "$(touch injected)").touch()
    return cli


def test_files_are_offered_for_a_parameter_that_is_a_path(placed: CommandLine) -> None:
    def offered(typed: str, item: str, cwd: Path | None = None) -> list[str]:
        return placed("__complete", "parameters", typed, "run", item, typed, cwd=cwd).stdout.split()

    inner = placed.project / "inner"
    assert offered("place=", "mine/placed") == ["place=inner/"]
    assert offered("place=inner/n", "mine/placed") == ["place=inner/notes.md"]
    assert offered("place=", "mine/placed", inner) == ["place=deep/", "place=notes.md"]
    assert offered("--place=no", "mine/placed", inner) == ["--place=notes.md"]
    assert offered("place=../in", "mine/placed", inner) == ["place=../inner/"]
    assert offered("place=no/where/", "mine/placed") == []
    # What a tool of the bundle calls a path is one of the project.
    assert offered("path=inner/", "rye/file-system/read", inner) == [
        "path=inner/deep/",
        "path=inner/notes.md",
    ]


AT_WORK = {
    "bash": (["--norc", "--noprofile", "-i"], "source <(rye completion bash)"),
    "zsh": (["-f", "-i"], "source <(rye completion zsh)"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("shell", AT_WORK)
def test_a_script_that_is_sourced_completes_behind_the_id(
    shell: str, placed: CommandLine, env: dict[str, str]
) -> None:
    argv, setup = AT_WORK[shell]

    with Terminal([str(require_program(shell)), *argv], env, placed.project) as terminal:
        terminal.type(f"{setup} 2>/dev/null; echo re''ady\n", until="ready")
        path = terminal.type(
            "rye run mine/placed place=inner/no\t; echo do''ne\n", until="done\r\n"
        )
        enum = terminal.type("rye run mine/placed shape=sq\t; echo it''s\n", until="its\r\n")

    assert "place=inner/notes.md" in path
    assert "shape=square" in enum


def test_fish_completes_paths_and_enums_behind_the_id(
    placed: CommandLine, tmp_path: Path, env: dict[str, str]
) -> None:
    fish, script = require_program("fish"), tmp_path / "rye.fish"
    script.write_text(placed("completion", "fish").stdout, "utf-8")

    def offers(line: str) -> set[str]:
        code = "source $argv[1]; complete -C $argv[2]"
        done = subprocess.run(
            [fish, "--no-config", "-c", code, script, line],
            cwd=placed.project,
            env=env,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert offers("rye run mine/placed place=inner/no") == {"place=inner/notes.md"}
    assert offers("rye run mine/placed shape=sq") == {"shape=square"}


def test_another_name_is_completed_too(cli: CommandLine, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(cli("completion", "bash", "--bin", "my-rye.pyz").stdout, "utf-8")

    assert Bash(script, cli.project).offers("my-rye.pyz", "doct") == {"doctor"}


@pytest.mark.parametrize("name", ["", "a b", "$(touch x)", "-x", "../rye", "r;y", "rye\n"])
def test_a_name_that_is_code_is_refused(name: str, cli: CommandLine) -> None:
    done = cli("completion", "bash", f"--bin={name}")

    assert done.status == 2
    assert done.stdout == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_with_every_command(shell: str, cli: CommandLine) -> None:
    done = cli.json("completion", shell)

    words = {word for entry in TABLE for word in entry.words.split()}
    assert {word for word in words if word not in done["script"]} == set()


@pytest.mark.parametrize(
    ("shell", "check"), [("zsh", ["-n"]), ("fish", ["--no-execute"]), ("tcsh", ["-n"])]
)
def test_a_shell_takes_its_script(
    shell: str, check: list[str], cli: CommandLine, tmp_path: Path
) -> None:
    program = require_program(shell)
    script = tmp_path / "script"
    script.write_text(cli("completion", shell).stdout, "utf-8")

    subprocess.run([program, *check, script], check=True)


def test_the_tree_parses_the_arguments_of_the_commands() -> None:
    parsed = command_tree("rye").parse_args(["lock", "show", "mine/hello", "--json"])

    assert (parsed.command, parsed.action, parsed.json) == ("lock", "show", True)
