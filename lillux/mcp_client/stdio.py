"""One MCP call over a server's standard input and output.

(1) start it, the first message already on its way
(2) every line is a message; what the session makes of it is sent
(3) it has answered: its input is closed, then TERM, then KILL for its whole group
"""

from collections.abc import Callable
from time import monotonic

from lillux.cancellation import Cancellation
from lillux.jsonrpc import LineDecoder, OverlongLine, encode_line, parse_messages
from lillux.mcp_client.session import (
    ClientInfo,
    ClientSession,
    McpAnswerTooLargeError,
    McpCancelledError,
    McpServerEndedError,
    McpTimeoutError,
    SessionState,
    ToolAnswer,
    ToolCall,
    ToolListing,
    Turn,
    cancelled,
    raise_unless_answered,
)
from lillux.mcp_client.versions import AllowedVersions
from lillux.process.conversation import Conversation, converse, remaining_s
from lillux.process.model import BoundedCapture, Command, signal_name
from lillux.values import dataclass, replace

# A server that does not know the probe may keep silent, or take a while to start.
PROBE_S = 5.0
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
    """

    command: Command
    name: str
    probe_s: float = PROBE_S


@dataclass(frozen=True, slots=True)
class StdioAnswer:
    """The answer, and the end of what the server wrote to its standard error."""

    answer: ToolAnswer
    stderr: str


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
        self._is_too_large = False
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
        return StdioAnswer(answer, self._stderr_text())

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
        if may_be_silent and not conversation.wait_until(is_settled, probe_s):
            self._follow(self._session.probe_is_overdue())
        in_time = conversation.wait_until(is_settled, remaining_s(self._deadline))
        if conversation.has_exited:
            conversation.drain(1.0)
        if self._session.outcome is not None:
            return
        if self._is_too_large:
            raise McpAnswerTooLargeError(self._server.name, self._max_bytes)
        if is_cancelled() or not in_time:
            self._say_goodbye(conversation)
            if is_cancelled():
                raise McpCancelledError(self._server.name)
            timeout_s = self._server.command.timeout_s or 0
            raise McpTimeoutError(self._server.name, self._session.stage, timeout_s)

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
        )

    def _say_goodbye(self, conversation: Conversation) -> None:
        if self._session.state is SessionState.CALLING:
            conversation.send(encode_line(cancelled("no longer wanted", self._session.call_id)))

    def _take_stdout(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            if isinstance(line, OverlongLine):
                self._is_too_large = True
                return
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
