"""``rye sign`` and ``rye verify``, by reference, glob or path, and ``rye approve``."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from ryeos.app.output import one_line
from ryeos.app.proposals import (
    DROPPED,
    FAILED,
    SIGNED,
    WAITING,
    Proposal,
    Proposals,
    changes,
    described,
    digests,
    require_no_rights,
    target_of,
)
from ryeos.app.sign import (
    batch_answer,
    checked,
    follow,
    is_glob,
    is_signed,
    signing,
    single_answer,
    targets_of,
)
from ryeos.app.verbs import project_of
from ryeos.cli.arguments import Arguments
from ryeos.cli.session import CommandSpec, Session
from ryeos.items.errors import Answer, ItemNotFoundError, RyeError, UsageError
from ryeos.items.refs import PROJECT, SYSTEM, USER, Kind, parse_kind
from ryeos.trust.sign import (
    GLOB_CHARACTERS,
    SKIPPED,
    VALID,
    AuditReport,
    SignReport,
    SignTarget,
    counts,
    target_of_path,
    targets_at,
    targets_in_spaces,
    targets_of_glob,
)
from ryeos.trust.signature import MAX_ITEM_BYTES
from ryeos.trust.verify import Target


def _configure_sign(parser: Arguments) -> None:
    add = parser.add_argument
    add("what", metavar="REF|GLOB|PATH", nargs="+", help="tool:a/b, 'tool:a/**', a/b, or a file")
    add(
        "--space",
        choices=(PROJECT, USER, SYSTEM),
        default=PROJECT,
        help="where a REF or GLOB is looked up (default: project)",
    )
    add("--dry-run", action="store_true", help="validate, write nothing")
    add("--yes", action="store_true", help="sign without showing what changed")
    add("--force", action="store_true", help="sign again what is validly signed by this key")


def _run_sign(session: Session) -> int:
    arguments = session.arguments
    targets = list(dict.fromkeys(_sign_targets(session, arguments.what)))
    if not arguments.dry_run and not _is_agreed(session, targets):
        session.output.answer({"status": "cancelled"}, "nothing was signed")
        return 1
    signed = signing(session.rye, targets, dry_run=arguments.dry_run, force=arguments.force)
    reports = list(_with_progress(session, signed))
    for report in reports:
        for warning in report.warnings:
            session.output.warn(warning)
    locks = follow(session.rye, reports)
    for item_id in locks:
        session.output.note(f"the lockfile of {one_line(item_id)} follows")
    if len(arguments.what) == 1 and len(reports) == 1 and not _is_glob(arguments.what[0]):
        return _show_one(session, reports[0], locks)
    return _show_batch(session, reports, locks)


def _is_agreed(session: Session, targets: list[SignTarget]) -> bool:
    """Whether a person at a terminal wants to sign what changed. Elsewhere the command says so."""
    arguments = session.arguments
    is_silent = arguments.yes or arguments.no_input or session.output.as_json
    if is_silent or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    good = [one for one in targets if not checked(session.rye, one).error]
    todo = [one for one in good if arguments.force or not is_signed(session.rye, one)]
    if not todo:
        return True
    most = max(10, get_terminal_size().lines - 6)
    shown = list(described(session.context.spaces.user, todo, digests(todo)))
    for line in shown[:most]:
        color = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
        session.output.note(session.output.paint(line, color, stream=sys.stderr) if color else line)
    if len(shown) > most:
        session.output.note(f"... and {len(shown) - most} more lines")
    return session.confirm(f"sign {len(todo)} of {len(targets)} items?")


def _sign_targets(session: Session, typed: list[str]) -> Iterator[SignTarget]:
    for text in typed:
        if _is_path(text):
            yield target_of_path(Path(text), session.rye.context.spaces)
        else:
            yield from targets_of(session.rye, text, None, session.arguments.space)


def _is_glob(text: str) -> bool:
    return is_glob(text) and not _is_path(text)


def _is_path(text: str) -> bool:
    """A file that exists is meant as a path, unless a kind stands before it."""
    looks_like_one = "/.ai/" in f"/{text}" or text.startswith(("./", "../", "/"))
    return looks_like_one or (":" not in text and Path(text).suffix != "" and Path(text).is_file())


def _with_progress(session: Session, reports: Iterator[SignReport]) -> Iterator[SignReport]:
    for number, report in enumerate(reports, 1):
        if session.arguments.verbose:
            session.output.note(f"{number}: {report.target.label}")
        yield report


def _show_one(session: Session, report: SignReport, locks: list[str]) -> int:
    if report.error:
        raise report.error
    envelope = _in_project(session, single_answer(report), locks)
    session.output.answer(envelope, one_line(envelope["message"]))
    return 0


def _show_batch(session: Session, reports: list[SignReport], locks: list[str]) -> int:
    answer = batch_answer(reports, len(reports), dry_run=session.arguments.dry_run)
    for failure in answer.envelope["failed"]:
        _say_failure(session, failure)
    envelope = _in_project(session, answer, locks)
    session.output.answer(envelope, envelope["summary"])
    return answer.exit_status


def _in_project(session: Session, answer: Answer, locks: list[str]) -> dict[str, Any]:
    more = {"locks_updated": locks} if locks else {}
    return {**answer.envelope, "project_path": project_of(session.rye), **more}


def _say_failure(session: Session, failure: dict[str, Any]) -> None:
    if session.output.as_json:
        return
    sys.stderr.write(f"error: {one_line(failure['error'])}\n")
    if failure.get("hint"):
        sys.stderr.write(f"  hint: {one_line(failure['hint'])}\n")


# --- verify ---------------------------------------------------------------------------------------
# ``rye verify``: the signature state of items, globs, files and folders.

_COLORS = {VALID: "green", SKIPPED: "dim", "unsigned": "yellow"}


def _configure_verify(parser: Arguments) -> None:
    add = parser.add_argument
    add("what", metavar="REF|GLOB|PATH", nargs="*", help="default: the project's items")
    add("--all", action="store_true", help="every item of every space")


def _run_verify(session: Session) -> int:
    targets = list(dict.fromkeys(_verify_targets(session)))
    reports = session.rye.audit(targets)
    found = counts(reports)
    bad = [report for report in reports if report.state not in (VALID, SKIPPED)]
    envelope = {
        "status": "success" if not bad else "error",
        "items": [report.describe() for report in reports],
        "counts": found,
    }
    summary = (
        ", ".join(f"{number} {state}" for state, number in found.items())
        or session.no_project
        or "no items"
    )
    if bad:
        envelope |= {"error": f"not everything is valid: {summary}", "code": "INTEGRITY"}
    session.output.answer(envelope, "\n".join([*_report_lines(session, reports), summary]))
    return 1 if bad else 0


def _verify_targets(session: Session) -> Iterator[Target]:
    spaces = session.rye.context.spaces
    if session.arguments.all:
        yield from targets_in_spaces(spaces)
        return
    if not session.arguments.what:
        yield from targets_in_spaces([session.rye.space(PROJECT)])
        return
    for text in session.arguments.what:
        yield from _targets_of(session, text)


def _targets_of(session: Session, text: str) -> Iterator[Target]:
    if GLOB_CHARACTERS & set(text) and not Path(text).exists():
        yield from _targets_of_glob(session, text)
    elif text.startswith(("/", "./", "../")) or (":" not in text and Path(text).exists()):
        yield from targets_at(Path(text), session.rye.context.spaces)
    else:
        reference = session.rye.reference(text)
        location = session.rye.resolver.resolve(reference).location
        yield Target(path=location.path, kind=location.ref.kind, space=location.space)


def _targets_of_glob(session: Session, text: str) -> Iterator[Target]:
    prefix, colon, pattern = text.partition(":")
    kind: Kind | None = parse_kind(prefix, text) if colon else None
    found = False
    for space in session.rye.context.spaces:
        try:
            matches = targets_of_glob(kind, pattern if colon else text, space)
        except ItemNotFoundError:
            continue
        found = True
        yield from (match.verify_target for match in matches)
    if not found:
        raise ItemNotFoundError(text, session.rye.resolver.searched())


def _report_lines(session: Session, reports: list[AuditReport]) -> Iterator[str]:
    """Everything that needs a look; the valid ones only with ``-v`` or when there are few."""
    show_all = session.arguments.verbose or len(reports) <= 20  # noqa: PLR2004 - a screen's part
    for report in reports:
        if show_all or report.state != VALID:
            state = session.output.paint(f"{report.state:<13}", _COLORS.get(report.state, "red"))
            # Ids, paths and provenance are a stranger's words in a project that was cloned.
            name = one_line(str(report.ref or report.target.path))
            note = f"  ({one_line(report.problem)})" if report.state not in (VALID, SKIPPED) else ""
            partial = "  (partial coverage)" if report.is_partial else ""
            origin = f"  (says {one_line(report.provenance)})" if report.provenance else ""
            yield f"{state} {name}{note}{partial}{origin}"
            if report.hint:
                yield f"{'':<13}   hint: {one_line(report.hint)}"


# --- approve --------------------------------------------------------------------------------------
# ``rye approve``: what agents want signed; a person reads what changed, and signs or drops it.


class Mode(StrEnum):
    """How proposals are decided: each by a question, or all in one way."""

    ASK = "ask"
    ALL = "all"
    DROP = "drop"
    LIST = "list"


_STATE_COLORS = {"+": "green", "-": "red", "@": "dim"}


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("id", metavar="ID|REF", nargs="*", help="these proposals alone (default: all)")
    add("--all", action="store_true", help="sign them without asking about each")
    add("--drop", action="store_true", help="drop them instead")
    add("--list", action="store_true", help="list them, decide nothing")


def _run(session: Session) -> int:
    arguments = session.arguments
    if arguments.all and arguments.drop:
        raise UsageError("--all, --drop: expected one of them")
    mode = Mode.ALL if arguments.all else Mode.DROP if arguments.drop else Mode.ASK
    mode = Mode.LIST if arguments.list else mode
    found = _chosen_proposals(Proposals(session.context.spaces.user), arguments.id)
    rows = decide(session, found, mode)
    failed = [row for row in rows if row["state"] == FAILED]
    envelope = {"status": "error" if failed else "success", "proposals": rows}
    if failed:
        envelope |= {"error": failed[0]["problem"], "code": "CONFLICT"}
    session.output.answer(envelope, "\n".join(decided_lines(rows)))
    return 1 if failed else 0


def decide(session: Session, proposals: Sequence[Proposal], mode: Mode) -> list[dict[str, Any]]:
    """What became of each proposal, as JSON: ``state`` is signed, dropped, waiting or failed."""
    waiting = Proposals(session.context.spaces.user)
    return [_decide(session, waiting, one, mode) for one in proposals]


def decided_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same for a person."""
    lines = [f"{row['state']:<8} {row['id']}  {one_line(row['ref'])}" for row in rows]
    return lines or ["nothing waits for approval"]


