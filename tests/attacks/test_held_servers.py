"""Files of a pinned MCP server that are exchanged between their comparison and the start."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.process.model import Command
from ryeos.items.refs import Space
from ryeos.run.model import Invocation
from ryeos.run.process_call import command_of as original
from tests.support.command_line import CommandLine
from tests.support.programs import require_program

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "imports"
HOURS = "mcp/hours/after_noon"
# Such a server does not answer.
EVIL = {".py": "raise SystemExit(3)\n", ".mjs": "process.exit(3)\n"}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="first lines, and modes")


class Pinned:
    """An imported server, and what is done between the comparison and the start."""

    def __init__(self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cli, self.patch = cli, monkeypatch
        assert cli("keys", "generate").status == 0

    def add(self, folder: str, suffix: str, *words: str, before: str = "") -> Path:
        """Import a server whose file lies in a folder of the project."""
        file = self.cli.project / folder / f"hours{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (VECTORS / f"hours{suffix}").read_text("utf-8")
        file.write_text(before + text, "utf-8")
        command, *args = (*words, str(file))
        settings = {"mcpServers": {"hours": {"command": command, "args": args}}}
        (self.cli.project / ".mcp.json").write_text(json.dumps(settings), "utf-8")
        done = self.cli("import", "--yes", "--json")
        assert done.status == 0, done.stdout + done.stderr
        return file

    def start(self, command: str, *args: str) -> None:
        """Add a server by its command line, and approve it as it is."""
        added = self.cli("mcp", "add", "hours", "--", command, *args)
        assert added.status == 0, added.stderr
        found = self.cli("mcp", "discover", "hours", "--yes")
        assert found.status == 0, found.stdout + found.stderr

    def write(self, path: str, text: str) -> Path:
        """A file of the project."""
        file = self.cli.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def call(self, *, meanwhile: Callable[[], object] = lambda: None) -> bool:
        """Whether the server answers as it should."""

        def command_of(invocation: Invocation) -> Command:
            meanwhile()
            return original(invocation)

        self.patch.setattr("ryeos.run.mcp.command_of", command_of)
        done = self.cli("run", HOURS, "hour:=15", "--json")
        return done.status == 0 and done.json["data"]["parsed"] is True

    def poison(self, file: Path) -> Callable[[], object]:
        def step() -> None:
            text = file.read_text("utf-8") if file.exists() else ""
            other = file.with_name("other")
            other.write_text(EVIL[file.suffix] + text, "utf-8")
            if file.exists():
                shutil.copymode(file, other)
            other.rename(file)

        return step


@pytest.fixture
def pinned(tmp_path: Path, bundle: Space, monkeypatch: pytest.MonkeyPatch) -> Pinned:
    return Pinned(CommandLine(tmp_path, bundle), monkeypatch)


@pytest.mark.parametrize("folder", ["", "servers", "a/b"])
@pytest.mark.parametrize("words", [(), ("-u",), ("-B", "-Es"), ("-X", "utf8"), ("-I",)])
def test_python_runs_the_bytes_that_were_compared(
    pinned: Pinned, folder: str, words: tuple[str, ...]
) -> None:
    file = pinned.add(folder, ".py", sys.executable, *words)

    assert pinned.call()
    assert pinned.call(meanwhile=pinned.poison(file))


@pytest.mark.parametrize("folder", ["", "servers"])
def test_node_runs_the_bytes_that_were_compared(pinned: Pinned, folder: str) -> None:
    file = pinned.add(folder, ".mjs", str(require_program("node")))

    assert pinned.call()
    assert pinned.call(meanwhile=pinned.poison(file))
    assert list((pinned.cli.home / ".ai/state/held").iterdir()) == []


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python of the system")
@pytest.mark.parametrize("line", ["#! /usr/bin/python3 -s\n", "#!/usr/bin/env python3\n"])
def test_a_script_that_is_the_program_runs_as_it_was_compared(pinned: Pinned, line: str) -> None:
    pinned.cli.env["PATH"] = "/usr/bin:/bin"
    file = pinned.cli.project / "servers" / "hours.py"
    file.parent.mkdir()
    file.write_text(line, "utf-8")
    file.chmod(0o755)
    pinned.add("servers", ".py", before=line)

    assert pinned.call()
    assert pinned.call(meanwhile=pinned.poison(file))


@pytest.mark.parametrize("folder", ["", "servers"])
@pytest.mark.parametrize("module", ["helper.py", "helper/__init__.py", "helper/part.py"])
def test_modules_beside_a_server_are_held_as_well(pinned: Pinned, folder: str, module: str) -> None:
    file = pinned.cli.project / folder / module
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("VALUE = 1\n", "utf-8")
    name = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    pinned.add(folder, ".py", sys.executable, before=f"import {name}\n")

    assert pinned.call()
    assert pinned.call(meanwhile=pinned.poison(file))
    assert not pinned.call()  # now it is another one


@pytest.mark.parametrize("folder", ["", "servers"])
def test_a_module_that_appears_is_not_imported(pinned: Pinned, folder: str) -> None:
    file = pinned.add(folder, ".py", sys.executable, before="import colorsys\n")
    shadow = file.with_name("colorsys.py")

    assert pinned.call(meanwhile=pinned.poison(shadow))
    assert not pinned.call()


@pytest.mark.parametrize("folder", ["", "servers"])
def test_bytecode_of_a_held_module_is_not_read(pinned: Pinned, folder: str) -> None:
    import py_compile

    module = pinned.cli.project / folder / "helper.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text("VALUE = 1\n", "utf-8")
    pinned.add(folder, ".py", sys.executable, before="import helper\n")
    evil = pinned.cli.home / "evil.py"
    evil.write_text(EVIL[".py"], "utf-8")
    cached = module.parent / f"__pycache__/helper.{sys.implementation.cache_tag}.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(evil), str(cached), invalidation_mode=unchecked)

    assert pinned.call()


def test_a_server_sees_its_own_path(pinned: Pinned) -> None:
    path = str(pinned.cli.project / "servers" / "hours.py")
    before = (
        f"import sys\nassert (__file__, sys.argv, __name__) == ({path!r}, [{path!r}], '__main__')\n"
    )
    pinned.add("servers", ".py", sys.executable, before=before)

    assert pinned.call()


HOURS_PY = (VECTORS / "hours.py").read_text("utf-8")
HOURS_MJS = (VECTORS / "hours.mjs").read_text("utf-8")
OF_PYTHON = {
    "a module": ("hours.py", ("-m", "hours")),
    "a module behind letters": ("hours.py", ("-u", "-Bm", "hours")),
    "a module of a package": ("pkg/hours.py", ("-m", "pkg.hours")),
    "a package": ("pkg/__main__.py", ("-m", "pkg")),
    "a folder": ("pkg/__main__.py", ("pkg",)),
    "code": ("hours.py", ("-c", "import hours")),
}


@pytest.mark.parametrize(("path", "words"), OF_PYTHON.values(), ids=OF_PYTHON)
def test_what_python_runs_by_a_name_is_what_was_compared(
    pinned: Pinned, path: str, words: tuple[str, ...]
) -> None:
    file = pinned.write(path, HOURS_PY.replace('if __name__ == "__main__":', "if True:"))
    if words[-1].startswith("pkg") and words[0] == "-m":
        pinned.write("pkg/__init__.py", "")
    pinned.start(sys.executable, *words)

    assert pinned.call()
    assert pinned.call(meanwhile=pinned.poison(file))
    assert not pinned.call()  # now it is another one


def test_a_module_beside_a_package_that_is_run_is_held(pinned: Pinned) -> None:
    pinned.write("pkg/__init__.py", "")
    pinned.write("pkg/__main__.py", f"import helper\nfrom . import part\n{HOURS_PY}")
    helper = pinned.write("helper.py", "VALUE = 1\n")
    part = pinned.write("pkg/part.py", "VALUE = 1\n")
    pinned.start(sys.executable, "-m", "pkg")

    assert pinned.call()
    assert pinned.call(meanwhile=pinned.poison(helper))
    assert not pinned.call()
    helper.write_text("VALUE = 1\n", "utf-8")
    assert pinned.call(meanwhile=pinned.poison(part))
    assert not pinned.call()


def test_a_package_that_appears_before_a_module_is_not_run(pinned: Pinned) -> None:
    pinned.write("hours.py", HOURS_PY)
    pinned.start(sys.executable, "-m", "hours")
    pinned.write("hours/__init__.py", "")
    pinned.write("hours/__main__.py", EVIL[".py"])

    assert not pinned.call()
    assert "SERVER_CHANGED" in pinned.cli("run", HOURS, "hour:=15", "--json").stdout


OF_NODE = {
    "imported": ("hook.mjs", ("--import", "{project_path}/lib/hook.mjs")),
    "imported with a sign": ("hook.mjs", ("--import=./lib/hook.mjs",)),
    "required": ("hook.cjs", ("-r", "./lib/hook.cjs")),
    "required without a suffix": ("hook.js", ("--require", "./lib/hook")),
}


@pytest.mark.parametrize(("hook", "words"), OF_NODE.values(), ids=OF_NODE)
def test_what_node_loads_before_a_server_is_what_was_compared(
    pinned: Pinned, hook: str, words: tuple[str, ...]
) -> None:
    server = pinned.write("hours.mjs", HOURS_MJS)
    file = pinned.write(f"lib/{hook}", "globalThis.loaded = 1;\n")
    evil = EVIL[".mjs"]
    pinned.start(str(require_program("node")), *words, "hours.mjs")

    assert pinned.call()
    assert pinned.call(meanwhile=lambda: file.write_text(evil, "utf-8"))
    assert not pinned.call()
    file.write_text("globalThis.loaded = 1;\n", "utf-8")
    assert pinned.call(meanwhile=pinned.poison(server))
    assert not pinned.call()


def test_a_module_of_node_in_a_folder_below_is_held(pinned: Pinned) -> None:
    pinned.write("hours.mjs", f'import "./lib/part.mjs";\n{HOURS_MJS}')
    part = pinned.write("lib/part.mjs", "export const VALUE = 1;\n")
    pinned.start(str(require_program("node")), "hours.mjs")

    assert pinned.call()
    assert pinned.call(meanwhile=pinned.poison(part))
    assert not pinned.call()


def test_a_script_of_a_shell_is_what_was_compared(pinned: Pinned) -> None:
    pinned.write("hours.py", HOURS_PY)
    script = pinned.write("serve", f"exec {sys.executable} hours.py\n")
    pinned.start("bash", "serve")

    assert pinned.call()
    assert pinned.call(meanwhile=lambda: script.write_text("exit 3\n", "utf-8"))
    assert not pinned.call()


def test_what_no_pin_holds_is_said(pinned: Pinned) -> None:
    pinned.write("hours.py", HOURS_PY)
    added = pinned.cli("mcp", "add", "hours", "--", sys.executable, "-m", "hours")
    assert added.status == 0

    found = pinned.cli("mcp", "discover", "hours", "--yes", "--json")

    assert "import of code beside them" in found.json["pins"]["not_covered"]


@pytest.mark.parametrize("words", [("-m", "hours_srv"), ("-c", "import hours_srv")])
def test_a_server_of_user_space_imports_nothing_of_the_project_that_it_is_started_in(
    pinned: Pinned, tmp_path: Path, words: tuple[str, str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(VECTORS / "hours.py", outside / "hours_srv.py")
    pinned.cli.env["PYTHONPATH"] = str(outside)
    added = pinned.cli("mcp", "add", "hours", "--space", "user", "--", sys.executable, *words)
    assert added.status == 0, added.stderr
    found = pinned.cli("mcp", "discover", "hours", "--yes")
    assert found.status == 0, found.stdout + found.stderr

    pinned.write("json.py", "raise SystemExit(3)\n")

    assert pinned.call()


def test_a_server_of_user_space_is_not_looked_up_in_the_project(
    pinned: Pinned, tmp_path: Path
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    npx = folder / "npx"
    text = f"#!/bin/sh\npwd > {tmp_path}/started\nexec {sys.executable} {VECTORS}/hours.py\n"
    npx.write_text(text, "utf-8")
    npx.chmod(0o755)
    pinned.cli.env["PATH"] = f"{folder}:{pinned.cli.env['PATH']}"
    added = pinned.cli("mcp", "add", "hours", "--space", "user", "--", "npx", "hours-srv")
    assert added.status == 0, added.stderr

    pinned.cli("mcp", "discover", "hours", "--yes")

    assert (tmp_path / "started").read_text("utf-8").strip() == str(pinned.cli.home)


@pytest.mark.parametrize(
    "before", [("env", "HOURS=12"), ("timeout", "60"), ("sh", "-c", 'exec "$0" "$@"')]
)
def test_a_server_of_user_space_starts_outside_of_the_project_whatever_starts_it(
    pinned: Pinned, tmp_path: Path, before: tuple[str, ...]
) -> None:
    outside = _module_outside(tmp_path)
    # -E: without PYTHONSAFEPATH, so Python looks first where it is started.
    words = (*before, sys.executable, "-E", "-c", _IMPORTS.format(outside))
    assert pinned.cli("mcp", "add", "hours", "--space", "user", "--", *words).status == 0
    found = pinned.cli("mcp", "discover", "hours", "--yes")
    assert found.status == 0, found.stdout + found.stderr

    pinned.write("json.py", "raise SystemExit(3)\n")

    assert pinned.call()


def test_the_trial_of_a_server_for_user_space_starts_outside_of_the_project(
    pinned: Pinned, tmp_path: Path
) -> None:
    outside = _module_outside(tmp_path)
    pinned.write("json.py", "raise SystemExit('json.py of the project ran')\n")
    words = ["-E", "-c", _IMPORTS.format(outside)]
    settings = tmp_path / "mcp.json"
    entry = {"hours": {"command": sys.executable, "args": words}}
    settings.write_text(json.dumps({"mcpServers": entry}), "utf-8")

    done = pinned.cli("import", str(settings), "--space", "user", "--yes")

    assert "to try" in done.stderr or "rights" in done.stderr
    assert "json.py of the project ran" not in done.stdout + done.stderr


@pytest.mark.parametrize("cwd", ["${workspaceFolder}", ""])
def test_an_imported_server_of_user_space_starts_in_the_project_where_its_settings_say_so(
    pinned: Pinned, tmp_path: Path, cwd: str
) -> None:
    # It is part of the item that a person signs, and imports what the project has there.
    expected = (pinned.cli.project if cwd else pinned.cli.home).resolve()
    server = tmp_path / "serve.py"
    text = (VECTORS / "hours.py").read_text("utf-8")
    server.write_text(f"import os\nassert os.getcwd() == {str(expected)!r}\n{text}", "utf-8")
    entry = {"command": sys.executable, "args": [str(server)], **({"cwd": cwd} if cwd else {})}
    settings = tmp_path / "mcp.json"
    settings.write_text(json.dumps({"mcpServers": {"hours": entry}}), "utf-8")

    done = pinned.cli("import", str(settings), "--space", "user", "--yes")

    assert pinned.call(), done.stdout + done.stderr
    item = (pinned.cli.home / ".ai/tools/mcp/servers/hours.yaml").read_text("utf-8")
    assert ("{project_path}" in item) == bool(cwd)


def test_a_caller_chooses_no_folder_for_a_server_of_user_space(
    pinned: Pinned, tmp_path: Path
) -> None:
    file = shutil.copy(VECTORS / "hours.py", tmp_path / "hours.py")
    words = ("--space", "user", "--", sys.executable, str(file))
    assert pinned.cli("mcp", "add", "hours", *words).status == 0
    assert pinned.cli("mcp", "discover", "hours", "--yes").status == 0

    done = pinned.cli("run", HOURS, "hour:=15", "--cwd", str(pinned.cli.project))

    assert done.status != 0
    assert "cwd" in done.stderr


def test_relative_paths_of_a_server_for_user_space_are_written_whole(pinned: Pinned) -> None:
    file = pinned.write("srv/hours.py", (VECTORS / "hours.py").read_text("utf-8"))
    words = ("--space", "user", "--", sys.executable, "srv/hours.py", ".")

    assert pinned.cli("mcp", "add", "hours", *words).status == 0

    text = (pinned.cli.home / ".ai/tools/mcp/servers/hours.yaml").read_text("utf-8")
    assert str(file) in text
    assert "{project_path}" in text


_IMPORTS = "import json, sys; sys.path.append({!r}); import hours_srv"


def _module_outside(tmp_path: Path) -> str:
    """A folder outside of all projects, with the module of a server."""
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(VECTORS / "hours.py", outside / "hours_srv.py")
    return str(outside)
