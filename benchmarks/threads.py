"""Cost of a thread beside its provider: its own time in a turn, and its memory.

The provider is aimock without latency; the floor sends the same bodies to it by urllib3 alone, and
forces as many lines to the disk. No tool runs: the model calls what is not there.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time

import urllib3

from benchmarks.timing import Figure, medians
from lillux.cancellation import Cancellation
from lillux.http.client import HttpClient
from lillux.http.model import HttpRequest, HttpStream
from ryeos.app.agent_threads import AgentThreads
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.refs import Kind, Reference
from tests.support.agent_threads import directive, provider
from tests.support.aimock import Aimock, called, running_aimock, said
from tests.support.workspace import ROOT, Workspace, publish

TURNS, LONG, ROUNDS = 50, 500, 5
FORCED = 3
"""Writes that a turn has on the disk: the reservation of the day, the intent, the answer."""
DIALECT = "openai-chat"
MEBIBYTE_IN_KIB = 1024
_MODEL = "{free: true, context: 10000000, max_output: 1000, features: [tools]}"


class Recorder(HttpClient):
    """A client that keeps what it sends."""

    def __init__(self) -> None:
        super().__init__({})
        self.sent: list[HttpRequest] = []

    @contextmanager
    def stream(
        self, request: HttpRequest, cancellation: Cancellation | None = None
    ) -> Iterator[HttpStream]:
        """Send a request."""
        self.sent.append(request)
        with super().stream(request, cancellation) as found:
            yield found


def figures(scratch: Path) -> Iterator[Figure]:
    """Rows against urllib3 and forced writes, and against a thread of one turn."""
    with running_aimock() as aimock:
        workspace = Workspace(scratch / "threads", (publish(scratch / "threads-bundle"),))
        _prepare(workspace, aimock)
        recorder = Recorder()
        _carry_out(workspace, recorder)
        requests = recorder.sent
        contenders = {
            "thread": lambda: _carry_out(workspace, HttpClient({})),
            "urllib3": lambda: _send(requests, scratch / "forced"),
            "begun": lambda: _begin(workspace),
        }
        name = f"urllib3, {FORCED} forced writes"
        for row, clock in (
            ("thread, a turn", perf_counter),
            ("thread, processor of a turn", process_time),
        ):
            found = medians(contenders, ROUNDS, clock=clock)
            turn = (found["thread"] - found["begun"]) / len(requests)
            yield Figure(row, turn, name, found["urllib3"] / len(requests), "+5 ms")
        yield Figure(
            f"thread, memory of {LONG} turns",
            _peak_mib(scratch / "long", aimock, LONG),
            "of one turn",
            _peak_mib(scratch / "short", aimock, 1),
            "at most 60 MiB",
            "MiB",
        )


def _prepare(workspace: Workspace, aimock: Aimock, turns: int = TURNS) -> None:
    """A directive whose model makes so many turns."""
    aimock.reset()
    fixtures = [called(DIALECT, [("nothing", {"n": n})], turn=n) for n in range(turns - 1)]
    aimock.add(*fixtures, said(DIALECT, "done", turn=turns - 1))
    provider(workspace, aimock.url, model=_MODEL)
    limits = f'<limits turns="{turns}" tokens="1000000000" spend="1"/>'
    directive(workspace, limits=limits, permissions="<execute><tool>ops.none</tool></execute>")


def _threads(workspace: Workspace, client: HttpClient) -> AgentThreads:
    return AgentThreads(workspace.rye(), client)


def _carry_out(workspace: Workspace, client: HttpClient) -> None:
    reference = Reference(Kind.DIRECTIVE, "ops/say")
    answer = _threads(workspace, client).start(reference, ThreadWish(parameters={}))
    if answer.envelope["state"] != "completed":
        raise RuntimeError(json.dumps(answer.envelope))


def _begin(workspace: Workspace) -> None:
    """All that is done before the first turn."""
    found = _threads(workspace, HttpClient({}))
    found.begin(Reference(Kind.DIRECTIVE, "ops/say"), ThreadWish(parameters={})).close()


def _send(requests: list[HttpRequest], path: Path) -> None:
    """The same requests, and lines of the same size in a file."""
    pool = urllib3.PoolManager()
    with path.open("ab") as file:
        for request in requests:
            for _ in range(FORCED):
                file.write(b"x" * 500 + b"\n")
                file.flush()
                os.fsync(file.fileno())
            reply = pool.request(
                "POST", request.url, body=request.body, headers=dict(request.headers)
            )
            if b"[DONE]" not in reply.data:
                raise RuntimeError(reply.data[:500])


def _peak_mib(folder: Path, aimock: Aimock, turns: int) -> float:
    """The largest resident memory of a process that carries so many turns out."""
    space = publish(folder / "bundle")
    workspace = Workspace(folder / "machine", (space,))
    _prepare(workspace, aimock, turns)
    pinned = folder / "pinned.pem"
    pinned.write_bytes(space.pinned_pem)
    argv = [
        sys.executable,
        "-m",
        "benchmarks.thread_process",
        str(folder),
        space.label,
        space.version,
    ]
    ended = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return int(ended.stdout) / MEBIBYTE_IN_KIB
