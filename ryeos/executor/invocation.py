"""From a chain, parameters and an environment to a command with nothing left to resolve. Pure.

(1) names for templates: the engine's, then the config's, then the caller's
(2) fill command, arguments, standard input and working directory, each read once

What a caller says is inserted last and never read as a template (``docs/templates.md``).
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from lillux.interpreter_searches import either, find_on_path
from lillux.interpreters import MissingInterpreter
from lillux.process.model import MIB, ProgramNotFoundError
from lillux.templating import Names, as_text, fill
from lillux.values import replace
from ryeos.errors import SpecError
from ryeos.executor.anchor import Anchor
from ryeos.executor.arguments import filled_arguments, filled_script
from ryeos.executor.caller_values import CallerValues
from ryeos.executor.calls import Materials
from ryeos.executor.chain_config import script_keys
from ryeos.executor.model import Chain, Invocation
from ryeos.executor.template_names import engine_values, template_names
from ryeos.specs import ParamsMode, type_name

DEFAULT_MAX_OUTPUT_BYTES = 10 * MIB
MAX_ARGUMENT_BYTES = 100 * 1024
OWN_TIMEOUT_GRACE_S = 5.0
# `{command}` means the caller's, never the runtime's own program.
_CALLERS_ONLY = frozenset({"command", "args", "input_data", "env"})
_SCRIPT = "shell_script"
_PROJECT_OPTION = re.compile(r"""["']project-path["']""")
_PARAMS_OPTION = re.compile(r"""\bparams\s*:|["']params["']""")


def build_invocation(materials: Materials) -> Invocation:
    """The command to run. Raises SpecError, ProgramNotFoundError."""
    chain, config, values = materials.chain, materials.config, materials.values
    anchor, env = materials.anchor, materials.env
    fixed = engine_values(materials)
    names = replace(
        template_names(materials, fixed), hidden=_CALLERS_ONLY, verbatim=frozenset({_SCRIPT})
    )
    cwd = _cwd(config, values, names, anchor)
    fixed["cwd"] = str(cwd)
    if script_keys(config):
        fixed[_SCRIPT] = _script(chain, config, values, names)
    command = as_text(fill(config.get("command", ""), names))
    _require_command(command, config, materials)
    arguments = filled_arguments(
        command, config.get("args") or [], names, all_scripts=config.get("shell") is True
    )
    if config.get("flags"):
        from ryeos.executor.flags import flag_arguments

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
    )


def _script(chain: Chain, config: Mapping[str, Any], values: CallerValues, names: Names) -> str:
    """The text after ``-c``: the tool's own with quoted values, else the caller's as it is."""
    for key in script_keys(config):
        template = chain.tool.spec.config.get(key)
        if isinstance(template, str) and template.strip() and not _is_program(key, template):
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
    """Whether a ``config.command`` is the path of a program instead of a command line."""
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
    """Whether the process will find what the search did not: the anchor may add to its PATH."""
    return find_on_path(command, env.get("PATH", ""), platform=sys.platform) is not None


def _interpreter_not_found(missing: MissingInterpreter) -> ProgramNotFoundError:
    places = ", ".join(missing.directories) or "nothing"
    found = f"; {', '.join(missing.unusable)}" if missing.unusable else ""
    return ProgramNotFoundError(
        either(missing.names) or missing.var,
        f"no such interpreter (searched: {places}{found})",
        searched=missing.directories,
    )


def _cwd(config: Mapping[str, Any], values: CallerValues, names: Names, anchor: Anchor) -> Path:
    chosen = values.steering.get("cwd")
    if chosen is None:
        chosen = fill(config.get("cwd") or "", names) or anchor.cwd
    if not isinstance(chosen, str):
        raise SpecError("cwd", f"expected a path, got {type_name(chosen)}")
    path = Path(anchor.names["project_path"], chosen)
    if not os.path.isdir(path):  # noqa: PTH112 - says no to names that no system takes
        raise SpecError("cwd", f"expected a folder, found none at {str(path)[:200]}")
    return path


def _timeout_s(config: Mapping[str, Any], timeout_s: float | None) -> float | None:
    """Somewhat later for a program that keeps the limit itself, and says so in its own words."""
    if timeout_s is None or config.get("own_timeout") is not True:
        return timeout_s
    return timeout_s + OWN_TIMEOUT_GRACE_S


def _params_mode(chain: Chain) -> ParamsMode:
    """The first element that says so decides."""
    modes = (element.spec.params_mode for element in chain.elements)
    return next((mode for mode in modes if mode is not ParamsMode.AUTO), ParamsMode.AUTO)


def _has_params_argument(config: Mapping[str, Any]) -> bool:
    """Whether the runtime itself hands the parameters over as an argument."""
    return any("{params_json}" in str(template) for template in config.get("args") or ())


def _wants_params_argument(chain: Chain, mode: ParamsMode) -> bool:
    if mode is not ParamsMode.AUTO:
        return mode in {ParamsMode.ARGS, ParamsMode.BOTH}
    return chain.tool.item is not None and _reads_params_argument(chain.tool.item.text)


def _reads_params_argument(text: str) -> bool:
    """Whether a tool's source looks for ``--params`` instead of reading standard input.

    Node.js spells options without their dashes: ``params`` beside ``"project-path"``.
    """
    if "stdin" in text:
        return False
    return "--params" in text or bool(_PROJECT_OPTION.search(text) and _PARAMS_OPTION.search(text))


def _require_short(params_json: str, where: str, hint: str) -> None:
    """Systems refuse a long argument, and not with words that help."""
    size = len(params_json.encode("utf-8", "surrogatepass"))
    if size > MAX_ARGUMENT_BYTES:
        problem = f"expected parameters of at most {MAX_ARGUMENT_BYTES} bytes on a command line"
        raise SpecError(where, f"{problem}, found {size}", hint=hint)


def _with_params(arguments: tuple[str, ...], tool_path: str, params_json: str) -> tuple[str, ...]:
    position = arguments.index(tool_path) + 1 if tool_path in arguments else len(arguments)
    return (*arguments[:position], "--params", params_json, *arguments[position:])


def max_output_bytes(config: Mapping[str, Any]) -> int:
    """What a config allows an output to be. Raises SpecError."""
    value = config.get("max_output_bytes", DEFAULT_MAX_OUTPUT_BYTES)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SpecError("config.max_output_bytes", f"expected a number of bytes, got {value!r}")
    return value
