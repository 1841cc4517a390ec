"""Starts a shell without its arguments on the command line, which any user may read.

    bash -c SCRIPT NAME ARGUMENT...   becomes   bash -c STARTER NAME   with the rest in a variable
    bash FILE ARGUMENT...             becomes   bash -c STARTER FILE   likewise

The starter sets the arguments from a variable, removes it, and evaluates the script or reads the
file: ``$0``, ``$1``, ``BASH_SOURCE`` and the numbers of lines are as they were. Variables of a
process can be read by its own user only. A file of its own as it is for shells alone. POSIX.
"""

import os

from lillux.process.model import SEALED_PATH, Command
from lillux.values import replace

_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
_VARIABLE = "LILLUX_WORDS"
_MAX_CHARACTERS = 25_000  # of one variable: four bytes each, the system takes 128 KiB
_SCRIPT, _NAME = 2, 3  # SHELL -c SCRIPT NAME ARGUMENT...
_READ_FILE = '. "$0"'


def with_private_words(command: Command) -> Command:
    """The same command, the arguments of a shell and the text it evaluates kept out of ``argv``."""
    argv = command.argv
    is_shell = os.path.basename(argv[0]) in _SHELLS  # noqa: PTH119 - a text
    if is_shell and len(argv) > _SCRIPT and os.path.isabs(argv[1]):  # noqa: PTH117 - a text
        argv = (argv[0], "-c", _READ_FILE, *argv[1:])
    elif not is_shell or len(argv) <= _SCRIPT or argv[1] != "-c":
        return command
    script, arguments = argv[_SCRIPT], argv[_NAME + 1 :]
    # It names a file that is not there yet, or reads one, and says nothing else.
    if SEALED_PATH in script or script == _READ_FILE:
        if not arguments:
            return command
        words, last = arguments, script
    else:
        words, last = (script, *arguments), 'eval "shift; $1"'
    parts = _parts(" ".join(map(_quoted, words)))
    names = [f"{_VARIABLE}{index}" for index in range(len(parts))]
    whole = "".join(f"${{{name}}}" for name in names)
    starter = f'eval "set -- {whole}"; unset {" ".join(names)}; {last}'
    return replace(
        command,
        argv=(*argv[:_SCRIPT], starter, *argv[_NAME : _NAME + 1]),
        env={**command.env, **dict(zip(names, parts, strict=True))},
    )


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _parts(text: str) -> list[str]:
    """A text in pieces that one variable may hold each."""
    starts = range(0, len(text), _MAX_CHARACTERS)
    return [text[start : start + _MAX_CHARACTERS] for start in starts]
