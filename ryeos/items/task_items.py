"""A task of a ``Makefile``, ``justfile``, ``package.json`` or ``mise.toml``, as a tool says it.

    config:
      runs: ["echo one"]                          # what a person was shown; for readers
      command: [make, -f, Makefile, test]         # the program and its first words
      files: {Makefile: <SHA-256>}                # what the program reads, as it was then
      absent: [.env, "conf/*.mk"]                 # what it would read, and was not there
      arguments: [[mode, MODE, assign]]           # parameter, flag, form, default

`rye import` writes it (`ryeos.imports.tasks`), a call reads it (`ryeos.run.tasks`), and a review
shows its files. Page: ``docs/moving-in.md``.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lillux.contained_paths import safe_join
from lillux.files import read_bytes
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.line_ends import pinned_bytes

RUNTIME = "rye/core/runtimes/task/task"
MAX_FILE = 4 * 1024 * 1024
FORMS = ("value", "switch", "list", "spread", "assign")
"""Forms of an argument: ``--a=x``, ``--a``, ``--a=x --a=y``, ``--a x y``, ``A=x``."""
LIMITS = ("timeout", "max_output_bytes")
"""Further keys that a person may write into the config."""
_KEYS = frozenset({"runs", "command", "files", "absent", "arguments", *LIMITS})
_DIGEST = pattern(r"[0-9a-f]{64}")
_PROGRAM = pattern(r"\w[\w.+-]{0,63}")
_PLAIN = pattern(r"[\w./:@%+,= -]*")
_SIZES = (3, 4)


def files_of_pattern(folder: Path, pattern_text: str) -> list[str]:
    """The paths below a folder that a pattern of names stands for; none for a plain path."""
    above, _, name = pattern_text.rpartition("/")
    if not set("*?[") & set(name) or set("*?[") & set(above):
        return []
    place = safe_join(folder, above) if above else folder
    try:
        there = sorted(one.name for one in place.iterdir())
    except OSError:
        return []
    found = (one for one in there if fnmatchcase(one, name) and (one[:1] != "." or name[:1] == "."))
    return [f"{above}/{one}" if above else one for one in found]


@dataclass(frozen=True, slots=True)
class TaskArgument:
    """A parameter of a task. ``flag`` is ``""`` for one that is known by its place.

    ``default`` is the text that stands for it where a later place is given, None for unknown.
    """

    name: str
    flag: str = ""
    form: str = "value"
    default: str | None = None

    def as_row(self) -> list[str]:
        """The argument as the file has it."""
        row = [self.name, self.flag, self.form]
        return row if self.default is None else [*row, self.default]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """The task of a tool, as its config says it.

    runs     every line that it runs, in order, as a person was shown it
    files    path below the folder of ``.ai``, and SHA-256 with LF, of each file that is read
    absent   paths that must not be there; a pattern names those of a folder that are no files of it
    command  the program and its first words
    """

    runs: tuple[str, ...]
    command: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    absent: tuple[str, ...] = ()
    arguments: tuple[TaskArgument, ...] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "TaskItem":
        """Read ``config``. Raises SpecError with the first thing that is wrong."""
        for key in config:
            if key not in _KEYS:
                raise SpecError(f"config.{key}", f"expected one of {', '.join(sorted(_KEYS))}")
        command, files = _texts(config, "command"), config.get("files")
        if not command or not _PROGRAM.fullmatch(command[0]):
            raise SpecError("config.command", "expected a program by its name, and its words")
        if not isinstance(files, Mapping) or not files:
            raise SpecError("config.files", "expected paths with their SHA-256, one at least")
        for path, digest in files.items():
            if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
                raise SpecError(f"config.files.{path}"[:200], "expected a SHA-256 of 64 hex digits")
        rows = config.get("arguments") or []
        if not isinstance(rows, list):
            raise SpecError("config.arguments", "expected a list")
        return cls(
            runs=_texts(config, "runs"),
            command=command,
            files=tuple((str(path), digest) for path, digest in files.items()),
            absent=_texts(config, "absent"),
            arguments=tuple(_argument(row, number) for number, row in enumerate(rows)),
        )

    def as_config(self) -> dict[str, Any]:
        """``config`` as `from_config` reads it."""
        said: dict[str, Any] = {"runs": list(self.runs), "command": list(self.command)}
        said["files"] = dict(self.files)
        if self.absent:
            said["absent"] = list(self.absent)
        if self.arguments:
            said["arguments"] = [one.as_row() for one in self.arguments]
        return said

    def require_unchanged(self, base: Path) -> None:
        """Compare the files with those that were signed. Raises RyeError `EXECUTION_FAILED`."""
        for name, digest in self.files:
            try:
                data: bytes | None = read_bytes(safe_join(base, name), MAX_FILE)
            except FileNotFoundError:
                data = None
            if data is None:
                raise _stopped(
                    f"{name}: expected the file that was signed, found none", "once it is"
                )
            if pinned_bytes(data, digest) is None:
                raise _stopped(f"{name}: changed since it was signed", "if it is right")
        signed = {name for name, _ in self.files}
        for name in self.absent:
            more = [one for one in files_of_pattern(base, name) if one not in signed]
            place = safe_join(base, name)
            if more or place.exists() or place.is_symlink():
                shown = more[0] if more else name
                raise _stopped(f"{shown}: was not there when this was signed", "if it is right")

    def words(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The words behind the command for these parameters. Raises RyeError `EXECUTION_FAILED`."""
        named, placed = list[str](), list[str]()
        places = [one for one in self.arguments if not one.flag and _is_given(given, one.name)]
        last = self.arguments.index(places[-1]) if places else -1
        for number, one in enumerate(self.arguments):
            value = given.get(one.name)
            if not one.flag and number < last and not _is_given(given, one.name):
                if one.default is None:
                    behind = self.arguments[last].name
                    problem = f"{one.name}: expected a value, as {behind} stands behind it"
                    raise RyeError(problem, code="EXECUTION_FAILED")
                value = one.default
            if value is not None:
                values = [str(each) for each in (value if isinstance(value, list) else [value])]
                words = [*_words(one, value, values)]
                (named if one.flag else placed).extend(words)
        more = given.get("args") or []
        words = [*named, *placed, *map(str, more if isinstance(more, list) else [more])]
        for word in words:  # runners hand them to a shell
            if not _PLAIN.fullmatch(word):
                allowed = "letters, digits, blanks and . / : @ % + , = _ -"
                raise RyeError(f"{word[:200]!r}: expected {allowed}", code="EXECUTION_FAILED")
        return tuple(words)


