"""Knowledge items, as a caller gets them."""

import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.refs import ItemRef, Kind
from ryeos.items.rendering import KNOWLEDGE_INSTRUCTIONS, render_knowledge
from tests.support.workspace import Workspace

REF = ItemRef(Kind.KNOWLEDGE, "mine/fact")
FENCED = "```yaml\ntitle: A fact\nversion: '1.0.0'\n```\n\nBody {input:x} ${HOME} {env:HOME}.\n"


def test_a_text_is_given_with_its_metadata_and_its_placeholders_stay() -> None:
    envelope = render_knowledge(FENCED, REF, ".md")

    body = "Body {input:x} ${HOME} {env:HOME}."
    assert envelope == {
        "status": "success",
        "type": "knowledge",
        "item_id": "mine/fact",
        "content": body,
        "data": {"id": "mine/fact", "title": "A fact", "content": body},
        "your_directions": KNOWLEDGE_INSTRUCTIONS,
        "metadata": {"title": "A fact", "version": "1.0.0"},
    }


def test_front_matter_is_a_header_too() -> None:
    envelope = render_knowledge("---\nname: fact\n---\nThe body.\n", REF, ".md")

    assert (envelope["content"], envelope["metadata"]) == ("The body.", {"name": "fact"})
    assert envelope["data"]["title"] is None


@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_a_yaml_file_is_all_header_and_given_whole(suffix: str) -> None:
    text = "title: Table\nrows: [1, 2]\n"

    envelope = render_knowledge(text, REF, suffix)

    assert envelope["content"] == text
    assert envelope["metadata"] == {"title": "Table", "rows": [1, 2]}


def test_a_dry_run_gives_the_metadata_alone() -> None:
    assert render_knowledge(FENCED, REF, ".md", dry_run=True) == {
        "status": "validation_passed",
        "type": "knowledge",
        "item_id": "mine/fact",
        "message": "knowledge:mine/fact can be read",
        "metadata": {"title": "A fact", "version": "1.0.0"},
    }


@pytest.mark.parametrize("text", ["no header\n", "```yaml\n- a\n```\n", "```yaml\na: [\n```\n"])
def test_a_text_without_a_header_is_refused(text: str) -> None:
    with pytest.raises(MetadataError):
        render_knowledge(text, REF, ".md")


def test_a_signed_file_gives_its_text_without_the_signature(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.knowledge("mine/fact", "Water is wet."))
    workspace.project.signed("knowledge/mine/table.yaml", _table())

    fact = workspace.render("knowledge:mine/fact").envelope
    table = workspace.render("knowledge:mine/table").envelope

    assert fact["content"] == "Water is wet."
    assert fact["metadata"]["coverage"] == "full"
    assert table["content"] == _table()


def _table() -> str:
    return (
        'name: table\ntitle: table\nentry_type: reference\ncategory: mine\nversion: "1.0.0"\n'
        "rows: [1]\n"
    )
