"""``lillux_native/PROTOCOL.md`` is true for ``lillux-proc``, in both its forms."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.children import Lifeline
from tests.support.endings import wait_until, zombie
from tests.support.program_forms import FORMS, PATIENCE_S, Program, program

ANSWER = {"success", "stdout", "stderr", "return_code", "duration_ms"}
MIB_64 = 64 * 1024 * 1024
# Reads all it gets while it writes the same amount to both outputs, from three threads.
ALL_PIPES = """
import sys, threading
read = []
def write(stream):
    for _ in range(64):
        stream.write(b"x" * 2**20)
    stream.flush()
threads = [threading.Thread(target=write, args=(s.buffer,)) for s in (sys.stdout, sys.stderr)]
threads.append(threading.Thread(target=lambda: read.append(len(sys.stdin.buffer.read()))))
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(read != [64 * 2**20])
"""


@pytest.fixture(params=FORMS)
def proc(request: pytest.FixtureRequest) -> Program:
    return program("lillux-proc", request.param)


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    made = Lifeline(tmp_path)
    yield made
    made.close()


def shell(script: str) -> tuple[str, ...]:
    return ("--cmd", "/bin/sh", "--arg", "-c", "--arg", script)


def is_gone(pid: int) -> bool:
    argv = ["ps", "-o", "stat=", "-p", str(pid)]
    ended = subprocess.run(argv, capture_output=True, check=False, encoding="ascii")
    return ended.stdout.strip()[:1] in {"", "Z"}


# --- both commands and usage ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("dance",),
        ("exec",),
        ("exec", "--cmd"),
        ("exec", "--cmd", "true", "word"),
        ("exec", "--cmd", "true", "--no-such-flag", "x"),
        ("exec", "--cmd", "true", "--timeout", "soon"),
        ("exec", "--cmd", "true", "--timeout", "-1"),
        ("exec", "--cmd", "true", "--max-output", "-1"),
        ("exec", "--cmd", "true", "--stdin", "x", "--stdin-pipe"),
        ("spawn",),
        ("kill",),
        ("kill", "--pid", "x"),
        ("kill", "--pid", "1.5"),
        ("kill", "--pid", "2", "--tree=yes"),
        ("status",),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(proc: Program, arguments: tuple[str, ...]) -> None:
    ended = proc.run(*arguments)

    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"lillux-proc: ")
    assert b"usage: lillux-proc exec" in ended.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("exec", "--help")])
def test_help_is_the_usage(proc: Program, arguments: tuple[str, ...]) -> None:
    ended = proc.run(*arguments)

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"usage: lillux-proc exec")


def test_of_a_flag_given_twice_the_last_counts(proc: Program) -> None:
    assert proc("exec", "--cmd", "false", "--cmd", "true")["success"] is True


# --- exec -----------------------------------------------------------------------------------------


def test_exec_answers_with_exactly_the_keys_of_the_contract(proc: Program) -> None:
    answer = proc("exec", *shell("echo out; echo err >&2"))

    assert set(answer) == ANSWER
    assert isinstance(answer["duration_ms"], float)
    assert (answer["success"], answer["return_code"]) == (True, 0)
    assert (answer["stdout"], answer["stderr"]) == ("out\n", "err\n")


def test_a_failure_of_the_program_is_an_answer(proc: Program) -> None:
    answer = proc("exec", *shell("exit 42"))

    assert (answer["success"], answer["return_code"]) == (False, 42)


def test_arguments_may_begin_with_dashes(proc: Program) -> None:
    code = "import sys; print(sys.argv[1:])"
    answer = proc(
        "exec", "--cmd", sys.executable, "--arg=-c", "--arg", code, "--arg", "--arg", "--arg=-n=1"
    )

    assert answer["stdout"] == "['--arg', '-n=1']\n"


def test_the_environment_is_inherited_and_added_to(proc: Program) -> None:
    script = 'echo "$KEPT:$ADDED:$EQUALS"'
    added = ("--env", "ADDED=b", "--env", "EQUALS=c=d", "--env", "NOTHING", "--env", "=x")

    assert proc("exec", *shell(script), *added, env={"KEPT": "a"})["stdout"] == "a:b:c=d\n"


def test_the_working_directory_can_be_chosen(proc: Program, tmp_path: Path) -> None:
    assert proc("exec", *shell("pwd -P"), "--cwd", str(tmp_path))["stdout"] == (
        f"{tmp_path.resolve()}\n"
    )


def test_a_path_is_relative_to_the_working_directory(proc: Program, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("#!/bin/sh\necho found\n", "utf-8")
    (tmp_path / "here").chmod(0o755)

    assert proc("exec", "--cmd", "./here", "--cwd", str(tmp_path))["stdout"] == "found\n"


def test_a_name_is_looked_up_on_the_path_of_the_child(proc: Program, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\necho mine\n", "utf-8")
    (tmp_path / "mine").chmod(0o755)

    assert proc("exec", "--cmd", "mine", "--env", f"PATH={tmp_path}")["stdout"] == "mine\n"


def test_relative_folders_of_the_path_are_passed_over(proc: Program, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\necho mine\n", "utf-8")
    (tmp_path / "mine").chmod(0o755)

    answer = proc("exec", "--cmd", "mine", "--env", "PATH=.:", "--cwd", str(tmp_path))

    assert answer["stderr"].startswith("Failed to spawn: ")


@pytest.mark.parametrize("text", ["", "-", "--stdin", "ä\nb"])
def test_standard_input_is_the_given_text(proc: Program, text: str) -> None:
    assert proc("exec", *shell("cat"), "--stdin", text)["stdout"] == text


def test_standard_input_can_be_passed_through(proc: Program) -> None:
    assert proc("exec", *shell("cat"), "--stdin-pipe", stdin=b"piped")["stdout"] == "piped"


def test_without_input_the_null_device_is_read(proc: Program) -> None:
    assert proc("exec", *shell("wc -c"), stdin=b"not for the child")["stdout"].strip() == "0"


def test_bytes_that_are_no_utf_8_are_replaced(proc: Program) -> None:
    assert proc("exec", *shell(r"printf 'a\377b\303'"))["stdout"] == "a\ufffdb\ufffd"


@pytest.mark.parametrize("missing", ["no-such-program", "./no-such-program", "/etc", ""])
def test_a_program_that_cannot_be_started_is_an_answer(proc: Program, missing: str) -> None:
    answer = proc("exec", f"--cmd={missing}")

    assert set(answer) == ANSWER
    assert (answer["success"], answer["return_code"], answer["stdout"]) == (False, -1, "")
    assert answer["stderr"].startswith("Failed to spawn: ")


def test_a_missing_working_directory_is_an_answer(proc: Program, tmp_path: Path) -> None:
    answer = proc("exec", "--cmd", "true", "--cwd", str(tmp_path / "none"))

    assert answer["stderr"].startswith("Failed to spawn: cwd: expected an existing directory")


def test_death_by_a_signal_is_reported(proc: Program) -> None:
    answer = proc("exec", *shell("kill -KILL $$"))

    assert set(answer) == {*ANSWER, "signal"}
    assert (answer["return_code"], answer["signal"]) == (-1, signal.SIGKILL)


def test_a_timeout_is_reported_with_the_output_so_far(proc: Program) -> None:
    answer = proc("exec", *shell("echo out; echo err >&2; exec sleep 60"), "--timeout", "0.5")

    assert set(answer) == ANSWER
    assert (answer["success"], answer["return_code"]) == (False, -1)
    assert answer["stdout"] == "out\n"
    assert answer["stderr"] == "Command timed out after 0.5 seconds\nerr\n"


def test_a_timeout_of_0_is_no_limit(proc: Program) -> None:
    # No test can wait for 300 s: but a limit of 0 s would end the program before `sleep` ends.
    answer = proc("exec", *shell("sleep 0.3; echo done"), "--timeout", "0")

    assert (answer["success"], answer["stdout"]) == (True, "done\n")


def test_a_timeout_of_a_silent_program_is_one_line(proc: Program) -> None:
    answer = proc("exec", *shell("exec sleep 60"), "--timeout", "0.250")

    assert answer["stderr"] == "Command timed out after 0.25 seconds"


def test_a_program_that_ends_well_after_sigterm_has_still_timed_out(proc: Program) -> None:
    answer = proc("exec", *shell("trap 'exit 0' TERM; sleep 60 & wait"), "--timeout", "0.5")

    assert (answer["success"], answer["return_code"]) == (False, -1)


@pytest.mark.heavy
def test_a_whole_group_ends_with_a_timeout(proc: Program, lifeline: Lifeline) -> None:
    script = f"{lifeline.hold}; (trap '' TERM; while :; do sleep 60; done) & sleep 60"

    proc("exec", *shell(script), "--timeout", "0.5")

    assert lifeline.is_released()


def test_a_program_that_writes_without_end_is_ended_in_time(proc: Program) -> None:
    answer = proc("exec", "--cmd", "yes", "--timeout", "0.5", "--max-output", "4")

    assert answer["stdout"].startswith("y\n\n... [")
    assert answer["truncated"] is True


def test_an_orphan_process_of_a_program_that_ended_is_killed(
    proc: Program, lifeline: Lifeline
) -> None:
    answer = proc("exec", *shell(f"{lifeline.hold}; sleep 60 & exit 0"))

    assert answer["success"] is True
    assert lifeline.is_released()


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no setsid program")
@pytest.mark.parametrize("timeout", ["0.5", "30"])
def test_a_grandchild_that_keeps_the_pipes_is_not_waited_for(
    proc: Program, tmp_path: Path, timeout: str
) -> None:
    pid_file = tmp_path / "pid"
    stray = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 300' & "
    wait = f"until [ -s {pid_file} ]; do :; done; "
    script = stray + wait + ("exec sleep 60" if timeout == "0.5" else "echo done")

    answer = proc("exec", *shell(script), "--timeout", timeout)

    os.kill(int(pid_file.read_text("utf-8")), signal.SIGKILL)
    assert answer["duration_ms"] < 20_000
    assert answer["stdout"] == ("" if timeout == "0.5" else "done\n")


@pytest.mark.heavy
def test_64_mib_go_through_all_three_pipes_at_once(proc: Program) -> None:
    program = ("--cmd", sys.executable, "--arg=-I", "--arg=-c", "--arg", ALL_PIPES)
    kept = ("--max-output", str(MIB_64), "--timeout", "50")

    answer = proc("exec", *program, *kept, "--stdin-pipe", stdin=b"i" * MIB_64)

    assert set(answer) == ANSWER
    assert answer["return_code"] == 0
    assert len(answer["stdout"]) == len(answer["stderr"]) == MIB_64


def test_both_ends_of_too_much_output_are_kept(proc: Program) -> None:
    answer = proc("exec", *shell("printf 0123456789"), "--max-output", "4")

    assert set(answer) == {*ANSWER, "truncated"}
    assert answer["stdout"] == "01\n... [6 bytes left out] ...\n89"
    assert answer["truncated"] is True


def test_no_more_than_10_mib_are_kept_unless_requested(proc: Program) -> None:
    answer = proc("exec", *shell("head -c 12000000 /dev/zero | tr '\\0' x"))

    assert answer["truncated"] is True
    assert answer["stdout"].count("x") == 10 * 1024 * 1024


def test_the_child_inherits_no_open_file(proc: Program, lifeline: Lifeline) -> None:
    writer = os.open(lifeline.path, os.O_WRONLY)
    os.write(writer, b"held")
    argv = [*proc.argv, "spawn", "--cmd", "sleep", "--arg", "60"]

    ended = subprocess.run(argv, pass_fds=[writer], stdout=subprocess.PIPE, check=True)
    os.close(writer)

    assert lifeline.is_released()
    proc("kill", "--pid", ended.stdout.decode("ascii").partition('"pid":')[2].rstrip("}\n"))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("first", ["", "trap '' TERM; "], ids=["gentle", "stubborn"])
def test_a_signal_ends_the_child_and_then_the_program_without_an_answer(
    proc: Program, tmp_path: Path, lifeline: Lifeline, name: str, first: str
) -> None:
    written = tmp_path / "pid"
    script = f"{first}{lifeline.hold}; sleep 275 & echo $$ > {shlex.quote(str(written))}; wait"
    with proc.start("exec", *shell(script)) as running:
        wait_until(lambda: written.exists() and written.read_text("ascii").endswith("\n"))
        running.send_signal(signal.Signals[name])
        stdout, _ = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, stdout) == (-signal.Signals[name], b"")
    assert lifeline.is_released()
    assert is_gone(int(written.read_text("ascii")))


def test_a_signal_during_the_grace_of_a_timeout_shortens_it(
    proc: Program, tmp_path: Path, lifeline: Lifeline
) -> None:
    signalled = tmp_path / "signalled"
    trap = f"trap 'touch {shlex.quote(str(signalled))}' TERM"
    script = f"{trap}; {lifeline.hold}; while :; do sleep 275; done"
    with proc.start("exec", *shell(script), "--timeout", "0.5") as running:
        wait_until(signalled.exists)
        running.send_signal(signal.SIGTERM)
        stdout, _ = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, stdout) == (-signal.SIGTERM, b"")
    assert lifeline.is_released()


def test_a_signal_that_was_ignored_at_the_start_stays_ignored(
    proc: Program, tmp_path: Path
) -> None:
    fifo, started = tmp_path / "fifo", tmp_path / "started"
    os.mkfifo(fifo)
    script = f"touch {shlex.quote(str(started))}; cat {shlex.quote(str(fifo))}"
    nohup = ("/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    with Program((*nohup, *proc.argv)).start("exec", *shell(script)) as running:
        wait_until(started.exists)
        running.send_signal(signal.SIGHUP)
        fifo.write_text("still here", "ascii")
        stdout, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0
    assert json.loads(stdout)["stdout"] == "still here"


# --- spawn ----------------------------------------------------------------------------------------


def test_a_spawned_program_goes_on_in_a_session_of_its_own(proc: Program, tmp_path: Path) -> None:
    written = tmp_path / "written"
    code = f"import os; open({str(written)!r}, 'w').write(str(os.getsid(0) == os.getpid()))"

    answer = proc("spawn", "--cmd", sys.executable, "--arg=-c", "--arg", code)

    assert set(answer) == {"success", "pid"}
    wait_until(lambda: written.exists() and written.read_text("utf-8") == "True")


def test_its_outputs_are_appended_to_a_log_for_its_user_alone(
    proc: Program, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch(0o600)
    for word in ("one", "two"):
        proc("spawn", *shell(f"echo {word}; echo {word} >&2"), "--log", str(log))
        wait_until(lambda word=word: log.read_text("utf-8").count(word) == 2)  # type: ignore[misc]

    assert log.read_text("utf-8") == "one\none\ntwo\ntwo\n"


def test_a_log_is_made_for_its_user_alone(proc: Program, tmp_path: Path) -> None:
    proc("spawn", "--cmd", "true", "--log", str(tmp_path / "log"))

    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_it_reads_input_of_any_length(proc: Program, tmp_path: Path) -> None:
    log = tmp_path / "log"

    proc("spawn", *shell("wc -c"), "--stdin-pipe", "--log", str(log), stdin=b"x" * 1_000_000)

    wait_until(lambda: log.read_text("utf-8").strip() == "1000000")


def test_it_has_the_working_directory_and_the_environment(proc: Program, tmp_path: Path) -> None:
    script = 'echo "$NAME" > written.new; mv written.new written'

    proc("spawn", *shell(script), "--cwd", str(tmp_path), "--env", "NAME=value")

    wait_until((tmp_path / "written").exists)
    assert (tmp_path / "written").read_text("utf-8") == "value\n"


def test_a_program_that_cannot_be_spawned_is_an_answer(proc: Program, tmp_path: Path) -> None:
    missing = proc("spawn", "--cmd", "no-such-program")
    log = proc("spawn", "--cmd", "true", "--log", str(tmp_path / "none" / "log"))

    assert set(missing) == set(log) == {"success", "error"}
    assert missing["success"] is log["success"] is False
    assert missing["error"].startswith("Failed to spawn: ")
    assert log["error"].startswith("Failed to open log file: ")


# --- status and kill ------------------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def test_status_answers_with_exactly_the_keys_of_the_contract(proc: Program) -> None:
    assert proc("status", "--pid", str(os.getpid())) == {"pid": os.getpid(), "alive": True}


@pytest.mark.parametrize("pid", [-1, 0, 2**31, 2**40])
def test_a_number_that_names_no_process_is_not_alive(proc: Program, pid: int) -> None:
    assert proc("status", "--pid", str(pid)) == {"pid": pid, "alive": False}


def test_a_zombie_is_not_alive(proc: Program) -> None:
    with zombie() as pid:
        assert proc("status", "--pid", str(pid)) == {"pid": pid, "alive": False}
        assert proc("kill", "--pid", str(pid))["method"] == "already_dead"


def test_a_process_of_another_user_is_alive(proc: Program) -> None:
    assert proc("status", "--pid", "1")["alive"] is True


def test_a_start_token_names_the_process_for_good(
    proc: Program, sleeper: "subprocess.Popen[bytes]"
) -> None:
    pid = str(sleeper.pid)
    token = proc("status", "--pid", pid, "--show-start-token")["start_token"]

    assert proc("status", "--pid", pid, "--start-token", token)["alive"] is True
    assert proc("status", "--pid", pid, "--start-token", f"{token}0")["alive"] is False
    assert proc("kill", "--pid", pid, "--start-token", f"{token}0")["method"] == "already_dead"
    assert sleeper.poll() is None
    assert proc("kill", "--pid", pid, "--start-token", token)["method"] == "terminated"


def test_spawn_reports_the_same_token_as_status(proc: Program) -> None:
    started = proc("spawn", "--cmd", "sleep", "--arg", "60", "--show-start-token")
    pid = str(started["pid"])

    assert set(started) == {"success", "pid", "start_token"}
    assert proc("status", "--pid", pid, "--show-start-token") == {
        "pid": started["pid"],
        "alive": True,
        "start_token": started["start_token"],
    }
    proc("kill", "--pid", pid)


def test_a_process_that_is_gone_has_no_token(proc: Program) -> None:
    with subprocess.Popen(["true"]) as process:
        pass

    answer = proc("status", "--pid", str(process.pid), "--show-start-token")

    assert answer == {"pid": process.pid, "alive": False, "start_token": ""}
    assert proc("kill", "--pid", str(process.pid)) == {
        "success": True,
        "pid": process.pid,
        "method": "already_dead",
    }


def test_a_process_that_listens_is_terminated(
    proc: Program, sleeper: "subprocess.Popen[bytes]"
) -> None:
    answer = proc("kill", "--pid", str(sleeper.pid))

    assert answer == {"success": True, "pid": sleeper.pid, "method": "terminated"}
    assert sleeper.wait(20) == -signal.SIGTERM


@pytest.mark.parametrize("grace", ["0", "0.2"])
def test_a_process_that_does_not_listen_is_killed(
    proc: Program, tmp_path: Path, grace: str
) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; : > {shlex.quote(str(ready))}; while :; do sleep 60; done"
    pid = proc("spawn", *shell(script))["pid"]
    wait_until(ready.exists)

    answer = proc("kill", "--pid", str(pid), "--grace", grace, "--tree")

    assert answer == {"success": True, "pid": pid, "method": "killed"}
    assert is_gone(pid)


def test_a_tree_is_ended_with_its_whole_group(
    proc: Program, tmp_path: Path, lifeline: Lifeline
) -> None:
    ready = tmp_path / "ready"
    script = f"{lifeline.hold}; (trap '' TERM; : > {ready}; while :; do sleep 60; done) & sleep 60"
    pid = proc("spawn", *shell(script))["pid"]
    wait_until(ready.exists)

    assert proc("kill", "--pid", str(pid), "--grace", "0.3", "--tree")["method"] == "killed"
    assert lifeline.is_released()


@pytest.mark.parametrize("pid", [-5, 0, 1])
def test_process_numbers_below_2_are_refused(proc: Program, pid: int) -> None:
    answer = proc("kill", f"--pid={pid}", "--grace", "0")

    assert answer == {
        "success": False,
        "pid": pid,
        "error": f"pid: expected a process above 1, got {pid}",
    }


def test_its_own_process_group_is_refused(proc: Program) -> None:
    keep_group = 'sh=$$; "$@" kill --pid $sh --tree; exit 0'

    ended = subprocess.run(
        ["/bin/sh", "-c", keep_group, "sh", *proc.argv],
        capture_output=True,
        check=True,
        start_new_session=True,
    )

    assert b"expected another group than this process's" in ended.stdout
