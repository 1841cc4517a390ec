"""What a check of ``rye doctor`` comes to."""

from collections.abc import Callable, Iterator

from lillux.values import dataclass
from ryeos.cli.session import Session

OK, WARN, FAIL, DONE = "ok", "warn", "fail", "done"

Mend = Callable[[], str]
"""Puts right what was found, and says what it did. Raises LilluxError."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``status`` is ``ok``, ``warn`` or ``fail``; ``fix`` is what to do.

    ``mend`` is there where ``rye doctor --fix`` may do that: nothing is lost by it, there is
    nothing to choose, and nobody is trusted who was not before.
    """

    name: str
    status: str
    message: str
    fix: str = ""
    mend: Mend | None = None

    def describe(self) -> dict[str, str]:
        """The finding as ``doctor --json`` shows it."""
        described = {"name": self.name, "status": self.status, "message": self.message}
        return described | ({"fix": self.fix} if self.fix else {})


Probe = Callable[[Session], Iterator[Check]]
