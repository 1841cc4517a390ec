"""What a task starts in other files: make, npm, just and mise by each other's lines."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.imports.makefile_values import MakeValues
from ryeos.imports.plan import ImportPlan, ImportSource, ProposedItem
from ryeos.imports.runner_starts import starts_of
from ryeos.imports.tasks import read_tasks
from ryeos.items.errors import RyeError
from ryeos.items.headers import parse_header
from ryeos.items.task_items import TaskItem
from tests.support.programs import require_program

FILES = {
    "sub/Makefile": "lint:\n\t@echo MARK-SUB\nother:\n\t@echo MARK-OTHER\n",
    "sub2/Makefile": "lint:\n\t@echo MARK-SUB2\n",
    "gnu/Makefile": "lint:\n\t@echo MARK-NOT\n",
    "gnu/GNUmakefile": "lint:\n\t@echo MARK-GNU\n",
    "deep/Makefile": "x: y\n\t@$(MAKE) -C er\ny:\n\t@echo MARK-Y\n",
    "deep/er/Makefile": "z:\n\t@echo MARK-DEEP; $(MAKE) -C ../../sub\n",
    "more.mk": "extra:\n\t@echo MARK-EXTRA\n",
    "with.mk": "W ?= a\nx: t-$(W)\nt-a:\n\t@echo MARK-A\nt-b:\n\t@echo MARK-B\n",
    "src/a.c": "",
    "sub/package.json": '{"name": "s", "version": "1.0.0", "scripts": {"gen": "echo MARK-GEN", '
    '"pregen": "echo MARK-PREGEN"}}',
    "packages/a/package.json": '{"name": "aa", "version": "1.0.0", "scripts": '
    '{"gen": "echo MARK-PKG"}}',
    "sub/justfile": "gen:\n    @echo MARK-JUST\nlast: gen\n    make lint\n",
    "sub/mise.toml": '[tasks.gen]\nrun = "echo MARK-MISE"\n',
}
SUB_STEPS = ["sub/package.json pregen: echo MARK-PREGEN", "sub/package.json gen: echo MARK-GEN"]
TWO = "t-a:\n\t@echo MARK-A\nt-b:\n\t@echo MARK-B\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with more files of runners below it."""
    for name, text in FILES.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    return tmp_path


def plan_of(folder: Path, name: str, text: str) -> ImportPlan:
    (folder / name).write_text(text, "utf-8")
    return read_tasks(ImportSource(path=folder / name, project=folder, base=folder))


def item_of(folder: Path, name: str, text: str, task: str = "all") -> ProposedItem:
    return next(one for one in plan_of(folder, name, text).items if one.name == task)


def marks_of(text: str) -> set[str]:
    return set(re.findall(r"MARK-[A-Z0-9]+", text))


