"""Extractors that must not count: their false claims have no effect, and nothing else breaks."""

import shutil
from pathlib import Path

import pytest

from lillux.signing import generate_keypair
from ryeos.items.errors import IntegrityError, ItemNotFoundError, SignatureFormatError
from ryeos.items.refs import Kind, parse_reference
from ryeos.trust.sign_targets import target_of_path
from ryeos.trust.verify import Target
from tests.support.workspace import Workspace

PLACE = "tools/rye/core/extractors/tool/lua_extractor.yaml"
EXTRACTOR = """\
version: "1.0.0"
tool_type: extractor
executor_id: null
category: rye/core/extractors/tool
description: Lua
extensions: [.lua]
parser: comments/tags
signature_format: {prefix: "--"}
"""
TOOL = """\
-- @version 1.0.0
-- @tool_type lua
-- @executor_id langs/lua
-- @category mine
-- @description Counts
print(1)
"""
BILLION = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)),
    ]
)


def suffixes(workspace: Workspace) -> tuple[str, ...]:
    """Those of tools in the project, beyond Rye's own."""
    project = workspace.rye().context.spaces.project
    assert project
    return tuple(
        suffix for suffix in project.suffixes(Kind.TOOL) if suffix not in Kind.TOOL.suffixes
    )


def refused(workspace: Workspace, path: Path) -> str:
    """The warning that says why the extractor does not count; it adds nothing."""
    workspace.warnings.clear()
    assert suffixes(workspace) == ()
    [warning] = workspace.warnings
    start = f"the extractor {path} is not used: "
    assert warning.startswith(start)
    return warning.removeprefix(start)


def planted(workspace: Workspace, text: str) -> Path:
    """An extractor of the project, signed with a good key by a user who follows no rules."""
    return workspace.project.sign_unchecked(workspace.project.write(PLACE, text))


def lua(workspace: Workspace, text: str = TOOL) -> Target:
    """A signed Lua tool in a project whose extractor counts."""
    workspace.project.signed(PLACE, EXTRACTOR)
    path = workspace.project.write("tools/mine/count.lua", text)
    spaces = workspace.rye().context.spaces
    workspace.signer().sign(target_of_path(path, spaces))
    assert spaces.project
    return Target(path=path, kind=Kind.TOOL, space=spaces.project)


# --- extractors that do not verify ----------------------------------------------------------------


def test_an_unsigned_extractor_adds_nothing(workspace: Workspace) -> None:
    path = workspace.project.write(PLACE, EXTRACTOR)

    assert refused(workspace, path) == f"unsigned item, expected a rye:signed line: {path}"


def test_an_unsigned_extractor_adds_nothing_in_dev_mode(workspace: Workspace) -> None:
    path = workspace.project.write(PLACE, EXTRACTOR)
    workspace.env["RYE_DEV_MODE"] = "1"

    assert suffixes(workspace) == ()
    assert "expected one that holds, in dev mode too" in workspace.warnings[-1]
    assert str(path) in workspace.warnings[-1]


def test_an_extractor_that_was_changed_adds_nothing(workspace: Workspace) -> None:
    path = workspace.project.signed(PLACE, EXTRACTOR)
    path.write_text(path.read_text("utf-8").replace('"--"', '"//"'), "utf-8")

    assert "content modified since signing" in refused(workspace, path)


def test_an_extractor_signed_by_an_untrusted_key_adds_nothing(workspace: Workspace) -> None:
    path = workspace.project.write(PLACE, EXTRACTOR)
    workspace.project.sign_unchecked(path, generate_keypair())

    assert "signed by the untrusted key" in refused(workspace, path)


def test_a_key_that_the_project_brings_along_does_not_make_its_extractor_count(
    workspace: Workspace,
) -> None:
    own = generate_keypair()
    workspace.project.trust(own)
    path = workspace.project.write(PLACE, EXTRACTOR)
    workspace.project.sign_unchecked(path, own)

    assert "key" in refused(workspace, path)


def test_an_extractor_that_is_a_link_out_of_its_space_adds_nothing(
    workspace: Workspace, tmp_path: Path
) -> None:
    path = workspace.project.signed(PLACE, EXTRACTOR)
    shutil.move(path, tmp_path / "elsewhere.yaml")
    path.symlink_to(tmp_path / "elsewhere.yaml")

    assert "expected a file in the project space, found a link" in refused(workspace, path)


# --- extractors that claim foreign suffixes ------------------------------------------------------


@pytest.mark.parametrize("suffix", [*Kind.TOOL.suffixes, ".md", ".manifest", ".sig", ".pem"])
def test_a_type_that_rye_knows_cannot_be_claimed(suffix: str, workspace: Workspace) -> None:
    path = planted(workspace, EXTRACTOR.replace(".lua", suffix))

    assert refused(workspace, path) == f"extensions: {suffix} is taken"


