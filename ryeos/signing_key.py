"""A private key at work: makes signature lines. Pure but for the clock it is given."""

from lillux.digests import sha256_hex
from lillux.signing import KeyPair, compute_key_fingerprint, sign_hash
from lillux.values import replace
from ryeos.items import Kind
from ryeos.moments import Clock, utc_now
from ryeos.signature import (
    CommentForm,
    Covers,
    Signature,
    SignedText,
    compose,
    content_hash,
    hashed_text,
    needs_covers,
)


class SigningKey:
    """Signs texts and bytes with one key, in the forms of ``docs/signatures.md``."""

    def __init__(self, keypair: KeyPair, clock: Clock = utc_now) -> None:
        self._keypair = keypair
        self._clock = clock
        self.fingerprint = compute_key_fingerprint(keypair.public_pem)

    @property
    def public_pem(self) -> bytes:
        """The public half, as a key document holds it."""
        return self._keypair.public_pem

    def signed_text(self, kind: Kind, signed: SignedText, form: CommentForm, where: str) -> str:
        """The text with fresh signature lines; the covers line first, so that the other covers it.

        Raises SignatureFormatError for a directive without its block.
        """
        bare = replace(signed, signature=None, covers=None, signature_first=False)
        if needs_covers(kind, bare.body):
            covered = content_hash(bare.body)
            bare = replace(bare, covers=Covers(covered, self._sign(covered), self.fingerprint))
        signature = self._signature(content_hash(hashed_text(kind, bare, where)))
        return compose(replace(bare, signature=signature), form)

    def detached_line(self, data: bytes) -> str:
        """The content of the ``.sig`` file beside a file that cannot hold a line."""
        return self._signature(sha256_hex(data)).core() + "\n"

    def digest_signature(self, digest: str) -> str:
        """The signature of a digest over something that names its own purpose, not of a file's."""
        return self._sign(digest)

    def _signature(self, covered: str) -> Signature:
        return Signature(
            timestamp=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
            content_hash=covered,
            value=self._sign(covered),
            fingerprint=self.fingerprint,
        )

    def _sign(self, covered: str) -> str:
        return sign_hash(covered, self._keypair.private_pem)
