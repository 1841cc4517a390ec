"""`PrimitiveExecutor`: one execution, step by step.

(1) build the chain, every element resolved, verified and parsed
(2) validate it: spaces, inputs and outputs, versions
(3) choose the anchor; verify every dependency file before anything starts
(4) no version below one that ran before; lockfile: pins match, or there is none yet
(5) parameters: defaults, then the tool's schema
(6) environment: primitive, runtimes, tool; the tool wins
(7) configuration of the three tiers
(8) the call, nothing left to resolve
(9) run: a process gets the verified bytes, and opens no file of these by its path
(10) the result; a first success writes the lockfile

A tool that fails is a result. What Rye cannot do is a `LilluxError`, which the result carries in
``failure`` together with what was found out before it.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from lillux.cancellation import Cancellation
from lillux.digests import sha256_hex
from lillux.env_resolver import ResolvedEnv
from lillux.errors import LilluxError
from lillux.process import ProcessManager
from lillux.process.model import ProcessRunner
from lillux.program_files import everything_counts
from lillux.signing import compute_key_digest
from lillux.values import dataclass, field, replace
from ryeos.items.context import CONFINE_VARIABLE, Clock, Context, LockMode, log_warning, utc_now
from ryeos.items.errors import (
    ChainError,
    ChainValidationError,
    IntegrityError,
    LockfileMismatchError,
    SignatureFormatError,
)
from ryeos.items.refs import PROJECT, SYSTEM, USER, ItemRef, Kind, Resolution
from ryeos.items.specs import RUNTIME_TYPE
from ryeos.run.anchor import Anchor, AnchoredFiles, anchor_of, verify_anchored_files
from ryeos.run.calls import (
    Call,
    GraphCalls,
    Materials,
    OnStderr,
    OnStep,
    Primitive,
    Services,
    ThreadCalls,
)
from ryeos.run.chain import MAX_CHAIN_DEPTH, PACKAGES_MARK, ChainBuilder, merged_config
from ryeos.run.chain_validator import ChainValidator
from ryeos.run.confinement import CallRights, rights_of
from ryeos.run.environment import (
    is_shell,
    original_variables,
    process_environment,
    resolved_environment,
)
from ryeos.run.execution_log import ExecutionLog, env_events, run_logged
from ryeos.run.limits import LimitSources, at_most, graph_limits, limit, require_valid_limits
from ryeos.run.lockfiles import LockfileResolver
from ryeos.run.model import Chain, ChainElement, ExecutionRequest, ExecutionResult
from ryeos.run.outcomes import MappedResult
from ryeos.run.parameters import (
    RESOLVED_CONFIG,
    CallerConfig,
    CallerValues,
    caller_config,
    caller_values,
    caller_variables,
    filled_fixed_params,
    tool_timeout,
    valid_parameters,
)
from ryeos.run.primitives import GRAPH_RUNTIME, PRIMITIVES, ExecutePrimitive, is_graph
from ryeos.run.sandbox_policy import AGENTS_WHERE, Level, SandboxPolicy, policy_of
from ryeos.trust.approvals import left_out_of_path, left_out_of_variable
from ryeos.trust.config import ConfigReader, Layer
from ryeos.trust.dependencies import DependencyRules, verify_tree
from ryeos.trust.resolver import Resolver
from ryeos.trust.verify import VerifiedItem, Verifier, unchanged
from ryeos.trust.versions import Edition, VersionRecord

if TYPE_CHECKING:
    from ryeos.run.allowance import AgentPolicy, Allowance
    from ryeos.run.functions import FunctionHost
    from ryeos.run.packages import PackageList
    from ryeos.run.receipt_statements import Evidence


KEPT_S = 1.0
"""The time for which a prepared call is reused, in seconds."""
MAX_KEPT = 256


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
        threads: ThreadCalls | None = None,
        config: ConfigReader | None = None,
        now: Clock = utc_now,
    ) -> None:
        self._context = context
        self._verifier = verifier
        self._config = config or ConfigReader(context.spaces, verifier)
        self._runner = runner or ProcessManager()
        self._chains = ChainBuilder(resolver, verifier, self.PRIMITIVE_MAP.keys())
        self._services = Services(
            runner=self._runner,
            companion=self._chains.companion,
            own_environment=lambda: context.own_environment,
            functions=functions,
            graphs=graphs,
            threads=threads,
            companion_at=self._chains.companion_at,
            neighbours=self._neighbours,
            approves=context.approves,
            holds=context.holds,
            withheld=context.withheld,
        )
        self.lockfiles = LockfileResolver(context.spaces, now)
        self.versions = VersionRecord(context.spaces.user, context.project_path)
        self._prepared = PreparedCalls()
        self._allowances: dict[AgentPolicy | None, tuple[float, Allowance]] = {}

    def keep_warm(self, functions: "FunctionHost") -> None:
        """Make calls of Python functions in these workers from now on."""
        self._services = replace(self._services, functions=functions)

    def execute(
        self,
        request: ExecutionRequest,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,
        on_step: OnStep | None = None,
        on_start: "Callable[[Evidence], None] | None" = None,
    ) -> ExecutionResult:
        """Run a tool, or with ``dry_run`` do everything short of starting it.

        ``on_start`` gets the evidence just before the start; where it raises, nothing starts.
        Raises no LilluxError: it is in the result's ``failure``.
        """
        evidence: list[Evidence] = []

        def run(log: ExecutionLog) -> ExecutionResult:
            cached = self._prepared.find(request)
            call, prepared = self._make_call(request, log, cached, on_step)  # (1) to (8)
            if request.dry_run:
                return ExecutionResult(success=True, metadata=call.describe())
            if cached and not cached.is_current():
                # Changed since it was cached: all steps again, which look at the new bytes.
                self._prepared.clear()
                log.clear()
                call, prepared = self._make_call(request, log, None, on_step)
            elif cached:
                _require_known_texts(prepared.chain, request)
            if request.wants_receipt or is_graph(prepared.chain):
                evidence.append(self._evidence(call, prepared, request))
                if on_start:
                    on_start(evidence[0])
            mapped = call.run(cancellation=cancellation, on_stderr=on_stderr)
            return self._result(mapped, prepared, request, log)  # (10)

        result = run_logged(request, run)
        result.evidence = evidence[0] if evidence else None
        return result

    def check(self, request: ExecutionRequest) -> ExecutionResult:
        """Find out if a tool may run, on this machine or on another one: steps (1) to (5).

        A graph is prepared as well: what is wrong with it is wrong everywhere; how it would be run
        is in the metadata. Raises nothing, as `execute`.
        """

        def run(log: ExecutionLog) -> ExecutionResult:
            if not is_graph(self._check(request, log).chain):
                return ExecutionResult(success=True)
            call, _ = self._make_call(request, ExecutionLog())
            return ExecutionResult(success=True, metadata=dict(call.describe()))

        return run_logged(request, run)

    def build_chain(
        self, item_id: str, *, force_refresh: bool = False, resolution: Resolution | None = None
    ) -> Chain:
        """The verified chain of a tool, as `ChainBuilder.build`."""
        return self._chains.build(item_id, force_refresh=force_refresh, resolution=resolution)

    @property
    def chains(self) -> Mapping[str, Chain]:
        """The chains that are remembered, by the id of their tool."""
        return self._chains.chains

    def lock(self, item_id: str) -> Path | None:
        """Pin a tool's chain as it is now; the lockfile's path. Raises as `build_chain`."""
        chain = self.build_chain(item_id)
        _, files = self._verify_files(chain, log_warning)
        return self.lockfiles.save_lockfile(self.lockfiles.create_lockfile(chain, files.pins))

    def follow(self, item_id: str, signed: Collection[Path]) -> bool:
        """Pin a tool anew whose chain has one of these files, which were just signed.

        False where it has none of them. Raises LockfileMismatchError where more than these differs
        from the lockfile, which then stays as it is; as `build_chain`.
        """
        self.invalidate_tool(item_id)
        chain = self.build_chain(item_id)
        _, files = self._verify_files(chain, log_warning)
        self._require_newest(chain, files)
        if not self.lockfiles.require_only_changed(chain, files, signed):
            return False
        self.lockfiles.save_lockfile(self.lockfiles.create_lockfile(chain, files.pins))
        return True

    def fingerprint(self, item_id: str) -> str | None:
        """A digest of all verified files that a tool runs; None for a graph, which chooses later.

        Raises as `build_chain`.
        """
        chain = self.build_chain(item_id)
        if is_graph(chain):
            return None
        _, files = self._verify_files(chain, log_warning)
        pins = json.dumps(files.pins, sort_keys=True, ensure_ascii=True)
        return sha256_hex(f"{chain.digest}\n{pins}".encode())

    def rights(self, item_id: str, *, is_watched: bool = False) -> CallRights:
        """The rights of a tool; with ``is_watched`` its declared rights are not enforced.

        Raises as `build_chain`, RyeError.
        """
        chain = self.build_chain(item_id)
        anchor, files = self._verify_files(chain, log_warning)
        policy = policy_of(self._config, self._context)
        if is_watched:
            policy = replace(policy, level=Level.OFF)
        return rights_of(
            chain,
            policy,
            self._context,
            callers=(),
            anchor=anchor,
            files=files,
            resolved=self._resolved_config(chain).get(RESOLVED_CONFIG) or {},
            is_baseline=self._context.confines,
            allowance=self._allowance(policy) if self._context.confines else None,
        )

    def invalidate_tool(self, item_id: str) -> None:
        """Forget every chain that an item is part of."""
        self._chains.forget(item_id)
        self._prepared.clear()

    def clear_caches(self) -> None:
        """Forget everything remembered between calls."""
        self._chains.clear()
        self._prepared.clear()

    def get_cache_stats(self) -> dict[str, int]:
        """The number of entries of each cache."""
        return {
            "chain_cache_size": len(self._chains.chains),
            "metadata_cache_size": len(self._chains.specs),
        }

    def _check(self, request: ExecutionRequest, log: "ExecutionLog") -> "CheckedCall":
        """Steps (1) to (5), which do not depend on the machine that will run the tool."""
        chain = self._chains.build(  # (1)
            request.item_id,
            found=log.elements,
            refused=log.refused,
            resolution=request.resolution,
        )
        _require_tool(chain)
        log.warnings.extend(chain.warnings)
        _require_known_texts(chain, request)
        self._validate(chain, request, log)  # (2)
        anchor, files = self._verify_files(chain, log.warnings.append)  # (3)
        self._require_newest(chain, files)
        locked = self._verify_lock(chain, files, request, log)  # (4)
        parameters = parameters_for(chain, request)  # (5)
        return CheckedCall(
            chain=chain, anchor=anchor, files=files, locked=locked, parameters=parameters
        )

    def _prepare(
        self, request: ExecutionRequest, log: "ExecutionLog", cached: "PreparedCall | None"
    ) -> tuple["PreparedCall", dict[str, Any]]:
        """Steps (1) to (7): what does not depend on the parameters, and the checked parameters."""
        if cached:
            log.add(cached.log)
            return cached, parameters_for(cached.chain, request)  # (5)
        checked = self._check(request, log)  # (1) to (5)
        env = self._environment(checked.chain, checked.anchor, log)  # (6)
        env = self._with_packages(checked.chain, env, request, log)
        resolved_config = self._resolved_config(checked.chain)  # (7)
        prepared = PreparedCall(
            chain=checked.chain,
            anchor=checked.anchor,
            files=checked.files,
            locked=checked.locked,
            env=env,
            resolved_config=resolved_config,
            limit_layers=self._limit_layers(checked.chain, log),
            policy=policy_of(self._config, self._context),
            log=ExecutionLog(),
        )
        prepared.log.add(log)
        self._prepared.keep(request, prepared)
        return prepared, checked.parameters

    def _make_call(
        self,
        request: ExecutionRequest,
        log: "ExecutionLog",
        cached: "PreparedCall | None" = None,
        on_step: OnStep | None = None,
    ) -> tuple[Call, "PreparedCall"]:
        """Steps (1) to (8). Raises what the failing step raises; ``log`` has what came before."""
        prepared, parameters = self._prepare(request, log, cached)  # (1) to (7)
        given = {**parameters, **prepared.resolved_config}
        materials = self._materials(prepared, given, request, log)
        services = replace(self._services, on_step=on_step) if on_step else self._services
        kind = self.PRIMITIVE_MAP[prepared.chain.primitive.item_id]
        primitive = kind(self._runner) if issubclass(kind, ExecutePrimitive) else kind()
        return primitive.prepare(materials, services), prepared  # (8)

    def _validate(self, chain: Chain, request: ExecutionRequest, log: "ExecutionLog") -> None:
        if not request.validate_chain:
            return
        result = ChainValidator().validate_chain(chain.elements)
        log.warnings.extend(result.warnings)
        log.metadata["validated_pairs"] = result.validated_pairs
        if not result.valid:
            raise ChainValidationError(result.issues)

    def _verify_files(
        self, chain: Chain, warn: Callable[[str], None]
    ) -> tuple[Anchor, AnchoredFiles]:
        anchor = anchor_of(chain, self._context)
        files = verify_anchored_files(chain, anchor, self._verifier, warn)
        listed = self._packages(chain)
        return anchor, files.with_item(listed.item) if listed and listed.item else files

    def _packages(self, chain: Chain) -> "PackageList | None":
        """The packages that a Python tool asks for in its text."""
        item = chain.tool.item
        if item is None or item.target.suffix != ".py" or PACKAGES_MARK not in item.text:
            return None
        from ryeos.run.packages import package_list

        return package_list(chain, self._chains.companion_at)

    def _verify_lock(
        self, chain: Chain, files: AnchoredFiles, request: ExecutionRequest, log: "ExecutionLog"
    ) -> bool:
        """True if a lockfile pins the chain. Raises LockfileMismatchError in mode ``strict``."""
        if not request.use_lockfile or self._context.lock_mode is LockMode.OFF:
            return False
        try:
            found = self.lockfiles.check(chain, files.pins)
        except LockfileMismatchError as error:
            if self._context.lock_mode is LockMode.STRICT:
                raise
            log.warnings.append(f"{error} ({error.hint})")
            return True
        if found:
            log.further.append(
                {"step": "lockfile", "item_id": chain.tool.item_id, "path": str(found.path)}
            )
        return found is not None

    def _require_newest(self, chain: Chain, files: AnchoredFiles) -> None:
        """Refuse a version below one that was signed or has run, also of a module.

        Raises RollbackError.
        """
        for edition, path in _editions(chain, files):
            self.versions.require_newest(edition, path)

    def require_pinned(self, item_id: str) -> None:
        """Refuse a tool for what `execute` would refuse its files for. Raises as it."""
        chain = self.build_chain(item_id)
        _, files = self._verify_files(chain, log_warning)
        self._require_newest(chain, files)
        self.lockfiles.check(chain, files.pins)

    def _environment(self, chain: Chain, anchor: Anchor, log: "ExecutionLog") -> ResolvedEnv:
        env = resolved_environment(chain, anchor, self._context, self._runner)
        log.trace.extend(env_events(chain.elements))
        log.warnings.extend(env.warnings)
        return env

    def _with_packages(
        self, chain: Chain, env: ResolvedEnv, request: ExecutionRequest, log: "ExecutionLog"
    ) -> ResolvedEnv:
        """The environment with the interpreter that has the tool's packages, if it needs some."""
        listed = self._packages(chain)
        if listed is None:
            return env
        from ryeos.run.package_installer import Installer
        from ryeos.run.packages import ENVIRONMENTS, PROJECT_PYTHON, PYTHON

        python = env.variables.get(PYTHON, "")
        if not python:
            return env
        context = self._context
        place = context.spaces.user.ai / ENVIRONMENTS
        installer = Installer(self._runner, context.own_environment, context.platform)
        made = installer.python_with(listed, python, place, make=not request.dry_run)
        if not made:
            log.warnings.append(f"its packages would be installed first, below {place}")
            return env
        # Bytecode that a run writes there would be a change of what was installed.
        own = {PYTHON: made, PROJECT_PYTHON: made, "PYTHONDONTWRITEBYTECODE": "1"}
        names = tuple(sorted({*env.contributed, "PYTHONDONTWRITEBYTECODE"}))
        return replace(env, variables={**env.variables, **own}, contributed=names)

    def _resolved_config(self, chain: Chain) -> dict[str, Any]:
        declared = chain.tool.spec.config_resolve
        return {RESOLVED_CONFIG: self._config.resolve(declared)} if declared else {}

    def _limit_layers(self, chain: Chain, log: "ExecutionLog") -> Sequence[Layer]:
        """The configuration that may set limits: that of the first runtime that names one.

        That of a project that cannot be read sets none, or no tool could run that repairs it; one
        whose signature does not hold is an error, as of every configuration.
        """
        declared = [e.spec.config_resolve for e in chain.elements[1:] if e.spec.config_resolve]
        path = declared[0].get("path") if declared and isinstance(declared[0], dict) else None
        if not isinstance(path, str):
            return ()
        layers = self._config.layers(path, tiers=(SYSTEM, USER))
        try:
            of_project = self._config.layers(path, tiers=(PROJECT,))
            require_valid_limits(chain.tool.item_id, of_project)
        except LilluxError as error:
            # Other bytes than text have no signature that could hold.
            if isinstance(error, IntegrityError) and not isinstance(error, SignatureFormatError):
                raise
            repair = f"repair it, then: rye sign config:{PurePosixPath(path).with_suffix('')}"
            log.warnings.append(f"{error}; what it says of limits does not count; {repair}")
            return layers
        return (*layers, *of_project)

    def _materials(
        self,
        prepared: "PreparedCall",
        parameters: Mapping[str, Any],
        request: ExecutionRequest,
        log: "ExecutionLog",
    ) -> Materials:
        chain, anchor, env = prepared.chain, prepared.anchor, prepared.env
        config = merged_config(chain)
        fixed = filled_fixed_params(config, anchor, env)
        schema = chain.tool.spec.config_schema
        values = caller_values(parameters, schema, config, fixed)
        written, variables = _written_config(chain, values, env)
        if written is not None:
            config = {**config, **written.config}
        log.warnings.extend(values.warnings)
        own_timeout = {} if written is None else _only_timeout(values.tool)
        requested = {} if request.timeout_s is None else {"timeout": request.timeout_s}
        caller = {**own_timeout, **values.steering, **requested}
        sources = replace(_limit_sources(prepared, caller), in_background=request.in_background)
        timeout_s = limit("timeout", sources)
        lowered = at_most(timeout_s, request.at_most_s)
        rights = self._rights(prepared, request)
        if env.copies:
            rights = replace(rights, own_files=(*rights.own_files, *map(Path, env.copies)))
        child_env = process_environment(
            chain,
            anchor,
            env,
            {
                **self._context.program_variables(),
                **original_variables(chain, env, self._context.process_env),
                **variables,
                **({CONFINE_VARIABLE: "1"} if rights.allowance else {}),
                **request.extra_env,
            },
            self._context.platform,
            allows=rights.allows_variable(env),
        )
        if rights.allowance:
            self._give_projects_code(chain, rights.allows_variable(env), child_env, log)
        return Materials(
            chain=chain,
            config=config,
            values=values,
            anchor=anchor,
            files=prepared.files,
            env=env,
            child_env=child_env,
            timeout_s=at_most(tool_timeout(timeout_s, values), request.at_most_s),
            request=request,
            withheld=tuple(env.variables.keys() - child_env.keys()),
            caller_timeout_s=lowered if "timeout" in caller or lowered != timeout_s else None,
            # A graph checks its own limits, with everything else that is wrong with it.
            limits=graph_limits(replace(sources, tool_config={})) if is_graph(chain) else {},
            rights=rights,
            caller_texts=written.values if written else None,
        )

    def _give_projects_code(
        self,
        chain: Chain,
        allows: Callable[[str], bool] | None,
        child_env: dict[str, str],
        log: "ExecutionLog",
    ) -> None:
        """Let a confined shell have programs and code of its project that were left out.

        What its caller writes could name these files as well, and is held either way.
        """
        if not is_shell(chain):
            return
        inside, code = self._context.project_programs, self._context.project_code
        linked = self._context.linked_programs
        if not (inside or code or linked):
            return
        every = self._context.tool_environment(everything_counts, lambda _, names: names)
        child_env["PATH"] = every["PATH"]
        given = self._context.process_env
        child_env.update({one: given[one] for one in code if allows is None or allows(one)})
        notes = [*map(left_out_of_path, inside), *map(left_out_of_variable, code)]
        log.warnings[:] = [
            one
            for one in log.warnings
            if one not in notes and not any(each.is_about(one) for each in linked.values())
        ]

    def _rights(self, prepared: "PreparedCall", request: ExecutionRequest) -> CallRights:
        """The rights of the call. A watched call has the rights of its caller."""
        policy = prepared.policy
        if request.is_watched:
            policy = replace(policy, level=Level.OFF)
        is_baseline = request.confined or self._context.confines
        rights = rights_of(
            prepared.chain,
            policy,
            self._context,
            callers=request.callers,
            anchor=prepared.anchor,
            files=prepared.files,
            resolved=prepared.resolved_config.get(RESOLVED_CONFIG) or {},
            is_baseline=is_baseline,
            allowance=self._allowance(policy) if is_baseline else None,
        )
        watches = request.is_watched or (request.trace and rights.rights is not None)
        if not watches:
            return rights
        from lillux.supervisor import can_supervise

        return replace(rights, watches=can_supervise())

    def _allowance(self, policy: SandboxPolicy) -> "Allowance | None":
        """The most that an agent's processes may write; None where its user turned limits off.

        Kept for a second, as graphs make many calls: nothing that is confined can change it.
        """
        if policy.level is Level.OFF:
            return None
        known = self._allowances.get(policy.agents)
        if known and time.monotonic() < known[0]:
            return known[1]
        from ryeos.run.allowance import AgentPolicy, allowance_of

        found = allowance_of(policy.agents or AgentPolicy(), self._context, AGENTS_WHERE)
        self._context.note_folders(one for one in found.write if one.startswith(os.sep))
        self._allowances = {policy.agents: (time.monotonic() + KEPT_S, found)}
        return found

    def _evidence(
        self, call: Call, prepared: "PreparedCall", request: ExecutionRequest
    ) -> "Evidence":
        """The evidence for a receipt, collected just before the call."""
        from ryeos.run.programs import program_at
        from ryeos.run.receipt_statements import Evidence
        from ryeos.run.written_files import look_at

        env = prepared.env
        rights = self._rights(prepared, request)
        allows = rights.allows_variable(env)
        names = env.variables.keys() if allows is None else filter(allows, env.variables)
        folders = rights.lasting_folders
        return Evidence(
            item_id=prepared.chain.tool.item_id,
            chain=tuple(map(_as_evidence, prepared.chain.elements)),
            is_locked=prepared.locked,
            parameters=request.parameters,
            environment=tuple(sorted(names)),
            rights=rights.describe(),
            program=program_at(call.program) if call.program else None,
            approvals=env.approved,
            confinement=call.confinement,
            attempts=request.attempts,
            before=None if folders is None else look_at(folders),
        )

    def _result(
        self,
        mapped: MappedResult,
        prepared: "PreparedCall",
        request: ExecutionRequest,
        log: "ExecutionLog",
    ) -> ExecutionResult:
        metadata = dict(mapped.metadata)
        log.further += [{"step": "refused", **one} for one in metadata.get("refused", ())]
        metadata["resolved_env_keys"] = list(prepared.env.contributed)
        if mapped.code:
            metadata["error_code"] = mapped.code
        if mapped.success:
            for edition, _ in _editions(prepared.chain, prepared.files):
                self.versions.note(edition)
        if prepared.locked:
            metadata["lockfile_used"] = True
        elif mapped.success and request.use_lockfile and request.may_pin:
            self._pin(prepared, log)
        return ExecutionResult(
            success=mapped.success, data=mapped.data, error=mapped.error, metadata=metadata
        )

    def _pin(self, prepared: "PreparedCall", log: "ExecutionLog") -> None:
        """Write the lockfile of a first success, where there is a place for it."""
        if self._context.lock_mode is LockMode.OFF or prepared.chain.tool.spec.version is None:
            return
        if not self.lockfiles.has_place():
            return
        lockfile = self.lockfiles.create_lockfile(prepared.chain, prepared.files.pins)
        self._prepared.clear()  # the prepared calls do not know of the new lockfile
        try:
            path = self.lockfiles.save_lockfile(lockfile)
        except LilluxError as error:
            log.warnings.append(f"lockfile not written: {error}")
            return
        if path:
            log.metadata["lockfile_created"] = str(path)

    def _neighbours(
        self, element: ChainElement, rules: DependencyRules
    ) -> tuple[VerifiedItem, ...]:
        if element.item is None:
            return ()
        target = element.item.target
        return verify_tree(target.path.parent, rules, target.space, self._verifier, log_warning)


