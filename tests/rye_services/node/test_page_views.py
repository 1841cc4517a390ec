import xml.etree.ElementTree as ET
from collections.abc import Mapping
from html.parser import HTMLParser
from importlib import resources

import pytest

from rye_services.node.page import (
    api_page,
    byte_count,
    history_svg,
    login_page,
    message_page,
    overview_page,
    project_page,
    thread_page,
)
from rye_services.page import (
    HEADERS,
    Absence,
    Execution,
    History,
    Overview,
    Project,
    ShownConflict,
    ShownSnapshot,
    ShownStorage,
    ShownThread,
    Side,
    Viewer,
)

EVIL = "<script>alert('x')</script>\"'&"
VIEWER = Viewer(user_id="0123456789abcdef", key_name=EVIL, form_token="token")
EXECUTION = Execution(
    thread_id=f"rye-remote-{EVIL}",
    item_id=f"tool:{EVIL}",
    project_path=EVIL,
    state="running",
    created_at="2026-11-21T05:58:37.376747+00:00",
    error=EVIL,
)
PROJECT = Project(
    project_path=EVIL, snapshot_hash="b" * 64, revision=2, moved_at="2026-11-21T05:58:37Z"
)
HISTORY = History(
    project=PROJECT,
    snapshots=(
        ShownSnapshot(
            digest="b" * 64,
            parents=("a" * 64, "c" * 64),
            source="merge",
            detail="",
            timestamp="2026-11-21T05:58:38Z",
            thread_id=EVIL,
        ),
        ShownSnapshot(
            digest="c" * 64,
            parents=("a" * 64,),
            source="execution",
            detail=EVIL,
            timestamp="2026-11-21T05:58:37Z",
        ),
        ShownSnapshot(
            digest="a" * 64, parents=("f" * 64,), source=EVIL, detail="", timestamp="2026-11-21"
        ),
    ),
    is_cut=True,
)
CONFLICT = ShownConflict(
    path=EVIL,
    kind="content",
    base=Side("1" * 64, "one\ntwo\n"),
    ours=Side("2" * 64, f"one\n{EVIL}\n"),
    theirs=Side("3" * 64, "one\nother\n"),
)
THREAD = ShownThread(execution=EXECUTION, fields={EVIL: EVIL}, conflicts=(CONFLICT,))
OVERVIEW = Overview(
    node_name=EVIL,
    node_id="fp:0123456789abcdef",
    version="0.1.0",
    active=1,
    most_active=8,
    storage=ShownStorage(3_565_158, 1 << 30),
    executions=(EXECUTION,),
    projects=(PROJECT,),
)
OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": EVIL, "version": "0.1.0"},
    "paths": {
        "/objects/has": {
            "post": {
                "description": EVIL,
                "parameters": [{"name": EVIL, "in": "query", "description": EVIL}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/x/Body"}}}},
                "responses": {"200": {}, "401": {}},
            }
        }
    },
}
PAGES = {
    "login": login_page(EVIL),
    "overview": overview_page(OVERVIEW, VIEWER),
    "project": project_page(HISTORY, VIEWER),
    "thread": thread_page(THREAD, VIEWER),
    "message": message_page(EVIL, EVIL, VIEWER),
    "api": api_page(OPENAPI),
}


class Page(HTMLParser):
    """The elements and words of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, Mapping[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("name", PAGES)
def test_nothing_that_anybody_wrote_becomes_markup(name: str) -> None:
    page = Page(PAGES[name])
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    inline = [
        key
        for _, attributes in page.elements
        for key in attributes
        if key.startswith("on") or key == "style"
    ]

    assert scripts == [{"src": "/page/files/page.js", "defer": None}]
    assert inline == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_language_a_title_and_one_first_heading(name: str) -> None:
    page = Page(PAGES[name])
    tags = [tag for tag, _ in page.elements]

    assert ("html", {"lang": "en"}) in page.elements
    assert tags.count("h1") == tags.count("main") == 1
    assert "title" in tags


@pytest.mark.parametrize("name", PAGES)
def test_every_link_stays_on_this_node(name: str) -> None:
    page = Page(PAGES[name])
    targets = [
        value
        for _, attributes in page.elements
        for key, value in attributes.items()
        if key in {"href", "src", "action", "data-live"}
    ]

    assert all(target and target[0] in "/#" and target[:2] != "//" for target in targets)


def test_forms_of_somebody_logged_in_carry_their_token() -> None:
    page = Page(PAGES["overview"])
    names = {
        attributes.get("name"): attributes for tag, attributes in page.elements if tag == "input"
    }

    assert names["token"]["value"] == "token"


def test_both_versions_of_a_conflict_stand_side_by_side_with_what_differs_marked() -> None:
    page = Page(PAGES["thread"])

    assert [tag for tag, _ in page.elements].count("mark") == 2
    assert f"{EVIL}\n" in "".join(page.words)
    assert "other\n" in page.words


def test_a_side_without_a_text_says_why() -> None:
    gone = ShownConflict(
        path="a.txt",
        kind="delete/modify",
        base=Side("1" * 64, "one"),
        ours=Side(None, Absence.DELETED),
        theirs=Side("2" * 64, Absence.BINARY),
    )

    source = thread_page(ShownThread(execution=EXECUTION, fields={}, conflicts=(gone,)), VIEWER)

    assert "not there" in source
    assert "not text" in source


def test_a_thread_without_conflicts_has_no_such_heading() -> None:
    source = thread_page(ShownThread(execution=EXECUTION, fields={}, conflicts=()), VIEWER)

    assert "Conflicts" not in source


def test_a_history_is_one_picture_that_says_what_it_shows() -> None:
    picture = ET.fromstring(str(history_svg(HISTORY)))  # noqa: S314 - made here
    space = "{http://www.w3.org/2000/svg}"

    assert picture.findtext(f"{space}title") == "History: 3 snapshots, 1 merges, newest first"
    assert len(picture.findall(f".//{space}circle")) == 3
    assert len(picture.findall(f".//{space}path")) == 4
    assert [each.get("class") for each in picture.findall(f".//{space}circle")] == [
        "head lane0",
        "plain lane1",
        "plain lane0",
    ]


def test_bytes_are_reported_for_people() -> None:
    assert [byte_count(count) for count in (0, 1023, 1024, 3_565_158, 5 << 40)] == [
        "0 bytes",
        "1023 bytes",
        "1.0 KiB",
        "3.4 MiB",
        "5.0 TiB",
    ]


def test_the_policy_of_a_page_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]

    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'; ")


@pytest.mark.parametrize("name", ["style.css", "page.js", "icon.svg"])
def test_the_files_of_the_page_are_in_the_package(name: str) -> None:
    assert (resources.files("rye_services") / "page_files" / name).is_file()
