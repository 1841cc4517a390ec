import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import PurePosixPath
from pkgutil import walk_packages
from typing import Any

import pytest

import lillux
import ryeos.app.workspace
from lillux.errors import LilluxError
from lillux.key_files import save_keypair
from lillux.values import replace
from ryeos import __version__
from ryeos.app.help import error_codes
from ryeos.app.help import help as help_tool
from ryeos.app.template_help import KINDS
from ryeos.app.topics import (
    MAIN_TOOLS,
    MAX_CHARACTERS,
    SEE_ALSO,
    TOPICS,
    Face,
    text_for,
    topic_text,
)
from ryeos.app.verb_arguments import valid_arguments, with_options
from ryeos.app.verbs import TOOLS
from ryeos.items.error_table import error_table
from ryeos.mcp.hints import COMMAND
from tests.support.workspace import ROOT, Workspace

BUNDLE = ROOT / "bundle.ai"
TOPICS_OF_AGENTS = [
    "overview",
    "search",
    "load",
    "execute",
    "sign",
    "fetch",
    "directives",
    "tools",
    "knowledge",
    "spaces",
    "signing",
    "runtimes",
    "chain",
    "graphs",
    "remote",
    "registry",
    "config",
    "errors",
    "setup",
    "mcp",
    "cli",
    "bundle",
    "test",
]


def helped(workspace: Workspace, topic: str = "overview") -> dict[str, Any]:
    """The answer to a call for help."""
    return dict(help_tool(workspace.rye(), {"topic": topic}).envelope)


@pytest.mark.parametrize("topic", TOPICS_OF_AGENTS)
def test_every_topic_has_a_short_text(workspace: Workspace, topic: str) -> None:
    answered = helped(workspace, topic)

    assert (answered["status"], answered["topic"]) == ("success", topic)
    assert 0 < len(answered["content"]) <= MAX_CHARACTERS
    assert topic in answered["topics"]
    assert answered["see_also"]


def test_every_topic_under_see_also_exists() -> None:
    named = {name for names in SEE_ALSO.values() for name in names}

    assert named <= set(TOPICS)


def test_every_item_of_the_bundle_that_a_topic_names_exists() -> None:
    texts = map(topic_text, TOPICS)
    ids = {name for text in texts for name in re.findall(r"\brye/[\w/-]+\w\b", text)}
    files = [path for path in BUNDLE.rglob("*") if path.is_file()]
    known = {
        path.relative_to(BUNDLE).with_suffix("").as_posix().partition("/")[2] for path in files
    }
    folders = {parent.as_posix() for name in known for parent in PurePosixPath(name).parents}

    assert ids - known - folders == set()
    assert set(MAIN_TOOLS) <= known


def test_the_overview_names_the_tools_to_know_first(workspace: Workspace) -> None:
    content = helped(workspace)["content"]

    assert "- tool:rye/bash/bash: any command" in content.splitlines()


def test_the_overview_has_live_facts(workspace: Workspace) -> None:
    workspace.project.tool("mine/a")
    workspace.user.tool("mine/b")
    before = helped(workspace)["content"].splitlines()
    save_keypair(workspace.context().key_directory, workspace.keypair)
    after = helped(workspace)["content"].splitlines()

    assert f"- version: {__version__}" in before
    assert f"- project: {workspace.project_path}" in before
    assert "- items in project: 1" in before
    assert "- items in user: 1" in before
    assert "- signing key: no key" in before
    assert "Next: ask your user to make a signing key: rye keys generate" in before
    assert f"- signing key: {workspace.fingerprint}" in after


def test_outside_a_project_the_overview_says_so(workspace: Workspace) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    rye = workspace.rye(spaces=replace(workspace.context().spaces, project=None))

    content = help_tool(rye, {}).envelope["content"]

    assert "- project: none" in content
    assert "Next: name a project" in content


def test_an_item_shows_its_inputs_and_a_call(workspace: Workspace) -> None:
    answered = helped(workspace, "item:tool:rye/bash/bash")

    assert "- command (string, required)" in answered["content"]
    call = {"item_id": "tool:rye/bash/bash", "parameters": {"command": "git status --short"}}
    assert f"Call: execute {json.dumps(call)}" in answered["content"]


@pytest.mark.parametrize("topic", ["item:tool:nowhere", "item:", "item:../x", "item:tool:mine/a"])
def test_an_item_that_cannot_be_shown_is_no_failure(topic: str, workspace: Workspace) -> None:
    workspace.project.tool("mine/a")  # it is unsigned

    answered = helped(workspace, topic)

    assert (answered["status"], answered["topic"]) == ("success", "available_topics")
    assert (answered["asked"], "  spaces " in answered["content"]) == (topic, True)


def test_a_missing_item_leads_to_similar_ones(workspace: Workspace) -> None:
    answered = helped(workspace, "item:tool:rye/bash/bahs")

    assert answered["did_you_mean"][0] == "item:tool:rye/bash/bash"
    assert answered["content"].startswith("Tool not found: rye/bash/bahs")


@pytest.mark.parametrize("code", error_codes())
def test_every_listed_code_is_explained(workspace: Workspace, code: str) -> None:
    answered = helped(workspace, f"error:{code}")

    assert answered["topic"] == f"error:{code}"
    assert len(answered["content"].splitlines()) > 2


def _failures(of: type[LilluxError]) -> Iterator[type[LilluxError]]:
    yield of
    for below in of.__subclasses__():
        if below.__module__.startswith(("lillux", "ryeos")):
            yield from _failures(below)


