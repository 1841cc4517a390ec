"""File types that extractors of a project or of a user add."""

from pathlib import Path
from typing import Any

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from ryeos.items.errors import ItemNotFoundError, SpecError
from ryeos.items.header_values import MetadataError
from ryeos.items.refs import FieldRule, FileType, Kind, parse_reference
from ryeos.trust.file_types import BLOCK_COMMENTS, LINE_COMMENTS, read_extractor
from ryeos.trust.sign_targets import target_of_path
from ryeos.trust.verify import Target
from tests.support.workspace import SpaceFolder, Workspace

FOLDER = "tools/rye/core/extractors/tool"
PLACE = f"{FOLDER}/words_extractor.yaml"
HEADER: dict[str, Any] = {
    "version": "1.0.0",
    "tool_type": "extractor",
    "executor_id": None,
    "category": "rye/core/extractors/tool",
    "description": "Lists of words",
    "extensions": [".words"],
    "parser": "comments/yaml",
    "signature_format": {"prefix": "--"},
}
EXTRACTOR = """\
version: "1.0.0"
tool_type: extractor
executor_id: null
category: rye/core/extractors/tool
description: Lists of words
extensions: [.words]
parser: comments/yaml
signature_format: {prefix: "--", after_shebang: true}
"""
RUNTIME = "rye/core/runtimes/bash/bash"
WORDS = """\
#!/usr/bin/env words
-- Greets.
-- ---
-- version: 1.0.0
-- tool_type: words
-- executor_id: langs/cat
-- category: lists
-- description: Words that greet
-- config_schema:
--   type: object
--   properties: {loud: {type: boolean}}
-- ---

hello
"""
CAT = """\
version: "1.0.0"
tool_type: runtime
executor_id: rye/core/primitives/execute
category: langs
description: Prints a file
env_config:
  interpreter: {type: system_binary, binary: cat, var: CAT}
config: {command: "${CAT}", args: ["{tool_path}"]}
"""


def types_of(**changes: object) -> dict[str, FileType]:
    """The type that a changed extractor adds; None removes a key."""
    header = {key: value for key, value in (HEADER | changes).items() if value is not None}
    return read_extractor(PLACE, header)


@pytest.fixture
def words(workspace: Workspace) -> Path:
    """A signed list of words in a project that has an extractor and a runtime for such."""
    workspace.project.signed(PLACE, EXTRACTOR)
    workspace.project.signed("tools/langs/cat.yaml", CAT)
    return add_words(workspace.project, "tools/lists/greet.words")


def add_words(folder: SpaceFolder, relative: str, text: str = WORDS) -> Path:
    """A list of words, signed by the path of its file."""
    path = folder.write(relative, text)
    spaces = folder.workspace.rye().context.spaces
    folder.workspace.signer().sign(target_of_path(path, spaces))
    return path


# --- use of an added type -------------------------------------------------------------------------


def test_an_extractor_says_how_files_are_signed_and_read() -> None:
    assert types_of() == {
        ".words": FileType(suffix=".words", prefix="--", parser="comments/yaml", comment="--")
    }


def test_a_type_may_have_its_own_form_and_parser() -> None:
    types = types_of(
        extensions=[".words", ".list"],
        signature_formats={".list": {"prefix": "/*", "suffix": "*/"}},
        parsers={".list": "toml/toml"},
    )

    assert types[".list"] == FileType(suffix=".list", prefix="/*", end="*/", parser="toml/toml")
    assert types[".words"].prefix == "--"


def test_fields_may_be_taken_from_other_keys_and_further_ones_be_required() -> None:
    rules = {"extraction_rules": {"version": {"type": "path", "key": "release"}}}
    schema = {"fields": {"author": {"required": True}, "mood": {"format": "snake_case"}}}

    [added] = types_of(**rules, validation_schema=schema).values()

    assert added.fields == {"version": "release"}
    assert added.rules == (
        FieldRule("author"),
        FieldRule("mood", required=False, checks=("text", "snake_case")),
    )


@pytest.mark.parametrize("mark", [*LINE_COMMENTS, *BLOCK_COMMENTS])
def test_every_comment_that_an_extractor_may_name_holds_a_signature(
    mark: str, workspace: Workspace
) -> None:
    form = f'{{prefix: "{mark}", suffix: "{BLOCK_COMMENTS.get(mark, "")}"}}'
    text = EXTRACTOR.replace('{prefix: "--", after_shebang: true}', form) + 'comment: "--"\n'
    workspace.project.signed(PLACE, text)

    path = add_words(workspace.project, "tools/lists/greet.words", WORDS.partition("\n")[2])

    assert path.read_text("utf-8").startswith(f"{mark} rye:signed:")
    assert workspace.rye().verifier.verify(target(workspace, path)).verified


