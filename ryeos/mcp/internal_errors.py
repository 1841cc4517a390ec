"""Failures of our own: what the client is told, and where the rest is to be read."""

import sys
from collections.abc import Callable
from contextlib import suppress

MESSAGE = "internal error"
Log = Callable[[str, str], None]


def quiet(_level: str, _text: str) -> None:
    """A log that keeps nothing."""


def reported(error: BaseException, log: Log = quiet) -> str:
    """The number of a failure, under which its traceback stands on standard error and in the log.

    Never raises: nobody may be reading there.
    """
    import traceback
    import uuid

    reference = uuid.uuid4().hex[:12]
    text = f"{MESSAGE} {reference}\n{''.join(traceback.format_exception(error))}"
    with suppress(OSError, ValueError):
        sys.stderr.write(f"rye: {text}")
        sys.stderr.flush()
    log("error", text)
    return reference
