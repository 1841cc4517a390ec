"""The runners of tasks that the commands of a shell start, with the file and the names of each.

One rule for make, npm, just and mise: what such a command runs is shown, or the task is refused.
Here a command is read as its runner reads it; `ryeos.imports.followed_tasks` finds the file. Pure.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType

from lillux.values import dataclass, replace
from ryeos.imports.shell_commands import UNKNOWN, Command, commands_of, joined_folder

PATTERN = "pattern\n"
"""Stands before a name in which ``*`` stands for several scripts."""
_ENDINGS = re.compile(r"\.(?:exe|cmd|bat)$")
_PACKAGE_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun", "yarnpkg"})
_RUN_ALL = frozenset({"npm-run-all", "npm-run-all2", "run-s", "run-p"})
_CONCURRENT = frozenset({"concurrently", "conc"})
OTHERS = frozenset(
    {"turbo", "nx", "lerna", "wireit", "rush", "moon", "gulp", "grunt", "rake", "task", "go-task"}
    | {"ninja", "tox", "nox", "invoke", "poe"}
)
"""Runners whose files are not read."""
# Programs that start what stands behind their options.
_WRAPPER_WORDS = """
env sudo doas nice nohup exec command builtin eval xargs find cross-env cross-env-shell dotenv
dotenvx env-cmd npx pnpx bunx timeout gtimeout stdbuf ionice setsid poetry pipenv uv hatch pdm
direnv chronic strace ltrace watch watchexec entr parallel nodemon op doppler infisical busybox
script unbuffer caffeinate xvfb-run systemd-run time if-env start-server-and-test sst"""
_WRAPPERS = frozenset(_WRAPPER_WORDS.split())
_ASSIGNMENT = re.compile(r"[A-Za-z_][\w.-]*[:?+!]*=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A runner that a command starts.

    runner   ``make``, ``npm`` (for all that read a package.json), ``just`` or ``mise``
    folder   where it looks for its file; with ``is_fixed`` not in those above
    file     the file that its arguments name, ``""`` for the one that it finds
    names    what it runs; ``()`` for what it runs by itself
    optional names that it runs where they are there
    given    variables that are set for it
    spaces   workspaces of a package by name or folder; ``*`` for all
    alone    whether a name runs without those before and after it
    problem  why what it runs is not known
    """

    runner: str
    folder: str | None = ""
    is_fixed: bool = False
    file: str = ""
    names: tuple[str, ...] = ()
    optional: bool = False
    given: frozenset[str] = frozenset()
    spaces: tuple[str, ...] = ()
    alone: bool = False
    problem: str = ""


def starts_of(text: str, folder: str | None = "") -> Iterator[Start]:
    """The runners that a text for a shell starts, in its order."""
    for command in commands_of(text, folder):
        yield from _starts_of_command(command)


def _starts_of_command(command: Command) -> Iterator[Start]:
    words = command.words
    if command.is_cut:
        yield Start(runner="commands", problem="there are more of them than are read")
        return
    at = _place_of_runner(words)
    if at is None:
        return
    program, rest = _program(words[at]), words[at + 1 :]
    if at and {"xargs", "parallel", "find", "fd"} & {one.rpartition("/")[2] for one in words[:at]}:
        rest = tuple(one.replace("{}", UNKNOWN) for one in rest)
        rest = rest if any(UNKNOWN in one for one in rest) or "find" in words else (*rest, UNKNOWN)
    given = command.given | {one.partition("=")[0] for one in words[:at] if "=" in one}
    if command.folder is None:
        if runs := list(_READERS[program](program, rest, "")):
            yield replace(runs[0], problem="it starts in a folder that only its shell knows")
        return
    for start in _READERS[program](program, rest, command.folder):
        yield replace(start, given=start.given | given)


def _place_of_runner(words: Sequence[str]) -> int | None:
    """The place of a runner's name: the program itself, or the program that another one starts."""
    if not words:
        return None
    if _program(words[0]) in _READERS:
        return 0
    name = words[0].rpartition("/")[2]
    behind = (at for at, word in enumerate(words) if at and _program(word) in _READERS)
    for at in behind:
        if name in _WRAPPERS or words[at - 1] in {"--", "-exec", "-execdir", "-c"}:
            return at
    return None


