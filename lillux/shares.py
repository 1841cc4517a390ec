"""Shares of a machine for groups of processes: control groups of Linux, version 2 or 1.

    <group of this process>/rye-runs/<owner>/<run>/

Owners get the same share of the processors however much each of them starts; a run has a limit of
memory and of processes. For a system that lets this process make groups: its own one is delegated
to it (``Delegate=`` of systemd), or it is root. See cgroups(7).
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from lillux.values import dataclass, field

_CONTROLLERS = ("cpu", "memory", "pids")
_RUNS, _OWN = "rye-runs", "rye-server"
_MOUNTS, _GROUP = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
_UNIFIED = ""
_PAUSE_S, _GONE_S = 0.01, 2.0
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Shares:
    """Folders for new groups: by controller a folder; of version 2 one for all, under ``""``.

    ``held`` are the controllers that count there; ``missing`` says why there are none.
    """

    folders: Mapping[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    missing: str = ""

    def join(self, owner: str, run: str, *, memory_bytes: int, processes: int) -> None:
        """Make a group for a run, with limits (0 for none), and move this process there.

        Raises OSError.
        """
        for controller, folder in self.folders.items():
            group = Path(folder, owner, run)
            _make(group, self.held if controller == _UNIFIED else ())
            for name, value in _limits(controller, self.held, memory_bytes, processes):
                if value:
                    group.joinpath(name).write_text(str(value), encoding="ascii")
            group.joinpath("cgroup.procs").write_text("0", encoding="ascii")

    def remove(self, owner: str, run: str) -> None:
        """Remove the group of a run whose processes have ended, and its owner's if it is empty."""
        deadline = time.monotonic() + _GONE_S
        for folder in self.folders.values():
            group = Path(folder, owner, run)
            while group.is_dir() and time.monotonic() < deadline:
                with suppress(OSError):  # the kernel takes a moment to forget a process
                    group.rmdir()
                    break
                time.sleep(_PAUSE_S)
            with suppress(OSError):
                group.parent.rmdir()


def open_shares(*, mounts: Path = _MOUNTS, groups: Path = _GROUP) -> Shares:
    """The groups that this process may make. It moves itself into one of them where it has to.

    ``mounts`` and ``groups`` are files of ``/proc/self`` that say what is mounted, and which groups
    this process is in.
    """
    try:
        own = _own_groups(mounts, groups)
        if _UNIFIED in own and _controllers(own[_UNIFIED]):
            return _open_unified(own[_UNIFIED])
        return _open_separate({name: own[name] for name in _CONTROLLERS if name in own})
    except OSError as error:
        return Shares(missing=f"no control group may be made: {error.strerror or error}".lower())


def _open_unified(own: Path) -> Shares:
    """Version 2: a group that has groups below it holds no processes itself."""
    held = _controllers(own)
    inside = {
        int(word) for word in own.joinpath("cgroup.procs").read_text(encoding="utf-8").split()
    }
    if own.name == _OWN:  # an earlier part of this process moved it
        own = own.parent
    elif inside != {os.getpid()}:
        return Shares(missing="the control group of the node holds other processes too")
    else:
        own.joinpath(_OWN).mkdir(exist_ok=True)
        own.joinpath(_OWN, "cgroup.procs").write_text("0", encoding="ascii")
    _enable(own, held)
    runs = own / _RUNS
    runs.mkdir(exist_ok=True)
    _enable(runs, held)
    return Shares({_UNIFIED: str(runs)}, held)


def _open_separate(own: Mapping[str, Path]) -> Shares:
    """Version 1: a tree for each controller, where any group may hold processes."""
    if "cpu" not in own:
        return Shares(missing="the system has no control groups")
    for folder in own.values():
        folder.joinpath(_RUNS).mkdir(exist_ok=True)
        if not os.access(folder / _RUNS, os.W_OK):
            return Shares(missing="no control group is delegated to the node")
    return Shares({name: str(folder / _RUNS) for name, folder in own.items()}, tuple(own))


def _own_groups(mounted: Path, groups: Path) -> dict[str, Path]:
    """The folders of the groups that this process is in, by controller."""
    own: dict[str, Path] = {}
    mounts = dict(_mounts(mounted))
    for line in groups.read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if name in mounts:
                mount, root = mounts[name]
                inner = path.removeprefix(root.rstrip("/")) if root != "/" else path
                own[name] = Path(mount, inner.lstrip("/"))
    return own


def _mounts(mounted: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """By controller where its tree is mounted, and which part of it."""
    for line in mounted.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        root, place = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind == "cgroup2":
            yield _UNIFIED, (place, root)
        elif kind == "cgroup":
            for option in options.split(","):
                yield option, (place, root)


def _make(group: Path, enabled: tuple[str, ...]) -> None:
    """Make a group, and its owner's, which the end of another run may remove meanwhile."""
    for attempt in range(_ATTEMPTS):
        try:
            group.parent.mkdir(exist_ok=True)
            if enabled:
                _enable(group.parent, enabled)
            group.mkdir()
        except (FileNotFoundError, NotADirectoryError):
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _controllers(group: Path) -> tuple[str, ...]:
    found = group.joinpath("cgroup.controllers").read_text(encoding="ascii").split()
    return tuple(name for name in _CONTROLLERS if name in found)


def _enable(group: Path, controllers: tuple[str, ...]) -> None:
    words = " ".join(f"+{name}" for name in controllers)
    group.joinpath("cgroup.subtree_control").write_text(words, encoding="ascii")


def _limits(
    controller: str, held: tuple[str, ...], memory_bytes: int, processes: int
) -> Iterator[tuple[str, int]]:
    if controller == _UNIFIED:
        if "memory" in held:
            yield "memory.max", memory_bytes
        if "pids" in held:
            yield "pids.max", processes
    elif controller == "memory":
        yield "memory.limit_in_bytes", memory_bytes
    elif controller == "pids":
        yield "pids.max", processes
