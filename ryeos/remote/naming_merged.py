"""A failure names what was merged into the project before it: files are no longer as they were."""

from collections.abc import Iterator
from contextlib import contextmanager

from lillux.errors import LilluxError
from lillux.values import replace
from ryeos.remote.apply import Applied
from ryeos.remote.link import Link


@contextmanager
def naming_merged(link: Link) -> Iterator[Link]:
    """The link, for a block whose failures have the paths as the fact ``merged``."""
    came = Applied()

    def tell(remote: str, applied: Applied) -> None:
        nonlocal came
        came = came.followed_by(applied)
        link.tell_merged(remote, applied)

    try:
        yield replace(link, tell_merged=tell)
    except LilluxError as error:
        if came.paths:
            error.facts = {**(error.facts or {}), "merged": list(came.paths)}
        raise
