"""Bundles on the wire: ``{path: {content, object_hash, inline_signed}}``, and a readable manifest.

What counts is in the files themselves, ``files.manifest`` and ``public_key.pem`` among them: the
publisher signed those, and the registry changes none of it.
"""

import json
from collections.abc import Mapping
from typing import Any

from lillux.digests import compute_integrity
from ryeos.cas.item_files import item_source
from ryeos.items import AI_DIRECTORY
from ryeos.registry.attestations import check_bundle_attestation
from ryeos.registry.bundle_contents import (
    KEY_NAME,
    BundleContentError,
    CheckedBundle,
    check_bundle,
)
from ryeos.registry.client import Registry
from ryeos.registry.errors import RegistryReplyError
from ryeos.registry.replies import BundleReply

_PREFIX = f"{AI_DIRECTORY}/"


def push_bundle(registry: Registry, bundle: CheckedBundle) -> dict[str, Any]:
    """Publish a bundle; the answer. Raises BundleContentError for what is no text."""
    sent = {path: _sent(bundle, path) for path in sorted(bundle.files)}
    manifest, listed = _manifest(bundle, sent)
    files = {_spelled(path, listed): one for path, one in sent.items()}
    return registry.push_bundle(bundle.bundle_id, bundle.version, manifest, files)


def fetched_bundle(
    registry: Registry, bundle_id: str, version: str, expected: str
) -> tuple[CheckedBundle, str]:
    """A published bundle, every file checked, and the account that published it.

    ``version`` and the fingerprint ``expected`` are ``""`` where any will do. Raises
    NotInRegistryError, BundleContentError, BundlePinMismatchError.
    """
    reply = registry.pull_bundle(bundle_id, version)
    if reply.bundle_id != bundle_id or (version and reply.version != version):
        raise RegistryReplyError(
            f"registry {registry.name}",
            f"expected bundle {bundle_id} {version}, found {reply.bundle_id[:80]!a}"
            f" {reply.version[:20]!a}",
        )
    check_bundle_attestation(reply, registry.pin())
    files = _files(reply)
    bundle = check_bundle(files, bundle_id, version=reply.version, expected=expected)
    return bundle, reply.author


def _sent(bundle: CheckedBundle, path: str) -> dict[str, Any]:
    data = bundle.files[path]
    try:
        content = data.decode()
    except UnicodeDecodeError as error:
        raise BundleContentError(
            bundle.bundle_id, f"{path!a}: expected text in UTF-8", hint="nothing was sent"
        ) from error
    source = item_source(path, data)
    return {
        "content": content,
        "object_hash": compute_integrity(source.as_object()) if source else "",
        "inline_signed": source is not None and source.signature_info is not None,
    }


def _manifest(bundle: CheckedBundle, sent: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    """The readable manifest, and the paths that it lists; made here where the bundle has none."""
    path = f"{_PREFIX}bundles/{bundle.bundle_id}/manifest.yaml"
    own = bundle.files.get(path)
    if own is not None:
        from ryeos.metadata.yaml_documents import parse_yaml

        text = own.decode()
        listed = parse_yaml(text, path).get("files")
        return text, frozenset(listed) if isinstance(listed, dict) else frozenset()
    files = {
        one: {key: values[key] for key in ("object_hash", "inline_signed")}
        for one, values in sent.items()
        if values["object_hash"]
    }
    document = {"bundle": {"id": bundle.bundle_id, "version": bundle.version}, "files": files}
    return json.dumps(document), frozenset(files)


def _spelled(path: str, listed: frozenset[str]) -> str:
    """A path as the readable manifest has it: from ``.ai`` on, or below it."""
    below = path.removeprefix(_PREFIX)
    return below if path not in listed and below in listed else path


def _files(reply: BundleReply) -> dict[str, bytes]:
    """The files by their paths below the bundle's folder, however the manifest spells them."""
    files: dict[str, bytes] = {}
    for path, content in reply.files.items():
        is_whole = path == KEY_NAME or path.startswith(_PREFIX)
        try:
            files[path if is_whole else _PREFIX + path] = content.encode()
        except UnicodeEncodeError as error:
            raise BundleContentError(
                reply.bundle_id, f"{path[:200]!a}: expected text in UTF-8"
            ) from error
    return files
