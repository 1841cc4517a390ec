import io

import pytest

from ryeos.app.commands import TABLE
from ryeos.app.output import Output
from tests.support.command_line import CommandLine


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
