"""``rye-node.pyz fsck``."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lillux.file_locks import locked
from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.services import NodeServices, open_services
from rye_services.node.storage import LOCK
from rye_services.node.store.heads import Heads
from rye_services.node.store.objects import UserStores
from rye_services.node.store.push import ProjectPush
from rye_services.operations.cli import main
from rye_services.people.audit import AuditFilter
from rye_services.process.data_folder import open_database
from rye_services.settings import read_settings
from tests.support.databases import database_environ
from tests.support.node import CHECKOUT_COMMAND
from tests.support.pushed_trees import folder_stores, put_project, put_user_space
from tests.support.terminal import Terminal
from tests.support.workspace import PLAIN_ENV

USER, OTHER = "3d4c030534b1c1c6", "0123456789abcdef"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a node that was never started; no environment variable names one."""
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA", "CAS_BASE_PATH"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "data"
    for name, value in database_environ(folder).items():
        monkeypatch.setenv(name, value)
    assert main(["init", "-q", "--data", str(folder)]) == 0
    return folder


@pytest.fixture
def services(data: Path) -> Iterator[NodeServices]:
    """The services of the node, in this process."""
    settings = read_settings({"data_dir": str(data)}, os.environ, data)
    services = open_services(settings, data)
    yield services
    services.database.close()


@pytest.fixture
def store(services: NodeServices) -> Store:
    """The store of a user who has pushed a project twice, and a user space."""
    space = put_user_space(folder_stores(services).of(USER), {".ai/config/a.yaml": b"a: 1\n"})
    services.sync.pushing.push_user_space(USER, folder_stores(services).of(USER), space, None)
    first = push(services, {".ai/tools/a.py": b"1", "old": b"old"})
    push(services, {".ai/tools/a.py": b"2", "new": b"new"}, first)
    store = folder_stores(services).of(USER)
    services.sync.usage.read(USER, store=store)
    return store


def push(services: NodeServices, contents: dict[str, bytes], expected: str | None = None) -> str:
    """Push a project of `USER`; its snapshot."""
    store = folder_stores(services).of(USER)
    wanted = ProjectPush(
        project_path="ada/p",
        project_manifest_hash=put_project(store, contents),
        expected_snapshot_hash=expected,
    )
    return services.sync.pushing.push_project(USER, store, wanted).snapshot_hash


def head_of(services: NodeServices) -> str:
    """The snapshot of the project's head."""
    head = Heads(services.database).read(USER, "default", "ada/p")
    assert head is not None
    return head.snapshot_hash


def manifest_of(store: Store, snapshot: str) -> dict[str, Any]:
    """The manifest of a snapshot."""
    value: dict[str, Any] = store.get_object(store.get_object(snapshot)["project_manifest_hash"])
    return value


class Answer:
    """The answer of the command."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status, self.document = status, document

    def of(self, user: str) -> dict[str, Any]:
        """The report of a store."""
        found: dict[str, Any] = next(
            one for one in self.document["stores"] if one["user_id"] == user
        )
        return found


Run = Callable[..., Answer]


@pytest.fixture
def fsck(data: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command, with ``--json``."""

    def run(*words: str) -> Answer:
        status = main(["fsck", "--json", "--data", str(data), *words])
        return Answer(status, json.loads(capsys.readouterr().out))

    return run


