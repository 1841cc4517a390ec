"""Background runs of a workspace: this checkout as the program that runs them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.errors import Answer
from ryeos.items.refs import parse_reference
from ryeos.run.model import ExecutionRequest
from ryeos.run.threads.start import Program
from ryeos.run.threads.thread import Thread
from ryeos.run.threads.watch import wait_for
from tests.support.workspace import ROOT, Workspace

PATIENCE_S = 60.0

_RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv.pop(1))
from ryeos.trust.bundles import BundleFolder
from ryeos.cli.entry import main
sys.exit(main(bundle=BundleFolder(Path(sys.argv.pop(1)))))
"""


def program_of(workspace: Workspace, *argv: str) -> Program:
    """The program that starts the command line of this checkout, or another one."""
    own = (sys.executable, "-c", _RUN, str(ROOT), str(workspace.bundles[0].base))
    return Program(
        argv=argv or own,
        flags=("--project", str(workspace.project_path), "--user-space", str(workspace.home)),
        env=workspace.env,
        cwd=workspace.project_path,
    )


def start(workspace: Workspace, ref: str, **params: Any) -> Answer:  # noqa: ANN401 - inputs
    """Start an item in the background."""
    reference = parse_reference(ref)
    request = ExecutionRequest(item_id=reference.id, parameters=params)
    return workspace.rye().start(reference, request, program_of(workspace))


def started(workspace: Workspace, ref: str, **params: Any) -> str:  # noqa: ANN401 - inputs
    """Start an item in the background; the id of its thread."""
    answer = start(workspace, ref, **params)
    assert answer.exit_status == 0, answer.envelope
    return str(answer.envelope["thread_id"])


def ended(workspace: Workspace, thread_id: str) -> Thread:
    """The thread, when it has ended."""
    thread = wait_for(workspace.rye().threads, thread_id, PATIENCE_S)
    assert thread.has_ended
    return thread


class Holding:
    """A script that holds a pipe open, with all it starts, until the last of them is gone."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "held"
        os.mkfifo(self.path)
        # Ready is the last word: one that came to a runner which was killed upon it would end the
        # script, by SIGPIPE, and with it what a test looks for.
        self.script = (
            f"exec 9>'{self.path}'; echo begun >&2; sleep 600 & sleep 600 & echo ready >&9; wait"
        )
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(self._reader, True)

    def await_ready(self) -> None:
        """Return when the script runs."""
        import select

        select.select([self._reader], [], [])  # a pipe without a writer yet is no end
        assert os.read(self._reader, 6) == b"ready\n"

    def await_end(self) -> None:
        """Return when no process holds it any more."""
        assert os.read(self._reader, 1) == b""

    def close(self) -> None:
        """Give up the reading end."""
        os.close(self._reader)


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Holding]:
    """A script whose processes a test can wait for."""
    made = Holding(tmp_path)
    yield made
    made.close()
