"""Templates that help gives: of items and of configuration."""

import json
from collections.abc import Mapping
from typing import Any

from ryeos.app.item_help import call_line
from ryeos.app.templates import TEMPLATES
from ryeos.app.topics import Face
from ryeos.items.refs import Kind, id_gives_rights

ITEM_TOPIC, ERROR_TOPIC, TEMPLATE_TOPIC = "item:", "error:", "template:"

KINDS = ("python", "bash", "yaml", "javascript", "http", "mcp", "graph", "directive", "knowledge")

_TRIED: Mapping[str, Any] = {"graph": {"folders": ["."]}, "knowledge": {}}


def template_text(kind: str, face: Face = Face.AGENT) -> str:
    """A complete item of a kind or language, where its file goes, and what to do; else ``""``."""
    if kind == Kind.CONFIG:
        return _configs()
    if kind.startswith(CONFIG_TOPIC):
        return config_template(kind.removeprefix(CONFIG_TOPIC), face)
    if kind not in KINDS:
        return ""
    item_kind = Kind(kind) if kind in {Kind.DIRECTIVE, Kind.KNOWLEDGE} else Kind.TOOL
    template = TEMPLATES[item_kind, "" if item_kind is not Kind.TOOL else kind]
    text = template.fill(name="example", category="mine", author="unknown")
    ref = f"{item_kind}:mine/example"
    call = call_line({"item_id": ref, "parameters": _TRIED.get(kind, {"name": "Ada"})}, face)
    sign = json.dumps({"item_id": ref, "content": "the text"})
    ways = {
        Face.PERSON: f"Write it, then: rye sign {ref}. Then: {call}",
        Face.AGENT: f"Write it and sign it in one call: sign {sign}. Then: {call}",
    }
    place = f".ai/{item_kind.directory}/mine/example{template.suffix}"
    return f"File {place}:\n\n{text}\n{ways[face]}"


CONFIG_TOPIC = "config:"
CONFIG_SUFFIXES = (".yaml", ".yml", ".toml")


def _configs() -> str:
    """The settings files that Rye reads, with what each is for."""
    from ryeos.app.config_templates import CONFIGS

    rows = (f"- {name}: {one.about}" for name, one in CONFIGS.items())
    return "\n".join(
        ["Files below .ai/config that Rye reads. A whole one: template:config:NAME", "", *rows]
    )


def _configs_named(name: str) -> list[str]:
    """The ids of the settings files of this id, path, folder or name."""
    from ryeos.app.config_templates import CONFIGS

    wanted = name.removeprefix(".ai/config/")
    for suffix in CONFIG_SUFFIXES:
        wanted = wanted.removesuffix(suffix)
    return [one for one in CONFIGS if wanted in {one, *one.split("/")}]


def templates_like(kind: str) -> list[str]:
    """The topics of the templates that may be meant."""
    meant = _configs_named(kind.removeprefix(CONFIG_TOPIC)) if kind.startswith(CONFIG_TOPIC) else []
    return [f"{TEMPLATE_TOPIC}{CONFIG_TOPIC}{one}" for one in meant] or [
        f"{TEMPLATE_TOPIC}{one}" for one in (*KINDS, Kind.CONFIG)
    ]


def config_template(name: str, face: Face) -> str:
    """A whole settings file, by its id, its path or its name alone, and what to do; else ``""``."""
    from ryeos.app.config_templates import CONFIGS

    meant = _configs_named(name)
    if len(meant) != 1:
        return ""
    (found,) = meant
    text = CONFIGS[found].text(found.partition("/")[0])
    return f"File .ai/config/{found}.yaml:\n\n{text}\n{_way_of_config(found, face)}"


def _way_of_config(config_id: str, face: Face) -> str:
    if face is Face.PERSON:
        return f"Write it with: rye new config {config_id}. Then: rye sign config:{config_id}"
    if id_gives_rights(config_id):
        return f"It gives rights: ask your user to run: rye new config {config_id} --space user"
    call = json.dumps({"item_id": f"config:{config_id}", "content": "the text"})
    return f"Write it and sign it in one call: sign {call}"
