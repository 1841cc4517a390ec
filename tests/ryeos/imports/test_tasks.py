"""Tasks of package.json, justfile, Makefile and mise.toml. Examples: ``tests/vectors/imports``."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.imports.kinds import sources_at
from ryeos.imports.plan import ImportPlan, ImportSource
from ryeos.imports.tasks import further_files, read_tasks
from ryeos.items.errors import RyeError
from ryeos.items.headers import parse_header
from ryeos.items.task_items import TaskItem
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
    assert b"[['mode', 'MODE', 'assign']]" in test.data
    assert b"'parts.mk': " in test.data
    assert any("build/%.o" in note for note in plan.notes)


def test_tasks_of_mise_are_tools_and_their_files_are_pinned() -> None:
    plan = plan_of("mise.toml")
    deploy = next(item for item in plan.items if item.name == "deploy")

    assert shown(plan) == {
        "lint": "ruff check .; mypy .",
        "hello": "echo hello",
        "deploy": "the file deploy.sh",
    }
    assert b"'deploy.sh': " in deploy.data


@pytest.mark.usefixtures("no_just")
def test_recipes_are_read_without_just_too() -> None:
    plan = plan_of("justfile")
    build = plan.items[0]

    assert list(shown(plan)) == ["build", "count", "hello"]
    assert b"['target', '', 'value', 'debug'], ['flags', '', 'list']" in build.data
    assert b"'more.just': " in build.data
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


def said_by(data: bytes) -> TaskItem:
    """What the text of a tool says of its task."""
    return TaskItem.from_config(parse_header(".py", data.decode(), "tool")["CONFIG"])


KEYS = [
    *("__version__", "__tool_type__", "__executor_id__", "__category__", "__tool_description__"),
    *("CONFIG_SCHEMA", "SANDBOX", "CONFIG"),
]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(TEXTS)
def test_no_text_of_a_makefile_becomes_another_key_of_its_tool(text: str) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        plan = written(f"{text}\nall: ## {text}\n\t{text}\n", "Makefile", Path(folder))
        for item in plan.items:
            if item.problems:
                continue
            header = parse_header(".py", item.data.decode(), "tool")
            assert list(header) == KEYS
            said = TaskItem.from_config(header["CONFIG"])
            assert said.runs == item.steps
            assert said.command[:3] == ("make", "--no-print-directory", "-f")
            assert item.shown.isprintable()


def steps(plan: ImportPlan, name: str) -> list[str]:
    return next(list(item.steps) for item in plan.items if item.name == name)


def test_the_recipe_is_shown_and_not_a_variable_of_its_target_alone(tmp_path: Path) -> None:
    plan = written("wipe: MODE = all\nwipe:\n\trm -rf ./precious\n", "Makefile", tmp_path)

    assert steps(plan, "wipe") == ["with MODE = all", "rm -rf ./precious"]


def test_everything_that_make_runs_for_a_target_is_shown_in_order(tmp_path: Path) -> None:
    text = """\
CLEAN := rm -rf out
X := $(shell id)
SHELL = /bin/dash
include more.mk
all: $(NEEDS) main.o ## builds
\t@echo one; \\
\t  $(CLEAN)

