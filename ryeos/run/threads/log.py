"""The log of a thread: what it has written, as bytes, whole or while it grows."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from lillux.errors import FileSystemError
from lillux.files import file_system_error
from ryeos.run.threads.place import LOG, ThreadsPlace
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.watch import refreshed

CHUNK_BYTES = 64 * 1024
MOST_TEXT_BYTES = 1024 * 1024
_LOG_POLL_S = 0.2
_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO that a project holds must not keep us
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class ThreadLog:
    """``spawn.log`` of a thread.

    Raises RyeError `INVALID_REF`, or `REGISTRY_INVALID` for one outside the place.
    """

    def __init__(self, place: ThreadsPlace, thread_id: str) -> None:
        self.thread_id = thread_id
        self.path = place.file(thread_id, LOG)

    def chunks(self) -> Iterator[bytes]:
        """The log as it is now, nothing where there is none. Raises FileSystemError."""
        with self._open_log() as descriptor:
            yield from _rest(descriptor)

    def follow(self, registry: ThreadRegistry) -> Iterator[bytes]:
        """The log as it is and as it grows, until the thread has ended. Raises as `chunks`."""
        from lillux.watch import await_status

        with self._open_log() as descriptor:
            has_ended = False
            while not has_ended:
                has_ended = refreshed(registry, registry.get(self.thread_id)).has_ended
                yield from _rest(descriptor)
                if not has_ended:
                    await_status(registry.place.registry, self.thread_id, _LOG_POLL_S)

    def text(self) -> tuple[str, bool]:
        """The end of the log as text, and whether something stands before it."""
        with self._open_log() as descriptor:
            size = os.fstat(descriptor).st_size if descriptor is not None else 0
            if descriptor is not None and size > MOST_TEXT_BYTES:
                os.lseek(descriptor, size - MOST_TEXT_BYTES, os.SEEK_SET)
            data = b"".join(_rest(descriptor))
        return data.decode("utf-8", "replace"), size > MOST_TEXT_BYTES

    @contextmanager
    def _open_log(self) -> Iterator[int | None]:
        try:
            descriptor = os.open(self.path, _READ_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        except OSError as error:
            raise file_system_error(self.path, error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileSystemError(str(self.path), "expected a regular file")
            yield descriptor
        finally:
            os.close(descriptor)


def _rest(descriptor: int | None) -> Iterator[bytes]:
    while descriptor is not None and (chunk := os.read(descriptor, CHUNK_BYTES)):
        yield chunk
