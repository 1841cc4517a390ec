"""The template of each settings file that Rye reads: it is valid, has every key, and can be had."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lillux.key_files import save_keypair
from ryeos.agent.provider_schemas import AGENT_SCHEMA
from ryeos.agent.providers import AGENT_PATH
from ryeos.app.config_templates import CONFIGS
from ryeos.app.help import help_on
from ryeos.app.settings import SETTINGS, settings_problems
from ryeos.app.sign import sign
from ryeos.app.topics import MAX_CHARACTERS, Face
from ryeos.items.headers import parse_header
from ryeos.items.refs import id_gives_rights
from tests.support.workspace import Workspace

SCHEMAS = {**SETTINGS, AGENT_PATH: AGENT_SCHEMA["properties"]}


def template(config_id: str) -> str:
    """The whole file."""
    return CONFIGS[config_id].text(config_id.partition("/")[0])


def keys(schema: Mapping[str, Any]) -> Iterator[str]:
    """The keys that a schema names, at any depth."""
    for name, below in schema.get("properties", {}).items():
        yield name
        yield from keys(below)
    for below in (schema.get("additionalProperties"), schema.get("items")):
        if isinstance(below, Mapping):
            yield from keys(below)


def test_each_settings_file_has_a_template() -> None:
    assert {f"{config_id}.yaml" for config_id in CONFIGS} == set(SCHEMAS)


@pytest.mark.parametrize("config_id", CONFIGS)
def test_a_template_of_a_config_is_valid(config_id: str) -> None:
    values = parse_header(".yaml", template(config_id), config_id)

    assert list(settings_problems(f"{config_id}.yaml", values)) == []


@pytest.mark.parametrize("config_id", CONFIGS)
def test_a_template_of_a_config_has_every_key(config_id: str) -> None:
    named = set(re.findall(r"\b\w+(?=:)|\b\w+(?= is an older word)", template(config_id)))

    assert {*keys({"properties": SCHEMAS[f"{config_id}.yaml"]})} <= named


@pytest.mark.parametrize("config_id", [one for one in CONFIGS if not id_gives_rights(one)])
def test_a_template_of_a_config_is_signed_as_it_is(config_id: str, workspace: Workspace) -> None:
    rye = workspace.rye()
    save_keypair(rye.context.key_directory, workspace.keypair)

    signed = sign(rye, {"item_id": f"config:{config_id}", "content": template(config_id)})

    assert signed.envelope["status"] == "signed"


@pytest.mark.parametrize("face", Face)
@pytest.mark.parametrize("config_id", CONFIGS)
def test_help_gives_a_whole_config_by_its_id_and_its_path(
    config_id: str, face: Face, workspace: Workspace
) -> None:
    for name in (config_id, f"{config_id}.yaml", f".ai/config/{config_id}.yaml"):
        answered = help_on(workspace.rye, f"template:config:{name}", face).envelope
        assert template(config_id) in answered["content"]
        assert len(answered["content"]) < MAX_CHARACTERS


def test_help_gives_a_config_by_the_name_of_its_file(workspace: Workspace) -> None:
    content = help_on(workspace.rye, "execution.yaml").envelope["content"]

    assert template("execution/execution") in content


def test_a_name_that_several_configs_have_lists_them(workspace: Workspace) -> None:
    content = help_on(workspace.rye, "template:config:policy").envelope

    assert content["did_you_mean"] == [
        "template:config:agents/policy",
        "template:config:sandbox/policy",
    ]


def test_help_lists_the_configs(workspace: Workspace) -> None:
    content = help_on(workspace.rye, "template:config").envelope["content"]

    assert [name for name in CONFIGS if name not in content] == []


@pytest.mark.parametrize("config_id", CONFIGS)
def test_help_tells_an_agent_how_it_writes_a_config_or_who_does(
    config_id: str, workspace: Workspace
) -> None:
    content = help_on(workspace.rye, f"template:config:{config_id}").envelope["content"]

    is_asked = f"ask your user to run: rye new config {config_id} --space user" in content
    assert is_asked == id_gives_rights(config_id)
    assert (f'sign {{"item_id": "config:{config_id}"' in content) != is_asked
