"""System spaces: the bundle that came with this program, and further ones.

A bundle made by Rye has a manifest, ``.ai/bundles/<id>/files.manifest``: a ``# rye:signed`` line,
then JSON ``{"bundle": {"id", "version"}, "files": {PATH: {"sha256": HEX, "header"?: {...}}}}`` with
PATH below ``.ai``. One signature check covers all files; ``header`` is the parsed metadata, so that
a short command needs no YAML parser. Format: ``docs/bundles.md``.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from lillux.digests import sha256_hex
from lillux.files import is_directory, read_bytes
from lillux.signing import compute_key_fingerprint, verify_signature
from lillux.values import dataclass, field
from ryeos.items.context import ToolPrograms, log_warning, no_programs
from ryeos.items.errors import IntegrityError, SignatureFormatError, bundle_error
from ryeos.items.refs import AI_DIRECTORY, SYSTEM, Space, vouches_for_nothing
from ryeos.trust.signature import CommentForm, Signature, content_hash, decode, split

MAX_MANIFEST_BYTES = 32 * 1024 * 1024
EMBEDDED_ID, CORE_ID = "ryeos", "ryeos-core"
"""Of the bundle that comes with this program: all of it, or the edition with its core alone."""
MANIFEST_FORM = CommentForm("# ")
_ENTRY_POINT_GROUP = "rye.bundles"


class BundleHome(Protocol):
    """The place of the bundle that came with this program, and what can fix it."""

    def locate(self) -> str:
        """The folder that holds ``.ai`` and ``public_key.pem``. Raises OSError."""
        ...

    def restore(self, path: str) -> bool:
        """Write a file of that folder anew; False where that is not possible."""
        ...

    def vouches(self, path: str, data: bytes) -> bool:
        """True if the program has a file with this content at that path of the folder."""
        ...

    def keep_code(self) -> None:
        """Load the program's code, so that it stays the same while `hold` is still to come."""
        ...

    def hold(self) -> None:
        """Load what is still needed, so that the program's own file may be replaced or removed."""
        ...

    def programs(self) -> str | None:
        """A folder with programs that tools expect on their PATH, or None."""
        ...


@dataclass(frozen=True, slots=True)
class BundleFolder:
    """A bundle in an ordinary folder, and what it has for the PATH of tools."""

    root: Path
    tool_programs: ToolPrograms = no_programs

    def locate(self) -> str:
        """The folder."""
        return str(self.root)

    def restore(self, path: str) -> bool:  # noqa: ARG002 - there is nothing to restore from
        """Never: there is no other copy."""
        return False

    def vouches(self, path: str, data: bytes) -> bool:  # noqa: ARG002 - of the interface
        """Never: there is no other copy."""
        return False

    def keep_code(self) -> None:
        """Nothing is read from a file."""

    def hold(self) -> None:
        """Nothing is read from a file."""

    def programs(self) -> str | None:
        """The folder that was named for it."""
        return self.tool_programs()


def own_bundle() -> BundleFolder:
    """The bundle beside this package, where a wheel has it."""
    # An installer puts the scripts of a wheel beside the interpreter.
    scripts = str(Path(sys.executable).parent)
    return BundleFolder(Path(__file__).parent.parent / "bundle", lambda: scripts)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The verified list of a bundle's files."""

    signature: Signature
    files: Mapping[str, Mapping[str, Any]]
    own_name: str
    own_data: bytes = field(repr=False)
    version: str = ""

    def holds(self, relative: str, data: bytes) -> bool:
        """True if ``data`` is the listed content of ``relative``, or that of the list itself."""
        if relative == self.own_name:
            return self.own_data == data
        entry = self.files.get(relative)
        return entry is not None and entry.get("sha256") == sha256_hex(data)

    def header(self, relative: str) -> Mapping[str, Any] | None:
        """The parsed metadata of a listed file, if the manifest carries it."""
        header = self.files.get(relative, {}).get("header")
        return header if isinstance(header, dict) else None


def manifest_path(space: Space) -> Path:
    """The path of the manifest of a bundle."""
    return space.ai / _manifest_name(space)


def readable_manifest_name(space: Space) -> str:
    """The path below ``.ai`` of a bundle's manifest that other programs read."""
    return f"bundles/{space.bundle_id}/manifest.yaml"


def _manifest_name(space: Space) -> str:
    return f"bundles/{space.bundle_id}/files.manifest"


def dump_manifest(bundle_id: str, version: str, files: Mapping[str, Mapping[str, Any]]) -> str:
    """The manifest's text below its signature line."""
    document = {"bundle": {"id": bundle_id, "version": version}, "files": files}
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


