import pytest

from ryeos.items.shell_headers import parse_shell


@pytest.mark.parametrize(
    "line",
    [
        "# version: 1.0.0",
        '# version: "1.0.0"',
        "#version: 1.0.0",
        "# @version 1.0.0",
        '# __version__ = "1.0.0"',
        "# __version__ = '1.0.0'",
        "# __version__=1.0.0",
        '__version__="1.0.0"',
        "__version__='1.0.0'",
        "__version__=1.0.0",
        '__version__="1.0.0"  # of the tool',
        '__version__="1.0.0"; export __version__',
    ],
)
def test_a_header_is_read_however_it_is_spelled(line: str) -> None:
    text = f"#!/bin/bash\n# rye:signed:2026-02-26T05:52:24Z:aa:bb:cc\n\n{line}\n\necho hi\n"

    assert parse_shell(text) == {"__version__": "1.0.0"}


def test_a_script_without_a_header_gives_no_fields() -> None:
    assert parse_shell('#!/bin/bash\n# rye:signed:x\n\nparams="$1"\necho "$params"\n') == {}


def test_prose_is_no_header() -> None:
    assert parse_shell("# Note: needs jq\n# usage: greet NAME\n# @author\n# see @version\n") == {}


def test_comments_below_the_first_command_are_ignored() -> None:
    assert parse_shell("set -e\n# version: 1.0.0\n# @category demo\n") == {}


def test_assignments_count_anywhere_at_the_beginning_of_a_line() -> None:
    text = 'set -e\n__version__="1.0.0"\nif true; then\n  __category__="indented"\nfi\n'

    assert parse_shell(text) == {"__version__": "1.0.0"}


@pytest.mark.parametrize(
    "line",
    [
        '__version__="$v"',
        '__version__="`v`"',
        '__version__="a\\"b"',
        '__version__="a"b',
        "__version__=a b",
        "__version__ = a",
        "__version__=$(v)",
        'version="1.0.0"',
        '__version__="open',
    ],
)
def test_values_that_need_a_shell_are_skipped(line: str) -> None:
    assert parse_shell(f"{line}\n") == {}


def test_the_more_explicit_spelling_wins() -> None:
    lines = ["# __version__ = 3", "# @version 2", "# version: 1", "# @category b", "# category: a"]

    header = parse_shell("\n".join([*lines, "__version__=4"]))

    assert header == {"__version__": "4", "__category__": "b"}


def test_the_last_of_a_spelling_wins() -> None:
    assert parse_shell("# version: 1\n# version: 2\n") == {"__version__": "2"}


def test_a_description_is_named_as_in_other_files() -> None:
    assert parse_shell("# description: Greets: everybody\n") == {
        "__tool_description__": "Greets: everybody"
    }
