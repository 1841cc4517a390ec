"""The type `version_manager`. A project's own files about versions are hostile input."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.errors import ConfigurationError
from lillux.interpreter_searches import SearchEnvironment
from lillux.interpreters import InterpreterResult, find_interpreter, parse_interpreter
from tests.support.executables import make_program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs here have mode bits")

WHERE = "env_config.interpreter"


class Machine:
    """A home with version managers, and a project."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.project.mkdir(parents=True)
        self.variables = {"HOME": str(self.home), "USERPROFILE": str(self.home)}

    def install(self, *paths: str) -> list[Path]:
        return [make_program(self.home / path) for path in paths]

    def find(
        self, manager: str, *, platform: str = "linux", path: str = "", **keys: object
    ) -> InterpreterResult:
        block = {"type": "version_manager", "manager": manager, "var": "RYE_X", **keys}
        parsed = parse_interpreter(WHERE, block)
        assert parsed is not None
        return find_interpreter(parsed, self.around(platform, {"PATH": path}))

    def around(self, platform: str, variables: Mapping[str, str]) -> SearchEnvironment:
        return SearchEnvironment(
            variables=variables,
            project_path=self.project,
            user_base=self.home,
            platform=platform,
            process_variables=self.variables,
        )

    def says(self, file: str, text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        (self.project / file).write_bytes(data)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


LAYOUTS = [
    ("pyenv", "", ".pyenv/versions/3.11.4/bin/python", "3.11.4"),
    ("nvm", "", ".nvm/versions/node/v20.1.0/bin/node", "20.1.0"),
    ("rbenv", "", ".rbenv/versions/3.2.2/bin/ruby", "3.2.2"),
    ("asdf", "python", ".asdf/installs/python/3.12.1/bin/python", "3.12.1"),
    ("asdf", "node", ".asdf/installs/nodejs/20.1.0/bin/node", "20.1.0"),
    ("mise", "node", ".local/share/mise/installs/node/20.1.0/bin/node", "20.1.0"),
    ("mise", "python3", ".local/share/mise/installs/python/3.12.1/bin/python3", "3.12.1"),
    ("fnm", "", ".local/share/fnm/node-versions/v20.1.0/installation/bin/node", "20.1.0"),
    ("fnm", "", ".fnm/node-versions/v20.1.0/installation/bin/node", "v20.1.0"),
]
WINDOWS_LAYOUTS = [
    ("pyenv", "", ".pyenv/pyenv-win/versions/3.11.4/python.exe", "3.11.4"),
    ("nvm", "", "roaming/nvm/v20.1.0/node.exe", "20.1.0"),
    ("fnm", "", "roaming/fnm/node-versions/v20.1.0/installation/node.exe", "20.1.0"),
    ("mise", "python", "local/mise/installs/python/3.12.1/python.exe", "3.12.1"),
    ("mise", "jq", "local/mise/installs/jq/1.7.1/bin/jq.exe", "1.7"),
]
ROOTS = [
    ("pyenv", "PYENV_ROOT", "versions/3.11.4/bin/python", "3.11.4"),
    ("nvm", "NVM_DIR", "versions/node/v20.1.0/bin/node", "20.1.0"),
    ("rbenv", "RBENV_ROOT", "versions/3.2.2/bin/ruby", "3.2.2"),
    ("asdf", "ASDF_DATA_DIR", "installs/ruby/3.2.2/bin/ruby", "3.2.2"),
    ("mise", "MISE_DATA_DIR", "installs/ruby/3.2.2/bin/ruby", "3.2.2"),
    ("mise", "XDG_DATA_HOME", "mise/installs/ruby/3.2.2/bin/ruby", "3.2.2"),
    ("fnm", "FNM_DIR", "node-versions/v20.1.0/installation/bin/node", "20.1.0"),
]


@pytest.mark.parametrize(("manager", "binary", "path", "version"), LAYOUTS)
def test_a_version_is_where_its_manager_puts_it(
    machine: Machine, manager: str, binary: str, path: str, version: str
) -> None:
    (program,) = machine.install(path)

    keys = {"binary": binary} if binary else {}

    assert machine.find(manager, version=version, **keys) == InterpreterResult(str(program))


@pytest.mark.parametrize(("manager", "binary", "path", "version"), WINDOWS_LAYOUTS)
def test_managers_have_other_folders_on_windows(
    machine: Machine, manager: str, binary: str, path: str, version: str
) -> None:
    machine.variables["APPDATA"] = str(machine.home / "roaming")
    machine.variables["LOCALAPPDATA"] = str(machine.home / "local")
    (program,) = machine.install(path)

    keys = {"binary": binary} if binary else {}
    finding = machine.find(manager, version=version, platform="win32", **keys)

    assert finding == InterpreterResult(str(program))


@pytest.mark.parametrize(("manager", "variable", "path", "version"), ROOTS)
def test_the_process_says_where_a_manager_keeps_its_versions(
    machine: Machine, manager: str, variable: str, path: str, version: str
) -> None:
    machine.variables[variable] = str(machine.home / "elsewhere")
    (program,) = machine.install(f"elsewhere/{path}")

    keys = {"binary": "ruby"} if manager in {"asdf", "mise"} else {}

    assert machine.find(manager, version=version, **keys).value == str(program)


def test_folders_in_a_dotenv_file_do_not_count(machine: Machine) -> None:
    make_program(machine.project / "evil/versions/3.11.4/bin/python")
    keys = {"type": "version_manager", "manager": "pyenv", "version": "3.11.4", "var": "RYE_X"}
    block = parse_interpreter(WHERE, keys)
    assert block is not None

    evil = {"PYENV_ROOT": str(machine.project / "evil"), "HOME": str(machine.project)}
    finding = find_interpreter(block, machine.around("linux", evil))

    assert finding.value == ""


@pytest.mark.parametrize("root", ["", "relative/pyenv", "~/.pyenv"])
def test_a_root_that_is_no_absolute_path_is_passed_over(machine: Machine, root: str) -> None:
    machine.variables["PYENV_ROOT"] = root
    (program,) = machine.install(".pyenv/versions/3.11.4/bin/python")

    assert machine.find("pyenv", version="3.11.4").value == str(program)


# --- which version


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("3.11", "3.11.10"),
        ("3", "3.12.1"),
        ("3.1", "3.1.4"),
        ("3.11.9", "3.11.9"),
        ("3.13-dev", "3.13-dev"),
        ("pypy3.9-7.3.11", "pypy3.9-7.3.11"),
        ("v3.11", "3.11.10"),
    ],
)
def test_part_of_a_version_means_the_highest_release_by_number(
    machine: Machine, version: str, found: str
) -> None:
    names = ("3.1.4", "3.11.2", "3.11.9", "3.11.10", "3.12.1", "3.13-dev", "pypy3.9-7.3.11")
    machine.install(*(f".pyenv/versions/{name}/bin/python" for name in names))

    program = machine.home / ".pyenv/versions" / found / "bin/python"

    assert machine.find("pyenv", version=version).value == str(program)


