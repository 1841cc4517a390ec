"""Carries a prepared directive out, and prints the peak of its memory in KiB.

A program of its own: what benchmarks and tests import would count as well.
"""

import json
import os
import sys
from pathlib import Path

from lillux.http.client import HttpClient
from ryeos.app.agent_threads import AgentThreads
from ryeos.app.thread_workspace import ThreadWish
from ryeos.app.workspace import Rye
from ryeos.items.context import context_from
from ryeos.items.refs import Kind, Reference, Space


def main(folder: Path, label: str, version: str) -> int:
    """Carry it out in a workspace of `benchmarks.threads`, whose bundle has this label."""
    pinned = (folder / "pinned.pem").read_bytes()
    space = Space(label, folder / "bundle", version, pinned)
    project = folder / "machine" / "project"
    env = {"HOME": str(folder / "machine" / "home"), "PATH": os.environ["PATH"]}
    context = context_from(env, cwd=project, project=str(project), bundles=(space,))
    rye = Rye(context, warn=lambda _text: None)
    answer = AgentThreads(rye, HttpClient({})).start(
        Reference(Kind.DIRECTIVE, "ops/say"), ThreadWish(parameters={})
    )
    if answer.envelope["state"] != "completed":
        raise RuntimeError(json.dumps(answer.envelope))
    status = Path("/proc/self/status").read_text("ascii")
    sys.stdout.write(status.partition("VmHWM:")[2].split()[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:4]))
