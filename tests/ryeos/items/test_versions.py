import pytest

from ryeos.items.version_order import compare_versions


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [
        ("1.0.0", "1.0", 0),
        ("1.2", "1.10", -1),
        ("2.0rc1", "2.0", -1),
        ("1.0.0-x.1", "1.0.0-x.2", -1),
        ("1.0.0-x.2", "1.0.0", -1),
        ("1.0.0-x.10", "1.0.0-x.9", 1),
        ("1.0.0-1", "1.0.0-x.y", -1),
    ],
)
def test_versions_have_an_order(first: str, second: str, order: int) -> None:
    assert compare_versions(first, second) == order


@pytest.mark.parametrize("text", ["", "latest", "1.x-y"])
def test_an_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a version"):
        compare_versions(text, "1.0.0")
