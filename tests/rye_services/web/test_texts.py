"""Texts, code and differences become readable markup that runs no script."""

from html.parser import HTMLParser
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_services.web.texts import (
    MAX_COLOURED_CHARACTERS,
    MAX_DIFF_LINES,
    MAX_MARKDOWN_CHARACTERS,
    DiffLine,
    code,
    diff_lines,
    markdown,
    marked_sides,
)

ALLOWED = {
    *("a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol"),
    *("p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}


class Seen(HTMLParser):
    """Elements and text of some markup, as a browser reads it."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


# --- texts of people ------------------------------------------------------------------------------


def test_a_text_has_paragraphs_lists_tables_and_headings_below_those_of_the_page() -> None:
    made = markdown("# Top\n\nA *b* `c`\n\n- one\n\n| a |\n|---|\n| 1 |\n\n###### Low\n")

    assert [tag for tag, _ in Seen(str(made)).tags] == [
        *("h3", "p", "em", "code", "ul", "li", "table", "thead", "tr", "th", "tbody", "tr", "td"),
        "h6",
    ]


def test_a_link_sends_no_referrer() -> None:
    made = markdown("[docs](https://example.org/a?b=c)")

    assert Seen(str(made)).tags[1] == (
        "a",
        {"href": "https://example.org/a?b=c", "rel": "nofollow noopener noreferrer"},
    )


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\tscript:alert(1)",
        "&#106;avascript:alert(1)",
        "vbscript:x",
        "data:text/html;base64,PHNjcmlwdD4=",
        "file:///etc/passwd",
        "/page/logout",
        "//evil.example/x",
        "?a=b",
    ],
)
@pytest.mark.parametrize("form", ["[x]({})", "<{}>", "[x][r]\n\n[r]: {}", "![x]({})"])
def test_only_a_web_address_becomes_a_link(address: str, form: str) -> None:
    seen = Seen(str(markdown(form.format(address))))

    assert {attributes.get("href") for tag, attributes in seen.tags if tag == "a"} <= {None}


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg><script>alert(1)</script></svg>",
        '<a href="https://x" onclick="alert(1)">x</a>',
        "<style>*{display:none}</style>",
        "<iframe src=https://evil.example></iframe>",
        '<form action="https://evil.example"><input name=key></form>',
        "<math><mtext><img src=x onerror=alert(1)></mtext></math>",
        "<!--><img src=x onerror=alert(1)>-->",
        "`</code><script>alert(1)</script>`",
        '```"><script>alert(1)</script>\nx\n```',
    ],
)
def test_html_in_texts_is_shown_as_text(text: str) -> None:
    seen = Seen(str(markdown(text)))

    assert {tag for tag, _ in seen.tags} <= ALLOWED
    assert not [attributes for _, attributes in seen.tags if attributes]


@pytest.mark.property
@given(st.text(st.sampled_from("<>\"'&`*_[]()!#|\n\\:/ abjavscript=on"), max_size=60))
def test_a_text_makes_only_allowed_elements(text: str) -> None:
    seen = Seen(str(markdown(text)))

    assert {tag for tag, _ in seen.tags} <= ALLOWED
    attributes = {name for _, found in seen.tags for name in found}
    assert attributes <= {"href", "title", "rel", "start"}


def test_invisible_and_bidirectional_characters_are_replaced() -> None:
    assert r"safe\u202egpj.exe" in str(markdown("safe\u202egpj.exe"))
    assert r"safe\u202egpj.exe" in str(code("# safe\u202egpj.exe", ".py"))


def test_a_very_long_text_is_shown_verbatim() -> None:
    made = markdown("*" * (MAX_MARKDOWN_CHARACTERS + 1))

    assert [tag for tag, _ in Seen(str(made)).tags] == ["pre"]


# --- code -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".py", ".yaml", ".js", ".sh", ".md", ".json", ".unknown"])
def test_code_is_shown_verbatim_with_colours(suffix: str) -> None:
    text = "\n\n# <script>alert('1 & 2')</script>\nx = \"</pre><img src=x>\"\n"

    seen = Seen(str(code(text, suffix)))

    assert seen.words == f"\n{text}"  # of which the parser of a browser takes the first off
    assert {tag for tag, _ in seen.tags} <= {"pre", "span"}
    assert {name for _, found in seen.tags for name in found} <= {"class", "tabindex"}


def test_python_has_colours() -> None:
    assert ("span", {"class": "k"}) in Seen(str(code("return 1\n", ".py"))).tags


@pytest.mark.parametrize(
    ("unit", "suffix"), [("`\n", ".yaml"), ("\n", ".md"), ("&\n", ".xml"), ("x=", ".ini")]
)
def test_a_text_that_is_slow_to_highlight_is_given_up(unit: str, suffix: str) -> None:
    text = (unit * MAX_COLOURED_CHARACTERS)[:MAX_COLOURED_CHARACTERS]

    began_s = thread_time()
    seen = Seen(str(code(text, suffix)))

    assert seen.words == f"\n{text}"
    assert thread_time() - began_s < 5


@pytest.mark.parametrize("unit", ["[", "![", "*a ", "> ", "|a", "[](", "_a__"])
def test_a_long_text_of_one_character_is_rendered_in_bounded_time(unit: str) -> None:
    began_s = thread_time()

    markdown((unit * MAX_MARKDOWN_CHARACTERS)[:MAX_MARKDOWN_CHARACTERS])

    assert thread_time() - began_s < 5


def test_line_ends_of_windows_are_line_ends() -> None:
    assert Seen(str(code("a: 1\r\nb: 2\r\n", ".yaml"))).words == "\na: 1\nb: 2\n"


def test_a_very_long_text_has_no_colours() -> None:
    text = "return 1\n" * MAX_COLOURED_CHARACTERS

    assert [tag for tag, _ in Seen(str(code(text, ".py"))).tags] == ["pre"]


# --- differences ----------------------------------------------------------------------------------


def test_a_difference_has_the_lines_around_it_and_says_how_many_it_leaves_out() -> None:
    before = "".join(f"{number}\n" for number in range(1, 12))
    after = before.replace("6\n", "six\n")

    lines = diff_lines(before, after)

    assert lines is not None
    assert [(line.kind, line.text, line.before, line.after) for line in lines] == [
        ("gap", "2", None, None),
        ("same", "3\n", 3, 3),
        ("same", "4\n", 4, 4),
        ("same", "5\n", 5, 5),
        ("removed", "6\n", 6, None),
        ("added", "six\n", None, 6),
        ("same", "7\n", 7, 7),
        ("same", "8\n", 8, 8),
        ("same", "9\n", 9, 9),
        ("gap", "2", None, None),
    ]


def test_two_changes_far_from_each_other_have_one_gap_between_them() -> None:
    before = [f"{number}\n" for number in range(20)]
    after = ["new\n", *before[:19], "last\n"]

    lines = diff_lines("".join(before), "".join(after))

    assert lines is not None
    assert [line.text for line in lines if line.kind == "gap"] == ["13"]
    assert [(line.kind, line.text) for line in lines][-2:] == [
        ("removed", "19\n"),
        ("added", "last\n"),
    ]


def test_equal_texts_do_not_differ() -> None:
    assert diff_lines("a\n", "a\n") == ()


def test_a_new_file_is_all_added() -> None:
    assert diff_lines("", "a\n") == (DiffLine(kind="added", text="a\n", after=1),)


def test_texts_that_take_too_long_are_not_compared() -> None:
    long = "a\n" * (MAX_DIFF_LINES + 1)

    assert diff_lines(long, "b\n") is None
    assert diff_lines("a\nb\n" * 2_400, "b\na\nb\n" * 1_600) is None
    assert marked_sides(long, "b\n") is None


lines_of_letters = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=12).map("".join)


@pytest.mark.property
@given(lines_of_letters, lines_of_letters)
def test_both_versions_can_be_read_from_their_difference(before: str, after: str) -> None:
    sides = marked_sides(before, after)

    assert sides is not None
    assert ["".join(part.text for part in side) for side in sides] == [before, after]
    same = ["".join(part.text for part in side if not part.is_changed) for side in sides]
    assert same[0] == same[1]
