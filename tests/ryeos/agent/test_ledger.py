"""The ledger of a day: no process, kill, clock or full disk gives money twice."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lillux.errors import FileSystemError
from ryeos.agent.ledger import FOLDER, LEDGER, NEWEST, JournaledCall, Ledger
from ryeos.items.errors import RyeError
from tests.support.workspace import ROOT

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
DAILY = 1000


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ledger(home: Path, clock: Clock | None = None, daily: int = DAILY) -> Ledger:
    return Ledger(home / ".ai", daily=daily, clock=clock or Clock())


def lines(home: Path) -> list[dict[str, object]]:
    text = (home / ".ai" / FOLDER / LEDGER).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_what_was_reserved_and_not_used_goes_back(tmp_path: Path) -> None:
    one = ledger(tmp_path)

    name = one.reserve(600)
    assert one.left() == 400
    one.settle(name, 150)

    assert one.left() == ledger(tmp_path).left() == 850


def test_a_call_that_the_day_does_not_cover_is_refused(tmp_path: Path) -> None:
    one = ledger(tmp_path)
    one.reserve(600)

    with pytest.raises(RyeError) as error:
        one.reserve(401)

    assert error.value.code == "LIMIT_DAILY"
    assert "0.0000004 left for today" in str(error.value)
    assert one.reserve(400)


def test_the_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    ledger(tmp_path).reserve(1)

    folder = tmp_path / ".ai" / FOLDER
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / LEDGER).stat().st_mode) == 0o600


def test_a_reservation_is_settled_once(tmp_path: Path) -> None:
    one = ledger(tmp_path)
    name = one.reserve(600)

    one.settle(name, 100)
    one.settle(name, 0)
    one.settle("unknown", 0)

    assert one.left() == 900


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "5"])
def test_an_amount_that_is_none_is_refused(tmp_path: Path, wrong: int) -> None:
    one = ledger(tmp_path)
    name = one.reserve(5)

    for act in (lambda: one.reserve(wrong), lambda: one.settle(name, wrong)):
        with pytest.raises(ValueError, match="nano-dollars"):
            act()


# --- clocks ---------------------------------------------------------------------------------------


def test_a_new_day_has_its_own_money(tmp_path: Path, clock: Clock) -> None:
    one = ledger(tmp_path, clock)
    one.reserve(900)

    clock.now += timedelta(days=1)

    assert one.left() == DAILY


def test_a_call_over_midnight_is_paid_by_the_day_that_it_began_on(
    tmp_path: Path, clock: Clock
) -> None:
    one = ledger(tmp_path, clock)
    name = one.reserve(900)
    clock.now += timedelta(days=1)
    one.reserve(10)

    one.settle(name, 900)

    assert one.left() == DAILY - 10


def test_a_clock_that_goes_back_gives_no_money_again(tmp_path: Path, clock: Clock) -> None:
    one = ledger(tmp_path, clock)
    one.settle(one.reserve(900), 900)

    for days in (-1, 1, -300, 300, -20_000, 20_000):
        clock.now += timedelta(days=days)
        assert one.left() == 100
        with pytest.raises(RyeError, match="daily"):
            one.reserve(101)


def test_a_clock_that_was_ahead_is_named_with_the_file(tmp_path: Path, clock: Clock) -> None:
    one = ledger(tmp_path, clock)
    clock.now += timedelta(days=3000)
    one.reserve(DAILY)
    clock.now = NOON

    with pytest.raises(RyeError) as error:
        one.reserve(1)

    assert "clock says 2026-11-28, but calls were paid on 2035-02-14" in error.value.hint
    assert str(one.path) in error.value.hint


# --- kills, torn lines, full disks ----------------------------------------------------------------

_SPENDS = """\
import os, signal, sys
from pathlib import Path
from ryeos.agent.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), daily=int(sys.argv[2]))
"""


def started(code: str, *words: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", _SPENDS + code, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_what_a_killed_process_reserved_stays_charged(tmp_path: Path) -> None:
    code = "name = ledger.reserve(700)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    with started(code, tmp_path / ".ai", DAILY) as process:
        assert process.wait(60) == -signal.SIGKILL

    assert Ledger(tmp_path / ".ai", daily=DAILY).left() == 300


@pytest.mark.parametrize("kept", range(1, 60, 7))
def test_a_torn_line_is_no_line(tmp_path: Path, kept: int) -> None:
    one = ledger(tmp_path)
    one.reserve(100)
    one.reserve(200)
    whole = one.path.read_bytes()
    first, second = whole.splitlines(keepends=True)
    one.path.write_bytes(first + second[:kept])
    one.path.with_name(NEWEST).unlink()  # which is written after the line
    one = ledger(tmp_path)

    assert one.left() == 900
    name = one.reserve(300)

    assert one.left() == 600
    one.settle(name, 0)
    assert [line["type"] for line in lines(tmp_path)] == ["day", "reserve", "settle"]


def test_a_line_that_was_changed_pays_nothing(tmp_path: Path) -> None:
    one = ledger(tmp_path)
    one.settle(one.reserve(900), 900)
    one.reserve(10)
    text = one.path.read_text("utf-8")
    one.path.write_text(text.replace('"amount":900', '"amount":9'), "utf-8")

    with pytest.raises(RyeError) as error:
        one.reserve(1)

    assert error.value.code == "INTEGRITY"
    assert error.value.path == str(one.path)


@pytest.mark.parametrize(
    "text", ["[]\n", "x\n", "{}\n", '{"type":"settle","id":"a","amount":1,"prev":""}\n', "\0\n"]
)
def test_a_file_of_something_else_pays_nothing(tmp_path: Path, text: str) -> None:
    one = ledger(tmp_path)
    one.reserve(1)
    one.path.write_text(text, "utf-8")

    with pytest.raises(RyeError, match="line 1"):
        one.reserve(1)


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX")
@pytest.mark.parametrize("room", [0, 1, 40])
def test_on_a_full_disk_nothing_is_half_written(tmp_path: Path, room: int) -> None:
    one = ledger(tmp_path)
    name = one.reserve(100)
    before = one.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))
    try:
        for act in (lambda: one.reserve(5), lambda: one.settle(name, 1)):
            with pytest.raises(FileSystemError):
                act()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)

    assert one.path.read_bytes() == before
    assert one.left() == DAILY - 100  # the call failed, its money is not given twice


def test_many_calls_of_a_day_are_folded(tmp_path: Path) -> None:
    one = ledger(tmp_path, daily=10**9)
    kept = one.reserve(7)
    for _ in range(200):
        one.settle(one.reserve(5), 3)

    assert one.path.stat().st_size < 20_000
    assert one.left() == 10**9 - 7 - 200 * 3
    one.settle(kept, 0)
    assert one.left() == 10**9 - 200 * 3


# --- many at once ---------------------------------------------------------------------------------

_COMPETES = """\
from ryeos.items.errors import RyeError
got = 0
for _ in range(20):
    try:
        name = ledger.reserve(10)
    except RyeError:
        continue
    got += 10
    if got % 20:
        ledger.settle(name, 10)
