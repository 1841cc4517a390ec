import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.dotenv_files import (
    MAX_DOTENV_BYTES,
    MAX_WARNINGS,
    NEVER_FROM_DOTENV,
    ONLY_IF_ABSENT,
    DotenvValues,
    read_dotenv,
)

NOTHING: Mapping[str, str] = {}

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="a file that only POSIX has")


def dotenv(
    project: Path,
    content: str | bytes,
    present: Mapping[str, str] = NOTHING,
    platform: str = "linux",
) -> DotenvValues:
    data = content if isinstance(content, bytes) else content.encode()
    (project / ".env").write_bytes(data)
    return read_dotenv(project, present, platform=platform)


# --- contents of the file


def test_a_missing_file_adds_nothing(tmp_path: Path) -> None:
    assert read_dotenv(tmp_path, {}) == DotenvValues({}, ())


def test_a_missing_project_adds_nothing(tmp_path: Path) -> None:
    assert read_dotenv(tmp_path / "nowhere", {}) == DotenvValues({}, ())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NAME=plain", "plain"),
        ("export NAME=exported", "exported"),
        ("  NAME = spaced  ", "spaced"),
        ("NAME=", ""),
        ("NAME='single #1'", "single #1"),
        (r'NAME="two\nlines"', "two\nlines"),
        ('NAME="real\nlines"', "real\nlines"),
        (r"NAME='no\nescape'", r"no\nescape"),
        ("NAME=value # comment", "value"),
        ("NAME=value#part", "value#part"),
        ("NAME=a=b=c", "a=b=c"),
        ("NAME=grüße-✓", "grüße-✓"),
        ("\ufeffNAME=after a byte order mark", "after a byte order mark"),
        ("NAME=first\nNAME=second", "second"),
        ("NAME=carriage\r\n", "carriage"),
        ("NAME=${HOME}/x", "${HOME}/x"),
        ("NAME=$HOME", "$HOME"),
    ],
)
def test_a_value_is_read_as_python_dotenv_reads_it(tmp_path: Path, line: str, value: str) -> None:
    values = dotenv(tmp_path, line, {"HOME": "/home/me"})

    assert values == DotenvValues({"NAME": value}, ())


def test_comments_and_blank_lines_are_silent(tmp_path: Path) -> None:
    assert dotenv(tmp_path, "# a comment\n\n   \n#B=1\n") == DotenvValues({}, ())


def test_a_line_that_assigns_nothing_is_ignored_by_its_number(tmp_path: Path) -> None:
    values = dotenv(tmp_path, "A=1\n\nexport JUST_A_NAME\nB='open\nC=3\n")

    assert values.variables == {"A": "1", "C": "3"}
    assert values.warnings == (
        f"{tmp_path / '.env'}: line 3 is ignored: expected NAME=value",
        f"{tmp_path / '.env'}: line 4 is ignored: expected NAME=value",
    )


def test_an_ordinary_name_lies_over_the_process_environment(tmp_path: Path) -> None:
    values = dotenv(tmp_path, "DATABASE_URL=from-file", {"DATABASE_URL": "from-process"})

    assert values == DotenvValues({"DATABASE_URL": "from-file"}, ())


# --- names that are refused


def example(pattern: str) -> str:
    return pattern.replace("*", "EXAMPLE")


@pytest.mark.parametrize("name", [example(name) for name in NEVER_FROM_DOTENV])
def test_a_name_that_makes_programs_run_code_is_never_taken(tmp_path: Path, name: str) -> None:
    values = dotenv(tmp_path, f"{name}=secret-value\nOTHER=1")

    refusal = f"{tmp_path / '.env'}: {name} is not taken: it is never read from an unsigned file"
    assert values == DotenvValues({"OTHER": "1"}, (refusal,))


@pytest.mark.parametrize("name", [example(name) for name in ONLY_IF_ABSENT])
def test_a_protected_name_does_not_change_a_set_variable(tmp_path: Path, name: str) -> None:
    values = dotenv(tmp_path, f"{name}=secret-value", {name: "mine"})

    refusal = f"{tmp_path / '.env'}: {name} is not taken: it is protected and already set"
    assert values == DotenvValues({}, (refusal,))


@pytest.mark.parametrize("name", [example(name) for name in ONLY_IF_ABSENT])
def test_a_protected_name_fills_a_gap(tmp_path: Path, name: str) -> None:
    assert dotenv(tmp_path, f"{name}=value") == DotenvValues({name: "value"}, ())


def test_a_protected_name_that_is_set_but_empty_is_not_a_gap(tmp_path: Path) -> None:
    assert dotenv(tmp_path, "IFS=x", {"IFS": ""}).variables == {}


def test_a_name_that_only_begins_like_a_protected_one_is_ordinary(tmp_path: Path) -> None:
    values = dotenv(tmp_path, "PATHS=1\nHOMEPAGE=2\nENVIRONMENT=3\nOLD_LD_PATH=4", {"PATH": "/bin"})

    assert values.warnings == ()
    assert list(values.variables) == ["PATHS", "HOMEPAGE", "ENVIRONMENT", "OLD_LD_PATH"]


def test_case_does_not_matter_on_windows(tmp_path: Path) -> None:
    content = "Path=evil\nNode_Options=evil\nMyName=ok"
    values = dotenv(tmp_path, content, {"PATH": "C:\\Windows"}, platform="win32")

    assert values.variables == {"MYNAME": "ok"}
    assert values.warnings == (
        f"{tmp_path / '.env'}: PATH is not taken: it is protected and already set",
        f"{tmp_path / '.env'}: NODE_OPTIONS is not taken: it is never read from an unsigned file",
    )


