"""What the arguments of prompts were, to be offered again. In memory, for as long as we serve."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from threading import Lock

MAX_KEPT = 20
MAX_CHARACTERS = 200
MAX_NAMES = 500
_SECRET = ("*key*", "*token*", "*secret*", "*password*", "*credential*")


class PriorValues:
    """The latest values of each argument of each prompt, the newest first. Safe from any thread.

    Nothing is kept of an argument whose name looks like that of a secret, nor of a long text.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[tuple[str, str], list[str]] = {}

    def remember(self, prompt: str, arguments: Mapping[str, str]) -> None:
        """Keep what a prompt was given."""
        with self._lock:
            for name, value in arguments.items():
                if not 0 < len(value) <= MAX_CHARACTERS or _looks_secret(name):
                    continue
                kept = self._values.pop((prompt, name), [])
                others = [one for one in kept if one != value]
                self._values[prompt, name] = [value, *others][:MAX_KEPT]
            while len(self._values) > MAX_NAMES:
                del self._values[next(iter(self._values))]

    def of(self, prompt: str, argument: str) -> tuple[str, ...]:
        """What an argument was before."""
        with self._lock:
            return tuple(self._values.get((prompt, argument), ()))


def _looks_secret(name: str) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for pattern in _SECRET)
