"""Bundles on the wire: their files, and a readable manifest.

``{path: {content, object_hash, inline_signed}}``. What counts is in the files themselves,
``files.manifest`` and ``public_key.pem`` among them: the publisher signed those, and the registry
changes none of it.
"""

import json
from collections.abc import Mapping
from typing import Any

from lillux.canonical_json import compute_integrity
from ryeos.items.refs import AI_DIRECTORY
from ryeos.remote.attestations import verify_bundle_attestation
from ryeos.remote.registry import RegistryClient
from ryeos.remote.registry_bundles import (
    KEY_NAME,
    CheckedBundle,
    bundle_content_error,
    verify_bundle_files,
)
from ryeos.remote.registry_errors import registry_reply_error
from ryeos.remote.replies import BundleReply
from ryeos.sync.item_files import item_source

_PREFIX = f"{AI_DIRECTORY}/"


def push_bundle(registry: RegistryClient, bundle: CheckedBundle) -> dict[str, Any]:
    """Publish a bundle; the answer. Raises RyeError `INTEGRITY` for what is no text."""
    sent = {path: _file_as_sent(bundle, path) for path in sorted(bundle.files)}
    manifest, listed = _readable_manifest(bundle, sent)
    files = {_spelled(path, listed): one for path, one in sent.items()}
    return registry.push_bundle(bundle.bundle_id, bundle.version, manifest, files)


def fetched_bundle(
    registry: RegistryClient, bundle_id: str, version: str, expected: str
) -> tuple[CheckedBundle, str]:
    """A published bundle, every file checked, and the account that published it.

    ``version`` and the fingerprint ``expected`` are ``""`` where any will do. Raises
    NotInRegistryError, RyeError `INTEGRITY`, BundlePinMismatchError.
    """
    reply = registry.pull_bundle(bundle_id, version)
    if reply.bundle_id != bundle_id or (version and reply.version != version):
        raise registry_reply_error(
            f"registry {registry.name}",
            f"expected bundle {bundle_id} {version}, found {reply.bundle_id[:80]!a}"
            f" {reply.version[:20]!a}",
        )
    verify_bundle_attestation(reply, registry.pin())
    files = _files(reply)
    bundle = verify_bundle_files(files, bundle_id, version=reply.version, expected=expected)
    return bundle, reply.author


def _file_as_sent(bundle: CheckedBundle, path: str) -> dict[str, Any]:
    data = bundle.files[path]
    try:
        content = data.decode()
    except UnicodeDecodeError as error:
        raise bundle_content_error(
            bundle.bundle_id, f"{path!a}: expected text in UTF-8", hint="nothing was sent"
        ) from error
    source = item_source(path, data)
    return {
        "content": content,
        "object_hash": compute_integrity(source.as_object()) if source else "",
        "inline_signed": source is not None and source.signature_info is not None,
    }


def _readable_manifest(
    bundle: CheckedBundle, sent: Mapping[str, Any]
) -> tuple[str, frozenset[str]]:
    """The readable manifest, and the paths that it lists; made here where the bundle has none."""
    path = f"{_PREFIX}bundles/{bundle.bundle_id}/manifest.yaml"
    own = bundle.files.get(path)
    if own is not None:
        from ryeos.items.yaml import parse_yaml

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
            raise bundle_content_error(
                reply.bundle_id, f"{path[:200]!a}: expected text in UTF-8"
            ) from error
    return files
