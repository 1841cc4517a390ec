"""The verified manifests of the bundles, each checked once, and the keys that signed them."""

from lillux.signing import compute_key_fingerprint
from ryeos.bundles import Manifest, manifest_signer, read_manifest
from ryeos.errors import IntegrityError
from ryeos.items import SYSTEM, Space
from ryeos.trust import TrustedKey, TrustStore


class Manifests:
    """Looks manifests up by their space and keeps them."""

    def __init__(self, trust: TrustStore) -> None:
        self._trust = trust
        self._kept: dict[str, Manifest | None] = {}

    def of(self, space: Space) -> Manifest | None:
        """The manifest of a bundle, None for a space that has none. Raises IntegrityError."""
        if space.tier != SYSTEM:
            return None
        if space.label not in self._kept:
            self._kept[space.label] = self._read(space)
        return self._kept[space.label]

    def key(self, space: Space, manifest: Manifest) -> TrustedKey | None:
        """The key that signed a bundle's manifest, and so every file it lists."""
        if not space.pinned_pem:
            return self._trust.get_key(manifest.signature.fingerprint, space.label)
        return TrustedKey(
            fingerprint=compute_key_fingerprint(space.pinned_pem),
            owner=space.bundle_id,
            public_pem=space.pinned_pem,
            source=space.label,
            covers_all=True,
        )

    def _read(self, space: Space) -> Manifest | None:
        if space.pinned_pem:
            manifest = read_manifest(space, space.pinned_pem)
            if manifest is None:
                raise IntegrityError(
                    str(space.ai),
                    f"the bundle {space.bundle_id} has no manifest",
                    hint="install the bundle (or rye.pyz) again",
                )
            return manifest
        fingerprint = manifest_signer(space)
        key = self._trust.get_key(fingerprint, space.label) if fingerprint else None
        return read_manifest(space, key.public_pem) if key else None
