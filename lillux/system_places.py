"""System folders that programs need and that contain no secrets."""

import os
from collections.abc import Iterator
from pathlib import Path

SYSTEM_FOLDERS = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/opt", "/nix", "/gnu"),
    *("/snap", "/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/run/nscd"),
    *("/System", "/Library"),
)
# In /etc the files that interpreters, TLS and the resolver read. Other files there may contain
# passwords, private keys and environments of services.
_ETC = (
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ssl/ca-bundle.pem", "ca-certificates"),
    *("ca-certificates.conf", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf"),
    *("pki/ca-trust", "crypto-policies", "openssl.cnf", "localtime", "timezone", "locale.conf"),
    *("locale.alias", "resolv.conf", "hosts", "host.conf", "hostname", "nsswitch.conf"),
    *("gai.conf", "networks", "protocols", "services", "rpc", "passwd", "group", "shells"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives"),
    *("mime.types", "magic", "magic.mime", "terminfo", "inputrc", "fonts", "os-release"),
    *("lsb-release", "debian_version", "redhat-release", "alpine-release", "gitconfig"),
    *("perl", "static"),
)
_ETC_PATTERNS = ("python3*", "java-*")
BESIDE_PROGRAMS = ("lib", "lib64", "libexec", "pyvenv.cfg")
"""Names beside a folder of programs that belongs to them; the file, of a virtual environment."""
_BESIDE_SHIMS = ("version", "versions", "installs", "bin", "plugins", "pyenv.d", "rbenv.d")
"""Names beside a folder of shims: the manager, its choice, and the programs themselves."""


def system_places(etc: Path = Path("/etc")) -> Iterator[Path]:
    """Files and folders of the system that any program may read."""
    yield from map(Path, SYSTEM_FOLDERS)
    yield from (etc / name for name in _ETC)
    yield from (found for pattern in _ETC_PATTERNS for found in etc.glob(pattern))


def program_places(folder: Path) -> tuple[Path, ...]:
    """A folder of programs, and what lies beside it and belongs to them.

    Of shims too the programs that they start, and the manager that knows which ones.
    """
    beside = (*BESIDE_PROGRAMS, *_BESIDE_SHIMS) if folder.name == "shims" else BESIDE_PROGRAMS
    return (folder, *(folder.parent / name for name in beside))


def loaders_of(program: Path, *, of_elf: bool = False) -> Iterator[list[str]]:
    """The loader of a program: its ELF interpreter, or the program in its ``#!`` line.

    With ``of_elf`` the former alone.
    """
    try:
        with program.open("rb") as file:
            head = file.read(4096)
            if head.startswith(b"#!") and not of_elf:
                words = head[2:].partition(b"\n")[0].split()
                if words:
                    yield [os.fsdecode(word) for word in words]
                return
            if head[:5] != b"\x7fELF\x02":
                return
            first = int.from_bytes(head[32:40], "little")
            size, count = (int.from_bytes(head[at : at + 2], "little") for at in (54, 56))
            for index in range(count):
                entry = head[first + index * size :][:size]
                if entry[:4] == b"\x03\0\0\0":  # PT_INTERP
                    at, length = (int.from_bytes(entry[p : p + 8], "little") for p in (8, 32))
                    file.seek(at)
                    yield [os.fsdecode(file.read(length).rstrip(b"\0"))]
    except OSError:
        return
