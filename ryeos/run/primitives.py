"""The primitives: what the engine itself can do. Ids are in `PRIMITIVES`."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.errors import ConfigurationError, LilluxError
from lillux.process import ProcessManager
from lillux.process.model import Command, Outcome, ProcessRunner
from lillux.templating import Names, as_text, fill
from lillux.values import dataclass
from ryeos.items.errors import SpecError, UnsupportedError
from ryeos.items.specs import type_name
from ryeos.run.calls import Call, Materials, Primitive, Services
from ryeos.run.command import filled_arguments
from ryeos.run.limits import BUILT_IN, valid_limit
from ryeos.run.model import Chain
from ryeos.run.outcomes import map_outcome
from ryeos.run.process_call import process_call

STATE_GRAPH = "rye/core/primitives/state_graph"
THREAD = "rye/core/primitives/thread"
GRAPH_RUNTIME = "rye/core/runtimes/state-graph/runtime"
# A config that brings this many variables is taken for a whole environment.
WHOLE_ENVIRONMENT_SIZE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteResult:
    """The result of a command: the shape of direct library use.

    return_code  the exit code; -1 when it was not started, timed out or died by a signal
    signal       its number, when it died by one
    """

    success: bool
    stdout: str
    stderr: str
    return_code: int
    duration_ms: float
    signal: int | None = None


class ExecutePrimitive:
    """Runs a program to its end. See `Primitive`, and `execute` for use without a chain."""

    def __init__(
        self, runner: ProcessRunner | None = None, process_env: Mapping[str, str] | None = None
    ) -> None:
        self._runner = runner or ProcessManager()
        self._process_env = dict(process_env or {})

    def prepare(self, materials: Materials, services: Services) -> Call:
        """The call that ``config.protocol`` asks for. Raises SpecError, ProgramNotFoundError."""
        match materials.config.get("protocol", "process"):
            case "process":
                return process_call(materials, services)
            case "function":
                from ryeos.run.function_call import function_call

                return function_call(materials, services)
            case "mcp":
                from ryeos.run.mcp import mcp_stdio_call

                return mcp_stdio_call(materials, services)
            case "task":
                from ryeos.run.tasks import task_call

                return task_call(materials, services)
            case other:
                raise SpecError(
                    "config.protocol", f"expected process, function, mcp or task, got {other!r}"
                )

    def execute(
        self, config: Mapping[str, Any], params: Mapping[str, Any] | None = None
    ) -> ExecuteResult:
        """Run ``{command, args, cwd, input_data, env, timeout}`` without a chain.

        ``${VARIABLE}`` is filled from the environment and ``{name}`` from ``params``, in one pass.
        What cannot be started is a result with ``return_code`` -1.
        """
        timeout_s = None
        try:
            timeout_s = valid_limit("config.timeout", config.get("timeout", BUILT_IN["timeout"]))
            command = self._command(config, params or {}, timeout_s)
            if command is None:
                return _not_started("No command specified")
            outcome = self._runner.run(command)
        except LilluxError as error:
            return _not_started(f"Failed to spawn: {error}")
        return _execute_result(outcome, timeout_s)

    def _command(
        self, config: Mapping[str, Any], params: Mapping[str, Any], timeout_s: float | None
    ) -> Command | None:
        env = self._environment(config.get("env") or {})
        names = Names(variables=env, opaque=params)
        program = as_text(fill(config.get("command") or "", names))
        if not program.strip():
            return None
        cwd = as_text(fill(config.get("cwd") or "", names))
        stdin = as_text(fill(config.get("input_data") or "", names))
        return Command(
            argv=(program, *filled_arguments(program, config.get("args") or [], names)),
            env=env,
            cwd=Path(cwd) if cwd else None,
            stdin=stdin.encode("utf-8", "surrogatepass"),
            timeout_s=timeout_s,
        )

    def _environment(self, declared: object) -> dict[str, str]:
        if not isinstance(declared, Mapping):
            raise SpecError("config.env", f"expected a mapping, got {type_name(declared)}")
        given = {name: as_text(value) for name, value in declared.items()}
        whole = len(given) >= WHOLE_ENVIRONMENT_SIZE and "PATH" in given
        return given if whole else {**self._process_env, **given}


class SubprocessPrimitive(ExecutePrimitive):
    """The same engine under its older name, for those who expect ``lillux-proc`` beside it.

    The engine itself passes what it runs on, and needs no such program. Raises ConfigurationError
    when made without a runner, and neither the PATH of ``process_env`` nor the folder of our own
    interpreter has the program.
    """

    def __init__(
        self, runner: ProcessRunner | None = None, process_env: Mapping[str, str] | None = None
    ) -> None:
        if runner is None:
            require_helper("lillux-proc", process_env)
        super().__init__(runner, process_env)


def _http_client() -> type[Primitive]:
    from ryeos.run.http import HttpClientPrimitive

    return HttpClientPrimitive


class StateGraphPrimitive:
    """Walks graphs of tools. See `Primitive`."""

    def prepare(self, materials: Materials, services: Services) -> Call:
        """The run of a graph. Raises UnsupportedError for an engine on its own."""
        if services.graphs is None:
            raise UnsupportedError(
                f"{materials.chain.tool.item_id}: this program walks no graphs",
                hint="call the tools of the graph one by one, or from a tool of your own",
            )
        return services.graphs(materials, services.on_step)


class ThreadPrimitive:
    """Has a model carry a directive out. See `Primitive`."""

    def prepare(self, materials: Materials, services: Services) -> Call:
        """The thread. Raises UnsupportedError for an engine on its own."""
        if services.threads is None:
            raise UnsupportedError(
                f"{materials.chain.tool.item_id}: this program starts no threads",
                hint="carry the directive out yourself: execute it with thread inline",
            )
        return services.threads(materials)


def is_graph(chain: Chain) -> bool:
    """True if the tool of a chain is a graph."""
    return chain.primitive.item_id == STATE_GRAPH


def _not_started(reason: str) -> ExecuteResult:
    return ExecuteResult(success=False, stdout="", stderr=reason, return_code=-1, duration_ms=0.0)


def _execute_result(outcome: Outcome, timeout_s: float | None) -> ExecuteResult:
    stderr = outcome.stderr.data.decode("utf-8", "replace")
    if outcome.timed_out:
        stderr = f"{map_outcome(outcome, timeout_s).error}\n{stderr}".rstrip()
    ended_well = outcome.exit_code == 0 and not outcome.timed_out and not outcome.cancelled
    code = outcome.exit_code
    return ExecuteResult(
        success=ended_well,
        stdout=outcome.stdout.data.decode("utf-8", "replace"),
        stderr=stderr,
        return_code=-1 if code is None or outcome.timed_out else code,
        duration_ms=outcome.duration_ms,
        signal=outcome.signal,
    )


class _Primitives(Mapping[str, type[Primitive]]):
    """The classes by id; one that costs an import is imported when it is asked for."""

    _AT_ONCE: Mapping[str, type[Primitive]] = {
        "rye/core/primitives/execute": ExecutePrimitive,
        "rye/core/primitives/subprocess": SubprocessPrimitive,
        STATE_GRAPH: StateGraphPrimitive,
        THREAD: ThreadPrimitive,
    }
    _LATE: Mapping[str, Callable[[], type[Primitive]]] = {
        "rye/core/primitives/http_client": _http_client,
    }

    def __getitem__(self, item_id: str) -> type[Primitive]:
        if item_id in self._LATE:
            return self._LATE[item_id]()
        return self._AT_ONCE[item_id]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._AT_ONCE, *self._LATE))

    def __len__(self) -> int:
        return len(self._AT_ONCE) + len(self._LATE)


PRIMITIVES: Mapping[str, type[Primitive]] = _Primitives()


# Whether a helper program can be found, as tools would find it.


def require_helper(name: str, process_env: Mapping[str, str] | None) -> str:
    """The path of the program, on the PATH of the environment or beside the interpreter.

    Raises ConfigurationError.
    """
    from shutil import which

    path = (process_env or {}).get("PATH", os.defpath)
    folders = [*path.split(os.pathsep), str(Path(sys.executable).parent)]
    found = which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))
    if found is None:
        raise ConfigurationError(
            "PATH",
            f"expected a program {name} in one of its folders, found none",
            hint="run tools with rye.pyz, which brings it, or add a folder that has it to PATH",
        )
    return found
