"""Which of ``bundle.ai`` a build carries: all of it, or its core alone."""

import shutil
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ryeos.trust.bundles import CORE_ID, EMBEDDED_ID

_CORE = PurePosixPath("rye/core")
_CONFIG = "config"


class Edition(StrEnum):
    """What a build is called by what its bundle holds."""

    CORE = "core"
    FULL = "full"

    @property
    def bundle_id(self) -> str:
        """The id of the bundle: two editions are two bundles, each signed for itself."""
        return CORE_ID if self is Edition.CORE else EMBEDDED_ID

    def holds(self, path: PurePosixPath) -> bool:
        """Whether a file of ``bundle.ai`` is in it; the core keeps all configuration."""
        kind, *below = path.parts
        return (
            self is Edition.FULL or kind == _CONFIG or PurePosixPath(*below).is_relative_to(_CORE)
        )


def selected(source: Path, target: Path, edition: Edition) -> Path:
    """A folder with what an edition holds of ``source``: that itself, or a copy at ``target``."""
    if edition is Edition.FULL:
        return source
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and edition.holds(PurePosixPath(relative.as_posix())):
            copy = target / relative
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return target
