from pathlib import Path

import pytest

from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import (
    MAX_REF_BYTES,
    PROJECT,
    SYSTEM,
    USER,
    ItemRef,
    Kind,
    Location,
    Reference,
    Space,
    Spaces,
    kind_of_directory,
    parse_kind,
    parse_reference,
    rank_of,
    tier_of,
    valid_id,
)

BASE = Path("/base")
CORE, STANDARD = Space("system:ryeos-core", BASE / "core"), Space("system:ryeos", BASE / "ryeos")
SPACES = Spaces(
    project=Space(PROJECT, BASE / "project"),
    user=Space(USER, BASE / "user"),
    bundles=(STANDARD, CORE),
)
HINT = "a reference is kind:path, like tool:rye/bash/bash, or just the path"


@pytest.mark.parametrize(
    ("kind", "directory", "suffixes"),
    [
        (Kind.TOOL, "tools", ".py .yaml .yml .json .js .ts .mjs .cjs .sh .toml"),
        (Kind.DIRECTIVE, "directives", ".md"),
        (Kind.KNOWLEDGE, "knowledge", ".md .yaml .yml"),
        (Kind.CONFIG, "config", ".yaml .yml .toml"),
    ],
)
def test_a_kind_has_a_folder_and_an_order_of_suffixes(
    kind: Kind, directory: str, suffixes: str
) -> None:
    assert kind.directory == directory
    assert kind.suffixes == tuple(suffixes.split())
    assert kind_of_directory(directory) is kind


def test_another_folder_belongs_to_no_kind() -> None:
    assert kind_of_directory("state") is None


def test_a_reference_to_an_item_has_a_name_and_a_category() -> None:
    ref = ItemRef(Kind.TOOL, "a/b/c")

    assert (ref.name, ref.category, str(ref)) == ("c", "a/b", "tool:a/b/c")
    assert ItemRef(Kind.TOOL, "c").category == ""


@pytest.mark.parametrize(
    ("text", "item_type", "expected"),
    [
        ("a", None, Reference(None, "a")),
        ("a/b", None, Reference(None, "a/b")),
        ("./a/b", None, Reference(None, "a/b")),
        ("tool:a", None, Reference(Kind.TOOL, "a")),
        ("tool:./a", None, Reference(Kind.TOOL, "a")),
        ("config:a.schema", None, Reference(Kind.CONFIG, "a.schema")),
        ("a", "knowledge", Reference(Kind.KNOWLEDGE, "a")),
        ("knowledge:a", "knowledge", Reference(Kind.KNOWLEDGE, "a")),
        ("ä/日本 語", None, Reference(None, "ä/日本 語")),
    ],
)
def test_a_reference_is_read(text: str, item_type: str | None, expected: Reference) -> None:
    assert parse_reference(text, item_type) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a relative path, found nothing"),
        ("tool:", "expected an id after 'tool:'"),
        ("tools:a", "expected a kind (tool, directive, knowledge, config), found 'tools'"),
        ("Tool:a", "expected a kind (tool, directive, knowledge, config), found 'Tool'"),
        (":a", "expected a kind (tool, directive, knowledge, config), found ''"),
        ("C:/a", "expected a kind (tool, directive, knowledge, config), found 'C'"),
        ("tool:C:/a", "':' is not allowed (drive letters, alternate streams)"),
        ("../a", "'..' segments are not allowed"),
        ("tool:a/../../b", "'..' segments are not allowed"),
        ("/etc/passwd", "expected a relative path, found an absolute one"),
        (".//etc/passwd", "expected a relative path, found an absolute one"),
        ("tool:/etc/passwd", "expected a relative path, found an absolute one"),
        ("././a", "'.' segments are not allowed"),
        ("a//b", "empty segments are not allowed"),
        ("a\\b", "expected '/' as separator, found a backslash"),
        ("a\0b", "control characters are not allowed"),
        ("a\x1b[2Jb", "control characters are not allowed"),
        ("a\u202eb", "invisible characters are not allowed"),
        ("a\u2028b", "invisible characters are not allowed"),
        ("a\x9bb", "invisible characters are not allowed"),
        ("a" * (MAX_REF_BYTES + 1), "longer than 512 bytes"),
        ("é" * 257, "longer than 512 bytes"),
    ],
)
def test_a_reference_that_no_space_can_hold_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidRefError) as error:
        parse_reference(text)

    assert error.value.problem == problem
    assert str(error.value) == f"item reference {text[:200]!r}: {problem}"
    assert error.value.hint == HINT


