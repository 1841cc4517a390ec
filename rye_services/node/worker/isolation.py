"""How the runs of different users are kept apart on this machine, found out when a node starts.

Landlock and seccomp hold what a run may do (`rye_services.node.worker.items`). This is about who
else is there: processes of its own, a user id of its own, and shares of the machine. What a machine
does not give is named in the log, by ``rye-node.pyz doctor`` and in ``docs/threat-model.md``.
"""

import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import make_directory
from lillux.namespaces import Apart, closed_folder
from lillux.shares import Shares, open_shares
from lillux.uids import UidRange, Uids, obstacle_to
from lillux.values import dataclass

_PROBE_S = 30.0
_PROBE = (
    "import json, sys; from pathlib import Path; given = json.loads(sys.argv[1]);"
    "sys.path[:] = given['modules'];"
    "from lillux.namespaces import Apart, obstacle;"
    "places = {name: list(map(Path, given[name])) for name in ('shown', 'needed')};"
    "tried = {how: obstacle(Apart(how), uid=given['uid'], **places) for how in given['hows']};"
    "print(json.dumps(tried))"
)
_WORDS = {
    Apart.USERS: "processes of its own (user and process namespaces)",
    Apart.PLAIN: "processes of its own (process namespaces)",
}
UID_LOCKS = Path("/run/rye-node-uids")
"""Where all nodes of a machine lease user ids, so that none gives one away twice."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What keeps a run apart from those of others.

    how          by which namespaces
    problem      why by none
    shares       groups of processes with shares of the machine
    uids         user ids, of which it has one for itself; None where it is the node's user
    uid_problem  why it is that
    """

    how: Apart = Apart.NOT
    problem: str = ""
    shares: Shares = Shares()
    uids: UidRange | None = None
    uid_problem: str = ""

    def held(self) -> Iterator[str]:
        """What a run has for itself, in words."""
        if self.how is not Apart.NOT:
            yield _WORDS[self.how]
        if self.uids:
            yield f"a user id of its own (one of {self.uids})"
        if self.shares.held:
            yield f"shares of its own ({', '.join(self.shares.held)})"

    def lacking(self) -> Iterator[str]:
        """What runs of different users share that they should not, with the reason."""
        if self.how is Apart.NOT:
            what = "see" if self.uids else "see, signal and limit"  # what is another user's
            reason = self.problem or "no namespaces"
            yield f"they {what} the processes of each other: {reason}"
        if not self.uids:
            yield f"they are one user of the system: {self.uid_problem or 'no user ids'}"
        if not self.shares.held:
            yield f"they slow each other: {self.shares.missing or 'no control groups'}"

    def leases(self, *, wait_s: float) -> Uids | None:
        """What gives each run its user id, with how long one waits for it; None without any."""
        return Uids(self.uids, UID_LOCKS, wait_s) if self.uids else None

    def log(self) -> None:
        """Say it in the log of a node that starts."""
        held = ", ".join(self.held())
        _log.info("each execution has %s", held or "nothing of its own but its files")
        for problem in self.lacking():
            _log.warning("executions of different users: %s", problem)

    def dump(self) -> dict[str, Any]:
        """The value for a job."""
        folders, held = dict(self.shares.folders), list(self.shares.held)
        return {"how": self.how.value, "folders": folders, "held": held}


