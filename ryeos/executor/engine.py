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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

from lillux.env_resolver import EnvResolver, ResolvedEnv, child_environment
from lillux.errors import LilluxError
from lillux.process import Cancellation, ProcessRunner
from ryeos.config import ConfigReader
from ryeos.context import Context, LockMode
from ryeos.dependencies import dependency_rules, verify_tree
from ryeos.errors import ChainValidationError, LockfileMismatchError
from ryeos.executor.anchor import Anchor, anchor_of
from ryeos.executor.chain import MAX_CHAIN_DEPTH, ChainBuilder
from ryeos.executor.invocation import (
    STEERING,
    build_invocation,
    caller_values,
    merged_config,
    tool_timeout,
)
from ryeos.executor.limits import LimitSources, limit
from ryeos.executor.lockfiles import LockfileResolver
from ryeos.executor.model import Chain, ExecutionResult, Invocation, Request
from ryeos.executor.parameters import RESOLVED_CONFIG, checked_parameters
from ryeos.executor.primitives import PRIMITIVES, ExecutePrimitive, OnStderr
from ryeos.executor.results import map_outcome
from ryeos.executor.trace import chain_events, env_events
from ryeos.executor.validator import ChainValidator
from ryeos.resolver import Resolver
from ryeos.verify import VerifiedItem, Verifier, unchanged


@dataclass(slots=True)
class _Progress:
    """What one execution has found out so far; goes into the result whatever happens."""

    chain: list[dict[str, Any]] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """An execution ready to start."""

    chain: Chain
    invocation: Invocation
    dependencies: tuple[VerifiedItem, ...]
    pins: Mapping[str, str]
    locked: bool


