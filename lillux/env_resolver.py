"""Environment that the program of an item gets, folded from the items it runs on.

Process environment, then the project's ``.env``, then each item's ``env_config``: the
interpreters it asks for and its own variables. Everything comes in as an argument; ``os.environ``
is not read.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import ConfigurationError
from lillux.interpreter_searches import InterpreterBlock, SearchEnvironment
from lillux.interpreters import MissingInterpreter, find_interpreter, parse_interpreter
from lillux.patterns import pattern
from lillux.program_files import Allows, everything_counts
from lillux.values import dataclass, replace
from lillux.variables import as_variable_name, canonical_name, kind_of, require_passable

if TYPE_CHECKING:
    from lillux.process.model import ProcessRunner


# What a program needs of the system, and nothing that tells a secret.
MINIMAL_NAMES = frozenset(
    {"HOME", "LANG", "PATH", "TERM", "TMPDIR"}
    | {"COMSPEC", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", "WINDIR"}  # Windows
)

# A placeholder may stand in a default: ``${CACHE:-{project_path}/cache}``. No possessive
# quantifiers: CPython before 3.11.5 gets some of them wrong.
_REFERENCE = pattern(
    r"\$\{(?P<variable>[A-Z_][A-Z0-9_]*)"
    r"(?::-(?P<default>(?:[^{}]|\{[a-z_][a-z0-9_]*\}|\{)*))?\}"
    r"|(?<!\$)\{(?P<placeholder>[a-z_][a-z0-9_]*)\}"
)
_PLACEHOLDER = pattern(r"(?<!\$)\{([a-z_][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedEnv:
    """An environment, and how it came about.

    variables    the whole of it.
    contributed  the names that an ``env_config`` has set, sorted.
    warnings     one line each, for the person who runs the item; they show no value of ``.env``.
    missing      interpreters that were looked for in vain, and where.
    dotenv       the names that the project's ``.env`` has set.
    approved     what of the project counted because its user approved it.
    copies       folders that hold copies of it, which are started in its place.
    """

    variables: Mapping[str, str]
    contributed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[MissingInterpreter, ...] = ()
    dotenv: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


class EnvResolver:
    """Resolves environments for the items of one execution.

    ``project_path`` is where ``.env`` and local interpreters are, ``user_base`` the folder of the
    user's own interpreters; both absolute. ``runner`` runs the programs of interpreters of type
    ``command``; None is the process manager of this layer. ``allows`` is asked about programs,
    ``.env`` and files that name a version.
    """

    def __init__(
        self,
        *,
        project_path: Path | None,
        user_base: Path | None,
        process_env: Mapping[str, str],
        platform: str = sys.platform,
        runner: "ProcessRunner | None" = None,
        allows: Allows = everything_counts,
    ) -> None:
        self._allows = allows
        self._project_path = _require_absolute("project_path", project_path)
        self._user_base = _require_absolute("user_base", user_base)
        self._platform = platform
        self._process_env = {canonical_name(key, platform): process_env[key] for key in process_env}
        self._runner = runner
        self._base: ResolvedEnv | None = None

    def base(self) -> ResolvedEnv:
        """The process environment with the project's ``.env`` over it, read once.

        See `lillux.dotenv_files.read_dotenv` for what that file may not set.
        """
        if self._base is None:
            self._base = self._read_base()
        return self._base

    def apply(
        self,
        accumulated: ResolvedEnv,
        env_config: Mapping[str, Any] | None,
        context: Mapping[str, str],
    ) -> ResolvedEnv:
        """The environment after one more item. Call it from primitive to tool: the last one wins.

        1. Interpreter blocks: ``interpreter`` first, then every other mapping with ``type`` and
           ``var``, in the order of the file.
        2. ``env``, in the order of the file, so that later entries see earlier ones. Values that
           are no strings are written out as ``str`` does.

        ``{name}`` is replaced by ``context[name]`` in both, ``${NAME}`` in ``env`` as by
        `_expand`; what is inserted is never looked through again. Unknown keys are left
        alone. Raises ConfigurationError for a wrong shape.
        """
        config = _as_mapping("env_config", env_config)
        env = accumulated
        # (1) before `env`, whose values may use what was found
        for block in _interpreter_blocks(config, context):
            env = self._add_interpreter(env, block)
        # (2) the item's own values
        return self._add_static(env, config.get("env"), context)

    def resolve(
        self,
        env_config: Mapping[str, Any] | None = None,
        tool_env: Mapping[str, str] | None = None,
        include_dotenv: bool = True,  # noqa: FBT001, FBT002 - a given signature
    ) -> dict[str, str]:
        """The environment for one ``env_config`` alone, in one call; its warnings are logged.

        1. The process environment. 2. The project's ``.env``. 3. Interpreter blocks. 4. ``env``.
        5. ``tool_env`` over all of it.
        """
        # (1), (2) the same for all items of an execution
        base = self.base() if include_dotenv else ResolvedEnv(variables=self._process_env)
        # (3), (4) what the item asks for
        resolved = self.apply(base, env_config, {})
        if resolved.warnings:
            _log(resolved.warnings)
        # (5) the caller has the last word
        overlay = {self._name(name): value for name, value in (tool_env or {}).items()}
        return {**resolved.variables, **overlay}

    def _read_base(self) -> ResolvedEnv:
        path = self._project_path / ".env" if self._project_path else None
        if path is None or not os.path.lexists(path):
            return ResolvedEnv(variables=self._process_env)
        from lillux.dotenv_files import read_dotenv

        added = read_dotenv(
            path.parent,
            self._process_env,
            platform=self._platform,
            allows=lambda data: self._allows(str(path), data),
        )
        variables = {**self._process_env, **added.variables}
        return ResolvedEnv(
            variables=variables, warnings=added.warnings, dotenv=tuple(added.variables)
        )

    def _add_interpreter(self, env: ResolvedEnv, block: InterpreterBlock) -> ResolvedEnv:
        var = self._name(block.var)
        variables = dict(env.variables)
        if var not in env.contributed:
            # Where it is from the process, it is the preset; from `.env` it must not count at all.
            variables.pop(var, None)
        finding = find_interpreter(
            block,
            SearchEnvironment(
                variables=variables,
                project_path=self._project_path,
                user_base=self._user_base,
                platform=self._platform,
                process_variables=self._process_env,
                allows=self._allows,
                runner=self._runner,
            ),
            preset=self._process_env.get(var, ""),
        )
        added = {var: finding.value} if finding.value else {}
        kept = tuple(missing for missing in env.missing if missing.var != var)
        return replace(
            env,
            variables={**variables, **added},
            contributed=_sorted_names(env.contributed, added),
            warnings=env.warnings + finding.warnings,
            missing=kept if finding.missing is None else (*kept, finding.missing),
        )

    def _add_static(
        self, env: ResolvedEnv, static: object, context: Mapping[str, str]
    ) -> ResolvedEnv:
        variables, names = dict(env.variables), set()
        for key, value in _as_mapping("env_config.env", static).items():
            name = self._name(as_variable_name("env_config.env", key))
            where = f"env_config.env.{key}"
            expanded = _expand(_written_out(where, value), variables, context)
            variables[name] = require_passable(where, expanded)
            names.add(name)
        return replace(
            env,
            variables=variables,
            contributed=_sorted_names(env.contributed, names),
            missing=tuple(missing for missing in env.missing if missing.var not in names),
        )

    def _name(self, name: str) -> str:
        return canonical_name(name, self._platform)


def _log(warnings: tuple[str, ...]) -> None:
    import logging  # seldom needed, and slow to import

    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)


def child_environment(
    resolved: ResolvedEnv,
    *,
    unset: Sequence[str] = (),
    minimal: bool = False,
    platform: str = sys.platform,
) -> dict[str, str]:
    """Environment of the child process: a resolved one but for the names in ``unset``.

    With ``minimal`` (``env_policy: minimal``), only `MINIMAL_NAMES` and what the items contributed.
    """
    dropped = {canonical_name(name, platform) for name in unset}
    kept = MINIMAL_NAMES.union(resolved.contributed) if minimal else resolved.variables
    return {
        name: value
        for name, value in resolved.variables.items()
        if name in kept and name not in dropped
    }


def _interpreter_blocks(
    config: Mapping[str, Any], context: Mapping[str, str]
) -> Iterator[InterpreterBlock]:
    for key in sorted(config, key=lambda key: key != "interpreter"):
        value = config[key]
        if key == "interpreter":
            value = _as_mapping("env_config.interpreter", value)
        elif key == "env" or not isinstance(value, Mapping) or not {"type", "var"} <= value.keys():
            continue
        filled = {name: _fill_value(item, context) for name, item in value.items()}
        block = parse_interpreter(f"env_config.{key}", filled)
        if block is not None:
            yield block


def declared_variables(env_config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the variables that an ``env_config`` sets, as `EnvResolver.apply` reads it."""
    found = [block.var for block in _interpreter_blocks(env_config, {})]
    return tuple(dict.fromkeys([*found, *map(str, _as_mapping("env", env_config.get("env")))]))


