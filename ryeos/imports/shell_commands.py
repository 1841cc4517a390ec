"""The commands of a shell's text, each with the folder that it starts in. Pure; nothing is run.

It reads what a task says, to find what that starts. What only a shell could know (the value of a
variable, the output of a program) is the letter `UNKNOWN` in a word.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from lillux.values import dataclass, field

UNKNOWN = "\0"
"""The marks of what a shell, or a runner, puts into a word when it runs."""
OWN = "\udcff"
"""The folder that a text starts in, by its whole path: a letter that no text in UTF-8 has."""
_MAX_DEPTH, _MAX_COMMANDS, _MAX_CHOICES, _MAX_VALUE = 6, 2000, 200, 1000
_MAX_TEXT = 64 * 1024
_ABOVE = "/a/b/c/d/e/f/g/h"  # folders above the project, so that a path may lead there
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_USED = re.compile(r"\0([A-Za-z_]\w*)\0")
_LEADING = frozenset(("if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"))
_OPENS, _CLOSES = frozenset({"if", "do", "case"}), frozenset({"fi", "done", "esac"})
_SURE = frozenset({"cd", "pushd", "mkdir", "set", "export"})
_ENDS = frozenset({";", "\n", "&", ";;"})
# Commands that start nothing by their words.
_INERT_WORDS = """
echo printf : true false test [ [[ mkdir rm cp mv touch cat grep sed awk git tput exit"""
_INERT = frozenset(_INERT_WORDS.split())


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its words. ``folder`` is relative, None where only the shell knows it.

    ``given`` are the names of variables that are set for it. One that ``is_cut`` stands for more
    than are read.
    """

    words: tuple[str, ...]
    folder: str | None
    given: frozenset[str] = frozenset()
    is_cut: bool = False


def commands_of(text: str, folder: str | None = "") -> list[Command]:
    """The commands of a text, those in its quotes and brackets among them, bounded."""
    found: list[Command] = []
    _Reader(found, {}, frozenset()).read(text, folder, 0)
    return found


def joined_folder(folder: str | None, further: str) -> str | None:
    """A folder below another; None for one that is not known, or is not relative."""
    if folder is None or UNKNOWN in further or further[:1] in {"/", "~"} or further == "-":
        return None
    plain = posixpath.normpath(posixpath.join(folder, further))
    return "" if plain == "." else plain


@dataclass(slots=True)
class _Word:
    """A word while it is read. ``inner`` are texts in it that a shell runs by themselves."""

    text: str = ""
    quoted: bool = False
    inner: list[str] = field(default_factory=list)


_OPERATORS = re.compile(r"\d?[<>][<>&|]*-?|;;|&&|\|\|?|[;&()\n]")


def _tokens(text: str) -> Iterator[_Word | str]:
    """The words of a text, and its operators as they are written."""
    at, size = 0, len(text)
    while at < size:
        letter = text[at]
        if letter in " \t\r":
            at += 1
        elif letter == "#":
            end = text.find("\n", at)
            at = end if end >= 0 else size
        elif found := _OPERATORS.match(text, at):
            yield found[0]
            at = found.end()
        elif text.startswith("\\\n", at):
            at += 2
        else:
            word = _Word()
            at = _read_word(text, at, word)
            yield word


def _read_word(text: str, at: int, word: _Word) -> int:
    """Fill a word from a place on; the place behind it."""
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        at = _read_piece(text, at, word)
    return at


def _read_piece(text: str, at: int, word: _Word) -> int:
    letter = text[at]
    if letter == "'":
        end = _end(text, "'", at + 1)
        word.text += text[at + 1 : end]
        word.quoted = True
        return end + 1
    if letter == '"':
        return _read_quoted(text, at + 1, word)
    if letter == "\\":
        word.text += "" if text[at + 1 : at + 2] == "\n" else text[at + 1 : at + 2]
        return at + 2
    if letter in "$`":
        return _read_value(text, at, word)
    word.text += letter
    return at + 1


def _read_quoted(text: str, at: int, word: _Word) -> int:
    word.quoted = True
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            follows = text[at + 1 : at + 2]
            word.text += follows if follows in '"\\$`' else f"\\{follows}"
            at += 2
        elif text[at] in "$`":
            at = _read_value(text, at, word)
        else:
            word.text += text[at]
            at += 1
    return at + 1


def _read_value(text: str, at: int, word: _Word) -> int:
    """Take ``$NAME``, ``${...}``, ``$(...)`` or a text in backticks."""
    if text[at] == "`":
        end = _end(text, "`", at + 1)
        word.inner.append(text[at + 1 : end])
        word.text += UNKNOWN
        return end + 1
    if text.startswith("$(", at):
        end = _closing(text, at + 2, "()")
        word.inner.append(text[at + 2 : end])
        word.text += UNKNOWN
        return end + 1
    if text.startswith("${", at):
        end = _closing(text, at + 2, "{}")
        inside = text[at + 2 : end]
        word.text += f"\0{inside}\0" if _NAME.fullmatch(inside) else UNKNOWN
        return end + 1
    if found := _NAME.match(text, at + 1):
        word.text += f"\0{found[0]}\0"
        return found.end()
    is_special = text[at + 1 : at + 2] and text[at + 1] in "@*#?$!-0123456789"
    word.text += UNKNOWN if is_special else "$"
    return at + (2 if is_special else 1)


def _end(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return found if found >= 0 else len(text)


def _closing(text: str, at: int, pair: str) -> int:
    depth = 1
    for place in range(at, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if depth == 0:
            return place
    return len(text)


class _Reader:
    """Commands in the order of the text, with the folder and the variables at each of them."""

    def __init__(
        self, found: list[Command], values: Mapping[str, tuple[str, ...]], given: frozenset[str]
    ) -> None:
        self._found = found
        self._values = dict(values)
        self._exported = given
        self._folder: str | None = ""
        self._brackets: list[tuple[str | None, bool]] = []
        self._pushed: list[str | None] = []
        self._blocks: list[str | None] = []
        self._words: list[_Word] = []
        self._start: str | None = None
        self._may_not_run = False  # what stands behind && or || of a command that may fail
        self._in_doubt = False
        self._depth = 0

    def read(self, text: str, folder: str | None, depth: int) -> None:
        """Take all commands of a text."""
        if depth > _MAX_DEPTH or len(self._found) > _MAX_COMMANDS or len(text) > _MAX_TEXT:
            self._found.append(Command((), None, is_cut=True))
            return
        self._folder, self._depth, skips = folder, depth, False
        self._start = folder if depth == 0 else self._start
        for token in _tokens(text):
            if isinstance(token, _Word):
                if not skips:
                    self._words.append(token)
                self._nested(token.inner)
                skips = False
            elif "<" in token or ">" in token:
                skips = not token.endswith("&-")  # the file of a redirection is no word
            else:
                self._operator(token)
                skips = False
        self._operator("\n")

    def _nested(self, texts: Sequence[str]) -> None:
        for text in texts:
            reader = _Reader(self._found, self._values, self._exported)
            reader._start = self._start
            reader.read(text, self._folder, self._depth + 1)

    def _operator(self, operator: str) -> None:
        words, self._words = self._words, []
        words = self._without_keywords(words)
        if words:
            self._command(words, operator)
        if operator == "(":
            self._brackets.append((self._folder, self._may_not_run))
            self._may_not_run = False
        elif operator == ")" and self._brackets:
            self._folder, self._may_not_run = self._brackets.pop()
            self._in_doubt = False
        elif operator in {"&&", "||"}:
            is_sure = not words or words[0].text in _SURE
            self._may_not_run = self._may_not_run or not is_sure
        elif operator in _ENDS:
            if self._in_doubt:
                self._folder = None
            self._may_not_run = self._in_doubt = False

    def _without_keywords(self, words: list[_Word]) -> list[_Word]:
        while words and not words[0].quoted:
            first = words[0].text
            if first == "for":
                if len(words) > 1:
                    self._values[words[1].text] = self._choices(words[3:])
                return []
            if not self._block(first):
                return []
            if first not in _LEADING:
                break
            words = words[1:]
        return words

    def _block(self, word: str) -> bool:
        """Keep the folder over ``if``, ``case`` and loops; False for a word that ends one.

        It is not known behind one in which it changed.
        """
        if word in _OPENS:
            self._blocks.append(self._normal())
        elif word in {"else", "elif"} and self._blocks:
            before = self._blocks[-1]
            if before != self._normal():
                self._folder, self._blocks[-1] = before, None
        elif word in _CLOSES:
            before = self._blocks.pop() if self._blocks else None
            self._folder = before if before == self._normal() else None
            return False
        return True

    def _normal(self) -> str | None:
        return joined_folder("", self._folder or ".") if self._folder is not None else None

    def _choices(self, words: Sequence[_Word]) -> tuple[str, ...]:
        """The values of a loop's variable."""
        table = self._single_values()
        filled = (_filled(one.text, table).split() for one in words[:_MAX_CHOICES])
        return tuple(one for texts in filled for one in texts) or (UNKNOWN,)

    def _command(self, words: list[_Word], operator: str) -> None:
        given = set[str]()
        while words and (found := _ASSIGNED.fullmatch(words[0].text)):
            given.add(found[1])
            if len(words) == 1:
                self._assign(found[1], found[2])
            words = words[1:]
        if not words:
            return
        texts = [one.text for one in words]
        name = texts[0]
        if name in {"export", "declare", "local", "readonly"}:
            for word in texts[1:]:
                variable, is_set, value = word.partition("=")
                self._exported |= {variable}
                if is_set:
                    self._assign(variable, value)
        elif name in {"cd", "pushd", "popd"}:
            self._change_folder(name, texts[1:])
        else:
            self._add(texts, frozenset(given) | self._exported)
            if name not in _INERT or operator == "|":
                self._nested([one.text for one in words[1:] if one.quoted and " " in one.text])

    def _assign(self, name: str, value: str) -> None:
        is_sure = len(value) <= _MAX_VALUE and not (name in self._values and self._may_not_run)
        plain = _filled(value, self._single_values()) if is_sure else UNKNOWN
        self._values[name] = (UNKNOWN if f"\0{name}\0" in plain else plain[:_MAX_VALUE],)

    def _single_values(self) -> dict[str, str]:
        return {name: values[0] for name, values in self._values.items() if len(values) == 1}

    def _change_folder(self, name: str, words: Sequence[str]) -> None:
        self._in_doubt = self._in_doubt or self._may_not_run
        if name == "popd":
            self._folder = self._pushed.pop() if self._pushed else None
            return
        if name == "pushd":
            self._pushed.append(self._folder)
        places = [one for one in words if one == "-" or not one.startswith("-")]
        place = places[0] if places else "~"
        if place.startswith(OWN) and self._start is not None:
            self._folder = f"{self._start or '.'}{place[1:]}"
        elif self._folder is None or place[:1] in {"/", "~", OWN} or place == "-":
            self._folder = None
        else:
            self._folder = posixpath.join(self._folder, place)

    def _add(self, texts: Sequence[str], given: frozenset[str]) -> None:
        """Add a command, once for each value of the variables in it that are known."""
        whole = [self._folder or ".", *texts]
        names = dict.fromkeys(name for one in whole for name in _USED.findall(one))
        known = [name for name in names if name in self._values]
        for number, values in enumerate(product(*(self._values[name] for name in known))):
            if number >= _MAX_CHOICES or len(self._found) > _MAX_COMMANDS:
                self._found.append(Command((), None, is_cut=True))
                return
            table = self._single_values() | dict(zip(known, values, strict=True))
            words = []
            for text in texts:
                words += _filled(text, table).split() if "\0" in text else [text]
            folder = None
            if self._folder is not None:
                folder = joined_folder("", _filled(whole[0], table))
            words = [self._from_here(word, folder) if OWN in word else word for word in words]
            self._found.append(Command(tuple(words), folder, given))

    def _from_here(self, word: str, folder: str | None) -> str:
        """A path below the folder where the text starts, from the folder of a command."""
        before, _, behind = word.partition(OWN)
        if (
            folder is None
            or self._start is None
            or OWN in behind
            or not (before or "=").endswith("=")
        ):
            return word.replace(OWN, UNKNOWN)
        path = posixpath.relpath(f"{_ABOVE}/{self._start}{behind}", f"{_ABOVE}/{folder}")
        return f"{before}{path}"


def _filled(text: str, table: Mapping[str, str]) -> str:
    """A text with the values of variables that are known; `UNKNOWN` where it would grow long."""
    for _ in range(_MAX_DEPTH):
        if "\0" not in text:
            break
        if text.count("\0") > _MAX_VALUE or len(text) > _MAX_VALUE * _MAX_DEPTH:
            return UNKNOWN
        text = _USED.sub(lambda found: table.get(found[1], found[0]), text)
    return text