# between
ifdef CI
\techo in CI
endif
\t$(MAKE) tidy
NEEDS = lint
tidy: ; echo tidy
%.o: %.c
\tcc $<
Makefile: template
\t./make-it
"""
    (tmp_path / "more.mk").write_text("NEEDS = lint\nlint:\n\truff .\n", "utf-8")

    plan = written(text, "Makefile", tmp_path)

    assert steps(plan, "all") == [
        "as make reads the file: X := $(shell id)",
        "as make reads the file: Makefile: ./make-it",
        "lint: ruff .",
        "main.c: a file, or a target of a rule that make has by itself",
        "main.o: cc $<",
        "@echo one; $(CLEAN)",
        "echo in CI (ifdef CI)",
        "$(MAKE) tidy",
        "tidy: echo tidy",
        "where SHELL = /bin/dash",
        "where CLEAN := rm -rf out",
    ]


def test_variables_that_nothing_sets_are_parameters_of_a_target(tmp_path: Path) -> None:
    text = "A = 1\nt:\n\tdeploy $(A) $(ENV) $${HOME} $@ $(CC) $(call f,x)\n"
    (item,) = written(text, "Makefile", tmp_path).items

    assert b"'arguments': [['env', 'ENV', 'assign']]" in item.data


def test_a_part_that_may_be_absent_is_held_to_be_so(tmp_path: Path) -> None:
    text = "-include .env local.mk\nsinclude x.mk\nhello:\n\techo hello\n"
    (item,) = written(text, "Makefile", tmp_path).items

    assert item.problems == ()
    assert b"'absent': ['.env', 'local.mk', 'x.mk']" in item.data
    assert any("line 1: .env: not there" in note for note in item.notes)


def test_a_part_that_must_be_there_is_named_with_its_line(tmp_path: Path) -> None:
    (item,) = written("\ninclude x.mk\nhello:\n\techo hello\n", "Makefile", tmp_path).items

    assert item.problems == ("line 2: x.mk: expected a file, found none",)


def test_scripts_before_and_after_another_and_those_that_it_calls_are_shown(tmp_path: Path) -> None:
    text = """{"scripts": {"pretest": "echo first", "test": "npm run lint && jest",
        "posttest": "rm -rf x", "lint": "eslint", "prelint": "tsc", "all": "run-s lint:* test",
        "lint:js": "eslint js"}}"""

    plan = written(text, "package.json", tmp_path)

    assert steps(plan, "test") == [
        "pretest: echo first",
        "npm run lint && jest",
        "prelint: tsc",
        "lint: eslint",
        "posttest: rm -rf x",
    ]
    assert steps(plan, "all")[:2] == ["run-s lint:* test", "lint:js: eslint js"]


def test_tasks_that_a_task_of_mise_depends_on_or_runs_are_shown(tmp_path: Path) -> None:
    text = """
[env]
_.source = "env.sh"
[tasks.all]
depends = ["secret", "lint:*"]
depends_post = "end"
run = ["echo all", {task = "one"}, {tasks = ["one", "two"]}]
[tasks.secret]
hide = true
run = "rm x"
[tasks."lint:a"]
file = "lint.sh"
[tasks]
one = "echo 1"
two = ["echo 2", "echo 3"]
end = "echo end"
"""
    (tmp_path / "lint.sh").write_text("lint\n", "utf-8")

    plan = written(text, "mise.toml", tmp_path)
    (item,) = (one for one in plan.items if one.name == "all")

    assert item.problems == ()
    assert list(item.steps) == [
        'before every task: env._.source = "env.sh"',
        "secret: rm x",
        "lint:a: the file lint.sh",
        "echo all",
        "the tasks one",
        "the tasks one, two",
        "one: echo 1",
        "two: echo 2",
        "two: echo 3",
        "end: echo end",
    ]
    assert b"'lint.sh': " in item.data


def test_a_task_of_mise_that_is_not_read_refuses_those_alone_that_run_it(tmp_path: Path) -> None:
    text = '[tasks.a]\ndepends = "b"\nrun = "x"\n[tasks.b]\nrun = 3\n[tasks.c]\nrun = "y"\n'

    problems = {one.name: one.problems for one in written(text, "mise.toml", tmp_path).items}

    assert problems["c"] == ()
    assert "b: run: expected a text" in problems["a"][0]
    assert "run: expected a text" in problems["b"][0]


JUSTFILE = """\
set shell := ["bash", "-cu"]
import? 'none.just'
import 'sub/more.just'
mod db
mod? gone
version := `git describe`
name := "a" + version
[private]
base:
    echo base

deploy env='staging' tag='latest': base _hidden && (end "x") db::up
    #!/usr/bin/env python3
    import sys
    mod foo
    print("{{env}} {{name}}")

end what:
    echo {{what}}
