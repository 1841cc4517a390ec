"""Allowances: all that a program which an agent, a graph or a node starts may write.

(1) the project, without anything at or below its ``.ai``
(2) the private temporary folder of the run
(3) caches of package managers, and what the user's policy adds

Neither (3) nor the project ever gives a folder of programs on the user's PATH, user space, Rye's
own caches, or this program. Everything else can be read, as its user can, but for keys, ``.env`` of
user space, devices, terminals and what lets into a graphical session. Page: ``docs/rights.md``.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.beneath import open_folder
from lillux.errors import UnsafePathError
from lillux.program_files import find_on_path
from lillux.values import dataclass, replace
from ryeos.items.context import Context, cache_root
from ryeos.items.errors import SpecError
from ryeos.items.refs import AI_DIRECTORY, PRIVATE_FOLDERS, SYSTEM
from ryeos.items.rights import TMP_MARK, Entries, Rights, is_below, read_paths
from ryeos.trust.bundles import CORE_ID, EMBEDDED_ID

if TYPE_CHECKING:
    from lillux.folder_restrictions import FolderRestrictions
    from lillux.sandbox import Mediation

KEYS = ("write", "sockets", "caches")
_WRITE_EXAMPLE = 'like write: ["~/.cache/mine"]'
_SOCKETS_EXAMPLE = 'like sockets: ["/run/postgresql"]'

CACHES: Mapping[str, Entries] = {
    "pip": ("~/.cache/pip",),
    "npm": ("~/.npm/_cacache", "~/.npm/_logs"),
    "yarn": ("~/.cache/yarn",),
    "cargo": ("~/.cargo/registry", "~/.cargo/git"),
    "go": ("~/go/pkg", "~/.cache/go-build"),
    "mvn": ("~/.m2/repository",),
    "gradle": ("~/.gradle/caches",),
    "ccache": ("~/.cache/ccache",),
}
"""Caches that may be written, by the program for which they are made where it is on the PATH.

