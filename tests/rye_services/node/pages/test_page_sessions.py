from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from rye_services.node.pages.routes import SESSION_S, PageSession, PageSessions
from rye_services.storage.database import page_sessions
from rye_services.storage.migrations import make_tables
from tests.support.databases import made_database

SECRET = b"a secret of the node"


@pytest.fixture
def sessions(tmp_path: Path) -> PageSessions:
    """Sessions in a new database."""
    return PageSessions(made_database(tmp_path), SECRET)


def test_a_session_is_found_until_its_end(sessions: PageSessions) -> None:
    cookie = sessions.begin("ada", "key-1", 1_000.0)

    found = PageSession(user_id="ada", key_id="key-1", owner=None, until_s=1_000.0 + SESSION_S)
    assert sessions.find(cookie, 1_000.0 + SESSION_S - 1) == found
    assert sessions.find(cookie, 1_000.0 + SESSION_S) is None


def test_another_server_on_the_database_knows_a_session_and_its_end(
    sessions: PageSessions, tmp_path: Path
) -> None:
    other = PageSessions(made_database(tmp_path), SECRET)
    left, kept = (sessions.begin("ada", None, 0.0) for _ in range(2))

    other.end(left)

    assert sessions.find(left, 0.0) is None
    assert other.find(kept, 0.0) is not None


def test_the_database_holds_no_cookie_and_deletes_expired_sessions(tmp_path: Path) -> None:
    database = made_database(tmp_path)
    sessions = PageSessions(database, SECRET)
    cookie = sessions.begin("ada", None, 0.0)
    sessions.begin("bob", None, SESSION_S + 1.0)

    with database.reading() as connection:
        rows = connection.execute(select(page_sessions)).mappings().all()
    assert [row["user_id"] for row in rows] == ["bob"]
    assert cookie not in str(rows)


def test_a_user_has_a_limited_number_of_sessions(tmp_path: Path) -> None:
    database = made_database(tmp_path)
    sessions = PageSessions(database, SECRET)
    cookies = [sessions.begin("ada", None, float(number)) for number in range(105)]

    with database.reading() as connection:
        count = connection.scalar(select(func.count()).select_from(page_sessions))
    assert count == 100
    assert sessions.find(cookies[0], 105.0) is None
    assert sessions.find(cookies[-1], 105.0) is not None


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSessions]:
    """Sessions of which one has begun."""
    from rye_services.storage.database import Database
    from tests.support.databases import database_url

    database = Database(database_url(tmp_path_factory.mktemp("sessions")))
    make_tables(database)
    found = PageSessions(database, SECRET)
    found.begin("ada", None, 0.0)
    yield found
    database.close()


@pytest.mark.property
@given(st.text())
def test_an_arbitrary_text_is_never_a_valid_cookie(known: PageSessions, cookie: str) -> None:
    assert known.find(cookie, 0.0) is None


def test_a_form_token_is_valid_for_its_own_session_only(sessions: PageSessions) -> None:
    cookie, other = (sessions.begin("ada", None, 0.0) for _ in range(2))

    assert sessions.is_form_token(sessions.form_token(cookie), cookie)
    assert not sessions.is_form_token(sessions.form_token(other), cookie)
    assert not sessions.is_form_token("", cookie)
    assert not sessions.is_form_token("ü", cookie)
