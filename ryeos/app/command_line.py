"""Command lines: the table of a program's commands, what each takes, and the reading of plain ones.

A command stands in the table of its program with its words, a line for help and the address of its
`CommandSpec`, which has the rest. Command lines are read, and help, completion and the pages of
``docs/reference/`` are written from the two.

Loading argparse and building its parser takes a fifth of a short run. A command declares its
arguments once, to whatever has an ``add_argument``; `PlainArguments` collects them and reads the
plain command lines. Anything else (help, a mistake, ``--flag=value``, joined short flags) is left
to `ryeos.app.argument_parser`, whose result for plain lines is the same: a property test compares
the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace

from lillux.values import dataclass, field

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:
    from typing import Any, Protocol

    from lillux.errors import LilluxError

    Row = tuple[str, str, str]
else:
    Protocol = object

HELP_FLAGS, VERSION_FLAGS = ("-h", "--help"), ("-V", "--version")


class CommandEntry:
    """One row: the words a user types, its address, a line for help and the heading above it."""

    __slots__ = ("_package", "address", "group", "summary", "words")

    def __init__(self, row: Row, group: str, package: str) -> None:
        self.words, self.address, self.summary = row
        self.group = group
        self._package = package

    def spec(self) -> CommandSpec:
        """What the command takes and does. The only place that imports modules of commands."""
        from importlib import import_module

        module, _, name = self.address.rpartition(".")
        found: CommandSpec = getattr(import_module(f"{self._package}.{module}"), name)
        return found


class Table:
    """The commands of a program, in the order of its help: rows below headings."""

    __slots__ = ("_aliases", "_package", "_parts")

    def __init__(
        self,
        package: str,
        parts: tuple[tuple[str, tuple[Row, ...]], ...],
        aliases: dict[str, str] | None = None,
    ) -> None:
        self._package = package
        self._parts = parts
        self._aliases = aliases or {}

    def __iter__(self) -> Iterator[CommandEntry]:
        for group, rows in self._parts:
            for row in rows:
                yield CommandEntry(row, group, self._package)

    def __contains__(self, words: object) -> bool:
        return any(entry.words == words for entry in self)

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._parts)

    def find(self, words: list[str]) -> CommandEntry | None:
        """The command that the words begin with, the longest first."""
        if not words:
            return None
        first = self._aliases.get(words[0], words[0])
        wanted = (first, f"{first} {words[1]}" if words[1:] else "")
        found = [
            CommandEntry(row, group, self._package)
            for group, rows in self._parts
            for row in rows
            if row[0] in wanted
        ]
        return max(found, key=lambda entry: len(entry.words), default=None)

    def actions(self, word: str) -> tuple[str, ...]:
        """The second words of a group of commands, like ``keys``."""
        return tuple(entry.words.split()[1] for entry in self.group(word))

    def group(self, word: str) -> list[CommandEntry]:
        """The commands of two words that begin with this one."""
        start = f"{word} "
        return [
            CommandEntry(row, group, self._package)
            for group, rows in self._parts
            for row in rows
            if row[0].startswith(start)
        ]

    def first_words(self) -> tuple[str, ...]:
        """Every word that a command begins with, but for aliases."""
        return tuple(dict.fromkeys(row[0].split()[0] for _, rows in self._parts for row in rows))

    def aliases_of(self, word: str) -> tuple[str, ...]:
        """Other words for a command."""
        return tuple(alias for alias, command in self._aliases.items() if command == word)


class Arguments(Protocol):
    """Where a command declares what it takes: this module's collection, or an argparse parser."""

    def add_argument(self, *names: str, **rules: Any) -> object:  # noqa: ANN401 - argparse's rules
        """Declare a word or a flag, in the way of `argparse`.

        A rule more is ours: ``offers``, the names that completion puts there, one of the sorts of
        `ryeos.cli.completion_candidates`; with ``|paths`` behind it files too.
        """


def no_arguments(_: Arguments) -> None:
    """Declare nothing: the command takes what every command takes."""


