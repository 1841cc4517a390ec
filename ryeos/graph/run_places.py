"""Places of runs: folders below the project's ``.ai`` or user space's.

A run has its folder where threads have theirs; its name is the run's id, made from the graph's.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from lillux.contained_paths import is_inside, require_plain_path, safe_join
from lillux.errors import UnsafePathError
from lillux.files import create_file, is_directory, make_directory
from lillux.store import Store
from lillux.values import dataclass
from ryeos.graph.errors import RunIdError, RunPlaceError
from ryeos.items.refs import Space, Spaces

TRANSCRIPT, LOCK, CANCEL = "transcript.jsonl", "run.lock", "cancel"
_PRIVATE = 0o700
_IGNORE = b"# Runs of this machine only.\n*\n"


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The runs and the objects of one space."""

    space: Space

    @property
    def ai(self) -> Path:
        """Its ``.ai`` folder."""
        return self.space.ai

    @property
    def within(self) -> Path:
        """The folder from which runs are written without links: the project, else ``~/.ai``."""
        return self.space.within or self.ai

    @property
    def runs(self) -> Path:
        """The folder of the runs' folders."""
        return self.ai / "state" / "graphs"

    @property
    def objects(self) -> Path:
        """The root of the store."""
        return self.ai / "state" / "objects"

    def store(self) -> Store:
        """The store of the space. Raises RunPlaceError for one that a link leads elsewhere."""
        self._require_own(self.objects)
        return Store(self.objects)

    def run_file(self, run_id: str, name: str) -> Path:
        """A file of a run, which may not be there. Raises RunIdError, RunPlaceError."""
        self._require_own(self.runs)
        folder = self.runs / valid_run_id(run_id)
        if folder.is_symlink():
            raise RunPlaceError(str(folder), "expected a folder, found a link")
        try:
            return safe_join(folder, name)
        except UnsafePathError as error:
            raise RunPlaceError(str(folder / name), error.problem) from None

    def make(self, run_id: str) -> Path:
        """Make the folder of a run. Raises as `run_file`, FileSystemError."""
        folder = self.run_file(run_id, TRANSCRIPT).parent
        self._require_own(self.objects)
        if not is_directory(self.within):  # a user space that is not there yet
            make_directory(self.within)
        make_directory(self.runs, mode=_PRIVATE, within=self.within)
        make_directory(self.objects, within=self.within)
        make_directory(folder, mode=_PRIVATE, within=self.within)
        for kept in (self.runs, self.objects):  # no run belongs into version control
            with suppress(FileExistsError):
                create_file(kept / ".gitignore", _IGNORE, within=self.within)
        return folder

    def _require_own(self, folder: Path) -> None:
        if not is_inside(folder, self.ai) or folder.is_symlink() or folder.parent.is_symlink():
            raise RunPlaceError(str(folder), "expected a folder, found a link")


def run_place(spaces: Spaces) -> RunPlace:
    """The place of the runs of these spaces."""
    project = spaces.project
    if project is not None and is_directory(project.ai):
        return RunPlace(project)
    return RunPlace(spaces.user)


MAX_ID_BYTES = 200
_LONGEST_GRAPH = 160


def run_id_for(graph_id: str, *, epoch_ms: int, chance: bytes) -> str:
    """``<graph id, each / as ->-<milliseconds>-<4 hex digits>``; a long id keeps its end."""
    name = graph_id.replace("/", "-").lstrip(".-")
    last = name.encode()[-_LONGEST_GRAPH:].decode("utf-8", "ignore")
    return f"{last.lstrip('.-') or 'graph'}-{epoch_ms}-{chance[:2].hex()}"


def new_run_id(graph_id: str) -> str:
    """The id of a run that begins now."""
    return run_id_for(graph_id, epoch_ms=time.time_ns() // 1_000_000, chance=os.urandom(2))


def valid_run_id(run_id: str) -> str:
    """The id, if it may be the name of a folder and of a file. Raises RunIdError."""
    try:
        require_plain_path(run_id)
    except UnsafePathError as error:
        raise RunIdError(run_id, error.problem) from None
    if "/" in run_id:
        raise RunIdError(run_id, "expected no '/'")
    if run_id.startswith("."):
        raise RunIdError(run_id, "starts with a dot")
    if len(run_id.encode("utf-8", "surrogateescape")) > MAX_ID_BYTES:
        raise RunIdError(run_id, f"expected at most {MAX_ID_BYTES} bytes")
    return run_id
