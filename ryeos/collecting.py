"""What patterns leave out: folders and files beside items that are none.

The lists are data, the tool item ``rye/core/bundler/collect``: that of the project, else of the
user, else of a bundle. One that does not verify is passed over with a warning.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.extractors import extract
from ryeos.items import Kind, Space, Spaces
from ryeos.resolver import is_regular_file
from ryeos.verify import Target, Verifier

COLLECT_FILE = "rye/core/bundler/collect.yaml"


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Names of folders and of files that no pattern means."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def leave_out(self, path: Path, space: Space, kind: Kind) -> bool:
        """Whether a file of a space is left out, for its name or for a folder that it is in."""
        inside = path.relative_to(space.directory(kind)).parts[:-1]
        return path.name in self.files or not self.folders.isdisjoint(inside)


def exclusions(spaces: Spaces, verifier: Verifier, warn: Callable[[str], None]) -> Exclusions:
    """The lists that count here."""
    for space in spaces:
        path = space.directory(Kind.TOOL) / COLLECT_FILE
        if is_regular_file(path):
            try:
                return _read(Target(path=path, kind=Kind.TOOL, space=space), verifier)
            except LilluxError as error:
                warn(f"its lists are not used: {error}")
    return Exclusions()


def _read(target: Target, verifier: Verifier) -> Exclusions:
    item = verifier.verify(target)
    header = item.header or extract(Kind.TOOL, target.suffix, item.text, str(target.path))
    return Exclusions(_names(header, "exclude_dirs"), _names(header, "exclude_files"))


def _names(header: Mapping[str, Any], key: str) -> frozenset[str]:
    names = header.get(key)
    return frozenset(filter(lambda name: isinstance(name, str), names or ()))
