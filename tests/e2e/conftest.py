from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.built import (
    BASE_PYTHON,
    Machine,
    built_cluster_pyz,
    built_node_pyz,
    built_pyz,
)
from tests.support.surroundings import SharedFile, shared_file

__all__ = ["built_cluster_pyz", "built_node_pyz", "built_pyz", "machine", "shared"]


@pytest.fixture
def machine(tmp_path: Path, built_pyz: Path) -> Machine:
    """Somebody's machine, with the built file."""
    return Machine(tmp_path, BASE_PYTHON, built_pyz)


@pytest.fixture
def shared(built_pyz: Path) -> Iterator[SharedFile]:
    """The built file in a folder that every user of the machine can read."""
    with shared_file(built_pyz) as shared:
        yield shared
