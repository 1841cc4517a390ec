"""Values of ``remotes/remotes.yaml``, layer upon layer, and addresses of nodes.

Pure.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from lillux.fields import Fields, is_number
from lillux.patterns import pattern
from ryeos.items.errors import RyeError
from ryeos.remote.peers import NODE, PeerRules
from ryeos.trust.config import Layer

CONFIG_PATH = NODE.config_path
DEFAULT_TIMEOUT_S = NODE.default_timeout_s
MAX_TIMEOUT_S = 86_400.0

_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NODE_ID = pattern(r"fp:[0-9a-f]{16}")
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_MAX_PROJECT_CHARACTERS = 200


class RemoteConfigError(RyeError):
    """The settings of a peer have an invalid value. ``where`` is its path."""

    code = "CONFIG_ERROR"

    def __init__(self, where: str, problem: str, *, hint: str = "", peer: PeerRules = NODE) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}", hint=hint or peer.settings_hint)


def is_name(text: str) -> bool:
    """True if a remote may have this name."""
    return _NAME.fullmatch(text) is not None


def valid_remote_name(name: str) -> str:
    """A name that a remote may have. Raises RemoteConfigError."""
    if not is_name(name):
        raise RemoteConfigError(
            f"remote {name[:80]!a}",
            "expected a name of letters, digits, . _ -, that begins with a letter or digit",
        )
    return name


def validate_setting(where: str, key: str, value: object) -> None:
    """Refuse a setting that no remote may have. Raises RemoteConfigError, at ``where``."""
    values = RemoteValues(where, {key: value}, {})
    match key:
        case "url":
            values.url()
        case "key_env":
            values.variable(key)
        case "node_id":
            values.node_id()
        case "timeout":
            values.timeout_s(DEFAULT_TIMEOUT_S)
        case "roles":
            values.texts(key)
        case "allow_insecure":
            values.flag(key)


class MergedRemotes:
    """Layers on top of each other, and which of them said each value last."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.remotes: dict[str, dict[str, tuple[object, str]]] = {}
        self._top: dict[str, object] = {}
        self._defaults: dict[str, object] = {}
        for layer in layers:
            self._lay(layer)

    def of(self, name: str) -> "RemoteValues":
        """The values of one remote; empty for one that is not there."""
        said = {
            key: pair for key, pair in self.remotes.get(name, {}).items() if pair[0] is not None
        }
        return RemoteValues(
            f"remotes.{name}",
            {key: value for key, (value, _) in said.items()},
            {key: label for key, (_, label) in said.items()},
        )

    def default_timeout(self) -> float:
        """Of a remote that says none."""
        return RemoteValues("defaults", self._defaults, {}).timeout_s(DEFAULT_TIMEOUT_S)

    def project_path(self) -> str:
        """The project's name in the file; ``""`` where it has none. Two keys mean it."""
        for key in ("project_path", "project_name"):
            value = self._top.get(key)
            if value is not None:
                return valid_project_name(key, value)
        return ""

    def _lay(self, layer: Layer) -> None:
        declared = layer.values.get("remotes")
        if declared is not None and not isinstance(declared, Mapping):
            raise RemoteConfigError(str(layer.path), "remotes: expected a mapping of names")
        for name, values in (declared or {}).items():
            if not isinstance(values, Mapping):
                raise RemoteConfigError(str(layer.path), f"remotes.{name}: expected a mapping")
            remote = self.remotes.setdefault(valid_remote_name(str(name)), {})
            remote.update({str(key): (value, layer.label) for key, value in values.items()})
        defaults = layer.values.get("defaults")
        if isinstance(defaults, Mapping):
            self._defaults.update(defaults)
        self._top.update(layer.values)


