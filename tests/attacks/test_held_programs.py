"""Approved programs that run tools are started from compared bytes, whatever lies there later.

Without chance: files are exchanged right before a start, or before they are opened for the n-th
time (`tests.support.exchanged_file`).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from ryeos.items.errors import IntegrityError
from ryeos.items.refs import Space
from ryeos.run.model import ExecutionRequest
from ryeos.trust.approvals import ProjectApproval
from ryeos.trust.held_programs import HeldPrograms
from ryeos.trust.start_files import StartFiles
from tests.support.command_line import CommandLine
from tests.support.exchanged_file import exchanged
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders of POSIX programs")

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node.js")
TSX = "node_modules/.bin/tsx"
TOOL = """\
import { beside } from "./beside.mjs";
export const __version__ = "1.0.0";
export const __tool_type__ = "javascript";
export const __executor_id__ = "rye/core/runtimes/node/node";
export const __category__ = "ops";
export const __tool_description__ = "tells what started it";
export function execute() {
  return { by: process.env.RYE_NODE, from: process.env.STARTED, beside };
}
"""
BESIDE = """\
export const __version__ = "1.0.0";
export const __tool_type__ = "library";
export const __category__ = "ops";
export const __tool_description__ = "is imported";
export const beside = "imported";
"""
# It starts Node.js as the real one does, and loads a module, a package, and one of its package's.
CLI = """\
#!/usr/bin/env node
const from = [require("./lib.cjs"), require("dep"), process.env.STARTED || ""].join(" ");
const { spawnSync } = require("node:child_process");
const env = { ...process.env, STARTED: from };
const ran = spawnSync(process.execPath, process.argv.slice(2), { stdio: "inherit", env });
process.exit(ran.status);
"""
HONEST = "honest tsx honest dep "


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def package(folder: Path, name: str, module: str, text: str, said: str = "") -> None:
    write(folder / "package.json", f'{{"name": "{name}", "main": "{module}"{said}}}')
    write(folder / module, text)


def as_npm(project: Path) -> None:
    """One folder for all packages; the program is a link."""
    packages = project / "node_modules"
    depends = ', "dependencies": {"dep": "1"}'
    package(packages / "tsx", "tsx", "lib.cjs", 'module.exports = "honest tsx";\n', depends)
    package(packages / "dep", "dep", "i.cjs", 'module.exports = "honest dep";\n')
    write(packages / "tsx/cli.cjs", CLI, 0o755)
    link(project / TSX, "../tsx/cli.cjs")


def as_pnpm(project: Path) -> None:
    """Packages behind links; the program is a script that names the project's path."""
    store = "node_modules/.pnpm"
    depends = ', "dependencies": {"dep": "1"}'
    own = project / f"{store}/tsx@1/node_modules"
    package(own / "tsx", "tsx", "lib.cjs", 'module.exports = "honest tsx";\n', depends)
    dep = project / f"{store}/dep@1/node_modules/dep"
    package(dep, "dep", "i.cjs", 'module.exports = "honest dep";\n')
    write(own / "tsx/cli.cjs", CLI, 0o755)
    link(own / "dep", "../../dep@1/node_modules/dep")
    link(project / "node_modules/tsx", ".pnpm/tsx@1/node_modules/tsx")
    text = (
        '#!/bin/sh\nbasedir=$(dirname "$0")\n'
        f'export NODE_PATH="{project}/{store}/node_modules"\n'
        'exec node "$basedir/../tsx/cli.cjs" "$@"\n'
    )
    write(project / TSX, text, 0o755)


def as_links_by_whole_paths(project: Path) -> None:
    as_npm(project)
    (project / TSX).unlink()
    link(project / TSX, str(project / "node_modules/tsx/cli.cjs"))


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "npm": as_npm,
    "pnpm": as_pnpm,
    "whole paths": as_links_by_whole_paths,
}


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.fixture
def ready(workspace: Workspace) -> Workspace:
    workspace.project.signed("tools/ops/n.mjs", TOOL)
    workspace.project.signed("tools/ops/beside.mjs", BESIDE)
    workspace.project.signed("tools/ops/package.json", '{"type": "module", "name": "ops"}')
    workspace.env["PATH"] = f"{Path(NODE or '/usr/bin/node').parent}:/usr/bin:/bin"
    workspace.env["RYE_CACHE_DIR"] = str(workspace.folder / "cache")
    return workspace