def _chosen_proposals(waiting: Proposals, named: list[str]) -> list[Proposal]:
    """The proposals of these ids or references, all without one. Raises RyeError."""
    found = waiting.all()
    for name in named:
        if not any(name in (one.id, one.label) for one in found):
            raise RyeError(
                f"{name[:80]}: no such proposal waits",
                code="ITEM_NOT_FOUND",
                hint="list them with: rye approve --list",
            )
    return [one for one in found if not named or one.id in named or one.label in named]


def _decide(session: Session, waiting: Proposals, proposal: Proposal, mode: Mode) -> dict[str, Any]:
    row = proposal.describe()
    if mode is Mode.DROP:
        waiting.decide(proposal, DROPPED)
        return {**row, "state": DROPPED}
    try:
        target = target_of(session.rye, proposal)
        require_no_rights([target])
    except LilluxError as error:
        if mode is not Mode.LIST:
            waiting.decide(proposal, FAILED)  # it is not what was proposed any longer
        problem = f"{proposal.label}: {error}; an agent may propose it again"
        return {**row, "state": FAILED, "problem": problem}
    shown = list(_proposal_lines(session, proposal, target))
    if mode is not Mode.ALL or session.arguments.verbose:
        for line in shown:
            session.output.note(line)
    answer = "y" if mode is Mode.ALL else _decision(session, proposal, mode)
    if answer == "d":
        waiting.decide(proposal, DROPPED)
        return {**row, "state": DROPPED}
    if answer != "y":
        return {**row, "state": WAITING, "diff": shown[1:]}
    return _sign_proposal(session, waiting, proposal, target, row)


