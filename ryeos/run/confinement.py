"""The rights that a call gets, and how the system is made to hold them.

(1) the level: of the user's policy, or the word of a person in RYE_SANDBOX
(2) what the tool declares; without a declaration, what the level gives
(3) narrowed by its runtimes, by the user's policy, and by its callers
(4) names of folders filled in; a path that leads out of what it begins with is refused
(5) as real paths, sockets and programs for `lillux.sandbox`; what cannot be held is refused

Page: ``docs/rights.md``.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.env_resolver import MINIMAL_NAMES, ResolvedEnv
from lillux.program_files import Allows, everything_counts, find_on_path, is_shim
from lillux.values import dataclass, field, replace
from ryeos.items.context import SANDBOX_VARIABLE, Context, cache_root
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.refs import PROJECT, SYSTEM, tier_of
from ryeos.items.rights import (
    ANYTHING,
    LOOPBACK,
    TMP_MARK,
    Entries,
    Rights,
    fits_variable,
    is_below,
)
from ryeos.run.anchor import Anchor, AnchoredFiles
from ryeos.run.model import Chain, ChainElement
from ryeos.run.sandbox_policy import Level, SandboxPolicy

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lillux.folder_restrictions import FolderRestrictions
    from lillux.http.forwarder import Forwarder
    from lillux.sandbox import Confinement, Mediation
    from ryeos.run.allowance import Allowance


_OF_PROJECT = Rights(read=("{project}",), write=("{project}", "{tmp}"), network=())
_OF_NODE = Rights(network=())

# Beside what is declared: what programs take their language and their place from.
BASIC_VARIABLES = (*sorted(MINIMAL_NAMES), "LANGUAGE", "LC_*", "LOGNAME", "SHELL", "TZ", "USER")
_FOR_NETWORK = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
)
_AUTHORITIES = _FOR_NETWORK[8:]
_ANYWHERE = "*:*"
_THIS_MACHINE = ("localhost:*", "127.0.0.1:*", "[::1]:*")
_SHOWN_FOLDERS = ("project", "home")
_DEVICES = ("null", "zero", "full", "random", "urandom")


class PathFiller:
    """Fills the names of folders in paths: step (4)."""

    def __init__(
        self, anchor: Anchor, context: Context, tool: ChainElement, resolved: Mapping[str, Any]
    ) -> None:
        env = context.process_env  # never a .env: it must not say where the home is
        home = env.get("USERPROFILE" if context.platform == "win32" else "HOME", "")
        cache = env.get("XDG_CACHE_HOME", "") or (f"{home}/.cache" if home else "")
        self._item_id, self._resolved, self._spec = tool.item_id, resolved, tool.spec
        self._folders = {
            "project": str(context.project_path or ""),
            "home": home,
            "cache": cache,
            "user_space": str(context.spaces.user.base),
            "tool_dir": anchor.names["tool_dir"],
            "anchor": anchor.names["anchor_path"],
        }

    def paths(self, where: str, entry: str) -> Sequence[str]:
        """The real path that an entry means; none where its folder is not known."""
        if entry.startswith("{config."):
            found = self._configured_paths(where, entry)
            return found if where == "sandbox.env" else self._real(found)
        if where == "sandbox.env":
            return [entry]
        if not entry.startswith(("{", "~")):
            return [os.path.realpath(entry)]
        name, _, rest = entry.partition("/")
        if name == "{tmp}":  # is made at the start: nothing can lie in it before
            return [f"/{entry}"]
        base = self._folders["home" if name == "~" else name.strip("{}")]
        if not os.path.isabs(base):  # noqa: PTH117 - "" is not absolute
            return []
        real_base = os.path.realpath(base)
        real = os.path.realpath(os.path.join(base, rest))  # noqa: PTH118 - text in, text out
        if name != "~" and not is_below(real, real_base):
            raise SpecError(
                f"{self._item_id}: {where}",
                f"{entry} is a link that leads out of {real_base}, to {real}",
                hint=f"remove the link, or name the folder itself: {real}",
            )
        return [real]

    def roots(self, *names: str) -> Iterator[Path]:
        """The real folders of the project and of the home, as far as they are known."""
        for name in names or _SHOWN_FOLDERS:
            if os.path.isabs(self._folders[name]):  # noqa: PTH117 - "" is not absolute
                yield Path(os.path.realpath(self._folders[name]))

    def template_of(self, path: str) -> str:
        """The name of a path in a header."""
        real = os.path.realpath(path)
        bases = {name: os.path.realpath(self._folders[name]) for name in _SHOWN_FOLDERS}
        for name, base in sorted(bases.items(), key=lambda one: -len(one[1])):
            if self._folders[name] and base != os.sep and is_below(real, base):
                return ("~" if name == "home" else f"{{{name}}}") + real[len(base) :]
        return real

    def _configured_paths(self, where: str, entry: str) -> Sequence[str]:
        """The paths of the user's configuration, never a project's: a text, or a list of them."""
        declared = self._spec.config_resolve
        spaces = declared.get("spaces") if isinstance(declared, Mapping) else None
        if not isinstance(spaces, list) or PROJECT in spaces:
            problem = "expected a config_resolve whose spaces leave out project"
            raise SpecError(f"{self._item_id}: {where}", problem)
        found = self._resolved.get(entry[len("{config.") : -1]) or []
        several = found if isinstance(found, list) else [found]
        return [one for one in several if isinstance(one, str)]

    def _real(self, texts: Sequence[str]) -> Sequence[str]:
        home = self._folders["home"]
        whole = (home + one[1:] if one == "~" or one.startswith("~/") else one for one in texts)
        return [os.path.realpath(one) for one in whole if os.path.isabs(one)]  # noqa: PTH117


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRights:
    """The rights of one call. ``rights`` is None where nothing but ``withholding`` counts.

    declared     what the tool's own header asks for, ``declared_by`` its id; None, ``""`` where it
                 asks for nothing
    own_files    files of the call itself, always readable
    allowance    what may be written at most; None for what a person starts
    context      where what a person starts looks for what no wide folder gives
    version_files  which files of the project choose among installed versions; None for none
    """

    level: Level
    rights: Rights | None = None
    declared: Rights | None = None
    declared_by: str = ""
    withholding: "FolderRestrictions | None" = field(default=None, repr=False)
    allowance: "Allowance | None" = field(default=None, repr=False)
    own_files: tuple[Path, ...] = field(default=(), repr=False)
    private: tuple[str, ...] = ()
    network_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    on_node: bool = False
    watches: bool = False
    filling: PathFiller | None = field(default=None, repr=False)
    context: Context | None = field(default=None, repr=False)
    version_files: Allows | None = field(default=None, repr=False)

    def narrowed(self, other: Rights | None) -> "CallRights":
        """The same under further rights, whose paths are filled here. Raises SpecError."""
        if other is None or self.level is Level.OFF or self.filling is None:
            return self
        filled = other.filled(self.filling.paths)
        rights = filled if self.rights is None else self.rights.narrowed(filled)
        if self.on_node and rights.network == (LOOPBACK,):
            # Users share the machine: a local server may be the node, or belong to another user.
            rights = replace(rights, network=())
        return replace(self, rights=rights)

    def template_of(self, path: Path) -> str:
        """The name of a path in a header."""
        return self.filling.template_of(str(path)) if self.filling else str(path)

    def declares(self, what: str, target: str) -> bool:
        """True if the tool asked for ``read`` or ``write`` of a path, and others took it away."""
        declared = self.declared and {"read": self.declared.read, "write": self.declared.write}
        if not declared or what not in declared:
            return False
        real = os.path.realpath(target)
        entries = declared[what]
        return entries is None or any(is_below(real, one) for one in entries)

    def describe(self) -> dict[str, Any]:
        """The effective rights, for a person."""
        held = {"allowed_writes": self._shown_allowance()} if self.allowance else {}
        if self.rights is None:
            confined = self.withholding is not None
            return {"level": self.level.value, "confined": confined, **held}
        return {"level": self.level.value, **self.rights.describe(), **held}

    def _shown_allowance(self) -> list[str]:
        """The folders that an agent may write, as a header would name them."""
        given = self.allowance.write if self.allowance else ()
        return [
            one[1:] if is_below(one, TMP_MARK) else self.template_of(Path(one)) for one in given
        ]

    def allows_variable(self, resolved: ResolvedEnv) -> Callable[[str], bool] | None:
        """The test of names of variables that a program gets; None for all: ``sandbox.env``."""
        rights = self.rights
        closed = self.allowance.closed_variables if self.allowance else ()
        if rights is None or rights.env is None:
            return (lambda name: name not in closed) if closed else None
        kept = (*BASIC_VARIABLES, *(_FOR_NETWORK if rights.network != () else ()))
        signed = frozenset(resolved.contributed)

        def allows(name: str) -> bool:
            if name in closed:
                return False
            if name in signed or rights.allows_variable(name):
                return True
            return name not in resolved.dotenv and any(fits_variable(one, name) for one in kept)

        return allows

    @property
    def lasting_folders(self) -> tuple[str, ...] | None:
        """The folders of its block that it may write and that are there after it; None for any."""
        written = self.rights.write if self.rights else None
        return (
            None
            if written is None
            else tuple(one for one in written if not is_below(one, TMP_MARK))
        )

    @property
    def needs_folder(self) -> bool:
        """True if the run gets a private temporary folder."""
        written = self.rights.write if self.rights else None
        if written is None:
            return self.allowance is not None
        return any(is_below(one, TMP_MARK) for one in written)

    def temporary_folder(self, env: Mapping[str, str]) -> "AbstractContextManager[Path | None]":
        """The private temporary folder of the run, if it gets one."""
        if not self.needs_folder:
            from contextlib import nullcontext

            return nullcontext()
        from lillux.run_folders import private_folder

        return private_folder(env)

    def prepare_folders(self, folder: Path | None) -> None:
        """Make the folders that may be written and are not there yet.

        Their paths were real ones when they were decided about; so no link is followed on the way,
        where one could have been put since. ``folder`` is the private one of the run. Raises
        FileSystemError, LinkOnTheWayError.
        """
        from lillux.files import make_directory

        if self.allowance:
            self.allowance.make_missing()
        for entry in (self.rights.write if self.rights else None) or ():
            path = placed(Path(entry), folder) if folder else Path(entry)
            if os.path.lexists(path) or path.suffix or is_below(str(path), TMP_MARK):
                continue  # a file is for the tool
            if folder and path.is_relative_to(folder):
                make_directory(path, mode=0o700, within=folder)
            elif self._gives(entry):
                make_directory(path, within=self._root_of(path))

    def _gives(self, entry: str) -> bool:
        """True if an entry of what is declared may be written."""
        if self.allowance:
            return self.allowance.allows_writing(entry)
        return not any(is_below(entry, one) for one in self._kept())

    def _kept(self) -> tuple[str, ...]:
        """Paths that the entries do not give, of a tool that a person starts."""
        written = self.rights.write if self.rights else None
        if not written or self.context is None:
            return ()
        from ryeos.run.allowance import kept_from

        return kept_from(written, self.context)

    def _root_of(self, path: Path) -> Path:
        """The folder from which a folder to be written is reached: the project, else the home."""
        roots = self.filling.roots() if self.filling else ()
        return next((one for one in roots if path.is_relative_to(one)), Path(path.anchor))

    def program(self, program: str, env: Mapping[str, str], cwd: str) -> str:
        """The program that is started where ``program`` is asked for: never a shim.

        It would choose by the folder that it starts in, where an agent may write.
        """
        if os.sep in program:  # from the folder that it starts in, not from ours
            found = os.path.join(cwd, program)  # noqa: PTH118 - text
        else:
            path = env.get("PATH", os.defpath)
            found = find_on_path(program, path, platform=sys.platform) or ""
        if not is_shim(found):
            return program
        from lillux.shims import behind_shim

        project = next(iter(self.filling.roots("project")), None) if self.filling else Path(cwd)
        real = behind_shim(
            found, env, self._own_folder(project), project=project, allows=self.version_files
        )
        return program if real == found else real

    def _own_folder(self, project: Path | None) -> str:
        """A folder in which no project names versions: the home, or one above."""
        home = next(iter(self.filling.roots("home")), None) if self.filling else None
        if home is None or self.on_node or (project and home.is_relative_to(project)):
            return "/"
        is_written = self.allowance and self.allowance.allows_writing(str(home))
        return "/" if is_written else str(home)

    def confinement(self, program: str, env: Mapping[str, str]) -> "Confinement | None":
        """The confinement that holds these rights. Raises RyeError where nothing can hold them."""
        rights = self.rights
        is_free = rights is None or (rights == ANYTHING and not self.on_node)
        if is_free and not self.withholding and not self.watches:
            return None
        from lillux.sandbox import Confinement

        devices = tuple(Path("/dev", name) for name in _DEVICES)
        if rights is None:
            wanted = Confinement(
                writable=devices if self.allowance else None,
                withholding=self.withholding,
                mediated=self._mediation(),
                local_sockets=self._local_sockets(),
                is_hardened=self.withholding is not None,
                may_trace=True,
                watches=self.watches,
            )
            return self._as_far_as_held(wanted)
        places = _Places(program, env)
        readable = writable = executable = None
        own = self.own_files
        if rights.read is not None:
            authorities = (env.get(name, "") for name in _AUTHORITIES)
            given = (*rights.read, *(authorities if rights.network != () else ()))
            cache = cache_root(self.network_env, sys.platform)
            programs = places.readable(rights.programs, cache)
            readable = (*own, *programs, *devices, *(Path(one) for one in given if one))
        mediated = self._mediation()
        if rights.write is not None or self.allowance:
            # In what is mediated the supervisor makes the changes.
            folders = tuple(map(Path, rights.write or ())) if not self.allowance else ()
            own_way = mediated.folders if mediated else ()
            writable = (*devices, *(one for one in folders if one not in own_way))
        if rights.programs is not None:
            executable = tuple(places.executable(rights.programs))
        is_limited = self.on_node or rights != ANYTHING
        wanted = Confinement(
            readable=readable,
            writable=writable,
            executable=executable,
            withholding=self.withholding,
            mediated=mediated,
            local_sockets=self._local_sockets(),
            is_hardened=is_limited or self.withholding is not None,
            may_trace=not is_limited,
            watches=self.watches,
        )
        wanted = self._in_network(wanted, rights.network)
        if not (wanted.needs_landlock or wanted.needs_filter or wanted.withholding):
            return None
        return self._held(self._as_far_as_held(wanted))

    def _in_network(self, wanted: "Confinement", network: Entries | None) -> "Confinement":
        """The same with the sockets of a program that reaches these hosts, None for any."""
        from lillux.seccomp import Addresses, Reach, Sockets

        if network is None:
            return replace(wanted, addresses=Addresses(Reach.PUBLIC)) if self.on_node else wanted
        if not network:
            return replace(wanted, sockets=Sockets(local=False, network=False))
        wanted = replace(wanted, sockets=Sockets(local=False, streams_only=True))
        if network == (LOOPBACK,):
            return replace(wanted, addresses=Addresses(Reach.LOOPBACK))
        return replace(wanted, addresses=Addresses(Reach.PROXY), hosts=network)

    def _held(self, wanted: "Confinement") -> "Confinement":
        """The same. Raises RyeError where this machine cannot hold it."""
        from lillux.sandbox import obstacle

        problem = obstacle(wanted, bubblewrap=_bubblewrap())
        if problem:
            raise RyeError(
                f"the rights of {self.declared_by or 'this item'} cannot be held here: {problem}",
                code="SANDBOX_UNAVAILABLE",
                hint=f"see what this machine can do: rye doctor; to run without: "
                f"{SANDBOX_VARIABLE}={Level.OFF.value}",
            )
        return wanted

    def _as_far_as_held(self, wanted: "Confinement") -> "Confinement":
        """The confinement without what this machine cannot mediate: less is allowed then.

        Without a supervisor for sockets there are no local ones; without one for changes a folder
        of which a part is kept gets no new entries, which Landlock alone holds.
        """
        mediated = wanted.mediated
        if mediated is None or sys.platform != "linux":
            return wanted
        from lillux.folder_restrictions import Access, FolderRestrictions
        from lillux.sandbox import can_mediate
        from lillux.supervisor import can_supervise

        if self.allowance and not can_supervise():
            sockets = replace(wanted.sockets, local=False)
            wanted = replace(wanted, sockets=sockets, local_sockets=None)
        if can_mediate():
            return wanted
        if self.allowance:
            return replace(wanted, mediated=None, writable=None)
        kept = FolderRestrictions(tuple((path, Access.READ) for path in mediated.kept))
        folders = (*(wanted.writable or ()), *mediated.folders)
        return replace(wanted, mediated=None, writable=folders, withholding=kept)

    def _local_sockets(self) -> tuple[Path, ...] | None:
        return tuple(map(Path, self.allowance.sockets)) if self.allowance else None

    def _mediation(self) -> "Mediation | None":
        """The folders in which changes are mediated, and what is kept in them.

        Below an allowance all that is declared; for a person folders that have in them what gives
        rights or is run with all of them.
        """
        written = self.rights.write if self.rights else None
        if self.allowance is not None:
            return self.allowance.within(written).mediation()
        kept = self._kept()
        if not written or not kept:
            return None
        from lillux.sandbox import Mediation
        from ryeos.run.allowance import is_related

        wide = (Path(one) for one in written if any(is_related(each, one) for each in kept))
        return Mediation(tuple(wide), tuple(map(Path, kept)))

    def forwarder(self, named: Sequence[str] | None = None) -> "Forwarder | None":
        """The forwarder to the hosts that may be reached; None where there are none to lead to.

        ``named`` are other hosts than those that are declared.
        """
        network = named or (self.rights.network if self.rights else None)
        if not network or network == (LOOPBACK,):
            return None
        from lillux.http.forwarder import Hosts, forwarder_for

        names = {*_FOR_NETWORK} - {*_AUTHORITIES}
        # On a node the environment holds secrets of its user, who could name the node as a proxy.
        own = {} if self.on_node else self.network_env
        kept = tuple((k, v) for k, v in sorted(own.items()) if k in names)
        try:
            return forwarder_for(Hosts(tuple(network), self.private, kept, is_shared=self.on_node))
        except OSError as error:
            raise RyeError(
                f"no proxy for the hosts of {self.declared_by or 'this item'}: {error.strerror}",
                code="SANDBOX_UNAVAILABLE",
            ) from error

    def own_network(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of requests that Rye itself makes for the call: the same hosts apply.

        Redirects are followed there too; on a node none leads to the machine itself.
        """
        network = self.rights.network if self.rights else None
        if network == (LOOPBACK,):
            return self.proxied(env, self.forwarder(_THIS_MACHINE))
        if network is None and self.on_node:
            return self.proxied(env, self.forwarder((_ANYWHERE,)))
        return self.proxied(env, self.forwarder())

    def proxied(self, env: Mapping[str, str], forwarder: "Forwarder | None") -> dict[str, str]:
        """The environment with the forwarder as its proxy, if there is one."""
        if forwarder is None:
            return dict(env)
        plain = {k: v for k, v in env.items() if k.upper() not in _FOR_NETWORK[:4]}
        return {**plain, **forwarder.variables()}

    def require_writable(self, path: Path) -> None:
        """Refuse a file that this program would write itself. Raises RyeError."""
        folders = self.rights.write if self.rights else None
        real = os.path.realpath(path)
        if self.allowance and not self.allowance.allows_writing(real):
            raise RyeError(
                f"{path}: refused, agents may not write it",
                code="PERMISSION_DENIED",
                hint=self.allowance.hint(real, self.template_of),
            )
        if folders is not None and not any(is_below(real, one) for one in folders):
            folder = self.template_of(path.parent)
            raise RyeError(
                f"{path}: refused, sandbox.write of {self.declared_by or 'this item'}"
                " does not name it",
                code="PERMISSION_DENIED",
                hint=f'to allow it, write into its header: write: ["{folder}"]',
            )

    def require_host(self, host: str, port: int) -> None:
        """Refuse a request that this program would make itself. Raises RyeError."""
        from lillux.http.forwarder import fits
        from lillux.http.urls import is_loopback

        network = self.rights.network if self.rights else None
        if network is None:
            return
        if network == (LOOPBACK,):
            is_allowed = is_loopback(host)
        else:
            is_allowed = any(fits(one, host, port) for one in network)
        if not is_allowed:
            raise RyeError(
                f"{host}:{port}: refused, sandbox.network of {self.declared_by or 'this item'}"
                " does not name it",
                code="PERMISSION_DENIED",
                hint=f'to allow it, write into its header: network: ["{host}:{port}"]',
            )


