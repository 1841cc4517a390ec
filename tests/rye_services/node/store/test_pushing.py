from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

import ryeos
from lillux.store import Store
from rye_services.node.store.heads import Head, Heads, UserSpaceRefs, first_parents
from rye_services.node.store.objects import DurableStores, KnownItems
from rye_services.node.store.push import (
    HeadMovedError,
    ManifestGraphError,
    ProjectPush,
    PushService,
    RevisionMovedError,
    SystemVersionError,
)
from rye_services.node.store.servers import ServerLease
from tests.support.databases import made_database
from tests.support.pushed_trees import put_project, put_user_space

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOWHERE = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store of one user."""
    return Store(tmp_path / "objects")


@pytest.fixture
def pushing(tmp_path: Path) -> Iterator[PushService]:
    """The push service of a node without projects."""
    database = made_database(tmp_path)
    yield PushService(
        heads=Heads(database),
        user_spaces=UserSpaceRefs(database),
        known=KnownItems(),
        durable=DurableStores(ServerLease(tmp_path / "servers")),
        clock=lambda: NOW,
        remote_name="node",
        compatible_versions=("0.1",),
    )
    database.close()


Push = Callable[..., Head]


@pytest.fixture
def push(pushing: PushService, store: Store) -> Push:
    """Pushes a project of one file: ``push(b"content", expected)``."""

    def push(content: bytes, expected: str | None = None, version: str = "0.1.27") -> Head:
        wanted = ProjectPush(
            project_path="me/p",
            project_manifest_hash=put_project(store, {"file": content}),
            system_version=version,
            expected_snapshot_hash=expected,
        )
        return pushing.push_project("ada", store, wanted)

    return push


def test_a_push_makes_a_snapshot_and_moves_the_head(push: Push, store: Store) -> None:
    first = push(b"1")
    second = push(b"2", first.snapshot_hash)

    assert second.revision == 2
    assert store.get_object(second.snapshot_hash) == {
        "schema": 2,
        "kind": "project_snapshot",
        "project_manifest_hash": put_project(store, {"file": b"2"}),
        "user_manifest_hash": None,
        "parent_hashes": [first.snapshot_hash],
        "source": "push",
        "source_detail": "",
        "timestamp": "2026-01-02T03:04:05.000000+00:00",
        "metadata": {},
    }
    history = [digest for digest, _ in first_parents(store, second.snapshot_hash)]
    assert history == [second.snapshot_hash, first.snapshot_hash]


def test_a_push_without_changes_adds_no_snapshot(push: Push) -> None:
    first = push(b"1")

    assert push(b"1", first.snapshot_hash) == first


def test_another_user_space_is_a_change(push: Push, pushing: PushService, store: Store) -> None:
    first = push(b"1")
    space = put_user_space(store, {".ai/config/a.yaml": b"a: 1\n"})
    pushing.push_user_space("ada", store, space, None)

    second = push(b"1", first.snapshot_hash)

    assert (second.revision, second.user_manifest_hash) == (2, space)


def test_a_push_on_another_head_says_where_the_head_is(push: Push) -> None:
    first = push(b"1")

    with pytest.raises(HeadMovedError) as error:
        push(b"2", NOWHERE)

    assert (error.value.expected, error.value.actual) == (NOWHERE, first)


def test_a_first_push_to_an_existing_project_is_refused(push: Push) -> None:
    first = push(b"1")

    with pytest.raises(HeadMovedError) as error:
        push(b"2", None)

    assert (error.value.expected, error.value.actual) == (None, first)


def test_a_push_with_a_head_to_a_missing_project_is_refused(push: Push) -> None:
    with pytest.raises(HeadMovedError) as error:
        push(b"1", NOWHERE)

    assert error.value.actual is None


def test_missing_content_is_reported_before_a_moved_head(
    push: Push, pushing: PushService, store: Store
) -> None:
    push(b"1")
    wanted = ProjectPush(project_path="me/p", project_manifest_hash=NOWHERE)

    with pytest.raises(ManifestGraphError):
        pushing.push_project("ada", store, wanted)


@pytest.mark.parametrize("version", ["", "0.1", "0.1.27", "0.1.0rc1", ryeos.__version__])
def test_an_equal_version_is_accepted(push: Push, version: str) -> None:
    assert push(b"1", version=version).system_version == version


@pytest.mark.parametrize("version", ["9.9.9", "0.10.0", "1", "unknown", "x" * 1000])
def test_another_version_is_refused_by_name(push: Push, version: str) -> None:
    with pytest.raises(SystemVersionError) as error:
        push(b"1", version=version)

    assert str(error.value).startswith("system_version: expected 0.1.x")
    assert str(error.value).count("0.1.x") == 1
    assert str(error.value).endswith(f"found {version[:80]!r}")


def test_a_user_space_is_pushed_on_the_revision_that_it_replaces(
    pushing: PushService, store: Store
) -> None:
    one = put_user_space(store, {".ai/config/a.yaml": b"a: 1\n"})
    two = put_user_space(store, {".ai/config/a.yaml": b"a: 2\n"})

    first = pushing.push_user_space("ada", store, one, None)
    second = pushing.push_user_space("ada", store, two, first.revision)
    with pytest.raises(RevisionMovedError) as error:
        pushing.push_user_space("ada", store, one, first.revision)

    assert (second.revision, second.user_manifest_hash) == (2, two)
    assert str(error.value) == "the user space has moved: expected revision 1, found 2"


def test_a_project_manifest_is_refused_as_user_space(pushing: PushService, store: Store) -> None:
    with pytest.raises(ManifestGraphError):
        pushing.push_user_space("ada", store, put_project(store, {"a": b""}), None)


def test_every_push_that_was_accepted_is_in_the_history(push: Push, store: Store) -> None:
    push(b"start")

    def push_until_accepted(number: int) -> str:
        expected: str | None = None
        while True:
            try:
                return push(b"%d" % number, expected).snapshot_hash
            except HeadMovedError as error:
                expected = error.actual.snapshot_hash if error.actual else None

    with ThreadPoolExecutor(12) as pool:
        accepted = list(pool.map(push_until_accepted, range(24)))

    with pytest.raises(HeadMovedError) as error:
        push(b"end", NOWHERE)
    assert error.value.actual
    history = [digest for digest, _ in first_parents(store, error.value.actual.snapshot_hash)]
    assert sorted(history[:-1]) == sorted(accepted)
