"""Where a project keeps what it has in common with nodes. No link in it leads anywhere else."""

from contextlib import suppress
from pathlib import Path

from lillux.files import create_file, is_inside, make_directory
from lillux.store import Store
from ryeos.errors import RyeError

INCOMING = "incoming"
_IGNORE = b"# Of this machine only.\n*\n"


class RemotePlaceError(RyeError):
    """A folder of the project's state is a link, or leads outside ``.ai``."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: expected a folder of the project's own, found a link",
            hint="remove the link, and look who put it there",
        )


def project_store(ai: Path) -> Store:
    """The store of a project. Raises RemotePlaceError, FileSystemError."""
    folder = ai / "state" / "objects"
    return Store(own_folder(folder, ai))


def own_folder(folder: Path, ai: Path) -> Path:
    """The folder, made if it is missing and kept out of version control. Raises as above."""
    if not is_inside(folder, ai) or folder.is_symlink() or folder.parent.is_symlink():
        raise RemotePlaceError(str(folder))
    make_directory(folder)
    with suppress(FileExistsError):
        create_file(folder / ".gitignore", _IGNORE)
    return folder


def incoming_folder(remote_folder: Path, ai: Path) -> Path:
    """Where files are written before they come to their places. Raises as `own_folder`."""
    return own_folder(remote_folder / INCOMING, ai)


def new_incoming_folder(remote_folder: Path, ai: Path) -> Path:
    """The same without what a killed process left in it."""
    folder = incoming_folder(remote_folder, ai)
    for left in folder.glob(".*.tmp"):
        with suppress(OSError):
            left.unlink()
    return folder
