"""Requests to real servers: the sent bytes, the responses, and the limits."""

import gzip
import socket
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from time import monotonic

import pytest

from lillux.cancellation import Cancellation
from lillux.errors import ConfigurationError
from lillux.http.client import HttpClient
from lillux.http.errors import (
    BrokenConnectionError,
    ExchangeCancelledError,
    ExchangeTimeoutError,
    ResponseTooLargeError,
    UndecodableBodyError,
    UnreachableError,
)
from lillux.http.model import MIB, HttpRequest
from lillux.http.retries import Backoff, Retry
from tests.support.http_servers import Exchange, Server, closed_port

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
# A failing test would take this long.
FOREVER_S = 60.0
PROMPTLY_S = 5.0


class Waits:
    """Notes how long would be waited."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float, _: Cancellation | None) -> None:
        self.seconds.append(seconds)


@contextmanager
def client(waits: Waits | None = None) -> Iterator[HttpClient]:
    with HttpClient({}, wait=waits or Waits(), now=lambda: NOON, jitter=lambda: 0.0) as made:
        yield made


def echo(exchange: Exchange) -> None:
    exchange.answer(200, exchange.seen.body or b"none", X_Method=exchange.seen.method)


# --- requests and responses


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_method_and_a_body_arrive_as_they_were_given(method: str) -> None:
    with Server(echo) as server, client() as http:
        response = http.send(HttpRequest(method=method, url=server.url, body=b"\0body"))

    assert (response.status, response.reason, response.body) == (200, "OK", b"\0body")
    assert response.headers["x-method"] == method
    assert server.requests[0].headers["content-length"] == "5"


def test_head_has_no_body() -> None:
    with Server(lambda e: e.answer(200, b"12345")) as server, client() as http:
        response = http.send(HttpRequest(method="head", url=server.url))

    assert (response.body, response.headers["content-length"]) == (b"", "5")


def test_headers_arrive_and_have_defaults() -> None:
    with Server(echo) as server, client() as http:
        http.send(
            HttpRequest(url=f"{server.url}/a?b=c#d", headers={"X-One": "eins", "accept": "x/y"})
        )

    seen = server.requests[0]
    assert seen.target == "/a?b=c"
    assert seen.headers["x-one"] == "eins"
    assert seen.headers["accept"] == "x/y"
    assert seen.headers["accept-encoding"] == "gzip, deflate"
    assert seen.headers["user-agent"] == "lillux"


def test_several_headers_of_one_name_are_joined() -> None:
    def two(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("X-A", "1")
        exchange.send_header("x-a", "2")
        exchange.send_header("Content-Length", "0")
        exchange.end_headers()

    with Server(two) as server, client() as http:
        response = http.send(HttpRequest(url=server.url))

    assert response.headers["x-a"] == "1, 2"


def test_a_status_is_no_exception() -> None:
    with Server(lambda e: e.answer(503, b"later")) as server, client() as http:
        response = http.send(HttpRequest(url=server.url))

    assert (response.status, response.reason, response.body) == (
        503,
        "Service Unavailable",
        b"later",
    )


def test_connections_are_kept_for_the_next_request() -> None:
    ports = []

    def note(exchange: Exchange) -> None:
        ports.append(exchange.client_address[1])
        exchange.answer()

    with Server(note) as server, client() as http:
        for _ in range(3):
            http.send(HttpRequest(url=server.url))

    assert len(set(ports)) == 1


def test_many_threads_share_a_client() -> None:
    with Server(echo) as server, client() as http:
        results: list[bytes] = []

        def send(number: int) -> None:
            body = str(number).encode()
            results.append(http.send(HttpRequest(method="POST", url=server.url, body=body)).body)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(map(int, results)) == list(range(16))


def test_a_stream_gives_pieces_as_they_arrive() -> None:
    go_on = threading.Event()

    def slow(exchange: Exchange) -> None:
        exchange.begin()
        exchange.write(b"one")
        go_on.wait(FOREVER_S)
        exchange.write(b"two")

    with Server(slow) as server, client() as http, http.stream(HttpRequest(url=server.url)) as got:
        chunks = got.chunks()
        first = next(chunks)
        go_on.set()

        assert (got.status, first, b"".join(chunks)) == (200, b"one", b"two")


def test_a_chunked_body_is_put_together() -> None:
    def chunked(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("Transfer-Encoding", "chunked")
        exchange.end_headers()
        exchange.write(b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: t\r\n\r\n")

    with Server(chunked) as server, client() as http:
        assert http.send(HttpRequest(url=server.url)).body == b"abcdefg"


# --- encodings


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
    ],
)
def test_an_encoded_body_is_decoded(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    data = b"words and words " * 10_000
    with (
        Server(lambda e: e.answer(200, encode(data), Content_Encoding=encoding)) as server,
        client() as http,
    ):
        assert http.send(HttpRequest(url=server.url)).body == data


def test_a_body_in_no_encoding_that_it_states_is_an_error() -> None:
    with (
        Server(lambda e: e.answer(200, b"plain", Content_Encoding="gzip")) as server,
        client() as http,
        pytest.raises(UndecodableBodyError, match="not in its content-encoding 'gzip'"),
    ):
        http.send(HttpRequest(url=server.url))


def test_a_body_above_the_cap_is_an_error() -> None:
    with Server(lambda e: e.answer(200, b"x" * 1001)) as server, client() as http:
        request = HttpRequest(url=f"{server.url}/big?key=1", max_response_bytes=1000)

        with pytest.raises(ResponseTooLargeError) as error:
            http.send(request)

    assert str(error.value) == (
        f"{server.url}/big?...: expected a body of at most 1000 bytes, got more"
    )


@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_is_stopped_at_the_cap_and_takes_no_memory(layers: int) -> None:
    bomb = gzip.compress(b"\0" * (64 * MIB), 9)
    for _ in range(layers - 1):
        bomb = gzip.compress(bomb)
    encoding = ", ".join(["gzip"] * layers)
    with (
        Server(lambda e: e.answer(200, bomb, Content_Encoding=encoding)) as server,
        client() as http,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(ResponseTooLargeError):
                http.send(HttpRequest(url=server.url, max_response_bytes=MIB))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak < 8 * MIB


# --- time


def drip(exchange: Exchange) -> None:
    exchange.begin()
    while exchange.write(b"."):
        if exchange.server.stopping.wait(0.01):
            return


def hang(exchange: Exchange) -> None:
    exchange.wait(FOREVER_S)


def drip_headers(exchange: Exchange) -> None:
    exchange.write(b"HTTP/1.1 200 OK\r\n")
    while exchange.write(b"X: y\r\n"):
        if exchange.server.stopping.wait(0.2):
            return


@pytest.mark.parametrize("behaviour", [drip, hang, drip_headers])
def test_the_timeout_bounds_the_whole_exchange(behaviour: Callable[[Exchange], None]) -> None:
    with Server(behaviour) as server, client() as http:
        started = monotonic()
        with pytest.raises(ExchangeTimeoutError) as error:
            http.send(HttpRequest(url=server.url, timeout_s=0.2))

    assert monotonic() - started < PROMPTLY_S
    assert str(error.value) == f"{server.url}/: no whole response within 0.2 seconds"


def test_the_timeout_bounds_a_handshake_that_does_not_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, client() as http:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ExchangeTimeoutError):
            http.send(HttpRequest(url=url, timeout_s=0.2))


@pytest.mark.skipif(sys.platform != "linux", reason="how to make a connection hang is Linux's")
def test_the_timeout_and_a_cancellation_bound_a_connection_that_is_never_made() -> None:
    cancellation = Cancellation()
    with ExitStack() as opened, client() as http:
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        waiting = [opened.enter_context(socket.socket()) for _ in range(4)]
        for one in waiting:
            one.settimeout(0)
            one.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"

        with pytest.raises(ExchangeTimeoutError):
            http.send(HttpRequest(url=url, timeout_s=0.2))
        threading.Timer(0.05, cancellation.cancel).start()
        with pytest.raises(ExchangeCancelledError):
            http.send(HttpRequest(url=url, timeout_s=FOREVER_S), cancellation)


def test_silence_has_a_limit_of_its_own() -> None:
    with Server(hang) as server, client() as http, pytest.raises(ExchangeTimeoutError):
        http.send(HttpRequest(url=server.url, timeout_s=None, idle_timeout_s=0.2))


@pytest.mark.parametrize("behaviour", [drip, hang])
def test_a_cancellation_ends_a_request_promptly(behaviour: Callable[[Exchange], None]) -> None:
    cancellation = Cancellation()

    def cancel(exchange: Exchange) -> None:
        threading.Timer(0.05, cancellation.cancel).start()
        behaviour(exchange)

    with Server(cancel) as server, client() as http:
        started = monotonic()
        with pytest.raises(ExchangeCancelledError):
            http.send(HttpRequest(url=server.url, timeout_s=FOREVER_S), cancellation)

    assert monotonic() - started < PROMPTLY_S


def test_a_cancellation_prevents_later_requests() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with Server(echo) as server, client() as http, pytest.raises(ExchangeCancelledError):
        http.send(HttpRequest(url=server.url), cancellation)

    assert server.requests == []


def test_a_cancelled_exchange_leaves_the_next_one_alone() -> None:
    cancellation = Cancellation()
    with Server(echo) as server, client() as http:
        http.send(HttpRequest(url=server.url), cancellation)
        with http.stream(HttpRequest(url=server.url)) as other:
            cancellation.cancel()

            assert b"".join(other.chunks()) == b"none"


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest(url="http://localhost", timeout_s=0),
        HttpRequest(url="http://localhost", total_timeout_s=-1),
        HttpRequest(url="http://localhost", idle_timeout_s=float("inf")),
    ],
)
def test_a_limit_of_zero_is_refused(request_: HttpRequest) -> None:
    with client() as http, pytest.raises(ConfigurationError, match=r"_s: expected seconds above 0"):
        http.send(request_)


# --- broken connections


def test_a_refused_connection_says_so() -> None:
    port = closed_port()
    with client() as http, pytest.raises(UnreachableError) as error:
        http.send(HttpRequest(url=f"http://127.0.0.1:{port}/x"))

    assert str(error.value) == f"http://127.0.0.1:{port}/x: no connection: Connection refused"
    assert error.value.hint == "is the address right, and the server running?"


def test_an_unknown_name_says_so() -> None:
    with (
        client() as http,
        pytest.raises(UnreachableError, match=r"^http://name\.invalid/: no conn"),
    ):
        http.send(HttpRequest(url="http://name.invalid"))


def test_a_connection_that_ends_in_the_body_is_broken() -> None:
    def half(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("Content-Length", "100")
        exchange.end_headers()
        exchange.write(b"half")
        exchange.reset()

    with (
        Server(half) as server,
        client() as http,
        pytest.raises(BrokenConnectionError, match="connection broken"),
    ):
        http.send(HttpRequest(url=server.url))


def test_a_connection_that_ends_before_the_answer_is_broken() -> None:
    with (
        Server(lambda e: e.reset()) as server,
        client() as http,
        pytest.raises(BrokenConnectionError, match="without response"),
    ):
        http.send(HttpRequest(url=server.url))


def test_an_answer_that_is_no_http_is_broken() -> None:
    def mail(exchange: Exchange) -> None:
        exchange.write(b"220 mail\r\n")
        exchange.reset()

    with (
        Server(mail) as server,
        client() as http,
        pytest.raises(BrokenConnectionError, match="220 mail"),
    ):
        http.send(HttpRequest(url=server.url))


# --- retries


def failing(times: int, *answers: tuple[int, dict[str, str]]) -> Callable[[Exchange], None]:
    left = [*answers] or [(503, {})] * times

    def reply(exchange: Exchange) -> None:
        if left:
            status, headers = left.pop(0)
            exchange.answer(status, b"", **headers)
        else:
            exchange.answer(200, b"at last")

    return reply


def test_requests_are_not_retried_by_default() -> None:
    waits = Waits()
    with (
        Server(lambda e: e.reset()) as server,
        client(waits) as http,
        pytest.raises(BrokenConnectionError) as error,
    ):
        http.send(HttpRequest(url=server.url))

    assert (len(server.requests), error.value.attempts, waits.seconds) == (1, 1, [])


@pytest.mark.parametrize(
    ("backoff", "seconds"),
    [(Backoff.EXPONENTIAL, [1.0, 2.0, 4.0, 8.0, 10.0]), (Backoff.LINEAR, [1.0] * 5)],
)
def test_transport_failures_are_tried_again(backoff: Backoff, seconds: list[float]) -> None:
    waits = Waits()
    retry = Retry(max_attempts=6, backoff=backoff, max_delay_s=10)
    with client(waits) as http, pytest.raises(UnreachableError) as error:
        http.send(HttpRequest(url=f"http://127.0.0.1:{closed_port()}", retry=retry))

    assert (error.value.attempts, waits.seconds) == (6, seconds)


def test_statuses_are_tried_again_when_they_are_listed() -> None:
    waits = Waits()
    with Server(failing(2)) as server, client(waits) as http:
        request = HttpRequest(url=server.url, retry=Retry(max_attempts=5, on_status=(503,)))
        response = http.send(request)

    assert (response.body, response.attempts, waits.seconds) == (b"at last", 3, [1.0, 2.0])


def test_the_last_attempt_gives_its_status() -> None:
    with Server(failing(9)) as server, client() as http:
        request = HttpRequest(url=server.url, retry=Retry(max_attempts=2, on_status=(503,)))

        assert http.send(request).status == 503


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("100000", 60.0),
        ("Fri, 02 Jan 2026 12:00:30 GMT", 30.0),
        ("Fri, 02 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", 1.0),
        ("-5", 1.0),
    ],
)
def test_retry_after_is_followed(value: str, seconds: float) -> None:
    waits = Waits()
    with Server(failing(1, (429, {"Retry-After": value}))) as server, client(waits) as http:
        http.send(HttpRequest(url=server.url, retry=Retry(max_attempts=2, on_status=(429,))))

    assert waits.seconds == [seconds]


def test_no_wait_is_longer_than_the_whole_may_take() -> None:
    waits = Waits()
    with Server(failing(1, (429, {"Retry-After": "30"}))) as server, client(waits) as http:
        retry = Retry(max_attempts=2, on_status=(429,))
        response = http.send(HttpRequest(url=server.url, total_timeout_s=5, retry=retry))

    assert (response.status, waits.seconds) == (429, [])


def test_a_cancellation_ends_the_wait_between_attempts() -> None:
    cancellation = Cancellation()

    def busy(exchange: Exchange) -> None:
        exchange.answer(503, b"", Retry_After="60")
        threading.Timer(0.05, cancellation.cancel).start()

    with Server(busy) as server, HttpClient({}) as http:
        request = HttpRequest(url=server.url, retry=Retry(max_attempts=2, on_status=(503,)))
        with pytest.raises(ExchangeCancelledError):
            http.send(request, cancellation)

    assert len(server.requests) == 1


def test_zero_attempts_are_refused() -> None:
    with client() as http, pytest.raises(ConfigurationError, match=r"retry\.max_attempts"):
        http.send(HttpRequest(url="http://localhost", retry=Retry(max_attempts=0)))