def _sign_proposal(
    session: Session,
    waiting: Proposals,
    proposal: Proposal,
    target: SignTarget,
    row: dict[str, Any],
) -> dict[str, Any]:
    rye = session.rye.at(proposal.project) if proposal.project else session.rye
    expected = {target.path: proposal.sha256}
    reports = list(signing(rye, [target], dry_run=False, force=False, expected=expected))
    error = reports[0].error
    if error:
        return {**row, "state": FAILED, "problem": f"{proposal.label}: {error}"}
    follow(rye, reports)
    waiting.decide(proposal, SIGNED)
    return {**row, "state": SIGNED}


def _proposal_lines(session: Session, proposal: Proposal, target: SignTarget) -> Iterator[str]:
    """The item, who wants it signed, and what changed since it was signed last."""
    who = one_line(proposal.client) or "an agent"
    yield f"{proposal.id}  {one_line(proposal.label)}  wanted by {who}, {proposal.proposed_at}"
    data = read_bytes(target.path, MAX_ITEM_BYTES)
    for line in changes(session.context.spaces.user, target, data):
        color = _STATE_COLORS.get(line[:1])
        yield session.output.paint(line, color, stream=sys.stderr) if color else line


def _decision(session: Session, proposal: Proposal, mode: Mode) -> str:
    """``y``, ``n`` or ``d``; ``n`` without a terminal."""
    is_silent = mode is Mode.LIST or session.arguments.no_input or session.output.as_json
    if is_silent or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "n"
    sys.stderr.write(f"sign {one_line(proposal.label)}? [y]es, [n]ot now, [d]rop it: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower()[:1] or "n"


COMMANDS = {
    "sign": CommandSpec(
        _configure_sign,
        _run_sign,
        [
            "rye sign tool:mine/hello",
            "rye sign 'tool:mine/**' --dry-run",
            "rye sign .ai/directives/mine/review.md",
            "rye sign directive:review --space user",
        ],
    ),
    "verify": CommandSpec(
        _configure_verify,
        _run_verify,
        [
            "rye verify",
            "rye verify tool:mine/hello",
            "rye verify --all --json",
            "rye verify ./unpacked-package",
        ],
    ),
    "approve": CommandSpec(
        _configure,
        _run,
        [
            "rye approve",
            "rye approve --list --json",
            "rye approve tool:shop/total",
            "rye approve --all",
            "rye approve --drop 1f0c9a77d2b4",
        ],
    ),
}
