"""A first pull is killed while its files come to their places."""

import os
import random
from pathlib import Path
from threading import Timer

import pytest

from tests.support.endings import wait_until
from tests.support.node_proxy import Proxy, Stage
from tests.support.remote_client import Client, Running, files_there

MANY = 600
KILLED = -9
pytestmark = [pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does"), pytest.mark.heavy]


@pytest.fixture
def project(client: Client) -> Client:
    """A project of many files on the node."""
    folders = 12
    client.write({f"src/{one % folders}/{one}.txt": f"{one} new\n" for one in range(MANY)})
    client.push()
    return client


def arrived(client: Client) -> Path:
    """Where content is before it comes to its place."""
    return client.root / ".ai/state/remote/default/arrived"


def names_of_files(client: Client) -> set[int]:
    """How many names the files of the project have."""
    files = [path for path in (client.root / "src").rglob("*") if path.is_file()]
    return {path.stat().st_nlink for path in files}


def test_files_are_absent_or_whole_whenever_a_first_pull_is_killed(
    project: Client, other: Client
) -> None:
    times = random.Random(7)  # noqa: S311 - when to kill is no secret
    empty, full = other.files(), project.files()
    for _ in range(5):
        running = other.start("remote", "pull")
        wait_until(lambda: arrived(other).is_dir() or running.is_over)  # noqa: B023 - of this round
        timer = Timer(times.uniform(0.0, 0.2), running.kill)
        timer.start()
        running.ended()
        timer.cancel()
        found = other.files()
        assert {path: full.get(path, empty.get(path)) for path in found} == found

    again = other("remote", "pull")

    assert again.status == 0, again.stderr
    assert other.files() == full == files_there(project.user)
    assert names_of_files(other) == {1}
    assert not arrived(other).exists()


def test_a_first_pull_that_was_killed_during_its_requests_has_written_nothing(
    proxy: Proxy, tmp_path: Path, project: Client
) -> None:
    project.root.joinpath("src").rename(tmp_path / "aside")
    project.root.joinpath(".ai/state").rename(tmp_path / "state")
    started: list[Running] = []

    def kill() -> None:
        started[0].kill()

    proxy.trap("/objects/get", Stage.AFTER, kill)
    started.append(project.start("remote", "pull"))
    assert started[0].ended().status == KILLED
    assert not project.root.joinpath("src").exists()

    again = project("remote", "pull")

    assert again.status == 0, again.stderr
    assert project.files() == files_there(project.user)
