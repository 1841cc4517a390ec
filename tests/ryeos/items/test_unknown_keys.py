"""Which keys are reported as unused."""

from typing import Any

import pytest

from ryeos.items.specs import SPELLINGS, tool_spec
from ryeos.items.unknown_keys import BLOCKS, unknown_key_warnings

RUNTIME = {"tool_type": "runtime", "executor_id": None}


def warnings(header: dict[str, Any], suffix: str = ".yaml") -> list[str]:
    return list(unknown_key_warnings(tool_spec(header, suffix), suffix, "mine/r"))


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("confg", "config"),
        ("Config", "config"),
        ("env-config", "env_config"),
        ("verify_dep", "verify_deps"),
        ("anchors", "anchor"),
        ("variant", "variants"),
        ("config_schma", "config_schema"),
    ],
)
def test_a_mistyped_key_in_a_runtime_is_reported_with_the_nearest_key(
    key: str, nearest: str
) -> None:
    expected = f"mine/r: unknown key {key!r} is not used: did you mean {nearest}?"

    assert warnings({**RUNTIME, key: {}}) == [expected]


def test_a_key_like_no_other_is_reported_without_a_guess() -> None:
    assert warnings({**RUNTIME, "planet": [1]}) == [
        "mine/r: unknown key 'planet' is not used (list)"
    ]


def test_every_spelling_of_every_field_is_known() -> None:
    for names in SPELLINGS.values():
        for name in names:
            suffix = ".yaml" if name[0].islower() else ".py"
            value: object = {} if name.strip("_").lower() == "sandbox" else None
            said = {"tool_type": "runtime", name: value, "executor_id": None}
            assert warnings(said, suffix) == []


@pytest.mark.parametrize(
    "key",
    ["author", "tags", "license", "created_at", "native_resume", "x-any", "_any"],
)
def test_keys_for_people_and_registries_are_not_reported(key: str) -> None:
    assert warnings({**RUNTIME, key: "anything"}) == []


def test_a_tool_may_carry_any_key() -> None:
    assert warnings({"tool_type": "python", "executor_id": "x", "confg": {}, "planet": 1}) == []


def test_constants_of_code_are_reported_only_where_they_come_close_to_a_key() -> None:
    constants = {
        "GREETING": "hi",
        "LIMIT": 3,
        "__author__": "me",
        "__docstring__": "x",
        "CONFIGS": {},
    }
    header = {"__tool_type__": "runtime", "__executor_id__": None, **constants}

    expected = "mine/r: unknown key 'CONFIGS' is not used: did you mean CONFIG?"
    assert warnings(header, ".py") == [expected]


def test_the_name_of_an_interpreter_block_is_free() -> None:
    block = {"type": "system_binary", "binary": "mcp", "var": "RYE_MCP"}
    env_config = {"mcp_runner": block, "env": {}, "unset": [], "env_policy": "minimal"}

    assert warnings({**RUNTIME, "env_config": env_config}) == []
    assert warnings({**RUNTIME, "env_config": {"enviroment": {}}}) == [
        "mine/r: env_config: unknown key 'enviroment' is not used (mapping)"
    ]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("tool_type", ["runtime", "python"])
def test_blocks_of_the_engine_are_read_closely_wherever_they_are(
    block: str, tool_type: str
) -> None:
    header = {"tool_type": tool_type, "executor_id": None, block: {"enable": True, "enabled": True}}

    expected = f"mine/r: {block}: unknown key 'enable' is not used: did you mean enabled?"
    assert warnings(header) == [expected]


def test_a_variant_has_suffixes_and_config() -> None:
    variants = [{"suffixes": [".sh"], "config": {}}, {"suffix": [".sh"], "config": {}}]

    assert warnings({**RUNTIME, "variants": variants}) == [
        "mine/r: variants[1]: unknown key 'suffix' is not used: did you mean suffixes?"
    ]


def test_a_variant_may_say_when_it_applies() -> None:
    variant = {"when": {"binary": "x"}, "suffixes": [".sh"], "config": {}}

    assert warnings({**RUNTIME, "variants": [variant]}) == []
