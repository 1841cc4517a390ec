import subprocess
import sys
from pathlib import Path

import pytest

from packing.interpreters import MINORS, _installed_pythons, _version, interpreters
from tests.support.executables import make_program


def test_an_interpreter_is_found_for_the_version_that_runs_this() -> None:
    found = interpreters()

    assert sys.version_info[1] in found
    assert set(found) <= set(MINORS)


def test_each_is_a_python_of_its_minor_version() -> None:
    ask = "import sys; print(*sys.version_info[:2], sep='.')"

    said = {
        minor: subprocess.run(
            [path, "-c", ask], capture_output=True, text=True, encoding="utf-8", check=True
        ).stdout
        for minor, path in interpreters().items()
    }

    assert said == {minor: f"3.{minor}\n" for minor in said}


def test_a_program_that_cannot_be_started_has_no_version(tmp_path: Path) -> None:
    broken = tmp_path / "python3.11"
    broken.write_text("", "utf-8")

    assert _version(tmp_path / "missing") is None
    assert _version(broken) is None


def test_the_shim_of_a_version_manager_without_that_version_has_no_version(tmp_path: Path) -> None:
    assert _version(make_program(tmp_path / "python3.11")) is None


def test_the_version_is_reported_to_the_patch_release() -> None:
    assert _version(Path(sys.executable)) == sys.version_info[:3]


@pytest.mark.parametrize("variable", ["PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"])
def test_a_version_manager_may_keep_its_pythons_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    versions = tmp_path / "versions" if variable == "PYENV_ROOT" else tmp_path
    program = make_program(versions / "cpython-3.12.9" / "bin" / "python3.12")
    monkeypatch.setenv(variable, str(tmp_path))

    assert program in list(_installed_pythons(12))
