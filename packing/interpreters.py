"""CPythons that code is packed for, as far as this machine has them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MINORS = (11, 12, 13, 14)
PYTHONS = Path(__file__).resolve().parents[1] / "build" / "pythons"
"""Folder where `scripts/install_python_314` installs what the machine does not have."""

# A release with the ordinary ABI (not a debug or free-threaded build) says its version.
_SAYS_ITS_VERSION = (
    "import sys; v = sys.version_info; "
    "sys.implementation.name == 'cpython' and v[3] == 'final' and not getattr(sys, 'abiflags', '') "
    "and print(*v[:3])"
)


def interpreters() -> dict[int, Path]:
    """A CPython of each of `MINORS` that this machine has, by the minor.

    The newest patch release that is installed, so that the choice does not depend on which one
    runs the build.
    """
    found = {minor: _newest(minor, _installed_pythons(minor)) for minor in MINORS}
    own = sys.version_info[1]
    if own in found and found[own] is None:
        found[own] = _newest(own, [Path(sys.executable)])
    return {minor: path for minor, path in found.items() if path}


def own_interpreter() -> dict[int, Path]:
    """The CPython that ``python3`` starts on this machine, by its minor; of `interpreters`.

    All of them where that is not in `MINORS`. It does not depend on which one runs the build.
    """
    every = interpreters()
    started = shutil.which("python3")
    version = _version(Path(started)) if started else None
    own = version[1] if version else sys.version_info[1]
    return {own: every[own]} if own in every else every


def _newest(minor: int, candidates: Iterable[Path]) -> Path | None:
    versions = ((_version(path), path) for path in dict.fromkeys(candidates))
    fitting = [(v, path) for v, path in versions if v and v[:2] == (3, minor)]
    return max(fitting)[1] if fitting else None


def _version(interpreter: Path) -> tuple[int, ...] | None:
    command = [str(interpreter), "-I", "-S", "-c", _SAYS_ITS_VERSION]
    try:
        said = subprocess.run(command, capture_output=True, check=False).stdout
    except OSError:
        return None
    return tuple(map(int, said.split())) or None


def _installed_pythons(minor: int) -> Iterator[Path]:
    """Those on PATH, of pyenv and uv, wherever these keep theirs, and of `PYTHONS`."""
    name = f"python3.{minor}"
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found:
            yield Path(found)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    for versions in (pyenv, uv):
        if versions.is_dir():
            yield from sorted(versions.glob(f"*3.{minor}*/bin/{name}"))
    yield from PYTHONS.glob(f"3.{minor}/bin/{name}")
