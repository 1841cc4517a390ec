import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.files import FileTooLargeError
from lillux.lockfile import (
    Lockfile,
    LockfileElement,
    LockfileError,
    LockfileRoot,
    dump_lockfile,
    load_lockfile,
    parse_lockfile,
    save_lockfile,
)

DIGEST = "0" * 64
EXAMPLE = Lockfile(
    generated_at="2026-02-26T04:42:00.839492+00:00",
    root=LockfileRoot(
        tool_id="mine/hello",
        version="1.0.0",
        integrity=DIGEST,
        provider_id="project",
        provider_version="1.0.0",
    ),
    resolved_chain=(
        LockfileElement(
            item_id="mine/hello",
            space="project",
            tool_type="python",
            executor_id="rye/core/primitives/execute",
            integrity=DIGEST,
        ),
        LockfileElement(
            item_id="rye/core/primitives/execute",
            space="system:core",
            tool_type="primitive",
            executor_id=None,
            integrity=DIGEST,
            provider_id="core",
            provider_version="0.1.0",
        ),
    ),
)
EXAMPLE_TEXT = """\
{
  "lockfile_version": 1,
  "generated_at": "2026-02-26T04:42:00.839492+00:00",
  "root": {
    "tool_id": "mine/hello",
    "version": "1.0.0",
    "integrity": "0000000000000000000000000000000000000000000000000000000000000000",
    "provider_id": "project",
    "provider_version": "1.0.0"
  },
  "resolved_chain": [
    {
      "item_id": "mine/hello",
      "space": "project",
      "tool_type": "python",
      "executor_id": "rye/core/primitives/execute",
      "integrity": "0000000000000000000000000000000000000000000000000000000000000000"
    },
    {
      "item_id": "rye/core/primitives/execute",
      "space": "system:core",
      "tool_type": "primitive",
      "executor_id": null,
      "integrity": "0000000000000000000000000000000000000000000000000000000000000000",
      "provider_id": "core",
      "provider_version": "0.1.0"
    }
  ],
  "registry": null,
  "verified_deps": null
}"""


def document(**changes: object) -> dict[str, Any]:
    """The example as JSON, with keys changed; ``...`` removes one."""
    whole = json.loads(EXAMPLE_TEXT) | changes
    return {name: value for name, value in whole.items() if value is not ...}


def test_a_lockfile_is_written_in_the_exact_format() -> None:
    data = dump_lockfile(EXAMPLE)

    assert data.decode() == EXAMPLE_TEXT


def test_a_lockfile_is_ascii_for_any_names() -> None:
    lockfile = parse_lockfile(json.dumps(document(registry="é")).encode(), "x.lock.json")

    data = dump_lockfile(lockfile)

    assert rb'"registry": "\u00e9"' in data


def test_a_saved_lockfile_is_loaded_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "hello@1.0.0.lock.json"

    save_lockfile(path, EXAMPLE)

    assert path.read_bytes() == EXAMPLE_TEXT.encode()
    assert load_lockfile(path) == EXAMPLE


def test_a_missing_lockfile_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_lockfile(tmp_path / "none.lock.json")


def test_an_older_root_without_provider_is_accepted_and_stays_as_it_is() -> None:
    root = {"tool_id": "a", "version": "0.0.0", "integrity": DIGEST}
    text = json.dumps(document(root=root), indent=2)

    lockfile = parse_lockfile(text.encode(), "x.lock.json")

    assert lockfile.root == LockfileRoot(tool_id="a", version="0.0.0", integrity=DIGEST)
    assert dump_lockfile(lockfile).decode() == text


def test_registry_and_verified_deps_may_be_absent() -> None:
    data = json.dumps(document(registry=..., verified_deps=...)).encode()

    lockfile = parse_lockfile(data, "x.lock.json")

    assert lockfile == EXAMPLE


