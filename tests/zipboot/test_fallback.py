import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import pytest

from zipboot.fallback import _require_locks, _unpack, forget_shiv


def test_variables_for_another_program_are_removed() -> None:
    environ = {"SHIV_ENTRY_POINT": "other:main", "SHIV_ROOT": "/elsewhere", "PATH": "/bin"}

    forget_shiv(environ)

    assert environ == {"PATH": "/bin"}


def test_simultaneous_unpacking_gives_complete_sources(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "rye.zip", "w") as archive:
        for number in range(50):
            archive.writestr(f"package/module_{number}.py", "x = 1\n")
    target = tmp_path / "sources"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: _unpack(str(tmp_path / "rye.zip"), str(target)), range(8)))

    assert len(list((target / "package").iterdir())) == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rye.zip", "sources"]


def test_a_folder_on_a_file_system_without_locks_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(OSError, match="No locks available"):
        _require_locks(str(tmp_path))


@pytest.mark.skipif(os.name == "nt", reason="Windows locks everywhere")
def test_an_ordinary_folder_has_locks(tmp_path: Path) -> None:
    _require_locks(str(tmp_path))
    _require_locks(str(tmp_path))

    assert list(tmp_path.iterdir()) == []
