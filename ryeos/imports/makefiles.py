"""Targets of a ``Makefile``, with everything that make runs for one. Nothing is run.

What make would have to compute is named as it is written: variables stand below the lines that use
them, and what make runs while it reads the file stands above.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lillux.values import dataclass, field
from ryeos.imports.help_pages import Argument
from ryeos.imports.plan import MAX_ITEMS, ImportSource, source_text
from ryeos.imports.task_files import Part, Task, TaskFile, part_text, plain_line
from ryeos.imports.task_steps import Recipe, called_names, steps_of
from ryeos.imports.tool_texts import MAX_FILE

_MAX_INCLUDED, _MAX_EXPANDED, _MAX_READ = 100, 20, 64 * 1024
_VARIABLE = re.compile(
    r"\s*(?:(?:override|export|private)\s+)*([^\s:#=!?+]+)\s*(\?|\+|!|:{1,3})?=(.*)", re.DOTALL
)
_DEFINE = re.compile(r"\s*(?:(?:override|export|private)\s+)*define\s+(\S+)")
_INCLUDE = re.compile(r"\s*([-s]?)(include|load)\s+([^#]*)")
_CONDITION = re.compile(r"\s*(ifeq|ifneq|ifdef|ifndef|else|endif)\b(.*)")
_WORD = re.compile(r"[A-Za-z0-9][\w.-]*")
_DIRECTIVE = re.compile(r"\s*(?:export|unexport|override|private|undefine|vpath)\b")
_USED = re.compile(r"\$(?:[({]([^\s:,(){}$]+)|([A-Za-z]))")
_CALLED = re.compile(r"\$[({]call\s+([^\s,(){}$]+)")
_LONE = re.compile(r"\$[({]([\w.-]+)[)}]")
_RUNS_AT_ONCE = re.compile(r"\$[({](?:shell|eval|file|guile)\b")
_MAKE = re.compile(r"(?:\$[({]MAKE[)}]|(?<![\w./-])g?make)\s+")
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MISSING = "a file, or a target of a rule that make has by itself"
# Variables that make, or the environment that a tool gets, has a value for.
_GIVEN_WORDS = """
AR ARFLAGS AS ASFLAGS CC CFLAGS CPP CPPFLAGS CURDIR CXX CXXFLAGS FC FFLAGS HOME LANG LD LDFLAGS
LDLIBS LEX LFLAGS LOADLIBES LOGNAME MAKE MAKECMDGOALS MAKEFILES MAKEFILE_LIST MAKEFLAGS MAKELEVEL
MAKEOVERRIDES MAKE_COMMAND MAKE_HOST MAKE_TERMERR MAKE_TERMOUT MAKE_VERSION MFLAGS OS PATH PC PWD
RM SHELL SUFFIXES TARGET_ARCH TMPDIR USER VPATH YACC YFLAGS"""
_FUNCTION_WORDS = """
abspath addprefix addsuffix and basename call dir error eval file filter filter-out findstring
firstword flavor foreach guile if info intcmp join lastword let notdir or origin patsubst realpath
shell sort strip subst suffix value warning wildcard word wordlist words"""
_NOT_FREE = frozenset(_GIVEN_WORDS.split()) | frozenset(_FUNCTION_WORDS.split())


@dataclass(slots=True)
class _Rule:
    """What stands under the name of a target, all its rules together."""

    needs: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    about: str = ""
    is_target: bool = False


def read_makefile(source: ImportSource) -> TaskFile:
    """Targets whose names are plain words, of the file and what it includes."""
    found = _Makefile(source.path.parent)
    found.read(source.path.name, source_text(source.path, MAX_FILE))
    parts = tuple(found.parts.values())
    recipes = found.recipes()
    said = TaskFile("make", notes=found.notes)
    for name, rule in found.rules.items():
        if not _WORD.fullmatch(name) or not rule.is_target:
            continue
        if (found.phony and name not in found.phony) or name in found.makefiles:
            continue
        if len(said.tasks) >= MAX_ITEMS:
            said.left_out.append(name)
            continue
        steps = found.steps(name, recipes)
        said.tasks.append(
            Task(
                name=name,
                steps=steps,
                command=("make", "--no-print-directory", "-f", source.path.name, name),
                description=rule.about,
                arguments=tuple(found.arguments(steps)),
                parts=parts,
                problem=found.problem,
            )
        )
    return said


class _Makefile:
    """A Makefile while it is read, line by line, with what it includes in its place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.parts: dict[str, Part] = {}
        self.rules: dict[str, _Rule] = {}
        self.patterns: dict[str, _Rule] = {}
        self.variables: dict[str, list[str]] = {}
        self.phony: set[str] = set()
        self.notes: list[str] = []
        self.problem = ""
        # Values that no branch, caller or later line changes: an include is found by them.
        self._values: dict[str, str] = {}
        self._defaults: dict[str, str] = {}
        self._at_once: list[str] = []
        self._conditions: list[str] = []
        self._current: list[_Rule] = []
        self._fresh: set[int] = set()
        self._prefix = "\t"

    # ------------------------------------------------------------------ reading

    def read(self, name: str, text: str) -> None:
        """Take the lines of a file; its name stands in what is said of a line."""
        self._current, above, lines = [], "", _joined_lines(text)
        inside = ""  # the name of a variable whose lines these are
        for number, line in lines:
            where = f"{name}, line {number}" if name in self.parts else f"line {number}"
            if inside:
                inside = self._defined(inside, line)
            elif line.startswith(self._prefix) and self._current:
                self._recipe_line(line[1:])
            elif line.strip() and not line.lstrip().startswith("#"):
                inside = self._line(line, where, above)
            above = line if line.startswith("#") else ""

    def _defined(self, name: str, line: str) -> str:
        if line.strip().startswith("endef"):
            return ""
        self._set(name, line.strip())
        return name

    def _line(self, line: str, where: str, above: str) -> str:
        """Take a line outside of recipes; the name of a variable whose ``define`` begins here."""
        short = line[:_MAX_READ]
        if len(line) > _MAX_READ:
            self.problem = f"{where}: expected at most {_MAX_READ} characters, found {len(line)}"
        if found := _CONDITION.match(short):
            self._condition(found[1], found[2].strip())
            return ""
        if found := _INCLUDE.match(short):
            self._include(found[2], found[1], found[3], where)
            return ""
        if found := _DEFINE.match(short):
            self._current = []
            self.variables.setdefault(found[1], [])
            return "" if "endef" in short else found[1]
        if found := _VARIABLE.fullmatch(line):
            self._current = []
            self._assigned(found[1], found[2] or "", found[3].strip(), line)
        elif not self._rule(line, where, above) and not _DIRECTIVE.match(short):
            if "$" in short:
                self._at_once.append(line.strip())
                self._values.clear()
            else:
                self.notes.append(f"{where}: not understood, and left out: {plain_line(line)[:60]}")
        return ""

    def _condition(self, word: str, rest: str) -> None:
        if word in {"endif", "else"}:
            last = self._conditions.pop() if self._conditions else ""
            if word == "else":
                self._conditions.append(f"else of {last}{f', {rest}' if rest else ''}")
        else:
            self._conditions.append(f"{word} {rest}")

    def _include(self, word: str, mark: str, names: str, where: str) -> None:
        for name in self._expanded(names).split():
            if name in self.parts or len(self.parts) > _MAX_INCLUDED:
                continue
            is_optional = bool(mark or self._conditions)
            self.parts[name] = Part(path=name, where=where, is_optional=is_optional)
            if word == "load" or set("$*?[\\") & set(name) or name.startswith("~"):
                continue  # cannot be pinned, which is said of the part
            text = part_text(self._folder, name)
            if text is not None:
                self.read(name, text)
        self._current = []

    def _assigned(self, name: str, kind: str, value: str, line: str) -> None:
        self._set(name, f"{kind}= {value}")
        if name == ".RECIPEPREFIX":
            self._prefix = value[:1] or "\t"
        if kind == "?":
            self._defaults.setdefault(name, value)
        if kind == "!" or _RUNS_AT_ONCE.search(value):
            self._at_once.append(line.strip())
        is_sure = kind not in {"?", "+", "!"} and not self._conditions
        if re.search(r"\$[({]eval\b", value):
            self._values.clear()
        elif is_sure and len(self.variables[name]) == 1:
            self._values[name] = value

    def _set(self, name: str, said: str) -> None:
        under = f"  ({self._conditions[-1]})" if self._conditions else ""
        self.variables.setdefault(name, []).append(f"{said}{under}")
        self._values.pop(name, None)

    def _rule(self, line: str, where: str, above: str) -> bool:
        """Take a rule; False for a line that is none."""
        at = _colon(line)
        if at < 0:
            return False
        targets = self._expanded(line[:at].rstrip("&")).split()
        rest = line[at + 1 :].lstrip(":")
        if not targets or re.match(r"\.[A-Z]", targets[0]):
            return self._special(targets, rest)
        for target in targets:
            if "%" in target or "$" in target:
                self.notes.append(f"{where}: not taken as a task: {plain_line(line)[:60]}")
        rules = [self._rule_of(target) for target in targets]
        setting = _VARIABLE.fullmatch(rest)
        if setting:
            for rule in rules:
                rule.settings.append(rest.strip())
            return True
        self._current, self._fresh = rules, {id(rule) for rule in rules}
        if line[at : at + 2] == "::" or self._conditions:
            self._fresh = set()
        needs, semicolon, recipe = rest.partition(";")
        needs, _, comment = needs.partition("#")
        about = comment.lstrip("# ") if comment.startswith("#") else above.lstrip("# ")
        for rule in rules:
            rule.is_target = True
            rule.about = rule.about or about
            rule.needs += self._expanded(needs.replace("|", " ")).rpartition(":")[2].split()
        if semicolon:
            self._recipe_line(recipe)
        return True

    def _special(self, targets: Sequence[str], rest: str) -> bool:
        """Take a rule that tells make something; False for no target."""
        self._current = []
        if targets[:1] == [".PHONY"]:
            self.phony |= set(self._expanded(rest.partition("#")[0]).split())
        if targets[:1] == [".DEFAULT"]:
            self._current = [self._rule_of(targets[0])]
        return bool(targets)

    def _rule_of(self, target: str) -> _Rule:
        place = self.patterns if "%" in target else self.rules
        return place.setdefault(target, _Rule())

    def _recipe_line(self, text: str) -> None:
        under = f"  ({self._conditions[-1]})" if self._conditions else ""
        for rule in self._current:
            if id(rule) in self._fresh:  # a later recipe takes the place of the one before
                self._fresh.discard(id(rule))
                rule.lines.clear()
            if text.strip():
                rule.lines.append(f"{text.strip()}{under}")

    def _expanded(self, text: str) -> str:
        """The text with variables that are plain words; others stay as they are written."""
        for _ in range(_MAX_EXPANDED):
            filled = _LONE.sub(lambda found: self._values.get(found[1], found[0]), text[:_MAX_READ])
            if filled == text:
                break
            text = filled
        return text

    # ------------------------------------------------------------------ what runs

    def recipes(self) -> dict[str, Recipe]:
        """The recipes by their targets, those of patterns for the names that need them."""
        needed = {need for rule in self.rules.values() for need in rule.needs}
        known = dict(self.rules)
        for need in needed:
            rule = self._pattern_for(need)
            if rule and not (need in known and known[need].lines):
                known[need] = rule
        return {
            name: Recipe(
                lines=(*(f"with {one}" for one in rule.settings), *rule.lines),
                before=tuple(rule.needs),
                calls=called_names(rule.lines, _MAKE, self.rules),
            )
            for name, rule in known.items()
        }

    def _pattern_for(self, name: str) -> _Rule | None:
        for pattern, rule in self.patterns.items():
            start, _, end = pattern.partition("%")
            if name.startswith(start) and name.endswith(end) and len(name) > len(start) + len(end):
                stem = name[len(start) : len(name) - len(end) or None]
                return _Rule(
                    needs=[need.replace("%", stem, 1) for need in rule.needs], lines=rule.lines
                )
        return None

    def steps(self, name: str, recipes: dict[str, Recipe]) -> tuple[str, ...]:
        """Everything that make runs for a target, and the variables of these lines."""
        before = list(self._at_once)
        for made in (*self.makefiles, ".DEFAULT"):
            if made in recipes:
                before += [f"{made}: {one}" for one in recipes[made].lines]
        lines = steps_of(name, recipes, _MISSING)
        first = [f"as make reads the file: {plain_line(one)}" for one in dict.fromkeys(before)]
        return (*first, *lines, *self._variables_of([*before, *lines]))

    @property
    def makefiles(self) -> tuple[str, ...]:
        """Targets that make brings up to date before any other: the files that it reads."""
        return ("Makefile", "makefile", "GNUmakefile", *self.parts)

    def _variables_of(self, lines: Sequence[str]) -> Iterator[str]:
        seen: dict[str, None] = {}
        todo = [".SHELLFLAGS", "SHELL", *self._used(lines)]
        while todo:
            name = todo.pop(0)
            if name in seen or name not in self.variables:
                continue
            seen[name] = None
            said = self.variables[name]
            yield from (f"where {name} {' '.join(one.split())}" for one in said)
            todo += self._used(said)

    def _used(self, lines: Sequence[str]) -> list[str]:
        found: dict[str, None] = {}
        for line in lines:
            plain = line.replace("$$", "")
            found |= dict.fromkeys(one[1] or one[2] for one in _USED.finditer(plain))
            found |= dict.fromkeys(one[1] for one in _CALLED.finditer(plain))
        return list(found)

    def arguments(self, steps: Sequence[str]) -> Iterator[Argument]:
        """What a caller may set: ``NAME ?= value``, and variables that nothing gives a value."""
        for name, value in self._defaults.items():
            if _PARAMETER.fullmatch(name) and name not in {"SHELL", "MAKE"}:
                yield self._argument(name, f"by itself {plain_line(value) or 'empty'}")
        functions = {one[1] for line in steps for one in _CALLED.finditer(line)}
        for name in self._used(steps):
            is_free = name not in functions and name not in self.variables and name not in _NOT_FREE
            if is_free and _PARAMETER.fullmatch(name) and len(name) > 1:
                yield self._argument(name, "by itself empty")

    def _argument(self, name: str, about: str) -> Argument:
        return Argument(name=name.lower(), flag=name, kind="assign", description=f"{name}; {about}")


def _joined_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines, each with its number, those that a backslash ends joined with the next."""
    start, parts = 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.rstrip("\r")
        start = start if parts else number
        parts.append(plain.lstrip() if parts else plain)
        if not plain.endswith("\\") or plain.endswith("\\\\"):
            yield (
                start,
                " ".join(one.removesuffix("\\").rstrip() for one in parts[:-1])
                + (" " if len(parts) > 1 else "")
                + parts[-1],
            )
            parts = []
    if parts:
        yield start, " ".join(one.removesuffix("\\").rstrip() for one in parts)


def _colon(line: str) -> int:
    """Where the colon of a rule stands, which is outside of ``$( )``; -1 for none."""
    depth = 0
    for at, letter in enumerate(line):
        if letter in "({":
            depth += 1
        elif letter in ")}":
            depth -= 1
        elif depth <= 0 and letter == "#":
            return -1
        elif depth <= 0 and letter == ":":
            return at
    return -1
