"""A call of a primitive and its result: the seam between the engine and the primitives.

The engine builds the chain, checks it, and hands over `Materials`. A `Primitive` makes a `Call` of
them, with nothing left to resolve; the engine shows it (``--dry-run``) or runs it.
"""

import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from lillux.cancellation import Cancellation
from lillux.interpreters import ResolvedEnv
from lillux.patterns import pattern
from lillux.process.model import CapturedStream, Outcome, ProcessRunner, signal_name
from lillux.values import dataclass, field
from ryeos.items.context import Approves, Holds, nothing_approved, nothing_held
from ryeos.run.anchor import Anchor, AnchoredFiles
from ryeos.run.model import Chain, ChainElement, ExecutionRequest
from ryeos.run.parameters import CallerValues
from ryeos.trust.verify import DependencyRules, VerifiedItem

if TYPE_CHECKING:
    from lillux.sandbox import Confinement
    from ryeos.run.confinement import CallRights
    from ryeos.run.functions import FunctionHost


# --- results --------------------------------------------------------------------------------------
# From what a process left behind to a result. Pure.
#
# (1) the whole standard output as JSON of any type, else its last line as a JSON object, else text
# (2) a failure is a non-zero exit, ``success: false`` or ``status: "error"`` in an object
#     (with ``success: false`` its ``code`` is that of the result, else that is EXECUTION_FAILED)
# (3) the error text: the tool's own, else its standard error unless a signal ended it (of a
#     traceback the last line), else how it ended

