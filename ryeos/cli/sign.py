"""``rye sign`` and ``rye verify``, by reference, glob or path, and ``rye approve``."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError, as_word
from lillux.foreign_text import one_line
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.output import utc_text
from ryeos.app.proposals import (
    DROPPED,
    FAILED,
    SIGNED,
    WAITING,
    Proposal,
    Proposals,
    read_proposal,
    require_no_rights,
)
from ryeos.app.review import review_of
from ryeos.app.sign import (
    batch_answer,
    checked,
    follow,
    is_glob,
    is_signed,
    read_all,
    signing,
    single_answer,
    targets_of,
)
from ryeos.app.verb_arguments import project_of
from ryeos.app.workspace import Rye
from ryeos.cli.asking import painted
from ryeos.cli.review import DROP, QUIT, SKIP, YES, decide_each, decide_one, needs_person
from ryeos.cli.session import Session
from ryeos.items.errors import (
    Answer,
    ApprovalRequiredError,
    ItemNotFoundError,
    RyeError,
    UsageError,
    error_envelope,
)
from ryeos.items.refs import PROJECT, SYSTEM, USER, Kind, parse_kind
from ryeos.trust.audit import SKIPPED, VALID, AuditReport, counts, targets_at, targets_in_spaces
from ryeos.trust.sign import SignReport
from ryeos.trust.sign_targets import (
    GLOB_CHARACTERS,
    ReadItem,
    SignTarget,
    target_of_path,
    targets_of_glob,
)
from ryeos.trust.verify import Target


def _configure_sign(parser: Arguments) -> None:
    add = parser.add_argument
    what = "tool:a/b, 'tool:a/**', a/b, or a file"
    add("what", metavar="REF|GLOB|PATH", nargs="+", help=what, offers="own|paths")
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
    """Read each file once: what is checked, shown and answered is what is signed."""
    arguments = session.arguments
    targets = list(dict.fromkeys(_sign_targets(session, arguments.what)))
    chosen: list[SignTarget | ReadItem] = [*targets]
    if not arguments.dry_run:
        chosen = _agreed(session, targets)
        if targets and not chosen:
            session.output.answer({"status": "cancelled"}, "nothing was signed")
            return 1
    signed = signing(session.rye, chosen, dry_run=arguments.dry_run, force=arguments.force)
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


def _agreed(session: Session, targets: Sequence[SignTarget]) -> list[SignTarget | ReadItem]:
    """The files that a person wants signed, as they were read; all where nothing is to be asked."""
    typed = session.arguments.what
    words = " ".join(map(as_word, typed))
    question = f"sign {words}"
    is_named = not any(map(_is_glob, typed))
    if not needs_person(session, question, f"rye sign {words} --yes", is_named=is_named):
        return [*targets]
    chosen: list[SignTarget | ReadItem] = []
    todo: list[ReadItem] = []
    for item in read_all(targets):
        if not isinstance(item, ReadItem) or checked(session.rye, item).error:
            chosen.append(item)  # signing says what is wrong
        elif is_signed(session.rye, item) and not session.arguments.force:
            chosen.append(item)
        else:
            todo.append(item)
    wanted = decide_each(session, session.rye, todo)
    return [*chosen, *(one.item for one in wanted if one.answer == YES)]


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
    what = "default: the project's items"
    add("what", metavar="REF|GLOB|PATH", nargs="*", help=what, offers="refs|paths")
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


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("id", metavar="ID|REF", nargs="*", help="these proposals alone (default: all)")
    add("--all", action="store_true", help="show them, and sign them without asking about each")
    add("--yes", action="store_true", help="the same as --all")
    add("--drop", action="store_true", help="drop them instead")
    add("--list", action="store_true", help="a line for each, decide nothing")
    add("--diff", action="store_true", help="with --list: show each as it would be asked")


def _run(session: Session) -> int:
    arguments = session.arguments
    is_all = arguments.all or arguments.yes
    if is_all and arguments.drop:
        raise UsageError("--all, --drop: expected one of them")
    mode = Mode.ALL if is_all else Mode.DROP if arguments.drop else Mode.ASK
    mode = Mode.LIST if arguments.list else mode
    found = _chosen_proposals(Proposals(session.context.spaces.user), arguments.id)
    is_shown = not session.output.as_json if arguments.diff else not arguments.list
    rows = decide(session, found, mode, is_shown=is_shown)
    failed = [row for row in rows if row["state"] == FAILED]
    envelope: dict[str, Any] = {"status": "error" if failed else "success", "proposals": rows}
    lines = decided_lines(rows)
    if failed:
        envelope |= {"error": failed[0]["problem"], "code": "CONFLICT"}
    elif mode is Mode.ASK and not session.can_ask and found:
        words = "".join(f" {as_word(one)}" for one in arguments.id)
        hint = f"run it at a terminal, or read them, then: rye approve{words} --all"
        error = ApprovalRequiredError(f"sign {len(found)} proposals", hint=hint)
        envelope |= {**error_envelope(error), "proposals": rows}
        session.output.answer(envelope, "\n".join(lines))
        if not session.output.as_json:
            session.output.note(f"error: {error}\n  hint: {hint}")
        return error.exit_status
    session.output.answer(envelope, "\n".join(lines))
    return 1 if failed else 0


def decide(
    session: Session, proposals: Sequence[Proposal], mode: Mode, *, is_shown: bool = False
) -> list[dict[str, Any]]:
    """What became of each proposal, as JSON: ``state`` is signed, dropped, waiting or failed.

    ``is_shown``: what is not asked about is shown nevertheless.
    """
    waiting = Proposals(session.context.spaces.user)
    rows: dict[str, dict[str, Any]] = {}
    queue = list(proposals)
    while queue:
        one = queue.pop(0)
        row, answer = _decide(session, waiting, one, mode, is_shown=is_shown)
        if answer == SKIP and one.id not in rows:
            queue.append(one)  # once more, after the others
        mode = Mode.LIST if answer == QUIT else mode
        rows[one.id] = row
    return [rows[one.id] for one in proposals]


def decided_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same for a person."""
    return [_decided_line(row) for row in rows] or ["nothing waits for approval"]