def entries(workspace: Workspace) -> list[Path]:
    return sorted(workspace.folder.glob("cache/approved/*"))


def told(workspace: Workspace) -> dict[str, str]:
    result = workspace.run("ops/n")
    assert result.success, (result.error, result.metadata)
    said: dict[str, str] = result.data
    return said


@needs_node
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_approved_runner_is_started_from_a_copy_of_its_package(
    ready: Workspace, layout: str
) -> None:
    LAYOUTS[layout](ready.project_path)
    ready.approve()

    said = [told(ready) for _ in range(2)]

    (entry,) = entries(ready)
    expected = {"by": str(entry / TSX), "from": HONEST, "beside": "imported"}
    assert said == [expected] * 2


@needs_node
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("changed", ["tsx/cli.cjs", "tsx/lib.cjs", "dep/i.cjs", ".bin/tsx"])
def test_what_is_exchanged_after_the_comparison_is_not_started(
    ready: Workspace, layout: str, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready.project_path
    LAYOUTS[layout](project)
    ready.approve()
    places = [
        *project.glob(f"node_modules/{changed}"),
        *project.glob(f"node_modules/.pnpm/*/node_modules/{changed}"),
    ]

    def exchange() -> None:
        for place in places:
            place.unlink(missing_ok=True)
            write(place, '#!/usr/bin/env node\nmodule.exports = "evil"; process.exit(3);\n', 0o755)

    assert places
    _exchange_before(monkeypatch, "ryeos.run.process_call.command_of", exchange)

    assert told(ready)["from"] == HONEST


def _exchange_before(
    monkeypatch: pytest.MonkeyPatch, place: str, step: Callable[[], object]
) -> None:
    module, _, name = place.rpartition(".")
    original = getattr(import_module(module), name)

    def after_step(*args: object, **options: object) -> object:
        step()
        return original(*args, **options)

    monkeypatch.setattr(place, after_step)


@needs_node
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["cli.cjs", "lib.cjs", "i.cjs"])
def test_at_no_moment_other_bytes_are_started(
    ready: Workspace, name: str, nth: int, *, is_known: bool
) -> None:
    """Either what was approved runs, or nothing of the project does."""
    as_npm(ready.project_path)
    canary = ready.folder / "canary"
    ready.approve()
    if is_known:
        told(ready)
    (path,) = (ready.project_path / "node_modules").glob(f"*/{name}")
    evil = f"#!/usr/bin/env node\nrequire('fs').writeFileSync('{canary}', '');\n"

    with exchanged(path, evil.encode(), nth):
        ready.run("ops/n")

    assert not canary.exists()


def test_a_changed_package_is_no_longer_started(ready: Workspace) -> None:
    as_npm(ready.project_path)
    ready.approve()
    (ready.project_path / "node_modules/dep/i.cjs").write_text("// other\n", "utf-8")

    result = ready.run("ops/n")

    assert "not used" in "\n".join(result.metadata["warnings"])
    assert entries(ready) == []


def test_a_script_of_pnpm_is_covered_with_its_package(ready: Workspace) -> None:
    as_pnpm(ready.project_path)
    ready.approve()
    approval = ProjectApproval(ready.user.space, ready.project_path, ready.rye().trust)
    counted = approval.allows(TSX)
    module = ready.project_path / "node_modules/.pnpm/dep@1/node_modules/dep/i.cjs"
    module.write_text('module.exports = "other";\n', "utf-8")

    assert (counted, approval.allows(TSX)) == (True, False)


def held(ready: Workspace) -> tuple[HeldPrograms, StartFiles]:
    files = StartFiles(str(ready.project_path), copies=True)
    files.add_programs(str(ready.project_path / "node_modules/.bin"))
    cache = ready.folder / "cache/approved"
    project = os.path.realpath(ready.project_path)
    return HeldPrograms(cache, project, "node_modules/.bin", files.digest()), files


