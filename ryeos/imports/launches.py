"""Starts of servers in entries of a client's settings, read as what an item may say.

(1) placeholders of clients become those of items: ``${env:NAME}``, ``${workspaceFolder}``
(2) a command line inside a shell is not taken: what it starts cannot be known, pinned or confined
(3) values that look like secrets become variables, see `Secrets`
(4) a package that ``npx``, ``uvx`` and similar would fetch is separated from its arguments
(5) rights are proposed from what the words name
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.run.server_command import CONTAINERS, program_name


class EntryError(RyeError):
    """An entry that no server item can be made of. The others are read all the same."""

    code = "IMPORT_UNREADABLE"


_SHELLS = frozenset(
    {
        *(
            "sh",
            "bash",
            "dash",
            "zsh",
            "ksh",
            "fish",
            "csh",
            "tcsh",
            "busybox",
            "cmd",
            "powershell",
        ),
        *("pwsh", "wsl", "su", "sudo", "ssh", "xargs", "eval"),
    }
)
_SHELL_FLAG = re.compile(r"(?i)-[a-z]*c|/[ck]|-command|-encodedcommand|-ec?")
_MARKS = frozenset(";&|<>`()\n")


def words_of(command: str, args: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line: steps (1) and (2). Raises EntryError for one in a shell."""
    words = (command, *args)
    if not args and " " in command.strip() and not re.match(r"[^ ]*[/\\]", command):
        words = _split(command)
    if program_name(words[0]) == "cmd" and len(words) > 2 and words[1].lower() == "/c":  # noqa: PLR2004
        words = words[2:]  # what it is for, finding npx.cmd, Rye does by itself
    name = program_name(words[0])
    flagged = any(_SHELL_FLAG.fullmatch(word) for word in words[1:])
    if name in _SHELLS and (flagged or name in ("sudo", "su", "ssh", "xargs", "wsl", "cmd")):
        shown = shlex.join(words)[:80]
        raise EntryError(
            f"it starts a shell, which could run anything: {shown}",
            hint="name the program itself; or, once you read it: rye mcp add NAME -- PROGRAM",
        )
    if "$" in re.sub(r"\$\{HOME\}", "", words[0]):
        raise EntryError("command: expected a program, found a variable in its place")
    return words


def _split(command: str) -> tuple[str, ...]:
    if _MARKS & set(command):
        raise EntryError(f"command: expected a program, found a line for a shell: {command[:60]}")
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise EntryError(f"command: {error}") from None


