"""Connects, binds and sends in the place of a confined process: on its own socket.

What is sent and where to lies in memory that another thread of the caller could change. So it is
read once, looked at, and these very bytes go to the kernel. Imported late: it takes 3 ms, and most
supervisors hear of files alone.
"""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from ipaddress import IPv4Address, IPv6Address

from lillux.addresses import Ip, allows
from lillux.attempts import Attempt, OnAttempt
from lillux.mediation.callers import FileCall, GoOn, descriptor_of, status_of
from lillux.mediation.impersonation import Impersonation
from lillux.mediation.resolution import Opened, Way
from lillux.mediation.write_rules import WriteRules
from lillux.seccomp import Addresses
from lillux.values import dataclass

_MAX_ADDRESS, _MAX_DATA, _MAX_PARTS, _MAX_MESSAGES = 128, 1 << 18, 1024, 64
_INET_BYTES, _INET6_BYTES = 8, 24  # of the structures of addresses
_HEADER = struct.Struct("=QI4xQQQQI4x")  # struct msghdr
_MESSAGE_BYTES = _HEADER.size + 8  # struct mmsghdr
_CONTROL = struct.Struct("=Qii")  # struct cmsghdr
_AF_UNSPEC, _AF_NETLINK = 0, 16
_AT_FDCWD = -100
_PAGE = 65536
_MOST_BOUND = 64
# Of the further data of messages what names no other way: TOS, TTL, PKTINFO, HOPLIMIT, TCLASS,
# UDP_SEGMENT.
_HARMLESS = frozenset({(0, 1), (0, 2), (0, 8), (41, 50), (41, 52), (41, 67), (17, 103)})
_VERBS: Mapping[str, str] = {"bind": "bind", "listen": "bind"}


@dataclass(frozen=True, slots=True)
class _Address:
    ip: Ip
    port: int

    def __str__(self) -> str:
        return f"{f'[{self.ip}]' if isinstance(self.ip, IPv6Address) else self.ip}:{self.port}"


