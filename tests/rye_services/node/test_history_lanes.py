import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_services.node.page import Dot, HistoryLine, lay_out, newest_first
from rye_services.page import ShownSnapshot


def snapshot(digest: str, *parents: str) -> ShownSnapshot:
    return ShownSnapshot(digest=digest, parents=parents, source="push", detail="", timestamp=digest)


def test_a_mainline_is_one_lane() -> None:
    lanes = lay_out([snapshot("3", "2"), snapshot("2", "1"), snapshot("1")])

    assert [dot.lane for dot in lanes.dots] == [0, 0, 0]
    assert lanes.lines == (
        HistoryLine(0, 0, 1, 0, is_merge=False),
        HistoryLine(1, 0, 2, 0, is_merge=False),
    )
    assert lanes.width == 1


def test_a_merge_opens_a_lane_that_ends_where_both_began() -> None:
    merge, head, execution, base = (
        snapshot("4", "3", "2"),
        snapshot("3", "1"),
        snapshot("2", "1"),
        snapshot("1"),
    )

    lanes = lay_out([merge, head, execution, base])

    assert lanes.dots == (
        Dot(0, 0, merge),
        Dot(1, 0, head),
        Dot(2, 1, execution),
        Dot(3, 0, base),
    )
    assert HistoryLine(0, 0, 2, 1, is_merge=True) in lanes.lines
    assert HistoryLine(2, 1, 3, 0, is_merge=False) in lanes.lines
    assert lanes.width == 2


def test_a_parent_that_is_not_shown_lies_past_the_last_row() -> None:
    lanes = lay_out([snapshot("9", "8")])

    assert lanes.lines == (HistoryLine(0, 0, 1, 0, is_merge=False),)


def test_an_empty_history_is_an_empty_picture() -> None:
    assert lay_out([]).width == 0


@st.composite
def histories(draw: st.DrawFn) -> dict[str, ShownSnapshot]:
    """Snapshots each of which has up to two older ones as parents."""
    count = draw(st.integers(1, 12))
    found = {}
    for number in range(count):
        older = [f"{each:02}" for each in range(number)]
        parents = draw(st.lists(st.sampled_from(older), max_size=2, unique=True)) if older else []
        found[f"{number:02}"] = snapshot(f"{number:02}", *parents)
    return found


@pytest.mark.property
@given(histories())
def test_every_snapshot_stands_above_its_parents_and_in_a_place_of_its_own(
    found: dict[str, ShownSnapshot],
) -> None:
    ordered = newest_first(found)
    lanes = lay_out(ordered)

    assert sorted(each.digest for each in ordered) == sorted(found)
    assert all(line.row < line.to_row for line in lanes.lines)
    assert len({(dot.row, dot.lane) for dot in lanes.dots}) == len(found)
    assert all(dot.lane < lanes.width for dot in lanes.dots)
