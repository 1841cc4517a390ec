"""``load``: read an item, or copy it to a space.

(1) resolve   (2) verify   (3) a window on the text, metadata, the schema of its inputs   (4) copy
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.contained_paths import is_inside
from lillux.errors import LilluxError
from lillux.fields import ABSENT
from lillux.values import dataclass, replace
from ryeos.app.parameters import DEFAULT_WINDOW, REGISTRY, THREAD_ADDRESS
from ryeos.app.verb_arguments import item_reference, project_of, rye_of, valid_arguments
from ryeos.app.verbs import TOOLS
from ryeos.app.workspace import Rye
from ryeos.items.errors import Answer, RyeError, VerbArgumentError
from ryeos.items.header_values import MetadataError
from ryeos.items.refs import ItemRef, Kind, Location, Reference, Resolution, id_gives_rights
from ryeos.items.rendering import input_schema
from ryeos.items.specs import header_field, tool_spec
from ryeos.trust.extractors import extract
from ryeos.trust.resolver import folders_below
from ryeos.trust.verify import VerifiedItem

# The files that lie around a tool and belong to it: those of its anchor folder.

MAX_SIBLINGS = 1000


@dataclass(frozen=True, slots=True)
class Sibling:
    """A file of a tool, and where it is below the folder of all tools (POSIX)."""

    path: Path
    relative: str

    def location(self, of: Location) -> Location:
        """The place of this file, in the terms of the tool's."""
        return replace(of, path=self.path)


def siblings_of(rye: Rye, location: Location) -> tuple[Sibling, ...]:
    """The other files of a tool whose anchor is active, sorted; none for any other item."""
    if location.ref.kind is not Kind.TOOL:
        return ()
    from ryeos.run.anchor import anchor_of

    try:
        chain = rye.executor.build_chain(location.ref.id)
        anchor = anchor_of(chain, rye.context)
    except LilluxError:
        return ()
    root = location.space.directory(Kind.TOOL)
    item = chain.tool.item
    if not anchor.active or item is None or item.target.path != location.path:
        return ()
    if not is_inside(anchor.path, root) or anchor.path == root:
        return ()
    found = [
        Sibling(path, path.relative_to(root).as_posix())
        for folder, names in folders_below(anchor.path)
        for name in names
        if (path := Path(folder, name)) != location.path and path.is_file()
        if is_inside(path, root)
    ]
    return tuple(found[:MAX_SIBLINGS])


MAX_NAMED_SIBLINGS = 10
_KEPT_METADATA = ("version", "description", "title", "tool_type", "entry_type", "tags", "author")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """The item to load, and where to.

    source       the space to start at, down from there; ``""`` is the nearest
    destination  the space to copy to, ``""`` if absent
    max_chars    of the text, from ``offset`` on; None for all of it
    """

    reference: Reference
    source: str = ""
    destination: str = ""
    overwrite: bool = False
    include_siblings: bool = False
    offset: int = 0
    max_chars: int | None = DEFAULT_WINDOW


def load(rye: Rye, arguments: Mapping[str, object]) -> Answer:
    """An item's text. Raises ItemNotFoundError, AmbiguousItemError, IntegrityError and similar."""
    values = valid_arguments(TOOLS["load"], arguments)
    rye = rye_of(rye, values)
    if values.get("source") == REGISTRY:
        from ryeos.app.published import load_published

        reference = item_reference(rye, values["item_id"], values.get("item_type"))
        return load_published(rye, values, reference)
    if "version" in values:
        raise VerbArgumentError(
            "version", "expected only with source registry", hint="leave it out"
        )
    if str(values["item_id"]).startswith(THREAD_ADDRESS):
        return load_thread(rye, values)
    _require_no_thread(rye, values)
    request = LoadRequest(
        reference=item_reference(rye, values["item_id"], values.get("item_type")),
        source=values.get("source", ""),
        destination=values.get("destination", ""),
        overwrite=values["overwrite"],
        include_siblings=values["include_siblings"],
        offset=values["offset"],
        max_chars=values["max_chars"],
    )
    return load_item(rye, request)


