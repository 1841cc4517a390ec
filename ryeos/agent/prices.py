"""The price of a model, and the cost of a call: whole nano-dollars, never less than it costs. Pure.

A rate is what one token costs. It is kept as a whole number of millionths of a nano-dollar, so that
a rate like 37.5 nano-dollars is exact, and no sum is ever a float.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Protocol

from lillux.patterns import pattern
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError

NANO = 1_000_000_000
"""Nano-dollars of a dollar."""
RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_PARTS = 1_000_000  # of a nano-dollar
_DECIMALS = 6
_DEAREST_RATE = NANO  # a dollar for a token: more is a slip
_MOST_DIGITS = 15  # as many as a number of YAML keeps
_DECIMAL = pattern(r"([0-9]{1,12})(?:\.([0-9]{1,30}))?")


class ReportedUsage(Protocol):
    """A provider's figures of a call; None is missing, negative or no number.

    ``input_tokens`` are those that were neither read from a cache nor written to one.
    """

    @property
    def input_tokens(self) -> int | None:
        """Tokens at the rate ``input``."""

    @property
    def output_tokens(self) -> int | None:
        """Tokens at the rate ``output``."""

    @property
    def cache_read_tokens(self) -> int | None:
        """Tokens at the rate ``cache_read``."""

    @property
    def cache_write_tokens(self) -> int | None:
        """Tokens at the rate ``cache_write``."""

    @property
    def cache_write_1h_tokens(self) -> int | None:
        """Tokens at the rate ``cache_write_1h``."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The price of one token, in millionths of a nano-dollar."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0

    @property
    def dearest_input(self) -> int:
        """The most that a token which is sent can cost: writing to a cache costs up to twice."""
        return max(self.input, self.cache_read, self.cache_write, self.cache_write_1h)


@dataclass(frozen=True, slots=True)
class Price:
    """The rates of a model; ``above`` has others for calls with more input than so many tokens.

    A tier counts for all tokens of a call, as providers bill. ``is_free``: nothing is paid.
    """

    rates: Rates = field(default_factory=Rates)
    above: tuple[tuple[int, Rates], ...] = ()
    is_free: bool = False

    def rates_for(self, input_tokens: int) -> Rates:
        """The rates of a call with so much input, cached tokens included."""
        found = self.rates
        for tokens, rates in self.above:
            if input_tokens > tokens:
                found = rates
        return found

    def reachable(self, input_tokens: int) -> Iterator[Rates]:
        """All rates that can apply to a call with at most so much input."""
        yield self.rates
        yield from (rates for tokens, rates in self.above if input_tokens > tokens)

    def dearest_input_cost(self, input_tokens: int) -> int:
        """The most that so much input can cost, in parts; see `dearest`."""
        return input_tokens * max(one.dearest_input for one in self.reachable(input_tokens))

    def dearest_output_rate(self, input_tokens: int) -> int:
        """The most that a token of output can cost after so much input."""
        return max(one.output for one in self.reachable(input_tokens))

    def dearest(self, input_tokens: int, output_tokens: int) -> int:
        """The most nano-dollars that a call of at most this size can cost."""
        output = output_tokens * self.dearest_output_rate(input_tokens)
        return _rounded_up(self.dearest_input_cost(input_tokens) + output)

    def affordable_output(self, spend: int, input_tokens: int) -> int | None:
        """The most tokens of output that so many nano-dollars pay, None for any number.

        Negative where they do not even pay the input.
        """
        left = spend * _PARTS - self.dearest_input_cost(input_tokens)
        rate = self.dearest_output_rate(input_tokens)
        if left < 0:
            return -1
        return left // rate if rate else None

    def described(self) -> dict[str, Any]:
        """The same as a configuration says it."""
        if self.is_free:
            return {"free": True}
        said: dict[str, Any] = _described(self.rates)
        if self.above:
            said["above"] = [{"tokens": n, **_described(rates)} for n, rates in self.above]
        return said


def input_of(usage: ReportedUsage) -> int:
    """All tokens that were sent, each counted once, whether a cache had them or not."""
    cached = (usage.cache_read_tokens, usage.cache_write_tokens, usage.cache_write_1h_tokens)
    return sum(count or 0 for count in (usage.input_tokens, *cached))


