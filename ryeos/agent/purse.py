"""The purse of a thread: what it may still use. Values in, values out: pure.

Before a call its worst case is reserved, after it the reservation is taken out again and what the
provider reported is put in. A child's purse is taken out of its parent's, and what it did not use
goes back once. So no call starts that could break a limit, also while children run.

A journal is replayed through the same methods, in order: the numbers of reservations and children
are the same then.
"""

from collections.abc import Mapping
from operator import add
from typing import NamedTuple

from lillux.values import dataclass, replace
from ryeos.agent.limits import MAX_LIMIT, Limits
from ryeos.agent.prices import Price, ReportedUsage, cost, dollars, input_of, is_believable
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


class Amounts(NamedTuple):
    """The amounts used or held back: of each limit that is divided between parent and children.

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
    """The amounts held back for one call, until it is settled."""

    number: int
    worst: Worst

    @property
    def amounts(self) -> Amounts:
        """The amounts of a purse for these."""
        sent, answered = self.worst.input_tokens, self.worst.output_tokens
        return _used_by_call(sent, answered, self.worst.spend)


class Child(NamedTuple):
    """The part of a purse that a child has, until it ended."""

    number: int
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """The limits of a thread, what it used, and what is held back for calls and children."""

    limits: Limits
    used: Amounts = _NOTHING
    elapsed_s: int = 0
    reserved: tuple[Reservation, ...] = ()
    children: tuple[Child, ...] = ()
    next_number: int = 1

    def left_of(self, name: str) -> int:
        """The part of a limit that is neither used nor held back. Never negative."""
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
        """The rest of the limits, in one short line for the model.

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

    def with_tool_calls(self, count: int = 1) -> "Purse":
        """The purse once so many calls of tools start. Raises RyeError `LIMIT_TOOL_CALLS`."""
        self.require("tool_calls", count)
        return replace(self, used=self.used.plus(Amounts(tool_calls=count)))

    def with_elapsed(self, elapsed_s: int) -> "Purse":
        """The purse after so many seconds in all. A clock that goes back gives none again."""
        return replace(self, elapsed_s=elapsed_s) if elapsed_s > self.elapsed_s else self

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
            "duration_s": min(wanted.get("duration_s", MAX_LIMIT), after.left_of("duration_s")),
            "depth": min(wanted.get("depth", MAX_LIMIT), self.limits.depth - 1),
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

    def raised(self, named: Mapping[str, int], ceilings: Mapping[str, int]) -> "Purse":
        """The purse after a person raised limits. Raises RyeError `VALIDATION_FAILED`."""
        for name, value in named.items():
            present = self.limits.of(name)
            most = ceilings.get(name, MAX_LIMIT)
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
    """The use of one call of the model."""
    return Amounts(
        turns=1,
        tokens=sent + answered,
        input_tokens=sent,
        output_tokens=answered,
        spend=spend,
    )
