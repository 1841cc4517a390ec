"""How an entry of a client's settings starts a server, read as what an item may say.

(1) placeholders of clients become those of items: ``${env:NAME}``, ``${workspaceFolder}``
(2) a command line inside a shell is not taken: what it starts cannot be known, pinned or confined
(3) values that look like secrets become variables, see `Secrets`
(4) a package that ``npx``, ``uvx`` and similar would fetch is separated from its arguments
(5) rights are proposed from what the words name
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any

from lillux.secret_names import says_secret
from lillux.values import dataclass, field
from ryeos.imports.plan import ImportSource, MovedSecret
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.rights import ANY, LOOPBACK, NONE, read_rights
from ryeos.run.server_command import CONTAINERS, PROJECT_PLACE, program_name


class EntryError(RyeError):
    """An entry that no server item can be made of. The others are read all the same."""

    code = "IMPORT_UNREADABLE"


# --- placeholders ---------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}|\{env:([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_WITH_DEFAULT = re.compile(r"([A-Z_][A-Z0-9_]*):-[^{}]*")
_BARE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_REFERENCE = re.compile(r"\$\{[A-Z_][A-Z0-9_]*(?::-[^}]*)?\}|\{project_path\}")
_FIXED = {
    "workspaceFolder": PROJECT_PLACE,
    "workspaceRoot": PROJECT_PLACE,
    "userHome": "${HOME}",
    "pathSeparator": "/",
    "/": "/",
}


def own_folders(source: ImportSource) -> Mapping[str, str]:
    """Folders that a client puts in by a name of its own: that of a plugin, and of the project."""
    folder = source.path.absolute().parent
    folder = folder.parent if folder.name == ".claude-plugin" else folder
    place = str(folder)
    if source.project and folder.is_relative_to(source.project):
        below = folder.relative_to(source.project).as_posix()
        place = PROJECT_PLACE if below == "." else f"{PROJECT_PLACE}/{below}"
    project = {"CLAUDE_PROJECT_DIR": PROJECT_PLACE} if source.project else {}
    return {"CLAUDE_PLUGIN_ROOT": place, "extensionPath": place, **project}


def translated(
    text: str,
    where: str,
    own: Callable[[str], str],
    *,
    folders: Mapping[str, str] = MappingProxyType({}),
    bare: bool = False,
) -> str:
    """A text with the placeholders of items: step (1). Raises EntryError.

    ``folders`` are what `own_folders` says. ``own`` gives the variable for something that the
    client asks its user for. ``bare`` says that ``$NAME`` is a placeholder too.
    """
    if any(character < " " and character != "\t" for character in text) or "\x7f" in text:
        raise EntryError(f"{where}: expected a text of one line, found a control character")

    def replacement(found: re.Match[str]) -> str:
        inner = found[1] if found[1] is not None else f"env:{found[2]}"
        kind, _, name = inner.partition(":")
        folder = folders.get(name if kind == "env" else inner.partition(":-")[0])
        if folder is not None:
            return folder
        if inner in _FIXED or kind == "workspaceFolder":
            return _FIXED.get(inner, PROJECT_PLACE)
        if kind == "input" and name:
            return f"${{{own(name)}}}"
        if kind == "env" and _VARIABLE.fullmatch(name):
            return f"${{{name}}}"
        if _VARIABLE.fullmatch(inner) or _WITH_DEFAULT.fullmatch(inner):
            return found[0]
        raise EntryError(
            f"{where}: {found[0][:60]} is filled by the client alone; write a variable in capitals"
        )

    filled = _PLACEHOLDER.sub(replacement, text)
    filled = re.sub(r"\$(CLAUDE_\w+)", lambda one: folders.get(one[1], one[0]), filled)
    return _BARE.sub(r"${\1}", filled) if bare else filled


# --- words ----------------------------------------------------------------------------------------

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


# --- secrets --------------------------------------------------------------------------------------

_SECRET_SHAPE = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|sk-|[srp]k_(?:live|test)_|xox[a-z]-|xapp-|AKIA|ASIA|AIza"
    r"|ya29\.|npm_|pypi-|dop_v1_|hf_|shpat_|lin_api_|ntn_|figd_|pat-|patt?[A-Za-z0-9]{10}|SG\."
    r"|eyJ[\w-]{8,}\.)[\w.-]{8,}|-----BEGIN "
)
_LONG = re.compile(r"[A-Za-z0-9+/=_.-]{20,}")
_IN_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*://[^/\s@]*:[^/\s@]+@|[?&#][^=\s]*=")
_HARMLESS = re.compile(
    r"true|false|on|off|yes|no|null|[0-9]{1,6}|[0-9]+\.[0-9]+|[a-z]{1,16}|[A-Z]{1,10}"
    r"|(?:~|\.{0,2}|[A-Za-z]:)[/\\][\w .@+~/\\-]*"
    r"|https?://[\w.-]+(?::\d+)?(?:/[\w.-]{0,20})*|[\w-]+(?:\.[\w-]+)+(?::\d+)?"
)
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):\s*(\S.*)")
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w-]*)=(.+)", re.DOTALL)
_OF_A_FILE = re.compile(r"(?i)(file|path|dir|folder|name|id|type|alg\w*)$")
_PLAIN_HEADERS = frozenset({"accept", "content-type", "user-agent", "accept-language"})


def is_secret(value: str, name: str = "") -> bool:
    """Whether a value looks like a secret: by what it is called, or by what it looks like."""
    rest = _REFERENCE.sub("", value)
    if rest.strip().lower() in ("", "bearer", "basic", "token"):
        return False  # it is a reference already
    if _SECRET_SHAPE.search(rest) or _IN_ADDRESS.search(rest):
        return True
    if says_secret(name) and not _OF_A_FILE.search(name):
        return True
    return any(_is_random(found) for found in _LONG.findall(rest))


def _is_random(text: str) -> bool:
    """Whether a long word mixes letters and digits as no name or path does."""
    words = re.split(r"[/=_.+-]", text)
    longest = max(words, key=len)
    has_both = any(c.isdigit() for c in longest) and any(c.isalpha() for c in longest)
    return len(longest) >= 20 and has_both  # noqa: PLR2004


class Secrets:
    """Collects what is taken out of one entry, and says which variable stands in its place."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._values: dict[str, str] = {}
        self.prompted_variables: list[str] = []

    @property
    def moved(self) -> tuple[MovedSecret, ...]:
        """The values, by their variables."""
        return tuple(MovedSecret(name, value) for name, value in self._values.items())

    def variable_for_prompt(self, name: str) -> str:
        """The variable for what a client asks its user for: there is no value of it yet."""
        variable = self._variable_named(name)
        if variable not in self.prompted_variables:
            self.prompted_variables.append(variable)
        return variable

    def move(self, value: str, name: str, where: str) -> str:
        """The placeholder for a value. Raises EntryError for one with placeholders in it."""
        if _REFERENCE.search(value):
            raise EntryError(f"{where}: a secret and a variable in one value; put both in one")
        for variable, known in self._values.items():
            if known == value:
                return f"${{{variable}}}"
        variable, number = self._variable_named(name), 1
        while variable in self._values:
            number += 1
            variable = f"{self._variable_named(name)}_{number}"
        self._values[variable] = value
        return f"${{{variable}}}"

    def variable_value(self, name: str, value: str, where: str) -> str:
        """A value of ``env``: only what is harmless stays in the text: step (3)."""
        if not is_secret(value, name) and (_REFERENCE.search(value) or _HARMLESS.fullmatch(value)):
            return value
        return self.move(value, name, where) if _REFERENCE.sub("", value) else value

    def header_value(self, name: str, value: str, where: str) -> str:
        """A value of ``headers``; the word before a token stays."""
        rest = _REFERENCE.sub("", value).strip().lower()
        if name.lower() in _PLAIN_HEADERS or (_REFERENCE.search(value) and not is_secret(value)):
            return value
        scheme, blank, token = value.partition(" ")
        if blank and scheme.lower() in ("bearer", "basic", "token") and token.strip():
            return f"{scheme} {self.move(token.strip(), name, where)}"
        return self.move(value, name, where) if rest else value

    def words(self, words: Sequence[str]) -> Iterator[str]:
        """The arguments, with placeholders for what looks like a secret."""
        flag = ""
        for number, word in enumerate(words):
            where = f"args[{number}]"
            assigned, header = _ASSIGNED.fullmatch(word), _HEADER.fullmatch(word)
            is_address = "://" in word
            if assigned and not is_address and is_secret(assigned[2], assigned[1]):
                yield f"{assigned[1]}={self.move(assigned[2], assigned[1], where)}"
            elif header and not is_address and is_secret(header[2], header[1]):
                value = self.header_value(header[1], header[2], where)
                yield word[: word.index(header[2])] + value
            elif not word.startswith("-") and is_secret(word, flag):
                yield self.move(word, flag or "arg", where)
            else:
                yield word
            flag = word if word.startswith("-") and "=" not in word else ""

    def address(self, url: str) -> str:
        """An address; secrets in its path and behind its question mark become placeholders."""
        start, mark, query = url.partition("?")
        scheme, slashes, rest = start.partition("://")
        if "@" in rest.partition("/")[0]:
            raise EntryError("url: a password in an address; send it as a header")
        host, *segments = rest.split("/")
        path = [
            self.move(part, "path", "url")
            if _is_random(part) or _SECRET_SHAPE.search(part)
            else part
            for part in segments
        ]
        pairs = (pair.partition("=") for pair in query.split("&")) if mark else ()
        kept = [
            f"{name}{equals}{self.move(value, name, 'url') if is_secret(value, name) else value}"
            for name, equals, value in pairs
        ]
        return f"{scheme}{slashes}{'/'.join([host, *path])}{mark}{'&'.join(kept)}"

    def _variable_named(self, name: str) -> str:
        plain = "".join(
            c if c.isascii() and c.isalnum() else "_" for c in f"MCP_{self._server}_{name}".upper()
        )
        return re.sub("__+", "_", plain).strip("_")[:100]


