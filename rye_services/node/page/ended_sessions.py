"""Sessions that a person ended before their time: their cookies count no longer, anywhere.

They are kept beside the nonces of signed requests, in rows that no request can have, and dated with
the end of the session: so restarts and other processes of the node know of them, and the sweep of
old nonces forgets them once the cookie itself is over.
"""

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from lillux.digests import sha256_hex
from rye_services.database import Database
from rye_services.tables import request_nonces

_KEPT_AS = "page session"
"""Where a fingerprint stands for nonces; a blank is in none."""


class EndedSessions:
    """The cookies of sessions that were ended, as digests. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def end(self, cookie: str, until_s: int) -> None:
        """Let a cookie count no longer; ``until_s`` is when it would have ended by itself."""
        with self._database.writing() as connection:
            dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
            row = dialect.insert(request_nonces).values(
                fingerprint=_KEPT_AS, nonce_hash=sha256_hex(cookie.encode()), seen_at_s=until_s
            )
            connection.execute(row.on_conflict_do_nothing())

    def has(self, cookie: str) -> bool:
        """Whether the session of a cookie was ended."""
        columns = request_nonces.c
        query = select(columns.seen_at_s).where(
            columns.fingerprint == _KEPT_AS, columns.nonce_hash == sha256_hex(cookie.encode())
        )
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None
