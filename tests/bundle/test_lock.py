"""The tool ``rye/core/lock/lock``."""

from pathlib import Path

import pytest

from tests.support.built import Machine
from tests.support.bundle_tools import call, example, refused

pytestmark = pytest.mark.e2e
LOCK = "rye/core/lock/lock"


def test_a_lockfile_is_written_shown_and_removed(machine: Machine) -> None:
    (machine.project / ".ai").mkdir()
    given = example(machine, LOCK)

    written = call(machine, LOCK, **given)
    shown = call(machine, LOCK, action="show", item_id=given["item_id"])
    removed = call(machine, LOCK, action="delete", item_id=given["item_id"])

    assert shown["lockfile"]["root"]["tool_id"] == given["item_id"]
    assert written["path"] == shown["path"] == removed["path"]
    assert not Path(written["path"]).exists()
    assert call(machine, LOCK, action="show", item_id=given["item_id"])["code"] == "ITEM_NOT_FOUND"


def test_an_item_named_like_a_flag_is_an_item(machine: Machine) -> None:
    answer = call(machine, LOCK, action="show", item_id="--user-space")

    assert answer["success"] is False
    assert "--user-space" in answer["error"]
    assert "item_id" in refused(machine, LOCK, action="show")
