"""What the commands about remotes share: their flags, the link to a node, and words for it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lillux.process.cancellation import Cancellation
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.progress_bar import ProgressBar
from ryeos.cli.session import Session
from ryeos.cli.signals import cancelled_by_signals
from ryeos.errors import UsageError
from ryeos.remote.apply import Applied
from ryeos.remote.link import Link
from ryeos.remote.opening import Surroundings, open_link

SHOWN_PATHS = 20
_THREAD_ID = re.compile(r"[A-Za-z0-9._:-]{1,300}")


def take_remote(parser: Arguments) -> None:
    """Declare which remote is meant."""
    parser.add_argument("--remote", metavar="NAME", help="the remote (default)")


def take_limit(parser: Arguments, shown: int) -> None:
    """Declare how many rows are shown."""
    parser.add_argument("--limit", metavar="N", type=int, help=f"at most so many ({shown})")


def limit_of(session: Session, shown: int) -> int:
    """The rows that were asked for. Raises UsageError."""
    limit = session.arguments.limit
    if limit is not None and limit < 1:
        raise UsageError(f"--limit: expected a number from 1 up, found {limit}")
    return shown if limit is None else int(limit)


@contextmanager
def surroundings(
    session: Session, cancellation: Cancellation | None = None
) -> Iterator[Surroundings]:
    """What remotes are opened with: signals end what is asked, a line says how far it is."""
    bar = ProgressBar(session.output)

    def tell_merged(remote: str, applied: Applied) -> None:
        bar.end()
        if not session.output.as_json:
            session.output.note(f"merged in from {remote}:\n{listed(marked(applied))}")

    try:
        yield Surroundings(
            workspace=session.rye,
            progress=bar.tell,
            tell_merged=tell_merged,
            cancellation=cancellation or cancelled_by_signals(),
        )
    finally:
        bar.end()


@contextmanager
def linked(session: Session) -> Iterator[Link]:
    """The project and its counterpart on the remote that was named."""
    with surroundings(session) as around:
        yield open_link(around, session.arguments.remote)


def listed(
    paths: tuple[str, ...] | list[str], paint: Callable[[str], str] = lambda text: text
) -> str:
    """Paths, one a line, the first of many."""
    lines = [paint(f"  {one_line(path)}") for path in paths[:SHOWN_PATHS]]
    if len(paths) > SHOWN_PATHS:
        lines.append(f"  and {len(paths) - SHOWN_PATHS} more")
    return "\n".join(lines)


def marked(applied: Applied) -> list[str]:
    """What was changed here: ``+`` added, ``~`` changed, ``-`` removed, by path."""
    marks = dict.fromkeys(applied.written, "~") | dict.fromkeys(applied.added, "+")
    marks |= dict.fromkeys(applied.removed, "-")
    return [f"{marks[path]} {one_line(path)}" for path in sorted(marks)]


def check_thread_id(thread_id: str) -> str:
    """An id that can be a part of an address. Raises UsageError."""
    if not _THREAD_ID.fullmatch(thread_id):
        raise UsageError(f"{thread_id[:80]!r}: expected the id of a run on the node")
    return thread_id


def short(digest: str | None) -> str:
    """As much of a digest as tells it apart."""
    return digest[:12] if digest else "none"