def test_an_entry_has_what_was_compared_and_nothing_else(ready: Workspace) -> None:
    as_npm(ready.project_path)
    modules = ready.project_path / "node_modules"
    write(modules / "other/index.js", "// no program asks for it\n")
    link(modules / ".bin/node", "/usr/bin/env")
    link(modules / "tsx/data", str(modules / "dep"))
    programs, files = held(ready)

    programs.write(files)

    found = {str(p.relative_to(programs.path)) for p in programs.path.rglob("*") if not p.is_dir()}
    assert found == {
        *("node_modules/.bin/node", "node_modules/.bin/tsx"),
        *(f"node_modules/tsx/{name}" for name in ("package.json", "lib.cjs", "cli.cjs")),
        *(f"node_modules/dep/{name}" for name in ("package.json", "i.cjs")),
    }
    links = {p.name: str(p.readlink()) for p in programs.path.rglob("*") if p.is_symlink()}
    assert links == {"tsx": "../tsx/cli.cjs", "data": "../dep", "node": "/usr/bin/env"}
    modes = {p.name: p.lstat().st_mode & 0o777 for p in programs.path.glob("*/tsx/*.cjs")}
    assert modes == {"cli.cjs": 0o500, "lib.cjs": 0o400}
    assert list(programs.cache.iterdir()) == [programs.path]


def test_what_may_be_executed_is_said_by_its_bytes(ready: Workspace) -> None:
    """A mode is not compared: whoever may write the project could take it away for good."""
    as_npm(ready.project_path)
    (ready.project_path / "node_modules/tsx/cli.cjs").chmod(0o644)
    programs, files = held(ready)

    programs.write(files)

    assert os.access(programs.path / TSX, os.X_OK)


def test_a_second_writer_changes_nothing(ready: Workspace) -> None:
    as_npm(ready.project_path)
    programs, files = held(ready)
    programs.write(files)
    before = (programs.path / TSX).stat().st_ino

    programs.write(files)

    assert (programs.path / TSX).stat().st_ino == before
    assert list(programs.cache.iterdir()) == [programs.path]


def test_what_a_killed_process_left_is_no_entry(ready: Workspace) -> None:
    as_npm(ready.project_path)
    programs, files = held(ready)
    (programs.cache / f"{'0' * 16}.tmp").mkdir(parents=True)

    assert not programs.is_there()
    programs.write(files)
    assert programs.is_there()


def test_a_package_exchanged_before_it_is_kept_is_not_kept(ready: Workspace) -> None:
    as_npm(ready.project_path)
    ready.approve()
    approval = ProjectApproval(
        ready.user.space,
        ready.project_path,
        ready.rye().trust,
        lambda: ready.folder / "cache/approved",
    )
    counted = approval.allows(TSX)
    (ready.project_path / "node_modules/tsx/lib.cjs").write_text("// other\n", "utf-8")

    assert counted
    with pytest.raises(IntegrityError, match="approved"):
        approval.place(TSX)
    assert entries(ready) == []


@needs_node
def test_a_limited_tool_reads_the_copy(ready: Workspace) -> None:
    as_npm(ready.project_path)
    limited = TOOL.replace(
        "export function",
        'export const __sandbox__ = { write: [], network: "none" };\nexport function',
    )
    ready.project.signed("tools/ops/n.mjs", limited)
    ready.approve()

    assert told(ready)["from"] == HONEST


@needs_node
def test_an_agent_starts_the_copy_and_cannot_change_it(ready: Workspace) -> None:
    as_npm(ready.project_path)
    ready.approve()
    agent = ready.rye(confines=True).executor

    ran = agent.execute(ExecutionRequest(item_id="ops/n"))
    (entry,) = entries(ready)
    command = f"chmod -R u+w {entry}; echo evil > {entry}/node_modules/tsx/lib.cjs"
    changed = agent.execute(
        ExecutionRequest(item_id="rye/bash/bash", parameters={"command": command})
    )

    assert ran.data["by"] == str(entry / TSX), (ran.error, ran.metadata)
    assert not changed.success
    assert "honest" in (entry / "node_modules/tsx/lib.cjs").read_text("utf-8")


