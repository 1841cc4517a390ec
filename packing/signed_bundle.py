"""The bundle that a build carries: a signed copy of ``bundle.ai``, and the key that signed it."""

import shutil
from enum import StrEnum
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from lillux.files import read_bytes
from lillux.signing import MAX_PEM_BYTES, KeyPair, generate_keypair, public_pem_of
from packing import BuildError
from packing.build_time import BuildTime
from ryeos import __version__
from ryeos.trust.bundles import CORE_ID, EMBEDDED_ID
from ryeos.trust.bundles_publish import publish_bundle
from ryeos.trust.keys import SigningKey

# --- editions -------------------------------------------------------------------------------------
# Which of ``bundle.ai`` a build carries: all of it, or its core alone.

_CORE = PurePosixPath("rye/core")
_CONFIG = "config"


class Edition(StrEnum):
    """What a build is called by what its bundle holds."""

    CORE = "core"
    FULL = "full"

    @property
    def bundle_id(self) -> str:
        """The id of the bundle: two editions are two bundles, each signed for itself."""
        return CORE_ID if self is Edition.CORE else EMBEDDED_ID

    def holds(self, path: PurePosixPath) -> bool:
        """Whether a file of ``bundle.ai`` is in it; the core keeps all configuration."""
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


# --- signed bundle --------------------------------------------------------------------------------


def publisher_key(pem_file: Path | None, moment: BuildTime) -> SigningKey:
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
