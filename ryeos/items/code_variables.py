"""Which variables of the environment would load code from a project, and what is left of them.

A folder of modules, a preloaded library, or a script that each shell reads first: where such a
variable names a file of a project, an agent that may write there would say what runs in the user's
own tools. The PATH has its own rule, see `ryeos.items.places.folders_in_projects`.

It is a file of its own because most environments have no such variable, and import nothing for it.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping

from ryeos.items.places import names_code

_FILES = ("BASH_ENV", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "ZDOTDIR", "PHPRC")
# Node.js looks for what these name in the folder that it is started in, which is the project.
_REQUIRED = re.compile(r"(?:^|\s)(?:-r|--(?:require|import|loader|experimental-loader))[=\s]+(?!/)")
# A property of Java may have words that only look like a path, as Europe/Berlin.
_PROPERTY = re.compile(r"-D(?!java\.|jdk\.|sun\.)[\w.-]+=[^\s./][^\s]*")


def left_of_variables(
    env: Mapping[str, str], platform: str, is_inside: Callable[[str], bool]
) -> dict[str, str]:
    """What is left of each variable that names code of a project: ``""`` for nothing.

    Of a list of folders the others are left. ``is_inside`` says of an absolute path whether it lies
    in a project; a relative one does, as programs are started there.
    """
    found = {}
    for name, value in env.items():
        if names_code(name):
            kept = _left_of(name, value, platform, is_inside)
            if kept != value:
                found[name] = kept
    return found


def _left_of(name: str, value: str, platform: str, is_inside: Callable[[str], bool]) -> str:
    separator = ";" if platform == "win32" else ":"
    entries = value.split(separator)
    if all(map(_is_absolute, filter(None, entries))):
        return separator.join(one for one in entries if not (one and is_inside(one)))
    paths = _paths_in(name, value, platform)
    return "" if any(not _is_absolute(one) or is_inside(one) for one in paths) else value


def _paths_in(name: str, value: str, platform: str) -> Iterator[str]:
    """The paths that a value names among other words."""
    if (name in _FILES and value) or (name == "NODE_OPTIONS" and _REQUIRED.search(value)):
        yield value
    value = _PROPERTY.sub(" ", value)
    for word in re.split(r"[\s;,=\"'@]+" if platform == "win32" else r"[\s:;,=\"'@]+", value):
        piece = re.sub(r"^-\w(?=[/.])", "", word)  # -I/folder
        if piece.startswith(".") or os.sep in piece:
            yield os.path.normpath(piece)


def _is_absolute(path: str) -> bool:
    return os.path.isabs(path)  # noqa: PTH117 - a word of a variable
