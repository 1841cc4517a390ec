"""The context of a call, read once: folders, environment, platform. Immutable.

Only `ryeos.cli` reads the real environment; it calls `context_from` and hands the value down.
"""

import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.values import dataclass, field
from ryeos.items.errors import UsageError, no_project_error
from ryeos.items.places import (
    IsInside,
    Projects,
    folders_of,
    may_have_links,
    may_name_code,
    named_folder,
    note_projects,
    noted_projects,
    project_folder,
    user_folder,
)
from ryeos.items.refs import PRIVATE_FOLDERS, PROJECT, USER, Space, Spaces

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from lillux.folder_restrictions import FolderRestrictions
    from ryeos.items.path_links import LinkedFolder


PRIVATE_KEY_VARIABLE, PASSPHRASE_VARIABLE = "RYE_SIGNING_KEY", "RYE_KEY_PASSPHRASE"
# No tool gets these; the last is the mark of the run that this program was started in.
_NOT_FOR_TOOLS = frozenset(
    {PRIVATE_KEY_VARIABLE, PASSPHRASE_VARIABLE, "RYE_NEW_KEY_PASSPHRASE", "LILLUX_RUN"}
)
# What this program was started with, before `ryeos.items.own_code` started it once more.
LOADER_VARIABLE = "RYE_LOADER_ENV"
PROGRAM_VARIABLE, ORIGINAL_VARIABLE = "RYE_PROGRAM", "RYE_ORIGINAL_ENV"
CONFINE_VARIABLE, SANDBOX_VARIABLE = "RYE_CONFINE", "RYE_SANDBOX"
RECEIPTS_VARIABLE = "RYE_RECEIPTS"


ToolPrograms = Callable[[], str | None]


def no_programs() -> None:
    """No folder with programs for tools."""


ProgramWords = Callable[[], tuple[str, ...]]


def no_words() -> tuple[str, ...]:
    """It is not known how this program is started."""
    return ()


Passphrase = Callable[[Path], bytes | None]


def no_passphrase(path: Path) -> None:
    """There is no terminal to ask at."""


# Whether the user approved a path of the project, see `ryeos.trust.approvals.ProjectApproval`. A
# second argument is the text of the file, where it was read already and is to be used. No Protocol:
# every start would import `typing` for it.
Approves = Callable[..., bool]


def nothing_approved(relative: str, data: bytes | None = None) -> bool:  # noqa: ARG001 - no path of the project counts
    """Approve nothing of what a project brings besides signed items."""
    return False


KeepsLinks = Callable[[str, tuple[str, ...]], Collection[str]]


