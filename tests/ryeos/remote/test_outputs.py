import json
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from ryeos.remote.run_outputs import Outputs, why_refused, write_outputs
from ryeos.sync.objects import OutputsBundle

REF = ".ai/state/objects/refs/graphs/run-1.json"
TRANSCRIPT = ".ai/state/graphs/run-1/transcript.jsonl"
PAGE = ".ai/knowledge/state/graphs/demo/run-1.md"


class Machine:
    """A project that receives outputs of nodes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.book = self.root / ".ai/state/remote/mine/outputs.json"
        (self.root / ".ai").mkdir(parents=True)
        self.order: list[str] = []

    def bring(self, **files: bytes) -> Outputs:
        return self.bring_all(files)

    def bring_all(self, files: dict[str, bytes]) -> Outputs:
        blobs = {sha256_hex(data): data for data in files.values()}

        def get_blob(digest: str) -> bytes:
            self.order.append(digest)
            return blobs[digest]

        digests = {path: sha256_hex(data) for path, data in files.items()}
        return write_outputs(
            self.root, OutputsBundle("t", "", digests), get_blob, self.book, self.root
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def ref(digest: str = "0" * 64) -> bytes:
    return json.dumps({"hash": digest}).encode()


def test_outputs_are_written_and_refs_come_last(machine: Machine) -> None:
    files = {REF: ref(), TRANSCRIPT: b"{}\n", PAGE: b"page\n"}

    outputs = machine.bring_all(files)

    assert outputs.written == (PAGE, TRANSCRIPT, REF)
    assert outputs.pages == {PAGE: b"page\n"}
    assert {path: (machine.root / path).read_bytes() for path in files} == files


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        ".ai/tools/a.py",
        ".ai/knowledge/other.md",
        ".ai/config/keys/trusted/x.toml",
        ".ai/state/objects/blobs/aa/aa/" + "a" * 64,
        ".ai/state/objects/refs/remotes/default.json",
        ".ai/state/objects/cache/nodes/x.json",
        ".ai/state/remote/default/outputs.json",
        ".ai/state/threads/registry.db",
        ".ai/state/threads/registry.db-wal",
        ".ai/state/threads/t/runner.json",
        ".ai/state/threads/t/grants.json",
        ".ai/state/graphs/run-1/cancel",
        ".ai/state/graphs/run-1/run.lock",
    ],
)
def test_a_node_cannot_write_lockfiles_and_configuration(machine: Machine, path: str) -> None:
    outputs = machine.bring_all({path: ref()})

    assert outputs.written == ()
    assert list(outputs.kept or {}) == [path]
    assert not (machine.root / path).exists()


def test_the_usual_files_of_a_run_are_not_reported(machine: Machine) -> None:
    folder = ".ai/state/threads/t"
    usual = (f"{folder}/grants.json", f"{folder}/runner.json", ".ai/state/threads/registry.db")

    outputs = machine.bring_all(dict.fromkeys((*usual, f"{folder}/cancel", "grants.json"), b"{}"))

    assert len(outputs.kept or {}) == 5
    assert [problem.partition(":")[0] for problem in outputs.problems] == [
        f"output '{folder}/cancel'",
        "output 'grants.json'",
    ]


def test_the_store_of_a_run_among_the_outputs_is_not_reported(
    machine: Machine,
) -> None:
    """As node 0.1.15 does for every graph."""
    store = ".ai/state/objects"
    digest = "2f717ebde6252f9a6dee47a4d843f0218b4020f3aafbef244fa6850f7e00c265"
    contents = (f"{store}/objects/2f/71/{digest}.json", f"{store}/blobs/2f/71/{digest}")

    outputs = machine.bring_all(dict.fromkeys((*contents, f"{store}/refs/remotes/x.json"), b"{}"))

    assert outputs.written == ()
    assert [problem.partition(":")[0] for problem in outputs.problems] == [
        f"output '{store}/refs/remotes/x.json'"
    ]


@pytest.mark.parametrize(
    "path", [".ai/state/../../evil", ".ai/state//x", ".ai/state/a\\b", ".ai/state/nul"]
)
def test_an_unsafe_path_is_refused(machine: Machine, path: str) -> None:
    assert machine.bring_all({path: b"x"}).written == ()


def test_a_link_is_not_followed(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (machine.root / ".ai/state").mkdir()
    (machine.root / ".ai/state/graphs").symlink_to(tmp_path / "outside")

    assert machine.bring_all({TRANSCRIPT: b"{}\n"}).written == ()
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_existing_local_file_is_kept(machine: Machine) -> None:
    target = machine.root / TRANSCRIPT
    target.parent.mkdir(parents=True)
    target.write_bytes(b"mine\n")

    outputs = machine.bring_all({TRANSCRIPT: b"theirs\n"})

    assert "another file is here" in (outputs.kept or {})[TRANSCRIPT]
    assert target.read_bytes() == b"mine\n"


def test_an_output_replaces_the_previous_output(machine: Machine) -> None:
    machine.bring_all({TRANSCRIPT: b"one\n"})

    assert machine.bring_all({TRANSCRIPT: b"two\n"}).written == (TRANSCRIPT,)
    assert (machine.root / TRANSCRIPT).read_bytes() == b"two\n"


def test_an_unchanged_output_is_not_written_again(machine: Machine) -> None:
    machine.bring_all({TRANSCRIPT: b"one\n"})

    assert machine.bring_all({TRANSCRIPT: b"one\n"}) == Outputs((), {})


@pytest.mark.parametrize("text", [b"", b"[]", b'{"hash": "x"}', b'{"hash": 1}'])
def test_an_invalid_ref_is_not_written(machine: Machine, text: bytes) -> None:
    assert machine.bring_all({REF: text}).written == ()


def test_the_state_of_a_tool_may_be_written() -> None:
    assert why_refused(".ai/state/mine/notes.json") == ""