print(got)
"""


def test_ten_processes_at_once_cannot_break_the_day(tmp_path: Path) -> None:
    processes = [started(_COMPETES, tmp_path / ".ai", DAILY) for _ in range(10)]
    got = [int(process.communicate(timeout=120)[0]) for process in processes]

    assert sum(got) == DAILY
    assert Ledger(tmp_path / ".ai", daily=DAILY).left() == 0


# --- a ledger that was lost, or is older than the journals ---------------------------------------


@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_ledger_that_was_lost_begins_with_what_journals_say_of_the_day(
    tmp_path: Path, clock: Clock, *, is_emptied: bool
) -> None:
    asked: list[tuple[str, int | None]] = []

    def calls(date: str, known: int | None) -> list[JournaledCall]:
        asked.append((date, known))
        open_one = JournaledCall("aa", "2026-11-28", 200, is_open=True)
        return [JournaledCall("4-bb", "2026-11-28", 300), open_one]

    one = Ledger(tmp_path / ".ai", daily=DAILY, clock=clock, calls=calls)
    one.path.parent.mkdir(parents=True)
    if is_emptied:
        one.path.write_bytes(b"")

    assert one.left() == 500
    name = one.reserve(400)
    one.settle("aa", 50)  # the call of another process ended

    assert set(asked) == {("2026-11-28", None)}
    assert name.startswith("5-")
    assert one.left() == DAILY - 300 - 50 - 400
    one.settle(name, 0)
    assert one.left() == ledger(tmp_path, clock).left() == DAILY - 350


def test_a_lost_ledger_counts_also_the_days_that_a_clock_ahead_has_paid(
    tmp_path: Path, clock: Clock
) -> None:
    said = [
        JournaledCall("1-aa", "2026-11-28", 100),
        JournaledCall("2-bb", "2026-11-29", 700),
        JournaledCall("3-cc", "2026-11-30", 50, is_open=True),
    ]
    one = Ledger(tmp_path / ".ai", daily=DAILY, clock=clock, calls=lambda _date, _known: said)
    one.settle(one.reserve(10), 10)
    again = ledger(tmp_path, clock)  # which has no journals: what is on the disk counts

    left = [again.left()]
    for _ in range(3):
        clock.now += timedelta(days=1)
        left.append(again.left())
        again.settle(again.reserve(1), 1)

    assert left == [DAILY - 110, DAILY - 700, DAILY - 50, DAILY]


def test_a_ledger_that_is_there_asks_no_journal(tmp_path: Path, clock: Clock) -> None:
    ledger(tmp_path, clock).reserve(10)
    clock.now += timedelta(days=1)

    def calls(_date: str, _known: int | None) -> list[JournaledCall]:
        raise AssertionError("asked")

    assert Ledger(tmp_path / ".ai", daily=DAILY, clock=clock, calls=calls).left() == DAILY


class Journals:
    """What journals say of the calls that a ledger paid."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self.home, self.clock = home, clock
        self.said: list[JournaledCall] = []
        self.reads: list[int | None] = []

    def ledger(self) -> Ledger:
        """Opened anew, as another process does."""
        return Ledger(
            self.home / ".ai",
            daily=DAILY,
            clock=self.clock,
            newest=lambda: max((one.number for one in self.said), default=0),
            calls=self.calls,
        )

    def calls(self, date: str, known: int | None) -> list[JournaledCall]:
        self.reads.append(known)
        return [one for one in self.said if one.date >= date]

    def pay(self, one: Ledger, amount: int) -> None:
        """A call from its reservation to its end, which cost twice as much."""
        name = one.reserve(amount)
        self.said.append(JournaledCall(name, f"{self.clock.now:%Y-%m-%d}", 2 * amount))
        one.settle(name, 2 * amount)


