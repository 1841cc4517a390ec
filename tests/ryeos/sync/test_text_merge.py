import json
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.sync.text_merge import merge_text, split_lines

WIRE = json.loads((Path(__file__).parents[2] / "vectors" / "cas-wire.json").read_text("utf-8"))
VECTORS = {vector["case"]: vector for vector in WIRE["merge3_of_the_peer"]}
STRICTER = "overlapping deletions of different extent"  # a conflict here, see ADR 0002

LINES = st.sampled_from(["a\n", "b\n", "c\n", "d\n", "\n"])
TEXTS = st.lists(LINES, max_size=12).map("".join) | st.text(alphabet="ab\n", max_size=20)


def text(lines: list[str] | None) -> str | None:
    """The lines of a vector as a text."""
    return None if lines is None else "".join(lines)


@pytest.mark.parametrize("case", sorted(set(VECTORS) - {STRICTER}))
def test_a_known_case_has_its_known_result(case: str) -> None:
    vector = VECTORS[case]
    sides = ("".join(vector[side]) for side in ("base", "ours", "theirs"))

    assert merge_text(*sides) == text(vector["merged"])


def test_deletions_that_overlap_in_part_are_a_conflict() -> None:
    vector = VECTORS[STRICTER]
    sides = ("".join(vector[side]) for side in ("base", "ours", "theirs"))

    assert merge_text(*sides) is None


@pytest.mark.property
@given(base=TEXTS, ours=TEXTS, theirs=TEXTS)
def test_swapping_the_sides_gives_the_same_text(base: str, ours: str, theirs: str) -> None:
    assert merge_text(base, ours, theirs) == merge_text(base, theirs, ours)


@pytest.mark.property
@given(base=TEXTS, side=TEXTS)
def test_an_unchanged_side_gives_the_other_side(base: str, side: str) -> None:
    assert merge_text(base, side, base) == side
    assert merge_text(base, base, side) == side


@pytest.mark.property
@given(base=TEXTS, side=TEXTS)
def test_two_equal_sides_give_that_text(base: str, side: str) -> None:
    assert merge_text(base, side, side) == side


@pytest.mark.property
@given(base=TEXTS, ours=TEXTS, theirs=TEXTS)
def test_a_merge_invents_no_line(base: str, ours: str, theirs: str) -> None:
    merged = merge_text(base, ours, theirs)

    if merged is not None:
        known = {*split_lines(base), *split_lines(ours), *split_lines(theirs)}
        assert set(split_lines(merged)) <= known


@pytest.mark.property
@given(
    middle=st.lists(LINES, min_size=1, max_size=8).map("".join),
    above=st.lists(LINES, max_size=4).map("".join),
    below=st.lists(LINES, max_size=4).map("".join),
)
def test_changes_before_and_after_common_lines_are_both_taken(
    middle: str, above: str, below: str
) -> None:
    base = f"first\n<\n{middle}>\nlast\n"

    merged = merge_text(base, f"{above}<\n{middle}>\nlast\n", f"first\n<\n{middle}>\n{below}")

    assert merged == f"{above}<\n{middle}>\n{below}"


@pytest.mark.property
@given(value=st.text(alphabet="ab\r\n\x0b\u2028", max_size=30))
def test_joined_lines_are_the_text(value: str) -> None:
    assert "".join(split_lines(value)) == value


def test_only_a_line_feed_ends_a_line() -> None:
    assert split_lines("a\u2028b\r\nc\x0bd") == ["a\u2028b\r\n", "c\x0bd"]


def test_a_line_without_an_end_is_not_joined_with_what_the_other_side_appends() -> None:
    assert merge_text("a\nb\n", "a\nB", "a\nb\nc\n") is None


def test_the_end_of_the_last_line_may_be_lost_on_one_side() -> None:
    assert merge_text("a\nb\nc\n", "a\nb\nc", "A\nb\nc\n") == "A\nb\nc"


def test_a_moved_paragraph_and_a_change_elsewhere_are_both_taken() -> None:
    base = "".join(f"{n}\n" for n in range(10))
    ours = base.replace("1\n2\n", "").replace("6\n", "6\n1\n2\n")

    merged = merge_text(base, ours, base.replace("9\n", "nine\n"))

    assert merged == ours.replace("9\n", "nine\n")


def test_many_equal_lines_are_refused_in_bounded_time() -> None:
    base = "x\n" * 250_000 + "m\n" + "x\n" * 200_000
    ours = "y\n" + base[2:-2] + "z\n"
    theirs = base.replace("m\n", "x\nx\n", 1)
    started = perf_counter()

    merge_text(base, ours, theirs)
    given_up = merge_text("x\ny\n" * 100_000, "y\nx\nz\n" * 80_000, "z\ny\nx\n" * 80_000)

    assert given_up is None
    assert perf_counter() - started < 20


def test_a_large_text_with_distant_changes_is_merged() -> None:
    lines = [f"line {n}\n\n}}\n" for n in range(20_000)]
    ours = [*lines[:10], "ours\n", *lines[10:]]
    ours[15_000] = "changed by us\n"
    theirs = [*lines[:7000], *lines[7010:]]

    merged = merge_text("".join(lines), "".join(ours), "".join(theirs))

    assert merged == "".join([*ours[:7001], *ours[7011:]])
