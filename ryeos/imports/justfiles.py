"""Recipes of a ``justfile``, with everything that just runs for one.

They are read by ``just --dump`` where it is installed, which evaluates nothing, else by a small
reader. The files that just reads besides are found by the lines that name them.
"""

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.values import dataclass, field, replace
from ryeos.imports.help_pages import Argument
from ryeos.imports.plan import MAX_ITEMS, ImportSource, source_text
from ryeos.imports.shell_commands import OWN, UNKNOWN, joined_folder
from ryeos.imports.task_files import MAX_LINE, Part, Task, TaskFile, part_text, plain_line
from ryeos.imports.task_steps import Follower, Follows, Recipe, Script
from ryeos.imports.tool_texts import MAX_FILE

_MAX_PARTS = 100
_SHELL_CALL = re.compile(r"\bshell\s*\(\s*(?:'([^']*)'|\"([^\"]*)\")")
_VALUE = r"(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\((?:[^()]|\([^()]*\))*\)|[\w./-]+)"


@dataclass(slots=True)
class _Listed:
    """A recipe by its name, ``module::name``. ``body`` are its lines as its shell gets them."""

    recipe: Recipe
    arguments: tuple[Argument, ...] = ()
    about: str = ""
    is_private: bool = False
    is_default: bool = False
    body: tuple[str, ...] = ()
    folder: str | None = ""


@dataclass(slots=True)
class _Justfile:
    """What a justfile and its parts say.

    ``variables`` are the expressions of assignments; ``first`` is what just does for any recipe;
    ``folders`` are those that the recipes of a module run in.
    """

    recipes: dict[str, _Listed] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str | None] = field(default_factory=dict)
    several: set[str] = field(default_factory=set)
    first: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def assign(self, name: str, expression: str) -> None:
        """Take an assignment; ``several`` are the names that modules assign too."""
        if self.variables.get(name, expression) != expression:
            self.several.add(name)
        self.variables[name] = expression


