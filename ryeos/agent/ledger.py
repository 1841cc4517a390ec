"""The ledger of a user's day: what all threads together spent, and what is held back for calls.

It lies in ``~/.ai/state/agent/``, which no program that Rye confined can write. Each line names the
one before by digest, and is signed by the receipt key; a line that was changed, or that another
program wrote, is refused, and no call is paid. A reservation is on the disk before its call
starts; what a killed process reserved and did not settle stays charged. A day is named by its date
in UTC, and never goes back: a clock that does gives no money again.

Reservations are numbered, and the journal of a thread names that of each call. A ledger that has
not reached a number which was given is an older copy: the calls since then are taken from the
journals. So are all calls where the ledger was removed, also those of later days, which a clock
that was ahead has paid. Which number was the last is looked up in the journals once for each
`Ledger`, and for each call in a small file beside the ledger. Neither is signed: a number there
decides only whether journals are read and verified.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import file_system_error, make_directory, open_file, read_bytes, write_atomic
from lillux.signing import verify_signature
from lillux.values import dataclass, field, replace
from ryeos.agent.worst_case import daily_error
from ryeos.graph.transcript import write_whole
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.items.refs import user_lock
from ryeos.run.receipt_key import ReceiptKey
from ryeos.trust.signing_key import SigningKey

FOLDER = "state/agent"
"""Below ``.ai`` of user space: all that threads keep, and that no other program may write."""
LEDGER, NEWEST = "ledger.jsonl", "ledger.newest"
"""The ledger, and the number of its newest reservation."""
DAILY_SPEND = 5_000_000_000
"""Nano-dollars a day, unless ``daily`` of agent.yaml says more or less."""
_PURPOSE = b"rye/agent-ledger/v1\n"
_LOCK = "agent-ledger"
_MAX_BYTES = 1024 * 1024
_FOLDED_AT = 8 * 1024  # bytes: from there on one line says the same; it is read for each call
_DIGITS = 15
"""More than a number of a reservation has; all are written so long, that one takes the place of
another in one write."""


@dataclass(frozen=True, slots=True)
class _Day:
    """The sums of the lines of the ledger.

    later   what calls of days that are still to come were charged, by date
    number  of the newest reservation
    size    the end of the last whole line
    """

    date: str = ""
    spent: int = 0
    open: dict[str, int] = field(default_factory=dict)
    later: dict[str, int] = field(default_factory=dict)
    number: int = 0
    digest: str = ""
    size: int = 0

    @property
    def charged(self) -> int:
        """The amount that was spent, and what is held back."""
        return self.spent + sum(self.open.values())

    def on(self, date: str) -> "_Day":
        """The day of a date: this one, unless the date is later."""
        if date <= self.date:
            return self
        later = {one: amount for one, amount in self.later.items() if one > date}
        return _Day(date, spent=self.later.get(date, 0), later=later, number=self.number)


@dataclass(frozen=True, slots=True)
class JournaledCall:
    """A call of a model, as the journal of its thread says.

    name    of its reservation
    date    the day that it began on, in UTC
    amount  what it was charged, in nano-dollars; in full where its outcome is not known: `is_open`
    """

    name: str
    date: str
    amount: int
    is_open: bool = False

    @property
    def number(self) -> int:
        """That of its reservation; 0 for one of an older version of Rye."""
        return _number_of(self.name)


class Ledger:
    """The ledger of a user space, whose ``.ai`` folder this is.

    ``key`` is the receipt key of that user space, unless said. ``newest`` gives the highest number
    of a reservation that journals seem to name. ``calls`` gives the calls that they say began on a
    date or later; its second argument is the number that the ledger has come to, None where there
    is no ledger.
    """

    def __init__(
        self,
        ai: Path,
        *,
        daily: int = DAILY_SPEND,
        clock: Clock = utc_now,
        key: ReceiptKey | None = None,
        newest: Callable[[], int] = lambda: 0,
        calls: Callable[[str, int | None], Iterable[JournaledCall]] = lambda _date, _number: (),
    ) -> None:
        self._newest, self._calls = newest, calls
        self._receipt_key = key or ReceiptKey(ai / "config" / "keys" / "receipts")
        self.path = ai / FOLDER / LEDGER
        self.daily = daily
        self._lock = user_lock(ai, _LOCK)
        self._clock = clock
        self._known = (b"", _Day())  # the whole lines that were read, and what they come to
        self._seen = 0  # the highest number of a reservation

    def left(self) -> int:
        """The nano-dollars that are left for today. Another process may take of them."""
        return max(self.daily - self._today().charged, 0)

    def reserve(self, amount: int) -> str:
        """Hold back so many nano-dollars for a call; the name of the reservation.

        It is on the disk then, or nothing is. Raises RyeError `LIMIT_DAILY`, FileSystemError.
        """
        _require_amount(amount)
        make_directory(self.path.parent, mode=0o700)
        with locked(self._lock):
            day = self._today()
            if day.charged + amount > self.daily:
                raise self._refused(day, amount)
            number = day.number + 1
            name = f"{number}-{os.urandom(8).hex()}"
            line = {"type": "reserve", "id": name, "amount": amount}
            if day is not self._known[1] or day.size > _FOLDED_AT:
                self._fold(replace(day, open={**day.open, name: amount}, number=number))
            else:
                self._append(day, line, force=True)
            self._note_number(number)
            self._seen = number
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

    def _today(self) -> _Day:
        """The day that counts: that of the clock, or the ledger's where the clock went back."""
        date = self._date()
        # Before the ledger is read: a reservation stands in it before anything names its number.
        noted = self._noted_number()
        if not noted or not self._seen:
            self._seen = max(self._seen, self._newest())
        named = max(noted, self._seen)
        written = self._read()
        if not written.size:
            return _with_calls(_Day(date), self._calls(date, None))
        if named > written.number:
            first = min(date, written.date)
            written = _with_calls(written, self._calls(first, written.number))
        self._seen = max(self._seen, written.number)
        return written.on(date)

    def _date(self) -> str:
        return self._clock().strftime("%Y-%m-%d")

    def _noted_number(self) -> int:
        """The number of the newest reservation, as far as its file is there."""
        try:
            said = read_bytes(self.path.with_name(NEWEST), _DIGITS + 1).strip()
        except (FileNotFoundError, LilluxError):
            return 0
        return int(said) if said.isdigit() else 0

    def _note_number(self, number: int) -> None:
        """Write it, not forced: what is there after a power failure is no higher than it may be."""
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
        with suppress(LilluxError, OSError):  # journals say it, too
            descriptor = open_file(self.path.with_name(NEWEST), flags, mode=0o600)
            try:
                write_whole(descriptor, b"%0*d\n" % (_DIGITS, number))
            finally:
                os.close(descriptor)

    def _refused(self, day: _Day, amount: int) -> RyeError:
        error = daily_error(amount, max(self.daily - day.charged, 0))
        now = self._date()
        if now < day.date:
            error.hint = (
                f"this machine's clock says {now}, but calls were paid on {day.date}: set the clock"
                f" right; if {day.date} was wrong, remove {self.path}"
            )
        return error

    def _read(self) -> _Day:
        """The ledger as its whole lines say. Raises RyeError `INTEGRITY`."""
        try:
            data = read_bytes(self.path, _MAX_BYTES)
        except FileNotFoundError:
            return _Day()
        # What was read before is not parsed again, as long as the file begins with those bytes.
        seen, day = self._known if data.startswith(self._known[0]) else (b"", _Day())
        lines = data[len(seen) :].splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):  # the process was killed, or the power failed
            lines.pop()
        for place, line in enumerate(lines, start=1):
            try:
                said = json.loads(line)
                if place == len(lines):  # which names all lines before by digest
                    self._require_signed(said)
                day = _after(day, said, line)
            except (ValueError, KeyError, TypeError) as error:
                number = data[: day.size].count(b"\n") + 1
                raise RyeError(
                    f"{self.path}: line {number} is not what was written: {error!s:.80}",
                    code="INTEGRITY",
                    path=str(self.path),
                    hint="no call is paid from it; once you know why, remove the file",
                ) from None
        self._known = data[: day.size], day
        return day

    def _append(self, day: _Day, line: dict[str, Any], *, force: bool) -> None:
        """Write a line behind the last whole one. All of it, or nothing."""
        said = {**line, "prev": day.digest}
        data = self._signed(said)
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
        # So that the next call does not verify what this process wrote.
        self._known = self._known[0] + data, _after(day, said, data)

    def _fold(self, day: _Day) -> None:
        """Replace all lines by one that says the same."""
        names = ("date", "spent", "open", "later", "number")
        said = {"type": "day", **{name: getattr(day, name) for name in names}}
        write_atomic(self.path, self._signed({**said, "prev": day.digest}), mode=0o600)

    @cached_property
    def _key(self) -> SigningKey:
        return SigningKey(self._receipt_key.pair())

    def _signed(self, said: dict[str, Any]) -> bytes:
        return canonical_json({**said, "sig": self._key.digest_signature(_digest(said))}) + b"\n"

    def _require_signed(self, said: dict[str, Any]) -> None:
        """Raises ValueError, KeyError, TypeError."""
        if not isinstance(said, dict):
            raise TypeError("expected a JSON object")
        bare = {name: value for name, value in said.items() if name != "sig"}
        if not verify_signature(_digest(bare), str(said["sig"]), self._key.public_pem):
            raise ValueError("expected the signature of the receipt key")


