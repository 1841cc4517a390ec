"""No room is left on the disk of a client or of a node: nothing is lost, and room fixes it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.refs import Space
from tests.support.endings import wait_until
from tests.support.node import Node, running_node
from tests.support.programs import require_program
from tests.support.remote_client import Client, Ended, client_of, files_there, history
from tests.support.remote_projects import FUNCTION

pytestmark = [pytest.mark.skipif(os.name == "nt", reason="mounts of POSIX"), pytest.mark.heavy]

Enlarge = Callable[[], None]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Enlarge]:
    """A file system of this size while a block runs; yields a function that enlarges it."""
    mount, umount = require_program("mount"), require_program("umount")
    folder.mkdir()
    argv = [str(mount), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting needs a privilege: {done.stderr.decode().strip()}")
    larger = [str(mount), "-o", "remount,size=32m", str(folder)]

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


# --- files of a run -------------------------------------------------------------------------------

PAGE, MOST_SPARE_PAGES = 4096, 14
REFUSED = 7
FULL = "no room is left on the disk of the node: nothing that the run changed was taken"
WAIT = """
from pathlib import Path
from threading import Event

def execute(params, project_path):
    Path(project_path, "written").touch()
    while not params.get("is_hasty") and not Path(project_path, "go").exists():
        Event().wait(0.01)
    return "made"
"""
MAKE = """
from pathlib import Path
from threading import Event

def execute(params, project_path):
    for number in range(12):
        Path(project_path, f"src/{number}.txt").write_text(params["text"] * 900, encoding="utf-8")
    page = Path(project_path, ".ai/knowledge/state/page.txt")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(params["text"] * 900, encoding="utf-8")
    Path(project_path, "written").touch()
    while not Path(project_path, "go").exists():
        Event().wait(0.01)
    return "made"
"""


def fill(folder: Path, spare_pages: int) -> Path:
    """Fill the file system of a folder but for so many pages; the file that does it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(PAGE)):
            pass
    os.truncate(filler, max(filler.stat().st_size // PAGE - spare_pages, 0) * PAGE)
    return filler


def made_while_full(client: Client, text: str, spare_pages: int) -> Ended:
    """A run whose node has only so much room left once its tool is done."""
    data = client.user.node.data
    running = client.start("remote", "execute", "make", f"text={text}", "--json")
    wait_until(lambda: bool([*data.glob("workspaces/*/*/*/project/written")]) or running.is_over)
    (project,) = data.glob("workspaces/*/*/*/project")
    filler = fill(data.parent, spare_pages)
    (project / "go").touch()
    ended = running.ended()
    filler.unlink()
    return ended


def rows(client: Client) -> list[dict[str, Any]]:
    """The rows of all runs, the newest first: one may need room to say how its run ended."""
    reply = client.user.ask("GET", "/threads?limit=100")
    assert reply.status == 200, reply.json
    return list(reply.json["threads"])


def test_a_run_whose_change_does_not_fit_on_a_nodes_disk_is_an_error_and_head_is_old_or_new(
    tmp_path: Path, bundle: Space, cramped: tuple[Node, Enlarge]
) -> None:
    node, enlarge = cramped
    enlarge()
    client = client_of(tmp_path / "here", bundle, node, node.url)
    client.workspace.project.signed_tool("make", MAKE, executor=FUNCTION)
    client.write({"src/0.txt": "old\n"})
    client.push()
    statuses: list[int] = []
    ends: dict[str, tuple[str, str | None, str | None]] = {}
    for spare in range(MOST_SPARE_PAGES):
        before, heads, here = files_there(client.user), history(client.user), client.files()

        ended = made_while_full(client, f"{spare:03}", spare)

        statuses.append(ended.status)
        assert str(node.data) not in f"{ended.stdout}{ended.stderr}"
        if ended.status:
            detail = ended.json["detail"]
            assert (ended.json["http_status"], detail["error"]) == (507, FULL)
            ends[detail["thread_id"]] = ("error", FULL, "storage")
            assert history(client.user) == heads
            assert files_there(client.user) == before
            assert client.files() == here
        else:
            ends[ended.json["thread_id"]] = ("completed", None, None)
            assert history(client.user)[1:] == heads
            assert files_there(client.user)["src/7.txt"] == f"{spare:03}".encode() * 900
    assert (statuses[0], statuses[-1]) == (REFUSED, 0)
    wait_until(lambda: all(row["state"] != "running" for row in rows(client)))
    assert {
        row["thread_id"]: (row["state"], row["error_message"], row["error_phase"])
        for row in rows(client)
    } == ends
    assert node.ask("GET", "/health").status == 200


def test_a_run_that_has_only_its_result_to_store_is_an_error_too_and_the_next_one_works(
    tmp_path: Path, bundle: Space, cramped: tuple[Node, Enlarge]
) -> None:
    node, _ = cramped
    client = client_of(tmp_path / "here", bundle, node, node.url)
    client.workspace.project.signed_tool("make", WAIT, executor=FUNCTION)
    client.push()
    heads = history(client.user)

    ended = made_while_full(client, "", 0)

    assert ended.json["detail"]["error"] == FULL
    wait_until(lambda: rows(client)[0]["state"] != "running")
    (row,) = rows(client)
    assert (row["state"], row["error_message"]) == ("error", FULL)
    assert history(client.user) == heads
    again = client("remote", "execute", "make", "text=", "is_hasty:=true")
    assert again.status == 0, again.stderr