STDERR_TAIL_CHARACTERS = 8192
_CODE = pattern(r"[A-Z][A-Z0-9_]{1,63}")
_OF_THE_EXECUTOR = frozenset({"TIMEOUT", "CANCELLED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedResult:
    """The part of a result that depends on the process alone. ``code`` is set for a failure."""

    success: bool
    data: Any
    error: str | None
    code: str
    metadata: dict[str, Any] = field(default_factory=dict)


def map_outcome(
    outcome: Outcome, timeout_s: float | None, *, is_text: bool = False
) -> MappedResult:
    """The result of a finished process; ``is_text`` says that its output is never read as JSON."""
    stdout, stderr = _text(outcome.stdout), _text(outcome.stderr)
    metadata = _metadata(outcome, stderr)
    interruption = _interruption(outcome, timeout_s)
    if interruption:
        code, words = interruption
        text = {"stdout": stdout, "stderr": f"{words}\n{stderr}".rstrip(), "return_code": -1}
        return MappedResult(success=False, data=text, error=words, code=code, metadata=metadata)
    if outcome.stdout.truncated:
        return _too_large(outcome, stdout, stderr, metadata)
    data, preamble = (_NotJson(), "") if is_text else parse_output(stdout)
    if preamble:
        metadata["stdout_preamble"] = preamble
    if isinstance(data, _NotJson):
        data = {"stdout": stdout, "stderr": stderr, "return_code": _return_code(outcome)}
        own_failure, own_error = False, ""
    else:
        own_failure, own_error = _declared_failure(data)
    success = outcome.exit_code == 0 and not own_failure
    error = None if success else own_error or _own_words(outcome, stderr) or ending(outcome)
    return MappedResult(
        success=success,
        data=data,
        error=error,
        code="" if success else _declared_code(data) or "EXECUTION_FAILED",
        metadata=metadata,
    )


class _NotJson:
    """The output is plain text."""


def parse_output(stdout: str) -> tuple[Any, str]:
    """The JSON in a tool's output, and what stands before it; `_NotJson` for plain text."""
    whole = _json(stdout)
    if not isinstance(whole, _NotJson):
        return whole, ""
    before, _, last = stdout.rstrip().rpartition("\n")
    value = _json(last) if before else _NotJson()
    return (value, before) if isinstance(value, dict) else (_NotJson(), "")


def json_or(text: str, otherwise: object) -> Any:  # noqa: ANN401 - JSON passes through
    """The value that a text is the JSON of, else ``otherwise``.

    Some servers begin all that they send with a byte order mark.
    """
    value = _json(text.removeprefix("\ufeff"))
    return otherwise if isinstance(value, _NotJson) else value


def _json(text: str) -> Any:  # noqa: ANN401 - JSON passes through
    if not text.strip():
        return _NotJson()
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return _NotJson()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(number: str) -> float:
    """The number; one like 1e999 would come out as infinity, which is no JSON."""
    value = float(number)
    return value if isfinite(value) else _refuse(number)


def _declared_failure(data: object) -> tuple[bool, str]:
    if not isinstance(data, dict):
        return False, ""
    failed = data.get("success") is False or data.get("status") == "error"
    error = data.get("error") or ""
    return failed, error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)


def _declared_code(data: object) -> str:
    """The tool's own code for its failure, unless it is one that says who ended a run."""
    code = data.get("code") if isinstance(data, dict) and data.get("success") is False else None
    is_code = isinstance(code, str) and _CODE.fullmatch(code) is not None
    return code if isinstance(code, str) and is_code and code not in _OF_THE_EXECUTOR else ""


def _too_large(
    outcome: Outcome, stdout: str, stderr: str, metadata: dict[str, Any]
) -> MappedResult:
    error = (
        f"output too large: {outcome.stdout.total_bytes} bytes on standard output,"
        f" of which {outcome.stdout.left_out_bytes} were left out;"
        " let the tool write a file, or raise its config.max_output_bytes"
    )
    return MappedResult(
        success=False,
        data={"stdout": stdout, "stderr": stderr, "return_code": _return_code(outcome)},
        error=error,
        code="RESOURCE_EXCEEDED",
        metadata=metadata,
    )


def _interruption(outcome: Outcome, timeout_s: float | None) -> tuple[str, str] | None:
    if outcome.timed_out:
        return "TIMEOUT", f"Command timed out after {timeout_s:g} seconds"
    if outcome.cancelled:
        return "CANCELLED", "Command was cancelled"
    return None


def _metadata(outcome: Outcome, stderr: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"return_code": _return_code(outcome)}
    if outcome.signal is not None:
        metadata["signal"] = signal_name(outcome.signal)
    if stderr:
        metadata["stderr"] = stderr[-STDERR_TAIL_CHARACTERS:]
    if outcome.stdout.truncated or outcome.stderr.truncated:
        metadata["truncated"] = {
            "stdout": outcome.stdout.truncated,
            "stderr": outcome.stderr.truncated,
            "stdout_bytes": outcome.stdout.total_bytes,
            "stderr_bytes": outcome.stderr.total_bytes,
        }
    return metadata


def _own_words(outcome: Outcome, stderr: str) -> str:
    """What a program that failed has to say; one that was ended by a signal said something else."""
    return "" if outcome.signal is not None else cause_in(stderr) or stderr.strip()


TRACEBACK = "Traceback (most recent call last):"
# Compiled when they are first needed: most runs do not fail.
# What Node.js writes of an uncaught error.
_NODE_ERROR = r"(?m)^(?:Uncaught )?(\w*(?:Error|Exception)\b.*)\n {4}at "
_MAX_CAUSE = 500


def cause_in(stderr: str) -> str:
    """The error at the end of the traceback that a program left last; ``""`` without one."""
    found = stderr.rfind(TRACEBACK)
    if found < 0 or stderr[:found].rpartition("\n")[2]:
        node = re.findall(_NODE_ERROR, stderr)
        return str(node[-1])[:_MAX_CAUSE] if node else ""
    lines = stderr[found:].splitlines()[1:]
    said = next((n for n, line in enumerate(lines) if line and not line[0].isspace()), None)
    return "" if said is None else "\n".join(lines[said:]).strip()[:_MAX_CAUSE]


def ending(outcome: Outcome) -> str:
    """How a program ended that gave no reason."""
    if outcome.signal is not None:
        return f"terminated by signal {signal_name(outcome.signal)}"
    if outcome.exit_code == 0:
        return "the tool reported a failure and gave no reason"
    return f"Process exited with code {outcome.exit_code}"


def _return_code(outcome: Outcome) -> int:
    return -1 if outcome.exit_code is None else outcome.exit_code


def _text(captured: CapturedStream) -> str:
    return captured.data.decode("utf-8", "replace")


# --- calls ----------------------------------------------------------------------------------------

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
        """Where the caller wants it to run; None where the caller does not say."""
        return self.request.cwd if self.request.cwd is not None else self.values.steering.get("cwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What calls need besides their materials.

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
    on_step       gets the steps of a graph
    approves      whether the user approved a path of the project, like ``.env.local``
    holds         as `ryeos.items.context.Context` has it
    """

    runner: ProcessRunner
    own_environment: Callable[[], Mapping[str, str]] = field(repr=False)
    companion: Callable[[str, ChainElement], ChainElement]
    companion_at: Callable[[Path, ChainElement], ChainElement | None]
    neighbours: Callable[[ChainElement, DependencyRules], tuple[VerifiedItem, ...]]
    functions: "FunctionHost | None" = None
    graphs: "GraphCalls | None" = None
    on_step: OnStep | None = None
    approves: Approves = nothing_approved
    holds: Holds = nothing_held


def network_env(materials: Materials, services: Services) -> dict[str, str]:
    """What chooses proxies and authorities: the process, and signed items, never a ``.env``."""
    variables = materials.env.variables
    signed = {name: variables[name] for name in materials.env.contributed if name in variables}
    return {**services.own_environment(), **signed}


class Call(Protocol):
    """One execution with nothing left to resolve."""

    def describe(self) -> dict[str, Any]:
        """What would happen, for a person, as JSON values; secrets are masked."""
        ...

    @property
    def program(self) -> str:
        """The program that it starts, ``""`` if it starts none."""
        ...

    @property
    def confinement(self) -> "Confinement | None":
        """What the program may not do; None where it is not limited, or none is started."""
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
