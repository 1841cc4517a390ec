"""The purse of a thread: what it may still use. Values in, values out: pure.

Before a call its worst case is reserved, after it the reservation is taken out again and what the
provider reported is put in. A child's purse is taken out of its parent's, and what it did not use
goes back once. So no call starts that could break a limit, also while children run.

A journal is replayed through the same methods, in order: the numbers of reservations and children
are the same then.
"""

from collections.abc import Iterable, Mapping
from operator import add
from typing import NamedTuple

from lillux.text import likely_meant
from lillux.values import dataclass, replace
from ryeos.agent.prices import (
    Price,
    ReportedUsage,
    cost,
    dollars,
    input_of,
    is_believable,
    nano_dollars,
)
from ryeos.items.errors import RyeError

OVERHEAD = 1_024
"""Tokens that providers add to a request by themselves."""
IMAGE_TOKENS = 5_000
"""The most tokens that a picture is."""
MIN_OUTPUT = 256
"""Less room than this for an answer is none."""
BYTES_OF_TOKEN = 3
"""About so many bytes are a token in the words, the code and the JSON of a request. No limit is
held by this: a worst case counts a token for each byte."""
_MOST = 10**15  # of anything: more is no limit


# --- limits ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that a thread may use, its children included.

    ``tokens`` are those of input and output together, ``spend`` nano-dollars, ``duration_s``
    seconds without those of waiting for a person, ``spawns`` children, ``depth`` how many
    generations of children may be below it.
    """

    turns: int = 20
    tokens: int = 200_000
    input_tokens: int = 200_000
    output_tokens: int = 200_000
    spend: int = 1_000_000_000
    duration_s: int = 1_800
    tool_calls: int = 100
    spawns: int = 5
    depth: int = 3

    def of(self, name: str) -> int:
        """One of them, by its name."""
        limit: int = getattr(self, name)
        return limit

    def as_dict(self) -> dict[str, int]:
        """The limits by name."""
        return {name: self.of(name) for name in FIELDS}

    def with_named(self, named: Mapping[str, int]) -> "Limits":
        """The same with others for those that are named.

        Where ``tokens`` are named alone, input and output have no narrower limit of their own.
        """
        values = {**self.as_dict(), **named}
        if "tokens" in named:
            for part in ("input_tokens", "output_tokens"):
                values[part] = named.get(part, max(values[part], named["tokens"]))
        return Limits(**values)

    def lowered(self, named: Mapping[str, int]) -> "Limits":
        """The same, nowhere above what is named."""
        return Limits(**{name: min(n, named.get(name, n)) for name, n in self.as_dict().items()})


FIELDS: tuple[str, ...] = tuple(Limits.__slots__)
"""The limits, as headers, configuration and errors name them."""


def read_limits(said: Mapping[str, object], where: str) -> dict[str, int]:
    """The limits that a header, a configuration or a caller names, in the units of `Limits`.

    ``spend`` is in dollars there. Raises RyeError `VALIDATION_FAILED` for a name that is no limit,
    and for a value that is none: what is not read would be a limit that does not hold.
    """
    return {name: _limit(name, value, where) for name, value in said.items()}


def _limit(name: str, value: object, where: str) -> int:
    if name not in FIELDS:
        meant = likely_meant(name, FIELDS)
        raise RyeError(
            f"{where}: {name[:80]!r} is no limit" + (f": did you mean {meant}?" if meant else ""),
            code="VALIDATION_FAILED",
            hint=f"the limits are {', '.join(FIELDS)}",
        )
    if name == "spend":
        amount = nano_dollars(value)
        if amount is None or amount > _MOST:
            expected = "dollars with at most 9 decimals, like 0.5"
            raise _wrong_limit(f"{where}.{name}", expected, value)
        return amount
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise _wrong_limit(f"{where}.{name}", "a whole number from 0 up", value)
    return value


def _wrong_limit(where: str, expected: str, value: object) -> RyeError:
    return RyeError(
        f"{where}: expected {expected}, found {value!r:.60}",
        code="VALIDATION_FAILED",
        hint='for example <limits turns="10" spend="0.5" />',
    )


def combined_limits(
    defaults: Limits,
    header: Mapping[str, int],
    *,
    ceilings: Mapping[str, int],
    lowered_by: Iterable[Mapping[str, int]] = (),
) -> Limits:
    """The limits of a thread.

    1. A limit of the directive's header lowers or raises the default.
    2. ``ceilings`` of user space hold over all.
    3. The caller, and its ``limit_overrides`` (``lowered_by``), only lower.
    """
    limits = defaults.with_named(header).lowered(ceilings)
    for named in lowered_by:
        limits = limits.lowered(named)
    return limits


# --- purse ----------------------------------------------------------------------------------------


class Amounts(NamedTuple):
    """What was used, or is held back: of each limit that is divided between parent and children.

    Time passes for both at once, and a generation is not used up.
    """

    turns: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    spend: int = 0
    tool_calls: int = 0
    spawns: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        """The sum."""
        return Amounts(*map(add, self, other))

    def of(self, name: str) -> int:
        """One of them, by its name."""
        amount: int = getattr(self, name)
        return amount

    def as_dict(self) -> dict[str, int]:
        """The amounts by name."""
        return self._asdict()


_NOTHING = Amounts()


class Worst(NamedTuple):
    """The most that the next call can use, see `worst_case`; ``output_tokens`` is its maximum."""

    input_tokens: int
    output_tokens: int
    price: Price

    @property
    def spend(self) -> int:
        """The most nano-dollars that it can cost."""
        return self.price.dearest(self.input_tokens, self.output_tokens)


class Reservation(NamedTuple):
    """What is held back for one call, until it is settled."""

    number: int
    worst: Worst

    @property
    def amounts(self) -> Amounts:
        """What that is of a purse."""
        sent, answered = self.worst.input_tokens, self.worst.output_tokens
        return _used_by_call(sent, answered, self.worst.spend)


class Child(NamedTuple):
    """The part of a purse that a child has, until it ended."""

    number: int
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """What a thread may use, what it used, and what is held back for calls and children."""

    limits: Limits
    used: Amounts = _NOTHING
    elapsed_s: int = 0
    reserved: tuple[Reservation, ...] = ()
    children: tuple[Child, ...] = ()
    next_number: int = 1

    # ---------------------------------------------------------------- what is left

    def left_of(self, name: str) -> int:
        """How much of a limit is neither used nor held back. Never negative."""
        limit = self.limits.of(name)
        if name == "depth":
            return limit
        if name == "duration_s":
            return max(limit - self.elapsed_s, 0)
        taken = self.used.of(name)
        for reservation in self.reserved:
            taken += reservation.amounts.of(name)
        for child in self.children:
            taken += child.limits.of(name)
        return max(limit - taken, 0)

    def left(self, today: int | None = None) -> str:
        """What is left, in one short line for the model.

        ``today`` are the nano-dollars that are left for today, which count where they are less.
        """
        minutes, seconds = divmod(self.left_of("duration_s"), 60)
        spend = self.left_of("spend")
        money = f"{dollars(spend)} dollars"
        if today is not None and today < spend:
            money = f"{dollars(today)} dollars of today's"
        return (
            f"left: {self.left_of('turns')} of {self.limits.turns} turns,"
            f" {min(self.left_of('tokens'), self.left_of('input_tokens'))} tokens,"
            f" {money}, {minutes} min {seconds} s,"
            f" {self.left_of('tool_calls')} tool calls, {self.left_of('spawns')} children"
        )

    # ---------------------------------------------------------------- calls of the model

    def reserve(self, worst: Worst) -> tuple["Purse", Reservation]:
        """Hold back the worst case of a call, which is a turn. Raises RyeError ``LIMIT_...``."""
        self.require("duration_s", 1)
        reservation = Reservation(self.next_number, worst)
        for name, wanted in reservation.amounts.as_dict().items():
            self.require(name, wanted)
        held = (*self.reserved, reservation)
        return replace(self, reserved=held, next_number=self.next_number + 1), reservation

    def require(self, name: str, wanted: int) -> None:
        """Raise RyeError ``LIMIT_...`` where less than that is left of a limit."""
        if self.left_of(name) < wanted:
            raise self.limit_error(name, wanted)

    def limit_error(self, name: str, wanted: int) -> RyeError:
        """The error of a limit that would be broken; it names the limit as the header does."""
        shown = dollars if name == "spend" else str
        limit = self.limits.of(name)
        return limit_error(
            name, f"{shown(wanted)} needed, {shown(self.left_of(name))} left of {shown(limit)}"
        )

    def settle(self, reservation: Reservation, usage: ReportedUsage | None) -> "Purse":
        """Take a reservation out, and put in what the provider reported.

        Where it reported 0, a negative number or nothing, the reservation stays charged. Where it
        reported more than was reserved, all of it is charged: the next call is refused then.
        """
        if usage is None or not is_believable(usage):
            return self.charge_in_full(reservation)
        spent = cost(usage, reservation.worst.price)
        used = _used_by_call(input_of(usage), usage.output_tokens or 0, spent)
        return self._settled(reservation, used)

    def charge_in_full(self, reservation: Reservation) -> "Purse":
        """Take a reservation as used: of a call whose outcome is unknown."""
        return self._settled(reservation, reservation.amounts)

    def release(self, reservation: Reservation) -> "Purse":
        """Take a reservation out: the call was refused before it was charged. The turn stays."""
        return self._settled(reservation, Amounts(turns=1))

    def _settled(self, reservation: Reservation, used: Amounts) -> "Purse":
        kept = tuple(one for one in self.reserved if one.number != reservation.number)
        if len(kept) == len(self.reserved):
            raise ValueError(f"reservation {reservation.number}: settled before, or of others")
        return replace(self, reserved=kept, used=self.used.plus(used))

    # ---------------------------------------------------------------- tools, time

    def with_tool_calls(self, count: int = 1) -> "Purse":
        """The purse once so many calls of tools start. Raises RyeError `LIMIT_TOOL_CALLS`."""
        self.require("tool_calls", count)
        return replace(self, used=self.used.plus(Amounts(tool_calls=count)))

    def with_elapsed(self, elapsed_s: int) -> "Purse":
        """The purse after so many seconds in all. A clock that goes back gives none again."""
        return replace(self, elapsed_s=elapsed_s) if elapsed_s > self.elapsed_s else self

    # ---------------------------------------------------------------- children

    def take_child(
        self, wanted: Mapping[str, int], *, defaults: Limits | None = None
    ) -> tuple["Purse", Child]:
        """Take the purse of a child out of this one. Raises RyeError ``LIMIT_...``.

        ``wanted`` are the limits that the child's header and its caller name: it gets them as far
        as they are left. Of any other limit it gets an even share, so that as many children as may
        still start, and the parent, find as much; no more than the default.
        """
        self.require("depth", 1)
        self.require("spawns", 1)
        after = replace(self, used=self.used.plus(Amounts(spawns=1)))
        plain = (defaults or Limits()).as_dict()
        if "tokens" in wanted:  # as in `Limits.with_named`
            parts = ("input_tokens", "output_tokens")
            wanted = {**dict.fromkeys(parts, wanted["tokens"]), **wanted}
        shares = self.left_of("spawns") + 1
        given = {
            "duration_s": min(wanted.get("duration_s", _MOST), after.left_of("duration_s")),
            "depth": min(wanted.get("depth", _MOST), self.limits.depth - 1),
        }
        for name in Amounts._fields:
            left = after.left_of(name)
            # A turn is too large to be shared out: one of the last ones is whole.
            share = -(-left // shares) if name == "turns" else left // shares
            given[name] = min(wanted.get(name, min(share, plain[name])), left)
        for name in ("turns", "tokens", "input_tokens", "output_tokens", "duration_s"):
            if given[name] == 0:
                raise self.limit_error(name, 1)
        child = Child(self.next_number, Limits(**given))
        return replace(
            after, children=(*self.children, child), next_number=self.next_number + 1
        ), child

    def return_child(self, child: Child, used: Amounts) -> "Purse":
        """Take a child's purse back, and put in what it used. Once: raises ValueError after."""
        kept = tuple(one for one in self.children if one.number != child.number)
        if len(kept) == len(self.children):
            raise ValueError(f"child {child.number}: returned before, or of others")
        return replace(self, children=kept, used=self.used.plus(used))

    # ---------------------------------------------------------------- raising

    def raised(self, named: Mapping[str, int], ceilings: Mapping[str, int]) -> "Purse":
        """The purse after a person raised limits. Raises RyeError `VALIDATION_FAILED`."""
        for name, value in named.items():
            present = self.limits.of(name)
            most = ceilings.get(name, _MOST)
            shown = dollars if name == "spend" else str
            if not present < value <= most:
                below = f", at most {shown(most)} (ceilings)" if name in ceilings else ""
                raise RyeError(
                    f"{name}: expected more than {shown(present)}{below}, found {shown(value)}",
                    code="VALIDATION_FAILED",
                    hint="ceilings stand in .ai/config/agent/agent.yaml of user space; a thread"
                    " keeps those of its start"
                    if name in ceilings
                    else "",
                )
        return replace(self, limits=self.limits.with_named(named).lowered(ceilings))


