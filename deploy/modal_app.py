"""The node on Modal: one container that serves everything, its data on a volume.

Build ``dist/rye-node.pyz`` on Linux with the Python named below, then::

    modal secret create rye-node BOOTSTRAP_PUBLIC_KEY=ed25519:... BOOTSTRAP_LABEL=me
    modal deploy deploy/modal_app.py

It answers at ``https://WORKSPACE--execute.modal.run``. Page: docs/deploy.md
"""

import subprocess
from pathlib import Path

import modal

PYTHON = "3.13"
PORT = 8000
DATA = "/data"
PROGRAM = "/opt/rye/rye-node.pyz"
BUILT = Path(__file__).resolve().parent.parent / "dist" / "rye-node.pyz"

COMMAND = ("python", PROGRAM, "serve")
ENVIRONMENT = {
    "RYE_NODE_DATA": DATA,
    "RYE_NODE_HOST": "0.0.0.0",  # noqa: S104 - only Modal's own proxy reaches it
    "PORT": str(PORT),
    "HOME": DATA,
    "SHIV_ROOT": "/tmp/unpacked",  # noqa: S108 - of this container alone
}

image = (
    modal.Image.debian_slim(python_version=PYTHON).env(ENVIRONMENT).add_local_file(BUILT, PROGRAM)
)
volume = modal.Volume.from_name("rye-node", create_if_missing=True)
app = modal.App("ryeos-node", image=image)


# One container: the database is a file on the volume, and has one machine that writes. With
# DATABASE_URL of a PostgreSQL in the secret and a store on every container's disk it may be more.
@app.function(
    volumes={DATA: volume},
    secrets=[modal.Secret.from_name("rye-node")],
    max_containers=1,
    scaledown_window=600,
    timeout=24 * 3600,
)
@modal.concurrent(max_inputs=100)
@modal.web_server(PORT, startup_timeout=120, label="execute")
def execute() -> None:
    """Start the node; Modal hands it what comes to the address of this function."""
    subprocess.Popen(COMMAND)
