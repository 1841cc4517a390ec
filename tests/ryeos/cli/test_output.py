import pytest

from ryeos.cli.output import one_line
from tests.support.command_line import CommandLine


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("plain", 0, "plain"),
        ("two\nlines\tand\u2028more", 0, "two lines and more"),
        ("\x1b[31mred\x1b[0m", 0, "\ufffd[31mred\ufffd[0m"),
        ("right\u202eleft", 0, "right\ufffdleft"),
        ("bytes \udcff", 0, "bytes \ufffd"),
        ("exactly ten", 11, "exactly ten"),
        ("exactly ten", 10, "exactly t\u2026"),
        ("", 5, ""),
    ],
)
def test_text_of_strangers_is_one_harmless_line(text: str, width: int, shown: str) -> None:
    assert one_line(text, width) == shown


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_bytes_that_are_no_text_do_not_break_an_error(
    cli: CommandLine, flags: tuple[str, ...]
) -> None:
    done = cli("load", "a\udcff", *flags)

    assert done.status == 3
    assert "internal error" not in done.stdout + done.stderr
    if flags:
        assert done.json["error"].startswith("Item not found: a\udcff ")
