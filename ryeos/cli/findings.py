"""What a check of ``rye doctor`` comes to."""

from collections.abc import Callable, Iterator

from lillux.values import dataclass
from ryeos.cli.session import Session

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``status`` is ``ok``, ``warn`` or ``fail``; ``fix`` is what to do."""

    name: str
    status: str
    message: str
    fix: str = ""

    def describe(self) -> dict[str, str]:
        """The finding as ``doctor --json`` shows it."""
        described = {"name": self.name, "status": self.status, "message": self.message}
        return described | ({"fix": self.fix} if self.fix else {})


Probe = Callable[[Session], Iterator[Check]]
