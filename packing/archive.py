"""The file itself: packed by shiv, then written again with our own start.

Nothing of the building machine is kept: no modes, no order of its file system, no paths.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from json import loads
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from packing.errors import BuildError
from packing.moment import VARIABLE, Moment

ENTRY_POINT = "ryeos.cli.entry:main"
INTERPRETER = "/usr/bin/env python3"

_BOOT = ("zipboot/__init__.py", "zipboot/start.py")
_UNIX, _REGULAR_FILE = 3, 0o100644
_BUILD_ID_DIGITS = 32  # of shiv's 64; Windows paths are short


@dataclass(frozen=True, slots=True)
class Part:
    """An entry of the archive. ``stored`` entries are read where they lie, without inflating."""

    name: str
    data: bytes
    stored: bool = False


def pack(tree: Path, checkout: Path, target: Path, moment: Moment) -> bytes:
    """The bytes of the executable zip file that holds ``tree``. ``target`` is for shiv's own file.

    Raises BuildError when shiv cannot pack it.
    """
    _run_shiv(tree, target, moment)
    with ZipFile(target) as shivs:
        build_id = loads(shivs.read("environment.json"))["build_id"][:_BUILD_ID_DIGITS]
        parts = [*_boot_parts(checkout, build_id), *_kept_parts(shivs)]
    return _compose(parts, moment)


def _run_shiv(tree: Path, target: Path, moment: Moment) -> None:
    command = [
        *(sys.executable, "-I", "-m", "shiv", "--reproducible", "--site-packages", str(tree)),
        *("--entry-point", ENTRY_POINT, "--python", INTERPRETER, "--output-file", str(target)),
    ]
    environ = os.environ | {VARIABLE: str(moment.epoch)}
    ended = subprocess.run(command, env=environ, capture_output=True, check=False)
    if ended.returncode:
        raise BuildError("shiv", ended.stderr.decode("utf-8", "replace").strip())


def _boot_parts(checkout: Path, build_id: str) -> Iterator[Part]:
    yield Part("__main__.py", _source(checkout, "zipboot/__main__.py"), stored=True)
    for name in _BOOT:
        yield Part(name, _source(checkout, name), stored=True)
    yield Part("zipboot/build_id", build_id.encode("ascii"), stored=True)


def _source(checkout: Path, name: str) -> bytes:
    return checkout.joinpath(name).read_bytes()


def _kept_parts(shivs: ZipFile) -> Iterator[Part]:
    """What shiv packed, in an order that does not depend on the file system."""
    for name in sorted(shivs.namelist()):
        if name != "__main__.py":
            yield Part(name, shivs.read(name))


def _compose(parts: list[Part], moment: Moment) -> bytes:
    buffer = BytesIO(f"#!{INTERPRETER}\n".encode("ascii"))
    buffer.seek(0, os.SEEK_END)
    with ZipFile(buffer, "w") as archive:
        for part in parts:
            entry = ZipInfo(part.name, moment.zip_time())
            entry.create_system, entry.external_attr = _UNIX, _REGULAR_FILE << 16
            entry.compress_type = ZIP_STORED if part.stored else ZIP_DEFLATED
            archive.writestr(entry, part.data, compresslevel=9)
    return buffer.getvalue()