def _require_no_thread(rye: Rye, values: Mapping[str, Any]) -> None:
    """Refuse the bare id of a run, which names no item. Raises RyeError `ITEM_NOT_FOUND`."""
    from ryeos.run.threads.errors import ThreadNotFoundError
    from ryeos.run.threads.ids import looks_like_thread_id
    from ryeos.run.threads.payload import FORK

    text = str(values["item_id"])
    for kind in Kind:
        text = text.removeprefix(f"{kind.value}:")
    if not looks_like_thread_id(text):
        return
    reference = item_reference(rye, values["item_id"], values.get("item_type"))
    if any(rye.resolver.find(ref) for ref in reference.refs()):
        return
    try:
        thread = rye.threads.get(rye.threads.find(text))
    except ThreadNotFoundError:
        return
    found = thread.thread_id
    transcript = f"what was said: rye threads show --transcript {found}; "
    raise RyeError(
        f"{text:.200}: it is the id of a run, and no item",
        code="ITEM_NOT_FOUND",
        hint=f"{transcript if thread.thread_mode == FORK else ''}its answer:"
        f" rye threads wait {found}",
    )


def load_thread(rye: Rye, values: Mapping[str, Any]) -> Answer:
    """The transcript of a thread of this project, or the whole of one of its long results.

    Raises RyeError `ITEM_NOT_FOUND`, `INTEGRITY`.
    """
    from ryeos.app.agent_threads import AgentThreads

    address = str(values["item_id"])
    thread_id, slash, number = address.removeprefix(THREAD_ADDRESS).partition("/result/")
    threads, project = AgentThreads(rye), rye.context.project_path
    own = str(project) if project else None
    start = threads.records.read(thread_id).start
    if start.project != own:
        raise RyeError(
            f"{address:.200}: expected a thread of this project",
            code="ITEM_NOT_FOUND",
            hint="list those that there are: rye threads list",
        )
    rye.require_visible(ItemRef(Kind.DIRECTIVE, start.item.removeprefix("directive:")))
    text = threads.result(thread_id, number) if slash else threads.transcript(thread_id)
    offset, most = int(values["offset"]), values["max_chars"]
    stop = len(text) if most is None else offset + int(most)
    envelope: dict[str, Any] = {
        "status": "success",
        "mode": "thread",
        "ref": address,
        "item_id": thread_id,
        "content": text[offset:stop],
        "total_chars": len(text),
        "project_path": project_of(rye),
    }
    return Answer(envelope | ({"next_offset": stop} if stop < len(text) else {}))


def load_item(rye: Rye, request: LoadRequest) -> Answer:
    """Carry out a request of `load`."""
    resolution, item = rye.load(request.reference, source=request.source)  # (1) (2)
    location = resolution.location
    header = item.header or _header(item, location)
    text = item.data.decode("utf-8", "replace")
    stop = len(text) if request.max_chars is None else request.offset + request.max_chars
    envelope: dict[str, Any] = {  # (3)
        "status": "success",
        "mode": "id",
        "ref": str(location.ref),
        "item_id": location.ref.id,
        "path": str(location.path),
        "source": location.space.label,
        "content": text[request.offset : stop],
        "metadata": _file_metadata(location, header),
        "total_chars": len(text),
        **_text_digest(location, item),
        "project_path": project_of(rye),
    }
    if stop < len(text):
        envelope["next_offset"] = stop
    schema = _input_schema(item, location, header)
    if schema is not None:
        envelope["input_schema"] = schema
    if location.ref.kind is Kind.TOOL:
        envelope |= _rights(rye, location, header)
    warnings = list(resolution.warnings)
    if not item.verified:
        warnings.append("RYE_DEV_MODE: this text is not what a trusted key signed")
    if request.destination:
        envelope |= _copy_item(rye, request, resolution, item, warnings)  # (4)
    return Answer(envelope | ({"warnings": warnings} if warnings else {}))


def _text_digest(location: Location, item: VerifiedItem) -> dict[str, str]:
    """The digest of the text without what signing adds, where the type of the file is ours."""
    from ryeos.trust.known_texts import text_digest

    try:
        return {"text_sha256": text_digest(location.ref.kind, location.path, item.data)}
    except LilluxError:
        return {}


