"""The purse of a thread: nothing starts that could break a limit."""

from collections.abc import Callable

import pytest

from lillux.values import dataclass, replace
from ryeos.agent.limits import FIELDS, Limits, combined_limits, read_limits
from ryeos.agent.prices import Price, price_of
from ryeos.agent.purse import Amounts, Purse, Worst
from ryeos.agent.worst_case import NextCall, worst_case
from ryeos.items.directives import parse_directive
from ryeos.items.error_table import error_table
from ryeos.items.errors import RyeError

DOLLAR = 10**9
PRICE = price_of({"input": 1000, "output": 5000, "cache_read": 100, "cache_write": 2000}, "m")
FREE = Price(is_free=True)


@dataclass(frozen=True, slots=True)
class Reported:
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(RyeError) as error:
        act()
    return error.value.code


def purse(**limits: int) -> Purse:
    return Purse(limits=Limits(**limits))


def first(size: int = 1000, most: int = 1000) -> NextCall:
    return NextCall(new_bytes=size, request_bytes=size, max_output=most)


# --- limits ---------------------------------------------------------------------------------------


def test_the_limits_of_a_header_are_read_exactly() -> None:
    header = (
        '```xml\n<directive name="a" version="1.0.0">\n<metadata>\n<description>x</description>\n'
        '<limits turns="6" spend="0.1" tokens="5000"/>\n</metadata>\n</directive>\n```\n'
    )

    said = read_limits(parse_directive(header).limits, "directive:a: limits")

    assert said == {"turns": 6, "spend": 100_000_000, "tokens": 5000}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("turn", 5, "'turn' is no limit: did you mean turns?"),
        ("turns", -1, "limits.turns: expected a whole number from 0 up, found -1"),
        ("turns", 1.5, "limits.turns: expected a whole number from 0 up, found 1.5"),
        ("turns", "many", "limits.turns: expected a whole number from 0 up, found 'many'"),
        ("turns", True, "limits.turns: expected a whole number from 0 up, found True"),
        ("turns", 10**16, "limits.turns: expected a whole number from 0 up"),
        ("spend", "-1", "limits.spend: expected dollars with at most 9 decimals"),
        ("spend", float("nan"), "limits.spend: expected dollars with at most 9 decimals"),
        ("spend", "0.0000000001", "limits.spend: expected dollars with at most 9 decimals"),
        ("spend", "1e3", "limits.spend: expected dollars with at most 9 decimals"),
    ],
)
def test_what_is_no_limit_is_refused(name: str, value: object, problem: str) -> None:
    with pytest.raises(RyeError) as error:
        read_limits({name: value}, "limits")

    assert problem in str(error.value)
    assert error.value.code == "VALIDATION_FAILED"


def test_a_header_lowers_and_raises_the_defaults() -> None:
    limits = combined_limits(Limits(), {"turns": 50, "spend": 5}, ceilings={})

    assert (limits.turns, limits.spend, limits.tool_calls) == (50, 5, 100)


def test_more_tokens_in_all_are_more_of_each_kind() -> None:
    assert Limits().with_named({"tokens": 10**6}).input_tokens == 10**6
    assert Limits().with_named({"tokens": 10**6, "output_tokens": 5}).output_tokens == 5


def test_ceilings_hold_over_all_and_callers_only_lower() -> None:
    header, ceilings = {"turns": 50, "spend": 9 * DOLLAR}, {"spend": 2 * DOLLAR}

    limits = combined_limits(
        Limits(), header, ceilings=ceilings, lowered_by=[{"turns": 10}, {"turns": 90, "spend": 1}]
    )

    assert (limits.turns, limits.spend) == (10, 1)


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"turns": 0}, "LIMIT_TURNS"),
        ({"tokens": 1999}, "LIMIT_TOKENS"),
        ({"input_tokens": 999}, "LIMIT_INPUT_TOKENS"),
        ({"output_tokens": 999}, "LIMIT_OUTPUT_TOKENS"),
        ({"spend": 1}, "LIMIT_SPEND"),
        ({"duration_s": 0}, "LIMIT_DURATION_S"),
    ],
)
def test_a_call_that_could_break_a_limit_is_refused_with_its_name(
    limits: dict[str, int], code: str
) -> None:
    with pytest.raises(RyeError) as error:
        purse(**limits).reserve(Worst(1000, 1000, PRICE))

    (name,) = limits
    assert error.value.code == code
    assert str(error.value).startswith(f"{name}: ")
    assert error.value.facts == {"limit": name}