class Justfile:
    """A justfile with its imports and modules, as just reads it."""

    missing = "no recipe of this file"
    problem = ""
    exported: frozenset[str] = frozenset()

    def __init__(self, folder: Path, name: str, text: str) -> None:
        files = _Files(folder)
        files.take(name, text)
        said, problem = _dump(folder / name)
        self.listed = _Justfile(folders=files.folders)
        if said is None:
            self.listed.notes.append(problem)
            for place, prefix, one in files.texts:
                _SmallReader(self.listed, prefix, place if place != name else "").read(one)
        else:
            _take_dump(self.listed, said, "")
        self.notes = tuple(files.notes)
        self.parts = tuple(files.parts.values())

    def recipe(self, name: str) -> Recipe | None:
        """What just does for a recipe."""
        one = self.listed.recipes.get(self.listed.aliases.get(name, name))
        if one is None:
            return None
        prefix = "".join(name.rpartition("::")[:2])
        folder = self._folder(prefix, one.folder)
        scripts = tuple(self._scripts(one, UNKNOWN if prefix or folder else OWN))
        return replace(one.recipe, scripts=scripts, folder=folder)

    def _folder(self, prefix: str, own: str | None) -> str | None:
        above = self.listed.folders.get(prefix, "")
        if own is None or above is None or own.startswith(("/", "~")) or "{{" in own:
            return None
        return f"{above}/{own}" if above and own else above or own

    def _scripts(self, one: _Listed, own: str) -> Iterator[Script]:
        """The lines of a recipe: each on its own, all together for a script."""
        lines = list(one.body)
        if lines and (lines[0].startswith("#!") or "[script" in "".join(one.recipe.lines[:3])):
            lines = ["\n".join(lines)]
        for line in _joined(lines):
            plain = line if "\n" in line else line.lstrip("@-? ")
            yield Script(line, self._filled(plain, own, {one.name for one in one.arguments}))

    def _filled(self, text: str, own: str, arguments: Container[str]) -> str:
        def value(found: re.Match[str]) -> str:
            return own if found[1] == "justfile_directory()" else self._value(found[1], arguments)

        return re.sub(r"\{\{\s*(.*?)\s*\}\}+", value, text)

    def _value(self, inside: str, arguments: Container[str]) -> str:
        """The value of an expression that is a text, or a variable of one."""
        if inside == "just_executable()":
            return "just"
        if inside in self.listed.several or _word(inside) in arguments:
            return UNKNOWN
        said = self.listed.variables.get(inside, inside).strip()
        found = re.fullmatch(r"'([^'{}]*)'|\"([^\"\\{}]*)\"", said)
        return (found[1] or found[2] or "") if found else UNKNOWN

    def started(self, words: Sequence[str]) -> list[str]:
        """The recipes of words, each with as many arguments as it takes; the first by itself."""
        found, rest = list[str](), list(words)
        if not rest:
            return [self._default("")]
        while rest:
            name = rest.pop(0)
            if name not in self.listed.recipes and self._is_module(name):
                name = f"{name}::{rest.pop(0)}" if rest else self._default(f"{name}::")
            name = self.listed.aliases.get(name, name)
            found.append(name)
            one = self.listed.recipes.get(name)
            for argument in one.arguments if one else ():
                del rest[: len(rest) if argument.kind == "list" else 1]
        return found

    def _is_module(self, name: str) -> bool:
        return any(one.startswith(f"{name}::") for one in self.listed.recipes)

    def _default(self, prefix: str) -> str:
        names = [
            name
            for name in self.listed.recipes
            if name.startswith(prefix) and "::" not in name.removeprefix(prefix)
        ]
        chosen = [name for name in names if self.listed.recipes[name].is_default]
        return next(iter([*chosen, *names]), prefix or "default")

    def first(self) -> tuple[str, ...]:
        """The shell of the recipes, and what gives variables."""
        return tuple(self.listed.first)

    def first_scripts(self) -> tuple[Script, ...]:
        """What just gives to a shell for its variables."""
        found = list[Script]()
        for name, text in self.listed.variables.items():
            texts = re.findall(r"`([^`]*)`", text)
            texts += [one[0] or one[1] for one in _SHELL_CALL.findall(text)]
            found += [Script(f"{name} := {text}", self._filled(one, OWN, ())) for one in texts]
        return tuple(found)

    def variables_of(self, lines: Sequence[str]) -> Iterator[str]:
        """The assignments that lines use."""
        yield from _variables_of(self.listed, lines)

    def changes(self, given: frozenset[str], _: frozenset[str]) -> list[str]:
        """The variables that lines use, as far as a line may start a recipe by one."""
        used = _named_in([line for one in self.listed.recipes.values() for line in one.body], given)
        return sorted(set(used))


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """The lines, those that a backslash ends joined with the next."""
    above = ""
    for line in lines:
        whole = f"{above}{line}"
        above = ""
        if whole.endswith("\\"):
            above = whole[:-1]
        else:
            yield whole
    if above:
        yield above


def read_justfile(source: ImportSource, follow: Follower) -> TaskFile:
    """The recipes but private ones, each with those that it depends on."""
    name = source.path.name
    file = Justfile(source.path.parent, name, source_text(source.path, MAX_FILE))
    listed = file.listed
    public = [one for one, said in listed.recipes.items() if not said.is_private]
    followed = follow(source.path.parent, "just", name, file)
    tasks = [_task(one, file, followed, name) for one in public[:MAX_ITEMS]]
    return TaskFile("just", tasks, listed.notes, public[MAX_ITEMS:])


def _task(name: str, file: Justfile, followed: Follows, file_name: str) -> Task:
    found = followed.follow(name)
    one = file.listed.recipes[name]
    return Task(
        name=name,
        steps=found.steps,
        command=("just", "--justfile", file_name, name),
        description=one.about,
        arguments=one.arguments,
        parts=found.parts,
        notes=file.notes,
        problem=found.problem,
    )


def _variables_of(listed: _Justfile, lines: Sequence[str]) -> Iterator[str]:
    """The assignments that lines use, and those by which a program runs for any recipe."""
    todo = [
        name
        for name, text in listed.variables.items()
        if "`" in text or re.search(r"\bshell\s*\(", text)
    ]
    todo += _named_in(lines, listed.variables)
    seen: set[str] = set()
    while todo:
        name = todo.pop(0)
        if name not in seen:
            seen.add(name)
            yield f"where {name} := {' '.join(listed.variables[name].split())}"
            todo += _named_in([f"{{{{{listed.variables[name]}}}}}"], listed.variables)


