"""``rye store``: kept content, and unreferenced content."""

import json
import os

import pytest

from lillux.digests import sha256_hex
from lillux.store import Store
from tests.support.command_line import CommandLine


@pytest.fixture
def store(cli: CommandLine) -> Store:
    """The store of the project, with content that a ref names, and old content without a ref."""
    cli.project_space.ai.mkdir()
    store = Store(cli.project_space.ai / "state" / "objects")
    store.write_ref("graphs/run-1", {"hash": store.put_object({"n": 1})})
    age(store, store.put_blob(b"12345"))
    return store


def age(store: Store, digest: str) -> None:
    """Have a blob be from long ago."""
    os.utime(store.root / "blobs" / digest[:2] / digest[2:4] / digest, (1000, 1000))


def test_an_empty_store_is_shown_and_not_made(cli: CommandLine) -> None:
    shown = cli.json("store", "show")

    root = cli.user_space.ai / "state" / "objects"
    assert shown == {
        "status": "success",
        "store": str(root),
        "blobs": {"count": 0, "bytes": 0},
        "objects": {"count": 0, "bytes": 0},
        "refs": 0,
    }
    assert not root.exists()


def test_a_store_is_shown_in_numbers(cli: CommandLine, store: Store) -> None:
    done = cli("store", "show")

    assert done.stdout.splitlines() == [
        str(store.root),
        "blobs             1                5 bytes",
        "objects           1                7 bytes",
        "refs              1",
    ]


def test_unreferenced_content_is_removed_once_it_is_old(cli: CommandLine, store: Store) -> None:
    young = store.put_blob(b"young")

    report = cli.json("store", "gc", "--dry-run")
    done = cli("store", "gc")

    numbers = {"removed": 1, "freed_bytes": 5, "kept": 2}
    assert report == {"status": "success", "store": str(store.root), "dry_run": True, **numbers}
    assert done.stdout == f"removed 1 of 3 files, 5 bytes, of {store.root}\n"
    assert store.has_blob(young)


def test_the_grace_can_be_given(cli: CommandLine, store: Store) -> None:
    age(store, store.put_blob(b"another"))

    assert cli.json("store", "gc", "--grace", "1e12")["removed"] == 0
    assert cli.json("store", "gc", "--grace", "0.5")["removed"] == 2


@pytest.mark.parametrize("grace", ["nan", "inf", "-1"])
def test_an_invalid_grace_is_refused(cli: CommandLine, grace: str) -> None:
    done = cli("store", "gc", f"--grace={grace}")

    assert (done.status, done.stderr.splitlines()[0]) == (
        2,
        f"error: --grace: expected a number of seconds from 0 up, found {grace}",
    )


def test_the_last_state_of_a_run_stays_though_no_ref_names_it_yet(
    cli: CommandLine, store: Store
) -> None:
    first, last = store.put_object({"step": 1}), store.put_object({"step": 2})
    for digest in (first, last):
        os.utime(store.root / "objects" / digest[:2] / digest[2:4] / f"{digest}.json", (1, 1))
    folder = cli.project_space.ai / "state" / "graphs" / "mine-1-00aa"
    folder.mkdir(parents=True)
    lines = [{"payload": {"state_hash": digest}} for digest in (first, last)]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (folder / "transcript.jsonl").write_text(text, "utf-8")

    cli.json("store", "gc")

    assert (store.has_object(first), store.has_object(last)) == (False, True)


def test_a_damaged_ref_is_reported_and_nothing_removed(cli: CommandLine, store: Store) -> None:
    ref = store.root / "refs" / "graphs" / "run-1.json"
    ref.write_bytes(b"{")

    failed = json.loads(cli("store", "gc", "--json").stdout)

    assert (failed["status"], failed["code"]) == ("error", "INTEGRITY")
    assert str(ref) in failed["error"]
    assert store.has_blob(sha256_hex(b"12345"))
