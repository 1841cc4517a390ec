"""Bundles made out of items, whole or not at all.

(1) every item is verified, so that nobody signs what somebody else has slipped in
(2) the copy is published beside its place
(3) it is checked as whoever installs it will check it
(4) it is moved to its place
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lillux.digests import compute_integrity
from lillux.files import file_system_error, make_directory
from lillux.values import dataclass
from ryeos.app import Rye
from ryeos.cas.item_files import item_source
from ryeos.collecting import exclusions
from ryeos.errors import ItemNotFoundError, RyeError, TargetExistsError
from ryeos.items import AI_DIRECTORY, Kind, Space
from ryeos.metadata.values import MAX_HEADER_BYTES
from ryeos.metadata.yaml_writing import yaml_text
from ryeos.moments import utc_now
from ryeos.publish import publish_bundle
from ryeos.registry.bundle_contents import CheckedBundle, check_bundle
from ryeos.registry.bundle_install import read_bundle_files
from ryeos.registry.ids import check_bundle_id, check_version
from ryeos.sign_targets import SignTarget, targets_of_glob

_PREFIX = f"{AI_DIRECTORY}/"


class BundleMakingError(RyeError):
    """Something that no bundle may hold was chosen for one; nothing was made."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, item: str, problem: str, *, hint: str = "") -> None:
        self.item, self.problem = item, problem
        super().__init__(
            f"{item}: {problem}", hint=hint or "choose the items of the bundle by name"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is to be made. ``entrypoint`` is the item to begin with, ``""`` for none."""

    bundle_id: str
    version: str
    description: str = ""
    entrypoint: str = ""


def chosen_files(
    rye: Rye, bundle_id: str, space: Space, targets: Sequence[SignTarget]
) -> dict[str, bytes]:
    """The verified bytes of items by their path below ``.ai``.

    Without targets all tools, directives and knowledge of the space, and the bundle's own
    configuration. Raises IntegrityError and its kin, ItemNotFoundError, BundleMakingError.
    """
    chosen = targets or _everything(rye, bundle_id, space)
    if not chosen:
        raise ItemNotFoundError("*", [space.label])
    files = {}
    for target in chosen:
        item = rye.verifier.verify(target.verify_target)  # (1)
        if not item.verified or item.target.suffix == ".json":
            problem = "expected a file with a signature line of its own"
            raise BundleMakingError(target.label, problem)
        files[target.path.relative_to(target.space.ai).as_posix()] = item.data
    return files


def make_bundle(
    rye: Rye, recipe: Recipe, files: Mapping[str, bytes], target: Path
) -> CheckedBundle:
    """Sign a copy of the files with the user's key, as a bundle in a folder that is not there yet.

    Raises RegistryIdError, TargetExistsError, BundleError, ItemValidationError,
    BundleContentError, NoSigningKeyError, FileSystemError.
    """
    check_bundle_id(recipe.bundle_id)
    check_version(recipe.version)
    if target.exists() or target.is_symlink():
        raise TargetExistsError(str(target), "a file or folder", "name another with --out DIR")
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
        made = check_bundle(  # (3)
            read_bundle_files(work / "made"), recipe.bundle_id, expected=key.fingerprint
        )
        (work / "made").rename(target)  # (4)
    except OSError as error:
        raise file_system_error(target, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return made


def _everything(rye: Rye, bundle_id: str, space: Space) -> list[SignTarget]:
    excluded = exclusions(rye.context.spaces, rye.verifier, rye.warn)
    found: list[SignTarget] = []
    for kind, pattern in ((None, "**"), (Kind.CONFIG, f"{bundle_id}/**")):
        try:
            found += targets_of_glob(kind, pattern, space, excluded)
        except ItemNotFoundError:
            continue
    return found


def _readable(recipe: Recipe, space: Space, paths: Sequence[str]) -> str:
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
        problem = f"expected a readable manifest of at most {MAX_HEADER_BYTES} bytes"
        raise BundleMakingError(recipe.bundle_id, f"{problem}, found more: {len(listed)} items")
    return text
