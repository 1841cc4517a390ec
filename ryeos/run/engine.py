"""`PrimitiveExecutor`: one execution, step by step; (1) to (7) are in `ryeos.run.engine`.

(1) build the chain, every element resolved, verified and parsed
(2) validate it: spaces, inputs and outputs, versions
(3) choose the anchor; every dependency file verified before anything starts
(4) lockfile: pins match, or there is none yet
(5) parameters: defaults, then the tool's schema
(6) environment: primitive, runtimes, tool; the tool wins
(7) configuration of the three tiers
(8) the invocation, nothing left to resolve
(9) once more the bytes, then run
(10) the result; a first success writes the lockfile

A tool that fails is a result. What Rye cannot do is a `LilluxError`, which the result carries in
``failure`` together with what was found out before it.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.interpreters import ResolvedEnv
from lillux.process import ProcessManager
from lillux.process.cancellation import Cancellation
from lillux.process.model import ProcessRunner
from lillux.values import dataclass, field, replace
from ryeos.items.context import Clock, Context, LockMode, log_warning, utc_now
from ryeos.items.errors import ChainValidationError, IntegrityError, LockfileMismatchError
from ryeos.run.anchor import Anchor, AnchoredFiles, anchor_of, verify_anchored_files
from ryeos.run.calls import Call, GraphCalls, Materials, OnStderr, OnStep, Primitive, Services
from ryeos.run.chain import MAX_CHAIN_DEPTH, ChainBuilder, ChainValidator, merged_config
from ryeos.run.command import process_environment, resolved_environment
from ryeos.run.lockfiles import LockfileResolver
from ryeos.run.model import Chain, ChainElement, ExecutionResult, Request
from ryeos.run.parameters import (
    RESOLVED_CONFIG,
    STEERING,
    LimitSources,
    at_most,
    caller_values,
    checked_parameters,
    filled_fixed_params,
    graph_limits,
    limit,
    tool_timeout,
)
from ryeos.run.primitives import PRIMITIVES, ExecutePrimitive, is_graph
from ryeos.trust.config import ConfigReader, Layer
from ryeos.trust.resolver import Resolver
from ryeos.trust.verify import DependencyRules, VerifiedItem, Verifier, unchanged, verify_tree

if TYPE_CHECKING:
    from ryeos.run.functions import FunctionHost


# --- grounds --------------------------------------------------------------------------------------
# What executions of a tool stand on, whatever their parameters; kept for a moment.
#
# A graph calls the same few tools again and again. What was found out for one call will do for the
# next one within `KEPT_S`: the chain, the anchor, the environment, the configuration. That nothing
# was changed since is not taken on trust: the bytes of the tool and of all its files are compared
# before each call, kept ground or not.

KEPT_S = 1.0
MAX_KEPT = 256

Key = tuple[str, bool, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Everything that an execution needs beside its parameters.

    locked           whether a lockfile pins the chain
    resolved_config  what the tool's ``config_resolve`` asks for
    layers           of the configuration that may set limits
    trace, further, warnings, metadata  what was found out on the way
    """

    chain: Chain
    anchor: Anchor
    files: AnchoredFiles
    locked: bool
    env: ResolvedEnv = field(repr=False)
    resolved_config: Mapping[str, Any]
    layers: Sequence[Layer]
    trace: Sequence[Mapping[str, Any]] = ()
    further: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A call that may be made, wherever that is. The fields are those of `Ground`."""

    chain: Chain
    anchor: Anchor
    files: AnchoredFiles
    locked: bool
    parameters: dict[str, Any]


class Grounds:
    """The grounds that are kept, by tool. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[Key, tuple[float, Ground]] = {}

    def find(self, request: Request) -> Ground | None:
        """The ground of a call that is one of many; None for any other, and for an old one."""
        kept = self._kept.get(_key(request)) if request.is_one_of_many else None
        return kept[1] if kept and self._now() < kept[0] else None

    def keep(self, request: Request, ground: Ground) -> None:
        """Keep the ground of a call that is one of many."""
        if not request.is_one_of_many:
            return
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[_key(request)] = self._now() + KEPT_S, ground

    def forget(self) -> None:
        """Keep none of them any longer."""
        self._kept.clear()


def _key(request: Request) -> Key:
    return request.item_id, request.validate_chain, request.use_lockfile


