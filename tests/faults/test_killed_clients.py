"""A client is killed at any time; the same command again has the result of an undisturbed one."""

import os
import random
from threading import Timer

import pytest

from tests.support.endings import wait_until
from tests.support.node_proxy import Proxy, Stage
from tests.support.remote_client import Client, Running, files_there, history

BEFORE, HALF, AFTER = Stage.BEFORE, Stage.HALF, Stage.AFTER
KILLED = -9
pytestmark = [pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does"), pytest.mark.heavy]


def kill_at(proxy: Proxy, client: Client, path: str, stage: Stage, *argv: str) -> None:
    """Run a command that is killed when a request of it has come so far."""
    started: list[Running] = []

    def kill() -> None:
        started[0].kill()

    proxy.trap(path, stage, kill)
    started.append(client.start(*argv))
    assert started[0].ended().status == KILLED
    assert not proxy.is_trap_left


# --- a push ---------------------------------------------------------------------------------------

PUSH_STAGES = [
    ("/public-key", AFTER),
    ("/history", AFTER),
    ("/objects/has", AFTER),
    ("/objects/put", BEFORE),
    ("/objects/put", HALF),
    ("/objects/put", AFTER),
    ("/push/user-space", HALF),
    ("/push/user-space", AFTER),
    ("/push", BEFORE),
    ("/push", HALF),
    ("/push", AFTER),
]


@pytest.mark.parametrize(("path", "stage"), PUSH_STAGES)
def test_a_push_that_was_killed_can_be_done_again(
    proxy: Proxy, client: Client, path: str, stage: Stage
) -> None:
    kill_a_push_and_do_it_again(proxy, client, path, stage)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("/public-key", AFTER),
        ("/objects/put", HALF),
        ("/push/user-space", AFTER),
        ("/push", BEFORE),
        ("/push", AFTER),
    ],
)
def test_a_push_of_the_built_file_that_was_killed_can_be_done_again(
    proxy: Proxy, built_client: Client, path: str, stage: Stage
) -> None:
    kill_a_push_and_do_it_again(proxy, built_client, path, stage)


def kill_a_push_and_do_it_again(proxy: Proxy, client: Client, path: str, stage: Stage) -> None:
    """A second push, which is killed there: all is as before or as after it, and both fix."""
    first = client.push().snapshot_hash
    before = files_there(client.user)
    client.write({"src/0.txt": "changed\n", "src/new.txt": "new\n"})
    client.workspace.user.signed_tool("new")
    here = client.files()

    kill_at(proxy, client, path, stage, "remote", "push")

    assert client.files() == here
    assert recorded_hash(client) == first
    has_moved = (path, stage) == ("/push", AFTER)
    assert files_there(client.user) == (here if has_moved else before)

    again = client("remote", "push")

    assert again.status == 0, again.stderr
    assert client.files() == here == files_there(client.user)
    assert history(client.user) == [recorded_hash(client), first]


def test_a_first_push_that_was_killed_can_be_done_again(proxy: Proxy, client: Client) -> None:
    kill_at(proxy, client, "/push", AFTER, "remote", "push")
    assert client.recorded() is None

    again = client("remote", "push")

    assert again.status == 0, again.stderr
    assert history(client.user) == [recorded_hash(client)]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_push_whose_answer_was_lost_is_no_conflict_with_the_next_change(
    proxy: Proxy, client: Client, *, is_first: bool
) -> None:
    if not is_first:
        client.push()
    client.write({"src/0.txt": "one\n"})
    kill_at(proxy, client, "/push", AFTER, "remote", "push")
    client.write({"src/0.txt": "two\n"})

    again = client("remote", "push")

    assert again.status == 0, again.stderr
    assert files_there(client.user) == client.files()
    assert client.files()["src/0.txt"] == b"two\n"
    assert len(history(client.user)) == (2 if is_first else 3)


def recorded_hash(client: Client) -> str:
    recorded = client.recorded()
    assert recorded is not None
    return recorded.snapshot_hash


# --- pulls and outputs ----------------------------------------------------------------------------

MANY = 300


def many(text: str) -> dict[str, str]:
    """Files that are changed all at once."""
    return {f"src/{number % 10}/{number}.txt": f"{number} {text}\n" for number in range(MANY)}


@pytest.fixture
def behind(client: Client, other: Client) -> Client:
    """A client whose node has many changes for it."""
    client.write({**many("old"), "src/gone.txt": "old\n"})
    client.push()
    other.pull()
    other.write(many("new"))
    (other.root / "src/gone.txt").unlink()
    (other.root / "src/deep/er").mkdir(parents=True)
    other.write({"src/deep/er/added.txt": "new\n"})
    other.push()
    return client


