"""Folders of knowledge with a ``SKILL.md``, and the files of each.

A file belongs to the nearest such folder above it, of its own space, and only where it lies
inside of that folder once all links are followed. Nothing here looks at a folder: what there is
are items, and what is shown of them has been verified.
"""

from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

from lillux.contained_paths import is_inside
from lillux.values import dataclass, field
from ryeos.items.refs import ItemRef, Kind
from ryeos.mcp.listing import LISTED_TIERS, mime_type, offered, verified
from ryeos.mcp.request_context import RequestContext
from ryeos.search.records import Record
from ryeos.trust.skill_files import FILE
from ryeos.trust.skill_folders import MAX_FILES
from ryeos.trust.verify import VerifiedItem


@dataclass(frozen=True, slots=True)
class SkillTree:
    """A folder of knowledge: its ``SKILL.md``, and its other files by their paths below it."""

    record: Record
    files: Mapping[str, Record] = field(default_factory=dict, repr=False)

    @property
    def ref(self) -> ItemRef:
        """The item that is the ``SKILL.md``."""
        return self.record.location.ref


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A verified file of a skill, as it is given."""

    mime_type: str
    data: bytes


def skill_trees(request: RequestContext) -> list[SkillTree]:
    """The trees of project and user, in the order of their ids. Nothing is verified.

    One of more than ``MAX_FILES`` files does not count.
    """
    records = offered(request.rye, [Kind.KNOWLEDGE], LISTED_TIERS)
    roots = {
        record.location.ref.category: record
        for record in records
        if record.location.path.name == FILE and record.location.ref.category
    }
    files: dict[str, dict[str, Record]] = {folder: {} for folder in roots}
    for record in records:
        folder = _nearest(record.location.ref, roots)
        if folder and record is not roots[folder] and _lies_in(record, roots[folder]):
            files[folder][_path(record, roots[folder])] = record
    return [
        SkillTree(roots[folder], files[folder])
        for folder in roots
        if len(files[folder]) < MAX_FILES and _lies_in(roots[folder], roots[folder])
    ]


def verified_skill(request: RequestContext, tree: SkillTree) -> VerifiedItem | None:
    """The signed text of the ``SKILL.md``; None for what does not verify."""
    return _verified_same(request, tree.record)


def files_of(request: RequestContext, tree: SkillTree) -> dict[str, SkillFile]:
    """The verified files beside ``SKILL.md``, by their quoted paths below its folder."""
    read = partial(_file, request)
    found = {quote(path, safe="/"): read(record) for path, record in sorted(tree.files.items())}
    return {path: file for path, file in found.items() if file}


def _nearest(ref: ItemRef, roots: Mapping[str, Record]) -> str | None:
    folder = ref.category
    while folder and folder not in roots:
        folder = folder.rpartition("/")[0]
    return folder or None


def _lies_in(record: Record, root: Record) -> bool:
    is_of_space = record.location.space.ai == root.location.space.ai
    return is_of_space and is_inside(record.location.path, root.location.path.parent)


def _path(record: Record, root: Record) -> str:
    return record.location.path.relative_to(root.location.path.parent).as_posix()


def _file(request: RequestContext, record: Record) -> SkillFile | None:
    item = _verified_same(request, record)
    if item is None:
        return None
    text = item.data.decode("utf-8", "replace")
    return SkillFile(mime_type(record.location.suffix), text.encode())


def _verified_same(request: RequestContext, record: Record) -> VerifiedItem | None:
    found = verified(request.rye, record.location.ref)
    is_same = found is not None and found[0].location.path == record.location.path
    return found[1] if found and is_same else None
