import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.files import make_directory
from lillux.landlock import landlock_version
from lillux.values import replace
from rye_services.node.worker import process
from rye_services.node.worker.jobs import BEGIN, Job, JobAction, WorkerAnswer, read_report
from rye_services.node.worker.process import WorkerDiedError, WorkerEndedError, WorkerLaunch
from ryeos.app.workspace import Rye
from ryeos.items.refs import Space
from tests.support.children import Lifeline
from tests.support.databases import children_of
from tests.support.workspace import VERSION, Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")

CHECKOUT = Path(__file__).parents[4]
Do = Callable[..., WorkerAnswer]


@pytest.fixture
def job(workspace: Workspace, bundle: Space, tmp_path: Path) -> Callable[..., Job]:
    """Jobs on the workspace's project."""
    make_directory(tmp_path / "own-home")
    make_directory(tmp_path / "own-tmp")

    def make(item_ref: str = "", **changes: Any) -> Job:  # noqa: ANN401 - fields of Job
        fields: dict[str, Any] = {
            "action": JobAction.EXECUTE,
            "item_ref": item_ref,
            "project_id": "project",
            "project": workspace.project_path,
            "user": workspace.home,
            "home": tmp_path / "own-home",
            "temporary": tmp_path / "own-tmp",
            "bundle": bundle.base,
            "bundle_version": VERSION,
            "time_limit_s": 60.0,
            "parent_pid": os.getpid(),
        }
        return Job(**fields | changes)

    return make


ENVIRON = {**os.environ, "NODE_SECRET": "do not tell", "RYE_DEV_MODE": "1"}
"""Of a server, which has secrets of its own."""


@pytest.fixture
def launch() -> WorkerLaunch:
    """The way in which a server launches workers."""
    return WorkerLaunch(environ=ENVIRON)


