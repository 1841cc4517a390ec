"""``rye keys list|trust|untrust``: whose signatures count, and where."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lillux.files import file_system_error, read_bytes
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import (
    KeyDocumentError,
    KeyMissingError,
    UnsupportedError,
    UsageError,
)
from ryeos.items import PROJECT, SYSTEM, USER, Space
from ryeos.key_states import KeyState, document_problem, key_states
from ryeos.keys import (
    OfferedKey,
    OwnKeyError,
    own_fingerprint,
    read_offered_key,
    require_user_space,
    trust_key,
    trust_own_key,
)
from ryeos.trust import MAX_DOCUMENT_BYTES, KeyDocument, document_path, parse_key_document

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


# --- list -----------------------------------------------------------------------------------------


def _configure_list(_: Arguments) -> None:
    """No arguments of its own."""


def _list(session: Session) -> int:
    own = own_fingerprint(session.context.key_directory)
    states = key_states(session.rye.trust, session.rye.approvals)
    envelope = {"status": "success", "keys": [state.describe(own) for state in states]}
    text = "\n".join(line for state in states for line in _lines(session, state, own))
    session.output.answer(envelope, text)
    return 0


def _lines(session: Session, state: KeyState, own: str) -> Iterator[str]:
    mark = session.output.paint(*(("yes", "green") if state.counts else ("no ", "red")))
    notes = ["yours"] if state.fingerprint == own else []
    notes += [] if state.covers_all or not state.counts else ["may leave text uncovered"]
    tail = f"  ({', '.join(notes)})" if notes else ""
    owner = one_line(state.owner, 30) or "-"
    yield f"{mark}  {one_line(state.fingerprint, 30):<16}  {owner:<12}  {state.space}{tail}"
    if state.problem:
        yield f"       {one_line(state.problem)}: {state.path}"
    if state.hint:
        yield f"       hint: {state.hint}"


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
    fingerprint = arguments.key.lower()
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
    _check_expected(session, path, offered.fingerprint)
    space = session.rye.space(session.arguments.space or USER)
    trust_own_key(key, require_user_space(session.context))
    if offered.fingerprint == key.fingerprint and space.tier == USER:
        document, _ = trust_own_key(key, space, session.arguments.owner)
    else:
        known = session.rye.trust.get_key(offered.fingerprint, space.label)
        document = trust_key(offered, space, key, owner=session.arguments.owner, known=known)
    if space.tier == PROJECT:
        session.rye.approvals.approve(space.base, offered.fingerprint)
    _show_trusted(session, offered, space, document)
    return 0


def _check_expected(session: Session, path: Path, found: str) -> None:
    expected = session.arguments.fingerprint
    if expected and expected != found:
        raise KeyDocumentError(str(path), f"expected the key {expected}, found {found}")


def _show_trusted(session: Session, offered: OfferedKey, space: Space, document: Path) -> None:
    trusted = session.rye.trust.get_key(offered.fingerprint, space.label)
    if trusted is None:
        raise KeyDocumentError(str(document), "written, but it does not count")
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
    session.output.answer(envelope, f"{trusted.fingerprint} ({one_line(trusted.owner)}) counts now")


def _offered(path: Path) -> OfferedKey:
    try:
        return read_offered_key(path)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: expected a file or a fingerprint of 16 hex digits, found neither",
            hint="list the keys that there are with: rye keys list",
        ) from None


def _carried_document(session: Session, fingerprint: str) -> Path:
    """The document of a key in project space. Raises NoProjectError, KeyMissingError."""
    path = document_path(session.rye.space(PROJECT), fingerprint)
    if not path.is_file():
        raise KeyMissingError(fingerprint)
    return path


def _approve(session: Session, fingerprint: str) -> int:
    """Let a key that the project carries count in this project, and nowhere else."""
    trust, project = session.rye.trust, session.rye.space(PROJECT)
    known = trust.get_key(fingerprint, PROJECT)
    envelope: dict[str, Any] = {"status": "success", "fingerprint": fingerprint, "space": PROJECT}
    if known:
        envelope |= {"owner": known.owner, "source": known.source, "unchanged": True}
        owner = one_line(known.owner)
        session.output.answer(envelope, f"{fingerprint} ({owner}) counts here already")
        return 0
    path = _carried_document(session, fingerprint)
    _check_expected(session, path, fingerprint)
    document = _document(path)
    session.output.note(f"owner, in the words of its document: {one_line(document.owner)}")
    session.output.note(f"document: {path}")
    problem = document_problem(document, project, trust)
    if document.fingerprint != fingerprint:
        problem = f"its key is {document.fingerprint}, not {fingerprint}"
    if problem:
        raise KeyDocumentError(str(path), problem)
    session.rye.approvals.approve(project.base, fingerprint)
    envelope |= {"owner": document.owner, "path": str(path), "unchanged": False}
    session.output.answer(envelope, f"{fingerprint} counts in {project.base} now")
    return 0


def _document(path: Path) -> KeyDocument:
    return parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))


# --- untrust --------------------------------------------------------------------------------------


def _configure_untrust(parser: Arguments) -> None:
    parser.add_argument("fingerprint", metavar="FINGERPRINT", help="16 hex digits")
    parser.add_argument("--force", action="store_true", help="also if it is your own key")


def _untrust(session: Session) -> int:
    fingerprint = session.arguments.fingerprint.lower()
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise UsageError(f"{fingerprint[:60]!r}: expected a fingerprint of 16 hex digits")
    is_own = fingerprint == own_fingerprint(session.context.key_directory)
    if is_own and not session.arguments.force:
        raise OwnKeyError(fingerprint)
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
    session.output.answer(envelope, f"{fingerprint} does not count any more")
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
        raise KeyMissingError(fingerprint)
    if holders[0].tier == SYSTEM:
        raise UnsupportedError(
            f"key {fingerprint} came with {holders[0].label} and counts for its items only",
            hint="it goes when that bundle goes",
        )


COMMANDS = {
    "keys list": Command(_configure_list, _list, ["rye keys list", "rye keys list --json"]),
    "keys trust": Command(
        _configure_trust,
        _trust,
        [
            "rye keys trust ada.pem --owner ada",
            "rye keys trust 4b987fd4e40303ac",
            "rye keys trust ci.toml --space project",
            "rye keys trust ada.pem --fingerprint 4b987fd4e40303ac",
        ],
    ),
    "keys untrust": Command(_configure_untrust, _untrust, ["rye keys untrust 4b987fd4e40303ac"]),
}
