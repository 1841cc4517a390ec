"""Rates of a registry: in one process, and of all servers of a cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from rye_services.registry.names import LocalRateLimit, RateLimit, SharedRateLimit
from rye_services.storage.database import rates
from rye_services.web.http import RequestProblem
from tests.support.databases import made_database

PER_MINUTE = 3


@pytest.fixture(params=["local", "shared"])
def limits(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], RateLimit]:
    """A function that gives the limiter of a server; of a shared limit each server has its own."""
    if request.param == "local":
        one = LocalRateLimit(PER_MINUTE, lambda: 0.0)
        return lambda: one
    database = made_database(tmp_path, kind="postgresql")
    return lambda: SharedRateLimit(database, "pushes", PER_MINUTE)


def test_a_user_over_the_rate_limit_has_to_wait(
    limits: Callable[[], RateLimit],
) -> None:
    for _ in range(PER_MINUTE):
        limits().use("ada")

    with pytest.raises(RequestProblem, match="at most 3 a minute") as refused:
        limits().use("ada")
    limits().use("bob")

    assert refused.value.status_code == 429
    assert 0 < int((refused.value.headers or {})["Retry-After"]) <= 21


def test_a_shared_bucket_refills_over_time(tmp_path: Path) -> None:
    database = made_database(tmp_path, kind="postgresql")
    limit = SharedRateLimit(database, "pushes", PER_MINUTE)
    for _ in range(PER_MINUTE):
        limit.use("ada")
    with database.writing() as connection:
        connection.execute(update(rates).values(since_s=rates.c.since_s - 20))

    limit.use("ada")
    with pytest.raises(RequestProblem):
        limit.use("ada")
