"""Unsigned code where a signed tool could import it: it never runs.

The attacker can write any file into the project; the tool is signed and comes from there.
"""

import importlib.machinery
import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

from lillux.files import read_bytes
from ryeos.items.refs import Space
from ryeos.run.model import ExecutionResult
from tests.support.workspace import BUNDLE_SOURCE, SpaceFolder, Workspace

SCRIPT = "rye/core/runtimes/python/script"
FUNCTION = "rye/core/runtimes/python/function"
EVIL = "open(__import__('os').environ['CANARY'], 'w').close()\nX = 'evil'\n"


@pytest.fixture
def victim(workspace: Workspace) -> Workspace:
    """A workspace in which evil code leaves a mark: the file ``canary``."""
    workspace.env["CANARY"] = str(workspace.folder / "canary")
    return workspace


def package(workspace: Workspace, body: str = "import helper\nprint(helper.X)") -> Path:
    """A signed package ``pack`` with a module ``helper`` and a tool that imports it."""
    workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.signed("tools/pack/helper.py", "X = 'good'\n")
    workspace.project.signed_tool("pack/tool", body)
    return workspace.project.space.ai / "tools/pack"


def compiled(workspace: Workspace, target: Path) -> Path:
    """Bytecode of the evil module at a path, of the kind that Python takes unchecked."""
    source = workspace.folder / "evil.py"
    source.write_text(EVIL, encoding="utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), cfile=str(target), invalidation_mode=mode)
    return target


def assert_nothing_evil_ran(workspace: Workspace) -> None:
    assert not (workspace.folder / "canary").exists()


def run(workspace: Workspace, item_id: str = "pack/tool") -> ExecutionResult:
    result = workspace.run(item_id)
    assert_nothing_evil_ran(workspace)
    return result


# --- beside a tool of one file


@pytest.mark.parametrize("planted", ["json.py", "json/__init__.py", "json.pyc"])
def test_a_module_beside_a_tool_takes_no_place_of_the_standard_library(
    victim: Workspace, planted: str
) -> None:
    if planted.endswith(".pyc"):
        compiled(victim, victim.project.space.ai / f"tools/mine/{planted}")
    else:
        victim.project.write(f"tools/mine/{planted}", EVIL)
    victim.project.signed_tool("mine/tool", "import json\nprint(json.dumps({'a': 1}))")

    assert run(victim, "mine/tool").data == {"a": 1}


@pytest.mark.parametrize("where", [".", ".ai", ".ai/tools"])
def test_a_module_in_the_project_takes_no_place_of_the_standard_library(
    victim: Workspace, where: str
) -> None:
    for name in ("json", "sitecustomize", "usercustomize", "encodings", "os"):
        (victim.project_path / where).mkdir(parents=True, exist_ok=True)
        (victim.project_path / where / f"{name}.py").write_text(EVIL, encoding="utf-8")
    victim.project.signed_tool("mine/tool", "import json, os\nprint(json.dumps({'a': 1}))")

    assert run(victim, "mine/tool").data == {"a": 1}


def test_an_unsigned_neighbour_is_never_imported_and_stops_only_tools_that_import_it(
    victim: Workspace,
) -> None:
    victim.project.write("tools/mine/helper.py", EVIL)
    victim.project.signed_tool("mine/tool", "print('alone')")
    victim.project.signed_tool("mine/needy", "import helper")

    assert run(victim, "mine/tool").data["stdout"] == "alone\n"
    assert run(victim, "mine/needy").metadata["error_code"] == "UNSIGNED"


@pytest.mark.parametrize("runtime", ["script", "function"])
@pytest.mark.parametrize(
    "written",
    [
        *("import helper", "from helper import word", "import os, helper"),
        *("import os; import helper", "if True: import helper"),
    ],
)
def test_a_signed_neighbour_is_imported_without_a_marker_and_not_once_it_changed(
    victim: Workspace, runtime: str, written: str
) -> None:
    helper = victim.project.signed_tool("mine/helper", "word = 'good'")
    body = {
        "script": "import sys; print(sys.modules['helper'].word)",
        "function": "import sys\n"
        "def execute(p, d): return {'stdout': sys.modules['helper'].word + '\\n'}",
    }[runtime]
    victim.project.signed_tool(
        "mine/needy", f"{written}\n{body}", executor=f"rye/core/runtimes/python/{runtime}"
    )
    before = run(victim, "mine/needy")
    helper.write_bytes(helper.read_bytes() + b"\n# changed\n")

    assert before.data["stdout"] == "good\n"
    assert run(victim, "mine/needy").metadata["error_code"] == "INTEGRITY"


def test_a_signed_package_beside_a_tool_is_imported_without_a_marker(victim: Workspace) -> None:
    victim.project.signed("tools/mine/pk/__init__.py", "")
    victim.project.signed("tools/mine/pk/part.py", "X = 'good'\n")
    victim.project.signed_tool("mine/needy", "from pk import part; print(part.X)")
    assert run(victim, "mine/needy").data["stdout"] == "good\n"

    victim.project.write("tools/mine/pk/part.py", EVIL)

    assert run(victim, "mine/needy").metadata["error_code"] == "UNSIGNED"


def test_an_unsigned_file_beside_an_imported_neighbour_stops_the_tool(victim: Workspace) -> None:
    victim.project.signed_tool("mine/helper", "import other")
    victim.project.write("tools/mine/other.py", EVIL)
    victim.project.signed_tool("mine/needy", "import helper")

    assert "other.py" in str(run(victim, "mine/needy").error)


# --- in other folders of tools

ADDED = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), {!r}))\n"