def read_isolation(values: Mapping[str, Any]) -> Isolation:
    """The value of `Isolation.dump`; of an empty one there is nothing."""
    shares = Shares(values.get("folders") or {}, tuple(values.get("held") or ()))
    return Isolation(how=Apart(values.get("how", "")), shares=shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedUids:
    """The user ids that runs are to have.

    numbers  None for none
    root     the folder that their workspaces lie in, which need not be there
    needed   what else than the interpreter and its modules such a user has to read
    """

    numbers: UidRange | None
    root: Path
    needed: tuple[Path, ...] = ()


def open_isolation(
    python: str, modules: Sequence[str], wanted: WantedUids | None = None
) -> Isolation:
    """What this machine gives, tried in a process of its own.

    The groups are this process's: it moves into one of them where the system wants that.
    """
    shares = open_shares()
    problem, numbers = _obstacle_to_uids(wanted), wanted.numbers if wanted else None
    if not problem and wanted and numbers:
        # Plain ones first: a folder that is closed to the user can be replaced there.
        hows = (Apart.PLAIN, Apart.USERS, Apart.NOT)
        places = [Path(place) for place in modules if Path(place).exists()]
        for place in places:
            _open_program(place)
        shown = (*places, *map(Path, (sys.prefix, sys.base_prefix)), *wanted.needed)
        needed = (Path(python), Path(os.__file__), *map(_sample_of, shown))
        found = _tried(python, modules, hows, uid=numbers.first, shown=shown, needed=needed)
        how = _first_without_problem(found)
        closed = closed_folder(wanted.root / "any", numbers.first)
        if how is None:
            problem = _words_of(found)
        elif how is not Apart.PLAIN and closed is not None:
            problem = f"{closed} is closed to other users: chmod go+x {closed}"
        else:
            lost = "" if how is not Apart.NOT else _words_of(found)
            return Isolation(how=how, problem=lost, shares=shares, uids=numbers)
    found = _tried(python, modules, (Apart.USERS, Apart.PLAIN))
    how = _first_without_problem(found) or Apart.NOT
    return Isolation(
        how=how,
        problem="" if how is not Apart.NOT else _words_of(found),
        shares=shares,
        uid_problem=problem,
    )


def _obstacle_to_uids(wanted: WantedUids | None) -> str:
    """Why runs can have no user ids of their own, ``""`` where it has to be tried."""
    if wanted is None or wanted.numbers is None:
        return "the setting run_uids is off"
    problem = obstacle_to(wanted.numbers)
    if problem:
        return problem
    try:
        make_directory(UID_LOCKS, mode=0o700)
    except LilluxError as error:
        return str(error)
    return "" if os.access(UID_LOCKS, os.W_OK) else f"{UID_LOCKS} cannot be written to"


def _sample_of(place: Path) -> Path:
    """A file of this program in a place of modules; else the place."""
    inside = place / "lillux" / "uids.py"
    return inside if inside.exists() else place


def _open_program(place: Path) -> None:
    """Let other users read the folder that this program was unpacked to, where it is one.

    Folders above it stay closed: who is not shown it does not get there. What cannot be changed
    is left as it is, and found when it is tried.
    """
    unpacked = f"{Path(sys.argv[0]).name}_"  # as shiv names it: the file, and a digest of its code
    if place.name != "site-packages" or not place.parent.name.startswith(unpacked):
        return
    for folder, _, names in os.walk(place):
        for path in (folder, *(f"{folder}/{name}" for name in names)):
            with suppress(OSError):
                status = os.lstat(path)
                others = stat.S_IRGRP | stat.S_IROTH
                others |= stat.S_IXGRP | stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else 0
                if status.st_mode & others != others and not stat.S_ISLNK(status.st_mode):
                    os.chmod(path, stat.S_IMODE(status.st_mode) | others)  # noqa: PTH101 - text


def _first_without_problem(found: Mapping[str, str]) -> Apart | None:
    return next((Apart(how) for how, problem in found.items() if not problem), None)


def _words_of(found: Mapping[str, str]) -> str:
    return "; ".join(dict.fromkeys(found.values()))


def _tried(
    python: str,
    modules: Sequence[str],
    hows: Sequence[Apart],
    *,
    uid: int = 0,
    shown: Iterable[Path] = (),
    needed: Iterable[Path] = (),
) -> dict[str, str]:
    """By the kind of namespaces why they cannot be had, ``""`` where they can."""
    given: dict[str, Any] = {"modules": list(modules), "hows": list(hows), "uid": uid}
    given |= {"shown": list(map(str, shown)), "needed": list(map(str, needed))}
    try:
        done = subprocess.run(
            [python, "-I", "-c", _PROBE, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_PROBE_S,
        )
        return {str(how): str(problem) for how, problem in json.loads(done.stdout).items()}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {hows[0].value: f"it could not be tried: {error}"[:300]}
