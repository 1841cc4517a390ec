"""Settings of the whole suite."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ryeos.items.refs import Space
from tests.support.workspace import Workspace, publish

pytest_plugins = [f"tests.support.{name}" for name in ("browser", "databases", "node", "registry")]

# Collected tests stay to the end: looking for garbage among them takes a tenth of the collection.
gc.disable()

# Time is not what these tests measure: a busy machine must not fail them. In CI the examples are
# the same in every run, so that a red build is red again when it is looked at.
patient = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.register_profile("quick", patient, max_examples=25)
settings.register_profile("all", patient, max_examples=40)
settings.load_profile(os.environ.get("RYE_TEST_EXAMPLES", "quick"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long tests, so that no worker waits at the end for another's."""
    items.sort(key=lambda item: not item.get_closest_marker("heavy"))


def pytest_collection_finish() -> None:
    """Collect garbage of tests only, not the collected tests themselves."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def the_encoding_warning_is_for_our_own_process() -> None:
    """Children that tests start must not write this warning into an output that is compared."""
    os.environ.pop("PYTHONWARNDEFAULTENCODING", None)


@pytest.fixture(scope="session", autouse=True)
def no_signal_is_ignored() -> None:
    """Below `nohup` programs ignore SIGHUP; background jobs of a shell ignore SIGINT.

    Programs that tests start inherit that, and must not.
    """
    for name in ("SIGHUP", "SIGINT", "SIGTERM"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Space:
    """The standard bundle, signed for this run; no test writes to it."""
    return publish(tmp_path_factory.mktemp("bundle") / "ryeos")


@pytest.fixture
def workspace(tmp_path: Path, bundle: Space) -> Iterator[Workspace]:
    """A user with a key, a project, and the standard bundle."""
    made = Workspace(tmp_path, (bundle,))
    yield made
    made.close()
