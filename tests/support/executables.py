"""Programs that exist to be found, not to be run."""

from pathlib import Path


def make_program(path: Path) -> Path:
    """An executable regular file at ``path``, its folders made as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path
