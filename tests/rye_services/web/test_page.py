"""The common parts of all pages: escaping templates, headers, addresses, files."""

import hashlib
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rye_services.web
from packing.contents import HTMX_VERSION
from rye_services.web.page import (
    FILES,
    HEADERS,
    byte_count,
    item_page,
    page_of,
    presentable,
    render,
)

TEMPLATES = Path(rye_services.web.__file__).parent / "templates"

HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""The SHA-256 of ``dist/htmx.min.js`` in htmx.org 2.0.11 of npm."""


class Seen(HTMLParser):
    """The elements and words of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""
        self.feed(source)

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


printable = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Cf", "Cn", "Co", "Zl", "Zp"]), max_size=50
)


@pytest.mark.property
@given(printable)
def test_an_untrusted_text_is_shown_verbatim_and_makes_no_element(written: str) -> None:
    plain = Seen(render("registry/message.html", title="x", words="x"))

    seen = Seen(render("registry/message.html", title=written, words=written))

    assert seen.tags == plain.tags
    assert f"\n{written}\n" in seen.words.replace("\r", "\n") or written in seen.words


def test_none_is_printed_as_empty_text_and_numbers_are_kept() -> None:
    assert [presentable(value) for value in (None, 3, "a\u202eb")] == ["", 3, r"a\u202eb"]


def test_every_template_is_escaped_without_safe_marks() -> None:
    found = {path.name: path.read_text("utf-8") for path in TEMPLATES.rglob("*.html")}

    assert len(found) > 10
    assert [name for name, text in found.items() if re.search(r"\|\s*safe|autoescape", text)] == []


def test_no_template_has_a_script_a_style_or_a_handler_inline() -> None:
    inline = re.compile(
        r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", re.IGNORECASE
    )

    found = [path for path in TEMPLATES.rglob("*.html") if inline.search(path.read_text("utf-8"))]

    assert found == []


def test_forms_that_change_something_are_posted_with_the_token_of_the_session() -> None:
    for path in TEMPLATES.rglob("*.html"):
        for form in re.findall(r"<form.*?</form>", path.read_text("utf-8"), re.DOTALL):
            if 'method="get"' in form or "/page/login" in form:
                continue
            if 'method="dialog"' in form:  # a browser sends nothing of it: the script does
                assert "data-try=" in form, path
                continue
            assert 'method="post"' in form, path
            assert 'name="token" value="{{ viewer.form_token }}"' in form, path


def test_the_content_policy_allows_only_files_of_the_node() -> None:
    policy = HEADERS["Content-Security-Policy"]

    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.startswith("default-src 'none'; ")


def test_htmx_is_the_published_file_with_its_licence() -> None:
    files = resources.files("rye_services.web") / "page_files"

    assert hashlib.sha256((files / "htmx.min.js").read_bytes()).hexdigest() == HTMX
    assert f'version:"{HTMX_VERSION}"' in (files / "htmx.min.js").read_text("utf-8")
    assert "Zero-Clause BSD" in (files / "htmx.LICENSE.txt").read_text("utf-8")


@pytest.mark.parametrize("name", FILES)
def test_the_files_of_pages_are_in_the_package(name: str) -> None:
    assert (resources.files("rye_services.web") / "page_files" / name).is_file()


def test_values_of_an_address_are_quoted_and_empty_ones_left_out() -> None:
    assert (
        page_of("/page/project", path="a b&c=d", snapshot="") == "/page/project?path=a%20b%26c%3Dd"
    )
    assert item_page("tool", 'a/b"c') == "/browse/item/tool/a/b%22c"


def test_byte_counts_are_shown_with_units() -> None:
    assert [byte_count(count) for count in (0, 1023, 1024, 3_565_158, 5 << 40)] == [
        "0 bytes",
        "1023 bytes",
        "1.0 KiB",
        "3.4 MiB",
        "5.0 TiB",
    ]
