"""The words of a command: templates filled once, values kept out of shell code. Pure."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from lillux.templating import Names, as_text, fill
from lillux.values import replace
from ryeos.errors import SpecError
from ryeos.specs import type_name

_SHELL_NAME = re.compile(r"(?:ba|da|z|k|mk|a|ya|rba)?sh[-.\d]*(?:\.exe)?", re.IGNORECASE)
_COMMAND_OPTION = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_OPTION_WITH_ARGUMENT = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
_WHOLE_COMMAND = "{command}"


def filled_arguments(
    command: str, declared: object, names: Names, *, all_scripts: bool = False
) -> tuple[str, ...]:
    """The arguments of a program, filled; what a shell will parse has each value as one word.

    ``all_scripts`` says that a shell will parse every one of them (``config.shell``). Raises
    SpecError.
    """
    if not isinstance(declared, list | tuple):
        raise SpecError("config.args", f"expected a list, got {type_name(declared)}")
    plain = [as_text(fill(template, names)) for template in declared]
    scripts = range(1, len(plain) + 1) if all_scripts else script_positions([command, *plain])
    return tuple(
        filled_script(template, names, f"config.args[{index}]") if index + 1 in scripts else text
        for index, (template, text) in enumerate(zip(declared, plain, strict=True))
    )


def filled_script(template: object, names: Names, where: str) -> str:
    """A text that a shell will parse, filled. A caller's whole ``{command}`` stays as it is."""
    whole = template.strip() if isinstance(template, str) else ""
    if whole == _WHOLE_COMMAND or whole[1:-1] in names.verbatim:
        return as_text(fill(template, names))
    from ryeos.executor.shell_text import ShellText

    text = ShellText(where)
    return text.finished(as_text(fill(template, replace(names, quote=text.mark))))


def script_positions(words: Sequence[str]) -> frozenset[int]:
    """Which of a command's words a shell parses as a script: what follows its ``-c``.

    The shell may be the program, or come later: ``env bash -c ...``. ``-c`` may be one of several
    letters, and options may stand between it and the script.
    """
    positions = set()
    shell = script = has_argument = False
    for index, word in enumerate(words):
        goes_on = word[:1] in {"-", "+"} or has_argument
        if script:
            positions.add(index)
            script = shell = goes_on
        elif _SHELL_NAME.fullmatch(PurePath(word).name):
            shell = True
        else:
            script = shell and _COMMAND_OPTION.fullmatch(word) is not None
            shell = shell and goes_on
        has_argument = _OPTION_WITH_ARGUMENT.fullmatch(word) is not None
    return frozenset(positions)
