"""Files that the command line of an MCP server names, so that they can be pinned and held.

(1) the program itself, where it is a file by its path
(2) what an interpreter gets: a file, the ``__main__.py`` of a folder, the module behind ``-m``
(3) what it loads before that: each file behind ``--import``, ``-r``, ``--preload`` and similar
(4) of ``-c`` and ``-e``: the modules of the working folder that the code imports

What stands behind the program's file are its arguments, which it may change as it likes.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.values import dataclass
from ryeos.items.refs import PROJECT

CODE_SUFFIXES = (
    *(".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".sh"),
    *(".rb", ".pl", ".php", ".lua", ".jar", ".exe", ".wasm"),
)
PROJECT_PLACE = "{project_path}"
CONTAINERS = ("docker", "podman", "nerdctl")
"""Programs whose words name files of another machine."""
_PYTHON = re.compile(r"(python|pypy|graalpy)[0-9.]*w?")
PYTHON_FLAG = re.compile(r"-([A-VYZabd-ln-z]*)([mc])")
"""Options of one letter each, and the last one: ``-m MODULE``, ``-Im MODULE``, ``-c CODE``."""
_SHELL = re.compile(r"sh|bash|dash|zsh|ksh|fish|csh|tcsh|busybox")
_SCRIPTS = re.compile(r"(node|nodejs|deno|bun|tsx|ts-node)[0-9.]*")
_WRAPPERS = re.compile(
    r"env|nice|nohup|timeout|stdbuf|setsid|ionice|uv|poetry|pipenv|hatch|pdm|rye|npx|bunx|exec|sudo"
)
_LOADS = frozenset(
    {"-r", "--require", "--import", "--loader", "--experimental-loader", "--preload"}
    | {"--import-map", "--config", "--rcfile", "--init-file", "--tsconfig", "-P", "--project"}
)
"""Options of interpreters whose value is a file that is loaded, or that says what is loaded."""
_TAKES_VALUE = frozenset({"-W", "-X", "-C", "-O", "-o", "--conditions", "--check-hash-based-pycs"})
_COMMANDS = frozenset({"run", "exec", "x", "start", "serve"})
_RELATIVE = re.compile(r"""["'](\.{1,2}/[^"'\0\n]{1,500})["']""")
_INDEXES = ("index.js", "index.mjs", "index.cjs", "index.ts", "index.json")
_WITHOUT_SUFFIX = (".js", ".cjs", ".mjs", ".ts", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file that a command line names.

    at      the place of the word among the words; -1 for a file that code names
    prefix  what stands before the path in that word, as ``--import=``
    folder  where the modules that it imports are looked for; the file's own unless a module is run
    module  the module, where it is run by its name
    """

    path: Path
    at: int = -1
    prefix: str = ""
    folder: Path
    module: str = ""


def program_name(word: str) -> str:
    """The name of a program less its folder and what Windows adds."""
    name = re.split(r"[/\\]", word)[-1].lower()
    return re.sub(r"\.(exe|cmd|bat|ps1)$", "", name)


def server_folder(chosen: str, tier: str, *, project: str, user: str) -> Path:
    """The folder that a server is started in: the one of its item, from that of its space.

    What a program loads, it looks for in the folder that it is started in (modules, ``.bin``,
    settings of tools), and agents write in the project. So a server that is not the project's own
    is started there only where its signed item says ``{project_path}``.
    """
    if tier == PROJECT:
        return Path(project, chosen)
    # A user without a home has servers of the bundle as well; agents write no folder at the root.
    base = user if os.path.isdir(user) else Path(user).anchor  # noqa: PTH112 - as in `mcp`
    return Path(base, chosen)


