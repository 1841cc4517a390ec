"""git over loopback: a daemon that takes pushes, and the same project as a repository."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_BRANCH = "main"
_READY_S = 20.0


class GitPeer:
    """A repository with the files of a project, and a daemon with bare ones to push it to."""

    def __init__(self, folder: Path, port: int, env: Mapping[str, str]) -> None:
        self._folder, self._port, self._env = folder, port, dict(env)
        self._bare = self._working = folder
        self._clones = 0

    def add(self, project: Path) -> None:
        """Commit a copy of the project."""
        self._working = self._folder / "working"
        shutil.copytree(project, self._working, ignore=shutil.ignore_patterns("state"))
        self._git("init", "--quiet", "--initial-branch", _BRANCH)
        self._git("add", ".")
        self._commit("all")

    def begin(self, name: str) -> None:
        """Push to a new bare repository from now on."""
        self._bare = self._folder / "served" / f"{name}.git"
        self._git("init", "--quiet", "--bare", "--initial-branch", _BRANCH, str(self._bare))

    def change(self, path: str, text: str) -> None:
        """Change one file and commit that."""
        self._working.joinpath(path).write_text(text, encoding="utf-8")
        self._commit("one file")

    def push(self) -> None:
        """Push."""
        self._git("push", "--quiet", self._url, _BRANCH)

    def clone(self) -> None:
        """Clone into an empty folder."""
        self._clones += 1
        self._git("clone", "--quiet", self._url, str(self._folder / f"clone{self._clones}"))

    @property
    def _url(self) -> str:
        return f"git://127.0.0.1:{self._port}/{self._bare.name}"

    def _commit(self, message: str) -> None:
        self._git("commit", "--quiet", "--all", "--message", message)

    def _git(self, *arguments: str) -> None:
        who = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org")
        quiet = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")  # not in the background
        subprocess.run(
            ["git", *who, *quiet, *arguments], cwd=self._working, env=self._env, check=True
        )


@contextmanager
def git_peer(folder: Path, env: Mapping[str, str]) -> Iterator[GitPeer]:
    """The daemon, while the block runs. ``env`` has PATH and a HOME without settings."""
    served = folder / "served"
    served.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    daemon = subprocess.Popen(
        [
            "git",
            "daemon",
            "--reuseaddr",
            "--export-all",
            "--enable=receive-pack",
            "--listen=127.0.0.1",
            f"--port={port}",
            f"--base-path={served}",
            str(served),
        ],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_connection(port)
        yield GitPeer(folder, port, env)
    finally:
        daemon.terminate()
        daemon.wait()


def _await_connection(port: int) -> None:
    until = time.monotonic() + _READY_S
    while time.monotonic() < until:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise TimeoutError("git daemon takes no connection")
