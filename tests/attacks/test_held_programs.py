"""Approved programs that interpret tools are started from compared bytes, whatever lies there later.

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
from ryeos.trust.approvals import ProjectApproval
from ryeos.trust.held_programs import HeldPrograms
from ryeos.trust.start_files import StartFiles
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
export function execute() { return { by: process.env.RYE_NODE, from: process.env.STARTED, beside }; }
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
    _exchange_before(monkeypatch, "ryeos.run.command.command_of", exchange)

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
        "export function", 'export const __sandbox__ = { write: [], network: "none" };\nexport function'
    )
    ready.project.signed("tools/ops/n.mjs", limited)
    ready.approve()

    assert told(ready)["from"] == HONEST


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
    assert "n.ts:10:" in said["from"]
