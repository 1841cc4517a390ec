"""Folders of knowledge with a ``SKILL.md``: which files belong to each, and what they say.

A file belongs to the nearest such folder above it, of its own space, and only where it lies inside
of that folder once all links are followed. Nothing here looks at a folder: what there is are items,
and what is shown of them has been verified.
"""

from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

from lillux.files import is_inside
from lillux.values import dataclass, field
from ryeos.items import ItemRef, Kind
from ryeos.mcp.asked import Asked
from ryeos.mcp.media_types import mime_type
from ryeos.mcp.offered import LISTED_TIERS, offered, verified
from ryeos.search.records import Record
from ryeos.verify import VerifiedItem

FILE = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024


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
    text: str

    @property
    def data(self) -> bytes:
        """The text as bytes, which its size and its digest are of."""
        return self.text.encode()


def skill_trees(asked: Asked) -> list[SkillTree]:
    """The trees of project and user, in the order of their ids. Nothing is verified.

    One of more than ``MAX_FILES`` files is none.
    """
    records = offered(asked.rye, [Kind.KNOWLEDGE], LISTED_TIERS)
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


def verified_skill(asked: Asked, tree: SkillTree) -> VerifiedItem | None:
    """What the ``SKILL.md`` was signed as; None for what does not verify."""
    return _verified(asked, tree.record)


def files_of(asked: Asked, tree: SkillTree) -> dict[str, SkillFile]:
    """The verified files beside ``SKILL.md``, by their quoted paths below its folder."""
    read = partial(_file, asked)
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


def _file(asked: Asked, record: Record) -> SkillFile | None:
    item = _verified(asked, record)
    if item is None:
        return None
    return SkillFile(mime_type(record.location.suffix), item.data.decode("utf-8", "replace"))


def _verified(asked: Asked, record: Record) -> VerifiedItem | None:
    found = verified(asked.rye, record.location.ref)
    is_same = found is not None and found[0].location.path == record.location.path
    return found[1] if found and is_same else None