@dataclass(slots=True)
class Progress:
    """What one execution has found out so far; goes into the result whatever happens.

    further   trace events that stand behind those of the chain and the environment
    """

    elements: list[ChainElement] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    further: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def take(self, ground: Ground) -> None:
        """What an earlier call has found out."""
        self.elements.extend(ground.chain.elements)
        self.trace.extend(map(dict, ground.trace))
        self.further.extend(map(dict, ground.further))
        self.metadata |= ground.metadata
        self.warnings.extend(ground.warnings)

    def clear(self) -> None:
        """Nothing of it counts."""
        for found in (self.elements, self.trace, self.further, self.metadata, self.warnings):
            found.clear()


class GroundFinder:
    """Finds out what an execution stands on: steps (1) to (7) of `ryeos.run.engine`."""

    def __init__(
        self,
        context: Context,
        chains: ChainBuilder,
        verifier: Verifier,
        runner: ProcessRunner,
        lockfiles: LockfileResolver,
    ) -> None:
        self._context, self._chains, self._verifier = context, chains, verifier
        self._runner, self._lockfiles = runner, lockfiles
        self._config = ConfigReader(context.spaces, verifier)
        self._validator = ChainValidator()

    def find(self, request: Request, progress: Progress) -> tuple[Ground, dict[str, Any]]:
        """What a call stands on, and its parameters, which are checked on the way.

        Raises what the failing step raises; ``progress`` has what was found out before.
        """
        known = self.check(request, progress)
        chain, anchor = known.chain, known.anchor
        env = self._environment(chain, anchor, progress)  # (6)
        ground = Ground(
            chain=chain,
            anchor=anchor,
            files=known.files,
            locked=known.locked,
            env=env,
            resolved_config=self._resolved_config(chain),  # (7)
            layers=self._limit_layers(chain),
            trace=tuple(progress.trace),
            further=tuple(progress.further),
            warnings=tuple(progress.warnings),
            metadata=dict(progress.metadata),
        )
        return ground, known.parameters

    def check(self, request: Request, progress: Progress) -> Checked:
        """Steps (1) to (5), for which it is no matter where the tool will run. Raises as `find`."""
        chain = self._chains.build(request.item_id, found=progress.elements)  # (1)
        progress.warnings.extend(chain.warnings)
        if request.validate_chain:
            self._validate(chain, progress)  # (2)
        anchor = anchor_of(chain, self._context)  # (3)
        files = verify_anchored_files(chain, anchor, self._verifier, progress.warnings.append)
        locked = request.use_lockfile and self._check_lock(chain, files, progress)  # (4)
        parameters = parameters_for(chain, request)  # (5)
        return Checked(
            chain=chain, anchor=anchor, files=files, locked=locked, parameters=parameters
        )

    def _validate(self, chain: Chain, progress: Progress) -> None:
        result = self._validator.validate_chain(chain.elements)
        progress.warnings.extend(result.warnings)
        progress.metadata["validated_pairs"] = result.validated_pairs
        if not result.valid:
            raise ChainValidationError(result.issues)

    def _check_lock(self, chain: Chain, files: AnchoredFiles, progress: Progress) -> bool:
        if self._context.lock_mode is LockMode.OFF:
            return False
        try:
            found = self._lockfiles.check(chain, files.pins)
        except LockfileMismatchError as error:
            if self._context.lock_mode is LockMode.STRICT:
                raise
            progress.warnings.append(f"{error} ({error.hint})")
            return True
        if found:
            progress.further.append(
                {"step": "lockfile", "item_id": chain.tool.item_id, "path": str(found.path)}
            )
        return found is not None

    def _environment(self, chain: Chain, anchor: Anchor, progress: Progress) -> ResolvedEnv:
        env = resolved_environment(chain, anchor, self._context, self._runner)
        progress.trace.extend(env_events(chain.elements))
        progress.warnings.extend(env.warnings)
        return env

    def _resolved_config(self, chain: Chain) -> dict[str, Any]:
        declared = chain.tool.spec.config_resolve
        return {RESOLVED_CONFIG: self._config.resolve(declared)} if declared else {}

    def _limit_layers(self, chain: Chain) -> Sequence[Layer]:
        declared = [e.spec.config_resolve for e in chain.elements[1:] if e.spec.config_resolve]
        path = declared[0].get("path") if declared and isinstance(declared[0], dict) else None
        return self._config.layers(path) if isinstance(path, str) else ()