def _named_in(lines: Sequence[str], variables: Container[str]) -> list[str]:
    inside = (text for line in lines for text in re.findall(r"\{\{(.+?)\}\}+", line))
    return [word for text in inside for word in re.findall(r"[\w-]+", text) if word in variables]


# --- files ----------------------------------------------------------------------------------------

_IMPORT = re.compile(r"import(\??)\s+(?:x?('[^']*'|\"[^\"]*\"))\s*(?:#.*)?")
_MODULE = re.compile(r"mod(\??)\s+([A-Za-z_][\w-]*)(?:\s+('[^']*'|\"[^\"]*\"))?\s*(?:#.*)?")
_SEEMS_PART = re.compile(r"(?:import|mod)\??\s+(?!:=)[^\s:]")
_SET = re.compile(r"set\s+([\w-]+)\s*(?::=\s*(.*))?")


class _Files:
    """The files that just reads for a justfile: imports and modules, and theirs.

    Only a line at the left margin names one: what is indented belongs to a recipe.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.parts: dict[str, Part] = {}
        self.texts: list[tuple[str, str, str]] = []
        self.notes: list[str] = []
        self.folders: dict[str, str | None] = {}

    def read(self, name: str, prefix: str = "") -> None:
        """Take a file, and those that it names. ``prefix`` is the module that it belongs to."""
        text = part_text(self._folder, name)
        if text is not None:
            self.take(name, text, prefix)

    def take(self, name: str, text: str, prefix: str = "") -> None:
        """Take the text of a file."""
        self.texts.append((name, prefix, text))
        is_first = len(self.texts) == 1
        above = f"{name.rpartition('/')[0]}/" if "/" in name else ""
        self.folders.setdefault(prefix, above.rstrip("/"))
        for number, line in enumerate((one.rstrip("\r") for one in text.split("\n")), 1):
            where = f"line {number}" if is_first else f"{name}, line {number}"
            if found := _IMPORT.fullmatch(line):
                self._add(f"{above}{found[2][1:-1]}", where, prefix, is_optional=bool(found[1]))
            elif found := _MODULE.fullmatch(line):
                self._module(found, above, where, prefix)
            elif _SEEMS_PART.match(line) and not _RECIPE.fullmatch(line[:MAX_LINE]):
                shown = f"{plain_line(line)[:60]}*"  # in a form that is not read: never pinned
                self.parts[shown] = Part(path=shown, where=where)
            elif found := _SET.match(line):
                self._setting(found[1], found[2] or "true", where, prefix)

    def _module(self, found: re.Match[str], above: str, where: str, prefix: str) -> None:
        own = f"{prefix}{found[2]}::"
        if found[3]:
            path = f"{above}{found[3][1:-1]}"
            choices = [path, *(f"{path}/{name}" for name in ("mod.just", "justfile", ".justfile"))]
        else:
            path = f"{above}{found[2]}"
            choices = [f"{path}.just"]
            choices += [f"{path}/{name}" for name in ("mod.just", "justfile", ".justfile")]
        there = [one for one in choices if (self._folder / one).is_file()]
        if there:
            self._add(there[0], where, own, is_optional=False)
            return
        for one in choices if found[1] else choices[:1]:
            self._add(one, where, own, is_optional=bool(found[1]))

    def _add(self, path: str, where: str, prefix: str, *, is_optional: bool) -> None:
        if path in self.parts or len(self.parts) >= _MAX_PARTS:
            return
        self.parts[path] = Part(path=path, where=where, is_optional=is_optional)
        self.read(path, prefix)

    def _setting(self, name: str, value: str, where: str, prefix: str) -> None:
        if name == "working-directory":
            plain = re.fullmatch(r"'([^']*)'|\"([^\"\\]*)\"", value.strip())
            place = (plain[1] or plain[2] or "") if plain else "/"
            above = self.folders.get(prefix) or "."
            self.folders[prefix] = joined_folder(above, place)
        if name.startswith("dotenv") and value != "false":
            self.notes.append(f"{where}: set {name}: what it reads is not pinned")
        if name == "fallback" and value != "false":
            self.notes.append(f"{where}: set fallback: just also looks in folders above")


# --- just --dump ----------------------------------------------------------------------------------


def _dump(path: Path) -> tuple[Mapping[str, Any] | None, str]:
    """What ``just`` prints of a file; None with the reason where it prints nothing."""
    import shutil

    from lillux.process import ProcessManager
    from lillux.process.model import Command

    program = shutil.which("just")
    if program is None:
        return None, "just is not installed: read by a small reader"
    words = (program, "--dump", "--dump-format", "json", "--justfile", str(path.absolute()))
    outcome = ProcessManager().run(
        Command(argv=words, env={"PATH": ""}, cwd=path.absolute().parent, timeout_s=10.0)
    )
    try:
        said = json.loads(outcome.stdout.data)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, Mapping) and isinstance(said.get("recipes"), Mapping):
        return said, ""
    reason = plain_line(outcome.stderr.data.decode("utf-8", "replace")) or "no recipes"
    return None, f"just does not read it ({reason[:200]}): read by a small reader"


def _take_dump(listed: _Justfile, said: Mapping[str, Any], prefix: str) -> None:
    """Take what just says of a file or a module, and of the modules below it."""
    for name, one in _mapping(said.get("assignments")).items():
        if isinstance(one, Mapping):
            listed.assign(name, _expression(one.get("value")))
    settings = _mapping(said.get("settings"))
    for key in ("shell", "dotenv_command"):
        words = settings.get(key)
        if words:
            spelt = _words_of_shell(words)
            listed.first.append(f"{prefix}set {key.replace('_', '-')} := {spelt}")
    for name, one in _mapping(said.get("recipes")).items():
        if isinstance(one, Mapping):
            listed.recipes[f"{prefix}{name}"] = _dumped(one, prefix)
            listed.recipes[f"{prefix}{name}"].is_default = name == said.get("first")
    for name, one in _mapping(said.get("aliases")).items():
        listed.aliases[f"{prefix}{name}"] = f"{prefix}{_mapping(one).get('target')}"
    for name, one in _mapping(said.get("modules")).items():
        if isinstance(one, Mapping) and prefix.count("::") < 10:  # noqa: PLR2004
            _take_dump(listed, one, f"{prefix}{name}::")


def _words_of_shell(words: object) -> str:
    if isinstance(words, Mapping):
        words = [words.get("command"), *(words.get("arguments") or ())]
    return " ".join(map(str, words)) if isinstance(words, list) else str(words)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _dumped(recipe: Mapping[str, Any], prefix: str) -> _Listed:
    parameters = [one for one in recipe.get("parameters") or () if isinstance(one, Mapping)]
    body = [
        "".join(_fragment(piece) for piece in line)
        for line in recipe.get("body") or ()
        if isinstance(line, list)
    ]
    needs = [
        f"{prefix}{one['recipe']}"
        for one in recipe.get("dependencies") or ()
        if isinstance(one, Mapping) and isinstance(one.get("recipe"), str)
    ]
    with_words = [
        f"{one['recipe']} with {', '.join(map(_expression, one['arguments']))}"
        for one in recipe.get("dependencies") or ()
        if isinstance(one, Mapping) and one.get("arguments")
    ]
    defaults = [
        f"by itself {one.get('name')} = {_expression(one['default'])}"
        for one in parameters
        if isinstance(one.get("default"), list)
    ]
    marks = list(_marks(recipe.get("attributes")))
    first = recipe.get("priors")
    first = first if isinstance(first, int) else len(needs)
    lines = (*marks, *(f"runs {one}" for one in with_words), *defaults, *filter(str.strip, body))
    return _Listed(
        recipe=Recipe(lines=lines, before=tuple(needs[:first]), after=tuple(needs[first:])),
        arguments=tuple(map(_dumped_parameter, parameters)),
        about=str(recipe.get("doc") or ""),
        is_private=bool(recipe.get("private")),
        body=tuple(body),
        folder=_own_folder(marks),
    )


def _own_folder(marks: Sequence[str]) -> str | None:
    """The folder that the attributes of a recipe say; None where only its caller knows it."""
    for mark in marks:
        if mark.startswith("[no-cd"):
            return None
        if "working-directory" in mark:
            found = re.search(r"working-directory[\s:(]*(?:'([^']*)'|\"([^\"\\]*)\")", mark)
            return (found[1] or found[2] or "") if found else None
    return ""


def _dumped_parameter(one: Mapping[str, Any]) -> Argument:
    default, kind = one.get("default"), one.get("kind")
    flag = f"--{one['long']}" if one.get("long") else ""
    flag = flag or (f"-{one['short']}" if one.get("short") else "")
    shown = f"by itself {plain_line(_expression(default))}" if default is not None else ""
    return Argument(
        name=_word(str(one.get("name"))),
        flag=flag,
        kind="switch"
        if flag and (one.get("value") or one.get("flag"))
        else "list"
        if kind in {"plus", "star"}
        else "value",
        required=default is None and kind != "star" and not (flag and one.get("value")),
        description=str(one.get("help") or shown),
        default=default if isinstance(default, str) and kind == "singular" and not flag else None,
    )


def _fragment(piece: object) -> str:
    if isinstance(piece, str):
        return piece
    inner = piece[0] if isinstance(piece, list) and len(piece) == 1 else piece
    return f"{{{{{_expression(inner)}}}}}"


_SIGNS = {"concatenate": " + ", "join": " / ", "and": " && ", "or": " || "}


def _expression(value: object, depth: int = 0) -> str:
    """An expression of just as it is written, whatever it is."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, list) or not value or depth > 50:  # noqa: PLR2004
        return json.dumps(value)
    head, *rest = value
    inner = [_expression(one, depth + 1) for one in rest]
    if head == "variable" and rest:
        return str(rest[0])
    if head == "evaluate" and rest:
        return f"`{rest[0]}`"
    if isinstance(head, str) and head in _SIGNS:
        return _SIGNS[head].join(inner)
    if head == "call" and rest:
        return f"{rest[0]}({', '.join(inner[1:])})"
    named = head if isinstance(head, str) else _expression(head, depth + 1)
    return f"{named}({', '.join(inner)})"


