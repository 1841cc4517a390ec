"""A published bundle installed by the built file: fetched, checked to the last file, written."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.timing import Figure, medians
from tests.support.bundles import Publisher, echo_tool
from tests.support.registry import Registry, running_registry
from tests.support.workspace import PLAIN_ENV

FILES, ROUNDS = 500, 9
_WORDS = ("find", "the", "rows", "that", "somebody", "asked", "for", "and", "count", "them")


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """A row for a bundle of 500 files; its floor is the same files, written anew."""
    folder = scratch / "bundle_pull"
    folder.mkdir()
    with running_registry(folder / "registry") as registry:
        here = Installer(folder / "here", pyz, registry)
        bundle = here.published()
        times = medians(
            {"install": here.install, "write": lambda: _copied(bundle, folder / "copy")}, ROUNDS
        )
    yield Figure(
        f"bundle, install of {FILES} files", times["install"], "written", times["write"], "1 s"
    )


class Installer:
    """A user whose machine has no bundle yet; each installation is a whole process."""

    def __init__(self, folder: Path, pyz: Path, registry: Registry) -> None:
        self.folder, self._pyz = folder, pyz
        account = registry.account()
        self.bundle_id = f"{account.name}-bench"
        for name in ("home", "project", "published"):
            (folder / name).mkdir(parents=True)
        self._env = {**PLAIN_ENV, "HOME": str(folder / "home"), "REG_KEY": account.token}
        self.rye("keys", "generate")
        self.rye("registry", "login", "--url", registry.url, "--key-env", "REG_KEY")

    def published(self) -> Path:
        """Publish the bundle; its folder."""
        random = Random(FILES)  # noqa: S311 - the same words in every run
        files = {
            f"tools/{self.bundle_id}/group{number % 20}/tool{number}.yaml": _tool(
                f"{self.bundle_id}/group{number % 20}", random
            )
            for number in range(FILES)
        }
        bundle = Publisher.at(self.folder / "published").bundle(self.bundle_id, files=files)
        self.rye("bundle", "push", str(bundle))
        return bundle

    def install(self) -> None:
        """Install the bundle on a machine that did not have it."""
        done = self.rye("bundle", "install", self.bundle_id)
        if json.loads(done)["files"] <= FILES:
            raise RuntimeError(done.decode())
        shutil.rmtree(self.folder / "home" / ".ai" / "bundles")
        (self.folder / "home" / ".ai" / "node" / "bundles.json").unlink()

    def rye(self, *words: str) -> bytes:
        """The answer of a command."""
        return subprocess.run(
            [sys.executable, self._pyz, *words, "--json", "-q"],
            env=self._env,
            cwd=self.folder / "project",
            check=True,
            stdout=subprocess.PIPE,
        ).stdout


def _tool(category: str, random: Random) -> str:
    """A tool of about 2 KB."""
    return echo_tool(category, " ".join(random.choices(_WORDS, k=400)))


def _copied(bundle: Path, target: Path) -> None:
    """The files of a bundle, written once more."""
    shutil.copytree(bundle, target)
    shutil.rmtree(target)
