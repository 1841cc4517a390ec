"""The bundle's extractors say as data what the tables in the code say: neither alone is changed."""

from typing import Any

import pytest

from ryeos.items.headers import NAMED_PARSERS, PARSERS, parse_header
from ryeos.items.refs import EXTRACTORS_FOLDER, Kind
from ryeos.trust.extractors import EXTRACTORS
from ryeos.trust.file_types import read_rules
from ryeos.trust.signature import FORMS, CommentForm
from tests.support.workspace import BUNDLE_SOURCE

# Rye's own list of a bundle's files is no item.
NO_ITEMS = {".manifest"}
MARKDOWN_PARSERS = {Kind.DIRECTIVE: "markdown/xml", Kind.KNOWLEDGE: "markdown/frontmatter"}


def extractor(kind: Kind) -> dict[str, Any]:
    """What the bundle's extractor of a kind says."""
    path = BUNDLE_SOURCE / "tools" / EXTRACTORS_FOLDER / kind / f"{kind}_extractor.yaml"
    return parse_header(".yaml", path.read_text("utf-8"), str(path))


def form_in(said: dict[str, Any], suffix: str) -> CommentForm:
    """The form of a signature line as an extractor says it."""
    form = said.get("signature_formats", {}).get(suffix) or said["signature_format"]
    end = f" {form['suffix']}" if "suffix" in form else ""
    return CommentForm(f"{form['prefix']} ", end, form["after_shebang"])


@pytest.mark.parametrize("kind", list(Kind))
def test_the_suffixes_of_a_kind_are_those_of_its_extractor_in_its_order(kind: Kind) -> None:
    assert tuple(extractor(kind)["extensions"]) == kind.suffixes


@pytest.mark.parametrize("kind", list(Kind))
def test_the_signature_lines_of_a_kind_are_those_of_its_extractor(kind: Kind) -> None:
    said = extractor(kind)

    told = {suffix: form_in(said, suffix) for suffix in said["extensions"]}
    known = {suffix: form for suffix, form in FORMS[kind].items() if suffix not in NO_ITEMS}
    assert told == known


@pytest.mark.parametrize("kind", list(Kind))
def test_the_rules_of_a_kind_are_those_of_its_extractor(kind: Kind) -> None:
    assert read_rules(extractor(kind)) == EXTRACTORS[kind].rules


@pytest.mark.parametrize("kind", list(Kind))
def test_the_weights_of_a_search_are_those_of_the_extractor(kind: Kind) -> None:
    assert extractor(kind)["search_fields"] == EXTRACTORS[kind].search_fields


@pytest.mark.parametrize("kind", [Kind.TOOL, Kind.CONFIG])
def test_a_header_is_read_by_the_parser_that_the_extractor_names(kind: Kind) -> None:
    told = {suffix: NAMED_PARSERS[name] for suffix, name in extractor(kind)["parsers"].items()}

    assert told == {suffix: PARSERS[suffix] for suffix in kind.suffixes}


@pytest.mark.parametrize("kind", MARKDOWN_PARSERS)
def test_texts_are_read_by_the_parser_of_their_kind(kind: Kind) -> None:
    assert extractor(kind)["parser"] == MARKDOWN_PARSERS[kind]
