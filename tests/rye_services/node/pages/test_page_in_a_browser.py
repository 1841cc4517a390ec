"""The pages of a real node in a headless Chromium."""

import os
from urllib.parse import quote

import pytest

from rye_services.people.credentials import ApiKeys
from rye_services.storage.database import Database
from tests.support.browser import Browser, chromium
from tests.support.contrasts import CONTRASTS
from tests.support.node import Node, User
from tests.support.page_contents import AT, PROJECT, THREAD, Contents
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = pytest.mark.heavy

EVIL = "<img src=x onerror=window.brokenIn=1>"
TAB, ENTER = "\ue004", "\ue007"
NAMED = "a, button:not([hidden]), input:not([type=hidden], [hidden]), select, meter, [role=region]"
HEADLESS_TABLES = """
return [...document.querySelectorAll("table")]
  .filter(table => !table.querySelector("thead th[scope=col]")).map(table => table.outerHTML);
"""
PAGES = (
    "/",
    f"/page/project?path={PROJECT}",
    f"/page/thread?id={THREAD}-{{user}}",
    "/docs",
    "/docs?route=POST+/execute",
    "/page/items",
    "/page/secrets",
    "/page/webhooks",
)


@pytest.fixture
def user(shared_node: Node) -> User:
    return shared_node.user()


def log_in(browser: Browser, user: User) -> None:
    browser.open(user.node.url)
    browser.find("#key").type(user.token)
    browser.find("main button").click()
    browser.find(".facts")


def test_a_person_logs_in_and_out(browser: Browser, user: User) -> None:
    log_in(browser, user)

    (cookie,) = browser.cookies
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert browser.run("return document.cookie") == ""
    assert user.node.keys.node_id in browser.find("main").text

    browser.find("header button").click()
    browser.find("#key")
    assert browser.cookies == []


def test_a_wrong_key_is_reported_where_it_was_typed(browser: Browser, user: User) -> None:
    browser.open(user.node.url)
    browser.find("#key").type("rye_sk_wrong")
    browser.find("main button").click()

    problem = browser.find(".problem")
    assert problem.role == "alert"
    assert problem.text.startswith("No valid key")
    assert browser.find("#key").label == "API key"


def test_the_list_of_runs_updates_itself(browser: Browser, user: User) -> None:
    thread_id = f"{THREAD}-{user.user_id}"
    log_in(browser, user)
    assert "Nothing was executed yet" in browser.find("#runs").text
    browser.run("window.notReloaded = true")

    Contents(user).thread(thread_id)

    assert browser.find("#runs .state.live").text == "running"
    assert browser.run("return window.notReloaded") is True


@pytest.fixture
def running(workspace: Workspace, user: User) -> tuple[RemoteProject, str]:
    """A project with a run that wrote a line and waits, twice; the id of the run."""
    project = RemoteProject.with_tools(workspace, user)
    waits = "echo > $TMPDIR/here; while ! [ -e $TMPDIR/more ]; do sleep 0.02; done"
    return project, project.begun(f"echo first; {waits}; echo second")


COUNT_PARTS = """
window.parts = 0;
document.addEventListener("htmx:beforeSend", () => { window.parts++ });
"""


@pytest.mark.skipif(os.name == "nt", reason="the tool of this test is for POSIX")
def test_the_log_of_a_run_streams_without_further_requests(
    browser: Browser, running: tuple[RemoteProject, str]
) -> None:
    project, thread_id = running
    log_in(browser, project.user)
    browser.open(f"{project.user.node.url}/page/thread?id={thread_id}")
    browser.wait_for("return document.querySelector('pre.log')?.textContent.includes('first')")
    browser.run(COUNT_PARTS)

    project.release("more")
    browser.wait_for("return document.querySelector('pre.log').textContent.includes('second')")
    assert browser.run("return window.parts") == 0
    project.release()
    project.ended(thread_id)

    browser.wait_for("return document.querySelector('#run .state').textContent === 'completed'")
    assert browser.run("return document.querySelector('#run').dataset.events") is None
    assert [line for line in browser.log() if "Content Security" in line] == []


