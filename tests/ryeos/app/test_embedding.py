"""``import ryeos``: the names of `ryeos.app.embedding` and `ryeos.app.aio`."""

import asyncio
import dataclasses
import os
import re
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ryeos
from lillux.signing import compute_key_digest
from lillux.store_errors import ObjectMissingError
from lillux.values import dataclass, field
from ryeos import aio
from ryeos.items.errors import IntegrityError
from ryeos.items.refs import Space
from tests.support.endings import wait_until
from tests.support.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
BASH = "rye/bash/bash"
posix_only = pytest.mark.skipif(os.name == "nt", reason="the tool of these tests is for POSIX")


@pytest.fixture
def opened(workspace: Workspace, bundle: Space) -> ryeos.Rye:
    """The workspace of a project, opened as a host program does."""
    return ryeos.open_workspace(workspace.project_path, environ=workspace.env, bundle=bundle)


def test_every_public_name_exists_and_an_unknown_one_is_an_error() -> None:
    for name in ryeos.__all__:
        assert getattr(ryeos, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = getattr(ryeos, "nothing")  # noqa: B009
    assert "open_workspace" in dir(ryeos)


def test_importing_rye_imports_no_other_module() -> None:
    code = "import sys; old = set(sys.modules); import ryeos; print(len(set(sys.modules) - old))"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT, encoding="utf-8"
    )

    assert done.stdout == "1\n"


@posix_only
def test_a_tool_is_run_by_its_id(opened: ryeos.Rye) -> None:
    executor = ryeos.PrimitiveExecutor(opened)

    done = executor.execute(BASH, {"command": "echo hi"}, trace=True)
    failed = executor.execute(BASH, {"command": "exit 3"}, validate_chain=False)

    assert (done.success, done.data["stdout"], bool(done.trace)) == (True, "hi\n", True)
    assert (failed.success, failed.data["return_code"]) == (False, 3)


@pytest.mark.parametrize(
    ("item_id", "code"),
    [
        ("mine/none", "ITEM_NOT_FOUND"),
        ("../evil", "INVALID_REF"),
        ("knowledge:rye/core/terminology", "INVALID_REF"),
        ("mine/unsigned", "UNSIGNED"),
    ],
)
@pytest.mark.parametrize("validate_chain", [True, False])
def test_what_cannot_be_run_is_a_result(
    opened: ryeos.Rye, workspace: Workspace, item_id: str, code: str, *, validate_chain: bool
) -> None:
    workspace.project.tool("mine/unsigned")

    refused = ryeos.PrimitiveExecutor(opened).execute(item_id, validate_chain=validate_chain)

    assert not refused.success
    assert refused.error
    assert refused.failure
    assert refused.failure.code == code


def test_the_rules_between_neighbours_hold_unless_they_are_turned_off(
    opened: ryeos.Rye, workspace: Workspace
) -> None:
    limits = 'child_constraints: {"*": {min_version: "9.0.0"}}\n'
    workspace.project.sign(workspace.project.runtime("mine/strict", extra=limits))
    workspace.project.signed_tool("mine/x", "print(1)", executor="mine/strict")
    executor = ryeos.PrimitiveExecutor(opened)

    refused = executor.execute("mine/x")
    ran = executor.execute("mine/x", validate_chain=False, use_lockfile=False, trace=True)

    assert refused.failure
    assert "minimum required 9.0.0" in str(refused.error)
    assert (ran.success, ran.error) == (True, None)
    assert "lockfile_created" not in ran.metadata
    assert ran.trace


@posix_only
def test_an_item_in_words_gives_the_envelope_that_the_awaited_call_gives(
    opened: ryeos.Rye,
) -> None:
    async def awaited(item: str, command: str) -> dict[str, object]:
        return await aio.AsyncWorkspace(opened).execute(item, {"command": command})

    for command in ("echo hi", "exit 3"):
        here = opened.execute(f"tool:{BASH}", {"command": command})
        there = asyncio.run(awaited(f"tool:{BASH}", command))
        assert (here["status"], here["data"]) == (there["status"], there["data"])
    checked = opened.execute(f"tool:{BASH}", {"command": "echo hi"}, dry_run=True)

    assert checked["status"] == "validation_passed"


