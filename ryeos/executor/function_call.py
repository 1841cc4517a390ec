"""A call of a Python tool's function: in a warm worker, or in a process of its own.

``config.protocol: function`` of a runtime asks for it; ``config.host`` is the id of the file that
calls functions under the tool's interpreter. Page: ``docs/python-functions.md``.
"""

import json
from typing import TYPE_CHECKING, Any

from lillux.digests import sha256_hex
from lillux.process.cancellation import Cancellation
from lillux.process.model import Outcome
from lillux.values import dataclass, replace
from ryeos.errors import SpecError
from ryeos.executor.calls import Materials, OnStderr, Services
from ryeos.executor.invocation import build_invocation
from ryeos.executor.model import Chain, ChainElement, Invocation
from ryeos.executor.process_call import ProcessCall, describe_invocation
from ryeos.executor.results import MappedResult, ending, map_outcome
from ryeos.executor.template_names import params_text
from ryeos.specs import type_name
from ryeos.verify import VerifiedItem, unchanged

if TYPE_CHECKING:  # a single call needs no worker
    from ryeos.executor.function_host import Function, FunctionHost


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A call with nothing left to resolve. See `ryeos.executor.calls.Call`.

    single     what makes this one call in a process of its own
    functions  makes it in a warm worker; None where there are none
    """

    single: ProcessCall
    host: VerifiedItem
    tool: VerifiedItem
    dependencies: str
    project_path: str
    functions: "FunctionHost | None"

    def describe(self) -> dict[str, Any]:
        """The command of a process of its own, and what goes with it."""
        return describe_invocation(self.single.invocation)

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Call the function. Raises IntegrityError, ProgramNotFoundError, SpawnError."""
        if self.host.verified:
            unchanged(self.host)
        outcome = self._outcome(cancellation, on_stderr)
        timeout_s = self.single.invocation.timeout_s
        return _with_result(map_outcome(outcome, timeout_s), outcome)

    def _outcome(self, cancellation: Cancellation | None, on_stderr: OnStderr | None) -> Outcome:
        if self.functions:
            outcome = self.functions.call(
                self._function(),
                self.single.invocation,
                cancellation=cancellation,
                on_stderr=on_stderr,
            )
            if outcome:
                return outcome
        return self.single.outcome(cancellation=cancellation, on_stderr=on_stderr)

    def _function(self) -> "Function":
        from ryeos.executor.function_host import Function

        invocation = self.single.invocation
        return Function(
            interpreter=invocation.argv[0],
            host=self.host.target.path,
            tool_path=str(self.tool.target.path),
            sha256=self.tool.sha256,
            dependencies=self.dependencies,
            project_path=self.project_path,
            env=invocation.env,
        )


def function_call(materials: Materials, services: Services) -> FunctionCall:
    """The call for these materials. Raises SpecError, ProgramNotFoundError and kin."""
    invocation = build_invocation(materials)
    tool = _tool(materials.chain)
    host = _host(materials, services)
    project_path = materials.anchor.names["project_path"]
    pins = json.dumps(materials.files.pins, sort_keys=True)
    return FunctionCall(
        single=ProcessCall(
            _single_invocation(invocation, materials, host, tool, project_path), services.runner
        ),
        host=host,
        tool=tool,
        dependencies=sha256_hex(pins.encode("utf-8", "surrogatepass")),
        project_path=project_path,
        functions=services.functions,
    )


def _single_invocation(
    invocation: Invocation,
    materials: Materials,
    host: VerifiedItem,
    tool: VerifiedItem,
    project_path: str,
) -> Invocation:
    arguments = (str(host.target.path), "call", str(tool.target.path), tool.sha256, project_path)
    stdin = params_text(materials.values.tool).encode("utf-8", "surrogatepass")
    return replace(invocation, argv=(invocation.argv[0], *arguments), stdin=stdin)


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


def _host(materials: Materials, services: Services) -> VerifiedItem:
    """The file that calls functions, as the element sees it that names it."""
    for element in materials.chain.elements:
        if "host" in element.spec.config:
            return _companion(element, element.spec.config["host"], services)
    raise SpecError("config.host", "expected the id of a file that calls functions, got nothing")


def _companion(element: ChainElement, item_id: object, services: Services) -> VerifiedItem:
    if not isinstance(item_id, str):
        raise SpecError("config.host", f"expected an id, got {type_name(item_id)}")
    companion = services.companion(item_id, element)
    if companion.item is None:
        raise SpecError("config.host", f"expected the id of a file, got {item_id!r}")
    return companion.item


def _with_result(mapped: MappedResult, outcome: Outcome) -> MappedResult:
    """A function always leaves a result, unless something ended its process."""
    if outcome.stdout.data or outcome.timed_out or outcome.cancelled:
        return mapped
    ended_well = outcome.exit_code == 0
    error = (
        "the tool ended its process before there was a result" if ended_well else ending(outcome)
    )
    return replace(mapped, success=False, error=error, code="EXECUTION_FAILED")
