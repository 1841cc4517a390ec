"""The remotes of ``remotes/remotes.yaml``, from bundles, user and project. Pure.

Rules, with examples: docs/remote.md. A project is often a foreign one, so what it says
is not enough to send anything off this machine: a node's address and the key for it must be the
user's own words.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from lillux.http.model import is_unencrypted
from lillux.http.urls import is_loopback
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.items.refs import PROJECT
from ryeos.remote.peers import NODE, PeerRules
from ryeos.remote.remote_values import (
    DEFAULT_TIMEOUT_S,
    MergedRemotes,
    RemoteConfigError,
    RemoteValues,
    is_name,
    netloc_of,
    valid_project_name,
)
from ryeos.trust.config import Layer


def api_key_of(environ: Mapping[str, str], key_env: str, peer: PeerRules = NODE) -> str:
    """The variable's value, if it can stand in a header. Raises RemoteConfigError."""
    api_key = environ.get(key_env, "").strip() if key_env else ""
    if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
        problem = "expected an API key of visible ASCII characters"
        raise RemoteConfigError(key_env, problem, hint="set it again", peer=peer)
    return api_key


def require_encrypted(
    peer: PeerRules, name: str, url: str, api_key: str, own: RemoteValues
) -> None:
    """Refuse to send an API key where others can read it, unless the user's own words allow that.

    Raises RyeError `REMOTE_INSECURE`, RemoteConfigError.
    """
    may_be_read = own.flag("allow_insecure")
    if api_key and is_unencrypted(url) and not may_be_read:
        raise RyeError(
            f"{peer.word} {name}: an API key is not sent over plain http: {url}",
            code="REMOTE_INSECURE",
            hint=peer.insecure_hint,
        )


DEFAULT_NAME = "default"
_CLOSE = 2


class RemoteNotFoundError(RyeError):
    """A remote that no space configures. ``otherwise`` is what to do but to add it."""

    code = "REMOTE_NOT_FOUND"

    def __init__(self, name: str, known: Sequence[str], *, otherwise: str = "") -> None:
        self.name = name
        self.suggestions = _similar(name, known)
        add = f"add it with: rye remote add {name if is_name(name) else 'NAME'} URL"
        meant = f"did you mean {', '.join(self.suggestions)}? or " if self.suggestions else ""
        super().__init__(
            f"remote {name[:80]!r}: not found; configured: {', '.join(known) or 'none'}",
            hint=f"{meant}{otherwise or add}",
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
    """The remotes of all layers together; each is checked when it is asked for."""

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
        is_own = own.plain_text("url") != "" and own.url() == url
        return url, (own if is_own else merged).sources["url"]

    def resolve(self, name: str | None = None) -> RemoteConfig:
        """A remote by name; ``default`` without one.

        Raises RemoteNotFoundError, RemoteConfigError, RyeError `REMOTE_NOT_APPROVED`
        or `REMOTE_INSECURE`.
        """
        name = name or DEFAULT_NAME
        url, source = self.address(name)
        merged, own = self._all.of(name), self._own.of(name)
        is_own_url = source != PROJECT
        key_env = merged.variable("key_env")
        api_key = api_key_of(self._environ, key_env)
        is_own_key = not api_key or own.plain_text("key_env") == key_env
        is_near = is_loopback(urlsplit(url).hostname or "")
        if not is_near and not (is_own_url and is_own_key):
            raise _not_approved(name, url, key_env, is_own_url=is_own_url)
        require_encrypted(NODE, name, url, api_key, own)
        return RemoteConfig(
            name=name,
            url=url,
            key_env=key_env,
            api_key=api_key,
            timeout_s=merged.timeout_s(self._all.default_timeout()),
            node_id=(own.node_id() if is_own_url else "") or merged.node_id(),
            roles=merged.texts("roles"),
            project_path=merged.plain_text("project_path") or self._all.project_path(),
            source=source,
        )

    def project_name(self, project_root: Path) -> str:
        """The project's name on nodes: ``project_path`` of the file, else its folder.

        Raises RemoteConfigError for the root of a file system.
        """
        name = self._all.project_path() or project_root.resolve().name
        return valid_project_name("project_path", name)


def read_remotes(layers: Sequence[Layer], environ: Mapping[str, str]) -> Remotes:
    """The remotes of ``ConfigReader.layers(CONFIG_PATH)``; ``environ`` holds their API keys."""
    return Remotes(layers, environ)


def _not_approved(name: str, url: str, key_env: str, *, is_own_url: bool) -> RyeError:
    """Only the project names this node, or this key for it; nothing was sent."""
    problem = (
        f"only the project says that {key_env} is its key"
        if is_own_url
        else f"only the project names {url}, and nothing is sent where only a project says"
    )
    key = f" --key-env {key_env}" if key_env else ""
    replace = " --replace" if is_own_url else ""
    return RyeError(
        f"remote {name}: {problem}",
        code="REMOTE_NOT_APPROVED",
        hint=f"if you know it: rye remote add {name} {url}{key}{replace}; or approve what the"
        " project says: rye trust",
    )


def _similar(name: str, known: Sequence[str]) -> tuple[str, ...]:
    from lillux.spelling import edit_distance

    near = {other: edit_distance(name[:80].lower(), other.lower(), _CLOSE) for other in known}
    return tuple(sorted((o for o in known if near[o] <= _CLOSE), key=lambda o: (near[o], o)))[:3]