def test_every_limit_has_a_code() -> None:
    assert {f"LIMIT_{name.upper()}" for name in (*FIELDS, "daily")} <= error_table().keys()


def test_what_was_reserved_goes_back_but_for_what_was_used() -> None:
    held, reservation = purse().reserve(Worst(10_000, 1000, PRICE))
    assert held.left_of("spend") == DOLLAR - 10_000 * 2000 - 1000 * 5000

    settled = held.settle(reservation, Reported(100, 10, 400))

    assert settled.used == Amounts(
        turns=1, tokens=510, input_tokens=500, output_tokens=10, spend=100_000 + 50_000 + 40_000
    )
    assert settled.reserved == ()


@pytest.mark.parametrize(
    "usage", [None, Reported(0, 0), Reported(None, 7), Reported(-3, 7), Reported(7, -3)]
)
def test_without_usage_that_can_be_believed_the_reservation_stays_charged(
    usage: Reported | None,
) -> None:
    worst = Worst(1000, 1000, PRICE)
    held, reservation = purse().reserve(worst)

    settled = held.settle(reservation, usage)

    assert settled.used.spend == worst.spend
    assert settled.used.tokens == 2000


def test_a_provider_that_bills_more_than_was_reserved_stops_the_thread() -> None:
    """Prices of tomorrow, hidden thinking: all is charged, and no call starts any more."""
    held, reservation = purse(spend=DOLLAR).reserve(Worst(1000, 1000, PRICE))

    settled = held.settle(reservation, Reported(10**6, 10**6))

    assert settled.used.spend > DOLLAR
    assert settled.left_of("spend") == 0
    assert code_of(lambda: worst_case(settled, first(), PRICE)) == "LIMIT_TOKENS"
    raised = replace(settled, limits=settled.limits.with_named({"tokens": 10**8}))
    assert code_of(lambda: worst_case(raised, first(), PRICE)) == "LIMIT_SPEND"


def test_a_reservation_is_settled_once() -> None:
    held, reservation = purse().reserve(Worst(1000, 1000, PRICE))
    settled = held.charge_in_full(reservation)

    with pytest.raises(ValueError, match="settled before"):
        settled.settle(reservation, Reported(1, 1))


def test_a_call_that_was_refused_costs_its_turn_alone() -> None:
    held, reservation = purse().reserve(Worst(1000, 1000, PRICE))

    assert held.release(reservation).used == Amounts(turns=1)


def test_tool_calls_are_counted() -> None:
    assert code_of(lambda: purse(tool_calls=2).with_tool_calls(2).with_tool_calls()) == (
        "LIMIT_TOOL_CALLS"
    )


def test_a_clock_that_goes_back_gives_no_time_again() -> None:
    late = purse(duration_s=100).with_elapsed(100)

    assert late.with_elapsed(-50).left_of("duration_s") == 0


# --- worst case -----------------------------------------------------------------------------------


def test_before_the_first_answer_each_byte_is_a_token() -> None:
    worst = worst_case(purse(), first(3000, 700), PRICE)

    assert (worst.input_tokens, worst.output_tokens) == (3000 + 1024, 700)
    assert worst.spend == 4024 * 2000 + 700 * 5000


def test_after_an_answer_only_what_is_new_is_counted_by_bytes() -> None:
    last = Reported(100, 50, 900)
    call = NextCall(
        last=last, new_bytes=200, request_bytes=99_999, new_pictures=1, pictures=9, max_output=1
    )

    assert worst_case(purse(), call, PRICE).input_tokens == 1000 + 50 + 200 + 5000 + 1024


def test_after_an_answer_without_usage_the_whole_request_is_counted() -> None:
    call = NextCall(
        last=Reported(0, 0),
        new_bytes=200,
        request_bytes=9000,
        new_pictures=1,
        pictures=2,
        max_output=1,
    )

    assert worst_case(purse(), call, PRICE).input_tokens == 9000 + 2 * 5000 + 1024


def test_the_answer_is_lowered_to_what_the_purse_covers() -> None:
    poor = purse(spend=2024 * 2000 + 400 * 5000)

    assert worst_case(poor, first(1000, 9000), PRICE).output_tokens == 400
    assert worst_case(purse(tokens=2424), first(1000, 9000), PRICE).output_tokens == 400
    assert worst_case(purse(output_tokens=400), first(1000, 9000), PRICE).output_tokens == 400
    assert (
        worst_case(
            purse(), first(1000, 9000), PRICE, daily_left=2024 * 2000 + 400 * 5000
        ).output_tokens
        == 400
    )


