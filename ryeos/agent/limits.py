"""The limits of a thread: what it may use at most."""

from collections.abc import Iterable, Mapping

from lillux.spelling import likely_meant
from lillux.values import dataclass
from ryeos.agent.prices import nano_dollars
from ryeos.items.errors import RyeError

MAX_LIMIT = 10**15  # of anything: more is no limit


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
        if amount is None or amount > MAX_LIMIT:
            expected = "dollars with at most 9 decimals, like 0.5"
            raise _wrong_limit(f"{where}.{name}", expected, value)
        return amount
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_LIMIT:
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
