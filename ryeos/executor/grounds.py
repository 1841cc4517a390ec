"""What executions of a tool stand on, whatever their parameters; kept for a moment.

A graph calls the same few tools again and again. What was found out for one call will do for the
next one within `KEPT_S`: the chain, the anchor, the environment, the configuration. That nothing
was changed since is not taken on trust: the bytes of the tool and of all its files are compared
before each call, kept ground or not.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lillux.interpreters import ResolvedEnv
from lillux.process.model import ProcessRunner
from lillux.values import dataclass, field
from ryeos.config import ConfigReader, Layer
from ryeos.context import Context, LockMode
from ryeos.errors import ChainValidationError, LockfileMismatchError
from ryeos.executor.anchor import Anchor, anchor_of
from ryeos.executor.anchored_files import AnchoredFiles, verify_anchored_files
from ryeos.executor.caller_values import STEERING
from ryeos.executor.chain import ChainBuilder
from ryeos.executor.environment import resolved_environment
from ryeos.executor.lockfiles import LockfileResolver
from ryeos.executor.model import Chain, ChainElement, Request
from ryeos.executor.parameters import RESOLVED_CONFIG, checked_parameters
from ryeos.executor.primitives import is_graph
from ryeos.executor.trace import env_events
from ryeos.executor.validator import ChainValidator
from ryeos.verify import Verifier

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
    """Finds out what an execution stands on: steps (1) to (7) of `ryeos.executor.engine`."""

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
