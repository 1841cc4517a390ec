"""From a chain, parameters and an environment to a command with nothing left to resolve. Pure.

(1) merge the configs from primitive to tool; a runtime may have variants by file type
(2) split the caller's parameters into what the tool gets and what steers the process
(3) names for templates: the engine's, then the config's, then the caller's
(4) fill command, arguments, standard input and working directory, each read once

What a caller says is inserted last and never read as a template (``docs/templates.md``).
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from lillux.env_resolver import ResolvedEnv
from lillux.process import MIB, ProgramNotFoundError
from lillux.templating import Names, as_text, fill
from lillux.values import dataclass, field
from ryeos.errors import SpecError
from ryeos.executor.anchor import Anchor
from ryeos.executor.arguments import filled_arguments, filled_script
from ryeos.executor.limits import GRACE_OVER_TOOL_TIMEOUT_S, MAX_LIMIT
from ryeos.executor.model import Chain, Invocation
from ryeos.specs import ParamsMode, type_name

DEFAULT_MAX_OUTPUT_BYTES = 10 * MIB
MAX_ARGUMENT_BYTES = 100 * 1024
STEERING = ("timeout", "cwd")
# `{command}` means the caller's, never the runtime's own program.
_CALLERS_ONLY = frozenset({"command", "args", "input_data", "env"})
_SCRIPT = "shell_script"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerValues:
    """A caller's parameters, taken apart.

    tool       what the tool receives
    steering   ``timeout`` and ``cwd``, where the tool's schema does not claim them
    warnings   parameters that the tool's fixed ones replace
    """

    tool: Mapping[str, Any]
    steering: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def filled_fixed_params(
    config: Mapping[str, Any], anchor: Anchor, env: ResolvedEnv
) -> dict[str, Any]:
    """The parameters that the chain itself gives, ``config.fixed_params``. Raises SpecError."""
    fixed = config.get("fixed_params") or {}
    if not isinstance(fixed, dict):
        raise SpecError("config.fixed_params", f"expected a mapping, got {type_name(fixed)}")
    names = Names(variables=env.variables, fixed=anchor.names, templates=config)
    return {name: fill(value, names) for name, value in fixed.items()}


def caller_values(
    parameters: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    config: Mapping[str, Any],
    fixed: Mapping[str, Any],
) -> CallerValues:
    """Take the caller's parameters apart, the ``fixed`` ones laid over them."""
    declared = (schema or {}).get("properties") or {}
    steering = {
        name: parameters[name] for name in STEERING if name in parameters and name not in declared
    }
    own = {name: value for name, value in parameters.items() if name not in steering}
    nested = config.get("params_key")
    if isinstance(nested, str):
        return CallerValues(tool={**fixed, nested: own}, steering=steering)
    clashes = sorted(own.keys() & fixed.keys())
    return CallerValues(
        tool={**own, **fixed},
        steering=steering,
        warnings=tuple(
            f"parameter {name} is fixed by the tool; yours is not used" for name in clashes
        ),
    )


def tool_timeout(limit_s: float | None, values: CallerValues) -> float | None:
    """The process's limit when the tool has a ``timeout`` parameter of its own: a little longer."""
    own = values.tool.get("timeout")
    if limit_s is None or isinstance(own, bool) or not isinstance(own, (int, float)):
        return limit_s
    return max(limit_s, min(own + GRACE_OVER_TOOL_TIMEOUT_S, MAX_LIMIT))


def merged_config(chain: Chain) -> dict[str, Any]:
    """The execution config of a chain: primitive first, the tool's own on top."""
    merged: dict[str, Any] = {}
    suffix = chain.tool.item.target.suffix if chain.tool.item else ""
    for element in reversed(chain.elements[1:]):
        merged |= element.spec.config
        for variant in element.spec.variants:
            if suffix in (variant.get("suffixes") or ()):
                merged |= variant["config"]
                break
    own = dict(chain.tool.spec.config)
    for name in _script_keys(merged):
        own.pop(name, None)
    return merged | own


