"""What ``remotes/remotes.yaml`` says, layer upon layer; each value as what it must be. Pure."""

import re
from collections.abc import Mapping, Sequence

from ryeos.config import Layer
from ryeos.errors import RyeError
from ryeos.remote.remote_url import normal_url

CONFIG_PATH = "remotes/remotes.yaml"
DEFAULT_TIMEOUT_S = 300.0
MAX_TIMEOUT_S = 86_400.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NODE_ID = re.compile(r"fp:[0-9a-f]{16}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_MAX_PROJECT_CHARACTERS = 200


class RemoteConfigError(RyeError):
    """``remotes.yaml`` says something that cannot be. ``where`` is the path of the value."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, where: str, problem: str, *, hint: str = "") -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}", hint=hint or f"mend it in .ai/config/{CONFIG_PATH}")


def is_name(text: str) -> bool:
    """Whether a remote may have this name."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> str:
    """A name that a remote may have. Raises RemoteConfigError."""
    if not is_name(name):
        raise RemoteConfigError(
            f"remote {name[:80]!a}",
            "expected a name of letters, digits, . _ -, that begins with a letter or digit",
        )
    return name


def check_setting(where: str, key: str, value: object) -> None:
    """Nothing, when a remote may have this setting. Raises RemoteConfigError, at ``where``."""
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
                return checked_project(key, value)
        return ""

    def _lay(self, layer: Layer) -> None:
        declared = layer.values.get("remotes")
        if declared is not None and not isinstance(declared, Mapping):
            raise RemoteConfigError(str(layer.path), "remotes: expected a mapping of names")
        for name, values in (declared or {}).items():
            if not isinstance(values, Mapping):
                raise RemoteConfigError(str(layer.path), f"remotes.{name}: expected a mapping")
            remote = self.remotes.setdefault(check_name(str(name)), {})
            remote.update({str(key): (value, layer.label) for key, value in values.items()})
        defaults = layer.values.get("defaults")
        if isinstance(defaults, Mapping):
            self._defaults.update(defaults)
        self._top.update(layer.values)


class RemoteValues:
    """The values of one remote, each read as what it has to be."""

    def __init__(
        self, where: str, values: Mapping[str, object], sources: Mapping[str, str]
    ) -> None:
        self._where, self._values, self.sources = where, values, sources

    def text(self, key: str) -> str:
        """A text, ``""`` where nothing is said."""
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._error(key, f"expected a string, found {type(value).__name__}")
        return value

    def url(self) -> str:
        """The normal address."""
        text = self.text("url")
        if not text:
            raise self._error("url", "expected the address of a node, found none")
        try:
            return normal_url(text)
        except ValueError as error:
            raise self._error("url", str(error)) from None

    def variable(self, key: str) -> str:
        """The name of a variable: not the secret itself, which some would write here."""
        name = self.text(key)
        if name and not _VARIABLE.fullmatch(name):
            raise self._error(key, "expected the name of an environment variable")
        return name

    def node_id(self) -> str:
        """The id that a node must have."""
        node_id = self.text("node_id")
        if node_id and not _NODE_ID.fullmatch(node_id):
            raise self._error("node_id", "expected fp: and 16 hex digits")
        return node_id

    def timeout_s(self, default_s: float) -> float:
        """How long one request may take."""
        value = self._values.get("timeout")
        if value is None:
            return default_s
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < float(str(value)) <= MAX_TIMEOUT_S:
            raise self._error(
                "timeout", f"expected seconds, more than 0, at most {MAX_TIMEOUT_S:g}"
            )
        return float(str(value))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self._error(key, "expected a list of strings")
        return tuple(value)

    def flag(self, key: str) -> bool:
        """A flag, false where nothing is said."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self._error(key, f"expected true or false, found {type(value).__name__}")
        return value

    def _error(self, key: str, problem: str) -> RemoteConfigError:
        return RemoteConfigError(f"{self._where}.{key}", problem)


def checked_project(where: str, value: object) -> str:
    """What nodes call the project: their own name for it, never a path of theirs."""
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise RemoteConfigError(where, "expected a name of visible characters")
    if len(value) > _MAX_PROJECT_CHARACTERS:
        raise RemoteConfigError(where, f"expected at most {_MAX_PROJECT_CHARACTERS} characters")
    return value