# --- packages -------------------------------------------------------------------------------------

_NPM_SPEC = re.compile(r"(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(@[\w.^~*+<>=|-]+)?")
_PYPI_SPEC = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,-]+\])?((==|>=|<=|~=|!=|<|>|@)[\w.*+!,<>=~-]+)?")
_IMAGE = re.compile(
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_LOCAL_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".jar", ".exe")
NPM, PYPI = "npm", "pypi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What a launcher would fetch: an ecosystem, what is asked for, and the program in it."""

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
    """What a command line starts: step (4)."""
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
        if word.lower().endswith(_LOCAL_SUFFIXES):
            return word
    return ""


def _is_path(word: str) -> bool:
    return "/" in word or "\\" in word


# --- rights ---------------------------------------------------------------------------------------

_PLACE = re.compile(
    r"(?:--?[\w-]+=)?((?:/|~/|[A-Za-z]:[/\\]|\{project_path\}|\$\{HOME\}).*)", re.DOTALL
)
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", "scripts", ".bin", "libexec", "macos"})
_PROGRAM_SUFFIXES = (".exe", ".cmd", ".bat", ".com", ".ps1", ".sh", ".appimage")
_STARTS_OTHERS = frozenset({"uv", "npm", "npx", "pnpm", "yarn", "bun", "bunx", "pipx", "uvx"})


