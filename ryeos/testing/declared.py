"""A file of cases as a value. Pure: what it is given has been verified."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from lillux.schema import violations
from lillux.text import PatternError, compile_pattern
from lillux.values import dataclass, field
from ryeos.items import TEST_SUFFIX
from ryeos.metadata.yaml_documents import parse_yaml
from ryeos.schemas.test import SCHEMA
from ryeos.testing.errors import CaseFileError

DEFAULT_LIMIT_S = 60.0
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case.

    files        text by its path in the project, there before the run
    expect       what must come of it, in the words of the file
    needs        programs without which it is left out
    in_project   it runs in the project itself
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    limit_s: float = DEFAULT_LIMIT_S
    needs: tuple[str, ...] = ()
    in_project: bool = False


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The cases of one file, and the id of the tool that they are about."""

    tool_id: str
    cases: tuple[Case, ...]


def read_cases(document: Mapping[str, Any], item_id: str, where: str) -> CaseFile:
    """The cases of a parsed file whose id is ``item_id``. Raises CaseFileError for all problems."""
    issues = [str(violation) for violation in violations(document, SCHEMA)]
    if not issues:
        issues = list(_further_problems(document["cases"]))
    if issues:
        more = [f"and {len(issues) - _MAX_SHOWN} more"] if len(issues) > _MAX_SHOWN else []
        raise CaseFileError(where, (*issues[:_MAX_SHOWN], *more))
    tool_id = document.get("tests") or item_id.removesuffix(TEST_SUFFIX)
    return CaseFile(tool_id.removeprefix("tool:"), tuple(map(_case, document["cases"])))


def read_case_text(text: str, item_id: str, where: str) -> CaseFile:
    """As `read_cases`, for the text of a file. Raises CaseFileError, MetadataError."""
    return read_cases(parse_yaml(text, where), item_id, where)


def as_texts(value: object) -> tuple[str, ...]:
    """What may be one text or several, or nothing."""
    return tuple(value) if isinstance(value, list) else () if value is None else (str(value),)


def _case(declared: Mapping[str, Any]) -> Case:
    return Case(
        name=declared["name"],
        params=declared.get("params") or {},
        files=declared.get("files") or {},
        env=declared.get("env") or {},
        # Only these two may say null and mean it.
        expect={
            name: value
            for name, value in (declared.get("expect") or {}).items()
            if value is not None or name in {"data", "equals"}
        },
        limit_s=float(declared.get("timeout") or DEFAULT_LIMIT_S),
        needs=as_texts(declared.get("skip_unless")),
        in_project=bool(declared.get("in_project")),
    )


def _further_problems(cases: list[Mapping[str, Any]]) -> Iterator[str]:
    """What a schema cannot say."""
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


def _patterns(expect: Mapping[str, Any]) -> Iterator[str]:
    yield from as_texts(expect.get("matches"))
    for content in (expect.get("files") or {}).values():
        if isinstance(content, dict):
            yield from as_texts(content.get("matches"))
