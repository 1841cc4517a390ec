"""``rye dev``: sign and run an item again whenever its file is saved.

The person's consent is for this item and this session: what anything else writes into the file is
signed too while it runs, so the question says so.
"""

import os
import sys
import time
from pathlib import Path

from lillux.errors import LilluxError, as_word
from ryeos.app.command_line import OWN_FLAG, Arguments, CommandSpec
from ryeos.app.review import review_of
from ryeos.app.sign import follow, is_signed, signing
from ryeos.cli.run import execute, in_shell, values_of, with_paths
from ryeos.cli.session import Session, interrupt_on_signals
from ryeos.items.errors import SystemImmutableError
from ryeos.items.refs import SYSTEM
from ryeos.run.model import ExecutionRequest
from ryeos.trust.sign_targets import ReadItem, SignTarget, read_item

POLL_S = 0.2
Mark = tuple[int, int, int] | None
"""Change time, size and number of a file; None where there is none."""


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="an item of the project or of user space", offers="own")
    add("pairs", metavar="k=v", nargs="*", help="its parameters, as for rye run")
    add("-y", "--yes", action="store_true", help="do not ask before the first signature")


def _dev(session: Session) -> int:
    location = session.rye.resolver.resolve(session.rye.reference(session.arguments.ref)).location
    if location.space.tier == SYSTEM:
        raise SystemImmutableError(str(location.ref))
    target = SignTarget(
        path=location.path, kind=location.ref.kind, space=location.space, ref=location.ref
    )
    item = read_item(target)
    question = f"sign and run {location.ref} whenever {location.path} is saved, until Ctrl-C?"
    shown = review_of(session.rye, item).lines()
    pairs = [pair for pair in session.arguments.pairs if not pair.startswith(OWN_FLAG)]
    line = f"rye dev {' '.join(map(as_word, [session.arguments.ref, *pairs]))}"
    if not session.confirm(question, shown if session.can_ask else (), f"{line} --yes"):
        session.output.note("nothing was signed")
        return 1
    while True:
        seen = _mark(location.path)
        try:
            seen = _sign(session, item, seen)
            _run(session, target)
        except LilluxError as error:
            sys.stderr.write(f"error: {error}\n")
            if error.hint:
                sys.stderr.write(f"  hint: {error.hint}\n")
        interrupt_on_signals()  # a run takes them for itself: the first one ends the run alone
        session.output.note(f"waiting for {location.path}; Ctrl-C ends it")
        item = _await_read(target, seen)


def _await_read(target: SignTarget, seen: Mark) -> ReadItem:
    """The file once it is another than ``seen``, read once for all that is done with it."""
    while True:
        await_save(target.path, seen)
        seen = _mark(target.path)
        try:
            return read_item(target)
        except LilluxError as error:
            sys.stderr.write(f"error: {error}\n")


def _sign(session: Session, item: ReadItem, seen: Mark) -> Mark:
    """Validate and sign what was read; the marks of the file. Raises LilluxError.

    Where something else stands there by then, the marks of before stay: that is seen as a change.
    """
    reports = list(signing(session.rye, (item,), dry_run=False, force=False))
    if reports[0].error:
        raise reports[0].error
    follow(session.rye, reports)
    after = _mark(item.target.path)  # before it is run: what is saved meanwhile is another file
    is_ours = is_signed(session.rye, read_item(item.target)) == reports[0].signature
    return after if is_ours else seen


def _run(session: Session, target: SignTarget) -> None:
    """Run it and show what it gave. Raises LilluxError."""
    rye = session.rye
    reference = rye.reference(str(target.ref))
    rye.executor.invalidate_tool(reference.id)
    schema = rye.schema_of(reference)
    given = with_paths(values_of(session.arguments.pairs, lambda: schema), schema, in_shell)
    execute(session, reference, ExecutionRequest(item_id=reference.id, parameters=given))


def await_save(path: Path, seen: Mark) -> None:
    """Return once the file is there and another than ``seen``."""
    while _mark(path) in (seen, None):
        time.sleep(POLL_S)


def _mark(path: Path) -> Mark:
    try:
        found = os.stat(path)  # noqa: PTH116 - several times a second
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


DEV = CommandSpec(
    _configure,
    _dev,
    ["rye dev mine/hello name=Ada", "rye dev mine/hello --yes"],
    takes_item_flags=True,
    has_spinner=False,
)
