"""Where graph runs are kept, as threads are: below the project's ``.ai``, else user space's."""

from pathlib import Path

from lillux.errors import UnsafePathError
from lillux.files import create_file, is_directory, is_inside, make_directory, safe_join
from lillux.store import Store
from lillux.values import dataclass
from ryeos.graph.run_errors import RunPlaceError
from ryeos.graph.run_ids import check_run_id
from ryeos.items import Space, Spaces

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
        folder = self.runs / check_run_id(run_id)
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
        make_directory(self.runs, mode=_PRIVATE)
        make_directory(self.objects)
        make_directory(folder, mode=_PRIVATE)
        for kept in (self.runs, self.objects):  # no run belongs into version control
            _ignore(kept)
        return folder

    def _require_own(self, folder: Path) -> None:
        if not is_inside(folder, self.ai) or folder.is_symlink() or folder.parent.is_symlink():
            raise RunPlaceError(str(folder), "expected a folder, found a link")


def run_place(spaces: Spaces) -> RunPlace:
    """Where the runs of these spaces are kept."""
    project = spaces.project
    if project is not None and is_directory(project.ai):
        return RunPlace(project)
    return RunPlace(spaces.user)


def _ignore(folder: Path) -> None:
    try:
        create_file(folder / ".gitignore", _IGNORE)
    except FileExistsError:
        return
