"""``rye.pyz`` with other bytes than were packed: a bad disk, a download that was cut."""

import marshal
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from subprocess import CompletedProcess
from typing import Any
from zipfile import ZipFile

import pytest

from tests.support.built import BASE_PYTHON, Machine
from zipboot.importer import SOURCES

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

VERSION = ("version",)
ECHO = ("run", "rye/bash/bash", "command=echo hi")
ANSWERS = {VERSION: "rye 0.1.0\n", ECHO: "hi\n"}

OWN = f"_rye/{sys.implementation.cache_tag}"
HEADER_BYTES = 30
BYTECODE = "__main__.pyc"
WORKERS = 2

Regions = dict[str, tuple[int, int]]


class Copy:
    """A copy of the built file, to damage and to start."""

    def __init__(self, folder: Path, built_pyz: Path) -> None:
        folder.mkdir()
        self.pyz = Path(shutil.copy(built_pyz, folder / "rye.pyz"))
        self.machine = Machine(folder, BASE_PYTHON, self.pyz)
        self._data = built_pyz.read_bytes()

    def write(self, position: int, data: bytes) -> None:
        """Write over the old bytes."""
        with self.pyz.open("r+b") as file:
            file.seek(position)
            file.write(data)

    def flip(self, position: int, bit: int) -> None:
        """Change one bit."""
        self.write(position, bytes([self._data[position] ^ 1 << bit]))

    def fix(self, position: int) -> None:
        """Undo `flip`."""
        self.write(position, self._data[position : position + 1])

    def run(self, *command: str, **environ: str) -> CompletedProcess[str]:
        """Rye on a machine where it never ran."""
        shutil.rmtree(self.machine.home)
        self.machine.home.mkdir()
        return self.machine.run(*command, environ=self.machine.environ(**environ))

    def said(self, piece: str) -> tuple[str, str, int]:
        """The one clear line: standard output, standard error, status."""
        hint = "get it again, or check it with the .sha256 beside it"
        return "", f"rye: {self.pyz} is damaged ({piece}): {hint}\n", 78

    def is_said(self, ended: CompletedProcess[str]) -> bool:
        """Whether a process ended with that line and nothing else, whichever piece it names."""
        line = re.escape(self.said("PIECE")[1]).replace("PIECE", "[^\n]+")
        return ended.returncode == 78 and re.fullmatch(line, ended.stderr) is not None


@pytest.fixture
def copy(tmp_path: Path, built_pyz: Path) -> Copy:
    """A copy of the built file, which is whole so far."""
    return Copy(tmp_path / "copy", built_pyz)


@pytest.fixture(scope="module")
def regions(built_pyz: Path) -> Regions:
    """Every byte of the file: first lines, header and data of each entry, directory."""
    with ZipFile(built_pyz) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
        ends = [entry.header_offset for entry in entries[1:]] + [archive.start_dir]
        found = {
            "lines": (0, entries[0].header_offset),
            "directory": (archive.start_dir, built_pyz.stat().st_size),
        }
        for entry, end in zip(entries, ends, strict=True):
            start = entry.header_offset + HEADER_BYTES + len(entry.filename)
            found[f"header of {entry.filename}"] = entry.header_offset, start
            found[f"data of {entry.filename}"] = start, end
    return found


@pytest.fixture(scope="module")
def index(built_pyz: Path) -> dict[str, Any]:
    """The index of the Python that runs the built file."""
    with ZipFile(built_pyz) as archive:
        packed = archive.read(f"{OWN}.idx")[12:]
    found: dict[str, Any] = marshal.loads(packed)  # noqa: S302 - our own archive
    return found


def is_read_by_python(region: str) -> bool:
    """Whether the interpreter reads a region before the first line of ours runs."""
    return region == "directory" or region.endswith(("__main__.py", BYTECODE))


def flips(regions: Regions, count: int) -> Iterator[tuple[str, int, int]]:
    """Some bits of each region, the same ones in every run: its name, position, bit."""
    for name, (start, end) in regions.items():
        random = Random(name)  # noqa: S311 - no secret
        for _ in range(count):
            yield name, random.randrange(start, end), random.randrange(8)


def surprises(
    copies: list[Copy],
    flipped: Iterator[tuple[str, int, int]],
    is_expected: Callable[[Copy, CompletedProcess[str]], bool],
    **environ: str,
) -> list[object]:
    """Outcomes that are neither right nor expected when one bit after the other is flipped."""

    def start(copy: Copy, where: tuple[str, int, int]) -> Iterator[object]:
        copy.flip(*where[1:])
        for command, answer in ANSWERS.items():
            ended = copy.run(*command, **environ)
            is_answer = (ended.stdout, ended.stderr, ended.returncode) == (answer, "", 0)
            # The damaged module may be the one that is imported last.
            is_known = ended.stdout in ("", answer) and is_expected(copy, ended)
            if not is_answer and not is_known:
                yield where, ended
        copy.fix(where[1])

    def start_some(number: int) -> list[object]:
        own = todo[number :: len(copies)]
        return [surprise for where in own for surprise in start(copies[number], where)]

    todo = list(flipped)
    with ThreadPoolExecutor(len(copies)) as pool:
        return [found for some in pool.map(start_some, range(len(copies))) for found in some]


@pytest.fixture
def copies(tmp_path: Path, built_pyz: Path) -> list[Copy]:
    """Copies to damage at the same time."""
    return [Copy(tmp_path / f"copy-{number}", built_pyz) for number in range(WORKERS)]


# --- single flipped bits --------------------------------------------------------------------------


