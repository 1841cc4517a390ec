"""Storage of a local cluster: a PostgreSQL server, and an object storage."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from packing.cluster_parts import END_S, READY_S, ROOT, ClusterError

_DEBIAN = Path("/usr/lib/postgresql")
INSTALL_VERSITYGW = (
    "GOBIN=$PWD/build/programs go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"
)


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
        """Path of versitygw, in ``build/programs`` or on the PATH."""
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
            raise ClusterError(f"expected versitygw, found none: {INSTALL_VERSITYGW}")
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
    """User that PostgreSQL runs as: it refuses to be root's."""
    if os.geteuid():
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
