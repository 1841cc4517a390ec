import lzma
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from zipboot.places import digest_of
from zipboot.programs import NAMES, compiled, contents, folder, write_scripts

ARCHIVE = "/opt/it's here/rye.pyz"
PROGRAM = b'#!/bin/sh\necho "compiled $@"\n'


class Packed:
    """A part of the archive with two programs, as `packing.programs` makes it."""

    def __init__(self) -> None:
        files = [(name, PROGRAM + name.encode("ascii")) for name in NAMES]
        whole = b"".join(data for _, data in files)
        self.data = lzma.compress(whole)
        self.index: dict[str, Any] = {
            "name": digest_of(whole),
            "offset": 0,
            "size": len(self.data),
            "files": [(name, digest_of(data), len(data)) for name, data in files],
        }

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RYE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def found(packed: Packed, *, is_packed: bool = True) -> Path:
    """The folder of programs that tools find."""
    made = folder(ARCHIVE, packed.index if is_packed else None)
    assert made is not None
    return Path(made)


def laid_out(packed: Packed) -> Path:
    """The folder of programs after a program was used."""
    compiled(packed, packed.index, NAMES[0])  # type: ignore[arg-type]
    return found(packed)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_packed_programs_are_laid_out_for_their_user_alone(cache: Path) -> None:
    made = laid_out(Packed())

    assert made == cache / "programs" / Packed().index["name"]
    assert sorted(path.name for path in made.iterdir()) == sorted(NAMES)
    assert {mode(made), *(mode(made / name) for name in NAMES)} == {0o700}
    ended = subprocess.run([made / NAMES[0], "a b"], capture_output=True, check=False)
    assert ended.stdout == b"compiled a b\n"


def test_a_second_start_writes_no_file(cache: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in laid_out(Packed()).iterdir()}

    after = {path: path.stat().st_mtime_ns for path in laid_out(Packed()).iterdir()}

    assert before == after
    assert sorted(path.name for path in (cache / "programs").iterdir()) == [Packed().index["name"]]


def test_programs_are_scripts_until_the_first_use(cache: Path) -> None:
    before = found(Packed())

    used = compiled(Packed(), Packed().index, NAMES[1])  # type: ignore[arg-type]

    assert (before / NAMES[0]).read_bytes().startswith(b"#!/bin/sh\nexec ")
    assert used == str(cache / "programs" / Packed().index["name"] / NAMES[1])
    assert found(Packed()) == Path(used).parent


@pytest.mark.parametrize("damage", ["missing", "shorter", "link", "open to all"])
def test_changed_programs_are_written_again(damage: str) -> None:
    victim = laid_out(Packed()) / NAMES[1]
    match damage:
        case "missing":
            victim.unlink()
        case "shorter":
            victim.write_bytes(b"#!")
        case "link":
            victim.unlink()
            victim.symlink_to("/bin/true")
        case _:
            victim.chmod(0o777)

    laid_out(Packed())

    assert not victim.is_symlink()
    assert victim.read_bytes() == PROGRAM + NAMES[1].encode("ascii")
    assert mode(victim) == 0o700


def test_without_packed_programs_there_are_scripts() -> None:
    made = found(Packed(), is_packed=False)

    text = (made / "lillux-watch").read_text("utf-8")
    assert text.startswith("#!/bin/sh\nexec '")
    assert text.endswith("""'/opt/it'\\''s here/rye.pyz' lillux-watch "$@"\n""")
    assert mode(made / "lillux-watch") == 0o700


def test_a_damaged_part_leaves_the_scripts() -> None:
    packed = Packed()
    packed.data = packed.data[:-8] + b"damaged!"

    assert (laid_out(packed) / "lillux-proc").read_bytes().startswith(b"#!/bin/sh\nexec ")


def test_a_program_with_another_digest_is_not_used() -> None:
    packed = Packed()
    name, _, size = packed.index["files"][0]
    packed.index["files"][0] = (name, "0" * 40, size)

    with pytest.raises(OSError, match="lillux-proc is damaged in the archive"):
        list(contents(packed, packed.index))  # type: ignore[arg-type]


def test_without_a_cache_there_are_scripts_in_a_temporary_folder(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    made = laid_out(Packed())

    assert cache not in made.parents
    assert (made / "lillux-proc").read_bytes().startswith(b"#!/bin/sh\nexec ")


def test_scripts_of_windows_pass_all_arguments_on(tmp_path: Path) -> None:
    made = Path(
        write_scripts(str(tmp_path), ("C:\\py 3\\python.exe", "C:\\100%\\rye.pyz"), "win32")
    )

    assert (made / "lillux-proc.cmd").read_bytes() == (
        b'@echo off\r\n"C:\\py 3\\python.exe" "C:\\100%%\\rye.pyz" lillux-proc %*\r\n'
    )


def test_scripts_are_another_folder_for_another_command(tmp_path: Path) -> None:
    one, two = (write_scripts(str(tmp_path), ("python", name)) for name in ("a.pyz", "b.pyz"))

    assert one != two
    assert sorted(path.name for path in Path(one).iterdir()) == sorted(NAMES)