class RemoteValues(Fields):
    """The values of one remote or registry, each read as what it has to be."""

    def __init__(
        self,
        where: str,
        values: Mapping[str, object],
        sources: Mapping[str, str],
        peer: PeerRules = NODE,
    ) -> None:
        super().__init__(values, self._refuse)
        self._where, self.sources, self._peer = where, sources, peer

    def plain_text(self, key: str) -> str:
        """A text, ``""`` if absent."""
        return self.text(key) or ""

    def flag(self, key: str) -> bool:
        """True or false, false if absent; null is neither."""
        value = self.data.get(key, False)
        if not isinstance(value, bool):
            self._refuse(key, "true or false", value)
        return bool(value)

    def url(self) -> str:
        """The normal address."""
        text = self.plain_text("url")
        if not text:
            raise self._error("url", "expected the address of a node, found none")
        try:
            return normal_url(text)
        except ValueError as error:
            raise self._error("url", str(error)) from None

    def variable(self, key: str) -> str:
        """The name of a variable: not the secret itself, which some would write here."""
        name = self.plain_text(key)
        if name and not _VARIABLE.fullmatch(name):
            raise self._error(key, "expected the name of an environment variable")
        return name

    def node_id(self) -> str:
        """The id that a node must have."""
        node_id = self.plain_text("node_id")
        if node_id and not _NODE_ID.fullmatch(node_id):
            raise self._error("node_id", "expected fp: and 16 hex digits")
        return node_id

    def timeout_s(self, default_s: float) -> float:
        """The time that one request may take."""
        value = self.any("timeout")
        if value is None:
            return default_s
        if not is_number(value) or not 0 < value <= MAX_TIMEOUT_S:
            raise self._error(
                "timeout", f"expected seconds, more than 0, at most {MAX_TIMEOUT_S:g}"
            )
        return float(value)

    def _refuse(self, key: str, expected: str, value: object) -> None:
        found = f", found {type(value).__name__}" if not isinstance(value, list) else ""
        raise self._error(key, f"expected {expected}{found}")

    def _error(self, key: str, problem: str) -> RemoteConfigError:
        return RemoteConfigError(f"{self._where}.{key}", problem, peer=self._peer)


def valid_project_name(where: str, value: object) -> str:
    """The project's name on nodes: their own name for it, never a path of theirs."""
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise RemoteConfigError(where, "expected a name of visible characters")
    if len(value) > _MAX_PROJECT_CHARACTERS:
        raise RemoteConfigError(where, f"expected at most {_MAX_PROJECT_CHARACTERS} characters")
    return value


_TEAM_NAME = r"[0-9a-z][0-9a-z_-]{0,63}"
_TEAM = pattern(_TEAM_NAME)
_OF_TEAM = pattern(rf"@({_TEAM_NAME})/(.+)")


def is_team_name(text: str) -> bool:
    """True if a team of a node can have this name."""
    return _TEAM.fullmatch(text) is not None


def team_and_path(name: str) -> tuple[str, str]:
    """The team that owns a project, and the project's name there: ``@acme/app`` is its ``app``.

    ``""`` and the name itself for a project of one's own.
    """
    found = _OF_TEAM.fullmatch(name)
    return (found[1], found[2]) if found else ("", name)


_SCHEMES = ("https", "http")
_MAX_CHARACTERS = 2048


def normal_url(text: str) -> str:
    """The one spelling of a node's address: lower case up to the path, no slash at the end.

    Raises ValueError that says what is wrong with it.
    """
    if not text.isascii() or not text.isprintable() or len(text) > _MAX_CHARACTERS or " " in text:
        raise ValueError("expected a URL of visible ASCII characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"expected a URL: {error}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("expected a URL that begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected no user or password in it: name a variable with key_env")
    if parts.query or parts.fragment:
        raise ValueError("expected nothing behind the path")
    if parts.netloc.endswith(":") or port == 0:
        raise ValueError("expected a port from 1 to 65535")
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", ""))


def netloc_of(url: str) -> str:
    """Host and port of a normal address."""
    return urlsplit(url).netloc
