"""The time stamp of a build: in signature lines, in the zip file, in ``shiv-info``.

A file of its own because each step of a build imports it, and it imports none.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from packing import BuildError

VARIABLE = "SOURCE_DATE_EPOCH"
# What the time stamps of a zip file can say.
_EARLIEST, _LATEST = 315_532_800, 4_354_819_198  # 1980-01-01 00:00:00, 2107-12-31 23:59:58


@dataclass(frozen=True, slots=True)
class BuildTime:
    """Seconds since 1970, UTC."""

    epoch: int

    def now(self) -> datetime:
        """This time, as the clock of a signing key."""
        return datetime.fromtimestamp(self.epoch, UTC)

    def zip_time(self) -> tuple[int, int, int, int, int, int]:
        """This time, as a zip file stores it."""
        year, month, day, hour, minute, second, *_ = time.gmtime(self.epoch)
        return year, month, day, hour, minute, second


def build_time(environ: Mapping[str, str]) -> BuildTime:
    """The time in ``SOURCE_DATE_EPOCH``, else now. Raises BuildError for one that is no time.

    https://reproducible-builds.org/specs/source-date-epoch/
    """
    text = environ.get(VARIABLE, "")
    if not text:
        return BuildTime(int(time.time()))
    if not (text.isascii() and text.isdigit() and _EARLIEST <= int(text) <= _LATEST):
        raise BuildError(VARIABLE, f"expected seconds from 1970, in 1980 or later, found {text!r}")
    return BuildTime(int(text))
