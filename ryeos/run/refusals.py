"""Refused accesses of a confined program, and the header lines that would allow them. Pure.

Known from what a supervisor or a forwarder has seen; else read out of what the program says: the
system tells a program no more than that permission was denied.
"""

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.program_files import find_on_path
from lillux.values import dataclass, replace
from ryeos.run.heard_refusals import is_there
from ryeos.run.outcomes import MappedResult

if TYPE_CHECKING:
    from lillux.attempts import Attempt
    from lillux.sandbox import Confinement
    from ryeos.run.confinement import CallRights

MAX_REFUSALS = 10
_MAX_TEXT = 20_000
_SHORTEST_NAME = 3
_DENIED = (
    re.compile(r"\[Errno (?:1|13|18|30)\] [^:'\"\n]*: '([^'\n]+)'(?: -> '([^'\n]+)')?"),
    re.compile(r"E(?:ACCES|PERM|ROFS|XDEV): [^,\n]*, \w+ '([^'\n]+)'(?: -> '([^'\n]+)')?"),
    re.compile(r"['\u2018]([^'\u2019\n]+)['\u2019]: (?:Permission denied|Operation not permitted)"),
    re.compile(
        r"(?:^|: )([~/.][^:'\"\n]*|[^:\s'\"]+): (?:Permission denied|Operation not permitted)",
        re.MULTILINE,
    ),
    re.compile(r"\s(/[^:'\"\s]+): (?:Permission denied|Operation not permitted)"),
    re.compile(r"^npm (?:ERR!|error) path (/[^\n]+)$", re.MULTILINE),
)
_NETWORK = re.compile(
    r"getaddrinfo|[Cc]ould not resolve|Name or service not known|Temporary failure in name|"
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|connect EACCES|[Ss]ocket\b|Network is unreachable|"
    r"Failed to connect|Couldn't connect|Tunnel connection failed: 403|CONNECT tunnel failed"
)
# How programs name the host of a request that failed: with its port, or without.
_HOST = r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?)"
_PORT = r"(?P<port>[0-9]{1,5})"
_QUOTE = r"['\"\u2018]?"
_PEERS = (
    re.compile(rf"[Ff]ailed to connect to {_HOST} port {_PORT}"),
    re.compile(rf"connect to (?:host |address )?{_HOST} port {_PORT}"),
    re.compile(rf"connect E[A-Z]+ {_HOST}:{_PORT}\b"),
    re.compile(rf"dial (?:tcp|udp)[46]? {_HOST}:{_PORT}\b"),
    re.compile(rf"host='{_HOST}', port={_PORT}\b"),
    re.compile(rf"[Cc]annot connect to host {_HOST}:{_PORT}\b"),
    re.compile(rf"(?P<scheme>ssh): [Cc]ould not resolve hostname {_HOST}"),
    re.compile(
        rf"(?:(?<!ssh: )[Cc]ould not resolve (?:host(?:name)?|proxy)|[Tt]emporary failure resolving"
        rf"|getaddrinfo E[A-Z_]+|unable to resolve host address|could not translate host name"
        rf"|dial (?:tcp|udp)[46]?: lookup):? {_QUOTE}{_HOST}"
    ),
)
_URL = re.compile(rf"\b(?P<scheme>[A-Za-z][a-z]{{1,9}})://(?:[^\s/@'\"]*@)?{_HOST}(?::{_PORT})?")
_PORT_OF_SCHEME = {"http": 80, "ws": 80, "ssh": 22, "git": 9418, "ftp": 21, "postgresql": 5432}
_USUAL_PORT, _MAX_PORT = 443, 65535
_ANY_HOST, _PLACEHOLDER = "the network", "HOST:PORT"
_TERMINALS = "/dev/ptmx"
# They name no path: POSIX semaphores and shared memory, and terminals.
_WITHOUT_PATH = (
    (
        re.compile(r"SemLock|sem_open|shm_open|_posixshmem|multiprocessing[/.]synchronize"),
        "/dev/shm",  # noqa: S108 - named for a person, nothing is made there
    ),
    (re.compile(r"pseudo-?terminal|openpty|posix_openpt|forkpty|out of pty"), _TERMINALS),
)
_SHARED_NAME = re.compile(r"/[^/]+$")
_REFUSED = re.compile(
    r"\[Errno (?:1|13|30|38)\]|Permission denied|Operation not permitted|Function not implemented"
    r"|out of pty"
)
_TEMPORARY = re.compile(
    r"No usable temporary director|mktemp: failed to create|cannot create temp file for here-doc"
)
_TMP = "{tmp}"
_OF_PROCESSES = ("/proc/", "/sys/")
_KEYS = {"read": "read", "write": "write", "run": "programs", "connect": "network"}
_KEYS |= {"bind": "network", "variable": "env"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One access: ``what`` is read, write, run, connect, bind or variable."""

    what: str
    target: str

    def describe(self, shown: str, *, is_declared: bool = False) -> dict[str, Any]:
        """The access as a result shows it; ``shown`` is the target as a header would name it.

        ``is_declared``: its header does, and the user's policy or the caller took it away.
        """
        if is_declared:
            return {"what": self.what, "target": self.target, "allow": ""}
        key = _KEYS[self.what]
        if not shown and self.target == _ANY_HOST:
            shown = _PLACEHOLDER
        value = f'["{shown}"]' if shown else "any"
        return {"what": self.what, "target": self.target, "allow": f"{key}: {value}"}


def with_refusals(
    mapped: MappedResult,
    confinement: "Confinement | None",
    rights: "CallRights",
    attempts: Iterable["Attempt"],
    *,
    cwd: str,
    search_path: str,
    withheld: Sequence[str] = (),
) -> MappedResult:
    """The result with the refused accesses, for a program that failed or was watched.

    ``search_path`` is the PATH of its environment, ``withheld`` are the variables that it lacks.
    """
    if confinement is None or (mapped.success and not confinement.watches):
        return mapped
    beyond = () if mapped.success else _beyond_allowance(mapped, confinement, rights, cwd)
    if beyond:
        return replace(mapped, metadata={**mapped.metadata, "refused": list(beyond)})
    found = [*_seen_refusals(attempts, confinement)]
    if not mapped.success:
        words = _Complaints(mapped, confinement)
        found += words.files(cwd, search_path)
        if not found and rights.rights and rights.rights.network is not None:
            found += words.network()
        found += words.variables(withheld)
        if not rights.needs_folder:
            found += words.temporary()
    kept = confinement.withholding
    if kept:  # no header allows an agent to read a key
        found = [one for one in found if one.target == _TMP or not kept.takes(one.what, one.target)]
    refused = list(dict.fromkeys(found))[:MAX_REFUSALS]
    if not refused:
        return mapped
    shown = []
    for one in refused:
        wide = one.what == "read" and rights.declares("write", one.target)
        is_declared = wide or rights.declares(one.what, one.target)
        reported = Refusal("write", one.target) if wide else one
        shown.append(reported.describe(shown_target(reported, rights), is_declared=is_declared))
    return replace(mapped, metadata={**mapped.metadata, "refused": shown})


def _beyond_allowance(
    mapped: MappedResult, confinement: "Confinement", rights: "CallRights", cwd: str
) -> tuple[dict[str, Any], ...]:
    """The paths that an agent's program complains of and that its user alone may write."""
    allowance = rights.allowance
    if allowance is None:
        return ()
    names = tuple(_Complaints(mapped, confinement).names())
    paths = dict.fromkeys(os.path.normpath(Path(cwd, name)) for name in names)
    found = {
        path: allowance.hint(path, rights.template_of)
        for path in paths
        if (allowance.may_complain_of(path) or path == _TERMINALS)
        and _is_writable_for_us(path)
        and not _is_of_header(path, confinement)
    }
    for path in paths.keys() - found.keys():
        if _is_not_copied(path):
            found[path] = allowance.hint_of_long_file(path, rights.template_of)
    return tuple(
        {
            "what": "read" if path.startswith(_OF_PROCESSES) else "write",
            "target": path,
            "allow": "",
            "policy": policy,
        }
        for path, policy in found.items()
    )[:MAX_REFUSALS]


def _is_not_copied(path: str) -> bool:
    """True if the supervisor makes no copy of a file with names elsewhere, as it is too long."""
    from lillux.mediation.changes import MAX_COPIED

    try:
        status = Path(path).lstat()
    except (OSError, ValueError):
        return False
    has_names = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return has_names and status.st_size > MAX_COPIED


def _is_of_header(path: str, confinement: "Confinement") -> bool:
    """True if something there may not even be read or run: the header of the item can name that."""
    return any(
        not confinement.allows(what, path) and _is_possible_target(what, path)
        for what in ("read", "run")
    )


def _is_writable_for_us(path: str) -> bool:
    """True if this process may write a path, so that it was not the path's mode that refused."""
    try:
        there = path if os.path.lexists(path) else os.path.dirname(path)  # noqa: PTH120 - text
        return os.access(there, os.W_OK)
    except ValueError:  # no path
        return False


def hint_of(item_id: str, refused: Sequence[dict[str, Any]]) -> str:
    """The line to add to the header."""
    first = refused[0]
    what = f"{first['what']} {first['target']}"
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    if first.get("policy"):
        return f"what agents start may not {what}{more}; {first['policy']}"
    if not first["allow"]:
        return f"your policy or the caller refused: {what}{more}; see: rye sandbox show {item_id}"
    line = header_line(one["allow"] for one in refused if not one.get("policy"))
    return (
        f"its sandbox refused: {what}{more}; if {item_id} needs that, write into its header: "
        f"sandbox: {{{line}}}{_in_code(line)}{_FIND_HOST if _PLACEHOLDER in line else ''}"
    )


_FIND_HOST = (
    "; HOST:PORT is the server that it connects to: its source, its settings or its manual name it"
    ' ("api.example.com:443"), and "*.example.com:443" is every host of a domain'
)


def _in_code(line: str) -> str:
    """The same in the words of Python and JavaScript."""
    quoted = re.sub(r"(^|, )(\w+): ", r'\1"\2": ', line).replace(": any", ': "any"')
    return f" (Python: SANDBOX = {{{quoted}}})"


def header_line(allowed: Iterable[str]) -> str:
    """The line of a header that allows all of these accesses, each right named once."""
    named: dict[str, dict[str, None]] = {}
    for line in filter(None, allowed):
        key, _, value = line.partition(": ")
        named.setdefault(key, {})[value] = None
    return ", ".join(
        f"{key}: {'any' if 'any' in values else f'[{_inner(values)}]'}"
        for key, values in named.items()
    )


def _inner(values: Iterable[str]) -> str:
    return ", ".join(value.removeprefix("[").removesuffix("]") for value in values)


def _seen_refusals(attempts: Iterable["Attempt"], confinement: "Confinement") -> Iterator[Refusal]:
    for attempt in attempts:
        if attempt.what not in _KEYS or attempt.is_shared:
            continue
        if attempt.what in {"connect", "bind"}:
            if attempt.was_refused:
                yield Refusal(attempt.what, attempt.target)
        elif attempt.what == "write" and attempt.was_refused:
            continue  # of a program that failed, its own words say whether this was why
        elif is_there(attempt) and not confinement.allows(attempt.what, attempt.target):
            yield Refusal(attempt.what, attempt.target)


class _Complaints:
    """The complaints in the output of a failed program."""

    def __init__(self, mapped: MappedResult, confinement: "Confinement") -> None:
        self._confinement = confinement
        data = mapped.data
        text = f"{mapped.error or ''}\n{mapped.metadata.get('stderr', '')}"[-_MAX_TEXT:]
        if isinstance(data, dict) and isinstance(data.get("stdout"), str):
            text += data["stdout"][-_MAX_TEXT:]
        self._text = text

    def names(self) -> Iterator[str]:
        """The files and programs in its error messages, as they stand there."""
        is_refused = _REFUSED.search(self._text)
        without = [path for said, path in _WITHOUT_PATH if is_refused and said.search(self._text)]
        for pattern in _DENIED:
            for match in pattern.finditer(self._text):
                names = (name.strip() for name in filter(None, match.groups()))
                # Names of shared memory look like paths: /psm_1.
                yield from (one for one in names if not (without and _SHARED_NAME.match(one)))
        yield from without

    def files(self, cwd: str, search_path: str) -> Iterator[Refusal]:
        """The files and programs in its error messages, as far as these were refused."""
        for name in self.names():
            yield from self._file(name, cwd, search_path)

    def _file(self, name: str, cwd: str, search_path: str) -> Iterator[Refusal]:
        program = None if "/" in name else find_on_path(name, search_path, platform=sys.platform)
        if program and not self._confinement.allows("run", program):
            yield Refusal("run", program)
            return
        path = os.path.normpath(Path(cwd, name))
        # What has no path of its own is made and opened for writing: that right says it all.
        is_shared = any(name == shared for _, shared in _WITHOUT_PATH)
        for what in ("write",) if is_shared else ("read", "run", "write"):
            if not self._confinement.allows(what, path) and _is_possible_target(what, path):
                yield Refusal(what, path)
                return

    def network(self) -> Iterator[Refusal]:
        """The servers that it could not reach by its own words; else that it was the network."""
        if not _NETWORK.search(self._text):
            return
        known = dict.fromkeys(_peers_in(self._text))
        for peer in known or (_ANY_HOST,):
            yield Refusal("connect", peer)

    def temporary(self) -> Iterator[Refusal]:
        """The refusal of a folder for temporary files, if it complains that it has none."""
        if _TEMPORARY.search(self._text):
            yield Refusal("write", _TMP)

    def variables(self, withheld: Sequence[str]) -> Iterator[Refusal]:
        """Variables that it names and that are not set."""
        for name in withheld:
            whole = rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])"
            if len(name) >= _SHORTEST_NAME and re.search(whole, self._text):
                yield Refusal("variable", name)


