"""Rights of an item: the ``sandbox:`` block of its header, and how blocks narrow each other.

Pure. A block is part of what is signed::

    sandbox:
      read: ["{project}"]           # or any; beside the system, the interpreter, the tool's files
      write: ["{project}/out", "{tmp}"]
      network: none                 # none, loopback, any, or a list: ["api.github.com:443"]
      programs: none                # none, any, or programs: [git, /usr/lib/git-core]
      env: [GITHUB_TOKEN]           # or any; beside the basic set

What a tool's block does not name is not given. Any other block (of a runtime, of the user's policy,
of a caller) only narrows, and what it does not name it leaves alone. Page: ``docs/rights.md``.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lillux.patterns import pattern
from lillux.values import dataclass, replace
from ryeos.items.errors import SpecError

ANY, NONE, LOOPBACK = "any", "none", "loopback"
KEYS = ("read", "write", "network", "programs", "env")
PATH_NAMES = ("project", "tmp", "home", "cache", "user_space", "tool_dir", "anchor")
"""Variables that a path may begin with. ``{config.KEY}`` is a list from the item's config."""

TMP_MARK = "/{tmp}"
"""Stands for the private temporary folder of a run until that is made: see `lillux.run_folders`."""

MAX_ENTRIES = 64
_MAX_PORT = 65535
_TEMPLATE = pattern(r"\{(?P<name>[a-z_]+|config\.[a-z_]+)\}(?P<rest>(?:/.*)?)", re.DOTALL)
_PROGRAM = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]*\*?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = pattern(rf"(?:{_LABEL}\.)*{_LABEL}")
_NUMERIC = pattern(r"(?:0x[0-9a-f]*|[0-9]+)")

