"""A load generator: requests to servers at a fixed rate, and how long their answers took.

``python -m benchmarks.load URL ... --token-file FILE [--rate 200] [--seconds 30]`` prints JSON. It
is an open loop: a request is due at its time, whether or not earlier ones were answered, and
its time counts from then. So a server that stalls for a second is seen by all requests of that
second. The requests only read, and fit any node: the list of executions, whether contents are
there, the account, the health. It is a separate process, so that other work does not slow it down.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from lillux.values import dataclass, field

RATE, SECONDS = 200.0, 30.0
_CONNECTIONS = 32  # to each server, at most
_HASHES = 100
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of answers in milliseconds, by route, and how often each status came."""

    times_ms: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, object]:
        """Percentiles of all and of each route."""
        every = [one for times in self.times_ms.values() for one in times]
        return {
            "requests": len(every),
            "statuses": dict(self.statuses),
            "all": percentiles(every),
            **{route: percentiles(times) for route, times in sorted(self.times_ms.items())},
        }


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and the largest."""
    if len(times) < 2:  # noqa: PLR2004 - what quantiles need
        return {"max": max(times, default=0.0)}
    cuts = statistics.quantiles(times, n=100)
    named = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(times)}
    return {name: round(value, 2) for name, value in named.items()}


def requests(token: str, host: str) -> list[tuple[str, bytes]]:
    """Requests in the order in which they are sent, again and again: each with its route."""
    hashes = [sha256(str(number).encode()).hexdigest() for number in range(_HASHES)]
    hashes_body = json.dumps({"hashes": hashes}).encode()
    kinds = [
        ("GET /threads", b""),
        ("POST /objects/has", hashes_body),
        ("GET /account", b""),
        ("GET /threads", b""),
        ("GET /health", b""),
    ]
    return [
        (
            route,
            f"{route} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body,
        )
        for route, body in kinds
    ]


class Server:
    """Kept connections to one server."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), parts.port or 80
        self.requests = requests(token, parts.netloc)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._room = asyncio.Semaphore(_CONNECTIONS)

    async def ask(self, request: bytes) -> str:
        """The status of the answer, or the name of the error."""
        async with self._room:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    return await self._exchange(request)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                return type(error).__name__

    async def _exchange(self, request: bytes) -> str:
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").lower().split("\r\n")
            fields = dict(one.split(": ", 1) for one in lines if ": " in one)
            await reader.readexactly(int(fields.get("content-length", "0")))
        except BaseException:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return line.split()[1]


async def load(urls: Sequence[str], token: str, rate: float, seconds: float) -> Measured:
    """Send requests to servers in turn at a rate per second, for some seconds."""
    servers, measured = [Server(url, token) for url in urls], Measured()
    started = perf_counter() + 0.1

    async def one(number: int, due_s: float) -> None:
        server = servers[number % len(servers)]
        route, request = server.requests[number // len(servers) % len(server.requests)]
        measured.statuses[await server.ask(request)] += 1
        measured.times_ms.setdefault(route, []).append((perf_counter() - due_s) * 1000)

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due_s = started + number / rate
            await asyncio.sleep(max(0.0, due_s - perf_counter()))
            group.create_task(one(number, due_s))
    return measured


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print the measurements as JSON; 1 if an answer was not 200."""
    parser = argparse.ArgumentParser(prog="benchmarks.load", description="Load of a node.")
    parser.add_argument("urls", nargs="+", metavar="URL", help="a server; requests take turns")
    parser.add_argument("--token-file", type=Path, help="an API key; else RYE_TOKEN has it")
    parser.add_argument("--rate", type=float, default=RATE, help="requests a second, of all")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parsed = parser.parse_args(arguments)
    token = parsed.token_file.read_text("utf-8") if parsed.token_file else environ["RYE_TOKEN"]
    measured = asyncio.run(load(parsed.urls, token.strip(), parsed.rate, parsed.seconds))
    print(json.dumps(measured.as_json(), indent=2))
    return 0 if set(measured.statuses) == {"200"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
