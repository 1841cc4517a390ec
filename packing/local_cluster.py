"""A cluster on this machine, without containers: PostgreSQL, S3, servers, workers, and a proxy.

``scripts/cluster`` starts it for a person, tests and benchmarks for themselves. Everything lies in
one folder and listens on loopback; each server and worker has a data folder of its own, and the
shared folder has what they share: keys of the node, and the stores of users where no object storage
is given.

    folder/postgresql/  the database     folder/shared/  cas/  signing/
    folder/s3/  the object storage       folder/server0/ ... folder/worker0/ ...     folder/*.log
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from threading import Condition

from packing.cluster_parts import END_S, ROOT, Begin, ClusterError, Part, begin_process
from packing.cluster_storage import INSTALL_VERSITYGW, ObjectStorage, PostgreSql
from packing.round_robin import RoundRobin

COMMAND = (sys.executable, str(ROOT / "rye_node.py"))
_STORE_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


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
        """Address of the proxy."""
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
        sys.stderr.write(f"scripts/cluster: no S3, but folders; for S3: {INSTALL_VERSITYGW}\n")
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
