"""Writers and sweeps of packs are killed at any time: acknowledged content is there."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from lillux.store import Store
from lillux.store_layout import ObjectKind
from tests.support.workspace import PLAIN_ENV, ROOT

pytestmark = [pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does"), pytest.mark.heavy]
KILLS = 25
BLOB = ObjectKind.BLOB
_STORE = """
import os, sys
from lillux.digests import sha256_hex
from lillux.store import Durability, Store
from lillux.store_layout import ObjectKind
from pathlib import Path
store = Store(Path(sys.argv[1]), levels=1)
print("ready", flush=True)
"""
WRITES = f"""{_STORE}
for number in range(10**6):
    data = [b"%s %d %d" % (sys.argv[2].encode(), number, piece) for piece in range(200)]
    pieces = [(ObjectKind.BLOB, sha256_hex(one), one) for one in data]
    store.keep_all(pieces, Durability.UNFORCED)
    print(number, flush=True)
"""
SWEEPS = f"""{_STORE}
for number in range(10**6):
    for path in (store.root / "packs").glob("*.pack"):
        os.utime(path, (1e9, 1e9))
    garbage = [one.digest for one in store.stored(ObjectKind.BLOB) if one.digest[0] in "0123"]
    store.remove_all_older(ObjectKind.BLOB, garbage[number::3], 2e9)
    store.remove_leftovers(2e9)
"""


def killed(script: str, *arguments: str) -> list[str]:
    """Run a script for a random time; its output until it was killed."""
    argv = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(
        argv, cwd=ROOT, env=PLAIN_ENV, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(random.uniform(0, 0.08))  # noqa: S311 - the time of the kill is the test
        process.kill()
        return process.stdout.read().split("\n")[:-1]


def test_content_that_a_killed_writer_reported_as_stored_is_whole(tmp_path: Path) -> None:
    acknowledged = 0
    for kill in range(KILLS):
        name = f"{kill}"
        for number in map(int, killed(WRITES, str(tmp_path), name)):
            acknowledged += 1
            data = [b"%s %d %d" % (name.encode(), number, piece) for piece in range(200)]
            store = Store(tmp_path, levels=1)
            assert [store.get_blob(sha256_hex(one)) for one in data] == data

    store = Store(tmp_path, levels=1)
    assert acknowledged
    for piece in store.stored(BLOB):
        store.get_blob(piece.digest)


def test_a_killed_sweep_removes_only_pieces_that_it_was_given(tmp_path: Path) -> None:
    for number in range(12):
        data = [b"%d %d" % (number, piece) for piece in range(300)]
        pieces = [(BLOB, sha256_hex(one), one) for one in data]
        Store(tmp_path, levels=1).keep_all(pieces)
    wanted = {
        digest: data
        for number in range(12)
        for data in (b"%d %d" % (number, piece) for piece in range(300))
        if (digest := sha256_hex(data))[0] not in "0123"
    }

    for _ in range(KILLS):
        killed(SWEEPS, str(tmp_path))
        store = Store(tmp_path, levels=1)
        assert {digest: store.get_blob(digest) for digest in wanted} == wanted
