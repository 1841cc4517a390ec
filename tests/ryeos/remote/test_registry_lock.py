import json
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.errors import RyeError
from ryeos.items.refs import PROJECT, ItemRef, Kind, Space
from ryeos.remote.registry_lock import LockEntry, RegistryLock
from tests.support.errors import coded

ENTRY = LockEntry(
    ref=ItemRef(Kind.TOOL, "ada/text/upper"),
    version="1.0.0",
    path="tools/ada/text/upper.py",
    registry="https://registry.example",
    text_hash="0" * 64,
    fingerprint="1" * 16,
    author="ada",
    pulled_at="2026-01-02T03:04:05Z",
)


@pytest.fixture
def lock(tmp_path: Path) -> RegistryLock:
    """The lock of a project."""
    return RegistryLock(Space(PROJECT, tmp_path))


def test_entries_are_added_and_removed(lock: RegistryLock) -> None:
    lock.put(ENTRY)

    assert lock.entries() == {"tool:ada/text/upper": ENTRY}
    assert lock.remove(ENTRY.ref) is True
    assert lock.remove(ENTRY.ref) is False
    assert lock.entries() == {}


def test_the_file_is_json_with_all_fields_of_an_entry(lock: RegistryLock) -> None:
    lock.put(ENTRY)

    assert json.loads(lock.path.read_bytes()) == {
        "registry_lock_version": 1,
        "items": {
            "tool:ada/text/upper": {
                "version": "1.0.0",
                "path": "tools/ada/text/upper.py",
                "registry": "https://registry.example",
                "integrity": "0" * 64,
                "fingerprint": "1" * 16,
                "author": "ada",
                "pulled_at": "2026-01-02T03:04:05Z",
            }
        },
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("path", "../../outside.py"),
        ("path", "tools/ada/text/upper/../../x.py"),
        ("path", "tools/ada/text/upper.exe"),
        ("path", "config/ada/text/upper.yaml"),
        ("version", "latest"),
        ("integrity", "xyz"),
        ("fingerprint", ""),
        ("author", 1),
    ],
)
def test_an_invalid_entry_is_refused(lock: RegistryLock, key: str, value: Any) -> None:  # noqa: ANN401
    lock.put(ENTRY)
    document = json.loads(lock.path.read_bytes())
    document["items"]["tool:ada/text/upper"][key] = value
    lock.path.write_text(json.dumps(document), "utf-8")

    with pytest.raises(RyeError, check=coded("LOCKFILE_INVALID")):
        lock.entries()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"items": {}}', "[" * 100_000])
def test_an_invalid_lock_file_is_not_read_as_empty(lock: RegistryLock, text: str) -> None:
    lock.path.parent.mkdir(parents=True)
    lock.path.write_text(text, "utf-8")

    with pytest.raises(RyeError, check=coded("LOCKFILE_INVALID")):
        lock.put(ENTRY)
