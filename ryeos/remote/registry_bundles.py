"""Validates the files of a bundle from a registry before any is written. Pure.

(1) paths that every disk can hold, and no two that some disk takes for one
(2) sizes and their number
(3) the publisher's key is the one that is expected, and signed the manifest of this bundle
(4) each file is listed with its digest, and each listed file is there
(5) items below ``tools``, ``directives``, ``knowledge``; configuration only below
    ``config/<bundle id>``, so that no bundle configures anything but itself; nothing of Rye's own,
    and no id of one word, as the short ids of Rye's own are
(6) each header in the manifest is that of the file: what a person reads there is what runs
"""

import json
import os
import shutil
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lillux.digests import compute_integrity
from lillux.errors import LilluxError
from lillux.files import (
    file_system_error,
    is_directory,
    locked,
    make_directory,
    read_bytes,
    require_plain_path,
)
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass, field, replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import (
    AI_DIRECTORY,
    EXECUTABLE_KINDS,
    SYSTEM,
    Kind,
    Space,
    kind_of_directory,
    user_lock,
)
from ryeos.remote.registry import RegistryClient
from ryeos.remote.registry_items import verify_bundle_attestation
from ryeos.remote.registry_settings import (
    registry_reply_error,
    valid_bundle_id,
    valid_version,
    version_key,
)
from ryeos.remote.replies import BundleReply
from ryeos.sync.paths import item_source
from ryeos.trust.bundles import (
    BUNDLES_FOLDER,
    BundlePin,
    BundlePins,
    Manifest,
    installed_space,
    read_manifest,
    verify_manifest,
)
from ryeos.trust.bundles_publish import listed_header
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split

# --- bundle contents ------------------------------------------------------------------------------

if TYPE_CHECKING:
    import tarfile

MAX_FILES = 10_000
MAX_BUNDLE_BYTES = 64 * 1024 * 1024
_MAX_ARCHIVE_BYTES = 2 * MAX_BUNDLE_BYTES
MAX_PATH_BYTES = 512
KEY_NAME = "public_key.pem"
_RESERVED = "rye"
"""The first segment of the ids of Rye's own items, which no other bundle may add to."""

RESERVED_CONFIG = frozenset(
    {"agent", "bundles", "cas", "execution", "file-system", "graph", "integrity", "keys", "mcp"}
    | {"node", "registry", "remotes", "search", "secrets", "telemetry", "threads", "web"}
    | {_RESERVED}
)
"""Folders of configuration that programs read: no bundle may have such an id."""


def bundle_content_error(bundle: str, problem: str, *, hint: str = "") -> RyeError:
    """The files of a bundle are not what its publisher signed, or more than a bundle may be."""
    return RyeError(
        f"bundle {bundle[:80]}: {problem}",
        code="INTEGRITY",
        hint=hint or "nothing was installed",
    )


