"""Files of an approved project that its interpreters run at each start, changed after the approval.

Each case prepares a project, approves it, changes one thing, and asks whether the interpreter still
counts. What Python does with such a file is tried by a real interpreter, where it is not obvious.
"""

import ast
import importlib.util
import json
import os
import py_compile
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from ryeos.items.errors import IntegrityError
from ryeos.trust.approvals import ProjectApproval, parts_of, read_part
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.start_files import imported_names
from tests.support.executables import make_program
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders of POSIX environments")

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PYTHON, PROGRAM = ".venv/bin/python", ".venv/bin/tool"
Step = Callable[[Path], object]


class Environment:
    """A real environment, and files in it."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.project = workspace, workspace.project_path
        self.canary = workspace.folder / "canary"
        self.make = [sys.executable, "-m", "venv", "--without-pip", str(self.project / ".venv")]
        subprocess.run(self.make, check=True)

    @property
    def approval(self) -> ProjectApproval:
        return ProjectApproval(self.workspace.user.space, self.project, self.workspace.rye().trust)

    def counts(self, program: str = PYTHON) -> bool:
        return self.approval.allows(program)

    def starts(self) -> str:
        """What the interpreter says when it starts, and nothing else."""
        ran = subprocess.run(
            [self.project / PYTHON, "-c", "pass"],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return ran.stdout


@pytest.fixture
def environment(workspace: Workspace) -> Environment:
    return Environment(workspace)


def write(relative: str, text: str = "print('changed')\n") -> Step:
    def step(project: Path) -> None:
        path = project / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(text, encoding="utf-8")

    return step


def link(relative: str, target: str) -> Step:
    def step(project: Path) -> None:
        path = project / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return step


def bytecode(relative: str, text: str = "print('changed')\n") -> Step:
    """Bytecode that Python takes whatever its source says."""

    def step(project: Path) -> None:
        source, compiled = project / "source.py", project / relative
        compiled.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text, encoding="utf-8")
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(source), str(compiled), invalidation_mode=unchecked)
        source.unlink()

    return step


def both(*steps: Step) -> Step:
    return lambda project: [step(project) for step in steps]


def nothing(_project: Path) -> None:
    """No step."""


SITE = f".venv/lib/{VERSION}/site-packages"
CACHED = f"__pycache__/{{}}.{sys.implementation.cache_tag}.pyc"
SYSTEM_PACKAGES = write(
    ".venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n"
)

# before the approval, after it, and whether a real interpreter shows that it runs what changed
CASES: dict[str, tuple[Step, Step, bool]] = {
    "settings": (nothing, SYSTEM_PACKAGES, False),
    "settings beside the interpreter": (nothing, write(".venv/bin/pyvenv.cfg", "x = 1\n"), False),
    "new .pth": (nothing, write(f"{SITE}/a.pth", "import this_is_new\n"), False),
    "hidden .pth": (nothing, write(f"{SITE}/.a.pth", "import os\n"), False),
    "module of a .pth": (
        both(write(f"{SITE}/a.pth", "import _a\n"), write(f"{SITE}/_a.py", "x = 1\n")),
        write(f"{SITE}/_a.py"),
        True,
    ),
    "module of a .pth that was not there": (
        write(f"{SITE}/a.pth", "import os; exec('try: import _a\\nexcept ImportError: pass')\n"),
        write(f"{SITE}/_a.py"),
        True,
    ),
    "second line of a .pth after a carriage return": (
        both(write(f"{SITE}/a.pth", "# x\rimport _a\n"), write(f"{SITE}/_a.py", "x = 1\n")),
        write(f"{SITE}/_a.py"),
        True,
    ),
    "file of a package of a .pth": (
        both(
            write(f"{SITE}/a.pth", "import _a.b\n"),
            write(f"{SITE}/_a/__init__.py", ""),
            write(f"{SITE}/_a/b.py", "x = 1\n"),
        ),
        write(f"{SITE}/_a/b.py"),
        True,
    ),
    "bytecode of a module of a .pth": (
        both(write(f"{SITE}/a.pth", "import _a\n"), write(f"{SITE}/_a.py", "x = 1\n")),
        bytecode(f"{SITE}/{CACHED.format('_a')}"),
        True,
    ),
    "bytecode in a package of a .pth": (
        both(write(f"{SITE}/a.pth", "import _a\n"), write(f"{SITE}/_a/__init__.py", "x = 1\n")),
        bytecode(f"{SITE}/_a/{CACHED.format('__init__')}"),
        True,
    ),
    "module that a module of a .pth imports": (
        both(
            write(f"{SITE}/a.pth", "import _a\n"),
            write(f"{SITE}/_a.py", "def start():\n    from _b import x\n\nstart()\n"),
            write(f"{SITE}/_b.py", "x = 1\n"),
        ),
        write(f"{SITE}/_b.py", "print('changed'); x = 1\n"),
        True,
    ),
    "module in a folder that a .pth adds": (
        both(
            write(f"{SITE}/a.pth", "../../../../src\nimport _a\n"),
            write("src/_a.py", "x = 1\n"),
        ),
        write("src/_a.py"),
        True,
    ),
    "sitecustomize in a folder that a .pth adds": (
        both(write(f"{SITE}/a.pth", "../../../../src\n"), write("src/x.py", "")),
        write("src/sitecustomize.py"),
        True,
    ),
    "sitecustomize": (nothing, write(f"{SITE}/sitecustomize.py"), True),
    "sitecustomize as a package": (nothing, write(f"{SITE}/sitecustomize/__init__.py"), True),
    "sitecustomize as bytecode alone": (nothing, bytecode(f"{SITE}/sitecustomize.pyc"), True),
    "bytecode of sitecustomize": (
        write(f"{SITE}/sitecustomize.py", "x = 1\n"),
        bytecode(f"{SITE}/{CACHED.format('sitecustomize')}"),
        True,
    ),
    "module that sitecustomize imports": (
        both(write(f"{SITE}/sitecustomize.py", "import json, _b\n"), write(f"{SITE}/_b.py", "")),
        write(f"{SITE}/_b.py"),
        True,
    ),
    "usercustomize": (SYSTEM_PACKAGES, write(f"{SITE}/usercustomize.py"), False),
    "usercustomize as a package": (nothing, write(f"{SITE}/usercustomize/__init__.py"), False),
    "usercustomize as bytecode alone": (nothing, bytecode(f"{SITE}/usercustomize.pyc"), False),
    "packages of the distribution": (
        nothing,
        write(f".venv/lib/{VERSION}/dist-packages/sitecustomize.py"),
        False,
    ),
    "packages of the distribution below local": (
        nothing,
        write(f".venv/local/lib/{VERSION}/dist-packages/a.pth", "import os\n"),
        False,
    ),
    "the interpreter in place of a link": (
        nothing,
        write(".venv/bin/python", "#!/bin/sh\necho changed\n"),
        False,
    ),
    "another link to an interpreter": (nothing, link(".venv/bin/python", "/bin/true"), False),
    "file of the project at the end of links": (
        both(
            write("tools/run", "#!/bin/sh\n"),
            link(".venv/bin/python3", "../../tools/run"),
            link(".venv/bin/python", "python3"),
        ),
        write("tools/run", "#!/bin/sh\necho changed\n"),
        False,
    ),
    "library beside an environment": (
        nothing,
        write(f".venv/lib/{VERSION}/os.py", "print('changed')\n"),
        False,
    ),
    "library in an archive": (
        nothing,
        write(f".venv/lib/{VERSION.replace('.', '')}.zip", "x"),
        False,
    ),
    "paths file": (nothing, write(f".venv/bin/{VERSION}._pth", "/evil\n"), False),
    "library of a home in the project": (
        both(
            write(".venv/pyvenv.cfg", "home = {project}/py/bin\n"),
            write(f"py/lib/{VERSION}/os.py", "x = 1\n"),
            write(f"py/lib/{VERSION}/encodings/__init__.py", "x = 1\n"),
            write("py/bin/python3", ""),
        ),
        write(f"py/lib/{VERSION}/encodings/__init__.py"),
        False,
    ),
    "library that appears above a home in the project": (
        both(write(".venv/pyvenv.cfg", "home = {project}/py/bin\n"), write("py/bin/python3", "")),
        write(f"lib/{VERSION}/os.py"),
        False,
    ),
    "environment without settings": (
        both(
            lambda project: (project / ".venv/pyvenv.cfg").unlink(),
            write(".venv/bin/python", "#!/bin/sh\n"),
        ),
        write(".venv/bin/python", "#!/bin/sh\necho changed\n"),
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_approved_environment_no_longer_counts(environment: Environment, case: str) -> None:
    before, after, is_shown = CASES[case]
    before(environment.project)
    _fill_settings(environment.project)
    environment.workspace.approve()
    counted, said = environment.counts(), environment.starts() if is_shown else ""
    environment.workspace.approve()  # an honest start may have written bytecode
    after(environment.project)

    assert (counted, environment.counts()) == (True, False)
    if is_shown:
        assert (said, environment.starts()) == ("", "changed\n")


def _fill_settings(project: Path) -> None:
    settings = project / ".venv/pyvenv.cfg"
    if settings.exists():
        text = settings.read_text("utf-8").replace("{project}", str(project))
        settings.write_text(text, encoding="utf-8")


def test_an_approval_outlives_the_starts_that_rye_makes(environment: Environment) -> None:
    workspace = environment.workspace
    workspace.project.signed_tool("mine/t", "import sys\nprint(sys.prefix)")
    write(f"{SITE}/a.pth", "import _a\n")(environment.project)
    write(f"{SITE}/_a.py", "x = 1\n")(environment.project)
    workspace.approve()

    ran = [workspace.run("mine/t").data["stdout"] for _ in range(2)]

    assert ran == [f"{environment.project / '.venv'}\n"] * 2


def test_a_package_that_no_start_imports_is_not_compared(environment: Environment) -> None:
    write(f"{SITE}/other/__init__.py", "x = 1\n")(environment.project)
    environment.workspace.approve()
    write(f"{SITE}/other/__init__.py", "x = 2\n")(environment.project)

    assert environment.counts()


def test_another_program_of_an_environment_counts_by_its_own_bytes(
    environment: Environment,
) -> None:
    make_program(environment.project / PROGRAM, "echo 1")
    environment.workspace.approve()
    before = (environment.counts(PROGRAM), environment.counts(".venv/bin"))
    make_program(environment.project / PROGRAM, "echo 2")

    assert before == (True, True)
    assert not environment.counts(PROGRAM)
    assert not environment.counts(".venv/bin")
    assert environment.counts(PYTHON)


@pytest.mark.parametrize("path", [".venv/python", ".venv/lib/python", ".venv/share/python"])
def test_only_folders_of_programs_are_covered_by_an_environment(
    environment: Environment, path: str
) -> None:
    environment.workspace.approve()
    make_program(environment.project / path)

    assert not environment.counts(path)


@pytest.mark.parametrize(
    "changed",
    [
        *("tsx/dist/cli.mjs", "tsx/dist/chunk.mjs", "tsx/package.json"),
        *("esbuild/lib/main.js", "tsx/node_modules/esbuild/package.json"),
    ],
)
def test_a_runner_of_node_modules_is_its_whole_package(workspace: Workspace, changed: str) -> None:
    project = workspace.project_path
    for name in ("dist/cli.mjs", "dist/chunk.mjs"):
        write(f"node_modules/tsx/{name}", "// as it was\n")(project)
    write("node_modules/tsx/package.json", '{"dependencies": {"esbuild": "1"}}')(project)
    write("node_modules/esbuild/lib/main.js", "// as it was\n")(project)
    write("node_modules/esbuild/package.json", "{}")(project)
    (project / "node_modules/tsx/dist/cli.mjs").chmod(0o755)
    link("node_modules/.bin/tsx", "../tsx/dist/cli.mjs")(project)
    workspace.approve()
    approval = ProjectApproval(workspace.user.space, project, workspace.rye().trust)
    before = approval.allows("node_modules/.bin/tsx")
    write(f"node_modules/{changed}", "{}\n")(project)

    assert before
    assert not approval.allows("node_modules/.bin/tsx")


def test_a_folder_of_programs_with_a_python_covers_its_library(workspace: Workspace) -> None:
    project = workspace.project_path
    for name in ("os.py", "json/__init__.py"):
        write(f"py/lib/{VERSION}/{name}", "x = 1\n")(project)
    make_program(project / "py/bin/python3")
    key = SigningKey(workspace.keypair)
    parts = tuple(parts_of(project, ("py/bin",)))
    workspace.rye().approval.approve(parts, key, "2026-01-01T00:00:00Z")
    approval = ProjectApproval(workspace.user.space, project, workspace.rye().trust)
    before = approval.allows("py/bin/python3")
    write(f"py/lib/{VERSION}/json/__init__.py", "x = 2\n")(project)

    assert (before, approval.allows("py/bin/python3")) == (True, False)


def test_more_than_can_be_compared_is_not_approved(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ryeos.trust.start_files.MAX_FILES", 3)
    environment.workspace.approve()

    part = read_part(environment.project, "interpreter", ".venv")

    assert "compared at each start" in part.problem
    assert not environment.counts()


def test_a_real_interpreter_in_the_project_is_held_with_its_library(
    environment: Environment,
) -> None:
    """The whole way: a copied library, a changed module of it, a tool of the project."""
    workspace, project = environment.workspace, environment.project
    library = Path(os.__file__).parent
    if not (library / "encodings").is_dir():
        pytest.skip("the standard library of this Python is no folder of files")
    left_out = shutil.ignore_patterns("test", "site-packages", "dist-packages", "__pycache__")
    shutil.copytree(library, project / f"py/lib/{VERSION}", ignore=left_out, symlinks=False)
    (project / "py/bin").mkdir()
    shutil.copy(os.path.realpath(sys.executable), project / "py/bin/python3")
    write(".venv/pyvenv.cfg", f"home = {project}/py/bin\n")(project)
    for name in ("python", "python3", VERSION):
        (project / ".venv/bin" / name).unlink(missing_ok=True)
    link(".venv/bin/python", "../../py/bin/python3")(project)
    workspace.project.signed_tool("mine/t", "import sys\nprint(sys.executable)")
    workspace.approve()
    used = workspace.run("mine/t").data["stdout"]
    evil = f"\ntry: open({str(environment.canary)!r}, 'w')\nexcept NameError: pass\n"
    with (project / f"py/lib/{VERSION}/encodings/__init__.py").open("a", encoding="utf-8") as file:
        file.write(evil)

    result = workspace.run("mine/t")

    assert used == f"{project / PYTHON}\n"
    assert "not used" in "\n".join(result.metadata["warnings"])
    assert not environment.canary.exists()


# --- exchanged between the comparison and the start -----------------------------------------------

EVIL = "import sys\nsys.evil = True\n"
TELLS = """\
import json, site, sys
def execute(params, project_path):
    return told()
