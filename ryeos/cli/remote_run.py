"""A run on a remote, as ``rye run --target`` and ``rye remote execute`` both begin it."""

from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from ryeos.cli.output import one_line
from ryeos.cli.remote_words import surroundings
from ryeos.cli.session import Session
from ryeos.cli.signals import cancelled_by_signals
from ryeos.envelope import Answer
from ryeos.executor.model import Request
from ryeos.items import Reference
from ryeos.remote.options import RemoteOptions
from ryeos.remote.running import execute_on

GRAPH_REFS = ".ai/state/objects/refs/graphs/"


def run_on(
    session: Session,
    remote: str | None,
    reference: Reference,
    request: Request,
    options: RemoteOptions,
) -> Answer:
    """The answer of a remote. Raises as `execute_on`."""
    with surroundings(session, cancelled_by_signals()) as around:
        answer = execute_on(around, remote, reference, request, options)
    if options.resigns:
        _write_pages(session, answer)
    return answer


def _write_pages(session: Session, answer: Answer) -> None:
    """A page of each run of a graph that came back: a node has no key of the user's to sign one."""
    from ryeos.graph_runs.pages import write_run_page

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
