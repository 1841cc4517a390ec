"""``rye sign``: validate and sign items by reference, glob or path."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.envelope import error_envelope
from ryeos.errors import InvalidRefError
from ryeos.items import PROJECT, SYSTEM, USER, Kind, parse_kind, parse_reference
from ryeos.sign import Signer, SignReport, check_item, check_writable, read_item
from ryeos.sign_targets import (
    GLOB_CHARACTERS,
    SignTarget,
    target_of_path,
    targets_of_glob,
    targets_of_reference,
)


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
    if arguments.dry_run:
        reports = [_checked(target) for target in targets]
    else:
        signer = Signer(session.rye.signing_key(), session.rye.verifier)
        reports = list(_with_progress(session, signer.sign_all(targets, force=arguments.force)))
    for report in reports:
        for warning in report.warnings:
            session.output.warn(warning)
    if len(arguments.what) == 1 and len(reports) == 1 and not _is_glob(arguments.what[0]):
        return _show_one(session, reports[0])
    return _show_batch(session, reports)


def _targets(session: Session, typed: list[str]) -> Iterator[SignTarget]:
    for text in typed:
        if _is_path(text):
            yield target_of_path(Path(text), session.context.spaces)
            continue
        space = session.rye.space(session.arguments.space)
        if _is_glob(text):
            yield from targets_of_glob(*_glob(text), space)
        else:
            yield from targets_of_reference(parse_reference(text), space)


def _is_glob(text: str) -> bool:
    return bool(GLOB_CHARACTERS & set(text)) and not _is_path(text)


def _is_path(text: str) -> bool:
    """A file that exists is meant as a path, unless a kind stands before it."""
    looks_like_one = "/.ai/" in f"/{text}" or text.startswith(("./", "../", "/"))
    return looks_like_one or (":" not in text and Path(text).suffix != "" and Path(text).is_file())


def _glob(text: str) -> tuple[Kind | None, str]:
    prefix, colon, pattern = text.partition(":")
    if colon and not pattern:
        raise InvalidRefError(text, f"expected a pattern after '{prefix}:'")
    return (parse_kind(prefix, text), pattern) if colon else (None, text)


def _checked(target: SignTarget) -> SignReport:
    from lillux.errors import LilluxError

    try:
        check_writable(target)
        check_item(target, read_item(target))
    except LilluxError as error:
        return SignReport(target=target, error=error)
    return SignReport(target=target)


def _with_progress(session: Session, reports: Iterator[SignReport]) -> Iterator[SignReport]:
    for number, report in enumerate(reports, 1):
        if session.arguments.verbose:
            session.output.note(f"{number}: {report.target.label}")
        yield report


def _show_one(session: Session, report: SignReport) -> int:
    if report.error:
        raise report.error
    envelope = _describe(report)
    if report.signature is None:
        words = f"{report.target.label} can be signed"
    elif report.unchanged:
        words = f"{report.target.label} is signed already, by {report.signature.fingerprint}"
    else:
        words = f"signed {report.target.label} with {report.signature.fingerprint}"
    session.output.answer(envelope, words)
    return 0


def _describe(report: SignReport) -> dict[str, Any]:
    target, signature = report.target, report.signature
    described: dict[str, Any] = {
        "status": "signed" if signature else "validation_passed",
        "item_id": target.ref.id if target.ref else None,
        "ref": str(target.ref) if target.ref else None,
        "path": str(target.path),
        "location": target.space.label,
        "unchanged": report.unchanged,
        "warnings": list(report.warnings),
    }
    if signature:
        described["signature"] = {
            "timestamp": signature.timestamp,
            "hash": signature.content_hash,
            "key_fingerprint": signature.fingerprint,
            "valid": True,
        }
    return described


def _show_batch(session: Session, reports: list[SignReport]) -> int:
    done = [r.target.label for r in reports if not r.error and not r.unchanged]
    unchanged = [r.target.label for r in reports if r.unchanged]
    failed = [
        {"item": r.target.label, **error_envelope(r.error)} for r in reports if r.error is not None
    ]
    verb = "Checked" if session.arguments.dry_run else "Signed"
    good = len(reports) - len(failed)
    summary = f"{verb} {good}/{len(reports)} items, {len(failed)} failed"
    envelope = {
        "status": "completed" if good else "error",
        "signed": [] if session.arguments.dry_run else done,
        "unchanged": unchanged,
        "failed": failed,
        "total": len(reports),
        "summary": summary,
    }
    if not good:
        envelope |= {"error": summary, "code": failed[0]["code"]}
    for failure in failed:
        _say_failure(session, failure)
    session.output.answer(envelope, summary)
    return 1 if failed else 0


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
