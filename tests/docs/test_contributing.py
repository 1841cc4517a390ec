"""CONTRIBUTING.md: what it says about adding things names files and tables that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
_PATH = re.compile(
    r"`((?:lillux|ryeos|rye_services|packing|zipboot|bundle\.ai|tests|scripts|docs|requirements)"
    r"/[\w./-]*)`"
)
_TABLE = re.compile(r"`(\w+)`(?:, `\w+`)*(?: or `\w+`)? of\s+`([\w/.]+\.py)`")


def test_every_path_that_it_names_exists() -> None:
    named = {path for path in _PATH.findall(PAGE) if "NAME" not in path}

    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_name_that_it_says_is_in_a_file_is_there() -> None:
    named = [
        (name, path)
        for found in _TABLE.finditer(PAGE)
        for name in re.findall(r"`(\w+)`", found[0])
        for path in [found[2]]
    ]

    assert ("TABLE", "ryeos/app/commands.py") in named
    assert ("SEARCH", "ryeos/app/parameters.py") in named
    missing = [(name, path) for name, path in named if not _defines(path, name)]
    assert missing == []


def _defines(path: str, name: str) -> bool:
    text = (ROOT / path).read_text("utf-8")
    return (
        re.search(rf"^(?:class |def )?{name.rpartition('.')[0] or name}\b", text, re.MULTILINE)
        is not None
    )


@pytest.mark.parametrize("subject", ["A command", "An argument of an MCP tool", "An alias"])
def test_it_says_how_to_add_each_of_these(subject: str) -> None:
    assert f"**{subject}.**" in PAGE
