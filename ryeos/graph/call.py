"""A graph run as the primitive at the end of a chain. See `ryeos.run.calls.Call`.

(1) the caller's parameters: inputs, and what steers the run   (2) the graph, without problems
(3) what it may call, and how deep it is   (4) where to begin: at the start, or where an earlier
run ended   (5) recorded as begun   (6) walked   (7) recorded as ended
"""

from collections.abc import Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Protocol, Self

from lillux.cancellation import Cancellation
from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.values import dataclass
from ryeos.graph.calls import CallRules
from ryeos.graph.capabilities import Capabilities
from ryeos.graph.commands import WalkOutcome
from ryeos.graph.errors import GraphInvalidError, NodeNotFoundError
from ryeos.graph.model import Graph, Hook
from ryeos.graph.options import Options, split_options
from ryeos.graph.progress import Position, WalkSettings
from ryeos.graph.reading import GraphReading, read_graph
from ryeos.graph.run_result import mapped, timed_out
from ryeos.graph.run_start import SavedRun, fresh_position, resumed_position, valid_graph_inputs
from ryeos.graph.runner import Calls, GraphRunner, OnStep, Records, ResultCache, RunEnd
from ryeos.graph.walk import Walk, planned_path
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.headers import parse_header
from ryeos.run.calls import Materials, OnStderr
from ryeos.run.outcomes import MappedResult

DEPTH = 5
_KEPT_READINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The inheritance of a run from its caller: lists that must allow its calls, and its depth.

    own    the graph's own list, which must allow them too; None where it has none
    depth  how many further graphs it may be the outermost of; None means unlimited
    """

    grants: tuple[Capabilities, ...] = ()
    depth: int | None = None
    own: Capabilities | None = None

    @property
    def lists(self) -> tuple[Capabilities, ...]:
        """Every list that must allow a call."""
        return self.grants if self.own is None else (*self.grants, self.own)


class Recording(Records, Protocol):
    """The record of one run. A context: when it is left the run is released."""

    @property
    def run_id(self) -> str:
        """Of this run."""

    @property
    def keeping(self) -> ResultCache | None:
        """Results that are used again; None where nothing is kept."""

    def is_end_requested(self) -> bool:
        """True if a user wants the run ended."""

    def end(self, outcome: WalkOutcome, result: MappedResult) -> None:
        """Record how it ended."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave it, also where it did not come to its end."""


class Recordings(Protocol):
    """The place of the records of runs."""

    def load(self, run_id: str) -> SavedRun:
        """An earlier run. Raises RyeError `RUN_NOT_FOUND` and similar ones."""

    def begin(
        self,
        graph: Graph,
        graph_hash: str,
        position: Position,
        options: Options,
        lineage: Lineage,
    ) -> Recording:
        """Begin the record of a run, or resume it. Raises what keeps it from that."""


class GraphEnvironment(Protocol):
    """The needs of a run that its program meets."""

    def lineage(self, materials: Materials) -> Lineage:
        """Of the caller. Raises RyeError `PERMISSION_DENIED`."""

    def given_to(self, run_id: str) -> Lineage:
        """Of an earlier run: what its starter left it. Raises RyeError `PERMISSION_DENIED`."""

    def hooks(self) -> Sequence[Hook]:
        """Those of the infrastructure."""

    def recordings(self, materials: Materials) -> Recordings:
        """The place of the records of this call's runs."""

    def calls(self, run_id: str, lineage: Lineage, materials: Materials) -> Calls:
        """The maker of the calls of a run; ``lineage`` is what they get."""


@dataclass(frozen=True, slots=True)
class _ReadFile:
    """A graph file, and the SHA-256 of its ``config``: what a resumed run is compared by."""

    reading: GraphReading
    graph_hash: str


