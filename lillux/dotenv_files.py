"""Variables that a project's ``.env`` file may add: the door of python-dotenv.

The file is unsigned input. Ordinary names lie over the process environment; names that would make
another program run other code are never taken; names that say where things are fill gaps only.
No deny-list is complete: a signed item that needs more sets ``env_policy: minimal``.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.foreign_text import printable
from lillux.patterns import pattern
from lillux.values import dataclass
from lillux.variables import canonical_name

MAX_DOTENV_BYTES = 1024 * 1024
MAX_WARNINGS = 50

# A trailing ``*`` stands for any ending.
NEVER_FROM_DOTENV = (
    # the dynamic linker and the C library load code these name
    *("LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES"),
    # shells run what these hold, or the file they name
    *("BASH_ENV", "ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "PROMPT_COMMAND", "PS4"),
    *("ZDOTDIR", "FPATH"),
    # interpreters import unsigned files because of these, instead of or before signed ones
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"),
    *("PYTHONPYCACHEPREFIX", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "PYTHONINSPECT"),
    *("PYTHONEXECUTABLE", "NODE_OPTIONS", "NODE_PATH", "PERL5DB", "PERL5LIB", "PERL5OPT"),
    *("PERLLIB", "RUBYLIB", "RUBYOPT", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "PHPRC"),
    *("NODE_COMPILE_CACHE", "ESBUILD_BINARY_PATH", "TSX_TSCONFIG_PATH"),
    *("PHP_INI_SCAN_DIR", "CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    # programs start other programs, load plug-ins, or read settings that name those
    *("GIT_*", "SSH_*", "TAR_OPTIONS", "TAPE", "RSH", "RSYNC_*", "MAKEFILES", "MAKEFLAGS"),
    *("GNUMAKEFLAGS", "MFLAGS", "MAKE", "CMAKE_*", "NINJA_STATUS", "EDITOR", "VISUAL", "PAGER"),
    *("MANPAGER", "LESS", "LESSOPEN", "LESSCLOSE", "LESSKEY*", "BROWSER", "SUDO_ASKPASS"),
    *("OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "WGETRC", "CURL_HOME", "NETRC"),
    *("npm_config_*", "NPM_CONFIG_*", "YARN_*", "PNPM_*", "COREPACK_*", "BUN_*", "DENO_*"),
    *("PIP_*", "UV_*", "POETRY_*", "PIPX_*", "CONDA_*", "VIRTUAL_ENV", "CARGO*", "RUSTC*"),
    *("RUSTDOC*", "RUSTFLAGS", "RUSTUP_*", "GOFLAGS", "GOENV", "GOTOOL*", "GOPROXY", "GONOSUM*"),
    *("CC", "CXX", "CPP", "LD", "AR", "AS", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CFLAGS", "CXXFLAGS", "CPPFLAGS"),
    *("LDFLAGS", "COLLECT_*", "PKG_CONFIG*", "JAVA_HOME", "JAVA_OPTS", "_JAVA_*", "MAVEN_*"),
    *("GRADLE_*", "ANT_*", "GEM_*", "BUNDLE_*", "RAKEOPT", "PERL*", "RUBY*", "DOCKER_*"),
    *("KUBECONFIG", "TERMINFO*", "GTK_*", "QT_*", "MANPATH", "INFOPATH", "INPUTRC"),
    # settings in these folders name programs: git's filters, the agent that gpg starts
    *("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "GNUPGHOME"),
    # what is encrypted could be read with what is written there
    "SSLKEYLOGFILE",
    # a server is recognised by the authorities that these name
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL*"),
    *("NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED"),
    # these are Rye's own words: which keys count, which interpreter runs a tool, and more
    *("USER_SPACE", "RYE_*", "LILLUX_*"),
)
ONLY_IF_ABSENT = (
    *("PATH", "HOME", "IFS", "PYTHON*"),
    *("COMSPEC", "PATHEXT", "SYSTEMROOT", "USERPROFILE", "WINDIR"),
)

# The library looks for ``blanks, then #`` from every blank anew: one run of a million blanks would
# keep it busy for many minutes.
_MAX_BLANKS = 256
_BLANKS = pattern(r"[^\S\r\n]+")
_LONGEST_SHOWN_NAME = 80


@dataclass(frozen=True, slots=True)
class DotenvValues:
    """Additions of a ``.env`` file: ``variables`` to lay over the environment, and ``warnings``.

    A warning is one line. It names what was refused and never shows a value.
    """

    variables: Mapping[str, str]
    warnings: tuple[str, ...]


def read_dotenv(
    project_path: Path,
    present: Mapping[str, str],
    *,
    platform: str = sys.platform,
    name: str = ".env",
    allows: Callable[[bytes], bool] | None = None,
) -> DotenvValues:
    """The values of ``<project_path>/.env`` that may be laid over the environment ``present``.

    ``name`` is for a file of the same kind that is called otherwise. ``allows`` says of the text
    whether it counts; it is read once.

    Quotes, escapes, comments, values over several lines and ``export`` are python-dotenv's;
    ``${NAME}`` is left as it stands. The file is a regular one, at most 1 MiB of UTF-8; a symbolic
    link must lead to a file inside the project. Any other file is ignored with a warning, a missing
    one without. On Windows names come in upper case, as they do from the system.
    """
    path = project_path / name
    try:
        data = _read_data(path)
        if allows is not None and not allows(data):
            return DotenvValues({}, ())
        text = _decode(data)
    except FileNotFoundError:
        return DotenvValues({}, ())
    except _IgnoredFileError as reason:
        return DotenvValues({}, (f"{path}: ignored: {reason}",))
    admitted: dict[str, str] = {}
    refused: dict[str, None] = {}  # a set that keeps the order of the file
    for assigned, value, line in _assignments(text):
        key = canonical_name(assigned, platform)
        problem = _problem(key, value, line, present)
        if problem:
            refused[f"{path}: {problem}"] = None
        else:
            admitted[key] = value or ""
    return DotenvValues(admitted, _bounded(path, list(refused)))


class _IgnoredFileError(Exception):
    """The file is there, and not one that we read."""


def _read_data(path: Path) -> bytes:
    target = _inside_project(path)
    try:
        return read_bytes(target, MAX_DOTENV_BYTES)
    except LilluxError as error:
        raise _IgnoredFileError(str(error).removeprefix(f"{target}: ")) from error


def _inside_project(path: Path) -> Path:
    try:
        target = Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _IgnoredFileError((error.strerror or str(error)).lower()) from error
    if not target.is_relative_to(os.path.realpath(path.parent)):
        raise _IgnoredFileError("it is a symbolic link that leaves the project")
    return target


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _IgnoredFileError(f"expected UTF-8, found another byte at {error.start}") from error
    if any(len(blanks) > _MAX_BLANKS for blanks in _BLANKS.findall(text)):
        raise _IgnoredFileError(f"expected at most {_MAX_BLANKS} blanks in a row, found more")
    return text


def _assignments(text: str) -> Iterator[tuple[str, str | None, int]]:
    """Name, value and line of every statement; no value, or no name, where it assigns nothing."""
    from dotenv.parser import parse_stream

    for binding in parse_stream(io.StringIO(text)):
        if binding.key is None and not binding.error:
            continue  # a comment, or blank lines
        source = binding.original.string
        blank = source[: len(source) - len(source.lstrip())]
        yield binding.key or "", binding.value, binding.original.line + blank.count("\n")


def _problem(name: str, value: str | None, line: int, present: Mapping[str, str]) -> str:
    if not name or value is None:
        return f"line {line} is ignored: expected NAME=value"
    shown = printable(name, _LONGEST_SHOWN_NAME)
    if "=" in name or "\0" in name:
        return f"{shown} is not taken: a name must not contain '=' or NUL"
    if "\0" in value:
        return f"{shown} is not taken: its value contains NUL"
    if _matches(name, NEVER_FROM_DOTENV):
        return f"{shown} is not taken: it is never read from an unsigned file"
    if name in present and _matches(name, ONLY_IF_ABSENT):
        return f"{shown} is not taken: it is protected and already set"
    return ""


def is_protected(name: str, present: Mapping[str, str]) -> bool:
    """True if only the user's own environment may set it: it decides what a program is made of."""
    is_set = name in present and _matches(name, ONLY_IF_ABSENT)
    return is_set or _matches(name, NEVER_FROM_DOTENV)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


def _bounded(path: Path, warnings: list[str]) -> tuple[str, ...]:
    """At most MAX_WARNINGS lines: a hostile file must not flood the log."""
    more = len(warnings) - MAX_WARNINGS
    if more <= 0:
        return tuple(warnings)
    return (*warnings[:MAX_WARNINGS], f"{path}: {more} more statements are not taken")
