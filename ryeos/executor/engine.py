"""`PrimitiveExecutor`: one execution, step by step; (1) to (7) are in `ryeos.executor.grounds`.

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
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.process import ProcessManager
from lillux.process.cancellation import Cancellation
from lillux.process.model import ProcessRunner
from lillux.values import dataclass, replace
from ryeos.context import Context, LockMode
from ryeos.dependencies import DependencyRules, verify_tree
from ryeos.errors import IntegrityError
from ryeos.executor.anchor import anchor_of
from ryeos.executor.anchored_files import AnchoredFiles, verify_anchored_files
from ryeos.executor.caller_values import (
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
from ryeos.executor.environment import process_environment
from ryeos.executor.grounds import Ground, GroundFinder, Grounds, Progress, parameters_for
from ryeos.executor.limits import LimitSources, at_most, graph_limits, limit
from ryeos.executor.lockfiles import LockfileResolver
from ryeos.executor.model import Chain, ChainElement, ExecutionResult, Request
from ryeos.executor.primitives import PRIMITIVES, ExecutePrimitive, is_graph
from ryeos.executor.trace import chain_events
from ryeos.log import log_warning
from ryeos.moments import Clock, utc_now
from ryeos.resolver import Resolver
from ryeos.verify import VerifiedItem, Verifier, unchanged

if TYPE_CHECKING:
    from ryeos.executor.function_host import FunctionHost


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
