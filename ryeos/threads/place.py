"""Where threads are kept: the registry, and a folder each. A project is somebody else's data.

``.ai/state/threads/`` of the project, where it has an ``.ai``; else of user space. No link of a
project leads a read or a write out of its ``.ai``.
"""

from pathlib import Path

from lillux.errors import UnsafePathError
from lillux.files import create_file, is_directory, is_inside, make_directory, safe_join
from lillux.values import dataclass
from ryeos.items import Spaces
from ryeos.threads.errors import RegistryError
from ryeos.threads.ids import check_thread_id

REGISTRY, DOCUMENT, RUNNER, LOG = "registry.db", "thread.json", "runner.json", "spawn.log"
GRANTS, CANCEL = "grants.json", "cancel"
_PRIVATE = 0o700
_IGNORE = b"# Runs of this machine only.\n*\n"


@dataclass(frozen=True, slots=True)
class ThreadsPlace:
    """The threads below one ``.ai`` folder."""

    ai: Path

    @property
    def folder(self) -> Path:
        """The folder of everything about threads."""
        return self.ai / "state" / "threads"

    @property
    def registry(self) -> Path:
        """The database."""
        return self.folder / REGISTRY

    def require_inside(self) -> None:
        """Refuse a folder that a link leads out of ``.ai``. Raises RegistryError."""
        if not is_inside(self.folder, self.ai):
            raise RegistryError(
                str(self.folder),
                f"leads outside {self.ai} through a link",
                hint="remove the link; threads are kept in a folder of their own",
            )

    def make(self) -> None:
        """Make the folder, and keep it out of version control. Raises FileSystemError."""
        self.require_inside()
        make_directory(self.folder, mode=_PRIVATE)
        try:
            create_file(self.folder / ".gitignore", _IGNORE)
        except FileExistsError:
            return

    def thread_folder(self, thread_id: str) -> Path:
        """The folder of a thread, which may not be there. Raises ThreadIdError, RegistryError."""
        return self._within(check_thread_id(thread_id))

    def make_thread_folder(self, thread_id: str) -> Path:
        """Make it. Raises as `thread_folder`, FileSystemError."""
        folder = self.thread_folder(thread_id)
        make_directory(folder, mode=_PRIVATE)
        return folder

    def file(self, thread_id: str, name: str) -> Path:
        """The path of a file in a thread's folder, no link of which leads out of there."""
        return self._within(f"{check_thread_id(thread_id)}/{name}")

    def _within(self, relative: str) -> Path:
        self.require_inside()
        try:
            return safe_join(self.folder, relative)
        except UnsafePathError as error:
            raise RegistryError(
                str(self.folder / relative), error.problem, hint="remove the link"
            ) from None


def threads_place(spaces: Spaces) -> ThreadsPlace:
    """Where the threads of these spaces are kept."""
    project = spaces.project
    if project is not None and is_directory(project.ai):
        return ThreadsPlace(project.ai)
    return ThreadsPlace(spaces.user.ai)