def limit_error(name: str, problem: str) -> RyeError:
    """The error of a thread that a limit stops."""
    error = RyeError(
        f"{name}: {problem}",
        code=f"LIMIT_{name.upper()}",
        hint="a person may allow more a day: daily in config/agent/agent.yaml of user space"
        if name == "daily"
        else f"a person may raise {name}, or start the thread with more",
    )
    error.facts = {"limit": name}
    return error


def _used_by_call(sent: int, answered: int, spend: int) -> Amounts:
    """What one call of the model uses."""
    return Amounts(
        turns=1,
        tokens=sent + answered,
        input_tokens=sent,
        output_tokens=answered,
        spend=spend,
    )


# --- worst case -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCall:
    """What is known of a call before it is made.

    last           what the provider reported for the last turn; None before the first
    new_bytes      the bytes that are new since then, without those of pictures
    request_bytes  the bytes of the whole request, without those of pictures
    new_pictures   pictures that are new since then
    pictures       all pictures of the request
    max_output     the most tokens that the model, and the request, let an answer have
    """

    last: ReportedUsage | None = None
    new_bytes: int
    request_bytes: int
    new_pictures: int = 0
    pictures: int = 0
    max_output: int

    def worst_input(self, overhead: int, image_tokens: int) -> int:
        """The most tokens that the request can be: a token is at least one byte."""
        if self.last is None or not is_believable(self.last):
            return self.request_bytes + self.pictures * image_tokens + overhead
        known = input_of(self.last) + (self.last.output_tokens or 0)
        return known + self.new_bytes + self.new_pictures * image_tokens + overhead

    def likely_input(self, image_tokens: int) -> int:
        """About how many tokens the request is: what a window of the model is compared with."""
        if self.last is None or not is_believable(self.last):
            return self.request_bytes // BYTES_OF_TOKEN + self.pictures * image_tokens
        known = input_of(self.last) + (self.last.output_tokens or 0)
        return known + self.new_bytes // BYTES_OF_TOKEN + self.new_pictures * image_tokens


