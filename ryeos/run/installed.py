"""An installed tree of packages: recorded when it was made, compared at every start.

Beside ``FOLDER`` lies ``FOLDER.files``: a digest of the state of all files, then a line for each::

    STATE
    SHA256 mode path

What the file system says of a file (size, times, number) may save reading it: nothing that Rye
confines can write below the ``.ai`` of user space, and the time of its last change can be set by
no program. Where that differs, the bytes are read and compared.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import FileSystemError, as_word
from lillux.files import FileTooLargeError, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.items.errors import IntegrityError

MAX_FILES, MAX_BYTES = 200_000, 4 * 1024 * 1024 * 1024
_MAX_RECORD_BYTES = 64 * 1024 * 1024
_LINK, _FOLDER = "link", "folder"


@dataclass(frozen=True, slots=True)
class InstalledTree:
    """A folder of installed packages."""

    folder: Path

    @property
    def record(self) -> Path:
        """The file that says what was installed."""
        return self.folder.with_name(f"{self.folder.name}.files")

    @property
    def is_made(self) -> bool:
        """True if it was installed, and recorded; a folder of an older version was not."""
        return self.record.is_file() and self.folder.is_dir()

    def seal(self) -> None:
        """Record what is there now. Raises FileSystemError, FileTooLargeError."""
        found = dict(self._contents(self._entries()))
        self._write(self._state(), found)

    def require_unchanged(self) -> None:
        """Compare each file with the record. Raises IntegrityError, FileSystemError."""
        state = self._state()
        recorded_state, *lines = self._read()
        if state == recorded_state:
            return
        recorded = {path: what for what, _, path in (line.partition(" ") for line in lines)}
        found: dict[str, str] = {}
        for path, what in self._contents(self._entries()):
            expected = recorded.get(path, "")
            if what != expected:
                raise self._error(path, _shown(expected) if expected else "no file", _shown(what))
            found[path] = what
        for path, what in recorded.items():
            if path not in found:
                raise self._error(path, _shown(what), "none")
        self._write(state, found)

    def remove(self) -> None:
        """Remove it with its record, also one that a process left in the middle."""
        from shutil import rmtree

        self.record.unlink(missing_ok=True)
        rmtree(self.folder, ignore_errors=True)

    def _error(self, path: str, expected: str, found: str) -> IntegrityError:
        """The error for a file that is not as it was installed; nothing is started then."""
        return IntegrityError(
            str(self.folder / path),
            f"installed packages: expected {expected}, found {found}",
            hint=f"to have them installed anew at the next call: rm -r {as_word(str(self.folder))}",
        )

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Each path below the folder, and what the file system says of it; no link is followed."""
        folders, seen = [""], 0
        root = str(self.folder)
        while folders:
            below = folders.pop()
            try:
                with os.scandir(f"{root}/{below}" if below else root) as found:
                    entries = list(found)
            except OSError as error:
                raise FileSystemError(f"{root}/{below}", str(error.strerror).lower()) from error
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                status = entry.stat(follow_symlinks=False)
                yield path, status
                if stat.S_ISDIR(status.st_mode):
                    folders.append(path)
            seen += len(entries)
            if seen > MAX_FILES:
                raise FileTooLargeError(root, seen, MAX_FILES)

    def _state(self) -> str:
        lines = [
            f"{path}\0{one.st_mode} {one.st_size} {one.st_mtime_ns} {one.st_ctime_ns} {one.st_ino}"
            for path, one in self._entries()
        ]
        lines.sort()
        return sha256_hex("\n".join(lines).encode("utf-8", "surrogateescape"))

    def _contents(self, entries: Iterator[tuple[str, os.stat_result]]) -> Iterator[tuple[str, str]]:
        for path, status in entries:
            mode = status.st_mode
            place = self.folder / path
            if stat.S_ISDIR(mode):
                what = _FOLDER
            elif stat.S_ISLNK(mode):
                what = f"{_LINK}:{sha256_hex(os.fsencode(os.readlink(place)))}"  # noqa: PTH115 - bytes
            elif stat.S_ISREG(mode):
                is_program = "x" if mode & stat.S_IXUSR else "-"
                what = f"{is_program}{sha256_hex(read_bytes(place, MAX_BYTES))}"
            else:
                what = f"other:{stat.S_IFMT(mode)}"
            yield path, what

    def _read(self) -> list[str]:
        try:
            text = read_bytes(self.record, _MAX_RECORD_BYTES).decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            raise self._error(".", "a record of its files", "none") from None
        return text.split("\0\n")

    def _write(self, state: str, found: dict[str, str]) -> None:
        lines = [state, *(f"{what} {path}" for path, what in sorted(found.items()))]
        text = "\0\n".join(lines)
        write_atomic(self.record, text.encode("utf-8", "surrogateescape"), mode=0o600)


def _shown(what: str) -> str:
    kind, _, digest = what.partition(":")
    if digest or kind == _FOLDER:
        return f"a {kind}"
    return f"SHA-256 {what[1:17]}..."
