"""Targets of a ``Makefile``, with everything that make runs for one. Nothing is run.

What make would have to compute is named as it is written: variables stand below the lines that use
them, and what make runs while it reads the file stands above.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from lillux.values import dataclass, field
from ryeos.imports.help_pages import Argument
from ryeos.imports.makefile_values import MakeValues, parted, shell_texts
from ryeos.imports.plan import MAX_ITEMS, ImportSource, source_text
from ryeos.imports.runner_starts import starts_of
from ryeos.imports.shell_commands import OWN, UNKNOWN
from ryeos.imports.task_files import Part, Task, TaskFile, part_text, plain_line
from ryeos.imports.task_steps import (
    MAX_STEPS,
    Followed,
    Follower,
    Recipe,
    Script,
    shown_step,
    too_much,
    walk,
)
from ryeos.imports.tool_texts import MAX_FILE
from ryeos.items.task_items import files_of_pattern

_MAX_INCLUDED, _MAX_EXPANDED, _MAX_READ, _MAX_PROBLEMS = 100, 20, 64 * 1024, 4
_VARIABLE = re.compile(
    r"\s*(?:(?:override|export|private)\s+)*([^\s:#=!?+]+)\s*(\?|\+|!|:{1,3})?=(.*)", re.DOTALL
)
_DEFINE = re.compile(r"\s*(?:(?:override|export|private)\s+)*define\s+(\S+)")
_INCLUDE = re.compile(r"\s*([-s]?)(include|load)\s+([^#]*)")
_CONDITION = re.compile(r"\s*(ifeq|ifneq|ifdef|ifndef|else|endif)\b(.*)")
_WORD = re.compile(r"[A-Za-z0-9][\w.-]*")
_DIRECTIVE = re.compile(r"\s*(?:export|unexport|override|private|vpath)\b")
_USED = re.compile(r"\$(?:[({]([^\s:,(){}$]+)|([A-Za-z]))")
_CALLED = re.compile(r"\$[({]call\s+([^\s,(){}$]+)")
_BOUND = re.compile(r"\$[({](?:call|foreach|let)\s+([^\s,(){}$]+)")
_LONE = re.compile(r"\$[({]([\w.-]+)[)}]")
_RUNS_AT_ONCE = re.compile(r"\$[({](?:shell|eval|file|guile)\b")
_EVAL = re.compile(r"\$[({]eval\b")
_EVAL_OF_ONE = re.compile(
    r"\$[({]eval\s+(?:(?:override|export)\s+)*([\w.-]+)\s*(?:\?|\+|!|:{1,3})?=[^\n]*"
)
_EXPORT = re.compile(r"\s*(?:override\s+)?export\b([^#]*)")
_UNDEFINE = re.compile(r"\s*(?:override\s+)?undefine\s+(\S+)")
_SUFFIXES = re.compile(r"(\.[A-Za-z]\w*)(\.\w+)?")
_MAY_START = re.compile(r"MAKE|\b(?:g?make|npm|pnpm|yarn|bun|node|just|mise|run-[sp])\b")
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SUFFIXES_OF_MAKE = """
.out .a .ln .o .c .cc .C .cpp .p .f .F .m .r .y .l .ym .yl .s .S .mod .sym .def .h .info .dvi .tex
.texinfo .texi .txinfo .w .ch .web .sh .elc .el"""
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
    """The rule under the name of a target, all its rules together.

    ``lines`` are its recipe, each with its place; ``pattern`` is what a rule of a pattern is for.
    """

    needs: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    about: str = ""
    is_target: bool = False
    pattern: str = ""


def read_makefile(source: ImportSource, follow: Follower) -> TaskFile:
    """Targets whose names are plain words, of the file and what it includes."""
    name = source.path.name
    found = Makefile(source.path.parent, name, source_text(source.path, MAX_FILE))
    followed = follow(source.path.parent, "make", name, found)
    said = TaskFile("make", notes=found.notes)
    others = list[str]()
    for target, rule in found.rules.items():
        if not found.is_task(target):
            others += [target] if found.has_recipe(target) else []
            continue
        if len(said.tasks) >= MAX_ITEMS:
            said.left_out.append(target)
            continue
        steps = followed.follow(target)
        said.tasks.append(
            Task(
                name=target,
                steps=steps.steps,
                command=("make", "--no-print-directory", "-f", name, target),
                description=rule.about,
                arguments=tuple(found.arguments(steps)) if not too_much(steps.steps) else (),
                parts=steps.parts,
                problem=steps.problem,
            )
        )
    if others:
        shown = plain_line(", ".join(others).replace(OWN, "$(CURDIR)"))
        said.notes.append(f"not taken as tasks: targets that are files or no plain words: {shown}")
    return said


class Makefile:
    """A Makefile, read line by line, with what it includes in its place."""

    missing = "a file, or a target of a rule that make has by itself"

    def __init__(self, folder: Path, name: str, text: str) -> None:
        self._folder = folder
        self._name = name
        self._parts: dict[str, Part] = {}
        self.rules: dict[str, _Rule] = {}
        self._patterns: list[_Rule] = []
        self._unsure: list[tuple[re.Pattern[str], str]] = []
        self.variables: dict[str, list[str]] = {}
        self._phony: set[str] = set()
        self.notes: list[str] = []
        self.problem = ""
        # Values that no branch, caller or later line changes: an include is found by them.
        self._values: dict[str, str] = {}
        self._defaults: dict[str, str] = {}
        # Variables that eval sets, or a target for itself, and those that choose which rules run.
        self._never_sure: set[str] = set()
        self._specific: set[str] = set()
        self._shape: set[str] = set()
        self._fixed: set[str] = set()
        self._at_once: list[str] = []
        self._conditions: list[str] = []
        self._current: list[_Rule] = []
        self._fresh: set[int] = set()
        self._prefix = "\t"
        self._goal = ""
        self._is_one_shell = False
        self._exports_all = False
        self._exported: set[str] = set()
        self._suffixes = set(_SUFFIXES_OF_MAKE.split())
        self._where = ""
        self._depth = 0
        self._read(name, text)

    @property
    def exported(self) -> frozenset[str]:
        """The variables that programs of a recipe get."""
        names = self.variables if self._exports_all else self._exported
        return frozenset(names)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files that it includes."""
        return tuple(self._parts.values())

    def _read(self, name: str, text: str) -> None:
        """Take the lines of a file; its name stands in what is said of a line."""
        self._current, above, lines = [], "", _joined_lines(text)
        inside = ""  # the name of a variable whose lines these are
        for number, line in lines:
            where = f"{name}, line {number}" if name in self._parts else f"line {number}"
            self._where = where
            if inside:
                inside = self._defined(inside, line)
            elif line.startswith(self._prefix) and self._current:
                self._recipe_line(line[1:])
            elif line.strip() and not line.lstrip().startswith("#"):
                inside = self._line(line, where, above)
            above = line if line.startswith("#") else ""

    def _defined(self, name: str, line: str) -> str:
        if line.strip().startswith("endef"):
            if len(self.variables[name]) and not self._conditions:
                self._keep(name, "\n".join(self.variables[name]))
            return ""
        self._take_evals(line)
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
        self._take_evals(line)
        if found := _EXPORT.match(short):
            self._export(found[1])
        if found := _DEFINE.match(short):
            self._current = []
            self._set(found[1], "")
            self.variables[found[1]] = self.variables[found[1]][:-1]
            return "" if "endef" in short else found[1]
        if (found := _VARIABLE.fullmatch(line)) and _is_balanced(found[1]):
            self._current = []
            self._assigned(found[1], found[2] or "", found[3].strip(), line)
        elif found := _UNDEFINE.match(short):
            self._set(found[1], "undefined")
        elif not self._rule(line, where, above) and not _DIRECTIVE.match(short):
            self._other_line(line, where, above)
        return ""

    def _other_line(self, line: str, where: str, above: str) -> None:
        """Take a line that is neither a rule nor an assignment before make has expanded it."""
        if "$" not in line:
            self.notes.append(f"{where}: not understood, and left out: {plain_line(line)[:60]}")
            return
        self._at_once.append(line.strip())
        if _EVAL_OF_ONE.fullmatch(line.strip()):
            return
        text = self._expanded(line)
        if UNKNOWN in text or self._depth > _MAX_EXPANDED:
            self._refuse(f"{where}: may be a rule that is not known before make runs: {line}")
        elif text.strip():
            self._depth += 1
            for one in text.split("\n"):
                self._line(one, where, above)
            self._depth -= 1

    def _refuse(self, problem: str) -> None:
        self.problem = self.problem or plain_line(problem)[:200]

    def _export(self, text: str) -> None:
        """Note what ``export`` names; everything by itself."""
        names = self._expanded(re.split(r"[:?+!]*=", text)[0]).split()
        self._exports_all = self._exports_all or not names or UNKNOWN in "".join(names)
        self._exported |= {one for one in names if one not in {"define", "override", "private"}}

    def _take_evals(self, line: str) -> None:
        """Note what ``$(eval ...)`` sets; one that may be a rule makes all rules unknown."""
        for found in _EVAL.finditer(line):
            one = _EVAL_OF_ONE.match(line, found.start())
            if one is None:
                self._refuse(
                    f"{self._where}: {found[0]} ...) makes rules that are not read: {line}"
                )
            else:
                self._never_sure.add(one[1])
                self._values.pop(one[1], None)

    def _condition(self, word: str, rest: str) -> None:
        if word in {"endif", "else"}:
            last = self._conditions.pop() if self._conditions else ""
            if word == "else":
                self._conditions.append(f"else of {last}{f', {rest}' if rest else ''}")
        else:
            self._conditions.append(f"{word} {rest}")

    def _include(self, word: str, mark: str, names: str, where: str) -> None:
        for name in self._included(names).split():
            if name in self._parts or len(self._parts) > _MAX_INCLUDED:
                continue
            is_optional = bool(mark or self._conditions)
            if set("*?[") & set(name):
                self._include_pattern(name, where)
                continue
            self._parts[name] = Part(path=name, where=where, is_optional=is_optional)
            if word == "load" or set("$*?[\\") & set(name) or name.startswith("~"):
                continue  # cannot be pinned, which is said of the part
            text = part_text(self._folder, name)
            if text is not None:
                self._read(name, text)
        self._current = []

    def _include_pattern(self, pattern: str, where: str) -> None:
        """Take the files of a pattern that are there; no other may appear."""
        self._parts[pattern] = Part(path=pattern, where=where, is_pattern=True)
        for name in files_of_pattern(self._folder, pattern):
            if name not in self._parts and len(self._parts) <= _MAX_INCLUDED:
                self._parts[name] = Part(path=name, where=where)
                self._read(name, part_text(self._folder, name) or "")

    def _assigned(self, name: str, kind: str, value: str, line: str) -> None:
        before = self._values.get(name)
        is_new = name not in self.variables
        self._set(name, f"{kind}= {value}")
        if name == ".RECIPEPREFIX":
            self._prefix = value[:1] or "\t"
        if name == ".DEFAULT_GOAL":
            self._goal = value
        if kind == "?" and is_new and not self._conditions:
            self._defaults.setdefault(name, value)
        if kind == "!" or _RUNS_AT_ONCE.search(value):
            self._at_once.append(line.strip())
        if self._conditions or kind in {"?", "!"}:
            return
        if kind == "+":
            value, before = f"{before} {value}", None if is_new else before
            is_new = before is not None
        if is_new:
            self._keep(name, self._expanded(value) if kind[:1] == ":" else value)

    def _keep(self, name: str, value: str) -> None:
        """Keep a value that is sure."""
        if name not in self._never_sure:
            self._values[name] = value

    def _set(self, name: str, said: str) -> None:
        under = f"  ({self._conditions[-1]})" if self._conditions else ""
        self.variables.setdefault(name, []).append(f"{said}{under}")
        self._values.pop(name, None)
        self._defaults.pop(name, None)

    def _rule(self, line: str, where: str, above: str) -> bool:
        """Take a rule; False for a line that is none."""
        before, colon, rest = parted(line.partition("#")[0] if "#" in line else line, ":")
        if not colon:
            return False
        behind = line[len(before) + 1 :]
        targets = self._names(before.rstrip("&").replace("\\:", ":"))
        rest = behind.lstrip(":")
        if not targets or re.match(r"\.[A-Z]", targets[0]):
            return self._special(targets, rest)
        setting = _VARIABLE.fullmatch(rest)
        if setting and _is_balanced(setting[1]):
            self._specific.add(setting[1])
            for target in targets:
                self._rule_of(target).settings.append(rest.strip())
            return True
        self._rule_for(targets, rest, above, is_double=behind.startswith(":"))
        for target in targets:
            if "%" in target or UNKNOWN in target or "*" in target:
                self.notes.append(f"{where}: not taken as a task: {plain_line(line)[:60]}")
        return True

    def _rule_for(self, targets: Sequence[str], rest: str, above: str, *, is_double: bool) -> None:
        """Take what stands behind the colon of a rule."""
        text, semicolon, recipe = parted(rest, ";")
        text, _, comment = text.partition("#")
        about = comment.lstrip("# ") if "#" in rest.partition(";")[0] else above.lstrip("# ")
        static, colon, needed = parted(text, ":")
        needs = self._needs(needed if colon else text)
        self._current = [
            self._rule_to_fill(target, static.strip() if colon else "", needs, text)
            for target in targets
        ]
        self._fresh = {id(one) for one in self._current}
        if is_double or self._conditions:
            self._fresh = set()
        for rule in self._current:
            rule.about = rule.about or about
        if semicolon:
            self._recipe_line(recipe)

    def _rule_to_fill(self, target: str, static: str, needs: Sequence[str], text: str) -> _Rule:
        """The rule of a target, with what it needs; one that is kept nowhere for an unknown one."""
        if UNKNOWN in target:
            pattern = ".*".join(map(re.escape, target.split(UNKNOWN)))
            self._unsure.append((re.compile(pattern), f"{self._where}: may be a rule for it"))
            return _Rule()
        rule = self._rule_of(target)
        rule.is_target = True
        stem = None
        if static:
            stem = _stem(self._expanded(static), target)
            if stem is None:
                rule.problems.append(
                    f"{self._where}: a pattern that {plain_line(target)} is not of"
                )
        filled = [one if stem is None else one.replace("%", stem, 1) for one in needs]
        if self._conditions and filled:
            rule.settings.append(f"needs {' '.join(filled)}  ({self._conditions[-1]})")
        rule.needs += [one for one in filled if UNKNOWN not in one]
        if any(UNKNOWN in one or "$" in one for one in filled):
            said = plain_line(text)[:80]
            rule.problems.append(f"{self._where}: what it needs is known to make alone: {said}")
        return rule

    def _names(self, text: str) -> list[str]:
        return self._expanded(text).split()

    def _needs(self, text: str) -> list[str]:
        """The names of prerequisites; those of order alone run too."""
        return self._names(text.replace("|", " "))

    def _special(self, targets: Sequence[str], rest: str) -> bool:
        """Take a rule that tells make something; False for no target."""
        self._current = []
        names = self._names(rest.partition("#")[0])
        if targets[:1] == [".PHONY"]:
            self._phony |= set(names)
        if targets[:1] == [".ONESHELL"]:
            self._is_one_shell = True
        if targets[:1] == [".EXPORT_ALL_VARIABLES"]:
            self._exports_all = True
        if targets[:1] == [".SUFFIXES"]:
            self._suffixes |= set(names)
        if targets[:1] == [".DEFAULT"]:
            self._current = [self._rule_of(targets[0])]
        return bool(targets)

    def _rule_of(self, target: str) -> _Rule:
        """The rule of a name; a new one for a pattern, of which there may be several."""
        suffixes = _SUFFIXES.fullmatch(target)
        if suffixes and {suffixes[1], suffixes[2] or suffixes[1]} <= self._suffixes:
            target = f"%{suffixes[2]}" if suffixes[2] else "%"
            rule = _Rule(pattern=target, needs=[f"%{suffixes[1]}"])
            self._patterns.append(rule)
            return rule
        if "%" in target or "*" in target:
            rule = _Rule(pattern=target.replace("*", "%", 1))
            self._patterns.append(rule)
            return rule
        return self.rules.setdefault(target, _Rule())

    def _recipe_line(self, text: str) -> None:
        under = f"  ({self._conditions[-1]})" if self._conditions else ""
        self._note_evals_of_recipe(text)
        for rule in self._current:
            if id(rule) in self._fresh:  # a later recipe takes the place of the one before
                self._fresh.discard(id(rule))
                rule.lines.clear()
            if text.strip():
                rule.lines.append((f"{text.strip()}{under}", self._where))

    def _note_evals_of_recipe(self, text: str) -> None:
        for found in _EVAL.finditer(text):
            one = _EVAL_OF_ONE.match(text, found.start())
            self._specific.add(one[1] if one else "*")

    def _expanded(self, text: str) -> str:
        """The text as make expands it here; it is kept which variables it takes."""
        values = MakeValues({**self._defaults, **self._values})
        plain = values.expand(text[:_MAX_READ])
        self._shape |= values.asked
        self._fixed |= values.asked & self._defaults.keys()
        return plain

    def _included(self, text: str) -> str:
        """The text with variables that are plain words; others stay as they are written."""
        for _ in range(_MAX_EXPANDED):
            filled = _LONE.sub(lambda found: self._values.get(found[1], found[0]), text[:_MAX_READ])
            if filled == text:
                break
            text = filled
        return text

    def is_task(self, name: str) -> bool:
        """True if a target is a task of its own: its name is a plain word, and no file's."""
        rule = self.rules[name]
        if not _WORD.fullmatch(name) or not rule.is_target or name in self._made_first():
            return False
        return not self._phony or name in self._phony or "." not in name

    def has_recipe(self, name: str) -> bool:
        """True if a target does something, and is none that make has by itself."""
        rule = self.rules[name]
        return rule.is_target and bool(rule.lines or rule.needs) and name not in self._made_first()

    def recipe(self, name: str) -> Recipe | None:
        """The work of make for a target: by its own rules, and those of patterns that may apply."""
        rule = self.rules.get(name)
        needs_pattern = name not in self._phony and not (rule and rule.lines)
        patterns = list(self._patterns_for(name)) if needs_pattern else []
        alike, unsure = self._alike(name), self._unsure_of(name)
        if rule is None and not patterns:
            found = Recipe(lines=(self.missing,), before=alike, problem=unsure)
            return found if alike or unsure else None
        own = rule or _Rule()
        needs = dict.fromkeys(need for each in (*patterns, own) for need in each.needs)
        problems = [one for each in (own, *patterns) for one in each.problems]
        return Recipe(
            lines=tuple(_shown_lines(own, patterns)),
            before=(*needs, *alike),
            scripts=tuple(one for each in (own, *patterns) for one in self._scripts(name, each)),
            problem="; ".join([*problems, unsure][:_MAX_PROBLEMS]).strip("; "),
        )

    def _alike(self, name: str) -> tuple[str, ...]:
        """The targets that files of a pattern may be."""
        return tuple(one for one in self.rules if fnmatchcase(one, name)) if "*" in name else ()

    def _unsure_of(self, name: str) -> str:
        return next((said for pattern, said in self._unsure if pattern.fullmatch(name)), "")

    def _patterns_for(self, name: str) -> Iterator[_Rule]:
        for rule in self._patterns:
            stem = _stem(rule.pattern, name)
            if stem:
                needs = [need.replace("%", stem, 1) for need in rule.needs]
                yield _Rule(needs, rule.lines, [], rule.problems, pattern=rule.pattern)

    def _scripts(self, name: str, rule: _Rule) -> Iterator[Script]:
        by = {"@": name, "<": "".join(rule.needs[:1])}
        if rule.pattern:
            by["*"] = _stem(rule.pattern, name) or ""
        lines = [(f"{where}: {line}", self._shell_text(line, by)) for line, where in rule.lines]
        if self._is_one_shell and lines:
            lines = [(lines[0][0], "\n".join(text for _, text in lines))]
        for shown, text in lines:
            yield Script(shown, text)

    def _shell_text(self, line: str, by: Mapping[str, str]) -> str:
        """The line as its shell gets it. A default counts where it decides what is started."""
        sure = {k: v for k, v in self._values.items() if k not in self._specific}
        if "*" in self._specific:
            sure = {}
        plain = _run_text(line, MakeValues(sure), by)
        values = MakeValues({**self._defaults, **sure})
        filled = _run_text(line, values, by)
        if filled != plain and list(starts_of(filled)) != list(starts_of(plain)):
            self._fixed |= values.asked & self._defaults.keys()
            return filled
        return plain

    def first_scripts(self) -> tuple[Script, ...]:
        """The texts that make gives to a shell while it reads the file."""
        found = list[Script]()
        for line in self._at_once:
            texts = shell_texts(line)
            if "!=" in line:
                texts.append(line.partition("!=")[2])
            found += [Script(line, self._shell_text(one, {})) for one in texts]
        return tuple(found)

    def started(self, words: Sequence[str]) -> list[str]:
        """The targets of words; the default goal for none."""
        if words:
            return list(words)
        goal = self._goal or next((one for one in self.rules if not one.startswith(".")), "")
        return [goal] if goal else []

    def first(self) -> tuple[str, ...]:
        """Programs that make runs while it reads the file, and to bring its parts up to date."""
        found = list(self._at_once)
        for made in self._made_first():
            is_read = made in self.rules or made == self._name or made in self._parts
            if not is_read or self.recipe(made) is None:
                continue
            for owner, line in walk(made, _OwnRecipes(self), ""):
                if line:
                    found.append(shown_step(owner, line))
                if len(found) > MAX_STEPS:
                    break
        return tuple(f"as make reads the file: {plain_line(one)}" for one in dict.fromkeys(found))

    def _made_first(self) -> tuple[str, ...]:
        """Targets that make brings up to date before any other: the files that it reads."""
        return ("Makefile", "makefile", "GNUmakefile", self._name, *self._parts, ".DEFAULT")

    def variables_of(self, lines: Sequence[str]) -> Iterator[str]:
        """The variables that lines use, and those that these use."""
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

    def changes(self, given: frozenset[str], exported: frozenset[str]) -> list[str]:
        """The variables that choose which rules run, or what a line starts.

        Those of the environment count where the file gives no value, or a default.
        """
        plain = {name for name in exported if name in self._defaults or name not in self.variables}
        given |= plain
        started = [
            line
            for rule in [*self.rules.values(), *self._patterns]
            for line, _ in rule.lines
            if _MAY_START.search(line)
        ]
        used = set(self._used(started))
        return sorted(given & (self._shape | used | set(self._used_below(used))))

    def _used_below(self, names: set[str]) -> Iterator[str]:
        todo, seen = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                yield name
                todo += self._used(self.variables.get(name, ()))

    def _used(self, lines: Sequence[str]) -> list[str]:
        found: dict[str, None] = {}
        for line in lines:
            if "$" not in line:
                continue
            plain = line.replace("$$", "")
            found |= dict.fromkeys(one[1] or one[2] for one in _USED.finditer(plain))
            found |= dict.fromkeys(one[1] for one in _CALLED.finditer(plain))
        return list(found)

    def arguments(self, followed: Followed) -> Iterator[Argument]:
        """Variables that a caller may set: ``NAME ?= value``, and those without a value.

        One that chooses which rules run keeps its value.
        """
        for name, value in self._offered().items():
            if _PARAMETER.fullmatch(name) and name not in {"SHELL", "MAKE"} | self._fixed:
                yield self._argument(name, f"by itself {plain_line(value) or 'empty'}")
        own = [*followed.own, *self.variables_of(followed.own)]
        bound = {one[1] for line in own for one in _BOUND.finditer(line)}
        for name in self._used(own):
            is_free = name not in bound and name not in self.variables and name not in _NOT_FREE
            if is_free and _PARAMETER.fullmatch(name):
                yield self._argument(name, "by itself empty")

    def _offered(self) -> dict[str, str]:
        """The variables with a default."""
        found: dict[str, str] = {}
        for name, said in self.variables.items():
            values = [one[2:].strip() for one in said if one.startswith("?=")]
            if values:
                found[name] = values[0]
        return found

    def _argument(self, name: str, about: str) -> Argument:
        return Argument(name=name.lower(), flag=name, kind="assign", description=f"{name}; {about}")


