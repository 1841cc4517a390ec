"""SmolLM2-135M as a provider of models: a real one, small enough for a test."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.programs import require_program, unavailable
from tests.support.workspace import ROOT

_FOLDER = ROOT / "build" / "smollm2"
_MODULE = _FOLDER / "node_modules" / "node-llama-cpp" / "dist" / "index.js"
_WEIGHTS = _FOLDER / "SmolLM2-135M-Instruct.Q4_1.gguf"


@contextmanager
def small_model() -> Iterator[str]:
    """The base address of the model's provider while a block runs. Skips where it is not there."""
    node = require_program("node")
    if not (_MODULE.is_file() and _WEIGHTS.is_file()):
        unavailable("SmolLM2 is not installed: scripts/install_model_servers")
    process = subprocess.Popen(
        [str(node), str(ROOT / "tests" / "support" / "smollm2.mjs"), str(_MODULE), str(_WEIGHTS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()