def printed_by(folder: Path, *words: str) -> set[str]:
    """The marks on lines of their own: no line of a recipe that its runner prints."""
    done = subprocess.run(words, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    lines = (line for line in done.stdout.splitlines() if line.startswith("MARK-"))
    return marks_of("\n".join(lines))


# --- make -----------------------------------------------------------------------------------------

SHOWN = {
    "in another folder": "all:\n\t@$(MAKE) -C sub lint\nlint:\n\t@echo MARK-ROOT\n",
    "by its default goal": "all:\n\t@$(MAKE) -Csub\n",
    "in folders of a loop": (
        "DIRS = sub sub2\nall:\n\t@for d in $(DIRS); do $(MAKE) -C $$d lint; done\n"
    ),
    "behind cd in a loop": "all:\n\t@for d in sub sub2; do (cd $$d && $(MAKE) lint); done\n",
    "by targets that are folders": (
        "D := sub sub2\n.PHONY: $(D)\nall: $(D)\n$(D):\n\t@$(MAKE) -C $@\n"
    ),
    "by the stem of a pattern": "all: do-sub\ndo-%:\n\t@$(MAKE) -C $* lint\n",
    "by a variable": "M = $(MAKE) -C sub\nall:\n\t@$(M) lint\n",
    "by define": "define D\n@$(MAKE) -C sub lint\n@echo MARK-D\nendef\nall:\n\t$(D)\n",
    "by a default": "DIR ?= sub\nall:\n\t@$(MAKE) -C $(DIR) lint\n",
    "by another file": "all:\n\t@$(MAKE) -f with.mk x\n",
    "in one shell": ".ONESHELL:\nall:\n\t@cd sub\n\t$(MAKE) lint\n",
    "in a shell for each line": ("all:\n\t@cd sub\n\t@$(MAKE) lint\nlint:\n\t@echo MARK-ROOT\n"),
    "in quotes": "all:\n\t@sh -c '$(MAKE) -C sub lint'\n",
    "in backticks": "all:\n\t@echo `$(MAKE) -s -C sub lint`\n",
    "by $(shell) while it reads": "X := $(shell $(MAKE) -s -C sub lint)\nall:\n\t@echo $(X)\n",
    "with GNUmakefile first": "all:\n\t@$(MAKE) -C gnu lint\n",
    "over several folders": "all:\n\t@$(MAKE) -C deep\n",
    "by $(CURDIR)": "all:\n\t@cd src && $(MAKE) -C $(CURDIR)/sub lint\n",
    "by a target below $(CURDIR)": "D := $(CURDIR)/x\nall: $(D)/y\n$(D)/y:\n\t@echo MARK-Y\n",
    "by its own default goal": "t-a:\n\t@echo MARK-A\nall:\n\t@$(MAKE)\n",
    "by .DEFAULT_GOAL": ".DEFAULT_GOAL := t-a\nall:\n\t@$(MAKE)\n" + TWO,
    "by +=": "N := t-a\nN += t-b\nall: $(N)\n" + TWO,
    "by addprefix": "all: $(addprefix t-,a b)\n" + TWO,
    "by a substitution": "M := a b\nall: $(M:%=t-%)\n" + TWO,
    "by foreach": "all: $(foreach m,a b,t-$(m))\n" + TWO,
    "by a function of its own": "f = t-$(1)\nall: $(call f,a)\n" + TWO,
    "by filter": "all: $(filter t-%,x t-a)\n" + TWO,
    "by a rule in a variable": "R = all: t-a\n$(R)\nall:\n\t@echo MARK-ALL\n" + TWO,
    "by a computed target": "T = all\n$(T): t-a\n" + TWO,
    "as its variable is there": "X = t-a\nall: $(X)\n\t@:\nX = t-b\n" + TWO,
    "as := is computed there": "Y = t-a\nX := $(Y)\nY = t-b\nall: $(X)\n\t@:\n" + TWO,
    "by static patterns": (
        "O = a.o\nall: $(O)\n$(O): %.o: h\n%.o: %.c\n\t@echo MARK-CC\n%.c:\n\t@echo MARK-C\n"
        "h:\n\t@echo MARK-H\n"
    ),
    "by a chain of patterns": (
        "all: x.o\n%.o: %.c\n\t@echo MARK-CC\n%.c: %.y\n\t@echo MARK-YACC\nx.y:\n\t@echo MARK-Y\n"
    ),
    "by files of a pattern": (
        "S = $(wildcard src/*.c)\nall: $(S:.c=.o)\n%.o: %.c\n\t@echo MARK-CC\n"
    ),
    "by suffixes": (
        ".SUFFIXES: .md .html\n.md.html:\n\t@echo MARK-H\nall: x.html\nx.md:\n\t@echo MARK-M\n"
    ),
    "by order alone": "all: | t-a\n" + TWO,
    "to make its parts": (
        "all:\n\t@echo MARK-ALL\n-include gen.mk\ngen.mk: dep\n\t@echo MARK-GEN\n"
        "dep:\n\t@echo MARK-DEP\n"
    ),
    "by npm in another folder": "all:\n\t@cd sub && npm run --silent gen\n",
}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN.keys())
def test_what_make_starts_is_shown_and_nothing_else(text: str, folder: Path) -> None:
    for program in ("make", *(("npm",) if "npm" in text else ())):
        require_program(program)
    item = item_of(folder, "Makefile", text)

    ran = printed_by(folder, "make", "--no-print-directory", "all")

    assert item.problems == ()
    assert marks_of("\n".join(item.steps)) == ran != set()


