"""One MCP call over a server's standard input and output.

(1) start it, the first message already on its way
(2) every line is a message; what the session makes of it is sent
(3) it has answered: its input is closed, then TERM, then KILL for its whole group
"""

from collections.abc import Callable
from time import monotonic

from lillux.cancellation import Cancellation
from lillux.jsonrpc import LineDecoder, OverlongLine, encode_line, parse_messages
from lillux.mcp_client.errors import (
    McpAnswerTooLargeError,
    McpCancelledError,
    McpServerEndedError,
    McpTimeoutError,
    raise_unless_answered,
)
from lillux.mcp_client.session import (
    ClientInfo,
    ClientSession,
    SessionState,
    ToolAnswer,
    ToolCall,
    ToolListing,
    Turn,
    cancelled,
)
from lillux.mcp_client.versions import PROBE_S, START_HINT, START_S, AllowedVersions
from lillux.process.conversation import Conversation, converse, remaining_s
from lillux.process.model import BoundedCapture, Command, signal_name
from lillux.values import dataclass, replace

# What a server needs to put its things away when its input is closed.
PATIENCE_S = 2.0
_STDERR_TAIL_BYTES = 16 * 1024
_ENVELOPE_BYTES = 64 * 1024

OnText = Callable[[bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A program to talk to.

    command  its ``timeout_s`` is that of the whole call, its ``max_output_bytes`` that of a message
    name     how messages call it
    probe_s  how long to wait for an answer to the probe before the older way is tried as well
    start_s  how long to wait for the answer to anything but the call of the tool
    """

    command: Command
    name: str
    probe_s: float = PROBE_S
    start_s: float = START_S


@dataclass(frozen=True, slots=True)
class StdioAnswer:
    """The answer, and the end of what the server wrote to its standard error.

    ``ignores_probe``: it never answered the probe, and waiting for that again is in vain.
    """

    answer: ToolAnswer
    stderr: str
    ignores_probe: bool = False


def call_over_stdio(
    server: ServerProcess,
    call: ToolCall | ToolListing,
    client: ClientInfo,
    wanted: AllowedVersions,
    *,
    cancellation: Cancellation | None = None,
    on_text: OnText | None = None,
) -> StdioAnswer:
    """Call one tool, or list all, of a server that lives for this call and leaves nothing.

    ``on_text`` gets its standard error, and its progress and log messages as lines.
    Raises McpClientError, ProgramNotFoundError, SpawnError, ConfigurationError.
    """
    deadline = _deadline(server.command.timeout_s)
    try:
        first = _Exchange(server, call, client, wanted, on_text=on_text, deadline=deadline)
        return first.run(cancellation)
    except McpServerEndedError as error:
        if not (error.was_probed and wanted.legacy):
            raise
    # Some servers end when the first thing they hear is not `initialize`.
    legacy = wanted.legacy_only
    again = _Exchange(server, call, client, legacy, on_text=on_text, deadline=deadline)
    return again.run(cancellation)


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else monotonic() + timeout_s


class _Exchange:
    """One start of the server."""

    def __init__(
        self,
        server: ServerProcess,
        call: ToolCall | ToolListing,
        client: ClientInfo,
        wanted: AllowedVersions,
        *,
        on_text: OnText | None,
        deadline: float | None,
    ) -> None:
        self._server, self._deadline = server, deadline
        self._session = ClientSession(call, client, wanted)
        self._on_text = on_text or _ignore
        self._max_bytes = server.command.max_output_bytes
        self._lines = LineDecoder(self._max_bytes + _ENVELOPE_BYTES)
        self._stderr = BoundedCapture(_STDERR_TAIL_BYTES)
        self._is_too_large = self._was_overdue = False
        self._unsent: list[bytes] = []

    def run(self, cancellation: Cancellation | None) -> StdioAnswer:
        if cancellation is not None and cancellation.is_set:
            raise McpCancelledError(self._server.name)
        first = b"".join(encode_line(message) for message in self._session.start().send)
        codes: list[int | None] = []
        with converse(
            replace(self._server.command, stdin=first),
            on_stdout=self._take_stdout,
            on_stderr=self._take_stderr,
            cancellation=cancellation,
            on_end=codes.append,
        ) as conversation:  # (1)
            self._talk(conversation, cancellation)  # (2)
            if self._session.outcome is not None:
                conversation.end_politely(self._patience_s())  # (3)
        if self._session.outcome is None:
            raise self._ended_error(codes[0])
        answer = raise_unless_answered(self._session.outcome, self._server.name)
        return StdioAnswer(
            answer,
            self._stderr_text(),
            ignores_probe=self._was_overdue and not self._session.answers_probe,
        )

    def _talk(self, conversation: Conversation, cancellation: Cancellation | None) -> None:
        def is_cancelled() -> bool:
            return cancellation is not None and cancellation.is_set

        def is_settled() -> bool:
            self._flush(conversation)
            return (
                self._session.outcome is not None
                or self._is_too_large
                or is_cancelled()
                or conversation.has_exited
            )

        probe_s = self._server.probe_s
        left_s = remaining_s(self._deadline)
        may_be_silent = self._session.state is SessionState.PROBING and (
            left_s is None or left_s > probe_s
        )
        limit_s = self._limit_s()
        if may_be_silent and not conversation.wait_until(
            lambda: is_settled() or self._session.state is not SessionState.PROBING, probe_s
        ):
            self._was_overdue = True
            self._follow(self._session.probe_is_overdue())
            limit_s = None if limit_s is None else max(limit_s - probe_s, 0)
        in_time = self._await_steps(conversation, is_settled, limit_s)
        if conversation.has_exited:
            conversation.drain(1.0)
            self._take_last_line()
        if self._session.outcome is not None:
            return
        if self._is_too_large:
            raise McpAnswerTooLargeError(self._server.name, self._max_bytes)
        if is_cancelled() or not in_time:
            self._say_goodbye(conversation)
            if is_cancelled():
                raise McpCancelledError(self._server.name)
            raise self._timeout_error()

    def _await_steps(
        self, conversation: Conversation, is_settled: Callable[[], bool], limit_s: float | None
    ) -> bool:
        """Wait for the outcome; False where one step, or all together, took too long."""
        while True:
            step = self._session.step

            def has_moved(before: tuple[bool, int] = step) -> bool:
                return is_settled() or self._session.step != before

            if not conversation.wait_until(has_moved, limit_s):
                return False
            if is_settled():
                return True
            limit_s = self._limit_s()

    def _limit_s(self) -> float | None:
        """Seconds that the next answer may take."""
        left_s = remaining_s(self._deadline)
        if self._session.awaits_tool:
            return left_s
        return self._server.start_s if left_s is None else min(left_s, self._server.start_s)

    def _timeout_error(self) -> McpTimeoutError:
        session, whole_s = self._session, self._server.command.timeout_s
        is_step = not session.awaits_tool and (whole_s is None or whole_s > self._server.start_s)
        return McpTimeoutError(
            self._server.name,
            session.stage,
            self._server.start_s if is_step else whole_s or 0,
            noise=session.noise,
            hint=START_HINT if is_step else "",
        )

    def _ended_error(self, code: int | None) -> McpServerEndedError:
        """The server went before it had answered."""
        if code is None:
            ending = "it closed its output"
        elif code < 0:
            ending = f"it ended by {signal_name(-code)}"
        else:
            ending = f"it exited with code {code}"
        return McpServerEndedError(
            self._server.name,
            ending,
            self._stderr_text(),
            was_probed=self._session.state in {SessionState.PROBING, SessionState.BOTH_SENT},
            noise=self._session.noise,
        )

    def _say_goodbye(self, conversation: Conversation) -> None:
        if self._session.state is SessionState.CALLING:
            conversation.send(encode_line(cancelled("no longer wanted", self._session.call_id)))

    def _take_stdout(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            if isinstance(line, OverlongLine):
                self._is_too_large = True
                return
            self._take_line(line)

    def _take_last_line(self) -> None:
        """The line that an ended server did not end."""
        for line in self._lines.end():
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        for message in parse_messages(line):
            self._follow(self._session.receive(message))

    def _take_stderr(self, chunk: bytes) -> None:
        self._stderr.feed(chunk)
        self._on_text(chunk)

    def _follow(self, turn: Turn) -> None:
        self._unsent.extend(encode_line(message) for message in turn.send)
        for notice in turn.notices:
            self._on_text(f"{notice}\n".encode("utf-8", "replace"))

    def _flush(self, conversation: Conversation) -> None:
        for line in self._unsent:
            conversation.send(line)
        self._unsent.clear()

    def _patience_s(self) -> float:
        left_s = remaining_s(self._deadline)
        return PATIENCE_S if left_s is None else min(PATIENCE_S, left_s)

    def _stderr_text(self) -> str:
        return self._stderr.captured().data.decode("utf-8", "replace")


def _ignore(_: bytes) -> None:
    pass
