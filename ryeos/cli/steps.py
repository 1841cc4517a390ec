"""What ``rye init`` did, step by step."""

from pathlib import Path

from lillux.values import dataclass

MADE, THERE, WOULD_MAKE = "made", "there already", "would make"
LEFT = "left to you"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was made, or need not be. ``status`` is one of the words above."""

    what: str
    path: Path
    status: str
