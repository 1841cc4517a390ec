import io
import json

import pytest

from ryeos.app.commands import TABLE
from ryeos.app.output import Output, escaped, one_line
from tests.support.command_line import CommandLine


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("plain", 0, "plain"),
        ("two\nlines\tand\u2028more", 0, "two lines and more"),
        ("\x1b[31mred\x1b[0m", 0, r"\u001b[31mred\u001b[0m"),
        ("right\u202eleft", 0, r"right\u202eleft"),
        ("bytes \udcff", 0, r"bytes \udcff"),
        ("exactly ten", 11, "exactly ten"),
        ("exactly ten", 10, "exactly t\u2026"),
        ("", 5, ""),
    ],
)
def test_foreign_text_is_one_harmless_line(text: str, width: int, shown: str) -> None:
    assert one_line(text, width) == shown


@pytest.mark.parametrize("steering", ["\x1b[2J", "\x9b2J", "\u202eback", "\u2066back", "\x7f"])
def test_json_says_the_same_and_steers_no_terminal(steering: str) -> None:
    said = json.dumps({"text": f"grün {steering}"}, ensure_ascii=False)

    assert json.loads(escaped(said)) == {"text": f"grün {steering}"}
    assert escaped(said).isprintable()


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_bytes_that_are_no_text_do_not_break_an_error(
    cli: CommandLine, flags: tuple[str, ...]
) -> None:
    done = cli("load", "a\udcff", *flags)

    assert done.status == 3
    assert "internal error" not in done.stdout + done.stderr
    if flags:
        assert "Item not found: a\udcff " in done.json["error"]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("color", "platform", "environ", "painted"),
    [
        ("auto", "linux", {}, True),
        ("auto", "linux", {"NO_COLOR": "1"}, False),
        ("auto", "linux", {"NO_COLOR": ""}, True),
        ("auto", "linux", {"TERM": "dumb"}, False),
        ("always", "win32", {"NO_COLOR": "1"}, True),
        ("never", "linux", {"FORCE_COLOR": "1"}, False),
        ("auto", "win32", {}, False),
        ("auto", "win32", {"WT_SESSION": "1"}, True),
        ("auto", "win32", {"FORCE_COLOR": "1"}, True),
    ],
)
def test_colours_are_shown_where_they_make_sense(
    *, color: str, platform: str, environ: dict[str, str], painted: bool
) -> None:
    output = Output(color=color, environ=environ, platform=platform)

    shown = output.paint("text", "red", stream=Terminal())

    assert shown == ("\x1b[31mtext\x1b[0m" if painted else "text")


def test_a_pipe_gets_colours_only_on_request() -> None:
    plain = Output(environ={}, platform="linux")
    forced = Output(environ={"CLICOLOR_FORCE": "1"}, platform="linux")

    assert plain.paint("text", "red", stream=io.StringIO()) == "text"
    assert forced.paint("text", "red", stream=io.StringIO()) == "\x1b[31mtext\x1b[0m"


# Arguments behind the name of a helper program are that program's own.
ANSWERING = [entry.words for entry in TABLE if not entry.words.startswith("lillux-")]


@pytest.mark.parametrize("words", ANSWERING)
def test_every_command_answers_a_usage_error_with_one_document(
    words: str, cli: CommandLine
) -> None:
    done = cli(*words.split(), "--no-such-flag", "--json")

    assert done.status == 2
    assert done.json["status"] == "error"
    assert done.json["code"] == "INVALID_PARAMS"
    assert done.stderr == ""
