"""Verifying and signing many items."""

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Figure, elapsed_ms, medians, process
from tests.support.workspace import Workspace, publish

COUNT = 1000
ROUNDS = 7
ROOT = Path(__file__).resolve().parents[1]

_HASH = """
import hashlib, pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*.py"):
    hashlib.sha256(path.read_bytes()).hexdigest()
"""
_VERIFY = """
import os, pathlib, sys
sys.path[:0] = sys.argv[4:]
from ryeos.app.workspace import Rye
from ryeos.trust.audit import targets_in_spaces
from ryeos.items.context import context_from
context = context_from({"HOME": sys.argv[2]}, cwd=pathlib.Path("/"), project=sys.argv[1])
reports = Rye(context).audit(list(targets_in_spaces([context.spaces.project])))
assert [r.state for r in reports] == ["valid"] * int(sys.argv[3]), reports[0]
"""


def figures(scratch: Path) -> Iterator[Figure]:
    """Rows for 1,000 items: verified in a fresh process, and signed."""
    workspace = Workspace(scratch / "items", (publish(scratch / "items-bundle"),))
    paths = [workspace.project.tool(f"many/t{n}", f"print({n})\n" * 20) for n in range(COUNT)]
    targets = [workspace.project.target(path) for path in paths]
    signer = workspace.signer()
    signing_ms = elapsed_ms(lambda: list(signer.sign_all(targets, force=True)))
    project, home = workspace.project_path, workspace.home
    python = [sys.executable, "-c"]
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    verify = [*python, _VERIFY, str(project), str(home), str(COUNT), str(ROOT), *libraries]
    env = {"PATH": "", "PYTHONPYCACHEPREFIX": str(scratch / "pyc")}
    found = medians(
        {
            "verify": process(verify, env=env, cwd=scratch),
            "hash": process([*python, _HASH, project], env=env, cwd=scratch),
        },
        ROUNDS,
    )
    hashed = f"hashing {COUNT} files"
    yield Figure(
        f"verify {COUNT} items, cold", found["verify"], hashed, found["hash"], "at most 5.0"
    )
    yield Figure(f"sign {COUNT} items", signing_ms, hashed, found["hash"], "at most 1.2 s")