class BundlePinMismatchError(RyeError):
    """A bundle is signed by another key than the one that is expected of it."""

    code = "PIN_MISMATCH"

    def __init__(self, bundle: str, *, pinned: str, found: str) -> None:
        self.bundle, self.pinned, self.found = bundle, pinned, found
        self.facts = {"pinned": pinned, "found": found}
        super().__init__(
            f"bundle {bundle}: expected the publisher's key {pinned}, found {found}",
            hint="another person may have published it; if you know that the publisher has a new"
            f" key: rye bundle uninstall {bundle} --forget, then install it with --key {found}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBundle:
    """A bundle whose every file its publisher signed. ``files`` are by path below its folder."""

    bundle_id: str
    version: str
    public_pem: bytes = field(repr=False)
    manifest: Manifest = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Of the publisher's key."""
        return compute_key_fingerprint(self.public_pem)


def verify_bundle_files(
    files: Mapping[str, bytes], bundle_id: str, *, version: str = "", expected: str = ""
) -> CheckedBundle:
    """The bundle that some files are. ``expected`` is the fingerprint of its publisher's key.

    Raises RegistryIdError, RyeError `INTEGRITY`, BundlePinMismatchError.
    """
    valid_bundle_id(bundle_id)
    if bundle_id in RESERVED_CONFIG:
        raise bundle_content_error(
            bundle_id, "expected an id that is no name of Rye's own settings"
        )
    for path in files:
        _validate_path(bundle_id, path)  # (1)
    _validate_collisions(bundle_id, files)
    _validate_sizes(bundle_id, files)  # (2)
    public_pem = _public_pem(bundle_id, files)
    found = compute_key_fingerprint(public_pem)
    if expected and expected != found:  # (3)
        raise BundlePinMismatchError(bundle_id, pinned=expected, found=found)
    manifest = _verified_manifest(bundle_id, files, public_pem)
    if version and manifest.version != version:
        raise bundle_content_error(
            bundle_id, f"expected version {version}, found {manifest.version[:20]!a}"
        )
    _verify_listed(bundle_id, files, manifest)  # (4)
    for relative, entry in manifest.files.items():
        _validate_place(bundle_id, relative, found)  # (5)
        if "header" in entry:
            _verify_header(bundle_id, relative, entry["header"], files)  # (6)
    return CheckedBundle(
        bundle_id=bundle_id,
        version=valid_version(manifest.version),
        public_pem=public_pem,
        manifest=manifest,
        files=dict(files),
    )


def _validate_path(bundle_id: str, path: str) -> None:
    try:
        require_plain_path(path)
        is_long = len(path.encode()) > MAX_PATH_BYTES
    except (LilluxError, UnicodeEncodeError) as error:
        raise bundle_content_error(bundle_id, f"{path[:200]!a}: {error}") from error
    if is_long:
        raise bundle_content_error(bundle_id, f"{path[:80]!a}...: expected a shorter path")
    if path != KEY_NAME and not path.startswith(f"{AI_DIRECTORY}/"):
        raise bundle_content_error(
            bundle_id, f"{path!a}: expected {KEY_NAME}, or a file below {AI_DIRECTORY}/"
        )


def _validate_collisions(bundle_id: str, files: Mapping[str, bytes]) -> None:
    """No path may be another's folder, or be the same file where letter case does not count."""
    folded: dict[str, str] = {}
    for path in files:
        one = unicodedata.normalize("NFC", path).casefold()
        if one in folded:
            raise bundle_content_error(
                bundle_id, f"{path!a} and {folded[one]!a} are one file on some disks"
            )
        folded[one] = path
    for one, path in folded.items():
        parts = one.split("/")
        for length in range(1, len(parts)):
            if "/".join(parts[:length]) in folded:
                raise bundle_content_error(bundle_id, f"{path!a}: its folder is a file as well")


def _validate_sizes(bundle_id: str, files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES:
        raise bundle_content_error(
            bundle_id, f"expected at most {MAX_FILES} files, found {len(files)}"
        )
    large = next((path for path in files if len(files[path]) > MAX_ITEM_BYTES), None)
    if large:
        raise bundle_content_error(bundle_id, f"{large!a}: expected at most {MAX_ITEM_BYTES} bytes")
    total = sum(map(len, files.values()))
    if total > MAX_BUNDLE_BYTES:
        raise bundle_content_error(
            bundle_id, f"expected at most {MAX_BUNDLE_BYTES} bytes, found {total}"
        )


def _public_pem(bundle_id: str, files: Mapping[str, bytes]) -> bytes:
    if KEY_NAME not in files:
        raise bundle_content_error(
            bundle_id,
            f"expected {KEY_NAME}, the key of its publisher",
            hint="make bundles with: rye bundle create",
        )
    try:
        return canonical_public_pem(files[KEY_NAME])
    except LilluxError as error:
        raise bundle_content_error(bundle_id, f"{KEY_NAME}: {error}") from error


def _verified_manifest(bundle_id: str, files: Mapping[str, bytes], public_pem: bytes) -> Manifest:
    space = Space(f"{SYSTEM}:{bundle_id}", Path(), "", public_pem)
    path = f"{AI_DIRECTORY}/bundles/{bundle_id}/files.manifest"
    if path not in files:
        raise bundle_content_error(
            bundle_id, f"expected its manifest, {path}", hint="make bundles with: rye bundle create"
        )
    try:
        return verify_manifest(space, files[path], public_pem)
    except LilluxError as error:
        raise bundle_content_error(bundle_id, str(error)) from error


def _verify_listed(bundle_id: str, files: Mapping[str, bytes], manifest: Manifest) -> None:
    prefix = f"{AI_DIRECTORY}/"
    there = {path.removeprefix(prefix) for path in files if path != KEY_NAME}
    missing = sorted(set(manifest.files) - there)
    if missing:
        raise bundle_content_error(bundle_id, f"{missing[0]!a}: listed in its manifest, not there")
    for relative in sorted(there):
        data = files[prefix + relative]
        if not manifest.holds(relative, data):
            listed = relative in manifest.files
            problem = "not what its publisher signed" if listed else "not listed in its manifest"
            raise bundle_content_error(bundle_id, f"{relative!a}: {problem}")


def _validate_place(bundle_id: str, relative: str, fingerprint: str) -> None:
    folder, _, rest = relative.partition("/")
    kind = kind_of_directory(folder)
    first = rest.partition("/")[0]
    if relative == f"config/keys/trusted/{fingerprint}.toml":
        return
    if relative == f"bundles/{bundle_id}/manifest.yaml":
        return
    if kind is Kind.CONFIG and first != bundle_id:
        raise bundle_content_error(
            bundle_id, f"{relative!a}: expected configuration below config/{bundle_id}/ only"
        )
    if kind not in (*EXECUTABLE_KINDS, Kind.CONFIG):
        raise bundle_content_error(bundle_id, f"{relative!a}: expected an item or configuration")
    if first.casefold().partition(".")[0] == _RESERVED:
        raise bundle_content_error(bundle_id, f"{relative!a}: ids below {_RESERVED}/ are rye's own")
    if "/" not in rest:  # a file of this name is found before a short id is looked up
        raise bundle_content_error(bundle_id, f"{relative!a}: expected an id of at least two words")


def _verify_header(
    bundle_id: str, relative: str, listed: object, files: Mapping[str, bytes]
) -> None:
    kind = kind_of_directory(relative.partition("/")[0])
    suffix = PurePosixPath(relative).suffix
    try:
        if kind is None:
            raise bundle_content_error(bundle_id, f"{relative!a}: expected no header")
        text = decode(files[f"{AI_DIRECTORY}/{relative}"], relative)
        signed = split(text, form_for(kind, suffix, relative), relative)
        said = listed_header(kind, suffix, signed, relative)
        is_its_own = json.loads(json.dumps(said)) == listed
    except (LilluxError, TypeError, ValueError) as error:
        raise bundle_content_error(bundle_id, f"{relative!a}: {error}") from error
    if not is_its_own:
        raise bundle_content_error(
            bundle_id, f"{relative!a}: its manifest lists another header than it has"
        )


# --- bundle publishing ----------------------------------------------------------------------------
# Bundles on the wire: ``{path: {content, object_hash, inline_signed}}``, and a readable manifest.
#
# What counts is in the files themselves, ``files.manifest`` and ``public_key.pem`` among them: the
# publisher signed those, and the registry changes none of it.

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


# --- bundle install -------------------------------------------------------------------------------
# Bundles installed and uninstalled: whole or not at all, even if this program is killed.
#
# (1) the key that is kept for the bundle is the one it is signed by; a first one is kept
# (2) all files are written to a folder beside the others, which no reader looks at
# (3) the version that was there is moved aside, the new one is moved to its place
# (4) the pin says what is installed; what was moved aside is removed


class InstallState(StrEnum):
    """What became of a bundle."""

    INSTALLED = "installed"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A bundle that is installed now. ``previous`` is the version before, else ``""``."""

    state: InstallState
    space: Space
    previous: str = ""
    is_new_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleState:
    """A bundle that is installed. ``problem`` is ``""`` where every file is as it was signed."""

    pin: BundlePin
    space: Space
    files: int = 0
    problem: str = ""


class InstalledBundles:
    """The bundles of one user space."""

    def __init__(self, user: Space) -> None:
        self._user = user
        self._folder = user.ai / BUNDLES_FOLDER
        self.pins = BundlePins(user)

    def install(
        self, bundle: CheckedBundle, *, source: str, author: str, now: str, may_be_older: bool
    ) -> Installation:
        """Install a bundle, in place of another version of it.

        Raises BundlePinMismatchError, RyeError `CONFLICT` or `CONFIG_ERROR`,
        FileSystemError.
        """
        with self._alone():
            pins = self.pins.all()
            known = pins.get(bundle.bundle_id)
            if known and known.public_pem != bundle.public_pem:  # (1)
                raise BundlePinMismatchError(
                    bundle.bundle_id, pinned=known.fingerprint, found=bundle.fingerprint
                )
            previous = known.version if known else ""
            if (
                previous
                and not may_be_older
                and version_key(bundle.version) < version_key(previous)
            ):
                raise RyeError(
                    f"bundle {bundle.bundle_id}: {previous} is installed, found {bundle.version},"
                    " which is older",
                    code="CONFLICT",
                    hint=f"if you want that one: rye bundle install {bundle.bundle_id} --release"
                    f" {bundle.version}",
                )
            pin = BundlePin(
                bundle_id=bundle.bundle_id,
                public_pem=bundle.public_pem,
                version=bundle.version,
                source=source,
                author=author,
                installed_at=now,
            )
            space = installed_space(self._user, pin)
            if previous == bundle.version and _holds(space.base, bundle.files):
                return Installation(state=InstallState.UNCHANGED, space=space, previous=previous)
            self._require_no_overlap(bundle, pins)
            self._put(space.base, bundle.files, pin)
        state = InstallState.UPDATED if previous else InstallState.INSTALLED
        return Installation(state=state, space=space, previous=previous, is_new_key=known is None)

    def uninstall(self, bundle_id: str, *, forget: bool) -> BundlePin:
        """Remove a bundle; its key is still known, unless it is to be forgotten.

        Raises RyeError `ITEM_NOT_FOUND` or `CONFIG_ERROR`, FileSystemError.
        """
        with self._alone():
            pin = self.pins.all().get(bundle_id)
            if pin is None or not (pin.version or forget):
                raise RyeError(
                    f"bundle {bundle_id[:80]}: not installed",
                    code="ITEM_NOT_FOUND",
                    hint="see those that are: rye bundle list",
                )
            if forget:
                self.pins.forget(bundle_id)
            else:
                self.pins.put(replace(pin, version=""))
            _set_aside(installed_space(self._user, pin).base)
            self._sweep()
        return pin

    def states(self) -> Iterator[BundleState]:
        """Every installed bundle, each of its files hashed anew. Raises RyeError `CONFIG_ERROR`."""
        pins = self.pins.all()
        for name in sorted(pins):
            if pins[name].version:
                yield self._state(pins[name])

    def _state(self, pin: BundlePin) -> BundleState:
        space = installed_space(self._user, pin)
        try:
            files = read_bundle_files(space.base)
            verify_bundle_files(files, pin.bundle_id, expected=pin.fingerprint)
        except LilluxError as error:
            return BundleState(pin=pin, space=space, problem=str(error))
        return BundleState(pin=pin, space=space, files=len(files))

    def _require_no_overlap(self, bundle: CheckedBundle, pins: Mapping[str, BundlePin]) -> None:
        """No bundle puts an item of its own in the place of another bundle's."""
        own = _items(bundle.manifest)
        for name in sorted(pins):
            if name == bundle.bundle_id or not pins[name].version:
                continue
            shared = own & self._items_of(pins[name])
            if shared:
                raise RyeError(
                    f"bundle {bundle.bundle_id}: {min(shared)!a} is in the installed bundle"
                    f" {name}, too",
                    code="CONFLICT",
                    hint=f"if you want this one in its place: rye bundle uninstall {name}",
                )

    def _items_of(self, pin: BundlePin) -> set[str]:
        try:
            manifest = read_manifest(installed_space(self._user, pin), pin.public_pem)
        except LilluxError:  # what is damaged has no item that counts
            return set()
        return _items(manifest) if manifest else set()

    def _put(self, target: Path, files: Mapping[str, bytes], pin: BundlePin) -> None:
        new = self._folder / f".new-{os.urandom(6).hex()}"
        try:
            write_bundle_files(new, files)  # (2)
            old = _set_aside(target)  # (3)
            try:
                new.rename(target)
                self.pins.put(pin)  # (4)
            except BaseException:  # an interrupt too gives the old version back
                if old:
                    shutil.rmtree(target, ignore_errors=True)
                    with suppress(OSError):
                        old.rename(target)
                raise
        except OSError as error:
            raise file_system_error(target, error) from error
        finally:
            shutil.rmtree(new, ignore_errors=True)
            self._sweep()

    def _sweep(self) -> None:
        """Remove what was moved aside, also by a program that was ended before it could."""
        with suppress(OSError):
            for entry in list(os.scandir(self._folder)):
                if entry.name.startswith((".old-", ".new-")):
                    shutil.rmtree(entry.path, ignore_errors=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        make_directory(self._folder)
        with locked(user_lock(self._user.ai, "bundles")):
            yield


def write_bundle_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a folder that must not be there yet. Raises FileSystemError.

    They are not synced one by one: what a crash leaves half-written is no longer what the manifest
    lists, and is refused.
    """
    try:
        folder.mkdir(parents=True)
        parents = {folder.joinpath(path).parent for path in files}
        for parent in sorted(parents):
            parent.mkdir(parents=True, exist_ok=True)
        for path, data in files.items():
            with folder.joinpath(path).open("xb", buffering=0) as file:
                file.write(data)
    except OSError as error:
        raise file_system_error(folder, error) from error


def read_bundle_files(folder: Path) -> dict[str, bytes]:
    """The files of a bundle's folder, by path; nothing else that lies beside them.

    Links are refused, and so is more than a bundle may have. Raises RyeError `INTEGRITY`,
    FileSystemError.
    """
    files = {}
    with suppress(FileNotFoundError):
        files[KEY_NAME] = read_bytes(folder / KEY_NAME, MAX_ITEM_BYTES)
    for path in _walk(folder, folder / AI_DIRECTORY):
        relative = path.relative_to(folder).as_posix()
        if len(files) > MAX_FILES:
            raise bundle_content_error(folder.name, f"expected at most {MAX_FILES} files")
        files[relative] = read_bytes(path, MAX_ITEM_BYTES)
    return files


def _walk(folder: Path, below: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(below), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise file_system_error(below, error) from error
    for entry in entries:
        path = Path(entry.path)
        if entry.is_symlink():
            raise bundle_content_error(
                folder.name, f"{path.relative_to(folder).as_posix()!a}: expected no links"
            )
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _walk(folder, path)
        else:
            yield path


def read_bundle_archive(archive: Path) -> dict[str, bytes]:
    """The files of a bundle in a tar file, by path: nothing is unpacked to a disk.

    The bundle is the whole of it, or its only folder. Anything but files and folders is refused,
    and more than a bundle may have before it is read. A compressed file is refused, whose size says
    nothing. Raises RyeError `INTEGRITY`, FileSystemError, FileTooLargeError.
    """
    import tarfile

    data = read_bytes(archive, _MAX_ARCHIVE_BYTES)
    try:
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as members:
            files = dict(_members(archive.name, members))
    except (tarfile.TarError, EOFError, ValueError) as error:
        problem = f"expected a tar file that is not compressed: {error}"
        raise bundle_content_error(archive.name, problem) from None
    tops = {path.partition("/")[0] for path in files}
    if len(tops) == 1 and not tops & {AI_DIRECTORY, KEY_NAME}:
        files = {path.partition("/")[2]: data for path, data in files.items()}
    wanted = (f"{AI_DIRECTORY}/", KEY_NAME)
    return {path: data for path, data in files.items() if path.startswith(wanted)}


def _members(name: str, members: "tarfile.TarFile") -> Iterator[tuple[str, bytes]]:
    """Path and bytes of each file. Raises RyeError `INTEGRITY`."""
    count = total = 0
    for member in members:
        path = PurePosixPath(member.name).as_posix()  # without ./ at its beginning
        if member.isdir():
            continue
        count, total = count + 1, total + member.size
        if not member.isreg():
            raise bundle_content_error(
                name, f"{path[:200]!a}: expected files and folders, no links"
            )
        if count > MAX_FILES or member.size > MAX_ITEM_BYTES or total > MAX_BUNDLE_BYTES:
            raise bundle_content_error(
                name,
                f"expected at most {MAX_FILES} files of {MAX_ITEM_BYTES} bytes each,"
                f" {MAX_BUNDLE_BYTES} in all",
            )
        data = members.extractfile(member)
        yield path, data.read(member.size) if data else b""


def bundle_id_of(folder: Path) -> str:
    """The id of the bundle in a folder, by its manifest. Raises RyeError `INTEGRITY`."""
    manifests = folder / AI_DIRECTORY / "bundles"
    try:
        names = sorted(entry.name for entry in os.scandir(manifests) if entry.is_dir())
    except OSError:
        names = []
    return _only_bundle(folder.name, names)


def bundle_id_in(name: str, files: Mapping[str, bytes]) -> str:
    """The same of files by path. ``name`` is what they came in."""
    start = f"{AI_DIRECTORY}/bundles/"
    found = (path.removeprefix(start) for path in files if path.startswith(start))
    return _only_bundle(name, sorted({path.partition("/")[0] for path in found if "/" in path}))


def _only_bundle(name: str, names: list[str]) -> str:
    if len(names) != 1:
        raise bundle_content_error(
            name,
            f"expected one folder with its manifest in {AI_DIRECTORY}/bundles, found {len(names)}",
            hint="make bundles with: rye bundle create",
        )
    return names[0]


def _items(manifest: Manifest) -> set[str]:
    """The items of a bundle: their paths below ``.ai``, without their suffixes."""
    folders = tuple(f"{kind.directory}/" for kind in EXECUTABLE_KINDS)
    return {
        PurePosixPath(path).with_suffix("").as_posix().casefold()
        for path in manifest.files
        if path.startswith(folders)
    }


def _holds(base: Path, files: Mapping[str, bytes]) -> bool:
    try:
        return read_bundle_files(base) == dict(files)
    except LilluxError:
        return False


def _set_aside(target: Path) -> Path | None:
    """Move a folder aside; None if it is absent."""
    if not is_directory(target):
        return None
    aside = target.with_name(f".old-{os.urandom(6).hex()}")
    try:
        target.rename(aside)
    except OSError as error:
        raise file_system_error(target, error) from error
    return aside
