"""Object storage of tests: versitygw where it is installed, a bucket in memory, one that fails.

`versity` serves a real S3 on loopback. It is installed by `.ci/run` below ``build/programs``.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from rye_services.object_storage import (
    Bucket,
    Listed,
    ObjectStorageError,
    ObstoreBucket,
    open_bucket,
)
from rye_services.settings import read_settings
from tests.support.programs import unavailable
from tests.support.workspace import ROOT

PROGRAM = ROOT / "build" / "programs" / "versitygw"
KEY, SECRET = "test-key", "test-secret-that-no-log-shows"


def memory_bucket() -> ObstoreBucket:
    """An empty bucket in memory, behind the same door."""
    from obstore.store import MemoryStore

    return ObstoreBucket(MemoryStore(), "memory://bucket")


class FailingBucket:
    """A bucket that fails at random: before it has done what was asked, or after that."""

    def __init__(self, bucket: Bucket, seed: int, share: float = 0.3) -> None:
        self._bucket, self._random, self._share = bucket, Random(seed), share  # noqa: S311 - to fail at random

    @property
    def shown(self) -> str:
        return self._bucket.shown

    def put(self, key: str, data: bytes) -> None:
        self._fail()
        self._bucket.put(key, data)
        self._fail()

    def create(self, key: str, data: bytes) -> bool:
        self._fail()
        return self._bucket.create(key, data)

    def get(self, key: str) -> bytes | None:
        self._fail()
        return self._bucket.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        self._fail()
        return self._bucket.get_range(key, start, length)

    def listed(self, prefix: str) -> Iterator[Listed]:
        self._fail()
        return self._bucket.listed(prefix)

    def folders(self, prefix: str) -> tuple[str, ...]:
        self._fail()
        return self._bucket.folders(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        self._fail()
        self._bucket.delete(keys)
        self._fail()

    def _fail(self) -> None:
        if self._random.random() < self._share:
            raise ObjectStorageError(self.shown, "no answer, as this test wants it")


@contextmanager
def versity(folder: Path, *buckets: str) -> Iterator[dict[str, str]]:
    """The variables of a node whose files are in the first of some buckets, while it is served."""
    if not PROGRAM.exists():
        unavailable("versitygw is not in build/programs")
    for bucket in buckets:
        (folder / bucket).mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    served = subprocess.Popen(
        [PROGRAM, "--port", f"127.0.0.1:{port}", "--quiet", "posix", folder],
        env={
            "PATH": os.defpath,
            "ROOT_ACCESS_KEY": KEY,
            "ROOT_SECRET_KEY": SECRET,
            "VGW_KEEP_ALIVE": "true",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield {
            "RYE_NODE_STORE": f"s3://{buckets[0]}/nodes/one",
            "RYE_NODE_STORE_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
    finally:
        served.kill()
        served.wait()


def bucket_of(environ: dict[str, str], folder: Path) -> ObstoreBucket:
    """The bucket that these variables name."""
    return open_bucket(read_settings({}, environ, folder), environ)


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("versitygw does not answer")
