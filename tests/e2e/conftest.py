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
from tests.support.environments import SharedFile, shared_file

__all__ = [
    "built_cluster_pyz",
    "built_node_pyz",
    "built_pyz",
    "caches",
    "machine",
    "new_machine",
    "shared",
]


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of caches of all machines, so that only one of them unpacks the built file."""
    folder = tmp_path_factory.mktemp("caches")
    folder.chmod(0o700)
    return folder


@pytest.fixture
def machine(tmp_path: Path, built_pyz: Path, caches: Path) -> Machine:
    """A user's machine, with the built file, which has been started on it before."""
    return Machine(tmp_path, BASE_PYTHON, built_pyz, caches=caches)


@pytest.fixture
def new_machine(tmp_path: Path, built_pyz: Path) -> Machine:
    """A user's machine, with the built file, which has never been started on it."""
    return Machine(tmp_path, BASE_PYTHON, built_pyz)


@pytest.fixture
def shared(built_pyz: Path) -> Iterator[SharedFile]:
    """The built file in a folder that every user of the machine can read."""
    with shared_file(built_pyz) as shared:
        yield shared