def told():
    places = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.executable, sys.path[-1]]
    return [*places, site.ENABLE_USER_SITE, hasattr(sys, "honest"), hasattr(sys, "evil")]
if __name__ == "__main__":
    print(json.dumps(told()))
"""
HONEST = both(
    write(f"{SITE}/a.pth", "import _a\n../../../../src\n"),
    write("src/_b.py", "import sys\n"),
    write(f"{SITE}/_a.py", "import sys\nsys.honest = True\nimport _b\n"),
    write(f"{SITE}/_b.py", "x = 1\n"),
)
EXCHANGED: dict[str, Step] = {
    "settings": write(".venv/pyvenv.cfg", "home = /nowhere\n"),
    "settings beside the interpreter": write(".venv/bin/pyvenv.cfg", "home = /nowhere\n"),
    "the interpreter": write(".venv/bin/python", "#!/bin/sh\nexit 3\n"),
    "a .pth": write(f"{SITE}/a.pth", "import sys; sys.evil = True\n"),
    "a .pth that appears": write(f"{SITE}/0.pth", "import sys; sys.evil = True\n"),
    "the module of a .pth": write(f"{SITE}/_a.py", EVIL),
    "what that imports": write(f"{SITE}/_b.py", EVIL),
    "bytecode of a module": bytecode(f"{SITE}/{CACHED.format('_a')}", EVIL),
    "sitecustomize that appears": write(f"{SITE}/sitecustomize.py", EVIL),
    "sitecustomize as a package": write(f"{SITE}/sitecustomize/__init__.py", EVIL),
    "sitecustomize as bytecode": bytecode(f"{SITE}/sitecustomize.pyc", EVIL),
    "sitecustomize in an added folder": write("src/sitecustomize.py", EVIL),
}


@pytest.mark.parametrize("runtime", ["script", "function"])
@pytest.mark.parametrize("change", EXCHANGED)
def test_a_start_uses_the_bytes_that_were_compared(
    environment: Environment, change: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, project = environment.workspace, environment.project
    HONEST(project)
    executor = f"rye/core/runtimes/python/{runtime}"
    workspace.project.sign(workspace.project.tool("mine/t", TELLS, executor=executor))
    workspace.approve()
    expected = _told(workspace)
    for place in ("ryeos.run.process_call.command_of", "ryeos.run.function_worker.spawn"):
        _exchange_before(monkeypatch, place, lambda: EXCHANGED[change](project))

    assert _told(workspace) == expected
    assert expected[-2:] == [True, False]
    assert expected[0] == str(project / ".venv")
    assert expected[3] == str(project / PYTHON)


def _told(workspace: Workspace) -> list[object]:
    result = workspace.run("mine/t")
    assert result.success, (result.error, result.metadata)
    told: list[object] = result.data
    return told


def _exchange_before(
    monkeypatch: pytest.MonkeyPatch, place: str, step: Callable[[], object]
) -> None:
    module, _, name = place.rpartition(".")
    original = getattr(import_module(module), name)

    def exchanged(*args: object, **options: object) -> object:
        step()
        return original(*args, **options)

    monkeypatch.setattr(place, exchanged)


def test_a_held_start_is_like_an_ordinary_one(environment: Environment) -> None:
    workspace, project = environment.workspace, environment.project
    HONEST(project)
    SYSTEM_PACKAGES(project)
    settings = project / ".venv/pyvenv.cfg"
    home = Path(os.path.realpath(sys.executable)).parent
    settings.write_text(settings.read_text("utf-8").replace("/usr/bin", str(home)), "utf-8")
    tells = (
        "import json, site, sys, sysconfig\n"
        "sys.path[:] = [one for one in sys.path if one]\n"
        "print(json.dumps([sys.prefix, sys.exec_prefix, sys.base_prefix, sys.executable, sys.path,"
        " sys._base_executable, site.ENABLE_USER_SITE, site.PREFIXES, sysconfig.get_paths(),"
        " sys._home, bool(exit), hasattr(sys, 'honest')]))\n"
    )
    workspace.project.signed_tool("mine/t", tells)
    workspace.approve()
    env = {**workspace.env, "PYTHONDONTWRITEBYTECODE": "1"}
    ordinary = subprocess.run(
        [project / PYTHON, "-c", tells], capture_output=True, check=True, env=env
    )

    assert workspace.run("mine/t").data == json.loads(ordinary.stdout)


def test_an_environment_that_changed_is_not_held(environment: Environment) -> None:
    program = str(environment.project / PYTHON)
    environment.workspace.approve()
    approval = environment.approval
    held = approval.hold(program)
    write(f"{SITE}/a.pth", "import os\n")(environment.project)

    assert held is not None
    with pytest.raises(IntegrityError, match="approved"):
        approval.hold(program)


def test_what_was_compared_for_a_start_is_what_is_held(environment: Environment) -> None:
    """One read: the bytes that let the interpreter count, even if others are there by now."""
    path = environment.project / SITE / "a.pth"
    write(f"{SITE}/a.pth", "import os\n")(environment.project)
    environment.workspace.approve()
    approval = environment.approval
    counted = approval.allows(PYTHON)
    path.write_text("import evil\n", "utf-8")
    held = approval.hold(str(environment.project / PYTHON))

    assert counted
    assert held is not None
    assert held.files[str(path)] == b"import os\n"


# --- what a start loads otherwise than by an import statement -------------------------------------

BOOT, PLUG = write(f"{SITE}/x.pth", "import _boot\n"), f"{SITE}/_plug.py"
ENTRY = "import importlib.util, os, sys\nhere = os.path.dirname(__file__)\nplug = here + '/_plug'\n"
BY_OTHER_WAYS: dict[str, str] = {
    "import_module": "import importlib\nimportlib.import_module('_pl' + 'ug')\n",
    "import_module in a function": (
        "from importlib import import_module as load\ndef go(name):\n    load(name)\ngo('_plug')\n"
    ),
    "__import__": "__import__('_' + 'plug')\n",
    "text that is executed": "exec('imp' + 'ort _plug')\n",
    "entry points": (
        "from importlib.metadata import entry_points\n"
        "for one in [e for e in entry_points().get('boot', ())] if sys.version_info < (3, 10)"
        " else entry_points(group='boot'):\n    one.load()()\n"
    ),
    "a loader": (
        "spec = importlib.util.spec_from_file_location('p', plug + '.py')\n"
        "spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
    ),
    "a loader of another name": (
        "from importlib.machinery import SourceFileLoader\n"
        "SourceFileLoader('p', plug + '.txt').load_module()\n"
    ),
    "a loader of bytecode": (
        "from importlib.machinery import SourcelessFileLoader\n"
        "SourcelessFileLoader('p', plug + '.pyc').load_module()\n"
    ),
    "runpy": "import runpy\nrunpy.run_path(plug + '.py')\n",
    "open": "exec(open(plug + '.py').read())\n",
    "pathlib": "import pathlib\nexec(pathlib.Path(plug + '.py').read_text())\n",
    "a folder of site": "import site\nsite.addsitedir(os.path.join(sys.prefix, 'more'))\n",
    "an archive": "sys.path.insert(0, here + '/plug.zip')\n__import__('_zip' + 'ped')\n",
    "a link": "os.symlink(plug + '.py', '{folder}/l.py')\nexec(open('{folder}/l.py').read())\n",
}


def _plugs(project: Path) -> None:
    """Code that an agent puts into the environment after it was approved, for each way to it."""
    for name in ("_plug.py", "_plug.txt"):
        write(f"{SITE}/{name}", EVIL)(project)
    bytecode(f"{SITE}/_plug.pyc", EVIL)(project)
    write(".venv/more/evil.pth", "import sys; sys.evil = True\n")(project)
    write(f"{SITE}/ev-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: ev\nVersion: 1\n")(
        project
    )
    # What it names is no code of the environment, but its start would end with it.
    write(f"{SITE}/ev-1.dist-info/entry_points.txt", "[boot]\na = sys:exit\n")(project)
    with zipfile.ZipFile(project / SITE / "plug.zip", "w") as archive:
        archive.writestr("_zipped.py", EVIL)


@pytest.mark.parametrize("way", BY_OTHER_WAYS)
def test_a_start_loads_no_code_that_was_not_compared(environment: Environment, way: str) -> None:
    workspace, project = environment.workspace, environment.project
    BOOT(project)
    text = BY_OTHER_WAYS[way].replace("{folder}", str(workspace.folder))
    honest = "import sys\nsys.honest = True\n"
    write(f"{SITE}/_boot.py", f"{honest}{ENTRY}{text}")(project)
    workspace.project.signed_tool("mine/t", TELLS)
    workspace.approve()
    _plugs(project)

    result = workspace.run("mine/t")

    assert result.success, (result.error, result.metadata)
    assert result.data[0] == str(project / ".venv")
    assert result.data[-2:] == [True, False]


def test_a_refused_import_at_the_start_names_the_file_and_the_way_out(
    environment: Environment,
) -> None:
    workspace, project = environment.workspace, environment.project
    BOOT(project)
    write(f"{SITE}/_boot.py", BY_OTHER_WAYS["import_module"])(project)
    write(PLUG, "x = 1\n")(project)
    workspace.project.signed_tool("mine/t", TELLS)
    workspace.approve()

    stderr = str(workspace.run("mine/t").metadata)

    assert f"{project / PLUG}: not among what was compared" in stderr
    assert "rye trust" in stderr


def test_a_tool_imports_and_opens_after_the_start_as_ever(environment: Environment) -> None:
    workspace, project = environment.workspace, environment.project
    BOOT(project)
    write(f"{SITE}/_boot.py", "import importlib.metadata, pathlib, sys\nkept = open\n")(project)
    tells = (
        "import importlib, importlib.metadata as m, io, json, pathlib, _boot\n"
        "place = pathlib.Path(importlib.import_module('_pl' + 'ug').__file__)\n"
        "names = [one.value for one in m.distribution('ev').entry_points]\n"
        "print(json.dumps([place.read_text() == _boot.kept(place).read() == open(place).read(),"
        " names, type(open).__name__, type(io.open_code).__name__]))\n"
    )
    workspace.project.signed_tool("mine/t", tells)
    workspace.approve()
    _plugs(project)

    kind = type(open).__name__
    assert workspace.run("mine/t").data == [True, ["sys:exit"], kind, kind]


WORKING: dict[str, tuple[Step, str]] = {
    "a version, at the start": (
        both(
            BOOT,
            write(f"{SITE}/ev-1.dist-info/METADATA", "Name: ev\nVersion: 1.5\n"),
            write(f"{SITE}/_boot.py", "from importlib.metadata import version\nv = version('ev')"),
        ),
        "import _boot; print(_boot.v)",
    ),
    "data of a package of the start": (
        both(
            write(f"{SITE}/x.pth", "import _pack\n"),
            write(f"{SITE}/_pack/data.txt", "1.5"),
            write(
                f"{SITE}/_pack/__init__.py",
                "import pkgutil\nd = pkgutil.get_data('_pack', 'data.txt').decode()\n"
                "e = open(__file__.replace('__init__.py', 'data.txt')).read()\nassert d == e",
            ),
        ),
        "import _pack; print(_pack.d)",
    ),
    "continued import statements": (
        both(
            BOOT,
            write(f"{SITE}/_boot.py", "import os, \\\n  _b\nfrom \\\n  _c import (\n  x,\n  y,)\n"),
            write(f"{SITE}/_b.py", "x = 1\n"),
            write(f"{SITE}/_c.py", "x, y = 1.5, 2\n"),
        ),
        "import _boot; print(_boot.x)",
    ),
    "setuptools: a finder of an editable install": (
        both(
            write("lib/mine_pkg/__init__.py", "v = 1.5\n"),
            write(
                f"{SITE}/__editable__.mine-1.pth",
                "import __editable___mine_finder; __editable___mine_finder.install()\n",
            ),
            write(
                f"{SITE}/__editable___mine_finder.py",
                "import sys\nfrom importlib.util import spec_from_file_location\n"
                "from pathlib import Path\nMAPPING = {'mine_pkg': r'{project}/lib/mine_pkg'}\n"
                "class Finder:\n    @classmethod\n"
                "    def find_spec(cls, fullname, path=None, target=None):\n"
                "        if fullname in MAPPING:\n"
                "            found = Path(MAPPING[fullname], '__init__.py')\n"
                "            return spec_from_file_location(fullname, found)\n"
                "def install():\n    sys.meta_path.append(Finder)\n",
            ),
        ),
        "import mine_pkg; print(mine_pkg.v)",
    ),
    "a path of an editable install": (
        both(
            write("src/mine_pkg/__init__.py", "v = 1.5\n"),
            write(f"{SITE}/__editable__.mine-1.pth", "{project}/src\n"),
        ),
        "import mine_pkg; print(mine_pkg.v)",
    ),
    "hatch: a redirecting finder": (
        both(
            write("lib/mine_pkg.py", "v = 1.5\n"),
            write(f"{SITE}/_editable_impl_mine.pth", "import _editable_impl_mine\n"),
            write(
                f"{SITE}/_editable_impl_mine.py",
                "from editables.redirector import RedirectingFinder as F\n"
                "F.install()\nF.map_module('mine_pkg', r'{project}/lib/mine_pkg.py')\n",
            ),
            write(f"{SITE}/editables/__init__.py", ""),
            write(
                f"{SITE}/editables/redirector.py",
                "import importlib.util, sys\nclass RedirectingFinder:\n    known = {}\n"
                "    @classmethod\n    def find_spec(cls, fullname, path=None, target=None):\n"
                "        if fullname in cls.known:\n            return"
                " importlib.util.spec_from_file_location(fullname, cls.known[fullname])\n"
                "    @classmethod\n    def install(cls):\n        sys.meta_path.append(cls)\n"
                "    @classmethod\n    def map_module(cls, name, path):\n"
                "        cls.known[name] = path\n",
            ),
        ),
        "import mine_pkg; print(mine_pkg.v)",
    ),
    "a namespace of setuptools": (
        both(
            write(
                f"{SITE}/google_x-nspkg.pth",
                "import sys, types, os;has_mfs = sys.version_info > (3, 5);"
                "p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('googlex',));"
                "importlib = has_mfs and __import__('importlib.util');"
                "has_mfs and __import__('importlib.machinery');"
                "m = has_mfs and sys.modules.setdefault('googlex', importlib.util.module_from_spec("
                "importlib.machinery.PathFinder.find_spec('googlex', [os.path.dirname(p)])));"
                "mp = (m or []) and m.__dict__.setdefault('__path__',[]);"
                "(p not in mp) and mp.append(p)\n",
            ),
            write(f"{SITE}/googlex/cloud.py", "v = 1.5\n"),
        ),
        "import googlex.cloud; print(googlex.cloud.v)",
    ),
}


@pytest.mark.parametrize("case", WORKING)
def test_an_honest_start_works(environment: Environment, case: str) -> None:
    workspace, project = environment.workspace, environment.project
    step, tells = WORKING[case]
    step(project)
    for path in (project / SITE).glob("*_editable_*"):
        path.write_text(path.read_text("utf-8").replace("{project}", str(project)), "utf-8")
    workspace.project.signed_tool("mine/t", f"import sys; assert '.venv' in sys.prefix\n{tells}\n")
    workspace.approve()

    result = workspace.run("mine/t")

    assert result.success, (result.error, result.metadata)
    assert result.data == 1.5
    assert "not among" not in str(result.metadata)


@pytest.mark.parametrize("module", ["coverage", "setuptools"])
def test_the_start_files_of_common_packages_work(environment: Environment, module: str) -> None:
    """With the packages of this very environment: their ``.pth`` files, and what these import."""
    workspace, project = environment.workspace, environment.project
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{module} is not installed")
    site = Path(found.submodule_search_locations[0]).parent
    for name in (module, "_distutils_hack"):
        if (site / name).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "tests")
            shutil.copytree(site / name, project / SITE / name, ignore=left_out)
    pth = "distutils-precedence.pth" if module == "setuptools" else "a1_coverage.pth"
    if not (site / pth).is_file():
        pytest.skip(f"there is no {pth}")
    shutil.copy(site / pth, project / SITE)
    write("rc", f"[run]\ndata_file = {workspace.folder}/data\n")(project)
    tells = f"import json, sys\nimport {module}\nprint(json.dumps(sorted(sys.modules)))"
    write(".env", f"COVERAGE_PROCESS_START={project}/rc\n")(project)
    workspace.project.signed_tool("mine/t", tells)
    workspace.approve()

    result = workspace.run("mine/t")

    assert result.success, (result.error, result.metadata)
    assert "not among" not in str(result.metadata)
    assert ("coverage" if module == "coverage" else "_distutils_hack") in result.data


def test_import_statements_are_followed_as_the_parser_sees_them() -> None:
    for path in Path(os.__file__).parent.glob("*.py"):
        data = path.read_bytes()
        parsed: set[str] = set()
        for node in ast.walk(ast.parse(data)):
            if isinstance(node, ast.Import):
                parsed.update(one.name.partition(".")[0].lower() for one in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                parsed.add(node.module.partition(".")[0].lower())
        assert parsed <= imported_names(data), path


@pytest.mark.parametrize(
    "text",
    [
        *("import os, \\\n  _b", "import \\\n _b", "from \\\n _b import x"),
        *("from _b \\\n import x", "if 1: \\\n  import _b", "x = 1; import _b", "\ufeffimport _b"),
        *("x\rimport _b", "from _b . c import (\n x,\n y)", "\x0cimport _b"),
        *("import _b\\\n as b", "import \uff3fb"),
    ],
)
def test_an_import_statement_is_followed_however_it_is_written(text: str) -> None:
    assert "_b" in imported_names(text.encode())
