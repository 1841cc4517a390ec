"""A node in memory, and projects that are pushed to it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.memory_node import MemoryNode
from tests.support.remote_project import RemoteProject

MakeProject = Callable[[str], RemoteProject]


@pytest.fixture
def memory_node(tmp_path: Path) -> MemoryNode:
    """A node without projects."""
    return MemoryNode(tmp_path / "node")


@pytest.fixture
def make_project(tmp_path: Path, memory_node: MemoryNode) -> MakeProject:
    """Makes the same project on another machine."""
    return lambda machine: RemoteProject(tmp_path / machine, memory_node)


@pytest.fixture
def project(make_project: MakeProject) -> RemoteProject:
    """A project on one machine."""
    return make_project("here")
