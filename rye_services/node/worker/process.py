"""Starts the process of one job, and reports how it ended."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.namespaces import Apart, run_apart
from lillux.process import ProcessManager
from lillux.process.model import MIB, Command, Outcome, ProcessRunner
from lillux.process.pipes import LaterInput
from lillux.uids import end_all_of
from lillux.values import dataclass, replace
from rye_services.node.worker.fork_server import ForkServer, serve_forks
from rye_services.node.worker.isolation import (
    Isolation,
    WantedUids,
    open_isolation,
    read_isolation,
)
from rye_services.node.worker.jobs import Job, WorkerAnswer, failed, read_finished, read_job

if TYPE_CHECKING:
    from rye_services.node.worker.items import Prepared

MAX_ANSWER_BYTES = 64 * MIB
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT")
"""What a worker has of the server's environment. Everything else may hold secrets of the server."""

Go = Callable[[], None]
"""Has the worker begin with the item."""

_GO = b"!"
_SPARE_S = 5.0
_MODULES = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1));"
_CODE = f"{_MODULES}from rye_services.node.worker.process import main; sys.exit(main())"
_TEMPLATE = f"{_MODULES}from rye_services.node.worker.process import be_template; be_template()"


class WorkerDiedError(LilluxError):
    """A worker ended without an answer. ``said`` is what it wrote to its standard error."""

    code, exit_status = "EXECUTION_FAILED", 6

    def __init__(self, problem: str, said: str) -> None:
        self.problem, self.said = problem, said
        super().__init__(
            f"the worker of this execution {problem}",
            hint="the node's log says more; a memory limit that is too low is the usual cause",
        )


class WorkerEndedError(LilluxError):
    """A worker was made to end before its job was done, as the node itself ends."""

    code, exit_status = "CANCELLED", 130

    def __init__(self) -> None:
        super().__init__("the node ended this execution", hint="execute it again")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLaunch:
    """How workers are started.

    environ   the server's environment, of which a worker gets no more than what is named here
    python    the interpreter
    modules   where it finds this program's modules, as in `sys.path`
    """

    environ: Mapping[str, str]
    python: str = sys.executable
    modules: tuple[str, ...] = tuple(map(os.path.abspath, sys.path))

    def command(self, job: Job) -> Command:
        """The process for a job."""
        own = {"HOME": str(job.home), "USERPROFILE": str(job.home)}
        temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(job.temporary))
        environ = {**self._kept(), **own, **temporary}
        return Command(
            argv=self._words(_CODE),
            env=environ,
            cwd=job.project,
            stdin=replace(job, environ=environ).dump(),
            timeout_s=job.time_limit_s + ENDING_GRACE_S + SWEEP_S + _SPARE_S,
            max_output_bytes=MAX_ANSWER_BYTES,
        )

    def fork_server(self) -> ForkServer:
        """What runs the processes of jobs without having each import the same modules."""
        return ForkServer(self._words(_TEMPLATE), self._kept(), _manager())

    def isolation(self, wanted: WantedUids | None = None) -> Isolation:
        """What keeps the runs of different users apart here, tried now."""
        return open_isolation(self.python, self.modules, wanted)

    def _words(self, code: str) -> tuple[str, ...]:
        return (self.python, "-I", "-c", code, json.dumps(self.modules))

    def _kept(self) -> dict[str, str]:
        kept = {name: self.environ[name] for name in _KEPT if name in self.environ}
        return {"PATH": os.defpath, **kept}


def _manager() -> ProcessManager:
    return ProcessManager(grace_s=ENDING_GRACE_S + SWEEP_S + _SPARE_S)


