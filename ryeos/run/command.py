"""Builds the command of a tool from its chain, parameters and environment. Pure.

(1) names for templates: the engine's, then the config's, then the caller's
(2) fill command, arguments, standard input and working directory, each read once

What a caller says is inserted last and never read as a template (``docs/writing-tools.md``).
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.interpreter_searches import either, find_on_path
from lillux.interpreters import EnvResolver, MissingInterpreter, ResolvedEnv, child_environment
from lillux.patterns import pattern
from lillux.process.model import (
    MIB,
    SEALED_PATH,
    Command,
    Outcome,
    ProcessRunner,
    ProgramNotFoundError,
)
from lillux.templating import Names, as_text, fill
from lillux.values import dataclass, replace
from ryeos.items.context import ORIGINAL_VARIABLE, Context
from ryeos.items.errors import SpecError
from ryeos.items.refs import AI_DIRECTORY, PROJECT, SHELLS, SYSTEM, tier_of
from ryeos.items.specs import ParamsMode, type_name
from ryeos.run.anchor import Anchor
from ryeos.run.calls import MappedResult, Materials, OnStderr, Services, ending, map_outcome
from ryeos.run.chain import script_keys
from ryeos.run.held import (
    ENVIRONMENT,
    STARTER,
    HeldStart,
    files_of,
    in_environment,
    shown_words,
    started_by,
)
from ryeos.run.model import Chain, ChainElement, HeldFiles, Invocation
from ryeos.run.parameters import CallerValues
from ryeos.trust.approvals import (
    DOTENV_FILES,
    left_out_link,
    left_out_links,
    left_out_of_path,
    left_out_of_variable,
    not_approved,
    path_in_project,
)
from ryeos.trust.verify import VerifiedItem

if TYPE_CHECKING:
    from lillux.sandbox import Confinement
    from ryeos.run.confinement import CallRights
    from ryeos.run.functions import Function, FunctionHost
    from ryeos.run.held_folder import HeldFolder


# --- invocation -----------------------------------------------------------------------------------

DEFAULT_MAX_OUTPUT_BYTES = 10 * MIB
MAX_ARGUMENT_BYTES = 100 * 1024
OWN_TIMEOUT_GRACE_S = 5.0
# `{command}` means the caller's, never the runtime's own program.
_CALLERS_ONLY = frozenset({"command", "args", "input_data", "env"})
_SCRIPT = "shell_script"
# What the shell calls it, in ``$0`` and in front of its errors: the tool's file where it has the
# script, else the shell's name, as a caller's own command is no script of a file.
_NAME_OF_SCRIPT = "shell_name"
# A runtime with this in its config refuses by itself to load files that were not verified.
GUARDED = "guarded"
# A tool in one of these is no program: what it says was parsed from the verified bytes.
_DATA_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".toml"})
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
    """Refuse parameters that are too long for a command line, with the limit in the error."""
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


# --- arguments ------------------------------------------------------------------------------------
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


# --- flags ----------------------------------------------------------------------------------------
# Parameters as flags of a program: ``config.flags``. Pure.
#
# ``{NAME: FLAG}``, in the order of the flags. What the caller did not say is left out, unless the
# chain's config has the name, or the engine does. A program with ``config.own_timeout`` has a limit
# of its own unless it is configured otherwise: ``config.no_timeout`` are the words for that.


def flag_arguments(
    config: Mapping[str, Any], given: Mapping[str, Any], names: Names
) -> tuple[str, ...]:
    """The words for the declared flags. Raises SpecError for a declaration of another shape.

    A list repeats its flag, a mapping does so with ``KEY=VALUE``, ``true`` is the flag alone, and
    ``false`` and ``null`` are nothing.
    """
    declared = config.get("flags") or {}
    if not isinstance(declared, Mapping):
        raise SpecError("config.flags", f"expected a mapping, got {type_name(declared)}")
    words: list[str] = []
    for name, flag in declared.items():
        if not isinstance(flag, str) or not flag:
            raise SpecError(f"config.flags.{name}", f"expected a flag, got {type_name(flag)}")
        words += _words(flag, _value(name, config, given, names))
    if config.get("own_timeout") is True and _value("timeout", config, given, names) is None:
        words += _no_timeout(config.get("no_timeout") or ())
    return tuple(words)


def _no_timeout(words: object) -> Iterator[str]:
    if not isinstance(words, list | tuple):
        raise SpecError("config.no_timeout", f"expected a list, got {type_name(words)}")
    yield from (as_text(word) for word in words)


def _value(name: str, config: Mapping[str, Any], given: Mapping[str, Any], names: Names) -> object:
    if name in given:
        return given[name]
    if name in names.fixed:
        return names.fixed[name]
    return fill(config[name], names) if name in config and name not in names.hidden else None


def _words(flag: str, value: object) -> Iterator[str]:
    match value:
        case None | False:
            return
        case True:
            yield flag
        case list() | tuple():
            for one in value:
                yield from (flag, as_text(one))
        case Mapping():
            for key, one in value.items():
                yield from (flag, f"{key}={as_text(one)}")
        case _:
            yield from (flag, as_text(value))


# --- template names -------------------------------------------------------------------------------
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
    """What a tool reads: one JSON object. Characters that no encoding holds are written as escapes.

    Parameters are JSON by then; a configuration file may hold dates, which become text.
    """
    text = json.dumps(dict(values), ensure_ascii=False, default=str)
    if text.isascii():  # most are: no expression is compiled for them
        return text
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


# --- shell text -----------------------------------------------------------------------------------
# Values in text that a shell will parse: none is ever written where the shell reads code.
#
# A value is assigned to a shell variable in front of the script, quoted whole, and its place in the
# script becomes a reference to that variable. What a variable holds is never read as code, so a
# place that is taken for another one costs at most the look of a value. How the reference is
# written depends on the quotes that are open there. Numbers mean nothing but themselves and stand
# as they are. Pure. See ``docs/writing-tools.md``.

_NUMBER = pattern(r"-?[0-9]+(?:\.[0-9]+)?")
_TOKEN = pattern(
    "\0(?P<mark>[0-9]+)\0"
    r"|(?P<escaped>\\[^\0])"
    r"|(?P<comment>(?<![^\s;&|()])\#[^\n\0]*)"
    r"|(?P<here><<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)(?P<rest>[^\n]*)\n)"
    r"|(?P<sign>\$?\(\(|\$?\(|['\"`)])",
    re.DOTALL,
)
_MARK = pattern("\0(?P<mark>[0-9]+)\0")
# Syntax that computes with what variables hold.
_EVALUATES = pattern(r"\(\(|\$\[|\[\[|\w\[|\s-v\s|\b(?:let|declare|typeset)\b")

_BARE, _SINGLE, _DOUBLE, _BACKQUOTES, _ARITHMETIC = "(", "'", '"', "`", "(("
_HERE, _QUOTED_HERE, _BACKSLASH = "<<", "<<'", "\\"


class ShellText:
    """One script: `mark` while it is filled, `finished` when it is whole.

    ``where`` is the path of the script in its file, for errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._marked: list[tuple[str, str]] = []

    def mark(self, value: str, placeholder: str) -> str:
        """What stands for a value until its place is known.

        An empty ``${VARIABLE}`` stays: it may be a variable of the script, or have a default.
        """
        if not value and placeholder.startswith("${"):
            return placeholder
        self._marked.append((value, placeholder))
        return f"\0{len(self._marked) - 1}\0"

    def finished(self, text: str) -> str:
        """The script with its assignments in front and references in place of the marks.

        Raises SpecError for a NUL, and where not even a reference is safe.
        """
        body = "".join(_References(text, self._reference_text).read())
        if "\0" in body or any("\0" in value for value, _ in self._marked):
            raise SpecError(self._where, "expected text without NUL characters")
        used = [index for index in range(len(self._marked)) if _variable(index) in body]
        if _EVALUATES.search(body):
            self._refuse_code([self._marked[index] for index in used])
        if not used:
            return body
        from shlex import quote

        assigned = " ".join(f"{_variable(i)}={quote(self._marked[i][0])}" for i in used)
        return f"{assigned}\n{body}"

    def _reference_text(self, index: int, place: str, follows: str) -> str:
        """How a value is written in a place, ``follows`` being the character behind it."""
        if index >= len(self._marked):
            raise SpecError(self._where, "expected text without NUL characters")
        value, placeholder = self._marked[index]
        if _NUMBER.fullmatch(value) and follows not in {"<", ">"}:
            return value
        if place not in _REFUSED:
            return _REFERENCES.get(place, _WORD).format(f"${{{_variable(index)}}}")
        if placeholder.startswith("${"):
            return placeholder
        raise SpecError(
            self._where,
            f"{placeholder} cannot be filled in {_REFUSED[place]}",
            hint=f"first write value={placeholder} on a line of its own, then use $value",
        )

    def _refuse_code(self, used: Sequence[tuple[str, str]]) -> None:
        """Where a shell computes, it runs commands in what a variable holds: ``a[$(...)]``."""
        for value, placeholder in used:
            if "[" in value and ("$(" in value or "`" in value or "${" in value):
                raise SpecError(
                    self._where,
                    f"the value of {placeholder} would be code where this script computes",
                    hint="let the tool's schema ask for a number or a pattern",
                )


