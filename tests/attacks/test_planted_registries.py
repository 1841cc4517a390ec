"""A clone brings a registry of threads along: its rows and files are untrusted."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lillux.process.states import start_token
from ryeos.items.errors import RyeError
from ryeos.run.threads.errors import UnknownRunnerError
from ryeos.run.threads.log import ThreadLog
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.seals import RunnerSeals, ThreadRunner
from ryeos.run.threads.thread import Thread
from tests.support.command_line import CommandLine
from tests.support.errors import coded
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")

ID = "mine/build/build-1-2-00aa"


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the user that does not belong to Rye, and ends on a signal."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    yield process
    process.communicate()
    assert process.returncode == 0


@pytest.fixture
def registry(workspace: Workspace) -> ThreadRegistry:
    """A registry with one row."""
    registry = workspace.rye().threads
    registry.register(Thread(thread_id=ID, directive="mine/build", item_id="tool:mine/build"))
    registry.place.make_thread_folder(ID)
    return registry


@pytest.fixture
def cli(tmp_path: Path, workspace: Workspace) -> CommandLine:
    """The command line of the workspace's user."""
    (tmp_path / "cli").mkdir()
    line = CommandLine(tmp_path / "cli", workspace.bundles[0])
    line.home, line.project = workspace.home, workspace.project_path
    line.env["HOME"] = str(workspace.home)
    return line


# --- processes ------------------------------------------------------------------------------------


def test_a_row_that_names_a_process_of_the_user_does_not_end_it(
    registry: ThreadRegistry, cli: CommandLine, bystander: "subprocess.Popen[bytes]"
) -> None:
    token = start_token(bystander.pid)
    registry.mark_running(ID, bystander.pid, token)

    done = cli("threads", "kill", ID)

    assert (done.status, bystander.poll()) == (4, None)
    assert f"{ID}: will not end any process: there is no " in done.stderr


def test_a_seal_that_another_user_wrote_does_not_end_it(
    registry: ThreadRegistry, cli: CommandLine, bystander: "subprocess.Popen[bytes]"
) -> None:
    token = start_token(bystander.pid)
    registry.mark_running(ID, bystander.pid, token)
    planted = {"pid": bystander.pid, "start_token": token, "seal": "0" * 64}
    registry.place.file(ID, "runner.json").write_text(json.dumps(planted), "utf-8")

    done = cli("threads", "kill", ID)

    assert (done.status, bystander.poll()) == (4, None)
    assert f"will not end process {bystander.pid}: " in done.stderr


def test_a_process_that_got_the_number_of_a_runner_is_not_ended(
    workspace: Workspace,
    registry: ThreadRegistry,
    cli: CommandLine,
    bystander: "subprocess.Popen[bytes]",
) -> None:
    runner = ThreadRunner(bystander.pid, "long ago")
    workspace.rye().runner_seals.seal(registry.place, ID, runner)
    # (The row has the right start: only the seal is the user's word.)
    registry.mark_running(ID, bystander.pid, start_token(bystander.pid))

    done = cli("threads", "kill", ID, "--grace", "0")

    assert (done.status, bystander.poll()) == (0, None)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_link_in_place_of_the_registry_is_not_followed(
    suffix: str, workspace: Workspace, cli: CommandLine
) -> None:
    folder = workspace.project.space.ai / "state" / "threads"
    folder.mkdir(parents=True)
    target = workspace.folder / "target"
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("CREATE TABLE precious (x)")
    before = target.read_bytes()
    if suffix:
        (folder / "registry.db").write_bytes(b"")
    (folder / f"registry.db{suffix}").symlink_to(target)

    listed = cli("threads", "list")
    run = cli("run", "rye/bash/bash", "command=true", "--async")

    assert (listed.status, run.status) == (6, 6)
    assert "expected a plain file, found a link" in listed.stderr
    assert target.read_bytes() == before


def test_a_journal_that_has_another_file_deleted_is_not_opened(
    registry: ThreadRegistry, cli: CommandLine, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", "utf-8")
    plant_journal(registry.place.registry, victim)

    done = cli("threads", "list")

    assert done.status == 6
    assert "this journal has SQLite delete a file of its choice" in done.stderr
    assert victim.read_text("utf-8") == "precious"


def test_sqlite_does_delete_the_file_that_such_a_journal_names(tmp_path: Path) -> None:
    """Without this, the test before would show nothing."""
    victim = tmp_path / "victim"
    victim.write_text("precious", "utf-8")
    path = tmp_path / "any.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE threads (thread_id)")
    plant_journal(path, victim)

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM threads").fetchall()

    if victim.exists():
        pytest.skip(f"SQLite {sqlite3.sqlite_version} does not do it any more")