def _fill_value(value: object, context: Mapping[str, str]) -> object:
    """The value with placeholders filled in, as deep as interpreter blocks hold text."""
    if isinstance(value, str):
        return _fill(value, context)
    if isinstance(value, list | tuple):
        return tuple(_fill(item, context) if isinstance(item, str) else item for item in value)
    return value


def _expand(text: str, variables: Mapping[str, str], context: Mapping[str, str]) -> str:
    """The text with every ``${NAME}`` and ``${NAME:-default}`` replaced, once, left to right.

    NAME is upper case: ``[A-Z_][A-Z0-9_]*``; anything else, like ``${state.x}`` or ``$$``, is left
    as it stands. A variable that is missing or empty gives the default, or nothing. A default ends
    at the first ``}`` that does not close a ``{name}``. What is inserted, value or default, is
    never expanded again; ``{name}`` is filled in from ``context`` in the text and in defaults.
    """

    def replacement(match: re.Match[str]) -> str:
        if match["placeholder"]:
            return context.get(match["placeholder"], match[0])
        return variables.get(match["variable"]) or _fill(match["default"] or "", context)

    # Every reference ends with a brace: past the last one there is nothing to look for.
    end = text.rfind("}") + 1
    return _REFERENCE.sub(replacement, text[:end]) + text[end:]


def _fill(text: str, context: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: context.get(match[1], match[0]), text)


def _written_out(where: str, value: object) -> str:
    if value is None or isinstance(value, Mapping | list | tuple | set | bytes):
        raise ConfigurationError(where, f"expected a string or a number, got {kind_of(value)}")
    try:
        return str(value)
    except ValueError as error:  # Python writes no number with thousands of digits
        raise ConfigurationError(where, "expected a number that can be written out") from error


def _as_mapping(where: str, value: object) -> Mapping[Any, Any]:
    """The mapping; an empty one for None, as YAML reads a key with nothing after it."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(where, f"expected a mapping, got {kind_of(value)}")
    return value


def _require_absolute(where: str, path: Path | None) -> Path | None:
    if path is not None and not path.is_absolute():
        raise ConfigurationError(where, f"expected an absolute path, got {str(path)!r}")
    return path


def _sorted_names(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set().union(*names)))
