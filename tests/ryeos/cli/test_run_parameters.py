"""``rye run``: parameters as the schema of the item has them, flags of the item, and its help."""

import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.app.command_line import ITEM_FLAG, OWN_FLAG, with_item_flags
from ryeos.cli.run import in_project, pairs_by_schema, values_of, with_paths
from ryeos.items.errors import UsageError
from tests.support.command_line import CommandLine

RULES: dict[str, Any] = {
    "round": {"type": "integer"},
    "price": {"type": "number"},
    "dry": {"type": "boolean"},
    "names": {"type": "array"},
    "prices": {"type": "array", "items": {"type": "number"}},
    "text": {"type": "string"},
    "either": {"type": ["string", "integer"]},
    "open": {},
    "one_of": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    "no_text": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
    "named": {"$ref": "#/$defs/count"},
    "seven": {"const": 7},
    "mixed": {"enum": ["1", 2]},
    "two_words": {"type": "integer"},
    "json": {"type": "string"},
}
SCHEMA = {"properties": RULES, "$defs": {"count": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round=3", 3),
        ("price=1e3", 1000.0),
        ("dry=true", True),
        ('names=["a"]', ["a"]),
        ("text=3", "3"),
        ("text=true", "true"),
        ("either=3", "3"),
        ("open=3", "3"),
        ("one_of=3", "3"),
        ("no_text=3", 3),
        ("no_text=x", "x"),
        ("named=3", 3),
        ("seven=7", 7),
        ("mixed=1", "1"),
        ("mixed=2", 2),
        ("round=three", "three"),
        ("unknown=3", "3"),
        ("text:=3", 3),
        ("round:=4", 4),
        ("text=a=b", "a=b"),
        ("text=", ""),
    ],
)
def test_a_value_has_the_type_of_the_schema_and_text_stays_text(text: str, value: object) -> None:
    assert list(pairs_by_schema([text], SCHEMA).values()) == [value]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([f"{ITEM_FLAG}round=3"], {"round": 3}),
        ([f"{ITEM_FLAG}round", "3"], {"round": 3}),
        ([f"{ITEM_FLAG}dry", "text=x"], {"dry": True, "text": "x"}),
        ([f"{ITEM_FLAG}dry=false"], {"dry": False}),
        ([f"{ITEM_FLAG}two-words", "2"], {"two_words": 2}),
        ([f"{ITEM_FLAG}text", "a=b"], {"text": "a=b"}),
    ],
)
def test_a_flag_is_a_parameter(words: list[str], values: dict[str, Any]) -> None:
    assert pairs_by_schema(words, SCHEMA) == values


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["prices=1"], [1]),
        (["prices=1", f"{ITEM_FLAG}prices", "2.5", f"{ITEM_FLAG}prices=3"], [1, 2.5, 3]),
        (["prices=[1, 2]"], [1, 2]),
        (["prices=[1, 2]", "prices=3"], [1, 2, 3]),
        (["prices=3", "prices=[1, 2]"], [1, 2]),
        (["prices:=[1]", "prices=2"], [1, 2]),
        (["prices=abc"], ["abc"]),
        (["prices=1,2"], ["1,2"]),
        (["names=1", "names={}", "names="], ["1", "{}", ""]),
    ],
)
def test_words_of_one_name_make_a_list_where_the_schema_has_one(
    words: list[str], value: list[object]
) -> None:
    (found,) = pairs_by_schema(words, SCHEMA).values()

    assert found == value


def test_the_last_word_counts_where_the_schema_has_no_list() -> None:
    assert pairs_by_schema(["round=1", f"{ITEM_FLAG}round=2"], SCHEMA) == {"round": 2}


def test_a_flag_without_its_value_is_refused() -> None:
    for words in ([f"{ITEM_FLAG}round"], [f"{ITEM_FLAG}round", f"{ITEM_FLAG}dry"]):
        with pytest.raises(UsageError, match="--round: expected a value"):
            pairs_by_schema(words, SCHEMA)


def test_a_flag_that_the_item_does_not_have_is_refused_with_the_closest() -> None:
    with pytest.raises(UsageError) as error:
        pairs_by_schema([f"{ITEM_FLAG}rounds=3"], SCHEMA)
    with pytest.raises(UsageError) as mistake:
        pairs_by_schema([f"{ITEM_FLAG}dry-rum"], {})

    assert (str(error.value), error.value.hint) == (
        "rye run: unrecognized arguments: --rounds",
        "did you mean --round?",
    )
    assert mistake.value.hint == "did you mean --dry-run?"


def test_the_flags_of_the_command_are_never_parameters_of_the_item() -> None:
    flags = {"--json": False, "--timeout": True, "-q": False}

    assert with_item_flags(["x", "--json", "--timeout", "3", "-q"], flags) == [
        "x", "--json", "--timeout", "3", "-q", f"{OWN_FLAG}--json", f"{OWN_FLAG}--timeout",
    ]  # fmt: skip
    assert with_item_flags(["--timeout", "x", "y", "--deep"], flags) == [
        "--timeout", "x", "y", f"{ITEM_FLAG}deep",
    ]  # fmt: skip
    assert with_item_flags(["--dry"], flags) == ["--dry"]