class GraphCall:
    """One run, not begun. Raises MetadataError for an invalid file."""

    def __init__(
        self, materials: Materials, environment: GraphEnvironment, on_step: OnStep | None
    ) -> None:
        self._materials, self._environment, self._on_step = materials, environment, on_step
        tool = materials.chain.tool
        if tool.item is None:
            raise SpecError(tool.item_id, "expected a graph file, got a built-in primitive")
        target = tool.item.target
        read = _read(tool.item.text, target.suffix, str(target.path), tool.item_id)
        self._reading, self._graph_hash = read.reading, read.graph_hash

    @property
    def program(self) -> str:
        """Empty: no program is started."""
        return ""

    @property
    def confinement(self) -> None:
        """None: no program is started."""
        return

    def describe(self) -> dict[str, Any]:
        """The facts of the graph, and what is odd about it.

        Raises GraphInvalidError, GraphInputError.
        """
        graph = self._graph()
        inputs, options = self._split_options()
        if not (options.validate or options.resume):
            valid_graph_inputs(graph, inputs)
        return {
            "graph_id": graph.graph_id,
            "start": graph.start,
            "node_count": len(graph.nodes),
            "path": planned_path(graph, inputs) if not options.resume else [],
            **self._limits(graph, options),
            "timeout_s": self._materials.timeout_s,
            "sandbox": self._materials.rights.describe(),
            "warnings": [str(warning) for warning in self._reading.warnings],
        }

    def run(
        self,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,  # noqa: ARG002 - of the protocol; nodes' tools are quiet
    ) -> MappedResult:
        """Walk the graph. Raises RyeError for what keeps the run from beginning."""
        inputs, options = self._split_options()  # (1)
        if options.validate:
            return self._judgement()
        graph = self._graph()  # (2)
        self._validate_names(graph, options)
        recordings = self._environment.recordings(self._materials)
        saved = recordings.load(options.run_id) if options.resume else None
        lineage = self._lineage(graph, options)  # (3)
        if saved:  # (4)
            position = resumed_position(graph, options, saved, self._graph_hash, inputs)
        else:
            position = fresh_position(graph, options, valid_graph_inputs(graph, inputs))
        recording = recordings.begin(graph, self._graph_hash, position, options, lineage)  # (5)
        with (
            recording,
            RunEnd(cancellation, self._materials.timeout_s, recording.is_end_requested) as end,
        ):
            runner = self._runner(lineage, recording, end)
            walk = Walk(
                graph,
                position,
                self._settings(graph, options, lineage),
                hooks=(*graph.hooks, *self._environment.hooks()),
            )
            outcome = runner.run(walk, is_resumed=options.resume)  # (6)
            if end.has_timed_out:
                outcome = timed_out(outcome, self._materials.timeout_s)
            result = mapped(graph, outcome, recording.run_id)
            recording.end(outcome, result)  # (7)
        return result

    def _settings(self, graph: Graph, options: Options, lineage: Lineage) -> WalkSettings:
        limits = self._limits(graph, options)
        return WalkSettings(
            max_steps=limits["max_steps"],
            max_concurrency=limits["max_concurrency"],
            rules=CallRules(grants=lineage.lists),
            single=bool(options.node),
            env_names=self._materials.env.variables.keys(),
        )

    def _limits(self, graph: Graph, options: Options) -> dict[str, int]:
        """Those that hold: the caller's, else the graph's, else those of the configuration."""
        limits = self._materials.limits
        most = options.max_concurrency or graph.max_concurrency or limits["max_concurrency"]
        return {
            "max_steps": options.max_steps or graph.max_steps or limits["max_steps"],
            "max_concurrency": most,
        }

    def _runner(self, lineage: Lineage, recording: Recording, end: RunEnd) -> GraphRunner:
        return GraphRunner(
            self._environment.calls(recording.run_id, _inner(lineage), self._materials),
            recording,
            end,
            keeping=recording.keeping,
            on_step=self._on_step,
        )

    def _split_options(self) -> tuple[dict[str, Any], Options]:
        schema = self._materials.chain.tool.spec.config_schema
        return split_options(self._materials.request.parameters, schema)

    def _graph(self) -> Graph:
        if self._reading.graph is None or self._reading.errors:
            raise GraphInvalidError(self._materials.chain.tool.item_id, self._reading.errors)
        return self._reading.graph

    def _lineage(self, graph: Graph, options: Options) -> Lineage:
        """Every list that there is must allow a call.

        Raises RyeError `VALIDATION_FAILED` and similar ones.
        """
        above = self._environment.lineage(self._materials)
        before = self._environment.given_to(options.run_id) if options.resume else Lineage()
        requested = () if options.capabilities is None else (options.capabilities,)
        given = tuple(dict.fromkeys((*above.grants, *before.grants, *requested)))
        own_depth = int(graph.limits.get("depth", DEPTH))
        depths = (own_depth, above.depth, before.depth, options.depth)
        depth = min(one for one in depths if one is not None)
        lineage = Lineage(grants=given, depth=depth, own=graph.permissions)
        if not lineage.lists:
            raise RyeError(
                f"{graph.graph_id}: graph must declare 'permissions'",
                code="VALIDATION_FAILED",
                hint='list what its nodes may call, like permissions: ["rye.execute.tool.demo.*"]',
            )
        if depth < 0:
            raise RyeError(
                f"{graph.graph_id}: Max depth exceeded",
                code="RESOURCE_EXCEEDED",
                hint="raise limits.depth of the outermost graph, if it is to call that deep",
            )
        return lineage

    def _validate_names(self, graph: Graph, options: Options) -> None:
        present = self._materials.env.variables
        missing = [name for name in graph.env_requires if name not in present]
        if missing:
            raise RyeError(
                f"Missing environment variables: {', '.join(missing)}",
                code="CONFIG_ERROR",
                hint="set them, or write them into the .env of the project",
            )
        if options.node and options.node not in graph.nodes:
            raise NodeNotFoundError(options.node, list(graph.nodes))

    def _judgement(self) -> MappedResult:
        reading = self._reading.before_signing
        data = {
            "success": not reading.errors,
            "errors": [problem.described() for problem in reading.errors],
            "warnings": [problem.described() for problem in reading.warnings],
            "node_count": len(reading.graph.nodes) if reading.graph else 0,
        }
        error = f"{len(reading.errors)} problems" if reading.errors else None
        code = "VALIDATION_FAILED" if error else ""
        return MappedResult(success=not error, data=data, error=error, code=code)


@lru_cache(maxsize=_KEPT_READINGS)
def _read(text: str, suffix: str, path: str, graph_id: str) -> _ReadFile:
    """A file that was verified, read. A graph may be called a thousand times by another one."""
    header = parse_header(suffix, text, path)
    digest = sha256_hex(canonical_json(header.get("config") or {}))
    return _ReadFile(read_graph(header, graph_id), digest)


def _inner(lineage: Lineage) -> Lineage:
    """The environment of the calls of a run."""
    depth = None if lineage.depth is None else lineage.depth - 1
    return Lineage(grants=lineage.lists, depth=depth)
