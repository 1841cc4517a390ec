"""The CPythons that code is packed for, as far as this machine has them."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINORS = (11, 12, 13)
NATIVE_MINORS = (*MINORS, 14)  # compiled modules are packed for one more, which runs the fallback

_SAYS_ITS_MINOR = (
    "import sys; sys.exit(0 if sys.implementation.name == 'cpython' and sys.version_info[1] == "
    "int(sys.argv[1]) and not hasattr(sys, 'gettotalrefcount') else 1)"
)


def interpreters() -> dict[int, Path]:
    """A CPython of each minor version that this machine has, by the minor."""
    found = ((minor, _first_that_runs(minor)) for minor in MINORS)
    return {minor: path for minor, path in found if path}


def _first_that_runs(minor: int) -> Path | None:
    for path in _candidates(minor):
        command = [str(path), "-I", "-S", "-c", _SAYS_ITS_MINOR, str(minor)]
        try:
            if not subprocess.run(command, capture_output=True, check=False).returncode:
                return path
        except OSError:
            continue
    return None


def _candidates(minor: int) -> Iterator[Path]:
    """This interpreter, those on PATH, those of pyenv and uv."""
    if sys.version_info[:2] == (3, minor):
        yield Path(sys.executable)
    on_path = shutil.which(f"python3.{minor}")
    if on_path:
        yield Path(on_path)
    home = Path.home()
    for folder in (home / ".pyenv/versions", home / ".local/share/uv/python"):
        if folder.is_dir():
            yield from sorted(folder.glob(f"*3.{minor}*/bin/python3.{minor}"))
