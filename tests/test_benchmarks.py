"""The benchmarks that verify results besides times."""

from pathlib import Path

import pytest

from benchmarks.crowd import crowd
from tests.support.node import Node

pytestmark = pytest.mark.heavy

pytest_plugins = ("tests.support.node",)


def test_a_small_crowd_on_one_project_loses_no_update(tmp_path: Path, node: Node) -> None:
    lost, _ = crowd(tmp_path / "crowd", node, clients=4, processes=2)

    assert (lost.measured, lost.floor) == (0, 8)