def test_a_sound_node_is_reported_as_sound(
    data: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sum(1 for space in ObjectKind for _ in store.stored(space))
    size = sum(one.size for space in ObjectKind for one in store.stored(space))

    assert main(["fsck", "--data", str(data)]) == 0

    lines = f"{USER}  sound  {files} files, {size} bytes\nregistry  sound  0 files, 0 bytes\n"
    assert capsys.readouterr().out == lines


def test_a_missing_file_of_the_head_is_reported_and_can_be_pushed_again(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    lost = manifest_of(store, head_of(services))["files"]["new"]
    store.remove(ObjectKind.BLOB, lost)

    found = fsck()

    manifest = store.get_object(head_of(services))["project_manifest_hash"]
    assert (found.status, found.of(USER)["state"]) == (4, "damaged")
    assert found.of(USER)["losses"] == [
        {
            "space": "blob",
            "digest": lost,
            "state": "missing",
            "root": "the head of project 'ada/p' (default)",
            "named_by": manifest,
            "repair": "from a machine that has the project: rye remote push --force",
        }
    ]


def test_a_lost_object_of_the_history_needs_a_backup(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    first = store.get_object(head_of(services))["parent_hashes"][0]
    lost = manifest_of(store, first)["files"]["old"]
    store.remove(ObjectKind.BLOB, lost)

    (loss,) = fsck().of(USER)["losses"]

    assert loss["repair"] == (
        "from a backup that has it: rye-node.pyz fsck --repair --from BACKUP; if there is none:"
        f" rye-node.pyz fsck --accept-loss {lost}"
    )


def test_a_damaged_file_is_set_aside_by_a_repair_and_is_missing_then(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    digest = manifest_of(store, head_of(services))["files"]["new"]
    store.path_of(ObjectKind.BLOB, digest).write_bytes(b"NEW")

    before, repaired, after = fsck(), fsck("--repair"), fsck()

    assert [loss["state"] for loss in before.of(USER)["losses"]] == ["damaged"]
    assert repaired.status == 4
    assert repaired.of(USER)["repaired"]["set_aside"] == 1
    assert [loss["state"] for loss in after.of(USER)["losses"]] == ["missing"]
    (aside,) = (store.root / "damaged").iterdir()
    assert aside.read_bytes() == b"NEW"
    store.put_blob(b"new")
    assert fsck().status == 0


def test_damaged_unreferenced_objects_are_reported_and_set_aside(store: Store, fsck: Run) -> None:
    digest = store.put_blob(b"garbage")
    store.path_of(ObjectKind.BLOB, digest).write_bytes(b"")

    before, repaired = fsck(), fsck("--repair")

    assert (before.status, before.of(USER)["losses"]) == (4, [])
    assert [one["digest"] for one in before.of(USER)["damaged"]] == [digest]
    assert (repaired.status, repaired.of(USER)["repaired"]["set_aside"]) == (0, 1)


def test_a_lost_head_snapshot_is_reported_and_rebuilt(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    head = head_of(services)
    first = store.get_object(head)["parent_hashes"][0]
    at = store.get_object(first)["timestamp"]
    store.remove(ObjectKind.OBJECT, head)

    before, repaired = fsck(), fsck("--repair")

    assert before.of(USER)["lost_heads"] == [
        {
            "project_path": "ada/p",
            "remote_name": "default",
            "snapshot_hash": head,
            "newest_left": first,
            "newest_left_at": at,
        }
    ]
    assert (repaired.status, repaired.of(USER)["repaired"]["made_again"]) == (0, [head])
    assert head_of(services) == head
    assert store.get_object(head)["parent_hashes"] == [first]


def test_no_repair_moves_a_head_that_cannot_be_made_again(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    head = head_of(services)
    first = store.get_object(head)["parent_hashes"][0]
    store.remove(ObjectKind.OBJECT, head)
    store.remove(ObjectKind.OBJECT, first)

    repaired = fsck("--repair")

    assert (repaired.status, head_of(services)) == (4, head)
    assert {loss["digest"] for loss in repaired.of(USER)["losses"]} == {head}


def test_lost_objects_and_objects_below_them_are_copied_from_a_backup(
    services: NodeServices, store: Store, fsck: Run, tmp_path: Path
) -> None:
    backup = UserStores(tmp_path / "backup" / "cas").of(USER)
    for space in ObjectKind:
        for one in [*store.stored(space)]:
            backup.keep(space, one.digest, store.path_of(space, one.digest).read_bytes())
    first = store.get_object(head_of(services))["parent_hashes"][0]
    files = manifest_of(store, first)["files"]
    store.remove(ObjectKind.OBJECT, store.get_object(first)["project_manifest_hash"])
    store.remove(ObjectKind.BLOB, files["old"])

    repaired = fsck("--repair", "--from", str(tmp_path / "backup"))

    assert (repaired.status, repaired.of(USER)["repaired"]["from_backup"]) == (0, 2)
    assert store.get_blob(files["old"]) == b"old"


def test_temporary_files_of_unfinished_writes_are_counted_and_removed(
    store: Store, fsck: Run
) -> None:
    left = store.path_of(ObjectKind.BLOB, store.put_blob(b"1")).with_name(".1a-00-0.tmp")
    left.write_bytes(b"half")
    os.utime(left, (1, 1))

    before, repaired = fsck(), fsck("--repair")

    assert (before.status, before.of(USER)["leftovers"]) == (0, 1)
    assert (repaired.of(USER)["repaired"]["leftovers"], left.exists()) == (1, False)


def test_a_wrong_count_of_bytes_is_corrected(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    services.sync.usage.add(USER, 10**6, store=store)

    before, repaired = fsck(), fsck("--repair")

    size = sum(one.size for space in ObjectKind for one in store.stored(space))
    assert before.of(USER)["recorded_bytes"] == size + 10**6
    assert repaired.of(USER)["repaired"]["recounted_bytes"] == size
    assert services.sync.usage.read(USER, store=store) == size


def test_files_older_than_the_database_are_noticed(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    older = {one.digest for one in store.stored(ObjectKind.OBJECT)}
    push(services, {"new": b"newer"}, head_of(services))
    for one in [*store.stored(ObjectKind.OBJECT)]:
        if one.digest not in older:
            store.remove(ObjectKind.OBJECT, one.digest)

    found = fsck()

    assert found.status == 4
    assert [one["project_path"] for one in found.of(USER)["lost_heads"]] == ["ada/p"]


def test_files_of_an_unknown_user_are_reported_and_are_not_damage(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    folder_stores(services).of(OTHER).put_blob(b"newer than the database")

    found = fsck()

    assert (found.status, found.of(OTHER)["state"]) == (0, "unknown")


def test_a_user_whose_files_are_all_gone_is_not_forgotten(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    push(services, {"new": b"new"}, head_of(services))
    folder_stores(services).folder_of(USER).rename(folder_stores(services).root / "elsewhere")

    found = fsck()

    assert (found.status, found.of(USER)["files"]) == (4, 0)


def test_fsck_can_be_limited_to_one_user(
    services: NodeServices, store: Store, fsck: Run, capsys: pytest.CaptureFixture[str], data: Path
) -> None:
    folder_stores(services).of(OTHER).put_blob(b"1")

    found = fsck("--user", USER)

    assert [one["user_id"] for one in found.document["stores"]] == [USER]
    assert main(["fsck", "--user", "nobody", "--data", str(data)]) == 3
    assert capsys.readouterr().err.startswith(
        f"error: --user nobody: expected a user who has a store, found {OTHER}, {USER}\n"
    )


def test_no_other_process_may_work_on_the_stores(
    data: Path, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_services.node.storage.LOCK_WAIT_S", 0.0)

    with locked(data / LOCK, timeout_s=0):
        assert main(["fsck", "--data", str(data)]) == 1

    assert "a sweep of the server, is at work on the stores" in capsys.readouterr().err


def test_the_text_output_names_each_loss_and_its_repair(
    data: Path, services: NodeServices, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = manifest_of(store, head_of(services))
    lost = manifest["files"]["new"]
    store.remove(ObjectKind.BLOB, lost)

    assert main(["fsck", "--data", str(data)]) == 4

    output, err = capsys.readouterr()
    assert "error: 1 of 2 stores are damaged: 1 that something leads to missing or damaged" in err
    assert f"missing blob {lost}: the head of project 'ada/p' (default), by " in output
    assert "hint: from a machine that has the project: rye remote push --force" in err


# --- accepted losses ------------------------------------------------------------------------------


@pytest.fixture
def lost(services: NodeServices, store: Store) -> str:
    """The digest of the second of three snapshots, which no client and no backup has."""
    second = head_of(services)
    push(services, {".ai/tools/a.py": b"3"}, second)
    store.remove(ObjectKind.OBJECT, second)
    return second


def test_after_an_accepted_loss_sweeps_continue_and_keep_the_older_history(
    services: NodeServices, store: Store, lost: str, fsck: Run
) -> None:
    blob = store.put_blob(b"garbage")
    os.utime(store.path_of(ObjectKind.BLOB, blob), (0, 0))
    oldest = {found.digest for found in store.stored(ObjectKind.OBJECT)}
    assert services.sync.storage.collect_of(USER).state == "refused"

    done = fsck("--accept-loss", lost, "--yes")

    assert done.status == 0
    assert [(one["user_id"], one["digest"]) for one in done.document["accepted"]] == [(USER, lost)]
    swept = services.sync.storage.collect_of(USER)
    assert (swept.state, swept.removed, store.has_blob(blob)) == ("done", 1, False)
    assert oldest == {found.digest for found in store.stored(ObjectKind.OBJECT)}
    report = fsck().of(USER)
    assert (report["state"], [one["digest"] for one in report["accepted"]]) == ("sound", [lost])


def test_the_audit_records_who_accepted_a_loss(
    services: NodeServices, lost: str, fsck: Run
) -> None:
    fsck("--accept-loss", "all", "--yes")
    fsck("--accept-loss", "all", "--yes")  # there is none any more

    (entry,) = services.audit.entries(AuditFilter(action="storage"), limit=10)
    assert (entry.action, entry.target) == ("storage.accept-loss", lost)
    assert entry.actor.startswith("command:")
    assert entry.details == {
        "user_id": USER,
        "space": "object",
        "root": "the head of project 'ada/p' (default)",
    }


def test_a_recovered_object_is_removed_from_the_accepted_losses(
    services: NodeServices, store: Store, lost: str, fsck: Run
) -> None:
    fsck("--accept-loss", lost, "--yes")
    value = {"x": 1}
    services.sync.storage.losses.accept(USER, [(store.put_object(value), "object", "a test")])

    fsck("--repair")

    assert list(services.sync.storage.losses.of(USER)) == [lost]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--accept-loss", "f" * 64, "--yes"), "expected the digest of a loss, found none of it"),
        (("--accept-loss", "x", "--yes"), "expected the digest of a loss, found none of it"),
        (("--accept-loss", "all"), "would give up 1: 3d4c030534b1c1c6: missing object"),
        (("--accept-loss", "all", "--repair"), "--accept-loss: not beside --repair"),
    ],
)
def test_no_loss_is_accepted_by_mistake(
    services: NodeServices, lost: str, fsck: Run, words: tuple[str, ...], problem: str
) -> None:
    refused = fsck(*words)

    assert refused.status in {2, 3}
    assert problem in refused.document["error"]
    assert services.sync.storage.losses.of(USER) == {}
    assert services.sync.storage.collect_of(USER).state == "refused"


def test_damage_is_set_aside_before_its_loss_is_accepted(
    services: NodeServices, store: Store, fsck: Run
) -> None:
    first = store.get_object(head_of(services))["parent_hashes"][0]
    path = store.path_of(ObjectKind.OBJECT, first)
    path.chmod(0o600)
    path.write_bytes(b"{}")

    refused = fsck("--accept-loss", first, "--yes")
    fsck("--repair")
    accepted = fsck("--accept-loss", first, "--yes")

    assert "still there, and damaged" in refused.document["error"]
    assert accepted.status == 0
    assert services.sync.storage.collect_of(USER).state == "done"


@pytest.mark.skipif(os.name == "nt", reason="terminals of POSIX")
def test_accepting_a_loss_at_a_terminal_needs_a_typed_yes(
    data: Path, services: NodeServices, lost: str
) -> None:
    command = [*CHECKOUT_COMMAND, "fsck", "--accept-loss", lost, "--data", str(data)]
    environ = {**PLAIN_ENV, **database_environ(data)}

    with Terminal(command, environ, data) as terminal:
        output = terminal.type("", until="Type yes: ")
        terminal.type("y\n", until="nothing was accepted")
    assert f"lost for good: {USER}: missing object {lost}" in output
    assert services.sync.storage.losses.of(USER) == {}
    with Terminal(command, environ, data) as terminal:
        terminal.type("", until="Type yes: ")
        terminal.type("yes\n", until=f"accepted as lost: {USER}")
    assert list(services.sync.storage.losses.of(USER)) == [lost]


def test_a_backup_does_not_report_an_accepted_loss(
    data: Path, lost: str, fsck: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["backup", str(tmp_path / "backup"), "--data", str(data)]
    assert main(command) == 4

    fsck("--accept-loss", lost, "--yes")

    assert main(command) == 0


def test_fsck_releases_the_database(data: Path, store: Store, fsck: Run) -> None:
    fsck()

    settings = read_settings({"data_dir": str(data)}, os.environ, data)
    open_database(settings).close()