@pytest.mark.parametrize("runtime", [SCRIPT, FUNCTION])
@pytest.mark.parametrize("kind", ["source", "package", "bytecode", "extension", "linked"])
def test_a_module_of_another_folder_of_tools_is_not_imported_unverified(
    victim: Workspace, kind: str, runtime: str
) -> None:
    shared = victim.project.space.ai / "tools/shared"
    shared.mkdir(parents=True)
    named = {
        "package": "far/__init__.py",
        "bytecode": "far.pyc",
        "extension": f"far{importlib.machinery.EXTENSION_SUFFIXES[0]}",
    }.get(kind, "far.py")
    if kind in ("bytecode", "extension"):
        compiled(victim, shared / named)
    else:
        victim.project.write(f"tools/shared/{named}", EVIL)
    (victim.project_path / "way").symlink_to(shared)
    way = "../../../way" if kind == "linked" else "../shared"
    body = f"{ADDED.format(way)}import far\nprint(far.X)\ndef execute(p, d): return far.X\n"
    victim.project.signed_tool("mine/tool", body, executor=runtime)

    error = str(run(victim, "mine/tool").error)

    assert f"/{named} is not among the verified files of this tool" in error
    assert "rye sign" in error


@pytest.mark.parametrize("suffix", [".py", importlib.machinery.EXTENSION_SUFFIXES[0]])
def test_a_file_of_another_folder_of_tools_is_not_loaded_by_its_path(
    victim: Workspace, suffix: str
) -> None:
    far = victim.project.write(f"tools/shared/far{suffix}", EVIL)
    body = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("far", {str(far)!r})
spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""
    victim.project.signed_tool("mine/tool", body)

    assert "not among the verified files of this tool" in str(run(victim, "mine/tool").error)


def test_a_module_above_the_tool_is_imported_where_one_folder_holds_both(
    victim: Workspace,
) -> None:
    victim.project.signed("tools/pack/__init__.py", "")
    victim.project.signed("tools/pack/shared/far.py", "X = 'good'\n")
    victim.project.signed_tool(
        "pack/ops/tool", ADDED.format("../shared") + "import far; print(far.X)"
    )

    assert run(victim, "pack/ops/tool").data["stdout"] == "good\n"


def test_a_missing_module_is_still_an_import_error(victim: Workspace) -> None:
    victim.project.write("tools/shared/json.py", EVIL)
    body = (
        "try: import nothing\nexcept ModuleNotFoundError as e: print(e)\n"
        "sys.path.append(os.path.join(os.path.dirname(__file__), '../shared'))\nimport json\n"
    )
    victim.project.signed_tool("mine/tool", f"import os, sys\n{body}")

    assert run(victim, "mine/tool").data["stdout"] == "No module named 'nothing'\n"


def test_a_neighbour_that_is_imported_by_a_computed_name_is_named_with_what_to_do(
    victim: Workspace,
) -> None:
    victim.project.signed_tool("mine/helper", "X = 1")
    body = "import importlib\nimportlib.import_module('hel' + 'per')"
    victim.project.signed_tool("mine/tool", body)

    error = str(run(victim, "mine/tool").error)

    assert "mine/helper.py is not among the verified files of this tool: add __init__.py" in error


# --- in a package


def test_the_package_works_without_an_attack(victim: Workspace) -> None:
    package(victim)

    assert run(victim).data["stdout"] == "good\n"


