"""A call of a primitive and its result: the seam between the engine and the primitives.

The engine builds the chain, checks it, and hands over `Materials`. A `Primitive` makes a `Call` of
them, with nothing left to resolve; the engine shows it (``--dry-run``) or runs it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lillux.cancellation import Cancellation
from lillux.env_resolver import ResolvedEnv
from lillux.process.model import ProcessRunner
from lillux.values import dataclass, field
from ryeos.items.context import Approves, Holds, nothing_approved, nothing_held
from ryeos.run.anchor import Anchor, AnchoredFiles
from ryeos.run.model import Chain, ChainElement, ExecutionRequest
from ryeos.run.outcomes import MappedResult
from ryeos.run.parameters import CallerValues
from ryeos.trust.dependencies import DependencyRules
from ryeos.trust.verify import VerifiedItem

if TYPE_CHECKING:
    from lillux.sandbox import Confinement
    from ryeos.run.confinement import CallRights
    from ryeos.run.functions import FunctionHost


OnStderr: TypeAlias = Callable[[bytes], None]
# Hears of the steps of a graph, see `ryeos.graph.runner.StepEvent`.
OnStep: TypeAlias = Callable[[Any], None]


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
    rights            what the call may do
    withheld          names of variables that these rights keep from a process
    caller_timeout_s  the same where the caller set it, None where only the files did
    caller_texts      the texts of a config that the caller wrote, by name; None for no such config
    """

    chain: Chain
    config: Mapping[str, Any]
    values: CallerValues
    anchor: Anchor
    files: AnchoredFiles
    env: ResolvedEnv = field(repr=False)
    child_env: Mapping[str, str] = field(repr=False)
    timeout_s: float | None
    request: ExecutionRequest
    rights: "CallRights"
    withheld: tuple[str, ...] = ()
    caller_timeout_s: float | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    caller_texts: Mapping[str, object] | None = field(default=None, repr=False)

    @property
    def caller_cwd(self) -> object:
        """The folder that the caller wants it to run in; None where the caller does not say."""
        return self.request.cwd if self.request.cwd is not None else self.values.steering.get("cwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that calls need besides their materials.

    runner        runs programs
    companion     ``companion(id, element)``: the verified tool item of this id in a space that the
                  element may use. Raises as building a chain does.
    own_environment  gives what this process was started with: without the ``.env`` of a project
    companion_at  ``companion_at(path, element)``: the same by the path of its file; None for a file
                  in no space's tools folder
    neighbours    ``neighbours(element, rules)``: the files that the rules name beside an element's
                  own, verified. Raises IntegrityError.
    functions     calls Python functions in warm workers; None for a process to each call
    graphs        makes the calls of graphs, which need more than the engine, or None
    threads       makes the calls that have a model carry a directive out, or None
    on_step       gets the steps of a graph
    approves      whether the user approved a path of the project, like ``.env.local``
    holds         as `ryeos.items.context.Context` has it
    withheld      as `ryeos.items.context.Context` has it
    """

    runner: ProcessRunner
    own_environment: Callable[[], Mapping[str, str]] = field(repr=False)
    companion: Callable[[str, ChainElement], ChainElement]
    companion_at: Callable[[Path, ChainElement], ChainElement | None]
    neighbours: Callable[[ChainElement, DependencyRules], tuple[VerifiedItem, ...]]
    functions: "FunctionHost | None" = None
    graphs: "GraphCalls | None" = None
    threads: "ThreadCalls | None" = None
    on_step: OnStep | None = None
    approves: Approves = nothing_approved
    holds: Holds = nothing_held
    withheld: frozenset[str] = frozenset()


def network_env(materials: Materials, services: Services) -> dict[str, str]:
    """Variables that choose proxies and authorities: of process and signed items, not ``.env``."""
    variables = materials.env.variables
    signed = {name: variables[name] for name in materials.env.contributed if name in variables}
    return {**services.own_environment(), **signed}


class Call(Protocol):
    """One execution with nothing left to resolve."""

    def describe(self) -> dict[str, Any]:
        """The call in words for a person, as JSON values; secrets are masked."""
        ...

    @property
    def program(self) -> str:
        """The program that it starts, ``""`` if it starts none."""
        ...

    @property
    def confinement(self) -> "Confinement | None":
        """The limits of the program; None where it has none, or none is started."""
        ...

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Do it, once. Raises LilluxError for what Rye cannot do."""
        ...


class Primitive(Protocol):
    """The end of a chain."""

    def prepare(self, materials: Materials, services: Services) -> Call:
        """The call for these materials. Raises SpecError, ProgramNotFoundError and similar."""
        ...


GraphCalls: TypeAlias = Callable[[Materials, OnStep | None], Call]
ThreadCalls: TypeAlias = Callable[[Materials], Call]
