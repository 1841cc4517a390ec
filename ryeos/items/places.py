"""The folders of the project and of the user space, as texts.

It is a file of its own because the MCP server greets with the project before anything else is
imported: `pathlib` and `typing` would slow that start.
"""
# ruff: noqa: PTH100, PTH112, PTH117, PTH118, PTH120

import os
from collections.abc import Callable, Iterable, Mapping

AI_FOLDER = ".ai"
_MAX_LINKS = 40  # as the system follows
_MAX_DEPTH = 200  # of a path that is followed; a deeper one is taken for one of a project
CODE_VARIABLES = frozenset(
    {
        # what the C library and OpenSSL load
        *("GCONV_PATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES"),
        # shells
        *("BASH_ENV", "ENV", "ZDOTDIR", "FPATH"),
        # interpreters
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"),
        *("NODE_PATH", "NODE_OPTIONS", "NODE_COMPILE_CACHE", "ESBUILD_BINARY_PATH", "PHPRC"),
        *("PHP_INI_SCAN_DIR", "PERL5LIB", "PERLLIB", "PERL5OPT", "PERL5DB", "RUBYLIB", "RUBYOPT"),
        *("GEM_PATH", "GEM_HOME", "CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
        "_JAVA_OPTIONS",
    }
)
COMMAND_VARIABLES = frozenset(
    {
        *("PAGER", "MANPAGER", "GIT_PAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "BROWSER"),
        *("GIT_SEQUENCE_EDITOR", "SUDO_ASKPASS", "SSH_ASKPASS", "GIT_ASKPASS"),
        *("LESSOPEN", "LESSCLOSE", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF"),
    }
)
"""Programs that others start by the user's command line; a bare name is found on the PATH."""
_CODE_PREFIXES = ("LD_", "DYLD_", "LUA_INIT", "LUA_PATH", "LUA_CPATH")


def names_code(name: str) -> bool:
    """True if a variable says which code other programs load, or which program they start."""
    return name in CODE_VARIABLES or name in COMMAND_VARIABLES or name.startswith(_CODE_PREFIXES)


def may_name_code(name: str, value: str) -> bool:
    """The same for a value: a command without a path starts nothing but programs of the PATH."""
    return names_code(name) and (name not in COMMAND_VARIABLES or "/" in value)


def user_folder(env: Mapping[str, str], named: str, platform: str, cwd: str) -> str:
    """The folder of user space: ``--user-space`` or ``USER_SPACE``, else the home."""
    home = env.get("USERPROFILE" if platform == "win32" else "HOME", "")
    root = os.path.join(os.path.splitdrive(cwd)[0], os.sep)
    base = os.path.abspath(
        _join_path(cwd, named or env.get("USER_SPACE", "") or home or root, home)
    )
    # An older convention let the variable name the .ai folder itself.
    return _without_ai(base)


def home_of_account() -> str:
    """The home folder that the system has for the user of this process, ``""`` for none.

    It counts where HOME is not set, as after ``env -i`` or under some supervisors of services.
    """
    try:
        import pwd

        home = pwd.getpwuid(os.geteuid()).pw_dir
    except (ImportError, KeyError):  # no such module on Windows, no such user in a container
        return ""
    return home if os.path.isabs(home) else ""


def project_folder(
    env: Mapping[str, str], named: str, cwd: str, user_base: str
) -> tuple[str | None, str]:
    """The project, None for none; and a name that is no folder, else ``""``.

    A named one counts, else the nearest folder that has ``.ai``, else this one; never the home.
    """
    named = named or env.get("RYE_PROJECT", "") or env.get("CLAUDE_PROJECT_DIR", "")
    if named:
        path = named_folder(named, cwd, env)
        return path, "" if path else named
    # The real paths: a home that is reached through a link is still no project.
    here, home_folder = os.path.realpath(cwd), os.path.realpath(user_base)
    folder = here
    while folder != home_folder:
        if os.path.isdir(os.path.join(folder, AI_FOLDER)):
            return folder, ""
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return (None if here in (home_folder, os.path.dirname(here)) else here), ""


def named_folder(named: str, cwd: str, env: Mapping[str, str]) -> str | None:
    """The folder that a name means: ``~`` is the home, ``/.ai`` its parent. None if absent."""
    path = _without_ai(_join_path(cwd, named, env.get("HOME", "")))
    return os.path.realpath(path) if os.path.isdir(path) else None


def _join_path(cwd: str, path: str, home: str) -> str:
    """A path with ``~`` replaced; ``~somebody`` is left alone, as a name like any other."""
    return os.path.join(cwd, home + path[1:] if path == "~" or path.startswith("~/") else path)


def _without_ai(path: str) -> str:
    above, name = os.path.split(path.rstrip(os.sep) or path)
    return above if name == AI_FOLDER else path


IsInside = Callable[[str], bool]
"""True if an absolute path lies where an agent may write, or leads there."""


class Projects:
    """The places where agents may write: the project, and below each folder that has ``.ai``.

    ``is_alone``: the project is the only one whose folders a program of this user can write.
    ``noted`` are other projects, see `note_projects`.
    """

    def __init__(
        self,
        project: str,
        homes: tuple[str, ...],
        *,
        is_alone: bool = False,
        noted: tuple[str, ...] = (),
    ) -> None:
        self._above = _spellings(homes)
        self._root = os.path.realpath(project) if project else ""
        if any(_is_within(one, self._root) for one in self._above):  # then no agent may write it
            project = self._root = ""
        self._project, self._is_alone = project, is_alone
        self._known = {one: True for one in noted if one not in self._above}
        self._followed: dict[str, tuple[str, bool]] = {}

    def leads_inside(self, path: str) -> bool:
        """True if a path lies in a project, or any link on its way: who writes there moves it."""
        real, is_led = self._follow(path, 0)
        if is_led or self._is_inside(real):
            return True
        return bool(self._project) and _is_within(os.path.normpath(path), self._project)

    def _is_inside(self, folder: str) -> bool:
        """True if a real path lies in a project."""
        if self._root and _is_within(folder, self._root):
            return True
        if self._is_alone:
            return False
        known = self._known
        if folder not in known:
            has_ai = folder not in self._above and os.path.isdir(os.path.join(folder, AI_FOLDER))
            # The home of the account comes last: asking the system for it costs as much as a start.
            is_project = has_ai and folder not in _spellings((home_of_account(),))
            parent = os.path.dirname(folder)
            known[folder] = is_project or (parent != folder and self._is_inside(parent))
        return known[folder]

    def _follow(self, path: str, links: int) -> tuple[str, bool]:
        """The real path, and whether what leads there can be changed in a project."""
        if path not in self._followed:
            self._followed[path] = self._follow_last(path, links)
        return self._followed[path]

    def _follow_last(self, path: str, links: int) -> tuple[str, bool]:
        above, name = os.path.split(path)
        if above == path:
            return ("/" if path == "//" else path), False
        if links > _MAX_LINKS or path.count(os.sep) > _MAX_DEPTH:
            return path, links <= _MAX_LINKS  # a circle of links starts nothing
        real, is_led = self._follow(above, links)
        if is_led or name in ("", os.curdir):
            return real, is_led
        if name == os.pardir:
            return os.path.dirname(real), self._is_inside(real)
        return self._follow_entry(real, name, links)

    def _follow_entry(self, real: str, name: str, links: int) -> tuple[str, bool]:
        here = os.path.join(real, name)
        try:
            target = os.readlink(here)  # noqa: PTH115 - text
        except OSError:  # it is no link
            return here, False
        if self._is_inside(real):
            return here, True
        return self._follow(os.path.join(real, target), links + 1)


def folders_of(search_path: str, platform: str) -> tuple[str, ...]:
    """The absolute folders of a search path, each once."""
    entries = search_path.split(";" if platform == "win32" else ":")
    return tuple(dict.fromkeys(filter(os.path.isabs, entries)))


# Only packages of the system put anything there; of their thousands of links none is looked at.
_OF_PACKAGES = frozenset({"/usr/bin", "/bin", "/usr/sbin", "/sbin"})
_OF_ADMINISTRATOR = "/usr/local"  # where a package that is being worked on is linked, too


def may_have_links(folder: str, platform: str) -> bool:
    """True if a folder of programs may have links to where agents write: not one of the system."""
    if folder in _OF_PACKAGES or platform == "win32":
        return False
    if _is_within(folder, _OF_ADMINISTRATOR):
        return True
    try:
        return os.stat(folder).st_uid != 0 or os.geteuid() == 0  # noqa: PTH116 - text
    except OSError:
        return False


def _spellings(homes: Iterable[str]) -> set[str]:
    """The home folders as they are named, and as they are."""
    return {of(one) for one in homes if one for of in (os.path.realpath, os.path.normpath)}


AGENT_PROJECTS = "state/agent-projects"
_MAX_NOTED_BYTES = 1 << 20


def noted_projects(user_ai: str) -> tuple[str, ...]:
    """The projects without ``.ai`` that agents have worked in: real paths."""
    try:
        with open(f"{user_ai}/{AGENT_PROJECTS}", "rb") as file:  # noqa: PTH123
            return tuple(map(os.fsdecode, filter(None, file.read(_MAX_NOTED_BYTES).split(b"\0"))))
    except OSError:
        return ()


def note_projects(user_ai: str, folders: Iterable[str]) -> None:
    """Remember folders without ``.ai`` where agents write: other runs know them by that.

    Nothing is remembered where there is no user space, or where it cannot be written.
    """
    wanted = {os.path.realpath(one) for one in folders if not os.path.isdir(f"{one}/{AI_FOLDER}")}
    new = wanted.difference(noted_projects(user_ai)) if wanted else ()
    if not new:
        return
    try:
        os.makedirs(os.path.dirname(f"{user_ai}/{AGENT_PROJECTS}"), 0o700, exist_ok=True)  # noqa: PTH103
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        file = os.open(f"{user_ai}/{AGENT_PROJECTS}", flags, 0o600)
    except OSError:
        return
    with os.fdopen(file, "ab") as noted:
        noted.write(b"".join(os.fsencode(one) + b"\0" for one in sorted(new)))


def _is_within(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))