class Sockets:
    """Makes the calls of one confinement that name addresses.

    ``local`` are the paths of local sockets that may be connected to beside those that may be
    written; None for any. In a folder that others write too only those count that were ``bound``
    here, by device and inode: held, so that no other file gets that inode. ``addresses`` is None
    where the internet is not limited.
    """

    def __init__(
        self,
        addresses: Addresses | None,
        local: tuple[str, ...] | None,
        on_attempt: OnAttempt,
        bound: dict[tuple[int, int], int],
    ) -> None:
        self._addresses, self._local, self._on_attempt = addresses, local, on_attempt
        self._bound = bound

    def look(self, call: FileCall) -> None:
        """Report the address of a call that is not limited. Raises OSError, ValueError."""
        if call.name in {"connect", "bind"}:
            given = _parsed(_address(call))
            if given is not None:
                self._on_attempt(Attempt(_VERBS.get(call.name, "connect"), str(given)))

    def make(
        self,
        call: FileCall,
        rules: WriteRules,
        thread: Callable[[], Impersonation],
        confirm: Callable[[], None],
    ) -> int:
        """Make a call on the caller's socket; what it returns. Raises OSError, ValueError, GoOn."""
        status = status_of(call.pid)
        pidfd = os.pidfd_open(status.leader)
        try:
            with _socket_at(pidfd, call.words[0]) as ours:
                confirm()  # otherwise the process id may belong to another process
                match call.name:
                    case "listen":
                        return self._listen(call, ours)
                    case "sendto" | "sendmsg" | "sendmmsg":
                        return self._send(call, ours, pidfd)
                given = _address(call)
                if ours.family == socket.AF_UNIX and _family(given) == socket.AF_UNIX:
                    return self._reach_local(call, ours, given, (rules, thread))
                if call.name == "bind" and self._addresses is None:
                    raise GoOn  # Landlock decides where a file may be made
                self._require_allowed(call.name, ours, given)
                return _give(call.name, ours, given)
        finally:
            os.close(pidfd)

    def _listen(self, call: FileCall, ours: socket.socket) -> int:
        if ours.family in {socket.AF_INET, socket.AF_INET6}:
            self._require_allowed("listen", ours, _own_address(ours))
        elif ours.family != socket.AF_UNIX:
            raise ValueError(ours.family)
        ours.listen(min(call.words[1] & 0xFFFF, socket.SOMAXCONN))
        return 0

    def _require_allowed(self, name: str, ours: socket.socket, given: bytes) -> None:
        """Refuse an address that is out of reach. Raises PermissionError, ValueError."""
        if self._addresses is None:
            return
        if ours.family == _AF_NETLINK and name == "bind":
            return
        if ours.family not in {socket.AF_INET, socket.AF_INET6}:
            raise ValueError(ours.family)
        if name == "connect" and _family(given) == _AF_UNSPEC:  # takes a connection back
            return
        found = _parsed(given)
        if found is None:
            raise ValueError(given[:2])
        is_allowed = allows(self._addresses, name, found.ip, found.port)
        verb = _VERBS.get(name, "connect")
        self._on_attempt(Attempt(verb, str(found), was_refused=not is_allowed))
        if not is_allowed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _reach_local(
        self,
        call: FileCall,
        ours: socket.socket,
        given: bytes,
        how: tuple[WriteRules, Callable[[], Impersonation]],
    ) -> int:
        """Connect or bind a local socket: by the descriptor of what its path leads to."""
        rules, thread = how
        name = given[2:]
        if not name or name.startswith(b"\0"):
            return self._reach_abstract(call, ours, given)
        path = os.fsdecode(name.partition(b"\0")[0])
        opened = Opened()
        try:
            way = Way(call, opened)
            try:
                spot = way.spot(_AT_FDCWD, path)
                if call.name == "bind":
                    if not rules.mediates(spot.place):  # Landlock decides where one may be made
                        raise GoOn(spot.place if rules.refuses(spot.place) else "")  # noqa: TRY301
                    place = f"/proc/self/fd/{spot.folder}/{spot.name}"
                else:
                    found, spot = way.final(spot)
                    self._require_local(spot.place, os.fstat(found), rules)
                    place = f"/proc/self/fd/{found}"
            except GoOn:
                if call.name == "bind":
                    raise
                self._refuse(path)
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
            thread().become_for_good(status_of(call.pid), call.pid)
            if call.name == "connect":
                ours.connect(place)
            else:
                ours.bind(place)
                if self._local is not None and rules.is_shared(spot.place):
                    self._hold(place)
        finally:
            opened.close()
        return 0

    def _hold(self, place: str) -> None:
        """Know a socket as one of this run, the latest of them at most."""
        held = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(held)
        self._bound[found.st_dev, found.st_ino] = held
        if len(self._bound) > _MOST_BOUND:
            os.close(self._bound.pop(next(iter(self._bound))))

    def _reach_abstract(self, call: FileCall, ours: socket.socket, given: bytes) -> int:
        """A name without a file. Connecting here would not be held by the scopes of Landlock."""
        if call.name == "connect" and self._local is not None:
            self._refuse("@" + os.fsdecode(given[3:]).rstrip("\0"))
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return _give(call.name, ours, given)

    def _refuse(self, target: str) -> None:
        self._on_attempt(Attempt("socket", target, was_refused=True))

    def _require_local(self, place: str, found: os.stat_result, rules: WriteRules) -> None:
        if self._local is None:
            return
        is_own = not rules.is_shared(place) or (found.st_dev, found.st_ino) in self._bound
        if rules.may_change(place) and is_own:
            return
        if not any(place == one or place.startswith(one.rstrip("/") + "/") for one in self._local):
            self._on_attempt(Attempt("connect", place, was_refused=True))
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _send(self, call: FileCall, ours: socket.socket, pidfd: int) -> int:
        words = call.words
        if call.name == "sendto":
            if words[2] > _MAX_DATA:
                raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
            message = _Message(call.memory(words[1], words[2]), _bytes(call, words[4], words[5]))
            return self._deliver(ours, message, words[3], pidfd)
        if call.name == "sendmsg":
            return self._deliver(ours, _message_at(call, words[1]), words[2], pidfd)
        sent = 0
        for at in range(min(words[2] & 0xFFFF_FFFF, _MAX_MESSAGES)):
            address = words[1] + at * _MESSAGE_BYTES
            try:
                count = self._deliver(ours, _message_at(call, address), words[3], pidfd)
            except OSError:
                if sent:
                    return sent
                raise
            call.write(address + _HEADER.size, struct.pack("=I", count))
            sent += 1
        return sent

    def _deliver(self, ours: socket.socket, message: "_Message", flags: int, pidfd: int) -> int:
        """Send one message. Raises OSError, ValueError."""
        is_local = ours.family == socket.AF_UNIX
        if message.address and not is_local and ours.family != _AF_NETLINK:
            self._require_allowed("send", ours, message.address)
        if message.address and is_local:  # no streams need one, and datagrams cannot be made
            kind = ours.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
            if kind not in {socket.SOCK_STREAM, socket.SOCK_SEQPACKET}:
                self._refuse("a datagram to a local socket")
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        held: list[int] = []
        try:
            try:
                control = _lent_control(message.control, is_local=is_local, pidfd=pidfd, held=held)
            except PermissionError:
                self._refuse("a message with further data")
                raise
            flags = flags & 0xFFFF_FFFF | socket.MSG_NOSIGNAL
            return _sendmsg(ours, message, control, flags)
        finally:
            for descriptor in held:
                os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Message:
    data: bytes
    address: bytes
    control: bytes = b""


