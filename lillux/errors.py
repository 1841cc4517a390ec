"""The base class of all errors of this project, and the errors of layer 1.

``code`` is stable and part of the result envelope, ``exit_status`` is the status of a command that
fails with the error, ``hint`` says how to fix the cause. A tool that failed is a *result*, never an
exception. A file of its own because every start imports it, and little else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:
    from collections.abc import Mapping


class LilluxError(Exception):
    """Something that could not be done. The text names the thing, what was expected and found.

    ``facts``: further keys of the answer that reports it.
    """

    code: str = "INTERNAL"
    exit_status: int = 1
    facts: Mapping[str, object] | None = None

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class ConfigurationError(LilluxError):
    """A value handed to layer 1 is wrong. ``field`` is its path, like ``env_config.env.X``."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, field: str, problem: str, *, hint: str = "") -> None:
        self.field, self.problem = field, problem
        super().__init__(f"{field}: {problem}", hint=hint)


def as_word(path: object) -> str:
    """A path as one word of a command line, for hints that people paste."""
    import sys

    if sys.platform == "win32":
        from subprocess import list2cmdline

        return list2cmdline([str(path)])
    from shlex import quote

    return quote(str(path))


class FileSystemError(LilluxError):
    """The file system refused: full disk, read-only mount, no permission. ``path`` is where."""

    code, exit_status = "FILE_SYSTEM_ERROR", 1

    def __init__(self, path: str, problem: str, *, hint: str = "") -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}", hint=hint)


class UnsafePathError(LilluxError):
    """A relative path that would leave its root, or that no platform should accept."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"unsafe path {path!r}: {problem}")
