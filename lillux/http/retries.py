"""Retries: their rules, and the wait before the next attempt. Pure."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum

from lillux.patterns import pattern
from lillux.values import dataclass


class Backoff(Enum):
    """Growth of the waits between attempts."""

    EXPONENTIAL = "exponential"
    """1, 2, 4, 8 ... seconds."""
    LINEAR = "linear"
    """A second each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a request is sent again: after transport failures, and after these statuses.

    max_attempts  1 for never again
    on_status     statuses such as 429 or 503; their ``Retry-After`` is followed
    max_delay_s   no wait is longer, whatever a server asks for
    """

    max_attempts: int = 1
    backoff: Backoff = Backoff.EXPONENTIAL
    on_status: tuple[int, ...] = ()
    max_delay_s: float = 60.0


MAX_JITTER = 0.25
_SECONDS = pattern(r"[0-9]{1,10}")
_LARGEST_EXPONENT = 30


def delay_s(
    retry: Retry, attempt: int, jitter: Callable[[], float], retry_after_s: float | None = None
) -> float:
    """Seconds to wait after attempt number ``attempt`` (from 1 on), ``jitter`` from 0 to 1.

    What a server asks for is what is waited; else up to a quarter more than the backoff says, so
    that many callers do not come back together.
    """
    if retry_after_s is not None:
        return min(retry_after_s, retry.max_delay_s)
    doubled = retry.backoff is Backoff.EXPONENTIAL
    delay = 2.0 ** min(attempt - 1, _LARGEST_EXPONENT) if doubled else 1.0
    return min(delay * (1 + MAX_JITTER * jitter()), retry.max_delay_s)


def parse_retry_after(value: str, now: datetime) -> float | None:
    """The seconds that a ``Retry-After`` means: a number or an HTTP date; None for neither."""
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        retry_time = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError):
        return None
    if retry_time.tzinfo is None:  # "-0000": the time of Greenwich, local zone unknown
        retry_time = retry_time.replace(tzinfo=UTC)
    return max((retry_time - now).total_seconds(), 0.0)