_NPM_SPEC = re.compile(r"(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(@[\w.^~*+<>=|-]+)?")
_PYPI_SPEC = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,-]+\])?((==|>=|<=|~=|!=|<|>|@)[\w.*+!,<>=~-]+)?")
_IMAGE = re.compile(
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
LOCAL_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".jar", ".exe")
NPM, PYPI = "npm", "pypi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that a launcher would fetch: its ecosystem, its spec, and the program in it."""

    ecosystem: str
    spec: str
    program: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line. ``held`` says, for a person, what of it can be pinned.

    package  what is fetched; the words are its arguments then
    file     the local file that is the server, ``""`` for none
    """

    words: tuple[str, ...]
    held: str
    package: Package | None = None
    file: str = ""
    notes: tuple[str, ...] = field(default=())


def launch_of(words: Sequence[str]) -> Launch:
    """The package or program that a command line starts: step (4)."""
    name = program_name(words[0])
    if name in _LAUNCHERS:
        found = _LAUNCHERS[name](list(words[1:]))
        if found:
            return found
        return Launch(
            words=tuple(words), held=f"tools only: {name} with words that Rye cannot read"
        )
    if name in CONTAINERS:
        return _container(words)
    file = _local_file(words)
    if file:
        return Launch(words=tuple(words), held="file, tools", file=file)
    return Launch(words=tuple(words), held=f"tools only: {name} is whatever the PATH has")


def _npx(words: list[str]) -> Launch | None:
    spec = ""
    while words and words[0].startswith("-"):
        flag, equals, value = words.pop(0).partition("=")
        if flag in ("-p", "--package"):
            spec = value if equals else (words.pop(0) if words else "")
        elif flag == "--":
            break
        elif flag not in ("-y", "--yes", "-q", "--quiet", "--prefer-offline", "--prefer-online"):
            return None
    program = words.pop(0) if spec and words else ""
    spec = spec or (words.pop(0) if words else "")
    return _package_launch(NPM, spec, _NPM_SPEC, program, words)


def _npm(words: list[str]) -> Launch | None:
    return _npx(words[1:]) if words[:1] in (["exec"], ["x"]) else None


def _dlx(words: list[str]) -> Launch | None:
    return _npx(words[1:]) if words[:1] in (["dlx"], ["x"]) else None


def _uvx(words: list[str]) -> Launch | None:
    spec = ""
    while words and words[0].startswith("-"):
        flag, equals, value = words.pop(0).partition("=")
        if flag in ("--from", "--spec"):
            spec = value if equals else (words.pop(0) if words else "")
        elif flag in ("-p", "--python"):
            words = words if equals else words[1:]
        elif flag not in ("-q", "--quiet", "--isolated", "--refresh", "-n", "--no-cache"):
            return None
    program = words.pop(0) if words else ""
    spec = (spec or program).removesuffix("@latest")
    program = re.split(r"[@\[=<>~!]", program)[0]
    if "@" in spec and "==" not in spec:
        spec = spec.replace("@", "==", 1)
    return _package_launch(PYPI, spec, _PYPI_SPEC, program, words)


def _uv(words: list[str]) -> Launch | None:
    return _uvx(words[2:]) if words[:2] == ["tool", "run"] else None


def _pipx(words: list[str]) -> Launch | None:
    return _uvx(words[1:]) if words[:1] == ["run"] else None


_LAUNCHERS: Mapping[str, Callable[[list[str]], Launch | None]] = {
    "npx": _npx,
    "bunx": _npx,
    "npm": _npm,
    "pnpm": _dlx,
    "yarn": _dlx,
    "uvx": _uvx,
    "uv": _uv,
    "pipx": _pipx,
}


def _package_launch(
    ecosystem: str, spec: str, form: re.Pattern[str], program: str, words: list[str]
) -> Launch | None:
    if not form.fullmatch(spec):
        return None  # an address, a folder, a branch: nothing that an index gives a hash for
    package = Package(ecosystem=ecosystem, spec=spec, program=program)
    return Launch(words=tuple(words), held=f"{ecosystem} package {spec}, tools", package=package)


# Flags of ``run`` that no value follows; any other long or short one is followed by its value.
_ALONE = re.compile(r"-[itdPq]+|--(?:rm|init|interactive|tty|detach|privileged|read-only|quiet)")


def _container(words: Sequence[str]) -> Launch:
    rest, image = list(words[1:]), ""
    if rest[:1] == ["container"]:
        rest.pop(0)
    if rest[:1] == ["run"]:
        rest.pop(0)
        while rest and not image:
            word = rest.pop(0)
            if not word.startswith("-"):
                image = word
            elif "=" not in word and not _ALONE.fullmatch(word) and rest:
                rest.pop(0)
    found = _IMAGE.fullmatch(image)
    if found and found[1]:
        return Launch(words=tuple(words), held="image by digest, tools")
    note = f"its image may change: write it as {image or 'IMAGE'}@sha256:DIGEST, and import again"
    held = "tools only: an image without digest"
    return Launch(words=tuple(words), held=held, notes=(note,))


def _local_file(words: Sequence[str]) -> str:
    """The file that a command line runs: a program by its path, or what an interpreter gets."""
    if _is_path(words[0]) and not re.match(
        r"(?i)(python|node|deno|bun|ruby|java)", program_name(words[0])
    ):
        return words[0]
    for word in words[1:]:
        if word in ("-m", "-c", "-e", "--eval"):
            return ""
        if word.lower().endswith(LOCAL_SUFFIXES):
            return word
    return ""


def _is_path(word: str) -> bool:
    return "/" in word or "\\" in word
