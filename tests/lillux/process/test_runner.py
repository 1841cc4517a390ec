"""Input, environment and output of a command."""

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lillux.process import ProcessManager
from lillux.process.model import MIB, Command, SpawnError
from lillux.process.pipes import LaterInput, OpenPump
from lillux.process.pumps import SelectorPump
from tests.support.children import python, shell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="children here are shell scripts")

ECHO_TO_BOTH = """
import sys
while chunk := sys.stdin.buffer.read(65536):
    sys.stdout.buffer.write(chunk)
    sys.stderr.buffer.write(chunk)
"""


@pytest.fixture
def manager(open_pump: OpenPump) -> ProcessManager:
    return ProcessManager(open_pump=open_pump, drain_s=20.0)


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_64_mib_pass_all_three_pipes_at_once(manager: ProcessManager) -> None:
    stdin = os.urandom(MIB) * 64

    outcome = manager.run(python(ECHO_TO_BOTH, stdin=stdin))

    assert outcome.exit_code == 0
    for captured in (outcome.stdout, outcome.stderr):
        assert captured.total_bytes == len(stdin)
        assert captured.data.startswith(stdin[: 5 * MIB] + b"\n... [56623104 bytes left out] ...\n")
        assert captured.data.endswith(stdin[-5 * MIB :])


def test_output_up_to_the_limit_comes_back_byte_for_byte(manager: ProcessManager) -> None:
    stdin = os.urandom(3 * MIB)

    outcome = manager.run(python(ECHO_TO_BOTH, stdin=stdin))

    assert outcome.stdout.data == stdin
    assert outcome.stderr.data == stdin
    assert not outcome.stdout.truncated


def test_a_child_that_floods_before_it_reads_does_not_deadlock(manager: ProcessManager) -> None:
    code = "import sys; print('x' * 8_000_000, flush=True); print(len(sys.stdin.read()))"

    outcome = manager.run(python(code, stdin=b"y" * 8_000_000))

    assert outcome.stdout.data.endswith(b"x\n8000000\n")


def test_a_child_may_leave_its_input_unread(manager: ProcessManager) -> None:
    outcome = manager.run(shell("echo done", stdin=b"y" * 8_000_000))

    assert (outcome.exit_code, outcome.stdout.data) == (0, b"done\n")


def test_a_child_may_close_its_input_and_live_on(manager: ProcessManager) -> None:
    script = "exec 0<&-; echo one; exec 1>&2; echo two"

    outcome = manager.run(shell(script, stdin=b"y" * 8_000_000))

    assert (outcome.stdout.data, outcome.stderr.data) == (b"one\n", b"two\n")


def test_a_child_may_close_its_output_and_live_on(manager: ProcessManager) -> None:
    outcome = manager.run(shell("exec 1>&- 2>&-; cat >/dev/null; exit 7", stdin=b"y" * 8_000_000))

    assert outcome.exit_code == 7


def test_without_input_a_command_gets_an_empty_one_and_not_ours(manager: ProcessManager) -> None:
    outcome = manager.run(shell("cat; echo end"))

    assert outcome.stdout.data == b"end\n"


@pytest.mark.parametrize("size", [1, 8_000_000])
def test_the_rest_of_an_input_is_read_when_it_is_given(manager: ProcessManager, size: int) -> None:
    rest = LaterInput()
    heard = bytearray()

    def hear(chunk: bytes) -> None:
        heard.extend(chunk)
        if heard == b"first\n":
            rest.give(b"y" * size)
            rest.give(b"and never this")

    code = (
        "import sys; print(sys.stdin.readline(), end='', file=sys.stderr, flush=True);"
        "print(len(sys.stdin.read()))"
    )
    outcome = manager.run(python(code, stdin=b"first\n", stdin_rest=rest), on_stderr=hear)

    assert outcome.stdout.data == f"{size}\n".encode()


def test_the_rest_of_an_input_may_be_given_before_the_start(manager: ProcessManager) -> None:
    rest = LaterInput()
    rest.give(b"rest\n")

    outcome = manager.run(shell("cat", stdin=b"first ", stdin_rest=rest))

    assert outcome.stdout.data == b"first rest\n"


def test_a_child_may_end_before_the_rest_of_its_input_is_given(open_pump: OpenPump) -> None:
    command = shell("read word; echo $word", stdin=b"first\n", stdin_rest=LaterInput())

    outcome = ProcessManager(open_pump=open_pump).run(command)

    assert (outcome.exit_code, outcome.stdout.data) == (0, b"first\n")


