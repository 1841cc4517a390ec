"""The bundle that a build carries: a signed copy of ``bundle.ai``, and the key that signed it."""

from pathlib import Path
from tempfile import TemporaryDirectory

from lillux.files import read_bytes
from lillux.signing import MAX_PEM_BYTES, KeyPair, generate_keypair, public_pem_of
from packing.editions import Edition, selected
from packing.errors import BuildError
from packing.moment import Moment
from ryeos import __version__
from ryeos.trust.bundles_publish import publish_bundle
from ryeos.trust.keys import SigningKey


def publisher_key(pem_file: Path | None, moment: Moment) -> SigningKey:
    """The key in a file, else a fresh one whose private half is nowhere but in this process.

    Raises BuildError for a missing file, PemError for a file that holds no private key.
    """
    return SigningKey(generate_keypair() if pem_file is None else _read(pem_file), moment.now)


def _read(pem_file: Path) -> KeyPair:
    try:
        private_pem = read_bytes(pem_file, MAX_PEM_BYTES)
    except FileNotFoundError:
        raise BuildError("sign", f"expected a private key in {pem_file}, found no file") from None
    return KeyPair(private_pem, public_pem_of(private_pem))


def stage_bundle(
    checkout: Path, target: Path, key: SigningKey, edition: Edition = Edition.FULL
) -> None:
    """Make ``target``, which must not exist: ``.ai`` with everything signed, ``public_key.pem``."""
    with TemporaryDirectory(prefix="rye-bundle-") as folder:
        source = selected(checkout / "bundle.ai", Path(folder), edition)
        publish_bundle(source, target, bundle_id=edition.bundle_id, version=__version__, key=key)
