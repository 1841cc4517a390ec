"""The words of a command: templates filled once, shell scripts among them with quoting. Pure."""

from dataclasses import replace

from lillux.templating import Names, as_text, fill
from ryeos.errors import SpecError
from ryeos.executor.shell_text import ShellText, script_positions
from ryeos.specs import type_name

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
    if isinstance(template, str) and template.strip() == _WHOLE_COMMAND:
        return as_text(fill(template, names))
    text = ShellText(where)
    return text.quoted(as_text(fill(template, replace(names, quote=text.mark))))