def _message_at(call: FileCall, at: int) -> _Message:
    """The message of a ``struct msghdr``. Raises OSError."""
    name, size, parts, count, control, control_size, _ = _HEADER.unpack(
        call.memory(at, _HEADER.size)
    )
    if count > _MAX_PARTS or control_size > _PAGE:
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    vector = call.memory(parts, count * 16) if count else b""
    data = b""
    for base, length in struct.iter_unpack("=QQ", vector):
        room = min(length, _MAX_DATA - len(data))  # a stream takes a part and is given the rest
        data += call.memory(base, room) if room else b""
    more = call.memory(control, control_size) if control and control_size else b""
    return _Message(data, _bytes(call, name, size), more)


def _bytes(call: FileCall, at: int, size: int) -> bytes:
    size &= 0xFFFF_FFFF
    return call.memory(at, min(size, _MAX_ADDRESS)) if at and size else b""


def _lent_control(control: bytes, *, is_local: bool, pidfd: int, held: list[int]) -> bytes:
    """Further data of a message, with descriptors of this process. Raises PermissionError."""
    found, at = b"", 0
    while at + _CONTROL.size <= len(control):
        length, level, kind = _CONTROL.unpack_from(control, at)
        if length < _CONTROL.size:
            break
        data = control[at + _CONTROL.size : at + length]
        if is_local and (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers = [one for (one,) in struct.iter_unpack("=i", data[: len(data) // 4 * 4])]
            lent = []
            for number in numbers:
                lent.append(descriptor_of(pidfd, number))
                held.append(lent[-1])
            data = struct.pack(f"={len(lent)}i", *lent)
        elif is_local or (level, kind) not in _HARMLESS:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        entry = _CONTROL.pack(_CONTROL.size + len(data), level, kind) + data
        found += entry + bytes(-len(entry) % 8)
        at += (length + 7) & ~7
    return found


def _sendmsg(ours: socket.socket, message: _Message, control: bytes, flags: int) -> int:
    """sendmsg(), with addresses and further data as bytes."""
    data, name = ctypes.create_string_buffer(message.data, len(message.data) + 1), message.address
    name_bytes = ctypes.create_string_buffer(name, len(name) + 1)
    more = ctypes.create_string_buffer(control, len(control) + 1)
    parts = (ctypes.c_uint64 * 2)(ctypes.addressof(data), len(message.data))
    header = _HEADER.pack(
        ctypes.addressof(name_bytes) if name else 0,
        len(name),
        ctypes.addressof(parts),
        1,
        ctypes.addressof(more) if control else 0,
        len(control),
        0,
    )
    result = int(_libc().sendmsg(ours.fileno(), header, ctypes.c_int32(flags)))
    if result < 0:
        raise _last_error()
    return result


@contextmanager
def _socket_at(pidfd: int, number: int) -> Iterator[socket.socket]:
    descriptor = descriptor_of(pidfd, number)
    try:
        ours = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise
    with ours:
        yield ours


def _address(call: FileCall) -> bytes:
    return _bytes(call, call.words[1], call.words[2])


def _family(given: bytes) -> int:
    """The family of the bytes of an address, -1 for too few."""
    return int(struct.unpack_from("=H", given)[0]) if len(given) > 1 else -1


def _parsed(given: bytes) -> _Address | None:
    """An address of the internet; None for another."""
    family = _family(given)
    if family == socket.AF_INET and len(given) >= _INET_BYTES:
        return _Address(IPv4Address(given[4:8]), int.from_bytes(given[2:4], "big"))
    if family == socket.AF_INET6 and len(given) >= _INET6_BYTES:
        return _Address(IPv6Address(given[8:24]), int.from_bytes(given[2:4], "big"))
    return None


def _own_address(ours: socket.socket) -> bytes:
    """The bytes of the address that a socket is bound to."""
    buffer, size = ctypes.create_string_buffer(_MAX_ADDRESS), ctypes.c_uint32(_MAX_ADDRESS)
    if _libc().getsockname(ours.fileno(), buffer, ctypes.byref(size)) < 0:
        raise _last_error()
    return buffer.raw[: size.value]


def _give(name: str, ours: socket.socket, given: bytes) -> int:
    """connect() or bind() to the very bytes that were looked at."""
    call = _libc().connect if name == "connect" else _libc().bind
    if call(ours.fileno(), given, len(given)) < 0:
        raise _last_error()
    return 0


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sendmsg.restype = ctypes.c_ssize_t
    return libc
