"""``rye sign``: validate and sign items by reference, glob or path."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.envelope import Answer
from ryeos.items import PROJECT, SYSTEM, USER
from ryeos.mcp.references import project_of
from ryeos.mcp.tools.sign import batch_answer, is_glob, signing, single_answer, targets_of
from ryeos.sign import SignReport
from ryeos.sign_targets import SignTarget, target_of_path


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("what", metavar="REF|GLOB|PATH", nargs="+", help="tool:a/b, 'tool:a/**', a/b, or a file")
    add(
        "--space",
        choices=(PROJECT, USER, SYSTEM),
        default=PROJECT,
        help="where a REF or GLOB is looked up (default: project)",
    )
    add("--dry-run", action="store_true", help="validate, write nothing")
    add("--force", action="store_true", help="sign again what is validly signed by this key")


def _run(session: Session) -> int:
    arguments = session.arguments
    targets = list(dict.fromkeys(_targets(session, arguments.what)))
    signed = signing(session.rye, targets, dry_run=arguments.dry_run, force=arguments.force)
    reports = list(_with_progress(session, signed))
    for report in reports:
        for warning in report.warnings:
            session.output.warn(warning)
    if len(arguments.what) == 1 and len(reports) == 1 and not _is_glob(arguments.what[0]):
        return _show_one(session, reports[0])
    return _show_batch(session, reports)


def _targets(session: Session, typed: list[str]) -> Iterator[SignTarget]:
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


def _show_one(session: Session, report: SignReport) -> int:
    if report.error:
        raise report.error
    envelope = _in_project(session, single_answer(report))
    session.output.answer(envelope, envelope["message"])
    return 0


def _show_batch(session: Session, reports: list[SignReport]) -> int:
    answer = batch_answer(reports, len(reports), dry_run=session.arguments.dry_run)
    for failure in answer.envelope["failed"]:
        _say_failure(session, failure)
    envelope = _in_project(session, answer)
    session.output.answer(envelope, envelope["summary"])
    return answer.exit_status


def _in_project(session: Session, answer: Answer) -> dict[str, Any]:
    return {**answer.envelope, "project_path": project_of(session.rye)}


def _say_failure(session: Session, failure: dict[str, Any]) -> None:
    if session.output.as_json:
        return
    sys.stderr.write(f"error: {failure['error']}\n")
    if failure.get("hint"):
        sys.stderr.write(f"  hint: {failure['hint']}\n")


COMMANDS = {
    "sign": Command(
        _configure,
        _run,
        [
            "rye sign tool:mine/hello",
            "rye sign 'tool:mine/**' --dry-run",
            "rye sign .ai/directives/mine/review.md",
            "rye sign directive:review --space user",
        ],
    )
}