def parameters_for(chain: Chain, request: Request) -> dict[str, Any]:
    """The caller's, checked. What the engine fills in itself need not be in the tool's schema.

    A graph checks its own: some of them steer the run.
    """
    if is_graph(chain):
        return checked_parameters(request.parameters, None)
    spec = chain.tool.spec
    exempt = (*STEERING, RESOLVED_CONFIG) if spec.config_resolve else STEERING
    ref = f"tool:{chain.tool.item_id}"
    return checked_parameters(request.parameters, spec.config_schema, exempt, ref=ref)


# --- engine ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """An execution ready to start."""

    chain: Chain
    call: Call
    contributed: tuple[str, ...]
    files: AnchoredFiles
    locked: bool
    on_kept_ground: bool


class PrimitiveExecutor:
    """Runs tools of the spaces. Thread-safe; one per context."""

    PRIMITIVE_MAP: ClassVar[Mapping[str, type[Primitive]]] = PRIMITIVES
    MAX_CHAIN_DEPTH: ClassVar[int] = MAX_CHAIN_DEPTH

    def __init__(
        self,
        context: Context,
        resolver: Resolver,
        verifier: Verifier,
        *,
        runner: ProcessRunner | None = None,
        functions: "FunctionHost | None" = None,
        graphs: GraphCalls | None = None,
        now: Clock = utc_now,
    ) -> None:
        self._context = context
        self._verifier = verifier
        self._runner = runner or ProcessManager()
        self._chains = ChainBuilder(resolver, verifier, self.PRIMITIVE_MAP.keys())
        self._services = Services(
            runner=self._runner,
            companion=self._chains.companion,
            process_env=context.process_env,
            functions=functions,
            graphs=graphs,
            companion_at=self._chains.companion_at,
            neighbours=self._neighbours,
        )
        self._lockfiles = LockfileResolver(context.spaces, now)
        self._finder = GroundFinder(context, self._chains, verifier, self._runner, self._lockfiles)
        self._grounds = Grounds()

    def keep_warm(self, functions: "FunctionHost") -> None:
        """Make calls of Python functions in these workers from now on."""
        self._services = replace(self._services, functions=functions)

    def execute(
        self,
        request: Request,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,
        on_step: OnStep | None = None,
    ) -> ExecutionResult:
        """Run a tool, or with ``dry_run`` do everything short of starting it.

        Raises no LilluxError: it is in the result's ``failure``.
        """

        def carry_out(progress: Progress) -> ExecutionResult:
            prepared = self._prepare(request, progress, on_step)
            if request.dry_run:
                return ExecutionResult(success=True, metadata=prepared.call.describe())
            prepared = self._on_firm_ground(request, prepared, progress, on_step)  # (9)
            return self._run(request, prepared, progress, cancellation, on_stderr)

        return _told(request, carry_out)

    def check(self, request: Request) -> ExecutionResult:
        """Whether a tool may run, on this machine or on another one: steps (1) to (5).

        A graph is prepared as well: what is wrong with it is wrong everywhere; how it would be run
        is in the metadata. Raises nothing, as `execute`.
        """

        def carry_out(progress: Progress) -> ExecutionResult:
            if not is_graph(self._finder.check(request, progress).chain):
                return ExecutionResult(success=True)
            described = self._prepare(request, Progress()).call.describe()
            return ExecutionResult(success=True, metadata=dict(described))

        return _told(request, carry_out)

    def build_chain(self, item_id: str, *, force_refresh: bool = False) -> Chain:
        """The verified chain of a tool. Raises what the failing step raises."""
        return self._chains.build(item_id, force_refresh=force_refresh)

    def lock(self, item_id: str) -> Path | None:
        """Pin a tool's chain as it is now; the lockfile's path. Raises as `build_chain`."""
        chain = self.build_chain(item_id)
        anchor = anchor_of(chain, self._context)
        files = verify_anchored_files(chain, anchor, self._verifier, log_warning)
        return self._lockfiles.save_lockfile(self._lockfiles.create_lockfile(chain, files.pins))

    def fingerprint(self, item_id: str) -> str | None:
        """A digest of all verified files that a tool runs; None for a graph, which chooses later.

        Raises as `build_chain`.
        """
        chain = self.build_chain(item_id)
        if is_graph(chain):
            return None
        anchor = anchor_of(chain, self._context)
        files = verify_anchored_files(chain, anchor, self._verifier, log_warning)
        pins = json.dumps(files.pins, sort_keys=True, ensure_ascii=True)
        return sha256_hex(f"{chain.digest}\n{pins}".encode())

    @property
    def lockfiles(self) -> LockfileResolver:
        """The lockfiles of this context."""
        return self._lockfiles

    def invalidate_tool(self, item_id: str) -> None:
        """Forget every chain that an item is part of."""
        self._chains.forget(item_id)
        self._grounds.forget()

    def clear_caches(self) -> None:
        """Forget everything remembered between calls."""
        self._chains.clear()
        self._grounds.forget()

    def get_cache_stats(self) -> dict[str, int]:
        """How much is remembered."""
        return {
            "chain_cache_size": len(self._chains.chains),
            "metadata_cache_size": len(self._chains.specs),
        }

    def _primitive(self, item_id: str) -> Primitive:
        kind = self.PRIMITIVE_MAP[item_id]
        return kind(self._runner) if issubclass(kind, ExecutePrimitive) else kind()

    def _prepare(
        self, request: Request, progress: Progress, on_step: OnStep | None = None
    ) -> _Prepared:
        kept = self._grounds.find(request)
        if kept:
            ground, parameters = kept, parameters_for(kept.chain, request)  # (5)
            progress.take(kept)
        else:
            ground, parameters = self._finder.find(request, progress)
            self._grounds.keep(request, ground)
        materials = self._materials(
            ground, {**parameters, **ground.resolved_config}, request, progress
        )
        primitive = self._primitive(ground.chain.primitive.item_id)
        services = replace(self._services, on_step=on_step) if on_step else self._services
        return _Prepared(
            chain=ground.chain,
            call=primitive.prepare(materials, services),  # (8)
            contributed=ground.env.contributed,
            files=ground.files,
            locked=ground.locked,
            on_kept_ground=kept is not None,
        )

    def _on_firm_ground(
        self, request: Request, prepared: _Prepared, progress: Progress, on_step: OnStep | None
    ) -> _Prepared:
        """The same, or prepared anew where a file was changed since its ground was found.

        Raises IntegrityError for a file that was changed just now.
        """
        try:
            _require_unchanged(prepared)
        except IntegrityError:
            if not prepared.on_kept_ground:
                raise
            self._grounds.forget()
            progress.clear()
            prepared = self._prepare(request, progress, on_step)
            _require_unchanged(prepared)
        return prepared

    def _run(
        self,
        request: Request,
        prepared: _Prepared,
        progress: Progress,
        cancellation: Cancellation | None,
        on_stderr: OnStderr | None,
    ) -> ExecutionResult:
        mapped = prepared.call.run(cancellation=cancellation, on_stderr=on_stderr)
        metadata = dict(mapped.metadata)  # (10)
        metadata["resolved_env_keys"] = list(prepared.contributed)
        if mapped.code:
            metadata["error_code"] = mapped.code
        if prepared.locked:
            metadata["lockfile_used"] = True
        elif mapped.success and request.use_lockfile:
            self._pin(prepared, progress)
        return ExecutionResult(
            success=mapped.success, data=mapped.data, error=mapped.error, metadata=metadata
        )

    def _pin(self, prepared: _Prepared, progress: Progress) -> None:
        if self._context.lock_mode is LockMode.OFF or prepared.chain.tool.spec.version is None:
            return
        if not self._lockfiles.has_place():
            return
        lockfile = self._lockfiles.create_lockfile(prepared.chain, prepared.files.pins)
        self._grounds.forget()  # they know of no lockfile
        try:
            path = self._lockfiles.save_lockfile(lockfile)
        except LilluxError as error:
            progress.warnings.append(f"lockfile not written: {error}")
            return
        if path:
            progress.metadata["lockfile_created"] = str(path)

    def _materials(
        self,
        ground: Ground,
        parameters: Mapping[str, Any],
        request: Request,
        progress: Progress,
    ) -> Materials:
        chain, anchor, env = ground.chain, ground.anchor, ground.env
        config = merged_config(chain)
        fixed = filled_fixed_params(config, anchor, env)
        values = caller_values(parameters, chain.tool.spec.config_schema, config, fixed)
        progress.warnings.extend(values.warnings)
        asked = {} if request.timeout_s is None else {"timeout": request.timeout_s}
        caller = {**values.steering, **asked}
        sources = _limit_sources(ground, caller)
        timeout_s = limit("timeout", sources)
        lowered = at_most(timeout_s, request.at_most_s)
        return Materials(
            chain=chain,
            config=config,
            values=values,
            anchor=anchor,
            files=ground.files,
            env=env,
            child_env=process_environment(
                chain,
                anchor,
                env,
                {**self._context.program_variables(), **request.extra_env},
                self._context.platform,
            ),
            timeout_s=at_most(tool_timeout(timeout_s, values), request.at_most_s),
            request=request,
            caller_timeout_s=lowered if "timeout" in caller or lowered != timeout_s else None,
            # Its own are the graph's to judge, with everything else that is wrong with it.
            limits=graph_limits(replace(sources, tool_config={})) if is_graph(chain) else {},
        )

    def _neighbours(
        self, element: ChainElement, rules: DependencyRules
    ) -> tuple[VerifiedItem, ...]:
        if element.item is None:
            return ()
        target = element.item.target
        return verify_tree(target.path.parent, rules, target.space, self._verifier, log_warning)


