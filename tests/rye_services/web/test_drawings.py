from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_services.web.drawings import (
    BAR_LABEL_WIDTH,
    BAR_WIDTH,
    SPARK_HEIGHT,
    Dot,
    HistoryLine,
    Step,
    bar_chart,
    history_picture,
    lay_out,
    newest_first,
    sparkline,
)


@dataclass(frozen=True, slots=True)
class Known:
    digest: str
    parents: tuple[str, ...]
    timestamp: str


def snapshot(digest: str, *parents: str) -> Known:
    return Known(digest, parents, digest)


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
def histories(draw: st.DrawFn) -> dict[str, Known]:
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
def test_every_snapshot_is_drawn_above_its_parents_in_a_separate_place(
    found: dict[str, Known],
) -> None:
    ordered = newest_first(found)
    lanes = lay_out(ordered)

    assert sorted(each.digest for each in ordered) == sorted(found)
    assert all(line.row < line.to_row for line in lanes.lines)
    assert len({(dot.row, dot.lane) for dot in lanes.dots}) == len(found)
    assert all(dot.lane < lanes.width for dot in lanes.dots)


def test_a_picture_of_a_history_has_a_circle_for_each_snapshot_and_a_path_to_each_parent() -> None:
    picture = history_picture(
        [snapshot("4", "3", "2"), snapshot("3", "1"), snapshot("2", "1"), snapshot("1", "0")],
        is_cut=True,
    )

    assert [circle.digest for circle in picture.circles] == ["4", "3", "2", "1"]
    assert [circle.colour for circle in picture.circles] == [0, 0, 1, 0]
    assert (len(picture.paths), picture.merges) == (5, 1)


def test_a_sparkline_has_a_line_for_each_part_without_gaps_and_a_dot_at_its_end() -> None:
    picture = sparkline("by day", [0.0, 1.0, None, 0.5, None], 1.0)

    (line,) = picture.lines
    assert [point.split(",")[1] for point in line.split()] == [str(SPARK_HEIGHT - 3.0), "3.0"]
    assert [dot[1] for dot in picture.dots] == [3.0, SPARK_HEIGHT / 2]


def test_a_sparkline_without_values_is_empty() -> None:
    picture = sparkline("by day", [None, None], 1.0)

    assert (picture.lines, picture.dots) == ((), ())


def test_a_bar_begins_where_its_step_began_and_is_as_long_as_it_took() -> None:
    steps = [
        Step(name="first", status="success", start_s=0.0, took_s=1.0),
        Step(name="second", status="error", start_s=1.0, took_s=3.0),
    ]

    chart = bar_chart(steps)

    assert [(bar.x, bar.width) for bar in chart.bars] == [
        (BAR_LABEL_WIDTH, BAR_WIDTH / 4),
        (BAR_LABEL_WIDTH + BAR_WIDTH / 4, BAR_WIDTH * 3 / 4),
    ]
    assert chart.total_s == 4.0


def test_steps_without_duration_are_visible() -> None:
    chart = bar_chart([Step(name="quick", status="success", start_s=0.0, took_s=0.0)])

    assert chart.bars[0].width > 0
