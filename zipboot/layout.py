"""The bundle as files on disk, because child processes read them.

Laid out once per content in a private folder. Every start looks at the content of the manifest and
of the key that signed it, and at the times of the folders, where a file that was removed shows;
then at the size of each file, if a folder changed. Whatever is used is checked against that
manifest when it is used, and restored from the archive if it is not what it was. Page:
``docs/building.md``.
"""

from __future__ import annotations

import os

from zipboot.places import digest_of, folders, make_private, note_use, write_file, write_new

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable

    from zipboot.parts import Part

    # offset and size in the part, size and digest of the content; deflated where the sizes differ
    File = tuple[int, int, int, str]

SETTLED_S = 2.0
"""A folder that changed less long ago may change again without another time: file systems keep
times in steps of up to two seconds."""


class Layout:
    """The files of one bundle, in the archive and in a folder.

    ``files`` maps POSIX paths to where their content is, ``anchors`` are those whose content is
    looked at on every start.
    """

    def __init__(
        self, part: Part, name: str, files: dict[str, File], anchors: tuple[str, ...]
    ) -> None:
        self._part = part
        self._name = name
        self.files = files
        self._anchors = anchors
        self._root = ""

    def folder(self) -> str:
        """The folder with all files in place; made or fixed now if need be.

        Raises OSError when not even a temporary folder can be written.
        """
        if not self._root:
            self._root = self._make()
        return self._root

    def restore(self, path: str) -> bool:
        """Write one file anew from the archive; False for an invalid path of the bundle."""
        if path not in self.files:
            return False
        self._write(self.folder(), path, set())
        return True

    def names(self, path: str, data: bytes) -> bool:
        """True if the archive has a file at that path with this content."""
        return path in self.files and digest_of(data) == self.files[path][3]

    def content(self, path: str) -> bytes:
        """One file as the archive has it. Raises SystemExit when it is damaged there."""
        offset, packed, size, digest = self.files[path]
        data = self._part.read(offset, packed)
        if packed != size:
            data = _inflated(data)
        if digest_of(data) != digest:
            raise self._part.differs(path)
        return data

    def hold(self) -> None:
        """Keep all content in memory, see `zipboot.parts.Part`."""
        self._part.hold((offset, size) for offset, size, _, _ in self.files.values())

    def _make(self) -> str:
        problem: OSError | None = None
        for folder in folders("bundle"):
            root = os.path.join(folder, self._name)
            is_new = not os.path.isdir(root)
            try:
                if is_new:
                    self._lay_out(root)
                elif self._is_unchanged(root):
                    self._repair(root, self._anchors)
                else:
                    self._look_at_all(root)
            except OSError as error:
                problem = error
            else:
                note_use(root, is_new=is_new)
                return root
        raise problem or FileNotFoundError("no folder to lay the bundle out in")

    def _lay_out(self, root: str) -> None:
        """Write all files aside, and give the folder its name unless another process was quicker.

        A first start writes a hundred files: one name is given here, not one for each.
        """
        aside = f"{root}-{os.urandom(8).hex()}.tmp"
        made: set[str] = set()
        try:
            for path in self.files:
                target = os.path.join(aside, path)
                _make_folders(aside, os.path.dirname(target), made)
                write_new(target, self.content(path), 0o600)
            os.utime(os.path.join(aside, _STAMPED), ns=(0, 0))
            os.rename(aside, root)
        except BaseException as error:  # an interrupt too leaves no half folder
            from shutil import rmtree

            rmtree(aside, ignore_errors=True)
            if not isinstance(error, OSError) or not os.path.isdir(root):
                raise
            self._repair(root, self.files)

    def _is_unchanged(self, root: str) -> bool:
        """True if no folder has changed since all files were looked at: its time is the newest."""
        return 0 < self._newest_folder_ns(root) == _modified_ns(os.path.join(root, _STAMPED))

    def _look_at_all(self, root: str) -> None:
        """Fix every file, and note the time of the newest folder, if it is long enough ago."""
        from time import time

        newest = self._newest_folder_ns(root)
        self._repair(root, self.files)
        if 0 < newest == self._newest_folder_ns(root) < (time() - SETTLED_S) * 1e9:
            try:
                os.utime(os.path.join(root, _STAMPED), ns=(newest, newest))
            except OSError:
                pass  # a read-only cache that another user has filled: looked at each time

    def _newest_folder_ns(self, root: str) -> int:
        """When something was last added to or removed from a folder; -1 if one is missing."""
        folders = {path.rpartition("/")[0] for path in self.files} - {"", _STAMPED}
        times = [_modified_ns(os.path.join(root, folder)) for folder in folders]
        return -1 if -1 in times else max(times)

    def _repair(self, root: str, paths: Iterable[str]) -> None:
        """Write what is missing or has another size, and what the rest is checked against."""
        made: set[str] = set()
        for path in paths:
            size = self.files[path][2]
            target = os.path.join(root, path)
            if _size(target) != size or (
                path in self._anchors and not self._is_whole(target, path)
            ):
                self._write(root, path, made)

    def _is_whole(self, target: str, path: str) -> bool:
        with open(target, "rb") as file:
            return digest_of(file.read()) == self.files[path][3]

    def _write(self, root: str, path: str, made: set[str]) -> None:
        """Write a file; ``made`` are the folders that were looked at just now."""
        target = os.path.join(root, path)
        _make_folders(root, os.path.dirname(target), made)
        write_file(target, self.content(path), 0o600, aside=os.path.dirname(root))


def _make_folders(root: str, folder: str, made: set[str]) -> None:
    """Make folders that only we can enter, whatever the umask. A link is no folder."""
    if folder in made:
        return
    if folder != root:
        _make_folders(root, os.path.dirname(folder), made)
    make_private(folder)
    made.add(folder)


_STAMPED = ".ai"
"""The folder whose own time says when the others were looked at. No file is right in it."""


def _modified_ns(folder: str) -> int:
    try:
        return os.lstat(folder).st_mtime_ns
    except OSError:
        return -1


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def _inflated(packed: bytes) -> bytes:
    """The content of a deflated file; nothing when it is damaged. Only laying out needs it."""
    import zlib

    try:
        return zlib.decompress(packed)
    except zlib.error:
        return b""