def _marks(attributes: object) -> Iterator[str]:
    """Attributes that change what runs."""
    for one in attributes if isinstance(attributes, list) else ():
        name, value = (one, None) if isinstance(one, str) else (next(iter(one), ""), one)
        if name not in {"doc", "group", "private", "arg", "no-exit-message", "no-quiet", "default"}:
            yield f"[{name}{f' {json.dumps(value[name])}' if value else ''}]"


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "value"


# --- a small reader -------------------------------------------------------------------------------

_RECIPE = re.compile(
    rf"@?([A-Za-z_][\w-]*)((?:\s+[+*$]*[A-Za-z_][\w-]*(?:={_VALUE})?)*)\s*:(?!=)(.*)"
)
_PARAMETER = re.compile(rf"([+*]?)\$?([A-Za-z_][\w-]*)(=(?:'([^']*)'|\"([^\"\\]*)\"|({_VALUE})))?")
_ATTRIBUTE = re.compile(r"\[(.+)\]\s*")
_ASSIGNED = re.compile(r"(?:export\s+|eager\s+)?([A-Za-z_][\w-]*)\s*:=\s*(.*)")
_ALIAS = re.compile(r"alias\s+([A-Za-z_][\w-]*)\s*:=\s*([\w:-]+)")
_SKIPPED = re.compile(r"(?:alias|unexport)\s")
_SHOWN_MARK = re.compile(r"(?!doc\b|group\b|private\b|no-exit-message\b)")


