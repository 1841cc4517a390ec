"""Bundles installed and uninstalled: whole or not at all, also when killed.

(1) the key that is kept for the bundle is the one it is signed by; a first one is kept
(2) all files are written to a folder beside the others, which no reader looks at
(3) the version that was there is moved aside, the new one is moved to its place
(4) the pin says what is installed; what was moved aside is removed
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import file_system_error, is_directory, make_directory, read_bytes
from lillux.values import dataclass, replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, EXECUTABLE_KINDS, Space, user_lock
from ryeos.remote.registry_bundles import (
    KEY_NAME,
    MAX_ARCHIVE_BYTES,
    MAX_BUNDLE_BYTES,
    MAX_FILES,
    BundlePinMismatchError,
    CheckedBundle,
    bundle_content_error,
    verify_bundle_files,
)
from ryeos.remote.registry_ids import version_key
from ryeos.trust.bundles import Manifest, read_manifest
from ryeos.trust.installed_bundles import BUNDLES_FOLDER, BundlePin, BundlePins, installed_space
from ryeos.trust.signature import MAX_ITEM_BYTES

if TYPE_CHECKING:
    import tarfile


class InstallState(StrEnum):
    """The outcome for a bundle."""

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

    data = read_bytes(archive, MAX_ARCHIVE_BYTES)
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
