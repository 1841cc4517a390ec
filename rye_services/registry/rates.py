"""How often somebody may do something: so many a minute, and as many at once."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic

from rye_services.problems import Problem

_MOST_CALLERS = 10_000
_MINUTE_S = 60.0


class RateLimit:
    """A bucket for each caller, filled as time goes by. Of this process; thread-safe."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def use(self, caller: str) -> None:
        """Nothing, when it is not too much. Raises Problem, 429 with ``Retry-After``."""
        now_s, a_second = self._clock(), self._per_minute / _MINUTE_S
        with self._lock:
            left, since_s = self._buckets.pop(caller, (float(self._per_minute), now_s))
            left = min(self._per_minute, left + (now_s - since_s) * a_second)
            self._buckets[caller] = (max(0.0, left - 1), now_s) if left >= 1 else (left, now_s)
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        if left < 1:
            wait_s = int((1 - left) / a_second) + 1
            detail = f"too many requests: at most {self._per_minute} a minute"
            raise Problem(429, detail, {"Retry-After": str(wait_s)})
