"""Offers to a model: the tools that it may call, with their schemas."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lillux.digests import sha256_hex
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.agent.messages import ToolOffer
from ryeos.graph.capabilities import Capabilities, denial
from ryeos.items.refs import Kind

RETURN = "directive_return"
MAX_NAME = 64
_UNSAFE = pattern(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PermittedItem:
    """An item that a thread may execute. ``schema`` is that of its parameters."""

    reference: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """The tools of a request, and the item that each name stands for."""

    offers: tuple[ToolOffer, ...]
    items: Mapping[str, str]


def offered(
    items: Sequence[PermittedItem] | None,
    grants: Sequence[Capabilities],
    outputs: Mapping[str, Mapping[str, Any]],
) -> Offered:
    """Offers to a model: each item by itself where they are few, else the three verbs (None).

    ``outputs`` are the declared ones, by name: with any, the model ends with `directive_return`.
    """
    offers: list[ToolOffer] = []
    named: dict[str, str] = {}
    if items is not None:
        names = aliases(one.reference for one in items)
        for item in items:
            name = names[item.reference]
            named[name] = item.reference
            offers.append(
                ToolOffer(
                    name=name,
                    description=f"{item.description} ({item.reference})"[:1000],
                    schema=item.schema,
                )
            )
    else:
        offers.append(_EXECUTE)
    if denial("load", Kind.KNOWLEDGE.value, "*", grants) is None or offers:
        offers.append(LOAD_OFFER)
    if denial("fetch", None, "", grants) is None or items is None:
        offers.append(SEARCH_OFFER)
    if outputs:
        offers.append(_return_offer(outputs))
    return Offered(offers=tuple(offers), items=named)


def aliases(references: Iterable[str]) -> dict[str, str]:
    """A name for each item, of letters that every provider takes; no two items share one.

    It has the last segment of the id. The name of an item does not depend on which others are
    offered, unless another item has the same last segment: then both get a part of their digest.
    """
    references = sorted(set(references))
    short = {one: _alias(one) for one in references}
    taken = [
        *short.values(),
        *(offer.name for offer in (_EXECUTE, LOAD_OFFER, SEARCH_OFFER)),
        RETURN,
    ]
    return {
        one: name
        if taken.count(name) == 1
        else f"{name[: MAX_NAME - 7]}_{sha256_hex(one.encode())[:6]}"
        for one, name in short.items()
    }


def _alias(reference: str) -> str:
    segment = reference.partition(":")[2].rpartition("/")[2]
    return _UNSAFE.sub("_", segment)[:MAX_NAME].strip("_") or "item"


def _object_schema(required: Sequence[str], **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _words(description: str) -> Mapping[str, Any]:
    return {"type": "string", "description": description}


_EXECUTE = ToolOffer(
    name="execute",
    description="Run an item, like tool:rye/bash/bash, with its parameters.",
    schema=_object_schema(
        ("item_id",),
        item_id=_words("kind:id; search finds ids, load shows parameters"),
        parameters={"type": "object", "description": "What the item takes"},
    ),
)
LOAD_OFFER = ToolOffer(
    name="load",
    description="Read an item, or the rest of a long result at its rye://thread/... address.",
    schema=_object_schema(
        ("item_id",),
        item_id=_words("kind:id, or an address of a result"),
        offset={"type": "integer", "minimum": 0, "description": "First character"},
    ),
)
SEARCH_OFFER = ToolOffer(
    name="search",
    description="Find items by words.",
    schema=_object_schema(("query",), query=_words("Words")),
)


def _return_offer(outputs: Mapping[str, Mapping[str, Any]]) -> ToolOffer:
    properties = {
        name: {key: one[key] for key in ("type", "description") if one.get(key)}
        for name, one in outputs.items()
    }
    required = [name for name, one in outputs.items() if one.get("required")]
    return ToolOffer(
        name=RETURN,
        description="Give the results, and end. Call it once, alone, when all is done.",
        schema=_object_schema(required, **properties),
    )
