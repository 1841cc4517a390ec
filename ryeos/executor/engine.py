"""`PrimitiveExecutor`: one execution, step by step.

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
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from lillux.digests import sha256_hex
from lillux.env_resolver import ResolvedEnv
from lillux.errors import LilluxError
from lillux.process import Cancellation, ProcessManager, ProcessRunner
from lillux.values import dataclass, field, replace
from ryeos.config import ConfigReader
from ryeos.context import Context, LockMode
from ryeos.dependencies import DependencyRules, verify_tree
from ryeos.errors import ChainValidationError, LockfileMismatchError
from ryeos.executor.anchor import Anchor, anchor_of
from ryeos.executor.anchored_files import AnchoredFiles, verify_anchored_files
from ryeos.executor.caller_values import (
    STEERING,
    caller_values,
    filled_fixed_params,
    tool_timeout,
)
from ryeos.executor.calls import (
    Call,
    GraphCalls,
    Materials,
    OnStderr,
    OnStep,
    Primitive,
    Services,
)
from ryeos.executor.chain import MAX_CHAIN_DEPTH, ChainBuilder
from ryeos.executor.chain_config import merged_config
from ryeos.executor.environment import process_environment, resolved_environment
from ryeos.executor.limits import LimitSources, at_most, graph_limits, limit
from ryeos.executor.lockfiles import LockfileResolver
from ryeos.executor.model import Chain, ChainElement, ExecutionResult, Request
from ryeos.executor.parameters import RESOLVED_CONFIG, checked_parameters
from ryeos.executor.primitives import PRIMITIVES, ExecutePrimitive, is_graph
from ryeos.executor.trace import chain_events, env_events
from ryeos.executor.validator import ChainValidator
from ryeos.log import log_warning
from ryeos.moments import Clock, utc_now
from ryeos.resolver import Resolver
from ryeos.verify import VerifiedItem, Verifier, unchanged

if TYPE_CHECKING:
    from ryeos.executor.function_host import FunctionHost


@dataclass(slots=True)
class _Progress:
    """What one execution has found out so far; goes into the result whatever happens.

    further   trace events that stand behind those of the chain and the environment
    """

    elements: list[ChainElement] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    further: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """An execution ready to start."""

    chain: Chain
    call: Call
    contributed: tuple[str, ...]
    files: AnchoredFiles
    locked: bool


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
        self._config = ConfigReader(context.spaces, verifier)
        self._lockfiles = LockfileResolver(context.spaces, now)
        self._validator = ChainValidator()

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
        started = perf_counter()
        progress = _Progress()
        try:
            prepared = self._prepare(request, progress, on_step)
            if request.dry_run:
                result = ExecutionResult(success=True, metadata=prepared.call.describe())
            else:
                result = self._run(request, prepared, progress, cancellation, on_stderr)
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

    def clear_caches(self) -> None:
        """Forget everything remembered between calls."""
        self._chains.clear()

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
        self, request: Request, progress: _Progress, on_step: OnStep | None = None
    ) -> _Prepared:
        chain = self._chains.build(request.item_id, found=progress.elements)  # (1)
        progress.warnings.extend(chain.warnings)
        if request.validate_chain:
            self._validate(chain, progress)  # (2)
        anchor = anchor_of(chain, self._context)  # (3)
        files = verify_anchored_files(chain, anchor, self._verifier, progress.warnings.append)
        locked = request.use_lockfile and self._check_lock(chain, files, progress)  # (4)
        parameters = _parameters(chain, request)  # (5)
        env = self._environment(chain, anchor, progress)  # (6)
        parameters |= self._resolved_config(chain)  # (7)
        materials = self._materials(
            chain, parameters, request, anchor=anchor, files=files, env=env, progress=progress
        )
        primitive = self._primitive(chain.primitive.item_id)
        services = replace(self._services, on_step=on_step) if on_step else self._services
        return _Prepared(
            chain=chain,
            call=primitive.prepare(materials, services),  # (8)
            contributed=env.contributed,
            files=files,
            locked=locked,
        )

    def _run(
        self,
        request: Request,
        prepared: _Prepared,
        progress: _Progress,
        cancellation: Cancellation | None,
        on_stderr: OnStderr | None,
    ) -> ExecutionResult:
        for item in (prepared.chain.tool.item, *prepared.files.items):  # (9)
            if item and item.verified:
                unchanged(item)
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

    def _validate(self, chain: Chain, progress: _Progress) -> None:
        result = self._validator.validate_chain(chain.elements)
        progress.warnings.extend(result.warnings)
        progress.metadata["validated_pairs"] = result.validated_pairs
        if not result.valid:
            raise ChainValidationError(result.issues)

    def _check_lock(self, chain: Chain, files: AnchoredFiles, progress: _Progress) -> bool:
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

    def _pin(self, prepared: _Prepared, progress: _Progress) -> None:
        if self._context.lock_mode is LockMode.OFF or prepared.chain.tool.spec.version is None:
            return
        if not self._lockfiles.has_place():
            return
        lockfile = self._lockfiles.create_lockfile(prepared.chain, prepared.files.pins)
        try:
            path = self._lockfiles.save_lockfile(lockfile)
        except LilluxError as error:
            progress.warnings.append(f"lockfile not written: {error}")
            return
        if path:
            progress.metadata["lockfile_created"] = str(path)

    def _environment(self, chain: Chain, anchor: Anchor, progress: _Progress) -> ResolvedEnv:
        env = resolved_environment(chain, anchor, self._context, self._runner)
        progress.trace.extend(env_events(chain.elements))
        progress.warnings.extend(env.warnings)
        return env

    def _resolved_config(self, chain: Chain) -> dict[str, Any]:
        declared = chain.tool.spec.config_resolve
        return {RESOLVED_CONFIG: self._config.resolve(declared)} if declared else {}

    def _materials(
        self,
        chain: Chain,
        parameters: Mapping[str, Any],
        request: Request,
        *,
        anchor: Anchor,
        files: AnchoredFiles,
        env: ResolvedEnv,
        progress: _Progress,
    ) -> Materials:
        config = merged_config(chain)
        fixed = filled_fixed_params(config, anchor, env)
        values = caller_values(parameters, chain.tool.spec.config_schema, config, fixed)
        progress.warnings.extend(values.warnings)
        asked = {} if request.timeout_s is None else {"timeout": request.timeout_s}
        caller = {**values.steering, **asked}
        sources = self._limit_sources(chain, caller)
        timeout_s = limit("timeout", sources)
        lowered = at_most(timeout_s, request.at_most_s)
        return Materials(
            chain=chain,
            config=config,
            values=values,
            anchor=anchor,
            files=files,
            env=env,
            child_env=process_environment(
                chain, anchor, env, request.extra_env, self._context.platform
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

    def _limit_sources(self, chain: Chain, caller: Mapping[str, Any]) -> LimitSources:
        runtime_config: dict[str, Any] = {}
        for element in reversed(chain.elements[1:]):
            runtime_config |= element.spec.config
        declared = [e.spec.config_resolve for e in chain.elements[1:] if e.spec.config_resolve]
        path = declared[0].get("path") if declared and isinstance(declared[0], dict) else None
        return LimitSources(
            tool_id=chain.tool.item_id,
            caller=caller,
            tool_config=chain.tool.spec.config,
            runtime_config=runtime_config,
            layers=self._config.layers(path) if isinstance(path, str) else (),
        )


def _parameters(chain: Chain, request: Request) -> dict[str, Any]:
    """The caller's, checked. What the engine fills in itself need not be in the tool's schema.

    A graph checks its own: some of them steer the run.
    """
    if is_graph(chain):
        return checked_parameters(request.parameters, None)
    spec = chain.tool.spec
    exempt = (*STEERING, RESOLVED_CONFIG) if spec.config_resolve else STEERING
    return checked_parameters(request.parameters, spec.config_schema, exempt)
