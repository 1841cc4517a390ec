"""``rye-node.pyz backup`` and ``restore``."""

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import text

from lillux.file_locks import locked
from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import UserStores
from rye_services.operations.cli import main
from rye_services.process.data_folder import open_database
from rye_services.settings import read_settings
from tests.support.databases import (
    IMPATIENT,
    database_environ,
    database_url,
    kind_of_database,
    programs,
)
from tests.support.node import Node, User, running_node
from tests.support.node_sync import history, push_tree

pytest_plugins = ("tests.support.node",)
FIRST = {".ai/tools/a.py": b"1", "file": b"first"}
SECOND = {".ai/tools/a.py": b"1", "file": b"second", "more": b"more"}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without variables of a node."""
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA", "CAS_BASE_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Node]:
    """A node that serves, on the database of this run of the tests."""
    data = tmp_path / "node"
    with running_node(data, environ=database_environ(data)) as node:
        yield node


@pytest.fixture
def user(served: Node) -> User:
    """A user who has pushed a project."""
    user = served.user()
    push_tree(user, FIRST)
    return user


class Answer:
    """The answer of a command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> dict[str, Any]:
        """The document."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command of `rye-node.pyz` on a data folder and its database, with ``--json``."""

    def run(*words: str | Path, data: Path, environ: Mapping[str, str] | None = None) -> Answer:
        with monkeypatch.context() as patched:
            for name, value in (database_environ(data) if environ is None else environ).items():
                patched.setenv(name, value)
            status = main([*map(str, words), "--json", "--data", str(data)])
        return Answer(status, *capsys.readouterr())

    return run


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where the backup goes."""
    return tmp_path / "backup"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of a restored node, with a separate database."""
    return tmp_path / "restored" / "node"


def restored_environ(served: Node, place: Path) -> dict[str, str]:
    """The variables of a node that was restored: another database, with the same schema."""
    if kind_of_database() == "sqlite":
        return {}
    import psycopg

    schema = database_url(served.data).rpartition("%3D")[2]
    url = database_url(place).partition("&options")[0]
    name = f"d{schema}{place.name}"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = url.replace("/postgres?", f"/{name}?")
    return {"RYE_NODE_DATABASE_URL": f"{url}&options=-csearch_path%3D{schema}"}


