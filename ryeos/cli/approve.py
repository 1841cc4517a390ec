"""``rye approve``: what agents want signed; a person reads what changed, and signs or drops it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
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
    require_no_rights,
    target_of,
)
from ryeos.app.sign import follow, signing
from ryeos.cli.arguments import Arguments
from ryeos.cli.session import CommandSpec, Session
from ryeos.items.errors import RyeError, UsageError
from ryeos.trust.sign import SignTarget
from ryeos.trust.signature import MAX_ITEM_BYTES


class Mode(StrEnum):
    """How proposals are decided: each by a question, or all in one way."""

    ASK = "ask"
    ALL = "all"
    DROP = "drop"
    LIST = "list"


_COLORS = {"+": "green", "-": "red", "@": "dim"}


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
    found = _chosen(Proposals(session.context.spaces.user), arguments.id)
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


def _chosen(waiting: Proposals, named: list[str]) -> list[Proposal]:
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
    shown = list(_shown(session, proposal, target))
    if mode is not Mode.ALL or session.arguments.verbose:
        for line in shown:
            session.output.note(line)
    answer = "y" if mode is Mode.ALL else _asked(session, proposal, mode)
    if answer == "d":
        waiting.decide(proposal, DROPPED)
        return {**row, "state": DROPPED}
    if answer != "y":
        return {**row, "state": WAITING, "diff": shown[1:]}
    return _signed(session, waiting, proposal, target, row)


def _signed(
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


def _shown(session: Session, proposal: Proposal, target: SignTarget) -> Iterator[str]:
    """The item, who wants it signed, and what changed since it was signed last."""
    who = one_line(proposal.client) or "an agent"
    yield f"{proposal.id}  {one_line(proposal.label)}  wanted by {who}, {proposal.proposed_at}"
    data = read_bytes(target.path, MAX_ITEM_BYTES)
    for line in changes(session.context.spaces.user, target, data):
        color = _COLORS.get(line[:1])
        yield session.output.paint(line, color, stream=sys.stderr) if color else line


def _asked(session: Session, proposal: Proposal, mode: Mode) -> str:
    """``y``, ``n`` or ``d``; ``n`` without a terminal."""
    is_silent = mode is Mode.LIST or session.arguments.no_input or session.output.as_json
    if is_silent or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "n"
    sys.stderr.write(f"sign {one_line(proposal.label)}? [y]es, [n]ot now, [d]rop it: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower()[:1] or "n"


COMMANDS = {
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
