"""The files that lie around a tool and belong to it: those of its anchor folder."""

from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import is_inside
from lillux.values import dataclass, replace
from ryeos.app import Rye
from ryeos.items import Kind, Location
from ryeos.resolver import folders_below

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
    from ryeos.executor.anchor import anchor_of

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
