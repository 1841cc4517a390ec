"""The key pair for receipts, and the statement by which a signing key vouches for it.

The pair signs receipts, heads of their log, and what threads of models keep, each for a purpose of
its own: never an item. No tool reads it. Beside it,
``statement.json`` holds a statement for each signing key that vouched for it::

    [{"receipt_key": {"kind": "receipt-key/v1", "public_key": PEM, "signed_at": TIME},
      "signed_by": FINGERPRINT of 64 digits, "signer_key": PEM, "signature": VALUE}, ...]

The signature is over ``rye/receipt-key/v1`` and the canonical JSON of ``receipt_key``.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.key_files import KeyNotFoundError, load_keypair, load_public, save_keypair
from lillux.pem import PemError
from lillux.signing import KeyPair, compute_key_digest, generate_keypair, verify_signature
from ryeos.trust.signing_key import SigningKey

STATEMENT_FILE = "statement.json"
LOCK_FILE = "lock"
KIND = "receipt-key/v1"
MAX_STATEMENT_BYTES = 64 * 1024
_PURPOSE = b"rye/receipt-key/v1\n"


class ReceiptKey:
    """The key pair in a folder, created with the first receipt.

    ``signing_keys`` is the folder of the user's signing key, which vouches for a new pair where it
    can be used without a question.
    """

    def __init__(self, folder: Path, signing_keys: Path | None = None) -> None:
        self.folder = folder
        self._signing_keys = signing_keys
        self._pair: KeyPair | None = None

    def pair(self) -> KeyPair:
        """Both halves. Raises PemError, FileSystemError, NativeCryptoMissingError and similar."""
        if self._pair is None:
            try:
                self._pair = load_keypair(self.folder)
            except (KeyNotFoundError, PemError):  # there is none, or it is being written
                self._pair = self._made()
        return self._pair

    def _made(self) -> KeyPair:
        """A new pair, or that of another process which was faster. Raises as `pair`."""
        make_directory(self.folder, mode=0o700)
        with locked(self.folder / LOCK_FILE):
            with suppress(KeyNotFoundError):
                return load_keypair(self.folder)
            save_keypair(self.folder, generate_keypair())
            self._be_vouched_for()
            return load_keypair(self.folder)

    def public_pem(self) -> bytes:
        """The public half. Raises KeyNotFoundError, PemError."""
        return load_public(self.folder)

    def _be_vouched_for(self) -> None:
        """Have the new pair signed; `vouch` does it later for a key that asks its owner."""
        if self._signing_keys is None:
            return
        with suppress(LilluxError):
            self.vouch(SigningKey(load_keypair(self._signing_keys)))

    def statements(self) -> tuple[Mapping[str, Any], ...]:
        """The statements about this key that hold, the oldest first."""
        try:
            said = json.loads(read_bytes(self.folder / STATEMENT_FILE, MAX_STATEMENT_BYTES))
            public_pem = self.public_pem()
        except (FileNotFoundError, LilluxError, ValueError):
            return ()
        found = said if isinstance(said, list) else []
        return tuple(one for one in found if is_vouched(one, public_pem))

    def vouch(self, key: SigningKey) -> Mapping[str, Any]:
        """The statement of a signing key about this pair; written where there is none yet.

        Raises FileSystemError, PemError and what signing raises.
        """
        signer = compute_key_digest(key.public_pem)
        known = self.statements()
        for one in known:
            if one["signed_by"] == signer:
                return one
        from ryeos.items.context import utc_now

        said = {
            "kind": KIND,
            "public_key": self.public_pem().decode("ascii"),
            "signed_at": utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        statement = {
            "receipt_key": said,
            "signed_by": signer,
            "signer_key": key.public_pem.decode("ascii"),
            "signature": key.digest_signature(_digest(said)),
        }
        text = json.dumps([*known, statement], indent=2)
        write_atomic(self.folder / STATEMENT_FILE, text.encode() + b"\n", mode=0o600)
        return statement


def is_vouched(statement: object, public_pem: bytes) -> bool:
    """True if a statement is about this receipt key, and signed by the key that it names."""
    if not isinstance(statement, Mapping):
        return False
    try:
        said, signer = statement["receipt_key"], statement["signer_key"].encode("ascii")
        return bool(
            said["kind"] == KIND
            and said["public_key"].encode("ascii") == public_pem
            and compute_key_digest(signer) == statement["signed_by"]
            and verify_signature(_digest(said), statement["signature"], signer)
        )
    except (LookupError, TypeError, AttributeError, ValueError, LilluxError):
        return False


def signers(statements: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The full fingerprints of the signing keys that vouch."""
    return tuple(str(one["signed_by"]) for one in statements)


def _digest(said: Mapping[str, Any]) -> str:
    return sha256_hex(_PURPOSE + canonical_json(said))
