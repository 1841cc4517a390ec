"""``rye.pyz run --async`` and ``rye.pyz threads``: runs that outlive the command."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.background_runs import Holding, holding
from tests.support.built import Machine
from tests.support.environments import SharedFile, mounted, without_room

__all__ = ["holding"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
]

BASH = ("run", "rye/bash/bash")


@pytest.fixture
def project(machine: Machine) -> Path:
    """The folder of the threads of a project."""
    (machine.project / ".ai").mkdir()
    return machine.project / ".ai" / "state" / "threads"


def start(machine: Machine, command: str, **environ: str) -> str:
    """The id that a shell command was started as."""
    env = machine.environ(**environ)
    return machine.ask(*BASH, f"command={command}", "--async", "-q", environ=env).strip()


def threads_command(machine: Machine, *arguments: str) -> tuple[int, Any]:
    """The status and the envelope of a command on threads."""
    ended = machine.run("threads", *arguments, "--json")
    assert ended.stderr == ""
    return ended.returncode, json.loads(ended.stdout)


def test_a_run_continues_without_the_command_and_ends_with_its_result(
    project: Path, machine: Machine
) -> None:
    answer = json.loads(machine.ask(*BASH, "command=echo hi; echo err >&2", "--async", "--json"))

    thread_id, pid = answer["thread_id"], answer["pid"]
    assert answer.pop("metadata").keys() == {"duration_ms"}
    assert answer == {
        "status": "success",
        "async": True,
        "thread_id": thread_id,
        "type": "tool",
        "item_id": "rye/bash/bash",
        "execution_mode": "inline",
        "state": "running",
        "pid": pid,
        "time_limit": "none",
    }
    status, waited = threads_command(machine, "wait", thread_id)
    assert (status, waited["status"]) == (0, "success")
    assert waited["threads"][0]["result"]["data"]["stdout"] == "hi\n"
    assert sorted(machine.ask("threads", "logs", thread_id[-4:]).splitlines()) == ["err", "hi"]
    shown = machine.ask("threads", "show", thread_id)
    assert "status:        completed\n" in shown
    assert machine.ask("threads", "list").startswith("completed  ")
    assert machine.ask("threads", "list", "--active", "-q") == ""


def test_the_next_commands_are_printed(project: Path, machine: Machine) -> None:
    ended = machine.run(*BASH, "command=true", "--async")

    thread_id = ended.stdout.strip()
    assert ended.stderr == (
        "running in the background; next:\n"
        f"  rye threads wait {thread_id}\n"
        f"  rye threads logs {thread_id} --follow\n"
        f"  rye threads kill {thread_id}\n"
    )


def test_a_tool_that_fails_is_a_wait_that_fails(project: Path, machine: Machine) -> None:
    thread_id = start(machine, "echo no >&2; exit 3")

    ended = machine.run("threads", "wait", thread_id)

    assert (ended.returncode, ended.stdout) == (1, f"error      {thread_id}\n")
    assert ended.stderr == f"error: {thread_id}: no\n"


def test_a_killed_run_leaves_no_process(project: Path, machine: Machine, holding: Holding) -> None:
    thread_id = start(machine, holding.script)
    holding.await_ready()

    status, killed = threads_command(machine, "kill", thread_id, "--grace", "20")

    holding.await_end()
    assert (status, killed["killed"], killed["thread"]["status"]) == (0, True, "killed")
    assert threads_command(machine, "kill", thread_id)[1]["killed"] is False
    assert machine.run("threads", "wait", thread_id).returncode == 1
    assert "begun\n" in machine.ask("threads", "logs", thread_id)


def test_a_runner_that_is_killed_is_reported_as_failed_at_once(
    project: Path, machine: Machine, holding: Holding
) -> None:
    thread_id = start(machine, holding.script)
    holding.await_ready()
    waiting = subprocess.Popen(
        [*machine.rye, "threads", "wait", thread_id],
        env=machine.environ(),
        cwd=machine.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    pid = json.loads((project / thread_id / "runner.json").read_text("utf-8"))["pid"]

    os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    stdout, stderr = waiting.communicate()

    assert time.monotonic() - killed_at < 10  # half a second, on a machine with nothing else to do
    assert (waiting.returncode, stdout) == (1, f"error      {thread_id}\n")
    assert stderr == f"error: {thread_id}: the runner ended without a result\n"
    machine.run("threads", "kill", thread_id)
    holding.await_end()


def test_waiting_ends_with_the_time_and_the_run_goes_on(
    project: Path, machine: Machine, holding: Holding
) -> None:
    thread_id = start(machine, holding.script)

    ended = machine.run("threads", "wait", thread_id, "--timeout", "0.1")

    assert (ended.returncode, ended.stdout) == (124, f"running    {thread_id}\n")
    assert ended.stderr == f"error: still running after 0.1 s: {thread_id}\n"
    holding.await_ready()
    assert machine.run("threads", "kill", thread_id).returncode == 0


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_waiting_and_not_the_run(
    name: str, project: Path, machine: Machine, holding: Holding
) -> None:
    thread_id = start(machine, holding.script)
    holding.await_ready()
    # New text in the log while it is followed shows that the command is at work.
    waiting = subprocess.Popen(
        [*machine.rye, "threads", "logs", thread_id, "--follow"],
        env=machine.environ(),
        cwd=machine.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == b"begun\n"

    waiting.send_signal(getattr(signal, name))
    waiting.communicate()

    assert waiting.returncode == 130
    assert threads_command(machine, "list", "--active")[1]["threads"][0]["status"] == "running"
    assert machine.run("threads", "kill", thread_id).returncode == 0
    holding.await_end()


@pytest.mark.heavy
def test_eight_runs_at_once_in_a_new_project(project: Path, machine: Machine) -> None:
    command = [*machine.rye, *BASH, "command=echo $RYE_PARENT_THREAD_ID", "--async", "-q"]
    starting = [
        subprocess.Popen(
            command,
            env=machine.environ(),
            cwd=machine.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for _ in range(8)
    ]
    said = [process.communicate() for process in starting]

    assert [stderr for _, stderr in said] == [""] * 8
    ids = [stdout.strip() for stdout, _ in said]
    status, waited = threads_command(machine, "wait", *ids)
    assert (status, len(set(ids))) == (0, 8)
    reported = [one["result"]["data"]["stdout"].strip() for one in waited["threads"]]
    assert reported == ids


# --- refused at once ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "mine/none"),
        ("run", "tool:rye/bash/bash"),
        ("run", "tool:rye/bash/bash", "command:=3"),
        ("run", "tool:rye/bash/bash", "command=true", "--timeout", "-1"),
        ("run", "tool:mine/unsigned"),
    ],
)
def test_a_refused_run_is_refused_at_once_and_in_the_same_words(
    arguments: tuple[str, ...], project: Path, machine: Machine
) -> None:
    tools = machine.project / ".ai" / "tools" / "mine"
    tools.mkdir(parents=True)
    (tools / "unsigned.sh").write_text("# tool_type: bash\necho\n", "utf-8")

    here, there = machine.run(*arguments), machine.run(*arguments, "--async")

    assert here.returncode > 1
    assert (there.returncode, there.stdout, there.stderr) == (
        here.returncode,
        here.stdout,
        here.stderr,
    )
    assert not project.exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((*BASH, "command=true", "--dry-run"), "--async, --dry-run: expected one of them"),
        ((*BASH, "command=true", "--target", "far"), "--target: expected local or remote[:NAME]"),
    ],
)
def test_contradicting_options_are_refused(
    arguments: tuple[str, ...], problem: str, machine: Machine
) -> None:
    ended = machine.run(*arguments, "--async")

    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: {problem}")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("show", "nothing"), 3),
        (("logs", "../x"), 2),
        (("wait", "x", "--timeout", "nan"), 2),
        (("list", "--limit", "0"), 2),
        (("list", "--all", "--active"), 2),
    ],
)
def test_a_mistake_is_reported(
    arguments: tuple[str, ...], status: int, project: Path, machine: Machine
) -> None:
    assert machine.run("threads", *arguments).returncode == status
    assert not project.exists()


# --- environment ----------------------------------------------------------------------------------


def test_outside_of_projects_threads_are_kept_in_user_space(machine: Machine) -> None:
    thread_id = start(machine, "pwd")

    assert threads_command(machine, "wait", thread_id)[0] == 0
    assert machine.ask("threads", "logs", thread_id) == f"{machine.project}\n"
    assert (machine.home / ".ai" / "state" / "threads" / thread_id).is_dir()
    assert not (machine.project / ".ai").exists()


def test_a_run_has_the_settings_of_its_command(project: Path, machine: Machine) -> None:
    tools = machine.project / ".ai" / "tools" / "mine"
    tools.mkdir(parents=True)
    (tools / "unsigned.sh").write_text('# tool_type: bash\necho "$1 $KEPT"\n', "utf-8")
    environ = machine.environ(RYE_DEV_MODE="1", KEPT="yes")
    run = ("run", "mine/unsigned", "n:=1", "--async", "-q")

    thread_id = machine.run(*run, environ=environ).stdout.strip()

    assert threads_command(machine, "wait", thread_id)[0] == 0
    assert "yes\n" in machine.ask("threads", "logs", thread_id)


def test_a_run_ends_at_its_time_limit(project: Path, machine: Machine) -> None:
    thread_id = machine.ask(*BASH, "command=sleep 600", "--timeout", "0.2", "--async", "-q").strip()

    status, waited = threads_command(machine, "wait", thread_id)

    assert (status, waited["threads"][0]["result"]["code"]) == (1, "TIMEOUT")


PARENT = "command=tr '\\0' ' ' < /proc/$PPID/cmdline"


@pytest.mark.heavy
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")  # noqa: PTH112
@pytest.mark.parametrize("options", [(), ("-I",), ("-X", "utf8", "-W", "error")])
@pytest.mark.parametrize("boot", ["auto", "shiv"])
def test_a_runner_is_started_as_the_command_was(
    options: tuple[str, ...], boot: str, project: Path, machine: Machine, built_pyz: Path
) -> None:
    (machine.home / "rye.pyz").symlink_to(built_pyz)
    python = machine.rye[0]
    machine.rye = (python, *options, "../home/rye.pyz")

    environ = machine.environ(RYE_BOOT=boot)
    thread_id = machine.ask(*BASH, PARENT, "--async", "-q", environ=environ).strip()

    assert threads_command(machine, "wait", thread_id)[0] == 0
    path = machine.project / "../home/rye.pyz"
    words = [str(python), *options, str(path), "_thread", thread_id]
    assert machine.ask("threads", "logs", thread_id).startswith(" ".join(words))


def test_a_place_that_cannot_be_written_is_reported(machine: Machine) -> None:
    with mounted(machine.home / "frozen", "ro"):
        refused = machine.run(
            *BASH,
            "command=true",
            "--async",
            "--user-space",
            str(machine.home / "frozen"),
            cwd=machine.temporary,
        )

    assert refused.returncode == 1
    assert "read-only" in refused.stderr


def test_threads_of_a_read_only_project_can_be_shown(shared: SharedFile) -> None:
    home, project = shared.make("home", 0o777), shared.make("project", 0o777)
    environ = {"HOME": str(home), "RYE_PROJECT": str(project)}
    (project / ".ai").mkdir()
    (project / ".ai").chmod(0o777)
    thread_id = shared.run(*BASH, "command=echo kept", "--async", "-q", **environ).stdout.strip()
    assert shared.run("threads", "wait", thread_id, **environ).returncode == 0
    (project / ".ai" / "state" / "threads").chmod(0o500)

    listed = shared.run("threads", "list", **environ)
    logs = shared.run("threads", "logs", thread_id, **environ)
    refused = shared.run(*BASH, "command=true", "--async", **environ)

    assert (listed.returncode, listed.stderr) == (0, "")
    assert thread_id in listed.stdout
    assert logs.stdout == "kept\n"
    assert refused.returncode == 1


def test_a_home_that_cannot_be_written_costs_only_the_killing(shared: SharedFile) -> None:
    home, project = shared.make("home", 0o555), shared.make("project", 0o777)
    environ = {"HOME": str(home), "RYE_PROJECT": str(project)}
    (project / ".ai").mkdir()
    (project / ".ai").chmod(0o777)

    started = shared.run(*BASH, "command=echo hi", "--async", "-q", **environ)

    assert started.stderr.startswith("warning: rye threads kill will not end this run: ")
    thread_id = started.stdout.strip()
    assert shared.run("threads", "wait", thread_id, **environ).returncode == 0


def test_a_full_device_is_reported(project: Path, machine: Machine) -> None:
    without_room(machine)

    ended = machine.run(*BASH, "command=true", "--async")

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
