"""Nonces of signed requests: each counts once, for every process that serves the database."""

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError

from lillux.digests import sha256_hex
from rye_services.database import Database
from rye_services.tables import request_nonces
from ryeos.items.context import Clock, utc_now
from ryeos.remote.requests import NONCE_S


class Nonces:
    """The nonces that were used in the last minutes, restarts included. Thread-safe."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def use(self, fingerprint: str, nonce: str) -> bool:
        """Use up the nonce of a request whose signature is good; False if it was used before."""
        row = {
            "fingerprint": fingerprint,
            "nonce_hash": sha256_hex(nonce.encode()),
            "seen_at_s": self._clock().timestamp(),
        }
        try:
            with self._database.writing() as connection:
                connection.execute(request_nonces.insert().values(**row))
        except IntegrityError:
            return False
        return True

    def forget_old(self) -> int:
        """Remove those that no request can come with any more; how many."""
        oldest_s = self._clock().timestamp() - NONCE_S
        with self._database.writing() as connection:
            gone = connection.execute(
                delete(request_nonces).where(request_nonces.c.seen_at_s < oldest_s)
            )
            return gone.rowcount