def _told(request: Request, carry_out: Callable[[Progress], ExecutionResult]) -> ExecutionResult:
    """What came of it, with all that was found out on the way."""
    started = perf_counter()
    progress = Progress()
    try:
        result = carry_out(progress)
    except LilluxError as error:
        progress.metadata["error_code"] = error.code
        result = ExecutionResult(success=False, error=str(error), failure=error)
    result.chain = [element.describe() for element in progress.elements]
    if request.trace:
        chain_trace = chain_events(progress.elements)
        result.trace = [*chain_trace, *progress.trace, *progress.further]
    progress.warnings.extend(result.metadata.pop("warnings", ()))
    result.metadata = progress.metadata | result.metadata
    unverified = [e.item_id for e in progress.elements if e.item and not e.item.verified]
    if unverified:
        result.metadata["unverified"] = unverified
    if progress.warnings:
        result.metadata["warnings"] = list(dict.fromkeys(progress.warnings))
    result.duration_ms = (perf_counter() - started) * 1000
    return result


def _limit_sources(ground: Ground, caller: Mapping[str, Any]) -> LimitSources:
    runtime_config: dict[str, Any] = {}
    for element in reversed(ground.chain.elements[1:]):
        runtime_config |= element.spec.config
    tool = ground.chain.tool
    return LimitSources(
        tool_id=tool.item_id,
        caller=caller,
        tool_config=tool.spec.config,
        runtime_config=runtime_config,
        layers=ground.layers,
    )


