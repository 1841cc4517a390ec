"""Arguments of shells that no other user of the machine reads."""

import os
import shutil
from pathlib import Path

import pytest

from lillux.process import ProcessManager
from lillux.process.model import Command
from lillux.process.private_words import with_private_words

pytestmark = pytest.mark.skipif(os.name == "nt", reason="shells of POSIX")
SHOW = 'printf "%s|" "$0" "$#" "$1" "$2"; cat /proc/self/cmdline /proc/$$/cmdline | tr "\\0" " "'
ODD = "a 'b' \"c\" $HOME `d` \\e\nf \u00e9 *"
SHELLS = [one for one in ("bash", "sh", "dash") if shutil.which(one)]


def ran(*argv: str, is_private: bool) -> str:
    env = {"PATH": os.environ["PATH"]}
    command = Command(argv=argv, env=env, has_private_words=is_private)
    outcome = ProcessManager().run(command)
    assert outcome.exit_code == 0, outcome
    return outcome.stdout.data.decode()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks into /proc")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_arguments_of_a_shell_and_its_text_do_not_stand_on_its_command_line(shell: str) -> None:
    plain = ran(shell, "-c", SHOW, "name", "a-secret", ODD, is_private=False)
    private = ran(shell, "-c", SHOW, "name", "a-secret", ODD, is_private=True)

    assert plain.split("|")[:4] == private.split("|")[:4] == ["name", "2", "a-secret", ODD]
    assert "a-secret" in plain.split("|", 4)[4]
    assert "a-secret" not in private.split("|", 4)[4]
    assert "printf" not in private.split("|", 4)[4]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("echo $LINENO; env | grep -c LILLUX_; true", "name"), None),
        (("\necho $LINENO",), None),
        (("# a comment\necho $#", "name", "", ""), "2\n"),
        (('for one in "$@"; do echo "<$one>"; done', "name", "-e", "--", "x y"), None),
        (("cat <<EOF\n$1\nEOF", "name", "here"), "here\n"),
    ],
)
def test_a_script_runs_as_it_did(shell: str, words: tuple[str, ...], expected: str | None) -> None:
    plain = ran(shell, "-c", *words, is_private=False)
    private = ran(shell, "-c", *words, is_private=True)

    assert private == plain
    assert expected in (None, private)


def test_long_arguments_are_passed_on_whole() -> None:
    long = "it's \u00e9 " * 12_000

    private = ran("bash", "-c", 'printf %s "$1"', "name", long, is_private=True)

    assert private == long


@pytest.mark.parametrize(
    "argv", [("python3", "-c", "pass", "x"), ("bash", "script.sh", "x"), ("bash",), ("/bin/true",)]
)
def test_other_programs_are_started_as_they_are(argv: tuple[str, ...]) -> None:
    command = Command(argv=argv, env={})

    assert with_private_words(command) is command
