"""The files of ``deploy/`` are followed to their end, on this machine."""

import os
import subprocess
import sys

import pytest

from tests.support.programs import unavailable
from tests.support.workspace import ROOT

# What these words begin says what a service must not do.
CONFINES = ("NoNew", "Capability", "Ambient", "Protect", "Private", "Restrict", "System", "UMask")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="containers and units are for Linux"),
    pytest.mark.heavy,
]


def test_the_steps_of_the_container_file_end_in_a_node_that_answers() -> None:
    if os.geteuid() != 0:
        unavailable("the container file gives a folder to another user, which takes root")

    tried = subprocess.run(
        [sys.executable, "-m", "packing.deploy_trial", "--venv", str(ROOT / "build" / "venv")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "answers on http://127.0.0.1:" in tried.stdout


def test_a_registrys_unit_is_confined_as_the_nodes_is() -> None:
    node, registry = (
        set((ROOT / "deploy" / f"rye-{name}.service").read_text("utf-8").splitlines())
        for name in ("node", "registry")
    )
    confined = {line for line in node if line.partition("=")[0].startswith(CONFINES)}

    assert len(confined) > len(CONFINES)
    assert confined - registry == set()
    assert "ExecStart=/usr/bin/python3 /opt/rye/rye-node.pyz serve --role registry" in registry


def test_the_modal_app_starts_what_the_container_file_starts() -> None:
    source = (ROOT / "deploy" / "modal_app.py").read_text("utf-8")
    container = (ROOT / "deploy" / "Containerfile").read_text("utf-8")

    for name in ("/opt/rye/rye-node.pyz", "RYE_NODE_DATA", "RYE_NODE_HOST", "PORT"):
        assert name in source
        assert name in container
    compile(source, "modal_app.py", "exec")
