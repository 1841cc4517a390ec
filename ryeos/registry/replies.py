"""What registries answer, as values. Pure. One of another shape is a RegistryReplyError."""

import json
from collections.abc import Mapping
from typing import Any

from lillux.values import dataclass, field
from ryeos.registry.errors import RegistryReplyError


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledReply:
    """``GET /v1/pull``; nothing of it is checked but its shape.

    suffix       of the item's file; ``""`` where the registry does not say
    attestation  a signed document about the rest, None for none
    """

    item_type: str
    item_id: str
    version: str
    content: str = field(repr=False)
    author: str
    suffix: str = ""
    created_at: str = ""
    attestation: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReply:
    """``GET /v1/bundle/pull``. ``files``: content by path, as it came."""

    bundle_id: str
    version: str
    manifest: str = field(repr=False)
    files: Mapping[str, str] = field(repr=False)
    author: str
    created_at: str = ""
    attestation: object = field(default=None, repr=False)


def parse_object(body: bytes, what: str) -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise RegistryReplyError(what, f"expected JSON, found {body[:60]!r}") from None
    if not isinstance(value, dict):
        raise RegistryReplyError(what, f"expected a JSON object, found {type(value).__name__}")
    return value


def read_pulled(value: Mapping[str, Any], what: str) -> PulledReply:
    """The item of a reply."""
    suffix = value.get("suffix")
    return PulledReply(
        item_type=text_at(value, "item_type", what),
        item_id=text_at(value, "item_id", what),
        version=text_at(value, "version", what),
        content=text_at(value, "content", what),
        author=text_at(value, "author", what),
        suffix=suffix if isinstance(suffix, str) else "",
        created_at=str(value.get("created_at") or ""),
        attestation=value.get("attestation"),
    )


def read_bundle(value: Mapping[str, Any], what: str) -> BundleReply:
    """The bundle of a reply."""
    listed = value.get("files")
    if not isinstance(listed, dict):
        raise RegistryReplyError(what, "files: expected a mapping of paths")
    files = {}
    for path, entry in listed.items():
        content = entry.get("content") if isinstance(entry, dict) else None
        if not isinstance(content, str):
            raise RegistryReplyError(what, f"files.{path[:80]!a}.content: expected text")
        files[path] = content
    return BundleReply(
        bundle_id=text_at(value, "bundle_id", what),
        version=text_at(value, "version", what),
        manifest=text_at(value, "manifest", what),
        files=files,
        author=text_at(value, "author", what),
        created_at=str(value.get("created_at") or ""),
        attestation=value.get("attestation"),
    )


def rows_at(value: Mapping[str, Any], key: str, what: str) -> list[dict[str, Any]]:
    """A list of objects."""
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise RegistryReplyError(what, f"{key}: expected a list of objects")
    return found


def text_at(value: Mapping[str, Any], key: str, what: str) -> str:
    """A text that can be written as UTF-8."""
    found = value.get(key)
    if not isinstance(found, str) or not _is_unicode(found):
        raise RegistryReplyError(what, f"{key}: expected text, found {found!r:.80}")
    return found


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
