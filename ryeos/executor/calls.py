"""The seam between the engine and its primitives: what one gets, and what it gives back.

The engine builds the chain, checks it, and hands over `Materials`. A `Primitive` makes a `Call` of
them, with nothing left to resolve; the engine shows it (``--dry-run``) or runs it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lillux.interpreters import ResolvedEnv
from lillux.process.cancellation import Cancellation
from lillux.process.model import ProcessRunner
from lillux.values import dataclass, field
from ryeos.dependencies import DependencyRules
from ryeos.executor.anchor import Anchor
from ryeos.executor.anchored_files import AnchoredFiles
from ryeos.executor.caller_values import CallerValues
from ryeos.executor.model import Chain, ChainElement, Request
from ryeos.executor.results import MappedResult
from ryeos.verify import VerifiedItem

if TYPE_CHECKING:  # warm workers are for those who make many calls
    from ryeos.executor.function_host import FunctionHost

OnStderr = Callable[[bytes], None]
# Hears of the steps of a graph, see `ryeos.graph.runner.StepEvent`.
OnStep = Callable[[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """Everything that a call is made of.

    config            the chain's configs, merged from primitive to tool; templates of signed files
    values            the caller's checked parameters, opaque
    env               what templates see
    child_env         what a process gets
    request           what the caller wants, as it was given
    limits            ``max_steps`` and ``max_concurrency`` of a graph that sets none
    timeout_s         None for no limit
    caller_timeout_s  the same where the caller set it, None where nobody but the files did
    """

    chain: Chain
    config: Mapping[str, Any]
    values: CallerValues
    anchor: Anchor
    files: AnchoredFiles
    env: ResolvedEnv = field(repr=False)
    child_env: Mapping[str, str] = field(repr=False)
    timeout_s: float | None
    request: Request
    caller_timeout_s: float | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What calls need besides their materials.

    runner        runs programs
    companion     ``companion(id, element)``: the verified tool item of this id in a space that the
                  element may use. Raises as building a chain does.
    process_env   what this process was started with: without the ``.env`` of a project
    companion_at  ``companion_at(path, element)``: the same by the path of its file; None for a file
                  in no space's tools folder
    neighbours    ``neighbours(element, rules)``: the files that the rules name beside an element's
                  own, verified. Raises IntegrityError.
    functions     calls Python functions in warm workers; None for a process to each call
    graphs        makes the calls of graphs, which need more than the engine; None for none
    on_step       hears of the steps of a graph
    """

    runner: ProcessRunner
    process_env: Mapping[str, str] = field(repr=False)
    companion: Callable[[str, ChainElement], ChainElement]
    companion_at: Callable[[Path, ChainElement], ChainElement | None]
    neighbours: Callable[[ChainElement, DependencyRules], tuple[VerifiedItem, ...]]
    functions: "FunctionHost | None" = None
    graphs: "GraphCalls | None" = None
    on_step: OnStep | None = None


def network_env(materials: Materials, services: Services) -> dict[str, str]:
    """What chooses proxies and authorities: the process, and signed items, never a ``.env``."""
    variables = materials.env.variables
    signed = {name: variables[name] for name in materials.env.contributed if name in variables}
    return {**services.process_env, **signed}


class Call(Protocol):
    """One execution with nothing left to resolve."""

    def describe(self) -> dict[str, Any]:
        """What would happen, for a person, as JSON values; secrets are masked."""
        ...

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Do it, once. Raises LilluxError for what Rye cannot do."""
        ...


class Primitive(Protocol):
    """The end of a chain."""

    def prepare(self, materials: Materials, services: Services) -> Call:
        """The call for these materials. Raises SpecError, ProgramNotFoundError and kin."""
        ...


GraphCalls = Callable[[Materials, OnStep | None], Call]
