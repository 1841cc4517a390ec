"""Builds the command of a tool from its chain, parameters and environment. Pure.

(1) names for templates: the engine's, then the config's, then the caller's
(2) fill command, arguments, standard input and working directory, each read once

What a caller says is inserted last and never read as a template (``docs/writing-tools.md``).
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from lillux.interpreters import MissingInterpreter
from lillux.patterns import pattern
from lillux.process.model import MIB, SEALED_PATH, ProgramNotFoundError
from lillux.program_files import either, find_on_path
from lillux.templating import Names, as_text, fill
from lillux.values import replace
from ryeos.items.errors import SpecError
from ryeos.items.specs import ParamsMode, type_name
from ryeos.run.calls import Materials
from ryeos.run.chain import script_keys
from ryeos.run.model import Chain, Invocation
from ryeos.run.parameters import CallerValues

DEFAULT_MAX_OUTPUT_BYTES = 10 * MIB
MAX_ARGUMENT_BYTES = 100 * 1024
OWN_TIMEOUT_GRACE_S = 5.0
# `{command}` means the caller's, never the runtime's own program.
_CALLERS_ONLY = frozenset({"command", "args", "input_data", "env"})
_SCRIPT = "shell_script"
# What the shell calls it, in ``$0`` and in front of its errors: the tool's file where it has the
# script, else the shell's name, as a caller's own command is no script of a file.
_NAME_OF_SCRIPT = "shell_name"
_PROJECT_OPTION = pattern(r"""["']project-path["']""")
_PARAMS_OPTION = pattern(r"""\bparams\s*:|["']params["']""")


def build_invocation(materials: Materials) -> Invocation:
    """The command to run. Raises SpecError, ProgramNotFoundError."""
    chain, config, values = materials.chain, materials.config, materials.values
    anchor, env = materials.anchor, materials.env
    fixed = engine_values(materials)
    names = replace(
        template_names(materials, fixed),
        hidden=_CALLERS_ONLY,
        verbatim=frozenset({_SCRIPT, *(materials.caller_texts or ())}),
    )
    cwd = _cwd(materials, names)
    fixed["cwd"] = str(cwd)
    if script_keys(config):
        fixed[_SCRIPT] = _script(chain, config, values, names)
    command = as_text(fill(config.get("command", ""), names))
    _require_command(command, config, materials)
    command = materials.rights.program(command, materials.child_env, str(cwd))
    if _SCRIPT in fixed:
        is_own = _own_template(chain, config) is not None
        fixed[_NAME_OF_SCRIPT] = anchor.names["tool_path"] if is_own else PurePath(command).name
    arguments = filled_arguments(
        command, config.get("args") or [], names, all_scripts=config.get("shell") is True
    )
    if config.get("flags"):
        from ryeos.run.flags import flag_arguments

        arguments = (*arguments, *flag_arguments(config, values.tool, names))
    mode = _params_mode(chain)
    params_json = str(fixed["params_json"])
    if _has_params_argument(config):
        _require_short(
            params_json, "config.args", "let the tool read a file whose path is a parameter"
        )
    elif _wants_params_argument(chain, mode):
        _require_short(
            params_json, "params_mode", "let the tool read its parameters from standard input"
        )
        arguments = _with_params(arguments, anchor.names["tool_path"], params_json)
    stdin = (
        "" if mode is ParamsMode.ARGS else fill(config.get("input_data", "{params_json}"), names)
    )
    return Invocation(
        argv=(command, *arguments),
        env=materials.child_env,
        cwd=cwd,
        stdin=as_text(stdin).encode("utf-8", "surrogatepass"),
        timeout_s=_timeout_s(config, materials.timeout_s),
        max_output_bytes=max_output_bytes(config),
        contributed=env.contributed,
        confinement=materials.rights.confinement(command, materials.child_env),
        attempts=materials.request.attempts,
        withheld=materials.withheld,
        sealed=_sealed(chain, (command, *arguments)),
        is_text=materials.caller_texts is not None
        or (bool(script_keys(config)) and not _own_template(chain, config)),
    )


def _sealed(chain: Chain, words: Sequence[str]) -> bytes | None:
    """The tool's bytes, where its command reads them from a file that cannot be changed."""
    item = chain.tool.item
    return item.data if item and any(SEALED_PATH in word for word in words[:3]) else None


def _own_template(chain: Chain, config: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key and the text of a script that the tool's own file has."""
    for key in script_keys(config):
        template = chain.tool.spec.config.get(key)
        if isinstance(template, str) and template.strip() and not _is_program(key, template):
            return key, template
    return None


def _script(chain: Chain, config: Mapping[str, Any], values: CallerValues, names: Names) -> str:
    """The text after ``-c``: the tool's own with quoted values, else the caller's as it is."""
    own = _own_template(chain, config)
    if own:
        key, template = own
        return filled_script(template, names, f"config.{key}")
    command = values.tool.get("command")
    if isinstance(command, str) and command.strip():
        return command
    raise SpecError(
        "command",
        "No command specified",
        hint="give the parameter command='...', or write config.script in the tool",
    )


def _is_program(key: str, text: str) -> bool:
    """True if a ``config.command`` is the path of a program instead of a command line."""
    return key == "command" and PurePath(text).is_absolute() and len(text.split()) == 1


def _require_command(command: str, config: Mapping[str, Any], materials: Materials) -> None:
    """Refuse a command whose interpreter was searched in vain, its fallback included."""
    named = str(config.get("command", ""))
    for missing in materials.env.missing:
        is_needed = f"${{{missing.var}}}" in named or f"${{{missing.var}:-" in named
        if is_needed and not (command.strip() and _can_start(command, materials.child_env)):
            raise _interpreter_not_found(missing)
    if not command.strip():
        raise SpecError("config.command", "No command specified")


def _can_start(command: str, env: Mapping[str, str]) -> bool:
    """True if the process will find what the search did not: the anchor may add to its PATH."""
    return find_on_path(command, env.get("PATH", ""), platform=sys.platform) is not None


def _interpreter_not_found(missing: MissingInterpreter) -> ProgramNotFoundError:
    places = ", ".join(missing.directories) or "nothing"
    found = f"; {', '.join(missing.unusable)}" if missing.unusable else ""
    return ProgramNotFoundError(
        either(missing.names) or missing.var,
        f"no such interpreter (searched: {places}{found})",
        searched=missing.directories,
    )


def _cwd(materials: Materials, names: Names) -> Path:
    config, anchor = materials.config, materials.anchor
    chosen = materials.caller_cwd
    if chosen is None:
        chosen = fill(config.get("cwd") or "", names) or anchor.cwd
    if not isinstance(chosen, str):
        raise SpecError("cwd", f"expected a path, got {type_name(chosen)}")
    path = Path(anchor.names["project_path"], chosen)
    if not os.path.isdir(path):  # noqa: PTH112 - says no to names that no system takes
        raise SpecError("cwd", f"expected a folder, found none at {str(path)[:200]}")
    return path


def _timeout_s(config: Mapping[str, Any], timeout_s: float | None) -> float | None:
    """The limit of the process; a little more for a program that enforces the limit itself."""
    if timeout_s is None or config.get("own_timeout") is not True:
        return timeout_s
    return timeout_s + OWN_TIMEOUT_GRACE_S


def _params_mode(chain: Chain) -> ParamsMode:
    """The first element that says so decides."""
    modes = (element.spec.params_mode for element in chain.elements)
    return next((mode for mode in modes if mode is not ParamsMode.AUTO), ParamsMode.AUTO)


def _has_params_argument(config: Mapping[str, Any]) -> bool:
    """True if the runtime itself hands the parameters over as an argument."""
    return any("{params_json}" in str(template) for template in config.get("args") or ())


def _wants_params_argument(chain: Chain, mode: ParamsMode) -> bool:
    if mode is not ParamsMode.AUTO:
        return mode in {ParamsMode.ARGS, ParamsMode.BOTH}
    return chain.tool.item is not None and _reads_params_argument(chain.tool.item.text)


def _reads_params_argument(text: str) -> bool:
    """True if a tool's source looks for ``--params`` instead of reading standard input.

    Node.js spells options without their dashes: ``params`` beside ``"project-path"``.
    """
    if "stdin" in text:
        return False
    return "--params" in text or bool(_PROJECT_OPTION.search(text) and _PARAMS_OPTION.search(text))


def _require_short(params_json: str, where: str, hint: str) -> None:
    """Refuse parameters that are too long for a command line, with the limit in the error."""
    size = len(params_json.encode("utf-8", "surrogatepass"))
    if size > MAX_ARGUMENT_BYTES:
        problem = f"expected parameters of at most {MAX_ARGUMENT_BYTES} bytes on a command line"
        raise SpecError(where, f"{problem}, found {size}", hint=hint)


def _with_params(arguments: tuple[str, ...], tool_path: str, params_json: str) -> tuple[str, ...]:
    position = arguments.index(tool_path) + 1 if tool_path in arguments else len(arguments)
    return (*arguments[:position], "--params", params_json, *arguments[position:])


def max_output_bytes(config: Mapping[str, Any]) -> int:
    """The size that a config allows an output to have. Raises SpecError."""
    value = config.get("max_output_bytes", DEFAULT_MAX_OUTPUT_BYTES)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SpecError("config.max_output_bytes", f"expected a number of bytes, got {value!r}")
    return value


# The words of a command: templates filled once, values kept out of shell code. Pure.

_SHELL_NAME = pattern(r"(?:ba|da|z|k|mk|a|ya|rba)?sh[-.\d]*(?:\.exe)?", re.IGNORECASE)
_COMMAND_OPTION = pattern(r"-[A-Za-z]*c[A-Za-z]*")
_OPTION_WITH_ARGUMENT = pattern(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
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
    from ryeos.run.shell_values import ShellText

    text = ShellText(where)
    return text.finished(as_text(fill(template, replace(names, quote=text.mark))))


def script_positions(words: Sequence[str]) -> frozenset[int]:
    """Positions of the words that a shell parses as a script: what follows its ``-c``.

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


# The names that templates of a chain may use. See ``docs/writing-tools.md``. Pure.

_LONE_SURROGATE = pattern("[\ud800-\udfff]")


def template_names(materials: Materials, fixed: Mapping[str, object]) -> Names:
    """The engine's names (`engine_values`), then the chain's config, then the caller's values."""
    return Names(
        variables=materials.env.variables,
        fixed=fixed,
        templates=materials.config,
        opaque=materials.values.tool,
    )


def engine_values(materials: Materials) -> dict[str, object]:
    """The values that neither a config nor a caller can name otherwise."""
    return {
        **materials.anchor.names,
        "tool_id": materials.chain.tool.item_id,
        "params_json": params_text(materials.values.tool),
        "timeout": materials.timeout_s,
        **(materials.caller_texts or {}),
    }


def params_text(values: Mapping[str, Any]) -> str:
    """Values as the JSON object that a tool reads. Characters that no encoding holds are escapes.

    Parameters are JSON by then; a configuration file may hold dates, which become text.
    """
    text = json.dumps(dict(values), ensure_ascii=False, default=str)
    if text.isascii():  # most are: no expression is compiled for them
        return text
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
