"""Runs on a remote, as ``rye run --target`` and ``rye remote execute`` start them."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.foreign_text import one_line, without_control_characters
from ryeos.app.command_line import Arguments
from ryeos.cli.progress import ProgressBar
from ryeos.cli.session import Session, cancelled_by_signals
from ryeos.items.errors import Answer, UsageError
from ryeos.items.refs import Reference
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.link import Link, RemoteEnvironment, open_link
from ryeos.remote.remote_values import is_team_name
from ryeos.remote.requests import LOG_CUT
from ryeos.remote.run import RemoteOptions, RunFollower
from ryeos.remote.run_answers import execute_on
from ryeos.run.model import ExecutionRequest

GRAPH_REFS = ".ai/state/objects/refs/graphs/"


def run_on(
    session: Session,
    remote: str | None,
    reference: Reference,
    request: ExecutionRequest,
    options: RemoteOptions,
    *,
    written: "Written",
) -> tuple[Answer, bool]:
    """The answer of a remote, and whether ``written`` got what it wrote. Raises as `execute_on`."""
    cancellation, bar = cancelled_by_signals(), ProgressBar(session.output)
    live = LiveOutput(session, bar, written)
    follower = RunFollower(
        on_output=live.take, on_cancelled=live.say_cancelled, cancellation=cancellation
    )
    # One document shows nothing while the run goes on: one request then waits for its answer.
    heard = None if session.output.as_json else follower
    with remote_environment(session, cancellation, bar) as around:
        answer = execute_on(around, remote, reference, request, options, follower=heard)
    live.complete(answer)
    if options.resigns:
        _write_pages(session, answer)
    return answer, live.was_followed


class Written(Protocol):
    """Passes on what a program writes to its streams."""

    def stdout(self, chunk: bytes) -> None:
        """Take standard output."""

    def stderr(self, chunk: bytes) -> None:
        """Take standard error."""


class LiveOutput:
    """Shows what a run on a node writes, each stream on its own one here, as it comes.

    A node's text is shown on a terminal without what would steer it.
    """

    def __init__(self, session: Session, bar: ProgressBar, written: Written) -> None:
        self._session, self._bar, self._written = session, bar, written
        self._texts: dict[str, list[str]] = {"stdout": [], "stderr": []}

    @property
    def was_followed(self) -> bool:
        """Whether anything was shown."""
        return any(self._texts.values())

    def take(self, stream: str, text: str) -> None:
        """Show a text."""
        self._bar.end()
        text = text.removesuffix(LOG_CUT)  # what is missing comes with the answer
        self._texts["stderr" if stream == "stderr" else "stdout"].append(text)
        if stream == "stderr":
            self._written.stderr(_shown(text, sys.stderr))
        else:
            self._written.stdout(_shown(text, sys.stdout))

    def say_cancelled(self, thread_id: str) -> None:
        """Say that the run was asked to end, and how to leave without waiting for that."""
        words = one_line(thread_id, 400)
        self._session.output.note(f"{words} is being ended; to leave without it: once more")

    def complete(self, answer: Answer) -> None:
        """Show what of the output did not come by the log of the node.

        The log had no room for it, or the run had ended before its last piece was there.
        """
        data = answer.envelope.get("data")
        if not self.was_followed or not isinstance(data, Mapping):
            return
        for stream, texts in self._texts.items():
            whole, shown = data.get(stream), "".join(texts)
            if isinstance(whole, str) and whole.startswith(shown) and len(whole) > len(shown):
                self.take(stream, whole[len(shown) :])


def _shown(text: str, stream: TextIO) -> bytes:
    shown = without_control_characters(text) if stream.isatty() else text
    return shown.encode("utf-8", "replace")


def _write_pages(session: Session, answer: Answer) -> None:
    """A page of each run of a graph that came back: a node has no key of the user's to sign one."""
    from ryeos.graph.run_pages import write_run_page

    envelope = answer.envelope
    written = envelope.get("remote", {}).get("outputs_materialized", ())
    for path in written:
        if not path.startswith(GRAPH_REFS):
            continue
        run_id = path.removeprefix(GRAPH_REFS).removesuffix(".json")
        try:
            write_run_page(session.rye, envelope["item_id"], run_id)
        except LilluxError as error:
            session.output.warn(f"{run_id}: its page was not written: {error}")