def do_job(
    job: Job,
    launch: WorkerLaunch,
    *,
    cancellation: Cancellation | None = None,
    listen: Callable[[Go], Callable[[bytes], None]] | None = None,
    runner: ProcessRunner | None = None,
) -> WorkerAnswer:
    """Have a worker do the job; when this returns, nothing that it started runs any more.

    With ``listen`` the item begins when the function is called that it gets: what it returns hears
    the reports of the worker until then and later. What that raises ends the worker.
    Without a ``runner`` its process is started anew, see `WorkerLaunch.fork_server`.
    A time limit that was over is an answer. Raises WorkerDiedError, WorkerEndedError, and what
    starting a process raises.
    """
    manager = runner or _manager()
    word = None if listen is None else LaterInput()
    on_stderr = None if listen is None or word is None else listen(partial(word.give, _GO))
    command = launch.command(replace(job, asks_first=word is not None))
    command = replace(command, stdin_rest=word)
    outcome = manager.run(command, cancellation=cancellation, on_stderr=on_stderr)
    if outcome.cancelled or outcome.exit_code == WorkerExit.REQUESTED:
        raise WorkerEndedError
    if outcome.timed_out or outcome.exit_code == WorkerExit.TIME_LIMIT:
        return _time_was_over(job)
    if outcome.exit_code == WorkerExit.DISK_LIMIT:
        return _disk_was_full(job)
    finished = None if outcome.stdout.truncated else read_finished(outcome.stdout.data)
    if outcome.exit_code != WorkerExit.ANSWERED or finished is None:
        raise WorkerDiedError(_problem(outcome), outcome.stderr.data.decode(errors="replace"))
    return finished


def _problem(outcome: Outcome) -> str:
    if outcome.signal is not None:
        return f"was ended by signal {outcome.signal}"
    if outcome.stdout.truncated:
        return f"answered with more than {MAX_ANSWER_BYTES} bytes"
    return "ended without an answer"


def _time_was_over(job: Job) -> WorkerAnswer:
    return failed(
        job.action,
        job.item_ref,
        f"the execution took longer than {job.time_limit_s:g} seconds",
        code="TIMEOUT",
        hint="the node's setting for it is the time limit of executions",
    )


def _disk_was_full(job: Job) -> WorkerAnswer:
    return failed(
        job.action,
        job.item_ref,
        f"the execution filled its workspace with more than {job.disk_bytes} bytes",
        code="RESOURCE_EXCEEDED",
        hint="the node's setting for it is worker_disk_bytes",
    )


# --- worker process -------------------------------------------------------------------------------
# The process of one execution. Nothing of the server is in it, nor of an execution before: it is
# started anew for each job, or forked from a template that has imported its modules and never reads
# a job (ADR 0024).
#
#     keeper    (1) reads the job, (2) forks the runner, (3) waits for its end, for the time limit,
#       |       for a signal, or for the end of the server, (4) ends what the run has left
#       +- runner   gives away every right on files but those of the job, and runs the item
#
# Where the machine has namespaces the runner is the first process of its own, and a gate stands
# between both (`lillux.namespaces`). Where the job has a user id of its own the runner becomes that
# user once it has read what is the operator's; nothing of that user is there before, nor after.
#
# The runner leads no group of its own, so that a signal to the keeper's group reaches it too. It
# writes its answer to what was its standard output before; the tools that it starts have pipes of
# their own.

ENDING_GRACE_S = 3.0
"""How long a runner that was asked to end has for ending its tools."""

SWEEP_S = 5.0
"""How long killed processes may take to be gone."""


class WorkerExit(IntEnum):
    """The exit status of a worker: how its job ended.

    ANSWERED    the answer is on standard output
    TIME_LIMIT  the time was over
    DISK_LIMIT  it wrote more than it may
    REQUESTED   a signal, or the end of the server, ended it
    DIED        the runner ended without an answer
    """

    ANSWERED = 0
    TIME_LIMIT = 70
    REQUESTED = 71
    DIED = 72
    DISK_LIMIT = 73


def main() -> int:
    """Do the job on standard input; an `WorkerExit`."""
    return _keep(read_job(sys.stdin.buffer.readline()))  # (1)


def be_template() -> None:
    """Fork a worker for each order from the socket whose number is the last argument."""
    for module in _IMPORTED_BY_JOBS:
        import_module(module)
    serve_forks(int(sys.argv[1]), _keep_forked)


_IMPORTED_BY_JOBS = (
    *("rye_services.node.worker.items", "lillux.process.children", "lillux.process.descendants"),
    *("lillux.dsse", "lillux.lockfile", "ryeos.run.receipts", "ryeos.trust.keys", "tomllib"),
)
"""What the workers of most jobs import. It only saves time: they import what is not here."""


