"""What ``rye init`` did, step by step, and the step that ``rye doctor --fix`` takes too."""

from pathlib import Path

from lillux.files import make_directory
from lillux.values import dataclass
from ryeos.items import Kind, Space

MADE, THERE, WOULD_MAKE = "made", "there already", "would make"
LEFT = "left to you"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was made, or need not be. ``status`` is one of the words above."""

    what: str
    path: Path
    status: str


def space_folders(space: Space, *, make: bool, mode: int) -> Step:
    """Make the folders of a space that are missing, or say that it would."""
    folders = (space.ai, *(space.directory(kind) for kind in Kind))
    missing = [path for path in folders if not path.is_dir()]
    for path in missing if make else ():
        make_directory(path, mode=mode)
    return Step(f"{space.label} space", space.ai, step_status(missing=bool(missing), make=make))


def step_status(*, missing: bool, make: bool) -> str:
    """The word for a thing that was missing or not, and was to be made or not."""
    if not missing:
        return THERE
    return MADE if make else WOULD_MAKE
