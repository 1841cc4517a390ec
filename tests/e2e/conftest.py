from pathlib import Path

import pytest

from tests.support.built import BASE_PYTHON, Machine, built_pyz

__all__ = ["built_pyz", "machine"]


@pytest.fixture
def machine(tmp_path: Path, built_pyz: Path) -> Machine:
    """Somebody's machine, with the built file."""
    return Machine(tmp_path, BASE_PYTHON, built_pyz)