@pytest.mark.parametrize("version", ["3.13", "3.1", "4", "3.11.1"])
def test_a_pre_release_and_another_number_do_not_match(machine: Machine, version: str) -> None:
    machine.install(*(f".pyenv/versions/{name}/bin/python" for name in ("3.13.0rc1", "3.11.10")))

    assert machine.find("pyenv", version=version).value == ""


def test_a_version_whose_program_is_gone_is_passed_over(machine: Machine) -> None:
    (machine.home / ".pyenv/versions/3.11.10/bin/python").mkdir(parents=True)
    (program,) = machine.install(".pyenv/versions/3.11.9/bin/python")

    assert machine.find("pyenv", version="3.11").value == str(program)


@given(
    st.lists(st.tuples(*[st.integers(0, 120)] * 2), min_size=1, max_size=8, unique=True),
)
def test_the_highest_of_any_versions_is_found(
    tmp_path_factory: pytest.TempPathFactory, versions: list[tuple[int, int]]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.install(*(f".nvm/versions/node/v20.{a}.{b}/bin/node" for a, b in versions))

    a, b = max(versions)

    expected = machine.home / f".nvm/versions/node/v20.{a}.{b}/bin/node"
    assert machine.find("nvm", version="20").value == str(expected)


@pytest.mark.parametrize(
    ("manager", "file", "text", "path"),
    [
        ("pyenv", ".python-version", "3.11.4\n", ".pyenv/versions/3.11.4/bin/python"),
        (
            "pyenv",
            ".python-version",
            "# ours\n\n 3.9 \n3.11\n",
            ".pyenv/versions/3.11.4/bin/python",
        ),
        ("nvm", ".nvmrc", "v20\r\n", ".nvm/versions/node/v20.1.0/bin/node"),
        ("nvm", ".nvmrc", "20 # lts", ".nvm/versions/node/v20.1.0/bin/node"),
        ("rbenv", ".ruby-version", "3.2.2", ".rbenv/versions/3.2.2/bin/ruby"),
        (
            "asdf",
            ".tool-versions",
            "ruby 3\npython 3.9 3.12\n",
            ".asdf/installs/python/3.12.1/bin/p",
        ),
        ("mise", ".tool-versions", "python 3.12", ".local/share/mise/installs/python/3.12.1/bin/p"),
        ("fnm", ".node-version", "20", ".fnm/node-versions/v20.1.0/installation/bin/node"),
        ("fnm", ".nvmrc", "v20.1", ".fnm/node-versions/v20.1.0/installation/bin/node"),
    ],
)
def test_the_project_names_the_version_when_the_block_does_not(
    machine: Machine, manager: str, file: str, text: str, path: str
) -> None:
    machine.says(file, text)
    (program,) = machine.install(path)

    keys = {"binary": "p", "plugin": "python"} if path.endswith("/p") else {}

    assert machine.find(manager, **keys) == InterpreterResult(str(program))


def test_the_block_wins_over_the_project(machine: Machine) -> None:
    machine.says(".python-version", "3.12.1")
    old, _ = machine.install(*(f".pyenv/versions/{v}/bin/python" for v in ("3.11.4", "3.12.1")))

    assert machine.find("pyenv", version="3.11").value == str(old)


# --- missing versions are reported


def test_a_version_that_is_not_installed_is_reported_though_the_fallback_helps(
    machine: Machine, tmp_path: Path
) -> None:
    python = make_program(tmp_path / "bin/python3")

    finding = machine.find("pyenv", version="3.11", fallback="python3", path=str(python.parent))

    folder = machine.home / ".pyenv/versions"
    problem = f"no python of version '3.11' in {folder}"
    assert finding == InterpreterResult(str(python), (f"{WHERE}: {problem}",))


def test_no_version_at_all_is_reported(machine: Machine) -> None:
    files = "neither by the block nor by .node-version or .nvmrc of the project"
    reason = f"RYE_X stays unset: no version is named, {files}"

    assert machine.find("fnm").warnings == (f"{WHERE}: {reason}",)


@pytest.mark.parametrize("alias", ["lts/*", "lts/iron", "node", "stable", "system", "latest"])
def test_an_alias_is_not_known(machine: Machine, alias: str) -> None:
    machine.install(".nvm/versions/node/v20.1.0/bin/node", ".nvm/versions/node/system/bin/node")
    machine.says(".nvmrc", alias)

    finding = machine.find("nvm")

    place = f"version {alias!r} of {machine.project / '.nvmrc'}"
    reason = f"RYE_X stays unset: {place} is not known, expected one like 3.11 or v20.10.0"
    assert finding.warnings == (f"{WHERE}: {reason}",)


@pytest.mark.parametrize(
    "version",
    [
        *("../../evil1", "..", ".", "/evil1", "1/../../evil1", "..\\evil1", "C:1", "1\0", "~1"),
        *("$HOME1", "3.11" * 50, "\x1b[31m1", "3 .11"),
    ],
)
def test_a_version_never_leads_out_of_the_managers_folder(machine: Machine, version: str) -> None:
    machine.install("evil1/bin/python", ".pyenv/evil1/bin/python", ".pyenv/bin/python")
    machine.install(".pyenv/versions/bin/python")
    machine.says(".python-version", version)

    finding = machine.find("pyenv")

    assert finding.value == ""
    assert all(warning.isprintable() and len(warning) < 500 for warning in finding.warnings)


@pytest.mark.parametrize("platform", ["linux", "win32"])
@given(text=st.binary(max_size=200))
def test_no_version_file_finds_a_program_outside(
    tmp_path_factory: pytest.TempPathFactory, platform: str, text: bytes
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.says(".python-version", text)

    assert machine.find("pyenv", platform=platform).value == ""


@pytest.mark.parametrize("kind", ["folder", "fifo", "large", "binary", "outside"])
def test_a_version_file_of_another_kind_is_reported_and_not_read(
    machine: Machine, kind: str
) -> None:
    path = machine.project / ".python-version"
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "large":
            path.write_bytes(b"3.11\n" * 100_000)
        case "binary":
            path.write_bytes(b"\xff\xfe3.11")
        case _:
            secret = machine.project.parent / "secret"
            secret.write_text("3.11-secret", encoding="utf-8")
            path.symlink_to(secret)

    finding = machine.find("pyenv")

    reason = f"RYE_X stays unset: {path} is no text file of the project of at most 64 KiB"
    assert finding.warnings == (f"{WHERE}: {reason}",)


def test_an_unknown_manager_is_an_error(machine: Machine) -> None:
    with pytest.raises(ConfigurationError) as error:
        machine.find("sdkman", version="17")

    expected = "expected asdf, fnm, mise, nvm, pyenv or rbenv, got 'sdkman'"
    assert str(error.value) == f"{WHERE}.manager: {expected}"


def test_a_manager_of_many_languages_needs_the_program(machine: Machine) -> None:
    with pytest.raises(ConfigurationError) as error:
        machine.find("asdf", version="3.11")

    assert str(error.value) == f"{WHERE}.binary: expected a string, got nothing"


def test_a_version_that_yaml_reads_as_a_number_is_an_error(machine: Machine) -> None:
    with pytest.raises(ConfigurationError) as error:
        machine.find("pyenv", version=3.1)

    assert str(error.value) == f"{WHERE}.version: expected a string, got float"
