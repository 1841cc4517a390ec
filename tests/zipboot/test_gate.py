from pathlib import Path

import pytest

from tests.support.built import ROOT, run
from tests.support.other_pythons import require_python

GATE = ROOT / "zipboot" / "__main__.py"


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10"])
def test_a_too_old_python_is_reported_in_one_line(version: str, tmp_path: Path) -> None:
    python = require_python(version)

    ended = run([python, GATE], environ={}, cwd=tmp_path)

    assert ended.returncode == 78
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"rye: needs Python 3.11 or newer, this is Python {version}.")
    assert ended.stderr.endswith(f" ({python.resolve()})\n") or str(python) in ended.stderr
    assert ended.stderr.count("\n") == 1