def _program(word: str) -> str:
    """The name of a program that is found by its name, or in a folder of programs."""
    if word in {"\0npm_execpath\0", "\0npm_node_execpath\0"}:
        return "npm" if word == "\0npm_execpath\0" else "node"
    if word == "\0MAKE\0":
        return "make"
    folder, _, name = word.rpartition("/")
    if folder and not folder.startswith("/") and not folder.endswith("node_modules/.bin"):
        return ""
    return _ENDINGS.sub("", name)


class _Words:
    """The words of a command, read from the left: options with their values, and the others."""

    def __init__(self, words: Sequence[str], valued: frozenset[str], *, glued: str = "") -> None:
        self._words = list(words)
        self._valued = valued
        self._glued = glued  # letters whose value may stand right behind them
        self.options: list[tuple[str, str]] = []
        self.others: list[str] = []
        self.behind: list[str] = []

    def read(self, *, until_first: bool = False) -> "_Words":
        """Read all words, or those up to the first that is no option."""
        while self._words:
            word = self._words.pop(0)
            if word == "--":
                self.behind = self._words
                break
            if not word.startswith("-") or word == "-":
                self.others.append(word)
                if until_first:
                    break
                continue
            self._option(word)
        return self

    @property
    def rest(self) -> list[str]:
        """The words that were not read."""
        return self._words

    def _option(self, word: str) -> None:
        name, has_value, value = word.partition("=")
        if not has_value and not word.startswith("--") and word[1:2] in self._glued and word[2:]:
            name, has_value, value = word[:2], "=", word[2:]
        elif not has_value and word in self._valued and self._words:
            value = self._words.pop(0)
        self.options.append((name, value))

    def value(self, *names: str) -> str:
        """The last value of an option; ``""`` for none."""
        return next((value for name, value in reversed(self.options) if name in names), "")

    def has(self, *names: str) -> bool:
        """True if one of the options is there."""
        return any(name in names for name, _ in self.options)


_MAKE_VALUED_WORDS = """
-C --directory -f --file --makefile -I --include-dir -o --old-file --assume-old -W --what-if
--new-file --assume-new -E --eval --jobserver-auth"""
_MAKE_VALUED = frozenset(_MAKE_VALUED_WORDS.split())
_MAKE_COUNTED = frozenset({"-j", "-l", "--jobs", "--load-average", "--max-load", "-O"})


def _make(_: str, words: Sequence[str], folder: str) -> Iterator[Start]:
    read = _Words(_without_counts(words), _MAKE_VALUED, glued="CfIoWjlE").read()
    read.others += read.behind
    start = Start(runner="make", folder=folder, is_fixed=True)
    files = [value for name, value in read.options if name in {"-f", "--file", "--makefile"}]
    for name, value in read.options:
        if name in {"-C", "--directory"}:
            start = replace(start, folder=joined_folder(start.folder, value))
    given = {re.split("[:?+!]*=", one)[0] for one in read.others if _ASSIGNMENT.match(one)}
    names = [one for one in read.others if not _ASSIGNMENT.match(one)]
    if start.folder is None:
        yield replace(start, problem="it starts in a folder that is not known before it runs")
    elif len(files) > 1 or any(UNKNOWN in one or one == "-" for one in files):
        yield replace(start, problem="expected one file by its name")
    elif read.has("-E", "--eval", "-e", "--environment-overrides", "-I", "--include-dir"):
        yield replace(start, problem="expected no option that changes the rules of the file")
    elif any(UNKNOWN in one for one in [*names, *given, *(name for name, _ in read.options)]):
        yield replace(start, problem="it runs names that are not known before it runs")
    else:
        yield replace(start, file="".join(files), names=tuple(names), given=frozenset(given))


def _without_counts(words: Sequence[str]) -> list[str]:
    """The words without ``-j 4``: a number that an option may have."""
    kept: list[str] = []
    for number, word in enumerate(words):
        is_count = number > 0 and words[number - 1] in _MAKE_COUNTED
        if is_count and (word.isdigit() or (word.startswith(UNKNOWN) and word.endswith(UNKNOWN))):
            continue
        if not (word.startswith(("-j", "-l")) and UNKNOWN in word):
            kept.append(word)
    return kept


