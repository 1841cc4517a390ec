"""Folders of skills as they lie on the disk: their files, and the caches in them."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from lillux.contained_paths import require_plain_path
from lillux.errors import LilluxError
from lillux.patterns import pattern
from lillux.values import dataclass

MAX_FILES = 512
_MAX_ENTRIES = 8 * MAX_FILES
_CACHE_FOLDER = "__pycache__"
_CACHE_NAME = pattern(r"([\w-]+)\.[a-z]+-?[0-9]+(?:\.opt-[12])?\.pyc")


class SkillFolderError(LilluxError):
    """A folder that cannot be a skill as it is; ``path`` is what is wrong in it."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


@dataclass(frozen=True, slots=True)
class FolderContents:
    """The POSIX paths of all files of a skill's folder, sorted.

    ``caches`` are those of bytecode beside a script of the folder, which Python makes again;
    ``left_out`` are the files and folders that were not looked at.
    """

    files: tuple[str, ...]
    caches: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def folder_contents(folder: Path, without: frozenset[str] = frozenset()) -> FolderContents:
    """The files of a skill's folder, less those that ``without`` names. Reads none of them.

    Raises SkillFolderError for a link, for what is no regular file, for a name that no manifest
    can hold, for a folder that cannot be listed, and for more than `MAX_FILES` files.
    """

    def refuse(error: OSError) -> None:
        relative = Path(error.filename).relative_to(folder).as_posix()
        raise SkillFolderError(relative, f"cannot be listed ({error.strerror})")

    found: list[str] = []
    left_out: list[str] = []
    seen = 0
    for current, folders, names in os.walk(folder, onerror=refuse):
        entries = [*folders, *names]
        folders[:] = sorted(name for name in folders if name not in without)
        seen += len(entries)
        if seen > _MAX_ENTRIES:
            raise SkillFolderError(".", f"expected at most {MAX_FILES} files, found more")
        for name in entries:
            path = Path(current, name)
            relative = path.relative_to(folder).as_posix()
            if name in without:
                left_out.append(relative)
                continue
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise SkillFolderError(relative, "a link; put the file itself there")
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise SkillFolderError(relative, "expected a file, found a device or a pipe")
            _require_listable(relative)
            found.append(relative)
    caches = tuple(sorted(_caches(found)))
    files = tuple(sorted({*found} - {*caches}))
    if len(files) > MAX_FILES:
        raise SkillFolderError(files[-1], f"expected at most {MAX_FILES} files, found more")
    return FolderContents(files, caches, tuple(sorted(left_out)))


def _caches(files: Sequence[str]) -> Iterator[str]:
    """The bytecode among files: of a script beside its folder, by the name that Python gives it."""
    there = {*files}
    for path in files:
        folder, _, name = path.rpartition("/")
        above, _, last = folder.rpartition("/")
        made = _CACHE_NAME.fullmatch(name) if last == _CACHE_FOLDER else None
        if made and (f"{above}/" if above else "") + f"{made[1]}.py" in there:
            yield path


def _require_listable(relative: str) -> None:
    try:
        require_plain_path(relative)
        is_shown = relative.encode().decode().isprintable()
    except (LilluxError, UnicodeError) as error:
        raise SkillFolderError(ascii(relative)[1:-1], str(error)) from None
    if not is_shown:
        raise SkillFolderError(ascii(relative)[1:-1], "a name with characters that are not seen")
