"""Modules that a start needs: a checked-in list, stored uncompressed, held by a test.

``packing/hot_modules.txt`` has a section for each start in `STARTS`: the modules that it imports,
beyond those that an empty zip file does; for a server, up to its first answer.
``scripts/record_hot_path.py`` writes it.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

LIST = Path(__file__).with_name("hot_modules.txt")


@dataclass(frozen=True, slots=True)
class Start:
    """A command, and what it reads from standard input."""

    arguments: tuple[str, ...]
    stdin: bytes = b""


STARTS = {
    "version": Start(("version",)),
    "run": Start(("run", "rye/bash/bash", "command=echo hi")),
    "mcp": Start(
        ("mcp",),
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
        b'{"protocolVersion":"2025-11-25","capabilities":{}}}\n',
    ),
}
_HEADING = """\
# What a start imports beyond an empty zip file. Stored uncompressed in rye.pyz, held by
# tests/e2e/test_hot_path.py. Written by scripts/record_hot_path.py: edit the imports, not this.
"""

# Python imports this first of all, if it finds it.
_HOOK = """\
import atexit, os, sys
target, write = os.environ.pop("MODULES_LISTED_IN"), os.write
def list_modules():
    if not os.path.exists(target):
        with open(target, "w", encoding="utf-8") as listed:
            listed.write("\\n".join(sys.modules))
def watched(descriptor, data):
    if bytes(data[:10]) == b'{"jsonrpc"':
        list_modules()
    return write(descriptor, data)
atexit.register(list_modules)
os.write = watched
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


def hot_blocks() -> list[frozenset[str]]:
    """All of them, each once, those together that the same starts need.

    Those that many starts need come first.
    """
    needed_by: dict[str, list[str]] = {}
    for start, names in hot_modules().items():
        for name in names:
            needed_by.setdefault(name, []).append(start)
    groups = sorted({tuple(starts) for starts in needed_by.values()}, key=lambda g: (-len(g), g))
    return [
        frozenset(name for name, starts in needed_by.items() if tuple(starts) == group)
        for group in groups
    ]


def written(sections: Mapping[str, Iterable[str]]) -> str:
    """The text of the list."""
    parts = ("\n".join((f"\n[{name}]", *sorted(names))) for name, names in sections.items())
    return _HEADING + "\n".join(parts) + "\n"


def imported(python: Path, pyz: Path, start: Start) -> set[str]:
    """Modules that a start of a built file imports beyond an empty zip file, its caches filled.

    Raises CalledProcessError when it fails.
    """
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        empty = scratch / "empty.pyz"
        with ZipFile(empty, "w") as archive:
            archive.writestr("__main__.py", "")
        # The first start lays out the bundle, which later ones find.
        _loaded_modules([python, "-s", pyz, *start.arguments], start.stdin, scratch)
        found = _loaded_modules([python, "-s", pyz, *start.arguments], start.stdin, scratch)
        return found - _loaded_modules([python, "-s", empty], b"", scratch)


def _loaded_modules(command: list[str | Path], stdin: bytes, scratch: Path) -> set[str]:
    """The modules of a program at its first answer, else when it ends."""
    (scratch / "sitecustomize.py").write_text(_HOOK, "utf-8")
    listed_modules = scratch / "modules"
    listed_modules.unlink(missing_ok=True)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "PYTHONPATH": str(scratch),
        "MODULES_LISTED_IN": str(listed_modules),
    }
    null = subprocess.DEVNULL
    subprocess.run(command, env=environ, cwd=scratch, check=True, input=stdin, stdout=null)
    return set(listed_modules.read_text("utf-8").splitlines())
