"""``rye test``: run the test cases of tools."""

from collections import Counter
from pathlib import Path
from typing import Any

from lillux.files import write_atomic
from lillux.foreign_text import one_line
from ryeos.app.case_files import case_files, no_cases_error
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.item_tests import CaseResult, CaseState, PlannedCase, planned, run_cases
from ryeos.app.junit import junit_xml
from ryeos.cli.session import Session, cancelled_by_signals
from ryeos.items.errors import UsageError

INTERRUPTED = 130
_COLORS = {CaseState.PASSED: "green", CaseState.FAILED: "red", CaseState.SKIPPED: "yellow"}


def _configure_test(parser: Arguments) -> None:
    add = parser.add_argument
    what = "tools; without one all of the project"
    add("what", metavar="REF|GLOB", nargs="*", help=what, offers="tools")
    add("-k", "--containing", metavar="TEXT", help="only cases with this in id or name")
    add("--list", action="store_true", help="say which cases there are, run none")
    add("--junit", metavar="FILE", help="write the results as JUnit's XML too")
    add("--jobs", metavar="N", type=int, default=0, help="cases at once, default up to 4")


def _run_test(session: Session) -> int:
    arguments = session.arguments
    if arguments.jobs < 0:
        raise UsageError(f"--jobs: expected 1 or more, found {arguments.jobs}")
    cases = _chosen_cases(session)
    if arguments.list:
        listed = [{"ref": case.ref, "name": case.case.name} for case in cases]
        lines = "\n".join(f"{one_line(case.ref)}: {one_line(case.case.name)}" for case in cases)
        session.output.answer({"status": "success", "cases": listed}, lines)
        return 0
    cancellation = cancelled_by_signals()
    results = run_cases(
        session.rye,
        cases,
        at_once=arguments.jobs,
        cancellation=cancellation,
        on_result=lambda result: _tell(session, result),
    )
    if arguments.junit:
        write_atomic(Path(arguments.junit), junit_xml(results).encode())
    status = _show_tests(session, results)
    return INTERRUPTED if cancellation.is_set else status


def _chosen_cases(session: Session) -> list[PlannedCase]:
    arguments = session.arguments
    wanted = (arguments.containing or "").lower()
    cases = [
        case
        for case in planned(session.rye, case_files(session.rye, arguments.what))
        if wanted in f"{case.ref} {case.case.name}".lower()
    ]
    if not cases:
        raise no_cases_error(f"none has {arguments.containing!r} in its id or name")
    return cases


def _tell(session: Session, result: CaseResult) -> None:
    """A line for each case as it ends, and what is wrong with it."""
    if result.state is CaseState.PASSED and session.output.quiet:
        return
    if session.output.as_json:
        return
    mark = session.output.paint(result.state.value, _COLORS[result.state])
    name = f"{one_line(result.ref)}: {one_line(result.name)}"
    lines = [f"{mark}  {name} ({result.duration_s * 1000:.0f} ms)"]
    lines += [f"        {one_line(problem)}" for problem in result.problems]
    session.output.text("\n".join(lines))


def _show_tests(session: Session, results: list[CaseResult]) -> int:
    counts = Counter(result.state.value for result in results)
    found = {state.value: counts[state.value] for state in CaseState}
    summary = ", ".join(f"{number} {state}" for state, number in found.items() if number)
    envelope: dict[str, Any] = {
        "status": "success",
        "cases": [result.describe() for result in results],
        "counts": found,
    }
    has_failed = bool(found[CaseState.FAILED.value])
    if has_failed:
        envelope |= {"status": "error", "error": summary, "code": "EXECUTION_FAILED"}
    session.output.answer(envelope, summary)
    return 1 if has_failed else 0


TEST = CommandSpec(
    _configure_test,
    _run_test,
    ["rye test", "rye test mine/hello", "rye test 'shop/**' -k price --junit results.xml"],
)
