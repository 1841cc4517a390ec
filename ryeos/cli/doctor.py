"""``rye doctor``: is everything there that Rye needs, and what to do where it is not."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ryeos.cli.checks import all_checks
from ryeos.cli.findings import DONE, FAIL, OK, WARN, Check
from ryeos.cli.mending import mend
from ryeos.cli.output import steers_nothing
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session

_COLORS = {OK: "green", WARN: "yellow", FAIL: "red", DONE: "green"}


def _configure(parser: Arguments) -> None:
    parser.add_argument(
        "--fix", action="store_true", help="mend what needs no decision, then check again"
    )
    parser.add_argument("--offline", action="store_true", help="ask nothing over the network")


def _run(session: Session) -> int:
    checks = all_checks(session)
    mended = list(mend(checks)) if session.arguments.fix else []
    if mended:
        checks = all_checks(session)
    found = Counter(check.status for check in checks)
    summary = f"{found[OK]} ok, {found[WARN]} to look at, {found[FAIL]} broken"
    envelope: dict[str, Any] = {
        "status": "error" if found[FAIL] else "success",
        "checks": [check.describe() for check in checks],
        "counts": {status: found[status] for status in (OK, WARN, FAIL)},
    }
    if session.arguments.fix:
        envelope["mended"] = [check.describe() for check in mended]
    if found[FAIL]:
        first = next(check for check in checks if check.status == FAIL)
        envelope |= {"error": f"{first.name}: {first.message}", "code": "CONFIG_ERROR"}
        envelope |= {"hint": first.fix} if first.fix else {}
    session.output.answer(envelope, "\n".join([*_lines(session, [*mended, *checks]), summary]))
    left = sum(check.mend is not None for check in checks)
    if left and not session.arguments.fix:
        session.output.note(f"{left} of these can be mended with: rye doctor --fix")
    return 1 if found[FAIL] else 0


def _lines(session: Session, checks: list[Check]) -> Iterator[str]:
    for check in checks:
        status = session.output.paint(f"{check.status:<4}", _COLORS[check.status])
        # Names of a project's files are in what is found; its lines are ours.
        yield f"{status}  {check.name:<12}  {steers_nothing(check.message)}"
        if check.fix:
            yield f"{'':<20}fix: {steers_nothing(check.fix)}"


COMMANDS = {
    "doctor": Command(
        _configure, _run, ["rye doctor", "rye doctor --fix", "rye doctor --offline --json"]
    )
}
