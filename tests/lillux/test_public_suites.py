"""The public suites of JSON Schema and TOML, and what is refused on purpose.

``scripts/install_suites`` fetches them to ``build/suites``.
"""

import json
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lillux.jsonc import TextStructureError, TextSyntaxError
from lillux.schema import violations
from lillux.schema_keywords import REFUSED, SchemaError
from lillux.toml_edits import parse_toml, set_table
from tests.support.programs import unavailable

pytestmark = pytest.mark.heavy

SUITES = Path(__file__).parents[2] / "build" / "suites"
DRAFTS = ("draft2020-12", "draft2019-09", "draft7", "draft6", "draft4")

# Words in the reason of a refusal: what this checker says that it does not do.
ON_PURPOSE = (
    "this keyword is not supported",  # those of `REFUSED`
    "expected a reference inside this schema",  # by address, by URN, by name
    "refers to itself without end",
)
# Of an ``$id`` inside of a schema, which would move where references begin.
BY_BASE_ADDRESS = {"URN ref with nested pointer ref"}
# Draft 4 alone: true and false beside minimum and maximum.
BOOLEAN_LIMITS = "Minimum", "Maximum"
# What is judged in another way, on purpose: (file, test).
OTHERWISE = {
    ("ref", "ref valid, maxItems ignored"),  # keywords beside $ref count, in every draft
    ("vocabulary", "no validation: invalid number, but it still validates"),
}


def cases(draft: str) -> Iterator[tuple[str, dict[str, Any]]]:
    found = next(iter(SUITES.glob("jsonschema-*/json/tests")), None)
    if found is None:
        unavailable("the suite of JSON Schema is not there: scripts/install_suites")
    for file in sorted((found / draft).glob("*.json")):
        for group in json.loads(file.read_text("utf-8")):
            yield file.stem, group


def is_on_purpose(error: SchemaError, group: dict[str, Any]) -> bool:
    is_limit = error.pointer.endswith(BOOLEAN_LIMITS) and "found boolean" in error.problem
    by_words = any(words in error.problem for words in ON_PURPOSE)
    return by_words or is_limit or group["description"] in BY_BASE_ADDRESS


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_schema_is_judged_as_the_suite_says_or_refused_on_purpose(draft: str) -> None:
    judged, wrong, refused = 0, [], []
    for file, group in cases(draft):
        schema = group["schema"]
        for test in group["tests"]:
            # A schema of an item is an object: `true` stands in one for a member.
            whole = {"allOf": [schema]} if isinstance(schema, bool) else schema
            try:
                is_valid = not violations(test["data"], whole)
            except SchemaError as error:
                if not is_on_purpose(error, group):
                    refused.append((file, group["description"], str(error)))
                break
            judged += 1
            if is_valid is not test["valid"] and (file, test["description"]) not in OTHERWISE:
                wrong.append((file, group["description"], test["description"]))

    assert (wrong, refused) == ([], [])
    assert judged > 500


def test_the_refused_keywords_are_those_that_the_suites_find() -> None:
    found = set()
    for draft in DRAFTS:
        for _, group in cases(draft):
            try:
                violations(None, group["schema"] if isinstance(group["schema"], dict) else {})
            except SchemaError as error:
                if ON_PURPOSE[0] in error.problem:
                    found.add(error.pointer.rpartition("/")[2])

    assert found <= set(REFUSED)


def toml_files(kind: str) -> list[Path]:
    root = next(iter(SUITES.glob("go/pkg/mod/github.com/toml-lang/toml-test@*/tests")), None)
    if root is None:
        unavailable("toml-test is not there: scripts/install_suites")
    names = (root / "files-toml-1.0.0").read_text("utf-8").split()
    return [root / name for name in names if name.startswith(kind) and name.endswith(".toml")]


def test_no_invalid_toml_is_read() -> None:
    read = []
    for file in toml_files("invalid/"):
        try:
            parse_toml(file.read_bytes().decode("utf-8"))
        except (UnicodeDecodeError, TextSyntaxError):
            continue
        read.append(file.name)

    assert read == []


def test_every_valid_toml_is_read_and_keeps_its_values_when_a_table_is_written() -> None:
    lost, refused = [], []
    path, values = ("mcp_servers", "rye"), {"command": "rye", "args": ["mcp"]}
    files = toml_files("valid/")
    for file in files:
        text = file.read_bytes().decode("utf-8")
        try:
            edited = tomllib.loads(set_table(text, path, values))
        except TextStructureError:
            refused.append(file.name)
            continue
        before = parse_toml(text)
        written = edited["mcp_servers"].pop("rye")
        if not edited["mcp_servers"] and "mcp_servers" not in before:
            del edited["mcp_servers"]
        if written != values or not _alike(edited, before):
            lost.append(file.name)

    assert lost == []
    # What cannot be edited with certainty is refused; of the suite, at most where `nan` stands.
    assert [name for name in refused if not _has_nan(name, files)] == []


def _has_nan(name: str, files: list[Path]) -> bool:
    return any("nan" in file.read_text("utf-8") for file in files if file.name == name)


def _alike(one: object, other: object) -> bool:
    """Whether values are the same; not a number is the same as itself here."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and one == other