"""


@pytest.fixture(params=["small reader", "just"])
def just_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a justfile in parts, read by just, and where it is not installed."""
    if request.param == "just":
        require_program("just")
    else:
        request.getfixturevalue("monkeypatch").setenv("PATH", "")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/more.just").write_text("import 'last.just'\n", "utf-8")
    (tmp_path / "sub/last.just").write_text("_hidden:\n    echo hidden\n", "utf-8")
    (tmp_path / "db.just").write_text("up: down\n    echo up\n_x:\ndown:\n    rm db\n", "utf-8")
    return tmp_path


def test_everything_that_just_runs_for_a_recipe_is_shown_in_order(just_folder: Path) -> None:
    shown_steps = steps(written(JUSTFILE, "justfile", just_folder), "deploy")

    rest = [one for one in shown_steps if not one.startswith(("set shell", "runs "))]
    assert len(rest) == len(shown_steps) - 2
    assert rest == [
        "base: echo base",
        "_hidden: echo hidden",
        "#!/usr/bin/env python3",
        "import sys",
        "mod foo",
        'print("{{env}} {{name}}")',
        "end: echo {{what}}",
        "db::down: rm db",
        "db::up: echo up",
        "where version := `git describe`",
        'where name := "a" + version',
    ]


def test_parts_of_a_justfile_are_its_imports_and_modules_alone(just_folder: Path) -> None:
    plan = written(JUSTFILE, "justfile", just_folder)
    item = next(one for one in plan.items if one.name == "deploy")

    assert item.problems == ()
    for name in (b"'sub/more.just'", b"'sub/last.just'", b"'db.just'"):
        assert name in item.data
    assert b"'absent': ['none.just', 'gone.just', 'gone/mod.just'" in item.data
    assert {"deploy", "end", "db::up", "db::down"} == set(shown(plan))


def test_an_absent_module_is_named_with_its_line(no_just: None, tmp_path: Path) -> None:
    (item,) = written("a:\n    echo\nmod db\n", "justfile", tmp_path).items

    assert item.problems == ("line 3: db.just: expected a file, found none",)