def proposed_rights(
    launch: Launch, variables: Sequence[str], *, has_network: bool, project: Path | None = None
) -> dict[str, Any]:
    """A ``sandbox:`` block for a command line: step (5). A person widens it where it is too narrow.

    It reads the project and what its words name, writes what its words name, and reaches the
    network only where something says that it has to. A program that its words name it may start,
    and it never writes code that they name.
    """
    name = program_name(launch.words[0]) if launch.words and not launch.package else ""
    if name in CONTAINERS or name in _STARTS_OTHERS:
        named = sorted(set(variables))
        return {"read": ANY, "write": ANY, "network": ANY, "programs": ANY, "env": named or NONE}
    own = 0 if launch.package else (launch.words.index(launch.file) if launch.file else 0) + 1
    places = [place for word in launch.words[own:] if (place := _place(word))]
    code = _place(launch.file)
    folder = _code_folders(code, project) if code else []
    programs = [place for place in places if is_program(place, project)]
    kept = {*programs, *(place for place in places if _is_code(place))}
    return {
        "read": list(dict.fromkeys(["{project}", *places, *folder])),
        "write": list(dict.fromkeys([*(one for one in places if one not in kept), "{tmp}"])),
        "network": ANY if has_network or any("://" in word for word in launch.words) else NONE,
        "programs": list(dict.fromkeys(programs)) or NONE,
        "env": sorted(set(variables)) or NONE,
    }


