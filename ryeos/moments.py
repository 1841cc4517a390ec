"""The clock that signatures and lockfiles are given; imports `datetime` when it is read."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

Clock = Callable[[], "datetime"]


def utc_now() -> "datetime":
    """The present moment, in UTC."""
    from datetime import UTC, datetime

    return datetime.now(UTC)