def _keep_forked(template: int) -> int:
    """What `main` does, in a fork of the template, which ends with the server."""
    job = read_job(sys.stdin.buffer.readline())
    os.environ.clear()
    os.environ.update(job.environ)
    os.chdir(job.project)
    return _keep(replace(job, parent_pid=template))


def _keep(job: Job) -> int:
    if not hasattr(os, "fork"):
        return _work_here(job)
    from lillux.process.descendants import adopt_orphans, end_descendants

    adopt_orphans()
    if job.uid and not end_all_of(job.uid, SWEEP_S):
        sys.stderr.write(f"processes of user id {job.uid} are still there, and cannot be ended\n")
        return WorkerExit.DIED
    isolation, group = read_isolation(job.isolation), f"{os.getpid()}-{os.urandom(4).hex()}"
    runner = os.fork()  # (2)
    if not runner:
        _leave(_run_apart(job, isolation, group))
    ending = _watch(job, runner)  # (3)
    end_descendants(SWEEP_S)  # (4)
    if job.uid:
        end_all_of(job.uid, SWEEP_S)  # what is left even so, the next run with this number finds
    isolation.shares.remove(job.owner, group)
    return ending


def _run_apart(job: Job, isolation: Isolation, group: str) -> int:
    """Run the job among processes of its own, where the machine gives that. Its exit status.

    What was found at the start of the node and is not to be had now ends the job: nothing runs with
    less than the log of the node says.
    """
    from rye_services.node.worker.items import prepare

    try:
        isolation.shares.join(
            job.owner, group, memory_bytes=job.run_memory_bytes, processes=job.run_processes
        )
        prepared = prepare(job)
        shown = (*prepared.readable, *prepared.writable)
        work = partial(_run_guarded, job, prepared)
        if isolation.how is Apart.NOT and not job.uid:
            return work()
        return run_apart(isolation.how, work, uid=job.uid, shown=shown)
    except OSError as error:
        sys.stderr.write(f"this execution cannot be kept apart from others: {error}\n")
    except Exception:  # noqa: BLE001 - the door of this process
        import traceback

        traceback.print_exc()
    return 1


@dataclass(frozen=True, slots=True)
class _RunnerExit:
    """The exit status of the runner."""

    status: int


def _watch(job: Job, runner: int) -> WorkerExit:
    """Wait for the first event, and end the runner."""
    heard: SimpleQueue[_RunnerExit | WorkerExit] = SimpleQueue()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), lambda *_: heard.put(WorkerExit.REQUESTED))

    def await_runner() -> None:
        heard.put(_RunnerExit(os.waitpid(runner, 0)[1]))

    def await_server() -> None:
        _await_server(job)
        heard.put(WorkerExit.REQUESTED)

    def await_full_disk() -> None:
        _await_full_disk((job.project, job.user, job.home, job.temporary), job.disk_bytes)
        heard.put(WorkerExit.DISK_LIMIT)

    _in_background(await_runner)
    _in_background(await_server)
    if job.disk_bytes:
        _in_background(await_full_disk)
    first = _next(heard, job.time_limit_s) or WorkerExit.TIME_LIMIT
    if isinstance(first, _RunnerExit):
        return WorkerExit.ANSWERED if first.status == 0 else WorkerExit.DIED
    _signal(runner, signal.SIGTERM)
    while (further := _next(heard, ENDING_GRACE_S)) is not None:
        if isinstance(further, _RunnerExit):
            return first
    _signal(runner, signal.SIGKILL)
    return first


def _next(
    heard: "SimpleQueue[_RunnerExit | WorkerExit]", limit_s: float
) -> "_RunnerExit | WorkerExit | None":
    with suppress(Empty):
        return heard.get(timeout=limit_s)
    return None


def _await_server(job: Job) -> None:
    from lillux.process.parent import await_end_of_parent

    await_end_of_parent(job.parent_pid)


