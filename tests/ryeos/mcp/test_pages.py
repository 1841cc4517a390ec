"""Cursors: each page of a list once, and only of its own list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.mcp.listing import page_of
from ryeos.mcp.revisions import RpcError


def walked(ids: list[str], size: int) -> list[str]:
    found: list[str] = []
    params: dict[str, str] = {}
    while True:
        page, cursor = page_of(ids, params, size)
        found += page
        if not cursor:
            return found
        params = {"cursor": cursor["nextCursor"]}


@given(st.lists(st.text(max_size=5), unique=True), st.integers(1, 5))
def test_the_pages_of_a_list_are_the_list(ids: list[str], size: int) -> None:
    assert walked(ids, size) == ids


@given(st.text())
def test_no_text_is_a_cursor(text: str) -> None:
    with pytest.raises(RpcError, match="cursor"):
        page_of(["a", "b"], {"cursor": text})


def test_a_cursor_of_a_list_that_was_changed_is_refused() -> None:
    _, cursor = page_of(["a", "b"], {}, 1)

    with pytest.raises(RpcError, match="the list was changed") as error:
        page_of(["a", "b", "c"], {"cursor": cursor["nextCursor"]}, 1)

    assert error.value.code == -32602