def test_a_flipped_bit_has_no_effect_or_is_reported_in_one_line(
    copies: list[Copy], regions: Regions
) -> None:
    ours = {name: where for name, where in regions.items() if not is_read_by_python(name)}

    assert surprises(copies, flips(ours, 3), Copy.is_said) == []


def test_without_packed_code_a_flipped_bit_has_no_effect_or_is_reported_too(
    copies: list[Copy], regions: Regions
) -> None:
    used = {
        name: where
        for name, where in regions.items()
        if not is_read_by_python(name) and "_rye/cpython" not in name
    }

    assert surprises(copies, flips(used, 1), Copy.is_said, RYE_BOOT="shiv") == []


def test_a_flipped_bit_in_the_zip_directory_is_at_worst_an_error_of_python(
    copies: list[Copy], regions: Regions
) -> None:
    def is_expected(copy: Copy, ended: CompletedProcess[str]) -> bool:
        return copy.is_said(ended) or (ended.returncode in (1, 78) and ended.stderr != "")

    pythons = {
        name: where
        for name, where in regions.items()
        if is_read_by_python(name) and not name.endswith(BYTECODE)
    }

    assert surprises(copies, flips(pythons, 20), is_expected) == []


def test_a_flipped_bit_in_the_first_bytecode_may_crash_python_but_gives_no_wrong_answer(
    copies: list[Copy], regions: Regions
) -> None:
    def is_expected(copy: Copy, ended: CompletedProcess[str]) -> bool:
        crashed = ended.returncode < 0 and ended.stdout == ""
        return (
            copy.is_said(ended) or crashed or (ended.returncode in (1, 78) and ended.stderr != "")
        )

    bytecode = {name: where for name, where in regions.items() if name.endswith(BYTECODE)}

    assert surprises(copies, flips(bytecode, 20), is_expected) == []


# --- damage of each part --------------------------------------------------------------------------


def test_damage_of_the_index_is_noticed_wherever_it_is(copy: Copy, regions: Regions) -> None:
    start, end = regions[f"data of {OWN}.idx"]
    random = Random(0)  # noqa: S311 - no secret

    for position in (start, start + 8, end - 1, *(random.randrange(start, end) for _ in range(9))):
        copy.flip(position, random.randrange(8))
        ended = copy.run(*VERSION)
        copy.fix(position)

        assert (ended.stdout, ended.stderr, ended.returncode) == copy.said("its index")


def test_damage_of_a_module_names_it(copy: Copy, regions: Regions, index: dict[str, Any]) -> None:
    _, offset, size, _, _ = index["modules"]["ryeos.cli.entry"]
    start = regions[f"data of {OWN}.bin"][0] + 16

    copy.write(start + offset + size // 2, bytes(10))
    ended = copy.run(*VERSION)

    assert (ended.stdout, ended.stderr, ended.returncode) == copy.said("module ryeos.cli.entry")


def test_damage_of_the_mark_of_a_part_names_the_part(copy: Copy, regions: Regions) -> None:
    copy.flip(regions[f"data of {OWN}.bin"][0], 0)
    ended = copy.run(*VERSION)

    assert (ended.stdout, ended.stderr, ended.returncode) == copy.said(f"{OWN}.bin")


def test_a_damaged_file_of_the_bundle_is_named_and_not_laid_out(
    copy: Copy, regions: Regions, index: dict[str, Any]
) -> None:
    (name,) = (name for name in index["bundle"]["files"] if name.endswith("rye/bash/bash.yaml"))
    offset, size, *_ = index["bundle"]["files"][name]

    copy.flip(regions["data of _rye/bundle.bin"][0] + 16 + offset + size // 2, 0)
    ended = copy.run(*ECHO)

    assert (ended.stdout, ended.stderr, ended.returncode) == copy.said(name)
    assert list(copy.machine.home.rglob("bash.yaml")) == []


@pytest.mark.parametrize("place", ["its first bytes", "its middle"])
def test_a_damaged_compiled_module_is_named_and_not_loaded(
    place: str, copy: Copy, regions: Regions, index: dict[str, Any]
) -> None:
    from zipboot.launch import platform_key

    natives = index["natives"].get(platform_key())
    if not natives:
        pytest.skip("nothing compiled is packed for this platform")
    start = regions["data of _rye/native.bin"][0] + 16

    for _, _, offset, size, *_ in natives.values():
        copy.flip(start + offset + (0 if place == "its first bytes" else size // 2), 3)
    ended = copy.run("self", "where")

    names = [native[0] for native in natives.values()]
    assert (ended.stdout, ended.stderr, ended.returncode) in [copy.said(name) for name in names]


def test_damaged_sources_are_not_extracted(copy: Copy, regions: Regions) -> None:
    start, end = regions[f"data of {SOURCES}"]

    copy.flip((start + end) // 2, 0)
    ended = copy.run("self", "extract", "somewhere")

    assert (ended.stdout, ended.stderr, ended.returncode) == copy.said(SOURCES)


# --- a file that is not whole ---------------------------------------------------------------------


@pytest.mark.parametrize("missing", [1, 22, 0.1, 0.5, 0.99])
def test_a_download_that_was_cut_is_an_error_that_says_so(missing: float, copy: Copy) -> None:
    size = copy.pyz.stat().st_size
    os.truncate(copy.pyz, size - (missing if isinstance(missing, int) else int(size * missing)))

    ended = copy.run(*VERSION)

    assert (ended.stdout, ended.returncode) == ("", 1)
    assert ended.stderr.endswith(": rye.pyz-is-damaged.get-it-again\n")
    assert ended.stderr.count("\n") == 1
