"""Tasks of package.json, justfile, Makefile and mise.toml. Examples: ``tests/vectors/imports``."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.imports.plan import ImportPlan, ImportSource
from ryeos.imports.tasks import read_tasks
from ryeos.items.errors import RyeError
from tests.support.errors import coded
from tests.support.programs import require_program

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "imports" / "tasks"


@pytest.fixture
def no_just(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where just is not installed."""
    monkeypatch.setenv("PATH", "")


def plan_of(name: str, folder: Path = VECTORS) -> ImportPlan:
    return read_tasks(ImportSource(path=folder / name, project=folder, base=folder))


def shown(plan: ImportPlan) -> dict[str, str]:
    return {item.name: item.shown for item in plan.items}


def written(text: str, name: str, folder: Path) -> ImportPlan:
    (folder / name).write_text(text, "utf-8")
    return plan_of(name, folder)


def test_scripts_of_a_package_are_tools_but_those_that_npm_runs_with_others() -> None:
    assert shown(plan_of("package.json")) == {
        "build": "prebuild: echo before; echo built",
        "say": "node say.js",
        "lint:fix": "eslint --fix . && echo done",
    }


def test_targets_of_a_makefile_are_tools_with_variables_as_parameters() -> None:
    plan = plan_of("Makefile")
    test = next(item for item in plan.items if item.name == "test")

    assert list(shown(plan)) == ["all", "test", "clean"]
    assert b"__tool_description__ = 'runs the tests'" in test.data
    assert b"('mode', 'MODE', 'assign')" in test.data
    assert b"'parts.mk'" in test.data
    assert any("build/%.o" in note for note in plan.notes)


def test_tasks_of_mise_are_tools_and_their_files_are_pinned() -> None:
    plan = plan_of("mise.toml")
    deploy = next(item for item in plan.items if item.name == "deploy")

    assert shown(plan) == {
        "lint": "ruff check .; mypy .",
        "hello": "echo hello",
        "deploy": "the file deploy.sh",
    }
    assert b"'deploy.sh'" in deploy.data


@pytest.mark.usefixtures("no_just")
def test_recipes_are_read_without_just_too() -> None:
    plan = plan_of("justfile")
    build = plan.items[0]

    assert list(shown(plan)) == ["build", "count", "hello"]
    assert b"('target', '', 'value'), ('flags', '', 'list')" in build.data
    assert b"'more.just'" in build.data
    assert "small reader" in plan.notes[0]


def test_recipes_of_a_justfile_are_read_by_just() -> None:
    require_program("just")

    plan = plan_of("justfile")

    assert {"build", "count", "hello"} == set(shown(plan))
    assert plan.notes == ()


@pytest.mark.usefixtures("no_just")
def test_recipes_that_the_small_reader_does_not_understand_are_named(tmp_path: Path) -> None:
    plan = written("a:\n    echo a\n???\n", "justfile", tmp_path)

    assert list(shown(plan)) == ["a"]
    assert "???" in plan.notes[-1]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("Makefile", "include ../../x.mk\nall:\n\techo\n", "cannot be pinned"),
        ("Makefile", "include $(shell id).mk\nall:\n\techo\n", "cannot be pinned"),
        ("Makefile", "include /etc/passwd\nall:\n\techo\n", "cannot be pinned"),
        ("mise.toml", '[tasks.x]\nfile = "../x.sh"\n', "cannot be pinned"),
        ("mise.toml", '[tasks."-x"]\nrun = "echo"\n', "its name has more"),
        ("package.json", '{"scripts": {"a b": "x"}}', "its name has more"),
        ("package.json", '{"scripts": {"a": 1}}', "expected a text"),
    ],
)
def test_a_task_that_cannot_be_held_is_refused(
    name: str, text: str, problem: str, tmp_path: Path
) -> None:
    (item,) = written(text, name, tmp_path).items

    assert any(problem in one for one in item.problems)
    assert item.data == b""


@pytest.mark.parametrize("name", ["package.json", "mise.toml"])
@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\x00", "[]"])
def test_a_malformed_file_is_reported(name: str, text: str, tmp_path: Path) -> None:
    if name == "mise.toml" and text == "[]":
        text = "tasks = 3"
    with pytest.raises(RyeError, check=coded("IMPORT_UNREADABLE")):
        written(text, name, tmp_path)


@pytest.mark.usefixtures("no_just")
@pytest.mark.parametrize("name", ["Makefile", "justfile"])
def test_long_lines_are_read_in_linear_time(name: str, tmp_path: Path) -> None:
    plan = written(("a " * 100_000 + ":\n") + ("x" * 500_000 + "\n") * 4, name, tmp_path)

    assert plan.items == () or len(plan.items) <= 200


TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(TEXTS)
def test_no_text_of_a_makefile_becomes_code(text: str) -> None:
    import ast
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        plan = written(f"{text}\nall: ## {text}\n\t{text}\n", "Makefile", Path(folder))
        for item in plan.items:
            if item.problems:
                continue
            found = [
                n.names[0].name for n in ast.parse(item.data).body if isinstance(n, ast.Import)
            ]
            own = ["hashlib", "json", "os", "pathlib", "re", "shutil", "subprocess", "sys"]
            assert found == own
            assert item.shown.isprintable()
