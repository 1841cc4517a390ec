"""A bundle as it is sent, checked against its own manifest. Pure.

The manifest stays as its publisher signed it: who installs the bundle pins the publisher's key, so
the registry changes not a byte. Format: docs/bundles.md, docs/registry.md.
"""

from collections.abc import Mapping
from typing import Any

from lillux.digests import compute_integrity, sha256_hex
from lillux.errors import LilluxError, UnsafePathError
from lillux.files import check_relative
from lillux.values import dataclass, field
from rye_services.registry.names import version_of
from rye_services.registry.publication import PublicationError, check_sender
from ryeos.items.refs import AI_DIRECTORY, kind_of_directory
from ryeos.items.yaml import parse_yaml
from ryeos.sync.paths import item_source
from ryeos.trust.bundles import MANIFEST_FORM
from ryeos.trust.signature import decode, split

MAX_FILES = 5000
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_MANIFEST_BYTES = 8 * 1024 * 1024
_MAX_PATH_CHARACTERS = 512
_MOST_ISSUES = 20


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of a bundle. ``object_hash`` is that of its ``item_source``."""

    content: str = field(repr=False)
    object_hash: str
    inline_signed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePublication:
    """A bundle that can be kept. ``publisher``: the key that signed its manifest, None for none."""

    bundle_id: str
    version: str
    description: str
    manifest: str = field(repr=False)
    files: Mapping[str, SentFile] = field(repr=False)
    publisher: str | None

    @property
    def content_hash(self) -> str:
        """Of everything that is pulled; what its version stands for."""
        listed = {path: sha256_hex(one.content.encode()) for path, one in self.files.items()}
        return compute_integrity({"manifest": self.manifest, "files": listed})

    @property
    def size(self) -> int:
        """Bytes of the manifest and the files."""
        files = sum(len(one.content.encode()) for one in self.files.values())
        return len(self.manifest.encode()) + files


def bundle_publication(
    bundle_id: str,
    version: str | None,
    manifest: str,
    files: Mapping[str, SentFile],
    *,
    keys: Mapping[str, bytes],
) -> BundlePublication:
    """The bundle that an account publishes. ``keys``: the PEMs of its own keys by fingerprint.

    Raises PublicationError for everything that is wrong with it, RegistryNameError.
    """
    where = "manifest"
    try:
        text = decode(manifest.encode(), where)
        signed = split(text, MANIFEST_FORM, where)
        publisher = check_sender(signed, signed.body, keys)
        document = parse_yaml(signed.body, where)
    except PublicationError:
        raise
    except LilluxError as error:
        raise PublicationError(str(error)) from error
    said = document.get("bundle")
    said = said if isinstance(said, dict) else {}
    listed = document.get("files")
    if not isinstance(listed, dict):
        raise PublicationError("manifest: files: expected a mapping of paths")
    found = version or said.get("version")
    if not isinstance(found, str):
        raise PublicationError("version: expected one, beside the manifest or in it")
    issues = [*_identity(said, bundle_id, found), *_files(listed, files, bundle_id)]
    if issues:
        raise PublicationError("Validation failed", tuple(issues[:_MOST_ISSUES]))
    return BundlePublication(
        bundle_id=bundle_id,
        version=version_of(found).text,
        description=_description(said),
        manifest=manifest,
        files=files,
        publisher=publisher,
    )


def description_in(manifest: str) -> str:
    """What a manifest that was published says of its bundle."""
    where = "manifest"
    document = parse_yaml(split(decode(manifest.encode(), where), MANIFEST_FORM, where).body, where)
    return _description(document["bundle"])


def _description(said: Mapping[str, Any]) -> str:
    found = said.get("description")
    return found if isinstance(found, str) else ""


def _identity(said: Mapping[str, Any], bundle_id: str, version: str) -> list[str]:
    expected = {"id": bundle_id, "version": version}
    return [
        f"manifest: bundle.{field}: expected {value}, found {str(said.get(field))[:80]!a}"
        for field, value in expected.items()
        if said.get(field) != value
    ]


def _files(listed: Mapping[Any, Any], sent: Mapping[str, SentFile], bundle_id: str) -> list[str]:
    """What is wrong with the files, in the order of their paths."""
    if not 0 < len(sent) <= MAX_FILES:
        return [f"files: expected 1 to {MAX_FILES}, found {len(sent)}"]
    issues = [f"{str(path)[:200]!a}: listed, but not sent" for path in listed if path not in sent]
    seen: dict[str, str] = {}
    for path, one in sorted(sent.items()):
        problem = _path_problem(path) or _clash(path, seen)
        problem = problem or _file_problem(path, one, listed.get(path), bundle_id)
        if problem:
            issues.append(f"{path[:200]!a}: {problem}")
    return issues


def _path_problem(path: str) -> str:
    if len(path) > _MAX_PATH_CHARACTERS:
        return f"expected at most {_MAX_PATH_CHARACTERS} characters"
    try:
        check_relative(path)
    except UnsafePathError as error:
        return error.problem
    return ""


def _clash(path: str, seen: dict[str, str]) -> str:
    """Some file systems have one file where two paths differ by case alone."""
    other = seen.setdefault(path.casefold(), path)
    return "" if other == path else f"differs from {other!a} by case alone"


def _file_problem(path: str, sent: SentFile, entry: object, bundle_id: str) -> str:
    data = sent.content.encode("utf-8", "surrogatepass")
    if len(data) > MAX_FILE_BYTES:
        return f"expected at most {MAX_FILE_BYTES} bytes, found {len(data)}"
    if not isinstance(entry, dict):
        return "" if _is_of_the_bundle(path, bundle_id) else "sent, but not listed in the manifest"
    if entry.get("object_hash") != sent.object_hash:
        return "object_hash: expected that of the manifest"
    if bool(entry.get("inline_signed", sent.inline_signed)) != sent.inline_signed:
        return "inline_signed: expected that of the manifest"
    return _content_problem(path, sent, data)


def _content_problem(path: str, sent: SentFile, data: bytes) -> str:
    source = item_source(_below_a_project(path), data)
    if source is None:
        return "" if sent.object_hash in {"", sha256_hex(data)} else "object_hash: not its own"
    if compute_integrity(source.as_object()) != sent.object_hash:
        return "object_hash: not that of the content"
    if (source.signature_info is not None) != sent.inline_signed:
        return "inline_signed: expected whether there is a signature line"
    return ""


def _is_of_the_bundle(path: str, bundle_id: str) -> bool:
    """Whether a file is about the bundle, and so in no list of what the bundle holds."""
    below = path.removeprefix(f"{AI_DIRECTORY}/")
    about = (f"bundles/{bundle_id}/", "config/keys/trusted/")
    return below == "public_key.pem" or below.startswith(about)


def _below_a_project(path: str) -> str:
    """Manifests name paths below ``.ai`` or beside it; items are known by the longer ones."""
    is_short = kind_of_directory(path.partition("/")[0]) is not None
    return f"{AI_DIRECTORY}/{path}" if is_short else path