def _digest(said: dict[str, Any]) -> str:
    """The digest that the signature of a line is over: of no file, so it signs nothing else."""
    return sha256_hex(_PURPOSE + canonical_json(said))


class GrantedLedger:
    """A node's grant to a thread and its children, out of the user's day in its database.

    It lives as long as the process that carries the thread out, which tells the node afterwards
    what was ``charged``.
    """

    def __init__(self, granted: int) -> None:
        self._left = _require_amount(granted)
        self._spent = 0
        self._open: dict[str, int] = {}
        self._lock = Lock()

    def left(self) -> int:
        """The nano-dollars that are left."""
        with self._lock:
            return self._left

    def reserve(self, amount: int) -> str:
        """Hold back so many for a call; the name of the reservation. Raises RyeError."""
        _require_amount(amount)
        with self._lock:
            if amount > self._left:
                error = daily_error(amount, self._left)
                error.hint = "the operator of the node may allow more: daily_spend, thread_spend"
                raise error
            name = os.urandom(8).hex()
            self._left -= amount
            self._open[name] = amount
        return name

    def settle(self, name: str, amount: int) -> None:
        """Take a reservation out, and put in what the call cost."""
        _require_amount(amount)
        with self._lock:
            if name in self._open:
                self._left = max(self._left + self._open.pop(name) - amount, 0)
                self._spent += amount

    @property
    def charged(self) -> int:
        """The cost of the calls, and what is held back.

        More than was granted where a provider billed more than was reserved.
        """
        with self._lock:
            return self._spent + sum(self._open.values())