class PrimitiveExecutor:
    """Runs tools of the spaces. Thread-safe; one per context."""

    PRIMITIVE_MAP: ClassVar[Mapping[str, type[ExecutePrimitive]]] = PRIMITIVES
    MAX_CHAIN_DEPTH: ClassVar[int] = MAX_CHAIN_DEPTH

    def __init__(
        self,
        context: Context,
        resolver: Resolver,
        verifier: Verifier,
        *,
        runner: ProcessRunner | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._context = context
        self._verifier = verifier
        self._runner = runner
        self._chains = ChainBuilder(resolver, verifier, self.PRIMITIVE_MAP.keys())
        self._config = ConfigReader(context.spaces, verifier)
        self._lockfiles = LockfileResolver(context.spaces, now)
        self._validator = ChainValidator()

    def execute(
        self,
        request: Request,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,
    ) -> ExecutionResult:
        """Run a tool, or with ``dry_run`` do everything short of starting it.

        Raises no LilluxError: it is in the result's ``failure``.
        """
        started = perf_counter()
        progress = _Progress()
        try:
            prepared = self._prepare(request, progress)
            if request.dry_run:
                result = _validated(prepared)
            else:
                result = self._run(request, prepared, progress, cancellation, on_stderr)
        except LilluxError as error:
            progress.metadata["error_code"] = error.code
            result = ExecutionResult(success=False, error=str(error), failure=error)
        result.chain = progress.chain
        result.trace = progress.trace if request.trace else []
        result.metadata = progress.metadata | result.metadata
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
        _, pins = self._dependencies(chain, anchor_of(chain, self._context))
        return self._lockfiles.save_lockfile(self._lockfiles.create_lockfile(chain, pins))

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

    def _prepare(self, request: Request, progress: _Progress) -> _Prepared:
        chain = self.build_chain(request.item_id)  # (1)
        progress.chain = chain.describe()
        progress.trace.extend(chain_events(chain))
        progress.warnings.extend(chain.warnings)
        if request.validate_chain:
            self._validate(chain, progress)  # (2)
        anchor = anchor_of(chain, self._context)  # (3)
        dependencies, pins = self._dependencies(chain, anchor)
        locked = request.use_lockfile and self._check_lock(chain, pins, progress)  # (4)
        schema = chain.tool.spec.config_schema  # (5)
        parameters = checked_parameters(request.parameters, schema, STEERING)
        env = self._environment(chain, anchor, progress)  # (6)
        parameters |= self._resolved_config(chain)  # (7)
        invocation = self._invocation(
            chain, parameters, request, anchor, env=env, progress=progress
        )  # (8)
        return _Prepared(
            chain=chain,
            invocation=invocation,
            dependencies=dependencies,
            pins=pins,
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
        for item in (prepared.chain.tool.item, *prepared.dependencies):  # (9)
            if item and item.verified:
                unchanged(item)
        primitive = self.PRIMITIVE_MAP[prepared.chain.primitive.item_id](self._runner)
        outcome = primitive.run(prepared.invocation, cancellation=cancellation, on_stderr=on_stderr)
        mapped = map_outcome(outcome, prepared.invocation.timeout_s)  # (10)
        metadata = dict(mapped.metadata)
        metadata["resolved_env_keys"] = list(prepared.invocation.contributed)
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

    def _dependencies(
        self, chain: Chain, anchor: Anchor
    ) -> tuple[tuple[VerifiedItem, ...], dict[str, str]]:
        """The verified files around the tool, and the hash of each by its path below the anchor."""
        declared = chain.first_with("verify_deps")
        item = chain.tool.item
        if declared is None or item is None or not anchor.active:
            return (), {}
        rules = dependency_rules(declared[1])
        if not rules.enabled or rules.scope == "tool_file":
            return (), {}
        base = (anchor.path if rules.scope == "anchor" else item.target.path.parent).resolve()
        items = verify_tree(base, rules, item.target.space, self._verifier)
        pins = {
            found.target.path.relative_to(base).as_posix(): found.content_hash for found in items
        }
        return items, pins

    def _check_lock(self, chain: Chain, pins: Mapping[str, str], progress: _Progress) -> bool:
        if self._context.lock_mode is LockMode.OFF:
            return False
        try:
            found = self._lockfiles.check(chain, pins)
        except LockfileMismatchError as error:
            if self._context.lock_mode is LockMode.STRICT:
                raise
            progress.warnings.append(f"{error} ({error.hint})")
            return True
        if found:
            progress.trace.append(
                {"step": "lockfile", "item_id": chain.tool.item_id, "path": str(found.path)}
            )
        return found is not None

    def _pin(self, prepared: _Prepared, progress: _Progress) -> None:
        if self._context.lock_mode is LockMode.OFF or prepared.chain.tool.spec.version is None:
            return
        lockfile = self._lockfiles.create_lockfile(prepared.chain, prepared.pins)
        try:
            path = self._lockfiles.save_lockfile(lockfile)
        except LilluxError as error:
            progress.warnings.append(f"lockfile not written: {error}")
            return
        if path:
            progress.metadata["lockfile_created"] = str(path)

    def _environment(self, chain: Chain, anchor: Anchor, progress: _Progress) -> ResolvedEnv:
        resolver = EnvResolver(
            project_path=self._context.project_path,
            user_base=self._context.spaces.user.base,
            process_env=self._context.process_env,
            platform=self._context.platform,
            runner=self._runner,
        )
        env = resolver.base()
        for element in reversed(chain.elements):
            env = resolver.apply(env, element.spec.env_config, anchor.names)
        progress.trace.extend(env_events(chain))
        progress.warnings.extend(env.warnings)
        return ResolvedEnv(
            variables=anchor.apply_to(env.variables),
            contributed=tuple(sorted({*env.contributed, *anchor.env_paths})),
            missing=env.missing,
        )

    def _resolved_config(self, chain: Chain) -> dict[str, Any]:
        declared = chain.tool.spec.config_resolve
        return {RESOLVED_CONFIG: self._config.resolve(declared)} if declared else {}

    def _invocation(
        self,
        chain: Chain,
        parameters: Mapping[str, Any],
        request: Request,
        anchor: Anchor,
        *,
        env: ResolvedEnv,
        progress: _Progress,
    ) -> Invocation:
        config = merged_config(chain)
        spec = chain.tool.spec
        values = caller_values(parameters, spec.config_schema, spec.config)
        progress.warnings.extend(values.warnings)
        asked = {} if request.timeout_s is None else {"timeout": request.timeout_s}
        timeout_s = limit("timeout", self._limit_sources(chain, {**values.steering, **asked}))
        return build_invocation(
            chain,
            config,
            values,
            anchor=anchor,
            env=env,
            child_env=self._child_env(chain, env, anchor, request),
            timeout_s=tool_timeout(timeout_s, values),
        )

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

    def _child_env(
        self, chain: Chain, env: ResolvedEnv, anchor: Anchor, request: Request
    ) -> dict[str, str]:
        declared = [element.spec.env_config for element in chain.elements]
        unset = [name for block in declared for name in block.get("unset") or () if name]
        minimal = any(block.get("env_policy") == "minimal" for block in declared)
        kept = child_environment(env, unset=unset, minimal=minimal, platform=self._context.platform)
        return {
            **kept,
            "RYE_PROJECT_PATH": anchor.names["project_path"],
            "RYE_TOOL_PATH": anchor.names["tool_path"],
            "RYE_TOOL_ID": chain.tool.item_id,
            **request.extra_env,
        }


def _validated(prepared: _Prepared) -> ExecutionResult:
    invocation = prepared.invocation
    return ExecutionResult(
        success=True,
        metadata={
            "command": list(invocation.argv),
            "cwd": str(invocation.cwd),
            "env_keys": list(invocation.contributed),
            "timeout_s": invocation.timeout_s,
        },
    )