@pytest.mark.parametrize(
    ("limits", "daily", "code"),
    [
        ({"spend": 2024 * 2000 + 255 * 5000}, None, "LIMIT_SPEND"),
        ({"spend": 5}, None, "LIMIT_SPEND"),
        ({"tokens": 2024 + 255}, None, "LIMIT_TOKENS"),
        ({"input_tokens": 2023}, None, "LIMIT_INPUT_TOKENS"),
        ({"output_tokens": 255}, None, "LIMIT_OUTPUT_TOKENS"),
        ({}, 2024 * 2000 + 255 * 5000, "LIMIT_DAILY"),
        ({}, 0, "LIMIT_DAILY"),
    ],
)
def test_with_too_little_for_an_answer_the_thread_stops_before_the_call(
    limits: dict[str, int], daily: int | None, code: str
) -> None:
    call = first(1000, 9000)

    assert code_of(lambda: worst_case(purse(**limits), call, PRICE, daily_left=daily)) == code


def test_a_model_with_a_smaller_answer_needs_no_more_room() -> None:
    assert worst_case(purse(output_tokens=16), first(10, 16), PRICE).output_tokens == 16


def test_the_dearest_tier_that_the_size_reaches_is_reserved() -> None:
    price = price_of(
        {"input": 1, "output": 1, "above": [{"tokens": 2000, "input": 10, "output": 20}]}, "m"
    )

    assert worst_case(purse(), first(976), price).spend == 2000 + 1000
    assert worst_case(purse(), first(977), price).spend == 2001 * 10 + 1000 * 20


def test_a_free_model_is_stopped_by_its_tokens_alone() -> None:
    worst = worst_case(purse(spend=0), first(), FREE, daily_left=0)

    assert purse(spend=0).reserve(worst)[0].left_of("turns") == 19


# --- children -------------------------------------------------------------------------------------


def test_a_child_is_taken_out_of_its_parent() -> None:
    parent, child = purse().take_child({"spend": DOLLAR // 2, "turns": 4})

    assert child.limits.spend == DOLLAR // 2
    assert parent.left_of("spend") == DOLLAR // 2
    assert parent.left_of("turns") == 16
    assert parent.left_of("spawns") == 4
    assert child.limits.depth == 2


def test_a_child_gets_no_more_than_is_left() -> None:
    _, child = purse(spend=7).take_child({"spend": DOLLAR, "duration_s": 10**6, "depth": 99})

    assert (child.limits.spend, child.limits.duration_s, child.limits.depth) == (7, 1800, 2)


def test_children_without_limits_of_their_own_share_evenly() -> None:
    parent, shares = purse(spend=6 * DOLLAR), []
    for _ in range(5):
        parent, child = parent.take_child({}, defaults=Limits(spend=10 * DOLLAR))
        shares.append(child.limits.spend)

    assert shares == [DOLLAR] * 5
    assert parent.left_of("spend") == DOLLAR


def test_what_a_child_did_not_use_goes_back_once() -> None:
    parent, child = purse().take_child({"spend": DOLLAR})

    returned = parent.return_child(child, Amounts(spend=5, turns=1))

    assert returned.left_of("spend") == DOLLAR - 5
    assert returned.left_of("turns") == 19
    with pytest.raises(ValueError, match="returned before"):
        returned.return_child(child, Amounts())


def test_a_purse_without_room_has_no_children() -> None:
    assert code_of(lambda: purse(depth=0).take_child({})) == "LIMIT_DEPTH"
    assert code_of(lambda: purse(spawns=0).take_child({})) == "LIMIT_SPAWNS"
    assert code_of(lambda: purse(turns=0).take_child({})) == "LIMIT_TURNS"
    assert code_of(lambda: purse(duration_s=9).with_elapsed(9).take_child({})) == (
        "LIMIT_DURATION_S"
    )


# --- raising, showing -----------------------------------------------------------------------------


def test_a_person_raises_a_limit_within_the_ceilings() -> None:
    assert purse().raised({"spend": 2 * DOLLAR}, {}).left_of("spend") == 2 * DOLLAR
    assert code_of(lambda: purse().raised({"spend": 5}, {})) == "VALIDATION_FAILED"
    assert code_of(lambda: purse().raised({"turns": 99}, {"turns": 50})) == "VALIDATION_FAILED"


def test_what_is_left_is_one_short_line() -> None:
    line = purse().with_elapsed(30).left()

    assert line == (
        "left: 20 of 20 turns, 200000 tokens, 1.00 dollars, 29 min 30 s, 100 tool calls, 5 children"
    )
