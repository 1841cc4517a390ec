"""Packages of npm that tests use: installed once, in exact versions, and kept below ``build/``."""

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from lillux.file_locks import locked
from tests.support.programs import require_program

ROOT = Path(__file__).resolve().parents[2]
SERVERS = {
    "@modelcontextprotocol/server": "2.4.0",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "zod": "4.1.12",
}
CLIENTS = {
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/sdk": "1.32.2",
}
ANY_INSTALLATION_S = 600


def node_packages(packages: Mapping[str, str] = SERVERS) -> Path:
    """The folder that holds ``node_modules``. Skips where npm, or its registry, is out of reach."""
    require_program("node")
    npm = require_program("npm")
    wanted = json.dumps({"private": True, "type": "module", "dependencies": dict(packages)})
    folder = ROOT / "build" / "npm" / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    with locked(folder / "lock", timeout_s=ANY_INSTALLATION_S):
        if not (folder / "done").exists():
            (folder / "package.json").write_text(wanted, encoding="utf-8")
            _install(npm, folder, packages)
            (folder / "done").touch()
    return folder


def _install(npm: Path, folder: Path, packages: Mapping[str, str]) -> None:
    # No script of a package is run: what is used here needs none.
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
    installed = subprocess.run(
        [npm, "install", *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if installed.returncode == 0:
        return
    reason = f"npm could not install {', '.join(packages)}: {installed.stdout[-500:]}"
    if os.environ.get("RYE_REQUIRE_PROGRAMS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
