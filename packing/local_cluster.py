"""A cluster on this machine, without containers: PostgreSQL, S3, servers, workers, and a proxy.

``scripts/cluster`` starts it for a person, tests and benchmarks for themselves. Everything lies in
one folder and listens on loopback; each server and worker has a data folder of its own, and the
shared folder has what they share: keys of the node, and the stores of users where no object storage
is given.

    folder/postgresql/  the database     folder/shared/  cas/  signing/
    folder/s3/  the object storage       folder/server0/ ... folder/worker0/ ...     folder/*.log
"""

import asyncio
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from shlex import quote
from threading import Condition, Event, Thread
from typing import IO, Protocol

# --- round robin ----------------------------------------------------------------------------------
# A proxy on loopback that sends each request to the next server of a cluster.
#
# Each connection is for one request, so that no two requests of a client meet the same server by
# keeping it open. Bodies and answers pass through as they come, also those that never end.

_HEAD_BYTES = 64 * 1024
_PIECE_BYTES = 64 * 1024


class RoundRobin:
    """The proxy, on a thread of its own. ``requests`` are those that were sent on, by server."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.requests: dict[int, int] = {}
        self._ports: tuple[int, ...] = ()
        # The loop has weak references alone: a connection that waits would be collected.
        self._connections: set[asyncio.Task[None] | None] = set()
        self._numbers = count()
        self._loop = asyncio.new_event_loop()
        self._is_ready = Event()
        self._thread = Thread(target=self._run, name="proxy", daemon=True)

    def start(self, ports: Sequence[int]) -> None:
        """Answer on the port, any that is free for 0, for the servers on these."""
        self._ports = tuple(ports)
        self.requests = dict.fromkeys(ports, 0)
        self._thread.start()
        self._is_ready.wait()

    def send_to(self, ports: Sequence[int]) -> None:
        """Send requests from now on to these servers only, as before one of them is replaced."""
        self._ports = tuple(ports)
        self.requests = {**dict.fromkeys(ports, 0), **self.requests}

    def stop(self) -> None:
        """Stop answering."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        elif not self._loop.is_closed():  # it was never started
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_HEAD_BYTES)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # for connections that are closed now
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = [writer]
        sending: asyncio.Task[None] | None = None
        this = asyncio.current_task()
        self._connections.add(this)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            their_reader, their_writer = await self._next_server()
            opened.append(their_writer)
            their_writer.write(_for_one_request(head))
            sending = asyncio.ensure_future(_pass_on(reader, their_writer))
            await _pass_on(their_reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one of the two is gone, or is no client of HTTP
        finally:
            self._connections.discard(this)
            if sending is not None:
                sending.cancel()
            for one in opened:
                one.close()

    async def _next_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the next server that takes one. Raises OSError where none does."""
        ports = self._ports
        for _ in ports:
            port = ports[next(self._numbers) % len(ports)]
            with suppress(ConnectionRefusedError):
                streams = await asyncio.open_connection("127.0.0.1", port)
                self.requests[port] += 1
                return streams
        raise ConnectionRefusedError


def _for_one_request(head: bytes) -> bytes:
    """The head of a request without its ``Connection``, and with one that ends it."""
    line, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [one for one in headers if not one.lower().startswith((b"connection:", b"keep-alive:"))]
    return b"\r\n".join((line, *kept, b"Connection: close", b"", b""))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


# --- local cluster --------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parent.parent
COMMAND = (sys.executable, str(ROOT / "rye_node.py"))
READY_S, END_S = 60.0, 60.0
_DEBIAN = Path("/usr/lib/postgresql")
_STORE_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_INSTALL_VERSITYGW = (
    "GOBIN=$PWD/build/programs go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"
)
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SHIV_ROOT", "RYE_CACHE_DIR")


class ClusterError(Exception):
    """A part of the cluster does not start."""


class PartProcess(Protocol):
    """What a part needs of its process: `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def stderr(self) -> IO[str] | None:
        """What it says."""

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises TimeoutExpired."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it has not ended."""

    def kill(self) -> None:
        """End it as a power cut does."""


Begin = Callable[[Sequence[str], Mapping[str, str]], PartProcess]


def begin_process(words: Sequence[str], environ: Mapping[str, str]) -> PartProcess:
    """Start a program with these variables; what it says is read from ``stderr``."""
    return subprocess.Popen(
        words,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


class Part:
    """One process of the cluster, which can be ended, killed, stopped and started again."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
        begin: Begin,
    ) -> None:
        self.name, self.log = name, log
        self.port = 0
        self._words, self._environ, self._begin = words, environ, begin
        self._process: PartProcess | None = None
        self._changed = Condition()

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None  # noqa: S101 - it was started
        return self._process.pid

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on the port that it had before; `wait_until_ready` waits for it."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        words = [*self._words, "--port", str(self.port)]
        self._process = self._begin(words, {**kept, **self._environ})
        self._is_ready = False
        Thread(target=self._read, args=(self._process,), daemon=True).start()

    def wait_until_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until it answers. Raises ClusterError with the end of its log."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_ready or not self.is_running, timeout_s)
            if self._is_ready:
                return
        tail = "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-15:])
        raise ClusterError(f"{self.name} does not answer within {timeout_s:g} s:\n{tail}")

    def send_signal(self, number: int) -> None:
        """Send its process a signal."""
        os.kill(self.pid, number)

    def end(self, number: int = signal.SIGTERM, timeout_s: float = END_S) -> int | None:
        """Ask it to end, and wait; its exit status, None where it was not running."""
        if self._process is None:
            return None
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = END_S) -> int | None:
        """Wait for its end, and kill it after that time; its exit status."""
        if self._process is None:
            return None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(timeout_s)

    def kill(self) -> None:
        """End it as a power cut does."""
        self.end(signal.SIGKILL)

    def _read(self, process: PartProcess) -> None:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        with process.stderr as lines, self.log.open("a", encoding="utf-8") as log:
            for line in lines:
                log.write(line)
                log.flush()
                if "ready on http://" in line:
                    with self._changed:
                        self.port = int(line.split("ready on ")[1].split()[0].rpartition(":")[2])
                        self._is_ready = True
                        self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


class LocalCluster:
    """PostgreSQL, servers, workers and a proxy. ``settings`` are variables of all processes.

    The stores of users are in the object storage; without one they are in the shared folder.
    ``port`` is that of the proxy, any that is free for 0.
    """

    def __init__(
        self,
        folder: Path,
        *,
        servers: int = 3,
        workers: int = 4,
        command: Sequence[str] = COMMAND,
        begin: Begin = begin_process,
        settings: Mapping[str, str] | None = None,
        database_url: str = "",
        storage: "ObjectStorage | None" = None,
        port: int = 0,
    ) -> None:
        self.folder = folder.absolute()
        self.storage = storage
        self._command, self._begin = command, begin
        self.postgresql = None if database_url else PostgreSql(self.folder / "postgresql")
        shared = self.folder / "shared"
        self.environ: dict[str, str] = {
            "DATABASE_URL": database_url or self.postgresql.url,  # type: ignore[union-attr]
            "RYE_NODE_QUEUE": "cluster",
            "RYE_NODE_ROLES": "all",
            "CAS_BASE_PATH": str(shared / "cas"),
            "SIGNING_KEY_DIR": str(shared / "signing"),
            "RYE_NODE_TRUSTED_PROXIES": "127.0.0.1",
            **(storage.environ if storage else {}),
            **(settings or {}),
        }
        if (shared / "config").is_dir():  # of an older cluster: its authorised keys
            self.environ["NODE_CONFIG_DIR"] = str(shared / "config")
        self.servers = [self._part("serve", f"server{number}") for number in range(servers)]
        self.workers = [
            self._part("work", f"worker{number}", "--places", "2") for number in range(workers)
        ]
        self.proxy = RoundRobin(port)

    @property
    def url(self) -> str:
        """Where the proxy answers."""
        return f"http://127.0.0.1:{self.proxy.port}"

    @property
    def parts(self) -> list[Part]:
        """Every process of ours."""
        return [*self.servers, *self.workers]

    def start(self) -> None:
        """Start all of it; it answers when this returns. Raises ClusterError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.storage is not None:
            self.storage.start()
        if self.postgresql is not None:
            self.postgresql.start()
        first, *others = self.parts
        first.start()  # makes keys and tables, and the others find them
        first.wait_until_ready()
        for part in others:
            part.start()
        for part in others:
            part.wait_until_ready()
        self.proxy.start([part.port for part in self.servers])
        facts = {
            "url": self.url,
            "pid": os.getpid(),
            "servers": {one.name: one.port for one in self.servers},
            "workers": {one.name: one.pid for one in self.workers},
            "environ": self.environ,
        }
        (self.folder / "cluster.json").write_text(json.dumps(facts, indent=2), "utf-8")

    def stop(self) -> None:
        """End all of it: servers and workers first, as a service manager does."""
        for part in self.parts:
            if part.is_running:
                part.send_signal(signal.SIGCONT)
                part.send_signal(signal.SIGTERM)
        for part in self.parts:
            part.wait()
        self.proxy.stop()
        if self.postgresql is not None:
            self.postgresql.stop()
        if self.storage is not None:
            self.storage.stop()

    def _part(self, verb: str, name: str, *more: str) -> Part:
        data = ("--data", str(self.folder / name))
        log = self.folder / f"{name}.log"
        words = (*self._command, verb, *data, *more)
        return Part(name, words, self.environ, log, self._begin)


class PostgreSql:
    """A server of Debian's PostgreSQL, in a folder, on a socket there; never run by root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owner = _owner()
        self._sockets = folder if len(str(folder)) < 80 else Path(f"/tmp/rye-pg-{os.getpid()}")  # noqa: PLR2004, S108 - a socket's address is short
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its one database."""
        return f"postgresql+psycopg://rye@/postgres?host={self._sockets}"

    def start(self) -> None:
        """Start it, made first where it is not there yet. Raises ClusterError."""
        programs = postgresql_programs()
        data = self._folder / "data"
        for folder in (self._folder, self._sockets):
            folder.mkdir(parents=True, exist_ok=True)
            if self._owner:
                shutil.chown(folder, self._owner)
        if not data.exists():
            made = ("-A", "trust", "-U", "rye", "-E", "UTF8", "--locale=C")
            self._run(programs / "initdb", "-D", data, *made)
        options = ("-c", "listen_addresses=", "-c", "max_connections=400")
        with (self._folder / "log").open("ab") as log:
            words = [programs / "postgres", "-D", data, "-k", self._sockets, *options]
            self._server = subprocess.Popen(
                [str(word) for word in words],
                user=self._owner,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until_s = time.monotonic() + READY_S
        while not self._is_ready(programs):
            if self._server.poll() is not None or time.monotonic() > until_s:
                raise ClusterError(f"PostgreSQL does not answer: see {self._folder / 'log'}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it, its connections too."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """End it without a checkpoint: the next start has to recover what was committed."""
        self._end(signal.SIGQUIT)

    def _end(self, number: int) -> None:
        if self._server is not None:
            self._server.send_signal(number)
            self._server.wait(END_S)
            self._server = None

    def _is_ready(self, programs: Path) -> bool:
        ended = subprocess.run(
            [str(programs / "pg_isready"), "-q", "-h", str(self._sockets)], check=False
        )
        return not ended.returncode

    def _run(self, *words: object) -> None:
        ended = subprocess.run(
            [str(word) for word in words], user=self._owner, capture_output=True, check=False
        )
        if ended.returncode:
            raise ClusterError(f"{words[0]}: {ended.stderr.decode(errors='replace')}")


class ObjectStorage:
    """An S3 on loopback, by versitygw: each bucket is a folder below ``folder``.

    ``environ`` has the variables of a node whose stores are in the first of the buckets.
    """

    KEY, SECRET = "test-key", "test-secret-that-no-log-shows"

    def __init__(self, folder: Path, *buckets: str) -> None:
        self._folder, self._buckets = folder, buckets or ("rye",)
        self._server: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])

    @staticmethod
    def program() -> Path | None:
        """Where versitygw is, in ``build/programs`` or on the PATH."""
        built = ROOT / "build" / "programs" / "versitygw"
        found = str(built) if built.exists() else shutil.which("versitygw")
        return Path(found) if found else None

    @property
    def environ(self) -> dict[str, str]:
        """The variables that a node needs to find it."""
        return {
            "RYE_NODE_STORE": f"s3://{self._buckets[0]}/nodes/one",
            "RYE_NODE_STORE_ENDPOINT": f"http://127.0.0.1:{self._port}",
            "AWS_ACCESS_KEY_ID": self.KEY,
            "AWS_SECRET_ACCESS_KEY": self.SECRET,
        }

    def start(self) -> None:
        """Start it; it answers when this returns. Raises ClusterError."""
        program = self.program()
        if program is None:
            raise ClusterError(f"expected versitygw, found none: {_INSTALL_VERSITYGW}")
        for bucket in self._buckets:
            (self._folder / bucket).mkdir(parents=True, exist_ok=True)
        words = ["--port", f"127.0.0.1:{self._port}", "--quiet", "posix", str(self._folder)]
        self._server = subprocess.Popen(
            [str(program), *words],
            env={
                "PATH": os.defpath,
                "ROOT_ACCESS_KEY": self.KEY,
                "ROOT_SECRET_KEY": self.SECRET,
                "VGW_KEEP_ALIVE": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until_s = time.monotonic() + READY_S
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > until_s:
                raise ClusterError(f"versitygw does not answer on port {self._port}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it, as a power cut does."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


def postgresql_programs() -> Path:
    """The folder of PostgreSQL's programs, the newest there is. Raises ClusterError."""
    versions = sorted(_DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name))
    found = shutil.which("postgres")
    if versions:
        return versions[-1]
    if found is None:
        raise ClusterError("expected PostgreSQL, found none: apt-get install postgresql")
    return Path(found).parent


def _owner() -> str | None:
    """Who PostgreSQL runs as: it refuses to be root's."""
    if os.geteuid():
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def main(arguments: Sequence[str]) -> int:
    """``scripts/cluster [start|stop|status] [DIR]``; the exit status."""
    verb, folder = (*arguments, "start", "")[:2] if arguments else ("start", "")
    place = Path(folder or ROOT / "build" / "cluster").absolute()
    if verb not in ("start", "stop", "status"):
        sys.stderr.write(f"scripts/cluster: expected start, stop or status, found {verb}\n")
        return 2
    facts = place / "cluster.json"
    if verb != "start":
        return _ask(facts, verb)
    cluster = LocalCluster(place, storage=_storage_for(place))
    stopped = Condition()
    received: list[int] = []

    def stop(number: int, _: object) -> None:
        received.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        cluster.start()
        _say_how(cluster)
        with stopped:
            while not received:
                stopped.wait(0.2)
    except ClusterError as error:
        sys.stderr.write(f"scripts/cluster: {error}\n")
        return 1
    finally:
        cluster.stop()
        facts.unlink(missing_ok=True)
    sys.stderr.write("scripts/cluster: ended\n")
    return 0


def _storage_for(place: Path) -> ObjectStorage | None:
    """Object storage, but where it cannot be had or where an older cluster has shared folders."""
    if (place / "shared").exists() and not (place / "s3").exists():
        return None
    if ObjectStorage.program() is None:
        sys.stderr.write(f"scripts/cluster: no S3, but folders; for S3: {_INSTALL_VERSITYGW}\n")
        return None
    return ObjectStorage(place / "s3")


def _say_how(cluster: LocalCluster) -> None:
    names = ("DATABASE_URL", *_STORE_VARIABLES)
    environ = cluster.environ
    known = " ".join(f"{name}={quote(environ[name])}" for name in names if name in environ)
    add = f"build/venv/bin/python rye_node.py keys add KEY.pem --data {cluster.folder / 'server0'}"
    lines = (
        f"ready on {cluster.url}: {len(cluster.servers)} servers, {len(cluster.workers)} workers",
        f"logs and data: {cluster.folder}",
        "a key that may use it:",
        f"  {known} {add}",
        f"end it: Ctrl-C, or scripts/cluster stop {cluster.folder}",
    )
    sys.stderr.write("".join(f"scripts/cluster: {line}\n" for line in lines))


def _ask(facts: Path, verb: str) -> int:
    """Show a cluster that runs, or end it; status 3 if no cluster runs."""
    try:
        known = json.loads(facts.read_text("utf-8"))
        os.kill(known["pid"], signal.SIGTERM if verb == "stop" else 0)
    except (FileNotFoundError, ProcessLookupError):
        sys.stderr.write(f"scripts/cluster: no cluster runs in {facts.parent}\n")
        return 3
    until_s = time.monotonic() + END_S
    while verb == "stop" and facts.exists() and time.monotonic() < until_s:
        time.sleep(0.1)
    sys.stdout.write(json.dumps(known, indent=2) + "\n" if verb == "status" else "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