def _only_timeout(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name == "timeout"}


def _require_tool(chain: Chain) -> None:
    """Refuse what others run by, called as a tool: it would run its own text. Raises ChainError."""
    tool = chain.tool
    if tool.spec.tool_type == RUNTIME_TYPE:
        what, hint = "a runtime, which runs tools that name it", f"executor_id: {tool.item_id}"
    elif tool is chain.primitive and is_graph(chain):
        what, hint = "the primitive that walks graphs", f"executor_id: {GRAPH_RUNTIME}"
    else:
        return
    raise ChainError(
        f"{tool.item_id}: expected a tool, found {what}",
        code="EXECUTOR_NOT_FOUND",
        hint=f"run a tool whose header has {hint}",
        path=str(tool.path or ""),
    )


def _written_config(
    chain: Chain, values: CallerValues, env: ResolvedEnv
) -> tuple[CallerConfig | None, dict[str, str]]:
    """The config that the caller of a primitive wrote, and the variables among that."""
    if chain.tool is not chain.primitive or is_graph(chain):
        return None, {}
    written = caller_config(values.tool, chain.tool.spec.config_schema, item_id=chain.tool.item_id)
    return written, caller_variables(values.tool.get("env"), env.variables)


def _editions(chain: Chain, files: AnchoredFiles) -> Iterator[tuple[Edition, Path]]:
    """The elements and modules that a key other than a bundle's signed, and their files."""
    for element in chain.elements:
        if element.item and element.item.signer and element.spec.version:
            ref = ItemRef(Kind.TOOL, element.item_id)
            yield Edition.of(ref, element.item, element.spec.version), element.item.target.path
    for item in files.items:
        identity = item.identity
        if identity and item.signer and identity.kind == Kind.TOOL.value:
            ref = ItemRef(Kind.TOOL, identity.id)
            edition = Edition.of(ref, item, identity.version, is_module=True)
            yield edition, item.target.path


