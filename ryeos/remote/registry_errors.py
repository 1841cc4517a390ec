"""Errors between this program and a registry."""

from collections.abc import Sequence

from ryeos.items.errors import RyeError
from ryeos.remote.errors import RemoteReplyError
from ryeos.remote.peers import REGISTRY
from ryeos.remote.remote_values import RemoteConfigError


def config_error(where: str, problem: str) -> RemoteConfigError:
    """``registry.yaml`` has an invalid value; ``where`` is its path."""
    return RemoteConfigError(where, problem, peer=REGISTRY)


def not_configured(name: str, known: Sequence[str], offered: str = "") -> RyeError:
    """The user names no registry like this; what a project says does not count."""
    url = offered or "URL"
    meant = f"the project names {offered}; if you know it: rye trust, or " if offered else ""
    return RyeError(
        f"registry {name[:80]!a}: not configured; configured: {', '.join(known) or 'none'}",
        code="REGISTRY_NOT_CONFIGURED",
        hint=f"{meant}rye registry login --url {url} --registry {name[:80]}",
    )


def registry_reply_error(what: str, problem: str) -> RemoteReplyError:
    """An answer that no registry gives."""
    return RemoteReplyError(what, problem, REGISTRY)


class NotInRegistryError(RyeError):
    """The registry has no such item, bundle, version or key, or it is not for this user."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, name: str, wanted: str, *, hint: str = "") -> None:
        self.name, self.wanted = name, wanted
        super().__init__(
            f"registry {name}: not found: {wanted}",
            hint=hint or "see what there is with: rye registry search WORDS",
        )


def pulled_item_error(what: str, problem: str) -> RyeError:
    """The error of an item that was not asked for, or that the registry's key did not sign."""
    return RyeError(
        f"{what}: {problem}",
        code="INTEGRITY",
        hint="nothing was written; tell the operator of the registry",
    )


class LocalEditError(RyeError):
    """A file here is not the one that was pulled: it was changed, or it is another one."""

    code = "CONFLICT"

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}",
            hint="replace it with --overwrite (it is kept in user space), or move it away first",
        )


class RegistryIdError(RyeError):
    """An id that no registry holds."""

    code = "INVALID_REF"

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(
            f"{what[:200]!a}: {problem}",
            hint="published ids are namespace/.../name, like tool:ada/text/upper",
        )
