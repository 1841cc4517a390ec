"""Changes of metadata: modes, owners, times, attributes."""

import errno
import os
import struct
from typing import NamedTuple

from lillux.mediation.callers import FileCall, RefusedError, as_signed
from lillux.mediation.resolution import Spot, target_text
from lillux.mediation.system_calls import (
    AT_FDCWD,
    EMPTY_PATH,
    MAX_ATTRIBUTE,
    NO_FOLLOW,
    require_success,
    system_call,
)

PRIVATE_ATTRIBUTES = ("security.", "trusted.")


class MetadataChange(NamedTuple):
    """A change of metadata. ``path`` is None for the file of the descriptor ``at``."""

    at: int
    path: str | None
    follows: bool
    what: str
    values: tuple[int, ...] = ()
    name: str = ""
    data: bytes | None = None

    def apply(self, found: int, spot: Spot, *, is_link: bool) -> None:
        """Make the change on an open file; of a link, on its name in its folder."""
        path = f"{spot.folder}/{spot.name}" if is_link else str(found)
        path = f"/proc/self/fd/{path}"
        follows = not is_link
        match self.what:
            case "chmod":
                if is_link:
                    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
                os.chmod(path, self.values[0] & 0o7777)  # noqa: PTH101 - by its descriptor
            case "chown":
                os.chown(path, *map(as_signed, self.values), follow_symlinks=follows)
            case "utimens":
                flags = 0 if follows else NO_FOLLOW
                words = (AT_FDCWD, os.fsencode(path), self.data, flags)
                require_success(system_call("utimensat", *words))
            case "setxattr":
                flags = self.values[0]
                os.setxattr(path, self.name, self.data or b"", flags, follow_symlinks=follows)
            case _:
                os.removexattr(path, self.name, follow_symlinks=follows)


def metadata_call(call: FileCall) -> MetadataChange:
    """The change that a call asks for. Raises OSError."""
    words, name = call.words, call.name
    match name:
        case "chmod" | "fchmod" | "fchmodat" | "fchmodat2":
            return _mode_call(call)
        case "chown" | "lchown" | "fchown" | "fchownat":
            return _owner_call(call)
        case "utime" | "utimes" | "futimesat" | "utimensat":
            return _times_call(call)
        case "setxattr" | "lsetxattr" | "fsetxattr" | "removexattr" | "lremovexattr":
            return _attribute_call(call, words[1:], _target(call, words[0], name[0]))
        case "fremovexattr":
            return _attribute_call(call, words[1:], _target(call, words[0], "f"))
        case "setxattrat" | "removexattrat":
            at, address, flags = words[:3]
            target = _at_target(call, at, address, flags)
            if name == "removexattrat":
                return _attribute_call(call, words[3:], target)
            value, size, how = struct.unpack("=QII", call.memory(words[4], 16))
            return _attribute_call(call, [words[3], value, size, how], target)
        case _:  # file_setattr
            raise RefusedError("metadata", name)


_Target = tuple[int, str | None, bool]
"""A folder's descriptor, the path from there, whether a link at its end is followed."""


def _target(call: FileCall, word: int, form: str) -> _Target:
    """Of a call of a path, ``l`` for links themselves, or of a descriptor, ``f``."""
    if form == "f":
        return word, None, True
    return AT_FDCWD, call.text(word), form != "l"


def _at_target(call: FileCall, at: int, address: int, flags: int) -> _Target:
    path = call.text(address) if address else ""
    if not path and (flags & EMPTY_PATH or not address):
        return at, None, True
    return at, path, not flags & NO_FOLLOW


def _mode_call(call: FileCall) -> MetadataChange:
    words, name = call.words, call.name
    if name in {"chmod", "fchmod"}:
        target, mode = _target(call, words[0], name[0]), words[1]
    else:
        flags = words[3] if name == "fchmodat2" else 0
        target, mode = _at_target(call, words[0], words[1], flags), words[2]
    at, path, follows = target
    return MetadataChange(at=at, path=path, follows=follows, what="chmod", values=(mode,))


def _owner_call(call: FileCall) -> MetadataChange:
    words, name = call.words, call.name
    if name == "fchownat":
        target, owners = _at_target(call, words[0], words[1], words[4]), words[2:4]
    else:
        target, owners = _target(call, words[0], name[0]), words[1:3]
    at, path, follows = target
    return MetadataChange(at=at, path=path, follows=follows, what="chown", values=tuple(owners))


def _times_call(call: FileCall) -> MetadataChange:
    words, name = call.words, call.name
    if name in {"utime", "utimes"}:
        at, path, follows = _target(call, words[0], "")
        address = words[1]
    else:
        flags = words[3] if name == "utimensat" else 0
        at, path, follows = _at_target(call, words[0], words[1], flags)
        address = words[2]
    data = None
    if address and name == "utime":
        accessed, modified = struct.unpack("=qq", call.memory(address, 16))
        data = struct.pack("=qqqq", accessed, 0, modified, 0)
    elif address:
        data = call.memory(address, 32)
        if name != "utimensat":  # with microseconds
            first, micros, second, more = struct.unpack("=qqqq", data)
            if not (0 <= micros < 10**6 and 0 <= more < 10**6):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            data = struct.pack("=qqqq", first, micros * 1000, second, more * 1000)
    return MetadataChange(at=at, path=path, follows=follows, what="utimens", data=data)


def _attribute_call(call: FileCall, words: list[int], target: _Target) -> MetadataChange:
    at, path, follows = target
    name = call.text(words[0])
    if name.startswith(PRIVATE_ATTRIBUTES):
        raise RefusedError("metadata", f"{name} of {target_text(at, path)}")
    if "remove" in call.name:
        return MetadataChange(at=at, path=path, follows=follows, what="removexattr", name=name)
    size = words[2]
    if size > MAX_ATTRIBUTE:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    data = call.memory(words[1], size) if size else b""
    how = (words[3] & 0xFFFF_FFFF,)
    return MetadataChange(
        at=at, path=path, follows=follows, what="setxattr", values=how, name=name, data=data
    )
