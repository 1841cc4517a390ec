"""The cost of requests to a cluster: database statements, requests to the object storage.

A server and a worker of a cluster in this process, on a real PostgreSQL and a real S3, without what
they do between requests: so the same request costs the same each time. Processor time is this
process's, for `benchmarks`; the process of an item is not in it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, Engine, event

from lillux.values import dataclass
from rye_services.node.application import create_app
from rye_services.node.services import open_services
from rye_services.settings import read_settings
from rye_services.storage.object_storage import ObstoreBucket
from tests.support.node import Node, Reply, as_body


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one request. ``sent`` and ``read`` are bytes of the object storage.

    round_trips  statements, and the beginnings and ends of transactions
    statements   those of the application; a ping of an idle connection is one too
    """

    round_trips: int
    statements: int
    requests: int
    sent: int
    read: int
    cpu_ms: float


class CountedNode(Node):
    """A node in this process. ``last`` is the cost of the last request."""

    def __init__(self, data: Path, bundle: Path, environ: Mapping[str, str]) -> None:
        super().__init__(data, environ=environ)
        self.last = Cost(round_trips=0, statements=0, requests=0, sent=0, read=0, cpu_ms=0.0)
        for folder in (data, data.with_name("worker")):
            folder.mkdir()
        self._server = open_services(self.settings, bundle, environ=environ)
        beside = read_settings({"data_dir": str(data.with_name("worker"))}, environ, data)
        self._worker = open_services(beside, bundle, environ=environ, process="worker")
        self._app = create_app(self._server)
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        """Close all connections."""
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        for one in (self._server, self._worker):
            one.executions.close(0.0)
            one.database.close()

    def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Reply:
        """See `Node`: the application is called as a server would call it."""
        data = as_body(body)
        sent = {"Content-Type": "application/json", "Host": "node", **(headers or {})}
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        answer = asyncio.wait_for(_send(self._app, scope, data), timeout_s)
        reply: Reply = self._counted(lambda: self._loop.run_until_complete(answer))
        return reply

    def carry_out(self, thread_id: str) -> None:
        """Let the worker carry out a waiting execution, without its turn of the queue."""
        self._counted(lambda: self._worker.executions._runs.claimed(thread_id))  # type: ignore[attr-defined]

    def _counted(self, action: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the action gives
        before = self._stored()
        with counting() as statements, counting_transactions() as transactions:
            started_s = process_time()
            answer = action()
            cpu_ms = (process_time() - started_s) * 1000
        requests, sent, read = (
            after - earlier for after, earlier in zip(self._stored(), before, strict=True)
        )
        self.last = Cost(
            round_trips=len(statements) + 2 * len(transactions),
            statements=len(statements),
            requests=requests,
            sent=sent,
            read=read,
            cpu_ms=cpu_ms,
        )
        return answer

    def _stored(self) -> tuple[int, int, int]:
        """Requests to the object storage so far, bytes sent, bytes read, of both processes."""
        figures = [
            cast("ObstoreBucket", one.all_stores.storage.bucket).figures
            for one in (self._server, self._worker)
            if one.all_stores.storage
        ]
        return (
            sum(sum(one.requests.values()) for one in figures),
            sum(one.bytes["written"] for one in figures),
            sum(one.bytes["read"] for one in figures),
        )


@contextmanager
def counting() -> Iterator[list[str]]:
    """The statements that psycopg is given in this process during a block, from any library."""
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def counted(cursor: Any, query: Any, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - psycopg's
        statements.append(str(query))
        return execute(cursor, query, *arguments, **named)

    psycopg.Cursor.execute = counted  # type: ignore[method-assign, assignment]
    try:
        yield statements
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


@contextmanager
def counting_transactions() -> Iterator[list[None]]:
    """A mark for each transaction of more than one statement that begins during a block."""
    marks: list[None] = []

    def note(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        if driver is not None and not driver.autocommit:
            marks.append(None)

    event.listen(Engine, "begin", note)
    try:
        yield marks
    finally:
        event.remove(Engine, "begin", note)


async def _send(app: Any, scope: dict[str, Any], body: bytes) -> Reply:  # noqa: ANN401 - ASGI
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    status, headers, parts = 0, dict[str, str](), list[bytes]()

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await asyncio.Event().wait()  # the client stays until its answer is there
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = int(message["status"])
            headers.update((name.decode(), value.decode()) for name, value in message["headers"])
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Reply(status, headers, b"".join(parts))
