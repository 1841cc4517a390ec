"""The bundle that a build carries: a signed copy of ``bundle.ai``, and the key that signed it."""

import os
import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from lillux.files import read_bytes
from lillux.pem import MAX_PEM_BYTES
from lillux.signing import (
    KeyPair,
    canonical_public_pem,
    generate_keypair,
    public_pem_of,
    verify_signature,
)
from packing import BuildError
from packing.build_time import BuildTime
from ryeos import __version__
from ryeos.trust.bundles import CORE_ID, EMBEDDED_ID
from ryeos.trust.bundles_publish import publish_bundle
from ryeos.trust.signing_key import SigningKey

# Which of ``bundle.ai`` a build carries: all of it, or its core alone.

_CORE = PurePosixPath("rye/core")
_CONFIG = "config"


class Edition(StrEnum):
    """Name of a build, by the content of its bundle."""

    CORE = "core"
    FULL = "full"

    @property
    def bundle_id(self) -> str:
        """The id of the bundle: two editions are two bundles, each signed for itself."""
        return CORE_ID if self is Edition.CORE else EMBEDDED_ID

    def holds(self, path: PurePosixPath) -> bool:
        """True if a file of ``bundle.ai`` is in it; the core keeps all configuration."""
        kind, *below = path.parts
        return (
            self is Edition.FULL or kind == _CONFIG or PurePosixPath(*below).is_relative_to(_CORE)
        )


def selected(source: Path, target: Path, edition: Edition) -> Path:
    """A folder with what an edition holds of ``source``: that itself, or a copy at ``target``."""
    if edition is Edition.FULL:
        return source
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and edition.holds(PurePosixPath(relative.as_posix())):
            copy = target / relative
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return target


def publisher_key(
    pem_file: Path | None, build_time: BuildTime, environ: Mapping[str, str] = os.environ
) -> SigningKey:
    """The key in a file, else a fresh one whose private half is nowhere but in this process.

    With ``RYE_SIGNATURES=FILE`` in the environment a private key also writes its signatures there,
    and a public key takes them from there: so a release is built again without its key.

    Raises BuildError for a missing file, PemError for a file that holds no key, and for a public
    key without signatures.
    """
    if pem_file is None:
        return SigningKey(generate_keypair(), build_time.now)
    pem, record = _read(pem_file), environ.get(SIGNATURES_VARIABLE)
    if record and pem.lstrip().startswith(_PUBLIC):
        return RecordedKey(pem, read_signatures(Path(record), pem), build_time)
    pair = KeyPair(pem, public_pem_of(pem))
    return (
        RecordingKey(pair, Path(record), build_time) if record else SigningKey(pair, build_time.now)
    )


def _read(pem_file: Path) -> bytes:
    try:
        return read_bytes(pem_file, MAX_PEM_BYTES)
    except FileNotFoundError:
        raise BuildError("sign", f"expected a key in {pem_file}, found no file") from None


# A line for each: the digest that is signed, a blank, the signature. Every user can check them, the
# publisher alone can make them.

SIGNATURES_VARIABLE = "RYE_SIGNATURES"
_PUBLIC = b"-----BEGIN PUBLIC"
_MAX_SIGNATURES_BYTES = 16 << 20
# In place of a signature that the release does not have. The bytes that hold it differ then, which
# is what a rebuild reports.
_MISSING = f"{'A' * 86}=="


class RecordingKey(SigningKey):
    """A key that writes down what it signs."""

    def __init__(self, keypair: KeyPair, record: Path, build_time: BuildTime) -> None:
        super().__init__(keypair, build_time.now)
        self._record = record

    def _sign(self, covered: str) -> str:
        value = super()._sign(covered)
        with self._record.open("a", encoding="ascii") as lines:
            lines.write(f"{covered} {value}\n")
        return value


class RecordedKey(SigningKey):
    """A public key with the signatures that its private half made, by the digest they are for."""

    def __init__(
        self, public_pem: bytes, signatures: Mapping[str, str], build_time: BuildTime
    ) -> None:
        super().__init__(KeyPair(b"", canonical_public_pem(public_pem)), build_time.now)
        self._signatures = signatures

    def _sign(self, covered: str) -> str:
        return self._signatures.get(covered, _MISSING)


def read_signatures(path: Path, public_pem: bytes) -> dict[str, str]:
    """The recorded signatures by digest, each of them verified. Raises BuildError."""
    try:
        lines = read_bytes(path, _MAX_SIGNATURES_BYTES).decode("ascii").splitlines()
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise BuildError(path.name, f"expected recorded signatures, found: {error}") from error
    signatures = dict(line.partition(" ")[::2] for line in lines)
    for digest, signature in signatures.items():
        if not verify_signature(digest, signature, public_pem):
            raise BuildError(
                path.name,
                f"expected signatures of this key, found another for {digest[:16]}",
                hint="is this the publisher's public key, and the file as it was published?",
            )
    return signatures


def stage_bundle(
    checkout: Path, target: Path, key: SigningKey, edition: Edition = Edition.FULL
) -> None:
    """Make ``target``, which must not exist: ``.ai`` with everything signed, ``public_key.pem``."""
    with TemporaryDirectory(prefix="rye-bundle-") as folder:
        source = selected(checkout / "bundle.ai", Path(folder), edition)
        publish_bundle(source, target, bundle_id=edition.bundle_id, version=__version__, key=key)
