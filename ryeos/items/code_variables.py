"""Variables of the environment that would load code from a project, and what is left of them.

A folder of modules, a preloaded library, or a script that each shell reads first: where such a
variable names a file of a project, an agent that may write there would say what runs in the user's
own tools. The PATH has its own rule, see `ryeos.items.path_links`.

It is a file of its own because most environments have no such variable, and import nothing for it.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping

from ryeos.items.places import COMMAND_VARIABLES, names_code

_FILES = ("BASH_ENV", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "ZDOTDIR", "PHPRC")
# Node.js looks for what these name in the folder that it is started in, which is the project.
_REQUIRED = re.compile(
    r"(?:^|\s)(?:-r|--(?:require|import|loader|experimental-loader|openssl-config|snapshot-blob"
    r"|icu-data-dir|experimental-config-file))[=\s]+(?!/)|--experimental-default-config-file"
)
# A property of Java may have words that only look like a path, as Europe/Berlin.
_PROPERTY = re.compile(r"-D(?!java\.|jdk\.|sun\.)[\w.-]+=[^\s./][^\s]*")


def left_of_variables(
    env: Mapping[str, str], platform: str, is_inside: Callable[[str], bool]
) -> dict[str, str]:
    """The rest of each variable that names code of a project: ``""`` for nothing.

    Of a list of folders the others are left. ``is_inside`` says of an absolute path whether it lies
    in a project; a relative one does, as programs are started there.
    """
    found = {}
    for name, value in env.items():
        if names_code(name):
            if name in COMMAND_VARIABLES:
                kept = _left_of_command(value, env.get("HOME", ""), is_inside)
            else:
                kept = _left_of(name, value, platform, is_inside)
            if kept != value:
                found[name] = kept
    return found


# Each entry of these is a path. An empty one means the folder that a program is started in, but for
# Lua and PHP, where it means what is built in; a library without a slash is one of the system's.
_LISTS = frozenset(
    {
        *("LD_LIBRARY_PATH", "LD_RUN_PATH", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"),
        *("PYTHONPATH", "PYTHONPYCACHEPREFIX", "NODE_PATH", "NODE_COMPILE_CACHE", "PERL5LIB"),
        *("PERLLIB", "RUBYLIB", "GEM_PATH", "GEM_HOME", "CLASSPATH", "FPATH", "GCONV_PATH"),
        *("OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "ESBUILD_BINARY_PATH"),
        *("PHP_INI_SCAN_DIR", *_FILES),
    }
)
_BUILT_IN = frozenset({"PHP_INI_SCAN_DIR"})
_LIBRARIES = frozenset({"LD_PRELOAD", "LD_AUDIT"})
_NO_PATH = r"\s*(?![/\s])"
# Options whose value is a path, with one that is not absolute.
_OPTIONS = {
    "PERL5OPT": rf"(?:^|\s)-?[CDTUWdtw]*I{_NO_PATH}|[mM]-?(?:[\w:]*lib\b)(?!=/)",
    "RUBYOPT": rf"(?:^|\s)-?[adlnpsSvwW0-9]*I{_NO_PATH}",
    "LUA_INIT": r"^@(?!/)|^[^@]*\b(?:require|dofile|loadfile|loadlib)\b",
}
_OF_JAVA = (
    r"-(?:javaagent|agentpath|Xbootclasspath(?:/[ap])?):(?!/)|(?:^|\s)@(?!/)"
    r"|(?:^|\s)(?:-cp|-classpath|-p|--class-path|--(?:upgrade-)?module-path)[=\s]\s*"
    r"(?:\S*:)?(?![/\s])"
    r"|-D(?:java|jdk|sun)\.[\w.]*(?:path|dirs|home|properties)=(?:\S*:)?(?![/\s])"
    r"|--patch-module[=\s]\S*?=(?!/)|-XX:(?:Flags|VMOptionsFile|SharedArchiveFile)=(?!/)"
)


def _is_relative_option(name: str, value: str) -> bool:
    """True if an option of the value names a path that is not absolute, however it looks."""
    if name == "NODE_OPTIONS":  # Node.js takes quotes away, and _ for -
        return bool(_REQUIRED.search(re.sub(r"[\"\\]", "", value).replace("_", "-")))
    if name.startswith("LUA_INIT"):
        name = "LUA_INIT"
    pattern = _OF_JAVA if "JAVA" in name else _OPTIONS.get(name, "")
    return bool(pattern and re.search(pattern, value))


def _left_of_list(name: str, value: str, platform: str, is_inside: Callable[[str], bool]) -> str:
    """The absolute entries of a list that do not lie in a project."""
    separator = ";" if platform == "win32" else ":"
    between = separator
    if name.startswith("LD_"):  # the loader splits at these, too
        between = "[:; ]" if name in _LIBRARIES else "[:;]"
    kept = []
    for one in re.split(between, value):
        is_bare = (not one and name in _BUILT_IN) or (name in _LIBRARIES and "/" not in one)
        if is_bare or (_is_absolute(one) and not is_inside(one)):
            kept.append(one)
    left = separator.join(kept)
    return value if kept == re.split(between, value) else left


def _left_of(name: str, value: str, platform: str, is_inside: Callable[[str], bool]) -> str:
    if value and (name in _LISTS or (name.startswith("DYLD_") and name.endswith("PATH"))):
        return _left_of_list(name, value, platform, is_inside)
    if _is_relative_option(name, value):
        return ""
    separator = ";" if platform == "win32" else ":"
    entries = value.split(separator)
    if all(map(_is_absolute, filter(None, entries))):
        return separator.join(one for one in entries if not (one and is_inside(one)))
    paths = _paths_in(value, platform)
    return "" if any(not _is_absolute(one) or is_inside(one) for one in paths) else value


def _left_of_command(value: str, home: str, is_inside: Callable[[str], bool]) -> str:
    """A command line, ``""`` where a word is a path in a project, or one that is not absolute."""
    for word in re.split(r"[\s:;=\"'|&()<>]+", value):
        piece = re.sub(r"^-+\w?(?=[/.~])", "", word)  # -u/file
        path = home + piece[1:] if piece.startswith("~/") else piece
        if "/" in path and (not _is_absolute(path) or is_inside(path)):
            return ""
    return value


def _paths_in(value: str, platform: str) -> Iterator[str]:
    """The paths that a value names among other words."""
    value = _PROPERTY.sub(" ", value)
    for word in re.split(r"[\s;,=\"'@]+" if platform == "win32" else r"[\s:;,=\"'@]+", value):
        piece = re.sub(r"^-\w(?=[/.])", "", word)  # -I/folder
        if piece.startswith(".") or os.sep in piece:
            yield os.path.normpath(piece)


def _is_absolute(path: str) -> bool:
    return os.path.isabs(path)  # noqa: PTH117 - a word of a variable
