"""The value of a text of a Makefile, as make computes it. Pure: no program runs, no file is read.

What make alone can know (the output of a program, a variable that a branch or a caller sets) is the
letter `UNKNOWN` in the value. Files of ``$(wildcard)`` stay the pattern that they are found by.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ryeos.imports.shell_commands import OWN, UNKNOWN

_MAX_DEPTH, _MAX_SIZE, _MAX_STEPS = 30, 64 * 1024, 20_000
_CALL = re.compile(r"([a-z-]+)[\s]+(.*)", re.DOTALL)
_UNKNOWNS = re.compile(f"{UNKNOWN}+")
_BY_MAKE = MappingProxyType({"MAKE": "make", "MAKEFLAGS": "", "MFLAGS": "", "CURDIR": OWN})


class MakeValues:
    """Values of variables, and the names that were asked for."""

    def __init__(self, sure: Mapping[str, str]) -> None:
        self._sure = sure
        self._steps = 0
        self._open: set[str] = set()
        self.asked: set[str] = set()

    def expand(self, text: str, by: Mapping[str, str] | None = None, depth: int = 0) -> str:
        """The text with its variables and functions; ``by`` are automatic variables."""
        pieces, at, table = list[str](), 0, by or {}
        self._steps = self._steps + 1 if depth else 0
        if depth > _MAX_DEPTH or len(text) > _MAX_SIZE or self._steps > _MAX_STEPS:
            return UNKNOWN
        size = 0
        while (found := text.find("$", at)) >= 0:
            pieces.append(text[at:found])
            value, at = self._reference(text, found + 1, table, depth)
            pieces.append(value)
            size += len(value)
            if size > _MAX_SIZE:
                return UNKNOWN
        whole = _UNKNOWNS.sub(UNKNOWN, "".join([*pieces, text[at:]]))
        return whole if len(whole) <= _MAX_SIZE else UNKNOWN

    def _reference(self, text: str, at: int, by: Mapping[str, str], depth: int) -> tuple[str, int]:
        letter = text[at : at + 1]
        if letter == "$":
            return "$", at + 1
        if letter not in {"(", "{"} or not letter:
            return self._variable(letter, by, depth), at + 1
        end = closing(text, at + 1, letter)
        return self._inside(text[at + 1 : end], by, depth), end + 1

    def _inside(self, inside: str, by: Mapping[str, str], depth: int) -> str:
        found = _CALL.fullmatch(inside)
        if found and found[1] in _NAMES_OF_FUNCTIONS:
            return self._function(found[1], found[2], by, depth)
        name, colon, change = parted(inside, ":")
        if colon and "=" in change:
            before, _, after = change.partition("=")
            if "%" not in before:
                before, after = f"%{before}", f"%{after}"
            values = [self.expand(one, by, depth + 1) for one in (before, after)]
            return _patsubst([*values, self._inside(name, by, depth + 1)])
        return self._variable(self.expand(inside, by, depth + 1), by, depth)

    def _variable(self, name: str, by: Mapping[str, str], depth: int) -> str:
        if name in by:
            return by[name]
        self.asked.add(name)
        if name in self._open:
            return UNKNOWN
        if name in self._sure:
            self._open.add(name)
            value = self.expand(self._sure[name], by, depth + 1)
            self._open.discard(name)
            return value
        return _BY_MAKE.get(name, UNKNOWN)

    def _function(self, name: str, text: str, by: Mapping[str, str], depth: int) -> str:
        if name in _NOT_KNOWN or name in _SAYS:
            return "" if name in _SAYS else UNKNOWN
        if name in {"foreach", "call"}:
            given = arguments_of(text, 3 if name == "foreach" else 0)
            return (self._foreach if name == "foreach" else self._call)(given, by, depth)
        given = [self.expand(one, by, depth + 1) for one in arguments_of(text, _ARGUMENTS[name])]
        if name in {"if", "or", "and"}:
            return _choice(name, given)
        is_open = name not in _KEEP_UNKNOWN and any(UNKNOWN in one or "*" in one for one in given)
        if is_open or len(given) < _ARGUMENTS[name]:
            return UNKNOWN
        return _FUNCTIONS[name](given)

    def _foreach(self, given: Sequence[str], by: Mapping[str, str], depth: int) -> str:
        if len(given) < 3:  # noqa: PLR2004 - a name, words and a text
            return UNKNOWN
        name = self.expand(given[0], by, depth + 1).strip()
        words = self.expand(given[1], by, depth + 1).split()
        values, size = list[str](), 0
        for word in words:
            values.append(self.expand(given[2], {**by, name: word}, depth + 1))
            size += len(values[-1]) + 1
            if size > _MAX_SIZE:
                return UNKNOWN
        return " ".join(values)

    def _call(self, given: Sequence[str], by: Mapping[str, str], depth: int) -> str:
        values = [self.expand(one, by, depth + 1) for one in given]
        name = values[0].strip()
        self.asked.add(name)
        if name not in self._sure:
            return UNKNOWN
        numbered = {str(number): value for number, value in enumerate(values)}
        return self.expand(self._sure[name], {**by, **numbered}, depth + 1)


def closing(text: str, at: int, letter: str) -> int:
    """The place of the bracket that closes the one before a place; the end where none does."""
    pattern, depth = {"(": r"[()]", "{": r"[{}]"}[letter], 1
    for found in re.compile(pattern).finditer(text, at):
        depth += 1 if found[0] == letter else -1
        if not depth:
            return found.start()
    return len(text)


def shell_texts(text: str) -> list[str]:
    """The texts that ``$(shell ...)`` runs in a text."""
    found = list[str]()
    for start in re.finditer(r"\$([({])shell\s", text):
        end = closing(text, start.end(), start[1])
        found.append(text[start.end() : end])
    return found


def parted(text: str, marks: str) -> tuple[str, str, str]:
    """A text before and behind the first of some letters that stands outside of brackets."""
    depth = 0
    for found in re.finditer(rf"[(){{}}{re.escape(marks)}]", text):
        letter, at = found[0], found.start()
        if letter in "({":
            depth += 1
        elif letter in ")}":
            depth -= 1
        elif depth <= 0 and text[max(at - 1, 0) : at] != "\\":
            return text[:at], letter, text[at + 1 :]
    return text, "", ""


def arguments_of(text: str, most: int = 0) -> list[str]:
    """The arguments of a function; the last of ``most`` keeps its commas."""
    found, rest = list[str](), text
    while not most or len(found) < most - 1:
        one, comma, rest = parted(rest, ",")
        found.append(one)
        if not comma:
            return found
    return [*found, rest]


def _change(pattern: str, into: str, word: str) -> str:
    start, mark, end = pattern.partition("%")
    if not mark:
        return into if word == pattern else word
    fits = word.startswith(start) and word.endswith(end) and len(word) >= len(start) + len(end)
    return into.replace("%", word[len(start) : len(word) - len(end)], 1) if fits else word


def _patsubst(given: Sequence[str]) -> str:
    pattern, into, words = given[0].strip(), given[1].strip(), given[2].split()
    return " ".join(_change(pattern, into, one) for one in words)


def _fits(pattern: str, word: str) -> bool:
    start, mark, end = pattern.partition("%")
    if not mark:
        return word == pattern
    return word.startswith(start) and word.endswith(end) and len(word) >= len(start) + len(end)


def _filter(given: Sequence[str]) -> str:
    patterns = given[0].split()
    return " ".join(one for one in given[1].split() if any(_fits(each, one) for each in patterns))


def _filter_out(given: Sequence[str]) -> str:
    patterns = given[0].split()
    kept = (one for one in given[1].split() if not any(_fits(each, one) for each in patterns))
    return " ".join(kept)


def _choice(name: str, given: Sequence[str]) -> str:
    """``if``, ``or`` and ``and``, where each condition is known."""
    conditions = given[:1] if name == "if" else given
    if any(UNKNOWN in one or "*" in one for one in conditions):
        return UNKNOWN
    if name == "if":
        return given[1] if given[0].strip() and len(given) > 1 else "".join(given[2:3])
    if name == "or":
        return next((one for one in given if one.strip()), "")
    return given[-1] if all(one.strip() for one in given) else ""


def _words(change: Callable[[str], str]) -> Callable[[Sequence[str]], str]:
    return lambda given: " ".join(change(one) for one in given[0].split())


def _folder(word: str) -> str:
    return f"{word.rpartition('/')[0]}/" if "/" in word else "./"


def _at(given: Sequence[str]) -> str:
    words = given[1].split()
    number = int(given[0]) if given[0].strip().isdigit() else 0
    return words[number - 1] if 0 < number <= len(words) else ""


_FUNCTIONS: Mapping[str, Callable[[Sequence[str]], str]] = MappingProxyType(
    {
        "addprefix": lambda given: " ".join(f"{given[0]}{one}" for one in given[1].split()),
        "addsuffix": lambda given: " ".join(f"{one}{given[0]}" for one in given[1].split()),
        "patsubst": _patsubst,
        "subst": lambda given: given[2].replace(given[0], given[1]) if given[0] else given[2],
        "filter": _filter,
        "filter-out": _filter_out,
        "sort": lambda given: " ".join(sorted(set(given[0].split()))),
        "strip": lambda given: " ".join(given[0].split()),
        "wildcard": lambda given: " ".join(given[0].split()),
        "firstword": lambda given: "".join(given[0].split()[:1]),
        "lastword": lambda given: "".join(given[0].split()[-1:]),
        "word": _at,
        "words": lambda given: str(len(given[0].split())),
        "notdir": _words(lambda word: word.rpartition("/")[2]),
        "dir": _words(_folder),
        "basename": _words(lambda word: posixpath.splitext(word)[0]),
        "suffix": _words(lambda word: posixpath.splitext(word)[1]),
        "findstring": lambda given: given[0] if given[0] in given[1] else "",
    }
)
_ARGUMENTS = MappingProxyType(
    {
        **dict.fromkeys(_FUNCTIONS, 1),
        **dict.fromkeys(
            ("addprefix", "addsuffix", "filter", "filter-out", "word", "findstring"), 2
        ),
        "patsubst": 3,
        "subst": 3,
        "if": 3,
        "or": 0,
        "and": 0,
    }
)
# What these give of a pattern of files is a pattern of what they give of the files.
_KEEP_UNKNOWN_WORDS = """
addprefix addsuffix patsubst sort strip wildcard notdir dir"""
_KEEP_UNKNOWN = frozenset(_KEEP_UNKNOWN_WORDS.split())
_NOT_KNOWN_WORDS = """
abspath realpath shell eval file guile origin flavor join let intcmp wordlist value"""
_NOT_KNOWN = frozenset(_NOT_KNOWN_WORDS.split())
_SAYS = frozenset({"info", "warning", "error"})
_NAMES_OF_FUNCTIONS = frozenset(_ARGUMENTS) | _NOT_KNOWN | _SAYS | {"foreach", "call"}
