"""Publishes a bundle: a signed copy of a folder of items, with manifest and key document.

The source stays as it is, so that it reads well in version control. The result holds ``.ai`` and
``public_key.pem``, and is the same to the byte for the same source, key and time.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from ryeos.items.errors import bundle_error
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Space, kind_of_directory
from ryeos.items.specs import SPELLINGS
from ryeos.trust.bundles import MANIFEST_FORM, dump_manifest, manifest_path, readable_manifest_name
from ryeos.trust.extractors import extract
from ryeos.trust.item_rules import validate_item
from ryeos.trust.sign_targets import SignTarget
from ryeos.trust.signature import CommentForm, SignedText, form_for
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import document_path, write_key_document

_CODE = frozenset({".py", ".js", ".ts", ".mjs", ".cjs", ".sh"})
_SEARCHED = frozenset({"title", "tags", "metadata"})
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def publish_bundle(
    source: Path,
    target: Path,
    *,
    bundle_id: str,
    version: str,
    key: SigningKey,
    readable: Callable[[Space, Sequence[str]], str] | None = None,
) -> Space:
    """Copy ``source`` (the content of ``.ai``) to ``target/.ai`` and sign all of it.

    ``target`` must not exist yet. ``readable`` makes the text of ``manifest.yaml``, which is for
    other programs, from the signed files; it gets their paths below ``.ai``.

    Raises ItemValidationError for the first item that breaks a rule, RyeError `CONFIG_ERROR` for a
    file that cannot be signed.
    """
    space = Space(f"{SYSTEM}:{bundle_id}", target, version, key.public_pem)
    shutil.copytree(source, space.ai, ignore=_LEFT_OUT)
    files = {
        path.relative_to(space.ai).as_posix(): _publish_file(path, space, key)
        for path in sorted(space.ai.rglob("*"))
        if path.is_file()
    }
    if readable:
        name, text = readable_manifest_name(space), readable(space, list(files))
        files[name] = _write_signed(space.ai / name, text, form_for(Kind.TOOL, ".yaml"), key)
    _write_key_document(space, key)
    _write_manifest(space, files, key)
    (target / "public_key.pem").write_bytes(key.public_pem)
    return space


def _publish_file(path: Path, space: Space, key: SigningKey) -> dict[str, Any]:
    """Sign one file in place; its manifest entry."""
    target = _target(path, space)
    valid = validate_item(target, path.read_bytes())
    signed = valid.signed
    if signed is None:
        raise bundle_error(
            str(path), "a bundle holds only files with a signature line of their own"
        )
    suffix = target.verify_target.suffix
    form = form_for(target.kind, suffix)
    text = key.signed_text(target.kind, signed, form, str(path), valid.identity)
    path.write_bytes(text.encode())
    entry: dict[str, Any] = {"sha256": sha256_hex(path.read_bytes())}
    is_test = target.ref is not None and target.ref.is_test  # read by `rye test` alone
    if target.kind in (Kind.TOOL, Kind.CONFIG) and not is_test:
        entry["header"] = listed_header(target.kind, suffix, signed, str(target.path))
    return entry


def listed_header(kind: Kind, suffix: str, signed: SignedText, where: str) -> Mapping[str, Any]:
    """The fields of the file, each once: of the constants in code only those with a meaning.

    Every start reads the whole manifest. Raises LilluxError for a header that cannot be read.
    """
    header = extract(kind, suffix, signed.shebang + signed.body, where)
    spelled = {name for names in SPELLINGS.values() for name in names} - SPELLINGS.keys()
    constants = header.keys() if suffix in _CODE else frozenset[str]()
    left_out = spelled | (constants - SPELLINGS.keys() - _SEARCHED)
    return {key: value for key, value in header.items() if key not in left_out}


def _target(path: Path, space: Space) -> SignTarget:
    folder, _, rest = path.relative_to(space.ai).as_posix().partition("/")
    kind = kind_of_directory(folder)
    if kind is None or path.suffix not in kind.suffixes:
        raise bundle_error(str(path), "a bundle holds only tools, directives, knowledge and config")
    ref = ItemRef(kind, Path(rest).with_suffix("").as_posix())
    return SignTarget(path=path, kind=kind, space=space, ref=ref)


def _write_key_document(space: Space, key: SigningKey) -> None:
    text = write_key_document(key.public_pem, space.bundle_id, covers_all=True, binds_identity=True)
    path = document_path(space, key.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(key.signed_config(text, path).encode())


def _write_manifest(space: Space, files: Mapping[str, Any], key: SigningKey) -> None:
    path = manifest_path(space)
    document = document_path(space, key.fingerprint)
    listed = dict(files)
    listed[document.relative_to(space.ai).as_posix()] = {
        "sha256": sha256_hex(document.read_bytes())
    }
    _write_signed(path, dump_manifest(space.bundle_id, space.version, listed), MANIFEST_FORM, key)


def _write_signed(path: Path, text: str, form: CommentForm, key: SigningKey) -> dict[str, Any]:
    """Write a text that is no item; its manifest entry."""
    body = SignedText(shebang="", signature=None, covers=None, body=text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(key.signed_text(Kind.CONFIG, body, form, str(path)).encode())
    return {"sha256": sha256_hex(path.read_bytes())}
