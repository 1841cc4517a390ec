"""The remotes of ``remotes/remotes.yaml``, from bundles, user and project. Pure.

Rules, with examples: docs/remote-settings.md. A project is often somebody else's, so what it says
is not enough to send anything off this machine: a node's address and the key for it must be the
user's own words.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lillux.values import dataclass, field
from ryeos.config import Layer
from ryeos.errors import RyeError
from ryeos.items import PROJECT
from ryeos.remote.remote_url import is_loopback, netloc_of
from ryeos.remote.remote_values import (
    CONFIG_PATH,
    DEFAULT_TIMEOUT_S,
    MergedRemotes,
    RemoteConfigError,
    checked_project,
    is_name,
)

__all__ = [
    "CONFIG_PATH",
    "DEFAULT_NAME",
    "InsecureRemoteError",
    "RemoteConfig",
    "RemoteConfigError",
    "RemoteNotApprovedError",
    "RemoteNotFoundError",
    "Remotes",
    "read_remotes",
]

DEFAULT_NAME = "default"
_CLOSE = 2


class RemoteNotFoundError(RyeError):
    """A remote that no space configures. ``otherwise`` is what to do but to add it."""

    code, exit_status = "REMOTE_NOT_FOUND", 3

    def __init__(self, name: str, known: Sequence[str], *, otherwise: str = "") -> None:
        self.name = name
        self.suggestions = _similar(name, known)
        add = f"add it with: rye remote add {name if is_name(name) else 'NAME'} URL"
        meant = f"did you mean {', '.join(self.suggestions)}? or " if self.suggestions else ""
        super().__init__(
            f"remote {name[:80]!r}: not found; configured: {', '.join(known) or 'none'}",
            hint=f"{meant}{otherwise or add}",
        )


class RemoteNotApprovedError(RyeError):
    """Only the project names this node, or this key for it; nothing was sent."""

    code, exit_status = "REMOTE_NOT_APPROVED", 4

    def __init__(self, remote: str, problem: str, command: str) -> None:
        self.remote, self.problem = remote, problem
        super().__init__(f"remote {remote}: {problem}", hint=f"if you know it: {command}")


class InsecureRemoteError(RyeError):
    """An API key would cross the network in plain text."""

    code, exit_status = "REMOTE_INSECURE", 4

    def __init__(self, remote: str, url: str) -> None:
        self.remote, self.url = remote, url
        super().__init__(
            f"remote {remote}: an API key is not sent over plain http: {url}",
            hint="use https; or sign requests, without key_env; or, where nobody listens,"
            " set allow_insecure: true for it in your user space",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteConfig:
    """One remote, ready to be spoken to.

    url        normal: see `normal_url`
    api_key    the value of ``key_env``; ``""`` where requests are signed instead
    node_id    ``fp:`` and 16 hex digits that the node must have; ``""`` where none is configured
    source     the label of the space that names the address
    """

    name: str
    url: str
    key_env: str = ""
    api_key: str = field(default="", repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    node_id: str = ""
    roles: tuple[str, ...] = ()
    project_path: str = ""
    source: str = ""

    @property
    def netloc(self) -> str:
        """Host and port, part of what a pin is kept under."""
        return netloc_of(self.url)


class Remotes:
    """What all layers say together; each remote is checked when it is asked for."""

    def __init__(self, layers: Sequence[Layer], environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._all = MergedRemotes(layers)
        self._own = MergedRemotes([layer for layer in layers if layer.label != PROJECT])

    @property
    def names(self) -> tuple[str, ...]:
        """Of every remote, sorted."""
        return tuple(sorted(self._all.remotes))

    def address(self, name: str) -> tuple[str, str]:
        """The address of a remote and the label of the space that names it; nothing is approved.

        Raises RemoteNotFoundError, RemoteConfigError.
        """
        if name not in self._all.remotes:
            raise RemoteNotFoundError(name, self.names)
        merged, own = self._all.of(name), self._own.of(name)
        url = merged.url()
        is_own = own.text("url") != "" and own.url() == url
        return url, (own if is_own else merged).sources["url"]

    def resolve(self, name: str | None = None) -> RemoteConfig:
        """A remote by name; ``default`` without one.

        Raises RemoteNotFoundError, RemoteConfigError, RemoteNotApprovedError, InsecureRemoteError.
        """
        name = name or DEFAULT_NAME
        url, source = self.address(name)
        merged, own = self._all.of(name), self._own.of(name)
        is_own_url = source != PROJECT
        key_env = merged.variable("key_env")
        api_key = self._api_key(key_env)
        is_own_key = not api_key or own.text("key_env") == key_env
        if not is_loopback(url) and not (is_own_url and is_own_key):
            raise _not_approved(name, url, key_env, is_own_url=is_own_url)
        is_plain = url.startswith("http:") and not is_loopback(url)
        if api_key and is_plain and not own.flag("allow_insecure"):
            raise InsecureRemoteError(name, url)
        return RemoteConfig(
            name=name,
            url=url,
            key_env=key_env,
            api_key=api_key,
            timeout_s=merged.timeout_s(self._all.default_timeout()),
            node_id=(own.node_id() if is_own_url else "") or merged.node_id(),
            roles=merged.texts("roles"),
            project_path=merged.text("project_path") or self._all.project_path(),
            source=source,
        )

    def _api_key(self, key_env: str) -> str:
        """What the variable holds, if it can stand in a header. Raises RemoteConfigError."""
        api_key = self._environ.get(key_env, "").strip() if key_env else ""
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise RemoteConfigError(
                key_env, "expected an API key of visible ASCII characters", hint="set it anew"
            )
        return api_key

    def project_name(self, project_root: Path) -> str:
        """What the project is called on nodes: ``project_path`` of the file, else its folder.

        Raises RemoteConfigError for the root of a file system.
        """
        name = self._all.project_path() or project_root.resolve().name
        return checked_project("project_path", name)


def read_remotes(layers: Sequence[Layer], environ: Mapping[str, str]) -> Remotes:
    """The remotes of ``ConfigReader.layers(CONFIG_PATH)``; ``environ`` holds their API keys."""
    return Remotes(layers, environ)


def _not_approved(name: str, url: str, key_env: str, *, is_own_url: bool) -> RemoteNotApprovedError:
    problem = (
        f"only the project says that {key_env} is its key"
        if is_own_url
        else f"only the project names {url}, and nothing is sent where only a project says"
    )
    key = f" --key-env {key_env}" if key_env else ""
    replace = " --replace" if is_own_url else ""
    return RemoteNotApprovedError(name, problem, f"rye remote add {name} {url}{key}{replace}")


def _similar(name: str, known: Sequence[str]) -> tuple[str, ...]:
    from lillux.text import edit_distance

    near = {other: edit_distance(name[:80].lower(), other.lower(), _CLOSE) for other in known}
    return tuple(sorted((o for o in known if near[o] <= _CLOSE), key=lambda o: (near[o], o)))[:3]
