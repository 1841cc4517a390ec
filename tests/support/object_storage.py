"""Object storage of tests: versitygw where it is installed, a bucket in memory, one that fails.

`versity` serves a real S3 on loopback. It is installed by `.ci/run` below ``build/programs``.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from packing.cluster_storage import ObjectStorage
from rye_services.settings import read_settings
from rye_services.storage.object_storage import (
    Bucket,
    ObjectStorageError,
    ObstoreBucket,
    StoredFile,
    open_bucket,
)
from tests.support.programs import unavailable

KEY, SECRET = ObjectStorage.KEY, ObjectStorage.SECRET


def memory_bucket() -> ObstoreBucket:
    """An empty bucket in memory, behind the same door."""
    from obstore.store import MemoryStore

    return ObstoreBucket(MemoryStore(), "memory://bucket")


class FailingBucket:
    """A bucket that fails at random: before or after it has carried a request out."""

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

    def listed(self, prefix: str) -> Iterator[StoredFile]:
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
    if ObjectStorage.program() is None:
        unavailable("versitygw is not in build/programs")
    served = ObjectStorage(folder, *buckets)
    served.start()
    try:
        yield served.environ
    finally:
        served.stop()


def bucket_of(environ: dict[str, str], folder: Path) -> ObstoreBucket:
    """The bucket that these variables name."""
    return open_bucket(read_settings({}, environ, folder), environ)
