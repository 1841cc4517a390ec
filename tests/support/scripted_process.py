"""A `ProcessRunner` without processes: it answers from a script and records its commands."""

from collections.abc import Callable
from dataclasses import dataclass

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.process.model import BoundedCapture, CapturedStream, Command, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a program behaves: what it writes, and how it ends. ``signal`` goes before the code."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    signal: int | None = None
    timed_out: bool = False


class ScriptedProcess:
    """Gives its answers in order, one a command; an error among them is raised.

    ``commands`` are those that were run. A command more than there are answers fails the test.
    """

    def __init__(self, *answers: Answer | LilluxError) -> None:
        self._answers = list(answers)
        self.commands: list[Command] = []

    def run(
        self,
        command: Command,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Answer as the script says, within the limits of the command."""
        if cancellation is not None and cancellation.is_set:
            nothing = CapturedStream(data=b"", total_bytes=0)
            return Outcome(
                exit_code=None, signal=None, stdout=nothing, stderr=nothing, cancelled=True
            )
        self.commands.append(command)
        assert self._answers, f"no answer is left for {command.argv}"
        answer = self._answers.pop(0)
        if isinstance(answer, LilluxError):
            raise answer
        if on_stderr is not None and answer.stderr:
            on_stderr(answer.stderr)
        return Outcome(
            exit_code=answer.exit_code if answer.signal is None else None,
            signal=answer.signal,
            stdout=_captured(answer.stdout, command.max_output_bytes),
            stderr=_captured(answer.stderr, command.max_output_bytes),
            timed_out=answer.timed_out,
        )


def _captured(stream: bytes, max_bytes: int) -> CapturedStream:
    capture = BoundedCapture(max_bytes)
    capture.feed(stream)
    return capture.captured()
