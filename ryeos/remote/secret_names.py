"""Names of secrets that may become variables of a tool, and how many. Pure.

A secret is a variable by its name, so a name decides what it can do: one that programs load code
by, or that says where things are, is never set. No message here shows a value.
"""

from collections.abc import Mapping

from lillux.dotenv_files import NEVER_FROM_DOTENV
from lillux.patterns import pattern
from ryeos.items.errors import RyeError

MAX_SECRETS = 256
MAX_VALUE_BYTES = 64 * 1024
MAX_TOTAL_BYTES = 1024 * 1024
MAX_NAME_CHARACTERS = 256

_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")

RESERVED_ENV_NAMES = frozenset(
    {
        # who and where the process is
        *("PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "IFS"),
        *("TMPDIR", "TEMP", "TMP", "VIRTUAL_ENV", "CONDA_PREFIX", "LOGNAME", "PWD"),
        *("COMSPEC", "PATHEXT", "SYSTEMROOT", "USERPROFILE", "WINDIR", "APPDATA", "LOCALAPPDATA"),
        # this program's own
        *("USER_SPACE", "RYE_BASH", "RYE_BUNDLE_ENTRY_POINTS", "RYE_BUNDLE_PATH", "RYE_CACHE_DIR"),
        *("RYE_DEBUG", "RYE_DEV_MODE", "RYE_KERNEL_PYTHON", "RYE_LOCK", "RYE_LOG", "RYE_NODE"),
        *("RYE_NODE_CONFIG", "RYE_PARENT_THREAD_ID", "RYE_PROJECT", "RYE_PROJECT_PATH"),
        *("RYE_PROTECT_CORE", "RYE_PYTHON", "RYE_REMOTE_NAME", "RYE_SIGNING_KEY"),
        *("RYE_SIGNING_KEY_DIR", "RYE_TOOL_ID", "RYE_TOOL_PATH", "PROJECT_VENV_PYTHON"),
    }
)
RESERVED_ENV_PREFIXES = (
    # what belongs to the machine that runs a node, and to its owner
    *("SUPABASE_", "MODAL_", "SSL_", "AWS_", "GOOGLE_", "AZURE_", "GITHUB_", "CI_", "DOCKER_"),
    *("RYE_INTERNAL_", "LILLUX_"),
    # what programs load code by
    *("LD_", "DYLD_", "PYTHON", "GIT_SSH", "GIT_CONFIG"),
    *(pattern[:-1] for pattern in NEVER_FROM_DOTENV if pattern.endswith("*")),
)
_NAMES = RESERVED_ENV_NAMES | {name for name in NEVER_FROM_DOTENV if not name.endswith("*")}


class SecretNameError(RyeError):
    """A name that no secret may have, as no node would inject it."""

    code = "VALIDATION_FAILED"

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"secret {name[:80]!a}: {problem}", hint="give it another name")


class SecretValuesError(RyeError):
    """Secrets that cannot be sealed or injected: too many, too large, or not text."""

    code = "VALIDATION_FAILED"

    def __init__(self, problem: str, *, hint: str = "") -> None:
        self.problem = problem
        super().__init__(f"secrets: {problem}", hint=hint)


def is_variable_name(text: str) -> bool:
    """True if a text can be the name of a secret at all: ASCII letters, digits and ``_``."""
    return len(text) <= MAX_NAME_CHARACTERS and _NAME.fullmatch(text) is not None


def why_unsafe(name: str) -> str | None:
    """Why a secret of this name is never injected; None when it may be.

    Names are compared in upper case, as some systems do.
    """
    if len(name) > MAX_NAME_CHARACTERS:
        return f"longer than {MAX_NAME_CHARACTERS} characters"
    if not _NAME.fullmatch(name):
        return "expected letters, digits and _, not starting with a digit"
    upper = name.upper()
    if upper in _NAMES:
        return "reserved: programs, or this one, are steered by it"
    prefix = next((prefix for prefix in RESERVED_ENV_PREFIXES if upper.startswith(prefix)), "")
    return f"reserved: names that begin with {prefix}" if prefix else None


def require_safe(name: str) -> None:
    """Refuse a name that no secret may have. Raises SecretNameError."""
    problem = why_unsafe(name)
    if problem:
        raise SecretNameError(name, problem)


def injectable(values: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The secrets that may be injected, and the names of the others, which are left out."""
    safe = {name: value for name, value in values.items() if why_unsafe(name) is None}
    return safe, tuple(name for name in values if name not in safe)


def valid_secrets(values: Mapping[str, object]) -> dict[str, str]:
    """The same values, text within the limits. Raises SecretValuesError: one breach fails all."""
    if len(values) > MAX_SECRETS:
        raise SecretValuesError(f"expected at most {MAX_SECRETS}, found {len(values)}")
    checked = {name: _validated_value(name, value) for name, value in values.items()}
    total = sum(_size(name) + _size(value) for name, value in checked.items())
    if total > MAX_TOTAL_BYTES:
        raise SecretValuesError(f"expected at most {MAX_TOTAL_BYTES} bytes in all, found {total}")
    return checked


def _validated_value(name: str, value: object) -> str:
    shown = ascii(name[:80])
    if not isinstance(value, str):
        raise SecretValuesError(f"{shown}: expected text, found {type(value).__name__}")
    if "\0" in name or "\0" in value:
        raise SecretValuesError(f"{shown}: expected no NUL character")
    if not name or "=" in name:
        raise SecretValuesError(f"{shown}: expected a name of an environment variable")
    size = _size(value)
    if size > MAX_VALUE_BYTES:
        raise SecretValuesError(f"{shown}: expected at most {MAX_VALUE_BYTES} bytes, found {size}")
    return value


def _size(text: str) -> int:
    """Its bytes of UTF-8. Raises SecretValuesError for half characters, which have none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise SecretValuesError("expected text, found half of a surrogate pair") from None
