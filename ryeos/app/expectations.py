"""Expectations of a case, and every difference from them, in words. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lillux.regex_search import TextTooLongError, compile_pattern, search
from lillux.values import dataclass
from ryeos.app.case_files import as_texts

_SHOWN_CHARACTERS = 300
_MISSING = object()
_PROCESS_KEYS = {"stdout", "stderr", "return_code"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """The outcome of a run. ``file`` gives the text at a path of the project, or None."""

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
    """The paths where the found value lacks an expected one: of mappings some keys are enough."""
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
    """The parts that ``contains`` and ``matches`` ask for and a text does not have."""
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
