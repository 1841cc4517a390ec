"""Values behave as the standard dataclasses do."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from lillux import values

Decorate = Callable[..., Any]


def pair(decorate: Decorate, field: Decorate, **options: bool) -> Any:  # noqa: ANN401 - a class
    @decorate(**options)
    class Pair:
        """Two of a kind."""

        first: int
        second: list[int] = field(default_factory=list)
        third: str = field(default="x", repr=False)
        fourth: int = 4
        fifth: str = field(default="y", compare=False)

        @property
        def total(self) -> int:
            return self.first + self.fourth

    return Pair


OPTIONS = [
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "order": True},
    {"slots": True},
    {"slots": True, "kw_only": True},
]


@pytest.fixture(params=[0, 1000], ids=["new", "made often"])
def made_before(request: pytest.FixtureRequest) -> int:
    """How many values of a class were made: ours is compiled after some."""
    number: int = request.param
    return number


@pytest.fixture(params=OPTIONS, ids=" ".join)
def both(request: pytest.FixtureRequest, made_before: int) -> tuple[Any, Any]:
    """The same class made by us and by the standard library."""
    options = request.param
    ours = pair(values.dataclass, values.field, **options)
    for _ in range(made_before):
        ours(first=1)
    return ours, pair(dataclasses.dataclass, dataclasses.field, **options)


ACTIONS: dict[str, Callable[[Any], object]] = {
    "repr": lambda cls: repr(cls(first=1)).rpartition(".")[2],
    "equal": lambda cls: (cls(first=1) == cls(first=1), cls(first=1) == cls(first=2)),
    "not compared": lambda cls: cls(first=1, fifth="a") == cls(first=1, fifth="b"),
    "other class": lambda cls: cls(first=1) == (1, [], "x", 4),
    "positional": lambda cls: cls(1, [2]).second,
    "defaults are apart": lambda cls: cls(first=1).second is not cls(first=1).second,
    "missing": lambda cls: cls(),
    "unknown": lambda cls: cls(first=1, sixth=6),
    "twice": lambda cls: cls(1, first=1),
    "too many": lambda cls: cls(1, [], "x", 4, "y", 6),
    "set": lambda cls: setattr(cls(first=1), "first", 2),
    "delete": lambda cls: delattr(cls(first=1), "first"),
    "order": lambda cls: (cls(first=1) < cls(first=2), cls(first=1) >= cls(first=2)),
    "hash": lambda cls: hash(cls(first=1, second=())) == hash(cls(first=1, second=())),
    "property": lambda cls: cls(first=1).total,
    "match": lambda cls: cls.__match_args__,
    "doc": lambda cls: cls.__doc__,
    "copy": lambda cls: copy.copy(cls(first=1)) == cls(first=1),
    "deepcopy": lambda cls: copy.deepcopy(cls(first=1)) == cls(first=1),
    "dict": lambda cls: hasattr(cls(first=1), "__dict__"),
}


def outcome(action: Callable[[Any], object], cls: object) -> object:
    """The value of an action, or the kind of its error."""
    try:
        return action(cls)
    except Exception as error:  # noqa: BLE001 - kinds of errors are compared
        return [kind for kind in (AttributeError, TypeError) if isinstance(error, kind)]


@pytest.mark.parametrize("name", ACTIONS)
def test_a_value_behaves_like_a_standard_dataclass(both: tuple[Any, Any], name: str) -> None:
    ours, standard = both

    assert outcome(ACTIONS[name], ours) == outcome(ACTIONS[name], standard)


@values.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


def test_a_value_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)  # noqa: S301 - our own bytes


def test_only_the_replaced_field_changes() -> None:
    assert values.replace(Point(1, 2), y=3) == Point(1, 3)


def test_a_value_may_check_itself(made_before: int) -> None:
    assert all(Point(number).x == number for number in range(made_before))

    with pytest.raises(ValueError, match="negative"):
        Point(-1)


def test_a_frozen_value_raises_the_error_of_the_standard_ones() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError) as error:
        Point(1).x = 2  # type: ignore[misc]

    assert str(error.value) == "cannot assign to field 'x'"
