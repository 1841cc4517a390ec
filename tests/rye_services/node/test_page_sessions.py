import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_services.node.page_routes import (
    PageSession,
    form_token,
    is_form_token,
    read_session,
    seal_session,
    session_key,
)

KEY = session_key(b"a secret of the node")
SESSION = PageSession("key-1", 2_000)


def test_a_session_that_this_node_made_is_read_again() -> None:
    assert read_session(seal_session(SESSION, KEY), KEY, now_s=1_999) == SESSION


def test_a_session_is_over_at_its_end() -> None:
    assert read_session(seal_session(SESSION, KEY), KEY, now_s=2_000) is None


def test_a_session_of_another_node_does_not_count() -> None:
    cookie = seal_session(SESSION, session_key(b"another secret"))

    assert read_session(cookie, KEY, now_s=0) is None


@pytest.mark.property
@given(st.data())
def test_a_cookie_with_one_other_letter_does_not_count(data: st.DataObject) -> None:
    cookie = seal_session(SESSION, KEY)
    at = data.draw(st.integers(0, len(cookie) - 1))
    letter = data.draw(st.characters().filter(lambda found: found != cookie[at]))

    assert read_session(cookie[:at] + letter + cookie[at + 1 :], KEY, now_s=0) is None


@pytest.mark.property
@given(st.text())
def test_any_text_is_a_cookie_that_does_not_count(cookie: str) -> None:
    assert read_session(cookie, KEY, now_s=0) is None


def test_a_form_counts_for_the_session_it_was_made_for_only() -> None:
    cookie = seal_session(SESSION, KEY)
    other = seal_session(PageSession("key-2", 2_000), KEY)

    assert is_form_token(form_token(cookie, KEY), cookie, KEY)
    assert not is_form_token(form_token(other, KEY), cookie, KEY)
    assert not is_form_token("", cookie, KEY)
    assert not is_form_token("ü", cookie, KEY)