@pytest.mark.parametrize(
    "planted",
    [
        *("helper/__init__.py", "json.py", "sub/__init__.py", "lib/python/json.py", "json.yaml"),
        *("config/x.py", "__main__.py", "tool/__init__.py"),
    ],
)
def test_an_unsigned_file_in_a_package_stops_the_tool(victim: Workspace, planted: str) -> None:
    package(victim)
    path = victim.project.write(f"tools/pack/{planted}", EVIL)

    result = run(victim)

    assert result.error == f"unsigned item, expected a rye:signed line: {path.resolve()}"
    assert result.metadata["error_code"] == "UNSIGNED"


@pytest.mark.parametrize(
    "suffix", sorted({*importlib.machinery.EXTENSION_SUFFIXES, ".pyc", ".so", ".pyd"})
)
def test_a_file_that_python_would_import_before_source_stops_the_tool(
    victim: Workspace, suffix: str
) -> None:
    folder = package(victim)
    compiled(victim, folder / f"helper{suffix}")

    result = run(victim)

    path = folder.resolve() / f"helper{suffix}"
    assert result.error == f"a file that cannot be signed, where every file must be: {path}"


def test_a_tampered_module_stops_the_tool(victim: Workspace) -> None:
    path = package(victim) / "helper.py"
    path.write_text(path.read_text("utf-8") + EVIL, encoding="utf-8")

    result = run(victim)

    assert result.error == f"content modified since signing: {path.resolve()}"


def test_another_signed_file_in_its_place_is_refused(victim: Workspace) -> None:
    folder = package(victim)
    run(victim)
    other = victim.project.signed("tools/other.py", "X = 'signed, but not this one'\n")
    shutil.copy(other, folder / "helper.py")

    result = run(victim)

    assert result.metadata["error_code"] == "UNBOUND_SIGNATURE"


@pytest.mark.parametrize("folder", ["", "sub/"])
def test_bytecode_in_a_cache_folder_is_not_taken_for_the_source(
    victim: Workspace, folder: str
) -> None:
    base = package(victim, "import helper, sub.deep\nprint(helper.X, sub.deep.X)")
    victim.project.signed("tools/pack/sub/deep.py", "X = 'good'\n")
    name = "sub/__pycache__/deep" if folder else "__pycache__/helper"
    compiled(victim, base / f"{name}.{sys.implementation.cache_tag}.pyc")
    compiled(victim, base / f"__pycache__/tool.{sys.implementation.cache_tag}.pyc")

    assert run(victim).data["stdout"] == "good good\n"


@pytest.mark.parametrize("runtime", [SCRIPT, FUNCTION])
def test_bytecode_is_not_taken_by_a_tool_with_an_anchor_of_its_own(
    victim: Workspace, runtime: str
) -> None:
    base = package(victim)
    body = """
import helper
ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}"]}},
}
def execute(params, project_path): return helper.X
print(helper.X)
"""
    victim.project.signed_tool("pack/tool", body, executor=runtime)
    compiled(victim, base / f"__pycache__/helper.{sys.implementation.cache_tag}.pyc")

    assert run(victim).success


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sitecustomize", "X = 'good'\n"),
        ("hashlib", "from _hashlib import openssl_sha256 as sha256\n"),
    ],
)
def test_bytecode_is_not_taken_while_a_function_is_only_being_started(
    victim: Workspace, name: str, text: str
) -> None:
    base = package(victim)
    victim.project.signed(f"tools/pack/{name}.py", text)
    body = f"\nimport {name}\ndef execute(params, project_path): return {name}.__file__\n"
    victim.project.signed_tool("pack/tool", body, executor=FUNCTION)
    compiled(victim, base / f"__pycache__/{name}.{sys.implementation.cache_tag}.pyc")

    assert run(victim).data == str(base / f"{name}.py")


def test_bytecode_is_not_taken_by_a_function_that_imports_a_file_by_its_path(
    victim: Workspace,
) -> None:
    base = package(victim)
    body = f"""
import importlib.util, helper
spec = importlib.util.spec_from_file_location("again", {str(base / "helper.py")!r})
again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(again)
def execute(params, project_path): return [helper.X, again.X]
"""
    victim.project.signed_tool("pack/tool", body, executor=FUNCTION)
    compiled(victim, base / f"__pycache__/helper.{sys.implementation.cache_tag}.pyc")

    assert run(victim).data == ["good", "good"]


