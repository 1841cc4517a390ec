"""A registry of threads in an empty project."""

from pathlib import Path

import pytest

from ryeos.run.threads.place import ThreadsPlace
from ryeos.run.threads.registry import ThreadRegistry
from tests.support.workspace import fixed_clock


@pytest.fixture
def place(tmp_path: Path) -> ThreadsPlace:
    """A project's `.ai` without any thread yet."""
    ai = tmp_path / "project" / ".ai"
    ai.mkdir(parents=True)
    return ThreadsPlace(ai)


@pytest.fixture
def registry(place: ThreadsPlace) -> ThreadRegistry:
    """Its registry, at one fixed second."""
    return ThreadRegistry(place, fixed_clock)