def _place(word: str) -> str:
    """The path that a word names, as rights name it; ``""`` where it names none."""
    found = _PLACE.fullmatch(word)
    if not found:
        return ""
    path = found[1].replace(PROJECT_PLACE, "{project}").replace("${HOME}", "~")
    try:
        return (read_rights({"read": [path]}).read or ("",))[0]
    except SpecError:
        return ""


def is_program(place: str, project: Path | None) -> bool:
    """Whether a path is that of a program, or of a folder of them.

    By its name, and by what is there: nothing else of this file looks at a machine.
    """
    parts = re.split(r"[/\\]", place.lower())
    if _PROGRAM_FOLDERS & set(parts[-2:]) or parts[-1].endswith(_PROGRAM_SUFFIXES):
        return True
    path = _path_of(place, project)
    return path.is_absolute() and path.is_file() and os.access(path, os.X_OK)


def _is_code(place: str) -> bool:
    return place.lower().endswith((*_LOCAL_SUFFIXES, ".so", ".dll", ".dylib", ".node", ".wasm"))


def _path_of(place: str, project: Path | None) -> Path:
    return Path(place.replace("{project}", str(project)) if project else place).expanduser()


def _code_folders(code: str, project: Path | None) -> list[str]:
    """The folders that a program's file is read with: its own, and the packages that it imports.

    Where the file is a link, as those in ``.bin`` are, also those of what it leads to.
    """
    from ryeos.run.node_places import packages_root

    found, path = [_folder(code)], _path_of(code, project)
    if path.is_absolute():
        real = Path(os.path.realpath(path))
        roots = [packages_root(path), packages_root(real) if real != path else None]
        found += [_as_place(root, project) for root in roots if root]
    return list(dict.fromkeys(found))


def _as_place(folder: Path, project: Path | None) -> str:
    if project and folder.is_relative_to(project):
        return f"{{project}}/{folder.relative_to(project).as_posix()}".removesuffix("/.")
    return str(folder)


def _folder(path: str) -> str:
    is_windows = re.match(r"[A-Za-z]:", path)
    parent = (PureWindowsPath if is_windows else PurePosixPath)(path).parent
    return str(parent)


def rights_of_address(url: str) -> dict[str, Any]:
    """A ``sandbox:`` block for a server at an address: this host alone. Raises InvalidUrlError."""
    from lillux.http.model import is_loopback, parse_address

    place = parse_address(re.sub(r"\$\{[A-Z0-9_]+\}", "x", url))
    network: object = LOOPBACK if is_loopback(place.host) else [f"{place.host}:{place.port}"]
    return {"read": NONE, "write": NONE, "network": network, "programs": NONE, "env": NONE}
