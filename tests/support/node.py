"""A real node: the program in a process of its own, on loopback, with its data in a folder.

``node`` is a fixture with a node of its own for each test; ``shared_node`` is one for all tests of
a process, each of which makes a user of its own with `Node.user`.
"""

import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

from lillux.signing import KeyPair, generate_keypair
from packing.cluster_parts import PartProcess, begin_process
from rye_services.people.credentials import EVERYTHING, ApiKeys, AuthorizedKeys
from rye_services.process.keys import NodeKeys, open_keys
from rye_services.settings import Settings, read_settings
from rye_services.storage.database import Database
from ryeos.remote.requests import new_nonce, sign_request
from ryeos.trust.signing_key import SigningKey
from tests.support.databases import database_environ, give_tables
from tests.support.node_forks import CAN_FORK, ForkedProcess, run_forked
from tests.support.workspace import PLAIN_ENV, ROOT

CHECKOUT_COMMAND = (sys.executable, str(ROOT / "rye_node.py"))
READY_S, END_S = float(os.environ.get("RYE_TEST_READY_S", "60")), 30.0
COMMAND_S = 120.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a node; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - as it was sent
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def answer(self) -> tuple[int, Any]:
        """Status and JSON together, for tests that compare both."""
        return self.status, self.json


@dataclass(frozen=True, slots=True)
class User:
    """A user with a key that may sign requests, and an API key for the same store."""

    node: "Node"
    keypair: KeyPair = field(repr=False)
    token: str = field(repr=False)

    @property
    def key(self) -> SigningKey:
        """The key that signs the requests."""
        return SigningKey(self.keypair)

    @property
    def user_id(self) -> str:
        """The fingerprint, which names the store too."""
        return self.key.fingerprint

    def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        auth: Literal["signed", "bearer"] = "signed",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Reply:
        """Send a request as this user: ``body`` is bytes, or a value to be sent as JSON."""
        data = as_body(body)
        own = self.signed_headers(method, target, data) if auth == "signed" else self.bearer
        return self.node.ask(
            method, target, data, headers={**own, **(headers or {})}, timeout_s=timeout_s
        )

    @property
    def bearer(self) -> dict[str, str]:
        """The header that holds the API key."""
        return {"Authorization": f"Bearer {self.token}"}

    def signed_headers(self, method: str, target: str, body: bytes = b"") -> dict[str, str]:
        """The headers that sign a request to this node, made now."""
        path, _, query = target.partition("?")
        return sign_request(
            self.key,
            method=method,
            path=path,
            query=query,
            body=body,
            audience=self.node.keys.node_id,
            now_s=time.time(),
            nonce=new_nonce(),
        )


def as_body(body: object) -> bytes:
    """Bytes as they are, nothing as no bytes, any other value as JSON."""
    if body is None or isinstance(body, bytes):
        return body or b""
    return json.dumps(body).encode()