def words_from_anywhere(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Words for a server of user space: it is started elsewhere than where they were written.

    ``.`` is the project of each call, and a path from the folder to what is there a whole path. A
    name alone counts as one with a suffix of code: ``server.py``, but not ``build``.
    """
    return tuple(_from_anywhere(word, folder, at) for at, word in enumerate(words))


def _from_anywhere(word: str, folder: Path, at: int) -> str:
    if word in {".", "./"}:
        return PROJECT_PLACE if at else word
    is_path = "/" in word or (at > 0 and Path(word).suffix.lower() in CODE_SUFFIXES)
    if not is_path or "\0" in word or "{" in word or "://" in word or word.startswith(("-", "~")):
        return word
    path = os.path.normpath(folder / word)
    return path if os.path.lexists(path) else word


def files_of_config(
    config: Mapping[str, Any], cwd: Path, *, project: str, home: str
) -> tuple[NamedFile, ...]:
    """The files that the ``command`` and ``args`` of a server's config name.

    Of placeholders only those of the project and the home are filled in: what a variable of the
    caller says is not known where files are pinned.
    """

    def filled(word: object) -> str:
        return str(word).replace(PROJECT_PLACE, project).replace("${HOME}", home)

    command, args, env = config.get("command"), config.get("args"), config.get("env")
    if not isinstance(command, str) or not command.strip() or not isinstance(args, list | None):
        return ()
    variables = env if isinstance(env, Mapping) else {}
    words = [filled(word) for word in (command, *(args or ()))]
    if program_name(words[0]) in CONTAINERS:
        return ()
    return named_files(words, cwd, {name: filled(value) for name, value in variables.items()})


def named_files(
    words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None
) -> tuple[NamedFile, ...]:
    """The files that a command line names, each once, in the order of its words.

    ``words`` are filled in, ``env`` are the variables that the program gets.
    """
    found: dict[Path, NamedFile] = {}
    for one in _Line(tuple(words), cwd, env or {}).files():
        found.setdefault(one.path, one)
    return tuple(found.values())


class _Line:
    """One command line."""

    def __init__(self, words: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> None:
        self._words, self._cwd, self._env = words, cwd, env

    def files(self) -> Iterator[NamedFile]:
        """The files that it names."""
        at = self._interpreter()
        name = program_name(self._words[at])
        if _PYTHON.fullmatch(name):
            yield from self._python(at + 1)
        elif _SHELL.fullmatch(name):
            yield from self._shell(at + 1)
        elif _SCRIPTS.fullmatch(name):
            yield from self._scripts(at + 1)
        else:
            yield from self._other(at)

    def _interpreter(self) -> int:
        """The place of the interpreter: behind ``env A=b``, ``uv run`` and similar."""
        if not _WRAPPERS.fullmatch(program_name(self._words[0])):
            return 0
        known = (_PYTHON, _SHELL, _SCRIPTS)
        for at, word in enumerate(self._words[1:], 1):
            if any(one.fullmatch(program_name(word)) for one in known):
                return at
        return 0

    def _file(self, at: int, word: str, prefix: str = "") -> Iterator[NamedFile]:
        path = self._path(word)
        if os.path.isfile(path):  # noqa: PTH113 - says no to names that no system takes
            yield NamedFile(path=path, at=at, prefix=prefix, folder=path.parent)

    def _path(self, word: str) -> Path:
        word = word.removeprefix("file://")
        return Path(os.path.normpath(self._cwd / word))

    def _python(self, at: int) -> Iterator[NamedFile]:
        letters = ""
        while at < len(self._words):
            word = self._words[at]
            flag = PYTHON_FLAG.match(word)
            if flag:
                letters += flag[1]
                rest = word[flag.end() :] or "".join(self._words[at + 1 : at + 2])
                folders = self._module_folders(letters)
                where = at if word[flag.end() :] else at + 1
                if flag[2] == "m":
                    yield from self._module(rest, where, folders)
                else:
                    yield from self._of_python(rest, folders)
                return
            if not word.startswith("-") or word == "-":
                yield from self._file(at, word)
                yield from self._main_of(at, word)
                return
            letters += word[1:]
            at += 2 if word in _TAKES_VALUE else 1

    def _module_folders(self, letters: str) -> list[Path]:
        own = [] if {"I", "P"} & set(letters) else [self._cwd]
        listed = "" if {"I", "E"} & set(letters) else self._env.get("PYTHONPATH", "")
        return own + [self._path(one) for one in listed.split(os.pathsep) if one]

    def _main_of(self, at: int, word: str) -> Iterator[NamedFile]:
        main = self._path(word) / "__main__.py"
        if os.path.isfile(main):  # noqa: PTH113
            yield NamedFile(path=main, at=at, folder=main.parent)

    def _module(self, name: str, at: int, folders: Sequence[Path]) -> Iterator[NamedFile]:
        """The file of a module: the package before the file, as Python has it."""
        if not re.fullmatch(r"\w+(\.\w+)*", name):
            return
        for folder in folders:
            base = folder.joinpath(*name.split("."))
            for path in (base / "__main__.py", base.with_name(f"{base.name}.py")):
                if os.path.isfile(path):  # noqa: PTH113
                    yield NamedFile(path=path, at=at, folder=folder, module=name)
                    return

    def _of_python(self, code: str, folders: Sequence[Path]) -> Iterator[NamedFile]:
        """The modules of the folders that some code imports: step (4)."""
        from ryeos.trust.start_files import imported_names

        names = imported_names(code.encode("utf-8", "surrogateescape"))
        for folder in folders:
            entries = sorted(folder.iterdir()) if folder.is_dir() else []
            for entry in entries:
                if entry.name.lower().partition(".")[0] not in names:
                    continue
                path = entry / "__init__.py" if entry.is_dir() else entry
                if path.suffix == ".py" and path.is_file():
                    yield NamedFile(path=path, folder=folder)

    def _in_code(self, code: str) -> Iterator[NamedFile]:
        for match in _RELATIVE.finditer(code):
            yield from self._script(-1, match[1])

    def _shell(self, at: int) -> Iterator[NamedFile]:
        while at < len(self._words):
            word = self._words[at]
            if re.fullmatch(r"-[A-Za-z]*c", word):
                yield from self._of_shell("".join(self._words[at + 1 : at + 2]))
                return
            if word in _LOADS:
                yield from self._file(at + 1, "".join(self._words[at + 1 : at + 2]))
            if not word.startswith(("-", "+")):
                yield from self._file(at, word)
                return
            at += 2 if word in _LOADS or word in _TAKES_VALUE else 1

    def _of_shell(self, code: str) -> Iterator[NamedFile]:
        """The files of code or of programs that a line for a shell names."""
        try:
            lexer = shlex.shlex(code, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            return
        commands: list[list[str]] = [[]]
        for word in words:
            if word and not word.strip(";&|()<>"):
                commands.append([])
            elif commands[-1] or word != "exec":
                commands[-1].append(word)
        for command in filter(None, commands):
            if program_name(command[0]) in {"cd", ".", "source"}:
                command.pop(0)
            for one in _Line(tuple(command), self._cwd, self._env).files() if command else ():
                yield NamedFile(path=one.path, folder=one.folder)

    def _scripts(self, at: int) -> Iterator[NamedFile]:
        while at < len(self._words):
            word = self._words[at]
            name, equals, value = word.partition("=")
            if name in _LOADS:
                where = at if equals else at + 1
                value = value if equals else "".join(self._words[at + 1 : at + 2])
                yield from self._script(where, value, f"{name}=" if equals else "")
                at = where
            elif name in ("-e", "--eval", "-p", "--print", "-pe"):
                yield from self._in_code(value if equals else "".join(self._words[at + 1 : at + 2]))
                return
            elif word in _COMMANDS and not os.path.isfile(self._path(word)):  # noqa: PTH113
                yield from self._file(-1, "package.json") if word == "start" else ()
            elif word in _TAKES_VALUE:
                at += 1
            elif not word.startswith("-"):
                found = tuple(self._script(at, word))
                # The name of a script: the file beside says what it starts.
                yield from found or self._file(-1, "package.json")
                return
            at += 1

    def _script(self, at: int, word: str, prefix: str = "") -> Iterator[NamedFile]:
        """A file as Node finds it: also without its suffix, or by its folder."""
        path = self._path(word)
        places = (path, *(Path(f"{path}{suffix}") for suffix in _WITHOUT_SUFFIX))
        for place in (*places, *(path / name for name in self._mains(path))):
            if os.path.isfile(place):  # noqa: PTH113
                yield NamedFile(path=place, at=at, prefix=prefix, folder=place.parent)
                return

    def _mains(self, folder: Path) -> tuple[str, ...]:
        """The files of a folder that Node looks for, in its order."""
        import json

        try:
            said = json.loads((folder / "package.json").read_text("utf-8"))
            main = said.get("main") if isinstance(said, dict) else None
        except (OSError, ValueError, RecursionError):
            main = None
        names = (main, f"{main}.js", f"{main}/index.js") if isinstance(main, str) else ()
        return (*names, *_INDEXES)

    def _other(self, at: int) -> Iterator[NamedFile]:
        """A program by its path, or the first file of code, and what is loaded before it."""
        words = self._words
        if "/" in words[at] or "\\" in words[at]:
            yield from self._file(at, words[at])
            return
        for place, word in enumerate(words[at + 1 :], at + 1):
            if word == "-m":
                name = "".join(words[place + 1 : place + 2])
                yield from self._module(name, place + 1, self._module_folders(""))
                return
            if word.lower().endswith(CODE_SUFFIXES):
                found = tuple(self._file(place, word))
                yield from found
                if found and words[place - 1] not in _LOADS:
                    return
