"""Moments as texts that sort as they follow each other: ``2026-11-21T05:58:37.376747+00:00``."""

from datetime import UTC, datetime


def stamp(moment: datetime) -> str:
    """A moment in UTC, with microseconds even where they are zero."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
