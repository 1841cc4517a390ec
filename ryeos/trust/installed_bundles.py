"""Bundles that the user installed: further system spaces, each with a key of its own that is kept.

They lie in ``<user>/.ai/bundles/<id>/``, and count only as far as
``<user>/.ai/node/bundles.json`` names them: ``{"version": 1, "bundles": {ID: {"key": PEM,
"version": X.Y.Z, ...}}}``. The key there must have signed the bundle's manifest, whatever lies
beside it. An entry without a version is a bundle that was uninstalled: its key is still
remembered. Format: ``docs/bundles.md``.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.files import is_directory, make_directory, read_bytes, write_atomic
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass, field
from ryeos.items.context import log_warning
from ryeos.items.errors import bundle_error
from ryeos.items.refs import AI_DIRECTORY, SYSTEM, Space

BUNDLES_FOLDER = "bundles"
PINS_NAME = "node/bundles.json"
PINS_VERSION = 1
MAX_PINS_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePin:
    """The record of a bundle. ``version`` is ``""`` where it is not installed any more.

    source  a registry's address, or the folder it was installed from
    author  the account that published it; ``""`` for a folder
    """

    bundle_id: str
    public_pem: bytes = field(repr=False)
    version: str = ""
    source: str = ""
    author: str = ""
    installed_at: str = ""

    @property
    def fingerprint(self) -> str:
        """Of its key."""
        return compute_key_fingerprint(self.public_pem)


class BundlePins:
    """The file of one user space; a writer of it holds a lock."""

    def __init__(self, user: Space) -> None:
        self.path = user.ai / PINS_NAME

    def all(self) -> dict[str, BundlePin]:
        """By id. Raises RyeError `CONFIG_ERROR` for a file that is not to be relied on."""
        try:
            document = json.loads(read_bytes(self.path, MAX_PINS_BYTES))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise bundle_error(str(self.path), f"expected JSON, found: {error}") from error
        bundles = document.get("bundles") if isinstance(document, dict) else None
        if not isinstance(bundles, dict) or document.get("version") != PINS_VERSION:
            raise bundle_error(str(self.path), f"expected pins of version {PINS_VERSION}")
        return {name: self._pin(name, values) for name, values in bundles.items()}

    def put(self, pin: BundlePin) -> None:
        """Keep a pin, in place of the one of the same bundle."""
        self._write({**self.all(), pin.bundle_id: pin})

    def forget(self, bundle_id: str) -> None:
        """Forget a bundle."""
        self._write({name: pin for name, pin in self.all().items() if name != bundle_id})

    def _write(self, pins: Mapping[str, BundlePin]) -> None:
        bundles = {
            name: {
                "key": pins[name].public_pem.decode(),
                "fingerprint": pins[name].fingerprint,
                "version": pins[name].version,
                "source": pins[name].source,
                "author": pins[name].author,
                "installed_at": pins[name].installed_at,
            }
            for name in sorted(pins)
        }
        make_directory(self.path.parent, mode=0o700)
        document = {"version": PINS_VERSION, "bundles": bundles}
        write_atomic(self.path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)

    def _pin(self, name: str, values: Any) -> BundlePin:  # noqa: ANN401 - JSON
        if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
            raise bundle_error(str(self.path), f"{name[:80]!a}: expected a mapping of texts")
        try:
            public_pem = canonical_public_pem(values.get("key", "").encode())
        except LilluxError as error:
            raise bundle_error(str(self.path), f"{name[:80]!a}: key: {error}") from error
        return BundlePin(
            bundle_id=name,
            public_pem=public_pem,
            version=values.get("version", ""),
            source=values.get("source", ""),
            author=values.get("author", ""),
            installed_at=values.get("installed_at", ""),
        )


def installed_space(user: Space, pin: BundlePin) -> Space:
    """The space of an installed bundle."""
    base = user.ai / BUNDLES_FOLDER / pin.bundle_id
    return Space(f"{SYSTEM}:{pin.bundle_id}", base, pin.version, pin.public_pem)


def installed_bundles(user: Space, taken: Collection[str]) -> tuple[Space, ...]:
    """The bundles that are installed, by id, but those whose label is ``taken``, with a warning.

    A file of pins that cannot be read means none, with a warning: what came with the program works.
    """
    try:
        pins = BundlePins(user).all()
    except LilluxError as error:
        log_warning(f"no installed bundle is used: {error}")
        return ()
    spaces = [installed_space(user, pins[name]) for name in sorted(pins) if pins[name].version]
    found = []
    for space in spaces:
        if space.label in taken:
            log_warning(f"bundle {space.bundle_id}: {space.base} is hidden by another")
        elif not is_directory(space.base / AI_DIRECTORY):
            log_warning(
                f"bundle {space.bundle_id}: installed, but {space.base} is not there;"
                f" fix it with: rye bundle install {space.bundle_id}"
            )
        else:
            found.append(space)
    return tuple(found)