def test_case_matters_elsewhere(tmp_path: Path) -> None:
    assert dotenv(tmp_path, "Path=mine", {"PATH": "/bin"}).variables == {"Path": "mine"}


def test_a_name_with_an_equals_sign_or_nul_is_dropped(tmp_path: Path) -> None:
    values = dotenv(tmp_path, "'A=B'=1\nC\0D=2\nE=3\0\nF=4")

    problem = "a name must not contain '=' or NUL"
    assert values.variables == {"F": "4"}
    assert values.warnings == (
        f"{tmp_path / '.env'}: A=B is not taken: {problem}",
        f"{tmp_path / '.env'}: C\\u0000D is not taken: {problem}",
        f"{tmp_path / '.env'}: E is not taken: its value contains NUL",
    )


def test_a_name_repeated_is_refused_once(tmp_path: Path) -> None:
    assert len(dotenv(tmp_path, "LD_PRELOAD=a\n" * 9).warnings) == 1


def test_a_flood_of_refusals_is_cut_off(tmp_path: Path) -> None:
    values = dotenv(tmp_path, "".join(f"LD_{n}=x\n" for n in range(MAX_WARNINGS + 7)))

    assert len(values.warnings) == MAX_WARNINGS + 1
    assert values.warnings[-1] == f"{tmp_path / '.env'}: 7 more statements are not taken"


def test_a_warning_is_one_short_line_without_control_characters(tmp_path: Path) -> None:
    values = dotenv(tmp_path, f"LD_\x1b[2J\u202e=x\nLD_{'A' * 5000}=x\n'LD_\n'=x")

    assert all(warning.isprintable() for warning in values.warnings)
    assert max(map(len, values.warnings)) < len(str(tmp_path)) + 200


# --- files that are ignored


def ignored(project: Path) -> str:
    values = read_dotenv(project, {})
    assert values.variables == {}
    (warning,) = values.warnings
    return warning.removeprefix(f"{project / '.env'}: ignored: ")


def test_bytes_that_are_not_utf8_ignore_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=1\nB=\xff\n")

    assert ignored(tmp_path) == "expected UTF-8, found another byte at 6"


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    content = "A=" + "x" * (MAX_DOTENV_BYTES - 2)

    assert dotenv(tmp_path, content).variables == {"A": content[2:]}


def test_a_larger_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"#" * (MAX_DOTENV_BYTES + 1))

    assert ignored(tmp_path) == "expected at most 1048576 bytes, found 1048577"


@needs_posix
def test_a_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()

    assert ignored(tmp_path) == "is a directory"


@needs_posix
def test_a_project_that_is_a_file_is_ignored(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.touch()

    assert ignored(project) == "not a directory"


@needs_posix
def test_a_fifo_is_ignored_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")

    assert ignored(tmp_path) == "expected a regular file"


@needs_posix
def test_a_link_to_a_device_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to("/dev/zero")

    assert ignored(tmp_path) == "it is a symbolic link that leaves the project"


@needs_posix
def test_a_link_to_itself_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to(".env")

    assert ignored(tmp_path) == "too many levels of symbolic links"


@needs_posix
def test_a_link_out_of_the_project_is_ignored(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "project-evil").mkdir()
    (tmp_path / "project-evil" / "env").write_text("A=1", encoding="utf-8")
    (project / ".env").symlink_to("../project-evil/env")

    assert ignored(project) == "it is a symbolic link that leaves the project"


@needs_posix
def test_a_link_inside_the_project_is_followed(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "env").write_text("A=1", encoding="utf-8")
    (tmp_path / ".env").symlink_to("config/env")

    assert read_dotenv(tmp_path, {}) == DotenvValues({"A": "1"}, ())


@needs_posix
def test_a_project_reached_by_a_link_has_its_env_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / ".env").write_text("A=1", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")

    assert read_dotenv(tmp_path / "link", {}) == DotenvValues({"A": "1"}, ())


def test_blanks_that_would_keep_the_parser_busy_ignore_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"A=x{' ' * 1_000_000}y", encoding="utf-8")

    assert ignored(tmp_path) == "expected at most 256 blanks in a row, found more"


@pytest.mark.parametrize(
    "piece", ["A=x" + " " * 256, "A='", 'A="', "A=\\'", "export ", "=", "#", "\n", "'"]
)
def test_no_file_keeps_the_parser_busy(tmp_path: Path, piece: str) -> None:
    content = piece * ((MAX_DOTENV_BYTES - 8) // len(piece))
    started = time.process_time()

    dotenv(tmp_path, content)

    assert time.process_time() - started < 30  # quadratic time would be many minutes


# --- laws


@pytest.mark.property
@given(content=st.binary(max_size=200))
def test_any_bytes_give_values_or_warnings(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    values = dotenv(tmp_path_factory.mktemp("project"), content, {"PATH": "/bin"})

    assert "PATH" not in values.variables
    assert not any("\0" in name + value for name, value in values.variables.items())


@pytest.mark.property
@given(value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=256))
def test_a_value_in_single_quotes_comes_back_whole(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")

    values = dotenv(tmp_path_factory.mktemp("project"), f"NAME='{quoted}'\n")

    assert values == DotenvValues({"NAME": value}, ())