@needs_node
@pytest.mark.heavy
def test_the_real_tsx_runs_typescript_from_its_copy(ready: Workspace) -> None:
    """Where npm has it: esbuild's program, ``enum``, imports beside, places in errors."""
    npm = shutil.which("npm")
    made = npm and subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "tsx@4"],
        cwd=ready.project_path,
        capture_output=True,
        check=False,
    )
    if not made or made.returncode:
        pytest.skip("needs npm and its registry")
    typescript = (
        TOOL.replace("./beside.mjs", "./types.ts")
        .replace("export function", "enum Where { here = 3 }\nexport function")
        .replace("process.env.STARTED", "(new Error(`${Where.here}`).stack ?? '')")
    )
    ready.project.signed("tools/ops/types.ts", BESIDE.replace("beside =", "beside: string ="))
    (ready.project_path / ".ai/tools/ops/n.mjs").unlink()
    ready.project.signed("tools/ops/n.ts", typescript)
    ready.approve()

    said = told(ready)

    (entry,) = entries(ready)
    assert said["by"] == str(entry / TSX)
    assert "Error: 3" in said["from"]
    assert "n.ts:11:" in said["from"]


# --- a Python that is a copy ----------------------------------------------------------------------

PYTHON = ".venv/bin/python"
TELLS = """\
import json, sys
def execute(params, project_path):
    return told()
def told():
    import ssl, zlib, ctypes
    places = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.executable, sys.path[-1]]
    with open("/proc/self/exe", "rb") as file: size = len(file.read())
    return [*places, size, hasattr(sys, "honest")]
if __name__ == "__main__":
    print(json.dumps(told()))
"""
needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def as_copy(project: Path) -> None:
    """As ``python -m venv --copies`` makes it."""


def as_older_copy(project: Path) -> None:
    """The Python that it is a copy of was replaced since."""
    with (project / PYTHON).open("ab") as file:
        file.write(b"\n")


def as_link_to_a_copy(project: Path) -> None:
    (project / PYTHON).rename(project / ".venv/bin/python3.real")
    link(project / PYTHON, "python3.real")


def without_its_origin(project: Path) -> None:
    """``pyvenv.cfg`` of older versions names the folder alone."""
    settings = project / ".venv/pyvenv.cfg"
    lines = settings.read_text("utf-8").splitlines(keepends=True)
    settings.write_text("".join(one for one in lines if one.startswith(("home", "incl"))), "utf-8")


def with_settings_in_bin(project: Path) -> None:
    """Python reads ``pyvenv.cfg`` beside itself first."""
    (project / ".venv/pyvenv.cfg").rename(project / ".venv/bin/pyvenv.cfg")


def from_a_folder_of_links(project: Path) -> None:
    """The folder that ``home`` names has a link to the Python, as ``/usr/local/bin`` often has."""
    home = Path(os.path.realpath(sys.executable)).parent
    links = project.parent / "programs"
    link(links / "python3", str(home / f"python3.{sys.version_info[1]}"))
    settings = project / ".venv/pyvenv.cfg"
    settings.write_text(f"home = {links}\ninclude-system-site-packages = false\n", "utf-8")
    (project / PYTHON).unlink()
    link(project / PYTHON, str(links / "python3"))


KINDS_OF_COPIES: dict[str, Callable[[Path], None]] = {
    "copy": as_copy,
    "older copy": as_older_copy,
    "link to a copy": as_link_to_a_copy,
    "without its origin": without_its_origin,
    "settings in bin": with_settings_in_bin,
    "from a folder of links": from_a_folder_of_links,
}


def with_environment(workspace: Workspace, kind: str, python: str = sys.executable) -> None:
    project = workspace.project_path
    make = [python, "-m", "venv", "--without-pip", "--copies", str(project / ".venv")]
    subprocess.run(make, check=True)
    (site,) = (project / ".venv/lib").glob("python3*/site-packages")
    write(site / "a.pth", "import sys; sys.honest = True\n")
    KINDS_OF_COPIES[kind](project)
    workspace.env["RYE_CACHE_DIR"] = str(workspace.folder / "cache")


