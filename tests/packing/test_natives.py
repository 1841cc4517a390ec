import lzma
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

from packing import BuildError
from packing.natives import NativeFile, _natives_in, _Pieces, _problem, _stripped
from zipboot.places import digest_of


def wheel(folder: Path, *names: str) -> Path:
    """A wheel with files of these names."""
    path = folder / "some-1.0-cp311-cp311-any.whl"
    with ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, f"content of {name}")
    return path


def test_compiled_modules_are_found_by_their_suffix(tmp_path: Path) -> None:
    names = ("some/_fast.cpython-311-x86_64-linux-gnu.so", "some/x.py", "_top.cp311-win_amd64.pyd")

    found = list(_natives_in(wheel(tmp_path, *names), lambda data: data.upper()))

    assert [(native.module, native.file_name, native.data) for native in found] == [
        ("_top", "_top.cp311-win_amd64.pyd", b"CONTENT OF _TOP.CP311-WIN_AMD64.PYD"),
        (
            "some._fast",
            "_fast.cpython-311-x86_64-linux-gnu.so",
            b"CONTENT OF SOME/_FAST.CPYTHON-311-X86_64-LINUX-GNU.SO",
        ),
    ]


@pytest.mark.parametrize("name", ["some.libs/libz.so.1", "some.dylibs/libz.dylib"])
def test_a_wheel_with_libraries_beside_its_module_cannot_be_packed(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(BuildError) as error:
        list(_natives_in(wheel(tmp_path, name), lambda data: data))

    assert str(error.value) == (
        f"some-1.0-cp311-cp311-any.whl: needs a library beside its module: {name}"
    )


SUFFIX = ".cpython-312-x86_64-linux-musl.so"
EXPECTED = [
    NativeFile("_cffi_backend", f"_cffi_backend{SUFFIX}", b""),
    NativeFile("nacl._sodium", "_sodium.abi3.so", b""),
    NativeFile("yaml._yaml", f"_yaml{SUFFIX}", b""),
]


def test_the_expected_modules_are_no_problem() -> None:
    assert _problem(EXPECTED, SUFFIX) == ""


def test_a_module_that_is_missing_or_unknown_is_named() -> None:
    stranger = NativeFile("x", f"x{SUFFIX}", b"")

    assert _problem([EXPECTED[0], stranger], SUFFIX) == (
        "expected _cffi_backend, nacl._sodium, yaml._yaml, found _cffi_backend, x"
    )
    assert _problem([], SUFFIX) == ("expected _cffi_backend, nacl._sodium, yaml._yaml, found none")


def test_a_module_for_another_interpreter_is_named() -> None:
    assert _problem(EXPECTED, ".cpython-313-x86_64-linux-musl.so") == (
        "expected names that end in .cpython-313-x86_64-linux-musl.so,"
        f" found _cffi_backend{SUFFIX}, _yaml{SUFFIX}"
    )


def test_only_elf_files_are_stripped() -> None:
    assert _stripped(b"MZ a module of Windows", "no such program") == b"MZ a module of Windows"


def test_a_file_that_cannot_be_stripped_stops_the_build() -> None:
    stripper = shutil.which("strip")
    if stripper is None:
        pytest.skip("there is no strip on this machine")

    with pytest.raises(BuildError, match=r"^strip: "):
        _stripped(b"\x7fELF and then nonsense", stripper)


def test_the_files_of_a_module_are_packed_together_and_equal_ones_once() -> None:
    text = bytes(number * number % 251 for number in range(4000))
    versions = [text, text[:99] + b"!" + text[100:], text]
    pieces = _Pieces()

    pieces.add([NativeFile("m", f"m{number}.so", data) for number, data in enumerate(versions)])
    pieces.add([NativeFile("m", "m3.so", text)])

    data = b"".join(pieces.packed)
    whole = lzma.decompress(data)
    places = [pieces.places[digest_of(version)] for version in versions]
    assert [whole[start : start + size] for *_, start, size in places] == versions
    assert {(offset, size) for _, offset, size, *_ in places} == {(0, len(data))}
    assert [native.file_name for native in pieces.files] == ["m2.so", "m1.so"]
    assert len(data) < len(text) // 4
