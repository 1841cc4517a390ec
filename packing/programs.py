"""The compiled helper programs of ``lillux_native``, built by cargo where there is one.

The same bytes wherever the checkout lies: paths are left out of them, and nothing of the machine
is in them. On Linux they are linked with all they need, and run on any of its distributions.
"""

import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packing import BuildError
from packing.build_time import VARIABLE
from packing.platforms import Platform
from zipboot.places import digest_of

NAMES = ("lillux-proc", "lillux-watch")
WORKSPACE = "lillux_native"
# One stream, as the programs have much in common: two fifths smaller than deflated.
_FILTERS = (
    {"id": lzma.FILTER_X86},
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME},
)
_FLAG_SEPARATOR = "\x1f"
# One row is read: no search indexes, no statistics, no code from elsewhere. A third of the size.
# The rest is what https://sqlite.org/compile.html recommends to those who need little, and calls
# that are never made. What schemas are written in stays: a table is found in any database.
_SQLITE_FLAGS = (
    "-USQLITE_ENABLE_FTS3",
    "-USQLITE_ENABLE_FTS3_PARENTHESIS",
    "-USQLITE_ENABLE_FTS5",
    "-USQLITE_ENABLE_RTREE",
    "-USQLITE_ENABLE_DBSTAT_VTAB",
    "-USQLITE_ENABLE_STAT4",
    "-USQLITE_ENABLE_LOAD_EXTENSION",
    "-DSQLITE_OMIT_LOAD_EXTENSION",
    "-DSQLITE_OMIT_JSON",
    "-USQLITE_ENABLE_API_ARMOR",
    "-USQLITE_ENABLE_COLUMN_METADATA",
    "-USQLITE_SOUNDEX",
    "-DSQLITE_DEFAULT_MEMSTATUS=0",
    "-DSQLITE_OMIT_AUTHORIZATION",
    "-DSQLITE_OMIT_COMPILEOPTION_DIAGS",
    "-DSQLITE_OMIT_COMPLETE",
    "-DSQLITE_OMIT_DECLTYPE",
    "-DSQLITE_OMIT_DEPRECATED",
    "-DSQLITE_OMIT_DESERIALIZE",
    "-DSQLITE_OMIT_GET_TABLE",
    "-DSQLITE_OMIT_INCRBLOB",
    "-DSQLITE_OMIT_INTEGRITY_CHECK",
    "-DSQLITE_OMIT_PROGRESS_CALLBACK",
    "-DSQLITE_OMIT_SHARED_CACHE",
    "-DSQLITE_OMIT_TRACE",
)


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """A program for one platform: the file's name, and its content."""

    file_name: str
    data: bytes


def built_programs(checkout: Path, *, cargo: str | None = None) -> tuple[NativeProgram, ...]:
    """The programs for this machine; none where there is no cargo that works.

    Raises BuildError when cargo cannot build them.
    """
    folder = compile_programs(checkout, cargo=cargo)
    if folder is None:
        return ()
    files = [folder / file_name(name) for name in NAMES]
    return tuple(NativeProgram(file.name, file.read_bytes()) for file in files)


@dataclass(frozen=True, slots=True)
class ProgramsPart:
    """The packed programs. ``index`` is by platform: where they are, and each with its digest."""

    data: bytes
    index: dict[str, dict[str, Any]]


def programs_part(platform: Platform | None, programs: Sequence[NativeProgram]) -> ProgramsPart:
    """Content of the archive for the programs of a platform; nothing where there are none."""
    if platform is None or not programs:
        return ProgramsPart(b"", {})
    whole = b"".join(program.data for program in programs)
    data = lzma.compress(whole, format=lzma.FORMAT_XZ, filters=list(_FILTERS))
    files = [(one.file_name, digest_of(one.data), len(one.data)) for one in programs]
    entry = {"name": digest_of(whole), "offset": 0, "size": len(data), "files": files}
    return ProgramsPart(data, {platform.name: entry})


def compile_programs(checkout: Path, *, cargo: str | None = None) -> Path | None:
    """The folder that has the programs, up to date now; None where there is no cargo that works.

    Raises BuildError when cargo cannot build them.
    """
    cargo = working_cargo(cargo)
    if cargo is None:
        return None
    target = host_of(cargo)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    command = [cargo, "build", "--release", "--locked", "--quiet", "--target", target]
    env = _environment(os.environ, target_folder(checkout), home, target)
    ended = subprocess.run(
        command, cwd=checkout / WORKSPACE, env=env, capture_output=True, check=False
    )
    if ended.returncode:
        words = ended.stderr.decode("utf-8", "replace").strip()
        hint = "rustup update, or build without cargo on the PATH: then Python does the same"
        raise BuildError(" ".join(["cargo", *command[1:]]), words, hint=hint)
    return target_folder(checkout) / target / "release"


def target_folder(checkout: Path) -> Path:
    """Folder where cargo keeps what it builds for this project."""
    return checkout / "build" / "native"


def file_name(program: str, platform: str = sys.platform) -> str:
    """File name of a program."""
    return f"{program}.exe" if platform == "win32" else program


def working_cargo(cargo: str | None = None) -> str | None:
    """The cargo that was named, else the one on the PATH; None where it does not work."""
    cargo = cargo or shutil.which("cargo")
    return cargo if cargo and host_of(cargo) else None


def host_of(cargo: str) -> str:
    """Cargo's name of this machine; nothing when it does not work.

    The one of rustup is on the PATH of users too for whom rustup has installed nothing.
    """
    try:
        ended = subprocess.run([cargo, "-vV"], capture_output=True, check=False, encoding="utf-8")
    except OSError:
        return ""
    fields = dict(line.partition(": ")[::2] for line in ended.stdout.splitlines())
    return fields.get("host", "")


def _environment(
    environ: Mapping[str, str], target_folder: Path, home: Path, target: str
) -> dict[str, str]:
    # Our own sources are named relative to their folder, wherever it is.
    flags = [f"--remap-path-prefix={home}=/cargo"]
    if target.endswith("-linux-gnu"):
        flags.append("-Ctarget-feature=+crt-static")
    kept = {name: value for name, value in environ.items() if not name.startswith("CARGO_")}
    kept.pop("RUSTFLAGS", None)
    # Nothing that is compiled contains a time, and SQLite would be compiled anew for each one.
    kept.pop(VARIABLE, None)
    # Nothing unwinds the stack: a panic ends the program.
    c_flags = f"-ffile-prefix-map={home}=/cargo -fno-asynchronous-unwind-tables"
    return kept | {
        "CARGO_HOME": str(home),
        "CARGO_ENCODED_RUSTFLAGS": _FLAG_SEPARATOR.join(flags),
        "CARGO_TARGET_DIR": str(target_folder),
        **({} if target.endswith("-msvc") else {"CFLAGS": c_flags}),
        "LIBSQLITE3_FLAGS": " ".join(_SQLITE_FLAGS),
    }
