"""A node that has lost content: a client with the project brings it back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import UserStores
from tests.support.node import Node
from tests.support.remote_client import Client, files_there, history

pytestmark = pytest.mark.heavy


@pytest.fixture
def pushed(client: Client) -> Client:
    """A project that was pushed twice."""
    client.workspace.user.signed_tool("mine")
    client.push()
    client.write({"src/0.txt": "second\n"})
    client.push()
    return client


def store_of(client: Client) -> Store:
    """The node's store of the client's user."""
    return UserStores(client.user.node.settings.cas_base_path).of(client.user.user_id)


def head_of(client: Client) -> dict[str, str]:
    """The head's own objects, by their role."""
    snapshot = history(client.user)[0]
    value = store_of(client).get_object(snapshot)
    manifest = value["project_manifest_hash"]
    return {
        "snapshot": snapshot,
        "manifest": manifest,
        "user manifest": value["user_manifest_hash"],
        "file": store_of(client).get_object(manifest)["files"]["src/0.txt"],
    }


def path_of(client: Client, digest: str) -> Path:
    """Where the node has it."""
    store = store_of(client)
    kind = ObjectKind.OBJECT if store.has_object(digest) else ObjectKind.BLOB
    return store.path_of(kind, digest)


def remove(path: Path) -> None:
    """Lose a file."""
    path.unlink()


def cut_short(path: Path) -> None:
    """Empty a file, as a loss of power does."""
    path.write_bytes(b"")


def turn_a_bit(path: Path) -> None:
    """Flip a bit, as a bad disk does: the size stays right."""
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


@pytest.mark.parametrize("what", ["snapshot", "manifest", "user manifest", "file"])
@pytest.mark.parametrize("damage", [remove, cut_short, turn_a_bit])
def test_a_push_with_force_restores_all_content_of_the_head(
    pushed: Client, what: str, damage: Callable[[Path], None]
) -> None:
    before = history(pushed.user)
    damage(path_of(pushed, head_of(pushed)[what]))

    ended = pushed("remote", "push", "--force")

    assert ended.status == 0, ended.stderr
    assert history(pushed.user) == before  # the same head, bit for bit
    assert files_there(pushed.user)["src/0.txt"] == b"second\n"
    assert collected(pushed.user.node, pushed.user.user_id) == "done"


@pytest.mark.parametrize("damage", [remove, turn_a_bit])
def test_a_push_of_a_change_with_force_restores_the_lost_head_first(
    pushed: Client, damage: Callable[[Path], None]
) -> None:
    before = history(pushed.user)
    for digest in head_of(pushed).values():
        damage(path_of(pushed, digest))
    pushed.write({"src/0.txt": "third\n"})

    ended = pushed("remote", "push", "--force")

    assert ended.status == 0, ended.stderr
    assert history(pushed.user)[1:] == before
    assert files_there(pushed.user)["src/0.txt"] == b"third\n"


def test_a_push_with_force_to_an_empty_store_begins_a_new_history(
    pushed: Client,
) -> None:
    lost = history(pushed.user)
    store = store_of(pushed)
    for space in ObjectKind:
        for stored in [*store.stored(space)]:
            store.remove(space, stored.digest)

    ended = pushed("remote", "push", "--force")

    assert ended.status == 0, ended.stderr
    (new,) = history(pushed.user)
    assert new not in lost
    assert files_there(pushed.user)["src/0.txt"] == b"second\n"
    assert collected(pushed.user.node, pushed.user.user_id) == "done"


def test_history_behind_a_lost_head_stays_where_the_head_cannot_be_made_again(
    pushed: Client,
) -> None:
    newest, first = history(pushed.user)
    pushed.write({"src/0.txt": "third\n"})
    pushed.push()
    store = store_of(pushed)
    for digest in (history(pushed.user)[0], newest):  # the snapshot between cannot be found then
        store.remove(ObjectKind.OBJECT, digest)

    ended = pushed("remote", "push", "--force")

    assert ended.status == 0, ended.stderr
    assert len(history(pushed.user)) == 1
    assert [value["hash"] for _, value in store.refs("lost/")] == [first]


def test_a_push_without_force_cuts_no_history(pushed: Client) -> None:
    newest, first = history(pushed.user)
    store = store_of(pushed)
    for digest in (newest, first):
        store.remove(ObjectKind.OBJECT, digest)
    pushed.write({"src/0.txt": "third\n"})

    ended = pushed("remote", "push")

    assert ended.status != 0
    assert "rye remote push --force" in ended.stderr


def collected(node: Node, user_id: str) -> str:
    """The report of a sweep of the node about a user."""
    reply = node.owner.ask("POST", "/gc")
    assert reply.status == 200, reply.json

    return str(next(one["state"] for one in reply.json["users"] if one["user_id"] == user_id))
