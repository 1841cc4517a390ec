"""A data folder and a database that do not belong together: nothing is removed or made."""

from pathlib import Path

import pytest
from sqlalchemy import select

from rye_services.node.store.objects import UserStores
from rye_services.operations.cli import main
from rye_services.process.data_folder import address_of, open_database
from rye_services.settings import Settings, read_settings
from rye_services.storage.database import Database, node_identity
from rye_services.storage.migrations import make_tables
from ryeos.items.errors import RyeError
from tests.support.databases import database_url, made_database
from tests.support.errors import coded
from tests.support.node import Node

USER = "3d4c030534b1c1c6"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the environment names a node."""
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA", "RYE_NODE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


def settings_at(folder: Path, url: str = "") -> Settings:
    """The settings of a node, whose database is that of the folder unless another is named."""
    folder.mkdir(exist_ok=True)
    values = {"data_dir": str(folder), "database_url": url or database_url(folder)}
    return read_settings(values, {}, folder)


def opened(folder: Path, url: str = "", *, make: bool = False) -> None:
    """Open the database of a folder, and close it."""
    open_database(settings_at(folder, url), make=make).close()


def files_below(folder: Path) -> set[str]:
    """Every file, by its name."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_sweep_with_the_variables_of_another_shell_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    node = Node(tmp_path / "data", environ={"RYE_NODE_DATABASE_URL": elsewhere})
    node.start()
    node.end()
    store = UserStores(tmp_path / "data" / "cas").of(USER)
    store.put_blob(b"the only copy of a user")
    before = files_below(tmp_path)

    for command in (["gc"], ["accounts", "add", "ada"], ["api-keys", "create", "--name", "x"]):
        assert main([*command, "--data", str(tmp_path / "data")]) == 6
        assert "expected the database sqlite:///" in capsys.readouterr().err
    monkeypatch.setenv("DATABASE_URL", elsewhere)
    # Also with the right one: it knows no user of that store.
    assert main(["gc", "--data", str(tmp_path / "data")]) == 4

    assert before <= files_below(tmp_path) | {"elsewhere.db-shm", "elsewhere.db-wal"}


def test_the_database_of_another_node_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "a", make=True)
    opened(tmp_path / "b", make=True)
    own, other = (address_of(database_url(tmp_path / one), tmp_path / one) for one in "ab")
    text = (tmp_path / "b" / "node.toml").read_text("utf-8")
    (tmp_path / "a" / "node.toml").write_text(text.replace(other, own), "utf-8")

    for make in (False, True):
        with pytest.raises(
            RyeError, match="expected the database of node", check=coded("WRONG_DATABASE")
        ):
            opened(tmp_path / "a", make=make)


def test_a_missing_database_is_not_made_again(tmp_path: Path) -> None:
    opened(tmp_path / "a", make=True)
    (tmp_path / "a" / "node.toml").write_text(
        (tmp_path / "a" / "node.toml")
        .read_text("utf-8")
        .replace(
            address_of(database_url(tmp_path / "a"), tmp_path / "a"),
            address_of(database_url(tmp_path / "c"), tmp_path / "a"),
        ),
        "utf-8",
    )

    with pytest.raises(RyeError, match="found none at", check=coded("WRONG_DATABASE")) as error:
        opened(tmp_path / "a", database_url(tmp_path / "c"), make=True)

    assert "restore it from a backup" in error.value.hint


def test_an_empty_database_is_not_made_beside_stores(tmp_path: Path) -> None:
    settings = settings_at(tmp_path / "a")
    UserStores(settings.cas_base_path).of(USER).put_blob(b"1")

    with pytest.raises(
        RyeError, match="expected the database of the stores", check=coded("WRONG_DATABASE")
    ):
        open_database(settings, make=True)


def test_a_folder_without_a_note_gets_no_database_whose_projects_lie_elsewhere(
    tmp_path: Path,
) -> None:
    from rye_services.storage.database import project_refs

    url = database_url(tmp_path / "a")
    opened(tmp_path / "a", make=True)
    database = made_database(tmp_path / "a")
    row = dict.fromkeys(("remote_name", "project_path", "system_version"), "x")
    row |= {"project_manifest_hash": "0", "snapshot_hash": "0", "head_updated_at": ""}
    with database.writing() as connection:
        connection.execute(project_refs.insert().values(**row, user_id=USER, snapshot_revision=1))

    with pytest.raises(RyeError, match=f"found none of {USER}", check=coded("WRONG_DATABASE")):
        opened(tmp_path / "b", url, make=True)


def test_tables_without_an_id_get_one_with_the_folder(tmp_path: Path) -> None:
    database = Database(database_url(tmp_path / "a"))
    (tmp_path / "a").mkdir()
    make_tables(database)

    opened(tmp_path / "a", make=True)

    with database.reading() as connection:
        node = connection.scalar(select(node_identity.c.id))
    database.close()
    assert f'node = "{node}"' in (tmp_path / "a" / "node.toml").read_text("utf-8").splitlines()
    assert node


def test_no_password_is_written_into_the_folder(tmp_path: Path) -> None:
    url = "postgresql+psycopg://ada:secret@db.example.org:5433/rye?sslmode=require&password=more"

    assert address_of(url, tmp_path) == "postgresql://db.example.org:5433/rye?sslmode=require"


def test_a_folder_may_be_moved_with_its_database(tmp_path: Path) -> None:
    here = f"sqlite:///{tmp_path / 'a' / 'node.db'}"
    opened(tmp_path / "a", here, make=True)
    (tmp_path / "a").rename(tmp_path / "b")

    opened(tmp_path / "b", f"sqlite:///{tmp_path / 'b' / 'node.db'}")


@pytest.mark.parametrize("text", ["", "node = 1", "node = [", "\x00", "database = 'x'"])
def test_a_damaged_note_is_named(tmp_path: Path, text: str) -> None:
    opened(tmp_path / "a", make=True)
    (tmp_path / "a" / "node.toml").write_text(text, "utf-8")

    with pytest.raises(Exception, match=r"node\.toml"):
        opened(tmp_path / "a")