class _SmallReader:
    """Recipes by their lines; what it does not understand is named."""

    def __init__(self, listed: _Justfile, prefix: str, file: str) -> None:
        self._listed, self._prefix = listed, prefix
        self._file = f"{file}, " if file else ""
        self._doc, self._marks = "", list[str]()

    def read(self, text: str) -> None:
        """Take all lines of a file."""
        lines = [line.rstrip("\r") for line in text.split("\n")]
        number = 0
        while number < len(lines):
            line, number = lines[number], number + 1
            body = []
            while number < len(lines) and _is_inside(lines, number):
                body.append(lines[number].strip())
                number += 1
            self._line(line, [one for one in body if one], number - len(body))

    def _line(self, line: str, body: list[str], number: int) -> None:
        if not line.strip() or line[:1] in {" ", "\t"}:
            self._doc, self._marks = "", []
        elif line.startswith("#"):
            self._doc = "" if line.startswith("#!") else line.lstrip("# ")
        elif mark := _ATTRIBUTE.fullmatch(line[:MAX_LINE]):
            self._marks.append(mark[1])
        else:
            self._statement(line, body, number)
            self._doc, self._marks = "", []

    def _statement(self, line: str, body: list[str], number: int) -> None:
        short = line[:MAX_LINE]
        if assigned := _ASSIGNED.fullmatch(line):
            self._listed.assign(assigned[1], " ".join([assigned[2], *body]))
        elif setting := _SET.fullmatch(line):
            if setting[1] in {"shell", "dotenv-command", "script-interpreter"}:
                self._listed.first.append(f"{self._prefix}{' '.join([line, *body])}")
        elif alias := _ALIAS.match(short):
            self._listed.aliases[f"{self._prefix}{alias[1]}"] = f"{self._prefix}{alias[2]}"
        elif _IMPORT.fullmatch(short) or _MODULE.fullmatch(short) or _SKIPPED.match(short):
            return
        elif (found := _RECIPE.fullmatch(short)) and len(line) <= MAX_LINE:
            self._recipe(found, body, number)
        else:
            said = f"not understood, and left out: {plain_line(line)[:60]}"
            self._listed.notes.append(f"{self._file}line {number}: {said}")

    def _recipe(self, found: re.Match[str], body: list[str], number: int) -> None:
        name = f"{self._prefix}{found[1]}"
        marks = [one for one in self._marks if _SHOWN_MARK.match(one)]
        private = any(re.search(r"\bprivate\b", mark) for mark in self._marks)
        rest = re.sub(r"(?:^|\s)#.*", "", found[3])
        before, _, after = rest.partition("&&")
        defaults = [
            f"by itself {one[1]}{one[2]}"
            for one in _PARAMETER.findall(found[2])
            if one[5] and not re.fullmatch(r"[\w./-]+", one[5])
        ]
        passed = [f"runs {one}" for one in re.findall(r"\(([^()]*)\)", rest) if " " in one.strip()]
        head = [*(f"[{mark}]" for mark in marks), *passed, *defaults]
        known = self._listed.recipes.get(name)
        given = any(one.startswith("arg(") for one in marks)
        problem = f"line {number}: [arg(...)] is read where just is installed" if given else ""
        self._listed.recipes[name] = _Listed(
            recipe=Recipe(
                lines=(*(known.recipe.lines if known else ()), *head, *body),
                before=self._needed(before),
                after=self._needed(after),
                problem=problem,
            ),
            arguments=tuple(map(_parameter, _PARAMETER.findall(found[2]))),
            about=_doc_of(self._marks) or self._doc,
            is_private=private or found[1].startswith("_"),
            is_default="default" in marks,
            body=(*(known.body if known else ()), *body),
            folder=_own_folder([f"[{mark}]" for mark in marks]),
        )

    def _needed(self, text: str) -> tuple[str, ...]:
        """The names of dependencies; behind one in brackets stand its arguments."""
        plain = re.sub(r"\(\s*([\w:-]+)[^()]*(?:\([^()]*\)[^()]*)*\)", r" \1 ", text)
        return tuple(f"{self._prefix}{one}" for one in re.findall(r"[A-Za-z_][\w:-]*", plain))


def _is_inside(lines: Sequence[str], number: int) -> bool:
    """Whether a line belongs to the recipe above: it is indented, or blank before one that is."""
    for line in lines[number : number + 50]:
        if line.strip():
            return line[:1] in {" ", "\t"}
    return False


def _doc_of(marks: Sequence[str]) -> str:
    found = re.search(r"doc\((?:'([^']*)'|\"([^\"]*)\")\)", ",".join(marks))
    return (found[1] or found[2] or "") if found else ""


def _parameter(found: tuple[str, ...]) -> Argument:
    repeats, name, default, *texts = found
    shown = next((text for text in texts if text), "")
    is_plain = bool(default) and (not texts[2] or re.fullmatch(r"[A-Za-z_][\w]*", texts[2]) is None)
    is_plain = is_plain and not texts[2]
    return Argument(
        name=_word(name),
        kind="list" if repeats else "value",
        required=not default and repeats != "*",
        description=f"by itself {plain_line(shown)}" if shown else "",
        default=(texts[0] or texts[1]) if is_plain and not repeats else None,
    )
