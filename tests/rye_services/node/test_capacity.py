import pytest

from rye_services.http import RequestProblem
from rye_services.node.executions import Capacity


def test_one_user_cannot_have_all_places() -> None:
    capacity = Capacity(3)
    capacity.take("ada")
    capacity.take("ada")

    with pytest.raises(RequestProblem) as refused:
        capacity.take("ada")
    capacity.take("bob")

    assert refused.value.status_code == 503
    assert "user ada has 2 of 3 places" in str(refused.value.detail)
    assert capacity.active == 3


def test_a_place_that_was_given_back_can_be_taken_again() -> None:
    capacity = Capacity(2)
    capacity.take("ada")
    capacity.give_back("ada")

    capacity.take("ada")

    assert capacity.active == 1


def test_the_only_place_is_for_anybody() -> None:
    capacity = Capacity(1)
    capacity.take("ada")

    with pytest.raises(RequestProblem, match="all 1 places"):
        capacity.take("bob")
