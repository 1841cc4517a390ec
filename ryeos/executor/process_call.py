"""A call that starts a program and waits for its end: what most runtimes are."""

from collections.abc import Mapping
from typing import Any

from lillux.process.cancellation import Cancellation
from lillux.process.model import Command, Outcome, ProcessRunner
from lillux.values import dataclass
from ryeos.executor.calls import Materials, OnStderr, Services
from ryeos.executor.invocation import build_invocation
from ryeos.executor.model import Invocation
from ryeos.executor.results import MappedResult, map_outcome

SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class ProcessCall:
    """An invocation and what runs it. See `ryeos.executor.calls.Call`."""

    invocation: Invocation
    runner: ProcessRunner

    def describe(self) -> dict[str, Any]:
        """The command, its folder, its limit, and the names of the variables that were set."""
        return describe_invocation(self.invocation)

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Run the program. Raises ProgramNotFoundError, SpawnError, ConfigurationError."""
        outcome = self.outcome(cancellation=cancellation, on_stderr=on_stderr)
        return map_outcome(outcome, self.invocation.timeout_s)

    def outcome(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> Outcome:
        """What came of running the program. Raises as `run`."""
        command = command_of(self.invocation)
        return self.runner.run(command, cancellation=cancellation, on_stderr=on_stderr)


def process_call(materials: Materials, services: Services) -> ProcessCall:
    """The call for these materials. Raises SpecError, ProgramNotFoundError."""
    return ProcessCall(build_invocation(materials), services.runner)


def command_of(invocation: Invocation) -> Command:
    """What a process runner takes."""
    return Command(
        argv=invocation.argv,
        env=invocation.env,
        cwd=invocation.cwd,
        stdin=invocation.stdin,
        timeout_s=invocation.timeout_s,
        max_output_bytes=invocation.max_output_bytes,
    )


def describe_invocation(invocation: Invocation) -> dict[str, Any]:
    """An invocation to be shown: without the secrets that the environment put into it."""
    return {
        "command": [masked(word, invocation.env) for word in invocation.argv],
        "cwd": str(invocation.cwd),
        "env_keys": list(invocation.contributed),
        "timeout_s": invocation.timeout_s,
    }


def masked(text: str, env: Mapping[str, str]) -> str:
    """A text without the values of variables whose names speak of secrets."""
    for name, value in env.items():
        if len(value) >= SHORTEST_SECRET and any(part in name.upper() for part in SECRET_NAMES):
            text = text.replace(value, "***")
    return text