def test_an_extractor_that_claims_py_changes_nothing_about_py(workspace: Workspace) -> None:
    planted(workspace, EXTRACTOR.replace("[.lua]", "[.lua, .py]"))
    path = workspace.project.signed_tool("mine/hello", "print('hello')\n")
    path.write_text(path.read_text("utf-8").replace("# rye:signed", "-- rye:signed"), "utf-8")

    with pytest.raises(IntegrityError):
        workspace.rye().verifier.verify(workspace.project.target(path).verify_target)


def test_of_two_extractors_for_one_suffix_in_a_space_neither_counts(workspace: Workspace) -> None:
    workspace.project.signed(PLACE, EXTRACTOR)
    workspace.project.signed(PLACE.replace("lua_", "moon_"), EXTRACTOR)

    assert suffixes(workspace) == ()
    assert "lua_extractor.yaml and moon_extractor.yaml claim it" in workspace.warnings[-1]


@pytest.mark.parametrize(
    "form",
    [
        '{prefix: "/*"}',  # would hide all code below
        '{prefix: "--[["}',
        '{prefix: "#|", suffix: "*/"}',
        '{prefix: ""}',
        '{prefix: " "}',
        '{prefix: "os.exit() --"}',  # would be code that no signature covers
        '{prefix: "--", suffix: "\\nos.exit()"}',
        '{prefix: "--\\n"}',
        "{prefix: 3}",
    ],
)
def test_a_signature_line_can_only_be_a_comment(form: str, workspace: Workspace) -> None:
    path = planted(workspace, EXTRACTOR.replace('{prefix: "--"}', form))

    assert refused(workspace, path).startswith("signature_format.prefix: expected a comment (#, ")


# --- extractors that are to exhaust ---------------------------------------------------------------


def test_no_text_of_an_extractor_becomes_a_pattern(workspace: Workspace) -> None:
    path = planted(workspace, EXTRACTOR + 'comment: "(-+)+$"\n')

    assert refused(workspace, path).startswith("comment: expected what begins a line (#, ")


def test_a_yaml_bomb_in_an_extractor_is_refused(workspace: Workspace) -> None:
    path = planted(workspace, f"{EXTRACTOR}{BILLION}\n")

    assert refused(workspace, path)


def test_a_yaml_bomb_in_the_comments_of_a_tool_is_refused(workspace: Workspace) -> None:
    workspace.project.signed(PLACE, EXTRACTOR.replace("comments/tags", "comments/yaml"))
    bomb = "".join(f"-- {line}\n" for line in ("---", *BILLION.split("\n"), "---"))
    path = workspace.project.write("tools/mine/count.lua", bomb)
    spaces = workspace.rye().context.spaces

    with pytest.raises(Exception, match="comments header"):
        workspace.signer().sign(target_of_path(path, spaces))


def test_thousands_of_extractors_are_not_read(workspace: Workspace) -> None:
    for number in range(100):
        place = PLACE.replace("lua_", f"a{number:03}_")
        workspace.project.write(place, EXTRACTOR.replace(".lua", f".a{number}"))

    assert suffixes(workspace) == ()
    assert workspace.warnings[-1].endswith("expected at most 32 extractors, found more")
    assert len(workspace.warnings) == 33


# --- files of an added type -----------------------------------------------------------------------


def test_without_its_extractor_a_tool_is_not_found(workspace: Workspace) -> None:
    lua(workspace)
    (workspace.project.space.ai / PLACE).unlink()

    with pytest.raises(ItemNotFoundError):
        workspace.rye().resolver.resolve(parse_reference("mine/count"))


def test_one_changed_byte_is_seen(workspace: Workspace) -> None:
    target = lua(workspace)
    target.path.write_text(target.path.read_text("utf-8").replace("(1)", "(2)"), "utf-8")

    with pytest.raises(IntegrityError, match="content modified since signing"):
        workspace.rye().verifier.verify(target)


def test_a_carriage_return_is_refused_since_languages_differ_about_it(workspace: Workspace) -> None:
    target = lua(workspace, TOOL.replace("print", "-- note\nprint"))
    data = target.path.read_bytes()
    target.path.write_bytes(data.replace(b"note\n", b"note\r"))

    with pytest.raises(SignatureFormatError, match="carriage return in a file of an added type"):
        workspace.rye().verifier.verify(target)


@pytest.mark.parametrize("where", ["above", "below"])
def test_a_planted_shebang_is_not_set_aside(where: str, workspace: Workspace) -> None:
    """In PHP, say, it would be code: ``#!/<?php ...``."""
    target = lua(workspace)
    line, rest = target.path.read_text("utf-8").split("\n", 1)
    shebang = "#!/bin/sh -c evil"
    lines = (shebang, line, rest) if where == "above" else (line, shebang, rest)
    target.path.write_text("\n".join(lines), "utf-8")

    with pytest.raises(IntegrityError):
        workspace.rye().verifier.verify(target)
