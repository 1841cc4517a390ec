"""Graphs as pictures: well-formed, complete, and coloured by the state of a run."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.graph.graphviz import dot
from ryeos.graph.layout import MAX_BENDS, LayoutArrow, Size, lay_out
from ryeos.graph.mermaid import mermaid
from ryeos.graph.pictures import Arrow, Box, NodeState, Outline, Picture, picture_of
from ryeos.graph.reading import read_graph
from ryeos.graph.svg import svg, text_width

SVG = "{http://www.w3.org/2000/svg}"
NODES = {
    "add": {
        "action": {"item_id": "tool:demo/add"},
        "on_error": "patch",
        "next": [
            {"to": "fan", "when": {"all": [{"path": "state.n", "op": "gte", "value": 3}]}},
            {"to": "add", "when": {"not": {"path": "state.n", "op": "exists"}}},
            {"to": "done"},
        ],
    },
    "fan": {
        "type": "foreach",
        "over": "${inputs.nums}",
        "as": "n",
        "parallel": True,
        "action": {"primary": "fetch", "item_id": "knowledge:x"},
        "next": "add",
    },
    "patch": {"type": "gate", "next": "done"},
    "done": {"type": "return"},
}
MERMAID = """\
flowchart TD
    begin((" "))
    begin --> n0
    n0("add<br/>tool:demo/add")
    n1[["fan<br/>fetch knowledge:x<br/>for n in ${inputs.nums}, in parallel"]]
    n2{{"patch"}}
    n3(["done"])
    n0 -->|"state.n \u2265 3"| n1
    n0 -->|"not state.n exists"| n0
    n0 -->|"else"| n3
    n0 -.->|"error"| n2
    n1 --> n0
    n2 --> n3"""
DOT = """\
digraph "demo/x" {
    node [fontname="Helvetica,sans-serif" fontsize=11]
    edge [fontname="Helvetica,sans-serif" fontsize=9]
    begin [shape=point width=0.15 label=""]
    begin -> n0"""
TEXTS = st.text(max_size=20)


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own text


def picture(
    nodes: Mapping[str, Any] = NODES, states: Mapping[str, NodeState] | None = None
) -> Picture:
    reading = read_graph({"config": {"start": next(iter(nodes)), "nodes": nodes}}, "demo/x")
    assert reading.graph is not None
    return picture_of(reading.graph, states)


def chain_of(count: int) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    for index in range(count - 1):
        back = {"to": f"n{index * 7 % count}", "when": {"path": "state.again"}}
        nodes[f"n{index}"] = {"type": "gate", "next": [back, {"to": f"n{index + 1}"}]}
    return {**nodes, f"n{count - 1}": {"type": "return"}}


def test_a_graph_is_a_mermaid_flowchart() -> None:
    assert mermaid(picture()) == MERMAID


def test_a_run_is_a_flowchart_with_a_class_for_each_state() -> None:
    text = mermaid(picture(states={"add": NodeState.COMPLETED, "fan": NodeState.ERROR}))

    assert text.split("\n")[-6:] == [
        "    classDef pending fill:#ffffff,stroke:#afb8c1,color:#6e7781,stroke-width:2px",
        "    class n2,n3 pending",
        "    classDef completed fill:#dafbe1,stroke:#1a7f37,color:#1f2328,stroke-width:2px",
        "    class n0 completed",
        "    classDef error fill:#ffebe9,stroke:#cf222e,color:#1f2328,stroke-width:2px",
        "    class n1 error",
    ]


def test_no_text_ends_a_label_of_mermaid() -> None:
    box = Box(key="n0", lines=('"]; click `#quot; <b>&\n%%',))

    text = mermaid(Picture(title="x", boxes=[box], arrows=[]))

    assert text.split("\n")[1] == ('    n0["&quot;]; click #96;#35;quot; &lt;b&gt;&amp; #37;#37;"]')


def test_a_graph_is_a_digraph_of_graphviz() -> None:
    text = dot(picture(states={"fan": NodeState.RUNNING}))

    assert text.startswith(DOT)
    assert 'label="fan\\nfetch knowledge:x\\nfor n in ${inputs.nums}, in parallel"' in text
    assert "subgraph cluster_legend {" in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_reads_the_digraph() -> None:
    awkward = {'a "b\\': {"type": "gate", "next": "\\n{|}"}, "\\n{|}": {"type": "return"}}

    for drawn in (picture(awkward), picture(states={"add": NodeState.ERROR})):
        ended = subprocess.run(
            ["dot", "-Tplain"],
            input=dot(drawn),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")


def test_a_graph_is_a_well_formed_svg_with_every_node_and_edge() -> None:
    root = parsed(svg(picture()))

    titles = [group.findtext(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    ends = [path.get("marker-end") for path in root.iter(f"{SVG}path") if path.get("marker-end")]
    assert root.findtext(f"{SVG}title") == "demo/x"
    assert [title for title in titles if title] == [
        "add - tool:demo/add",
        "fan - fetch knowledge:x - for n in ${inputs.nums}, in parallel",
        "patch",
        "done",
    ]
    assert sorted(map(str, ends)) == ["url(#arrow)"] * 6 + ["url(#failed)"]


def test_a_run_is_an_svg_with_states_and_a_legend_of_them() -> None:
    states = {"add": NodeState.COMPLETED, "fan": NodeState.ERROR}
    root = parsed(svg(picture(states=states)))

    shown = {group.get("id"): group.get("data-state") for group in root.iter(f"{SVG}g")}
    legend = [text.text for text in root.findall(f"{SVG}text")]
    assert shown | {"n0": "completed", "n1": "error", "n2": "pending", "n3": "pending"} == shown
    assert legend == ["pending", "completed", "error"]


def test_a_picture_names_no_address_outside_itself() -> None:
    text = svg(picture()).replace("http://www.w3.org/2000/svg", "")

    assert re.findall(r"https?:|href|<script|<style|@import|url\([^#]", text) == []


@given(title=TEXTS, line=TEXTS, label=TEXTS)
def test_any_text_gives_well_formed_xml(title: str, line: str, label: str) -> None:
    boxes = [Box(key="n0", lines=(line, line), outline=Outline.STACK, state=NodeState.RUNNING)]
    arrows = [Arrow(source="n0", target="n0", label=label)]

    parsed(svg(Picture(title=title, boxes=boxes, arrows=arrows, start="n0")))


def test_a_hundred_nodes_do_not_lie_upon_each_other() -> None:
    text = svg(picture(chain_of(100)))

    root = parsed(text)
    assert len([group for group in root.iter(f"{SVG}g") if group.get("id")]) == 100


LINES = st.lists(
    st.builds(
        LayoutArrow,
        source=st.integers(0, 11),
        target=st.integers(0, 11),
        label=st.none() | st.just(Size(60, 16)),
    ),
    max_size=30,
)


@pytest.mark.property
@given(lines=LINES)
def test_no_two_boxes_overlap_and_every_line_runs_from_box_to_box(lines: list[LayoutArrow]) -> None:
    sizes = [Size(40 + 10 * index, 36) for index in range(12)]

    layout = lay_out(sizes, lines)

    areas = sorted(
        (round(centre.y, 3), centre.x - size.width / 2, centre.x + size.width / 2)
        for centre, size in zip(layout.centres, sizes, strict=True)
    )
    for one, other in pairwise(areas):
        assert one[0] != other[0] or one[2] <= other[1] + 0.001
    assert min(area[1] for area in areas) >= -0.001
    assert max(area[2] for area in areas) <= layout.size.width + 0.001
    for line, route in zip(lines, layout.routes, strict=True):
        assert (route is None) == (line.source == line.target)
        if route:
            for point, box in ((route.points[0], line.source), (route.points[-1], line.target)):
                centre, size = layout.centres[box], sizes[box]
                assert abs(point.x - centre.x) <= size.width / 2
                assert abs(point.y - centre.y) == pytest.approx(size.height / 2)
            for point in route.points[1:-1]:
                assert not any(
                    abs(point.x - centre.x) < size.width / 2
                    and abs(point.y - centre.y) < size.height / 2
                    for centre, size in zip(layout.centres, sizes, strict=True)
                )


@pytest.mark.heavy
def test_a_graph_with_very_many_long_arrows_is_drawn_soon() -> None:
    lines = [LayoutArrow(source=index, target=index + 1) for index in range(1999)]
    lines += [LayoutArrow(source=0, target=index, label=Size(9, 9)) for index in range(2, 2000)]

    layout = lay_out([Size(40, 30)] * 2000, lines)

    bends = [len(route.points) - 2 for route in layout.routes if route]
    assert sum(bends) <= MAX_BENDS
    assert bends[-1] == 0
    assert all(route and route.label for route in layout.routes[1999:])


def test_boxes_that_follow_each_other_stand_below_each_other() -> None:
    lines = [
        LayoutArrow(source=0, target=1),
        LayoutArrow(source=1, target=2),
        LayoutArrow(source=2, target=0),
    ]

    layout = lay_out([Size(40, 30)] * 3, lines)

    assert [centre.y for centre in layout.centres] == [15.0, 93.0, 171.0]
    assert layout.centres[0].y < layout.centres[1].y < layout.centres[2].y


def test_a_picture_of_an_empty_graph_is_a_picture() -> None:
    parsed(svg(Picture(title="", boxes=[], arrows=[])))


def test_wide_characters_take_more_room() -> None:
    widths = [text_width(text, 10) for text in ("iii", "nnn", "mmm", "\u5b57\u5b57\u5b57")]

    assert widths == sorted(widths)
    assert text_width("n", 10, is_bold=True) > text_width("n", 10)