def test_all_words_after_two_dashes_are_parameters_of_the_item() -> None:
    flags = {"--json": False}

    assert with_item_flags(["x", "--", "--a=1", "--json", "-"], flags) == [
        "x", "--", f"{ITEM_FLAG}a=1", f"{ITEM_FLAG}json", "-",
    ]  # fmt: skip
    assert with_item_flags(["--", "x", "--a"], flags) == ["--", "x", f"{ITEM_FLAG}a"]


@pytest.mark.parametrize("flag", ["--json", "--dry-run", "--timeout"])
def test_an_option_behind_an_item_that_has_a_parameter_of_that_name_is_refused(flag: str) -> None:
    schema: dict[str, Any] = {"properties": {"json": {}, "dry_run": {}, "timeout": {}}}

    with pytest.raises(UsageError) as error:
        values_of([f"{OWN_FLAG}{flag}"], lambda: schema)

    name = flag.removeprefix("--").replace("-", "_")
    assert str(error.value) == f"{flag}: an option of rye, and a parameter of the item"
    assert error.value.hint == (
        f"for the item: {name}=VALUE, or {flag} behind --; for rye: {flag} before the item"
    )


def test_an_option_is_ours_where_the_item_has_no_such_parameter_or_means_the_same() -> None:
    schema = {"properties": {"timeout": {"x-steers": True}, "json": {"type": "boolean"}}}

    assert values_of([f"{OWN_FLAG}--timeout", f"{OWN_FLAG}--trace"], lambda: schema) == {}
    assert values_of([f"{ITEM_FLAG}json"], lambda: schema) == {"json": True}


PATHS: dict[str, Any] = {
    "properties": {
        "file": {"type": "string", "format": "path"},
        "files": {"type": "array", "items": {"type": "string", "format": "path"}},
        "pair": {"prefixItems": [{"format": "path"}, {"type": "string"}]},
        "job": {"type": "object", "properties": {"in": {"$ref": "#/$defs/place"}, "say": {}}},
        "jobs": {"items": {"type": "object", "additionalProperties": {"format": "path"}}},
        "loop": {"$ref": "#/properties/loop"},
        "other": {"$ref": "https://example.org/x"},
    },
    "$defs": {"place": {"type": "string", "format": "path"}},
}


@pytest.mark.parametrize(
    ("given", "placed"),
    [
        ({"file": "a"}, {"file": "<a>"}),
        ({"file": ""}, {"file": ""}),
        ({"file": 3}, {"file": 3}),
        ({"files": ["a", "b", 1]}, {"files": ["<a>", "<b>", 1]}),
        ({"pair": ["a", "b", "c"]}, {"pair": ["<a>", "b", "c"]}),
        ({"job": {"in": "a", "say": "b"}}, {"job": {"in": "<a>", "say": "b"}}),
        ({"jobs": [{"x": "a"}, {"y": "b"}]}, {"jobs": [{"x": "<a>"}, {"y": "<b>"}]}),
        ({"loop": "a", "other": "b", "none": "c"}, {"loop": "a", "other": "b", "none": "c"}),
    ],
)
def test_paths_are_placed_wherever_the_schema_has_them(
    given: dict[str, Any], placed: dict[str, Any]
) -> None:
    assert with_paths(given, PATHS, lambda _, text: f"<{text}>") == placed


def test_help_behind_an_item_is_help_on_the_item() -> None:
    assert with_item_flags(["mine/x", "--help"], {}) == ["mine/x", "--inputs"]
    assert with_item_flags(["--help"], {}) == ["--help"]


@given(st.text(), st.sampled_from(["text", "either", "open", "one_of", "json"]))
def test_a_text_is_kept_wherever_the_schema_allows_text(text: str, name: str) -> None:
    value = pairs_by_schema([f"{name}={text}"], SCHEMA)[name]

    assert value == text


# ---------------------------------------------------------------------------- the whole command


TOOL = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: Repeats a word
config_schema:
  type: object
  required: [word]
  additionalProperties: false
  properties:
    word: {type: string, description: What is said}
    times: {type: integer, default: 1, description: How often}
    file: {type: string, format: path}
  examples: [{word: "it's"}]
