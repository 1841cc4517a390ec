"""Tools in JavaScript and TypeScript, and the packages of npm that they may need."""

import subprocess
from pathlib import Path

from lillux.file_locks import locked
from tests.support.built import ROOT
from tests.support.programs import require_program, unavailable

NODE_RUNTIME = "rye/core/runtimes/node/node"
# Pinned, so that the tested version changes only on purpose.
TSX = "tsx@4.20.6"


def node_source(item_id: str, source: str, executor: str = NODE_RUNTIME) -> str:
    """The text of a tool whose header is a JSDoc comment."""
    category = item_id.rpartition("/")[0]
    tags = {"version": "1.0.0", "tool_type": "javascript", "executor_id": executor}
    tags |= {"category": category, "description": "test tool"}
    lines = "\n".join(f" * @{name} {value}" for name, value in tags.items())
    return f"/**\n{lines}\n */\n{source}\n"


def installed_tsx() -> Path:
    """A ``node_modules`` that holds tsx, installed once by npm and kept below ``build``."""
    npm = require_program("npm")
    folder = ROOT / "build" / "npm" / TSX.replace("@", "-")
    with locked(folder.with_suffix(".lock"), timeout_s=300):
        if not (folder / "ready").exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "package.json").write_text("{}\n", encoding="utf-8")
            command = [str(npm), "install", "--no-audit", "--no-fund", "--ignore-scripts", TSX]
            ended = subprocess.run(command, cwd=folder, capture_output=True, check=False)
            if ended.returncode:
                unavailable(f"npm cannot install {TSX} here: {ended.stderr[-300:]!r}")
            (folder / "ready").touch()
    return folder / "node_modules"
