"""The start of ``rye-node.pyz``, packed as its ``__main__.py``. shiv unpacks the rest and runs it.

What is unpacked is its owner's alone, wherever it lies: ``SHIV_ROOT``, ``RYE_CACHE_DIR``, else
``~/.shiv``. Any Python 3 can read this, so that one that does not fit says why.
A file of its own because it is packed alone, but for ``_first_line``: ``zipboot/__main__.py``. The
folders of its operator that no agent can write come back later, see `ryeos.items.own_code`.
"""

import sys

# Before anything else is imported; -I and -E read no such variables.
if __name__ == "__main__" and not sys.flags.ignore_environment:
    from _first_line import forget_named_folders  # type: ignore[import-not-found]

    forget_named_folders()

import os
import sysconfig
from importlib import import_module

NOT_FOR_THIS = 78  # EX_CONFIG of sysexits.h: the environment is wrong, not the command


def main() -> int:
    """Run the node; the exit status, where it does not end by itself."""
    built_for = import_module("_built_for").MODULES
    if python_platform() != built_for:
        version = ".".join(map(str, sys.version_info[:2]))
        sys.stderr.write(
            f"error: rye-node.pyz: built for {built_for}, started by {python_platform()}\n"
            f"  hint: start it with another Python than {version}, or build one for this machine\n"
        )
        return NOT_FOR_THIS
    cache = os.environ.get("RYE_CACHE_DIR")
    if cache:
        os.environ.setdefault("SHIV_ROOT", cache)
    os.umask(0o077)
    import_module("_bootstrap").bootstrap()
    return 0


def python_platform() -> str:
    """Target of compiled modules: implementation, version, system, processor."""
    import platform

    suffix = str(sysconfig.get_config_var("EXT_SUFFIX") or "").rpartition(".")[0]
    return f"{suffix.strip('.')} on {platform.machine()}"


if __name__ == "__main__":
    sys.exit(main())
