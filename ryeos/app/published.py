"""``search`` and ``load`` with source ``registry``: published items.

A registry is asked only where a call says so: nothing that is typed into a search of one's own
spaces leaves the machine.
"""

from collections.abc import Mapping
from typing import Any

from ryeos.app.parameters import ALL, REGISTRY
from ryeos.app.verb_arguments import project_of
from ryeos.app.workspace import Rye
from ryeos.items.context import utc_now
from ryeos.items.errors import Answer, VerbArgumentError
from ryeos.items.refs import Kind, Reference
from ryeos.remote.placed_items import ItemPlacer, Replace
from ryeos.remote.registry import open_registry, registries_of
from ryeos.remote.registry_ids import published_ref, valid_version
from ryeos.remote.registry_items import PulledItem, verify_pulled

_LOCAL_ONLY = ("fields", "filters", "fuzzy", "proximity")
_NOT_YET = "it does not run yet: read it, then sign it with the tool sign"


def search_published(rye: Rye, values: Mapping[str, Any], kind: Kind | None, prefix: str) -> Answer:
    """The published items that have every word. ``prefix`` is a namespace, and a category of it.

    Raises VerbArgumentError for what only a search of local spaces has, and what asking raises.
    """
    for name in _LOCAL_ONLY:
        if values.get(name):
            raise VerbArgumentError(name, "expected none with source registry", hint="leave it out")
    namespace, _, category = prefix.strip("/").partition("/")
    said = {
        "query": values["query"].replace("*", " ").strip(),
        "item_type": kind.value if kind else "",
        "namespace": namespace,
        "category": category,
        "limit": str(values["limit"]),
        "offset": str(values["offset"]),
    }
    registry = open_registry(rye, registries_of(rye).resolve())
    reply = registry.search([(key, value) for key, value in said.items() if value])
    rows = [_row_as_local(row) for row in reply["results"]]
    total = reply.get("total")
    count = total if isinstance(total, int) else len(rows)
    end = values["offset"] + len(rows)
    envelope = {
        "status": "success",
        "mode": "query",
        "results": rows,
        "total": count,
        "returned": len(rows),
        "query": values["query"],
        "item_type": kind.value if kind else ALL,
        "source": REGISTRY,
        "registry": registry.config.url,
        "limit": values["limit"],
        "offset": values["offset"],
        "project_path": project_of(rye),
    }
    return Answer(envelope | ({"next_offset": end} if end < count else {}))


def load_published(rye: Rye, values: Mapping[str, Any], reference: Reference) -> Answer:
    """A published item, checked; with ``destination`` a file of that space, and of its lock.

    Raises RegistryIdError, RyeError `INTEGRITY`, LocalEditError, and what asking raises.
    """
    version = valid_version(values["version"]) if values.get("version") else ""
    ref = published_ref(reference)
    registry = open_registry(rye, registries_of(rye).resolve())
    pin = registry.pin()
    item = verify_pulled(registry.pull(ref, version), ref, pin, version=version)
    text = item.data.decode()
    stop = values["offset"] + values["max_chars"]
    envelope: dict[str, Any] = {
        "status": "success",
        "mode": "id",
        "ref": str(ref),
        "item_id": ref.id,
        "source": REGISTRY,
        "registry": registry.config.url,
        "content": text[values["offset"] : stop],
        "metadata": _published_metadata(item),
        "total_chars": len(text),
        "project_path": project_of(rye),
        **({"next_offset": stop} if stop < len(text) else {}),
    }
    if values.get("destination"):
        placing = ItemPlacer(rye.space(values["destination"]), rye.context.spaces.user)
        replace = Replace.ANYTHING if values["overwrite"] else Replace.NOTHING
        now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        placed = placing.place(item, registry=registry.config.url, now=now, replace=replace)
        envelope |= {
            "copied_to": values["destination"],
            "destination_path": str(placing.path(item)),
            "placed": placed.value,
            "warnings": [_NOT_YET],
        }
        if placing.kept:
            envelope["prior_text"] = str(placing.kept)
    return Answer(envelope)


def _published_metadata(item: PulledItem) -> dict[str, Any]:
    return {
        "name": item.ref.name,
        "category": item.ref.category,
        "extension": item.suffix,
        "version": item.version,
        "description": item.description,
        "author": item.author,
        "fingerprint": item.fingerprint,
        "coverage": "full" if item.covers_all else "partial",
    }


def _row_as_local(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a registry, with the keys that rows of local spaces have."""
    item_id, item_type = str(row.get("item_id", "")), str(row.get("item_type", ""))
    return {
        "id": item_id,
        "ref": f"{item_type}:{item_id}",
        "type": item_type,
        "name": item_id.rpartition("/")[2],
        "title": str(row.get("title") or item_id.rpartition("/")[2]),
        "description": " ".join(str(row.get("description") or "").split()),
        "category": item_id.rpartition("/")[0],
        "source": REGISTRY,
        "author": row.get("author"),
        "metadata": {"version": row.get("version")},
    }
