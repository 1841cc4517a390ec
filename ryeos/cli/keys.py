"""``rye keys``: make, show, list, trust, untrust, export and import keys.

A private key goes from its file (or standard input, or ``RYE_SIGNING_KEY``) into its file: nothing
here ever shows one.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import create_file, file_system_error, make_directory, read_bytes, write_atomic
from lillux.foreign_text import one_line
from lillux.key_files import (
    PRIVATE_KEY_FILE,
    PUBLIC_KEY_FILE,
    is_protected,
    load_keypair,
    protected,
)
from lillux.pem import MAX_PEM_BYTES, PemError, encode_public
from lillux.signing import (
    KeyPair,
    compute_key_digest,
    compute_key_fingerprint,
    generate_keypair,
    public_pem_of,
)
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.sign import follow
from ryeos.cli.session import Session, typed_passphrase
from ryeos.items.context import PRIVATE_KEY_VARIABLE, utc_now
from ryeos.items.errors import (
    RyeError,
    UnsupportedError,
    UsageError,
    key_document_error,
    target_exists_error,
)
from ryeos.items.refs import PROJECT, SYSTEM, USER, Space
from ryeos.trust.audit import signed_items, unbound_items
from ryeos.trust.key_states import KeyState, document_problem, key_states
from ryeos.trust.keys import (
    OWN_OWNER,
    OfferedKey,
    binds_identity,
    install_keypair,
    own_fingerprint,
    read_offered_key,
    replace_keypair,
    require_user_space,
    retire_key,
    set_aside,
    signing_key_exists_error,
    trust_key,
    trust_own_key,
    upgrade_own_key,
)
from ryeos.trust.sign import Signer
from ryeos.trust.signing_key import AGENT_FILE, AgentSigningKey, SigningKey, own_key
from ryeos.trust.store import (
    MAX_DOCUMENT_BYTES,
    TRUSTED_FOLDER,
    KeyDocument,
    document_path,
    parse_key_document,
    typed_fingerprint,
    valid_owner,
)

NEW_PASSPHRASE_VARIABLE = "RYE_NEW_KEY_PASSPHRASE"  # noqa: S105 - its name
SHORTEST_PASSPHRASE, KEPT_DAYS = 8, 90


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
    """Write the pair, and trust it."""
    user = require_user_space(session.context)
    valid_owner(session.arguments.owner or OWN_OWNER)
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
    session.output.note(f"private key: {directory}; its public key is trusted: {document}")
    session.output.answer(envelope, words)
    return 0


def _configure_show(parser: Arguments) -> None:
    what = "a key of rye keys list, or the beginning of its id (default: your own)"
    parser.add_argument("fingerprint", metavar="FINGERPRINT", nargs="?", help=what)


def _show(session: Session) -> int:
    if session.arguments.fingerprint:
        return _show_listed(session, typed_fingerprint(session.arguments.fingerprint))
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
        session.output.warn("this key is not trusted, not even by you; fix that with: rye init")
    session.output.answer(envelope, f"{key.fingerprint}\n{pem}")
    return 0


def _show_listed(session: Session, typed: str) -> int:
    """What is known of a key: each document of it, and its public key.

    Raises RyeError `ITEM_NOT_FOUND`, and UsageError for the beginning of several.
    """
    own = own_fingerprint(session.context.key_directory)
    states = key_states(session.rye.trust, session.rye.approvals)
    found = [state for state in states if state.fingerprint.startswith(typed)]
    names = dict.fromkeys(state.fingerprint for state in found)
    if not names:
        hint = "list them with: rye keys list"
        raise RyeError(f"key {typed[:60]!a}: not found", code="ITEM_NOT_FOUND", hint=hint)
    if len(names) > 1:
        raise UsageError(f"key {typed[:60]!a}: expected one, it may be any of {', '.join(names)}")
    pems = [pem for state in found if (pem := _pem_of(state))]
    envelope = {
        "status": "success",
        "fingerprint": found[0].fingerprint,
        "public_pem": pems[0] if pems else None,
        "counts": any(state.counts for state in found),
        "documents": [state.describe(own) for state in found],
    }
    lines = [line for state in found for line in (*_key_lines(session, state, own), _at(state))]
    session.output.answer(envelope, "\n".join([*lines, *pems[:1]]))
    return 0


def _at(state: KeyState) -> str:
    return f"     {one_line(str(state.path))}"


def _pem_of(state: KeyState) -> str:
    """The public key in a document; "" where it cannot be read, or is of another key."""
    try:
        document = _document(state.path)
    except (LilluxError, OSError):
        return ""
    is_it = document.fingerprint == state.fingerprint
    return document.public_pem.decode("ascii", "replace") if is_it else ""


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
            raise target_exists_error(str(path), "another file", hint) from None
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


# --- upgrade --------------------------------------------------------------------------------------


def _configure_upgrade(parser: Arguments) -> None:
    parser.add_argument("--yes", action="store_true", help="sign without asking")
    parser.add_argument("--dry-run", action="store_true", help="list what would be signed again")


def _upgrade(session: Session) -> int:
    """Mark the own key as one that names each item, and sign again what it signed before."""
    key, user = session.rye.signing_key(), require_user_space(session.context)
    project = session.context.spaces.project
    spaces = [space for space in (project, user) if space]
    items = list(unbound_items(spaces, session.rye.verifier, key.fingerprint))
    was_marked = binds_identity(key, user)
    for item in items:
        session.output.note(f"signed before: {one_line(item.target.label)}")
    envelope: dict[str, Any] = {"status": "success", "fingerprint": key.fingerprint}
    envelope["unchanged"] = was_marked and not items
    if session.arguments.dry_run or envelope["unchanged"]:
        would = [item.target.label for item in items]
        text = "nothing to upgrade" if not would else f"{len(would)} to be signed again"
        session.output.answer(envelope | {"would_sign": would}, text)
        return 0
    question = f"sign {len(items)} items again, and let {key.fingerprint} sign for one item each?"
    if not session.confirm(question, line="rye keys upgrade --yes"):
        session.output.answer(envelope | {"status": "cancelled"}, "nothing was changed")
        return 1
    upgrade_own_key(key, user)
    reports = list(Signer(key, session.rye.verifier).sign_all(items, force=True))
    follow(session.rye, reports)
    failed = [report for report in reports if report.error]
    for report in failed:
        session.output.warn(f"{report.target.label}: {report.error}")
    envelope["signed"] = [report.target.label for report in reports if not report.error]
    envelope["failed"] = [report.target.label for report in failed]
    words = f"{key.fingerprint} names each item now; {len(envelope['signed'])} signed again"
    session.output.answer(envelope, words)
    return 1 if failed else 0


# --- protect --------------------------------------------------------------------------------------


def _configure_protect(parser: Arguments) -> None:
    parser.add_argument("--remove", action="store_true", help="take the passphrase off again")


def _protect(session: Session) -> int:
    directory = session.context.key_directory
    path = directory / PRIVATE_KEY_FILE
    text = _read(path)
    was_protected = is_protected(text)
    keypair = load_keypair(directory, session.context.passphrase)
    if session.arguments.remove:
        data, words = keypair.private_pem, f"{path} has no passphrase now"
    else:
        data = protected(keypair.private_pem, _new_passphrase(session))
        words = f"{path} is under a passphrase now"
    is_unchanged = session.arguments.remove and not was_protected
    if not is_unchanged:
        write_atomic(path, data, expected=text, mode=0o600)
    session.output.answer(
        {"status": "success", "path": str(path), "unchanged": is_unchanged}, words
    )
    return 0


def _new_passphrase(session: Session) -> bytes:
    """Typed twice at a terminal, else of the environment. Raises UsageError."""
    given = session.environ.get(NEW_PASSPHRASE_VARIABLE)
    if given is None and sys.stdin.isatty() and not session.arguments.no_input:
        first = typed_passphrase("new passphrase: ")
        if first != typed_passphrase("again: "):
            raise UsageError("expected the same passphrase twice; nothing was changed")
        return _long_enough(first)
    if given is None:
        raise UsageError(
            f"keys protect: expected a terminal, or {NEW_PASSPHRASE_VARIABLE} in the environment"
        )
    return _long_enough(given.encode("utf-8", "surrogateescape"))


def _long_enough(passphrase: bytes) -> bytes:
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise UsageError(f"expected a passphrase of at least {SHORTEST_PASSPHRASE} bytes")
    return passphrase


# --- use-agent ------------------------------------------------------------------------------------


def _configure_use_agent(parser: Arguments) -> None:
    add = parser.add_argument
    add("key", metavar="FILE.pub", nargs="?", help="the public key, where the agent has several")
    add("--confirms", action="store_true", help="the agent asks you, or wants a touch, each time")
    add("--force", action="store_true", help="replace another key; it is kept as .bak")


def _use_agent(session: Session) -> int:
    """Sign with a key that an ssh-agent holds from now on."""
    user, directory = require_user_space(session.context), session.context.key_directory
    public = _agent_key(session)
    public_pem = encode_public(public)
    fingerprint = compute_key_fingerprint(public_pem)
    backups: list[Path] = []
    if (
        own_fingerprint(directory) not in {"", fingerprint}
        or (directory / PRIVATE_KEY_FILE).exists()
    ):
        if not session.arguments.force:
            raise signing_key_exists_error(
                str(directory / PRIVATE_KEY_FILE), own_fingerprint(directory), "rye keys use-agent"
            )
        backups = list(set_aside(directory))
    make_directory(directory, mode=0o700)
    write_atomic(directory / PUBLIC_KEY_FILE, public_pem)
    said = {"version": 1, "confirms": session.arguments.confirms}
    write_atomic(directory / AGENT_FILE, json.dumps(said).encode() + b"\n", mode=0o600)
    document, _ = trust_own_key(own_key(session.context), user)
    for backup in backups:
        session.output.note(f"the old key is kept: {backup}")
    envelope = {
        "status": "success",
        "fingerprint": fingerprint,
        "document": str(document),
        "confirms": session.arguments.confirms,
        "backups": [str(backup) for backup in backups],
    }
    session.output.answer(envelope, f"signing with the ssh-agent's key {fingerprint} now")
    return 0


def _agent_key(session: Session) -> bytes:
    """The 32 bytes of the key to use. Raises SshAgentError, UsageError."""
    from lillux.ssh_agent import SOCKET_VARIABLE, identities, typed_identity

    held = dict(identities(session.environ.get(SOCKET_VARIABLE, "")))
    if session.arguments.key:
        wanted = typed_identity(_read(Path(session.arguments.key)).decode("utf-8", "replace"))
        if wanted not in held:
            raise UsageError(f"{session.arguments.key}: the ssh-agent does not hold this key")
        return wanted
    if len(held) != 1:
        names = ", ".join(one_line(comment, 60) for comment in held.values()) or "none"
        raise UsageError(
            f"keys use-agent: expected one Ed25519 key in the ssh-agent, found {names}",
            hint="name one: rye keys use-agent ~/.ssh/id_ed25519.pub; or add one with ssh-add",
        )
    return next(iter(held))


# --- rotate ---------------------------------------------------------------------------------------


def _configure_rotate(parser: Arguments) -> None:
    add = parser.add_argument
    add("--until", metavar="YYYY-MM-DD", help="the last day of the old key (default: in 90 days)")
    add("--yes", action="store_true", help="sign again without asking")


def _rotate(session: Session) -> int:
    """Make a new key, sign again what the old one signed here, and let that end on a day.

    The new one is under the passphrase that the old one was under.
    """
    old, passphrase = _with_passphrase(session)
    user, project = require_user_space(session.context), session.context.spaces.project
    until = _last_day(session)
    spaces = [space for space in (project, user) if space]
    items = list(signed_items(spaces, session.rye.verifier, old.fingerprint))
    envelope: dict[str, Any] = {"status": "success", "old": old.fingerprint, "until": until}
    question = f"replace {old.fingerprint}, and sign {len(items)} files again with a new key?"
    if not session.confirm(question, line="rye keys rotate --yes"):
        session.output.answer({**envelope, "status": "cancelled"}, "nothing was changed")
        return 1
    approved = session.rye.approval.parts() if project else {}
    backups = set_aside(session.context.key_directory)
    keypair = generate_keypair()
    text = keypair.private_pem
    text = text if passphrase is None else protected(text, passphrase)
    written = KeyPair(text, keypair.public_pem)
    install_keypair(session.context.key_directory, written, "rye keys rotate")
    if isinstance(old, AgentSigningKey):
        session.output.note(
            "the new key is a file: rye keys protect, or rye keys use-agent --force"
        )
    key = SigningKey(keypair)
    trust_own_key(key, user)
    retire_key(old.public_pem, user, key, until)
    again = [one for one in items if TRUSTED_FOLDER not in one.target.path.as_posix()]
    reports = list(Signer(key, session.rye.verifier).sign_all(again, force=True))
    follow(session.rye, reports)
    if approved:
        now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        session.rye.approval.approve(tuple(approved.values()), key, now)
    failed = [report for report in reports if report.error]
    for report in failed:
        session.output.warn(f"{report.target.label}: {report.error}")
    for backup in backups:
        session.output.note(f"the old key is kept: {backup}")
    envelope |= {
        "fingerprint": key.fingerprint,
        "signed": [report.target.label for report in reports if not report.error],
        "failed": [report.target.label for report in failed],
        "backups": [str(backup) for backup in backups],
    }
    words = f"{key.fingerprint} signs now; {old.fingerprint} counts until {until}"
    session.output.answer(envelope, words)
    return 1 if failed else 0


def _with_passphrase(session: Session) -> tuple[SigningKey, bytes | None]:
    """The own key, and the passphrase that it is under, typed once; None for no passphrase.

    Raises NoSigningKeyError, KeyLockedError, and as `Rye.signing_key`.
    """
    directory = session.context.key_directory
    path = directory / PRIVATE_KEY_FILE
    if not path.is_file() or not is_protected(_read(path)):
        return session.rye.signing_key(), None
    passphrase = session.context.passphrase(path)
    return SigningKey(load_keypair(directory, lambda _: passphrase)), passphrase


def _last_day(session: Session) -> str:
    from datetime import date, timedelta

    given = session.arguments.until
    try:
        day = date.fromisoformat(given) if given else utc_now().date() + timedelta(KEPT_DAYS)
    except ValueError:
        raise UsageError(f"--until: expected a day like 2027-01-31, found {given!r:.40}") from None
    return day.isoformat()


# --- trusted keys ---------------------------------------------------------------------------------
# ``rye keys list|trust|untrust``: whose signatures count, and where.

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


# --- list -----------------------------------------------------------------------------------------


def _list(session: Session) -> int:
    own = own_fingerprint(session.context.key_directory)
    states = key_states(session.rye.trust, session.rye.approvals)
    envelope = {"status": "success", "keys": [state.describe(own) for state in states]}
    text = "\n".join(line for state in states for line in _key_lines(session, state, own))
    session.output.answer(envelope, text)
    return 0


def _key_lines(session: Session, state: KeyState, own: str) -> Iterator[str]:
    mark = session.output.paint(*(("yes", "green") if state.counts else ("no ", "red")))
    notes = ["yours"] if state.fingerprint == own else []
    notes += [] if state.covers_all or not state.counts else ["may leave text uncovered"]
    tail = f"  ({', '.join(notes)})" if notes else ""
    owner = one_line(state.owner, 30) or "-"
    yield f"{mark}  {one_line(state.fingerprint, 30):<16}  {owner:<12}  {state.space}{tail}"
    if state.problem:
        yield f"       {one_line(state.problem)}: {one_line(str(state.path))}"
    if state.hint:
        yield f"       hint: {one_line(state.hint)}"


# --- trust ----------------------------------------------------------------------------------------


def _configure_trust(parser: Arguments) -> None:
    add = parser.add_argument
    add("key", metavar="PEMFILE|DOCUMENT.toml|FINGERPRINT", help="a file, or a key of this project")
    add("--owner", default="", help="whose key it is, in your words")
    add("--space", choices=(PROJECT, USER), help="where its document is written (default: user)")
    add("--fingerprint", metavar="FP", help="take no other key than this one")


def _trust(session: Session) -> int:
    arguments = session.arguments
    typed = Path(arguments.key)
    fingerprint = typed_fingerprint(arguments.key)
    arguments.fingerprint = arguments.fingerprint and typed_fingerprint(arguments.fingerprint)
    if arguments.fingerprint and not _FINGERPRINT.fullmatch(arguments.fingerprint):
        found = f"found {arguments.fingerprint[:60]!r}"
        raise UsageError(f"--fingerprint: expected 16 hex digits, {found}")
    if not _FINGERPRINT.fullmatch(fingerprint) or typed.is_file():
        return _trust_file(session, typed)
    if arguments.space == USER:
        return _trust_file(session, _carried_document(session, fingerprint))
    if arguments.owner:
        raise UsageError("--owner: expected with a file or with --space user")
    return _approve(session, fingerprint)


def _trust_file(session: Session, path: Path) -> int:
    """Write a document; where it is for the project, that is the approval as well."""
    key = session.rye.signing_key()
    offered = _offered(path)
    _require_expected_key(session, path, offered.fingerprint)
    space = session.rye.space(session.arguments.space or USER)
    trust_own_key(key, require_user_space(session.context))
    if offered.fingerprint == key.fingerprint and space.tier == USER:
        document, _ = trust_own_key(key, space, session.arguments.owner)
    else:
        known = session.rye.trust.get_key(offered.fingerprint, space.label)
        document = trust_key(offered, space, key, owner=session.arguments.owner, known=known)
    if space.tier == PROJECT:
        session.rye.approvals.approve(space.base, compute_key_digest(offered.public_pem))
    _show_trusted(session, offered, space, document)
    return 0


def _require_expected_key(session: Session, path: Path, found: str) -> None:
    expected = session.arguments.fingerprint
    if expected and expected != found:
        raise key_document_error(str(path), f"expected the key {expected}, found {found}")


def _show_trusted(session: Session, offered: OfferedKey, space: Space, document: Path) -> None:
    trusted = session.rye.trust.get_key(offered.fingerprint, space.label)
    if trusted is None:
        raise key_document_error(str(document), "written, but the key is not trusted")
    envelope = {
        "status": "success",
        "fingerprint": trusted.fingerprint,
        "owner": trusted.owner,
        "covers_all": trusted.covers_all,
        "space": space.label,
        "path": str(document),
    }
    session.output.note(f"its document: {document}")
    if not trusted.covers_all:
        session.output.note("it may sign directives and knowledge in part: `run` warns then")
    session.output.answer(
        envelope, f"{trusted.fingerprint} ({one_line(trusted.owner)}) is trusted now"
    )


def _offered(path: Path) -> OfferedKey:
    try:
        return read_offered_key(path)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: expected a file or a fingerprint of 16 hex digits, found neither",
            hint="list the keys that there are with: rye keys list",
        ) from None


def _carried_document(session: Session, fingerprint: str) -> Path:
    """The document of a key in project space. Raises RyeError `NO_PROJECT`, `ITEM_NOT_FOUND`."""
    path = document_path(session.rye.space(PROJECT), fingerprint)
    if not path.is_file():
        raise RyeError(
            f"key {fingerprint}: not found in any space",
            code="ITEM_NOT_FOUND",
            hint="list keys with: rye keys list",
        )
    return path


def _approve(session: Session, fingerprint: str) -> int:
    """Trust a key that the project carries in this project, and nowhere else."""
    trust, project = session.rye.trust, session.rye.space(PROJECT)
    known = trust.get_key(fingerprint, PROJECT)
    envelope: dict[str, Any] = {"status": "success", "fingerprint": fingerprint, "space": PROJECT}
    if known:
        envelope |= {"owner": known.owner, "source": known.source, "unchanged": True}
        owner = one_line(known.owner)
        session.output.answer(envelope, f"{fingerprint} ({owner}) is trusted already")
        return 0
    path = _carried_document(session, fingerprint)
    _require_expected_key(session, path, fingerprint)
    document = _document(path)
    session.output.note(f"owner, in the words of its document: {one_line(document.owner)}")
    session.output.note(f"document: {path}")
    problem = document_problem(document, project, trust)
    if document.fingerprint != fingerprint:
        problem = f"its key is {document.fingerprint}, not {fingerprint}"
    if problem:
        raise key_document_error(str(path), problem)
    session.rye.approvals.approve(project.base, document.digest)
    envelope |= {"owner": document.owner, "path": str(path), "unchanged": False}
    session.output.answer(envelope, f"{fingerprint} is trusted in {project.base} now")
    return 0


def _document(path: Path) -> KeyDocument:
    return parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))


# --- untrust --------------------------------------------------------------------------------------


def _configure_untrust(parser: Arguments) -> None:
    parser.add_argument("fingerprint", metavar="FINGERPRINT", help="16 hex digits")
    parser.add_argument("--force", action="store_true", help="also if it is your own key")


def _untrust(session: Session) -> int:
    fingerprint = typed_fingerprint(session.arguments.fingerprint)
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise UsageError(f"{fingerprint[:60]!r}: expected a fingerprint of 16 hex digits")
    is_own = fingerprint == own_fingerprint(session.context.key_directory)
    if is_own and not session.arguments.force:
        raise RyeError(
            f"key {fingerprint} is your own signing key",
            code="CONFLICT",
            hint="without its document nothing that you signed is valid; --force removes it",
        )
    document = document_path(session.context.spaces.user, fingerprint)
    removed = _remove(document)
    project = session.context.spaces.project
    withdrawn = project is not None and session.rye.approvals.withdraw(project.base, fingerprint)
    if not removed and not withdrawn:
        _require_carried_only(session, fingerprint)
    envelope = {
        "status": "success",
        "fingerprint": fingerprint,
        "removed": str(document) if removed else None,
        "approval_withdrawn": withdrawn,
        "unchanged": not removed and not withdrawn,
    }
    session.output.answer(envelope, f"{fingerprint} is no longer trusted")
    return 0


def _remove(document: Path) -> bool:
    try:
        document.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise file_system_error(document, error) from error
    return True


def _require_carried_only(session: Session, fingerprint: str) -> None:
    """Nothing was removed: fine for a key that the project carries, and that did not count."""
    holders = [s for s, path in session.rye.trust.documents() if path.stem == fingerprint]
    if not holders:
        raise RyeError(
            f"key {fingerprint}: not found in any space",
            code="ITEM_NOT_FOUND",
            hint="list keys with: rye keys list",
        )
    if holders[0].tier == SYSTEM:
        raise UnsupportedError(
            f"key {fingerprint} came with {holders[0].label} and is trusted for its items only",
            hint="it goes when that bundle goes",
        )


GENERATE = CommandSpec(_configure_generate, _generate, ["rye keys generate"])
SHOW = CommandSpec(_configure_show, _show, ["rye keys show", "rye keys show 4b987fd4e40303ac"])
EXPORT = CommandSpec(_configure_export, _export, ["rye keys export", "rye keys export me.pem"])
IMPORT = CommandSpec(
    _configure_import,
    _import,
    [
        "rye keys import private_key.pem",
        "rye keys import - < private_key.pem",
        f"{PRIVATE_KEY_VARIABLE}=... rye keys import",
    ],
)
LIST = CommandSpec(no_arguments, _list, ["rye keys list", "rye keys list --json"])
TRUST = CommandSpec(
    _configure_trust,
    _trust,
    [
        "rye keys trust ada.pem --owner ada",
        "rye keys trust 4b987fd4e40303ac",
        "rye keys trust ci.toml --space project",
        "rye keys trust ada.pem --fingerprint 4b987fd4e40303ac",
    ],
)
UPGRADE = CommandSpec(
    _configure_upgrade, _upgrade, ["rye keys upgrade", "rye keys upgrade --dry-run"]
)
PROTECT = CommandSpec(
    _configure_protect, _protect, ["rye keys protect", "rye keys protect --remove"]
)
USE_AGENT = CommandSpec(
    _configure_use_agent,
    _use_agent,
    ["rye keys use-agent", "rye keys use-agent ~/.ssh/id_ed25519.pub --confirms"],
)
ROTATE = CommandSpec(
    _configure_rotate, _rotate, ["rye keys rotate", "rye keys rotate --until 2027-01-31"]
)
UNTRUST = CommandSpec(_configure_untrust, _untrust, ["rye keys untrust 4b987fd4e40303ac"])
