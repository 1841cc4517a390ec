"""What a confined process tried, for those who report it.

A file of its own: what starts programs speaks of it, and must not import the supervisor for that.
"""

from collections.abc import Callable

from lillux.values import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """An access of a confined process: ``read``, ``write``, ``run``, ``connect`` or ``bind``.

    ``was_refused`` is known of addresses alone; whether a path is open is for the rules to say.
    """

    what: str
    target: str
    was_refused: bool = False


OnAttempt = Callable[[Attempt], None]
