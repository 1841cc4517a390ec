"""Moments as they are written into objects, rows and answers."""

from datetime import UTC, datetime


def iso_text(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds, ``2026-01-01T00:00:00.000000+00:00``. Sorts as time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
