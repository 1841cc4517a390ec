"""The files that the command line of a server names."""

from pathlib import Path

import pytest

from ryeos.run.server_command import named_files

FILES = (
    *("hours.py", "pkg/__init__.py", "pkg/__main__.py", "pkg/part.py", "src/deep.py", "serve"),
    *("a.mjs", "lib/b.cjs", "lib/index.js", "run.sh", "main.ts", "map.json", "package.json"),
)

NAMED = {
    "python3 hours.py": ["hours.py"],
    "python3 -u hours.py --db a.mjs": ["hours.py"],
    "python3 -X utf8 -W ignore hours.py": ["hours.py"],
    "python3 -m hours": ["hours.py"],
    "python3 -Im hours": [],
    "python3 -um pkg.part x": ["pkg/part.py"],
    "python3 -m pkg": ["pkg/__main__.py"],
    "python3 pkg": ["pkg/__main__.py"],
    "python3 -m elsewhere": [],
    "python3 serve": ["serve"],
    "python3.12 -c import(hours)": [],
    "env A=b python3 -m hours": ["hours.py"],
    "uv run python -m hours": ["hours.py"],
    "uv run hours.py": ["hours.py"],
    "uv run -m hours": ["hours.py"],
    "node a.mjs run.sh": ["a.mjs"],
    "node --import ./a.mjs -r ./lib/b.cjs main.ts": ["a.mjs", "lib/b.cjs", "main.ts"],
    "node --require=./lib/b main.ts": ["lib/b.cjs", "main.ts"],
    "node lib": ["lib/index.js"],
    "node -r dotenv/config a.mjs": ["a.mjs"],
    "deno run -A --import-map map.json main.ts": ["map.json", "main.ts"],
    "bun run main.ts": ["main.ts"],
    "bun --preload ./a.mjs main.ts": ["a.mjs", "main.ts"],
    "bun run serve-it": ["package.json"],
    "tsx main.ts": ["main.ts"],
    "bash -e run.sh": ["run.sh"],
    "./run.sh a.mjs": ["run.sh"],
    "ruby -r ./a.mjs main.ts": ["a.mjs", "main.ts"],
    "mcp-server --root .": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}", "utf-8")
    (tmp_path / "lib/b.js").write_text("", "utf-8")
    (tmp_path / "lib/b.js").unlink()
    return tmp_path


@pytest.mark.parametrize(("line", "expected"), NAMED.items())
def test_a_command_line_names_what_its_interpreter_loads(
    folder: Path, line: str, expected: list[str]
) -> None:
    found = [one.path.relative_to(folder).as_posix() for one in named_files(line.split(), folder)]

    assert found == expected


def test_code_names_the_modules_that_it_imports(folder: Path) -> None:
    words = ("python3", "-c", "import hours, os; from pkg import part")

    found = {one.path.relative_to(folder).as_posix() for one in named_files(words, folder)}

    assert found == {"hours.py", "pkg/__init__.py"}


def test_a_line_for_a_shell_names_the_files_of_its_commands(folder: Path) -> None:
    words = ("bash", "-c", "cd . && exec python3 -m hours; ./run.sh")

    found = {one.path.relative_to(folder).as_posix() for one in named_files(words, folder)}

    assert found == {"hours.py", "run.sh"}


def test_a_module_is_looked_for_where_its_variables_say(folder: Path) -> None:
    env = {"PYTHONPATH": "src"}

    (found,) = named_files(("python3", "-m", "deep"), folder, env)

    assert (found.path, found.folder) == (folder / "src/deep.py", folder / "src")
    assert named_files(("python3", "-Em", "deep"), folder, env) == ()