def _words(one: TaskArgument, value: object, values: list[str]) -> Iterator[str]:
    if one.form == "switch":
        yield from [one.flag] if value is True else []
    elif one.form == "assign":
        yield from (f"{one.flag}={each}" for each in values)
    elif not one.flag:
        yield from values
    elif one.form == "spread":
        if any(each.startswith("-") for each in values):
            raise RyeError(
                f"{one.name}: expected words that do not begin with '-'", code="EXECUTION_FAILED"
            )
        yield from (one.flag, *values)
    elif one.flag.startswith("--"):
        yield from (f"{one.flag}={each}" for each in values)
    else:
        yield from (word for each in values for word in (one.flag, each))


def _is_given(given: Mapping[str, Any], name: str) -> bool:
    """True if a parameter has a value: no list without a word in it."""
    return given.get(name) is not None and given[name] != []


def _texts(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SpecError(f"config.{key}", "expected a list of texts")
    return tuple(value)


def _argument(row: object, number: int) -> TaskArgument:
    is_row = isinstance(row, list) and len(row) in _SIZES
    if not (isinstance(row, list) and is_row and all(isinstance(one, str) for one in row)):
        raise SpecError(f"config.arguments[{number}]", "expected [name, flag, form, default]")
    if row[2] not in FORMS:
        raise SpecError(f"config.arguments[{number}]", f"expected one of {', '.join(FORMS)}")
    return TaskArgument(*row)


def _stopped(problem: str, when: str) -> RyeError:
    hint = f"read it; {when}: rye import --force"
    return RyeError(problem, code="EXECUTION_FAILED", hint=hint)
