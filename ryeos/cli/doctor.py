"""``rye doctor``: checks this installation, and fixes what needs no decision."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lillux.errors import LilluxError, as_word
from lillux.foreign_text import one_line, without_control_characters
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.doctor_probes import (
    CLIENT_PROBES,
    INTERPRETER_PROBES,
    MACHINE_PROBES,
    REMOTE_PROBES,
    clock,
    handshake,
    relative_user_space,
    rights,
    windows,
)
from ryeos.cli.findings import (
    DONE,
    FAIL,
    OK,
    WARN,
    Finding,
    Probe,
    fix_findings,
    keep_from_others,
    make_user_space,
)
from ryeos.cli.session import ANOTHER_USER_SPACE, Session, is_writable

_COLORS = {OK: "green", WARN: "yellow", FAIL: "red", DONE: "green"}


def _configure(parser: Arguments) -> None:
    parser.add_argument(
        "--fix", action="store_true", help="fix what needs no decision, then check again"
    )
    parser.add_argument("--offline", action="store_true", help="ask nothing over the network")


def _run(session: Session) -> int:
    checks = all_checks(session)
    fixed = list(fix_findings(checks)) if session.arguments.fix else []
    if fixed:
        checks = all_checks(session)
    found = Counter(check.status for check in checks)
    summary = f"{found[OK]} ok, {found[WARN]} to look at, {found[FAIL]} broken"
    envelope: dict[str, Any] = {
        "status": "error" if found[FAIL] else "success",
        "checks": [check.describe() for check in checks],
        "counts": {status: found[status] for status in (OK, WARN, FAIL)},
    }
    if session.arguments.fix:
        envelope["fixed"] = [check.describe() for check in fixed]
        envelope["mended"] = envelope["fixed"]  # the older name, for one release
    if found[FAIL]:
        first = next(check for check in checks if check.status == FAIL)
        envelope |= {"error": f"{first.name}: {first.message}", "code": "CONFIG_ERROR"}
        envelope |= {"hint": first.fix} if first.fix else {}
    session.output.answer(envelope, "\n".join([*_lines(session, [*fixed, *checks]), summary]))
    left = sum(check.apply is not None for check in checks)
    if left and not session.arguments.fix:
        session.output.note(f"{left} of these can be fixed with: rye doctor --fix")
    return 1 if found[FAIL] else 0


def _lines(session: Session, checks: list[Finding]) -> Iterator[str]:
    for check in checks:
        status = session.output.paint(f"{check.status:<4}", _COLORS[check.status])
        # Names of a project's files are in what is found; its lines are ours.
        yield f"{status}  {check.name:<12}  {without_control_characters(check.message)}"
        if check.fix:
            yield f"{'':<20}fix: {without_control_characters(check.fix)}"


# --- checks ---------------------------------------------------------------------------------------
# What ``rye doctor`` looks at: a function for each part of an installation.
#
# Each yields what it found: fine, worth a look, or broken, with what to do about it, and how, where
# ``--fix`` may do it. Nothing is changed before that; only remotes of the user are asked over the
# network, unless ``--offline`` is given.

_MAX_NAMED = 5


def all_checks(session: Session) -> list[Finding]:
    """Everything, in an order that puts causes before effects."""
    found = _collect(session, MACHINE_PROBES)
    if any(check.name == "settings" and check.status == FAIL for check in found):
        return found  # nothing else can be looked at
    return found + _collect(session, (*_QUICK, *_ITEMS))


def quick_checks(session: Session) -> list[Finding]:
    """What can be said without reading items."""
    return _collect(session, _QUICK)


def _collect(session: Session, probes: tuple[tuple[str, Probe], ...]) -> list[Finding]:
    found: list[Finding] = []
    for name, probe in probes:
        try:
            found += probe(session)
        except LilluxError as error:
            found.append(Finding(name, FAIL, str(error), error.hint))
    return found


# --- the bundle, user space, keys, the project ----------------------------------------------------


def _bundles(session: Session) -> Iterator[Finding]:
    from ryeos.trust.bundles import manifest_signer, read_manifest

    for bundle in session.context.spaces.bundles:
        key = session.rye.trust.get_key(manifest_signer(bundle), bundle.label)
        public_pem = bundle.pinned_pem or (key.public_pem if key else b"")
        manifest = read_manifest(bundle, public_pem) if public_pem else None
        if manifest:
            message = f"{bundle.label} {bundle.version}: {len(manifest.files)} files, signed"
            yield Finding("bundle", OK, f"{message}, {bundle.base}")
        else:
            message = f"{bundle.label}: no manifest; each file is verified by itself"
            yield Finding("bundle", WARN, f"{message}, {bundle.base}")


def _user_space(session: Session) -> Iterator[Finding]:
    from ryeos.trust.keys import require_user_space

    ai = require_user_space(session.context).ai
    # What may not even be looked at counts as missing here: os.path never raises.
    there = os.path.isdir(ai)  # noqa: PTH112
    above = next((folder for folder in ai.parents if os.path.exists(folder)), ai.parent)  # noqa: PTH110
    if not there and not is_writable(ai):
        message = f"{ai}: not there, and {above} cannot be written to"
        yield Finding("user space", WARN, message, ANOTHER_USER_SPACE)
    elif not there:
        fix = "only needed to sign, and for items of your own: rye init"
        # A user who named it so would find it nowhere else.
        is_lasting = not relative_user_space(session)
        apply = make_user_space(require_user_space(session.context)) if is_lasting else None
        yield Finding("user space", WARN, f"{ai}: not there yet", fix, apply)
    elif not is_writable(ai):
        message = f"{ai}: read-only; keys and approvals cannot be kept"
        yield Finding("user space", WARN, message, ANOTHER_USER_SPACE)
    else:
        yield Finding("user space", OK, str(ai))


def _signing_key(session: Session) -> Iterator[Finding]:
    from lillux.files import others_may
    from lillux.key_files import exposed_key_files
    from ryeos.items.errors import NoSigningKeyError
    from ryeos.items.refs import USER

    try:
        key = session.rye.signing_key()
    except NoSigningKeyError as error:
        yield Finding("signing key", WARN, str(error), "only needed to sign: rye keys generate")
        return
    yield Finding("signing key", OK, f"{key.fingerprint}, {session.context.key_directory}")
    directory = session.context.key_directory
    for path in exposed_key_files(directory):
        message = f"{path}: other users of this machine can read or write it"
        yield Finding("signing key", FAIL, message, f"chmod 600 {path}", keep_from_others(path))
    if others_may(directory, 0o022) and not directory.stat().st_mode & stat.S_ISVTX:
        message = f"{directory}: other users of this machine can replace the key"
        fix = f"chmod 700 {directory}"
        yield Finding("signing key", FAIL, message, fix, keep_from_others(directory))
    if session.rye.trust.get_key(key.fingerprint, USER) is None:
        message = f"{key.fingerprint} is not trusted, so what you sign is refused"
        yield Finding("signing key", FAIL, message, "rye init")


def _trust(session: Session) -> Iterator[Finding]:
    from ryeos.trust.key_states import key_states

    approvals = session.rye.approvals
    approvals.is_approved(session.context.working_directory, "")  # a broken file is said here
    states = key_states(session.rye.trust, approvals)
    counting = {state.fingerprint for state in states if state.counts}
    yield Finding("trust", OK, f"{len(counting)} keys are trusted")
    for state in states:
        if not state.counts:
            message = f"{state.path}: {one_line(state.problem)}"
            yield Finding("trust", WARN, message, state.hint or "rye keys list")


def _project(session: Session) -> Iterator[Finding]:
    from ryeos.cli.program import project_reason

    path, reason = session.context.project_path, project_reason(session)
    if path is None:
        yield Finding("project", OK, reason)
    elif path.is_dir() and not os.access(path, os.W_OK):
        yield Finding("project", WARN, f"{path} ({reason}): read-only, no lockfiles are written")
    else:
        yield Finding("project", OK, f"{path} ({reason})")


# --- items ----------------------------------------------------------------------------------------


def _signatures(session: Session) -> Iterator[Finding]:
    from ryeos.items.refs import SYSTEM
    from ryeos.trust.audit import SKIPPED, VALID, counts, targets_in_spaces

    own = [space for space in session.rye.context.spaces if space.tier != SYSTEM]
    reports = session.rye.audit(list(targets_in_spaces(own)))
    found = {state: n for state, n in counts(reports).items() if state != SKIPPED}
    message = ", ".join(f"{number} {state}" for state, number in found.items()) or "no items yet"
    bad = [report for report in reports if report.state not in (VALID, SKIPPED)]
    broken = [report for report in bad if report.state in ("tampered", "bad-format")]
    fix = f"rye verify {as_word(bad[0].target.path)}" if bad else ""
    yield Finding("items", FAIL if broken else WARN if bad else OK, message, fix)


def _shadowing(session: Session) -> Iterator[Finding]:
    from ryeos.items.refs import EXECUTABLE_KINDS, SYSTEM
    from ryeos.trust.resolver import CORE_PREFIXES, locations

    below: set[object] = set()
    hiding = []
    for space in reversed(list(session.rye.context.spaces)):
        refs = {found.ref for kind in EXECUTABLE_KINDS for found in locations(space, kind)}
        hiding += [(ref, space) for ref in sorted(refs & below) if space.tier != SYSTEM]
        below |= refs
    core = [(ref, space) for ref, space in hiding if ref.id.startswith(CORE_PREFIXES)]
    named = ", ".join(f"{ref} ({space.label})" for ref, space in hiding[:_MAX_NAMED])
    more = f" and {len(hiding) - _MAX_NAMED} more" if len(hiding) > _MAX_NAMED else ""
    if hiding:
        yield Finding("shadowing", OK, f"{len(hiding)} items hide others: {named}{more}")
    for ref, space in core:
        message = f"{ref}: the {space.label} space replaces a part of the core"
        yield Finding("core", WARN, message, "remove it, or set RYE_PROTECT_CORE=1")


_QUICK: tuple[tuple[str, Probe], ...] = (
    ("bundle", _bundles),
    ("user space", _user_space),
    ("signing key", _signing_key),
    ("trust", _trust),
    ("project", _project),
)
_ITEMS: tuple[tuple[str, Probe], ...] = (
    ("rights", rights),
    *INTERPRETER_PROBES,
    ("items", _signatures),
    ("shadowing", _shadowing),
    ("clock", clock),
    ("windows", windows),
    *CLIENT_PROBES,
    ("mcp", handshake),
    *REMOTE_PROBES,
)


DOCTOR = CommandSpec(
    _configure, _run, ["rye doctor", "rye doctor --fix", "rye doctor --offline --json"]
)
