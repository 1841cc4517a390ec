"""The node's own keys: Ed25519 for signatures, X25519 for sealed secrets.

They lie in one folder, mode 0700, and are made with the node's first start. Any number of processes
may start at once: a folder with all four files is made aside and renamed into its place, so that
there never is half a node. A folder that can only be read, as a mounted secret, serves as well.

What users make is signed with a pair of its own, in a folder below, made in the same way: the text
of a page may be that of a document of the node (ADR 0023).
"""

import json
import logging
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from lillux.file_locks import locked
from lillux.files import create_file, file_system_error, make_directory, read_bytes, write_atomic
from lillux.key_files import (
    BOX_KEY_FILE,
    PRIVATE_KEY_FILE,
    PUBLIC_KEY_FILE,
    exposed_key_files,
    load_keypair,
    save_keypair,
)
from lillux.pem import MAX_PEM_BYTES
from lillux.sealing import (
    SealingError,
    box_public,
    decode_box_key,
    encode_box_key,
    generate_box_pair,
)
from lillux.signing import KeyPair, generate_keypair
from lillux.values import dataclass, field
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.remote.identity import identity_document
from ryeos.trust.signing_key import SigningKey

BOX_PUBLIC_FILE = "box_pub.pem"
_MAX_FILE_BYTES = 1024 * 1024
_UTC_TIME = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z")
NEXT_FOLDER = "next"
"""Of the keys that the node is about to have, whole."""

PREVIOUS_FILE, RESEAL_FILE = "previous.json", "reseal.json"
"""Which keys the node had before; that rows are to be sealed anew."""

CREATED_FILE = "created_at"
"""When the keys were made, where the folder is a copy that has no times of its own."""

ITEMS_FOLDER, REGISTRY_FOLDER, RECEIPTS_FOLDER = "items", "registry", "receipts"


