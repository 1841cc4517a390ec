"""The types `node_modules`, `venv_node` and `binary`."""

import sys
from pathlib import Path

import pytest

from lillux.errors import ConfigurationError
from lillux.interpreter_searches import SearchEnvironment
from lillux.interpreters import InterpreterResult, find_interpreter, parse_interpreter
from tests.support.executables import make_program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs here have mode bits")

WHERE = "env_config.interpreter"


class Places:
    """A project, a user and a PATH of one folder."""

    def __init__(self, folder: Path) -> None:
        self.project, self.user, self.system = (folder / n for n in ("project", "user", "system"))

    def find(
        self, type_: str, *, platform: str = "linux", without: str = "", **keys: object
    ) -> InterpreterResult:
        block = parse_interpreter(WHERE, {"type": type_, "var": "RYE_X", **keys})
        assert block is not None
        around = SearchEnvironment(
            variables={"PATH": str(self.system)},
            project_path=None if without == "project" else self.project,
            user_base=self.user,
            platform=platform,
        )
        return find_interpreter(block, around)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


# --- node_modules


def test_node_modules_finds_node_unless_another_program_is_named(places: Places) -> None:
    node = make_program(places.project / "node_modules/.bin/node")
    tsx = make_program(places.project / "node_modules/.bin/tsx")

    assert places.find("node_modules") == InterpreterResult(str(node))
    assert places.find("node_modules", binary="tsx") == InterpreterResult(str(tsx))


def test_node_modules_looks_where_search_paths_say(places: Places) -> None:
    make_program(places.project / "node_modules/.bin/node")
    other = make_program(places.project / "web/node_modules/.bin/node")

    found = places.find("node_modules", search_paths=["web/node_modules/.bin"])

    assert found.value == str(other)


@pytest.mark.parametrize("suffix", [".exe", ".cmd", ""])
def test_programs_of_packages_have_suffixes_on_windows(places: Places, suffix: str) -> None:
    program = make_program(places.project / f"node_modules/.bin/tsx{suffix}")

    assert places.find("node_modules", binary="tsx", platform="win32").value == str(program)


def test_node_modules_is_of_the_project_alone(places: Places) -> None:
    make_program(places.system / "node")
    make_program(places.user / "node_modules/.bin/node")

    folder = places.project / "node_modules/.bin"
    warning = f"{WHERE}: RYE_X stays unset: no node in {folder}"
    assert places.find("node_modules").warnings == (warning,)
    assert places.find("node_modules", without="project").value == ""


# --- venv_node


def test_venv_node_is_node_modules_and_then_path(places: Places) -> None:
    of_system = make_program(places.system / "node")
    make_program(places.user / "node_modules/.bin/node")

    first = places.find("venv_node").value
    of_project = make_program(places.project / "node_modules/.bin/node")
    second = places.find("venv_node").value

    assert (first, second) == (str(of_system), str(of_project))


def test_venv_node_searches_the_spaces_in_the_order_given(places: Places) -> None:
    make_program(places.project / "node_modules/.bin/node")
    make_program(places.system / "node")
    of_user = make_program(places.user / "node_modules/.bin/node")

    assert places.find("venv_node", search=["user", "system", "project"]).value == str(of_user)


# --- binary


@pytest.mark.parametrize("base", ["project", "user"])
def test_a_binary_is_found_in_the_program_folders_of_a_space(places: Places, base: str) -> None:
    root = places.project if base == "project" else places.user
    wanted = [
        root / folder / "jq"
        for folder in (".ai/bin", ".venv/bin", ".venv/Scripts", "node_modules/.bin", "bin")
    ]
    for program in wanted:
        make_program(program)

    found = []
    for program in wanted:
        found.append(places.find("binary", binary="jq", search=[base]).value)
        program.unlink()

    assert found == [str(program) for program in wanted]


def test_a_binary_is_named_by_its_fallback_when_nothing_else_names_it(places: Places) -> None:
    program = make_program(places.system / "mcp")

    assert places.find("binary", search=["system"], fallback="/opt/mcp").value == str(program)


def test_a_binary_is_searched_in_project_user_and_path_by_default(
    places: Places,
) -> None:
    programs = [
        make_program(places.project / "bin/jq"),
        make_program(places.user / "bin/jq"),
        make_program(places.system / "jq"),
    ]

    found = []
    for program in programs:
        found.append(places.find("binary", binary="jq").value)
        program.unlink()

    assert found == [str(program) for program in programs]


def test_every_folder_that_was_searched_in_vain_is_reported(places: Places) -> None:
    missing = places.find("binary", binary="jq", search=["user", "system"]).missing

    assert missing is not None
    assert missing.directories[:1] == (str(places.user / ".ai/bin"),)
    assert missing.directories[-1] == str(places.system)


def test_a_binary_without_any_name_is_an_error(places: Places) -> None:
    with pytest.raises(ConfigurationError) as error:
        places.find("binary")

    assert str(error.value) == f"{WHERE}.binary: expected a string, got nothing"


@pytest.mark.parametrize("type_", ["binary", "node_modules", "venv_node"])
@pytest.mark.parametrize("name", ["../evil", "a/b", "/bin/sh", "..", "a\\b"])
def test_a_path_is_no_name(places: Places, type_: str, name: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        places.find(type_, binary=name)

    assert str(error.value) == f"{WHERE}.binary: expected a name, got {name!r}"


@pytest.mark.parametrize("type_", ["binary", "venv_node"])
def test_an_unknown_space_is_an_error(places: Places, type_: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        places.find(type_, binary="x", search=["project", "planet"])

    assert str(error.value) == f"{WHERE}.search[1]: expected project, user or system, got 'planet'"
