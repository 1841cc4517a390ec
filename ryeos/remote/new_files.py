"""Files that are new to a project, put into its folders by one last step each.

The content of each is on the disk already, in a file of ours in another folder. Every folder on
the way is opened by its name in the one above it, and nothing through a link: a link that is
put there later is not followed. Systems without such calls do without this.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lillux.files import file_system_error
from ryeos.sync.paths import UnsafeManifestError

IS_SUPPORTED = {os.open, os.mkdir, os.link, os.rename, os.stat} <= os.supports_dir_fd and (
    os.link in os.supports_follow_symlinks
)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_PLAIN_FOLDER = _FOLDER | getattr(os, "O_NOFOLLOW", 0)
_FOLDER_MODE = 0o755


class NewFiles:
    """Puts files into the folders below ``root``. One user at a time; leaving it closes folders."""

    def __init__(self, root: Path, *, is_supported: bool = IS_SUPPORTED) -> None:
        self._root, self._is_supported = root, is_supported
        self._folder, self._descriptor = "", -1

    def put(self, relative: str, content: str) -> bool:
        """Move the file at the path ``content`` there. Whether that can be done.

        Where it cannot, nothing was changed. ``relative`` has passed
        `ryeos.sync.paths.path_problem`. Raises FileExistsError where something is already, and
        it stays; FileNotFoundError where ``content`` is gone; UnsafeManifestError,
        FileSystemError.
        """
        if not self._is_supported:
            return False
        folder, _, name = relative.rpartition("/")
        descriptor = self._enter(folder, relative)
        try:
            os.link(content, name, dst_dir_fd=descriptor, follow_symlinks=False)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError:  # a file system without links, or another one
            return False
        os.unlink(content)  # noqa: PTH108 - many times
        return True

    def put_folder(self, relative: str, content: str) -> bool:
        """Move the folder at the path ``content`` there, in one step for all that is in it.

        Whether that can be done: not where anything is already, nor from another file system;
        nothing was changed then. Takes and raises what `put` does.
        """
        if not self._is_supported:
            return False
        above, _, name = relative.rpartition("/")
        descriptor = self._enter(above, relative)
        try:
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                return False
            # What appears at this very time stays: only an empty folder can be replaced.
            os.rename(content, name, dst_dir_fd=descriptor)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let go of the folder that was used last."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        """Itself; leaving closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _enter(self, folder: str, relative: str) -> int:
        """A descriptor of the folder, made where it is missing. The next call may close it."""
        if self._descriptor >= 0 and folder == self._folder:
            return self._descriptor
        self.close()
        try:
            self._descriptor = os.open(self._root, _FOLDER)
        except OSError as error:
            raise file_system_error(self._root, error) from error
        above = self._root
        for segment in folder.split("/") if folder else ():
            above /= segment
            self._descend(segment, above, relative)
        self._folder = folder
        return self._descriptor

    def _descend(self, segment: str, path: Path, relative: str) -> None:
        try:
            try:
                inner = os.open(segment, _PLAIN_FOLDER, dir_fd=self._descriptor)
            except FileNotFoundError:
                os.mkdir(segment, _FOLDER_MODE, dir_fd=self._descriptor)
                inner = os.open(segment, _PLAIN_FOLDER, dir_fd=self._descriptor)
        except OSError as error:
            self.close()
            # (Of a link to a folder systems say either: no loop is wanted, or no folder found.)
            if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and path.is_symlink()):
                raise UnsafeManifestError(relative, f"{path} is a link") from None
            if error.errno == errno.ENOTDIR:
                raise UnsafeManifestError(relative, f"{path} is no folder") from None
            raise file_system_error(path, error) from error
        os.close(self._descriptor)
        self._descriptor = inner