def _peers_in(text: str) -> Iterator[str]:
    """``HOST:PORT`` of each server that the words of a failed request name.

    Where they leave the port out, it is that of a URL with this host, else the usual one.
    """
    by_host = {one["host"].lower(): _port_of(one) for one in _URL.finditer(text)}
    for pattern in _PEERS:
        for found in pattern.finditer(text):
            host = found["host"].lower()
            said = found.groupdict()
            port = _port_of(found) if said.get("port") or said.get("scheme") else by_host.get(host)
            if port != 0:
                yield f"{host}:{port or _USUAL_PORT}"


def _port_of(found: re.Match[str]) -> int:
    """The port that is said, else that of the scheme; 0 for one that there cannot be."""
    said = found.groupdict()
    if said.get("port"):
        return int(said["port"]) if int(said["port"]) <= _MAX_PORT else 0
    return _PORT_OF_SCHEME.get(str(said.get("scheme")).lower(), _USUAL_PORT)


def _is_possible_target(what: str, path: str) -> bool:
    """True if a path can be the target of such an access."""
    try:
        if what == "run":
            return Path(path).is_file() and os.access(path, os.X_OK)
        return what == "write" or Path(path).exists()
    except (OSError, ValueError):  # not a valid path
        return False


def shown_target(refusal: Refusal, rights: "CallRights") -> str:
    """The header entry for a refused access; ``""`` if only the whole right can be given."""
    if refusal.target == _TMP:
        return _TMP
    if refusal.what in {"read", "write"}:
        path = Path(refusal.target)
        if refusal.what == "write" and not path.is_dir():
            path = path.parent
        return rights.template_of(path)
    if refusal.what == "run":
        return Path(refusal.target).name
    if refusal.what == "variable":
        return refusal.target
    host = refusal.target.partition(" ")[0]
    return host if refusal.what == "connect" and ":" in host else ""