@pytest.fixture
def journals(tmp_path: Path, clock: Clock) -> Journals:
    return Journals(tmp_path, clock)


@pytest.mark.parametrize("is_noted", [False, True])
def test_an_older_copy_of_the_ledger_gives_no_money_again(
    journals: Journals, *, is_noted: bool
) -> None:
    one = journals.ledger()
    journals.pay(one, 50)
    older = one.path.read_bytes()
    journals.pay(one, 200)
    one.path.write_bytes(older)
    if not is_noted:
        one.path.with_name(NEWEST).unlink()

    assert journals.ledger().left() == DAILY - 500
    assert one.left() == DAILY - 500
    journals.pay(journals.ledger(), 10)

    assert one.left() == ledger(journals.home).left() == DAILY - 520
    assert journals.reads[0] is None  # the first call of all: there was no ledger
    assert set(journals.reads[1:]) == {1}


def test_an_older_copy_is_seen_in_the_middle_of_a_thread_that_another_one_overtook(
    journals: Journals,
) -> None:
    one, other = journals.ledger(), journals.ledger()
    journals.pay(one, 50)
    older = one.path.read_bytes()
    for _ in range(3):
        journals.pay(other, 100)
    one.path.write_bytes(older)

    assert one.left() == DAILY - 700
    with pytest.raises(RyeError):
        one.reserve(301)


def test_a_copy_from_the_middle_of_a_call_has_what_the_call_came_to(journals: Journals) -> None:
    one = journals.ledger()
    name = one.reserve(100)
    older = one.path.read_bytes()
    one.settle(name, 300)
    journals.said.append(JournaledCall(name, "2026-11-28", 300))
    journals.pay(one, 50)
    one.path.write_bytes(older)

    assert journals.ledger().left() == DAILY - 300 - 100


def test_a_copy_of_yesterday_has_the_calls_of_today(journals: Journals) -> None:
    one = journals.ledger()
    journals.pay(one, 300)
    older = one.path.read_bytes()
    journals.clock.now += timedelta(days=1)
    journals.pay(one, 100)
    one.path.write_bytes(older)

    assert journals.ledger().left() == DAILY - 200


def test_a_number_that_nothing_names_reads_journals_once_and_changes_nothing(
    journals: Journals,
) -> None:
    one = journals.ledger()
    journals.pay(one, 50)
    journals.reads.clear()
    one.path.with_name(NEWEST).write_bytes(b"%015d\n" % 99)

    journals.pay(one, 50)
    journals.pay(one, 50)

    assert one.left() == DAILY - 300
    assert journals.reads == [1]
    assert one.path.with_name(NEWEST).read_bytes() == b"%015d\n" % 3
