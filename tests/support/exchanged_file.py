"""Exchanges a file right before it is opened for the n-th time: a race without chance.

As a program it does so in a start of Rye: ``exchanged_file.py PATH OTHER NTH rye.py ARGUMENTS``.
"""

import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Exchange:
    """The exchange that is waited for. A hook of the interpreter stays: there is one for all."""

    name = ""
    nth = 0
    is_busy = False
    path = Path()
    data = b""

    def on_event(self, event: str, details: tuple[object, ...]) -> None:
        if event != "open" or not self.name or self.is_busy:
            return
        opened = details[0]
        if not isinstance(opened, str | bytes | os.PathLike):
            return
        if Path(os.fsdecode(opened)).name != self.name:
            return
        self.nth -= 1
        if self.nth == 0:
            self.is_busy = True
            other = self.path.with_name("other.tmp")
            other.write_bytes(self.data)
            other.replace(self.path)
            self.is_busy, self.name = False, ""


_EXCHANGE = _Exchange()
_HOOKED: list[bool] = []


@contextmanager
def exchanged(path: Path, data: bytes, nth: int) -> Iterator[None]:
    """While it lasts, the file is another from its n-th opening on."""
    if not _HOOKED:
        sys.addaudithook(_EXCHANGE.on_event)
        _HOOKED.append(True)
    _EXCHANGE.path, _EXCHANGE.data, _EXCHANGE.nth = path, data, nth
    _EXCHANGE.name = path.name
    try:
        yield
    finally:
        _EXCHANGE.name = ""


if __name__ == "__main__":
    place, text, number = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes(), int(sys.argv[3])
    sys.argv = sys.argv[4:]
    sys.path.insert(0, str(Path(sys.argv[0]).absolute().parent))
    with exchanged(place, text, number):
        runpy.run_path(sys.argv[0], run_name="__main__")
