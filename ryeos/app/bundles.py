"""Bundles in a folder: create, inspect and verify them."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.canonical_json import compute_integrity
from lillux.errors import LilluxError
from lillux.files import file_system_error, make_directory
from lillux.signing import canonical_public_pem, compute_key_fingerprint, verify_signature
from lillux.values import dataclass, field
from ryeos.app.workspace import Rye
from ryeos.items.context import utc_now
from ryeos.items.errors import ItemNotFoundError, RyeError, target_exists_error
from ryeos.items.header_values import MAX_HEADER_BYTES
from ryeos.items.refs import AI_DIRECTORY, SYSTEM, USER, ItemRef, Kind, Space, kind_of_directory
from ryeos.items.yaml import parse_yaml
from ryeos.items.yaml_text import yaml_text
from ryeos.remote.bundle_installs import bundle_id_of, read_bundle_files
from ryeos.remote.registry_bundles import (
    KEY_NAME,
    BundlePinMismatchError,
    CheckedBundle,
    bundle_content_error,
    verify_bundle_files,
)
from ryeos.remote.registry_ids import valid_bundle_id, valid_version
from ryeos.sync.item_files import item_source
from ryeos.trust.bundles import Manifest, manifest_path, readable_manifest_name, verify_manifest
from ryeos.trust.bundles_publish import publish_bundle
from ryeos.trust.extractors import extract
from ryeos.trust.sign_targets import SignTarget, exclusions, targets_of_glob
from ryeos.trust.signature import content_hash, decode, form_for, split

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

    Raises RyeError `INTEGRITY` where no manifest can be used, BundlePinMismatchError where the key
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
    manifest = verify_manifest(space, files[strict], pem) if strict in files and pem else None
    if manifest:
        covered.append("files.manifest")
        problems += _differences(manifest, files)
    if readable_path in files:
        covered.append("manifest.yaml")
        readable, found = _read_readable(files, readable_path, pem)
        problems += found
    if not covered:
        raise bundle_content_error(
            space.bundle_id, "expected a manifest and the key that signed it"
        )
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
    """The items of a bundle, each in the words of its header."""
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
            raise bundle_content_error(space.bundle_id, f"{KEY_NAME}: {error}") from error
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
    """The content of ``manifest.yaml``, and where that is not so."""
    signed = split(decode(files[path], path), form_for(Kind.TOOL, ".yaml"), path)
    name, signature = path.removeprefix(_PREFIX), signed.signature
    if signature is None or signature.content_hash != content_hash(signed.body):
        return {}, [f"{name}: not what was signed"]
    if not pem or not verify_signature(signature.content_hash, signature.value, pem):
        return {}, [f"{name}: signed by {signature.fingerprint}, a key that is not trusted here"]
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


# Bundles made out of items, whole or not at all.
#
# (1) every item is verified, so that no foreign file is signed
# (2) the copy is published beside its place
# (3) it is verified as an installation verifies it
# (4) it is moved to its place


_HINT_BY_NAME = "choose the items of the bundle by name"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRecipe:
    """The bundle to make. ``entrypoint`` is the item to begin with, ``""`` if absent."""

    bundle_id: str
    version: str
    description: str = ""
    entrypoint: str = ""


def chosen_files(
    rye: Rye, bundle_id: str, space: Space, targets: Sequence[SignTarget]
) -> dict[str, bytes]:
    """The verified bytes of items by their path below ``.ai``.

    Without targets all tools, directives and knowledge of the space, and the bundle's own
    configuration. Raises IntegrityError and similar, ItemNotFoundError, RyeError
    `VALIDATION_FAILED`.
    """
    chosen = targets or _all_targets(rye, bundle_id, space)
    if not chosen:
        raise ItemNotFoundError("*", [space.label])
    files = {}
    for target in chosen:
        item = rye.verifier.verify(target.verify_target)  # (1)
        if not item.verified or item.target.suffix == ".json":
            raise RyeError(
                f"{target.label}: expected a file with a signature line of its own",
                code="VALIDATION_FAILED",
                hint=_HINT_BY_NAME,
            )
        files[target.path.relative_to(target.space.ai).as_posix()] = item.data
    return files


def make_bundle(
    rye: Rye, recipe: BundleRecipe, files: Mapping[str, bytes], target: Path
) -> CheckedBundle:
    """Sign a copy of the files with the user's key, as a bundle in a folder that is not there yet.

    Raises RegistryIdError, RyeError `CONFLICT`, `CONFIG_ERROR` or `INTEGRITY`,
    ItemValidationError, NoSigningKeyError, FileSystemError.
    """
    valid_bundle_id(recipe.bundle_id)
    valid_version(recipe.version)
    if target.exists() or target.is_symlink():
        raise target_exists_error(str(target), "a file or folder", "name another with --out DIR")
    key = rye.signing_key()
    make_directory(target.parent)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for relative, data in files.items():
            path = work / "source" / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        publish_bundle(  # (2)
            work / "source",
            work / "made",
            bundle_id=recipe.bundle_id,
            version=recipe.version,
            key=key,
            readable=lambda space, paths: _readable(recipe, space, paths),
        )
        made = verify_bundle_files(  # (3)
            read_bundle_files(work / "made"), recipe.bundle_id, expected=key.fingerprint
        )
        (work / "made").rename(target)  # (4)
    except OSError as error:
        raise file_system_error(target, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return made


def _all_targets(rye: Rye, bundle_id: str, space: Space) -> list[SignTarget]:
    excluded = exclusions(rye.context.spaces, rye.verifier, rye.warn)
    found: list[SignTarget] = []
    for kind, pattern in ((None, "**"), (Kind.CONFIG, f"{bundle_id}/**")):
        try:
            found += targets_of_glob(kind, pattern, space, excluded)
        except ItemNotFoundError:
            continue
    return found


def _readable(recipe: BundleRecipe, space: Space, paths: Sequence[str]) -> str:
    """The manifest that other programs read: what each item's file and signature are."""
    listed = {}
    for path in paths:
        source = item_source(_PREFIX + path, (space.ai / path).read_bytes())
        if source:
            digest = compute_integrity(source.as_object())
            listed[_PREFIX + path] = {
                "object_hash": digest,
                "inline_signed": source.signature_info is not None,
            }
    bundle = {
        "id": recipe.bundle_id,
        "version": recipe.version,
        "entrypoint": recipe.entrypoint,
        "description": recipe.description,
        "created_at": utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "type": "package",
    }
    text = yaml_text({"bundle": bundle, "files": listed})
    if len(text.encode()) > MAX_HEADER_BYTES:
        raise RyeError(
            f"{recipe.bundle_id}: expected a readable manifest of at most {MAX_HEADER_BYTES} bytes,"
            f" found more: {len(listed)} items",
            code="VALIDATION_FAILED",
            hint=_HINT_BY_NAME,
        )
    return text
