import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.refs import ItemRef, Kind
from ryeos.trust.extractors import EXTRACTORS, extract, problems

TOOL = {"version": "1.0.0", "tool_type": "python", "category": "a", "description": "d"}
DIRECTIVE = {
    "name": "x",
    "version": "1.0.0",
    "description": "d",
    "category": "a",
    "author": "me",
}
KNOWLEDGE = {"name": "x", "title": "t", "version": "1.0.0", "entry_type": "fact"}
CONFIG = {"version": "1.0.0", "category": "a"}
GOOD = {
    Kind.TOOL: TOOL,
    Kind.DIRECTIVE: DIRECTIVE,
    Kind.KNOWLEDGE: KNOWLEDGE,
    Kind.CONFIG: CONFIG,
}
BLOCK = """\
# X

```xml
<directive name="x" version="1.0.0">
<metadata>
<description>d</description>
<category>a</category>
<author>me</author>
<custom>kept</custom>
</metadata>
</directive>
```
"""


def of(kind: Kind, **changes: object) -> tuple[str, ...]:
    """The problems of a valid header with changes; None removes a field."""
    return problems(ItemRef(kind, "a/x"), GOOD[kind] | changes)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_good_header_has_no_problems(kind: Kind) -> None:
    assert of(kind) == ()


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, rule.field) for kind in Kind for rule in EXTRACTORS[kind].rules if rule.required],
)
def test_a_required_field_that_is_missing_is_named(kind: Kind, field: str) -> None:
    assert of(kind, **{field: None}) == (f"Missing required field: {field}",)


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        (Kind.TOOL, {"version": 1.0}, "Field 'version' must be a string, got number"),
        (
            Kind.TOOL,
            {"version": "1.0"},
            "Field 'version' must be semver format (X.Y.Z), got '1.0'",
        ),
        (
            Kind.TOOL,
            {"version": "1.0.0-rc1"},
            "Field 'version' must be semver format (X.Y.Z), got '1.0.0-rc1'",
        ),
        (
            Kind.TOOL,
            {"version": "1.0.0\n"},
            "Field 'version' must be semver format (X.Y.Z), got '1.0.0\n'",
        ),
        (
            Kind.TOOL,
            {"version": "\u0661.0.0"},
            "Field 'version' must be semver format (X.Y.Z), got '\u0661.0.0'",
        ),
        (Kind.TOOL, {"category": "b"}, "Field 'category' value 'b' must match path category 'a'"),
        (Kind.TOOL, {"category": ""}, "Field 'category' value '' must match path category 'a'"),
        (Kind.TOOL, {"category": ["a"]}, "Field 'category' must be a string, got list"),
        (Kind.TOOL, {"description": ""}, "Missing required field: description"),
        (Kind.DIRECTIVE, {"name": "y"}, "Field 'name' value 'y' must match filename 'x'"),
        (Kind.KNOWLEDGE, {"name": 5}, "Field 'name' must be a string, got integer"),
        (
            Kind.KNOWLEDGE,
            {"category": "b"},
            "Field 'category' value 'b' must match path category 'a'",
        ),
        (Kind.CONFIG, {"category": True}, "Field 'category' must be a string, got boolean"),
    ],
)
def test_a_wrong_value_is_a_problem(kind: Kind, changes: dict[str, object], expected: str) -> None:
    assert of(kind, **changes) == (expected,)


def test_each_wrong_field_is_reported_with_its_first_problem() -> None:
    assert of(Kind.DIRECTIVE, name="Y", version="1", author=None) == (
        "Field 'name' value 'Y' must match filename 'x'",
        "Field 'version' must be semver format (X.Y.Z), got '1'",
        "Missing required field: author",
    )


@pytest.mark.parametrize("name", ["X", "1x", "x-y", "x.y", "_x", "é"])
def test_a_directive_has_a_name_in_snake_case(name: str) -> None:
    ref = ItemRef(Kind.DIRECTIVE, f"a/{name}")

    found = problems(ref, DIRECTIVE | {"name": name})

    assert found == (f"Field 'name' must be snake_case, got '{name}'",)


def test_an_item_at_the_root_has_an_empty_category() -> None:
    ref = ItemRef(Kind.TOOL, "x")

    assert problems(ref, TOOL | {"category": ""}) == ()
    assert problems(ref, TOOL) == ("Field 'category' value 'a' must match path category ''",)


def test_knowledge_may_go_without_a_category() -> None:
    assert of(Kind.KNOWLEDGE, category=None) == ()


def test_a_value_of_any_length_is_shown_in_short() -> None:
    (problem,) = of(Kind.TOOL, version="9" * 10_000)

    assert len(problem) < 150


# --- from the text of a file ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "suffix", "text"),
    [
        (
            Kind.TOOL,
            ".py",
            (
                '__version__ = "1.0.0"\n__tool_type__ = "python"\n'
                '__category__ = "a"\n__tool_description__ = "d"\n'
            ),
        ),
        (
            Kind.TOOL,
            ".yaml",
            'version: "1.0.0"\ntool_type: python\ncategory: a\ndescription: d\n',
        ),
        (Kind.DIRECTIVE, ".md", BLOCK),
        (
            Kind.KNOWLEDGE,
            ".md",
            '```yaml\nid: x\ntitle: t\nversion: "1.0.0"\nentry_type: fact\n```\n',
        ),
        (
            Kind.KNOWLEDGE,
            ".yaml",
            'name: x\ntitle: t\nversion: "1.0.0"\nentry_type: fact\n',
        ),
        (Kind.CONFIG, ".toml", 'version = "1.0.0"\ncategory = "a"\n'),
    ],
)
def test_every_format_gives_the_same_names(kind: Kind, suffix: str, text: str) -> None:
    header = extract(kind, suffix, text, "x")

    assert {field: header[field] for field in GOOD[kind]} == GOOD[kind]


def test_unknown_fields_are_kept() -> None:
    assert extract(Kind.TOOL, ".yaml", "mine: [1, 2]\n", "x")["mine"] == [1, 2]
    assert extract(Kind.DIRECTIVE, ".md", BLOCK, "x")["custom"] == "kept"


@pytest.mark.parametrize(
    ("kind", "suffix", "text"),
    [
        (Kind.TOOL, ".py", "("),
        (Kind.TOOL, ".yaml", "a: ["),
        (Kind.DIRECTIVE, ".md", "prose"),
        (Kind.KNOWLEDGE, ".md", "```yaml\na: [\n```\n"),
        (Kind.KNOWLEDGE, ".yaml", "a: ["),
        (Kind.CONFIG, ".toml", "a"),
    ],
)
def test_a_text_that_cannot_be_parsed_is_reported(kind: Kind, suffix: str, text: str) -> None:
    with pytest.raises(MetadataError) as error:
        extract(kind, suffix, text, f"a/x{suffix}")

    assert str(error.value).startswith(f"a/x{suffix}: ")


def test_fields_that_matter_more_weigh_more_in_a_search() -> None:
    weights = EXTRACTORS[Kind.TOOL].search_fields

    assert weights["name"] > weights["description"] > weights["content"]
