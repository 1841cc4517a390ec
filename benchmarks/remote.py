"""A project on a node: pushed, pulled and executed by the built file; against git."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread

from benchmarks.crowd import crowd
from benchmarks.git_peer import GitPeer, git_peer
from benchmarks.remote_node import Watched, peak_mib, watched_node
from benchmarks.timing import Figure, elapsed_ms, medians
from lillux.key_files import load_keypair
from tests.support.node import Node

FILES, FILE_BYTES = 10_000, 4096
ONE_ITEM_IN = 20
FIRST_PUSHES, CHANGES, RUNS, PULLS = 3, 9, 9, 3
_BETWEEN_LOOKS_S = 0.005
_CHANGED = "src/folder1/file1.py"
_RULES = ".ai/config/cas/manifest.yaml"
_NOOP = "tool:bench/noop"
_NOOP_TOOL = '''"""Does nothing."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "bench"
__tool_description__ = "Does nothing"


def execute(params, project_path):
    return {}
'''


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for 10,000 files of 40 MB, and for a crowd of clients; none where there is no git."""
    if sys.platform != "linux" or not shutil.which("git"):
        return
    folder = scratch / "remote"
    machine = Machine(folder / "here", pyz)
    machine.write_project()
    seen: list[Watched] = []
    node_pyz = pyz.with_name("rye-node.pyz")
    with git_peer(folder / "git", machine.env) as git:
        git.add(machine.project)
        first: dict[str, list[float]] = {"rye": [], "git": []}
        for number in range(FIRST_PUSHES):
            with watched_node(folder / f"node{number}", node_pyz) as watched:
                seen.append(watched)
                _first_pushes(machine, git, watched, first)
                if number == FIRST_PUSHES - 1:
                    idle = watched.peak_mib()
                    yield from _pushed_rows(first)
                    yield from _transfers(machine, git)
                    yield from _runs(machine)
                    yield from crowd(folder / "crowd", watched.node)
                    yield Figure(
                        "remote, memory of the node",
                        watched.peak_mib(),
                        "after one push",
                        idle,
                        "at most 200 MiB",
                        "MiB",
                    )
        yield Figure(
            "remote, memory of the client",
            max(machine.peaks_mib),
            "rye version",
            machine.rye("version"),
            "at most 200 MiB",
            "MiB",
        )
    yield _health(seen)


class Machine:
    """A user's machine: a project, a user space with a key, and the program."""

    def __init__(self, folder: Path, pyz: Path) -> None:
        self.user_space, self.project = folder / "home", folder / "project"
        self.peaks_mib: list[float] = []
        self.env = {"HOME": str(self.user_space), "PATH": os.environ["PATH"]}
        python = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
        self._rye = [python, "-I", "-S", str(pyz)]
        self._pulls = count()
        self.user_space.mkdir(parents=True)
        self.project.mkdir()

    def write_project(self) -> None:
        """Files of other content each; one in 20 is an item."""
        random = Random(1)  # noqa: S311 - test data
        for number in range(FILES):
            kind = "src" if number % ONE_ITEM_IN else ".ai/tools"
            path = self.project / kind / f"folder{number % 100}" / f"file{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(random.randbytes(FILE_BYTES // 2).hex().encode("ascii"))
        rules = self.project / _RULES
        rules.parent.mkdir(parents=True)
        rules.write_text("sync: {include: ['src/']}\n", encoding="utf-8")
        tool = self.project / ".ai/tools/bench/noop.py"
        tool.parent.mkdir()
        tool.write_text(_NOOP_TOOL, encoding="utf-8")
        self.rye("keys", "generate")
        self.rye("sign", _NOOP)

    def rye(self, *arguments: str, project: Path | None = None) -> float:
        """Run the program to its end, which has to be a good one; its peak memory in MiB."""
        process = subprocess.Popen(
            [*self._rye, *arguments],
            env=self.env,
            cwd=project or self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        peak = [0.0]
        watcher = Thread(target=_watch, args=(process.pid, peak), daemon=True)
        watcher.start()
        output, _ = process.communicate()
        watcher.join()
        if process.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: status {process.returncode}\n{output}")
        return peak[0]

    def remote(self, *arguments: str, project: Path | None = None) -> None:
        """``rye remote``, its memory noted."""
        self.peaks_mib.append(self.rye("remote", *arguments, project=project))

    def use(self, node: Node) -> None:
        """Authorise this user on the node; later pushes go there, without any earlier push."""
        node.user(keypair=load_keypair(self.user_space / ".ai/config/keys/signing"))
        self.rye("remote", "add", "default", node.url, "--node-id", node.keys.node_id, "--replace")
        shutil.rmtree(self.user_space / ".cache", ignore_errors=True)
        shutil.rmtree(self.project / ".ai/state", ignore_errors=True)
        self.rye("run", _NOOP)  # lays out what the program keeps in its cache

    def change(self, text: str) -> None:
        """Change one file."""
        self.project.joinpath(_CHANGED).write_text(text, encoding="utf-8")

    def pull(self) -> None:
        """Bring the project into an empty folder."""
        folder = self.user_space.parent / f"pull{next(self._pulls)}" / self.project.name
        rules = folder / _RULES  # what they keep at home is not taken in
        rules.parent.mkdir(parents=True)
        shutil.copy(self.project / _RULES, rules)
        self.remote("pull", project=folder)


def _watch(pid: int, peak: list[float]) -> None:
    """Note the peak memory until the process ends: the kernel forgets it with the process."""
    while found := peak_mib(pid):
        peak[0] = max(peak[0], found)
        time.sleep(_BETWEEN_LOOKS_S)


def _first_pushes(
    machine: Machine, git: GitPeer, watched: Watched, times: Mapping[str, list[float]]
) -> None:
    machine.use(watched.node)
    git.begin(watched.node.data.name)
    for name, push in (("git", git.push), ("rye", lambda: machine.remote("push"))):
        settle()
        times[name].append(elapsed_ms(push))


def settle() -> None:
    """Write all pending data to disk, so that no measurement waits for data of another."""
    os.sync()


def _pushed_rows(times: Mapping[str, list[float]]) -> Iterator[Figure]:
    found = {name: statistics.median(values) for name, values in times.items()}
    yield Figure("remote, first push", found["rye"], "git push", found["git"], "at most 0.8")


def _transfers(machine: Machine, git: GitPeer) -> Iterator[Figure]:
    """One changed file, and everything into an empty folder."""
    pushed: dict[str, list[float]] = {"rye": [], "git": []}
    for number in range(CHANGES):
        machine.change(f"rye {number}\n")
        git.change(_CHANGED, f"git {number}\n")
        settle()
        pushed["git"].append(elapsed_ms(git.push))
        settle()
        pushed["rye"].append(elapsed_ms(lambda: machine.remote("push")))
    found = {name: statistics.median(values) for name, values in pushed.items()}
    name = "remote, push of one changed file"
    yield Figure(name, found["rye"], "git push", found["git"], "at most 0.3 s")
    found = medians({"rye": machine.pull, "git": git.clone}, PULLS, before=settle)
    yield Figure(
        "remote, pull into an empty folder", found["rye"], "git clone", found["git"], "at most 1.0"
    )


def _runs(machine: Machine) -> Iterator[Figure]:
    """A tool that does nothing, on the node and locally."""
    contenders: dict[str, Callable[[], object]] = {
        "there": lambda: machine.remote("execute", _NOOP),
        "here": lambda: machine.rye("run", _NOOP),
    }
    for run in contenders.values():
        run()
    found = medians(contenders, RUNS)
    yield Figure(
        "remote, a tool that does nothing",
        found["there"],
        "rye run",
        found["here"],
        "at most +0.5 s",
    )


def _health(seen: list[Watched]) -> Figure:
    """The p99 of ``/health`` during all of these operations."""
    health_ms = [time_ms for one in seen for time_ms in one.health_ms]
    idle_ms = [time_ms for one in seen for time_ms in one.idle_ms]
    health, idle = (statistics.quantiles(times, n=100)[-1] for times in (health_ms, idle_ms))
    name = "remote, 99 of 100 /health meanwhile"
    return Figure(name, health, "an idle process", idle, "at most 25 ms")
