"""What user space keeps of files that a command replaced."""

from pathlib import Path

from ryeos.items.refs import REPLACED_FOLDER, REPLACED_SETTINGS_FOLDER


def kept_copies(ai: Path, path: Path) -> list[Path]:
    """The copies of a file, the oldest first; ``ai`` is the folder of user space."""
    found: list[Path] = []
    for folder in (REPLACED_FOLDER, REPLACED_SETTINGS_FOLDER):
        place = ai / folder / path.parent.relative_to("/")
        found += place.glob(f"{path.name}.*")
    return sorted(found)
