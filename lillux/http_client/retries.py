"""How long to wait before the next attempt. Pure."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from lillux.http_client.model import Backoff, Retry

MAX_JITTER = 0.25
_SECONDS = re.compile(r"[0-9]{1,10}")
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
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError):
        return None
    if moment.tzinfo is None:  # "-0000": the time of Greenwich from somebody elsewhere
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)
