"""No room is left on the disk of a client or of a node: nothing is lost, and room mends it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ryeos.items import Space
from tests.support.node import Node, running_node
from tests.support.programs import require_program
from tests.support.remote_client import client_of, files_there, history

pytestmark = pytest.mark.skipif(os.name == "nt", reason="mounts of POSIX")

Enlarge = Callable[[], None]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Enlarge]:
    """A file system of this size while a block runs; gives what makes it large."""
    mount, umount = require_program("mount"), require_program("umount")
    folder.mkdir()
    argv = [str(mount), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting needs a privilege: {done.stderr.decode().strip()}")
    larger = [str(mount), "-o", "remount,size=256m", str(folder)]

    def enlarge() -> None:
        subprocess.run(larger, check=True)

    try:
        yield enlarge
    finally:
        subprocess.run([str(umount), "-l", str(folder)], check=True)


def test_a_pull_without_room_is_named_and_loses_nothing(
    tmp_path: Path, bundle: Space, shared_node: Node
) -> None:
    with small_disk(tmp_path / "disk", "1m") as enlarge:
        here = client_of(tmp_path / "disk" / "here", bundle, shared_node, shared_node.url)
        here.write({"src/0.txt": "old\n"})
        here.push()
        there = client_of(tmp_path / "there", bundle, shared_node, shared_node.url, here.user)
        there.pull()
        there.write({f"src/{n}.txt": f"{n}" * 100_000 for n in range(20)})
        there.push()
        before, recorded = here.files(), here.recorded()

        refused = here("remote", "pull")

        assert refused.status == 1, refused.stderr
        assert "no space left on device" in refused.stderr
        assert "Traceback" not in refused.stderr
        new = there.files()
        assert all(
            content in {before.get(path), new[path]} for path, content in here.files().items()
        )
        assert {*before} <= {*here.files()}
        assert here.recorded() == recorded
        enlarge()
        again = here("remote", "pull")
        assert again.status == 0, again.stderr
        assert here.files() == new


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[tuple[Node, Enlarge]]:
    """A node on a small disk."""
    with (
        small_disk(tmp_path / "disk", "3m") as enlarge,
        running_node(tmp_path / "disk" / "node") as node,
    ):
        yield node, enlarge


def test_a_push_that_does_not_fit_on_a_nodes_disk_is_refused_and_the_head_stays(
    tmp_path: Path, bundle: Space, cramped: tuple[Node, Enlarge]
) -> None:
    node, enlarge = cramped
    client = client_of(tmp_path / "here", bundle, node, node.url)
    client.write({"src/0.txt": "old\n"})
    first = client.push().snapshot_hash
    before = client.files()
    client.write({f"src/{n}.bin": os.urandom(50_000).hex() for n in range(60)})

    refused = client("remote", "push")

    assert refused.status == 7, refused.stderr
    assert "refused with status 507: no room left on the disk, error " in refused.stderr
    assert str(node.data) not in refused.stderr
    assert node.ask("GET", "/health").status == 200
    enlarge()
    assert history(client.user) == [first]
    assert files_there(client.user) == before
    again = client("remote", "push")
    assert again.status == 0, again.stderr
    assert files_there(client.user) == client.files()
