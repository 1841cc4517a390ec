"""``rye keys generate|show|export|import``: the user's own signing key.

A private key goes from its file (or standard input, or ``RYE_SIGNING_KEY``) into its file: nothing
here ever shows one.
"""

import sys
from pathlib import Path

from lillux.files import create_file, make_directory, read_bytes
from lillux.signing import MAX_PEM_BYTES, KeyPair, PemError, generate_keypair, public_pem_of
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.context import PRIVATE_KEY_VARIABLE
from ryeos.errors import TargetExistsError, UsageError
from ryeos.items import USER
from ryeos.keys import (
    OWN_OWNER,
    install_keypair,
    own_fingerprint,
    replace_keypair,
    require_user_space,
    trust_own_key,
)
from ryeos.signing_key import SigningKey
from ryeos.trust import check_owner, document_path


def _configure_generate(parser: Arguments) -> None:
    parser.add_argument("--owner", default="", help="the name in its document (default: local)")
    parser.add_argument("--force", action="store_true", help="replace a key; it is kept as .bak")


def _generate(session: Session) -> int:
    return _take_up(session, generate_keypair(), "rye keys generate", "made a key")


def _configure_import(parser: Arguments) -> None:
    add = parser.add_argument
    add("source", metavar="FILE|-", nargs="?", help=f"a private PEM; else ${PRIVATE_KEY_VARIABLE}")
    add("--owner", default="", help="the name in its document (default: local)")
    add("--force", action="store_true", help="replace another key; it is kept as .bak")


def _import(session: Session) -> int:
    where, private_pem = _private_pem(session)
    try:
        keypair = KeyPair(private_pem, public_pem_of(private_pem))
    except PemError as error:
        raise PemError(where, error.problem, hint=error.hint) from None
    return _take_up(session, keypair, "rye keys import", "took over the key")


def _private_pem(session: Session) -> tuple[str, bytes]:
    """What to call the source in messages, and what it holds."""
    source = session.arguments.source
    if source is None:
        text = session.environ.get(PRIVATE_KEY_VARIABLE, "")
        if not text:
            raise UsageError(
                f"rye keys import: expected FILE, - or {PRIVATE_KEY_VARIABLE}, found none of them"
            )
        # What sets variables often cannot write a line end into one.
        return PRIVATE_KEY_VARIABLE, text.replace("\\n", "\n").encode("utf-8", "surrogateescape")
    if source == "-":
        return "standard input", sys.stdin.buffer.read(MAX_PEM_BYTES + 1)
    return source, _read(Path(source))


def _take_up(session: Session, keypair: KeyPair, command: str, done: str) -> int:
    """Write the pair, and let it count."""
    user = require_user_space(session.context)
    check_owner(session.arguments.owner or OWN_OWNER)
    key = SigningKey(keypair)
    directory = session.context.key_directory
    make_directory(user.ai, mode=0o700)
    backups: tuple[Path, ...] = ()
    unchanged = own_fingerprint(directory) == key.fingerprint
    if session.arguments.force and not unchanged:
        backups = replace_keypair(directory, keypair)
    elif not unchanged:
        install_keypair(directory, keypair, command)
    document, _ = trust_own_key(key, user, session.arguments.owner)
    for backup in backups:
        session.output.note(f"the old key is kept: {backup}")
    words = f"{'this key is yours already:' if unchanged else done} {key.fingerprint}"
    envelope = {
        "status": "success",
        "fingerprint": key.fingerprint,
        "key_directory": str(directory),
        "document": str(document),
        "unchanged": unchanged,
        "backups": [str(backup) for backup in backups],
    }
    session.output.note(f"private key: {directory}; its public half counts for you: {document}")
    session.output.answer(envelope, words)
    return 0


def _configure_nothing(_: Arguments) -> None:
    """No arguments of its own."""


def _show(session: Session) -> int:
    key = session.rye.signing_key()
    pem = key.public_pem.decode("ascii")
    document = document_path(session.context.spaces.user, key.fingerprint)
    envelope = {
        "status": "success",
        "fingerprint": key.fingerprint,
        "public_pem": pem,
        "key_directory": str(session.context.key_directory),
        "document": str(document) if document.is_file() else None,
        "counts": session.rye.trust.get_key(key.fingerprint, USER) is not None,
    }
    if not envelope["counts"]:
        session.output.warn("this key does not count, not even for you; mend that with: rye init")
    session.output.answer(envelope, f"{key.fingerprint}\n{pem}")
    return 0


def _configure_export(parser: Arguments) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="default: standard output")


def _export(session: Session) -> int:
    key = session.rye.signing_key()
    envelope = {"status": "success", "fingerprint": key.fingerprint}
    if session.arguments.file in {None, "-"}:
        pem = key.public_pem.decode("ascii")
        session.output.answer(envelope | {"public_pem": pem}, pem)
        return 0
    path = Path(session.arguments.file)
    try:
        create_file(path, key.public_pem)
    except FileExistsError:
        if _read(path) != key.public_pem:
            hint = "name another file, or remove that one first"
            raise TargetExistsError(str(path), "another file", hint) from None
    session.output.answer(envelope | {"path": str(path)}, f"wrote {path}")
    return 0


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, MAX_PEM_BYTES)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: expected a file, found none",
            hint="name the file of a PEM key; to make a new key: rye keys generate",
        ) from None


COMMANDS = {
    "keys generate": Command(_configure_generate, _generate, ["rye keys generate"]),
    "keys show": Command(_configure_nothing, _show, ["rye keys show"]),
    "keys export": Command(
        _configure_export, _export, ["rye keys export", "rye keys export me.pem"]
    ),
    "keys import": Command(
        _configure_import,
        _import,
        [
            "rye keys import private_key.pem",
            "rye keys import - < private_key.pem",
            f"{PRIVATE_KEY_VARIABLE}=... rye keys import",
        ],
    ),
}