def _await_full_disk(folders: Sequence[Path], limit_bytes: int) -> None:
    """Return once the files take more than that; looking takes a twentieth of the time."""
    while True:
        started = monotonic()
        if any(total > limit_bytes for total in _totals(folders)):
            return
        sleep(max(1.0, 20 * (monotonic() - started)))


def _totals(folders: Iterable[Path]) -> Iterator[int]:
    """The bytes on the disk so far, file by file; what goes away meanwhile is passed over."""
    total = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(f"{place}/{name}").st_blocks * 512
                    yield total


def _in_background(work: Callable[[], object]) -> None:
    Thread(target=work, daemon=True).start()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


# --- the runner -----------------------------------------------------------------------------------


def _work_here(job: Job) -> int:
    """Where no process can be forked, the keeper is its own runner; the server ends its tree."""

    def await_server() -> None:
        _await_server(job)
        os._exit(WorkerExit.REQUESTED)

    _in_background(await_server)
    from rye_services.node.worker.items import prepare

    done = _run_guarded(job, prepare(job)) == 0
    return WorkerExit.ANSWERED if done else WorkerExit.DIED


def _run_guarded(job: Job, prepared: "Prepared") -> int:
    """Run the job and write its answer; 0 for done. Whatever goes wrong is said on stderr."""
    try:
        if job.uid:
            os.chdir(job.project)  # which lies elsewhere by now, where a closed folder was replaced
        _run(job, _take_pipes(), prepared)
    except BaseException:  # noqa: BLE001 - the door of this process
        import traceback

        traceback.print_exc()
        return 1
    return 0


def _leave(status: int) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


@dataclass(frozen=True, slots=True)
class _Pipes:
    """What were standard input and output: the word to begin comes, and the answer goes."""

    word: int
    answer: int

    def wait_to_begin(self) -> None:
        """Wait for the word of the server. Raises EOFError where it does not come."""
        if not os.read(self.word, len(_GO)):
            raise EOFError("the server ended before it let this execution begin")
        os.close(self.word)


def _take_pipes() -> _Pipes:
    """Both pipes; from now on standard input and output are the null device."""
    pipes = _Pipes(os.dup(0), os.dup(1))  # not inherited by what is started
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return pipes


def _run(job: Job, pipes: _Pipes, prepared: "Prepared") -> None:
    cancellation = _cancelled_by_end(os.getppid())
    # Address space that is only reserved is no memory, and Node.js and Java reserve a lot of it.
    _limit("RLIMIT_DATA" if sys.platform == "linux" else "RLIMIT_AS", job.memory_bytes)
    _limit("RLIMIT_FSIZE", job.file_bytes)
    if job.uid or (job.isolation.get("how") == Apart.USERS and _counts_by_namespace()):
        _limit("RLIMIT_NPROC", job.run_processes)
    from rye_services.node.worker.items import do

    finished = do(job, cancellation, pipes.wait_to_begin, prepared)
    with open(pipes.answer, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(finished.dump())


def _cancelled_by_end(keeper: int) -> Cancellation:
    """What ends the tools: a signal, or that the keeper is gone."""
    from lillux.process.parent import await_end_of_parent

    cancellation = Cancellation()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        cancellation.cancel()

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), cancel)

    def await_keeper() -> None:
        await_end_of_parent(keeper)
        cancellation.cancel()

    if hasattr(os, "fork") and keeper:  # else the keeper has no number here: the gate sees to it
        _in_background(await_keeper)
    return cancellation


def _counts_by_namespace() -> bool:
    """Whether processes are counted for each namespace of users; before Linux 5.14 for all."""
    numbers = os.uname().release.split(".")[:2]
    return all(one.isdecimal() for one in numbers) and tuple(map(int, numbers)) >= (5, 14)


def _limit(name: str, limit_bytes: int) -> None:
    """Of this process and of each that it starts."""
    if not limit_bytes:
        return
    with suppress(ImportError):  # Windows has no such limits
        import resource

        which = getattr(resource, name)
        highest = resource.getrlimit(which)[1]
        if highest != resource.RLIM_INFINITY:
            limit_bytes = min(limit_bytes, highest)
        resource.setrlimit(which, (limit_bytes, limit_bytes))


if __name__ == "__main__":
    sys.exit(main())
