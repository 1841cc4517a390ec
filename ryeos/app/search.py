"""``search``: find items."""

import json
import re
from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.values import replace
from ryeos.app.parameters import ALL, LOAD_ONLY, LOCAL, REGISTRY, SEARCH_ONLY
from ryeos.app.verb_arguments import project_of, rye_of, valid_arguments
from ryeos.app.verbs import TOOLS
from ryeos.app.workspace import Rye
from ryeos.items.errors import Answer, InvalidQueryError, VerbArgumentError
from ryeos.items.refs import EXECUTABLE_KINDS, ItemRef, Kind, Reference, is_part, parse_reference
from ryeos.search.filters import wants_verification
from ryeos.search.records import parse_item, preview
from ryeos.search.scope import SearchScope, parse_scope
from ryeos.search.search import DEFAULT_LIMIT, LOCAL_TIERS, Hit, SearchRequest, SearchResult, SortBy
from ryeos.search.search import search as find
from ryeos.trust.resolver import suggestions

DESCRIPTION_CHARACTERS = 160
# What an answer of ten hits may take: a model pays for each of them.
BYTES_PER_HIT = 600
_WORD = re.compile(r"\w+")
_OPERATORS = frozenset({"and", "or", "not"})
_DEFAULT_SLIPS, _DEFAULT_DISTANCE = 1, 5
_MAX_SLIPS, _MAX_DISTANCE = 2, 1000


def search(rye: Rye, arguments: Mapping[str, object]) -> Answer:
    """The items that match; of a query that breaks the grammar its words are searched.

    Raises VerbArgumentError, InvalidQueryError, RyeError `NO_PROJECT`.
    """
    values = valid_arguments(TOOLS["search"], arguments)
    here = rye_of(rye, values)
    try:
        return search_checked(here, values)
    except InvalidQueryError as error:
        found = _WORD.findall(values["query"])
        words = " ".join(word for word in found if word.lower() not in _OPERATORS)
        if not words:
            raise
        answer = search_checked(here, {**values, "query": words})
        note = f"{error}; searched for the words instead: {words}"
        return Answer({**answer.envelope, "warnings": [note]}, answer.exit_status)


def search_checked(rye: Rye, values: Mapping[str, Any]) -> Answer:
    """Search by checked arguments, whatever project they name."""
    scope = parse_scope(values.get("scope", ""))
    kind = _kind(values["item_type"], scope)
    if values["source"] == REGISTRY:
        from ryeos.app.published import search_published

        return search_published(rye, values, kind, scope.prefix)
    request = SearchRequest(
        query=values["query"],
        kinds=(kind,) if kind else EXECUTABLE_KINDS,
        tiers=LOCAL_TIERS
        if values["source"] in {ALL, LOCAL}
        else frozenset((str(values["source"]),)),
        prefix=scope.prefix,
        limit=values["limit"],
        offset=values["offset"],
        sort_by=SortBy(values["sort_by"]),
        fields=_fields(values.get("fields", {})),
        filters=values.get("filters", {}),
        max_slips=_option(values, "fuzzy", _DEFAULT_SLIPS, _MAX_SLIPS) or 0,
        max_distance=_option(values, "proximity", _DEFAULT_DISTANCE, _MAX_DISTANCE),
    )
    # Parts of other items are found by words alone: no list of everything needs them.
    is_list = not values["query"].strip() and not values.get("scope")
    request = replace(
        request,
        is_visible=lambda ref: not (is_list and is_part(ref.id)) and is_visible(rye, ref),
    )
    result = find(rye.catalog, request, lambda text: _suggestions(rye, text))
    return Answer(_envelope(rye, values, kind, request, result))


def _suggestions(rye: Rye, text: str) -> tuple[str, ...]:
    """References like a text, of those that the catalog has: that takes no walk of all folders."""
    meant = suggestions(Reference(None, text), rye.catalog.refs(EXECUTABLE_KINDS))
    refs = (parse_reference(ref).refs()[0] for ref in meant)
    return tuple(str(ref) for ref in refs if is_visible(rye, ref))


def is_visible(rye: Rye, ref: ItemRef) -> bool:
    """True if a caller may know of an item."""
    try:
        rye.require_visible(ref)
    except LilluxError:
        return False
    return True


def _kind(item_type: str, scope: SearchScope) -> Kind | None:
    kind = None if item_type == ALL else Kind(item_type)
    if kind and scope.kind and kind is not scope.kind:
        raise VerbArgumentError(
            "scope", f"says {scope.kind.value} where item_type is {kind.value}", hint="give one"
        )
    return kind or scope.kind


def _fields(fields: Mapping[str, object]) -> dict[str, str]:
    for name, text in fields.items():
        if not isinstance(text, str):
            raise VerbArgumentError(f"fields.{name}", f"expected a query, found {text!r:.60}")
    return {name: str(text) for name, text in fields.items()}


def _option(values: Mapping[str, Any], name: str, default: int, most: int) -> int | None:
    """The distance of ``{enabled, max_distance}``; None where it is not enabled."""
    option = values.get(name)
    if option is None:
        return None
    unknown = [key for key in option if key not in {"enabled", "max_distance"}]
    if unknown:
        raise VerbArgumentError(
            f"{name}.{unknown[0]}"[:60], f"{name} has no such key", hint="enabled, max_distance"
        )
    enabled, distance = option.get("enabled", True), option.get("max_distance", default)
    if not isinstance(enabled, bool):
        raise VerbArgumentError(f"{name}.enabled", f"expected true or false, found {enabled!r:.60}")
    if not isinstance(distance, int) or isinstance(distance, bool) or not 0 <= distance <= most:
        problem = f"expected 0 to {most}, found {distance!r:.60}"
        raise VerbArgumentError(f"{name}.max_distance", problem)
    return distance if enabled else None