def target(workspace: Workspace, path: Path) -> Target:
    """The file as something to verify, in the project as a process sees it."""
    project = workspace.warm.context.spaces.project
    assert project
    return Target(path=path, kind=Kind.TOOL, space=project)


def test_a_tool_of_an_added_type_is_signed_below_its_shebang(words: Path) -> None:
    first, second, third, fourth, *_ = words.read_text("utf-8").split("\n")

    assert (first, fourth) == ("#!/usr/bin/env words", "-- Greets.")
    assert third == "-- rye:item:tool:lists/greet:words:1.0.0"
    assert second.startswith("-- rye:signed:")


def test_a_tool_of_an_added_type_runs(workspace: Workspace, words: Path) -> None:
    result = workspace.run("lists/greet")

    assert result.data["stdout"] == words.read_text("utf-8")


def test_a_tool_of_an_added_type_has_its_parameters_checked(
    workspace: Workspace, words: Path
) -> None:
    assert words.is_file()

    result = workspace.run("lists/greet", params={"loud": "very"})

    assert result.error
    assert "loud" in result.error


def test_a_tool_of_an_added_type_is_found_by_searches(workspace: Workspace, words: Path) -> None:
    assert words.is_file()

    known = list(workspace.rye().resolver.known(Kind.TOOL, below="lists"))

    assert [str(ref) for ref in known] == ["tool:lists/greet"]


def test_the_path_of_a_file_of_an_added_type_means_its_item(
    workspace: Workspace, words: Path
) -> None:
    assert str(workspace.rye().reference(str(words))) == "tool:lists/greet"


def test_a_built_in_type_wins_over_an_added_type(workspace: Workspace, words: Path) -> None:
    twin = workspace.project.signed_yaml("lists/greet", "config: {script: echo known}\n")

    assert words.with_suffix(".yaml") == twin
    assert workspace.run("lists/greet").data["stdout"] == "known\n"


def test_a_type_added_by_the_user_is_valid_in_the_project(workspace: Workspace) -> None:
    workspace.user.signed(PLACE, EXTRACTOR)
    workspace.user.signed("tools/langs/cat.yaml", CAT)

    path = add_words(workspace.project, "tools/lists/greet.words")

    assert workspace.run("lists/greet").data["stdout"] == path.read_text("utf-8")


def test_a_type_added_by_the_project_is_not_valid_for_user_tools(workspace: Workspace) -> None:
    workspace.project.signed(PLACE, EXTRACTOR)
    workspace.user.write("tools/lists/greet.words", WORDS)

    with pytest.raises(ItemNotFoundError):
        workspace.rye().resolver.resolve(parse_reference("lists/greet"))


def test_a_project_may_read_its_own_files_otherwise_than_the_user(workspace: Workspace) -> None:
    workspace.user.signed(PLACE, EXTRACTOR)
    workspace.project.signed(PLACE, EXTRACTOR.replace('"--"', '"//"') + 'comment: "//"\n')

    spaces = workspace.rye().context.spaces

    assert spaces.project
    assert [space.added()[".words"].prefix for space in (spaces.user, spaces.project)] == [
        "--",
        "//",
    ]


def test_a_protected_core_has_no_added_types(workspace: Workspace) -> None:
    workspace.project.signed(PLACE, EXTRACTOR)
    workspace.env["RYE_PROTECT_CORE"] = "1"

    project = workspace.rye().context.spaces.project

    assert project
    assert project.suffixes(Kind.TOOL) == Kind.TOOL.suffixes


def test_a_server_sees_an_extractor_come_change_and_go(workspace: Workspace) -> None:
    project = workspace.warm.context.spaces.project
    assert project

    seen = [project.suffixes(Kind.TOOL)[-1]]
    path = workspace.project.signed(PLACE, EXTRACTOR)
    seen.append(project.suffixes(Kind.TOOL)[-1])
    workspace.project.signed(PLACE, EXTRACTOR.replace(".words", ".verses"))
    seen.append(project.suffixes(Kind.TOOL)[-1])
    path.unlink()
    seen.append(project.suffixes(Kind.TOOL)[-1])

    assert seen == [".toml", ".words", ".verses", ".toml"]


def test_an_extractor_with_an_untrusted_key_is_ignored(workspace: Workspace) -> None:
    friend = generate_keypair()
    document = workspace.user.trust(friend)
    path = workspace.user.write(PLACE, EXTRACTOR)
    workspace.user.sign(path, friend)
    user = workspace.warm.context.spaces.user

    before = user.has_suffix(Kind.TOOL, ".words")
    document.unlink()

    assert (before, user.has_suffix(Kind.TOOL, ".words")) == (True, False)
    assert compute_key_fingerprint(friend.public_pem) in workspace.warnings[-1]