def test_a_workspace_is_closed_at_the_end_of_its_with(workspace: Workspace, bundle: Space) -> None:
    with ryeos.open_workspace(
        workspace.project_path, environ=workspace.env, bundle=bundle
    ) as opened:
        assert opened.execute("knowledge:rye/core/terminology")["status"] == "success"

        with pytest.raises(ryeos.RyeError) as error:
            opened.execute("no/such/item")

    assert error.value.code == "ITEM_NOT_FOUND"


def test_without_a_path_the_project_of_the_working_directory_is_opened(
    workspace: Workspace, bundle: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = workspace.project_path / "src" / "inner"
    inner.mkdir(parents=True)
    (workspace.project_path / ".ai").mkdir(exist_ok=True)
    monkeypatch.chdir(inner)

    with ryeos.open_workspace(environ=workspace.env, bundle=bundle) as opened:
        assert opened.context.project_path == workspace.project_path.resolve()


def test_items_are_found_and_verified(opened: ryeos.Rye, workspace: Workspace) -> None:
    path = workspace.project.signed_tool("mine/x")
    manager = ryeos.MetadataManager(opened)

    assert ryeos.ToolResolver(opened).resolve("mine/x") == path
    assert ryeos.DirectiveResolver(opened).resolve("mine/x") is None
    assert ryeos.KnowledgeResolver(opened).resolve("mine/x") is None
    assert (
        manager.verify("tool:mine/x").fingerprint
        == compute_key_digest(workspace.keypair.public_pem)[:16]
    )
    path.write_text("changed", encoding="utf-8")
    with pytest.raises(IntegrityError):
        manager.verify("tool:mine/x")


def test_objects_are_copied_from_one_store_into_another(tmp_path: Path) -> None:
    from lillux.store import Store

    store = Store(tmp_path / "a")
    hashes = [store.put_blob(b"bytes"), store.put_object({"n": 1})]

    entries = ryeos.export_objects(hashes, tmp_path / "a")
    kept = ryeos.import_objects(entries, tmp_path / "b")

    other = Store(tmp_path / "b")
    assert kept == hashes
    assert (other.get_blob(hashes[0]), other.get_object(hashes[1])) == (b"bytes", {"n": 1})


def test_the_operations_of_a_transfer_have_their_names_for_a_store_of_this_machine(
    tmp_path: Path,
) -> None:
    """Names of the first packages: has, put, get, and all that a manifest leads to."""
    from lillux.store import Store

    store = Store(tmp_path / "a")
    content, plain = store.put_blob(b"text"), store.put_blob(b"file")
    item = store.put_object(
        {"schema": 2, "kind": "item_source", "item_ref": "tool:x", "content_blob_hash": content}
    )
    absent = "0" * 64
    manifest = {
        "schema": 2,
        "kind": "source_manifest",
        "items": {".ai/tools/x.py": item, ".ai/tools/y.py": absent},
        "files": {"a.txt": plain, "again.txt": plain},
    }

    hashes = ryeos.collect_object_hashes(manifest, tmp_path / "a")
    entries = ryeos.get_objects(hashes, tmp_path / "a")["entries"]
    stored = ryeos.put_objects(entries, tmp_path / "b")["stored"]

    assert sorted(hashes) == sorted([content, plain, item, absent])
    assert sorted(stored) == sorted([content, plain, item])
    assert ryeos.has_objects([absent, *stored], tmp_path / "b") == {
        "present": stored,
        "missing": [absent],
    }
    with pytest.raises(ObjectMissingError, match=absent):
        ryeos.export_objects([absent], tmp_path / "a")


def test_the_parts_of_the_executor_have_the_names_of_the_first_packages(
    opened: ryeos.Rye, workspace: Workspace
) -> None:
    path = workspace.project.signed_tool("mine/x")
    executor = ryeos.PrimitiveExecutor(opened)

    chain = executor._build_chain("mine/x")
    kept = executor._chain_cache["mine/x"]

    assert chain[0].item_id == "mine/x"
    assert chain[-1].executor_id is None
    assert isinstance(chain[0], ryeos.ChainElement)
    assert isinstance(kept, ryeos.CacheEntry)
    assert (kept.chain, len(kept.combined_hash)) == (chain, 64)
    assert executor._resolve_tool_path("mine/x") == (path, "project")
    assert executor._resolve_tool_path("mine/none") is None
    assert executor.PRIMITIVE_MAP["rye/core/primitives/execute"] is ryeos.ExecutePrimitive
    assert len(chain) <= executor.MAX_CHAIN_DEPTH
    executor.invalidate_tool("mine/x")
    assert executor._chain_cache == {}


@given(st.binary(max_size=50))
def test_data_with_another_hash_are_not_stored(data: bytes) -> None:
    entry = {"hash": "0" * 64, "kind": "blob", "data": b64encode(data).decode()}

    with pytest.raises(IntegrityError):
        ryeos.import_objects([entry], "/nowhere/at/all")


@pytest.mark.parametrize("entry", [{}, {"hash": "0"}, {"hash": "0", "data": "!"}, {"kind": "x"}])
def test_an_invalid_entry_is_refused(entry: dict[str, str]) -> None:
    with pytest.raises(IntegrityError, match="expected"):
        ryeos.import_objects([entry], "/nowhere/at/all")


@posix_only
def test_calls_are_awaited_side_by_side(opened: ryeos.Rye) -> None:
    async def calls() -> list[str]:
        async with aio.AsyncWorkspace(opened) as workspace:
            commands = [workspace.execute(BASH, {"command": f"echo {n}"}) for n in range(4)]
            return [one["data"]["stdout"] for one in await asyncio.gather(*commands)]

    assert asyncio.run(calls()) == ["0\n", "1\n", "2\n", "3\n"]


@posix_only
def test_a_cancelled_call_has_ended_its_program(opened: ryeos.Rye, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    async def cancelled() -> None:
        executor = aio.AsyncExecutor(aio.AsyncWorkspace(opened))
        task = asyncio.create_task(
            executor.execute(BASH, {"command": f"echo $$ > {pid_file}; sleep 600"})
        )
        await asyncio.to_thread(
            wait_until, lambda: pid_file.exists() and bool(pid_file.read_text("ascii").strip())
        )
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(cancelled())

    assert time.monotonic() - began < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text("ascii")), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    name: str
    tags: tuple[str, ...] = ()
    notes: dict[str, int] = field(default_factory=dict, repr=False, compare=False)


def test_values_are_accepted_by_the_standard_library() -> None:
    value = _Value(name="a", notes={"n": 1})

    assert dataclasses.is_dataclass(value)
    assert [one.name for one in dataclasses.fields(value)] == ["name", "tags", "notes"]
    assert dataclasses.asdict(value) == {"name": "a", "tags": (), "notes": {"n": 1}}
    assert dataclasses.astuple(value) == ("a", (), {"n": 1})
    assert dataclasses.replace(value, name="b") == _Value(name="b")


@posix_only
def test_the_example_of_the_page_is_true(workspace: Workspace, bundle: Space) -> None:
    page = (ROOT / "docs" / "running.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace('open_workspace(".")', 'open_workspace(".", bundle=BUNDLE)')
    code = code.replace('open_async(".")', 'open_async(".", bundle=BUNDLE)')
    said: list[str] = []
    before = Path.cwd()
    os.chdir(workspace.project_path)
    try:
        exec(  # noqa: S102 - the page's own code
            compile(code, "running.md", "exec"),
            {"BUNDLE": bundle, "print": lambda *words: said.append(" ".join(map(str, words)))},
        )
    finally:
        os.chdir(before)

    assert said == [
        "success hello\n",
        "ITEM_NOT_FOUND",
        "True hi\n",
        "rye/bash/bash",
        "tool:rye/bash/bash bash.yaml",
        "1\n",
        "2\n",
    ]
