import pytest

from lillux.signing import generate_keypair
from rye_services.registry.items import (
    MAX_CONTENT_BYTES,
    Publication,
    PublicationError,
    guessed_suffix,
    publication,
)
from rye_services.registry.names import item_name, version_of
from ryeos.items.refs import Kind
from ryeos.trust.signing_key import SigningKey
from tests.support.registry import item_text

SIGNER = SigningKey(generate_keypair())
YAML = """\
version: 1.0.0
tool_type: python
executor_id: rye/core/runtimes/python/script
category: ada/text
description: Counts
"""
JAVASCRIPT = """\
export const __version__ = "1.0.0";
export const __tool_type__ = "javascript";
export const __executor_id__ = "rye/core/runtimes/node/node";
export const __category__ = "ada/text";
export const __tool_description__ = "Counts";
"""
SHELL = "#!/bin/sh\necho hello\n"
PYTHON = item_text("tool", "ada/text/count")


def published(content: str, suffix: str | None = None, item_type: str = "tool") -> Publication:
    return publication(
        item_name(item_type, "ada/text/count"),
        version_of("1.0.0"),
        content,
        suffix=suffix,
        account="ada",
        keys={},
        signer=SIGNER,
    )


@pytest.mark.parametrize(
    ("content", "suffix", "beginning"),
    [
        (PYTHON, ".py", "# rye:signed:"),
        (YAML, ".yaml", "# rye:signed:"),
        (JAVASCRIPT, ".js", "// rye:signed:"),
        (SHELL, ".sh", "#!/bin/sh\n# rye:signed:"),
    ],
)
def test_the_form_of_the_signature_is_that_of_the_file(
    content: str, suffix: str, beginning: str
) -> None:
    made = published(content)

    assert made.suffix == suffix == guessed_suffix(Kind.TOOL, content)
    assert made.content.startswith(beginning)
    assert "|rye-registry@ada\n" in made.content
    assert published(made.content).source_hash == made.source_hash


def test_a_script_that_names_no_executor_is_published_as_the_version_that_it_names() -> None:
    text = SHELL.replace("echo", "# version: 1.2.0\necho")

    with pytest.raises(PublicationError) as refused:
        published(text, ".sh")

    assert "1.2.0" in str(refused.value.issues)


def test_a_given_suffix_is_used() -> None:
    assert published(YAML, ".yml").suffix == ".yml"
    assert published(YAML, ".yml").source_hash != published(YAML).source_hash


@pytest.mark.parametrize("suffix", [".json", ".exe", "", "py", "/../x.py", ".PY"])
def test_an_unknown_suffix_is_refused_and_an_empty_one_guessed(suffix: str) -> None:
    if not suffix:
        assert published(PYTHON, suffix).suffix == ".py"
        return
    with pytest.raises(PublicationError, match="suffix: expected"):
        published(PYTHON, suffix)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "x = 1\n",
        "\ufeff" + PYTHON,
        "\ud800",
        PYTHON + "(" * 100_000,
        "x" * (MAX_CONTENT_BYTES + 1),
        "# rye:signed:2026-01-01T00:00:00Z:junk\n" * 3 + PYTHON.replace("1.0.0", "9.9.9"),
        "&a [*a, *a]",
        "a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" * 3,
        "\0",
    ],
)
def test_content_that_is_not_an_item_is_refused(content: str) -> None:
    with pytest.raises(PublicationError):
        published(content)


def test_a_tool_with_an_invalid_schema_is_refused() -> None:
    with pytest.raises(PublicationError) as error:
        published(YAML + "config_schema: {type: wrong}\n")

    assert "wrong" in error.value.issues[0]
