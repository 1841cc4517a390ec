"""The place of threads: the registry, and a folder each. A project is foreign data.

``.ai/state/threads/`` of the project, where it has an ``.ai``; else of user space. No link of a
project leads a read or a write out of its ``.ai``.
"""

from pathlib import Path

from lillux.contained_paths import is_inside, safe_join
from lillux.errors import UnsafePathError
from lillux.files import create_file, is_directory, make_directory
from lillux.values import dataclass
from ryeos.items.refs import Spaces
from ryeos.run.threads.errors import registry_error
from ryeos.run.threads.ids import valid_thread_id

REGISTRY, DOCUMENT, RUNNER, LOG = "registry.db", "thread.json", "runner.json", "spawn.log"
GRANTS, CANCEL = "grants.json", "cancel"
_PRIVATE = 0o700
_IGNORE = b"# Runs of this machine only.\n*\n"


@dataclass(frozen=True, slots=True)
class ThreadsPlace:
    """The threads below one ``.ai`` folder; ``within`` is the project that it is of, if any."""

    ai: Path
    within: Path | None = None

    @property
    def root(self) -> Path:
        """The folder from which everything here is written without links."""
        return self.within or self.ai

    @property
    def folder(self) -> Path:
        """The folder of everything about threads."""
        return self.ai / "state" / "threads"

    @property
    def registry(self) -> Path:
        """The database."""
        return self.folder / REGISTRY

    def require_inside(self) -> None:
        """Refuse a folder that a link leads out of ``.ai``. Raises RyeError `REGISTRY_INVALID`."""
        if not is_inside(self.folder, self.ai):
            raise registry_error(
                str(self.folder),
                f"leads outside {self.ai} through a link",
                hint="remove the link; threads are kept in a folder of their own",
            )

    def make(self) -> None:
        """Make the folder, and keep it out of version control. Raises FileSystemError."""
        self.require_inside()
        if not is_directory(self.root):  # a user space that is not there yet
            make_directory(self.root)
        make_directory(self.folder, mode=_PRIVATE, within=self.root)
        try:
            create_file(self.folder / ".gitignore", _IGNORE, within=self.root)
        except FileExistsError:
            return

    def thread_folder(self, thread_id: str) -> Path:
        """The folder of a thread, which may not be there.

        Raises RyeError `INVALID_REF` or `REGISTRY_INVALID`.
        """
        return self._within(valid_thread_id(thread_id))

    def make_thread_folder(self, thread_id: str) -> Path:
        """Make it. Raises as `thread_folder`, FileSystemError."""
        folder = self.thread_folder(thread_id)
        if not is_directory(self.root):
            make_directory(self.root)
        make_directory(folder, mode=_PRIVATE, within=self.root)
        return folder

    def file(self, thread_id: str, name: str) -> Path:
        """The path of a file in a thread's folder, no link of which leads out of there."""
        return self._within(f"{valid_thread_id(thread_id)}/{name}")

    def _within(self, relative: str) -> Path:
        self.require_inside()
        try:
            return safe_join(self.folder, relative)
        except UnsafePathError as error:
            raise registry_error(
                str(self.folder / relative), error.problem, hint="remove the link"
            ) from None


def threads_place(spaces: Spaces) -> ThreadsPlace:
    """The place of the threads of these spaces."""
    project = spaces.project
    if project is not None and is_directory(project.ai):
        return ThreadsPlace(project.ai, project.within)
    return ThreadsPlace(spaces.user.ai)
