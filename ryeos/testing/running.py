"""Runs cases, several at once, and says what came of each."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

from lillux.errors import LilluxError
from lillux.process.cancellation import Cancellation
from lillux.values import dataclass
from ryeos.app import Rye
from ryeos.envelope import error_envelope
from ryeos.executor.model import Request
from ryeos.items import Kind, Location, Reference
from ryeos.testing.declared import Case, CaseFile, read_case_text
from ryeos.testing.expectations import Outcome, differences
from ryeos.testing.scratch import scratch_project, text_at

MAX_AT_ONCE = 4
FILE_ITSELF = "(the file of cases)"
_AT_ONCE = Lock()


class State(StrEnum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a case; ``problems`` says why where it has not passed."""

    ref: str
    name: str
    state: State
    problems: tuple[str, ...] = ()
    duration_s: float = 0.0

    def describe(self) -> dict[str, Any]:
        """The result as ``rye test --json`` shows it."""
        described: dict[str, Any] = {"ref": self.ref, "name": self.name, "state": self.state.value}
        described["duration_ms"] = round(self.duration_s * 1000, 3)
        return described | ({"problems": list(self.problems)} if self.problems else {})


@dataclass(frozen=True, slots=True)
class Planned:
    """A case to run, or what kept its file from being read."""

    ref: str
    tool_id: str
    case: Case
    error: LilluxError | None = None


def planned(rye: Rye, files: Sequence[Location]) -> Iterator[Planned]:
    """The cases of the files, each file verified before it is read."""
    for location in files:
        ref = str(location.ref)
        try:
            read = _read(rye, location)
        except LilluxError as error:
            yield Planned(ref, "", Case(name=FILE_ITSELF), error)
            continue
        yield from (Planned(ref, read.tool_id, case) for case in read.cases)


def run_cases(
    rye: Rye,
    cases: Sequence[Planned],
    *,
    at_once: int = 0,
    cancellation: Cancellation | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Run the cases; the results are in the order of the cases. ``on_result`` is told of each."""
    asked_to_end = cancellation or Cancellation()
    in_project, told = Lock(), Lock()

    def run(case: Planned) -> Result:
        if asked_to_end.is_set:
            return _result(case, State.SKIPPED, ("interrupted",))
        if case.case.in_project:
            with in_project:  # they see what the others have left behind, but not half of it
                result = _run(rye, case, asked_to_end)
        else:
            result = _run(rye, case, asked_to_end)
        with told:
            on_result(result)
        return result

    workers = at_once or min(MAX_AT_ONCE, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, thread_name_prefix="rye-test") as pool:
        return list(pool.map(run, cases))


def _read(rye: Rye, location: Location) -> CaseFile:
    item = rye.verifier.verify_location(location)
    where = str(location.path)
    return read_case_text(item.text, location.ref.id, where)


def _run(rye: Rye, planned_case: Planned, cancellation: Cancellation) -> Result:
    case = planned_case.case
    if planned_case.error:
        return _result(planned_case, State.FAILED, (str(planned_case.error),))
    path = rye.context.tool_environment().get("PATH")
    missing = [program for program in case.needs if not shutil.which(program, path=path)]
    if missing:
        return _result(planned_case, State.SKIPPED, (f"not here: {', '.join(missing)}",))
    started = perf_counter()
    try:
        problems = _problems(rye, planned_case, cancellation)
    except LilluxError as error:
        problems = (str(error),)
    state = State.FAILED if problems else State.PASSED
    return _result(planned_case, state, problems, perf_counter() - started)


def _problems(rye: Rye, planned_case: Planned, cancellation: Cancellation) -> tuple[str, ...]:
    case, project = planned_case.case, rye.context.spaces.project
    if case.in_project:
        return _compared(rye, planned_case, cancellation)
    with scratch_project(project, case.files) as base:
        return _compared(_in_copy(rye, base), planned_case, cancellation)


def _in_copy(rye: Rye, base: Path) -> Rye:
    """The same in a copy of its project, where the same keys are approved."""
    with _AT_ONCE:
        copy = rye.at(str(base))
    if rye.context.project_path:
        copy.approvals.count_as(base, rye.context.project_path)
    return copy


def _compared(rye: Rye, planned_case: Planned, cancellation: Cancellation) -> tuple[str, ...]:
    case = planned_case.case
    envelope = _envelope(rye, planned_case, cancellation)
    base = rye.context.working_directory
    outcome = Outcome(
        status="error" if envelope["status"] == "error" else "success",
        data=envelope.get("data"),
        error=str(envelope.get("error", "")),
        code=str(envelope.get("code", "")),
        file=lambda path: text_at(Path(base), path),
    )
    return differences(case.expect, outcome)


def _envelope(rye: Rye, planned_case: Planned, cancellation: Cancellation) -> dict[str, Any]:
    case = planned_case.case
    request = Request(
        item_id=planned_case.tool_id,
        parameters=case.params,
        at_most_s=case.limit_s,
        extra_env=case.env,
        use_lockfile=False,  # what is being worked on is not what is pinned
    )
    try:
        reference = Reference(Kind.TOOL, planned_case.tool_id)
        return dict(rye.execute(reference, request, cancellation=cancellation).envelope)
    except LilluxError as error:
        return error_envelope(error)


def _result(
    planned_case: Planned, state: State, problems: tuple[str, ...] = (), duration_s: float = 0.0
) -> Result:
    return Result(
        ref=planned_case.ref,
        name=planned_case.case.name,
        state=state,
        problems=problems,
        duration_s=duration_s,
    )
