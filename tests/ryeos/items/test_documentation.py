"""Every header of docs/items.md is read, and gives the values of the page."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ryeos.items.directives import Directive, parse_directive
from ryeos.items.headers import PARSERS, parse_header
from ryeos.items.knowledge import parse_knowledge

PAGE = Path(__file__).parents[3] / "docs" / "items.md"
ROLES = {"tool", "directive", "knowledge", "header"}
SUFFIXES = {
    "python": ".py",
    "yaml": ".yaml",
    "json": ".json",
    "javascript": ".js",
    "typescript": ".ts",
    "sh": ".sh",
    "toml": ".toml",
}


class Block(NamedTuple):
    language: str
    role: str
    text: str
    line: int


class Example(NamedTuple):
    source: Block
    header: Any


def plain(value: Any) -> Any:  # noqa: ANN401 - a value, or part of one
    """A value as mappings and tuples, through all its fields."""
    if hasattr(value, "__slots__") and not isinstance(value, Mapping):
        return {name: plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value


def blocks() -> list[Block]:
    found: list[Block] = []
    fence, language, role, start = "", "", "", 0
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        if not fence and line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
            language, _, role = line.removeprefix(fence).partition(" ")
            start = number + 1
        elif fence and line == fence:
            found.append(Block(language, role, "\n".join(lines[start:number]) + "\n", start))
            fence = ""
    return found


def examples() -> list[Example]:
    shown = [block for block in blocks() if block.role in ROLES]
    pairs = zip(shown[::2], shown[1::2], strict=True)
    return [Example(source, json.loads(header.text)) for source, header in pairs]


def read(source: Block) -> Any:  # noqa: ANN401 - JSON
    match source.role:
        case "directive":
            return plain(parse_directive(source.text))
        case "knowledge":
            return plain(parse_knowledge(source.text, ".md"))
        case _:
            return parse_header(SUFFIXES[source.language], source.text)


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"line-{example.source.line}")
def test_an_example_of_the_page_reads_as_the_page_says(example: Example) -> None:
    header = json.loads(json.dumps(read(example.source)))

    if example.source.role == "directive":
        del header["xml"]
    assert header == example.header


def test_the_page_has_an_example_for_every_parser() -> None:
    shown = {SUFFIXES[block.language] for block in blocks() if block.role == "tool"}

    assert {PARSERS[suffix] for suffix in shown} == set(PARSERS.values())


def test_the_page_shows_every_field_of_a_directive() -> None:
    (header,) = (example.header for example in examples() if example.source.role == "directive")

    assert set(header) == set(Directive.__slots__) - {"xml"}