def _decided_line(row: Mapping[str, Any]) -> str:
    line = f"{row['state']:<8} {row['id']}  {one_line(row['ref'])}"
    if "problem" in row:
        return f"{line}\n  {one_line(row['problem'])}"
    if row["state"] != WAITING or "change" not in row:
        return line
    by = one_line(row.get("client") or "an agent")
    return f"{line}  {row['change']}, by {by}, {utc_text(row['proposed_at'])}"


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


def _decide(
    session: Session, waiting: Proposals, proposal: Proposal, mode: Mode, *, is_shown: bool
) -> tuple[dict[str, Any], str]:
    """What became of a proposal, and what the person answered; ``""`` without a question.

    The file is read once: the digest of the proposal is compared with these bytes, these are
    shown, and these are signed.
    """
    row = proposal.describe()
    if mode is Mode.DROP:
        waiting.decide(proposal, DROPPED)
        return {**row, "state": DROPPED}, ""
    rye = session.rye.at(proposal.project) if proposal.project else session.rye
    try:
        item = read_proposal(session.rye, proposal)
        require_no_rights([item.target])
    except LilluxError as error:
        if mode is not Mode.LIST:
            waiting.decide(proposal, FAILED)  # it is not what was proposed any longer
        problem = f"{proposal.label}: {error}; an agent may propose it again"
        return {**row, "state": FAILED, "problem": problem}, ""
    wanted_by = (
        f"{proposal.client or 'an agent'}, {utc_text(proposal.proposed_at)}, proposal {proposal.id}"
    )
    review = review_of(rye, item, wanted_by=wanted_by)
    lines = review.lines()
    row["change"] = "new" if review.is_new else "changed"
    is_asked = mode is Mode.ASK and session.can_ask
    if is_asked:
        decided = decide_one(session, rye, item, wanted_by=wanted_by, may_drop=True)
        if decided.answer == DROP:
            waiting.decide(proposal, DROPPED)
            return {**row, "state": DROPPED}, ""
        if decided.answer != YES:
            return {**row, "state": WAITING, "diff": lines}, decided.answer
        item = decided.item
    elif is_shown or session.arguments.verbose:
        for line in painted(session.output, lines):
            session.output.note(line)
    if not is_asked and mode is not Mode.ALL:
        return {**row, "state": WAITING, "diff": lines}, ""
    return _sign_proposal(rye, waiting, proposal, item, row), ""


def _sign_proposal(
    rye: Rye, waiting: Proposals, proposal: Proposal, item: ReadItem, row: dict[str, Any]
) -> dict[str, Any]:
    reports = list(signing(rye, [item], dry_run=False, force=False))
    error = reports[0].error
    if error:
        return {**row, "state": FAILED, "problem": f"{proposal.label}: {error}"}
    follow(rye, reports)
    waiting.decide(proposal, SIGNED)
    return {**row, "state": SIGNED}


SIGN = CommandSpec(
    _configure_sign,
    _run_sign,
    [
        "rye sign tool:mine/hello",
        "rye sign 'tool:mine/**' --dry-run",
        "rye sign .ai/directives/mine/review.md",
        "rye sign directive:review --space user",
    ],
)
VERIFY = CommandSpec(
    _configure_verify,
    _run_verify,
    [
        "rye verify",
        "rye verify tool:mine/hello",
        "rye verify --all --json",
        "rye verify ./unpacked-package",
    ],
)
APPROVE = CommandSpec(
    _configure,
    _run,
    [
        "rye approve",
        "rye approve --list",
        "rye approve --list --diff",
        "rye approve tool:shop/total",
        "rye approve --all",
        "rye approve --drop 1f0c9a77d2b4",
    ],
)
