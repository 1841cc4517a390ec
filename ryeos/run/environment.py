"""The environment of a tool's process, folded from its chain. See ``docs/running.md``."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.env_resolver import EnvResolver, ResolvedEnv, child_environment
from lillux.process.model import ProcessRunner
from lillux.values import replace
from ryeos.items.context import ORIGINAL_VARIABLE, Context
from ryeos.items.errors import SpecError
from ryeos.items.refs import PROJECT, SHELLS, SYSTEM, tier_of
from ryeos.items.specs import type_name
from ryeos.run.anchor import Anchor
from ryeos.run.model import Chain
from ryeos.trust.approvals import (
    DOTENV_FILES,
    left_out_link,
    left_out_links,
    left_out_of_path,
    left_out_of_variable,
    not_approved,
    path_in_project,
)

_POLICIES = ("inherit", "minimal")
_SEARCHED = ("PATH", "PYTHONPATH", "NODE_PATH")
_MAX_LINKS = 40  # as the system follows
_SHOWN_LINKS = 5  # of a folder; some have one for each file of a repository


def resolved_environment(
    chain: Chain, anchor: Anchor, context: Context, runner: ProcessRunner | None
) -> ResolvedEnv:
    """Variables of templates: process, ``.env``, then primitive, runtimes and tool; the tool wins.

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
    """True if it runs what its caller writes."""
    return chain.tool.item_id in SHELLS and tier_of(chain.tool.space) == SYSTEM


def original_variables(
    chain: Chain, env: ResolvedEnv, process_env: Mapping[str, str]
) -> dict[str, str]:
    """Variables that a tool of the bundle gives back to Rye: the values under a ``.env``."""
    if not env.dotenv or tier_of(chain.tool.space) != SYSTEM:
        return {}
    return {ORIGINAL_VARIABLE: json.dumps({name: process_env.get(name) for name in env.dotenv})}


class ProjectGate:
    """The gate of a project: lets an item use what counts of it besides signed items.

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
        """True if a Python of the project counts."""
        return any(path.rpartition("/")[2].startswith(("python", "pypy")) for path in self.used)

    def allows_folder(self, path: str) -> bool:
        """True if a folder of the PATH that lies in a project counts: the project's own does."""
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
        """True if a program, a folder of them, a ``.env`` or a file that names a version counts.

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
        """The path in a project to which a link of a folder outside leads, at its end or before."""
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
    """Variables of the process: the environment as far as the chain lets it, then ``extra``.

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
    """Make Python programs write UTF-8, as it is read here, whatever the locale says.

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
