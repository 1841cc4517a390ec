"""The ledger of a user's day: what all threads together spent, and what is held back for calls.

It lies in ``~/.ai/state/agent/``, which no program that Rye confined can write. Each line names the
one before by digest. A reservation is on the disk before its call starts; what a killed process
reserved and did not settle stays charged. A day is named by its date in UTC, and never goes back:
a clock that does gives no money again.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.digests import canonical_json, sha256_hex
from lillux.files import file_system_error, locked, make_directory, read_bytes, write_atomic
from lillux.values import dataclass, field, replace
from ryeos.agent.purse import daily_error
from ryeos.graph.run_log import write_whole
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.items.refs import user_lock

FOLDER = "state/agent"
"""Below ``.ai`` of user space: all that threads keep, and that no other program may write."""
LEDGER = "ledger.jsonl"
DAILY_SPEND = 5_000_000_000
"""Nano-dollars a day, unless ``daily`` of agent.yaml says more or less."""
_LOCK = "agent-ledger"
_MAX_BYTES = 1024 * 1024
_FOLDED_AT = 8 * 1024  # bytes: from there on one line says the same; it is read for each call


@dataclass(frozen=True, slots=True)
class _Day:
    """What the lines of the ledger come to; ``size`` is the end of the last whole one."""

    date: str = ""
    spent: int = 0
    open: dict[str, int] = field(default_factory=dict)
    digest: str = ""
    size: int = 0

    @property
    def charged(self) -> int:
        """What was spent, and what is held back."""
        return self.spent + sum(self.open.values())


class Ledger:
    """The ledger of a user space, whose ``.ai`` folder this is."""

    def __init__(self, ai: Path, *, daily: int = DAILY_SPEND, clock: Clock = utc_now) -> None:
        self.path = ai / FOLDER / LEDGER
        self.daily = daily
        self._lock = user_lock(ai, _LOCK)
        self._clock = clock

    def left(self) -> int:
        """The nano-dollars that are left for today. Another process may take of them."""
        return max(self.daily - self._day_of(self._read()).charged, 0)

    def reserve(self, amount: int) -> str:
        """Hold back so many nano-dollars for a call; the name of the reservation.

        It is on the disk then, or nothing is. Raises RyeError `LIMIT_DAILY`, FileSystemError.
        """
        _require_amount(amount)
        make_directory(self.path.parent, mode=0o700)
        with locked(self._lock):
            written = self._read()
            day = self._day_of(written)
            if day.charged + amount > self.daily:
                raise self._refused(day, amount)
            name = os.urandom(8).hex()
            line = {"type": "reserve", "id": name, "amount": amount}
            if day is not written or day.size > _FOLDED_AT:
                self._fold(replace(day, open={**day.open, name: amount}))
            else:
                self._append(day, line, force=True)
        return name

    def settle(self, name: str, amount: int) -> None:
        """Take a reservation out, and put in what the call cost.

        Nothing happens for one that was settled before, or on a day that is over. It is not forced
        to the disk: where that fails, what was reserved stays charged. Raises FileSystemError.
        """
        _require_amount(amount)
        with locked(self._lock):
            day = self._read()
            if name in day.open:
                self._append(day, {"type": "settle", "id": name, "amount": amount}, force=False)

    # ---------------------------------------------------------------- the day

    def _day_of(self, written: _Day) -> _Day:
        """The day that counts: that of the clock, or the ledger's where the clock went back."""
        date = self._clock().strftime("%Y-%m-%d")
        return written if date <= written.date else _Day(date)

    def _refused(self, day: _Day, amount: int) -> RyeError:
        error = daily_error(amount, max(self.daily - day.charged, 0))
        now = self._clock().strftime("%Y-%m-%d")
        if now < day.date:
            error.hint = (
                f"this machine's clock says {now}, but calls were paid on {day.date}: set the clock"
                f" right; if {day.date} was wrong, remove {self.path}"
            )
        return error

    # ---------------------------------------------------------------- lines

    def _read(self) -> _Day:
        """The ledger as its whole lines say. Raises RyeError `INTEGRITY`."""
        try:
            data = read_bytes(self.path, _MAX_BYTES)
        except FileNotFoundError:
            return _Day()
        day = _Day()
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):  # the process was killed, or the power failed
                break
            try:
                day = _after(day, json.loads(line), line)
            except (ValueError, KeyError, TypeError) as error:
                raise RyeError(
                    f"{self.path}: line {number} is not what was written: {error!s:.80}",
                    code="INTEGRITY",
                    path=str(self.path),
                    hint="no call is paid from it; once you know why, remove the file",
                ) from None
        return day

    def _append(self, day: _Day, line: dict[str, Any], *, force: bool) -> None:
        """Write a line behind the last whole one. All of it, or nothing."""
        data = canonical_json({**line, "prev": day.digest}) + b"\n"
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(self.path, flags)
            try:
                os.ftruncate(descriptor, day.size)
                os.lseek(descriptor, day.size, os.SEEK_SET)
                write_whole(descriptor, data)
                if force:
                    os.fsync(descriptor)
            except OSError:
                with suppress(OSError):  # a torn line is no line
                    os.ftruncate(descriptor, day.size)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            raise file_system_error(self.path, error) from error

    def _fold(self, day: _Day) -> None:
        """Replace all lines by one that says the same."""
        said = {"type": "day", "date": day.date, "spent": day.spent, "open": day.open}
        line = canonical_json({**said, "prev": day.digest}) + b"\n"
        write_atomic(self.path, line, mode=0o600)


def _after(day: _Day, said: dict[str, Any], line: bytes) -> _Day:
    """The day after one more line. Raises ValueError, KeyError, TypeError for a wrong one."""
    follows = day.digest if day.size else said["prev"]  # what a first line folds is gone
    if said["prev"] != follows:
        raise ValueError("expected the digest of the line before")
    after = replace(day, digest=sha256_hex(line), size=day.size + len(line))
    match said["type"]:
        case "day" if not day.size:
            opened = {str(name): _require_amount(n) for name, n in said["open"].items()}
            return replace(
                after, date=str(said["date"]), spent=_require_amount(said["spent"]), open=opened
            )
        case "reserve" if day.size:
            return replace(
                after, open={**day.open, str(said["id"]): _require_amount(said["amount"])}
            )
        case "settle" if said["id"] in day.open:
            kept = {name: n for name, n in day.open.items() if name != said["id"]}
            return replace(after, open=kept, spent=day.spent + _require_amount(said["amount"]))
    raise ValueError("expected day, reserve or settle")


def _require_amount(amount: object) -> int:
    if type(amount) is not int or amount < 0:
        raise ValueError(f"expected nano-dollars, a whole number from 0 up, got {amount!r:.40}")
    return amount
