import subprocess
from pathlib import Path

import pytest

from ryeos.cli.commands import ALIASES, TABLE
from ryeos.cli.completion import SHELLS, command_tree
from tests.support.command_line import CommandLine
from tests.support.programs import require_program

# What bash does when TAB is pressed: the function gets the words, and fills COMPREPLY.
PRESS_TAB = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
spec=$(complete -p "${COMP_WORDS[0]}"); function=${spec##*-F }; function=${function%% *}
"$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


class Bash:
    """A bash that has read the script."""

    def __init__(self, script: Path, cwd: Path) -> None:
        self._bash = require_program("bash")
        self._script, self._cwd = script, cwd

    def offers(self, *words: str) -> set[str]:
        """What it offers for the last of the words."""
        done = subprocess.run(
            [self._bash, "--norc", "-c", PRESS_TAB, "bash", self._script, *words],
            cwd=self._cwd,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return {line.strip() for line in done.stdout.splitlines() if line.strip()}


@pytest.fixture
def bash(cli: CommandLine, tmp_path: Path) -> Bash:
    script = tmp_path / "rye.bash"
    script.write_text(cli("completion", "bash").stdout, "utf-8")
    return Bash(script, cli.project)


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

    assert "tool.py" in bash.offers("rye", "verify", "too")


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


def test_the_tree_parses_what_the_commands_take() -> None:
    parsed = command_tree("rye").parse_args(["lock", "show", "mine/hello", "--json"])

    assert (parsed.command, parsed.action, parsed.json) == ("lock", "show", True)
