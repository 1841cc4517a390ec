"""``rye-node.pyz gc``."""

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import select

from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import Usage, UserStores
from rye_services.operations.cli import main
from rye_services.storage.database import threads
from ryeos.items.context import utc_now
from tests.support.databases import made_database

USER = "3d4c030534b1c1c6"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a node that was never started; no environment variable names one."""
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA", "CAS_BASE_PATH"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "data"
    assert main(["init", "-q", "--data", str(folder)]) == 0
    return folder


@pytest.fixture
def garbage(data: Path) -> Path:
    """The file of an old blob without references."""
    store = UserStores(data / "cas").of(USER)
    Usage(made_database(data, kind="sqlite"), utc_now).read(USER, store=store)
    path = store.path_of(ObjectKind.BLOB, store.put_blob(b"12345"))
    os.utime(path, (1, 1))
    return path


def test_an_unreferenced_object_is_removed(
    data: Path, garbage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--data", str(data)]) == 0

    line = f"{USER}  done  1 removed, 5 bytes; 0 kept, 0 bytes\n"
    assert (capsys.readouterr().out, garbage.exists()) == (line, False)


def test_a_dry_run_counts_without_removing(
    data: Path, garbage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--dry-run", "--json", "--data", str(data)]) == 0

    user = {
        "user_id": USER,
        "state": "done",
        "removed": 1,
        "freed_bytes": 5,
        "kept": 0,
        "stored_bytes": 5,
        "forgotten_executions": 0,
    }
    assert json.loads(capsys.readouterr().out) == {
        "status": "success",
        "dry_run": True,
        "users": [user],
    }
    assert garbage.exists()


def test_executions_that_ended_long_ago_are_forgotten(
    data: Path, garbage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = made_database(data, kind="sqlite")
    row = {
        "thread_id": "old",
        "user_id": USER,
        "item_type": "tool",
        "item_id": "tool:a",
        "remote_name": "default",
        "project_path": "ada/p",
        "state": "completed",
        "created_at": "2001-02-03T04:05:06.000000+00:00",
        "completed_at": "2001-02-03T04:05:07.000000+00:00",
    }
    with database.writing() as connection:
        connection.execute(threads.insert().values(**row))

    assert main(["gc", "--data", str(data)]) == 0

    line = f"{USER}  done  1 removed, 5 bytes; 0 kept, 0 bytes; 1 executions\n"
    assert (capsys.readouterr().out, garbage.exists()) == (line, False)
    with database.reading() as connection:
        assert connection.execute(select(threads)).all() == []
    database.close()


def test_a_damaged_ref_stops_the_collection_and_is_reported(
    data: Path, garbage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refs = UserStores(data / "cas").of(USER).root / "refs"
    refs.mkdir()
    (refs / "a.json").write_text("{", encoding="utf-8")

    assert main(["gc", "--data", str(data)]) == 4

    message = capsys.readouterr().err
    assert message.startswith(f"error: nothing was removed of 1 of 1 users: {USER}: nothing was")
    assert garbage.exists()


def test_a_store_of_an_empty_database_is_left_alone(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = UserStores(data / "cas").of(USER)
    blob = store.put_blob(b"12345")
    os.utime(store.path_of(ObjectKind.BLOB, blob), (1, 1))

    status = main(["gc", "--json", "--data", str(data)])

    answer = json.loads(capsys.readouterr().out)
    (user,) = answer["users"]
    assert (status, user["state"], user["code"]) == (4, "refused", "WRONG_DATABASE")
    assert store.has_blob(blob)


def test_collection_on_a_node_without_users_reports_no_users(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gc", "--data", str(data)]) == 0

    assert capsys.readouterr().out == "no users\n"