def _rights(rye: Rye, location: Location, header: Mapping[str, Any]) -> dict[str, Any]:
    """The rights of a tool: what it declares, and for an agent those that hold for it."""
    declared: dict[str, Any] = {}
    if header_field(header, "sandbox") is not ABSENT:
        own = tool_spec(header, location.suffix).sandbox
        declared = {"sandbox": own.describe() if own else None}
    found = rye.resolver.find(location.ref) if rye.context.confines else None
    if found is None or found.location != location:
        return declared
    try:
        held = rye.executor.rights(location.ref.id).describe()
    except LilluxError:  # a library, or a chain that a run reports
        return declared
    level, writes = held.pop("level"), held.pop("allowed_writes", [])
    held.pop("confined", None)
    if held.get("write", "any") == "any" and writes:
        held["write"] = writes
    return {"sandbox": held if level != "off" else {"level": level, **held}} if held else declared


def _header(item: VerifiedItem, location: Location) -> Mapping[str, Any]:
    where, file_type = str(location.path), location.file_type
    return extract(location.ref.kind, location.suffix, item.text, where, file_type)


def _file_metadata(location: Location, header: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": location.ref.name,
        "category": location.ref.category,
        "extension": location.suffix,
        "path": str(location.path),
        **{name: header[name] for name in _KEPT_METADATA if name in header},
    }


def _input_schema(
    item: VerifiedItem, location: Location, header: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    if location.ref.kind is Kind.TOOL:
        schema = header.get("config_schema")
        return schema if isinstance(schema, Mapping) else None
    if location.ref.kind is not Kind.DIRECTIVE:
        return None
    try:
        return input_schema(item.text)
    except MetadataError:
        return None


def _copy_item(
    rye: Rye,
    request: LoadRequest,
    resolution: Resolution,
    item: VerifiedItem,
    warnings: list[str],
) -> dict[str, Any]:
    location = resolution.location
    if location.ref.kind is Kind.CONFIG and id_gives_rights(location.ref.id):
        raise RyeError(
            f"{location.ref}: configuration that gives rights is not copied",
            code="PERMISSION_DENIED",
            hint="a person writes it by hand, after reading it",
            path=str(location.path),
        )
    space = rye.space(request.destination)
    if space.label == location.space.label:
        place = str(location.path)
        return {"copied_to": space.label, "destination_path": place, "unchanged": True}
    siblings, kept = siblings_of(rye, location), list[Path]()
    try:
        path, unchanged = rye.copy(
            resolution, item, space, overwrite=request.overwrite, on_kept=kept.append
        )
        copied: dict[str, Any] = {"copied_to": space.label, "destination_path": str(path)}
        if request.include_siblings:
            copied["siblings"] = [
                str(_copy_sibling(rye, request, location, one, kept)) for one in siblings
            ]
        elif siblings:
            warnings.append(_left_behind(siblings))
    except FileExistsError as error:
        raise RyeError(
            f"{error!s}: another file is there",
            code="CONFLICT",
            hint="replace it with --overwrite; what it holds is kept in user space",
            path=str(error),
        ) from None
    if kept:
        copied["prior_text"] = [str(one) for one in kept] if len(kept) > 1 else str(kept[0])
    if unchanged:
        copied["unchanged"] = True
    else:
        warnings.append("sign it again after you change it")
    shadowed = rye.resolver.resolve(Reference(location.ref.kind, location.ref.id), space.label)
    if shadowed.shadowed:
        copied["now_shadows"] = [{"source": one.space.label} for one in shadowed.shadowed]
    return copied


def _copy_sibling(
    rye: Rye, request: LoadRequest, location: Location, sibling: Sibling, kept: list[Path]
) -> object:
    space = rye.space(request.destination)
    data = sibling.path.read_bytes()
    return rye.copy_file(
        sibling.location(location),
        data,
        sibling.relative,
        space,
        overwrite=request.overwrite,
        on_kept=kept.append,
    )[0]


def _left_behind(siblings: tuple[Sibling, ...]) -> str:
    named = ", ".join(one.relative for one in siblings[:MAX_NAMED_SIBLINGS])
    more = len(siblings) - MAX_NAMED_SIBLINGS
    rest = f" and {more} more" if more > 0 else ""
    return f"the tool's other files were not copied (include_siblings): {named}{rest}"