@pytest.mark.skipif(os.name == "nt", reason="the tool of this test is for POSIX")
@pytest.mark.parametrize("broken", ["no events", "refused"])
def test_without_events_the_page_of_a_run_polls(
    browser: Browser, running: tuple[RemoteProject, str], broken: str
) -> None:
    project, thread_id = running
    script = "delete window.EventSource;"
    if broken == "refused":
        script = (
            "window.EventSource = class extends EventTarget { close() {} constructor() {"
            " super(); setTimeout(() => this.dispatchEvent(new Event('error')), 50) } };"
        )
    browser.before_each_page(script)
    log_in(browser, project.user)
    browser.open(f"{project.user.node.url}/page/thread?id={thread_id}")
    browser.run(COUNT_PARTS)

    browser.wait_for("return window.parts >= 2")
    project.release("more")
    browser.wait_for("return document.querySelector('pre.log')?.textContent.includes('second')")
    project.release()
    project.ended(thread_id)

    browser.wait_for("return document.querySelector('#run .state').textContent === 'completed'")


def test_a_history_with_a_merge_is_drawn_and_its_points_link_to_the_changes(
    browser: Browser, user: User
) -> None:
    merged = Contents(user).merged_history()
    log_in(browser, user)

    browser.find_xpath(f"//a[text()='{PROJECT}']").click()

    picture = browser.find("svg.lanes")
    assert picture.label == "History: 4 snapshots, 1 merges, newest first"
    assert len(browser.all("svg.lanes circle")) == 4
    rows = [row.text for row in browser.all("figure.history li")]
    assert rows[0].startswith(f"{merged[:12]} HEAD merge of a run: src/log.md, ")
    assert "run of tool:garden/water: src/log.md" in rows[2]
    browser.find("figure.history li a").click()
    browser.find_xpath("//h1[text()='merge of a run']")
    assert f"to={merged}" in browser.url
    assert browser.find("tr.added code").text == "watered"


def test_a_conflict_is_shown_with_both_versions(browser: Browser, user: User) -> None:
    contents = Contents(user)
    sides = {
        "base": contents.item("soil\n"),
        "ours": contents.item("soil\nseeds\n"),
        "theirs": contents.item("soil\nwater\n"),
        "type": "content",
    }
    ended = {"state": "completed", "completed_at": AT}
    contents.thread(f"{THREAD}-{user.user_id}", **ended, merge_conflicts={"plan.md": sides})
    log_in(browser, user)

    browser.find_xpath("//a[text()='tool:garden/water']").click()

    browser.find(".conflicts")
    assert [each.text for each in browser.all(".sides mark")] == ["seeds", "water"]
    assert browser.find(".sides h3").text.startswith("HEAD (ours)")


def test_hostile_names_are_shown_verbatim_and_run_no_script(browser: Browser, user: User) -> None:
    contents = Contents(user)
    contents.head(contents.snapshot(source=EVIL), project_path=EVIL)
    contents.thread(f"{THREAD}-{user.user_id}", item_id=f"tool:{EVIL}", error_message=EVIL)
    log_in(browser, user)

    assert EVIL in browser.find("main").text
    browser.find_xpath("//*[@id='runs']//a[contains(text(), 'onerror')]").click()
    browser.find(".facts")
    assert browser.run("return window.brokenIn") is None
    assert browser.run("return document.images.length") == 0


def test_the_policy_of_the_page_blocks_no_part_of_the_page(browser: Browser, user: User) -> None:
    Contents(user).merged_history()
    log_in(browser, user)
    browser.open(f"{user.node.url}/page/project?path={PROJECT}")
    browser.find("svg.lanes")
    browser.open(f"{user.node.url}/docs")
    browser.find(".route")

    assert browser.log() == []


