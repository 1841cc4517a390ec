"""Serving a node until it is asked to end: its socket, its signals, its log."""

import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from lillux.errors import LilluxError
from lillux.values import dataclass
from rye_services.patient_protocol import PatientProtocol
from rye_services.settings import Settings

_KEEP_ALIVE_S = 30
_BACKLOG = 1024
_SWITCH_S = 0.001
"""How long a thread may keep the event loop waiting: a fifth of what Python sets."""

_ASKS_TO_END = ("SIGINT", "SIGTERM")


class AddressError(LilluxError):
    """The address that a node was to listen on cannot be had."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, host: str, port: int, problem: str) -> None:
        self.host, self.port, self.problem = host, port, problem
        super().__init__(
            f"address {host}:{port}: {problem}",
            hint="choose another one with --host and --port; port 0 takes any that is free",
        )


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that takes connections, and the address that reaches it from here."""

    socket: socket.socket
    url: str


def listen(host: str, port: int) -> Listener:
    """Take connections. Raises AddressError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        opened = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        named = error.errno is not None and not isinstance(error, socket.gaierror)
        problem = os.strerror(error.errno) if named else error.strerror or str(error)  # type: ignore[arg-type]
        raise AddressError(host, port, problem.lower()) from None
    bound = opened.getsockname()
    name = f"[{bound[0]}]" if family == socket.AF_INET6 else bound[0]
    return Listener(opened, f"http://{name}:{bound[1]}")


def serve(app: FastAPI, listener: Listener, settings: Settings, ready: Callable[[], None]) -> None:
    """Serve until a signal asks to end; requests under way may end first.

    ``ready`` is called once connections are answered. A second signal ends at once.
    """
    sys.setswitchinterval(_SWITCH_S)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )
    _Server(config, ready).run([listener.socket])


class _Server(uvicorn.Server):
    """uvicorn, which says when it is ready and ends with status 0 when it was asked to end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Have signals end this server in its own way; they are not raised again afterwards."""
        numbers = [getattr(signal, name) for name in _ASKS_TO_END if hasattr(signal, name)]
        before = {number: signal.signal(number, self._end) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the requests under way end, unless a second signal does not want that."""
        logging.getLogger(__name__).info("asked to end")
        await super().shutdown(sockets)

    def _end(self, _: int, __: FrameType | None) -> None:
        # No word to the log from here: the signal may have come in the middle of a line.
        self.force_exit = self.should_exit
        self.should_exit = True


def log_to_stderr(level: str) -> None:
    """Have everything logged as a line on standard error, ``level`` being a name of `logging`."""
    known = logging.getLevelNamesMapping()
    logging.basicConfig(
        level=known.get(level.upper(), logging.INFO),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for name in ("uvicorn", "mcp"):  # their start and end are told by us
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.captureWarnings(capture=True)