def test_the_exit_code_comes_back(manager: ProcessManager) -> None:
    outcome = manager.run(shell("exit 42"))

    assert (outcome.exit_code, outcome.signal) == (42, None)
    assert not outcome.timed_out
    assert not outcome.cancelled
    assert outcome.duration_ms > 0


def test_death_by_a_signal_comes_back_as_its_number(manager: ProcessManager) -> None:
    outcome = manager.run(shell("echo last words; kill -9 $$"))

    assert (outcome.exit_code, outcome.signal) == (None, 9)
    assert outcome.stdout.data == b"last words\n"


def test_bytes_that_are_no_text_come_back_as_they_are(manager: ProcessManager) -> None:
    outcome = manager.run(shell(r"printf '\377\376\000'"))

    assert outcome.stdout.data == b"\xff\xfe\x00"


def test_the_environment_is_exactly_the_one_given(manager: ProcessManager) -> None:
    env = {"ONE": "1", "QUOTED": "a 'b' \"c\" $HOME\n", "ÜMLAUT": "käse"}

    outcome = manager.run(Command(argv=(str(shutil.which("env")), "-0"), env=env))

    entries = outcome.stdout.data.decode().split("\0")[:-1]
    assert dict(entry.split("=", 1) for entry in entries) == env


def test_arguments_arrive_as_they_are(manager: ProcessManager) -> None:
    arguments = ["", "a b", "'\"", "$HOME `id` \\", "*", "new\nline", "ünï", "-x"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"

    outcome = manager.run(python(code, *arguments))

    assert json.loads(outcome.stdout.data) == arguments


def test_it_runs_in_a_directory_with_spaces_and_letters_of_any_kind(
    manager: ProcessManager, tmp_path: Path
) -> None:
    cwd = tmp_path / "two words ünï 工具 'quoted'"
    cwd.mkdir()

    outcome = manager.run(shell("pwd -P", cwd=cwd))

    assert outcome.stdout.data.decode() == f"{cwd.resolve()}\n"


def test_the_child_leads_its_own_session(manager: ProcessManager) -> None:
    code = "import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))"

    outcome = manager.run(python(code))

    assert outcome.stdout.data == b"True\n"


def test_the_child_inherits_no_file_of_ours(manager: ProcessManager, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w", encoding="utf-8") as secret:
        os.set_inheritable(secret.fileno(), True)  # noqa: FBT003

        outcome = manager.run(python(f"import os; os.fstat({secret.fileno()})"))

    assert b"Bad file descriptor" in outcome.stderr.data


def test_standard_error_is_reported_while_the_child_still_runs(
    manager: ProcessManager, tmp_path: Path
) -> None:
    fifo = tmp_path / "answer"
    os.mkfifo(fifo)

    def answer(chunk: bytes) -> None:
        fifo.write_bytes(b"heard " + chunk)

    outcome = manager.run(shell("echo question >&2; cat answer", cwd=tmp_path), on_stderr=answer)

    assert outcome.stdout.data == b"heard question\n"


def test_fifty_commands_run_side_by_side(manager: ProcessManager) -> None:
    before = open_files()

    with ThreadPoolExecutor(50) as pool:
        commands = [shell(f"cat; exit {number}", stdin=b"%d" % number) for number in range(50)]
        outcomes = list(pool.map(manager.run, commands))

    assert [outcome.exit_code for outcome in outcomes] == list(range(50))
    assert [outcome.stdout.data for outcome in outcomes] == [b"%d" % number for number in range(50)]
    assert open_files() <= before


def test_no_file_and_no_zombie_stay(manager: ProcessManager) -> None:
    manager.run(shell("true"))
    before = open_files()

    outcomes = [manager.run(shell("echo $$", stdin=b"x" * 100_000)) for _ in range(20)]

    assert open_files() <= before
    for outcome in outcomes:
        with pytest.raises(ProcessLookupError):
            os.kill(int(outcome.stdout.data), 0)


def test_a_child_that_cannot_be_watched_is_killed_and_reported() -> None:
    def open_exit_fd(pid: int) -> int:
        raise OSError(24, f"Too many open files for {pid}")

    def open_pump(*arguments: object) -> SelectorPump:
        return SelectorPump(*arguments, open_exit_fd=open_exit_fd)  # type: ignore[arg-type]

    before = open_files()

    with pytest.raises(SpawnError) as error:
        ProcessManager(open_pump=open_pump).run(shell("sleep 1000"))

    assert error.value.reason.startswith("[errno 24] too many open files for ")
    assert open_files() <= before
    with pytest.raises(ProcessLookupError):
        os.kill(int(error.value.reason.split()[-1]), 0)
