"""A real cluster on loopback: servers behind a proxy that changes with each request, workers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from packing.cluster_parts import PartProcess, begin_process
from packing.cluster_storage import ObjectStorage
from packing.local_cluster import COMMAND, LocalCluster
from tests.support.databases import database_url
from tests.support.node import Node
from tests.support.node_forks import CAN_FORK, ForkedProcess


class TestedCluster(LocalCluster):
    """A cluster whose servers appear as one node behind the proxy."""

    __test__ = False

    @property
    def node(self) -> Node:
        """The node that clients see."""
        node = Node(self.folder / "server0", environ=self.environ)
        node.port = self.proxy.port
        return node

    @property
    def log(self) -> str:
        """The output of all processes."""
        return "".join(part.log.read_text("utf-8") for part in self.parts if part.log.exists())


def begin_forked(words: Sequence[str], environ: Mapping[str, str]) -> PartProcess:
    """Start a server or a worker of this checkout, forked where that is possible."""
    if CAN_FORK:
        return ForkedProcess(words[len(COMMAND) :], environ)
    return begin_process(words, environ)


@contextmanager
def running_cluster(
    folder: Path,
    *,
    servers: int = 3,
    workers: int = 2,
    settings: Mapping[str, str] | None = None,
    storage: ObjectStorage | None = None,
) -> Iterator[TestedCluster]:
    """A cluster while a block runs, on the database of tests."""
    cluster = TestedCluster(
        folder,
        servers=servers,
        workers=workers,
        storage=storage,
        begin=begin_forked,
        database_url=database_url(folder, "postgresql"),
        settings={
            "RYE_NODE_EXECUTION_LEASE_S": "4",
            "RYE_NODE_SHUTDOWN_TIMEOUT_S": "1",
            **(settings or {}),
        },
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
