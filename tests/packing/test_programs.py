import lzma
import os
from pathlib import Path

import pytest

from packing.build_time import VARIABLE
from packing.platforms import PLATFORMS
from packing.programs import (
    WORKSPACE,
    NativeProgram,
    built_programs,
    compile_programs,
    file_name,
    programs_part,
)
from zipboot.places import digest_of

PROGRAMS = (NativeProgram("a", b"one" * 100), NativeProgram("b", b"two" * 100))


@pytest.mark.parametrize(
    ("platform", "name"),
    [("linux", "lillux-proc"), ("darwin", "lillux-proc"), ("win32", "lillux-proc.exe")],
)
def test_a_program_is_called_as_its_platform_wants(platform: str, name: str) -> None:
    assert file_name("lillux-proc", platform) == name


def test_programs_are_packed_as_one_stream_with_the_digest_of_each() -> None:
    part = programs_part(PLATFORMS[0], PROGRAMS)

    entry = part.index[PLATFORMS[0].name]
    whole = b"".join(program.data for program in PROGRAMS)
    assert lzma.decompress(part.data) == whole
    assert entry["name"] == digest_of(whole)
    assert entry["files"] == [(one.file_name, digest_of(one.data), 300) for one in PROGRAMS]


def test_for_an_unknown_platform_no_program_is_packed() -> None:
    assert programs_part(None, PROGRAMS).index == {}


def test_without_cargo_no_program_is_built() -> None:
    assert built_programs(Path(), cargo="/no/such/cargo") == ()


CARGO = """#!/bin/sh
echo "host: x86_64-unknown-linux-gnu"
[ "$1" = build ] && env > "$CARGO_TARGET_DIR/environment"
exit 0
"""


@pytest.mark.skipif(os.name == "nt", reason="this cargo is a shell script")
def test_another_build_time_compiles_no_program_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text(CARGO, "utf-8")
    cargo.chmod(0o700)
    (tmp_path / WORKSPACE).mkdir()
    (tmp_path / "build" / "native").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, "1767225600")

    compile_programs(tmp_path, cargo=str(cargo))

    seen = (tmp_path / "build" / "native" / "environment").read_text("utf-8")
    assert "CARGO_TARGET_DIR=" in seen
    assert VARIABLE not in seen
