"""Settings of the whole suite."""

import os

from hypothesis import HealthCheck, settings

# Time is not what these tests measure: a busy machine must not fail them. In CI the examples are
# the same in every run, so that a red build is red again when it is looked at.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("laptop", patient)
settings.register_profile("ci", patient, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "laptop")
