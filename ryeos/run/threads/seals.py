"""Seals of threads: each shows that a process is the runner of one. Only this user can make them.

A registry lies in a project, and a project is foreign data: its rows may name any process of
the user. So the number and the start of a runner are also written to ``runner.json`` with an
HMAC-SHA256 under a key of user space, and a process is ended only where that code is right.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.run.threads.errors import UnknownRunnerError
from ryeos.run.threads.place import RUNNER, ThreadsPlace

if TYPE_CHECKING:
    from lillux.background import StartedProcess


KEY_FILE = "runners.key"
KEY_BYTES = 32
_MAX_RUNNER_BYTES = 4096
_RUNNER_PURPOSE = "rye runner 1"
_TASK_PURPOSE = "rye task 1"
TASK_CODE_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class ThreadRunner:
    """The process that runs a thread."""

    pid: int
    start_token: str


class RunnerSeals:
    """Seals of one user: ``user_ai`` is the ``.ai`` folder of user space, which holds the key."""

    def __init__(self, user_ai: Path) -> None:
        self._path = user_ai / "state" / KEY_FILE

    def seal(
        self, place: ThreadsPlace, thread_id: str, started: "StartedProcess | ThreadRunner"
    ) -> None:
        """Record which process runs the thread.

        Raises FileSystemError, RyeError `REGISTRY_INVALID`.
        """
        code = self.code(_RUNNER_PURPOSE, thread_id, started.pid, started.start_token)
        document = {"pid": started.pid, "start_token": started.start_token, "seal": code}
        data = json.dumps(document).encode() + b"\n"
        write_atomic(place.file(thread_id, RUNNER), data, mode=0o600, within=place.root)

    def runner(self, place: ThreadsPlace, thread_id: str) -> ThreadRunner:
        """The process that runs the thread, as this user wrote it. Raises UnknownRunnerError."""
        path = place.file(thread_id, RUNNER)
        try:
            document = json.loads(read_bytes(path, _MAX_RUNNER_BYTES))
            pid, token, code = (document[name] for name in ("pid", "start_token", "seal"))
        except FileNotFoundError:
            raise UnknownRunnerError(thread_id, None, f"there is no {path}") from None
        except (ValueError, KeyError, TypeError, RecursionError, LilluxError):
            raise UnknownRunnerError(thread_id, None, f"{path} is not what rye writes") from None
        if not (isinstance(pid, int) and isinstance(token, str) and isinstance(code, str)):
            raise UnknownRunnerError(thread_id, None, f"{path} is not what rye writes")
        if not token:
            raise UnknownRunnerError(thread_id, pid, "the system did not tell when it began")
        if not self.is_code(code, _RUNNER_PURPOSE, thread_id, pid, token):
            raise UnknownRunnerError(thread_id, pid, f"{path} was not written by you")
        return ThreadRunner(pid, token)

    def code(self, purpose: str, *values: object) -> str:
        """A code over values of JSON that only this user can make. Raises FileSystemError."""
        return _code_over(self._key(), purpose, *values)

    def task_code(self, thread_id: str) -> str:
        """The code that shows that a client learned of a thread: 128 bits in hex digits."""
        return self.code(_TASK_PURPOSE, thread_id)[:TASK_CODE_CHARACTERS]

    def is_task_code(self, thread_id: str, code: str) -> bool:
        """True if this is `task_code` of a thread."""
        from hmac import compare_digest

        key = self._known_key()
        expected = _code_over(key, _TASK_PURPOSE, thread_id)[:TASK_CODE_CHARACTERS]
        return bool(key) and compare_digest(
            expected.encode(), code.encode("utf-8", "backslashreplace")
        )

    def is_code(self, code: str, purpose: str, *values: object) -> bool:
        """True if this user has made the code, over these very values."""
        from hmac import compare_digest

        key = self._known_key()
        expected = _code_over(key, purpose, *values).encode()
        return bool(key) and compare_digest(expected, code.encode("utf-8", "backslashreplace"))

    def _known_key(self) -> bytes:
        """The key, empty if absent, or where it is just being written."""
        try:
            key = read_bytes(self._path, KEY_BYTES)
        except (FileNotFoundError, LilluxError):
            return b""
        return key if len(key) == KEY_BYTES else b""

    def _key(self) -> bytes:
        """The key, made when it is first needed."""
        key = self._known_key()
        if key:
            return key
        make_directory(self._path.parent, mode=0o700)
        with locked(self._path.parent / "locks" / f"{KEY_FILE}.lock"):
            key = self._known_key() or os.urandom(KEY_BYTES)
            write_atomic(self._path, key, mode=0o600)
        return key


def _code_over(key: bytes, *values: object) -> str:
    import hashlib
    import hmac

    return hmac.new(key, json.dumps(values).encode(), hashlib.sha256).hexdigest()