REFUSED = {
    "a folder of a caller": ("all:\n\t$(MAKE) -C $(DIR)\n", "line 2: "),
    "a folder that a shell reads": ("all:\n\tcat d | while read d; do make -C $$d; done\n", ""),
    "a folder of one branch": ("all:\n\ttest -d sub && cd sub; $(MAKE) lint\n", "line 2: "),
    "names of a program": ("all:\n\techo lint | xargs $(MAKE) -C sub\n", "line 2: "),
    "a variable for a default": ("all:\n\t$(MAKE) -f with.mk x W=b\n", "W changes"),
    "an exported variable": ("export W = b\nall:\n\t$(MAKE) -f with.mk x\n", "W changes"),
    "a variable of its shell": ("all:\n\tW=b $(MAKE) -f with.mk x\n", "W changes"),
    "a branch": ("ifdef CI\nN = t-a\nendif\nall: $(N)\n" + TWO, "line 4: "),
    "a variable set later": ("all: $(N)\nN = t-a\n" + TWO, "line 1: "),
    "a program": ("all: $(shell echo t-a)\n" + TWO, "line 1: "),
    "a condition": ("all: $(if $(CI),t-b,t-a)\n" + TWO, "line 1: "),
    "a target of a program": ("$(shell echo all): t-a\nall:\n\t@:\n" + TWO, "line 1: "),
    "eval": ("$(eval all: t-a)\nall:\n\t@:\n" + TWO, "line 1: "),
    "eval of a template": ("define T\nall: $(1)\nendef\n$(eval $(call T,t-a))\nall:\n", "line 4: "),
    "a second expansion": (".SECONDEXPANSION:\nX = t-a\nall: $$(X)\n" + TWO, "line 3: "),
    "a folder outside": ("all:\n\t$(MAKE) -C .. lint\n", "outside of the project"),
    "a folder outside by its path": ("all:\n\t$(MAKE) -C $(CURDIR)/../x\n", "outside of the"),
    "more than one file": ("all:\n\t$(MAKE) -f more.mk -f with.mk x\n", "one file"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_target_whose_work_make_alone_knows_is_refused(
    text: str, said: str, folder: Path
) -> None:
    item = item_of(folder, "Makefile", text)

    assert said in "; ".join(item.problems)
    assert item.problems
    assert item.data == b""


def test_a_runner_without_its_file_is_named_where_it_would_run(folder: Path) -> None:
    item = item_of(folder, "Makefile", "all:\n\tcmake -B build\n\t$(MAKE) -C build\n")

    assert item.problems == ()
    assert list(item.steps) == [
        "cmake -B build",
        "$(MAKE) -C build",
        "starts make in build: no file for make there, what it runs is not shown",
    ]


def test_the_file_that_a_line_starts_is_pinned_with_its_parts(folder: Path) -> None:
    (folder / "sub/Makefile").write_text("include x.mk\nlint:\n\t@echo MARK-SUB\n", "utf-8")
    (folder / "sub/x.mk").write_text("", "utf-8")
    item = item_of(folder, "Makefile", "all:\n\t$(MAKE) -C sub lint\n")
    said = TaskItem.from_config(parse_header(".py", item.data.decode(), "tool")["CONFIG"])
    (folder / "sub/Makefile").write_text("lint:\n\t@echo other\n", "utf-8")

    assert [path for path, _ in said.files] == ["Makefile", "sub/Makefile", "sub/x.mk"]
    with pytest.raises(RyeError, match="changed since"):
        said.require_unchanged(folder)


def test_targets_outside_of_phony_are_tasks_and_files_are_named(folder: Path) -> None:
    text = ".PHONY: build\nbuild:\n\techo b\nlint:\n\techo l\nout.txt:\n\techo >$@\na/b:\n\techo\n"

    plan = plan_of(folder, "Makefile", text)

    assert [item.name for item in plan.items] == ["build", "lint"]
    assert any("out.txt, a/b" in note for note in plan.notes)


def test_files_of_an_include_pattern_are_pinned_and_no_other_may_appear(folder: Path) -> None:
    (folder / "conf").mkdir()
    (folder / "conf/a.mk").write_text("V = 1\n", "utf-8")
    item = item_of(folder, "Makefile", "include conf/*.mk\nall:\n\techo $(V)\n")
    said = TaskItem.from_config(parse_header(".py", item.data.decode(), "tool")["CONFIG"])

    said.require_unchanged(folder)
    (folder / "conf/b.mk").write_text("V = 2\n", "utf-8")

    assert "where V = 1" in item.steps
    with pytest.raises(RyeError, match=r"conf/b\.mk: was not there"):
        said.require_unchanged(folder)


def test_variables_of_one_letter_are_parameters_and_those_of_foreach_are_not(
    folder: Path,
) -> None:
    item = item_of(folder, "Makefile", "all:\n\techo $(X) $V $(foreach m,a,$(m)) $$H\n")

    assert b"'arguments': [['x', 'X', 'assign'], ['v', 'V', 'assign']]" in item.data


def test_a_default_that_chooses_what_runs_is_no_parameter(folder: Path) -> None:
    item = item_of(folder, "Makefile", "T ?= t-a\nM ?= fast\nall: $(T)\n\techo $(M)\n" + TWO)

    assert item.problems == ()
    assert b"'arguments': [['m', 'M', 'assign']]" in item.data


HOSTILE = {
    "brackets": "(" * 60_000,
    "substitutions": "$(" * 30_000,
    "backticks": "`a" * 30_000,
    "quotes": '"a b ' * 15_000,
    "operators": "&" * 60_000,
    "commands": "make a;" * 9000,
    "variables that grow": "A=$B$B;B=$A$A;" * 1000 + "make $A",
    "loops in loops": "for a in " + "x " * 150 + "; do for b in " + "y " * 150 + "; do make $a $b",
    "a long loop": "for a in " + "x " * 500 + "; do make " + "$a " * 500 + "; done",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_script_is_read_within_bounds(text: str) -> None:
    starts = list(starts_of(text))

    assert len(starts) <= 15_000


def test_a_script_with_more_commands_than_are_read_is_refused(folder: Path) -> None:
    script = "true;" * 5000 + "npm run gen"
    text = json.dumps({"scripts": {"gen": "echo", "all": script}})

    problems = item_of(folder, "package.json", text).problems

    assert "there are more of them than are read" in problems[0]


@given(st.text(max_size=300), st.text(max_size=100))
def test_any_text_is_read_by_every_runner(text: str, more: str) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        plan_of(
            Path(name), "Makefile", f"A = {text}\nall: $(A:{more}) {text}\n\t{more}\n\tmake {text}"
        )
        scripts = {"a": text, "b": f"cd {more} && npm run {text}", "c": f"make -C {text} {more}"}
        plan_of(Path(name), "package.json", json.dumps({"scripts": scripts}))
        plan_of(Path(name), "justfile", f"a := {text}\nb {more}:\n    {text}\n    just {more}\n")
        list(starts_of(text))
        MakeValues({"A": text, "B": more}).expand(f"$(A){text}$(call B,{more}$(B:{text}")


# --- npm ------------------------------------------------------------------------------------------

SCRIPTS = {
    "gen": "echo MARK-ROOT",
    "stop": "echo MARK-STOP",
    "start": "echo MARK-START",
    "test": "echo MARK-TEST",
    "prepare": "echo MARK-PREPARE",
    "prepack": "echo MARK-PREPACK",
}
STARTED = [
    *("cd sub && npm run gen", "npm --prefix sub run gen", "npm -C sub run gen"),
    *("npm run gen --prefix=sub", "cd src && npm run gen", "npm run gen -w packages/a"),
    *("npm run gen --workspace=aa", "npm run gen --workspaces", "npm restart", "npm tst"),
    *("npm run gen -ws --include-workspace-root", "npm it --offline", "npm install --offline"),
    *("echo `npm run gen`", "NPM=npm; $NPM run gen", "$npm_execpath run gen", "npm urn gen"),
    *(
        'sh -c "npm run gen"',
        "npm pack --dry-run",
        "(cd sub; npm run gen); npm t",
        "npm run -s gen",
    ),
    *("npx --no-install npm run gen", "npm exec -c 'npm run gen'", "make -C sub lint"),
    *("npm run --if-present none; npm run gen -- stop", "A=1 npm run 'gen'"),
]


@pytest.mark.heavy
@pytest.mark.parametrize("script", STARTED)
def test_what_npm_starts_is_shown_and_nothing_else(script: str, folder: Path) -> None:
    require_program("npm")
    said = {"name": "x", "version": "1.0.0", "workspaces": ["packages/*"]}
    text = json.dumps({**said, "scripts": {**SCRIPTS, "all": script}})
    item = item_of(folder, "package.json", text)

    ran = printed_by(folder, "npm", "run", "--silent", "--", "all")

    assert item.problems == ()
    assert marks_of("\n".join(item.steps)) == ran != set()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("npm run $SCRIPT", "a script that is not known"),
        ("cd $DIR && npm run gen", "a folder that only its shell knows"),
        ("pnpm -r run gen", "pnpm -r: the packages"),
        ("pnpm --filter aa gen", "pnpm --filter"),
        ("yarn workspace aa gen", "yarn workspace"),
        ("npm run gen -w nothing", "no workspace nothing"),
        ("npm frobnicate", "a command that is not known"),
        ("npm explore aa -- npm run gen", "npm explore"),
        ("cd .. && npm run gen", "outside of the project"),
        ("echo gen | xargs npm run", "a script that is not known"),
    ],
)
def test_a_script_that_starts_what_is_not_known_is_refused(
    script: str, said: str, folder: Path
) -> None:
    text = json.dumps({"workspaces": ["packages/*"], "scripts": {"gen": "echo", "all": script}})
    item = item_of(folder, "package.json", text)

    assert said in "; ".join(item.problems)
    assert script[:20] in item.problems[0]


@pytest.mark.parametrize(
    ("script", "steps"),
    [
        ("yarn gen", ["pregen: echo before", "gen: echo gen"]),
        ("pnpm run gen", ["pregen: echo before", "gen: echo gen"]),
        ("bun run gen", ["pregen: echo before", "gen: echo gen"]),
        ("yarn", ["prepare: echo prepare"]),
        ("node --run gen", ["gen: echo gen"]),
        ("run-s gen:*", ["gen:a: echo a"]),
        ("run-p 'gen:**'", ["gen:a: echo a", "gen:b:c: echo c"]),
        ("concurrently npm:gen:*", ["gen:a: echo a", "gen:b:c: echo c"]),
        ("npm run 'gen:*'", ["gen:*: no script of this file"]),
        ("npm start", ["start: node server.js"]),
        ("just -f sub/justfile gen", ["sub/justfile gen: @echo MARK-JUST"]),
        ("cd sub && mise run gen", ["sub/mise.toml gen: echo MARK-MISE"]),
        ("npx turbo run gen", ["starts turbo: what it runs is not shown"]),
        ("true && (cd sub; npm run gen)", SUB_STEPS),
        ("[ -d sub ] && (cd sub && npm run gen) && npm run gen:a", [*SUB_STEPS, "gen:a: echo a"]),
        ("git commit -m 'make lint'", []),
        ("pip install make", []),
    ],
)
def test_other_runners_and_forms_of_a_script_are_followed(
    script: str, steps: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    scripts = {"gen": "echo gen", "pregen": "echo before", "gen:a": "echo a", "gen:b:c": "echo c"}
    text = json.dumps({"scripts": {**scripts, "prepare": "echo prepare", "all": script}})
    item = item_of(folder, "package.json", text)

    assert list(item.steps) == [script, *steps]
    assert item.problems == ()


# --- just and mise --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("cd sub && just gen", ["sub/justfile gen: @echo MARK-JUST"]),
        ("just --justfile sub/justfile gen", ["sub/justfile gen: @echo MARK-JUST"]),
        ("just -f sub/justfile", ["sub/justfile gen: @echo MARK-JUST"]),
        ("just sub/gen", ["sub/justfile gen: @echo MARK-JUST"]),
        ("{{just_executable()}} gen", ["gen: @echo MARK-ROOT"]),
        ("just g", ["gen: @echo MARK-ROOT"]),
        ("just say gen", ["say: echo {{what}}"]),
        ("just say x gen", ["say: echo {{what}}", "gen: @echo MARK-ROOT"]),
        ("just tools::lint", ["tools::lint: make lint", "sub/Makefile lint: @echo MARK-SUB"]),
        ("just tools lint", ["tools::lint: make lint", "sub/Makefile lint: @echo MARK-SUB"]),
        (
            "npm --prefix sub run gen",
            [
                "sub/package.json pregen: echo MARK-PREGEN",
                "sub/package.json gen: echo MARK-GEN",
            ],
        ),
        ("cd {{justfile_directory()}}/sub && make lint", ["sub/Makefile lint: @echo MARK-SUB"]),
    ],
)
def test_what_the_lines_of_a_recipe_start_is_shown(
    line: str, steps: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    (folder / "sub/tools.just").write_text("lint:\n    make lint\n", "utf-8")
    text = (
        "gen:\n    @echo MARK-ROOT\nalias g := gen\nsay what:\n    echo {{what}}\n"
        f"mod tools 'sub/tools.just'\nall:\n    {line}\n"
    )
    item = item_of(folder, "justfile", text)

    assert list(item.steps) == [line, *steps]
    assert item.problems == ()


def test_lines_of_a_recipe_run_in_the_folder_that_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    text = (
        "[working-directory: 'sub']\nall:\n    make lint\n"
        "sh:\n    #!/bin/sh\n    cd sub\n    make lint\n"
    )

    for name in ("all", "sh"):
        item = item_of(folder, "justfile", text, name)
        assert "sub/Makefile lint: @echo MARK-SUB" in item.steps


def test_a_recipe_that_starts_what_is_not_known_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for line in ("just {{what}}", "make -C {{what}}", "just -d sub gen", "just --choose"):
        item = item_of(folder, "justfile", f"all what:\n    {line}\n")
        assert line in item.problems[0]


def test_tasks_that_mise_starts_are_shown_or_refused(folder: Path) -> None:
    text = """
[vars]
who = "{{ exec(command='echo MARK-VARS') }}"
[tasks]
gen = "echo MARK-ROOT"
names = "mise run gen ::: other"
below = "mise run -C sub gen"
short = "mise below"
missing = "mise run nothing"
alias = "mise run h"
which = "mise run {{vars.who}}"
[tasks.here]
alias = "h"
dir = "sub"
env = { TOKEN = "{{ exec(command='echo MARK-ENV') }}" }
run = "make lint"
wait_for = "gen"
[tasks.base]
extends = "template"
[tasks.late]
depends = "{{vars.who}}"
"""
    first = "before every task: vars.who = \"{{ exec(command='echo MARK-VARS') }}\""
    items = {one.name: one for one in plan_of(folder, "mise.toml", text).items}
    steps = {name: list(one.steps[1:]) for name, one in items.items()}

    assert items["gen"].steps[0] == first
    assert steps["names"][1:] == [
        "gen: echo MARK-ROOT",
        "other: no task of this file: mise looks for it elsewhere",
    ]
    assert steps["below"][1:] == ["sub/mise.toml gen: echo MARK-MISE"]
    assert steps["short"][1] == "below: mise run -C sub gen"
    assert steps["here"] == [
        "env.TOKEN = \"{{ exec(command='echo MARK-ENV') }}\"",
        "make lint",
        "sub/Makefile lint: @echo MARK-SUB",
    ]
    assert steps["missing"][1:] == ["nothing: no task of this file: mise looks for it elsewhere"]
    assert [one.partition(": ")[2] for one in steps["alias"][1:3]] == steps["here"][:2]
    assert "extends: " in items["base"].problems[0]
    assert "not known before it runs" in items["which"].problems[0]
    assert "depends: {{vars.who}}" in items["late"].problems[0]


def test_the_file_of_a_task_that_another_starts_is_pinned(folder: Path) -> None:
    (folder / "x.sh").write_text("echo\n", "utf-8")
    (folder / "sub/y.sh").write_text("echo\n", "utf-8")
    (folder / "sub/mise.toml").write_text('[tasks.y]\nfile = "y.sh"\n', "utf-8")
    text = (
        '[tasks.all]\nrun = ["mise run short", "cd sub && mise run y"]\n'
        '[tasks.x]\nalias = ["short"]\nfile = "x.sh"\n'
    )
    item = item_of(folder, "mise.toml", text)

    assert item.problems == ()
    for place in (b"'x.sh': ", b"'sub/mise.toml': ", b"'sub/y.sh': "):
        assert place in item.data


def test_a_task_that_another_file_of_mise_says_too_is_refused(folder: Path) -> None:
    (folder / "mise.local.toml").write_text('[tasks]\ngen = "echo other"\n', "utf-8")
    items = plan_of(folder, "mise.toml", '[tasks]\ngen = "echo"\nfree = "echo"\n').items

    assert [one.problems for one in items] == [("mise.local.toml says gen too",), ()]
