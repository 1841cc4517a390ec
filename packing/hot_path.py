"""Which modules a start needs: a checked-in list, stored uncompressed, and held by a test.

``packing/hot_modules.txt`` has a section for each command in `COMMANDS`: the modules that it
imports, beyond those that an empty zip file does. ``scripts/record_hot_path.py`` writes it.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

LIST = Path(__file__).with_name("hot_modules.txt")

COMMANDS: dict[str, tuple[str, ...]] = {
    "version": ("version",),
    "run": ("run", "rye/bash/bash", "command=echo hi"),
}
_HEADING = """\
# What a start imports beyond an empty zip file. Stored uncompressed in rye.pyz, held by
# tests/e2e/test_hot_path.py. Written by scripts/record_hot_path.py: edit the imports, not this.
"""

# Python imports this first of all, if it finds it.
_HOOK = """\
import atexit, os, sys
target = os.environ.pop("MODULES_TOLD_TO")
atexit.register(lambda: open(target, "w", encoding="utf-8").write("\\n".join(sys.modules)))
"""


def hot_modules() -> dict[str, list[str]]:
    """The modules of each section."""
    sections: dict[str, list[str]] = {}
    for line in LIST.read_text("utf-8").splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current.append(line)
    return sections


def written(sections: Mapping[str, Iterable[str]]) -> str:
    """The text of the list."""
    parts = ("\n".join((f"\n[{name}]", *sorted(names))) for name, names in sections.items())
    return _HEADING + "\n".join(parts) + "\n"


def imported(python: Path, pyz: Path, command: tuple[str, ...]) -> set[str]:
    """What a command of a built file imports beyond an empty zip file, its caches filled.

    Raises CalledProcessError when it fails.
    """
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        empty = scratch / "empty.pyz"
        with ZipFile(empty, "w") as archive:
            archive.writestr("__main__.py", "")
        _loaded(python, [pyz, *command], scratch)  # lays out the bundle
        return _loaded(python, [pyz, *command], scratch) - _loaded(python, [empty], scratch)


def _loaded(python: Path, arguments: list[str | Path], scratch: Path) -> set[str]:
    """The modules of a program when it ends."""
    (scratch / "sitecustomize.py").write_text(_HOOK, "utf-8")
    told = scratch / "modules"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "PYTHONPATH": str(scratch),
        "MODULES_TOLD_TO": str(told),
    }
    command = [python, "-s", *arguments]
    subprocess.run(command, env=environ, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    return set(told.read_text("utf-8").splitlines())