Entries = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Rights to run with; None means anything, an empty list nothing.

    read, write  paths, as written or filled; folders with all below them
    network      ``HOST:PORT`` and ``*.HOST:PORT``, or the one word ``loopback``
    programs     names and absolute paths
    env          names of variables; one that ends with ``*`` is the beginning of names
    """

    read: Entries | None = None
    write: Entries | None = None
    network: Entries | None = None
    programs: Entries | None = None
    env: Entries | None = None

    def describe(self) -> dict[str, Any]:
        """The rights as a header block."""
        return {key: _entries_as_block(key, getattr(self, key)) for key in KEYS}

    def allows_variable(self, name: str) -> bool:
        """True if the rights name a variable of the environment."""
        if self.env is None:
            return True
        return any(fits_variable(pattern, name) for pattern in self.env)

    def narrowed(self, other: "Rights") -> "Rights":
        """The rights that both allow. The paths of both must be filled."""
        return Rights(
            read=_both(self.read, other.read, is_below),
            write=_both(self.write, other.write, is_below),
            network=_both_networks(self.network, other.network),
            programs=_both(self.programs, other.programs, _is_program_of),
            env=_both(self.env, other.env, _is_variable_of),
        )

    def excess_over(self, other: "Rights") -> Iterator[str]:
        """The keys in which these rights exceed others."""
        narrowed = self.narrowed(other)
        for key in KEYS:
            mine, left = getattr(self, key), getattr(narrowed, key)
            if (mine is None) != (left is None) or set(mine or ()) - set(left or ()):
                yield key

    def filled(self, fill: Callable[[str, str], Sequence[str]]) -> "Rights":
        """The same with every path filled; ``fill(where, entry)`` may give several, or none."""
        return replace(
            self,
            env=_fill_entries("sandbox.env", self.env, fill),
            read=_fill_entries("sandbox.read", self.read, fill),
            write=_fill_entries("sandbox.write", self.write, fill),
            programs=None
            if self.programs is None
            else tuple(
                path
                for entry in self.programs
                for path in (fill("sandbox.programs", entry) if _is_path(entry) else (entry,))
            ),
        )


NOTHING = Rights(read=(), write=(), network=(), programs=(), env=())
ANYTHING = Rights()


def read_rights(value: object, where: str = "sandbox", *, absent: Rights = NOTHING) -> Rights:
    """Parse a block; rights that it does not name come from ``absent``. Raises SpecError."""
    if not isinstance(value, Mapping):
        raise SpecError(where, f"expected a mapping with {', '.join(KEYS)}, got {value!r:.60}")
    for key in value:
        if key not in KEYS:
            from difflib import get_close_matches

            close = get_close_matches(str(key), KEYS, 1, 0.5)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise SpecError(f"{where}.{key!s:.60}", f"no key of it{meant}")
    given = {key: _entries(f"{where}.{key}", key, value[key]) for key in value}
    return replace(absent, **given)


def _entries(where: str, key: str, value: object) -> Entries | None:
    words = {ANY: None, NONE: (), **({LOOPBACK: (LOOPBACK,)} if key == "network" else {})}
    if isinstance(value, str) and value in words:
        return words[value]
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        known = ", ".join(words)
        problem = f"expected {known} or a list of text, got {value!r:.60}"
        raise SpecError(where, problem, hint=_EXAMPLES[key])
    if len(value) > MAX_ENTRIES:
        raise SpecError(where, f"expected at most {MAX_ENTRIES} entries, got {len(value)}")
    read = _READERS[key]
    return tuple(dict.fromkeys(read(f"{where}[{at}]", one) for at, one in enumerate(value)))


_EXAMPLES: Mapping[str, str] = {
    "read": 'like read: ["{project}"], or read: any',
    "write": 'like write: ["{project}/out", "{tmp}"], or write: any',
    "network": 'like network: ["api.github.com:443"], or network: none',
    "programs": "like programs: [git], or programs: any",
    "env": "like env: [GITHUB_TOKEN], or env: any",
}


def _path(where: str, text: str) -> str:
    """A path that is absolute once it is filled, and stays below what it begins with."""
    template = _TEMPLATE.fullmatch(text)
    names = ", ".join(f"{{{name}}}" for name in PATH_NAMES)
    if (
        template
        and not template["name"].startswith("config.")
        and (template["name"] not in PATH_NAMES)
    ):
        raise SpecError(where, f"expected one of {names}, got {text!r:.80}")
    if not template and not _is_absolute(text):
        problem = f"expected an absolute path, or one that begins with one of {names}"
        raise SpecError(where, f"{problem}, got {text!r:.80}", hint=_EXAMPLES["read"])
    if ".." in re.split(r"[/\\]", text) or "\0" in text:
        raise SpecError(where, f"expected a path without '..', got {text!r:.80}")
    if any(mark in text for mark in "*?[]"):
        problem = f"expected a folder or a file, got the pattern {text!r:.80}"
        raise SpecError(where, problem, hint="a folder stands for all that is below it")
    return text.rstrip("/") or "/"


def _is_absolute(text: str) -> bool:
    return text.startswith(("/", "~/")) or text == "~" or bool(re.match(r"[A-Za-z]:[/\\]", text))


def _is_path(entry: str) -> bool:
    return "/" in entry or "\\" in entry or entry.startswith("{")


def _is_configured(text: str) -> bool:
    template = _TEMPLATE.fullmatch(text)
    return bool(template and template["name"].startswith("config.") and not template["rest"])


def _program(where: str, text: str) -> str:
    if _is_path(text):
        return _path(where, text)
    if not _PROGRAM.fullmatch(text):
        problem = f"expected the name or the path of a program, got {text!r:.60}"
        raise SpecError(where, problem, hint=_EXAMPLES["programs"])
    return text


def _variable(where: str, text: str) -> str:
    if not _VARIABLE.fullmatch(text) and not _is_configured(text):
        problem = f"expected the name of a variable, got {text!r:.60}"
        raise SpecError(where, problem, hint=_EXAMPLES["env"])
    return text


def _host(where: str, text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
        problem = f"expected HOST:PORT with a port from 1 to {_MAX_PORT}, got {text!r:.80}"
        raise SpecError(where, problem, hint=_EXAMPLES["network"])
    name = host.lower()
    if ":" in name and not name.startswith("["):
        problem = f"expected brackets around an IPv6 address, like [::1]:8080, got {text!r:.80}"
        raise SpecError(where, problem)
    if name.startswith("["):
        return f"[{_ip(where, name, text)}]:{int(port)}"
    plain = name.removeprefix("*.")
    last = plain.rpartition(".")[2]
    if _NUMERIC.fullmatch(last):
        return f"{_ip(where, name, text)}:{int(port)}"
    if not _NAME.fullmatch(plain) or (plain != name and "." not in plain):
        problem = f"expected the name of a host, or *.DOMAIN.TLD, got {text!r:.80}"
        hint = "write a name that is not ASCII in its xn-- form; for all hosts: network: any"
        raise SpecError(where, problem, hint=hint)
    return f"{name}:{int(port)}"


def _ip(where: str, name: str, text: str) -> str:
    from ipaddress import ip_address

    try:
        return str(ip_address(name.strip("[]") if name.startswith("[") else name))
    except ValueError:
        problem = f"expected an address like 10.0.0.1 or [::1], got {text!r:.80}"
        raise SpecError(where, problem) from None


_READERS: Mapping[str, Callable[[str, str], str]] = {
    "read": _path,
    "write": _path,
    "network": _host,
    "programs": _program,
    "env": _variable,
}


def _entries_as_block(key: str, entries: Entries | None) -> str | list[str]:
    if entries is None:
        return ANY
    if key == "network" and entries == (LOOPBACK,):
        return LOOPBACK
    return [_without_mark(one) for one in entries] if entries else NONE


def _without_mark(entry: str) -> str:
    """An entry below the private folder of a run as a header names it."""
    return entry[1:] if is_below(entry, TMP_MARK) else entry


def read_paths(value: object, where: str, example: str) -> Entries:
    """A list of paths, as of a block. Raises SpecError."""
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise SpecError(where, f"expected a list of paths, got {value!r:.60}", hint=example)
    if len(value) > MAX_ENTRIES:
        raise SpecError(where, f"expected at most {MAX_ENTRIES} entries, got {len(value)}")
    return tuple(dict.fromkeys(_path(f"{where}[{at}]", one) for at, one in enumerate(value)))


def _fill_entries(
    where: str, entries: Entries | None, fill: Callable[[str, str], Sequence[str]]
) -> Entries | None:
    if entries is None:
        return None
    return tuple(dict.fromkeys(path for entry in entries for path in fill(where, entry)))


def _both(
    mine: Entries | None, other: Entries | None, is_within: Callable[[str, str], bool]
) -> Entries | None:
    """The entries of each list that an entry of the other list contains."""
    if mine is None or other is None:
        return other if mine is None else mine
    kept = [one for one in mine if any(is_within(one, wide) for wide in other)]
    kept += [one for one in other if any(is_within(one, wide) for wide in mine)]
    return tuple(dict.fromkeys(kept))


def _both_networks(mine: Entries | None, other: Entries | None) -> Entries | None:
    if mine is None or other is None:
        return other if mine is None else mine
    if (LOOPBACK,) in (mine, other) and mine != other:
        from lillux.http.urls import is_loopback

        hosts = other if mine == (LOOPBACK,) else mine
        return tuple(one for one in hosts if is_loopback(one.rpartition(":")[0].strip("[]")))
    return _both(mine, other, _is_host_of)


def is_below(path: str, folder: str) -> bool:
    """True if a path is a folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_program_of(entry: str, wide: str) -> bool:
    if not _is_path(wide):
        return entry == wide
    return _is_path(entry) and is_below(entry, wide)


def fits_variable(pattern: str, name: str) -> bool:
    """True if a pattern like ``LC_*`` names a variable."""
    return name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))


def _is_variable_of(entry: str, wide: str) -> bool:
    return fits_variable(wide, entry.rstrip("*") if wide.endswith("*") else entry)


def _is_host_of(entry: str, wide: str) -> bool:
    name, _, port = entry.rpartition(":")
    wide_name, _, wide_port = wide.rpartition(":")
    if port != wide_port:
        return False
    return name == wide_name or (wide_name.startswith("*.") and name.endswith(wide_name[1:]))


def rights_as_json(rights: Rights) -> dict[str, Any]:
    """Rights as Rye keeps them for itself: null is anything."""
    return {key: getattr(rights, key) for key in KEYS}


def rights_of_json(said: Mapping[str, Any]) -> Rights:
    """The rights that `rights_as_json` gave. Raises KeyError, TypeError."""
    return Rights(**{key: None if said[key] is None else tuple(said[key]) for key in KEYS})