def test_a_search_of_a_server_sees_types_come_and_change(workspace: Workspace) -> None:
    kinds, tiers = [Kind.TOOL], frozenset({"project"})
    catalog = workspace.warm.catalog

    def described() -> list[str]:
        """The description of each item of the project."""
        taken = catalog.snapshot(kinds, tiers, "lists").pool
        return [document.record.description for document in taken.all()]

    workspace.project.write("tools/lists/greet.words", WORDS)
    seen = [described()]
    path = workspace.user.signed(PLACE, EXTRACTOR)
    seen.append(described())
    rule = "extraction_rules: {description: {type: path, key: about}}\n"
    text = WORDS.replace("-- description:", "-- about:")
    workspace.project.write("tools/lists/greet.words", text)
    seen.append(described())
    workspace.user.signed(PLACE, EXTRACTOR + rule)
    seen.append(described())
    path.unlink()
    seen.append(described())

    found = ["Words that greet"]
    assert seen == [[], found, [""], found, []]


# --- invalid extractors and items -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extensions": []}, "extensions: expected a list of 1 to 16 suffixes"),
        ({"extensions": [f".a{n}" for n in range(17)]}, "extensions: expected a list of 1 to 16"),
        ({"extensions": ["lua"]}, "extensions: expected a suffix like .lua, in lower case, got"),
        ({"extensions": [".LUA"]}, "extensions: expected a suffix like .lua, in lower case, got"),
        ({"extensions": ["./a"]}, "extensions: expected a suffix like .lua, in lower case, got"),
        ({"extensions": [".py"]}, "extensions: .py is taken"),
        ({"extensions": [".md"]}, "extensions: .md is taken"),
        ({"extensions": [".sig"]}, "extensions: .sig is taken"),
        ({"parser": None}, "parser: expected one of python/ast, "),
        ({"parser": "mine/parser"}, "parser: expected one of python/ast, "),
        ({"parser": "markdown/xml"}, "parser: expected one of python/ast, "),
        (
            {"signature_format": None},
            "signature_format: expected a mapping with a prefix, got null",
        ),
        ({"signature_format": {"prefix": "--", "end": "x"}}, "signature_format.end: unknown key"),
        ({"signature_format": {"prefix": "--", "after_shebang": 1}}, "signature_format.after_sheb"),
        ({"comment": "["}, "comment: expected what begins a line (#, "),
        ({"executor_id": "a/b"}, "tool_type: expected extractor with the executor_id null"),
        ({"extension": [".x"]}, "extractor.extension: unknown key"),
        ({"search_fields": 3}, "extractor.search_fields: expected a mapping, got integer"),
        ({"extraction_rules": {"a": {"type": "regex"}}}, "extraction_rules.a.type: expected one"),
        (
            {"extraction_rules": {"a": {"type": "path"}}},
            "extraction_rules.a.key: expected a string",
        ),
        ({"validation_schema": {"x": 1}}, "validation_schema.x: unknown key"),
        ({"validation_schema": {"fields": {"a": {"format": "(a+)+"}}}}, "validation_schema.fields"),
        (
            {"validation_schema": {"fields": {"a": {"pattern": "x"}}}},
            "validation_schema.fields.a.p",
        ),
    ],
    ids=str,
)
def test_an_invalid_extractor_is_reported(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        types_of(**changes)

    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "place",
    [
        "tools/rye/core/extractors/knowledge/words_extractor.yaml",
        "tools/rye/core/extractors/words_extractor.yaml",
        "tools/rye/core/extractors/tool/words.yaml",
        "tools/mine/words_extractor.yaml",
    ],
)
def test_only_file_types_of_tools_can_be_added(place: str) -> None:
    with pytest.raises(SpecError) as error:
        read_extractor(place, HEADER)

    assert str(error.value) == (f"tool_type: expected an extractor at {FOLDER}/NAME_extractor.yaml")


def test_a_tool_of_an_added_type_keeps_the_rules_of_every_tool(workspace: Workspace) -> None:
    workspace.project.signed(PLACE, EXTRACTOR)
    text = WORDS.replace("-- category: lists", "-- category: others")

    with pytest.raises(Exception, match="must match path category 'lists'"):
        add_words(workspace.project, "tools/lists/greet.words", text)


def test_a_header_without_an_end_is_reported_with_its_line(workspace: Workspace) -> None:
    workspace.project.signed(PLACE, EXTRACTOR)

    with pytest.raises(MetadataError) as error:
        add_words(workspace.project, "tools/lists/greet.words", "-- a\n-- ---\n-- version: 1\nx\n")

    assert "line 2: expected another comment --- below, found none" in str(error.value)
