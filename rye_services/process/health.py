"""Whether a server can do its work: database, disk and keys, looked at in the background.

Nothing of this is done in a request: a check runs in a thread of its own, and one that hangs counts
as failed after `TIMEOUT_S`, while the answer is the last state. What a problem says has no path and
no password; the log has the rest.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from time import monotonic

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from lillux.key_files import BOX_KEY_FILE, PRIVATE_KEY_FILE
from lillux.pem import MAX_PEM_BYTES
from lillux.values import dataclass, replace
from rye_services.process.keys import ITEMS_FOLDER, RECEIPTS_FOLDER, REGISTRY_FOLDER
from rye_services.settings import MIB, Settings
from rye_services.storage.database import Database, users

TIMEOUT_S = 2.0
REMOTE_TIMEOUT_S = 5.0
EVERY_S = 5.0
RECENT_S = 1.0
ROOM_BYTES = 64 * MIB
"""Less than that on a disk is no room: one push or one run may take as much."""

DATABASE, DISK, KEYS, STORE = "database", "disk", "keys", "store"
Check = Callable[[], None]
"""Returns when all is well. Raises CheckFailedError, or what the check itself cannot stand."""

_log = logging.getLogger(__name__)


class CheckFailedError(Exception):
    """What is wrong, in words without a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """What was found.

    problems   by the name of the check; those that went well are not among them
    seen_at_s  by the monotonic clock
    """

    checks: tuple[str, ...]
    problems: Mapping[str, str]
    seen_at_s: float

    @property
    def is_ready(self) -> bool:
        """Whether every check went well."""
        return not self.problems

    @property
    def has_database(self) -> bool:
        """Whether the database answers."""
        return DATABASE not in self.problems

    def shown(self) -> dict[str, str]:
        """Each check with its problem, or ``ok``."""
        return {name: self.problems.get(name, "ok") for name in self.checks}


class Health:
    """The state of a server. For one event loop; `last` for any thread."""

    def __init__(self, checks: Mapping[str, Check], timeout_s: float = TIMEOUT_S) -> None:
        self._probes = {name: _Probe(name, check, timeout_s) for name, check in checks.items()}
        # A server starts with what it could open: keys, database and folders.
        self.last = HealthState(checks=tuple(checks), problems={}, seen_at_s=0.0)
        self._looking: asyncio.Task[HealthState] | None = None
        self.is_draining = False

    def add(self, name: str, check: Check) -> None:
        """Add a check, before the first look. It may take longer than the others."""
        self._probes[name] = _Probe(name, check, REMOTE_TIMEOUT_S)
        self.last = replace(self.last, checks=(*self.last.checks, name))

    def drain(self) -> None:
        """Report from now on that the server is draining."""
        self.is_draining = True

    async def recent(self) -> HealthState:
        """The state of a second ago at most. However many ask, there is one look at a time."""
        if monotonic() - self.last.seen_at_s <= RECENT_S:
            return self.last
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Look again and again while a block runs."""

        async def repeat() -> None:
            while True:
                await self.recent()
                await asyncio.sleep(EVERY_S)

        task = asyncio.create_task(repeat())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look(self) -> HealthState:
        outcomes = await asyncio.gather(*(probe.problem() for probe in self._probes.values()))
        found = dict(zip(self._probes, outcomes, strict=True))
        problems = {name: problem for name, problem in found.items() if problem}
        if problems != self.last.problems:
            words = ", ".join(f"{name}: {problem}" for name, problem in problems.items())
            _log.warning("%s", f"not ready: {words}" if problems else "ready again")
        self.last = HealthState(checks=self.last.checks, problems=problems, seen_at_s=monotonic())
        return self.last


class _Probe:
    """One check. A run of it that hangs is not joined by another one."""

    def __init__(self, name: str, check: Check, timeout_s: float) -> None:
        self._name, self._check, self._timeout_s = name, check, timeout_s
        self._running: asyncio.Future[str] | None = None
        self._began_s = 0.0

    async def problem(self) -> str:
        """What is wrong; "" where nothing is. It takes ``timeout_s`` at most."""
        if self._running is None or self._running.done():
            self._running = self._start()
            self._began_s = monotonic()
        left_s = self._began_s + self._timeout_s - monotonic()
        try:
            return await asyncio.wait_for(asyncio.shield(self._running), max(0.0, left_s))
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s"

    def _start(self) -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()

        def tell(problem: str) -> None:
            if not future.done():
                future.set_result(problem)

        def run() -> None:
            problem = self._outcome()
            with suppress(RuntimeError):  # the loop is gone: the server has ended
                loop.call_soon_threadsafe(tell, problem)

        # A daemon: a check that hangs must not keep the server from ending.
        Thread(target=run, name=f"check of the {self._name}", daemon=True).start()
        return future

    def _outcome(self) -> str:
        try:
            self._check()
        except CheckFailedError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - the door of a check
            _log.debug("%s", self._name, exc_info=True)
            return f"cannot be used ({type(error).__name__})"
        return ""


# --- checks ---------------------------------------------------------------------------------------


def checks_of(settings: Settings, database: Database) -> dict[str, Check]:
    """The checks of a server, by name."""
    return {
        DATABASE: lambda: probe_database(database),
        DISK: lambda: probe_disk((settings.data_dir, settings.cas_base_path)),
        KEYS: lambda: probe_keys(settings.signing_key_dir),
    }


def probe_database(database: Database) -> None:
    """Read from a table. Raises CheckFailedError."""
    try:
        with database.reading() as connection:
            connection.execute(select(users.c.id).limit(1)).all()
    except SQLAlchemyError as error:
        _log.debug("the database", exc_info=True)
        raise CheckFailedError(f"cannot be read ({type(error).__name__})") from error


def probe_disk(folders: Sequence[Path], room_bytes: int = ROOM_BYTES) -> None:
    """Write a file of one byte to each of the folders that are there. Raises CheckFailedError."""
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
            with TemporaryFile(dir=folder, prefix=".check-", buffering=0) as file:
                file.write(b"x")
        except FileNotFoundError:
            if folder is folders[0]:
                raise CheckFailedError("the data folder is gone") from None
            continue  # stores are made with the first push
        except OSError as error:
            raise CheckFailedError(f"cannot be written: {_words(error)}") from error
        if free < room_bytes:
            expected = f"expected at least {room_bytes // MIB} MiB free"
            raise CheckFailedError(f"{expected}, found {free // MIB} MiB")


def probe_keys(signing: Path) -> None:
    """Read the node's own keys. Raises CheckFailedError."""
    required = (signing / PRIVATE_KEY_FILE, signing / BOX_KEY_FILE)
    others = (ITEMS_FOLDER, RECEIPTS_FOLDER, REGISTRY_FOLDER)
    optional = tuple(signing / folder / PRIVATE_KEY_FILE for folder in others)
    try:
        for path in (*required, *(one for one in optional if one.parent.exists())):
            with path.open("rb") as file:
                file.read(MAX_PEM_BYTES)
    except FileNotFoundError:
        raise CheckFailedError("a key of the node is missing") from None
    except OSError as error:
        raise CheckFailedError(f"cannot be read: {_words(error)}") from error


def _words(error: OSError) -> str:
    """What the system says, without the path."""
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__
