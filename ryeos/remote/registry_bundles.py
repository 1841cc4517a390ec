"""Validates the files of a bundle from a registry before any is written. Pure.

(1) paths that every disk can hold, and no two that some disk takes for one
(2) sizes and their number
(3) the publisher's key is the one that is expected, and signed the manifest of this bundle
(4) each file is listed with its digest, and each listed file is there
(5) items below ``tools``, ``directives``, ``knowledge``; configuration only below
    ``config/<bundle id>``, so that no bundle configures anything but itself; nothing of Rye's own,
    and no id of one word, as the short ids of Rye's own are
(6) each header in the manifest is that of the file: what a person reads there is what runs
"""

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from lillux.contained_paths import require_plain_path
from lillux.errors import LilluxError
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, EXECUTABLE_KINDS, SYSTEM, Kind, Space, kind_of_directory
from ryeos.remote.registry_ids import valid_bundle_id, valid_version
from ryeos.trust.bundles import Manifest, verify_manifest
from ryeos.trust.bundles_publish import listed_header
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split

MAX_FILES = 10_000
MAX_BUNDLE_BYTES = 64 * 1024 * 1024
MAX_ARCHIVE_BYTES = 2 * MAX_BUNDLE_BYTES
MAX_PATH_BYTES = 512
KEY_NAME = "public_key.pem"
_RESERVED = "rye"
"""The first segment of the ids of Rye's own items, which no other bundle may add to."""

RESERVED_CONFIG = frozenset(
    {"agent", "bundles", "cas", "execution", "file-system", "graph", "integrity", "keys", "mcp"}
    | {"node", "registry", "remotes", "search", "secrets", "telemetry", "threads", "web"}
    | {_RESERVED}
)
"""Folders of configuration that programs read: no bundle may have such an id."""


def bundle_content_error(bundle: str, problem: str, *, hint: str = "") -> RyeError:
    """The files of a bundle are not what its publisher signed, or more than a bundle may be."""
    return RyeError(
        f"bundle {bundle[:80]}: {problem}",
        code="INTEGRITY",
        hint=hint or "nothing was installed",
    )


