"""The remotes of ``remotes/remotes.yaml``, from bundles, user and project. Pure.

Rules, with examples: docs/remote.md. A project is often a foreign one, so what it says
is not enough to send anything off this machine: a node's address and the key for it must be the
user's own words.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit, urlunsplit

from lillux.fields import Fields, is_number
from lillux.http.model import is_loopback, is_unencrypted
from lillux.patterns import pattern
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError, target_exists_error
from ryeos.items.refs import PROJECT, Space
from ryeos.items.yaml import UneditableYamlError, entries_of, parse_yaml, with_entry, without_entry
from ryeos.remote.peers import NODE, PeerRules
from ryeos.trust.config import Layer
from ryeos.trust.keys import SigningKey
from ryeos.trust.sign import UserConfigFile
from ryeos.trust.verify import Verifier

# --- remote values --------------------------------------------------------------------------------
# What ``remotes/remotes.yaml`` says, layer upon layer; each value as what it must be. Pure.

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
    """Whether a remote may have this name."""
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
        """What the file calls the project; ``""`` where it says nothing. Two keys mean it."""
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
        """How long one request may take."""
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


def api_key_of(environ: Mapping[str, str], key_env: str, peer: PeerRules = NODE) -> str:
    """What the variable holds, if it can stand in a header. Raises RemoteConfigError."""
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


def valid_project_name(where: str, value: object) -> str:
    """What nodes call the project: their own name for it, never a path of theirs."""
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise RemoteConfigError(where, "expected a name of visible characters")
    if len(value) > _MAX_PROJECT_CHARACTERS:
        raise RemoteConfigError(where, f"expected at most {_MAX_PROJECT_CHARACTERS} characters")
    return value


_TEAM_NAME = r"[0-9a-z][0-9a-z_-]{0,63}"
_TEAM = pattern(_TEAM_NAME)
_OF_TEAM = pattern(rf"@({_TEAM_NAME})/(.+)")


def is_team_name(text: str) -> bool:
    """Whether a team of a node can have this name."""
    return _TEAM.fullmatch(text) is not None


def team_and_path(name: str) -> tuple[str, str]:
    """The team that owns a project, and the project's name there: ``@acme/app`` is its ``app``.

    ``""`` and the name itself for a project of one's own.
    """
    found = _OF_TEAM.fullmatch(name)
    return (found[1], found[2]) if found else ("", name)


# --- remotes --------------------------------------------------------------------------------------

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
        """What the project is called on nodes: ``project_path`` of the file, else its folder.

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
    from lillux.text import edit_distance

    near = {other: edit_distance(name[:80].lower(), other.lower(), _CLOSE) for other in known}
    return tuple(sorted((o for o in known if near[o] <= _CLOSE), key=lambda o: (near[o], o)))[:3]


# --- remote url -----------------------------------------------------------------------------------
# The address of a node: one spelling, nothing secret in it. Pure.

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


# --- remotes file ---------------------------------------------------------------------------------
# The user's own ``remotes.yaml``: remotes added and removed, the file signed as it was before.


class RemotesFile:
    """The file of a user space. ``key`` gives the user's signing key, or None."""

    def __init__(
        self, user: Space, verifier: Verifier, key: Callable[[], SigningKey | None]
    ) -> None:
        self._file = UserConfigFile(user, CONFIG_PATH, NEW_TEXT, verifier, key)
        self.path = self._file.path

    def add(self, name: str, settings: Mapping[str, object], *, replace: bool = False) -> None:
        """Write a remote. Raises RyeError `CONFLICT`, RemoteConfigError, IntegrityError."""
        valid_remote_name(name)
        for key, value in settings.items():
            validate_setting(f"remotes.{name}", key, value)
        with self._file.alone():
            text, is_signed = self._file.read()
            known = entries_of(parse_yaml(text, str(self.path)), "remotes")
            if name in known and not replace:
                url = quote(str(settings.get("url", "URL")))
                hint = f"replace it: rye remote add {name} {url} --replace"
                raise target_exists_error(str(self.path), f"remote {name}", hint)
            self._file.write(with_remote(text, name, settings), is_signed=is_signed)

    def remove(self, name: str) -> None:
        """Remove a remote. Raises RemoteNotFoundError, RemoteConfigError, IntegrityError."""
        with self._file.alone():
            text, is_signed = self._file.read()
            known = entries_of(parse_yaml(text, str(self.path)), "remotes")
            if name not in known:
                raise RemoteNotFoundError(
                    name, tuple(sorted(known)), otherwise="see: rye remote list"
                )
            self._file.write(without_remote(text, name), is_signed=is_signed)


# --- remotes text ---------------------------------------------------------------------------------
# ``remotes.yaml`` edited as text, so that what people wrote around an entry stays. Pure.

NEW_TEXT = """\
version: "1.0.0"
category: remotes

# Nodes to run on, by name; each has a url, and may have key_env, node_id, timeout, roles.
remotes:
"""

_SECTION = "remotes"


def with_remote(text: str, name: str, settings: Mapping[str, object]) -> str:
    """The text with an entry, added or replaced as a whole. Raises RemoteConfigError."""
    try:
        return with_entry(text, _SECTION, name, settings)
    except UneditableYamlError as error:
        raise _uneditable(error) from error


def without_remote(text: str, name: str) -> str:
    """The text without an entry, which must be there. Raises RemoteConfigError."""
    try:
        return without_entry(text, _SECTION, name)
    except UneditableYamlError as error:
        raise _uneditable(error) from error


def _uneditable(error: UneditableYamlError) -> RemoteConfigError:
    return RemoteConfigError(
        _SECTION,
        "expected one entry below the other, each with lines of its own",
        hint=error.hint,
    )
