"""Test cases of tools, run: several at once, each with its result."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.app.case_files import Case, CaseFile, read_case_text
from ryeos.app.expectations import CaseRun, differences
from ryeos.app.scratch_projects import scratch_project, text_at
from ryeos.app.workspace import Rye
from ryeos.items.errors import Answer, UnsupportedError, error_envelope
from ryeos.items.refs import ItemRef, Kind, Location, Reference
from ryeos.run.model import ExecutionRequest

# Runs cases, several at once, and says what came of each.

MAX_AT_ONCE = 4
FILE_ITSELF = "(the file of cases)"
_AT_ONCE = Lock()


class CaseState(StrEnum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The outcome of a case; ``problems`` says why where it has not passed."""

    ref: str
    name: str
    state: CaseState
    problems: tuple[str, ...] = ()
    duration_s: float = 0.0

    def describe(self) -> dict[str, Any]:
        """The result as ``rye test --json`` shows it."""
        described: dict[str, Any] = {"ref": self.ref, "name": self.name, "state": self.state.value}
        described["duration_ms"] = round(self.duration_s * 1000, 3)
        return described | ({"problems": list(self.problems)} if self.problems else {})


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A case to run, or what kept its file from being read."""

    ref: str
    tested: ItemRef
    case: Case
    error: LilluxError | None = None


def planned(rye: Rye, files: Sequence[Location]) -> Iterator[PlannedCase]:
    """The cases of the files, each file verified before it is read."""
    for location in files:
        ref = str(location.ref)
        try:
            read = _read(rye, location)
        except LilluxError as error:
            yield PlannedCase(ref, location.ref, Case(name=FILE_ITSELF), error)
            continue
        yield from (PlannedCase(ref, read.tested, case) for case in read.cases)


def run_cases(
    rye: Rye,
    cases: Sequence[PlannedCase],
    *,
    at_once: int = 0,
    cancellation: Cancellation | None = None,
    on_result: Callable[[CaseResult], None] = lambda _: None,
) -> list[CaseResult]:
    """Run the cases; the results are in the order of the cases. ``on_result`` gets each."""
    cancelled = cancellation or Cancellation()
    in_project, reporting = Lock(), Lock()

    def run(case: PlannedCase) -> CaseResult:
        if cancelled.is_set:
            return _result(case, CaseState.SKIPPED, ("interrupted",))
        if case.case.in_project:
            with in_project:  # they see what the others have left behind, but not half of it
                result = _run(rye, case, cancelled)
        else:
            result = _run(rye, case, cancelled)
        with reporting:
            on_result(result)
        return result

    workers = at_once or min(MAX_AT_ONCE, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, thread_name_prefix="rye-test") as pool:
        return list(pool.map(run, cases))


def _read(rye: Rye, location: Location) -> CaseFile:
    item = rye.verifier.verify_location(location)
    where = str(location.path)
    return read_case_text(item.text, location.ref.id, where)


def _run(rye: Rye, planned_case: PlannedCase, cancellation: Cancellation) -> CaseResult:
    case = planned_case.case
    if planned_case.error:
        return _result(planned_case, CaseState.FAILED, (str(planned_case.error),))
    path = rye.context.tool_environment().get("PATH")
    missing = [program for program in case.needs if not shutil.which(program, path=path)]
    if missing:
        return _result(planned_case, CaseState.SKIPPED, (f"not here: {', '.join(missing)}",))
    started = perf_counter()
    try:
        problems = _problems(rye, planned_case, cancellation)
    except LilluxError as error:
        problems = (str(error),)
    state = CaseState.FAILED if problems else CaseState.PASSED
    return _result(planned_case, state, problems, perf_counter() - started)


def _problems(rye: Rye, planned_case: PlannedCase, cancellation: Cancellation) -> tuple[str, ...]:
    case, project = planned_case.case, rye.context.spaces.project
    if case.in_project:
        return _run_and_compare(rye, planned_case, cancellation)
    with scratch_project(project, case.files) as base:
        return _run_and_compare(_in_copy(rye, base), planned_case, cancellation)


def _in_copy(rye: Rye, base: Path) -> Rye:
    """The same in a copy of its project, where the same keys are approved."""
    with _AT_ONCE:
        copy = rye.at(str(base), is_copy=True)
    if rye.context.project_path:
        copy.approvals.count_as(base, rye.context.project_path)
    return copy


def _run_and_compare(
    rye: Rye, planned_case: PlannedCase, cancellation: Cancellation
) -> tuple[str, ...]:
    case = planned_case.case
    request = ExecutionRequest(
        item_id=planned_case.tested.id,
        parameters=case.params,
        at_most_s=case.limit_s,
        extra_env=case.env,
        may_pin=False,  # a test does not count as the first run
    )
    if planned_case.tested.kind is Kind.DIRECTIVE:
        envelope, problems = _thread_of(rye, request, case.replies, cancellation)
    else:
        envelope, problems = _envelope(rye, request, cancellation), ()
    base = rye.context.working_directory
    outcome = CaseRun(
        status="error" if envelope["status"] == "error" else "success",
        data=envelope.get("data"),
        error=str(envelope.get("error", "")),
        code=str(envelope.get("code", "")),
        file=lambda path: text_at(Path(base), path),
    )
    return problems or differences(case.expect, outcome)


def _envelope(rye: Rye, request: ExecutionRequest, cancellation: Cancellation) -> dict[str, Any]:
    rye = rye.paid_by(_NoModel())
    try:
        reference = Reference(Kind.TOOL, request.item_id)
        return dict(rye.execute(reference, request, cancellation=cancellation).envelope)
    except LilluxError as error:
        return error_envelope(error)


class _NoModel:
    """The payer of the threads that the case of a tool starts: see `ryeos.app.agent_threads`."""

    def start(self, reference: Reference, *_: object) -> Answer:
        """Raises UnsupportedError: a case asks no model, and costs nothing."""
        raise UnsupportedError(
            f"{reference}: a case of a tool asks no model",
            hint=f"try the directive itself, with replies: tests: directive:{reference.id}",
        )


def _thread_of(
    rye: Rye, request: ExecutionRequest, replies: tuple[Any, ...], cancellation: Cancellation
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The result of a directive whose model gives the replies of the case."""
    from ryeos.app.scripted_threads import carry_out_script
    from ryeos.app.thread_workspace import ThreadWish

    wish = ThreadWish(
        parameters=request.parameters, limits={"duration_s": max(int(request.at_most_s or 0), 1)}
    )
    reference = Reference(Kind.DIRECTIVE, request.item_id)
    try:
        return carry_out_script(rye, reference, wish, replies, cancellation)
    except LilluxError as error:
        return error_envelope(error), ()


def _result(
    planned_case: PlannedCase,
    state: CaseState,
    problems: tuple[str, ...] = (),
    duration_s: float = 0.0,
) -> CaseResult:
    return CaseResult(
        ref=planned_case.ref,
        name=planned_case.case.name,
        state=state,
        problems=problems,
        duration_s=duration_s,
    )