def _as_evidence(element: ChainElement) -> dict[str, Any]:
    """An element of a chain as a receipt names it."""
    item = element.item
    return {
        "id": element.item_id,
        "kind": Kind.TOOL.value,
        "version": element.spec.version or element.provider_version,
        "space": element.space,
        "sha256": item.sha256 if item else "",
        "integrity": element.integrity,
        "signer": compute_key_digest(item.key.public_pem) if item and item.key else "",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCall:
    """The findings of steps (1) to (5). ``locked`` tells whether a lockfile pins the chain."""

    chain: Chain
    anchor: Anchor
    files: AnchoredFiles
    locked: bool
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """Call data that does not depend on the parameters.

    locked           whether a lockfile pins the chain
    resolved_config  what the tool's ``config_resolve`` asks for
    limit_layers     the configuration that may set limits
    policy           what the user lets items do at most
    log              what was found out on the way
    """

    chain: Chain
    anchor: Anchor
    files: AnchoredFiles
    locked: bool
    env: ResolvedEnv = field(repr=False)
    resolved_config: Mapping[str, Any]
    limit_layers: Sequence[Layer]
    policy: SandboxPolicy
    log: ExecutionLog = field(repr=False)

    def is_current(self) -> bool:
        """True if the tool and its files still have the bytes that were verified."""
        try:
            for item in (self.chain.tool.item, *self.files.items):
                if item and item.verified:
                    unchanged(item)
        except IntegrityError:
            return False
        return True


class PreparedCalls:
    """Prepared calls of graphs, cached for `KEPT_S`. Thread-safe.

    A graph calls the same few tools again and again. What runs are the bytes that were verified; a
    call whose files have other bytes by now is prepared anew.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[tuple[str, bool, bool], tuple[float, PreparedCall]] = {}

    def find(self, request: ExecutionRequest) -> PreparedCall | None:
        """The prepared call of a graph's request, unless it is too old; None for others."""
        kept = self._kept.get(_key(request)) if request.is_one_of_many else None
        return kept[1] if kept and self._now() < kept[0] else None

    def keep(self, request: ExecutionRequest, prepared: PreparedCall) -> None:
        """Keep it, if the request is one of a graph."""
        if not request.is_one_of_many:
            return
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[_key(request)] = self._now() + KEPT_S, prepared

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()


def _key(request: ExecutionRequest) -> tuple[str, bool, bool]:
    return request.item_id, request.validate_chain, request.use_lockfile


def _require_known_texts(chain: Chain, request: ExecutionRequest) -> None:
    """Refuse other texts than those that the caller knows. Raises RyeError `CONFLICT`."""
    if not request.known_texts:
        return
    from ryeos.trust.known_texts import require_known_text

    for element in chain.elements:
        if element.item:
            require_known_text(f"tool:{element.item_id}", element.item, request.known_texts)


def parameters_for(chain: Chain, request: ExecutionRequest) -> dict[str, Any]:
    """The caller's, checked. What the engine fills in itself need not be in the tool's schema.

    A graph checks its own: some of them steer the run.
    """
    if is_graph(chain):
        return valid_parameters(request.parameters, None)
    spec = chain.tool.spec
    exempt = (RESOLVED_CONFIG,) if spec.config_resolve else ()
    ref = f"tool:{chain.tool.item_id}"
    return valid_parameters(request.parameters, spec.config_schema, exempt, ref=ref)


def _limit_sources(prepared: PreparedCall, caller: Mapping[str, Any]) -> LimitSources:
    runtime_config: dict[str, Any] = {}
    for element in reversed(prepared.chain.elements[1:]):
        runtime_config |= element.spec.config
    tool = prepared.chain.tool
    return LimitSources(
        tool_id=tool.item_id,
        caller=caller,
        tool_config=tool.spec.config,
        runtime_config=runtime_config,
        layers=prepared.limit_layers,
    )
