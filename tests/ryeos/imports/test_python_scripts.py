"""Python scripts as tools, and pages of ``--help``. Examples: ``tests/vectors/imports``."""

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.imports.help_pages import read_help
from ryeos.imports.plan import ImportSource, ProposedItem
from ryeos.imports.python_scripts import read_script, with_arguments
from ryeos.imports.tool_texts import further_files

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "imports"


def arguments_of(page: str) -> dict[str, tuple[str, str, str, bool]]:
    found = read_help((VECTORS / "help" / page).read_text("utf-8"))
    assert found is not None
    return {one.name: (one.flag, one.kind, one.type, one.required) for one in found.arguments}


def test_arguments_of_argparse_are_read() -> None:
    assert arguments_of("argparse.txt") == {
        "path": ("", "value", "string", True),
        "more": ("", "list", "string", False),
        "out": ("", "value", "string", False),
        "count": ("--count", "value", "integer", False),
        "mode": ("--mode", "value", "string", True),
        "verbose": ("--verbose", "switch", "string", False),
        "tag": ("--tag", "spread", "string", False),
        "check": ("--check --no-check", "pair", "string", False),
        "x": ("-x", "value", "string", False),
    }


def test_arguments_of_click_are_read() -> None:
    assert arguments_of("click.txt") == {
        "src": ("", "value", "string", True),
        "rest": ("", "list", "string", False),
        "count": ("--count", "value", "integer", False),
        "name": ("--name", "value", "string", True),
        "shout": ("--shout --no-shout", "pair", "string", False),
        "mode": ("--mode", "value", "string", False),
    }


def test_arguments_of_typer_are_read() -> None:
    assert arguments_of("typer.txt") == {
        "name": ("", "value", "string", True),
        "files": ("", "list", "string", False),
        "last": ("--last", "value", "string", False),
        "count": ("--count", "value", "integer", False),
        "formal": ("--formal --no-formal", "pair", "string", False),
        "must": ("--must", "value", "string", True),
    }


def test_a_text_that_is_no_help_page_gives_none() -> None:
    assert read_help("") is None
    assert read_help("Traceback (most recent call last):\n  ImportError") is None


@given(st.text(max_size=400))
def test_any_page_gives_names_and_descriptions_that_steer_nothing(text: str) -> None:
    found = read_help(f"usage: x [-h]\n\noptions:\n{text}")

    for one in found.arguments if found else ():
        assert one.name.isidentifier() or one.name[0].isdigit()
        assert one.description.isprintable()


def script(tmp_path: Path, text: str, name: str = "report.py") -> ProposedItem:
    (tmp_path / name).write_text(text, "utf-8")
    source = ImportSource(path=tmp_path / name, project=tmp_path, base=tmp_path)
    (item,) = read_script(source).items
    return item


@pytest.mark.parametrize(("value", "word"), [(True, "--cache"), (False, "--no-cache")])
def test_a_switch_with_an_opposite_says_no_by_it(
    tmp_path: Path,
    value: bool,  # noqa: FBT001
    word: str,
) -> None:
    page = "usage: x [--cache | --no-cache]\n\noptions:\n  --cache, --no-cache  keep it\n"
    item = with_arguments(script(tmp_path, "print(1)\n"), page, "")
    made: dict[str, Any] = {"__name__": "made"}

    exec(item.data.decode(), made)  # noqa: S102 - the tool that was written

    assert made["words"]({"cache": value}) == [word]
    assert made["words"]({}) == []


def constant(item: ProposedItem, name: str) -> object:
    """A constant of the tool that was written, which is data."""
    for node in ast.parse(item.data.decode()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(name)


def test_rights_are_proposed_from_the_code_of_a_script(tmp_path: Path) -> None:
    plain = script(tmp_path, "import json\nprint(json.dumps(1))\n")
    wide = script(
        tmp_path,
        "import os, subprocess, urllib.request\nopen('x', 'w')\nos.environ['SHOP_TOKEN']\n",
    )

    assert constant(plain, "SANDBOX") == {
        "read": ["{project}"],
        "write": ["{tmp}"],
        "network": "none",
        "programs": "none",
        "env": [],
    }
    assert constant(wide, "SANDBOX") == {
        "read": ["{project}"],
        "write": ["{project}", "{tmp}"],
        "network": "any",
        "programs": "any",
        "env": ["SHOP_TOKEN"],
    }


@pytest.mark.parametrize(
    "text",
    [
        '"""ends """; import os  # \\"\\"\\"',
        "'''a\nb\x07c\"\"\" ${HOME} {x} \u202e'''",
        '"""{place} {docstring} %s"""',
        "'\\N{BELL}'",
    ],
)
def test_no_text_of_a_script_becomes_code_of_the_tool(text: str, tmp_path: Path) -> None:
    item = with_arguments(
        script(tmp_path, text),
        "usage: x\n\noptions:\n  --a\"\"\"b X  '''); import os\n  --tag T  {x}\n",
        "",
    )

    names = [
        name.name
        for node in ast.walk(ast.parse(item.data.decode()))
        if isinstance(node, ast.Import)
        for name in node.names
    ]

    assert names == ["hashlib", "json", "pathlib", "sys", "types"]


def test_a_script_that_is_no_python_is_refused(tmp_path: Path) -> None:
    assert "line 1: invalid syntax, to Python 3." in script(tmp_path, "def (").problems[0]
    assert "to Python 3." in script(tmp_path, "(" * 5000).problems[0]
    assert (
        "expected a package"
        in script(tmp_path, '# /// script\n# dependencies = ["-e ../x"]\n# ///\n').problems[0]
    )


def test_a_script_named_like_a_module_hides_no_module(tmp_path: Path) -> None:
    assert script(tmp_path, "", "json.py").ref.id == "scripts/json-script"


def test_a_person_sees_the_script_and_whether_it_is_another_by_now(tmp_path: Path) -> None:
    item = script(tmp_path, "print('as it is')\n")

    same = further_files(item.data.decode(), tmp_path)
    (tmp_path / "report.py").write_text("print('another')\n", "utf-8")
    other = further_files(item.data.decode(), tmp_path)

    assert [(one.path, one.data, one.problem) for one in same] == [
        ("report.py", b"print('as it is')\n", "")
    ]
    assert "is not what this tool runs" in other[0].problem
    assert not other[0].data


NEWER = '''# /// script
# requires-python = ">=3.99"
# ///
"""Greets."""
import os, httpx
type Name = str
d = {"a": os.environ["MY_TOKEN"]}
print(f"hello {d["a"]}")
match (
'''


def test_a_script_for_a_newer_python_is_taken_by_its_lines(tmp_path: Path) -> None:
    item = script(tmp_path, NEWER)

    assert item.problems == ()
    assert item.shown == "Greets."
    assert item.probe is None
    assert b"requires-python" in item.data
    assert any("needs Python >=3.99" in note and "RYE_PYTHON" in note for note in item.notes)


def test_newer_syntax_without_a_newer_python_is_named_with_its_line(tmp_path: Path) -> None:
    (problem,) = script(tmp_path, NEWER.replace("3.99", "3.8")).problems

    assert "line 9: " in problem or "line 10: " in problem or "line 6: " in problem
    assert "to Python 3." in problem


def test_a_script_has_the_digest_of_its_text_whatever_its_line_ends(tmp_path: Path) -> None:
    text = "print('a')\nprint('b')\n"
    first = script(tmp_path, text).data
    (tmp_path / "report.py").write_bytes(text.replace("\n", "\r\n").encode())
    source = ImportSource(path=tmp_path / "report.py", project=tmp_path, base=tmp_path)

    assert read_script(source).items[0].data == first