def is_old_or_new(client: Client, other: Client, before: dict[str, bytes]) -> bool:
    """Whether each file is as it was, or as it is to be, and nothing else is there."""
    new, found = other.files(), client.files()
    return all(
        found.get(path) in {before.get(path), new.get(path)} for path in {*before, *new, *found}
    )


def kill_after(running: Running, proxy: Proxy, seconds: float) -> None:
    """Kill a client so long after it has requested content, or has nothing to request."""
    wait_until(lambda: "/objects/get" in proxy.requests or running.is_over)
    timer = Timer(seconds, running.kill)
    timer.start()
    running.ended()
    timer.cancel()


@pytest.mark.parametrize("stage", [BEFORE, AFTER])
def test_a_pull_that_was_killed_during_its_requests_has_changed_nothing(
    proxy: Proxy, behind: Client, other: Client, stage: Stage
) -> None:
    before, recorded = behind.files(), behind.recorded()

    kill_at(proxy, behind, "/objects/get", stage, "remote", "pull")

    assert (behind.files(), behind.recorded()) == (before, recorded)
    assert behind("remote", "pull").status == 0
    assert behind.files() == other.files()


@pytest.mark.parametrize("command", ["pull", "push"])
def test_files_are_old_or_new_when_a_client_is_killed_while_it_writes_them(
    behind: Client, other: Client, command: str
) -> None:
    before, recorded = behind.files(), behind.recorded()
    running = behind.start("remote", command)
    removed = behind.root / "src/gone.txt"  # the first of all that is changed

    wait_until(lambda: not removed.exists() or running.is_over)
    running.kill()

    assert running.ended().status == KILLED
    assert behind.recorded() == recorded
    assert is_old_or_new(behind, other, before)
    again = behind("remote", command)
    assert again.status == 0, again.stderr
    assert behind.files() == other.files() == files_there(behind.user)
    assert recorded_hash(behind) == history(behind.user)[0]


def test_whenever_a_client_is_killed_files_are_old_or_new(
    proxy: Proxy, behind: Client, other: Client
) -> None:
    times = random.Random(7)  # noqa: S311 - when to kill is no secret
    before = behind.files()
    for _ in range(6):
        kill_after(behind.start("remote", "pull"), proxy, times.uniform(0.0, 0.08))
        assert is_old_or_new(behind, other, before)
        assert recorded_hash(behind) != recorded_hash(other) or behind.files() == other.files()

    assert behind("remote", "pull").status == 0
    assert behind.files() == other.files()


def test_a_local_change_outlives_kills_while_others_are_merged_in(
    behind: Client, other: Client
) -> None:
    behind.write({"src/mine.txt": "mine\n"})
    running = behind.start("remote", "push")
    wait_until(lambda: not (behind.root / "src/gone.txt").exists() or running.is_over)
    running.kill()
    running.ended()

    again = behind("remote", "push")

    assert again.status == 0, again.stderr
    assert behind.files() == {**other.files(), "src/mine.txt": b"mine\n"}
    assert files_there(behind.user) == behind.files()


# --- files of a run -------------------------------------------------------------------------------

MAKE = f"""
from pathlib import Path

def execute(params, project_path):
    for number in range({MANY}):
        page = Path(project_path, f".ai/knowledge/state/page-{{number}}.txt")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("all of it\\n" * 1000, encoding="utf-8")
    Path(project_path, "src/0.txt").write_text("made there\\n", encoding="utf-8")
    return "made"
"""


def make(client: Client) -> None:
    """Have a tool that leaves much behind."""
    client.workspace.project.signed_tool("make", MAKE, executor="rye/core/runtimes/python/function")


def test_outputs_are_whole_or_absent_when_a_client_is_killed_while_it_writes_them(
    client: Client,
) -> None:
    make(client)
    pages = client.root / ".ai/knowledge/state"
    before = client.files()
    running = client.start("remote", "execute", "make")

    wait_until(lambda: pages.exists() or running.is_over, 60)
    running.kill()

    assert running.ended().status == KILLED
    for path, content in client.files().items():
        assert content in {before.get(path), b"all of it\n" * 1000}, path
        assert not path.endswith(".tmp")
    again = client("remote", "execute", "make")
    assert again.status == 0, again.stderr
    assert len(list(pages.iterdir())) == MANY
    assert client.files()["src/0.txt"] == b"made there\n"


@pytest.mark.parametrize("stage", [BEFORE, AFTER])
def test_changes_of_a_run_are_not_lost_with_its_client(
    proxy: Proxy, client: Client, stage: Stage
) -> None:
    make(client)
    kill_at(proxy, client, "/execute", stage, "remote", "execute", "make", "--json")

    again = client("remote", "pull" if stage is AFTER else "push")

    assert again.status == 0, again.stderr
    made = b"made there\n" if stage is AFTER else b"0\n"
    assert client.files()["src/0.txt"] == made
    assert files_there(client.user)["src/0.txt"] == made
