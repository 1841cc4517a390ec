"""``rye verify``: the signature state of items, globs, files and folders."""

from collections.abc import Iterator
from pathlib import Path

from ryeos.audit import SKIPPED, VALID, AuditReport, counts, targets_at, targets_in_spaces
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import ItemNotFoundError
from ryeos.items import PROJECT, Kind, parse_kind
from ryeos.sign_targets import GLOB_CHARACTERS, targets_of_glob
from ryeos.verify import Target

_COLORS = {VALID: "green", SKIPPED: "dim", "unsigned": "yellow"}


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("what", metavar="REF|GLOB|PATH", nargs="*", help="default: the project's items")
    add("--all", action="store_true", help="every item of every space")


def _run(session: Session) -> int:
    targets = list(dict.fromkeys(_targets(session)))
    reports = session.rye.audit(targets)
    found = counts(reports)
    bad = [report for report in reports if report.state not in (VALID, SKIPPED)]
    envelope = {
        "status": "success" if not bad else "error",
        "items": [report.describe() for report in reports],
        "counts": found,
    }
    summary = ", ".join(f"{number} {state}" for state, number in found.items()) or "no items"
    if bad:
        envelope |= {"error": f"not everything is valid: {summary}", "code": "INTEGRITY"}
    session.output.answer(envelope, "\n".join([*_lines(session, reports), summary]))
    return 1 if bad else 0


def _targets(session: Session) -> Iterator[Target]:
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


def _lines(session: Session, reports: list[AuditReport]) -> Iterator[str]:
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


COMMANDS = {
    "verify": Command(
        _configure,
        _run,
        [
            "rye verify",
            "rye verify tool:mine/hello",
            "rye verify --all --json",
            "rye verify ./unpacked-package",
        ],
    )
}