def told_by_python(workspace: Workspace) -> list[object]:
    result = workspace.run("mine/t")
    assert result.success, (result.error, result.metadata)
    said: list[object] = result.data
    return said


@needs_linux
@pytest.mark.parametrize("runtime", ["script", "function"])
@pytest.mark.parametrize("kind", KINDS_OF_COPIES)
def test_a_copied_python_is_started_from_the_bytes_that_were_compared(
    workspace: Workspace, kind: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_environment(workspace, kind)
    project = workspace.project_path
    python = project / PYTHON
    executor = f"rye/core/runtimes/python/{runtime}"
    workspace.project.sign(workspace.project.tool("mine/t", TELLS, executor=executor))
    workspace.approve()
    size = python.stat().st_size

    def exchange() -> None:
        for one in (project / ".venv/bin").iterdir():
            if one.name.startswith("python"):
                one.unlink()
                write(one, "#!/bin/sh\nexit 3\n", 0o755)

    for place in ("ryeos.run.process_call.command_of", "ryeos.run.function_worker.spawn"):
        _exchange_before(monkeypatch, place, exchange)

    said = told_by_python(workspace)

    assert said[0] == said[1] == str(project / ".venv")
    assert os.path.realpath(str(said[2])) == os.path.realpath(sys.base_prefix)
    assert said[3] == str(python)
    assert said[5:] == [size, True]


@needs_linux
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_at_no_moment_another_copy_of_python_is_started(workspace: Workspace, nth: int) -> None:
    with_environment(workspace, "older copy")
    workspace.project.signed_tool("mine/t", TELLS)
    workspace.approve()
    canary = workspace.folder / "canary"

    with exchanged(workspace.project_path / PYTHON, f"#!/bin/sh\n: > {canary}\n".encode(), nth):
        workspace.run("mine/t")

    assert not canary.exists()


@needs_linux
@pytest.mark.parametrize("leads_to", ["outside", "project"])
@pytest.mark.parametrize("kind", ["copy", "from a folder of links"])
def test_a_link_exchanged_after_the_comparison_leads_to_no_other_python(
    workspace: Workspace, kind: str, leads_to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_environment(workspace, kind)
    workspace.project.signed_tool("mine/t", TELLS)
    workspace.approve()
    canary = workspace.folder / "canary"
    folder = {"outside": workspace.folder, "project": workspace.project_path}[leads_to]
    evil = write(folder / "evil/python", f"#!/bin/sh\n: > {canary}\n", 0o755)

    def exchange() -> None:
        (workspace.project_path / PYTHON).unlink()
        link(workspace.project_path / PYTHON, str(evil))

    _exchange_before(monkeypatch, "ryeos.trust.start_files.held_environment", exchange)

    assert told_by_python(workspace)[-1] is True
    assert not canary.exists()


@needs_linux
def test_a_copy_of_the_same_bytes_needs_no_copy_of_its_own(workspace: Workspace) -> None:
    with_environment(workspace, "copy")
    workspace.project.signed_tool("mine/t", TELLS)
    workspace.approve()

    told_by_python(workspace)

    (entry,) = entries(workspace)
    (python,) = entry.glob("bin/*")
    assert python.is_symlink()


@needs_linux
def test_a_limited_tool_starts_with_a_copied_python(workspace: Workspace) -> None:
    with_environment(workspace, "older copy")
    limits = '__sandbox__ = {"write": [], "network": "none", "programs": "none"}\n'
    workspace.project.signed_tool("mine/t", limits + TELLS)
    workspace.approve()

    assert told_by_python(workspace)[-1] is True


# --- what is said ---------------------------------------------------------------------------------


def test_the_question_says_that_programs_are_compared_at_the_start_only(
    tmp_path: Path, bundle: Space
) -> None:
    signer = CommandLine(tmp_path, bundle)
    signer("keys", "generate")
    as_npm(signer.project)

    asked = signer("trust", "--yes").stderr
    (part,) = signer.json("trust")["parts"]

    said = "compared when a tool starts; not again when that tool starts such a program"
    assert said in asked
    assert said in part["not_covered"][0]