def _require_unchanged(prepared: _Prepared) -> None:
    """The bytes of the tool and its files are those that were verified. Raises IntegrityError."""
    for item in (prepared.chain.tool.item, *prepared.files.items):
        if item and item.verified:
            unchanged(item)


# --- trace ----------------------------------------------------------------------------------------
# The event log of an execution: what was decided, in the order of the steps. Pure.
#
# ``resolve`` per element, then ``verify_integrity`` per element, then ``resolve_env`` per element
# that has an ``env_config``; further steps follow. Consumers filter by ``step``.


def chain_events(elements: Sequence[ChainElement]) -> Iterator[dict[str, Any]]:
    """Which file each element is, what it hides, and who signed it."""
    for element in elements:
        yield {
            "step": "resolve",
            "item_id": element.item_id,
            "path": str(element.path) if element.path else None,
            "space": element.space,
            "shadowed": [
                {"path": str(location.path), "space": location.space.label}
                for location in element.shadowed
            ],
        }
    for element in elements:
        if element.item:
            key = element.item.key
            yield {
                "step": "verify_integrity",
                "item_id": element.item_id,
                "verified": element.item.verified,
                "key_fp": key.fingerprint if key else None,
            }


def env_events(elements: Sequence[ChainElement]) -> Iterator[dict[str, Any]]:
    """Which elements shaped the environment, primitive first."""
    for element in reversed(elements):
        if element.spec.env_config:
            yield {
                "step": "resolve_env",
                "contributed_by": element.item_id,
                "keys": list(element.spec.env_config),
            }