FORKS = pytest.param("forked", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux"))


@pytest.fixture(params=["started", FORKS])
def do_job(request: pytest.FixtureRequest, launch: WorkerLaunch) -> Iterator[Do]:
    """Does a job in a new process that shares all, and in a forked one kept apart from others."""
    if request.param == "started":
        yield process.do_job
        return
    workers, isolation = launch.fork_server(), launch.isolation().dump()

    def do(job: Job, launch: WorkerLaunch, **more: Any) -> WorkerAnswer:  # noqa: ANN401 - its own
        return process.do_job(replace(job, isolation=isolation), launch, runner=workers, **more)

    yield do
    assert workers.template_pid, "it was started anew"
    workers.close()


MakeJob = Callable[..., Job]


def shell_tool(workspace: Workspace, script: str) -> None:
    """A signed tool ``t`` of the user that runs a shell script."""
    workspace.project.signed_yaml("t", f"config: {{command: {json.dumps(script)}}}")


def stdout(finished: WorkerAnswer) -> str:
    """The output of a shell tool."""
    envelope = finished.envelope
    assert envelope["status"] == "success", envelope
    return str(envelope["data"]["stdout"])


def test_a_worker_runs_an_item_with_its_parameters(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    code = "def execute(params, project_path):\n    return {'twice': params['n'] * 2}\n"
    workspace.project.signed_tool("t", code, executor="rye/core/runtimes/python/function")

    finished = do_job(job("tool:t", parameters={"n": 21}), launch)

    assert finished.envelope["status"] == "success", finished
    assert finished.envelope["data"]["twice"] == 42


# What clients of ryeos-core 0.1.46 add to the parameters of every call.
LEAKED = {"timeout": 300, "max_steps": 100, "max_concurrency": 10}
FUNCTION = "rye/core/runtimes/python/function"
SHOW = "def execute(params, project_path):\n    return {'params': params}\n"


def closed_to_all_but(*names: str) -> str:
    """A tool that shows its parameters and takes no others than these."""
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "additionalProperties": False,
    }
    return f"CONFIG_SCHEMA = {schema!r}\n\n{SHOW}"


def test_default_graph_limits_do_not_reach_a_tool_with_a_closed_schema(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    workspace.project.signed_tool("t", closed_to_all_but("n"), executor=FUNCTION)

    envelope = do_job(job("tool:t", parameters={"n": 1, **LEAKED}), launch).envelope

    assert envelope["status"] == "success", envelope
    assert envelope["data"]["params"] == {"n": 1}
    warning = "max_steps, max_concurrency: left out, the tool has no such parameter"
    assert warning in envelope["metadata"]["warnings"]


def test_a_tool_gets_the_limits_that_it_lists(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    workspace.project.signed_tool("t", closed_to_all_but("max_steps"), executor=FUNCTION)

    envelope = do_job(job("tool:t", parameters=LEAKED), launch).envelope

    assert envelope["data"]["params"] == {"max_steps": 100}


def test_a_tool_with_an_open_schema_gets_graph_limits(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    workspace.project.signed_tool("t", SHOW, executor=FUNCTION)

    envelope = do_job(job("tool:t", parameters=LEAKED), launch).envelope

    assert envelope["data"]["params"] == {"max_steps": 100, "max_concurrency": 10}


def test_another_unlisted_parameter_is_refused(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    workspace.project.signed_tool("t", closed_to_all_but("n"), executor=FUNCTION)

    envelope = do_job(job("tool:t", parameters={"m": 1, **LEAKED}), launch).envelope

    assert envelope["code"] == "VALIDATION_FAILED"
    assert envelope["details"] == ["unknown parameter m, it takes n"]


def test_a_refusal_by_rye_is_an_answer(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    workspace.project.tool("t")

    finished = do_job(job("tool:t"), launch)

    assert (finished.envelope["status"], finished.envelope["code"]) == ("error", "UNSIGNED")


def test_a_tool_gets_only_allowed_variables_of_the_server(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch, tmp_path: Path
) -> None:
    shell_tool(workspace, "env")

    shown = stdout(do_job(job("tool:t", secrets={"TOKEN": "t0ken"}), launch))

    names = {line.partition("=")[0] for line in shown.splitlines()}
    assert "NODE_SECRET" not in names
    assert "RYE_DEV_MODE" not in names
    assert f"HOME={tmp_path / 'own-home'}" in shown
    assert f"TMPDIR={tmp_path / 'own-tmp'}" in shown
    assert "TOKEN=t0ken" in shown


def test_a_secret_named_like_a_rye_setting_changes_no_setting(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    workspace.project.tool("t")

    finished = do_job(job("tool:t", secrets={"RYE_DEV_MODE": "1"}), launch)

    assert finished.envelope["code"] == "UNSIGNED"


@pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
def test_a_tool_cannot_read_or_write_outside_of_its_job(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch, tmp_path: Path
) -> None:
    outside = tmp_path / "signing"
    outside.mkdir()
    (outside / "private_key.pem").write_text("secret", encoding="utf-8")
    shell_tool(
        workspace, f"cat {outside}/private_key.pem; echo x > {outside}/new; echo x > in; true"
    )

    shown = stdout(do_job(job("tool:t"), launch))

    assert "secret" not in shown
    assert sorted(path.name for path in outside.iterdir()) == ["private_key.pem"]
    assert (workspace.project_path / "in").exists()


@pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
def test_a_hidden_folder_beside_programs_cannot_be_read(
    workspace: Workspace, job: MakeJob, tmp_path: Path
) -> None:
    place = tmp_path / "opt"
    (place / "data").mkdir(parents=True)
    (place / "data" / "key").write_text("secret", encoding="utf-8")
    (place / "shared").write_text("for all", encoding="utf-8")
    launch = WorkerLaunch(environ={"PATH": f"{place}{os.pathsep}{os.environ['PATH']}"})
    shell_tool(workspace, f"cat {place}/data/key; cat {place}/shared; true")

    shown = stdout(process.do_job(job("tool:t", hidden=(place / "data",)), launch))

    assert shown == "for all"


@pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
def test_in_a_hidden_folder_only_the_unpacked_program_can_be_read(
    workspace: Workspace, job: MakeJob, tmp_path: Path
) -> None:
    """As in a container, where the home of the node is the folder of its data."""
    data = tmp_path / "data"
    unpacked = data / ".shiv" / "site-packages"
    for package in ("lillux", "rye_services", "ryeos"):
        shutil.copytree(CHECKOUT / package, unpacked / package)
    (data / "key").write_text("secret", encoding="utf-8")
    elsewhere = [entry for entry in sys.path if Path(entry) != CHECKOUT]
    launch = WorkerLaunch(environ=os.environ, modules=(str(unpacked), *elsewhere))
    shell_tool(workspace, f"cat {data}/key; echo ran")

    shown = stdout(process.do_job(job("tool:t", hidden=(data,)), launch))

    assert shown == "ran\n"


@pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
def test_a_tool_can_neither_look_into_the_server_nor_signal_it(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE) as server:
        script = f"cat /proc/{server.pid}/environ; kill {server.pid} && echo killed; true"
        shell_tool(workspace, script)

        shown = stdout(do_job(job("tool:t"), launch))
        is_alive = server.poll() is None
        server.kill()

    assert shown == ""
    assert is_alive


def test_a_daemon_that_a_tool_starts_ends_with_the_execution(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    lifeline = Lifeline(workspace.project_path)
    leave = "os.fork() and os._exit(0)"
    daemon = f"import os, time; {leave}; os.setsid(); {leave}; time.sleep(600)"
    shell_tool(
        workspace,
        f"{lifeline.hold}; {quote(sys.executable)} -I -c {quote(daemon)} >/dev/null 2>&1",
    )

    finished = do_job(job("tool:t"), launch)

    assert finished.envelope["status"] == "success", finished
    assert lifeline.is_released()
    lifeline.close()


@pytest.mark.heavy
def test_a_run_over_its_time_limit_is_ended_and_reported(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    lifeline = Lifeline(workspace.project_path)
    shell_tool(workspace, f"{lifeline.hold}; setsid sleep 600 & sleep 600")

    # Long enough for the tool to begin on a busy machine.
    finished = do_job(job("tool:t", time_limit_s=5.0), launch)

    assert finished.envelope["code"] == "TIMEOUT"
    assert finished.envelope["error"] == "the execution took longer than 5 seconds"
    assert lifeline.is_released()
    lifeline.close()


def test_an_item_begins_after_the_server_allows_it(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    shell_tool(workspace, "touch ran")
    heard: list[str] = []

    def listen(go: Callable[[], None]) -> Callable[[bytes], None]:
        def hear(chunk: bytes) -> None:
            found = [report[0] for line in chunk.splitlines() if (report := read_report(line))]
            heard.extend(found)
            if BEGIN in found:
                heard.append(f"ran: {(workspace.project_path / 'ran').exists()}")
                go()

        return hear

    finished = do_job(job("tool:t"), launch, listen=listen)

    assert finished.envelope["status"] == "success", finished
    assert heard[:3] == ["confidential", "begin", "ran: False"]
    assert (workspace.project_path / "ran").exists()


def test_an_item_without_permission_to_begin_does_not_run(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    shell_tool(workspace, "touch ran")

    def hear(chunk: bytes) -> None:
        if b'"begin"' in chunk:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        do_job(job("tool:t"), launch, listen=lambda _: hear)

    assert not (workspace.project_path / "ran").exists()


def test_a_cancelled_job_ends_with_all_its_processes(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    lifeline = Lifeline(workspace.project_path)
    shell_tool(workspace, f"{lifeline.hold}; setsid sleep 600 & sleep 600")
    cancellation = Cancellation()

    def cancel() -> None:
        lifeline.await_held()
        cancellation.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(WorkerEndedError):
        do_job(job("tool:t"), launch, cancellation=cancellation)

    assert lifeline.is_released()
    lifeline.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems look every five seconds")
@pytest.mark.parametrize("runner", ["None", "launch.fork_server()"])
def test_a_job_ends_when_its_server_is_killed(
    workspace: Workspace, job: MakeJob, tmp_path: Path, runner: str
) -> None:
    lifeline = Lifeline(workspace.project_path)
    shell_tool(workspace, f"{lifeline.hold}; setsid sleep 600 & sleep 600")
    described = tmp_path / "job.json"
    described.write_bytes(job("tool:t").dump())
    code = (
        "import os, sys; from pathlib import Path; from lillux.values import replace\n"
        "from rye_services.node.worker.jobs import read_job\n"
        "from rye_services.node.worker.process import *\n"
        "job = read_job(Path(sys.argv[1]).read_bytes())\n"
        "job, launch = replace(job, parent_pid=os.getpid()), WorkerLaunch(environ=os.environ)\n"
        f"do_job(job, launch, runner={runner})\n"
    )
    root = str(Path(__file__).parents[4])
    argv = [sys.executable, "-c", code, str(described)]
    with subprocess.Popen(argv, cwd=root) as server:
        lifeline.await_held()
        server.kill()

    assert lifeline.is_released()
    lifeline.close()


def test_a_worker_that_is_killed_is_reported(
    workspace: Workspace, job: MakeJob, launch: WorkerLaunch
) -> None:
    lifeline = Lifeline(workspace.project_path)
    shell_tool(workspace, f"{lifeline.hold}; sleep 600")
    others = set(children_of(os.getpid()))

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(process.do_job, job("tool:t"), launch)
        lifeline.await_held()
        for worker in set(children_of(os.getpid())) - others:
            os.kill(worker, signal.SIGKILL)
        with pytest.raises(WorkerDiedError) as error:
            ended.result()

    lifeline.close()
    assert str(error.value) == "the worker of this execution was ended by signal 9"


def test_a_tool_gets_no_memory_above_the_limit(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    code = "print(len(bytearray(1 << 31)))\n"
    workspace.project.signed_tool("t", code)

    finished = do_job(job("tool:t", memory_bytes=1 << 30), launch)

    assert finished.envelope["status"] == "error"
    assert "MemoryError" in json.dumps(finished.envelope)


def test_no_file_gets_larger_than_the_limit(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    shell_tool(workspace, "head -c 3000000 /dev/zero > large; stat -c %s large")

    finished = do_job(job("tool:t", file_bytes=1 << 20), launch)

    assert (workspace.project_path / "large").stat().st_size == 1 << 20
    assert finished.envelope


def test_a_key_of_the_project_is_trusted_where_the_user_approved_it(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    from lillux.signing import compute_key_fingerprint, generate_keypair

    key = generate_keypair()
    workspace.project.trust(key)
    path = workspace.project.yaml_tool("t", "config: {command: echo ran}")
    workspace.project.sign_unchecked(path, key)

    refused = do_job(job("tool:t"), launch)
    rye: Rye = workspace.rye()
    elsewhere = Path("/home/somebody/project")
    rye.approvals.approve(elsewhere, compute_key_fingerprint(key.public_pem))
    allowed = do_job(job("tool:t"), launch)

    assert refused.envelope["code"] == "UNTRUSTED_KEY"
    assert allowed.envelope["status"] == "success"


def test_fetch_loads_an_item_of_the_checkout(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    workspace.project.signed_tool("t", "print('hello')")

    finished = do_job(job(action=JobAction.FETCH, parameters={"item_id": "tool:t"}), launch)

    assert finished.envelope["status"] == "success", finished
    assert "print('hello')" in json.dumps(finished.envelope)


def test_sign_puts_the_nodes_signature_on_an_item(
    workspace: Workspace, job: MakeJob, do_job: Do, launch: WorkerLaunch
) -> None:
    from lillux.signing import compute_key_fingerprint, generate_keypair

    key = generate_keypair()
    path = workspace.project.tool("t", "print('hello')")

    finished = do_job(
        job(
            action=JobAction.SIGN,
            parameters={"item_id": "tool:t"},
            signing_pem=key.private_pem.decode(),
        ),
        launch,
    )

    assert finished.envelope["status"] == "signed", finished
    assert compute_key_fingerprint(key.public_pem) in path.read_text("utf-8")


def test_a_job_and_an_answer_are_read_as_they_were_written(job: MakeJob) -> None:
    from rye_services.node.worker.jobs import read_finished, read_job

    made = job("tool:t", parameters={"a": [1, "\u00e9"]}, hidden=(Path("/opt"),))
    finished = WorkerAnswer({"status": "success", "data": {"x": 1}}, ("mind this",))

    assert read_job(made.dump()) == made
    assert read_finished(finished.dump()) == finished


def test_no_secret_is_shown_by_the_value_of_a_job(job: MakeJob) -> None:
    made = job("tool:t", secrets={"TOKEN": "t0ken"}, signing_pem="PRIVATE")

    assert "t0ken" not in repr(made)
    assert "PRIVATE" not in repr(made)