_FOLDERS = frozenset({"--prefix", "-C", "--cwd", "--dir"})
_NPM_VALUED_WORDS = """
-w --workspace --loglevel --script-shell --node-options --registry --cache --userconfig --omit
--include --only --tag --access --otp --scope --location --save-prefix --filter -F --reporter
--workspace-concurrency --preid --message -m"""
_NPM_VALUED = _FOLDERS | frozenset(_NPM_VALUED_WORDS.split())
_RUN = frozenset({"run", "run-script", "rum", "urn"})
_INSTALL_WORDS = """
install i in ins inst insta instal isnt isnta isntal isntall ci clean-install ic install-clean
isntall-clean rebuild rb"""
_INSTALLS = frozenset(_INSTALL_WORDS.split())
_INSTALL_TESTS_WORDS = """
install-test it install-ci-test cit clean-install-test sit"""
_INSTALL_TESTS = frozenset(_INSTALL_TESTS_WORDS.split())
_ADDS_WORDS = """
add update up upgrade udpate uninstall un unlink remove rm r dedupe ddp prune link ln"""
_ADDS = frozenset(_ADDS_WORDS.split())
_AT_INSTALL = (
    "preinstall",
    "install",
    "postinstall",
    "prepublish",
    "prepare",
    "dependencies",
)
_LIFE_CYCLES = MappingProxyType(
    {
        **dict.fromkeys(_INSTALLS, _AT_INSTALL),
        **dict.fromkeys(_INSTALL_TESTS, (*_AT_INSTALL, "test")),
        **dict.fromkeys(_ADDS, ("dependencies",)),
        "pack": ("prepack", "prepare", "postpack"),
        "publish": (
            *("prepublish", "prepublishOnly", "prepack", "prepare", "postpack"),
            *("publish", "postpublish"),
        ),
        "version": ("preversion", "version", "postversion"),
        "diff": ("prepare",),
    }
)
_SHORT = MappingProxyType(
    {
        **dict.fromkeys(("test", "tst", "t"), "test"),
        **{name: name for name in ("start", "stop", "restart")},
    }
)
_NO_SCRIPTS_WORDS = """
access adduser audit bin bugs cache completion config c create dlx deprecate dist-tag docs doctor
edit exec explain find-dupes fund get help help-search hook info init innit list la ll login
logout ls node org outdated owner patch ping pkg prefix profile query repo root sbom search set
show shrinkwrap star stars store team token unpublish v view whoami why x"""
_NO_SCRIPTS = frozenset(_NO_SCRIPTS_WORDS.split())
_BUN_OWN = frozenset({"build", "test", "pm", "upgrade", "repl", "index.ts"})


def _npm(program: str, words: Sequence[str], folder: str) -> Iterator[Start]:
    """A command of npm, or of those that take its words."""
    read = _Words(words, _NPM_VALUED).read()
    if program == "pnpm" and "-w" in words:  # its root, where npm has a workspace
        read = _Words(words, _NPM_VALUED - {"-w"}).read()
    start = Start(runner="npm", folder=folder)
    for name, value in read.options:
        if name in _FOLDERS:
            start = replace(start, folder=joined_folder(start.folder, value), is_fixed=True)
    verb, names = read.others[0] if read.others else "", read.others[1:]
    if not verb and program in {"npm", "pnpm", "bun"}:
        return
    if read.has("-v", "--version", "--help", "-h") or verb in _NO_SCRIPTS:
        return
    if start.folder is None:
        yield replace(start, problem="it starts in a folder that is not known before it runs")
        return
    if problem := _problem_of_options(program, read):
        yield replace(start, problem=problem)
        return
    yield from _npm_verb(program, verb, names, replace(start, spaces=_spaces(program, read)))


def _problem_of_options(program: str, read: _Words) -> str:
    if any(UNKNOWN in name for name, _ in read.options) or UNKNOWN in "".join(read.others[:1]):
        return "it runs a command that is not known before it runs"
    asked = [name for name in ("-r", "--recursive", "--filter", "-F") if read.has(name)]
    if program == "pnpm" and read.has("-w", "--workspace-root"):
        asked.append("-w")
    verb = read.others[0] if read.others else ""
    if asked or verb in {"workspace", "workspaces", "explore", "recursive", "multi", "m"}:
        return f"{program} {(asked or [verb])[0]}: the packages that it runs in are not read"
    return ""


