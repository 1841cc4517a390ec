"""The CPythons that code is packed for, as far as this machine has them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINORS = (11, 12, 13, 14)

# A release with the ordinary ABI (not a debug or free-threaded build) says its version.
_SAYS_ITS_VERSION = (
    "import sys; v = sys.version_info; "
    "sys.implementation.name == 'cpython' and v[3] == 'final' and not getattr(sys, 'abiflags', '') "
    "and print(*v[:3])"
)
Version = tuple[int, ...]


def interpreters() -> dict[int, Path]:
    """A CPython of each of `MINORS` that this machine has, by the minor.

    The newest patch release, so that the choice does not depend on which one runs the build.
    """
    found = {minor: max(_versions(minor), default=None) for minor in MINORS}
    return {minor: newest[1] for minor, newest in found.items() if newest}


def _versions(minor: int) -> Iterator[tuple[Version, Path]]:
    for path in dict.fromkeys(_candidates(minor)):
        version = _version(path)
        if version and version[:2] == (3, minor):
            yield version, path


def _version(interpreter: Path) -> Version | None:
    command = [str(interpreter), "-I", "-S", "-c", _SAYS_ITS_VERSION]
    try:
        said = subprocess.run(command, capture_output=True, check=False).stdout
    except OSError:
        return None
    return tuple(map(int, said.split())) or None


def _candidates(minor: int) -> Iterator[Path]:
    """Those on PATH, of pyenv and uv, and the one that runs this."""
    name = f"python3.{minor}"
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found:
            yield Path(found)
    home = Path.home()
    for versions in (home / ".pyenv/versions", home / ".local/share/uv/python"):
        if versions.is_dir():
            yield from sorted(versions.glob(f"*3.{minor}*/bin/{name}"))
    yield Path(sys.executable)