config: {script: "printf '%s' {word} {times} {file}"}
"""


@pytest.fixture
def said(signer: CommandLine) -> CommandLine:
    """A project with a signed tool."""
    signer("init", "--project")
    path = signer.project / ".ai/tools/mine/say.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(TOOL, encoding="utf-8")
    assert signer("sign", "tool:mine/say").status == 0
    return signer


def test_numbers_need_no_colon(said: CommandLine) -> None:
    assert said("run", "mine/say", "word=3", "times=2", "file=x").stdout.startswith("32/")
    assert said("run", "mine/say", "--word", "3", "--times=2", "file=x").stdout.startswith("32/")


def test_a_path_is_relative_to_the_folder_of_the_shell(said: CommandLine, tmp_path: Path) -> None:
    done = said("run", "mine/say", "word=a", "file=b/c.txt", "--json")

    assert done.json["data"]["stdout"].endswith("/b/c.txt")
    assert Path(done.json["data"]["stdout"].removeprefix("a1")).is_absolute()


SHELL = """\
# version: "1.0.0"
# tool_type: bash
# category: mine
# description: Says what it got
# config_schema: {"properties": {"files": {"type": "array", "items": {"format": "path"}}}}
echo "$1"
"""


@pytest.mark.parametrize(
    "words",
    [
        ['files=["x"]'],
        ['files:=["x"]'],
        ["--files", '["x"]'],
        ["--params", '{"files": ["x"]}'],
        ["--", '--files=["x"]'],
    ],
)
def test_paths_in_lists_are_relative_to_the_folder_of_the_shell(
    words: list[str], said: CommandLine
) -> None:
    (said.project / "sub").mkdir()
    (said.project / ".ai/tools/mine/got.sh").write_text(SHELL, "utf-8")
    assert said("sign", "tool:mine/got").status == 0

    done = said("run", "mine/got", *words, cwd=said.project / "sub")

    assert json.loads(done.stdout) == {"files": [str(said.project / "sub" / "x")]}


def test_an_option_that_the_item_has_too_is_refused_behind_it(said: CommandLine) -> None:
    path = said.project / ".ai/tools/mine/say.yaml"
    path.write_text(TOOL.replace("    file:", "    json: {type: boolean}\n    file:"), "utf-8")
    assert said("sign", "tool:mine/say").status == 0

    before = said("run", "--json", "mine/say", "word=a", "file=x")
    refused = said("run", "mine/say", "word=a", "file=x", "--json")
    theirs = said("run", "mine/say", "word=a", "file=x", "--", "--json")
    shown = said("run", "mine/say", "--help")

    assert before.json["status"] == "success"
    assert (refused.status, refused.json["code"]) == (2, "INVALID_PARAMS")
    assert "before the item" in refused.json["hint"]
    assert theirs.stdout.startswith("a1/")
    assert "--json: options of rye too." in shown.stdout


def test_a_path_for_a_node_is_relative_to_the_project(said: CommandLine) -> None:
    session = SimpleNamespace(context=SimpleNamespace(project_path=Path.cwd()))
    place = in_project(session)  # type: ignore[arg-type]  # the part of a session that it reads

    assert place("file", "a/../b.txt") == "b.txt"
    with pytest.raises(UsageError, match="file: expected a path inside of the project"):
        place("file", "../elsewhere")


def test_an_item_has_help_of_its_own(said: CommandLine) -> None:
    done = said("run", "mine/say", "--help")

    assert done.status == 0
    assert done.stdout.splitlines()[:3] == [
        "usage: rye run mine/say word=STRING [times=INTEGER] [file=STRING]",
        "",
        "Repeats a word",
    ]
    assert "- word (string, required): What is said" in done.stdout
    assert """example: rye run mine/say --params '{"word": "it'"'"'s"}'""" in done.stdout


def test_help_on_a_missing_item_is_the_error_of_that_item(said: CommandLine) -> None:
    assert said("run", "mine/sya", "--help").status == 3


def test_a_flag_of_a_missing_item_is_the_error_of_that_item(said: CommandLine) -> None:
    refused = said("run", "mine/nowhere", "--word", "a")

    assert (refused.status, "Item not found: mine/nowhere" in refused.stderr) == (3, True)


def test_a_mistyped_flag_runs_nothing(said: CommandLine) -> None:
    refused = said("run", "mine/say", "word=a", "--dry-rum")

    assert refused.status == 2
    assert "did you mean --dry-run?" in refused.stderr
    assert json.loads(said("run", "mine/say", "word=a", "--tims=2", "--json").stdout)["code"]


@pytest.mark.parametrize(
    "typed", ["9007199254740993.0", "0.1000000000000000055", "1e-400", '{"a": 1, "a": 2}']
)
def test_json_of_which_something_would_be_lost_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match=r"would become|stands there twice"):
        pairs_by_schema([f"open:={typed}"], SCHEMA)

    assert pairs_by_schema([f"price={typed}"], SCHEMA) == {"price": typed}


@pytest.mark.parametrize("typed", ["9007199254740993", "0.1", "1.50", "1e3", "-0.0", "1E-7"])
def test_a_number_is_the_one_that_was_typed(typed: str) -> None:
    (value,) = pairs_by_schema([f"open:={typed}"], SCHEMA).values()

    assert Decimal(repr(value)) == Decimal(typed)