def run_tool(item: object, folder: Path, **given: object) -> str:
    """What a task prints, or why it does not run; its runner prints its words."""
    import subprocess

    from ryeos.imports.plan import ProposedItem

    assert isinstance(item, ProposedItem)
    said = said_by(item.data)
    try:
        said.require_unchanged(folder)
        words = [str(folder / "bin" / said.command[0]), *said.command[1:], *said.words(given)]
    except RyeError as error:
        return str(error)
    return subprocess.run(words, capture_output=True, encoding="utf-8", check=True).stdout


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A folder with programs ``just`` and ``make`` that print their words."""
    from tests.support.executables import make_program

    for name in ("just", "make"):
        make_program(tmp_path / "bin" / name, 'echo "$@"\n')
    return tmp_path


def test_a_value_never_takes_the_place_of_another(runner: Path, no_just: None) -> None:
    text = "deploy env='staging' tag='latest' more=`date` *rest:\n    echo\n"
    (item,) = written(text, "justfile", runner).items

    assert run_tool(item, runner, tag="v2").split()[-2:] == ["staging", "v2"]
    assert run_tool(item, runner, env="prod").split()[-2:] == ["deploy", "prod"]
    assert "more: expected a value, as rest stands behind it" in run_tool(
        item, runner, tag="v2", rest=["x"]
    )
    assert run_tool(item, runner, rest=[]).split()[-1] == "deploy"


def test_a_tool_stops_once_a_part_is_there_that_was_not(runner: Path) -> None:
    (item,) = written("-include .env\nhello:\n\techo hello\n", "Makefile", runner).items
    before = run_tool(item, runner)
    (runner / ".env").write_text("SHELL = evil\n", "utf-8")

    assert "hello" in before
    assert ".env: was not there when this was signed" in run_tool(item, runner)


def test_a_tool_takes_its_file_with_the_line_ends_of_git_on_windows(runner: Path) -> None:
    text = "hello:\n\techo hello\n"
    (item,) = written(text, "Makefile", runner).items
    for data, is_taken in (
        (text.replace("\n", "\r\n"), True),
        (text.replace("\n", "\r\n", 1), False),
        (text + "\r", False),
    ):
        (runner / "Makefile").write_bytes(data.encode())
        assert ("changed since" not in run_tool(item, runner)) is is_taken


def test_targets_above_the_limit_are_counted(tmp_path: Path) -> None:
    plan = written("".join(f"t{n}:\n\techo\n" for n in range(2003)), "Makefile", tmp_path)

    assert (len(plan.items), plan.left_out) == (2000, 3)


def test_a_chain_without_an_end_is_refused_and_not_walked(tmp_path: Path) -> None:
    rules = "".join(f"t{n}: t{n + 1}\n\techo {n}\n" for n in range(1050))

    plan = written(rules, "Makefile", tmp_path)

    assert len(plan.items) == 1050
    assert "more than 1000 lines" in plan.items[0].problems[0]
    assert plan.items[-1].problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "X = a\nX = b\ninclude $(X).mk\n",
        "X ?= a\ninclude $(X).mk\n",
        "ifdef Y\nX = a\nendif\n-include $(X).mk\n",
        "X = a\n$(eval X = b)\n-include $(X).mk\n",
        "-include ~/a.mk\n",
        "-include a\\b.mk\n",
        "-include */a.mk\n",
    ],
)
def test_an_include_whose_file_is_not_sure_is_not_taken(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.mk").write_text("", "utf-8")
    (tmp_path / "b.mk").write_text("", "utf-8")
    (item,) = written(f"{text}t:\n\techo\n", "Makefile", tmp_path).items

    assert "a part that cannot be pinned" in item.problems[0]


def test_an_include_by_a_variable_of_one_value_is_pinned(tmp_path: Path) -> None:
    (tmp_path / "a.mk").write_text("", "utf-8")
    (item,) = written("X := a\ninclude $(X).mk\nt:\n\techo\n", "Makefile", tmp_path).items

    assert item.problems == ()
    assert b"'a.mk': " in item.data


@pytest.mark.parametrize(
    "line", ["import '''a.just'''", 'import? "\\x61.just"', "import?    x'~/a.just'", "mod a = b"]
)
def test_a_part_of_a_justfile_in_another_form_is_not_passed_over(
    line: str, no_just: None, tmp_path: Path
) -> None:
    (item,) = written(f"{line}\nt:\n    echo\n", "justfile", tmp_path).items

    assert "line 1: " in item.problems[0]


def test_long_lists_of_needs_are_shown_whole(tmp_path: Path) -> None:
    needs = " ".join(f"need{n}" for n in range(600))
    rules = "".join(f"need{n}:\n\techo {n}\n" for n in range(600))

    plan = written(f"all: {needs}\n{rules}", "Makefile", tmp_path)

    assert steps(plan, "all")[-1] == "need599: echo 599"


def test_a_tool_that_says_that_it_runs_something_else_is_named_to_its_signer(
    tmp_path: Path,
) -> None:
    (item,) = written("t:\n\techo one\n", "Makefile", tmp_path).items
    lying = item.data.replace(b"echo one", b"echo two")

    true, untrue = (
        further_files(
            TaskItem.from_config(parse_header(".py", data.decode(), "tool")["CONFIG"]), tmp_path
        )
        for data in (item.data, lying)
    )

    assert [(one.path, one.problem) for one in true] == [("Makefile", "")]
    assert [one.problem for one in untrue] == [
        "",
        "is not what the task of its file runs; import it again",
    ]


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("m.toml", '[tasks.x]\nrun = "echo"\n', "mise reads mise.toml alone"),
        ("pkg.json", '{"scripts": {"x": "echo"}}', "npm reads package.json alone"),
    ],
)
def test_a_file_that_its_runner_would_not_read_is_refused(
    name: str, text: str, read: str, tmp_path: Path
) -> None:
    (item,) = written(text, name, tmp_path).items

    assert item.problems[0].startswith(read)


def test_rules_of_make_are_known_by_their_suffix(tmp_path: Path) -> None:
    path = tmp_path / "rules.mk"
    path.write_text("all:\n\techo\n", "utf-8")

    assert [kind.name for kind, _ in sources_at(path)] == ["task"]
