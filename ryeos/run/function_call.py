"""A call of a Python tool's function: in a warm worker, or in a process of its own.

``config.protocol: function`` of a runtime asks for it; ``config.host`` is the id of the file that
calls functions under the tool's interpreter. Page: ``docs/writing-tools.md``.
"""

from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.process.model import Outcome
from lillux.values import dataclass, replace
from ryeos.items.errors import SpecError
from ryeos.run.calls import Materials, OnStderr, Services
from ryeos.run.command import build_invocation, params_text
from ryeos.run.held import HeldStart, files_of, in_environment, started_by
from ryeos.run.model import Chain, HeldFiles, Invocation
from ryeos.run.outcomes import MappedResult, ending, map_outcome
from ryeos.run.process_call import (
    ProcessCall,
    companion_named,
    describe_invocation,
    held_files,
    held_start,
    with_hosts,
)
from ryeos.trust.verify import VerifiedItem

if TYPE_CHECKING:
    from lillux.sandbox import Confinement
    from ryeos.run.function_worker import Function
    from ryeos.run.functions import FunctionHost


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A call with nothing left to resolve. See `ryeos.run.calls.Call`.

    single     what makes this one call in a process of its own
    held       the bytes of the tool and of its modules
    functions  makes it in a warm worker; None where there are none
    """

    single: ProcessCall
    host: VerifiedItem
    tool: VerifiedItem
    held: HeldFiles
    project_path: str
    functions: "FunctionHost | None"
    environment: HeldStart | None = None

    @property
    def program(self) -> str:
        """The program that it starts."""
        return self.single.program

    @property
    def confinement(self) -> "Confinement | None":
        """The limits of the program."""
        return self.single.confinement

    def describe(self) -> dict[str, Any]:
        """The command of a process of its own, and what goes with it."""
        return describe_invocation(self.single.invocation, self.single.rights)

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Call the function. Raises IntegrityError, ProgramNotFoundError, SpawnError."""
        outcome = self._outcome(cancellation, on_stderr)
        timeout_s = self.single.invocation.timeout_s
        return _with_result(self.single.with_refusals(map_outcome(outcome, timeout_s)), outcome)

    def _outcome(self, cancellation: Cancellation | None, on_stderr: OnStderr | None) -> Outcome:
        if self.functions and not self.single.rights.watches:
            self.single.rights.prepare_folders(None)
            with with_hosts(self.single.invocation, self.single.rights) as invocation:
                outcome = self.functions.call(
                    self._function(invocation),
                    invocation,
                    cancellation=cancellation,
                    on_stderr=on_stderr,
                )
            if outcome:
                return outcome
        return self.single.outcome(cancellation=cancellation, on_stderr=on_stderr)

    def _function(self, invocation: Invocation) -> "Function":
        from ryeos.run.function_worker import Function
        from ryeos.run.programs import program_at

        variables = invocation.held.variables if invocation.held else {}
        return Function(
            interpreter=invocation.argv[0],
            starter=self.held.starter,
            host=str(self.host.target.path),
            host_text=self.host.data,
            tool_path=str(self.tool.target.path),
            files=replace(self.held, starter=b"", variables=variables).packed(),
            project_path=self.project_path,
            env={**invocation.env, **variables},
            confinement=invocation.confinement,
            environment=self.environment,
            needs_folder=self.single.rights.needs_folder,
            program=program_at(invocation.argv[0]),
            is_observed=bool(self.single.rights.lasting_folders),
            rules=invocation.confinement.state() if invocation.confinement else None,
        )


def function_call(materials: Materials, services: Services) -> FunctionCall:
    """The call for these materials. Raises SpecError, ProgramNotFoundError and similar."""
    host = companion_named("host", materials, services)
    tool = _tool(materials.chain)
    held = held_files(materials, services)
    project_path = materials.anchor.names["project_path"]
    words = (str(host.target.path), "call", str(tool.target.path), project_path)
    with_host = replace(held, files={**held.files, **files_of((host,))})
    stdin = params_text(materials.values.tool).encode("utf-8", "surrogatepass")
    started = started_by(build_invocation(materials), with_host, *words)
    environment = held_start(started.argv[0], materials, services)
    invocation = in_environment(started, environment)
    return FunctionCall(
        single=ProcessCall(replace(invocation, stdin=stdin), services.runner, materials.rights),
        host=host,
        tool=tool,
        held=held,
        project_path=project_path,
        functions=services.functions,
        environment=environment,
    )


def _tool(chain: Chain) -> VerifiedItem:
    item = chain.tool.item
    if item is None or item.target.suffix != ".py":
        where = chain.tool.path or chain.tool.item_id
        raise SpecError(
            str(where),
            "expected a Python file with execute(params, project_path)",
            hint="a tool written in YAML has no function; give it another executor_id",
        )
    return item


def _with_result(mapped: MappedResult, outcome: Outcome) -> MappedResult:
    """A function always leaves a result, unless something ended its process."""
    if outcome.stdout.data or outcome.timed_out or outcome.cancelled:
        return mapped
    ended_well = outcome.exit_code == 0
    error = (
        "the tool ended its process before there was a result" if ended_well else ending(outcome)
    )
    return replace(mapped, success=False, error=error, code="EXECUTION_FAILED")
