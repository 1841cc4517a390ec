"""Programs for PATH: shell scripts, most of them only to be found, not run."""

from pathlib import Path


def make_program(path: Path, body: str = "") -> Path:
    """An executable regular file at ``path``, its folders made as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
    path.chmod(0o755)
    return path