def _shown_lines(own: _Rule, patterns: Sequence[_Rule]) -> Iterator[str]:
    yield from (one if one.startswith("needs ") else f"with {one}" for one in own.settings)
    yield from (line for line, _ in own.lines)
    for each in patterns:
        under = f"  (where {each.pattern} is how it is made)" if len(patterns) > 1 else ""
        yield from (f"{line}{under}" for line, _ in each.lines)


class _OwnRecipes:
    """The recipes of a Makefile alone."""

    def __init__(self, file: Makefile) -> None:
        self._file = file

    def get(self, name: str, /) -> Recipe | None:
        """The recipe of a target, without what stands for a file."""
        return self._file.recipe(name) or Recipe()


def _is_balanced(name: str) -> bool:
    """True if a name ends outside of brackets: ``$(M:=-x)`` is no assignment."""
    return name.count("(") == name.count(")") and name.count("{") == name.count("}")


def _stem(pattern: str, name: str) -> str | None:
    """The text for ``%`` in a name of a pattern; None for another name."""
    start, mark, end = pattern.partition("%")
    if not mark:
        return "" if name == pattern else None
    is_of_it = name.startswith(start) and name.endswith(end) and len(name) > len(start) + len(end)
    return name[len(start) : len(name) - len(end)] if is_of_it else None


def _run_text(line: str, values: MakeValues, by: Mapping[str, str]) -> str:
    """A line as its shell gets it, behind what make runs to expand it."""
    own = values.expand(line, by)
    texts = [*(values.expand(one, by) for one in shell_texts(line)), *own.split("\n")]
    return "\n".join(one.lstrip("@+- \t") for one in texts)


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
