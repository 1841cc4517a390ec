import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.knowledge import Knowledge, parse_knowledge

SIGNED = "<!-- rye:signed:x -->\n"
COVERED = SIGNED + "<!-- rye:covers:all:y -->\n"


def test_the_first_yaml_block_is_the_metadata_and_the_rest_the_body() -> None:
    text = SIGNED + "\n# Title\n\n```yaml\nname: a\n```\n\nText.\n\n```yaml\nname: example\n```\n"

    assert parse_knowledge(text, ".md") == Knowledge(
        {"name": "a"}, "# Title\n\nText.\n\n```yaml\nname: example\n```"
    )


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".YML"])
def test_a_yaml_file_is_metadata_only(suffix: str) -> None:
    assert parse_knowledge(SIGNED + "name: a\n", suffix) == Knowledge({"name": "a"}, "")


@pytest.mark.parametrize("above", ["", SIGNED, COVERED])
def test_front_matter_is_metadata(above: str) -> None:
    text = above + "---\nname: a\ntags: [b]\n--- \n\n# Title\n\n---\n\nText.\n"

    assert parse_knowledge(text, ".md") == Knowledge(
        {"name": "a", "tags": ["b"]}, "# Title\n\n---\n\nText."
    )


def test_a_block_further_down_is_part_of_a_text_with_front_matter() -> None:
    text = "---\nname: a\n---\n\n# Title\n\n```yaml\nname: b\n```\n"

    assert parse_knowledge(text, ".md").metadata == {"name": "a"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": expected a closed ```yaml block or --- front matter, found neither"),
        (SIGNED, ": expected a closed ```yaml block or --- front matter, found neither"),
        ("<!-- rye:x -->", ": expected a closed ```yaml block or --- front matter, found neither"),
        ("Note: prose", ": expected a closed ```yaml block or --- front matter, found neither"),
        ("```yaml\na: 1\n", ": expected a closed ```yaml block or --- front matter, found neither"),
        (
            SIGNED + "---\na: 1\n",
            ", line 2: expected a line --- to close the front matter, found the end of the file",
        ),
        (
            "---\na: 1\n---\n\n```yaml\nb: 1\n```\n",
            ", line 3: expected one header, found front matter and a ```yaml block",
        ),
        (SIGNED + "---\na: 1\na: 2\n---\n", ", line 4: expected each key once, found 'a' twice"),
        ("\n```yaml\n- a\n```\n", ", line 3: expected a mapping, found a sequence"),
    ],
)
def test_a_problem_is_named_with_the_line_of_the_file(text: str, problem: str) -> None:
    with pytest.raises(MetadataError) as error:
        parse_knowledge(text, ".md")

    assert str(error.value) == f"knowledge header{problem}"


def test_a_problem_in_a_yaml_file_is_named_with_the_line_of_the_file() -> None:
    with pytest.raises(MetadataError) as error:
        parse_knowledge(SIGNED + "a: 1\na: 2\n", ".yaml")

    assert str(error.value) == "knowledge header, line 3: expected each key once, found 'a' twice"
