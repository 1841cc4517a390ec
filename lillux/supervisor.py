"""Decides supervised system calls by their arguments in memory: addresses, file names.

A filter (`lillux.seccomp`) lets such a call wait; a thread of this process learns of it. What it
reads could be changed by another thread of the caller before the kernel reads it again. So a
connection is made here, on the caller's own socket and to the address that was looked at; only what
is merely watched continues by itself. See seccomp_unotify(2). Linux.
"""

import ctypes
import errno
import os
import select
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from threading import Thread

from lillux.seccomp import ADDRESSED, FILES, Addresses, Reach, number_of
from lillux.values import dataclass

_RECEIVE, _SEND, _STILL_THERE = 0xC050_2100, 0xC018_2101, 0x4008_2102
_REQUEST = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
_GO_ON = 1
_MAX_ADDRESS, _MAX_PATH = 128, 4096
_AF_UNSPEC = 0
_AT_FDCWD = -100
_INET_BYTES, _INET6_BYTES, _SCOPED_BYTES = 8, 24, 28  # of the structures of addresses
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

Ip = IPv4Address | IPv6Address


def allows(addresses: Addresses, call: str, ip: Ip, port: int) -> bool:
    """Whether a stream may be connected or bound to an address."""
    plain = (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip
    match addresses.reach:
        case Reach.PROXY:
            return call == "connect" and plain.is_loopback and port == addresses.port
        case Reach.LOOPBACK:
            return plain.is_loopback
        case _:
            return call != "connect" or not is_near(plain)


def is_near(ip: Ip) -> bool:
    """Whether an address is loopback or link-local."""
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip in _METADATA


_METADATA = frozenset({ip_address("fd00:ec2::254"), ip_address("100.100.100.200")})


@dataclass(frozen=True, slots=True)
class Attempt:
    """An access of a confined process: ``read``, ``write``, ``run``, ``connect`` or ``bind``.

    ``was_refused`` is known of addresses alone; whether a path is open is for the rules to say.
    """

    what: str
    target: str
    was_refused: bool = False


OnAttempt = Callable[[Attempt], None]


@cache
def can_supervise() -> bool:
    """Whether pidfd_getfd() works for this process: containers may forbid it."""
    try:
        pidfd = os.pidfd_open(os.getpid())
    except (AttributeError, OSError):
        return False
    try:
        os.close(_socket_of(pidfd, pidfd))
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


class Supervisor:
    """Answers supervised calls until the last confined process has ended."""

    def __init__(
        self, listener: int, addresses: Addresses | None, on_attempt: OnAttempt | None = None
    ) -> None:
        self._listener, self._addresses = listener, addresses
        self._on_attempt = on_attempt or (lambda _: None)
        self._names = {
            number_of(name): name for name in (*ADDRESSED, *FILES) if number_of(name) >= 0
        }
        Thread(target=self._serve, name="lillux-supervisor", daemon=True).start()

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        try:
            while True:
                ((_, events),) = poll.poll()
                if not events & select.POLLIN:
                    return
                self._hear()
        finally:
            os.close(self._listener)

    def _hear(self) -> None:
        import fcntl

        buffer = bytearray(_REQUEST.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, buffer)
        except OSError:  # the caller ended meanwhile
            return
        request, pid, _, number, _, _, *words = _REQUEST.unpack(buffer)
        call = _Call(request, pid, self._names.get(number, ""), words)
        if call.name not in ADDRESSED:
            with suppress(OSError, ValueError):
                self._watch(call)
            self._answer(call, _GO_ON)
        elif self._addresses is None:
            with suppress(OSError, ValueError):
                self._look_at_address(call)
            self._answer(call, _GO_ON)
        else:
            # A connection may take its time, and others must not wait for it.
            Thread(target=self._connect, args=(call,), daemon=True).start()

    # ------------------------------------------------------------------ addresses

    def _connect(self, call: "_Call") -> None:
        try:
            self._make(call)
        except OSError as error:
            self._answer(call, 0, error.errno or errno.EACCES)
        except ValueError:  # no address that this module knows
            self._answer(call, 0, errno.EACCES)
        else:
            self._answer(call, 0)

    def _make(self, call: "_Call") -> None:
        """Make the call on the caller's socket. Raises OSError, ValueError."""
        given = None if call.name == "listen" else call.address()
        pidfd = os.pidfd_open(_leader(call.pid))
        try:
            descriptor = _socket_of(pidfd, call.words[0])
        finally:
            os.close(pidfd)
        self._require_there(call)  # otherwise the process id may belong to another process
        with socket.socket(fileno=descriptor) as ours:
            is_stream = ours.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
            if ours.family == socket.AF_UNIX and isinstance(given, str | bytes):
                # A program that may create local sockets may use them: `seccomp.Sockets`.
                (ours.connect if call.name == "connect" else ours.bind)(given)
                return
            if ours.family == socket.AF_UNIX and call.name == "listen":
                ours.listen(min(call.words[1] & 0xFFFF, socket.SOMAXCONN))
                return
            if ours.family not in {socket.AF_INET, socket.AF_INET6} or isinstance(
                given, str | bytes
            ):
                raise ValueError(ours.family)
            if call.name == "listen":
                given = _parse_address(ours.getsockname())
                self._require_allowed(call, given)
                ours.listen(min(call.words[1] & 0xFFFF, socket.SOMAXCONN))
                return
            if given is None:  # AF_UNSPEC, which takes a connection back
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
            if is_stream:
                self._require_allowed(call, given)
            elif self._addresses and self._addresses.reach is not Reach.PUBLIC:
                raise PermissionError(errno.EACCES, "datagrams")
            place = given.place(ours.family)
            (ours.connect if call.name == "connect" else ours.bind)(place)

    def _require_allowed(self, call: "_Call", given: "_Address") -> None:
        is_allowed = self._addresses is None or allows(
            self._addresses, call.name, given.ip, given.port
        )
        self._on_attempt(Attempt(_VERBS[call.name], str(given), was_refused=not is_allowed))
        if not is_allowed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _look_at_address(self, call: "_Call") -> None:
        given = None if call.name == "listen" else call.address()
        if isinstance(given, _Address):
            self._on_attempt(Attempt(_VERBS[call.name], str(given)))

    # ------------------------------------------------------------------ files

    def _watch(self, call: "_Call") -> None:
        for what, at, path in call.paths():
            with suppress(OSError):
                base = "/" if path.startswith("/") else call.folder(at)
                self._on_attempt(Attempt(what, os.path.normpath(f"{base}/{path}")))

    # ------------------------------------------------------------------ answers

    def _require_there(self, call: "_Call") -> None:
        import fcntl

        fcntl.ioctl(self._listener, _STILL_THERE, struct.pack("<Q", call.request))

    def _answer(self, call: "_Call", flags: int, number: int = 0) -> None:
        import fcntl

        with suppress(OSError):  # it was interrupted, or is gone
            answer = bytearray(_ANSWER.pack(call.request, 0, -number, flags))
            fcntl.ioctl(self._listener, _SEND, answer)


_VERBS: Mapping[str, str] = {"connect": "connect", "bind": "bind", "listen": "bind"}


@dataclass(frozen=True, slots=True)
class _Address:
    ip: Ip
    port: int
    flow: int = 0
    scope: int = 0

    def place(self, family: int) -> tuple[str, int] | tuple[str, int, int, int]:
        """The address in the form of a socket family."""
        if family == socket.AF_INET:
            return str(self.ip), self.port
        return str(self.ip).partition("%")[0], self.port, self.flow, self.scope

    def __str__(self) -> str:
        return f"{f'[{self.ip}]' if isinstance(self.ip, IPv6Address) else self.ip}:{self.port}"


def _parse_address(name: tuple[str, int]) -> _Address:
    return _Address(ip_address(str(name[0]).partition("%")[0]), int(name[1]))


@dataclass(frozen=True, slots=True)
class _Call:
    """A waiting call: its thread and its arguments."""

    request: int
    pid: int
    name: str
    words: list[int]

    def address(self) -> "_Address | str | bytes | None":
        """The address that it names, of a local socket its path or name; None for none at all.

        Raises OSError, ValueError for another family.
        """
        size = min(self.words[2] & 0xFFFF_FFFF, _MAX_ADDRESS)
        data = self._memory(self.words[1], size)
        (family,) = struct.unpack_from("=H", data) if size > 1 else (-1,)
        if family == _AF_UNSPEC:
            return None
        if family == socket.AF_UNIX:
            return self._local_name(data[2:])
        if family == socket.AF_INET and len(data) >= _INET_BYTES:
            return _Address(IPv4Address(data[4:8]), int.from_bytes(data[2:4], "big"))
        if family == socket.AF_INET6 and len(data) >= _INET6_BYTES:
            (scope,) = struct.unpack_from("=I", data, 24) if len(data) >= _SCOPED_BYTES else (0,)
            flow = int.from_bytes(data[4:8], "big")
            port = int.from_bytes(data[2:4], "big")
            return _Address(IPv6Address(data[8:24]), port, flow, scope)
        raise ValueError(family)

    def _local_name(self, name: bytes) -> str | bytes:
        """The path of a local socket as this process finds it, or its name without a path."""
        if name.startswith(b"\0"):
            return name
        path = os.fsdecode(name.partition(b"\0")[0])
        return path if path.startswith("/") else f"/proc/{self.pid}/cwd/{path}"

    def paths(self) -> list[tuple[str, int, str]]:
        """What it does to which paths, each relative to a folder's descriptor."""
        words, here = self.words, _AT_FDCWD
        found: list[tuple[str, int, int]]  # what, folder, address of the path
        match self.name:
            case "open":
                found = [(_access_of_flags(words[1]), here, words[0])]
            case "openat":
                found = [(_access_of_flags(words[2]), words[0], words[1])]
            case "openat2":
                (flags,) = struct.unpack("<Q", self._memory(words[2], 8))
                found = [(_access_of_flags(flags), words[0], words[1])]
            case "execve":
                found = [("run", here, words[0])]
            case "execveat":
                found = [("run", words[0], words[1])]
            case "mkdirat" | "unlinkat":
                found = [("write", words[0], words[1])]
            case "renameat" | "renameat2":
                found = [("write", words[0], words[1]), ("write", words[2], words[3])]
            case "rename":
                found = [("write", here, words[0]), ("write", here, words[1])]
            case _:
                found = [("write", here, words[0])]
        return [(what, at, self._text(address)) for what, at, address in found]

    def folder(self, at: int) -> str:
        """The folder of a descriptor of the caller's."""
        number = ctypes.c_int32(at & 0xFFFF_FFFF).value
        link = "cwd" if number == _AT_FDCWD else f"fd/{number}"
        return str(Path(f"/proc/{self.pid}/{link}").readlink())

    def _text(self, address: int) -> str:
        """The text up to a NUL or an unmapped page."""
        text = b""
        while b"\0" not in text and len(text) < _MAX_PATH:
            step = 256 - (address + len(text)) % 256
            text += self._memory(address + len(text), step)
        return os.fsdecode(text.partition(b"\0")[0])

    def _memory(self, address: int, size: int) -> bytes:
        descriptor = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size, address)
        finally:
            os.close(descriptor)


def _access_of_flags(flags: int) -> str:
    return "write" if flags & _WRITING else "read"


def _leader(pid: int) -> int:
    """The process of a thread."""
    with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - no path to keep
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    return pid


def _socket_of(pidfd: int, number: int) -> int:
    """A descriptor of our own for another process's. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = (number_of("pidfd_getfd"), pidfd, number & 0xFFFF_FFFF, 0)
    found = int(libc.syscall(*map(ctypes.c_ulong, words)))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    os.set_inheritable(found, False)  # noqa: FBT003 - its only way
    return found
