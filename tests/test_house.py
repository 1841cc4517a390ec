"""Rules for the whole tree: sizes, names, imports, documents, scripts."""

import ast
import builtins
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ryeos

ROOT = Path(__file__).resolve().parent.parent
MADE = {".git", "build", "dist", "__pycache__"}  # not written by us, or not by hand

MAX_DECISION_WORDS = 450
_BACKQUOTED = re.compile(r"(?<![`\w])`([A-Za-z_][\w.]*)`(?!`)")
_CODE_WORD = re.compile(r"\w+")


def project_files(pattern: str) -> Iterator[Path]:
    """Every written file of the checkout, without caches of tools."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if name not in MADE
            and not name.endswith((".egg-info", "_cache"))
            and name != ".hypothesis"
        ]
        yield from (Path(folder, name) for name in names if Path(name).match(pattern))


def modules() -> Iterator[Path]:
    """The modules of the layers, sorted."""
    for layer in ("lillux", "ryeos", "rye_services"):
        yield from sorted((ROOT / layer).rglob("*.py"))


def client_modules() -> Iterator[Path]:
    """The modules that a start of ``rye`` may import: all but the services."""
    return (path for path in modules() if not path.is_relative_to(ROOT / "rye_services"))


def outside_cli() -> Iterator[Path]:
    """The modules of the layers without those that print."""
    services = ROOT / "rye_services"
    # A worker is a program of its own: its environment was made for it by the server.
    programs = services / "operations" / "cli.py", services / "node" / "worker" / "items.py"
    # The door of host programs: its default is their environment.
    embedding = ROOT / "ryeos" / "app" / "embedding.py"
    speaking = ROOT / "ryeos" / "cli", *programs, embedding
    return (path for path in modules() if not any(map(path.is_relative_to, speaking)))


def syntax(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def place(path: Path, node: ast.expr | ast.stmt) -> str:
    """``lillux/files.py:12``: the position of a node."""
    return f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"


def scripts() -> list[Path]:
    """The scripts of the project: shell scripts without a suffix."""
    return sorted(one for one in (ROOT / "scripts").iterdir() if one.is_file() and not one.suffix)


def decisions() -> list[Path]:
    """The pages of the decisions, without their index."""
    return sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


# --- code -----------------------------------------------------------------------------------------


def test_each_folder_of_tests_mirrors_a_folder_of_the_code() -> None:
    layers = ("lillux", "ryeos", "rye_services", "packing", "zipboot")
    folders = {
        path.parent.relative_to(ROOT / "tests")
        for layer in layers
        for path in (ROOT / "tests" / layer).rglob("test_*.py")
    }

    assert sorted(folder for folder in folders if not (ROOT / folder).is_dir()) == []


FORKED = "rye_services/node/worker/process.py"


@pytest.mark.heavy
def test_only_the_command_line_reads_the_environment() -> None:
    names = {"environ", "environb", "getenv", "getenvb"}
    reads = [
        place(path, node)
        for path in outside_cli()
        for node in ast.walk(syntax(path))
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value) == "os"
            and node.attr in names
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and names & {alias.name for alias in node.names}
        )
    ]

    assert [read for read in reads if read.rpartition(":")[0] != FORKED] == []


def test_a_forked_worker_replaces_its_environment_without_reading_it() -> None:
    lines = [line for line in (ROOT / FORKED).read_text("utf-8").splitlines() if "environ." in line]

    assert [line.strip() for line in lines if "self." not in line] == [
        "os.environ.clear()",
        "os.environ.update(job.environ)",
    ]


@pytest.mark.heavy
def test_only_the_command_line_prints() -> None:
    prints = [
        place(path, node)
        for path in outside_cli()
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]

    assert prints == []


# Extends classes of its library, and is itself imported by the functions that need it.
LATE_DOOR = "lillux.http.connections"


@pytest.mark.heavy
def test_an_outside_library_is_imported_only_by_the_function_that_needs_it() -> None:
    ours = {"lillux", "ryeos"} | sys.stdlib_module_names
    early = [
        f"{place(path, node)} {name}"
        for path in client_modules()
        if path != ROOT / f"{LATE_DOOR.replace('.', '/')}.py"
        for node in syntax(path).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported_packages(node)
        if name not in ours
    ]

    assert early == []


@pytest.mark.heavy
def test_a_door_with_early_imports_is_itself_imported_late() -> None:
    early = [
        place(path, node)
        for path in modules()
        for node in syntax(path).body
        if isinstance(node, ast.ImportFrom) and node.module == LATE_DOOR
    ]

    assert early == []


def imported_packages(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The top-level packages that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    return [alias.name.partition(".")[0] for alias in node.names]


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_an_error_is_a_class_only_where_the_product_catches_extends_or_reads_it() -> None:
    parsed = {path: list(ast.walk(syntax(path))) for path in modules()}
    nodes = [node for found in parsed.values() for node in found]
    bases = {node.name: base_names(node) for node in nodes if isinstance(node, ast.ClassDef)}
    used = {name for node in nodes for name in caught_names(node)}.union(*bases.values())

    unused = [
        f"{place(path, node)} {node.name}"
        for path, found in parsed.items()
        if not path.is_relative_to(ROOT / "lillux")  # its errors take no code
        for node in found
        if isinstance(node, ast.ClassDef)
        and is_error(node.name, bases)
        and node.name not in used
        and not assigned_fields(node) & FIELDS_OF_ANY_ERROR
    ]

    assert unused == []  # each is a RyeError with a code: see its docstring


# Answers show the first three of any error, reports of an audit the last.
FIELDS_OF_ANY_ERROR = {"facts", "details", "suggestions", "state"}

# The last is of the services: errors that a route answers with a status.
CATCHING_CALLS = {"isinstance", "suppress", "refusals"}


def is_error(name: str, bases: dict[str, set[str]]) -> bool:
    """Whether a class extends an exception of Python; answers of FastAPI extend one of its own."""
    if name in bases:
        return any(is_error(base, bases) for base in bases[name])
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)


def base_names(node: ast.ClassDef) -> set[str]:
    """The names of the classes that a class extends."""
    return {name for base in node.bases for name in last_names(base)}


def caught_names(node: ast.AST) -> set[str]:
    """The names of errors that an ``except`` catches, that a call gets, or a constant lists."""
    match node:
        case ast.ExceptHandler(type=ast.expr() as caught):
            return last_names(caught)
        case ast.Call(func=ast.Name(name), args=arguments) if name in CATCHING_CALLS:
            return {name for argument in arguments for name in last_names(argument)}
        case ast.Assign(value=ast.Tuple() as listed) | ast.AnnAssign(value=ast.Tuple() as listed):
            return last_names(listed)
    return set()


def last_names(node: ast.expr) -> set[str]:
    """``{"A", "B"}`` for ``A``, ``module.B``, a tuple or a union of them."""
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return {name}
        case ast.Tuple(parts):
            return {name for part in parts for name in last_names(part)}
        case ast.BinOp(left, _, right):
            return last_names(left) | last_names(right)
    return set()


def assigned_fields(node: ast.ClassDef) -> set[str]:
    """The names that the body of a class assigns, and the attributes that its methods do."""
    of_class = [one for one in node.body if isinstance(one, ast.Assign | ast.AnnAssign)]
    names = [part for one in of_class for part in ast.walk(one) if isinstance(part, ast.Name)]
    attributes = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    return {part.id for part in names if isinstance(part.ctx, ast.Store)} | {
        part.attr for part in attributes if isinstance(part.ctx, ast.Store)
    }


# --- scripts and versions -------------------------------------------------------------------------


def test_no_file_of_the_project_needs_a_path_outside_it() -> None:
    workplace = re.compile(rb"(?<![\w.])/" + b"work/")
    files = (path for path in project_files("*") if path.name != ".git")  # of a worktree
    outside = [path for path in files if workplace.search(path.read_bytes())]

    assert outside == []


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_a_script_is_strict_and_finds_the_checkout_by_itself(script: Path) -> None:
    lines = script.read_text("utf-8").splitlines()

    assert lines[0] == "#!/bin/sh"
    assert "set -eu" in lines
    assert 'cd -- "$(dirname -- "$0")/.."' in lines


@pytest.mark.skipif(os.name == "nt", reason="Windows has no executable bit")
@pytest.mark.parametrize("command", [*scripts(), ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_each_script_is_executable_and_valid_for_its_shell(command: Path) -> None:
    shell = "bash" if command.name == "run" else "sh"

    parsed = subprocess.run([shell, "-n", command], capture_output=True, check=False)

    assert os.access(command, os.X_OK)
    assert (parsed.returncode, parsed.stderr) == (0, b"")


def test_the_build_machine_runs_each_script_once() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()

    assert "set -euo pipefail" in lines
    assert [line for line in lines if line.startswith("scripts/")] == [
        "scripts/quickstart",
        "scripts/check",
        "scripts/test",
        "scripts/test --all",
    ]


def test_the_changelog_has_the_version_of_the_code() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")

    newest = re.search(r"^## \[(.+?)\]", changelog, re.MULTILINE)

    assert newest is not None
    assert newest[1] == ryeos.__version__


def test_the_wheel_has_the_dependencies_of_the_runtime_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = (ROOT / "requirements" / "runtime.in").read_text("utf-8").splitlines()

    wheel = {re.split(r"[<>=~! ]", line)[0] for line in project["dependencies"]}

    assert wheel == {line for line in required if not line.startswith("#")}


@pytest.mark.parametrize("lock", ["runtime.txt", "node.txt", "dev.txt"])
def test_every_pinned_requirement_carries_hashes(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text("utf-8").replace("\\\n", "")

    pins = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]

    assert pins != []
    assert [pin for pin in pins if not re.match(r"[\w.-]+==\S+\s+--hash=sha256:", pin)] == []


# --- documents ------------------------------------------------------------------------------------


def test_each_decision_is_one_page_with_its_parts_in_order() -> None:
    wrong = []
    for number, page in enumerate(decisions(), 1):
        text = page.read_text("utf-8")
        lines = text.splitlines()
        headings = [line for line in lines if line.startswith("## ")]
        if (
            not lines[0].startswith(f"# {number:04}. ")
            or not lines[2].startswith("- Decides: ")
            or not page.name.startswith(f"{number:04}-")
            or headings[:3] != ["## Context", "## Decision", "## Consequences"]
            or headings[3:] not in ([], ["## Alternatives"])
            or len(text.split()) > MAX_DECISION_WORDS
        ):
            wrong.append(page.name)

    assert wrong == []


def test_the_index_of_decisions_lists_each_with_title_and_summary() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text("utf-8")

    listed = [line for line in index.splitlines() if line.startswith("| [")]

    assert listed == [index_line(page) for page in decisions()]


def index_line(page: Path) -> str:
    """The row of the index for a decision, from the page itself."""
    title, _, decides, *_ = page.read_text("utf-8").splitlines()
    number, _, words = title.removeprefix("# ").partition(". ")
    return f"| [{number}]({page.name}) | {words} | {decides.removeprefix('- Decides: ')} |"


def test_every_decision_that_is_cited_by_its_number_exists() -> None:
    numbers = {page.name[:4] for page in decisions()}

    cited = {
        f"{path.relative_to(ROOT).as_posix()}: ADR {number}"
        for pattern in ("*.py", "*.md", "*.in")
        for path in project_files(pattern)
        for number in re.findall(r"\bADR (\d+)", path.read_text("utf-8"))
        if number not in numbers
    }

    assert cited == set()


def test_the_decision_on_dependencies_names_each_of_them() -> None:
    decision = (ROOT / "docs" / "adr" / "0002-dependencies.md").read_text("utf-8")

    packed = [
        re.split(r"[\[ #]", line)[0]
        for name in ("runtime", "node", "cluster")
        for line in (ROOT / "requirements" / f"{name}.in").read_text("utf-8").splitlines()
        if not line.startswith(("#", "-c"))
    ]

    assert [name for name in packed if not re.search(rf"\b{re.escape(name)}\b", decision)] == []


def test_every_link_between_documents_resolves() -> None:
    broken = [
        f"{page.relative_to(ROOT).as_posix()}: {target}"
        for page in project_files("*.md")
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []


def anchors(page: Path) -> set[str]:
    """The anchors that a forge gives the headings of a page."""
    prose = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    words = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).lower() for one in headings]
    return {re.sub(r"[^\w\- ]", "", one).strip().replace(" ", "-") for one in words}


def test_every_link_to_a_heading_resolves() -> None:
    pages = {page: anchors(page) for page in project_files("*.md")}
    broken = [
        f"{page.relative_to(ROOT).as_posix()}: {target}#{anchor}"
        for page in pages
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
        for found in [(page.parent / target).resolve() if target else page]
        if found in pages and anchor not in pages[found]
    ]

    assert broken == []


def test_every_page_that_the_code_cites_exists() -> None:
    cited = {
        page
        for path in project_files("*.py")
        for page in re.findall(r"\bdocs/[\w./-]+\.md\b", path.read_text("utf-8"))
    }

    assert sorted(page for page in cited if not (ROOT / page).is_file()) == []


def test_every_name_in_a_docstring_or_comment_of_the_product_exists() -> None:
    product = [
        (path, path.read_text("utf-8"))
        for layer in ("lillux", "ryeos", "rye_services", "packing", "zipboot")
        for path in sorted((ROOT / layer).rglob("*.py"))
    ]
    words = {word for _, text in product for word in _CODE_WORD.findall(_BACKQUOTED.sub("", text))}
    words |= {part for path, _ in product for part in path.relative_to(ROOT).with_suffix("").parts}

    unknown = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in product
        for name in _BACKQUOTED.findall(text)
        if not words.issuperset(name.split("."))
    ]

    assert unknown == []