def placed(path: Path, folder: Path) -> Path:
    """A path with the private folder of a run in the place of its mark."""
    return Path(f"{folder}{str(path)[len(TMP_MARK) :]}") if is_below(str(path), TMP_MARK) else path


def placed_confinement(wanted: "Confinement", folder: Path) -> "Confinement":
    """A confinement with the private folder of a run in the place of its mark."""

    def all_of(paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(placed(one, folder) for one in paths)

    mediated, withholding = wanted.mediated, wanted.withholding
    return replace(
        wanted,
        readable=wanted.readable and all_of(wanted.readable),
        writable=wanted.writable and all_of(wanted.writable),
        mediated=mediated and replace(mediated, folders=all_of(mediated.folders)),
        withholding=withholding
        and replace(
            withholding,
            folders=tuple((placed(path, folder), access) for path, access in withholding.folders),
        ),
    )


def _bubblewrap() -> str:
    if sys.platform != "linux":
        return ""
    from lillux.landlock import landlock_version
    from lillux.process.spawn import bubblewrap

    return "" if landlock_version() else bubblewrap()


def rights_of(
    chain: Chain,
    policy: SandboxPolicy,
    context: Context,
    *,
    callers: Sequence[Rights],
    anchor: Anchor,
    files: AnchoredFiles,
    resolved: Mapping[str, Any],
    is_baseline: bool,
    allowance: "Allowance | None" = None,
) -> CallRights:
    """Steps (2) to (4): the rights of a chain.

    With ``is_baseline`` an agent, a graph or a node starts it: within ``allowance``, or where its
    user turned limits off without keys and what gives rights.

    ``resolved`` is what the tool's ``config_resolve`` gave. Raises RyeError for an item without a
    declaration where one is needed, SpecError for a path that leads elsewhere.
    """
    tool = chain.tool
    if allowance:
        allowance = allowance.for_item(tool.item_id, tool.space)
    call = CallRights(
        level=policy.level,
        withholding=_withholding(context, allowance) if is_baseline else None,
        allowance=allowance if is_baseline else None,
        own_files=_own_files(chain, anchor, files),
        private=policy.private,
        network_env=context.process_env,
        on_node=context.on_node,
        filling=PathFiller(anchor, context, tool, resolved),
        context=None if is_baseline else context,
        version_files=_version_files(context, tool.space),
    )
    if policy.level is Level.OFF and not context.on_node:
        return call
    declared = tool.spec.sandbox
    if declared is None:
        if policy.level is Level.STRICT:
            raise RyeError(
                f"{tool.item_id}: expected a sandbox block in its header, found none",
                code="PERMISSION_DENIED",
                hint=f"your policy asks for one; to see what it needs: "
                f"rye sandbox suggest {tool.item_id}",
            )
        given = _undeclared(policy.level, on_node=context.on_node)
    else:
        given = declared
        call = replace(call, declared_by=tool.item_id)
    limits = [e.spec.sandbox for e in chain.elements[1:] if e.spec.sandbox is not None]
    limits += [*policy.all_limits_for(tool.item_id), *callers]
    for one in (given, *limits):
        if one is not None and (one != ANYTHING or one is declared):
            call = call.narrowed(one)
            call = replace(call, declared=call.rights) if one is declared else call
    return call


def _version_files(context: Context, space: str) -> "Allows | None":
    """The test of a project's files that name a version: its tools' that its user approved."""
    if context.on_node:  # the project is its user's own, and so is the process
        return everything_counts
    if space != PROJECT:
        return None

    def allows(path: str, data: bytes | None = None) -> bool:
        return context.approves(os.path.basename(path), data)  # noqa: PTH119 - text

    return allows


def _withholding(context: Context, allowance: "Allowance | None") -> "FolderRestrictions":
    return allowance.restrictions() if allowance else context.baseline


def _undeclared(level: Level, *, on_node: bool) -> Rights | None:
    if level is Level.PROJECT:
        return _OF_PROJECT
    return _OF_NODE if on_node else None


def _own_files(chain: Chain, anchor: Anchor, files: AnchoredFiles) -> tuple[Path, ...]:
    """The files of a tool: its own, its anchor, the library of its runtime."""
    names = anchor.names
    found = [Path(names["tool_path"])]
    if anchor.active:
        found += [anchor.path, Path(names["tool_dir"])]
    if names["runtime_lib"]:
        found.append(Path(names["runtime_lib"]))
    for element in chain.elements[1:]:
        if element.path:  # what lies beside a runtime of a bundle was verified with it
            is_shipped = tier_of(element.space) == SYSTEM
            found.append(element.path.parent if is_shipped else element.path)
    return tuple(dict.fromkeys((*found, *(item.target.path for item in files.items))))


class _Places:
    """The path of a program, and the files that it needs to start."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        self._path_variable = env.get("PATH", os.defpath)
        self._program = self._find_program(program)

    def readable(self, programs: Sequence[str] | None, cache: Path | None) -> Iterator[Path]:
        """The system's files and those of programs; ``cache`` is the folder of Rye's."""
        from lillux.system_places import program_places, system_places

        yield from system_places()
        folders = [] if programs is not None else self._path_variable.split(os.pathsep)
        named = [self._program, *map(self._find_program, programs or ())]
        real = [Path(os.path.realpath(path)) for path in named if path]
        for path in (*(Path(path) for path in named if path), *real):
            yield path
            folders.append(str(path.parent))
        for folder in dict.fromkeys(filter(os.path.isabs, folders)):
            yield from program_places(Path(folder))
            if cache and folder.startswith(f"{cache}{os.sep}"):  # its links lead to the programs
                from ryeos.items.path_links import source_of

                source = source_of(Path(folder), cache)
                yield from program_places(source) if source else ()

    def executable(self, programs: Sequence[str]) -> Iterator[Path]:
        """The program itself, the named programs, and the loader of each."""
        from lillux.system_places import loaders_of

        todo = [self._program, *map(self._find_program, programs)]
        seen: set[str] = set()
        while todo:
            path = todo.pop()
            if not path or path in seen:
                continue
            seen.add(path)
            real = Path(os.path.realpath(path))
            yield real
            for loader, *words in loaders_of(real):
                todo.append(loader)
                if Path(loader).name == "env":
                    todo += [
                        self._find_program(word) for word in words if not word.startswith("-")
                    ][:1]

    def _find_program(self, program: str) -> str:
        if os.sep in program:
            return program
        return find_on_path(program, self._path_variable, platform=sys.platform) or ""