class Action:
    """An action of a command, like ``set`` of ``remote secrets``.

    ``run`` carries it out; it gets the words behind it one by one, as many as ``words`` has names.
    Where the last name ends with ``...`` that one may be missing, or stand there several times.
    ``about_more`` is a hint for a line with too many.
    """

    __slots__ = ("about_more", "run", "words")

    def __init__(self, run: Callable[..., Any], *words: str, about_more: str = "") -> None:
        self.run = run
        self.words = words
        self.about_more = about_more

    def require(self, command: str, typed: Sequence[str]) -> None:
        """Raise UsageError where the words are not as many as there are names."""
        takes_more = bool(self.words) and self.words[-1].endswith("...")
        least = len(self.words) - takes_more
        if len(typed) == least or (takes_more and len(typed) > least):
            return
        from ryeos.items.errors import UsageError

        names = f"one {self.words[0]}" if len(self.words) == 1 else " ".join(self.words)
        raise UsageError(
            f"{command}: expected {names or 'nothing behind it'}, found {len(typed)}",
            hint=self.about_more if len(typed) > least else "",
        )


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command: what it takes, what it does, and examples for its help.

    One with actions has a mapping of them for ``run``; ``configure`` then declares the rest of its
    line, and what stands behind the action as ``words``.
    """

    configure: Callable[[Arguments], None]
    run: Callable[..., Any] | Mapping[str, Action]
    examples: Sequence[str] = ()
    takes_item_flags: bool = False
    """Whether flags behind the item that are none of ours are the item's: `with_item_flags`."""
    own_meaning: Mapping[str, str] = field(default_factory=dict)
    """Flags of every command that stand for one of this command's: `with_own_meaning`."""
    has_spinner: bool = True
    """False: it runs until the user ends it, has a screen of its own, or answers at once."""
    refused: Callable[[LilluxError], None] | None = None
    """Gets what keeps the command from its work, where standard error is not enough."""

    def declare(self, parser: Arguments) -> None:
        """Declare all that the command takes, the flags of every command aside."""
        if not callable(self.run):
            parser.add_argument(
                "action", metavar="ACTION", choices=tuple(self.run), help=", ".join(self.run)
            )
        self.configure(parser)

    def carry_out(self, arguments: Any, words: str, *given: object) -> Any:  # noqa: ANN401 - the program's
        """The answer of ``run`` for what is ``given``, or of the action typed behind ``words``."""
        if callable(self.run):
            return self.run(*given)
        action, behind = self.run[arguments.action], arguments.words
        typed = [behind] if isinstance(behind, str) else list(behind or ())
        action.require(f"{words} {arguments.action}", typed)
        return action.run(*given, *typed)


WORD, FLAG, VALUE, DASHES = "word", "flag", "value", "--"
"""What an argument of a command line is: `walk`."""


def walk(
    arguments: Sequence[str], takes_value: Mapping[str, bool]
) -> Iterator[tuple[int, str, str]]:
    """Yield the place of each argument, what it is, and the argument.

    ``takes_value`` are the flags that are known, and whether a value follows each. Behind ``--``
    there are words alone.
    """
    is_value = is_behind_dashes = False
    for at, argument in enumerate(arguments):
        if is_behind_dashes:
            yield at, WORD, argument
        elif argument == "--":
            is_behind_dashes = True
            yield at, DASHES, argument
        elif is_value:
            is_value = False
            yield at, VALUE, argument
        elif argument.startswith("-") and argument != "-":
            is_value = takes_value.get(argument, False)
            yield at, FLAG, argument
        else:
            yield at, WORD, argument


_MOST_WORDS = 2
"""No command has more words."""


def leading_words(
    arguments: Sequence[str], takes_value: Mapping[str, bool]
) -> tuple[list[str], list[int], set[str]]:
    """The words that may name a command, their places, and the flags before the last of them."""
    words: list[str] = []
    places: list[int] = []
    flags: set[str] = set()
    for at, kind, argument in walk(arguments, takes_value):
        if kind is FLAG:
            flags.add(argument)
        elif kind is WORD:
            words.append(argument)
            places.append(at)
            if len(words) == _MOST_WORDS:
                break
    return words, places, flags


