"""Test cases of tools: read them, run them, compare the results."""

import json
import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.files import file_system_error, make_directory, read_bytes, safe_join
from lillux.schema import violations
from lillux.text import PatternError, TextTooLongError, compile_pattern, search
from lillux.values import dataclass, field
from ryeos.app.workspace import Rye
from ryeos.graph.schemas import TEST_SCHEMA
from ryeos.items.errors import (
    Answer,
    ItemNotFoundError,
    RyeError,
    UnsupportedError,
    error_envelope,
)
from ryeos.items.refs import (
    PRIVATE_FOLDERS,
    TEST_SUFFIX,
    ItemRef,
    Kind,
    Location,
    Reference,
    Space,
)
from ryeos.items.yaml import parse_yaml
from ryeos.run.model import ExecutionRequest
from ryeos.trust.resolver import locations
from ryeos.trust.sign import GLOB_CHARACTERS, glob_matcher

# --- declared -------------------------------------------------------------------------------------

DEFAULT_LIMIT_S = 60.0
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case.

    files        text by its path in the project, there before the run
    expect       what must come of it, in the words of the file
    needs        programs without which it is left out
    in_project   it runs in the project itself
    replies      of the model, one for each turn: the case of a directive
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    limit_s: float = DEFAULT_LIMIT_S
    needs: tuple[str, ...] = ()
    in_project: bool = False
    replies: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The cases of one file, and the tool or directive that they are about."""

    tested: ItemRef
    cases: tuple[Case, ...]


def read_cases(document: Mapping[str, Any], item_id: str, where: str) -> CaseFile:
    """The cases of a parsed file whose id is ``item_id``. Raises CaseFileError for all problems."""
    issues = [str(violation) for violation in violations(document, TEST_SCHEMA)]
    tested = _tested(str(document.get("tests") or item_id.removesuffix(TEST_SUFFIX)))
    if not issues:
        issues = [*_further_problems(document["cases"]), *_of_replies(document["cases"], tested)]
    if issues:
        more = [f"and {len(issues) - _MAX_SHOWN} more"] if len(issues) > _MAX_SHOWN else []
        raise CaseFileError(where, (*issues[:_MAX_SHOWN], *more))
    return CaseFile(tested, tuple(map(_case, document["cases"])))


def read_case_text(text: str, item_id: str, where: str) -> CaseFile:
    """As `read_cases`, for the text of a file. Raises CaseFileError, MetadataError."""
    return read_cases(parse_yaml(text, where), item_id, where)


def _tested(reference: str) -> ItemRef:
    prefix = f"{Kind.DIRECTIVE}:"
    if reference.startswith(prefix):
        return ItemRef(Kind.DIRECTIVE, reference.removeprefix(prefix))
    return ItemRef(Kind.TOOL, reference.removeprefix(f"{Kind.TOOL}:"))


def as_texts(value: object) -> tuple[str, ...]:
    """What may be one text or several, or nothing."""
    return tuple(value) if isinstance(value, list) else () if value is None else (str(value),)


def _case(declared: Mapping[str, Any]) -> Case:
    return Case(
        name=declared["name"],
        params=declared.get("params") or {},
        files=declared.get("files") or {},
        env=declared.get("env") or {},
        # Only in these two null is a value.
        expect={
            name: value
            for name, value in (declared.get("expect") or {}).items()
            if value is not None or name in {"data", "equals"}
        },
        limit_s=float(declared.get("timeout") or DEFAULT_LIMIT_S),
        needs=as_texts(declared.get("skip_unless")),
        in_project=bool(declared.get("in_project")),
        replies=tuple(declared.get("replies") or ()),
    )


def _further_problems(cases: list[Mapping[str, Any]]) -> Iterator[str]:
    """The problems that a schema cannot find."""
    for name, number in Counter(case["name"] for case in cases).items():
        if number > 1:
            yield f"cases: {number} of them are called {name!r}"
    for index, case in enumerate(cases):
        place = f"cases[{index}]"
        if case.get("in_project") and case.get("files"):
            yield f"{place}.files: a case in the project itself brings no files"
        expect = case.get("expect") or {}
        if expect.get("status") == "success" and (expect.get("error") or expect.get("code")):
            yield f"{place}.expect: a success has neither error nor code"
        for pattern in _patterns(expect):
            try:
                compile_pattern(pattern)
            except PatternError as error:
                yield f"{place}.expect: pattern {pattern!r}: {error}"


def _of_replies(cases: list[Mapping[str, Any]], tested: ItemRef) -> Iterator[str]:
    for index, case in enumerate(cases):
        is_directive, has_replies = tested.kind is Kind.DIRECTIVE, bool(case.get("replies"))
        if is_directive and not has_replies:
            yield f"cases[{index}].replies: expected the replies of the model, found none"
        if has_replies and not is_directive:
            yield f"cases[{index}].replies: {tested} is no directive, and asks no model"
        if is_directive and case.get("env"):
            yield f"cases[{index}].env: a thread has no variables of its own"


def _patterns(expect: Mapping[str, Any]) -> Iterator[str]:
    yield from as_texts(expect.get("matches"))
    for content in (expect.get("files") or {}).values():
        if isinstance(content, dict):
            yield from as_texts(content.get("matches"))


# --- errors ---------------------------------------------------------------------------------------
# What keeps cases from being read or found.


class CaseFileError(RyeError):
    """A file of cases is not what such a file is."""

    code = "CONFIG_ERROR"

    def __init__(self, path: str, issues: tuple[str, ...]) -> None:
        self.path = path
        self.details = issues
        self.facts = {"issues": list(issues)}
        super().__init__(
            f"{path}: {'; '.join(issues)}",
            hint="its schema, for editors too: rye help --schema test",
        )


def no_cases_error(requested: str) -> RyeError:
    """The error of a request for cases where no file has any."""
    return RyeError(
        f"no test cases: {requested}",
        code="ITEM_NOT_FOUND",
        hint="write them below .ai/tools, in NAME.test.yaml, and sign that: rye help test",
    )


# --- expectations ---------------------------------------------------------------------------------
# What came of a case, compared with what was expected: every difference, in words. Pure.

_SHOWN_CHARACTERS = 300
_MISSING = object()
_PROCESS_KEYS = {"stdout", "stderr", "return_code"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """What came of a run. ``file`` gives the text at a path of the project, or None."""

    status: str
    data: Any
    error: str
    code: str
    file: Callable[[str], str | None]


def differences(expect: Mapping[str, Any], outcome: CaseRun) -> tuple[str, ...]:
    """Each way in which an outcome is not the expected one; empty where it is."""
    status = _status(expect, outcome)
    if status:  # the other differences follow from this one
        return (status,)
    return tuple(_differences(expect, outcome))


def _status(expect: Mapping[str, Any], outcome: CaseRun) -> str:
    is_failure = "error" in expect or "code" in expect
    expected = expect.get("status") or ("error" if is_failure else "success")
    if expected == outcome.status:
        return ""
    found = f": {outcome.error} ({outcome.code})" if outcome.status == "error" else ""
    return f"status: expected {expected}, found {outcome.status}{found}"


def _differences(expect: Mapping[str, Any], outcome: CaseRun) -> Iterator[str]:
    if "data" in expect:
        yield from _not_within(expect["data"], outcome.data, "data")
    if "equals" in expect and not _same(expect["equals"], outcome.data):
        yield f"data: expected {_excerpt(expect['equals'])}, found {_excerpt(outcome.data)}"
    yield from _missing_parts(expect, _text(outcome.data), "result")
    for text in as_texts(expect.get("error")):
        if text not in outcome.error:
            yield f"error: expected {_excerpt(text)} in it, found {_excerpt(outcome.error)}"
    if expect.get("code", outcome.code) != outcome.code:
        yield f"code: expected {expect['code']}, found {outcome.code or 'none'}"
    yield from _of_process(expect, outcome.data)
    for path, content in (expect.get("files") or {}).items():
        yield from _of_file(path, content, outcome.file(path))


def _not_within(expected: object, found: object, place: str) -> Iterator[str]:
    """Where what was found does not have what is expected: of mappings some keys are enough."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name, value in expected.items():
            yield from _not_within(value, found.get(name, _MISSING), f"{place}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, value in enumerate(expected):
            yield from _not_within(value, found[index], f"{place}[{index}]")
    elif found is _MISSING:
        yield f"{place}: expected {_excerpt(expected)}, found nothing"
    elif not _same(expected, found):
        yield f"{place}: expected {_excerpt(expected)}, found {_excerpt(found)}"


def _of_process(expect: Mapping[str, Any], data: object) -> Iterator[str]:
    if "stdout" not in expect and "stderr" not in expect:
        return
    if not isinstance(data, dict) or data.keys() != _PROCESS_KEYS:
        yield "stdout, stderr: expected a tool that gives text, found JSON; use data or contains"
        return
    stdout = str(data["stdout"]).rstrip("\r\n")
    if "stdout" in expect and expect["stdout"].rstrip("\r\n") != stdout:
        yield f"stdout: expected {_excerpt(expect['stdout'])}, found {_excerpt(stdout)}"
    for text in as_texts(expect.get("stderr")):
        if text not in data["stderr"]:
            yield f"stderr: expected {_excerpt(text)} in it, found {_excerpt(data['stderr'])}"


def _of_file(path: str, expected: object, found: str | None) -> Iterator[str]:
    place = f"files: {path}"
    if expected is None:
        if found is not None:
            yield f"{place}: expected no file, found one"
    elif found is None:
        yield f"{place}: expected a file, found none"
    elif isinstance(expected, dict):
        yield from _missing_parts(expected, found, place)
    elif found != expected:
        yield f"{place}: expected {_excerpt(expected)}, found {_excerpt(found)}"


def _missing_parts(expect: Mapping[str, Any], text: str, place: str) -> Iterator[str]:
    """What ``contains`` and ``matches`` ask for and a text does not have."""
    for part in as_texts(expect.get("contains")):
        if part not in text:
            yield f"{place}: expected {_excerpt(part)} in it, found {_excerpt(text)}"
    for pattern in as_texts(expect.get("matches")):
        try:
            if not search(compile_pattern(pattern), text):
                yield f"{place}: expected a match of {_excerpt(pattern)}, found {_excerpt(text)}"
        except TextTooLongError as error:
            yield f"{place}: matches: {error}"


def _same(expected: object, found: object) -> bool:
    """Equal as JSON is: true is not 1, and 1 is 1.0."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(
            _same(value, found[name]) for name, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_same, expected, found))
    return expected == found


def _text(data: object) -> str:
    """A result as text: what a tool wrote, else its JSON."""
    if isinstance(data, str):
        return data
    if isinstance(data, dict) and data.keys() == _PROCESS_KEYS:
        return str(data["stdout"])
    return json.dumps(data, ensure_ascii=False, default=str)


def _excerpt(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


# --- running --------------------------------------------------------------------------------------
# Runs cases, several at once, and says what came of each.

MAX_AT_ONCE = 4
FILE_ITSELF = "(the file of cases)"
_AT_ONCE = Lock()


class CaseState(StrEnum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What came of a case; ``problems`` says why where it has not passed."""

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
    """What pays for the threads that the case of a tool starts: see `ryeos.app.agent_threads`."""

    def start(self, reference: Reference, *_: object) -> Answer:
        """Raises UnsupportedError: a case asks no model, and costs nothing."""
        raise UnsupportedError(
            f"{reference}: a case of a tool asks no model",
            hint=f"try the directive itself, with replies: tests: directive:{reference.id}",
        )


def _thread_of(
    rye: Rye, request: ExecutionRequest, replies: tuple[Any, ...], cancellation: Cancellation
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What comes of a directive whose model gives the replies of the case."""
    from ryeos.app.agent_threads import ThreadWish
    from ryeos.app.scripted_threads import carry_out_script

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


# --- junit ----------------------------------------------------------------------------------------
# Results as JUnit's XML, which servers that build things show. Pure.

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[CaseResult]) -> str:
    """One ``testsuite`` with a ``testcase`` for each result."""
    counts = {state: sum(result.state is state for result in results) for state in CaseState}
    seconds = sum(result.duration_s for result in results)
    cases = "".join(map(_junit_case, results))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name="rye" tests="{len(results)}"'
        f' failures="{counts[CaseState.FAILED]}" errors="0" skipped="{counts[CaseState.SKIPPED]}"'
        f' time="{seconds:.3f}">\n{cases}</testsuite></testsuites>\n'
    )


def _junit_case(result: CaseResult) -> str:
    opening = (
        f"<testcase classname={_attribute(result.ref)} name={_attribute(result.name)}"
        f' time="{result.duration_s:.3f}"'
    )
    if result.state is CaseState.PASSED:
        return f"{opening}/>\n"
    first = _attribute(result.problems[0])
    if result.state is CaseState.SKIPPED:
        return f"{opening}><skipped message={first}/></testcase>\n"
    text = escape(_plain("\n".join(result.problems)))
    return f"{opening}><failure message={first}>{text}</failure></testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_plain(text))


def _plain(text: str) -> str:
    """Without what XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


# --- scratch --------------------------------------------------------------------------------------
# A copy of a project for one case: its items, and the files that the case brings.

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_COPIED_BYTES = 64 * 1024 * 1024
# What interpreters are found in: too large to copy.
_LINKED = (".venv", "node_modules")


@contextmanager
def scratch_project(project: Space | None, files: Mapping[str, str]) -> Iterator[Path]:
    """A folder with the items of a project and these files, removed in the end.

    Raises FileSystemError, UnsafePathError for a path that leads out of it.
    """
    folder = Path(tempfile.mkdtemp(prefix="rye-test-")).resolve()
    try:
        base = folder / "project"
        _fill(base, project, files)
        yield base
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def text_at(base: Path, path: str) -> str | None:
    """The text of a project's file, or None.

    Raises UnsafePathError, FileSystemError, FileTooLargeError.
    """
    try:
        return read_bytes(safe_join(base, path), MAX_FILE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _fill(base: Path, project: Space | None, files: Mapping[str, str]) -> None:
    try:
        make_directory(base / ".ai")
        if project:
            _copy_items(project, base)
    except shutil.Error as error:
        source, _, problem = error.args[0][0]
        raise file_system_error(Path(source), OSError(0, str(problem))) from error
    except OSError as error:
        raise file_system_error(base, error) from error
    for path, text in files.items():
        target = safe_join(base, path)
        make_directory(target.parent)
        target.write_bytes(text.encode())


def _copy_items(project: Space, base: Path) -> None:
    private = {(project.ai / folder).resolve() for folder in PRIVATE_FOLDERS}
    for kind in Kind:
        source = project.directory(kind)
        # A project may be a stranger's: what a link leads to is not its own.
        if source.is_dir() and source.resolve().is_relative_to(project.ai.resolve()):
            shutil.copytree(
                source,
                base / ".ai" / kind.directory,
                symlinks=True,
                ignore=lambda folder, names: [
                    name for name in names if _is_left_out(Path(folder, name), private)
                ],
            )
    for name in _LINKED:
        if (project.base / name).is_dir():
            with suppress(OSError):  # Windows lets few make links; the interpreter is another then
                (base / name).symlink_to(project.base / name, target_is_directory=True)


def _is_left_out(path: Path, private: Container[Path]) -> bool:
    """Private keys, what is too large, and what is neither file, folder nor link.

    A pipe would be waited for, and a file full of holes fills the disk.
    """
    status = path.lstat()
    if stat.S_ISREG(status.st_mode):
        return status.st_size > MAX_COPIED_BYTES
    return path.resolve() in private or not (path.is_symlink() or path.is_dir())


# --- selection ------------------------------------------------------------------------------------
# Which files of cases are meant: those of a tool, of ids that match, or of the whole project.

_SUFFIXES = (".yaml", ".yml")


def case_files(rye: Rye, requested: Sequence[str]) -> list[Location]:
    """The files of cases that the words are for, each once; without words those of the project.

    A word is the reference of a tool or of such a file, or a pattern for ids of tools in every
    space, where the nearest file of an id counts. Raises ItemNotFoundError, and
    RyeError with the same code where no file has any.
    """
    if requested:
        found = [location for word in requested for location in _locations_named(rye, word)]
    else:
        project = rye.context.spaces.project
        found = list(_files_in([project] if project else []))
    if not found:
        raise no_cases_error(", ".join(requested) or "none in this project")
    return list({location.ref: location for location in found}.values())


def _locations_named(rye: Rye, word: str) -> Iterator[Location]:
    if GLOB_CHARACTERS & set(word):
        matches = glob_matcher(word.removeprefix(f"{Kind.TOOL}:"))
        seen: set[ItemRef] = set()
        for location in _files_in(rye.context.spaces):
            is_new = location.ref not in seen
            seen.add(location.ref)
            if is_new and matches(location.ref.id.removesuffix(TEST_SUFFIX)):
                yield location
        return
    reference = rye.reference(word)
    found = rye.resolver.find(ItemRef(Kind.TOOL, _test_id(rye, reference)))
    if found is None:
        raise no_cases_error(word)
    yield found.location


def _test_id(rye: Rye, reference: Reference) -> str:
    """The id of the file beside a tool, whose id may be a short one, or of a directive's id."""
    item_id = reference.id
    if item_id.endswith(TEST_SUFFIX):
        return item_id
    kind = reference.kind or Kind.TOOL
    tested = rye.resolver.find(ItemRef(kind, item_id))
    beside = f"{tested.location.ref.id if tested else item_id}{TEST_SUFFIX}"
    if tested is None and rye.resolver.find(ItemRef(Kind.TOOL, beside)) is None:
        suggested = rye.resolver.suggest(rye.reference(f"{kind}:{item_id}"))
        raise ItemNotFoundError(f"{kind}:{item_id}", rye.resolver.searched(), suggested)
    return beside


def _files_in(spaces: Iterable[Space]) -> Iterator[Location]:
    for space in spaces:
        for location in locations(space, Kind.TOOL):
            if location.suffix in _SUFFIXES and location.ref.is_test:
                yield location