_WORD = '"{}"'
_REFERENCES = {_SINGLE: "'\"{}\"'", _DOUBLE: "{}", _HERE: "{}"}
_REFUSED = {
    _ARITHMETIC: "arithmetic",
    _QUOTED_HERE: "a quoted here-document",
    _BACKSLASH: "a place behind \\",
}


def _variable(index: int) -> str:
    return f"__rye_{index}_"


class _References:
    """Reads a script as far as the places of values need it, and writes references there.

    ``places`` are the quotes and brackets that are open.
    """

    def __init__(self, text: str, written: Callable[[int, str, str], str]) -> None:
        self._text = text
        self._reference_text = written
        self._places: list[str] = []

    def read(self) -> Iterator[str]:
        position = 0
        while token := _TOKEN.search(self._text, position):
            yield self._text[position : token.start()]
            position = token.end()
            if token["here"] and self._place in {_BARE, _BACKQUOTES}:
                yield token.group()
                body, position = self._here_document(token)
                yield body
            else:
                yield self._step(token)
        yield self._text[position:]

    @property
    def _place(self) -> str:
        return self._places[-1] if self._places else _BARE

    def _step(self, token: re.Match[str]) -> str:
        text = token.group()
        if token["mark"]:
            place = _ARITHMETIC if _ARITHMETIC in self._places else self._place
            return self._reference(token, _BACKSLASH if self._is_escaped(token) else place)
        if token["sign"]:
            self._open_or_close(text)
        elif self._place == _SINGLE and token["escaped"] == "\\'":
            self._places.pop()  # between single quotes a backslash is itself
        return text

    def _reference(self, mark: re.Match[str], place: str) -> str:
        follows = self._text[mark.end() : mark.end() + 1]
        return self._reference_text(int(mark["mark"]), place, follows)

    def _is_escaped(self, mark: re.Match[str]) -> bool:
        before = self._text[: mark.start()]
        backslashes = len(before) - len(before.rstrip("\\"))
        return self._place != _SINGLE and backslashes % 2 == 1

    def _open_or_close(self, sign: str) -> None:
        """Follow a sign, as far as it means anything where it stands."""
        place = self._place
        if place == _SINGLE and sign != _SINGLE:
            return
        if place == _DOUBLE and sign in {_SINGLE, "(", "((", ")"}:
            return
        if sign == place and sign in {_SINGLE, _DOUBLE, _BACKQUOTES}:
            self._places.pop()
        elif sign == ")":
            del self._places[-1:]
        elif sign.endswith("(("):
            self._places += [_ARITHMETIC, _ARITHMETIC]
        else:
            self._places.append(sign[-1])

    def _here_document(self, token: re.Match[str]) -> tuple[str, int]:
        """The document's text with its references, and the position behind it."""
        line = re.compile(rf"^\t*{re.escape(token['end'])}$", re.MULTILINE)
        found = line.search(self._text, token.end())
        stop = found.start() if found else len(self._text)
        place = _QUOTED_HERE if token["quote"] else _HERE
        text = self._text[token.end() : stop]
        return _MARK.sub(
            lambda mark: self._reference_text(int(mark["mark"]), place, ""), text
        ), stop