def read_manifest(space: Space, public_pem: bytes) -> Manifest | None:
    """The bundle's manifest, its signature checked with ``public_pem``; None if it has none.

    Raises IntegrityError when it is not what that key signed for this bundle.
    """
    try:
        data = read_bytes(manifest_path(space), MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        return None
    return verify_manifest(space, data, public_pem)


def verify_manifest(space: Space, data: bytes, public_pem: bytes) -> Manifest:
    """Verify a manifest's bytes as `read_manifest`. Raises IntegrityError, SignatureFormatError."""
    path = manifest_path(space)
    signed = split(decode(data, str(path)), MANIFEST_FORM, str(path))
    signature = signed.signature
    # (The signature of what this very program brought was verified when it was built.)
    if signature is None or not (
        space.vouches(f"{AI_DIRECTORY}/{_manifest_name(space)}", data)
        or _is_by(signature, signed.body, public_pem)
    ):
        raise IntegrityError(
            str(path),
            "the bundle's manifest is not what its publisher signed",
            hint="install the bundle (or rye.pyz) again",
        )
    files, version = _listed_files(signed.body, space)
    return Manifest(signature, files, _manifest_name(space), data, version)


def _is_by(signature: Signature, body: str, public_pem: bytes) -> bool:
    return (
        signature.fingerprint == compute_key_fingerprint(public_pem)
        and signature.content_hash == content_hash(body)
        and verify_signature(signature.content_hash, signature.value, public_pem)
    )


def _listed_files(text: str, space: Space) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """The ``files`` of a manifest's JSON, and the bundle's version.

    Raises IntegrityError for the manifest of another bundle.
    """
    where = str(manifest_path(space))
    try:
        document = json.loads(text)
        bundle, files = document["bundle"], document["files"]
        bundle_id, version = bundle["id"], str(bundle.get("version", ""))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        bundle_id, version, files = None, "", None
    if not isinstance(files, dict) or not all(isinstance(e, dict) for e in files.values()):
        raise SignatureFormatError(where, "expected a manifest with a bundle's id and its files")
    if bundle_id != space.bundle_id:
        raise IntegrityError(
            where,
            f"the manifest is that of another bundle, {bundle_id!r}",
            hint="install the bundle (or rye.pyz) again",
        )
    return files, version


def manifest_signer(space: Space) -> str:
    """The fingerprint that the manifest names, unchecked; ``""`` without a manifest."""
    path = manifest_path(space)
    try:
        text = decode(read_bytes(path, MAX_MANIFEST_BYTES), str(path))
    except FileNotFoundError:
        return ""
    signature = split(text, MANIFEST_FORM, str(path)).signature
    return signature.fingerprint if signature else ""


def embedded_bundle(
    root: Path, version: str, vouches: Callable[[str, bytes], bool] = vouches_for_nothing
) -> Space:
    """The bundle that came with this program: ``root`` has ``.ai`` and ``public_key.pem``.

    ``vouches`` is what the program's own file says of it.

    Raises RyeError `CONFIG_ERROR` when the program is incomplete.
    """
    try:
        pinned = read_bytes(root / "public_key.pem", 1024)
    except FileNotFoundError:
        raise bundle_error(str(root), "no public_key.pem; this copy of rye is incomplete") from None
    is_core = is_directory(root / AI_DIRECTORY / "bundles" / CORE_ID)
    return Space(
        f"{SYSTEM}:{CORE_ID if is_core else EMBEDDED_ID}", root, version, pinned, vouches=vouches
    )


def discover(embedded: Space | None, env: Mapping[str, str]) -> tuple[Space, ...]:
    """Every bundle, sorted by id; of two with one id the first stays, with a warning.

    Sources: the embedded one, folders in ``RYE_BUNDLE_PATH``, and with
    ``RYE_BUNDLE_ENTRY_POINTS=1`` the entry points of installed packages. The last runs code of
    those packages and reads all of their metadata, so it must be asked for.
    """
    found = [embedded] if embedded else []
    found += [bundle_at(Path(p)) for p in env.get("RYE_BUNDLE_PATH", "").split(os.pathsep) if p]
    if env.get("RYE_BUNDLE_ENTRY_POINTS") == "1":
        found += _from_entry_points()
    bundles: dict[str, Space] = {}
    for bundle in found:
        if bundle.label in bundles:
            log_warning(f"bundle {bundle.bundle_id}: {bundle.base} is hidden by another")
        bundles.setdefault(bundle.label, bundle)
    return tuple(bundles[label] for label in sorted(bundles))


def bundle_at(root: Path, bundle_id: str = "", version: str = "0.0.0") -> Space:
    """The bundle in a folder; its id is said by its own manifest folder.

    Raises RyeError `CONFIG_ERROR`.
    """
    if not root.is_absolute():
        raise bundle_error(str(root), "expected an absolute path")
    if not is_directory(root / AI_DIRECTORY):
        raise bundle_error(str(root), f"expected a folder that holds {AI_DIRECTORY}/")
    return Space(f"{SYSTEM}:{bundle_id or _sole_id(root)}", root, version)


def _sole_id(root: Path) -> str:
    """The id in the bundle's own manifest folder if there is just one, else the folder's name."""
    folder = root / AI_DIRECTORY / "bundles"
    try:
        ids = sorted(path.name for path in folder.iterdir())
    except OSError:
        ids = []
    return ids[0] if len(ids) == 1 else root.name


def _from_entry_points() -> Iterator[Space]:
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=_ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        try:
            described = entry.load()()
            yield bundle_at(
                Path(described["root_path"]),
                str(described.get("bundle_id", entry.name)),
                str(described.get("version", "0.0.0")),
            )
        except Exception as error:  # noqa: BLE001 - a door: foreign code may raise anything
            log_warning(f"bundle entry point {entry.name} skipped: {error}")
