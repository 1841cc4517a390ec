"""Settings of the whole suite."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Time is not what these tests measure: a busy machine must not fail them. In CI the examples are
# the same in every run, so that a red build is red again when it is looked at.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("laptop", patient)
settings.register_profile("ci", patient, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "laptop")


@pytest.fixture(scope="session", autouse=True)
def the_encoding_warning_is_for_our_own_process() -> None:
    """Children that tests start must not write this warning into an output that is compared."""
    os.environ.pop("PYTHONWARNDEFAULTENCODING", None)