def keys_error(path: Path, problem: str) -> RyeError:
    """The error of a file of the node's keys that is not what it has to be."""
    return RyeError(
        f"{path}: {problem}",
        code="CONFIG_ERROR",
        hint="restore the folder from its backup: clients have pinned these keys",
        path=str(path),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKeys:
    """The keys of a node at work.

    signing     who the node is: signs documents of the node's own making, and nothing of a user's
    items       signs pages that runs leave and what ``/sign`` is asked for, and nothing else
    receipts    signs receipts of runs, and nothing else; ``signing`` says that it is the node's
    previous    what its former keys said of those that came after them, the newest first
    created_at  when they were made, UTC, whole seconds: ``2026-02-26T05:52:24Z``
    """

    signing: SigningKey
    items: SigningKey
    items_keypair: KeyPair = field(repr=False)
    receipts: KeyPair = field(repr=False)
    box_private: bytes = field(repr=False)
    box_public: bytes
    created_at: str
    previous: tuple[Mapping[str, Any], ...] = ()

    @property
    def fingerprint(self) -> str:
        """16 hex digits, the node's id without ``fp:``."""
        return self.signing.fingerprint

    @property
    def node_id(self) -> str:
        """What clients know the node by, and what a signed request is addressed to."""
        return f"fp:{self.fingerprint}"

    def identity(self) -> dict[str, Any]:
        """The signed document that says who the node is: ``/public-key``."""
        return identity_document(
            self.signing,
            self.box_public,
            self.created_at,
            items_pem=self.items.public_pem,
            previous=self.previous,
        )


def open_keys(directory: Path, clock: Clock = utc_now) -> NodeKeys:
    """The keys in a folder; new ones where there is no such folder, or an empty one.

    Raises RyeError `CONFIG_ERROR`, PemError, KeyMismatchError, FileSystemError,
    NativeCryptoMissingError.
    """
    items = directory / ITEMS_FOLDER
    if (directory / NEXT_FOLDER).is_dir():
        _finish_rotation(directory)
    if not (directory / PRIVATE_KEY_FILE).exists():
        _make(directory, _write_own, clock)
    items_keypair = open_pair(items, clock)
    _warn_of_exposed(directory)
    private = _read_box(directory / BOX_KEY_FILE)
    return NodeKeys(
        signing=SigningKey(load_keypair(directory), clock),
        items=SigningKey(items_keypair, clock),
        items_keypair=items_keypair,
        receipts=open_pair(directory / RECEIPTS_FOLDER, clock),
        box_private=private,
        box_public=box_public(private),
        created_at=_created_at(directory),
        previous=_read_previous(directory / PREVIOUS_FILE),
    )


def _created_at(directory: Path) -> str:
    """When the keys were made: as a file says, else as the time of the private key does."""
    path = directory / CREATED_FILE
    if path.is_file():
        text = read_bytes(path, _MAX_FILE_BYTES).decode("ascii", "replace").strip()
        if not _UTC_TIME.fullmatch(text):
            raise keys_error(path, "expected a moment like 2026-02-26T05:52:24Z")
        return text
    made_s = (directory / PRIVATE_KEY_FILE).stat().st_mtime
    return datetime.fromtimestamp(int(made_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exported_files(directory: Path, clock: Clock = utc_now) -> dict[str, bytes]:
    """What another machine needs to be the same node, by paths below the folder of the keys.

    The pair of a registry is made where there is none, since a copy may lie where nothing can be
    written. Public keys are left out: they follow from the private ones. Raises as `open_keys`.
    """
    keys = open_keys(directory, clock)
    open_pair(directory / REGISTRY_FOLDER, clock)
    pairs = ("", ITEMS_FOLDER, RECEIPTS_FOLDER, REGISTRY_FOLDER)
    paths = [Path(folder, PRIVATE_KEY_FILE) for folder in pairs]
    files = {
        path.as_posix(): read_bytes(directory / path, MAX_PEM_BYTES)
        for path in (*paths, Path(BOX_KEY_FILE))
    }
    files[PREVIOUS_FILE] = json.dumps([dict(one) for one in keys.previous]).encode()
    files[CREATED_FILE] = keys.created_at.encode()
    return files


def open_pair(directory: Path, clock: Clock = utc_now) -> KeyPair:
    """The pair in a folder, which is made where there is none: one for each purpose of signing.

    Raises PemError, KeyMismatchError, FileSystemError, NativeCryptoMissingError.
    """
    if not (directory / PRIVATE_KEY_FILE).exists():
        _make(directory, _write_pair, clock)
    _warn_of_exposed(directory)
    return load_keypair(directory)


# --- a change of keys -----------------------------------------------------------------------------
# ``next`` is there from the start of a change until all its files are in place: the process that
# opens the keys sees to that first (`rye_services.node.rotation`).


def _finish_rotation(directory: Path) -> None:
    """Put the files of ``next`` in place. Raises RyeError `CONFIG_ERROR`, FileSystemError."""
    with locked(directory / ".rotation.lock"):
        found = directory / NEXT_FOLDER
        if not found.is_dir():  # another process was faster
            return
        own = (PRIVATE_KEY_FILE, PUBLIC_KEY_FILE, BOX_KEY_FILE, BOX_PUBLIC_FILE)
        for name in (*own, PREVIOUS_FILE, RESEAL_FILE):
            is_open = name in (PUBLIC_KEY_FILE, BOX_PUBLIC_FILE)
            data = read_bytes(found / name, _MAX_FILE_BYTES)
            write_atomic(directory / name, data, mode=0o644 if is_open else 0o600)
        (directory / CREATED_FILE).unlink(missing_ok=True)  # it is of the former keys
        done = directory / f".{NEXT_FOLDER}.done"
        rmtree(done, ignore_errors=True)
        try:
            found.rename(done)
        except OSError as error:
            raise file_system_error(found, error) from error
        rmtree(done, ignore_errors=True)


def _read_previous(path: Path) -> tuple[Mapping[str, Any], ...]:
    found = _read_json(path) if path.is_file() else []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise keys_error(path, "expected a list of documents")
    return tuple(found)


def _read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(read_bytes(path, _MAX_FILE_BYTES))
    except FileNotFoundError:
        raise keys_error(path, "expected a file, found none") from None
    except ValueError:
        raise keys_error(path, "expected JSON, found something else") from None


def _warn_of_exposed(directory: Path) -> None:
    for path in exposed_key_files(directory):
        status = path.stat()
        is_secret_mount = status.st_uid != os.geteuid() and not status.st_mode & stat.S_IRWXO
        if not is_secret_mount:  # there the owner is root, and this process is of the file's group
            logging.getLogger(__name__).warning("%s can be read by others: chmod 600 it", path)


def _make(directory: Path, write: Callable[[Path], None], clock: Clock) -> None:
    make_directory(directory.parent, mode=0o700)
    try:
        aside = Path(mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))  # mode 0700
    except OSError as error:
        raise file_system_error(directory.parent, error) from error
    try:
        write(aside)
        _put_in_place(aside, directory)
    finally:
        rmtree(aside, ignore_errors=True)
    logging.getLogger(__name__).info("made keys in %s, %s", directory, clock().isoformat())


def _write_own(folder: Path) -> None:
    private, public = generate_box_pair()
    create_file(folder / BOX_KEY_FILE, encode_box_key(private).encode(), mode=0o600)
    create_file(folder / BOX_PUBLIC_FILE, encode_box_key(public).encode())
    _write_pair(folder)


def _write_pair(folder: Path) -> None:
    save_keypair(folder, generate_keypair())


def _put_in_place(aside: Path, directory: Path) -> None:
    """Rename the made folder; the one of another process that was faster stays."""
    with suppress(OSError):
        directory.rmdir()  # an empty one, which a mount or an installer may have made
    try:
        aside.rename(directory)
    except OSError as error:
        if not (directory / PRIVATE_KEY_FILE).exists():
            raise file_system_error(directory, error) from error


def _read_box(path: Path) -> bytes:
    try:
        return decode_box_key(read_bytes(path, MAX_PEM_BYTES).decode("ascii", "replace"))
    except FileNotFoundError:
        raise keys_error(path, "expected the X25519 key, found no file") from None
    except SealingError as error:
        raise keys_error(path, error.problem) from None
