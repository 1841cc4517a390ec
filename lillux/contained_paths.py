"""Paths that stay inside a folder, and are plain on every platform."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.errors import UnsafePathError

if TYPE_CHECKING:
    from lillux.beneath import LinkOnTheWayError


_WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789¹²³"}
)


def safe_join(root: Path, relative: str) -> Path:
    """The path of ``relative`` (POSIX separators) below ``root``, links followed and checked.

    Refuses what is absolute, has empty, ``.`` or ``..`` segments, control characters,
    backslashes, colons, Windows device names, or leads outside ``root`` through a link.
    Raises UnsafePathError, LinkOnTheWayError.
    """
    require_plain_path(relative)
    segments = relative.split("/")
    path = root.joinpath(*segments)
    if not _is_free_of_links(root, segments) and not is_inside(path, root):
        raise _error_of_link(root, segments) or UnsafePathError(relative, f"leads outside {root}")
    return path


def _error_of_link(root: Path, segments: Sequence[str]) -> "LinkOnTheWayError | None":
    """The error about the first segment that is a link."""
    path = root
    for segment in segments:
        path = path / segment
        with suppress(OSError):
            from lillux.beneath import LinkOnTheWayError

            return LinkOnTheWayError(path, os.readlink(path), root)  # noqa: PTH115 - as written
    return None


def _is_free_of_links(root: Path, segments: Sequence[str]) -> bool:
    """True if no segment is a link, so that the path is below its root, wherever that really is.

    Any doubt is a no. It looks at a few files where following links looks at every folder twice.
    """
    if os.name == "nt":  # its junctions lead elsewhere too, and look like folders here
        return False
    path = str(root)
    for segment in segments:
        path = os.path.join(path, segment)  # noqa: PTH118 - asked for many times a call
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:  # and so nothing below it is there
            return True
        except (OSError, ValueError):
            return False
        if stat.S_ISLNK(mode):
            return False
    return True


def require_plain_path(relative: str) -> None:
    """Refuse a relative path that is not plain on every platform. Raises UnsafePathError."""
    problem = _path_problem(relative)
    if problem:
        raise UnsafePathError(relative, problem)


def is_inside(path: Path, root: Path) -> bool:
    """True if ``path``, all its links followed, lies below ``root`` (or is it)."""
    try:
        if b"\0" in os.fsencode(path):
            return False
    except UnicodeEncodeError:  # no file can have such a name
        return False
    parts, above = path.parts, root.parts
    below = parts[len(above) :]
    if parts[: len(above)] == above and ".." not in below and _is_free_of_links(root, below):
        return True
    return path_inside(path, root) is not None


def path_inside(path: Path, root: Path) -> str | None:
    """The POSIX path of ``path`` below ``root``, all links followed; None when it lies outside."""
    try:
        real, real_root = Path(os.path.realpath(path)), os.path.realpath(root)
    except (OSError, ValueError):
        return None
    return real.relative_to(real_root).as_posix() if real.is_relative_to(real_root) else None


def _path_problem(relative: str) -> str:
    if not relative:
        return "expected a relative path, found nothing"
    if not relative.isprintable() and any(one < " " or one == "\x7f" for one in relative):
        return "control characters are not allowed"
    if "\\" in relative:
        return "expected '/' as separator, found a backslash"
    if relative.startswith("/"):
        return "expected a relative path, found an absolute one"
    for segment in relative.split("/"):
        problem = _segment_problem(segment)
        if problem:
            return problem
    return ""


def _segment_problem(segment: str) -> str:
    if not segment:
        return "empty segments are not allowed"
    if segment in {".", ".."}:
        return f"'{segment}' segments are not allowed"
    if ":" in segment:
        return "':' is not allowed (drive letters, alternate streams)"
    if segment.endswith((".", " ")):
        return f"segment {segment!r} ends in a dot or a blank, which Windows drops"
    if segment.partition(".")[0].rstrip().lower() in _WINDOWS_DEVICES:
        return f"{segment!r} names a device on Windows"
    return ""
