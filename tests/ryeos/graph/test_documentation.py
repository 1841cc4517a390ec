"""Every graph of docs/graphs.md is a graph without errors and warnings, and fits the schema."""

import re
from pathlib import Path

import jsonschema
import pytest

from ryeos.graph.pictures import picture_of
from ryeos.graph.reading import read_graph
from ryeos.graph.schemas import SCHEMAS
from ryeos.graph.svg import svg
from ryeos.items.yaml import parse_yaml

PAGE = Path(__file__).parents[3] / "docs" / "graphs.md"
GRAPHS = re.findall(
    r"^```yaml graph\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


def test_the_page_has_its_graphs() -> None:
    assert len(GRAPHS) == 3


@pytest.mark.parametrize("text", GRAPHS, ids=["routing", "failures", "retry"])
def test_a_graph_of_the_page_is_read_checked_and_drawn(text: str) -> None:
    data = parse_yaml(text, "graph")

    reading = read_graph(data, "demo/example")

    assert (reading.errors, reading.warnings) == ((), ())
    assert reading.graph is not None
    assert svg(picture_of(reading.graph)).startswith("<svg ")
    jsonschema.validate(data, SCHEMAS["graph"])