def plant_journal(path: Path, victim: Path) -> None:
    """Write a rollback journal beside the database that names the victim as its super-journal."""
    scratch = path.with_name("scratch.db")
    journal = path.with_name(f"{path.name}-journal")
    with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE threads (thread_id)")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO threads VALUES (?)", [("x" * 500,)] * 3000)
        data = scratch.with_name("scratch.db-journal").read_bytes()
        connection.execute("ROLLBACK")
    name = os.fsencode(victim)
    page_of_lock_byte = 0x40000000 // 4096 + 1
    record = page_of_lock_byte.to_bytes(4, "big") + name + len(name).to_bytes(4, "big")
    record += sum(name).to_bytes(4, "big") + bytes.fromhex("d9d505f920a163d7")
    path.write_bytes(scratch.read_bytes())
    journal.write_bytes(data + record)


def test_a_log_that_links_to_a_file_of_the_user_is_not_shown(
    registry: ThreadRegistry, cli: CommandLine, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret", "utf-8")
    registry.place.file(ID, "spawn.log").symlink_to(secret)

    shown = [cli("threads", word, ID) for word in ("logs", "show")]

    assert [done.status for done in shown] == [6, 6]
    assert not any("secret\n" in done.stdout for done in shown)


def test_a_pipe_in_place_of_a_log_blocks_no_caller(
    registry: ThreadRegistry, cli: CommandLine
) -> None:
    os.mkfifo(registry.place.file(ID, "spawn.log"))

    done = cli("threads", "logs", ID)

    assert done.status == 1
    assert done.stderr.endswith("spawn.log: expected a regular file\n")


# --- texts of rows --------------------------------------------------------------------------------


def plant(registry: ThreadRegistry, **values: object) -> None:
    """Change the row to values that no program of ours would write."""
    changes = ", ".join(f"{name} = ?" for name in values)
    with closing(sqlite3.connect(registry.place.registry)) as connection, connection:
        connection.execute(f"UPDATE threads SET {changes}", tuple(values.values()))  # noqa: S608


@pytest.mark.parametrize(
    "planted", ["../../../tools/x", "/etc", "a\x1b]0;owned\x07", "registry.db"]
)
def test_an_id_that_leads_elsewhere_is_no_folder(
    planted: str, registry: ThreadRegistry, cli: CommandLine
) -> None:
    plant(registry, thread_id=planted)

    assert cli("threads", "logs", planted).status == 2
    assert cli("threads", "kill", planted).status in {2, 0}
    with pytest.raises(RyeError, match=r"^thread id ", check=coded("INVALID_REF")):
        ThreadLog(registry.place, planted)
    assert "\x1b" not in cli("threads", "list").stdout


def test_a_text_of_a_row_steers_no_terminal(registry: ThreadRegistry, cli: CommandLine) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07"
    plant(
        registry,
        status=evil,
        error=evil,
        created_at=evil,
        model=evil,
        result=f'{{"data": "{evil}"}}',
    )

    shown = cli("threads", "list").stdout + cli("threads", "show", ID).stdout

    assert "\x1b" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize("pid", [0, 1, -1, 2**31, 2**63 - 1, "1; reboot", b"\x00"])
def test_no_number_in_a_row_does_harm(
    pid: object, registry: ThreadRegistry, cli: CommandLine
) -> None:
    plant(registry, pid=pid, status="running", start_token="")

    listed = cli("threads", "list")
    killed = cli("threads", "kill", ID)

    assert listed.status == 0
    assert killed.status in {0, 4}


def test_a_view_that_never_ends_is_not_read(registry: ThreadRegistry, cli: CommandLine) -> None:
    registry.place.registry.unlink()
    for beside in registry.place.folder.glob("registry.db-*"):
        beside.unlink()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x AS thread_id"
    with closing(sqlite3.connect(registry.place.registry)) as connection:
        connection.execute(f"CREATE VIEW threads AS {endless} FROM n")

    done = cli("threads", "list")

    assert (done.status, "found the view 'threads'" in done.stderr) == (6, True)


def test_threads_are_no_items(
    registry: ThreadRegistry, cli: CommandLine, workspace: Workspace
) -> None:
    planted = registry.place.file(ID, "tools")
    planted.mkdir()
    tool = workspace.project.tool("mine/x", "print(1)")
    (planted / "x.py").write_bytes(tool.read_bytes())
    tool.unlink()

    assert cli.json("search", "x", "--space", "project")["results"] == []
    assert "x.py" not in cli("verify", "--json", workspace.project_path).stdout
    assert cli("run", "tool:../state/threads/x").status == 2


def test_errors_of_a_planted_registry_name_the_file(registry: ThreadRegistry) -> None:
    plant(registry, thread_id=ID)
    registry.place.file(ID, "runner.json").mkdir()

    with pytest.raises(UnknownRunnerError) as error:
        RunnerSeals(registry.place.ai).runner(registry.place, ID)

    assert "runner.json" in str(error.value)
