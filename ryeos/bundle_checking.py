"""Bundles looked at in their folder: what is in them, and whether it is what was signed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.digests import compute_integrity
from lillux.errors import LilluxError
from lillux.signing import canonical_public_pem, compute_key_fingerprint, verify_signature
from lillux.values import dataclass, field
from ryeos.app import Rye
from ryeos.bundles import Manifest, check_manifest, manifest_path, readable_manifest_name
from ryeos.cas.item_files import item_source
from ryeos.extractors import extract
from ryeos.items import AI_DIRECTORY, SYSTEM, USER, ItemRef, Kind, Space, kind_of_directory
from ryeos.metadata.yaml_documents import parse_yaml
from ryeos.registry.bundle_contents import KEY_NAME, BundleContentError, BundlePinMismatchError
from ryeos.registry.bundle_install import bundle_id_of, read_bundle_files
from ryeos.signature import content_hash, decode, form_for, split

_PREFIX = f"{AI_DIRECTORY}/"
_TEXT_LIMIT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """A bundle as it lies in a folder. ``problems`` is empty where all is as it was signed.

    covered   which manifests say what is in it: ``files.manifest``, ``manifest.yaml``
    readable  what ``manifest.yaml`` says of the bundle
    """

    bundle_id: str
    version: str
    fingerprint: str
    covered: tuple[str, ...]
    files: Mapping[str, bytes] = field(repr=False)
    problems: tuple[str, ...] = ()
    readable: Mapping[str, Any] = field(default_factory=dict, repr=False)


def look_at(rye: Rye, root: Path, bundle_id: str = "", expected: str = "") -> LookedAt:
    """A bundle in a folder, every file compared with what was signed.

    Raises BundleContentError where no manifest can be used, BundlePinMismatchError where the key
    is not the ``expected`` one.
    """
    files = read_bundle_files(root)
    space = Space(f"{SYSTEM}:{bundle_id or bundle_id_of(root)}", root)
    fingerprint, pem = _publisher(rye, space, files)
    if expected and expected != fingerprint:
        raise BundlePinMismatchError(space.bundle_id, pinned=expected, found=fingerprint)
    strict = f"{_PREFIX}{manifest_path(space).relative_to(space.ai).as_posix()}"
    readable_path = _PREFIX + readable_manifest_name(space)
    covered: list[str] = []
    problems: list[str] = []
    readable: Mapping[str, Any] = {}
    manifest = check_manifest(space, files[strict], pem) if strict in files and pem else None
    if manifest:
        covered.append("files.manifest")
        problems += _differences(manifest, files)
    if readable_path in files:
        covered.append("manifest.yaml")
        readable, found = _read_readable(files, readable_path, pem)
        problems += found
    if not covered:
        raise BundleContentError(space.bundle_id, "expected a manifest and the key that signed it")
    about = readable.get("bundle")
    version = manifest.version if manifest else str(_of(about, "version"))
    return LookedAt(
        bundle_id=space.bundle_id,
        version=version,
        fingerprint=fingerprint,
        covered=tuple(covered),
        files=files,
        # Two manifests may tell the same.
        problems=tuple(dict.fromkeys(text.removeprefix(_PREFIX) for text in problems)),
        readable=about if isinstance(about, dict) else {},
    )


def items_of(looked_at: LookedAt) -> Iterator[dict[str, Any]]:
    """What is in a bundle, item by item, in the words of each header."""
    for path, data in looked_at.files.items():
        folder, _, rest = path.removeprefix(_PREFIX).partition("/")
        kind = kind_of_directory(folder) if path.startswith(_PREFIX) else None
        if kind is None or rest.startswith("keys/"):
            continue
        described: dict[str, Any] = {
            "ref": str(ItemRef(kind, Path(rest).with_suffix("").as_posix())),
            "path": path,
            "bytes": len(data),
        }
        try:
            header = extract(kind, Path(rest).suffix.lower(), decode(data, path), path)
        except LilluxError as error:
            yield described | {"problem": str(error)[:_TEXT_LIMIT]}
            continue
        for name in ("version", "tool_type", "description", "title"):
            if isinstance(header.get(name), str):
                described[name] = header[name][:_TEXT_LIMIT]
        yield described


def _publisher(rye: Rye, space: Space, files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """The key in the folder; else that of the signature, where it counts for the user."""
    if KEY_NAME in files:
        try:
            pem = canonical_public_pem(files[KEY_NAME])
        except LilluxError as error:
            raise BundleContentError(space.bundle_id, f"{KEY_NAME}: {error}") from error
        return compute_key_fingerprint(pem), pem
    path = _PREFIX + readable_manifest_name(space)
    if path not in files:
        return "", b""
    signature = split(decode(files[path], path), form_for(Kind.TOOL, ".yaml"), path).signature
    fingerprint = signature.fingerprint if signature else ""
    known = rye.trust.get_key(fingerprint, USER) if fingerprint else None
    return fingerprint, known.public_pem if known else b""


def _differences(manifest: Manifest, files: Mapping[str, bytes]) -> Iterator[str]:
    there = {path.removeprefix(_PREFIX) for path in files if path != KEY_NAME}
    for relative in sorted(set(manifest.files) - there):
        yield f"{relative}: listed, and not there"
    for relative in sorted(there):
        if not manifest.holds(relative, files[_PREFIX + relative]):
            is_listed = relative in manifest.files
            yield f"{relative}: {'not what was signed' if is_listed else 'not listed'}"


def _read_readable(
    files: Mapping[str, bytes], path: str, pem: bytes
) -> tuple[Mapping[str, Any], list[str]]:
    """What ``manifest.yaml`` says, and where that is not so."""
    signed = split(decode(files[path], path), form_for(Kind.TOOL, ".yaml"), path)
    name, signature = path.removeprefix(_PREFIX), signed.signature
    if signature is None or signature.content_hash != content_hash(signed.body):
        return {}, [f"{name}: not what was signed"]
    if not pem or not verify_signature(signature.content_hash, signature.value, pem):
        return {}, [f"{name}: signed by {signature.fingerprint}, a key that does not count here"]
    document = parse_yaml(signed.body, name)
    listed = document.get("files")
    if not isinstance(listed, dict):
        return {}, [f"{name}: expected files"]
    return document, list(_unlike(listed, files))


def _unlike(listed: Mapping[str, Any], files: Mapping[str, bytes]) -> Iterator[str]:
    for spelled, entry in listed.items():
        path = spelled if spelled.startswith(_PREFIX) else _PREFIX + spelled
        source = item_source(path, files[path]) if path in files else None
        if source is None:
            yield f"{spelled}: listed, and not there"
        elif compute_integrity(source.as_object()) != _of(entry, "object_hash"):
            yield f"{spelled}: not what was signed"


def _of(value: object, key: str) -> object:
    return value.get(key, "") if isinstance(value, dict) else ""
