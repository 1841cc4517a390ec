"""How the runs of different users are kept apart on this machine, found out when a node starts.

Landlock and seccomp hold what a run may do (`rye_services.node.worker.items`). This is about who
else is there: processes of its own, and shares of the machine. What a machine does not give is
named in the log, by ``rye-node.pyz doctor`` and in ``docs/threat-model.md``.
"""

import json
import logging
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.namespaces import Apart
from lillux.shares import Shares, open_shares
from lillux.values import dataclass

_PROBE_S = 30.0
_PROBE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from lillux.namespaces import Apart, obstacle;"
    "print(json.dumps({how: obstacle(how) for how in (Apart.USERS, Apart.PLAIN)}))"
)
_WORDS = {
    Apart.USERS: "processes of its own (user and process namespaces)",
    Apart.PLAIN: "processes of its own (process namespaces)",
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What keeps a run apart from those of others.

    how      by which namespaces
    problem  why by none
    shares   groups of processes with shares of the machine
    """

    how: Apart = Apart.NOT
    problem: str = ""
    shares: Shares = Shares()

    def held(self) -> Iterator[str]:
        """What a run has for itself, in words."""
        if self.how is not Apart.NOT:
            yield _WORDS[self.how]
        if self.shares.held:
            yield f"shares of its own ({', '.join(self.shares.held)})"

    def lacking(self) -> Iterator[str]:
        """What runs of different users share that they should not, with the reason."""
        if self.how is Apart.NOT:
            yield (
                "they see, signal and limit the processes of each other: "
                f"{self.problem or 'no namespaces'}"
            )
        if not self.shares.held:
            yield f"they slow each other: {self.shares.missing or 'no control groups'}"

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


def open_isolation(python: str, modules: Sequence[str]) -> Isolation:
    """What this machine gives, tried in a process of its own.

    The groups are this process's: it moves into one of them where the system wants that.
    """
    problems = _tried(python, modules)
    how = next((Apart(one) for one, problem in problems.items() if not problem), Apart.NOT)
    problem = "" if how is not Apart.NOT else "; ".join(dict.fromkeys(problems.values()))
    return Isolation(how=how, problem=problem, shares=open_shares())


def _tried(python: str, modules: Sequence[str]) -> dict[str, str]:
    """By the kind of namespaces why they cannot be had, ``""`` where they can."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _PROBE, json.dumps(list(modules))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_PROBE_S,
        )
        return {str(how): str(problem) for how, problem in json.loads(done.stdout).items()}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {Apart.USERS.value: f"it could not be tried: {error}"[:300]}
