"""Files of cases: read, and found for tools, ids or a whole project."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lillux.regex_search import compile_pattern
from lillux.regex_syntax import PatternError
from lillux.schema import violations
from lillux.values import dataclass, field
from ryeos.app.workspace import Rye
from ryeos.graph.case_schema import TEST_SCHEMA
from ryeos.items.errors import ItemNotFoundError, RyeError
from ryeos.items.refs import TEST_SUFFIX, ItemRef, Kind, Location, Reference, Space
from ryeos.items.yaml import parse_yaml
from ryeos.trust.resolver import locations
from ryeos.trust.sign_targets import GLOB_CHARACTERS, glob_matcher

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
    """The cases in the text of a file. Raises CaseFileError, MetadataError."""
    return read_cases(parse_yaml(text, where), item_id, where)


def _tested(reference: str) -> ItemRef:
    prefix = f"{Kind.DIRECTIVE}:"
    if reference.startswith(prefix):
        return ItemRef(Kind.DIRECTIVE, reference.removeprefix(prefix))
    return ItemRef(Kind.TOOL, reference.removeprefix(f"{Kind.TOOL}:"))


def as_texts(value: object) -> tuple[str, ...]:
    """The texts of a value that is one, several, or nothing."""
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
