"""Schemas of providers, prices and settings of threads.

`ryeos.app.settings` signs by the same.
"""

from collections.abc import Mapping
from typing import Any

from ryeos.agent.dialects import DIALECTS
from ryeos.agent.prices import RATES
from ryeos.agent.usage import UsageRules

FEATURES = ("tools", "parallel_tools", "images", "thinking", "cache", "max_completion_tokens")

Schema = Mapping[str, Any]


def _only(**keys: Schema) -> dict[str, Any]:
    return {"type": "object", "properties": keys, "additionalProperties": False}


_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 400}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 10**9}
_RATE: Schema = {"type": ["number", "string"], "minimum": 0}
_RATES: dict[str, Schema] = dict.fromkeys(RATES, _RATE)
_PRICES: Schema = _only(
    **_RATES,
    free=_FLAG,
    above={
        "type": "array",
        "items": {**_only(tokens=_COUNT, **_RATES), "required": ["tokens"]},
    },
)
_MODEL: Schema = _only(
    context=_COUNT,
    max_output=_COUNT,
    prices=_PRICES,
    free=_FLAG,
    features={"type": "array", "items": {"enum": list(FEATURES)}},
)

_FIGURE: Schema = {"type": "string"}

PROVIDER_SCHEMA: Schema = {
    **_only(
        dialect={"enum": list(DIALECTS)},
        base_url=_TEXT,
        headers={"type": "object", "additionalProperties": _TEXT},
        allow_plain=_FLAG,
        credential={"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
        models={"type": "object", "additionalProperties": _MODEL},
        usage=_only(**{**dict.fromkeys(UsageRules.__slots__, _FIGURE), "includes_cached": _FLAG}),
        schema=_only(
            root={"enum": ["keep", "merge"]},
            additional_properties={"enum": ["keep", "demand", "refuse"]},
            unsupported=_TEXTS,
        ),
        retry=_only(
            statuses={"type": "array", "items": _COUNT},
            codes=_TEXTS,
            never=_TEXTS,
            tries={"type": "integer", "minimum": 1, "maximum": 20},
        ),
    ),
    "required": ["dialect", "base_url"],
}
_MODELS_OF_TIER: Schema = {"type": ["string", "array"], "items": _TEXT, "minLength": 1}
_LIMITS: Schema = {"type": "object"}  # `read_limits` says more of it than a schema could

AGENT_SCHEMA: Schema = _only(
    tiers={"type": "object", "additionalProperties": _MODELS_OF_TIER},
    defaults=_LIMITS,
    ceilings=_LIMITS,
    daily=_only(spend={"type": ["number", "string"]}),
    compact=_TEXT,
    min_output=_COUNT,
    overhead=_COUNT,
    image_tokens=_COUNT,
)
PRICES_SCHEMA: Schema = _only(
    date=_TEXT,
    source=_TEXT,
    models={
        "type": "object",
        "additionalProperties": _only(context=_COUNT, max_output=_COUNT, **_PRICES["properties"]),
    },
)