def is_started(answer: Answer) -> bool:
    """Whether it is not waited for, so that there is no result yet."""
    return answer.envelope.get("async") is True


def standard_error(envelope: Mapping[str, Any]) -> str:
    """What the tool wrote there: whole where its output is text, else the end of it."""
    for part in (envelope.get("data"), envelope.get("metadata")):
        if isinstance(part, dict) and isinstance(part.get("stderr"), str):
            return str(part["stderr"])
    return ""


def show_started(session: Session, answer: Answer) -> int:
    """Show the thread that the run is, and how to look after it."""
    envelope = answer.envelope
    thread_id, name = one_line(str(envelope["thread_id"])), envelope["remote"]["name"]
    session.output.answer(envelope, thread_id)
    if not session.output.as_json:
        session.output.note(
            f"running on {name}; next:\n  rye remote thread {thread_id} --wait --remote {name}\n"
            f"  rye remote pull --remote {name}"
        )
    return answer.exit_status


# --- remote words ---------------------------------------------------------------------------------
# What the commands about remotes share: their flags, the link to a node, and words for it.

SHOWN_PATHS = 20
_THREAD_ID = re.compile(r"[A-Za-z0-9._:-]{1,300}")


def take_remote(parser: Arguments) -> None:
    """Declare which remote is meant."""
    parser.add_argument("--remote", metavar="NAME", help="the remote (default)")


def take_team(parser: Arguments) -> None:
    """Declare which team is meant."""
    parser.add_argument("--team", metavar="TEAM", help="those of a team, not your own")


def team_of(session: Session) -> str:
    """The team that was named, "" for none. Raises UsageError."""
    team = (session.arguments.team or "").removeprefix("@")
    if team and not is_team_name(team):
        raise UsageError(f"--team: expected the name of a team, found {team[:80]!a}")
    return str(team)


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
def remote_environment(
    session: Session, cancellation: Cancellation | None = None, bar: ProgressBar | None = None
) -> Iterator[RemoteEnvironment]:
    """What remotes are opened with: signals end what is asked, a line says how far it is."""
    bar = bar or ProgressBar(session.output)

    def report_merged(remote: str, applied: AppliedChanges) -> None:
        bar.end()
        if not session.output.as_json:
            session.output.note(f"merged in from {remote}:\n{listed(marked(applied))}")

    try:
        yield RemoteEnvironment(
            workspace=session.rye,
            progress=bar.tell,
            report_merged=report_merged,
            cancellation=cancellation or cancelled_by_signals(),
            accepted=tuple(getattr(session.arguments, "accept", ())),
        )
    finally:
        bar.end()


@contextmanager
def linked(session: Session) -> Iterator[Link]:
    """The project and its counterpart on the remote that was named."""
    with remote_environment(session) as around:
        yield open_link(around, session.arguments.remote)


def listed(
    paths: tuple[str, ...] | list[str], paint: Callable[[str], str] = lambda text: text
) -> str:
    """Paths, one a line, the first of many."""
    lines = [paint(f"  {one_line(path)}") for path in paths[:SHOWN_PATHS]]
    if len(paths) > SHOWN_PATHS:
        lines.append(f"  and {len(paths) - SHOWN_PATHS} more")
    return "\n".join(lines)


def marked(applied: AppliedChanges) -> list[str]:
    """What was changed here: ``+`` added, ``~`` changed, ``-`` removed, by path."""
    marks = dict.fromkeys(applied.written, "~") | dict.fromkeys(applied.added, "+")
    marks |= dict.fromkeys(applied.removed, "-")
    return [f"{marks[path]} {one_line(path)}" for path in sorted(marks)]


def valid_remote_thread_id(thread_id: str) -> str:
    """An id that can be a part of an address. Raises UsageError."""
    if not _THREAD_ID.fullmatch(thread_id):
        raise UsageError(f"{thread_id[:80]!r}: expected the id of a run on the node")
    return thread_id


def short(digest: str | None) -> str:
    """As much of a digest as tells it apart."""
    return digest[:12] if digest else "none"