def _spaces(program: str, read: _Words) -> tuple[str, ...]:
    if program != "npm":
        return ()
    named = [value for name, value in read.options if name in {"-w", "--workspace"}]
    if read.has("--workspaces", "-ws", "--ws"):
        named.append("*")
    if read.has("--include-workspace-root", "-iwr") and named:
        named.append(".")
    return tuple(named)


def _npm_verb(program: str, verb: str, names: list[str], start: Start) -> Iterator[Start]:
    if verb in _RUN:
        if names:
            yield _named(start, names[:1])
    elif program == "bun" and verb in _BUN_OWN:
        return
    elif verb in _SHORT:
        yield _named(start, [_SHORT[verb]])
    elif program != "npm" and not verb:
        yield replace(start, names=_AT_INSTALL, optional=True)
    elif verb in _LIFE_CYCLES:
        is_other = verb in _INSTALLS and verb not in {"ci", "rebuild", "rb"} and names
        cycle = ("dependencies",) if is_other else _LIFE_CYCLES[verb]
        yield replace(start, names=cycle, optional=True)
    elif program != "npm":  # `yarn build` runs the script, or a program of node_modules
        yield replace(_named(start, [verb]), optional=True)
    else:
        yield replace(start, problem=f"npm {verb}: a command that is not known here")


def _named(start: Start, names: Sequence[str]) -> Start:
    if any(UNKNOWN in one for one in names):
        return replace(start, problem="it runs a script that is not known before it runs")
    return replace(start, names=tuple(names))


def _run_all(_: str, words: Sequence[str], folder: str) -> Iterator[Start]:
    """``npm-run-all`` and its kin: patterns in which ``*`` stops at a colon."""
    start = Start(runner="npm", folder=folder)
    for word in words:
        if word == "--":
            return
        name = word.split()[0] if word.split() else ""
        if name and not name.startswith("-") and not name.isdigit():
            unknown = "{" in name or name.startswith("!")
            yield (
                replace(start, problem=f"{name[:40]}: a pattern that is not read")
                if (unknown)
                else _named(start, [f"{PATTERN}{name}"])
            )


def _concurrently(_: str, words: Sequence[str], folder: str) -> Iterator[Start]:
    """``concurrently npm:a "npm:b-*"``; other words are commands, read on their own."""
    for word in words:
        found = re.match(r"(?:npm|pnpm|yarn|bun|node):(\S+)", word)
        if found:
            name = found[1]
            start = Start(runner="npm", folder=folder, alone=word.startswith("node:"))
            yield (
                replace(start, problem=f"{name[:40]}: a pattern that is not read")
                if ("(" in name)
                else _named(start, [f"{PATTERN}{name.replace('*', '**')}"])
            )


def _node(_: str, words: Sequence[str], folder: str) -> Iterator[Start]:
    """``node --run NAME``."""
    for number, word in enumerate(words):
        if word == "--run" or word.startswith("--run="):
            name = word.partition("=")[2] or "".join(words[number + 1 : number + 2])
            yield _named(Start(runner="npm", folder=folder, alone=True), [name])
            return
        if not word.startswith("-"):
            return


_JUST_VALUED_WORDS = """
-f --justfile -d --working-directory --set --shell --shell-arg --color --command-color --dotenv-
filename -E --dotenv-path --timestamp-format --chooser --list-heading --tempdir --cygpath
--ceiling"""
_JUST_VALUED = frozenset(_JUST_VALUED_WORDS.split())
_JUST_OTHER_WORDS = """
-l --list --summary --dump -e --edit --evaluate --fmt --init -s --show --variables --groups
--completions -V --version -h --help --man --changelog --usage --json"""
_JUST_OTHER = frozenset(_JUST_OTHER_WORDS.split())


def _just(_: str, words: Sequence[str], folder: str) -> Iterator[Start]:
    words = list(words)
    while "--set" in words and len(words) > words.index("--set") + 2:
        at = words.index("--set")  # the one option with two values
        words[at : at + 3] = [f"--set={words[at + 1]}"]
    read = _Words(words, _JUST_VALUED, glued="fdE").read(until_first=True)
    if read.has(*_JUST_OTHER):
        return
    start = Start(runner="just", folder=folder, file=read.value("-f", "--justfile"))
    start = replace(
        start, given=frozenset(value for name, value in read.options if name == "--set")
    )
    names = [*read.others, *read.behind, *read.rest]
    while names and _ASSIGNMENT.match(names[0]) and ":" not in names[0].partition("=")[0]:
        start = replace(start, given=start.given | {names.pop(0).partition("=")[0]})
    if read.has("--choose", "-c", "--command", "-g", "--global-justfile"):
        yield replace(start, problem="it runs what is not known before it runs")
    elif read.has("-d", "--working-directory"):
        yield replace(start, problem="--working-directory: where its lines run is not read")
    elif UNKNOWN in start.file or any(UNKNOWN in one for one in names[:1]):
        yield replace(start, problem="it runs a recipe that is not known before it runs")
    else:
        yield _below(start, names)