def build_invocation(
    chain: Chain,
    config: Mapping[str, Any],
    values: CallerValues,
    *,
    anchor: Anchor,
    env: ResolvedEnv,
    child_env: Mapping[str, str],
    timeout_s: float | None,
) -> Invocation:
    """The command to run. Raises SpecError, ProgramNotFoundError."""
    params_json = params_text(values.tool)
    fixed: dict[str, object] = {
        **anchor.names,
        "tool_id": chain.tool.item_id,
        "params_json": params_json,
        "timeout": timeout_s,
    }
    names = Names(
        variables=env.variables,
        fixed=fixed,
        templates=config,
        opaque=values.tool,
        hidden=_CALLERS_ONLY,
        verbatim=frozenset({_SCRIPT}),
    )
    cwd = _cwd(config, values, names, anchor)
    fixed["cwd"] = str(cwd)
    if _script_keys(config):
        fixed[_SCRIPT] = _script(chain, config, values, names)
    command = as_text(fill(config.get("command", ""), names))
    _require_command(command, config, env)
    arguments = filled_arguments(
        command, config.get("args") or [], names, all_scripts=config.get("shell") is True
    )
    mode = _params_mode(chain)
    if _wants_params_argument(chain, mode, config):
        arguments = _with_params(arguments, anchor.names["tool_path"], params_json)
    stdin = (
        "" if mode is ParamsMode.ARGS else fill(config.get("input_data", "{params_json}"), names)
    )
    return Invocation(
        argv=(command, *arguments),
        env=child_env,
        cwd=cwd,
        stdin=as_text(stdin).encode("utf-8", "surrogatepass"),
        timeout_s=timeout_s,
        max_output_bytes=_max_output_bytes(config),
        contributed=env.contributed,
    )


def _script_keys(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a shell runtime looks for the tool's script, in order: its ``script_from``."""
    keys = config.get("script_from") or []
    if not isinstance(keys, list):
        raise SpecError("config.script_from", f"expected a list, got {type_name(keys)}")
    return tuple(key for key in keys if isinstance(key, str))


def _script(chain: Chain, config: Mapping[str, Any], values: CallerValues, names: Names) -> str:
    """The text after ``-c``: the tool's own with quoted values, else the caller's as it is."""
    for key in _script_keys(config):
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


def _require_command(command: str, config: Mapping[str, Any], env: ResolvedEnv) -> None:
    if command.strip():
        return
    for missing in env.missing:
        if f"${{{missing.var}}}" in str(config.get("command", "")):
            raise ProgramNotFoundError(
                missing.names[0],
                f"no such interpreter (searched: {', '.join(missing.directories) or 'nothing'})",
                searched=missing.directories,
            )
    raise SpecError("config.command", "No command specified")


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


def params_text(values: Mapping[str, Any]) -> str:
    """What a tool reads: one JSON object. Characters that no encoding holds are written as escapes.

    Parameters are JSON by then; a configuration file may hold dates, which become text.
    """
    text = json.dumps(dict(values), ensure_ascii=False, default=str)
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _params_mode(chain: Chain) -> ParamsMode:
    """The first element that says so decides."""
    modes = (element.spec.params_mode for element in chain.elements)
    return next((mode for mode in modes if mode is not ParamsMode.AUTO), ParamsMode.AUTO)


def _wants_params_argument(chain: Chain, mode: ParamsMode, config: Mapping[str, Any]) -> bool:
    if any("{params_json}" in str(template) for template in config.get("args") or ()):
        return False
    if mode is not ParamsMode.AUTO:
        return mode in {ParamsMode.ARGS, ParamsMode.BOTH}
    text = chain.tool.item.text if chain.tool.item else ""
    return "--params" in text and "stdin" not in text


def _with_params(arguments: tuple[str, ...], tool_path: str, params_json: str) -> tuple[str, ...]:
    size = len(params_json.encode("utf-8", "surrogatepass"))
    if size > MAX_ARGUMENT_BYTES:
        raise SpecError(
            "params_mode",
            f"expected parameters of at most {MAX_ARGUMENT_BYTES} bytes on a command line,"
            f" found {size}",
            hint="let the tool read its parameters from standard input",
        )
    position = arguments.index(tool_path) + 1 if tool_path in arguments else len(arguments)
    return (*arguments[:position], "--params", params_json, *arguments[position:])


def _max_output_bytes(config: Mapping[str, Any]) -> int:
    value = config.get("max_output_bytes", DEFAULT_MAX_OUTPUT_BYTES)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SpecError("config.max_output_bytes", f"expected a number of bytes, got {value!r}")
    return value
