"""Platforms that compiled modules are packed for, and what each calls its files."""

import platform
import sys
from dataclasses import dataclass

_GLIBC = ("2_17", "2_24", "2_26", "2_27", "2_28")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A platform.

    name      of the folder that its wheels are kept in
    tags      what ``pip download --platform`` is asked for, all of them
    suffix    of extension files, with the minor version of CPython at ``{minor}``
    machine   added to the suffix where that does not name the processor
    """

    name: str
    tags: tuple[str, ...]
    suffix: str
    machine: str = ""

    def key(self, minor: int) -> str:
        """Name of an interpreter in the index; `zipboot.launch.platform_key` says the same."""
        suffix = self.suffix.format(minor=minor)
        return f"{suffix}:{self.machine}" if self.machine else suffix


def _glibc(machine: str) -> Platform:
    return Platform(
        name=f"linux-{machine}",
        tags=(*(f"manylinux_{v}_{machine}" for v in _GLIBC), f"manylinux2014_{machine}"),
        suffix=f".cpython-3{{minor}}-{machine}-linux-gnu.so",
    )


def _musl(machine: str) -> Platform:
    return Platform(
        name=f"musl-{machine}",
        tags=(f"musllinux_1_1_{machine}", f"musllinux_1_2_{machine}"),
        suffix=f".cpython-3{{minor}}-{machine}-linux-musl.so",
    )


def _macos(machine: str) -> Platform:
    versions = ("10_9", "10_10", "10_13", "11_0")
    tags = tuple(f"macosx_{v}_{arch}" for v in versions for arch in (machine, "universal2"))
    return Platform(
        name=f"macos-{machine}", tags=tags, suffix=".cpython-3{minor}-darwin.so", machine=machine
    )


PLATFORMS = (
    _glibc("x86_64"),
    _glibc("aarch64"),
    _musl("x86_64"),
    _musl("aarch64"),
    _macos("x86_64"),
    _macos("arm64"),
    Platform(name="windows-amd64", tags=("win_amd64",), suffix=".cp3{minor}-win_amd64.pyd"),
)


def this_platform() -> Platform | None:
    """The platform of this machine, None for one that nothing is packed for."""
    import _imp

    own = _imp.extension_suffixes()[0]
    for known in PLATFORMS:
        key = known.suffix.format(minor=sys.version_info[1])
        if key == own and known.machine in ("", platform.machine()):
            return known
    return None