They hold what is downloaded or compiled once more later, never what is on a PATH. What an agent
puts there its user's own builds may take: ``caches: false`` turns all of them off. Left out are
caches whose files are hard links into other projects (uv, pnpm, bun), and those that hold programs
(``~/.npm/_npx``, ``~/.cache/pre-commit``, corepack, wrappers of gradle, virtual environments).
"""
_ON_MACOS = {
    "~/.cache/pip": "~/Library/Caches/pip",
    "~/.cache/yarn": "~/Library/Caches/Yarn",
    "~/.cache/go-build": "~/Library/Caches/go-build",
    "~/.cache/ccache": "~/Library/Caches/ccache",
}
_WRITING_COMMANDS = frozenset(
    {
        *("rye/core/bundler/bundler", "rye/core/lock/lock", "rye/core/processes/cancel"),
        *("rye/core/processes/list", "rye/core/processes/status", "rye/core/processes/steps"),
        *("rye/core/registry/registry", "rye/core/remote/remote", "rye/mcp/manager"),
    }
)
"""Tools of Rye's own bundle that start one command of Rye each, which writes below ``.ai``."""
_KEPT_ON_NODES = ("bundles", "config", "directives", "lockfiles", "tools", ".env")
"""Below ``.ai`` of a checkout on a node: what else a run leaves there comes back as its outputs."""
_OWN_BUNDLES = frozenset({f"{SYSTEM}:{EMBEDDED_ID}", f"{SYSTEM}:{CORE_ID}"})
# On a PATH in a shell of the user, even where that of this process does not have them.
_PROGRAM_FOLDERS = (
    *("~/bin", "~/.local/bin", "~/.cargo/bin", "~/go/bin", "~/.npm-global/bin", "~/.deno/bin"),
    *("~/.bun/bin", "~/.pyenv/shims", "~/.rbenv/shims", "~/.asdf/shims", "~/.volta/bin"),
)
_AT_START = (
    *("~/.profile", "~/.login", "~/.logout", "~/.bashrc", "~/.bash_profile", "~/.bash_login"),
    *("~/.bash_logout", "~/.bash_aliases", "~/.zshrc", "~/.zshenv", "~/.zprofile", "~/.zlogin"),
    *("~/.zlogout", "~/.kshrc", "~/.mkshrc", "~/.cshrc", "~/.tcshrc", "~/.inputrc", "~/.xprofile"),
    *("~/.xinitrc", "~/.xsession", "~/.xsessionrc", "~/.pam_environment", "~/.forward"),
    *("~/.gitconfig", "~/.config/git", "~/.ssh", "~/.gnupg", "~/.netrc", "~/.npmrc", "~/.pypirc"),
    *("~/.vimrc", "~/.vim", "~/.config/nvim", "~/.emacs", "~/.emacs.d", "~/.tmux.conf"),
    *("~/.config/fish", "~/.config/autostart", "~/.config/systemd", "~/.config/environment.d"),
    *("~/.config/pip", "~/.pip", "~/.cargo/config.toml", "~/.docker", "~/.kube", "~/.aws"),
    *("~/.local/share/systemd", "~/.local/share/applications", "~/.config/direnv", "~/.screenrc"),
    *("~/Library/LaunchAgents", "~/Library/Preferences", "~/.psqlrc", "~/.gdbinit", "~/.irbrc"),
)
"""Files that the user's shells, sessions and tools obey at a start, and files with passwords."""
_OF_SYSTEM = (
    *("/proc", "/sys", "/dev", "/etc", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec"),
    *("/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/var/spool/cron"),
    *("/System", "/Library", "/private/etc"),
)
"""Folders of the system and of other processes; of these only what is shared can be given."""
_ON_PATH = "is a folder of programs on your PATH: what lies there runs with all your rights"
_READ_AT_START = "is read by your shells or tools at their start, or holds passwords"
_RYES = "belongs to Rye: what lies there gives rights"
_SYSTEMS = "belongs to the system or to other processes"
# Many programs have a folder of their own in these: a hint names that one.
_CONTAINERS = frozenset({".cache", ".config", ".local", "share", "state", "Caches"})
_SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names, nothing is made there
_DEVICES = ("null", "zero", "full", "random", "urandom")
# What lets into a session of the user: cookies of X11, what lies beside the sockets.
_OF_SESSION = ("~/.Xauthority", "~/.ICEauthority")
SESSION_VARIABLES = frozenset(
    {
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GNOME_KEYRING_CONTROL"),
        *("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"),
        *("WAYLAND_SOCKET", "XAUTHORITY", "ICEAUTHORITY", "SESSION_MANAGER", "DOCKER_HOST"),
        *("CONTAINER_HOST", "PULSE_SERVER", "PIPEWIRE_REMOTE", "TMUX", "TMUX_PANE", "STY"),
        *("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "VSCODE_IPC_HOOK_CLI", "I3SOCK", "SWAYSOCK"),
    }
)
"""Variables that name sockets of the user's session; kept where the policy names sockets."""
# They answer where a host is, and who a user is.
_LOOKUP_SOCKETS = (
    *("/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve", "/var/run/mDNSResponder"),
    *(
        "/run/systemd/userdb/io.systemd.DynamicUser",
        "/run/systemd/userdb/io.systemd.NameServiceSwitch",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """Folders that agents may write: the key ``agents`` of ``config/sandbox/policy.yaml``.

    write    paths beside the project and the private temporary folder
    sockets  local sockets that may be connected to, or folders of them
    caches   whether `CACHES` may be written
    """

    write: Entries = ()
    sockets: Entries = ()
    caches: bool = True


def agent_policy(said: object, where: str) -> AgentPolicy:
    """The policy of the key. Raises SpecError."""
    if said is None:
        return AgentPolicy()
    if not isinstance(said, Mapping):
        problem = f"expected a mapping with {', '.join(KEYS)}, got {said!r:.60}"
        raise SpecError(where, problem, hint=_WRITE_EXAMPLE)
    for key in said:
        if key not in KEYS:
            raise SpecError(where, f"{key!s:.60} is no key of it: {', '.join(KEYS)}")
    caches = said.get("caches", True)
    if not isinstance(caches, bool):
        raise SpecError(f"{where}.caches", f"expected true or false, got {caches!r:.60}")
    return AgentPolicy(
        write=_absolute_paths(said.get("write") or (), f"{where}.write", _WRITE_EXAMPLE),
        sockets=_absolute_paths(said.get("sockets") or (), f"{where}.sockets", _SOCKETS_EXAMPLE),
        caches=caches,
    )


def _absolute_paths(said: object, where: str, example: str) -> Entries:
    paths = read_paths(said, where, example)
    for path in paths:
        if path.startswith("{"):
            problem = f"expected a path that begins with / or ~/, got {path!r:.80}"
            raise SpecError(where, problem, hint=example)
    return paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Paths that may be written and reached, as real paths.

    write    folders and files; `TMP_MARK` stands for the folder of the run
    kept     paths at or below these that may not be written all the same
    hidden   paths that can neither be read nor written
    shown    paths in these that can be read
    sockets  local sockets that may be connected to
    items    the ``.ai`` of the project, ``""`` without one
    never    paths that no policy can give, each with why
    home     the home folder of the user, ``""`` for none
    missing  folders that may be written and are made before the first start
    names_sockets  the user's policy names some of these
    """

    write: tuple[str, ...]
    kept: tuple[str, ...]
    hidden: tuple[str, ...]
    shown: tuple[str, ...]
    sockets: tuple[str, ...]
    items: str = ""
    never: tuple[tuple[str, str], ...] = ()
    home: str = ""
    missing: tuple[str, ...] = ()
    names_sockets: bool = False

    def make_missing(self) -> None:
        """Make the folders that are missing, as far as that is possible: a start needs none."""
        for path in self.missing:
            if not os.path.lexists(path) and os.path.realpath(path) == path:
                with suppress(OSError, UnsafePathError):
                    _make_private(Path(path))

    @property
    def closed_variables(self) -> frozenset[str]:
        """Variables that are not given."""
        return frozenset() if self.names_sockets else SESSION_VARIABLES

    def restrictions(self) -> "FolderRestrictions":
        """The same for `lillux.sandbox`."""
        from lillux.folder_restrictions import Access, FolderRestrictions

        access = {
            **dict.fromkeys(self.write, Access.ALL),
            **dict.fromkeys(self.hidden, Access.NONE),
            **dict.fromkeys((*self.kept, *self.shown), Access.READ),
            **{f"/dev/{name}": Access.ALL for name in _DEVICES},
        }
        return FolderRestrictions(
            tuple((Path(path), one) for path, one in access.items()), base=Access.READ
        )

    def mediation(self) -> "Mediation":
        """The folders in which new entries may be made, without what is kept."""
        from lillux.sandbox import Mediation

        held = (*self.kept, *self.hidden)
        inside = (one for one in held if any(is_below(one, folder) for folder in self.write))
        return Mediation(tuple(map(Path, self.write)), tuple(map(Path, inside)))

    def for_item(self, item_id: str, space: str) -> "Allowance":
        """The same for an item: of Rye's own bundle, some are Rye itself, which writes ``.ai``."""
        if item_id not in _WRITING_COMMANDS or space not in _OWN_BUNDLES:
            return self
        return replace(self, kept=tuple(one for one in self.kept if one != self.items))

    def within(self, declared: Entries | None) -> "Allowance":
        """The same for what writes no more than these paths."""
        if declared is None:
            return self
        both = Rights(write=self.write).narrowed(Rights(write=declared)).write or ()
        return replace(self, write=both)

    def allows_writing(self, path: str) -> bool:
        """True if it lets a path be written. For what Rye writes itself, and for messages."""
        return self._nearest(path) == "write"

    def may_complain_of(self, path: str) -> bool:
        """True if a program cannot write a path that it can look at: no hint leads to a key."""
        return self._nearest(path) not in {"write", "hidden"}

    def is_kept(self, path: str) -> bool:
        """True if no policy can give a path."""
        return self._nearest(path) in {"kept", "hidden"} or bool(self._reason(path))

    def hint(self, path: str, shown: Callable[[Path], str]) -> str:
        """The remedy for a path that may not be written; ``shown`` names it as a header would."""
        real = os.path.realpath(path)
        if AI_DIRECTORY in Path(real).parts and self.is_kept(real):
            return (
                f"Rye alone writes below {AI_DIRECTORY}: an item is written by signing its text,"
                " with sign and content"
            )
        if self.is_kept(real):
            reason = self._reason(real) or "gives rights, or is a program that runs with all rights"
            return f"agents do not get this: it {reason}"
        folder = Path(real)
        is_named = shown(folder).startswith(("~", "{"))
        shared = next((one for one in _SHARED if is_below(real, one) and not is_named), "")
        # A file of a folder that nothing gives is named by itself.
        is_wide = is_below(self.home, str(folder.parent)) or folder.parent.name in _CONTAINERS
        if not folder.is_dir() and not is_wide and not self._reason(str(folder.parent)):
            folder = folder.parent
        line = f'agents: {{write: ["{shared or shown(folder)}"]}}'
        own = "$TMPDIR is a private folder of the run; " if shared in _SHARED[:2] else ""
        return f"{own}your policy allows it with: {line}"

    def hint_of_long_file(self, path: str, shown: Callable[[Path], str]) -> str:
        """The remedy for a long file that has a second name (hard link) elsewhere."""
        line = f'agents: {{write: ["{shown(Path(os.path.realpath(path)))}"]}}'
        return (
            "it has a second name (hard link), and is too long to be copied before it is changed;"
            f" a copy in its place can be changed, or, with all its names, your policy allows it"
            f" with: {line}"
        )

    def _reason(self, path: str) -> str:
        """Why no policy gives a path, ``""`` if one can."""
        return _harm(os.path.realpath(path), self.home, self.never)

    def _nearest(self, path: str) -> str:
        """The list that names the nearest folder above a path; ``""`` if none does."""
        real = os.path.realpath(path)
        named = (
            (len(one), name)
            for name in ("write", "kept", "hidden", "shown")
            for one in getattr(self, name)
            if is_below(real, one)
        )
        return max(named, default=(0, ""))[1]


def allowance_of(policy: AgentPolicy, context: Context, where: str) -> Allowance:
    """The allowance of a call. Raises SpecError for a policy that gives what it must not."""
    home = _home(context)
    given = [_filled(path, home) for path in policy.write]
    programs = _programs(context, home)
    protected = tuple(_protected(context))
    at_start = tuple(_filled(one, home) for one in _AT_START if home)
    never = (
        *((one, _ON_PATH) for one in sorted(programs)),
        *((one, _RYES) for one in protected),
        *((one, _READ_AT_START) for one in at_start),
    )
    for entry, path in zip(policy.write, given, strict=True):
        problem = _harm(path, home, never)
        if not _is_plain(entry, home):
            problem = f"leads through a link to {path}"
        if problem:
            found = f"expected a folder of files, found {entry}, which {problem}"
            raise SpecError(f"{where}.write", found, hint="leave it out")
    project = str(context.project_path or "")
    project = os.path.realpath(project) if project else ""
    if project and _is_around(project, home):
        project = ""  # the home is no project: what its user's shells and programs read is there
    known = caches_of(policy, context.platform) if home else ()
    caches = [
        path
        for path in (_filled(entry, home) for _, entry in known if _is_plain(entry, home))
        if not any(is_below(path, one) for one in programs)
    ]
    write = tuple(dict.fromkeys(filter(None, (project, TMP_MARK, *caches, *given))))
    elsewhere = [one for one in (*programs, *at_start) if not (project and is_below(one, project))]
    held = [*protected, *elsewhere]
    # An agent's test case runs within the confinement of the command that has made its project: to
    # keep new entries from one folder of it takes a supervisor, and there can be one alone.
    items = f"{project}/{AI_DIRECTORY}" if project and not context.is_copy else ""
    if items:
        held += (f"{items}/{one}" for one in _KEPT_ON_NODES) if context.on_node else (items,)
    keys = os.path.realpath(context.key_directory)
    return Allowance(
        write=write,
        # Each rule costs a look into every folder above it: what nothing gives is not named.
        kept=tuple(p for p in dict.fromkeys(held) if any(is_below(p, one) for one in write)),
        hidden=tuple(dict.fromkeys(_hidden(context, keys, home))),
        shown=tuple(one for one in (f"{keys}/public_key.pem", _SHARED[-1]) if one not in given),
        sockets=("/",)
        if context.on_node and context.reaches_sockets
        else tuple(_filled(one, home) for one in (*_LOOKUP_SOCKETS, *policy.sockets)),
        items="" if items in protected else items,
        never=never,
        home=home,
        missing=tuple(_missing(policy, context, home, given)),
        names_sockets=bool(policy.sockets),
    )


def kept_from(written: Sequence[str], context: Context) -> tuple[str, ...]:
    """Paths that ``sandbox.write`` of a tool that a person starts does not give.

    Rye's caches and program in no case: what lies there runs as Rye. User space and folders of
    programs only where an entry is that very folder, or lies in it: that a person read and signed.
    """
    programs = _programs(context, _home(context))
    project = os.path.realpath(context.project_path) if context.project_path else ""
    elsewhere = (one for one in programs if not (project and is_below(one, project)))
    own = dict.fromkeys(_own_places(context))
    named = dict.fromkeys((os.path.realpath(context.spaces.user.ai), *sorted(elsewhere)))
    return (
        *(one for one in own if any(is_related(one, entry) for entry in written)),
        *(o for o in named if o not in written and any(is_below(o, entry) for entry in written)),
    )


def is_related(one: str, other: str) -> bool:
    """True if one of two paths lies in the other."""
    return is_below(one, other) or is_below(other, one)


def _programs(context: Context, home: str) -> set[str]:
    """Folders of programs: on the PATH here, and those that are on it in a shell of the user."""
    return {
        *(os.path.realpath(one) for one in _absolute(context.process_env.get("PATH", ""))),
        *(_filled(one, home) for one in _PROGRAM_FOLDERS if home),
    }


def _hidden(context: Context, keys: str, home: str) -> Iterator[str]:
    """Keys, tokens and threads of user space, devices, terminals, cookies of graphical sessions."""
    ai = os.path.realpath(context.spaces.user.ai)
    yield from (f"{ai}/{folder}" for folder in PRIVATE_FOLDERS)
    yield from (keys, f"{ai}/.env", f"{ai}/state/runners.key")
    if os.path.isdir(f"{ai}/config/credentials"):  # noqa: PTH112 - text
        from ryeos.run.credentials import secret_files

        yield from secret_files(context.spaces)
    yield from (_filled(one, home) for one in _OF_SESSION if home)
    yield from map(os.path.realpath, _absolute(context.process_env.get("XAUTHORITY", "")))
    if sys.platform != "win32":
        yield from ("/dev", f"/run/user/{os.getuid()}")


def _protected(context: Context) -> Iterator[str]:
    """User space, Rye's caches, and the files that this program is."""
    yield os.path.realpath(context.spaces.user.ai)
    yield from _own_places(context)


def _own_places(context: Context) -> Iterator[str]:
    """Rye's caches, and the files that this program is."""
    cache = cache_root(context.process_env, context.platform)
    if cache:
        yield os.path.realpath(cache)
    for word in context.program_words():
        if os.path.isabs(word) and os.path.isfile(word):  # noqa: PTH113, PTH117 - text
            yield word
            yield os.path.realpath(word)
    for bundle in context.spaces.bundles:
        yield os.path.realpath(bundle.base)


def _harm(path: str, home: str, never: Sequence[tuple[str, str]]) -> str:
    """Why a path is more than a place to write to, ``""`` if it is no more."""
    if _is_around(path, home):
        return "has your home folder in it, and so what your shells read at their start"
    for one, why in never:
        if is_below(path, one):
            return why
    is_shared = any(is_below(path, one) for one in _SHARED)
    is_of_user = bool(home) and is_below(path, home)
    if not (is_shared or is_of_user) and any(is_below(path, one) for one in _OF_SYSTEM):
        return _SYSTEMS
    return ""


def _is_around(path: str, home: str) -> bool:
    return path == os.sep or (bool(home) and is_below(home, path))


def caches_of(policy: AgentPolicy, platform: str) -> Iterator[tuple[str, str]]:
    """The program and the path of each cache that may be written on a platform."""
    for program, entries in CACHES.items() if policy.caches else ():
        for entry in entries:
            yield program, _ON_MACOS.get(entry, entry) if platform == "darwin" else entry


def _missing(
    policy: AgentPolicy, context: Context, home: str, given: Sequence[str]
) -> Iterator[str]:
    """Paths of the policy, and caches of programs on the PATH, that are not there yet."""
    yield from (path for path in given if not os.path.lexists(path) and not Path(path).suffix)
    search_path = context.process_env.get("PATH", os.defpath)
    for program, entry in caches_of(policy, context.platform) if home else ():
        path = _filled(entry, home)
        if not os.path.lexists(path) and find_on_path(
            program, search_path, platform=context.platform
        ):
            yield path


def _make_private(path: Path) -> None:
    """Make a folder and what is missing above it, for this user alone, and through no link.

    Raises OSError, UnsafePathError.
    """
    root = Path(path.anchor)
    for one in (*reversed(path.parents), path):
        if not one.exists():
            open_folder(one, root, make=True, mode=0o700).close()


def _home(context: Context) -> str:
    name = "USERPROFILE" if context.platform == "win32" else "HOME"
    home = context.process_env.get(name, "")
    return os.path.realpath(home) if os.path.isabs(home) else ""  # noqa: PTH117 - "" is not


def _filled(entry: str, home: str) -> str:
    return os.path.realpath(home + entry[1:] if entry.startswith("~") else entry)


def _is_plain(entry: str, home: str) -> bool:
    """True if no link stands on the way from the home, or for other entries from the root.

    A link that someone put there would lead what is written elsewhere.
    """
    if entry.startswith("~"):
        return _filled(entry, home) == os.path.normpath(os.path.realpath(home) + entry[1:])
    return os.path.realpath(entry) == os.path.normpath(entry)


def _absolute(search_path: str) -> Iterator[str]:
    return filter(os.path.isabs, search_path.split(os.pathsep))


def described(policy: AgentPolicy, platform: str) -> dict[str, Any]:
    """The allowance of agents in words: what they may write and connect to."""
    caches = (entry for _, entry in caches_of(policy, platform))
    return {
        "write": ["{project}", "{tmp}", *caches, *policy.write],
        "sockets": list(policy.sockets),
    }
