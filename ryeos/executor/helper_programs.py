"""Whether a helper program can be found, as tools would find it."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from lillux.errors import ConfigurationError


def require_helper(name: str, process_env: Mapping[str, str] | None) -> str:
    """The path of the program, on the PATH of the environment or beside the interpreter.

    Raises ConfigurationError.
    """
    path = (process_env or {}).get("PATH", os.defpath)
    folders = [*path.split(os.pathsep), str(Path(sys.executable).parent)]
    found = shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))
    if found is None:
        raise ConfigurationError(
            "PATH",
            f"expected a program {name} in one of its folders, found none",
            hint="run tools with rye.pyz, which brings it, or add a folder that has it to PATH",
        )
    return found
