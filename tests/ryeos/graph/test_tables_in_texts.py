"""Help, knowledge and pages name the operators, pipes, retries, blocks and limits of the code."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.patterns import pattern
from ryeos.app.progress import ToolProgress
from ryeos.app.topics import TOPICS, topic_text
from ryeos.graph.operators import ALIASES, OPERATORS
from ryeos.graph.pipes import PIPES
from ryeos.graph.schemas import SCHEMAS
from ryeos.items.yaml import parse_yaml
from ryeos.mcp.content_blocks import problem_of, valid_blocks
from ryeos.run.http_config import MAX_ATTEMPTS
from ryeos.run.limits import BUILT_IN

ROOT = Path(__file__).parents[3]
GRAPHS = (ROOT / "docs/graphs.md").read_text("utf-8")
KNOWLEDGE = (ROOT / "bundle.ai/knowledge/rye/core/runtimes/state-graph-runtime.md").read_text(
    "utf-8"
)
TEXTS: Mapping[str, str] = {
    **{f"help {name}": topic_text(name) for name in TOPICS},
    **{
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for folder in ("docs", "bundle.ai")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".md", ".yaml", ".py"} and "reference" not in path.parts
    },
}
ARGUMENT = pattern(r":(?:'[^']*'|[\w.]+)")


def listed(text: str, label: str) -> set[str]:
    """The names of a list in a text, like ``Pipes: json, join:', '.``, without arguments."""
    (found,) = re.findall(rf"{label}: (.*?)(?:;|\.\s)", text, re.DOTALL)
    return {one.strip(" `\n") for one in ARGUMENT.sub("", found).split(",")}


def first_cells(page: str, head: str) -> Iterator[str]:
    """The first cell of each row of the table that begins with this line."""
    for line in page.partition(head)[2].lstrip().splitlines()[1:]:
        if not line.startswith("|"):
            return
        yield line.split("|")[1]


def named(cells: Iterator[str]) -> set[str]:
    """What stands in backticks, without arguments."""
    return {one.partition(":")[0] for cell in cells for one in re.findall(r"`([^`]+)`", cell)}


def properties_of(schema: Any, name: str) -> Iterator[set[str]]:  # noqa: ANN401 - JSON
    """The keys that a schema gives to each property of a name, wherever it stands."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == name and isinstance(value, dict) and "properties" in value:
                yield set(value["properties"])
            yield from properties_of(value, name)


@pytest.mark.parametrize("text", [topic_text("graphs"), KNOWLEDGE], ids=["help", "knowledge"])
def test_help_and_knowledge_list_every_operator_and_every_pipe(text: str) -> None:
    assert listed(text, "Operators") == set(OPERATORS)
    assert listed(text, "Pipes") == set(PIPES)


def test_the_page_of_graphs_has_every_operator_and_every_pipe() -> None:
    pipes = list(first_cells(GRAPHS, "| pipe | gives | of |"))
    of_null = {name for name in PIPES if PIPES[name].sees_none}

    assert named(first_cells(GRAPHS, "| op | is true when |")) == {*OPERATORS, *ALIASES}
    assert named(iter(pipes)) == set(PIPES)
    assert named(one for one in pipes if "*" in one) == of_null


def test_every_retry_that_is_shown_has_the_keys_of_a_node_or_of_a_request() -> None:
    node = next(properties_of(SCHEMAS["graph"], "retry"))
    client = ROOT / "bundle.ai/tools/rye/core/primitives/http_client.yaml"
    request = next(properties_of(parse_yaml(client.read_text("utf-8"), "client"), "retry"))
    shown = {
        (where, frozenset(re.findall(r"(\w+):", block)))
        for where, text in TEXTS.items()
        for block in re.findall(r"retry: \{([^{}]+)\}", text)
    }
    page = TEXTS["docs/http.md"]

    assert len(shown) > 4
    assert [one for one in shown if not (one[1] <= node or one[1] <= request)] == []
    assert "`{max, backoff, delay}`" in GRAPHS
    assert node == {"max", "backoff", "delay"}
    assert max(keys for where, keys in shown if where == "docs/http.md") == request
    assert f"at most {MAX_ATTEMPTS} attempts" in page


def test_every_block_of_content_that_is_shown_is_one_and_every_type_is_named() -> None:
    shown = {
        where: re.findall(r'\{"mcp_content": (\[\{.*?\}\])\}', text)
        for where, text in TEXTS.items()
    }
    types = problem_of({"type": "other"}).partition("expected one of ")[2].partition(", found")[0]
    pages = ("docs/mcp.md", "bundle.ai/knowledge/rye/authoring/tool-format.md")

    for text in (one for found in shown.values() for one in found):
        assert valid_blocks(json.loads(text))[1] == []
    for page in pages:
        assert shown[page]
        assert f"types {', '.join(f'`{one}`' for one in types.split(', '))}" in TEXTS[page]


def test_every_line_of_progress_that_is_shown_is_reported() -> None:
    shown = {
        (where, line)
        for where, text in TEXTS.items()
        for line in re.findall(r"::rye-progress \{[^}]*\}", text)
    }

    for where, line in shown:
        told: list[tuple[float, float | None, str]] = []
        with ToolProgress(lambda *said, told=told: told.append(said)) as progress:
            progress.feed(f"{line}\n".encode())
        said = json.loads(line.partition(" ")[2])
        assert told == [(said["progress"], said["total"], said["message"])], where
    assert {where for where, _ in shown} >= {
        "docs/mcp.md",
        "bundle.ai/knowledge/rye/authoring/tool-format.md",
    }


def test_limits_are_the_same_in_the_settings_of_the_bundle_the_knowledge_and_the_pages() -> None:
    shipped = parse_yaml(TEXTS["bundle.ai/config/execution/execution.yaml"], "limits")
    of_knowledge = {name: int(number) for name, number in re.findall(r"`(\w+): (\d+)`", KNOWLEDGE)}
    (steps, calls) = re.findall(r"\| `max_steps`, `max_concurrency` \| (\d+), (\d+) \|", GRAPHS)[0]

    assert shipped["defaults"] == of_knowledge == BUILT_IN
    assert {"max_steps": int(steps), "max_concurrency": int(calls)}.items() <= BUILT_IN.items()
    assert f"\n8. {BUILT_IN['timeout']} seconds\n" in TEXTS["docs/running.md"]
