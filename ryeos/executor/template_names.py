"""The names that templates of a chain may use. See ``docs/templates.md``. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

from lillux.templating import Names
from ryeos.executor.calls import Materials

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def template_names(materials: Materials, fixed: Mapping[str, object]) -> Names:
    """The engine's names (`engine_values`), then the chain's config, then the caller's values."""
    return Names(
        variables=materials.env.variables,
        fixed=fixed,
        templates=materials.config,
        opaque=materials.values.tool,
    )


def engine_values(materials: Materials) -> dict[str, object]:
    """The values that neither a config nor a caller can name otherwise."""
    return {
        **materials.anchor.names,
        "tool_id": materials.chain.tool.item_id,
        "params_json": params_text(materials.values.tool),
        "timeout": materials.timeout_s,
    }


def params_text(values: Mapping[str, Any]) -> str:
    """What a tool reads: one JSON object. Characters that no encoding holds are written as escapes.

    Parameters are JSON by then; a configuration file may hold dates, which become text.
    """
    text = json.dumps(dict(values), ensure_ascii=False, default=str)
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
