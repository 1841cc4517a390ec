"""The pages of a real registry in a headless Chromium."""

import html
import re

import pytest

from lillux.signing import compute_key_fingerprint
from tests.support.browser import Browser, chromium
from tests.support.contrasts import CONTRASTS
from tests.support.registry import Registry, item_text

pytestmark = pytest.mark.heavy

EVIL = "</code></pre><img src=x onerror=window.brokenIn=1><script>window.brokenIn=1</script>"


def evil_item(registry: Registry) -> str:
    """An item with markup and control characters in every text; its id."""
    account = registry.account()
    item_id = f"{account.name}/evil/aardwolf"
    words = f"Aardwolf {EVIL} \u202egnp.exe"
    content = f"{item_text('tool', item_id, words=words)}# {EVIL}\n"
    assert account.push(item_id, content=content, changelog=EVIL).status == 200
    return item_id


def test_a_person_searches_reads_and_learns_how_to_install(
    browser: Browser, shared_registry: Registry
) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/animals/wombat"
    content = item_text("tool", item_id, words="Draws a wombat")
    account.push(item_id, content=content)
    newer = item_text("tool", item_id, "1.1.0", "Draws a wombat, faster")
    account.push(item_id, "1.1.0", content=newer, changelog="Faster")

    browser.open(shared_registry.url)
    browser.find("#query").type("wombat")
    browser.find("main button").click()
    browser.find_xpath("//p[text()='1 found']")
    browser.find(".results li > a").click()

    assert browser.find("h1").text == f"tool:{item_id}"
    main = browser.find("main").text
    assert f"rye registry pull tool:{item_id} --release 1.1.0" in main
    assert f"rye-registry@{account.name}" in main
    pem = shared_registry.ask("GET", "/v1/public-key").body
    assert f"fp:{compute_key_fingerprint(pem)}" in main
    assert "Draws a wombat, faster" in main
    assert "Faster" in browser.find("table").text

    browser.find_xpath("//td/a[text()='1.0.0']").click()

    assert "--release 1.0.0" in browser.find("main").text
    assert browser.log() == []


def test_texts_of_publishers_run_no_script_and_stay_in_their_element(
    browser: Browser, shared_registry: Registry
) -> None:
    item_id = evil_item(shared_registry)

    for address in (f"/browse/item/tool/{item_id}", "/browse?query=aardwolf"):
        browser.open(f"{shared_registry.url}{address}")

        assert EVIL in browser.find("main").text
        assert "\u202e" not in browser.find("main").text
        assert browser.run("return window.brokenIn || null") is None
        scripts = browser.run("return [...document.scripts].map(one => one.getAttribute('src'))")
        assert scripts == ["/browse/files/page.js"]
        assert browser.run("return document.images.length") == 0
        assert browser.log() == []


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_text_can_be_read(browser: Browser, shared_registry: Registry, scheme: str) -> None:
    item_id = evil_item(shared_registry)
    browser.prefer_colours(scheme)

    for address in ("/browse", f"/browse/item/tool/{item_id}", "/browse/bundles"):
        browser.open(f"{shared_registry.url}{address}")

        assert browser.run(CONTRASTS) == []


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_no_page_needs_sideways_scrolling(
    browser: Browser, shared_registry: Registry, size: tuple[int, int]
) -> None:
    account = shared_registry.account(with_key=True)
    item_id = f"{account.name}/wide/{'quokka' * 12}"
    words = f"Quokka `{'x' * 300}` [{'y' * 200}](https://example.org)"
    assert account.push(item_id, content=item_text("tool", item_id, words=words)).status == 200
    newer = item_text("tool", item_id, "1.1.0", "z" * 300)
    assert account.push(item_id, "1.1.0", content=newer, changelog="w" * 300).status == 200
    browser.show_in(*size)

    for address in (
        "/browse",
        f"/browse/item/tool/{item_id}",
        f"/browse/diff/tool/{item_id}?from=1.0.0&to=1.1.0",
        f"/browse/person/{account.name}",
        f"/browse/namespace/{account.name}",
    ):
        browser.open(f"{shared_registry.url}{address}")
        wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, address


def test_every_control_has_a_name_and_every_table_its_headings(
    browser: Browser, shared_registry: Registry
) -> None:
    item_id = evil_item(shared_registry)
    browser.open(f"{shared_registry.url}/browse/item/tool/{item_id}")

    nameless = [
        each.attribute("outerHTML")
        for each in browser.all("a, button, input, select, [role=region]")
        if not each.label
    ]
    assert nameless == []
    tables = "return document.querySelectorAll('table:not(:has(thead th[scope=col]))').length"
    assert browser.run(tables) == 0


def test_the_line_that_installs_is_copied_by_a_button_where_scripts_run(
    driver: int, browser: Browser, shared_registry: Registry
) -> None:
    item_id = evil_item(shared_registry)
    address = f"{shared_registry.url}/browse/item/tool/{item_id}"
    browser.open(address)
    browser.find("button.copy").click()
    browser.find_xpath("//button[text()='Copied' or text()='Selected']")

    with chromium(driver, scripts=False) as plain:
        plain.open(address)
        assert plain.find("button.copy").text == ""
        assert "rye registry pull" in plain.find(".command").text


def test_a_list_continues_with_the_next_page(browser: Browser, registry: Registry) -> None:
    account = registry.account()
    for number in range(25):
        account.push(f"{account.name}/pages/p{number}")

    browser.open(f"{registry.url}/browse")
    first = [link.text for link in browser.all(".results li > a")]
    browser.find("a[rel=next]").click()
    browser.find("a[rel=prev]")
    second = [link.text for link in browser.all(".results li > a")]

    assert (len(first), len(second)) == (20, 5)
    assert not set(first) & set(second)


def test_pages_come_with_a_policy_that_lets_run_only_the_script_of_the_page(
    shared_registry: Registry,
) -> None:
    for path in ("/browse", "/browse/bundles", "/browse/item/tool/a/b/c", "/browse/none"):
        headers = shared_registry.ask("GET", path).headers

        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    page = shared_registry.ask("GET", "/browse").headers["content-security-policy"]
    assert "script-src 'self';" in page
    assert "connect-src" not in page


def test_a_missing_page_says_so(shared_registry: Registry) -> None:
    for path in ("item/tool/a/b/c", "item/tool/..%2f..%2fup", "item/x/a/b/c", "bundle/none"):
        reply = shared_registry.ask("GET", f"/browse/{path}")

        assert reply.status == 404
        assert b"no such thing" in reply.body
    nothing = shared_registry.ask("GET", "/browse?query=%3Cscript%3E!!").body.decode()
    assert "<script>" not in nothing
    assert html.escape("<script>") in nothing


def test_an_unlisted_item_is_in_no_list(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/drafts/axolotl"
    account.push(item_id)
    account.ask("POST", f"/v1/visibility/tool/{item_id}", {"visibility": "unlisted"})

    listed = shared_registry.ask("GET", "/browse?query=axolotl").body.decode()

    assert re.search(r">0 found<", listed)
    assert shared_registry.ask("GET", f"/browse/item/tool/{item_id}").status == 200


def test_a_node_shows_its_own_page_first(shared_both: Registry) -> None:
    assert b"Log in" in shared_both.ask("GET", "/").body
    assert shared_both.ask("GET", "/browse").status == 200
