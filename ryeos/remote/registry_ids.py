"""Ids of what is in a registry: items, versions, bundles. Pure."""

import re

from ryeos.items.refs import EXECUTABLE_KINDS, ItemRef, Kind, Reference
from ryeos.remote.registry_errors import RegistryIdError

_FEWEST_SEGMENTS = 2
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")
_BUNDLE = re.compile(r"[a-z0-9][a-z0-9_-]{1,62}")
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{1,38}")
RESERVED_BUNDLES = "ryeos"
"""With this begin the ids of bundles that come with the program."""


def published_ref(reference: Reference) -> ItemRef:
    """The item of a registry that a reference means; without a kind it is a tool.

    Raises RegistryIdError.
    """
    kind = reference.kind or Kind.TOOL
    if kind not in EXECUTABLE_KINDS:
        raise RegistryIdError(str(reference), "expected a tool, a directive or knowledge")
    segments = reference.id.split("/")
    if len(segments) < _FEWEST_SEGMENTS or not all(map(_SEGMENT.fullmatch, segments)):
        raise RegistryIdError(
            str(reference),
            "expected at least two segments of letters, digits and . _ -",
        )
    return ItemRef(kind, reference.id)


def valid_version(version: str) -> str:
    """The version itself. Raises RegistryIdError."""
    if not _VERSION.fullmatch(version):
        raise RegistryIdError(version, "expected a version like 1.4.0")
    return version


def version_key(version: str) -> tuple[int, ...]:
    """The key that versions are compared by."""
    return tuple(map(int, valid_version(version).split(".")))


def valid_bundle_id(bundle_id: str) -> str:
    """The id itself, if a registry and an installation may have it. Raises RegistryIdError."""
    if not is_bundle_id(bundle_id):
        raise RegistryIdError(
            bundle_id, "expected 2 to 63 of a-z, 0-9, - and _, a letter or digit first"
        )
    if bundle_id.startswith(RESERVED_BUNDLES):
        raise RegistryIdError(bundle_id, f"ids that begin with {RESERVED_BUNDLES} are rye's own")
    return bundle_id


def is_bundle_id(word: str) -> bool:
    """True if a word has the form of a bundle's id, also of one that is reserved."""
    return bool(_BUNDLE.fullmatch(word))


def valid_namespace(name: str) -> str:
    """The name itself. Raises RegistryIdError."""
    if not _NAMESPACE.fullmatch(name):
        raise RegistryIdError(
            name, "expected 2 to 39 of a-z, 0-9, - and _, a letter or digit first"
        )
    return name
