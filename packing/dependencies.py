"""The libraries that are packed: exactly those of ``requirements/runtime.txt``, by their hashes."""

import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from packing.errors import BuildError
from packing.folders import move_unless_made

LOCK = "requirements/runtime.txt"


def locked_site_packages(checkout: Path) -> Path:
    """A folder with the locked libraries for this interpreter and platform; made once per lock.

    Raises BuildError when pip cannot install them.
    """
    lock = checkout / LOCK
    digest = sha256(lock.read_bytes()).hexdigest()[:16]
    target = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}-{digest}"
    folder = checkout / "build" / "zipapp" / "dependencies" / target
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=folder.parent) as temporary:
            installed = Path(temporary, "installed")
            _install(lock, installed)
            move_unless_made(installed, folder)
    return folder


def _install(lock: Path, target: Path) -> None:
    command = [
        *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"),
        *("--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile"),
        *("--target", str(target), "--requirement", str(lock)),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if ended.returncode:
        words = ended.stderr.strip() or "pip said nothing"
        raise BuildError("dependencies", words, hint="is the package index within reach?")
