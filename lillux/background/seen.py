"""What a system shows of a process."""

from lillux.values import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """What the system shows of a process.

    ended        it is a zombie: it did end, and its parent has not noticed
    start_token  when it began, in the system's own words; ``""`` when it does not say
    group        its process group; 0 when the system does not say
    """

    ended: bool
    start_token: str
    group: int = 0