def _after(day: _Day, said: dict[str, Any], line: bytes) -> _Day:
    """The day after one more line. Raises ValueError, KeyError, TypeError for a wrong one."""
    follows = day.digest if day.size else said["prev"]  # what a first line folds is gone
    if said["prev"] != follows:
        raise ValueError("expected the digest of the line before")
    after = replace(day, digest=sha256_hex(line), size=day.size + len(line))
    match said["type"]:
        case "day" if not day.size:
            return replace(
                after,
                date=str(said["date"]),
                spent=_require_amount(said["spent"]),
                open=_amounts(said["open"]),
                later=_amounts(said.get("later", {})),
                number=_require_amount(said.get("number", 0)),
            )
        case "reserve" if day.size:
            name = str(said["id"])
            opened = {**day.open, name: _require_amount(said["amount"])}
            return replace(after, open=opened, number=max(day.number, _number_of(name)))
        case "settle" if said["id"] in day.open:
            kept = {name: n for name, n in day.open.items() if name != said["id"]}
            return replace(after, open=kept, spent=day.spent + _require_amount(said["amount"]))
    raise ValueError("expected day, reserve or settle")


def _with_calls(day: _Day, calls: Iterable[JournaledCall]) -> _Day:
    """The day with the calls that came after it, as journals have them.

    What was settled since then counts with what it cost.
    """
    spent, opened, later, number = day.spent, dict(day.open), dict(day.later), day.number
    for call in calls:
        number = max(number, call.number)
        if day.size and call.number <= day.number:
            if call.name in opened and not call.is_open:
                del opened[call.name]
                spent += call.amount
        elif call.date > day.date:
            later[call.date] = later.get(call.date, 0) + call.amount
        elif call.is_open:
            opened[call.name] = call.amount
        else:
            spent += call.amount
    return replace(day, spent=spent, open=opened, later=later, number=number)


def _amounts(said: Mapping[str, object]) -> dict[str, int]:
    return {str(name): _require_amount(amount) for name, amount in said.items()}


def _number_of(name: str) -> int:
    """The number in the name of a reservation; 0 where it has none, as those of older versions."""
    number, dash, _ = name.partition("-")
    return int(number) if dash and number.isdecimal() and len(number) <= _DIGITS else 0


def _require_amount(amount: object) -> int:
    if type(amount) is not int or amount < 0:
        raise ValueError(f"expected nano-dollars, a whole number from 0 up, got {amount!r:.40}")
    return amount
