"""How executions ended, written into their rows: at once, or as soon as the database takes it.

A disk that is full does not stop an execution from ending, only its row from saying so. Until the
row is written the execution counts as one that runs, and is this server's.
"""

import logging
from threading import Lock
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from rye_services.node.thread_rows import ThreadRows

_log = logging.getLogger(__name__)


class RowEnds:
    """The ends of executions of this server. Thread-safe."""

    def __init__(self, rows: ThreadRows) -> None:
        self._rows = rows
        self._kept: dict[str, tuple[str, dict[str, Any]]] = {}
        self._lock = Lock()

    def write(self, thread_id: str, state: str, **values: Any) -> bool:  # noqa: ANN401 - columns
        """As `ThreadRows.end`; what the database cannot take now is kept, and counts as written."""
        try:
            return self._rows.end(thread_id, state, **values)
        except SQLAlchemyError as error:
            _log.warning("%s: its end is not in its row yet: %s", thread_id, error)
            with self._lock:
                self._kept[thread_id] = (state, values)
            return True

    def write_kept(self) -> None:
        """Try once more to write what is not in its row yet."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for thread_id, (state, values) in kept.items():
            self.write(thread_id, state, **values)