def _below(start: Start, names: list[str]) -> Start:
    """``just sub/test`` runs ``test`` as the justfile in ``sub`` says it."""
    place, mark, name = names[0].rpartition("/") if names else ("", "", "")
    if not mark:
        return replace(start, names=tuple(names))
    folder = joined_folder(start.folder, place or "/")
    problem = "" if folder is not None else "it starts in a folder outside of the project"
    names = [*([name] if name else []), *names[1:]]
    return replace(start, folder=folder, names=tuple(names), problem=problem)


_MISE_VALUED_WORDS = """
-C --cd -E --env -j --jobs -t --tool -o --output -s --shell --log-level --timeout -i --interval"""
_MISE_VALUED = frozenset(_MISE_VALUED_WORDS.split())
_MISE_RUNS = frozenset({"run", "r", "watch", "w"})
_MISE_OWN_WORDS = """
activate alias backends bin-paths bootstrap cache completion config cfg current deactivate doctor
dr edit en env e exec x fmt generate gen github global hook-env implode install i install-into
latest link ln list ls ls-remote local lock mcp outdated plugins p prepare prune registry reshim
search self-update set settings shell sh sync test-tool token tool tool-alias tool-stub trust
uninstall un unset untrust unuse unlink upgrade up usage use u version where which tasks t task
help"""
_MISE_OWN = frozenset(_MISE_OWN_WORDS.split())


def _mise(_: str, words: Sequence[str], folder: str) -> Iterator[Start]:
    read = _Words(words, _MISE_VALUED).read(until_first=True)
    start = Start(runner="mise", folder=joined_folder(folder, read.value("-C", "--cd") or "."))
    if read.has("--version", "-V", "--help", "-h"):
        return
    verb, rest = "".join(read.others), read.rest or read.behind
    if verb in {"tasks", "t", "task"} and rest[:1] in (["run"], ["r"]):
        verb, rest = "run", rest[1:]
    if verb in _MISE_OWN or not verb:
        return
    if verb in _MISE_RUNS:
        yield from _mise_run(_Words(rest, _MISE_VALUED).read(until_first=True), start)
    else:
        yield from _mise_names([verb, *rest], start)


def _mise_run(read: _Words, start: Start) -> Iterator[Start]:
    place = read.value("-C", "--cd") or "."
    start = replace(start, folder=joined_folder(start.folder, place))
    yield from _mise_names([*read.others, *read.behind, *read.rest], start)


def _mise_names(words: Sequence[str], start: Start) -> Iterator[Start]:
    """The first word, and the first behind each ``:::``; the others are arguments."""
    names = [one for at, one in enumerate(words) if at == 0 or words[at - 1] == ":::"]
    if start.folder is None:
        yield replace(start, problem="it starts in a folder that is not known before it runs")
    elif any(one.startswith("//") or UNKNOWN in one for one in names):
        yield replace(start, problem="it runs a task that is not known before it runs")
    else:
        yield replace(start, names=tuple(names))


def _other(program: str, _: Sequence[str], folder: str) -> Iterator[Start]:
    """A runner whose file is not read: that is said in the place of what it runs."""
    yield Start(runner=program, folder=folder)


_Reads = Callable[[str, Sequence[str], str], Iterator[Start]]
_READERS: MappingProxyType[str, _Reads] = MappingProxyType(
    {
        **dict.fromkeys(("make", "gmake"), _make),
        **dict.fromkeys(_PACKAGE_RUNNERS, _npm),
        **dict.fromkeys(_RUN_ALL, _run_all),
        **dict.fromkeys(_CONCURRENT, _concurrently),
        **dict.fromkeys(OTHERS, _other),
        "node": _node,
        "just": _just,
        "mise": _mise,
    }
)
