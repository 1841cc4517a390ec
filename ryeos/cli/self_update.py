"""``rye self update``: a newer ``rye.pyz`` of the same publisher, in the place of this one.

A release is a folder, or its address: beside ``rye.pyz`` lie ``rye.pyz.sig`` and
``rye.pyz.cdx.json`` (``docs/updating.md``). What a mirror says is believed as far as it is signed.

(1) the signature line is of the publisher of this program, or of ``--key``
(2) its digest is that of this file: there is nothing newer; ``--check`` ends here
(3) the file has that digest, and is not older: asked of the file itself, which is the publisher's
(4) a person agrees; the file goes into place at once, the old one is kept
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.files import file_system_error, read_bytes, write_atomic
from lillux.signing import compute_key_fingerprint, verify_signature
from lillux.values import dataclass
from ryeos import __version__
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.program import (
    MAX_BESIDE_BYTES,
    MAX_CONTENTS_BYTES,
    MAX_PROGRAM_BYTES,
    require_packed_program,
    wanted_key,
)
from ryeos.cli.session import Session
from ryeos.items.errors import (
    IntegrityError,
    RyeError,
    SignatureFormatError,
    UntrustedKeyError,
    UsageError,
)
from ryeos.items.replaced import keep_replaced
from ryeos.items.version_order import compare_versions
from ryeos.trust.signature import Signature, parse_core

FILE = "rye.pyz"
SOURCE_VARIABLE = "RYE_UPDATE_SOURCE"
_SIGNATURE = f"{FILE}.sig"
_TIMEOUT_S, _START_TIMEOUT_S = 120.0, 60.0
_NOT_FOUND = 404


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("source", metavar="URL|DIR", nargs="?", help=f"where a release is; else {SOURCE_VARIABLE}")
    add("--check", action="store_true", help="say whether there is a newer version; change nothing")
    add("--key", metavar="FILE.pem", help="of its publisher; default: the key of this program")
    add("--force", action="store_true", help="also an older version")
    add("--yes", action="store_true", help="put it in place without asking")


@dataclass(frozen=True, slots=True)
class _Release:
    """What lies at a place of releases. Raises FileNotFoundError for a file that is not there."""

    place: str
    session: Session

    @property
    def is_folder(self) -> bool:
        return "://" not in self.place

    def where(self, name: str) -> str:
        """A file of it, for messages."""
        return f"{self.place.rstrip('/')}/{name}"

    def read(self, name: str, max_bytes: int) -> bytes:
        """A file of it. Raises FileSystemError, HttpClientError, RyeError too."""
        if self.is_folder:
            return read_bytes(Path(self.place).expanduser() / name, max_bytes)
        from lillux.http.client import HttpClient
        from lillux.http.model import HttpRequest

        client = HttpClient(self.session.context.process_env, user_agent=f"rye/{__version__}")
        url = self.where(name)
        try:
            reply = client.send(
                HttpRequest(url=url, timeout_s=_TIMEOUT_S, max_response_bytes=max_bytes)
            )
        finally:
            client.close()
        if reply.status == _NOT_FOUND:
            raise FileNotFoundError(url)
        if reply.status != 200:  # noqa: PLR2004 - HTTP's OK
            raise RyeError(
                f"{url}: expected status 200, found {reply.status}", code="REMOTE_UNREACHABLE"
            )
        return reply.body


def _update(session: Session) -> int:
    program = require_packed_program(
        hint="an installed package is updated by: python3 -m pip install --upgrade rye-workspace"
    )
    release = _release(session)
    path = Path(program.archive).resolve()
    before = read_bytes(path, MAX_PROGRAM_BYTES)
    now = sha256_hex(before)
    signed_line = _signature_file(release)
    line = _signature(release, signed_line, wanted_key(session))  # (1)
    contents = _contents(release)
    offered = _offered_version(contents, line.content_hash)
    is_new = line.content_hash != now  # (2)
    envelope: dict[str, Any] = {
        "status": "success",
        "path": str(path),
        "source": release.place,
        "version": __version__,
        "sha256": now,
        "offered_version": offered or None,
        "offered_sha256": line.content_hash,
        "signed_by": line.fingerprint,
        "is_newer": is_new and (not offered or compare_versions(offered, __version__) > 0),
        "updated": False,
    }
    if session.arguments.check or not is_new:
        session.output.answer(envelope, _checked_text(envelope))
        if envelope["is_newer"]:
            session.output.note("to put it in place: rye self update")
        return 0
    data = _file(release, line)  # (3)
    version = _version_of(data, path)
    if compare_versions(version, __version__) < 0 and not session.arguments.force:
        raise RyeError(
            f"{release.place}: expected a newer version than {__version__}, found {version}",
            code="ROLLBACK",
            hint="if you want the older one: rye self update --force",
        )
    shown = [f"{path}: {__version__} -> {version}", f"sha256 {line.content_hash}"]
    shown.append(f"signed by {line.fingerprint}")
    if not session.confirm("put it in place?", shown, "rye self update --yes"):  # (4)
        session.output.answer({**envelope, "status": "cancelled"}, "nothing was changed")
        return 1
    beside = {".sig": signed_line, ".cdx.json": contents}
    beside[".sha256"] = f"{line.content_hash}  {FILE}\n".encode()
    kept = keep_replaced(session.context.spaces.user, path, before)
    _put(path, data, beside)
    session.output.note(f"the old file: {kept}")
    envelope |= {"updated": True, "offered_version": version, "kept": str(kept)}
    session.output.answer(envelope, f"{path} is rye {version} now")
    return 0


def _checked_text(envelope: dict[str, Any]) -> str:
    offered = envelope["offered_version"] or "another build, of an unknown version,"
    if envelope["offered_sha256"] == envelope["sha256"]:
        return f"rye {__version__} is what {envelope['source']} has"
    if envelope["is_newer"]:
        return f"rye {offered} is there; this is {__version__}"
    return f"nothing newer: {envelope['source']} has {offered}, this is {__version__}"


def _release(session: Session) -> _Release:
    """Where releases are. Raises UsageError where that is not known, or not over TLS."""
    place = session.arguments.source or session.environ.get(SOURCE_VARIABLE, "")
    if not place:
        raise UsageError(
            f"this is rye {__version__}; expected where releases are, found neither an address"
            f" nor {SOURCE_VARIABLE}",
            hint="name a folder, or an address that has rye.pyz.sig:"
            " rye self update https://example.com/rye/latest --check",
        )
    if "://" in place:
        from urllib.parse import urlsplit

        from lillux.http.urls import is_loopback

        parts = urlsplit(place)
        is_near = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if not parts.hostname or (parts.scheme != "https" and not is_near):
            raise UsageError(f"{place[:200]}: expected a folder or an https address")
    return _Release(place, session)


def _signature_file(release: _Release) -> bytes:
    """The file of the signature, which is checked and put beside the program. Raises RyeError."""
    try:
        return release.read(_SIGNATURE, MAX_BESIDE_BYTES)
    except FileNotFoundError:
        raise RyeError(
            f"{release.where(_SIGNATURE)}: expected the signature of a release, found none",
            code="ITEM_NOT_FOUND",
            hint=f"name the folder or address that has {FILE} and {_SIGNATURE}",
        ) from None


def _signature(release: _Release, data: bytes, public_pem: bytes) -> Signature:
    """The line that is signed by the wanted key. Raises IntegrityError and similar."""
    where = release.where(_SIGNATURE)
    line = parse_core(data.decode("ascii", "replace").strip())
    if line is None:
        raise SignatureFormatError(where, "expected one rye:signed line")
    wanted = compute_key_fingerprint(public_pem)
    if line.fingerprint != wanted:
        hint = f"expected the publisher of this program, {wanted}; name another with --key FILE.pem"
        raise UntrustedKeyError(where, line.fingerprint, hint)
    if not verify_signature(line.content_hash, line.value, public_pem):
        raise IntegrityError(where, f"the signature of {wanted} does not hold")
    return line


def _contents(release: _Release) -> bytes | None:
    """The list of contents, which nothing signs; None where there is none."""
    try:
        return release.read(f"{FILE}.cdx.json", MAX_CONTENTS_BYTES)
    except FileNotFoundError:
        return None


def _offered_version(contents: bytes | None, digest: str) -> str:
    """What the list of contents calls that file; ``""`` where none is of it."""
    try:
        said = json.loads(contents or b"")
        component = said["metadata"]["component"]
        hashes = [one["content"] for one in component["hashes"] if one["alg"] == "SHA-256"]
        version = str(component["version"])
        compare_versions(version, __version__)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return version if digest in hashes else ""


def _file(release: _Release, line: Signature) -> bytes:
    """The file whose digest was signed. Raises IntegrityError."""
    where = release.where(FILE)
    try:
        data = release.read(FILE, MAX_PROGRAM_BYTES)
    except FileNotFoundError as error:
        raise file_system_error(where, FileNotFoundError(2, "No such file")) from error
    if sha256_hex(data) != line.content_hash:
        raise IntegrityError(where, "the file is not the one that was signed")
    return data


def _version_of(data: bytes, path: Path) -> str:
    """What the new file calls itself, tried beside the old one, where it has to start anyway."""
    beside = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    try:
        write_atomic(beside, data, mode=0o700)
        done = subprocess.run(
            [sys.executable, "-I", str(beside), "version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_START_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _does_not_start(f"no answer within {_START_TIMEOUT_S:g} s") from None
    finally:
        beside.unlink(missing_ok=True)
    name, _, version = done.stdout.decode("utf-8", "replace").strip().partition(" ")
    if done.returncode or name != "rye":
        raise _does_not_start(f"status {done.returncode}")
    try:
        compare_versions(version, __version__)
    except ValueError:
        raise _does_not_start(f"it calls itself {version[:40]!r}") from None
    return version


def _does_not_start(problem: str) -> RyeError:
    return RyeError(
        f"the new file does not run with {sys.executable}: {problem}; nothing was changed",
        code="EXECUTION_FAILED",
    )


def _put(path: Path, data: bytes, beside: Mapping[str, bytes | None]) -> None:
    """The file and what lies beside it, into place."""
    write_atomic(path, data, mode=path.stat().st_mode & 0o777)
    for suffix, text in beside.items():
        place = path.with_name(f"{path.name}{suffix}")
        if text is not None:
            write_atomic(place, text, mode=0o644)
        else:
            place.unlink(missing_ok=True)  # it was of the old file


UPDATE = CommandSpec(
    _configure,
    _update,
    [
        "rye self update https://example.com/rye/latest --check",
        "rye self update ~/downloads/rye-0.2.0",
    ],
)
