"""Whatever happens to threads, their children and their processes: no limit is ever broken.

The model is what the provider really did: for each thread a list of calls with what they really
used, which is never more than what was reserved, whatever was reported of it.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from lillux.values import dataclass
from ryeos.agent.ledger import Ledger
from ryeos.agent.limits import Limits, combined_limits
from ryeos.agent.prices import Price, cost, input_of, price_of
from ryeos.agent.purse import Amounts, Child, Purse, Reservation
from ryeos.agent.worst_case import NextCall, worst_case
from ryeos.items.errors import RyeError

PRICES = [
    price_of({"input": 300, "output": "1500.5", "cache_read": 30, "cache_write_1h": 600}, "a"),
    price_of(
        {"input": 100, "output": 200, "above": [{"tokens": 3000, "input": 900, "output": 100}]},
        "b",
    ),
    price_of({"free": True}, "c"),
]
DAILY = 3_000_000
SPENT = ("turns", "tokens", "input_tokens", "output_tokens", "spend", "tool_calls", "spawns")


@dataclass(frozen=True, slots=True)
class Reported:
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None


class Thread:
    """A thread with its purse, and what it really used: ``really``."""

    def __init__(self, purse: Purse, parent: "Thread | None" = None) -> None:
        self.purse, self.parent = purse, parent
        self.place: Child | None = None
        self.children: list[Thread] = []
        self.open: tuple[Reservation, str] | None = None
        self.day = ""
        self.really = Amounts()
        self.has_ended = False

    def real_total(self) -> Amounts:
        total = self.really
        for child in self.children:
            total = total.plus(child.real_total())
        return total


NAMED = st.fixed_dictionaries(
    {},
    optional={
        "turns": st.integers(2, 9),
        "tokens": st.integers(6000, 30_000),
        "spend": st.integers(1_000_000, 9_000_000),
        "tool_calls": st.integers(0, 5),
        "spawns": st.integers(1, 3),
    },
)


def require_limit(error: RyeError) -> None:
    assert error.code.startswith("LIMIT_"), error


REPORTS = st.sampled_from(["true", "true", "true", "missing", "zero", "negative", "refused"])


class Threads(RuleBasedStateMachine):
    threads = Bundle("threads")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = datetime(2026, 11, 28, 23, tzinfo=UTC)
        self.paid: dict[str, int] = {}
        self.last_day = ""
        self.roots: list[Thread] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    def ledger(self) -> Ledger:
        """As another process opens it."""
        return Ledger(Path(self.folder.name), daily=DAILY, clock=lambda: self.now)

    # ---------------------------------------------------------------- rules

    @initialize(target=threads, header=NAMED)
    def begin(self, header: dict[str, int]) -> Thread:
        return self.start(header, {})

    @rule(target=threads, header=NAMED, caller=NAMED)
    def start_another(self, header: dict[str, int], caller: dict[str, int]) -> Thread:
        return self.roots[0] if len(self.roots) > 1 else self.start(header, caller)

    def start(self, header: dict[str, int], caller: dict[str, int]) -> Thread:
        ceilings = {"spend": 8_000_000, "turns": 9}
        limits = combined_limits(Limits(), header, ceilings=ceilings, lowered_by=[caller])
        assert limits.spend <= 8_000_000
        assert all(limits.of(name) <= most for name, most in caller.items())
        self.roots.append(Thread(Purse(limits=limits)))
        return self.roots[-1]

    @rule(
        thread=threads,
        size=st.integers(0, 2000),
        most=st.integers(1, 6000),
        price=st.sampled_from(PRICES),
    )
    def call(self, thread: Thread, size: int, most: int, price: Price) -> None:
        if thread.has_ended or thread.open:
            return
        call = NextCall(new_bytes=size, request_bytes=size, max_output=most)
        ledger = self.ledger()
        try:
            worst = worst_case(thread.purse, call, price, daily_left=ledger.left())
            purse, reservation = thread.purse.reserve(worst)
            thread.open = reservation, ledger.reserve(worst.spend)
        except RyeError as error:
            require_limit(error)
            return
        thread.purse = purse
        self.last_day = max(self.last_day, self.now.strftime("%Y-%m-%d"))
        thread.day = self.last_day  # which pays for it, also where it ends after midnight

    @rule(
        thread=threads,
        data=st.data(),
        report=REPORTS,
    )
    def answer(self, thread: Thread, data: st.DataObject, report: str) -> None:
        if thread.has_ended or not thread.open:
            return
        reservation, name = thread.open
        if report == "refused":  # nothing was charged
            thread.purse = thread.purse.release(reservation)
            thread.really = thread.really.plus(Amounts(turns=1))
            self.ledger().settle(name, 0)
            thread.open = None
            return
        usage = self.really_used(thread, data)
        told = {"missing": None, "zero": Reported(0, 0), "negative": Reported(5, -5)}
        before = thread.purse.used.spend
        thread.purse = thread.purse.settle(reservation, told.get(report, usage))
        self.ledger().settle(name, thread.purse.used.spend - before)
        thread.open = None

    @rule(
        thread=threads,
        data=st.data(),
        price=st.sampled_from(PRICES),
        end=st.sampled_from(["killed", "missing", "true"]),
        count=st.integers(1, 10),
    )
    def turns(
        self, thread: Thread, data: st.DataObject, *, price: Price, end: str, count: int
    ) -> None:
        """So many calls, each with its end."""
        for _ in range(count):
            self.call(thread, 500, 500, price)
            if end == "killed":
                self.kill(thread, data)
            else:
                self.answer(thread, data, end)

    @rule(thread=threads, data=st.data())
    def kill(self, thread: Thread, data: st.DataObject) -> None:
        """The process ends in the call: the ledger is never told, the journal charges in full."""
        if thread.has_ended or not thread.open:
            return
        reservation, _ = thread.open
        self.really_used(thread, data)
        thread.purse = thread.purse.charge_in_full(reservation)
        thread.open = None

    @rule(thread=threads, count=st.integers(1, 4))
    def use_tools(self, thread: Thread, count: int) -> None:
        if thread.has_ended:
            return
        try:
            thread.purse = thread.purse.with_tool_calls(count)
        except RyeError as error:
            require_limit(error)
            return
        thread.really = thread.really.plus(Amounts(tool_calls=count))

    @rule(target=threads, thread=threads, wanted=NAMED)
    def start_child(self, thread: Thread, wanted: dict[str, int]) -> Thread:
        if thread.has_ended:
            return thread
        try:
            thread.purse, place = thread.purse.take_child(wanted)
        except RyeError as error:
            require_limit(error)
            return thread
        child = Thread(Purse(limits=place.limits), thread)
        child.place = place
        thread.children.append(child)
        thread.really = thread.really.plus(Amounts(spawns=1))
        return child

    @rule(thread=threads)
    def end(self, thread: Thread) -> None:
        if thread.has_ended:
            return
        for child in thread.children:
            self.end(child)
        if thread.open:  # it was killed: unknown, so in full
            thread.purse = thread.purse.charge_in_full(thread.open[0])
            thread.open = None
        thread.has_ended = True
        if thread.parent and thread.place:
            parent = thread.parent
            parent.purse = parent.purse.return_child(thread.place, thread.purse.used)
            with pytest.raises(ValueError, match="returned before"):
                parent.purse.return_child(thread.place, Amounts())

    @rule(thread=threads, data=st.data(), price=st.sampled_from(PRICES))
    def live_with_a_child(self, thread: Thread, data: st.DataObject, price: Price) -> None:
        """A child that uses what it can, and its parent after it."""
        child = self.start_child(thread, {"tokens": 9000, "turns": 2})
        if child is not thread:
            self.turns(child, data, price=price, end="true", count=3)
            self.end(child)
        self.turns(thread, data, price=price, end="true", count=10)

    @rule(thread=threads, more=st.integers(1, 10_000_000))
    def raise_spend(self, thread: Thread, more: int) -> None:
        if thread.parent is None and not thread.has_ended:
            spend = thread.purse.limits.spend + more
            thread.purse = thread.purse.raised({"spend": spend}, {})

    @rule(hours=st.sampled_from([-50, -20, -3, 3, 20]))
    def clock_jumps(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    # ---------------------------------------------------------------- what must hold

    def really_used(self, thread: Thread, data: st.DataObject) -> Reported:
        """A call as the provider made it, within what was reserved; its money is gone."""
        assert thread.open
        worst = thread.open[0].worst
        kinds = ("input", "cache_read", "cache_write", "cache_write_1h")
        share = data.draw(st.sampled_from([100, 100, 99, 50, 1, 0]))
        sent, answered = (n * share // 100 for n in (worst.input_tokens, worst.output_tokens))
        main = data.draw(st.sampled_from(kinds))
        counts = dict.fromkeys(kinds, sent // 10) | {main: sent - 3 * (sent // 10)}
        usage = Reported(
            counts["input"],
            answered,
            counts["cache_read"],
            counts["cache_write"],
            counts["cache_write_1h"],
        )
        spent = cost(usage, worst.price)
        assert input_of(usage) == sent
        thread.really = thread.really.plus(
            Amounts(
                turns=1,
                tokens=sent + answered,
                input_tokens=sent,
                output_tokens=answered,
                spend=spent,
            )
        )
        self.paid[thread.day] = self.paid.get(thread.day, 0) + spent
        return usage

    @invariant()
    def no_limit_is_broken_by_a_thread_and_its_children(self) -> None:
        waiting = list(self.roots)
        while waiting:
            thread = waiting.pop()
            waiting += thread.children
            real, purse = thread.real_total(), thread.purse
            for name in SPENT:
                assert real.of(name) <= purse.limits.of(name), name
                held = sum(one.amounts.of(name) for one in purse.reserved)
                lent = sum(one.limits.of(name) for one in purse.children)
                assert purse.used.of(name) + held + lent <= purse.limits.of(name), name

    @invariant()
    def no_day_costs_more_than_its_money(self) -> None:
        assert all(spent <= DAILY for spent in self.paid.values())
        assert 0 <= self.ledger().left() <= DAILY


Threads.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_no_limit_is_ever_broken = pytest.mark.property(Threads.TestCase)