def test_an_injected_script_does_not_run(browser: Browser, user: User) -> None:
    log_in(browser, user)

    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.ran = true';"
        "document.body.append(s)"
    )

    assert browser.run("return window.ran") is None
    assert any("Content Security Policy" in line for line in browser.log())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_readable_in_light_and_dark_mode(
    browser: Browser, user: User, scheme: str
) -> None:
    contents = Contents(user)
    merged = contents.merged_history()
    sides = {"ours": contents.item("a\n"), "theirs": contents.item("b\n"), "type": "content"}
    thread_id = f"{THREAD}-{user.user_id}"
    contents.thread(thread_id, state="completed", merge_conflicts={"plan.md": sides})
    contents.thread(f"{thread_id}-2", state="error", error_message="no water")
    browser.prefer_colours(scheme)
    log_in(browser, user)

    poor = browser.run(CONTRASTS)
    for path in (
        f"project?path={PROJECT}",
        f"diff?path={PROJECT}&to={merged}",
        f"thread?id={thread_id}",
        f"thread?id={thread_id}-2",
    ):
        browser.open(f"{user.node.url}/page/{path}")
        poor += browser.run(CONTRASTS)
    background = browser.run("return getComputedStyle(document.body).backgroundColor")

    assert poor == []
    assert (background == "rgb(22, 24, 27)") == (scheme == "dark")


def test_all_controls_are_reached_with_the_keyboard_and_have_a_name(
    browser: Browser, user: User
) -> None:
    Contents(user).merged_history()
    Contents(user).thread(f"{THREAD}-{user.user_id}", state="completed", completed_at=AT)
    log_in(browser, user)

    for path in PAGES:
        browser.open(f"{user.node.url}{path.format(user=user.user_id)}")
        nameless = [
            element.attribute("outerHTML") for element in browser.all(NAMED) if not element.label
        ]
        assert nameless == [], path
        assert len(browser.all("main")) == len(browser.all("h1")) == 1
        assert browser.run(HEADLESS_TABLES) == []


def test_the_first_tab_stop_skips_the_heading_and_the_focus_is_visible(
    browser: Browser, user: User
) -> None:
    log_in(browser, user)

    browser.press(TAB)
    skip = browser.run("return document.activeElement.getAttribute('href')")
    outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
    is_seen = browser.run("return document.activeElement.getBoundingClientRect().left >= 0")
    browser.press(ENTER)

    assert (skip, outline, is_seen) == ("#content", "solid", True)
    assert browser.run("return document.activeElement.id") == "content"


def test_a_list_with_the_focus_is_not_replaced(browser: Browser, user: User) -> None:
    contents, thread_id = Contents(user), f"{THREAD}-{user.user_id}"
    contents.thread(thread_id, state="completed", completed_at=AT)
    log_in(browser, user)
    browser.run("document.querySelector('#runs td a').focus(); window.requests = 0")
    browser.run("document.addEventListener('htmx:afterRequest', () => { window.requests++ })")

    contents.thread(f"{thread_id}-2")
    browser.wait_for("return window.requests >= 2")

    assert "running" not in browser.find("#runs").text
    browser.run("document.activeElement.blur()")
    assert browser.find("#runs .state.live").text == "running"


def test_the_pages_work_without_scripts(driver: int, user: User) -> None:
    contents = Contents(user)
    contents.merged_history()
    contents.thread(f"{THREAD}-{user.user_id}", started_at=AT)
    with chromium(driver, scripts=False) as browser:
        log_in(browser, user)

        assert browser.find("#runs .state").text == "running"
        assert browser.find("#runs time").text == "2026-11-21 12:00:00 UTC"
        browser.find("select[name=state] option[value=running]").click()
        browser.find(".filter button").click()
        browser.find_xpath("//a[text()='All runs']")
        assert "state=running" in browser.url
        browser.find_xpath(f"//table//a[text()='{PROJECT}']").click()
        assert browser.find("svg.lanes").role in {"image", "img"}


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_no_page_needs_sideways_scrolling(
    browser: Browser, user: User, size: tuple[int, int]
) -> None:
    contents, thread_id = Contents(user), f"{THREAD}-{user.user_id}"
    contents.merged_history()
    long = contents.item("y" * 500)
    sides = {"ours": long, "theirs": contents.item("z" * 500), "type": "content"}
    contents.thread(
        thread_id,
        state="error",
        completed_at=AT,
        error_message="x" * 300,
        merge_conflicts={"a/" * 100: sides},
    )
    browser.show_in(*size)
    log_in(browser, user)

    for path in PAGES:
        browser.open(f"{user.node.url}{path.format(user=user.user_id)}")
        wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, path


