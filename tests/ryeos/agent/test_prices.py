"""What a call costs: whole nano-dollars, never less than the provider asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.values import dataclass
from ryeos.agent.prices import (
    Price,
    Rates,
    cost,
    dollars,
    input_of,
    is_believable,
    nano_dollars,
    price_of,
)
from ryeos.items.errors import RyeError


@dataclass(frozen=True, slots=True)
class Reported:
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None


SONNET = {
    "input": 3000,
    "output": 15000,
    "cache_read": 300,
    "cache_write": 3750,
    "cache_write_1h": 6000,
    "above": [{"tokens": 200_000, "input": 6000, "output": 22500}],
}


def test_each_token_is_paid_once_at_its_own_rate() -> None:
    usage = Reported(1000, 100, 50_000, 2000, 10)

    assert input_of(usage) == 53_010
    assert cost(usage, price_of(SONNET, "m")) == (
        1000 * 3000 + 100 * 15000 + 50_000 * 300 + 2000 * 3750 + 10 * 6000
    )


def test_cached_tokens_are_not_billed_twice() -> None:
    price = price_of(SONNET, "m")

    all_cached = cost(Reported(1, 1, 100_000), price)

    assert all_cached == 3000 + 15000 + 100_000 * 300


def test_a_tier_counts_for_all_tokens_and_cached_ones_reach_it() -> None:
    price = price_of(SONNET, "m")

    at, over = Reported(100, 10, 199_900), Reported(101, 10, 199_900)

    assert cost(at, price) == 100 * 3000 + 10 * 15000 + 199_900 * 300
    assert cost(over, price) == 101 * 6000 + 10 * 22500 + 199_900 * 300


def test_a_sum_is_rounded_up_once() -> None:
    price = price_of({"input": "0.3", "output": 0.25}, "m")

    assert cost(Reported(1, 0), price) == 1
    assert cost(Reported(10, 4), price) == 4  # 3 + 1, exactly


def test_a_rate_that_yaml_read_as_a_float_is_what_was_written() -> None:
    assert price_of({"input": 0.1, "output": 312.5}, "m").rates == Rates(
        100_000, 312_500_000, 100_000, 100_000, 100_000
    )


@pytest.mark.parametrize("wrong", [-1, "1e3", "0.0000001", True, float("inf"), 10**10, "x", [1]])
def test_a_rate_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(RyeError, match="nano-dollars for a token") as error:
        price_of({"input": wrong, "output": 1}, "a/m")

    assert error.value.code == "CONFIG_ERROR"


@pytest.mark.parametrize("said", [None, {}, {"input": 1}, {"output": 1}, {"free": False}])
def test_a_model_without_a_price_is_refused(said: dict[str, object] | None) -> None:
    with pytest.raises(RyeError) as error:
        price_of(said, "a/m")

    assert error.value.code == "PRICE_UNKNOWN"


def test_a_free_model_costs_nothing() -> None:
    price = price_of({"free": True}, "m")

    assert price == Price(is_free=True)
    assert cost(Reported(10**6, 10**6, 10**6), price) == price.dearest(10**6, 10**6) == 0
    assert price.affordable_output(0, 10**6) is None


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Reported(None, 5),
        Reported(5, None),
        Reported(0, 0),
        Reported(0, 5),
        Reported(5, 0),
        Reported(-5, 5),
        Reported(5, 5, -1),
    ],
)
def test_usage_of_nothing_or_less_is_not_believed(usage: Reported | None) -> None:
    assert not is_believable(usage)


def test_amounts_are_read_and_shown_without_a_loss() -> None:
    assert nano_dollars("0.5") == nano_dollars(0.5) == 500_000_000
    assert nano_dollars(0.1) == 100_000_000
    assert nano_dollars("0.000000001") == 1
    assert nano_dollars("0.0000000001") is None
    assert nano_dollars("-1") is None
    assert dollars(1_234_500_000) == "1.2345"
    assert dollars(2_000_000_000) == "2.00"
    assert dollars(1) == "0.000000001"


@given(st.integers(0, 10**18))
def test_an_amount_that_is_shown_is_read_as_the_same(nano: int) -> None:
    assert nano_dollars(dollars(nano)) == nano


RATE = st.one_of(
    st.integers(0, 10**6), st.decimals(0, 1000, places=6).map(lambda rate: f"{rate:f}")
)
RATES_SAID = st.fixed_dictionaries(
    {"input": RATE, "output": RATE},
    optional={"cache_read": RATE, "cache_write": RATE, "cache_write_1h": RATE},
)
SAID = st.builds(
    lambda base, above: {**base, "above": above},
    RATES_SAID,
    st.lists(
        st.builds(lambda rates, n: {**rates, "tokens": n}, RATES_SAID, st.integers(0, 10**6)),
        max_size=3,
    ),
)
TOKENS = st.integers(0, 10**6)


REPORTED = st.builds(Reported, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS)


@pytest.mark.property
@given(SAID, REPORTED, st.integers(0, 1000))
def test_no_call_costs_more_than_its_dearest(
    said: dict[str, object], usage: Reported, more: int
) -> None:
    price = price_of(said, "m")

    worst = price.dearest(input_of(usage) + more, (usage.output_tokens or 0) + more)

    assert cost(usage, price) <= worst


@pytest.mark.property
@given(SAID, st.integers(0, 10**15), TOKENS)
def test_what_can_be_afforded_is_paid_for_and_one_more_is_not(
    said: dict[str, object], spend: int, sent: int
) -> None:
    price = price_of(said, "m")

    output = price.affordable_output(spend, sent)

    if output is None:
        assert price.dearest(sent, 10**9) <= spend
    elif output >= 0:
        assert price.dearest(sent, output) <= spend < price.dearest(sent, output + 1)
    else:
        assert price.dearest(sent, 0) > spend


@pytest.mark.property
@given(SAID)
def test_a_price_that_is_written_down_is_read_as_the_same(said: dict[str, object]) -> None:
    price = price_of(said, "m")

    assert price_of(price.described(), "m") == price