class PlainArguments:
    """Declared arguments, and the reading of plain command lines."""

    def __init__(self) -> None:
        self.takes_value: dict[str, bool] = {}
        """The flags, and whether a value follows each."""
        self._flags: dict[str, tuple[str, dict[str, Any]]] = {}
        self._words: list[tuple[str, dict[str, Any]]] = []
        self._defaults: dict[str, Any] = {}

    def add_argument(self, *names: str, **rules: Any) -> None:  # noqa: ANN401 - argparse's rules
        """Declare a word or a flag, in the way of `argparse`."""
        longest = next((name for name in names if name.startswith("--")), names[0])
        destination = rules.get("dest") or longest.lstrip("-").replace("-", "_")
        action = rules.get("action", "store")
        if names[0].startswith("-"):
            self._flags |= dict.fromkeys(names, (destination, rules))
            self.takes_value |= dict.fromkeys(names, action in {"store", "append"})
        else:
            self._words.append((destination, rules))
        if action == "store_true":
            default = rules.get("default", False)
        else:
            default = rules.get("default", [] if rules.get("nargs") == "*" else None)
        self._defaults[destination] = default

    def takes(self, flag: str) -> bool:
        """Whether a flag is declared already."""
        return flag in self._flags

    def parse(self, arguments: Sequence[str]) -> SimpleNamespace | None:
        """The values of a plain command line, None for any other."""
        if any(rules.get("required") for _, rules in self._flags.values()):
            return None  # argparse says what is missing
        values = dict(self._defaults)
        words: list[str] = []
        awaiting: tuple[str, dict[str, Any]] | None = None
        for _, kind, argument in walk(arguments, self.takes_value):
            if kind is WORD:
                words.append(argument)
            elif kind is FLAG and argument in self._flags:
                destination, rules = self._flags[argument]
                if self.takes_value[argument]:
                    awaiting = destination, rules
                elif not self._set_flag(destination, rules, values):
                    return None
            elif kind is VALUE and awaiting and _is_plain_value(argument, awaiting[1]):
                values[awaiting[0]] = argument
                awaiting = None
            else:
                return None
        if awaiting or not self._take_words(words, values):
            return None
        return SimpleNamespace(**values)

    def _set_flag(self, destination: str, rules: dict[str, Any], values: dict[str, Any]) -> bool:
        """Note a flag without a value; False for one that only argparse knows."""
        match rules["action"]:
            case "store_true":
                values[destination] = True
            case "count":
                values[destination] = (values[destination] or 0) + 1
            case _:
                return False
        return True

    def _take_words(self, words: list[str], values: dict[str, Any]) -> bool:
        """Give the words to those who declared them, in order; False if they do not fit."""
        for position, (destination, rules) in enumerate(self._words):
            many = rules.get("nargs")
            is_last = position == len(self._words) - 1
            if many in {"*", "+"} and is_last and all(_is_allowed(w, rules) for w in words):
                if words:
                    values[destination] = words
                return bool(words) or many == "*"
            if many not in {None, "?"} or not words:
                return many == "?" and is_last
            if not _is_allowed(words[0], rules):
                return False
            values[destination] = words.pop(0)
        return not words


def _is_plain_value(value: str, rules: dict[str, Any]) -> bool:
    """A value of a flag that takes one, is given once, and is no other flag."""
    is_one = "nargs" not in rules and rules.get("action", "store") == "store"
    return is_one and not value.startswith("-") and _is_allowed(value, rules)


def _is_allowed(word: str, rules: dict[str, Any]) -> bool:
    """A word that may stand as it is: of the choices, if there are any, and not to be converted."""
    return "type" not in rules and word in rules.get("choices", (word,))


def with_own_meaning(
    arguments: Sequence[str], takes_value: Mapping[str, bool], meaning: Mapping[str, str]
) -> list[str]:
    """The arguments with ``--version X`` as ``--release X``; alone it shows this program's."""
    found = list(arguments)
    for at, kind, argument in walk(arguments, takes_value):
        name, equals, value = argument.partition("=")
        follows = at + 1 < len(found) and not found[at + 1].startswith("-")
        if kind is FLAG and name in meaning and (equals or follows):
            found[at] = f"{meaning[name]}{equals}{value}"
    return found


ITEM_FLAG = "\x01"
"""Marks a word that was typed as a flag of the item: it is none of the command's."""
OWN_FLAG = "\x02"
"""Stands before the name of a flag of the command that was typed behind the item."""


def with_item_flags(arguments: Sequence[str], takes_value: Mapping[str, bool]) -> list[str]:
    """The arguments with ``REF --help`` as ``--inputs``, and flags of the item marked as such.

    Before the item, flags are the command's; behind it those that it has are too, and are named
    once more at the end (`OWN_FLAG`), since the item may have a parameter of that name; behind
    ``--`` every ``--name`` is the item's.
    """
    prepared: list[str] = []
    own: list[str] = []
    behind: list[str] = []
    has_ref = lacks_value = False
    for _, kind, argument in walk(arguments, takes_value):
        if kind is DASHES or behind:
            behind.append(_marked_flag(argument) if has_ref and behind else argument)
            has_ref = has_ref or kind is WORD
            continue
        name = argument.partition("=")[0]
        lacks_value = kind is FLAG and takes_value.get(argument, False)
        if kind is not FLAG:
            has_ref = has_ref or kind is WORD
            prepared.append(argument)
        elif has_ref and argument in HELP_FLAGS:
            prepared.append("--inputs")
        elif name in takes_value or not has_ref or not name.startswith("--"):
            prepared.append(argument)
            if has_ref and name.startswith("--"):
                own.append(f"{OWN_FLAG}{name}")
        else:
            prepared.append(_marked_flag(argument))
    end = len(prepared) - lacks_value  # the names are not the value of the last flag
    return [*prepared[:end], *own, *prepared[end:], *behind]


def _marked_flag(argument: str) -> str:
    is_flag = argument.startswith("--") and len(argument) > len("--")
    return f"{ITEM_FLAG}{argument.removeprefix('--')}" if is_flag else argument
