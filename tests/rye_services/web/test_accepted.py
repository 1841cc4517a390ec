"""Content negotiation by Accept headers."""

import pytest

from rye_services.web.http import weight_of


@pytest.mark.parametrize(
    ("values", "weight"),
    [
        ([], 0.0),
        (["text/html"], 0.0),
        (["a/b"], 1.0),
        (["A/B"], 1.0),
        (["text/html", "x, a/b;q=0.25"], 0.25),
        (["a/b;q=0"], 0.0),
        (["a/b ;\tq = 0.000"], 0.0),
        (["a/b;level=1;q=0.5;x=y"], 0.5),
        (["a/b;q=1.000"], 1.0),
        (["a/b;q=2"], 0.0),
        (["a/b;q=nan"], 0.0),
        (["a/b;q=0, a/b"], 0.0),
        (["*/*;q=0.3"], 0.3),
        (["*/*, a/b;q=0"], 0.0),
        ([";,;=,q=1"], 0.0),
    ],
)
def test_the_most_specific_name_gives_the_weight_of_a_type(
    values: list[str], weight: float
) -> None:
    assert weight_of(values, "a/b", "*/*") == weight
