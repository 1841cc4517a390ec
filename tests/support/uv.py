"""uv, installed once by pip below ``build``."""

import subprocess
import sys
from pathlib import Path

from lillux.file_locks import locked
from tests.support.built import ROOT
from tests.support.programs import unavailable

# Pinned, so that the tested version changes only on purpose.
UV = "uv==0.8.22"


def installed_uv() -> Path:
    """The folder that holds ``uv``."""
    folder = ROOT / "build" / "uv" / UV.replace("==", "-")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_suffix(".lock"), timeout_s=300):
        if not (folder / "ready").exists():
            target = ["--quiet", "--no-deps", "--target", str(folder), UV]
            command = [sys.executable, "-m", "pip", "install", *target]
            ended = subprocess.run(command, capture_output=True, check=False)
            if ended.returncode:
                unavailable(f"pip cannot install {UV} here: {ended.stderr[-300:]!r}")
            (folder / "ready").touch()
    return folder / "bin"