def is_believable(usage: ReportedUsage | None) -> bool:
    """True if a report can be settled by: no figure is missing or negative, neither sum is 0."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return False
    counts = (
        *(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens or 0),
        *(usage.cache_write_tokens or 0, usage.cache_write_1h_tokens or 0),
    )
    return min(counts) >= 0 and input_of(usage) > 0 and usage.output_tokens > 0


def cost(usage: ReportedUsage, price: Price) -> int:
    """The nano-dollars of a call, rounded up once. A missing figure counts as 0."""
    rates = price.rates_for(input_of(usage))
    return _rounded_up(
        (usage.input_tokens or 0) * rates.input
        + (usage.output_tokens or 0) * rates.output
        + (usage.cache_read_tokens or 0) * rates.cache_read
        + (usage.cache_write_tokens or 0) * rates.cache_write
        + (usage.cache_write_1h_tokens or 0) * rates.cache_write_1h
    )


def price_of(said: Mapping[str, Any] | None, model: str) -> Price:
    """The price that a configuration gives a model. Raises RyeError `PRICE_UNKNOWN`.

    ``said`` fits the schema of prices. Without rates for caches, those of ``input`` count, and a
    tier takes over what it does not name.
    """
    if said and said.get("free") is True:
        return Price(is_free=True)
    if not said or "input" not in said or "output" not in said:
        raise RyeError(
            f"{model}: expected a price, input and output, or free: true; found none",
            code="PRICE_UNKNOWN",
            hint="write its prices below models of its provider: docs/agents.md",
        )
    rates = _rates(said, Rates(), f"{model}: prices")
    tiers = sorted(said.get("above") or [], key=lambda one: int(one["tokens"]))
    above = [(int(one["tokens"]), _rates(one, rates, f"{model}: prices.above")) for one in tiers]
    return Price(rates, tuple(above))


def _rates(said: Mapping[str, Any], below: Rates, where: str) -> Rates:
    """The rates that are named, for a tier over those of the model."""
    named = {key: _rate(said[key], f"{where}.{key}") for key in RATES if said.get(key) is not None}
    plain = named.get("input", below.input)
    otherwise = {
        "input": plain,
        "output": below.output,
        "cache_read": below.cache_read or plain,
        "cache_write": below.cache_write or plain,
        # Not named, an hour costs at least what five minutes do.
        "cache_write_1h": below.cache_write_1h or named.get("cache_write", plain),
    }
    return Rates(**{**otherwise, **named})


def _rate(value: object, where: str) -> int:
    parts = exact_parts(value, _DECIMALS)
    if parts is None or parts > _DEAREST_RATE * _PARTS:
        raise RyeError(
            f"{where}: expected nano-dollars for a token, like 3000 or 37.5, found {value!r:.60}",
            code="CONFIG_ERROR",
            hint="3 dollars for a million tokens are 3000",
        )
    return parts


def exact_parts(value: object, decimals: int) -> int | None:
    """A decimal, not negative, in units of its last place; None for what is none, or not exact.

    It may be a text or a number. A number that YAML or a header read as a float is taken by the
    digits that were written, as far as a float keeps them.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
    written = _DECIMAL.fullmatch(text)
    if not written:
        return None
    whole, fraction = written[1], (written[2] or "").rstrip("0")
    is_kept = not isinstance(value, float) or len((whole + fraction).strip("0")) <= _MOST_DIGITS
    if len(fraction) > decimals or not is_kept:
        return None
    return int(whole + fraction.ljust(decimals, "0"))


def dollars(nano: int) -> str:
    """An amount as people read it: at least two decimals, and no digit is lost."""
    whole, rest = divmod(abs(nano), NANO)
    decimals = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nano < 0 else ''}{whole}.{decimals}"


def nano_dollars(value: object) -> int | None:
    """The nano-dollars of an amount of dollars, as ``0.5``; None for what is none, or not exact."""
    return exact_parts(value, 9)


def _rounded_up(parts: int) -> int:
    return -(-parts // _PARTS)


def _described(rates: Rates) -> dict[str, Any]:
    return {key: _decimal_text(getattr(rates, key)) for key in RATES}


def _decimal_text(parts: int) -> int | str:
    """A rate as a number where it is whole, else as a text, which is exact."""
    whole, rest = divmod(parts, _PARTS)
    return f"{whole}.{rest:06d}".rstrip("0") if rest else whole