def test_every_code_of_a_failure_is_explained() -> None:
    for package in (lillux, ryeos):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)

    assert {one.code for one in _failures(LilluxError)} - set(error_table()) == set()


def test_help_on_an_unused_code_says_so(workspace: Workspace) -> None:
    content = helped(workspace, "error:REMOTE_ERROR")["content"]

    assert "Not used by this version; it says REMOTE_REFUSED instead." in content


def test_help_on_a_code_says_when_it_occurs(workspace: Workspace) -> None:
    content = helped(workspace, "error:unsigned")["content"]

    assert "The item has no signature line, and nothing unsigned runs.\n" in content


@pytest.mark.parametrize(
    ("topic", "meant"),
    [
        ("graph", "graphs"),
        ("Tool", "tools"),
        ("loads", "load"),
        ("signning", "signing"),
        ("serach", "search"),
        ("keys", "signing"),
        ("run", "execute"),
        ("help", "overview"),
        ("unsigned", "error:UNSIGNED"),
        ("error:UNSIGND", "error:UNSIGNED"),
        ("rye/bash/bash", "item:rye/bash/bash"),
        ("tool:rye/bash/bash", "item:tool:rye/bash/bash"),
    ],
)
def test_a_topic_with_an_obvious_typing_mistake_is_answered(
    workspace: Workspace, topic: str, meant: str
) -> None:
    assert helped(workspace, topic) == helped(workspace, meant)
    assert helped(workspace, meant)["topic"] == meant


def test_an_unknown_topic_is_no_failure(workspace: Workspace) -> None:
    answered = helped(workspace, "paramaters of a chian")

    assert (answered["status"], answered["topic"]) == ("success", "available_topics")
    assert answered["did_you_mean"][0] == "parameters"
    assert "  spaces " in answered["content"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_is_a_whole_item_with_its_calls(workspace: Workspace, kind: str) -> None:
    text = helped(workspace, f"template:{kind}")["content"]

    place, _, rest = text.partition(":\n\n")
    body, _, calls = rest.rpartition("\nWrite it and sign it in one call: ")
    path = place.removeprefix("File .ai/")
    workspace.project.write(path, body)
    assert "@" not in body
    assert '"item_id"' in calls
    target = workspace.project.target(workspace.project_path / ".ai" / path)
    workspace.signer().sign(target)


def test_a_template_of_an_unknown_kind_lists_the_kinds(workspace: Workspace) -> None:
    answered = helped(workspace, "template:perl")

    assert answered["did_you_mean"] == [f"template:{kind}" for kind in (*KINDS, "config")]


def test_an_error_is_explained_with_its_fix(workspace: Workspace) -> None:
    text = helped(workspace, "error:UNSIGNED")["content"]

    assert '- read the whole file first, then: sign {"item_id": "tool:a/b"}' in text


_CALL = re.compile(r"(?:^ *|: |; )(execute|load|search|sign|help|fetch) (?=\{)", re.MULTILINE)


def _calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a text shows: a tool and its arguments."""
    read = json.JSONDecoder().raw_decode
    return [(found[1], read(text, found.end())[0]) for found in _CALL.finditer(text)]


def _spoken() -> list[str]:
    """Every topic, template and code."""
    codes = [f"error:{code}" for code in error_codes()]
    return [*TOPICS_OF_AGENTS, *TOPICS, *(f"template:{kind}" for kind in KINDS), *codes]


def _commands(text: str) -> list[str]:
    """The commands of rye in a text, each behind the sentence that it stands in."""
    sentences = re.split(r"(?<=[.;])\s|\n\n|\n(?=\s*-)", text)
    return [one for one in sentences if COMMAND.search(one)]


def test_to_agents_every_topic_names_calls_and_a_command_only_for_their_user(
    workspace: Workspace,
) -> None:
    texts = {topic: helped(workspace, topic)["content"] for topic in _spoken()}
    commands = {
        topic: wrong
        for topic, text in texts.items()
        if (wrong := [one for one in _commands(text) if "user" not in one])
    }
    flags = {
        topic: found
        for topic, text in texts.items()
        if not topic.startswith(("template:", "mcp"))
        if (found := re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    }

    assert commands == {}
    assert flags == {}


def test_every_call_that_a_topic_shows_can_be_made_as_it_stands(workspace: Workspace) -> None:
    calls = [found for topic in _spoken() for found in _calls(helped(workspace, topic)["content"])]

    assert len(calls) > 60
    for name, arguments in calls:
        valid_arguments(TOOLS[name], with_options(arguments))


def test_to_people_every_topic_names_commands_and_no_calls() -> None:
    texts = {topic: text_for(topic_text(topic), Face.PERSON) for topic in TOPICS}
    rows = error_table().values()
    codes = {row.code: text_for("\n".join(row.remedies), Face.PERSON) for row in rows}

    assert [name for name, text in (texts | codes).items() if _CALL.search(text)] == []
    assert [name for name, text in (texts | codes).items() if '"item_id"' in text] == []


@pytest.mark.parametrize("face", Face)
def test_no_topic_is_cut(face: Face) -> None:
    texts = {name: text_for(topic_text(name), face) for name in TOPICS}

    assert {name for name, text in texts.items() if len(text) > MAX_CHARACTERS} == set()
    assert {name for name, text in texts.items() if max(map(len, text.splitlines())) > 100} == set()
    assert {name for name, text in texts.items() if not text.splitlines()[0]} == set()


def test_the_shape_of_a_list_is_one_line(workspace: Workspace) -> None:
    text = helped(workspace, "item:rye/file-system/edit_lines")["content"]

    assert "action?: replace|delete|insert_after|insert_before, line?: string, new_text?: s" in text