def test_unknown_keys_survive_a_round_trip() -> None:
    changed = document(later={"x": [1]}, verified_deps={"lib/a.py": DIGEST})
    changed["root"]["more"] = True
    changed["resolved_chain"][0]["more"] = [None]
    text = json.dumps(changed, indent=2)

    lockfile = parse_lockfile(text.encode(), "x.lock.json")

    assert lockfile.unrecognized == {"later": {"x": [1]}}
    assert lockfile.root.unrecognized == {"more": True}
    assert lockfile.resolved_chain[0].unrecognized == {"more": [None]}
    assert json.loads(dump_lockfile(lockfile)) == changed


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON at line 1 column 1: expecting value"),
        (b"{\xff}", "not UTF-8 at byte 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "holds a number that is too large"),
        (b'{"a": NaN}', "/a: expected a finite number, found NaN"),
        (b"[]", "(root): expected a mapping, found list"),
    ],
)
def test_a_lockfile_that_is_no_json_mapping_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(LockfileError) as error:
        parse_lockfile(data, "x.lock.json")

    assert str(error.value) == f"x.lock.json: {problem}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"lockfile_version": ...}, "Missing required field lockfile_version"),
        ({"generated_at": ...}, "Missing required field generated_at"),
        ({"root": ...}, "Missing required field root"),
        ({"resolved_chain": ...}, "Missing required field resolved_chain"),
        ({"root": {"tool_id": "a", "version": "1"}}, "Missing required field root.integrity"),
        ({"resolved_chain": [{}]}, "Missing required field resolved_chain.0.item_id"),
        ({"lockfile_version": 2}, "/lockfile_version: expected 1, found 2"),
        ({"lockfile_version": True}, "/lockfile_version: expected 1, found True"),
        ({"lockfile_version": "1"}, "/lockfile_version: expected 1, found str"),
        ({"generated_at": 5}, "/generated_at: expected text, found 5"),
        ({"root": []}, "/root: expected a mapping, found list"),
        ({"resolved_chain": {}}, "/resolved_chain: expected a list, found dict"),
        ({"resolved_chain": [1]}, "/resolved_chain/0: expected a mapping, found int"),
        (
            {"resolved_chain": [{"item_id": "a", "space": "user", "integrity": []}]},
            "/resolved_chain/0/integrity: expected text or null, found list",
        ),
        ({"verified_deps": []}, "/verified_deps: expected a mapping, found list"),
        ({"verified_deps": {"a/b": 1}}, "/verified_deps/a~1b: expected text, found 1"),
    ],
)
def test_a_wrong_field_is_refused_by_name(changes: dict[str, Any], problem: str) -> None:
    data = json.dumps(document(**changes)).encode()

    with pytest.raises(LockfileError) as error:
        parse_lockfile(data, "x.lock.json")

    assert str(error.value) == f"x.lock.json: {problem}"
    assert error.value.code == "LOCKFILE_INVALID"


def test_a_lockfile_of_10_mib_is_refused_unread(tmp_path: Path) -> None:
    size = 10 * 1024 * 1024
    path = tmp_path / "big.lock.json"
    path.write_bytes(b" " * size)

    with pytest.raises(FileTooLargeError) as from_file:
        load_lockfile(path)
    with pytest.raises(FileTooLargeError) as from_bytes:
        parse_lockfile(b" " * size, "big")

    assert str(from_file.value) == f"{path}: expected at most 4194304 bytes, found {size}"
    assert str(from_bytes.value) == f"big: expected at most 4194304 bytes, found {size}"


TEXT = st.text(max_size=8)
OPTIONAL = st.none() | TEXT
MORE = st.dictionaries(TEXT.map("x-{}".format), st.none() | st.lists(st.integers()), max_size=2)
ROOTS = st.builds(
    LockfileRoot,
    tool_id=TEXT,
    version=TEXT,
    integrity=TEXT,
    provider_id=OPTIONAL,
    provider_version=OPTIONAL,
    unrecognized=MORE,
)
ELEMENTS = st.builds(
    LockfileElement,
    item_id=TEXT,
    space=TEXT,
    tool_type=OPTIONAL,
    executor_id=OPTIONAL,
    integrity=OPTIONAL,
    provider_id=OPTIONAL,
    provider_version=OPTIONAL,
    unrecognized=MORE,
)
LOCKFILES = st.builds(
    Lockfile,
    generated_at=TEXT,
    root=ROOTS,
    resolved_chain=st.lists(ELEMENTS, max_size=3).map(tuple),
    registry=st.none() | MORE,
    verified_deps=st.none() | st.dictionaries(TEXT, TEXT, max_size=3),
    unrecognized=MORE,
)


@pytest.mark.property
@given(LOCKFILES)
def test_any_lockfile_reads_back_as_it_was_written(lockfile: Lockfile) -> None:
    data = dump_lockfile(lockfile)

    assert parse_lockfile(data, "x.lock.json") == lockfile
    assert dump_lockfile(parse_lockfile(data, "x.lock.json")) == data


@pytest.mark.property
@given(
    st.binary(max_size=64)
    | st.integers(0, len(EXAMPLE_TEXT)).map(lambda cut: EXAMPLE_TEXT.encode()[:cut])
)
def test_any_bytes_are_a_lockfile_or_a_lockfile_error(data: bytes) -> None:
    with suppress(LockfileError):
        assert parse_lockfile(data, "x.lock.json") == EXAMPLE