def no_link_kept(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001 - whatever they are
    """No link of a folder of the PATH that leads into a project counts."""
    return ()


Holds = Callable[[str], "Any"]


def nothing_held(program: str) -> None:
    """No interpreter is started from bytes that were compared."""


def no_copy(relative: str) -> str:  # noqa: ARG001 - no program of the project counts
    """No program is started elsewhere than where it is."""
    return ""


def _with_left(env: Mapping[str, str], left: Mapping[str, str]) -> Mapping[str, str]:
    """An environment with what is left of some variables; without those of which nothing is."""
    if not left:
        return env
    return {name: value for name, value in {**env, **left}.items() if left.get(name, "-")}


KEPT_S = 1.0
"""A walk of the PATH holds for so long: its folders are given to programs that run for longer."""


@dataclass(frozen=True, slots=True)
class PathWalk:
    """The folders of a PATH that lie in projects, and those with links that lead there."""

    inside: tuple[str, ...]
    linked: "Mapping[str, LinkedFolder]"
    kept_until: float


class LockMode(StrEnum):
    """The word of ``RYE_LOCK`` about lockfiles."""

    OFF = "off"
    WARN = "warn"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything that one invocation depends on.

    process_env   the environment of this program, as far as tools may have it
    tool_programs gives a folder that comes last on the PATH of tools, or None; asked when a tool
                  is run, as it may have to be made
    pages_are_signed_later  where there is no private key, its owner signs later what runs write
    dev_mode      integrity errors become loud warnings (``RYE_DEV_MODE=1``)
    key_directory where the private signing key is
    confines      tools get neither keys nor what gives rights: they are an agent's, or a node's
    sandbox       the level of RYE_SANDBOX, see `ryeos.run.sandbox_policy`
    receipts      ``on`` or ``full`` where each run leaves a receipt, ``""`` where graphs do
    on_node       tools run on a node, for another user
    node_policy   what the operator of that node lets tools do at most, as a policy file says it
    reaches_sockets  the operator lets tools connect to any local socket
    passphrase    gives that of the user's key, whose file is named; None without a terminal
    approves      whether the user approved a path of the project (``rye trust``)
    holds         gives an approved environment with its bytes, by the path of its Python
    places        gives the path of the copy that an approved program is started from, or ""
    is_copy       the project is a copy for one test case: nothing below its ``.ai`` gives rights
    program_words gives what starts this program once more, () where that is not known
    withheld      variables that no tool gets, also where a ``.env`` sets them
    walks         what was found along the PATH, by PATH and project
    """

    spaces: Spaces
    process_env: Mapping[str, str]
    key_directory: Path
    cwd: Path
    dev_mode: bool = False
    lock_mode: LockMode = LockMode.STRICT
    platform: str = sys.platform
    tool_programs: ToolPrograms = no_programs
    program_words: ProgramWords = no_words
    pages_are_signed_later: bool = False
    approves: Approves = nothing_approved
    holds: Holds = nothing_held
    places: Callable[[str], str] = no_copy
    confines: bool = False
    sandbox: str = ""
    on_node: bool = False
    node_policy: Mapping[str, object] = field(default_factory=dict)
    reaches_sockets: bool = False
    receipts: str = ""
    is_copy: bool = False
    passphrase: Passphrase = no_passphrase
    withheld: frozenset[str] = frozenset()
    walks: dict[tuple[str, str], PathWalk] = field(default_factory=dict, repr=False, compare=False)

    def program_variables(self) -> Mapping[str, str]:
        """Variables that tell a tool how to start this program, in the same user space."""
        words = self.program_words()
        if not words:
            return {}
        import json

        return {PROGRAM_VARIABLE: json.dumps([*words, "--user-space", str(self.spaces.user.base)])}

    @property
    def project_programs(self) -> tuple[str, ...]:
        """The folders of the PATH that lie in a project, as those of an activated environment.

        What is there an agent may write: Rye finds no program in them.
        """
        return self._walk().inside

    @property
    def linked_programs(self) -> "Mapping[str, LinkedFolder]":
        """Other folders of the PATH, by their paths, with links that lead into a project."""
        return self._walk().linked

    def _walk(self) -> PathWalk:
        search_path = self.process_env.get(self._path_variable(), "")
        key = (search_path, str(self.project_path or ""))
        found = self.walks.get(key)
        if found is None or found.kept_until < time.monotonic():
            is_inside = self._is_inside()
            folders = folders_of(search_path, self.platform)
            inside = tuple(filter(is_inside, folders))
            # On a node no user of it can write but in the project, where no link of its PATH leads.
            others = () if self.on_node else [one for one in folders if one not in inside]
            linked = [one for one in others if may_have_links(one, self.platform)]
            found = PathWalk(inside, self._linked(linked, is_inside), time.monotonic() + KEPT_S)
            self.walks[key] = found
        return found

    def _linked(self, folders: list[str], is_inside: IsInside) -> "Mapping[str, LinkedFolder]":
        if not folders:
            return {}
        from ryeos.items.path_links import linked_folders

        return linked_folders(folders, is_inside)

    @property
    def project_code(self) -> Mapping[str, str]:
        """The rest of each variable by which programs would load code of a project.

        An agent may write there, as in `project_programs`.
        """
        if not any(may_name_code(name, value) for name, value in self.process_env.items()):
            return {}
        from ryeos.items.code_variables import left_of_variables

        return left_of_variables(self.process_env, self.platform, self._is_inside())

    def is_in_project(self, path: str) -> bool:
        """True if an absolute path, or what it leads to, lies where an agent may write."""
        return self._is_inside()(path)

    def _is_inside(self) -> IsInside:
        env = self.process_env
        # On a node a folder with .ai above its programs is the home of who operates it.
        return Projects(
            str(self.project_path or ""),
            (str(self.spaces.user.base), env.get("USERPROFILE", ""), env.get("HOME", "")),
            is_alone=self.on_node,
            noted=() if self.on_node else noted_projects(str(self.spaces.user.ai)),
        ).leads_inside

    def note_folders(self, folders: Iterable[str]) -> None:
        """Remember where agents may write, where nothing else tells it: no code there is loaded.

        Other commands know by that, whose user's variables and links lead there.
        """
        if not self.on_node and self.spaces.user.ai.is_dir():
            note_projects(str(self.spaces.user.ai), folders)
            self.walks.clear()

    @property
    def own_environment(self) -> Mapping[str, str]:
        """The environment of programs that Rye itself starts.

        It is without `project_programs`, `linked_programs`, relative and empty folders of programs,
        which would be in the folder that it is started in, and `project_code`.
        """
        name, separator = self._path_variable(), ";" if self.platform == "win32" else ":"
        code, given = self.project_code, self.process_env.get(name, "")
        path = separator.join(self._kept_folders(given))
        if not code and (path == given or not given):
            return self.process_env
        return _with_left({**self.process_env, **({name: path} if given else {})}, code)

    def _kept_folders(
        self,
        search_path: str,
        keeps: Callable[[str], bool] = nothing_approved,
        keeps_links: KeepsLinks = no_link_kept,
    ) -> list[str]:
        """The folders of a PATH without what lies in a project, or leads there, and is not kept."""
        folders, walk = self._folders_of(search_path), self._walk()
        if walk.inside:
            folders = [one for one in folders if one not in walk.inside or keeps(one)]
        if not walk.linked:
            return folders
        replaced = {
            path: one.without(
                set(one.leading).difference(keeps_links(path, one.leading)), self._links_place
            )
            for path, one in walk.linked.items()
        }
        return [one for one in (replaced.get(path, path) for path in folders) if one]

    def _links_place(self) -> Path | None:
        from ryeos.items.path_links import KIND

        return cache_place(self.process_env, KIND, self.platform)

    def _folders_of(self, search_path: str) -> list[str]:
        """The folders of a PATH without relative and empty ones; the system's where none is left.

        On Windows all of them: there its entries are names that may begin with a variable.
        """
        if self.platform == "win32":
            return search_path.split(";")
        folders = search_path.split(":")
        return [one for one in folders if one.startswith("/")] or os.defpath.split(":")

    def tool_environment(
        self,
        keeps: Callable[[str], bool] = nothing_approved,
        keeps_links: KeepsLinks = no_link_kept,
    ) -> Mapping[str, str]:
        """The environment that tools start from.

        Our own folder comes last on its PATH: nothing in it takes the place of a program of the
        user. Relative and empty entries are left out, which would be in the project, those of
        `project_programs` that ``keeps`` does not keep, links of `linked_programs` that
        ``keeps_links`` does not keep, and `project_code`.
        """
        on_windows = self.platform == "win32"
        name = self._path_variable() if on_windows else "PATH"
        path = self.process_env.get(name, "" if on_windows else os.defpath)
        folders = self._kept_folders(path, keeps, keeps_links)
        ours = self.tool_programs()
        if ours is not None:
            folders.append(ours)
        env = {**self.process_env, name: (";" if on_windows else ":").join(folders)}
        return _with_left(env, self.project_code)

    def _path_variable(self) -> str:
        """The spelling of this environment: Windows does not mind the case."""
        if self.platform != "win32":
            return "PATH"
        return next((name for name in self.process_env if name.upper() == "PATH"), "PATH")

    @property
    def baseline(self) -> "FolderRestrictions":
        """Restrictions of such a program whose user turned limits off (level ``off``).

        It reads no private key, and writes nothing that gives rights: keys, trust, approvals,
        settings and records of user space. At every other level `ryeos.run.allowance` counts.
        """
        from lillux.folder_restrictions import Access, FolderRestrictions

        ai = self.spaces.user.ai
        return FolderRestrictions(
            (
                (ai / "config", Access.READ),
                (ai / "bundles", Access.READ),
                (ai / "state", Access.READ),
                (ai / ".env", Access.NONE),
                *((ai / folder, Access.NONE) for folder in PRIVATE_FOLDERS),
                (self.key_directory, Access.NONE),
                (self.key_directory / "public_key.pem", Access.READ),
            )
        )

    @property
    def project_path(self) -> Path | None:
        """The project folder, or None outside a project."""
        return self.spaces.project.base if self.spaces.project else None

    @property
    def working_directory(self) -> Path:
        """The folder where tools run: the project, else where the caller is."""
        return self.project_path or self.cwd


def context_from(
    env: Mapping[str, str],
    *,
    cwd: Path,
    project: str | None = None,
    user_space: str | None = None,
    bundles: tuple[Space, ...] = (),
    tool_programs: ToolPrograms = no_programs,
    program_words: ProgramWords = no_words,
    platform: str = sys.platform,
) -> Context:
    """The context for an environment, a working directory and the global flags.

    Raises RyeError `NO_PROJECT` when a named project is no folder, UsageError for an unknown
    RYE_LOCK.
    """
    user_base = _user_base(env, user_space, platform, cwd)
    project_path = _project_path(env, cwd, project, user_base)
    spaces = Spaces(
        project=Space(PROJECT, project_path) if project_path else None,
        user=Space(USER, user_base),
        bundles=bundles,
        protect_core=env.get("RYE_PROTECT_CORE") == "1",
    )
    key_directory = env.get("RYE_SIGNING_KEY_DIR")
    default = spaces.user.ai / "config" / "keys" / "signing"
    return Context(
        spaces=spaces,
        # A key handed over for `keys import` is kept from every tool.
        process_env=_for_tools(env),
        key_directory=Path(key_directory) if key_directory else default,
        cwd=cwd,
        dev_mode=env.get("RYE_DEV_MODE") == "1",
        lock_mode=_lock_mode(env.get("RYE_LOCK", "")),
        platform=platform,
        tool_programs=tool_programs,
        program_words=program_words,
        confines=env.get(CONFINE_VARIABLE) == "1",
        sandbox=env.get(SANDBOX_VARIABLE, ""),
        receipts=receipts_word(env.get(RECEIPTS_VARIABLE, "")),
    )


def _for_tools(env: Mapping[str, str]) -> Mapping[str, str]:
    kept = {name: value for name, value in env.items() if name not in _NOT_FOR_TOOLS}
    before = kept.pop(LOADER_VARIABLE, "")
    if before:
        import json

        with suppress(ValueError, TypeError):
            said = json.loads(before)
            kept |= {name: str(said[name]) for name in said if name.startswith(("LD_", "DYLD_"))}
    return kept


def _user_base(env: Mapping[str, str], user_space: str | None, platform: str, cwd: Path) -> Path:
    return Path(user_folder(env, user_space or "", platform, str(cwd.absolute())))


def _project_path(
    env: Mapping[str, str], cwd: Path, project: str | None, user_base: Path
) -> Path | None:
    found, missing = project_folder(env, project or "", str(cwd), str(user_base))
    if missing:
        raise no_project_error(f"{missing} is not a folder")
    return Path(found) if found else None


def named_project(named: str, cwd: Path, env: Mapping[str, str]) -> Path:
    """The folder that the user named as the project. Raises RyeError `NO_PROJECT`."""
    found = named_folder(named, str(cwd), env)
    if found is None:
        raise no_project_error(f"{named} is not a folder")
    return Path(found)


def receipts_word(word: str, where: str = RECEIPTS_VARIABLE) -> str:
    """``on`` or ``full``, ``""`` for neither. Raises UsageError for another word."""
    if word in {"", "on", "full"}:
        return word
    raise UsageError(f"{where}: expected on or full, found {word!r:.60}", hint="leave it out")


def _lock_mode(word: str) -> LockMode:
    try:
        return LockMode(word) if word else LockMode.STRICT
    except ValueError:
        known = ", ".join(mode.value for mode in LockMode)
        raise UsageError(
            f"RYE_LOCK: expected one of {known}, found {word!r}", hint="unset RYE_LOCK"
        ) from None


# The cache folder of this user, which no other user can write to.

_PRIVATE = 0o700
_OTHERS_WRITE = 0o022


def cache_place(env: Mapping[str, str], kind: str, platform: str) -> Path | None:
    """A private folder of the cache, made if it is missing; None where there is no such place.

    ``RYE_CACHE_DIR``, else ``rye`` in ``XDG_CACHE_HOME`` or in the platform's folder for caches.
    """
    root = cache_root(env, platform)
    if root is None:
        return None
    folder = root / kind
    with suppress(OSError):
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if platform == "win32" or _is_ours_alone(folder):
            return folder
    return None


def cache_root(env: Mapping[str, str], platform: str) -> Path | None:
    """The folder of what can be made again, whether it is there or not; None for no place."""
    configured = env.get("RYE_CACHE_DIR")
    if configured:
        return Path(configured).absolute()
    if platform == "win32":
        return _inside(env.get("LOCALAPPDATA", ""), "rye")
    home = env.get("HOME", "")
    if platform == "darwin":
        return _inside(home, "Library", "Caches", "rye")
    return _inside(env.get("XDG_CACHE_HOME", ""), "rye") or _inside(home, ".cache", "rye")


def _inside(base: str, *names: str) -> Path | None:
    return Path(base, *names) if os.path.isabs(base) else None  # noqa: PTH117 - "" is not absolute


def _is_ours_alone(folder: Path) -> bool:
    status = folder.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & _OTHERS_WRITE
    )


# The clock that signatures and lockfiles are given; imports `datetime` when it is read.

Clock = Callable[[], "datetime"]


def utc_now() -> "datetime":
    """The present time, in UTC."""
    from datetime import UTC, datetime

    return datetime.now(UTC)


# Where a warning goes by default. Imports `logging`, which is slow, when used.


def log_warning(text: str) -> None:
    """Log one line for a person."""
    import logging

    logging.getLogger("ryeos").warning("%s", text)
