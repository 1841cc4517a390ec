"""A run on a remote, as ``rye run --target`` and ``rye remote execute`` both begin it."""

from ryeos.cli.output import one_line
from ryeos.cli.remote_words import surroundings
from ryeos.cli.session import Session
from ryeos.cli.signals import cancelled_by_signals
from ryeos.envelope import Answer
from ryeos.executor.model import Request
from ryeos.items import Reference
from ryeos.remote.options import RemoteOptions
from ryeos.remote.running import execute_on


def run_on(
    session: Session,
    remote: str | None,
    reference: Reference,
    request: Request,
    options: RemoteOptions,
) -> Answer:
    """The answer of a remote. Raises as `execute_on`."""
    with surroundings(session, cancelled_by_signals()) as around:
        return execute_on(around, remote, reference, request, options)


def is_started(answer: Answer) -> bool:
    """Whether it is not waited for, so that there is no result yet."""
    return answer.envelope.get("async") is True


def show_started(session: Session, answer: Answer) -> int:
    """Show the thread that the run is, and how to look after it."""
    envelope = answer.envelope
    thread_id, name = one_line(str(envelope["thread_id"])), envelope["remote"]["name"]
    session.output.answer(envelope, thread_id)
    if not session.output.as_json:
        session.output.note(
            f"running on {name}; next:\n  rye remote thread {thread_id} --remote {name}\n"
            f"  rye remote pull --remote {name}"
        )
    return answer.exit_status
