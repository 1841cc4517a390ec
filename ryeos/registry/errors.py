"""What can go wrong between this program and a registry: one class per failure."""

from collections.abc import Sequence
from typing import Any

from ryeos.errors import RyeError

_SHOWN = 500
_MANY_ISSUES = 8
_HINTS = {
    401: "is the API key right, and not revoked? name its variable with: rye registry login",
    403: "the key is known there, but may not do this: whose namespace is it?",
    413: "the registry takes nothing of this size",
    429: "the registry asks for patience: try again later",
    503: "the registry is busy: try again in a moment",
}


class RegistryConfigError(RyeError):
    """``registry.yaml`` says something that cannot be. ``where`` is the path of the value."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}", hint="mend it in .ai/config/registry/registry.yaml of user space"
        )


class RegistryNotConfiguredError(RyeError):
    """The user names no registry like this; what a project says does not count."""

    code, exit_status = "REGISTRY_NOT_CONFIGURED", 3

    def __init__(self, name: str, known: Sequence[str], offered: str = "") -> None:
        self.name, self.known = name, tuple(known)
        url = offered or "URL"
        meant = f"the project names {offered}; if you know it: " if offered else ""
        super().__init__(
            f"registry {name[:80]!a}: not configured; configured: {', '.join(known) or 'none'}",
            hint=f"{meant}rye registry login --url {url} --registry {name[:80]}",
        )


class InsecureRegistryError(RyeError):
    """An API key would cross the network in plain text."""

    code, exit_status = "REMOTE_INSECURE", 4

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        super().__init__(
            f"registry {name}: an API key is not sent over plain http: {url}",
            hint="use https; or, where nobody listens: rye registry login --allow-insecure",
        )


class NotLoggedInError(RyeError):
    """What was asked for needs an API key, and there is none."""

    code, exit_status = "REGISTRY_NO_KEY", 7

    def __init__(self, name: str, key_env: str) -> None:
        self.name, self.key_env = name, key_env
        problem = f"{key_env} is not set" if key_env else "no variable is named for its API key"
        way = f"set {key_env}" if key_env else "rye registry login --key-env VARIABLE"
        super().__init__(f"registry {name}: this needs an API key, and {problem}", hint=way)


class RegistryUnreachableError(RyeError):
    """No reply came. ``problem`` is what the connection said."""

    code, exit_status = "REMOTE_UNREACHABLE", 7

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(
            f"registry {name}: {problem}",
            hint="is the address right, and the registry running? see: rye registry status",
        )


class RegistryReplyError(RyeError):
    """It answered something that no registry answers: another kind of server, or a liar."""

    code, exit_status = "REMOTE_REPLY_INVALID", 7

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(
            f"{what}: {problem}",
            hint="is this the address of a registry? see: rye registry status",
        )


class RegistryRefusedError(RyeError):
    """It refused: an HTTP ``status`` of 400 or more, and the ``detail`` it gave."""

    code, exit_status = "REGISTRY_REFUSED", 7

    def __init__(self, what: str, status: int, detail: Any) -> None:  # noqa: ANN401 - JSON
        self.what, self.status, self.detail = what, status, detail
        self.facts = {"http_status": status, "detail": detail}
        super().__init__(
            f"{what}: refused with status {status}: {_text_of(detail)}",
            hint=_HINTS.get(status, ""),
        )


class NotInRegistryError(RyeError):
    """The registry has no such item, bundle, version or key, or it is not for this user."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, name: str, wanted: str, *, hint: str = "") -> None:
        self.name, self.wanted = name, wanted
        super().__init__(
            f"registry {name}: not found: {wanted}",
            hint=hint or "see what there is with: rye registry search WORDS",
        )


class RegistryPinMismatchError(RyeError):
    """The registry shows another key than before, or than was named; nothing was sent or kept."""

    code, exit_status = "PIN_MISMATCH", 4

    def __init__(self, name: str, netloc: str, *, pinned: str, found: str) -> None:
        self.name, self.netloc, self.pinned, self.found = name, netloc, pinned, found
        self.facts = {"pinned": pinned, "found": found}
        super().__init__(
            f"registry {name} ({netloc}): expected the key {pinned}, found {found}",
            hint="somebody may stand between you and the registry; if you know that it has a new"
            f" key: rye registry forget {name}, then: rye registry pin {found}",
        )


class RegistryPinUnreadableError(RyeError):
    """A pin that was changed, or that is none: it cannot be said which registry it was."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, problem: str, name: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}", hint=f"to pin the registry anew: rye registry forget {name}"
        )


class PulledItemError(RyeError):
    """What came is not what was asked for, or not what the registry's key signed."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(
            f"{what}: {problem}",
            hint="nothing was written; tell whoever runs the registry",
        )


class LocalEditError(RyeError):
    """A file here is not the one that was pulled: somebody changed it, or it is another one."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}",
            hint="replace it with --overwrite (it is kept as .bak), or move it away first",
        )


class RegistryIdError(RyeError):
    """An id that no registry holds."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(
            f"{what[:200]!a}: {problem}",
            hint="published ids are namespace/category/name, like tool:ada/text/upper",
        )


class RegistryLockError(RyeError):
    """The list of what was pulled cannot be read: taking it for empty would forget what it pins."""

    code, exit_status = "LOCKFILE_INVALID", 5

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}", hint="take it from version control, or remove it and pull again"
        )


def _text_of(detail: object) -> str:
    """A refusal in a line: its text, and the issues it lists."""
    if isinstance(detail, dict):
        said = detail.get("error") or detail.get("detail") or detail
        issues = detail.get("issues")
        listed = [str(one) for one in issues[:_MANY_ISSUES]] if isinstance(issues, list) else []
        return _plain("; ".join([str(said), *listed]))
    return _plain(str(detail))


def _plain(text: str) -> str:
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)[:_SHOWN]
