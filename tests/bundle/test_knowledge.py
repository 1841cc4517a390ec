"""The bundle's texts for agents are true: its files sign, its calls answer as it says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ryeos.items.knowledge import parse_knowledge
from ryeos.items.refs import Kind, Space
from ryeos.mcp.hints import COMMAND
from tests.support.built import ROOT, Machine
from tests.support.knowledge_pages import ANSWER, CALL, Block, blocks, holds
from tests.support.mcp_client import McpClient

KNOWLEDGE = ROOT / "bundle.ai" / "knowledge"
PAGES = sorted(KNOWLEDGE.rglob("*.md"))
DIRECTIVES = sorted((ROOT / "bundle.ai" / "directives").rglob("*.md"))
CONCEPTS = (
    "rye/core/ai-directory",
    "rye/core/executor-chain",
    "rye/core/three-tier-spaces",
    "rye/core/signing-and-integrity",
    "rye/core/templating-systems",
    "rye/core/terminology",
    "rye/core/configuration",
    "rye/core/capability-strings",
    "rye/core/input-interpolation",
    "rye/core/parsers",
    "rye/core/processes",
    "rye/core/runtimes/standard-runtimes",
    "rye/core/runtimes/runtime-authoring",
    "rye/core/runtimes/state-graph-runtime",
    "rye/core/remote/remote-operations",
    "rye/core/cas/object-kinds",
    "rye/core/registry/registry-api",
    "rye/core/registry/trust-model",
    "rye/core/bundler/bundle-format",
    "rye/authoring/tool-format",
    "rye/authoring/directive-format",
    "rye/authoring/knowledge-format",
    "rye/authoring/metadata-patterns",
    "rye/primary/search-semantics",
    "rye/primary/load-semantics",
    "rye/primary/execute-semantics",
    "rye/primary/sign-semantics",
    "rye/file-system/file-operations",
    "rye/bash/bash-execution",
    "rye/web/web-access",
    "rye/mcp/mcp-integration",
    "rye/testing/item-tests",
)


QUESTIONS = (
    ("how do I sign a tool", "knowledge:rye/primary/sign-semantics"),
    ("how do I test my tool", "knowledge:rye/testing/item-tests"),
    ("create a new tool", "directive:rye/authoring/create_tool"),
    ("create a new directive", "directive:rye/authoring/create_directive"),
    ("why was my item refused", "knowledge:rye/core/signing-and-integrity"),
    ("can I override a system tool", "knowledge:rye/core/three-tier-spaces"),
    ("push my project to a server", "knowledge:rye/core/remote/remote-operations"),
    ("run a command in the background", "knowledge:rye/core/processes"),
    ("how do I run a shell command", "tool:rye/bash/bash"),
    ("edit lines of a file", "knowledge:rye/file-system/file-operations"),
    ("fetch a web page", "knowledge:rye/web/web-access"),
    ("add an MCP server", "knowledge:rye/mcp/mcp-integration"),
    ("how do I write a state graph", "knowledge:rye/core/runtimes/state-graph-runtime"),
    ("which runtimes are there", "knowledge:rye/core/runtimes/standard-runtimes"),
    ("add a new runtime for a language", "knowledge:rye/core/runtimes/runtime-authoring"),
    ("what may a graph call", "knowledge:rye/core/capability-strings"),
    ("header of a tool in python", "knowledge:rye/authoring/tool-format"),
    ("format of a directive", "knowledge:rye/authoring/directive-format"),
    ("write a knowledge page", "knowledge:rye/authoring/knowledge-format"),
    ("search syntax", "knowledge:rye/primary/search-semantics"),
    ("copy a system tool into my project", "knowledge:rye/primary/load-semantics"),
    ("how do I run a tool with parameters", "knowledge:rye/primary/execute-semantics"),
    ("placeholders in a command template", "knowledge:rye/core/templating-systems"),
    ("inputs of a directive", "knowledge:rye/core/input-interpolation"),
    ("what do the words of Rye mean", "knowledge:rye/core/terminology"),
    ("where do files of a project go", "knowledge:rye/core/ai-directory"),
    ("publish a bundle", "knowledge:rye/core/registry/registry-api"),
    ("manifest of a bundle", "knowledge:rye/core/bundler/bundle-format"),
    ("can I trust a registry", "knowledge:rye/core/registry/trust-model"),
    ("pull an item from a registry", "knowledge:rye/core/registry/registry-api"),
    ("how is a tool executed", "knowledge:rye/core/executor-chain"),
    ("what is a snapshot object", "knowledge:rye/core/cas/object-kinds"),
    ("required fields of an item", "knowledge:rye/authoring/metadata-patterns"),
    ("how does Rye read a header without running it", "knowledge:rye/core/parsers"),
    ("what to do when approval is required", "knowledge:rye/primary/sign-semantics"),
    ("cancel a running thread", "knowledge:rye/core/processes"),
    ("review an item before signing", "directive:rye/core/review_item"),
)


_MAY_SIGN = 'version: "1.0.0"\ncategory: agents\nsign: allow\n'


@pytest.fixture
def agent(machine: Machine) -> Iterator[McpClient]:
    """An agent over MCP that may sign, for a user with a key, in an empty project."""
    machine.run("keys", "generate")
    policy = machine.home / ".ai" / "config" / "agents" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text(_MAY_SIGN, encoding="utf-8")
    command = [*machine.rye, "mcp", "--project", str(machine.project)]
    log = machine.temporary / "mcp.log"
    with McpClient(command, env=machine.environ(), cwd=machine.project, stderr=log) as client:
        client.initialize()
        yield client


def page_id(page: Path) -> str:
    """Its id."""
    return page.relative_to(KNOWLEDGE).with_suffix("").as_posix()


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_example_of_a_page_works_as_described(
    page: Path, agent: McpClient, machine: Machine
) -> None:
    said: object = None
    for block in blocks(page):
        match block.role:
            case "person":
                for words in block.commands:
                    ended = machine.run(*words)
                    assert ended.returncode == 0, ended.stderr
            case "call":
                said = agent.envelope(block.value["name"], **block.value["arguments"])
            case "answer":
                assert holds(block.value, said), f"line {block.line}: {said}"
            case path:
                (machine.project / path).parent.mkdir(parents=True, exist_ok=True)
                (machine.project / path).write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_call_of_a_page_has_an_answer_to_it(page: Path) -> None:
    roles = [block.role for block in blocks(page) if block.role in {CALL, ANSWER}]

    assert roles == [CALL, ANSWER] * (len(roles) // 2)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_page_can_be_found_by_its_subject(page: Path) -> None:
    metadata = parse_knowledge(page.read_text("utf-8"), ".md").metadata

    assert metadata["name"] == page.stem
    assert metadata["category"] == page_id(page).rpartition("/")[0]
    assert len(metadata["tags"]) > 2
    assert len(metadata["description"]) > 20


def test_every_concept_has_its_page() -> None:
    missing = set(CONCEPTS) - set(map(page_id, PAGES))

    assert not missing


def test_pages_refer_only_to_existing_pages(bundle: Space) -> None:
    pages = {page_id(page) for page in PAGES}
    wrong = [
        (page_id(page), name)
        for page in PAGES
        for name in parse_knowledge(page.read_text("utf-8"), ".md").metadata.get("references", [])
        if name not in pages
    ]

    assert not wrong
    published = bundle.ai / Kind.KNOWLEDGE.directory
    assert all((published / f"{name}.md").is_file() for name in pages)


# A paragraph, or a row of a table.
_PLACES = re.compile(r"\n\n|\n(?=\|)|\n(?=\d\. )")
_PEOPLE = ("a person", "the person", "person you work for", "people", "console person")


@pytest.mark.parametrize("page", [*PAGES, *DIRECTIVES], ids=lambda page: page.stem)
def test_a_command_stands_only_where_a_person_types_it(page: Path) -> None:
    places = _PLACES.split(page.read_text("utf-8"))

    commands = [place for place in places if COMMAND.search(place)]
    for_people = [one for one in commands if any(word in one.lower() for word in _PEOPLE)]
    after = [one for at, one in enumerate(places) if "Ask them to run:" in places[at - 1]]
    assert [one for one in commands if one not in for_people and one not in after] == []


def test_an_answer_is_compared_only_by_the_keys_of_the_page() -> None:
    found = {"status": "success", "data": {"total": 3, "text": "a long text"}, "more": [1]}

    assert holds({"data": {"text": "a ... text"}}, found)
    assert not holds({"data": {"total": 4}}, found)
    assert not holds({"missing": None}, found)
    assert not holds({"more": []}, found)
    assert Block(CALL, '{"a": 1}', 1).value == {"a": 1}


def test_each_question_finds_its_answer_first_or_second(agent: McpClient) -> None:
    missed = [
        (question, found)
        for question, ref in QUESTIONS
        if ref not in (found := first_two(agent, question))
    ]

    assert len(QUESTIONS) >= 30
    assert missed == []


def first_two(agent: McpClient, question: str) -> list[str]:
    """The references of the first two hits of a search."""
    answer = agent.envelope("search", query=question, limit=2)
    return [f"{hit['kind']}:{hit['id']}" for hit in answer["results"]]
