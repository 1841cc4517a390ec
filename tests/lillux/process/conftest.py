"""The real runner in each way that it can move pipes and learn of an exit."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lillux.process.pipes import OpenPump
from lillux.process.pumps import SelectorPump
from lillux.process.thread_pump import ThreadPump
from tests.support.children import Lifeline

PUMPS: dict[str, OpenPump] = {
    "selector": SelectorPump,
    "selector-without-pidfd": partial(SelectorPump, open_exit_fd=lambda _pid: None),
    "threads": ThreadPump,
}


@pytest.fixture(params=PUMPS)
def open_pump(request: pytest.FixtureRequest) -> OpenPump:
    return PUMPS[request.param]


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    lifeline = Lifeline(tmp_path)
    yield lifeline
    lifeline.close()