class BundlePinMismatchError(RyeError):
    """A bundle is signed by another key than the one that is expected of it."""

    code = "PIN_MISMATCH"

    def __init__(self, bundle: str, *, pinned: str, found: str) -> None:
        self.bundle, self.pinned, self.found = bundle, pinned, found
        self.facts = {"pinned": pinned, "found": found}
        super().__init__(
            f"bundle {bundle}: expected the publisher's key {pinned}, found {found}",
            hint="another person may have published it; if you know that the publisher has a new"
            f" key: rye bundle uninstall {bundle} --forget, then install it with --key {found}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBundle:
    """A bundle whose every file its publisher signed. ``files`` are by path below its folder."""

    bundle_id: str
    version: str
    public_pem: bytes = field(repr=False)
    manifest: Manifest = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Of the publisher's key."""
        return compute_key_fingerprint(self.public_pem)


def verify_bundle_files(
    files: Mapping[str, bytes], bundle_id: str, *, version: str = "", expected: str = ""
) -> CheckedBundle:
    """The bundle that some files are. ``expected`` is the fingerprint of its publisher's key.

    Raises RegistryIdError, RyeError `INTEGRITY`, BundlePinMismatchError.
    """
    valid_bundle_id(bundle_id)
    if bundle_id in RESERVED_CONFIG:
        raise bundle_content_error(
            bundle_id, "expected an id that is no name of Rye's own settings"
        )
    for path in files:
        _validate_path(bundle_id, path)  # (1)
    _validate_collisions(bundle_id, files)
    _validate_sizes(bundle_id, files)  # (2)
    public_pem = _public_pem(bundle_id, files)
    found = compute_key_fingerprint(public_pem)
    if expected and expected != found:  # (3)
        raise BundlePinMismatchError(bundle_id, pinned=expected, found=found)
    manifest = _verified_manifest(bundle_id, files, public_pem)
    if version and manifest.version != version:
        raise bundle_content_error(
            bundle_id, f"expected version {version}, found {manifest.version[:20]!a}"
        )
    _verify_listed(bundle_id, files, manifest)  # (4)
    for relative, entry in manifest.files.items():
        _validate_place(bundle_id, relative, found)  # (5)
        if "header" in entry:
            _verify_header(bundle_id, relative, entry["header"], files)  # (6)
    return CheckedBundle(
        bundle_id=bundle_id,
        version=valid_version(manifest.version),
        public_pem=public_pem,
        manifest=manifest,
        files=dict(files),
    )


def _validate_path(bundle_id: str, path: str) -> None:
    try:
        require_plain_path(path)
        is_long = len(path.encode()) > MAX_PATH_BYTES
    except (LilluxError, UnicodeEncodeError) as error:
        raise bundle_content_error(bundle_id, f"{path[:200]!a}: {error}") from error
    if is_long:
        raise bundle_content_error(bundle_id, f"{path[:80]!a}...: expected a shorter path")
    if path != KEY_NAME and not path.startswith(f"{AI_DIRECTORY}/"):
        raise bundle_content_error(
            bundle_id, f"{path!a}: expected {KEY_NAME}, or a file below {AI_DIRECTORY}/"
        )


def _validate_collisions(bundle_id: str, files: Mapping[str, bytes]) -> None:
    """No path may be another's folder, or be the same file where letter case does not count."""
    folded: dict[str, str] = {}
    for path in files:
        one = unicodedata.normalize("NFC", path).casefold()
        if one in folded:
            raise bundle_content_error(
                bundle_id, f"{path!a} and {folded[one]!a} are one file on some disks"
            )
        folded[one] = path
    for one, path in folded.items():
        parts = one.split("/")
        for length in range(1, len(parts)):
            if "/".join(parts[:length]) in folded:
                raise bundle_content_error(bundle_id, f"{path!a}: its folder is a file as well")


def _validate_sizes(bundle_id: str, files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES:
        raise bundle_content_error(
            bundle_id, f"expected at most {MAX_FILES} files, found {len(files)}"
        )
    large = next((path for path in files if len(files[path]) > MAX_ITEM_BYTES), None)
    if large:
        raise bundle_content_error(bundle_id, f"{large!a}: expected at most {MAX_ITEM_BYTES} bytes")
    total = sum(map(len, files.values()))
    if total > MAX_BUNDLE_BYTES:
        raise bundle_content_error(
            bundle_id, f"expected at most {MAX_BUNDLE_BYTES} bytes, found {total}"
        )


def _public_pem(bundle_id: str, files: Mapping[str, bytes]) -> bytes:
    if KEY_NAME not in files:
        raise bundle_content_error(
            bundle_id,
            f"expected {KEY_NAME}, the key of its publisher",
            hint="make bundles with: rye bundle create",
        )
    try:
        return canonical_public_pem(files[KEY_NAME])
    except LilluxError as error:
        raise bundle_content_error(bundle_id, f"{KEY_NAME}: {error}") from error


def _verified_manifest(bundle_id: str, files: Mapping[str, bytes], public_pem: bytes) -> Manifest:
    space = Space(f"{SYSTEM}:{bundle_id}", Path(), "", public_pem)
    path = f"{AI_DIRECTORY}/bundles/{bundle_id}/files.manifest"
    if path not in files:
        raise bundle_content_error(
            bundle_id, f"expected its manifest, {path}", hint="make bundles with: rye bundle create"
        )
    try:
        return verify_manifest(space, files[path], public_pem)
    except LilluxError as error:
        raise bundle_content_error(bundle_id, str(error)) from error


def _verify_listed(bundle_id: str, files: Mapping[str, bytes], manifest: Manifest) -> None:
    prefix = f"{AI_DIRECTORY}/"
    there = {path.removeprefix(prefix) for path in files if path != KEY_NAME}
    missing = sorted(set(manifest.files) - there)
    if missing:
        raise bundle_content_error(bundle_id, f"{missing[0]!a}: listed in its manifest, not there")
    for relative in sorted(there):
        data = files[prefix + relative]
        if not manifest.holds(relative, data):
            listed = relative in manifest.files
            problem = "not what its publisher signed" if listed else "not listed in its manifest"
            raise bundle_content_error(bundle_id, f"{relative!a}: {problem}")


def _validate_place(bundle_id: str, relative: str, fingerprint: str) -> None:
    folder, _, rest = relative.partition("/")
    kind = kind_of_directory(folder)
    first = rest.partition("/")[0]
    if relative == f"config/keys/trusted/{fingerprint}.toml":
        return
    if relative == f"bundles/{bundle_id}/manifest.yaml":
        return
    if kind is Kind.CONFIG and first != bundle_id:
        raise bundle_content_error(
            bundle_id, f"{relative!a}: expected configuration below config/{bundle_id}/ only"
        )
    if kind not in (*EXECUTABLE_KINDS, Kind.CONFIG):
        raise bundle_content_error(bundle_id, f"{relative!a}: expected an item or configuration")
    if first.casefold().partition(".")[0] == _RESERVED:
        raise bundle_content_error(bundle_id, f"{relative!a}: ids below {_RESERVED}/ are rye's own")
    if "/" not in rest:  # a file of this name is found before a short id is looked up
        raise bundle_content_error(bundle_id, f"{relative!a}: expected an id of at least two words")


def _verify_header(
    bundle_id: str, relative: str, listed: object, files: Mapping[str, bytes]
) -> None:
    kind = kind_of_directory(relative.partition("/")[0])
    suffix = PurePosixPath(relative).suffix
    try:
        if kind is None:
            raise bundle_content_error(bundle_id, f"{relative!a}: expected no header")
        text = decode(files[f"{AI_DIRECTORY}/{relative}"], relative)
        signed = split(text, form_for(kind, suffix, relative), relative)
        said = listed_header(kind, suffix, signed, relative)
        is_its_own = json.loads(json.dumps(said)) == listed
    except (LilluxError, TypeError, ValueError) as error:
        raise bundle_content_error(bundle_id, f"{relative!a}: {error}") from error
    if not is_its_own:
        raise bundle_content_error(
            bundle_id, f"{relative!a}: its manifest lists another header than it has"
        )
