"""``rye.pyz`` as the checkout builds it now, and ways to start it."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, Unpack

import pytest

from lillux.file_locks import locked
from packing import remove_outdated
from packing.checkout import source_digest
from packing.interpreters import interpreters

ROOT = Path(__file__).resolve().parents[2]
PACKED = ("bundle.ai", "lillux", "lillux_native", "packing", "requirements", "ryeos", "zipboot")
ANY_BUILD_S, UNUSED_S = 600, 24 * 3600

# Without the libraries of the environment that runs the tests: the file has to bring its own. That
# of scripts/test also loads no package of this machine at each start.
_BARE_PYTHON = ROOT / "build" / "bare-python" / "bin" / "python"
BASE_PYTHON = (
    _BARE_PYTHON
    if _BARE_PYTHON.exists()
    else Path(getattr(sys, "_base_executable", sys.executable))
)


@pytest.fixture(scope="session")
def built_pyz() -> Path:
    """The built file, made once for each state of the sources; no test writes to it."""
    builds = ROOT / "build" / "tested"
    pythons = "-".join(f"3{minor}" for minor in interpreters())
    tag = f"{sys.implementation.cache_tag}-{pythons}"
    pyz = builds / f"{tag}-{source_digest(ROOT, PACKED)}" / "rye.pyz"
    with locked(builds / "lock", timeout_s=ANY_BUILD_S):
        if not pyz.is_file():
            build_pyz(ROOT, "--host", "--pythons", "all", "--out", str(pyz.parent))
            remove_outdated(builds, keep=pyz.parent, before_s=time.time() - UNUSED_S)
    return pyz


@pytest.fixture(scope="session")
def built_node_pyz() -> Path:
    """The built file of the node, as `built_pyz`."""
    return _built_node("node")


@pytest.fixture(scope="session")
def built_cluster_pyz() -> Path:
    """The built file of the node in the edition for clusters, as `built_pyz`."""
    if sys.platform != "linux":
        pytest.skip("the edition for clusters is for Linux")
    return _built_node("cluster", "--edition", "cluster")


def _built_node(kind: str, *arguments: str) -> Path:
    builds = ROOT / "build" / "tested"
    digest = source_digest(ROOT, (*PACKED, "rye_services"))
    pyz = builds / f"{kind}-{sys.implementation.cache_tag}-{digest}" / "rye-node.pyz"
    with locked(builds / "lock", timeout_s=ANY_BUILD_S):
        if not pyz.is_file():
            build_pyz(ROOT, "--node", *arguments, "--out", str(pyz.parent))
            remove_outdated(builds, keep=pyz.parent, before_s=time.time() - UNUSED_S)
    return pyz


def build_pyz(checkout: Path, *arguments: str, **environ: str) -> str:
    """Run ``build_zipapp.py`` of a checkout; its output. A failure fails the test."""
    command: list[str | Path] = [sys.executable, checkout / "build_zipapp.py", *arguments]
    ended = run(command, environ=os.environ | environ, cwd=checkout)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Start(TypedDict, total=False):
    """How a program is started."""

    environ: Mapping[str, str]
    cwd: Path
    umask: int
    user: int


def run(command: list[str | Path], **start: Unpack[Start]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nothing on standard input."""
    return subprocess.run(
        command,
        env=start.get("environ"),
        cwd=start.get("cwd"),
        umask=start.get("umask", -1),
        user=start.get("user"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


class Machine:
    """A home, a project and a temporary folder of their own, and Rye in some form.

    With ``caches`` it starts with unpacked files there, as after a first start.
    """

    def __init__(self, folder: Path, *rye: str | Path, caches: Path | None = None) -> None:
        self.rye = rye
        self.home, self.project = folder / "home", folder / "project"
        self.temporary = folder / "tmp"
        self.variables = {"XDG_CACHE_HOME": str(caches)} if caches else dict[str, str]()
        for made in (self.home, self.project, self.temporary):
            made.mkdir()
        self.cache = (caches or self.home / ".cache") / "rye"

    def environ(self, **more: str) -> dict[str, str]:
        """Where programs are, of the environment of the tests, and the machine's variables."""
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        places = {"HOME": str(self.home), "USERPROFILE": str(self.home)}
        return kept | places | {"TMPDIR": str(self.temporary)} | self.variables | more

    def run(self, *arguments: str, **start: Unpack[Start]) -> subprocess.CompletedProcess[str]:
        """Rye with the arguments, in the project."""
        settings: Start = {"environ": self.environ(), "cwd": self.project}
        return run([*self.rye, *arguments], **(settings | start))

    def ask(self, *arguments: str, **start: Unpack[Start]) -> str:
        """The output of Rye. A failure fails the test with all of standard error."""
        ended = self.run(*arguments, **start)
        assert (ended.stderr, ended.returncode) == ("", 0)
        return ended.stdout