def test_a_message_about_a_reference_can_be_shown_on_any_terminal() -> None:
    with pytest.raises(InvalidRefError) as error:
        parse_reference("tool:a\x1b]0;\x9b\u202e\udcff")

    assert str(error.value).isprintable()


def test_a_kind_that_contradicts_the_item_type_is_refused() -> None:
    with pytest.raises(InvalidRefError) as error:
        parse_reference("tool:a", "directive")

    assert error.value.problem == "says tool where the item type is directive"


def test_an_unknown_kind_is_refused_with_the_list_of_kinds() -> None:
    with pytest.raises(InvalidRefError) as error:
        parse_kind("x" * 100)

    assert error.value.problem == (
        f"expected a kind (tool, directive, knowledge, config), found {'x' * 60!r}"
    )


def test_an_id_of_exactly_the_limit_is_accepted() -> None:
    assert valid_id("a" * MAX_REF_BYTES) == "a" * MAX_REF_BYTES


def test_a_bare_reference_means_an_item_of_each_kind_that_runs() -> None:
    assert [str(ref) for ref in Reference(None, "a").refs()] == [
        "tool:a",
        "directive:a",
        "knowledge:a",
    ]
    assert Reference(Kind.CONFIG, "a").refs() == (ItemRef(Kind.CONFIG, "a"),)


@pytest.mark.parametrize(
    ("label", "tier", "rank"),
    [
        ("project", PROJECT, 3),
        ("user", USER, 2),
        ("system:x", SYSTEM, 1),
        ("outside", "outside", 0),
    ],
)
def test_a_label_has_a_tier_and_a_rank(label: str, tier: str, rank: int) -> None:
    assert (tier_of(label), rank_of(label)) == (tier, rank)


@pytest.mark.parametrize(
    ("label", "seen"),
    [
        ("project", ["project", "user", "system:ryeos", "system:ryeos-core"]),
        ("user", ["user", "system:ryeos", "system:ryeos-core"]),
        ("system:ryeos", ["system:ryeos", "system:ryeos-core"]),
        ("outside", []),
    ],
)
def test_an_item_sees_its_own_tier_and_those_below(label: str, seen: list[str]) -> None:
    assert [space.label for space in SPACES.seen_from(label)] == seen


def test_a_space_is_named_by_its_label_or_its_tier() -> None:
    assert SPACES.named("system:ryeos-core") == CORE
    assert SPACES.named("system") == STANDARD
    assert SPACES.named("elsewhere") is None


def test_the_system_base_is_that_of_the_core_bundle_else_of_the_first() -> None:
    without_core = Spaces(project=None, user=SPACES.user, bundles=(STANDARD,))

    assert SPACES.system_base == CORE.base
    assert without_core.system_base == STANDARD.base
    assert Spaces(project=None, user=SPACES.user).system_base is None


def test_outside_a_project_there_are_two_tiers() -> None:
    spaces = Spaces(project=None, user=SPACES.user, bundles=(STANDARD,))

    assert [space.label for space in spaces] == ["user", "system:ryeos"]


def test_a_space_has_its_folders() -> None:
    assert STANDARD.ai == BASE / "ryeos" / ".ai"
    assert STANDARD.directory(Kind.KNOWLEDGE) == BASE / "ryeos" / ".ai" / "knowledge"
    assert STANDARD.bundle_id == "ryeos"
    assert SPACES.user.bundle_id == ""


def test_a_location_is_spelled_as_manifests_do() -> None:
    path = STANDARD.ai / "tools" / "a" / "B.PY"
    location = Location(ref=ItemRef(Kind.TOOL, "a/B"), space=STANDARD, path=path)

    assert (location.relative, location.suffix) == ("tools/a/B.PY", ".py")
