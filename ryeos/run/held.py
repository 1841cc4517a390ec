"""Held files: what an interpreter reads of a tool are the bytes that Rye has read and verified.

No file is opened by its path again after it was compared. What a runtime starts decides how:

(1) Python: ``config.starter`` of the runtime names a file that is executed by ``python -c``; it and
    the tool with its modules are packed into one sealed file, and nothing else is imported from
    the folders that they come from
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.process.model import SEALED_PATH
from lillux.values import dataclass, field, replace
from ryeos.run.model import HeldFiles, Invocation
from ryeos.trust.verify import VerifiedItem

if TYPE_CHECKING:
    from lillux.sandbox import Confinement
    from ryeos.trust.start_files import HeldEnvironment

STARTER = "starter"
"""The key of a runtime's config that names the file which starts its tools."""

PYTHON_START = f"""\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import os
def _start():
    at = {SEALED_PATH!r}
    is_open = at.startswith("/dev/fd/")
    with open(int(at[8:]) if is_open else at, "rb") as file: held = file.read()
    if not is_open: os.remove(at)
    module = sys.modules["rye_start"] = type(sys)("rye_start")
    first = held.index(b"\\n") + 1
    text = held[first : first + int(held.partition(b" ")[0])]
    now, _, later = text.partition(b"\\n# --- finder\\n")
    exec(compile(now, "start.py", "exec"), module.__dict__)
    module.later = later
    module.hold(held)
    module.begin()
    del sys.argv[0]
    globals().update(__file__=sys.argv[0])
    return compile(module.files[__file__], __file__, "exec", dont_inherit=True)
exec(_start())
"""
"""The code for ``python -c``: it reads the sealed file once and executes what is in it."""

ENVIRONMENT = "environment"
"""The key of a runtime's config that names the file which sets up approved environments."""

_CODE = "rye:environment"  # as start.py calls it

AT_START = ("PYTHONPATH", "PYTHONPYCACHEPREFIX")
"""Variables that an interpreter acts upon at its own start, before a starter is there."""


def files_of(items: Iterable[VerifiedItem]) -> dict[str, bytes]:
    """The bytes of items by the path of each."""
    return {str(item.target.path): item.data for item in items}


def started_by(invocation: Invocation, held: HeldFiles, *words: str) -> Invocation:
    """The invocation of a Python program that takes its modules from held files.

    ``words`` are the program and its arguments. The interpreter itself looks for modules in none of
    the verified folders: it would import ``sitecustomize`` from there by itself.
    """
    env, variables = _split_environment(invocation.env, held.folders)
    return replace(
        invocation,
        argv=(invocation.argv[0], "-c", PYTHON_START, *words),
        env=env,
        held=replace(held, variables=variables),
    )


def in_environment(invocation: Invocation, held: "HeldStart | None") -> Invocation:
    """The invocation of a started Python with an approved environment set up from compared bytes.

    The Python that the environment was made with is started, without ``site``, so that it opens
    nothing of the environment by itself.
    """
    if held is None or invocation.held is None or "S" in invocation.argv[1]:
        return invocation
    _, options, *words = invocation.argv
    return replace(
        invocation,
        argv=(held.base, held.option(options), *words),
        confinement=_with_base(invocation, held.environment),
        held=replace(invocation.held, files={**invocation.held.files, **held.files()}),
    )


def _with_base(invocation: Invocation, environment: "HeldEnvironment") -> "Confinement | None":
    """The confinement of a Python for the one that is started in its place, with its library."""
    confinement, started = invocation.confinement, environment.base
    if confinement is None or os.path.realpath(invocation.argv[0]) == started:
        return confinement
    from lillux.system_places import program_places

    readable, executable = confinement.readable, confinement.executable
    places = {Path(started), Path(os.path.realpath(started))}
    homes = {Path(environment.home), *(place.parent for place in places)}
    folders = [one for home in homes for one in program_places(home)]
    return replace(
        confinement,
        readable=None if readable is None else (*readable, *places, *folders),
        executable=None if executable is None else (*executable, *places),
    )


@dataclass(frozen=True, slots=True)
class HeldStart:
    """An approved environment, and the text of what sets it up."""

    environment: "HeldEnvironment"
    code: bytes = field(repr=False)

    @property
    def base(self) -> str:
        """The program that is started."""
        return self.environment.base

    @staticmethod
    def option(options: str) -> str:
        """The options of Python in one word, ``-c`` last, with that for no ``site``."""
        return f"-S{options[1:]}"

    def files(self) -> dict[str, bytes]:
        """The files that the starter gets besides those of the tool."""
        said = {_CODE: self.code, f"{_CODE}.said": self.environment.words()}
        return {**self.environment.files, **said}


def shown_words(argv: Sequence[str]) -> tuple[str, ...]:
    """A command as a person reads it: without the text that starts Python."""
    is_started = len(argv) > 2 and argv[2] == PYTHON_START  # noqa: PLR2004 - PYTHON -c TEXT
    return (argv[0], *argv[3:]) if is_started else tuple(argv)


def _split_environment(
    env: Mapping[str, str], folders: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The environment of the interpreter's own start, and the variables that are set later."""
    entries = env.get("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if entry and not _is_below(entry, folders)]
    later = {name: env[name] for name in AT_START if name in env}
    at_start = {name: value for name, value in env.items() if name not in AT_START}
    return {**at_start, **({"PYTHONPATH": os.pathsep.join(kept)} if kept else {})}, later


def _is_below(path: str, folders: Mapping[str, str]) -> bool:
    normal = os.path.normpath(path)
    several = {*folders, *folders.values()}
    return any(normal == one or normal.startswith(one.rstrip(os.sep) + os.sep) for one in several)
