"""The execution config of a chain, merged from primitive to tool. Pure.

A runtime may have variants of its config, by the suffix of the tool's file and by what the tool's
own config says.
"""

from collections.abc import Mapping
from typing import Any

from ryeos.errors import SpecError
from ryeos.executor.model import Chain
from ryeos.specs import type_name


def merged_config(chain: Chain) -> dict[str, Any]:
    """The execution config of a chain: primitive first, the tool's own on top."""
    merged: dict[str, Any] = {}
    own = dict(chain.tool.spec.config)
    suffix = chain.tool.item.target.suffix if chain.tool.item else ""
    for element in reversed(chain.elements[1:]):
        merged |= element.spec.config
        for variant in element.spec.variants:
            if _applies(variant, suffix, merged | own):
                merged |= variant["config"]
                break
    for name in script_keys(merged):
        own.pop(name, None)
    return merged | own


def _applies(variant: Mapping[str, Any], suffix: str, config: Mapping[str, Any]) -> bool:
    """Whether it is for tools with this suffix, and for what this config says."""
    suffixes, wanted = variant.get("suffixes"), variant.get("when") or {}
    if suffixes is None and not wanted:
        return False
    is_for_suffix = suffixes is None or suffix in suffixes
    return is_for_suffix and all(config.get(key) == value for key, value in wanted.items())


def script_keys(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a shell runtime looks for the tool's script, in order: its ``script_from``."""
    keys = config.get("script_from") or []
    if not isinstance(keys, list):
        raise SpecError("config.script_from", f"expected a list, got {type_name(keys)}")
    return tuple(key for key in keys if isinstance(key, str))
