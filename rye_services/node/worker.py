"""Starting a worker for one job, from the server's side, and hearing how it ended."""

import json
import os
import sys
from collections.abc import Mapping

from lillux.errors import LilluxError
from lillux.process import ProcessManager
from lillux.process.cancellation import Cancellation
from lillux.process.model import MIB, Command, Outcome, ProcessRunner
from lillux.values import dataclass, replace
from rye_services.node.jobs import Finished, Job, failed, read_finished
from rye_services.node.worker_process import ENDING_GRACE_S, SWEEP_S, Ending

MAX_ANSWER_BYTES = 64 * MIB
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT")
"""What a worker has of the server's environment. Everything else may hold secrets of the server."""

_SPARE_S = 5.0
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1));"
    "from rye_services.node.worker_process import main; sys.exit(main())"
)


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
class Launch:
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
        kept = {name: self.environ[name] for name in _KEPT if name in self.environ}
        own = {"HOME": str(job.home), "USERPROFILE": str(job.home)}
        temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(job.temporary))
        environ = {"PATH": os.defpath, **kept, **own, **temporary}
        return Command(
            argv=(self.python, "-I", "-c", _CODE, json.dumps(self.modules)),
            env=environ,
            cwd=job.project,
            stdin=replace(job, environ=environ).dump(),
            timeout_s=job.time_limit_s + ENDING_GRACE_S + SWEEP_S + _SPARE_S,
            max_output_bytes=MAX_ANSWER_BYTES,
        )


def do_job(
    job: Job,
    launch: Launch,
    *,
    cancellation: Cancellation | None = None,
    runner: ProcessRunner | None = None,
) -> Finished:
    """Have a worker do the job; when this returns, nothing that it started runs any more.

    A time limit that was over is an answer. Raises WorkerDiedError, WorkerEndedError, and what
    starting a process raises.
    """
    manager = runner or ProcessManager(grace_s=ENDING_GRACE_S + SWEEP_S + _SPARE_S)
    outcome = manager.run(launch.command(job), cancellation=cancellation)
    if outcome.cancelled or outcome.exit_code == Ending.ASKED:
        raise WorkerEndedError
    if outcome.timed_out or outcome.exit_code == Ending.TIME_LIMIT:
        return _time_was_over(job)
    finished = None if outcome.stdout.truncated else read_finished(outcome.stdout.data)
    if outcome.exit_code != Ending.ANSWERED or finished is None:
        raise WorkerDiedError(_problem(outcome), outcome.stderr.data.decode(errors="replace"))
    return finished


def _problem(outcome: Outcome) -> str:
    if outcome.signal is not None:
        return f"was ended by signal {outcome.signal}"
    if outcome.stdout.truncated:
        return f"answered with more than {MAX_ANSWER_BYTES} bytes"
    return "ended without an answer"


def _time_was_over(job: Job) -> Finished:
    return failed(
        job.action,
        job.item_ref,
        f"the execution took longer than {job.time_limit_s:g} seconds",
        code="TIMEOUT",
        hint="the node's setting for it is the time limit of executions",
    )