class Node:
    """A node that can be started, ended, killed and started again on the same port."""

    def __init__(
        self,
        data: Path,
        *,
        command: Sequence[str] = CHECKOUT_COMMAND,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.port = 0
        self.log: list[str] = []
        self._command = [*command, "serve", "--data", str(data)]
        self._environ = {**database_environ(data), **(environ or {})}
        self._process: PartProcess | None = None
        self._reader: Thread | None = None
        self._logged = Condition()

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    @cached_property
    def settings(self) -> Settings:
        """The settings it was started with."""
        return read_settings({"data_dir": str(self.data)}, self._environ, self.data)

    @cached_property
    def keys(self) -> NodeKeys:
        """Its own keys."""
        return open_keys(self.settings.signing_key_dir)

    @cached_property
    def owner(self) -> User:
        """A user whose key may do everything."""
        return self.user(scopes=(EVERYTHING,))

    def user(
        self,
        *,
        scopes: Sequence[str] = ("remote:*",),
        keypair: KeyPair | None = None,
        publish_namespaces: Sequence[str] = (),
        name: str = "a test's",
    ) -> User:
        """A new user, authorised as the command line does it."""
        pair = keypair or generate_keypair()
        database = Database(self.settings.database_url)
        try:
            key = AuthorizedKeys(database).authorize(
                pair.public_pem,
                label=name,
                scopes=scopes,
                via="command",
                publish_namespaces=publish_namespaces,
            )
            token, _ = ApiKeys(database).create(key.fingerprint, name=name, scopes=tuple(scopes))
        finally:
            database.close()
        return User(self, pair, token)

    def start(self) -> None:
        """Start it; it answers when this returns. Fails the test with its log when it does not."""
        ready = Event()
        own = {"HOME": str(self.data.parent), "RYE_LOG": "info"}
        command = [*self._command, "--port", str(self.port)]
        self._process = self._started(command, {**PLAIN_ENV, **own, **self._environ})
        self._reader = Thread(target=self._read_log, args=(self._process, ready), daemon=True)
        self._reader.start()
        if not ready.wait(READY_S) or not self.port:
            self.kill()
            pytest.fail("the node does not answer:\n" + "".join(self.log))

    def end(self) -> int:
        """Send SIGTERM, like a service manager; its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._end(getattr(signal, "SIGKILL", signal.SIGTERM))

    def restart(self) -> None:
        """Kill it and start it on the same data and port."""
        self.kill()
        self.start()

    def send_signal(self, number: int) -> None:
        """Send its process a signal."""
        os.kill(self.pid, number)

    def wait(self, timeout_s: float = END_S) -> int:
        """Wait until it has ended; its exit status."""
        assert self._process is not None
        assert self._reader is not None
        status = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        self._process = None
        return status

    def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Reply:
        """Send a request without credentials: only with the given headers."""
        data = as_body(body)
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout_s)
        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            connection.request(method, target, data or None, sent)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            read = response.read()
        finally:
            connection.close()
        if names.get("content-encoding") == "gzip":
            read = gzip.decompress(read)
        return Reply(response.status, names, read)

    def wait_for_line(self, part: str, timeout_s: float = END_S) -> str:
        """The first line of its log with this part in it, once it is there."""

        def found() -> str:
            return next((line for line in self.log if part in line), "")

        with self._logged:
            line = self._logged.wait_for(found, timeout_s)
        assert line, f"nothing about {part!r} in the log:\n" + "".join(self.log)
        return line

    def _started(self, command: Sequence[str], environ: Mapping[str, str]) -> PartProcess:
        return begin_process(command, environ)

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait()

    def _read_log(self, process: PartProcess, ready: Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                with self._logged:
                    self.log.append(line)
                    self._logged.notify_all()
                message = json.loads(line)["message"] if line.startswith("{") else line
                if message.startswith("rye-node: ready on http://"):
                    url = message.split()[3]
                    self.port = int(url.rpartition(":")[2])
                    ready.set()
        ready.set()  # it has ended: waiting threads may go on


class ForkedNode(Node):
    """A node of this checkout that is forked where its environment allows it.

    Settings of Rye and those of an object storage are read at its start; other variables might
    be read when modules are imported.
    """

    def _started(self, command: Sequence[str], environ: Mapping[str, str]) -> PartProcess:
        if not CAN_FORK or not all(name.startswith(("RYE_", "AWS_")) for name in self._environ):
            return super()._started(command, environ)
        return ForkedProcess(command[len(CHECKOUT_COMMAND) :], environ)


def node_at(
    data: Path,
    *,
    command: Sequence[str] = CHECKOUT_COMMAND,
    environ: Mapping[str, str] | None = None,
) -> Node:
    """A node, not started. One of this checkout is forked, and finds its tables in a new folder.

    A test of starts or of signals takes a `Node`.
    """
    if tuple(command) != CHECKOUT_COMMAND:
        return Node(data, command=command, environ=environ)
    if not data.exists() and not any("DATABASE_URL" in name for name in environ or ()):
        give_tables(data)
    return ForkedNode(data, environ=environ)


def run_command(*words: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of ``rye-node`` of this checkout to its end, forked where that is possible.

    ``environ`` is all that it gets beside the PATH.
    """
    environ = {**PLAIN_ENV, **environ}
    if CAN_FORK:
        return run_forked(words, environ, COMMAND_S)
    return subprocess.run(
        [*CHECKOUT_COMMAND, *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=COMMAND_S,
    )


@contextmanager
def running_node(
    data: Path,
    *,
    command: Sequence[str] = CHECKOUT_COMMAND,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Node]:
    """The node of `node_at` while a block runs."""
    with until_killed(node_at(data, command=command, environ=environ)) as node:
        yield node


@contextmanager
def until_killed(node: Node) -> Iterator[Node]:
    """Start a node, and kill it at the end of a block."""
    node.start()
    try:
        yield node
    finally:
        node.kill()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node for one test, which may end it."""
    with until_killed(node_at(tmp_path / "node")) as running:
        yield running


@pytest.fixture(scope="session")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node for every test of this process: make a user for each test, and end nothing."""
    with running_node(tmp_path_factory.mktemp("shared") / "node") as running:
        yield running
