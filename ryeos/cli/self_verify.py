"""``rye self verify``: tells whether a ``rye.pyz`` is what its publisher made.

Beside it lie ``rye.pyz.sha256``, for `sha256sum -c` and mirrors, and ``rye.pyz.sig``, a
``rye:signed`` line over the same digest, and ``rye.pyz.cdx.json``, the list of what is inside
(``docs/building.md``).
"""

import json
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.files import FileTooLargeError, file_system_error, read_bytes
from lillux.signing import MAX_PEM_BYTES, compute_key_fingerprint, verify_signature
from ryeos.cli.places import require_packed_program
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import IntegrityError, SignatureFormatError, UntrustedKeyError
from ryeos.signature import Signature, detached_path, parse_core

MAX_PROGRAM_BYTES = 256 * 1024 * 1024
MAX_BESIDE_BYTES = 1024
MAX_CONTENTS_BYTES = 4 * 1024 * 1024


class UnsignedProgramError(IntegrityError):
    """No detached signature lies beside a program file."""

    code = "UNSIGNED"
    state = "unsigned"

    def __init__(self, path: str, beside: str) -> None:
        super().__init__(
            path,
            f"no {beside} beside the file, so nobody vouches for it",
            hint="get that file too, from where the program came",
        )


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", help="default: the file that runs")
    add("--key", metavar="FILE.pem", help="default: the key of this program's bundle")


def _run(session: Session) -> int:
    """Check what lies beside a file.

    1. The file has the digest of its ``.sha256`` and of its list of contents, if they are there.
    2. Its ``.sig`` is there, and is a signature line over that digest.
    3. The line names the wanted key, and its signature holds.
    """
    path = _file(session)
    digest = sha256_hex(_read(path, MAX_PROGRAM_BYTES))
    compared = _compare_digest(path, digest)
    listed = _compare_contents(path, digest)
    signature = _signature(path)
    public_pem = _wanted_key(session)
    _check(path, digest, signature, public_pem)
    envelope = {
        "status": "success",
        "path": str(path),
        "sha256": digest,
        "sha256_file": str(compared) if compared else None,
        "contents_file": str(listed) if listed else None,
        "signed_by": signature.fingerprint,
        "timestamp": signature.timestamp,
    }
    lines = [
        f"valid    {path}",
        f"sha256   {digest}" + (f", as in {compared.name}" if compared else ""),
        f"signed   {signature.timestamp} by {signature.fingerprint}",
    ]
    if session.arguments.file is None and session.arguments.key is None:
        session.output.note(
            "this file was checked with the key that it carries itself;"
            " name the key of its publisher with --key FILE.pem"
        )
    session.output.answer(envelope, "\n".join(lines))
    return 0


def _file(session: Session) -> Path:
    named: str | None = session.arguments.file
    if named is not None:
        path = Path(named)
    else:
        program = require_packed_program(hint="name a file: rye self verify FILE")
        path = Path(program.archive)
    # What belongs to a program lies beside the file, not beside a link to it.
    return path.resolve() if path.is_symlink() else path


def _wanted_key(session: Session) -> bytes:
    named: str | None = session.arguments.key
    if named is not None:
        return _read(Path(named), MAX_PEM_BYTES)
    return next(b.pinned_pem for b in session.context.spaces.bundles if b.pinned_pem)


def _compare_digest(path: Path, digest: str) -> Path | None:
    """The file beside that has the digest; None without one. Raises IntegrityError."""
    beside = path.with_name(f"{path.name}.sha256")
    try:
        words = read_bytes(beside, MAX_BESIDE_BYTES).decode("ascii", "replace").split()
    except FileNotFoundError:
        return None
    if words[:1] != [digest]:
        raise IntegrityError(
            str(path),
            f"SHA-256 {digest} is not the one in {beside.name}",
            hint="get the file again from where it came",
        )
    return beside


def _compare_contents(path: Path, digest: str) -> Path | None:
    """The list of contents beside, if it is of this very file; None without one.

    Raises IntegrityError when it is of another file, or is no such list.
    """
    beside = path.with_name(f"{path.name}.cdx.json")
    try:
        found = _listed_digests(read_bytes(beside, MAX_CONTENTS_BYTES))
    except FileNotFoundError:
        return None
    if digest not in found:
        raise IntegrityError(
            str(path),
            f"{beside.name} is not the list of contents of this file",
            hint="get both files again from where they came",
        )
    return beside


def _listed_digests(data: bytes) -> list[object]:
    """Of a CycloneDX document (``docs/building.md``): the digests of what it describes."""
    try:
        hashes = json.loads(data)["metadata"]["component"]["hashes"]
        return [entry["content"] for entry in hashes if entry["alg"] == "SHA-256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _signature(path: Path) -> Signature:
    beside = detached_path(path)
    try:
        text = read_bytes(beside, MAX_BESIDE_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        raise UnsignedProgramError(str(path), beside.name) from None
    except FileTooLargeError:
        text = ""
    signature = parse_core(text.strip())
    if signature is None:
        raise SignatureFormatError(
            str(beside),
            "expected one rye:signed line",
            hint=f"get {beside.name} again, from where the program came",
        )
    return signature


def _check(path: Path, digest: str, signature: Signature, public_pem: bytes) -> None:
    wanted = compute_key_fingerprint(public_pem)
    if signature.fingerprint != wanted:
        hint = f"expected the key {wanted}; name another with --key FILE.pem"
        raise UntrustedKeyError(str(path), signature.fingerprint, hint)
    if signature.content_hash != digest or not verify_signature(
        digest, signature.value, public_pem
    ):
        raise IntegrityError(
            str(path),
            f"the signature of {wanted} does not hold",
            hint="get the file again from where it came",
        )


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        return read_bytes(path, max_bytes)
    except FileNotFoundError as error:
        raise file_system_error(path, error) from error


COMMANDS = {
    "self verify": Command(
        _configure,
        _run,
        ["rye self verify", "rye self verify downloads/rye.pyz --key publisher.pem"],
    )
}
