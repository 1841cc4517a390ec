from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.errors import InvalidQueryError
from ryeos.items.refs import Kind
from tests.support.corpus import finds, pool_of, record, scores

OTHER = record("other/thing", title="nothing alike", description="at all", content="some words")


def test_the_score_follows_the_documented_formula() -> None:
    """One of two items has the term once in its title, of two words on average as long."""
    hit = record("a/b", title="scale images")

    found = scores("images", hit, record("c/d", title="two words"))

    tf = 3.0 * 1.0 / (1 - 0.3 + 0.3 * 2 / 2)
    assert found == {"a/b": pytest.approx(tf / (1.2 + tf))}


def test_rare_words_weigh_more() -> None:
    records = [record(f"x/t{n}", description="common") for n in range(8)]
    records.append(record("x/both", description="common", title="rare"))

    found = scores("common OR rare", *records)

    common, rare = log(1 + 0.5 / 9.5), log(1 + 8.5 / 1.5)
    assert found["x/t0"] < common / (common + rare)
    assert found["x/both"] > 10 * found["x/t0"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"title": "images"}, {"description": "images"}),
        ({"description": "images"}, {"content": "images"}),
        ({"tags": ["images"]}, {"content": "images"}),
        ({"description": "images"}, {"description": "imageset"}),
        ({"description": "imageset"}, {"description": "reimagesx"}),
        ({"content": "images images"}, {"content": "images other"}),
        ({"content": "images"}, {"content": "images and many other words beside it here"}),
    ],
)
def test_a_match_in_a_better_field_or_an_exact_match_scores_more(
    better: dict[str, Any], worse: dict[str, Any]
) -> None:
    found = scores("images", record("x/better", **better), record("x/worse", **worse), OTHER)

    assert found["x/better"] > found["x/worse"] > 0


def test_occurrences_are_counted_up_to_eight() -> None:
    eight, many = ("images " * 8 + "x " * 8), "images " * 16

    found = scores("content:images", record("x/a", content=eight), record("x/b", content=many))

    assert found["x/a"] == found["x/b"]


def test_lengths_are_compared_within_a_kind() -> None:
    alone = scores("images", record("x/a", content="images"))
    beside = scores(
        "images",
        record("x/a", content="images"),
        record("x/k", Kind.KNOWLEDGE, content="images " + "word " * 100),
    )

    assert alone["x/a"] == pytest.approx(beside["x/a"])


@pytest.mark.parametrize(
    ("query", "fields", "matches"),
    [
        ("scale images", {"title": "Scale", "content": "images"}, True),
        ("scale video", {"title": "Scale", "content": "images"}, False),
        ("scale OR video", {"title": "Scale"}, True),
        ("-video", {"title": "Scale"}, True),
        ("scale -images", {"title": "Scale images"}, False),
        ("NOT (video OR sound)", {"title": "sound"}, False),
        ('"scale images"', {"title": "Scale: images!"}, True),
        ('"scale images"', {"title": "scaleImages"}, True),
        ('"images scale"', {"title": "Scale images"}, False),
        ('"scale images"', {"title": "scale", "description": "images"}, False),
        ('"!?"', {"title": "scale"}, False),
        ("title:scale", {"title": "Scale"}, True),
        ("title:scale", {"description": "Scale"}, False),
        ('title:"scale im"', {"title": "scale im"}, True),
        ("tags:(a1 b1)", {"tags": ["a1", "b1"]}, True),
        ("author:ada", {"author": "Ada L."}, True),
        ("author:bob", {"author": "Ada L."}, False),
        ('author:"ada l"', {"author": "Ada L."}, True),
        ("nested:deep", {"nested": {"a": ["deep"]}}, True),
        ("version:1.0*", {"version": "1.0.3"}, True),
        ("unknown:scale", {"title": "see unknown:scale"}, True),
        ("strasse", {"title": "Straße"}, True),
        ("ΣΟΦΌΣ", {"title": "σοφός"}, True),
        ("検索", {"title": "全文検索の道具"}, True),
        ("文検索", {"title": "全文検索の道具"}, True),
        ("索", {"title": "全文検索の道具"}, True),
        ("c++", {"title": "c++ builds"}, True),
        ("foo,bar", {"title": "foo bar"}, True),
        ("state", {"content": "def stateGraph(): ..."}, True),
        ("media/*", {}, True),
        ("m?dia/*", {}, True),
        ("video/*", {}, False),
        ("*", {}, True),
    ],
)
def test_a_query_matches_as_documented(query: str, fields: dict[str, Any], matches: bool) -> None:  # noqa: FBT001
    assert finds(query, **fields) is matches


def test_a_negative_query_scores_one() -> None:
    assert scores("NOT images", OTHER) == {"other/thing": 1.0}


def test_an_index_of_a_field_is_made_once() -> None:
    pool = pool_of([record(author="ada")])

    assert pool.field_index("author") is pool.field_index("author")


@pytest.mark.property
@given(
    st.text(max_size=30) | st.text('ab*?:"() -', max_size=30),
    st.lists(st.tuples(st.text("ab B-/", max_size=20), st.text(max_size=60)), max_size=4),
    st.integers(0, 2),
)
def test_every_score_is_from_0_to_1(query: str, items: list[tuple[str, str]], slips: int) -> None:
    records = [record(f"x/t{n}", title=t, content=c) for n, (t, c) in enumerate(items)]

    try:
        found = scores(query, *records, max_slips=slips)
    except InvalidQueryError:
        return

    assert all(0.0 <= score <= 1.0 for score in found.values())


@pytest.mark.property
@given(st.text("bc ", max_size=12), st.text("bc ", max_size=20))
def test_an_item_matches_a_query_or_its_negation(query: str, title: str) -> None:
    one = record(title=title)

    if query.strip():
        assert bool(scores(query, one)) != bool(scores(f"-({query})", one))


def test_a_text_of_one_repeated_letter_is_scored_in_time() -> None:
    assert not finds("b bb bbb bbbb", content="a" * 2_000_000)