def test_the_admin_page_is_readable_on_a_phone_in_dark_mode(
    browser: Browser, shared_node: Node
) -> None:
    browser.show_in(390, 844)
    browser.prefer_colours("dark")
    log_in(browser, shared_node.owner)
    browser.open(f"{shared_node.url}/page/admin")

    assert browser.run(CONTRASTS) == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True
    assert [each.attribute("outerHTML") for each in browser.all(NAMED) if not each.label] == []


def test_times_are_said_from_now_on_and_their_title_is_the_time(
    browser: Browser, user: User
) -> None:
    Contents(user).thread(f"{THREAD}-{user.user_id}")
    log_in(browser, user)

    shown = browser.find("#runs time")

    assert "UTC" not in shown.text
    assert any(word in shown.text for word in ("ago", "in ", "now", "yesterday", "last", "next"))
    assert "2026" in browser.run("return document.querySelector('#runs time').title")


def test_the_navigation_says_where_one_is(browser: Browser, user: User) -> None:
    log_in(browser, user)
    names = "return [...document.querySelectorAll('header nav a')].map(one => one.textContent)"
    current = "return document.querySelector('header nav [aria-current=page]').textContent"

    assert browser.run(names)[0] == "Runs"
    assert browser.run(current) == "Runs"
    browser.open(f"{user.node.url}/docs")
    assert browser.run(current) == "API"


@pytest.mark.parametrize(
    ("route", "body", "answer"),
    [
        ("GET /threads", "", '200 OK\n{\n  "threads": []'),
        ("POST /execute", '{"item_id": "x"}', "400 Bad Request"),
    ],
)
def test_a_route_is_tried_with_an_api_key_on_its_page(
    browser: Browser, user: User, route: str, body: str, answer: str
) -> None:
    browser.open(f"{user.node.url}/docs?route={quote(route)}")
    browser.find("#try-key").type(user.token)
    if body:
        browser.run("document.querySelector('#try-body').value = ''")
        browser.find("#try-body").type(body)

    browser.find("form[data-try] button").click()

    browser.wait_for(
        "return /^[0-9]/.test(document.querySelector('form[data-try] pre').textContent)"
    )
    shown = browser.run("return document.querySelector('form[data-try] pre').textContent")
    assert shown.startswith(answer), shown
    assert [line for line in browser.log() if "Content Security" in line] == []


def test_runs_are_cards_on_a_phone(browser: Browser, user: User) -> None:
    Contents(user).thread(f"{THREAD}-{user.user_id}")
    browser.show_in(390, 844)
    log_in(browser, user)

    labels = browser.run(
        "return [...document.querySelectorAll('#runs td[data-label]')]"
        ".map(one => getComputedStyle(one, '::before').content)"
    )

    assert ["Project" in labels[0], "Started" in labels[1]] == [True, True], labels
    wide = "const one = document.querySelector('#runs .wide'); return one.scrollWidth"
    assert browser.run(wide) <= 390


def test_a_session_ended_by_key_revocation_shows_the_login(browser: Browser, user: User) -> None:
    log_in(browser, user)
    database = Database(user.node.settings.database_url)
    keys = ApiKeys(database)
    (key,) = keys.of(user.user_id)

    keys.revoke(key.id)
    database.close()

    assert browser.find("#key").label == "API key"


def test_a_button_copies_a_command_line(browser: Browser, user: User) -> None:
    thread_id = f"{THREAD}-{user.user_id}"
    Contents(user).thread(thread_id, state="completed", completed_at=AT)
    log_in(browser, user)
    browser.open(f"{user.node.url}/page/thread?id={thread_id}")

    browser.find("button.copy").click()

    browser.find_xpath("//button[text()='Copied' or text()='Selected']")
    selected = browser.run("return getSelection().toString()")
    line = f"rye remote pull --thread {thread_id}"
    assert browser.find("button.copy").text == "Copied" or selected == line
