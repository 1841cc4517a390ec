"""The bundle as files on disk, because child processes read them.

Laid out once per content in a private folder. Every start looks at the size of each file, and at
the digests of the manifest and of the key that signed it; whatever else is used is checked against
that manifest when it is used, and restored from the archive if it is not what it was. Page:
``docs/boot.md``.
"""

from __future__ import annotations

import os

from zipboot import places

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from zipboot.parts import Part

    # offset and size in the part, digest of the content
    File = tuple[int, int, str]

KEPT_UNUSED_S = 30 * 24 * 3600
TOUCHED_EVERY_S = 24 * 3600


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
        self._files = files
        self._anchors = anchors
        self.root = ""

    def folder(self) -> str:
        """The folder with all files in place; made or mended now if need be.

        Raises OSError when not even a temporary folder can be written.
        """
        if not self.root:
            self.root = self._make()
        return self.root

    def restore(self, path: str) -> bool:
        """Write one file anew from the archive; False for a path that is none of the bundle."""
        if path not in self._files:
            return False
        self._write(self.root, path)
        return True

    def _make(self) -> str:
        problem: OSError | None = None
        for folder in places.folders("bundle"):
            root = os.path.join(folder, self._name)
            try:
                is_new = not os.path.isdir(root)
                self._mend(root)
                _note_use(folder, root, is_new=is_new)
            except OSError as error:
                problem = error
            else:
                return root
        raise problem or OSError("no folder to lay the bundle out in")

    def _mend(self, root: str) -> None:
        """Write what is missing or has another size, and what the rest is checked against."""
        for path, (_, size, _) in self._files.items():
            if _size(os.path.join(root, path)) != size or path in self._anchors:
                self._mend_file(root, path)

    def _mend_file(self, root: str, path: str) -> None:
        digest = self._files[path][2]
        try:
            with open(os.path.join(root, path), "rb") as file:
                if places.digest_of(file.read()) == digest:
                    return
        except OSError:
            pass  # not there yet, or not a file: written now, which says what is wrong
        self._write(root, path)

    def _write(self, root: str, path: str) -> None:
        offset, size, _ = self._files[path]
        target = os.path.join(root, path)
        _make_folders(root, os.path.dirname(target))
        places.write_file(target, self._part.read(offset, size), 0o600)


def sweep(folder: str, now: float, *, unused_s: float = KEPT_UNUSED_S) -> list[str]:
    """Remove layouts that nobody has used for ``unused_s`` seconds; what was removed."""
    import shutil

    removed = []
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False) and now - entry.stat().st_mtime > unused_s:
            shutil.rmtree(entry.path, ignore_errors=True)
            removed.append(entry.path)
    return removed


def _note_use(folder: str, root: str, *, is_new: bool) -> None:
    """The folder's time says when it was last used; a new one makes others look old."""
    from time import time

    now = time()
    if is_new:
        sweep(folder, now)
    elif now - os.stat(root).st_mtime > TOUCHED_EVERY_S:
        os.utime(root)


def _make_folders(root: str, folder: str) -> None:
    """Make folders that only we can enter, whatever the umask."""
    if folder != root:
        _make_folders(root, os.path.dirname(folder))
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        places.make_private(folder)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1
