"""Errors with a code and no separate class."""

from collections.abc import Callable

from ryeos.items.errors import RyeError


def coded(code: str) -> Callable[[RyeError], bool]:
    """Whether an error has the code; for ``pytest.raises(RyeError, check=...)``."""
    return lambda error: error.code == code
