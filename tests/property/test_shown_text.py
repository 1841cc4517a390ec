"""Texts that a person reads before signing: the display can be turned back into the bytes."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ryeos.app.shown_text import LINE_END, NO_NEWLINE, TAB, escape_warning, shown_text

SUFFIXES = (".py", ".sh", ".yaml", ".js", ".md", ".json")
_ESCAPE = re.compile(r"(\\+)(u[0-9a-f]{4}|U[0-9a-f]{8}|\(no newline\)|\(line end\))", re.DOTALL)
_PIECES = st.sampled_from(
    [
        *("\n", "\r\n", "\r", "\t", " ", "\\", "\\u2028", "\\U0001d41a", NO_NEWLINE, LINE_END, TAB),
        *("\u21e5", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\ufeff", "\u200b"),
        *("\u202e", "e\u0301", "\u00e9", "\u0430", "a", "pass", "\u65e5", "\uff0c", "\u3164"),
        *("\U000e0041", "\ue000", "\u05d0", "\U0001d41a", "u2028", "(no newline)"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=30).map(lambda text: text.encode("utf-8", "ignore")),
    st.lists(_PIECES, max_size=12).map(lambda parts: "".join(parts).encode()),
    st.binary(max_size=20),
)


def original(lines: tuple[str, ...]) -> bytes:
    """The bytes that a display is of, by its own rules."""
    text = ""
    for line in lines:
        end = "\n"

        def plain(found: re.Match[str]) -> str:
            nonlocal end
            backslashes, said = len(found[1]), found[2]
            if backslashes % 2 == 0:
                return "\\" * (backslashes // 2) + said
            kept = "\\" * (backslashes // 2)
            if said.startswith("("):
                end = ""
                return kept
            return kept + chr(int(said[1:], 16))

        text += _ESCAPE.sub(plain, line.replace(TAB, "\t")) + end
    return text.encode("utf-8", "surrogateescape")


@given(data=TEXTS, suffix=st.sampled_from(SUFFIXES), ascii_only=st.booleans())
@example(data=b"\\\xe2\x80\xa8\n", suffix=".py", ascii_only=False)
@example(data=rb"\u2028", suffix=".py", ascii_only=False)
@example(data=b"a\\", suffix=".sh", ascii_only=False)
def test_the_bytes_of_a_text_follow_from_its_display(
    data: bytes, suffix: str, *, ascii_only: bool
) -> None:
    shown = shown_text(data, suffix, ascii_only=ascii_only)
    assert original(shown.lines) == data


@given(data=TEXTS, suffix=st.sampled_from(SUFFIXES), ascii_only=st.booleans())
def test_a_display_holds_nothing_that_steers_or_hides(
    data: bytes, suffix: str, *, ascii_only: bool
) -> None:
    text = "".join(shown_text(data, suffix, ascii_only=ascii_only).lines)
    assert not [one for one in text if unicodedata.category(one)[0] in "CZ" and one != " "]
    assert text.isascii() or not ascii_only
    assert not text.endswith(" ")


@given(TEXTS, TEXTS, st.sampled_from(SUFFIXES))
def test_two_texts_never_have_the_same_display(one: bytes, other: bytes, suffix: str) -> None:
    is_same = shown_text(one, suffix).lines == shown_text(other, suffix).lines
    assert is_same == (one == other)


GUARD = "# only files of the folder out{}    if not inside(path): raise ValueError(path)\n"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1e", "\x85"])
@pytest.mark.parametrize("suffix", [".py", ".sh"])
def test_what_is_a_comment_to_the_interpreter_is_one_line(separator: str, suffix: str) -> None:
    shown = shown_text(GUARD.format(separator).encode(), suffix)
    assert shown.lines == (GUARD.format(f"\\u{ord(separator):04x}").rstrip("\n"),)
    assert escape_warning(shown.escapes) == "1 character is shown as an escape: 1 line separator"


@pytest.mark.parametrize(
    ("text", "suffix", "lines"),
    [
        ("a\rb\n", ".py", ("a\\u000d\\(line end)", "b")),
        ("a\rb\n", ".sh", ("a\\u000db",)),
        ("a\u2028b\n", ".js", ("a\\u2028\\(line end)", "b")),
        ("a\x85b\n", ".yaml", ("a\\u0085\\(line end)", "b")),
        ("a\u2029b\n", ".md", ("a\\u2029b",)),
    ],
)
def test_lines_end_where_the_interpreter_of_the_file_ends_them(
    text: str, suffix: str, lines: tuple[str, ...]
) -> None:
    assert shown_text(text.encode(), suffix).lines == lines


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("p\u0430th", "look-alike"),  # Cyrillic in a Latin word
        ("\u0441\u043e\u0440\u0443", "look-alike"),  # a Cyrillic word of such letters alone
        ("\u03bfs", "look-alike"),  # Greek
        ("\uff4cs", "look-alike"),  # fullwidth
        ("\U0001d41a", "look-alike"),  # mathematical
        ("e\u0301", "combining mark"),
        ("\u0301", "combining mark"),
        ("\u0915\u0301\u0302\u0303", "combining mark"),
        ("a\u200bb", "invisible character"),
        ("a\ufe0fb", "invisible character"),
        ("\U000e0041", "invisible character"),
        ("\u3164", "invisible character"),
        ("\ufeffa", "invisible character"),
        ("\u202eb", "mark of direction"),
        ("\u200fb", "mark of direction"),
        ("\u05d0", "right-to-left letter"),
        ("\ue000", "private-use character"),
        ("\u0378", "unassigned character"),
        ("a\u00a0b", "unusual space"),
        ("a\rb", "control character"),
        ("\x1b[2J", "control character"),
    ],
)
def test_what_misleads_a_reader_is_an_escape_and_counted(text: str, kind: str) -> None:
    shown = shown_text(f"x = '{text}'\n".encode(), ".sh")
    assert kind in shown.escapes
    assert shown.lines[0].isascii() or kind == "combining mark"


@pytest.mark.parametrize(
    "text",
    [
        "caf\u00e9 na\u00efve Stra\u00dfe \u0141\u00f3d\u017a Ti\u1ebfng Vi\u1ec7t",
        "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
        "\u65e5\u672c\u8a9e\uff0c\u30c6\u30b9\u30c8 \ud55c\uad6d\uc5b4",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22\u0e17\u0e35\u0e48",
        "\u2713 \u2192 \u20ac",
    ],
)
def test_words_of_people_stay_readable(text: str) -> None:
    shown = shown_text(f"{text}\n".encode(), ".py")
    assert shown.lines == (text,)
    assert not shown.escapes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"a\n", b"a"),
        (b"a\n", b"a\r\n"),
        (b"a\n", b"\xef\xbb\xbfa\n"),
        (b"a\n", b"a \n"),
        (b"a\tb\n", b"a    b\n"),
        (b"a\n# b\n", "a\u2028# b\n".encode()),
    ],
)
def test_a_change_of_what_is_hardly_seen_changes_the_display(one: bytes, other: bytes) -> None:
    for suffix in SUFFIXES:
        assert shown_text(one, suffix).lines != shown_text(other, suffix).lines


# Of Unicode's list of confusable characters, and of the same kinds.
LIKE_SIGNS = (
    "\u09ea\u09ed\u0a6a\u0b68\u0c66\u0ce6\u0660\u06f0\u02c2\u02c3\u02d7\u02f8\ua789\u16ec\u205a\u1400"
    "\u2e40\u2041\u1735\u4e3f\u30ce\u31d4\u31d3\u3014\u2502\u066b\u060d\u16ed\u02c4\u2016\u1438\u2500"
    "\u23fd\u4e36\u1433\u0431\u0417\u097d\u226a\u2afd\u2e28\u0964\u061f\u1362\u2776\u1369\u00ab\u30fc"
    "\U00011da3\U0001d236\U00016f3f\u3003\u3007\u2052\u29fa\u2e17\ufe32"
)


@pytest.mark.parametrize("one", LIKE_SIGNS)
@pytest.mark.parametrize("suffix", [".sh", ".py", ".yaml"])
def test_what_reads_as_a_sign_or_a_digit_is_an_escape_in_code(one: str, suffix: str) -> None:
    shown = shown_text(f"rm -r '/srv/1{one} {one}'\n".encode(), suffix)
    assert shown.lines[0].isascii()
    assert sum(shown.escapes.values()) == len("12")


def test_every_digit_of_another_script_is_an_escape_in_code() -> None:
    digits = [one for one in map(chr, range(0x80, 0x110000)) if unicodedata.category(one) == "Nd"]
    for one in digits:
        assert shown_text(f"limit = 1{one}\n".encode(), ".py").lines[0].isascii(), ascii(one)


@pytest.mark.parametrize(
    "text",
    [
        "\u2014 \u201cquotes\u201d \u2018x\u2019 \u00abg\u00bb",
        "\u2022 \u00b7 \u2026 \u2192 \u2713 \u2264",
        "\u251c\u2500\u2500 src \u2502 \u2514\u2500\u2500 a",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u0925\u0940\u0964 \u0968\u0966\u0968\u096c",
        "\u65e5\u672c\u8a9e\u3001\u30c6\u30b9\u30c8\u3002\u300c\u672c\u300d \u4e8c\u3007",
        "\u30ce\u30fc\u30c8",
        "\u05e9\u05dc\u05d5\u05dd \u0663 \u0643\u062a\u0628\u061f",
    ],
)
def test_signs_that_people_type_stay_in_prose(text: str) -> None:
    shown = shown_text(f"{text}\n".encode(), ".md")
    assert (shown.lines, shown.escapes) == ((text,), {})


@pytest.mark.parametrize(
    "one", ["\u0663", "\u0964", "\u02c2", "\u205a", "\u30ce", "\u2032", "\u3014"]
)
def test_a_sign_of_a_script_is_an_escape_in_prose_without_its_letters(one: str) -> None:
    assert shown_text(f"run 1{one} now\n".encode(), ".md").lines[0].isascii()
