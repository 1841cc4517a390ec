"""A copy of a project for one case: its items, and the case's own files."""

import shutil
import stat
import tempfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lillux.contained_paths import safe_join
from lillux.files import file_system_error, make_directory, read_bytes
from ryeos.items.refs import PRIVATE_FOLDERS, Kind, Space

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_COPIED_BYTES = 64 * 1024 * 1024
# What interpreters are found in: too large to copy.
_LINKED = (".venv", "node_modules")


@contextmanager
def scratch_project(project: Space | None, files: Mapping[str, str]) -> Iterator[Path]:
    """A folder with the items of a project and these files, removed in the end.

    Raises FileSystemError, UnsafePathError for a path that leads out of it.
    """
    folder = Path(tempfile.mkdtemp(prefix="rye-test-")).resolve()
    try:
        base = folder / "project"
        _fill(base, project, files)
        yield base
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def text_at(base: Path, path: str) -> str | None:
    """The text of a project's file, or None.

    Raises UnsafePathError, FileSystemError, FileTooLargeError.
    """
    try:
        return read_bytes(safe_join(base, path), MAX_FILE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _fill(base: Path, project: Space | None, files: Mapping[str, str]) -> None:
    try:
        make_directory(base / ".ai")
        if project:
            _copy_items(project, base)
    except shutil.Error as error:
        source, _, problem = error.args[0][0]
        raise file_system_error(Path(source), OSError(0, str(problem))) from error
    except OSError as error:
        raise file_system_error(base, error) from error
    for path, text in files.items():
        target = safe_join(base, path)
        make_directory(target.parent)
        target.write_bytes(text.encode())


def _copy_items(project: Space, base: Path) -> None:
    private = {(project.ai / folder).resolve() for folder in PRIVATE_FOLDERS}
    for kind in Kind:
        source = project.directory(kind)
        # A project may be a stranger's: what a link leads to is not its own.
        if source.is_dir() and source.resolve().is_relative_to(project.ai.resolve()):
            shutil.copytree(
                source,
                base / ".ai" / kind.directory,
                symlinks=True,
                ignore=lambda folder, names: [
                    name for name in names if _is_left_out(Path(folder, name), private)
                ],
            )
    for name in _LINKED:
        if (project.base / name).is_dir():
            with suppress(OSError):  # Windows lets few make links; the interpreter is another then
                (base / name).symlink_to(project.base / name, target_is_directory=True)


def _is_left_out(path: Path, private: Container[Path]) -> bool:
    """Private keys, what is too large, and what is neither file, folder nor link.

    A pipe would be waited for, and a file full of holes fills the disk.
    """
    status = path.lstat()
    if stat.S_ISREG(status.st_mode):
        return status.st_size > MAX_COPIED_BYTES
    return path.resolve() in private or not (path.is_symlink() or path.is_dir())
