import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.built import ROOT


@pytest.mark.skipif(os.name != "posix", reason="a program opens terminals on POSIX")
def test_the_terminal_of_the_readme_is_the_output_of_the_built_file(built_pyz: Path) -> None:
    script = ROOT / "scripts" / "draw_terminal.py"

    drawn = subprocess.run(
        [sys.executable, script, built_pyz], capture_output=True, timeout=120, check=True
    )

    kept = (ROOT / "docs" / "pictures" / "terminal.svg").read_text("utf-8")
    assert drawn.stdout.decode("utf-8") == kept