def files_of(root: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a_backup_of_a_running_node_can_be_restored_and_served(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    head = history(user)[0]["_hash"]
    environ = restored_environ(served, place)

    made = run("backup", target, data=served.data)
    restored = run("restore", target, data=place, environ=environ)

    assert (made.status, made.json["status"], made.json["lost"]) == (0, "success", [])
    assert restored.status == 0, restored.err
    assert run("fsck", data=place, environ=environ).status == 0
    with running_node(place, environ=environ) as again:
        same = User(again, user.keypair, user.token)
        assert again.keys.node_id == served.keys.node_id
        assert history(same)[0]["_hash"] == head
        assert same.ask("GET", "/user-space", auth="bearer").status == 404
        push_tree(same, SECOND, head)


@pytest.mark.heavy
def test_private_files_of_a_backup_are_readable_by_their_owner_only(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)
    run("restore", target, data=place, environ=restored_environ(served, place))

    for folder in (target, place):
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in folder.rglob("*")
            if path.suffix in {".pem", ".toml", ".db", ".dump"}
        }
        assert set(modes.values()) == {0o600}, modes
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.heavy
def test_a_second_backup_copies_only_new_objects(
    served: Node, user: User, run: Run, target: Path
) -> None:
    first = run("backup", target, data=served.data).json
    before = {path: path.stat().st_ino for path in (target / "cas").rglob("*") if path.is_file()}

    unchanged = run("backup", target, data=served.data).json
    push_tree(user, SECOND, history(user)[0]["_hash"])
    second = run("backup", target, data=served.data).json

    assert (unchanged["copied"], unchanged["kept"]) == (0, first["copied"])
    assert (second["copied"], second["kept"]) == (4, first["copied"])  # two files, two objects
    assert {path: path.stat().st_ino for path in before} == before
    (state,) = target.glob("state-*")
    assert state.name == second["state"]


def test_objects_removed_by_a_sweep_are_not_missing_in_the_next_backup(
    served: Node, user: User, run: Run, target: Path
) -> None:
    run("backup", target, data=served.data)
    garbage = store_of(served, user).put_blob(b"garbage")
    os.utime(store_of(served, user).path_of(ObjectKind.BLOB, garbage), (1, 1))
    run("backup", target, data=served.data)
    assert run("gc", data=served.data).json["users"][0]["removed"] == 1

    assert run("backup", target, data=served.data).json["lost"] == []


def store_of(node: Node, user: User) -> Store:
    """The store of a user on a node."""
    return UserStores(node.settings.cas_base_path).of(user.user_id)


@pytest.mark.heavy
def test_a_truncated_object_of_a_backup_is_copied_again(
    served: Node, user: User, run: Run, target: Path
) -> None:
    run("backup", target, data=served.data)
    objects = [*(target / "cas").rglob("*.json")]
    blobs = [path for path in (target / "cas").rglob("*") if path.is_file() and not path.suffix]
    objects[0].write_bytes(b"x" * objects[0].stat().st_size)
    blobs[0].write_bytes(b"")

    again = run("backup", target, data=served.data)

    assert (again.status, again.json["copied"]) == (0, 2)


@pytest.mark.heavy
def test_a_backup_of_a_damaged_node_is_made_and_reports_the_loss(
    served: Node, user: User, run: Run, target: Path
) -> None:
    blob = next(one.digest for one in store_of(served, user).stored(ObjectKind.BLOB))
    store_of(served, user).remove(ObjectKind.BLOB, blob)

    made = run("backup", target, data=served.data)

    assert (made.status, made.json["code"]) == (4, "INTEGRITY")
    assert [one for one in made.json["lost"] if blob in one]
    assert len([*target.glob("state-*")]) == 1


def test_a_damaged_file_of_a_backup_is_reported_at_restore(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)
    blob = next(path for path in (target / "cas").rglob("*") if path.is_file() and not path.suffix)
    blob.write_bytes(b"x")
    environ = restored_environ(served, place)

    restored = run("restore", target, data=place, environ=environ)

    assert restored.status == 4
    assert blob.name in restored.json["error"]
    assert run("fsck", data=place, environ=environ).status == 4


def test_restore_refuses_a_folder_with_files(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)
    place.mkdir(parents=True)
    (place / "mine").write_text("mine", encoding="utf-8")

    restored = run("restore", target, data=place, environ=restored_environ(served, place))

    assert (restored.status, restored.json["code"]) == (6, "CONFIG_ERROR")
    assert restored.json["error"] == f"{place}: expected an empty folder, found 'mine'"
    assert files_of(place.parent) == {"node/mine": b"mine"}


@pytest.mark.heavy
def test_an_empty_folder_is_restored_to(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)
    place.mkdir(parents=True)

    assert run("restore", target, data=place, environ=restored_environ(served, place)).status == 0


@pytest.mark.heavy
def test_a_backup_of_another_node_is_not_written_to(
    served: Node, user: User, run: Run, target: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    assert run("init", data=other).status == 0
    assert run("backup", target, data=other).status == 0
    before = files_of(target)

    made = run("backup", target, data=served.data)

    assert made.status == 6
    assert "expected backups of node" in made.json["error"]
    assert files_of(target) == before


@pytest.mark.heavy
def test_a_folder_with_other_files_is_not_written_to(
    served: Node, user: User, run: Run, target: Path
) -> None:
    target.mkdir()
    (target / "letters.txt").write_text("mine", encoding="utf-8")

    made = run("backup", target, data=served.data)

    assert (
        made.json["error"] == f"{target}: expected an empty folder or backups, found 'letters.txt'"
    )
    assert files_of(target) == {"letters.txt": b"mine"}


@pytest.mark.heavy
def test_a_backup_into_the_data_is_refused(served: Node, user: User, run: Run) -> None:
    made = run("backup", served.data / "backup", data=served.data)

    assert made.json["error"] == f"{served.data}/backup: lies in the data {served.data}"
    assert not (served.data / "backup").exists()


def test_a_folder_without_a_backup_is_not_restored(run: Run, target: Path, place: Path) -> None:
    target.mkdir()

    restored = run("restore", target, data=place, environ={})

    assert restored.json["error"] == f"{target}: expected a backup of a node, found none"
    assert not place.exists()


def test_two_simultaneous_backups_into_one_folder_do_not_mix(
    served: Node, user: User, run: Run, target: Path
) -> None:
    run("backup", target, data=served.data)
    before = files_of(target)

    with locked(target / "backup.lock", timeout_s=0):
        made = run("backup", target, data=served.data)

    assert (made.status, made.json["code"]) == (1, "CONFLICT")
    assert files_of(target) == before


@pytest.mark.heavy
def test_files_of_a_killed_backup_are_removed_by_the_next(
    served: Node, user: User, run: Run, target: Path
) -> None:
    run("backup", target, data=served.data)
    (target / ".making-00000000").mkdir()

    assert run("backup", target, data=served.data).status == 0

    assert [*target.glob(".making-*")] == []


@pytest.mark.heavy
def test_a_setting_with_a_path_outside_of_the_folder_is_refused_at_restore(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)
    elsewhere = target.with_name("elsewhere")
    environ = {**restored_environ(served, place), "CAS_BASE_PATH": str(elsewhere)}

    restored = run("restore", target, data=place, environ=environ)

    assert restored.json["error"] == (
        f"{elsewhere}: the setting cas_base_path is outside of the folder that is restored"
    )
    assert not place.exists()


def test_an_older_database_with_newer_files_is_valid(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)
    push_tree(user, SECOND, history(user)[0]["_hash"])
    environ = restored_environ(served, place)
    assert run("restore", target, data=place, environ=environ).status == 0
    shutil.copytree(served.data / "cas", place / "cas", dirs_exist_ok=True)

    assert run("fsck", data=place, environ=environ).status == 0


def test_a_newer_database_with_older_files_is_noticed(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)
    older = target.with_name("older")
    shutil.copytree(target / "cas", older)
    push_tree(user, SECOND, history(user)[0]["_hash"])
    run("backup", target, data=served.data)
    environ = restored_environ(served, place)
    assert run("restore", target, data=place, environ=environ).status == 0
    shutil.rmtree(place / "cas")
    shutil.copytree(older, place / "cas")

    found = run("fsck", data=place, environ=environ)
    swept = run("gc", data=place, environ=environ)

    assert found.status == 4
    assert found.json["stores"][0]["lost_heads"][0]["snapshot_hash"] == history(user)[0]["_hash"]
    assert swept.json["users"][0]["state"] == "refused"


@pytest.mark.skipif(kind_of_database() == "sqlite", reason="this is about PostgreSQL")
def test_a_database_that_is_not_empty_is_not_restored_to(
    served: Node, user: User, run: Run, target: Path, place: Path
) -> None:
    run("backup", target, data=served.data)

    restored = run("restore", target, data=place, environ=database_environ(served.data))

    assert restored.status == 6
    assert "expected an empty database, found the table" in restored.json["error"]
    assert not place.exists()


@pytest.mark.skipif(kind_of_database() == "sqlite", reason="this is about PostgreSQL")
def test_missing_postgresql_programs_are_reported(
    served: Node, user: User, run: Run, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_services.operations.backup._DEBIAN", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")

    made = run("backup", target, data=served.data)

    words = "pg_dump: expected this program of PostgreSQL, found none"
    assert (made.status, made.json["error"]) == (6, words)
    assert [*target.glob("*state*"), *target.glob(".making-*")] == []


@pytest.mark.skipif(kind_of_database() == "sqlite", reason="this is about PostgreSQL")
def test_a_slow_postgresql_program_is_waited_for(
    served: Node, run: Run, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "programs" / "99" / "bin"
    folder.mkdir(parents=True)
    program = programs() / "pg_dump"
    (folder / "pg_dump").write_text(f'#!/bin/sh\nsleep 2.5\nexec {program} "$@"\n', "utf-8")
    (folder / "pg_dump").chmod(0o700)
    monkeypatch.setattr("rye_services.operations.backup._DEBIAN", str(folder.parent.parent))
    monkeypatch.setattr("rye_services.storage.database.RELEASE_IDLE", IMPATIENT)

    made = run("backup", target, data=served.data)

    assert made.status == 0, made.json


@pytest.mark.heavy
def test_backups_under_load_hold_all_objects_of_their_database(
    served: Node, run: Run, tmp_path: Path
) -> None:
    users, is_over = [served.user() for _ in range(4)], Event()

    def push_on(user: User) -> int:
        head, count = None, 0
        while not is_over.is_set():
            contents = {f"f{number}": b"%d" % (count * number) for number in range(20)}
            head = push_tree(user, contents, head)
            count += 1
        return count

    def sweep_on() -> int:
        count = 0
        while not is_over.is_set():
            assert served.owner.ask("POST", "/gc").status == 200
            count += 1
        return count

    with ThreadPoolExecutor(len(users) + 1) as pool:
        pushing = [pool.submit(push_on, user) for user in users]
        sweeping = pool.submit(sweep_on)
        try:
            for number in range(3):
                made = run("backup", tmp_path / "backup", data=served.data)
                assert (made.status, made.json["status"]) == (0, "success"), made.out
                place = tmp_path / f"restored{number}"
                environ = restored_environ(served, place)
                restored = run("restore", tmp_path / "backup", data=place, environ=environ)
                assert restored.status == 0, restored.out
        finally:
            is_over.set()
        assert min(one.result() for one in pushing) > 0
        assert sweeping.result() > 0
    database = open_database(read_settings({"data_dir": str(place)}, environ, place))
    with database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM project_refs")) == len(users)
    database.close()
