import pytest

from rye_services.people.credentials import allows, valid_scopes
from rye_services.refusal import RefusedError
from tests.support.errors import coded


@pytest.mark.parametrize(
    ("scopes", "wanted", "expected"),
    [
        (None, "remote:push", True),
        (None, "node.auth.manage", True),
        ({"*"}, "node.auth.manage", True),
        ({"remote:*"}, "remote:push", True),
        ({"remote:*"}, "node.auth.manage", False),
        ({"remote:push"}, "remote:push", True),
        ({"remote:push"}, "remote:execute", False),
        ({"registry:*"}, "remote:push", False),
        ({"remote"}, "remote:push", False),
        (set(), "remote:push", False),
    ],
)
def test_a_scope_is_granted_by_itself_or_its_service(
    scopes: set[str] | None, wanted: str, expected: object
) -> None:
    assert allows(None if scopes is None else frozenset(scopes), wanted) is expected


def test_each_scope_is_kept_once_in_order() -> None:
    assert valid_scopes(["remote:push", "*", "remote:push"]) == ("remote:push", "*")


@pytest.mark.parametrize(
    "scope",
    ["", "remote:", ":push", "a b", "Remote:push", "**", "a:b:c", "registry:", "x" * 10**5],
)
def test_any_other_text_is_refused_as_a_scope(scope: str) -> None:
    with pytest.raises(RefusedError, match="expected one of", check=coded("INVALID_PARAMS")):
        valid_scopes([scope])


def test_a_misspelt_scope_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        RefusedError, match="did you mean remote:execute", check=coded("INVALID_PARAMS")
    ):
        valid_scopes(["remote:exceute"])