# --- environment ----------------------------------------------------------------------------------
# The environment of a tool's process, folded from its chain. See ``docs/running.md``.

_POLICIES = ("inherit", "minimal")
_SEARCHED = ("PATH", "PYTHONPATH", "NODE_PATH")
_MAX_LINKS = 40  # as the system follows
_SHOWN_LINKS = 5  # of a folder; some have one for each file of a repository


def resolved_environment(
    chain: Chain, anchor: Anchor, context: Context, runner: ProcessRunner | None
) -> ResolvedEnv:
    """What templates see: process, ``.env``, then primitive, runtimes and tool; the tool wins.

    The anchor's own entries come last. Raises ConfigurationError.
    """
    gate = ProjectGate(context, chain.tool.space)
    resolver = EnvResolver(
        project_path=context.project_path,
        user_base=context.spaces.user.base,
        process_env=context.tool_environment(gate.allows_folder, gate.allowed_links),
        platform=context.platform,
        runner=runner,
        allows=gate.allows,
    )
    gate.notes.extend(map(left_out_of_variable, context.project_code))
    env = _without_withheld(resolver.base(), context)
    for element in reversed(chain.elements):
        env = resolver.apply(env, element.spec.env_config, anchor.names)
    anchored = anchor.with_programs(gate.allows)
    env = replace(env, variables=gate.with_copies(env.variables))
    # Bytecode that a start writes beside approved modules would be a change of what was approved.
    no_bytecode = {"PYTHONDONTWRITEBYTECODE": "1"} if gate.uses_python else {}
    added = {*anchor.env_paths, *anchor.env, *no_bytecode}
    env = _without_withheld(env, context)
    return ResolvedEnv(
        variables={**anchored.apply_to(env.variables), **no_bytecode},
        contributed=tuple(sorted({*env.contributed, *added})),
        warnings=(*env.warnings, *gate.notes),
        missing=env.missing,
        dotenv=env.dotenv,
        approved=tuple(gate.used),
        copies=gate.copies,
    )


