import subprocess
import sys

import pytest

from lillux.errors import LilluxError
from ryeos.items.directives import parse_directive
from ryeos.items.header_values import MAX_HEADER_BYTES, MetadataError
from ryeos.items.headers import PARSERS, parse_header
from ryeos.items.knowledge import parse_knowledge
from ryeos.items.shell_headers import BARE_SCRIPT

EMPTY = {".json": "{}", ".yaml": "{}", ".yml": "{}"}
SIGNATURE = ":2026-02-26T05:52:24Z:" + "a" * 64 + ":" + "B_-" * 28 + "aa==:" + "c" * 16


def parse_any(suffix: str, text: str) -> object:
    match suffix:
        case "directive":
            return parse_directive(text)
        case "knowledge":
            return parse_knowledge(text, ".md")
        case _:
            return parse_header(suffix, text)


@pytest.mark.parametrize("suffix", list(PARSERS))
def test_shebang_and_signature_lines_are_harmless(suffix: str) -> None:
    mark = "//" if suffix in {".js", ".ts", ".mjs", ".cjs"} else "#"
    lines = ["#!/usr/bin/env thing", f"{mark} rye:signed{SIGNATURE}", EMPTY.get(suffix, "")]

    assert parse_header(suffix, "\n".join(lines)) == (BARE_SCRIPT if suffix == ".sh" else {})


def test_a_shell_script_without_a_shebang_is_a_text() -> None:
    assert parse_header(".sh", "# lines\nf() { :; }\n") == {}


def test_a_shell_script_that_says_what_it_is_is_nothing_else() -> None:
    text = "#!/bin/sh\n# executor_id: a/b\n"

    assert parse_header(".sh", text) == {"__executor_id__": "a/b"}


def test_the_suffix_is_compared_without_case() -> None:
    assert parse_header(".PY", "A = 1") == {"A": 1}


def test_a_suffix_without_a_parser_is_an_error() -> None:
    with pytest.raises(MetadataError) as error:
        parse_header(".rs", "", "tool:demo/x")

    assert str(error.value) == (
        "tool:demo/x: expected a suffix of "
        ".py .yaml .yml .json .js .ts .mjs .cjs .sh .toml, found '.rs'"
    )


def test_an_error_names_the_file_when_it_is_known() -> None:
    with pytest.raises(MetadataError) as error:
        parse_header(".json", "[]", "tool:demo/x")

    assert str(error.value) == "tool:demo/x: json header: expected an object, found an array"
    assert error.value.problem == "expected an object, found an array"


def test_an_error_is_a_parsing_error_with_status_six() -> None:
    error = MetadataError("python", "expected a, found b", 3, hint="write a")

    assert isinstance(error, LilluxError)
    assert (error.code, error.exit_status, error.hint) == ("PARSING_ERROR", 6, "write a")
    assert str(error) == "python header, line 3: expected a, found b"


@pytest.mark.parametrize("suffix", [*PARSERS, "directive", "knowledge"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("é" * (MAX_HEADER_BYTES // 2 + 1), ": expected at most 1048576 bytes, found 1048578"),
        ("\n\n\0", ", line 3: expected text, found a NUL character"),
        ("\n\ud800", ", line 2: expected Unicode text, found half a surrogate pair"),
    ],
    ids=["too long", "NUL", "surrogate"],
)
def test_no_parser_starts_on_a_bad_text(suffix: str, text: str, problem: str) -> None:
    with pytest.raises(MetadataError) as error:
        parse_any(suffix, text)

    assert str(error.value) == f"{error.value.parser} header{problem}"


@pytest.mark.parametrize("suffix", [".py", ".sh", ".js"])
def test_a_header_that_needs_no_yaml_does_not_import_it(suffix: str) -> None:
    script = (
        "import sys\nfrom ryeos.items.headers import parse_header\n"
        f"parse_header({suffix!r}, '')\n"
        "print([name for name in ('yaml', 'tomllib', 'xml', 'json') if name in sys.modules])\n"
    )

    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, encoding="utf-8"
    )

    assert found.stdout == "[]\n"