def worst_case(
    purse: Purse,
    call: NextCall,
    price: Price,
    *,
    daily_left: int | None = None,
    min_output: int = MIN_OUTPUT,
    overhead: int = OVERHEAD,
    image_tokens: int = IMAGE_TOKENS,
) -> Worst:
    """The most that a call can use, its output lowered to what the purse still covers.

    ``daily_left`` are the nano-dollars that the user has left for today. Raises RyeError
    ``LIMIT_...`` where less than ``min_output`` tokens could be answered.
    """
    sent = call.worst_input(overhead, image_tokens)
    least = min(min_output, call.max_output)
    room: dict[str, int | None] = {
        "tokens": purse.left_of("tokens") - sent,
        "input_tokens": least if sent <= purse.left_of("input_tokens") else -1,
        "output_tokens": purse.left_of("output_tokens"),
        "spend": price.affordable_output(purse.left_of("spend"), sent),
    }
    wanted = {
        "input_tokens": sent,
        "tokens": sent + least,
        "output_tokens": least,
        "spend": price.dearest(sent, least),
    }
    output = call.max_output
    for name, tokens in room.items():
        if tokens is not None and tokens < least:
            raise purse.limit_error(name, wanted[name])
        if tokens is not None and name != "input_tokens":
            output = min(output, tokens)
    if daily_left is not None:
        paid = price.affordable_output(daily_left, sent)
        if paid is not None and paid < least:
            raise daily_error(wanted["spend"], daily_left)
        output = output if paid is None else min(output, paid)
    return Worst(sent, output, price)


def daily_error(wanted: int, left: int) -> RyeError:
    """The error of a call that the money of the day does not cover."""
    return limit_error("daily", f"{dollars(wanted)} dollars needed, {dollars(left)} left for today")
