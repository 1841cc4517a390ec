"""What the node refuses because of what was sent: our errors, as answers with status 400."""

from collections.abc import Iterator
from contextlib import contextmanager

from rye_services.problems import Problem
from ryeos.items.errors import RyeError


@contextmanager
def refusals(*kinds: type[RyeError], status: int = 400) -> Iterator[None]:
    """Errors of these kinds are the sender's; their text is safe to tell. Raises Problem."""
    try:
        yield
    except kinds as error:
        raise Problem(status, str(error)) from error
