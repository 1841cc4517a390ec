"""Recipes in the text of a justfile, by ``just --dump`` or a small reader."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.values import dataclass, field
from ryeos.imports.help_pages import Argument
from ryeos.imports.task_files import MAX_LINE, plain_line
from ryeos.imports.task_steps import Recipe

_VALUE = r"(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\((?:[^()]|\([^()]*\))*\)|[\w./-]+)"


@dataclass(slots=True)
class ListedRecipe:
    """A recipe by its name, ``module::name``. ``body`` are its lines as its shell gets them."""

    recipe: Recipe
    arguments: tuple[Argument, ...] = ()
    about: str = ""
    is_private: bool = False
    is_default: bool = False
    body: tuple[str, ...] = ()
    folder: str | None = ""


@dataclass(slots=True)
class ListedRecipes:
    """The content of a justfile and its parts.

    ``variables`` are the expressions of assignments; ``first`` is what just does for any recipe;
    ``folders`` are those that the recipes of a module run in.
    """

    recipes: dict[str, ListedRecipe] = field(default_factory=dict)
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


IMPORT_LINE = re.compile(r"import(\??)\s+(?:x?('[^']*'|\"[^\"]*\"))\s*(?:#.*)?")
MODULE_LINE = re.compile(r"mod(\??)\s+([A-Za-z_][\w-]*)(?:\s+('[^']*'|\"[^\"]*\"))?\s*(?:#.*)?")
SETTING_LINE = re.compile(r"set\s+([\w-]+)\s*(?::=\s*(.*))?")


def dumped_recipes(path: Path) -> tuple[Mapping[str, Any] | None, str]:
    """The output of ``just`` for a file; None with the reason where it prints nothing."""
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


def take_dumped(listed: ListedRecipes, said: Mapping[str, Any], prefix: str) -> None:
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
            take_dumped(listed, one, f"{prefix}{name}::")


def _words_of_shell(words: object) -> str:
    if isinstance(words, Mapping):
        words = [words.get("command"), *(words.get("arguments") or ())]
    return " ".join(map(str, words)) if isinstance(words, list) else str(words)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _dumped(recipe: Mapping[str, Any], prefix: str) -> ListedRecipe:
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
    return ListedRecipe(
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
        name=argument_name(str(one.get("name"))),
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


def argument_name(name: str) -> str:
    """The name of a parameter of just as one of an item's arguments."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "value"


RECIPE_LINE = re.compile(
    rf"@?([A-Za-z_][\w-]*)((?:\s+[+*$]*[A-Za-z_][\w-]*(?:={_VALUE})?)*)\s*:(?!=)(.*)"
)
_PARAMETER = re.compile(rf"([+*]?)\$?([A-Za-z_][\w-]*)(=(?:'([^']*)'|\"([^\"\\]*)\"|({_VALUE})))?")
_ATTRIBUTE = re.compile(r"\[(.+)\]\s*")
_ASSIGNED = re.compile(r"(?:export\s+|eager\s+)?([A-Za-z_][\w-]*)\s*:=\s*(.*)")
_ALIAS = re.compile(r"alias\s+([A-Za-z_][\w-]*)\s*:=\s*([\w:-]+)")
_SKIPPED = re.compile(r"(?:alias|unexport)\s")
_SHOWN_MARK = re.compile(r"(?!doc\b|group\b|private\b|no-exit-message\b)")


class SmallReader:
    """Recipes by their lines; what it does not understand is named."""

    def __init__(self, listed: ListedRecipes, prefix: str, file: str) -> None:
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
        elif setting := SETTING_LINE.fullmatch(line):
            if setting[1] in {"shell", "dotenv-command", "script-interpreter"}:
                self._listed.first.append(f"{self._prefix}{' '.join([line, *body])}")
        elif alias := _ALIAS.match(short):
            self._listed.aliases[f"{self._prefix}{alias[1]}"] = f"{self._prefix}{alias[2]}"
        elif IMPORT_LINE.fullmatch(short) or MODULE_LINE.fullmatch(short) or _SKIPPED.match(short):
            return
        elif (found := RECIPE_LINE.fullmatch(short)) and len(line) <= MAX_LINE:
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
        self._listed.recipes[name] = ListedRecipe(
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
    """True if a line belongs to the recipe above: it is indented, or blank before one that is."""
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
        name=argument_name(name),
        kind="list" if repeats else "value",
        required=not default and repeats != "*",
        description=f"by itself {plain_line(shown)}" if shown else "",
        default=(texts[0] or texts[1]) if is_plain and not repeats else None,
    )
