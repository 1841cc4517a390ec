"""Functions in warm workers that write after their call: no write stays without a receipt."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from lillux.landlock import landlock_version
from lillux.process.stillness import can_stop
from ryeos.items.refs import parse_reference
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest
from ryeos.run.written_files import file_digest
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(
    not (landlock_version() and can_stop()), reason="workers are looked at on Linux"
)
BODY = """
SANDBOX = {"write": ["{project}/out"]}
import _thread, ctypes, mmap, os, sys, time
OUT = os.path.join(os.environ.get("RYE_PROJECT", ""), "out")
def late(project, name="late"):
    "Write as soon as the call is over: the test says when that is."
    while not os.path.exists(project + "/out/over"):
        time.sleep(0.01)
    with open(project + "/out/" + name, "w") as file:
        file.write("late")
PROJECT = PLACE
IMPORTED
def execute(params, project_path):
    how = params["how"]
    CALLED
    return {"pid": os.getpid(), "parent": os.getppid()}
"""

AT_IMPORT = {
    "a thread": "_thread.start_new_thread(late, (PROJECT,))",
    "a child": "if os.fork() == 0: late(PROJECT); os._exit(0)",
    "a child in a session of its own": "if os.fork() == 0: os.setsid(); late(PROJECT); os._exit(0)",
    "a child of the worker": """
if ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0:
    late(PROJECT)
    os._exit(0)
""",
    "its own loop": """
calls = sys.modules["__main__"].Calls
def reap(self, honest=calls.reap):
    honest(self)
    if os.fork() == 0:
        late(PROJECT)
        os._exit(0)
calls.reap = reap
""",
    "a loop without a process of its own": """
calls = sys.modules["__main__"].Calls
def reap(self, honest=calls.reap):
    honest(self)
    end = time.monotonic() + 3
    while time.monotonic() < end and not os.path.exists(PROJECT + "/out/over"):
        time.sleep(0.01)
    if os.path.exists(PROJECT + "/out/over"):
        late(PROJECT)
calls.reap = reap
""",
}
IN_A_CALL = {
    "a thread": "_thread.start_new_thread(late, (project_path,))",
    "a child": "if os.fork() == 0: late(project_path); os._exit(0)",
    "a daemon": """if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: late(project_path)
        os._exit(0)""",
    "a child of its tool": """if ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0:
        late(project_path)
        os._exit(0)""",
    "the end of its worker": """if os.fork() == 0:
        os.setsid()
        late(project_path)
        os._exit(0)
    worker = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
    os.kill(worker, 9)""",
}


def made(workspace: Workspace, *, imported: str = "", called: str = "pass") -> None:
    body = BODY.replace("PLACE", repr(str(workspace.project_path)))
    body = body.replace("IMPORTED", imported).replace("CALLED", called)
    workspace.project.signed_tool("mine/x", body, executor="rye/core/runtimes/python/function")
    (workspace.project_path / "out").mkdir(exist_ok=True)


@contextmanager
def calling(workspace: Workspace) -> Iterator[Callable[..., dict[str, Any]]]:
    """What makes calls in one server, each with a receipt; the result with its receipt."""
    with closing(FunctionHost()) as functions:
        rye = workspace.rye(receipts="on", functions=functions)
        rye.caller = lambda: {"kind": "mcp", "client": "a"}

        def call(how: str = "") -> dict[str, Any]:
            request = ExecutionRequest(item_id="mine/x", parameters={"how": how})
            envelope = dict(rye.execute(parse_reference("tool:mine/x"), request).envelope)
            found = envelope["metadata"].get("receipt")
            said = rye.receipts.log.find(found).statement if found else {"subject": []}
            return envelope | {"written": {one["name"]: one["digest"] for one in said["subject"]}}

        yield call


def receipts_name_all(workspace: Workspace, written: list[dict[str, Any]]) -> bool:
    """Whether each file in the folder has a content that some receipt names."""
    named = {(path, digest["sha256"]) for one in written for path, digest in one.items()}
    files = [one for one in (workspace.project_path / "out").iterdir() if one.name != "over"]
    return all((str(one), file_digest(str(one))) in named for one in files)


def is_over(workspace: Workspace) -> None:
    """Tell what was left behind to write, and give it the time to."""
    (workspace.project_path / "out/over").touch()
    threading.Event().wait(0.3)


@pytest.mark.parametrize("way", AT_IMPORT)
def test_what_an_import_leaves_writes_nothing_without_a_receipt(
    workspace: Workspace, way: str
) -> None:
    if "child of the worker" in way and not _is_x86():
        pytest.skip("the number of clone() is that of x86-64")
    made(workspace, imported=AT_IMPORT[way])
    with calling(workspace) as call:
        results = [call(), call()]
        is_over(workspace)
        assert receipts_name_all(workspace, [one["written"] for one in results])
        results.append(call())
        assert receipts_name_all(workspace, [one["written"] for one in results])
    assert {one["status"] for one in results} == {"success"}


@pytest.mark.parametrize("way", IN_A_CALL)
def test_what_a_call_leaves_writes_nothing_without_a_receipt(
    workspace: Workspace, way: str
) -> None:
    if "child of its tool" in way and not _is_x86():
        pytest.skip("the number of clone() is that of x86-64")
    made(workspace, called=f"if how: pass\n    {IN_A_CALL[way]}")
    with calling(workspace) as call:
        written = [call("leave")["written"]]
        is_over(workspace)
        assert receipts_name_all(workspace, written)


MAPPED = """
def begin(project):
    file = open(project + "/out/mapped", "w+b")
    file.write(b"x" * 4096)
    file.flush()
    kept = mmap.mmap(file.fileno(), 4096)
    kept[:6] = b"honest"
    return kept
calls = sys.modules["__main__"].Calls
KEPT = {0: begin(PROJECT)}
def reap(self, honest=calls.reap):
    if os.path.exists(PROJECT + "/out/over"):
        KEPT[0][:6] = b"hidden"
    honest(self)
calls.reap = reap
"""


def test_a_file_in_the_memory_of_a_worker_is_written_with_a_receipt(workspace: Workspace) -> None:
    made(workspace, imported=MAPPED)
    with calling(workspace) as call:
        written = [call()["written"], call()["written"]]
        is_over(workspace)
        written += [call()["written"], call()["written"]]

        assert receipts_name_all(workspace, written)


def test_an_honest_function_keeps_its_worker(workspace: Workspace) -> None:
    called = "open(project_path + '/out/a', 'w').write(how)"
    made(workspace, called=called)
    with calling(workspace) as call:
        results = [call(how) for how in "abc"]

    parents = {one["data"]["parent"] for one in results}
    assert len(parents) == 1
    assert len({one["data"]["pid"] for one in results}) == 3
    path = str(workspace.project_path / "out/a")
    assert len({one["written"][path]["sha256"] for one in results}) == 3


def test_a_function_whose_import_starts_a_helper_works_in_a_process_of_its_own(
    workspace: Workspace,
) -> None:
    made(workspace, imported="if os.fork() == 0: time.sleep(60)")
    with calling(workspace) as call:
        results = [call(how) for how in "ab"]

    assert [one["status"] for one in results] == ["success"] * 2
    assert {one["data"]["parent"] for one in results} == {os.getpid()}


def _is_x86() -> bool:
    return os.uname().machine == "x86_64"