def test_bytecode_is_not_taken_by_the_processes_of_a_tool_either(victim: Workspace) -> None:
    code = "import helper; print(helper.X)"
    base = package(
        victim,
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}], check=True)",
    )
    compiled(victim, base / f"__pycache__/helper.{sys.implementation.cache_tag}.pyc")

    assert run(victim).data["stdout"] == "good\n"


def test_no_bytecode_is_kept_between_runs(victim: Workspace) -> None:
    victim.env.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = package(victim)

    run(victim)

    assert not (folder / "__pycache__").exists()
    assert list(victim.home.rglob("helper*.pyc")) == []


def test_a_tool_in_an_excluded_folder_does_not_bring_its_neighbours(victim: Workspace) -> None:
    victim.project.signed("tools/pack/__init__.py", "")
    victim.project.signed_tool("pack/build/tool", "import json\nprint(1)")
    path = victim.project.write("tools/pack/build/json.py", EVIL)

    assert run(victim, "pack/build/tool").error == (
        f"unsigned item, expected a rye:signed line: {path.resolve()}"
    )


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_in_a_package_stops_the_tool(victim: Workspace, kind: str) -> None:
    folder = package(victim)
    outside = victim.folder / "outside"
    outside.mkdir()
    (outside / "__init__.py").write_text(EVIL, encoding="utf-8")
    if kind == "file":
        (folder / "json.py").symlink_to(outside / "__init__.py")
    else:
        (folder / "json").symlink_to(outside, target_is_directory=True)

    assert "Symlink escape" in str(run(victim).error)


# --- the library of a runtime


def copied_runtime(space: SpaceFolder) -> Path:
    """The Python runtime as a copy of the user's own, with room for a library beside it."""
    source = BUNDLE_SOURCE / f"tools/{SCRIPT}.yaml"
    return space.signed(f"tools/{SCRIPT}.yaml", read_bytes(source, 1 << 20))


def test_an_unsigned_module_in_the_library_of_a_runtime_stops_the_tool(victim: Workspace) -> None:
    package(victim, "import shared\nprint(shared.X)")
    runtime = copied_runtime(victim.project)
    path = victim.project.write(f"tools/{Path(SCRIPT).parent}/lib/python/shared.py", EVIL)
    assert path.is_relative_to(runtime.parent)

    assert run(victim).error == f"unsigned item, expected a rye:signed line: {path.resolve()}"


def test_a_signed_module_in_the_library_of_a_runtime_is_used_and_pinned(victim: Workspace) -> None:
    package(victim, "import shared\nprint(shared.X)")
    copied_runtime(victim.project)
    shared = f"tools/{Path(SCRIPT).parent}/lib/python/shared.py"
    victim.project.signed(shared, "X = 'good'\n")
    assert run(victim).data["stdout"] == "good\n"

    victim.project.signed(shared, "X = 'other'\n")

    assert run(victim).metadata["error_code"] == "LOCKFILE_MISMATCH"


def test_a_file_added_to_a_bundle_stops_the_tool(victim: Workspace) -> None:
    copy = victim.folder / "bundle"
    original = victim.bundles[0]
    shutil.copytree(original.base, copy)
    victim.bundles = (Space(original.label, copy, original.version, original.pinned_pem),)
    package(victim, "import shared")
    library = copy / f".ai/tools/{Path(SCRIPT).parent}/lib/python"
    library.mkdir(parents=True)
    (library / "shared.py").write_text(EVIL, encoding="utf-8")

    assert str(run(victim).error).startswith(
        "not the file that the bundle ryeos was published with: "
    )


# --- the environment


def test_an_env_file_brings_no_modules(victim: Workspace) -> None:
    evil = victim.project_path / "evil"
    evil.mkdir()
    (evil / "json.py").write_text(EVIL, encoding="utf-8")
    names = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE")
    (victim.project_path / ".env").write_text(
        "".join(f"{name}={evil}\n" for name in names), encoding="utf-8"
    )
    package(victim, "import json, helper\nprint(helper.X)")
    victim.approve()

    result = run(victim)

    assert result.data["stdout"] == "good\n"
    assert len(result.metadata["warnings"]) == len(names)


def test_an_empty_entry_of_the_path_list_is_not_the_project(victim: Workspace) -> None:
    (victim.project_path / "json.py").write_text(EVIL, encoding="utf-8")
    victim.env["PYTHONPATH"] = os.pathsep.join(["", str(victim.home)])
    victim.project.signed_tool("mine/tool", "import json\nprint(json.dumps({'a': 1}))")

    assert run(victim, "mine/tool").data == {"a": 1}
