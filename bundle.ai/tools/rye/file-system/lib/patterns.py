"""A pattern for single lines, and the lines of a file that match it.

A file of ASCII alone is searched as bytes, any other as text, both as a whole: a line is looked at
alone only where a match leaves it. What the pattern cannot do without is looked for first.
"""

import re

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/file-system/lib"
__tool_description__ = "Finds the lines of a file that match a pattern"

MAX_LINE = 500
# What may match in a line alone and not in the whole text: then lines are looked at one by one.
LINES_ONLY = re.compile(r"\\[AZ]|\(\?(?!:|P<)|[*+?}]\+")


class Pattern:
    """A regular expression, or a text. Raises ValueError, re.error."""

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool) -> None:
        if "\n" in pattern or "\r" in pattern:
            raise ValueError("pattern: expected one for single lines, found a line end in it")
        flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
        source = re.escape(pattern) if literal else pattern
        self.text = re.compile(source, flags)
        self.bytes = bytes_pattern(source, flags)
        self.is_whole = not LINES_ONLY.search("" if literal else pattern)
        self.ignore_case = ignore_case
        needed = [pattern] if literal else required(pattern)
        if ignore_case:
            needed = [text.lower() if text.isascii() else "" for text in needed]
        needles = [text.encode("utf-8", "surrogateescape") for text in needed]
        self.needles = needles if all(needles) else []
        self.needle = needles[0]
        self.is_literal = literal and not ignore_case

    def may_match(self, data: bytes) -> bool:
        """False for a file that surely has no such line."""
        if not self.needles:
            return True
        if self.ignore_case:
            if not data.isascii():
                return True  # some letters beyond ASCII are, but for case, letters of ASCII
            data = data.lower()
        return any(needle in data for needle in self.needles)

    def has(self, data: bytes) -> int:
        """1 if a line matches, else 0."""
        return int(next(self._spans(*self._subject(data)), None) is not None)

    def count(self, data: bytes) -> int:
        """How many lines match."""
        return sum(1 for _ in self._spans(*self._subject(data)))

    def lines(self, data: bytes, context: int, limit: int, room: int) -> tuple:
        """How many lines match, and ``(number, is a match, text)`` of the first ones.

        With so many lines around each; at most ``limit`` matches in about ``room`` characters.
        """
        subject, search = self._subject(data)
        newline = newline_of(subject)
        spans, found, number, at = self._spans(subject, search), [], 1, 0
        for begin, end, start in spans:
            number += subject.count(newline, at, begin)
            at = begin
            found.append((number, shortened(subject[begin:end], start - begin)))
            room -= len(found[-1][1])
            if len(found) >= limit or room < 0:
                break
        total = len(found) + sum(1 for _ in spans)
        if not context:
            return total, [(number, True, text) for number, text in found]
        return total, surrounded(subject.split(newline), found, context)

    def _subject(self, data: bytes) -> tuple:
        """What is searched, and how: bytes where they say the same as the text."""
        if b"\r\n" in data:
            data = data.replace(b"\r\n", b"\n")
        if self.is_literal or (self.bytes and data.isascii()):
            return data, self.bytes.search if self.bytes else None
        return data.decode("utf-8", "surrogateescape"), self.text.search

    def _spans(self, subject: object, search: object) -> object:
        """``(begin, end, start of the match)`` of each line that matches."""
        newline, size, at = newline_of(subject), len(subject), 0
        if not self.is_whole:
            for line in subject.split(newline):
                found = search(line) if at < size or line else None
                if found:
                    yield at, at + len(line), at + found.start()
                at += len(line) + 1
            return
        while at < size:
            if self.is_literal:
                start = subject.find(self.needle, at)
                if start < 0:
                    return
                stop = start
            else:
                found = search(subject, at)
                if not found:
                    return
                start, stop = found.span()
            begin = max(at, subject.rfind(newline, at, start) + 1)
            if begin >= size:
                return
            end = subject.find(newline, start)
            end = size if end < 0 else end
            if stop <= end or search(subject[begin:end]):
                yield begin, end, start
            at = end + 1


def newline_of(subject: object) -> object:
    """A newline of the kind that is searched."""
    return b"\n" if isinstance(subject, bytes) else "\n"


def bytes_pattern(source: str, flags: int) -> object:
    """The expression for bytes, None where it would mean something else there."""
    try:
        return re.compile(source.encode("ascii"), flags)
    except (UnicodeEncodeError, ValueError, re.error):
        return None


def surrounded(lines: list, found: list, context: int) -> list:
    """The lines that match with those around them."""
    matches, shown = dict(found), []
    last = 0
    if lines and not lines[-1]:
        lines.pop()
    for number, _ in found:
        for near in range(max(last + 1, number - context), min(len(lines), number + context) + 1):
            text = matches.get(near)
            shown.append(
                (near, text is not None, shortened(lines[near - 1], 0) if text is None else text)
            )
            last = near
    return shown


def shortened(line: object, start: int) -> str:
    """A line as text; of a very long one what is near the match."""
    if len(line) <= MAX_LINE:
        return decoded(line)
    first = max(0, start - 100)
    kept = decoded(line[first : first + MAX_LINE])
    return ("..." if first else "") + kept + ("..." if first + MAX_LINE < len(line) else "")


def decoded(line: object) -> str:
    """As JSON can hold it."""
    data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace")


def required(pattern: str) -> list:
    """Of each branch the longest text that its matches have in them, as far as that is easily seen.

    ``""`` for a branch where it is not.
    """
    if re.search(r"\(\?[aiLmsux]|\\[xuUN0-9]", pattern):
        return [""]
    branches, runs, run, depth, at = [], [], "", 0, 0
    while at < len(pattern):
        mark = pattern[at]
        at += 1
        quantity = re.match(r"\{\d*,?\d*\}", pattern[at - 1 :]) if mark == "{" else None
        if mark == "\\" and not pattern[at].isalnum():
            run += pattern[at] if not depth else ""
            at += 1
            continue
        if mark not in "\\[(|)*?+{.^$":
            run += mark if not depth else ""
            continue
        if mark in "*?" or quantity:
            run = run[:-1]
        runs.append(run)
        run = ""
        depth += (mark == "(") - (mark == ")")
        if mark == "|" and not depth:
            branches.append(max(runs, key=len))
            runs = []
        elif mark == "\\":
            at += 1
        elif quantity:
            at += quantity.end() - 1
        elif mark == "[":
            at += re.match(r"\^?\]?(?:[^\]\\]|\\.)*\]", pattern[at:], re.DOTALL).end()
    return [*branches, max([*runs, run], key=len)]