def _envelope(
    rye: Rye,
    values: Mapping[str, Any],
    kind: Kind | None,
    request: SearchRequest,
    result: SearchResult,
) -> dict[str, Any]:
    end = request.offset + len(result.hits)
    item_type = kind.value if kind else ALL
    envelope: dict[str, Any] = {
        "status": "success",
        "mode": "query",
        "results": _shortened([_describe(rye, hit) for hit in result.hits]),
        "total": result.total,
        "returned": len(result.hits),
        "query": request.query,
        "item_type": item_type,
        "scope": values.get("scope") or ("*" if item_type == ALL else item_type),
        "source": values["source"],
        "limit": request.limit,
        "offset": request.offset,
        "skipped": len(result.skipped),
        "search_type": "keyword",
        "project_path": project_of(rye),
    }
    if end < result.total:
        envelope["next_offset"] = end
    if result.relaxed:
        envelope["relaxed"] = result.relaxed
    if not result.total and request.query:
        envelope["suggestions"] = list(result.suggestions)
    if result.skipped:
        envelope["skipped_items"] = [
            {"ref": str(one.ref), "path": str(one.path)} for one in result.skipped[:DEFAULT_LIMIT]
        ]
    if wants_verification(request.filters):
        pairs = zip(envelope["results"], result.hits, strict=True)
        envelope["results"] = [described | _verified_fields(rye, hit) for described, hit in pairs]
    return envelope


def _describe(rye: Rye, hit: Hit) -> dict[str, Any]:
    """A hit. Without any text of an item that does not verify: a model would follow it."""
    document, location = hit.document, hit.document.record.location
    described: dict[str, Any] = {
        "id": location.ref.id,
        "ref": str(location.ref),
        "type": location.ref.kind.value,
        "name": location.ref.name,
        "title": location.ref.name,
        "description": "",
        "category": location.ref.category,
        "score": hit.score,
        "source": location.space.tier,
        "path": str(location.path),
        "preview": "",
        "signed": True,
        "metadata": {},
    }
    try:
        item = rye.verifier.verify_location(location)
        text, header = parse_item(location, item.data)
    except LilluxError as error:
        described |= {"signed": False, "integrity": error.code}
    else:
        record = replace(hit.document.record, header=header)  # of the bytes that were verified
        description = " ".join(record.description.split())
        described |= {
            "title": record.title or location.ref.name,
            "description": _cut(description, DESCRIPTION_CHARACTERS),
            "preview": preview(location, text),
            "signed": item.verified,
            "metadata": {"version": record.version, "tags": list(record.tags)},
        }
    if location.space.bundle_id:
        described["bundle"] = location.space.bundle_id
    if document.shadows:
        described["shadows"] = [{"source": label} for label in document.shadows]
    if document.shadowed_by:
        described["shadowed_by"] = document.shadowed_by
    return described


def _shortened(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The hits, their previews cut evenly so far as they are too much together."""
    size = len(json.dumps(results, ensure_ascii=False).encode("utf-8", "replace"))
    excess = size - max(BYTES_PER_HIT * len(results), 2 * BYTES_PER_HIT)
    if excess > 0:
        each = -(-excess // len(results))
        for described in results:
            described["preview"] = _cut(described["preview"], _room(described["preview"], each))
    return results


def _room(text: str, excess: int) -> int:
    """The number of characters that remain when so many bytes have to go."""
    left = len(text.encode("utf-8", "replace")) - excess
    return len(text.encode("utf-8", "replace")[: max(left, 0)].decode("utf-8", "ignore"))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most - 1, 0)]}…" if most else ""


def _verified_fields(rye: Rye, hit: Hit) -> dict[str, Any]:
    try:
        item = rye.verifier.verify_location(hit.document.record.location)
    except LilluxError as error:
        return {"verified": False, "integrity": error.code}
    return {"verified": item.verified}


# ``fetch``: `load` with an id, `search` with a query.


def fetch(rye: Rye, arguments: Mapping[str, object]) -> Answer:
    """The answer of the mode that the arguments choose. Raises VerbArgumentError and theirs."""
    values = valid_arguments(TOOLS["fetch"], arguments)
    if "item_id" in values and "query" in values:
        raise VerbArgumentError("item_id", "item_id or query, not both", hint="leave one out")
    if "item_id" in values:
        from ryeos.app.load import load

        _refuse(values, SEARCH_ONLY, "id")
        return load(rye, values)
    if not {"query", "scope"} & values.keys():
        raise VerbArgumentError(
            "item_id",
            "expected item_id to load an item, or query or scope to search, found none of them",
        )
    _refuse(values, LOAD_ONLY, "query")
    return search(rye, values)


def _refuse(values: Mapping[str, object], foreign: frozenset[str], mode: str) -> None:
    """Refuse an argument of the other mode, ``mode`` being the chosen one."""
    for name in values:
        if name in foreign:
            wanted = "item_id" if mode == "query" else "query"
            raise VerbArgumentError(
                name,
                f"not an argument of {mode} mode, expected only with {wanted}",
                hint=f"leave {name} out",
                mode=mode,
            )