def _without_withheld(env: ResolvedEnv, context: Context) -> ResolvedEnv:
    """Without the variables that no tool of this context gets: a ``.env`` may set them too."""
    if context.withheld.isdisjoint(env.variables):
        return env
    kept = {key: text for key, text in env.variables.items() if key not in context.withheld}
    return replace(env, variables=kept)


def is_shell(chain: Chain) -> bool:
    """Whether it runs what its caller writes."""
    return chain.tool.item_id in SHELLS and tier_of(chain.tool.space) == SYSTEM


def original_variables(
    chain: Chain, env: ResolvedEnv, process_env: Mapping[str, str]
) -> dict[str, str]:
    """What a tool of the bundle gives Rye back when it starts it: the values under a ``.env``."""
    if not env.dotenv or tier_of(chain.tool.space) != SYSTEM:
        return {}
    return {ORIGINAL_VARIABLE: json.dumps({name: process_env.get(name) for name in env.dotenv})}


class ProjectGate:
    """What an item may use of the project besides signed items.

    ``notes`` says what it may not, ``used`` what it may because the user approved it.

    1. What lies outside of the project counts, unless it is a link into a project.
    2. An item of a bundle or of user space uses no program of a project.
    3. Anything else counts where the user approved it (``rye trust``).
    """

    def __init__(self, context: Context, space: str) -> None:
        self._context = context
        self._is_own = space == PROJECT
        self.notes: list[str] = []
        self.used: list[str] = []
        self._copies: dict[str, str] = {}
        self._folders: dict[str, None] = {}

    def with_copies(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """The variables, those that name a program that is held with the path of its copy."""
        if not self._copies:
            return variables
        return {name: self._copies.get(value, value) for name, value in variables.items()}

    @property
    def copies(self) -> tuple[str, ...]:
        """The folders that programs are started in, in place of folders of the project."""
        return tuple(self._folders)

    @property
    def uses_python(self) -> bool:
        """Whether a Python of the project counts."""
        return any(path.rpartition("/")[2].startswith(("python", "pypy")) for path in self.used)

    def allows_folder(self, path: str) -> bool:
        """Whether a folder of the PATH that lies in a project counts: the project's own does."""
        is_here = path_in_project(self._context.project_path, path) is not None
        if self._is_own and is_here:
            return self.allows(path)
        self.notes.append(left_out_of_path(path))
        return False

    def allowed_links(self, folder: str, names: tuple[str, ...]) -> list[str]:
        """Those of the links of a folder of the PATH that count, of links that lead to projects."""
        before = len(self.notes)
        allowed = [name for name in names if self.allows(f"{folder}/{name}")]
        more = self.notes[before + _SHOWN_LINKS :]
        if more:
            self.notes[before + _SHOWN_LINKS :] = [left_out_links(folder, len(more))]
        return allowed

    def allows(self, path: str, data: bytes | None = None) -> bool:
        """Whether a program, a folder of them, a ``.env`` or a file that names a version counts.

        ``data`` is the text of a file that was read already, to be used.
        """
        relative = path_in_project(self._context.project_path, path)
        if relative is None:  # (1)
            leads_to = self._end_in_project(path)
            if not leads_to:
                return True
            relative = path_in_project(self._context.project_path, leads_to)
            if relative is None or not self._is_own:
                self.notes.append(left_out_link(path, leads_to))
                return False
        if not self._is_own and relative not in DOTENV_FILES:  # (2)
            return False
        if self._context.approves(relative, data):  # (3)
            if relative not in self.used:
                self.used.append(relative)
            copy = "" if path in self._copies else self._context.places(relative)
            if copy:
                self._copies[path] = copy
                self._folders[copy.removesuffix(f"/{relative}")] = None
            return True
        note = not_approved(path, "used")
        if note not in self.notes:
            self.notes.append(note)
        return False

    def _end_in_project(self, path: str) -> str:
        """Where a link of a folder outside leads into a project, on its way or at its end."""
        for followed in range(_MAX_LINKS):
            try:
                path = str(Path(path).parent / Path(path).readlink())
            except OSError:  # it is no link; a file may be a project's by its own name
                is_inside = followed and self._context.is_in_project(path)
                return os.path.normpath(path) if is_inside else ""
            if self._context.is_in_project(str(Path(path).parent)):
                return os.path.normpath(path)
        return path


def process_environment(
    chain: Chain,
    anchor: Anchor,
    env: ResolvedEnv,
    extra: Mapping[str, str],
    platform: str,
    *,
    allows: Callable[[str], bool] | None = None,
) -> dict[str, str]:
    """What the process gets: the resolved environment as far as the chain lets it, then ``extra``.

    ``allows`` says which names the rights of the call let through, None for all.

    Raises SpecError for an invalid ``unset`` or ``env_policy``.
    """
    declared = [element.spec.env_config for element in chain.elements]
    kept = child_environment(
        env,
        unset=[name for block in declared for name in _unset(block)],
        minimal="minimal" in [_policy(block) for block in declared],
        platform=platform,
    )
    if allows is not None:
        kept = {name: value for name, value in kept.items() if allows(name)}
    return {
        **_in_utf8(_without_empty_entries(kept), env.contributed),
        "RYE_PROJECT_PATH": anchor.names["project_path"],
        "RYE_TOOL_PATH": anchor.names["tool_path"],
        "RYE_TOOL_ID": chain.tool.item_id,
        **extra,
    }


def _in_utf8(env: Mapping[str, str], declared: Sequence[str]) -> Mapping[str, str]:
    """What Python programs write is UTF-8, as it is read here, whatever the locale says.

    ``declared`` are the variables that items set, which stay. In the locale C Python does that.
    """
    words = [env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    locale = next(filter(None, words), "").lower()
    is_utf8 = "utf-8" in locale or "utf8" in locale
    is_plain = locale in ("", "c", "posix") and env.get("PYTHONUTF8") != "0"
    encoding = env.get("PYTHONIOENCODING", "utf-8").partition(":")[0].lower()
    changed = dict(env)
    if not (is_utf8 or is_plain or "PYTHONUTF8" in declared):
        changed["PYTHONUTF8"] = "1"
    if encoding not in ("", "utf-8", "utf8") and "PYTHONIOENCODING" not in declared:
        del changed["PYTHONIOENCODING"]
    return changed


def _without_empty_entries(env: Mapping[str, str]) -> dict[str, str]:
    """An empty or relative entry in a list of folders would be in an unsigned project.

    Empty ones come from ``export PYTHONPATH=$PYTHONPATH:/mine``, and not by intent.
    """
    lists = {name: env[name].split(os.pathsep) for name in _SEARCHED if name in env}
    cleaned = {name: os.pathsep.join(filter(os.path.isabs, lists[name])) for name in lists}
    return {name: cleaned.get(name, value) for name, value in env.items() if cleaned.get(name, "-")}


def _unset(block: Mapping[str, Any]) -> Iterator[str]:
    names = block.get("unset") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpecError("env_config.unset", f"expected a list of names, got {type_name(names)}")
    yield from names


def _policy(block: Mapping[str, Any]) -> str:
    policy = block.get("env_policy") or _POLICIES[0]
    if policy not in _POLICIES:
        known = ", ".join(_POLICIES)
        raise SpecError("env_config.env_policy", f"expected one of {known}, got {policy!r}")
    return str(policy)


# --- process call ---------------------------------------------------------------------------------
# A call that starts a program and waits for its end: what most runtimes are.

SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class ProcessCall:
    """An invocation, what runs it, and its rights. See `ryeos.run.calls.Call`."""

    invocation: Invocation
    runner: ProcessRunner
    rights: "CallRights"

    @property
    def program(self) -> str:
        """The program that it starts."""
        return self.invocation.argv[0]

    @property
    def confinement(self) -> "Confinement | None":
        """What the program may not do."""
        return self.invocation.confinement

    def describe(self) -> dict[str, Any]:
        """The command, its folder, its limit, and the names of the variables that were set."""
        return describe_invocation(self.invocation, self.rights)

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Run the program. Raises ProgramNotFoundError, SpawnError, ConfigurationError."""
        outcome = self.outcome(cancellation=cancellation, on_stderr=on_stderr)
        invocation = self.invocation
        mapped = map_outcome(outcome, invocation.timeout_s, is_text=invocation.is_text)
        return self.with_refusals(mapped)

    def with_refusals(self, mapped: MappedResult) -> MappedResult:
        """The result, with the refused accesses."""
        invocation, rights = self.invocation, self.rights
        if invocation.confinement is None or (mapped.success and not rights.watches):
            return mapped
        from ryeos.run.refusals import with_refusals

        return with_refusals(
            mapped,
            invocation.confinement,
            rights,
            invocation.attempts,
            cwd=str(invocation.cwd),
            search_path=invocation.env.get("PATH", os.defpath),
            withheld=invocation.withheld,
        )

    def outcome(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> Outcome:
        """What came of running the program. Raises as `run`."""
        with opened(self.invocation, self.rights) as invocation:
            if invocation.folder is None:
                command = command_of(invocation)
                return self.runner.run(command, cancellation=cancellation, on_stderr=on_stderr)
            with invocation.folder.made():
                command = command_of(with_copies(invocation, invocation.folder))
                return self.runner.run(command, cancellation=cancellation, on_stderr=on_stderr)


def process_call(materials: Materials, services: Services) -> ProcessCall:
    """The call for these materials. Raises SpecError, ProgramNotFoundError."""
    invocation = replace(build_invocation(materials), on_stdout=materials.request.on_stdout)
    if STARTER in materials.config:
        held = held_files(materials, services)
        started = started_by(invocation, held, *invocation.argv[1:])
        invocation = in_environment(started, held_start(started.argv[0], materials, services))
    elif invocation.sealed is None:
        invocation = replace(invocation, folder=_folder(invocation, materials))
    return ProcessCall(invocation, services.runner, materials.rights)


def _folder(invocation: Invocation, materials: Materials) -> "HeldFolder | None":
    """The copies that a command shall open instead of verified files; None where it opens none."""
    tool, files, anchor = materials.chain.tool.item, materials.files, materials.anchor
    if tool is None or (tool.target.suffix in _DATA_SUFFIXES and not files.items):
        return None
    from ryeos.run.held_folder import HeldFolder, new_place

    own = str(tool.target.path.parent)
    held = HeldFolder(
        path=new_place(Path(anchor.names["user_space"], AI_DIRECTORY)),
        files=files_of((*files.items, tool)),
        folders=files.folders or {own: os.path.realpath(own)},
        names=tuple({*anchor.env, *anchor.env_paths} - {"PATH"}),
        rules=files.rules,
        is_guarded=materials.config.get(GUARDED) is True,
        is_bare=files.rules.leaves_out and not anchor.active,
        root=os.path.realpath(tool.target.space.base),
    )
    names_files = any(map(held.place_of, invocation.argv))
    return held if names_files or anchor.active else None


def with_copies(invocation: Invocation, folder: "HeldFolder") -> Invocation:
    """The invocation with copies in place of files and of folders that are searched for modules."""
    confinement = invocation.confinement
    if confinement is not None:
        readable, executable = confinement.readable, confinement.executable
        confinement = replace(
            confinement,
            readable=None if readable is None else (*readable, folder.path),
            executable=None if executable is None else (*executable, folder.path),
        )
    return replace(
        invocation,
        argv=tuple(folder.place_of(word) or word for word in invocation.argv),
        env={**invocation.env, **folder.variables(invocation.env)},
        confinement=confinement,
    )


def held_files(materials: Materials, services: Services) -> HeldFiles:
    """The bytes that a starter needs: the tool's, and those of all verified files around it.

    Raises SpecError, IntegrityError and similar.
    """
    chain, files = materials.chain, materials.files
    starter = companion_named(STARTER, materials, services)
    own = (chain.tool.item,) if chain.tool.item else ()
    return HeldFiles(
        starter=starter.data, files=files_of((*files.items, *own)), folders=files.folders
    )


def command_of(invocation: Invocation) -> Command:
    """What a process runner takes."""
    return Command(
        argv=invocation.argv,
        env=invocation.env,
        cwd=invocation.cwd,
        stdin=invocation.stdin,
        timeout_s=invocation.timeout_s,
        max_output_bytes=invocation.max_output_bytes,
        leaves_nothing=True,
        confinement=invocation.confinement,
        on_attempt=invocation.attempts.append,
        on_stdout=invocation.on_stdout,
        has_private_words=True,
        sealed=invocation.held.packed() if invocation.held else invocation.sealed,
    )


@contextmanager
def opened(invocation: Invocation, rights: "CallRights") -> Iterator[Invocation]:
    """The invocation with its way to hosts open, and what it may write there, until the end.

    Its private temporary folder is made for it and removed with all that is in it. Raises
    FileSystemError.
    """
    if invocation.confinement is None and not rights.needs_folder:
        yield invocation
        return
    with rights.temporary_folder(invocation.env) as folder:
        rights.prepare_folders(folder)
        with _with_hosts(placed_invocation(invocation, folder), rights) as given:
            yield given


def placed_invocation(invocation: Invocation, folder: Path | None) -> Invocation:
    """The invocation with its private temporary folder, if it has one."""
    if folder is None:
        return invocation
    from lillux.run_folders import VARIABLES
    from ryeos.run.confinement import placed_confinement

    wanted = invocation.confinement
    return replace(
        invocation,
        env={**invocation.env, **dict.fromkeys(VARIABLES, str(folder))},
        confinement=placed_confinement(wanted, folder) if wanted else None,
    )


@contextmanager
def _with_hosts(invocation: Invocation, rights: "CallRights") -> Iterator[Invocation]:
    """The invocation with a way to its hosts, whose refusals it hears within the block."""
    confinement = invocation.confinement
    forwarder = rights.forwarder() if confinement else None
    if forwarder is None or confinement is None:
        yield invocation
        return
    from lillux.seccomp import Addresses, Reach

    addresses = Addresses(Reach.PROXY, forwarder.port)
    with forwarder.hearers.heard_by(invocation.attempts.append):
        yield replace(
            invocation,
            env=rights.proxied(invocation.env, forwarder),
            confinement=replace(confinement, addresses=addresses),
        )


def describe_invocation(invocation: Invocation, rights: "CallRights") -> dict[str, Any]:
    """An invocation to be shown: without the secrets that the environment put into it."""
    return {
        "command": [masked(word, invocation.env) for word in shown_words(invocation.argv)],
        "cwd": str(invocation.cwd),
        "env_keys": list(invocation.contributed),
        "timeout_s": invocation.timeout_s,
        "sandbox": rights.describe(),
    }


def masked(text: str, env: Mapping[str, str]) -> str:
    """A text without the values of variables whose names speak of secrets."""
    from lillux.secret_names import says_secret

    for name, value in env.items():
        if len(value) >= SHORTEST_SECRET and says_secret(name):
            text = text.replace(value, "***")
    return text


# --- function call --------------------------------------------------------------------------------
# A call of a Python tool's function: in a warm worker, or in a process of its own.
#
# ``config.protocol: function`` of a runtime asks for it; ``config.host`` is the id of the file that
# calls functions under the tool's interpreter. Page: ``docs/writing-tools.md``.


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A call with nothing left to resolve. See `ryeos.run.calls.Call`.

    single     what makes this one call in a process of its own
    held       the bytes of the tool and of its modules
    functions  makes it in a warm worker; None where there are none
    """

    single: ProcessCall
    host: VerifiedItem
    tool: VerifiedItem
    held: HeldFiles
    project_path: str
    functions: "FunctionHost | None"
    environment: HeldStart | None = None

    @property
    def program(self) -> str:
        """The program that it starts."""
        return self.single.program

    @property
    def confinement(self) -> "Confinement | None":
        """What the program may not do."""
        return self.single.confinement

    def describe(self) -> dict[str, Any]:
        """The command of a process of its own, and what goes with it."""
        return describe_invocation(self.single.invocation, self.single.rights)

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Call the function. Raises IntegrityError, ProgramNotFoundError, SpawnError."""
        outcome = self._outcome(cancellation, on_stderr)
        timeout_s = self.single.invocation.timeout_s
        return _with_result(self.single.with_refusals(map_outcome(outcome, timeout_s)), outcome)

    def _outcome(self, cancellation: Cancellation | None, on_stderr: OnStderr | None) -> Outcome:
        if self.functions and not self.single.rights.watches:
            self.single.rights.prepare_folders(None)
            with _with_hosts(self.single.invocation, self.single.rights) as invocation:
                outcome = self.functions.call(
                    self._function(invocation),
                    invocation,
                    cancellation=cancellation,
                    on_stderr=on_stderr,
                )
            if outcome:
                return outcome
        return self.single.outcome(cancellation=cancellation, on_stderr=on_stderr)

    def _function(self, invocation: Invocation) -> "Function":
        from ryeos.run.functions import Function
        from ryeos.run.programs import program_at

        variables = invocation.held.variables if invocation.held else {}
        return Function(
            interpreter=invocation.argv[0],
            starter=self.held.starter,
            host=str(self.host.target.path),
            host_text=self.host.data,
            tool_path=str(self.tool.target.path),
            files=replace(self.held, starter=b"", variables=variables).packed(),
            project_path=self.project_path,
            env={**invocation.env, **variables},
            confinement=invocation.confinement,
            environment=self.environment,
            needs_folder=self.single.rights.needs_folder,
            program=program_at(invocation.argv[0]),
            is_observed=bool(self.single.rights.lasting_folders),
            rules=invocation.confinement.state() if invocation.confinement else None,
        )


def function_call(materials: Materials, services: Services) -> FunctionCall:
    """The call for these materials. Raises SpecError, ProgramNotFoundError and similar."""
    host = companion_named("host", materials, services)
    tool = _tool(materials.chain)
    held = held_files(materials, services)
    project_path = materials.anchor.names["project_path"]
    words = (str(host.target.path), "call", str(tool.target.path), project_path)
    with_host = replace(held, files={**held.files, **files_of((host,))})
    stdin = params_text(materials.values.tool).encode("utf-8", "surrogatepass")
    started = started_by(build_invocation(materials), with_host, *words)
    environment = held_start(started.argv[0], materials, services)
    invocation = in_environment(started, environment)
    return FunctionCall(
        single=ProcessCall(replace(invocation, stdin=stdin), services.runner, materials.rights),
        host=host,
        tool=tool,
        held=held,
        project_path=project_path,
        functions=services.functions,
        environment=environment,
    )


def held_start(program: str, materials: Materials, services: Services) -> "HeldStart | None":
    """The approved environment of a Python, to be set up from compared bytes; None for another one.

    Raises IntegrityError where it is not as it was approved.
    """
    if not any(ENVIRONMENT in element.spec.config for element in materials.chain.elements):
        return None
    environment = services.holds(program)
    if environment is None:
        return None
    return HeldStart(environment, companion_named(ENVIRONMENT, materials, services).data)


def _tool(chain: Chain) -> VerifiedItem:
    item = chain.tool.item
    if item is None or item.target.suffix != ".py":
        where = chain.tool.path or chain.tool.item_id
        raise SpecError(
            str(where),
            "expected a Python file with execute(params, project_path)",
            hint="a tool written in YAML has no function; give it another executor_id",
        )
    return item


def companion_named(key: str, materials: Materials, services: Services) -> VerifiedItem:
    """The file that ``config.KEY`` of a chain names, as the element sees it that has the key."""
    for element in materials.chain.elements:
        if key in element.spec.config:
            return _companion(element, key, services)
    raise SpecError(f"config.{key}", "expected the id of a file, got nothing")


def _companion(element: ChainElement, key: str, services: Services) -> VerifiedItem:
    item_id = element.spec.config[key]
    if not isinstance(item_id, str):
        raise SpecError(f"config.{key}", f"expected an id, got {type_name(item_id)}")
    companion = services.companion(item_id, element)
    if companion.item is None:
        raise SpecError(f"config.{key}", f"expected the id of a file, got {item_id!r}")
    return companion.item


def _with_result(mapped: MappedResult, outcome: Outcome) -> MappedResult:
    """A function always leaves a result, unless something ended its process."""
    if outcome.stdout.data or outcome.timed_out or outcome.cancelled:
        return mapped
    ended_well = outcome.exit_code == 0
    error = (
        "the tool ended its process before there was a result" if ended_well else ending(outcome)
    )
    return replace(mapped, success=False, error=error, code="EXECUTION_FAILED")
