"""The registries of ``registry/registry.yaml``, from bundles and user space. Pure.

What a project says is never used: an address that only a project names is shown, nothing is sent
there. Rules, with examples: docs/registry.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.items.refs import (
    EXECUTABLE_KINDS,
    PROJECT,
    ItemRef,
    Kind,
    Reference,
    Space,
)
from ryeos.items.yaml import entries_of, parse_yaml, with_entry, without_entry
from ryeos.remote.errors import RemoteReplyError
from ryeos.remote.peers import REGISTRY
from ryeos.remote.settings import (
    DEFAULT_NAME,
    RemoteConfigError,
    RemoteValues,
    api_key_of,
    is_name,
    netloc_of,
    normal_url,
    require_encrypted,
)
from ryeos.trust.config import Layer
from ryeos.trust.keys import SigningKey
from ryeos.trust.sign import UserConfigFile
from ryeos.trust.verify import Verifier

# --- settings -------------------------------------------------------------------------------------

CONFIG_PATH = REGISTRY.config_path
SECTION = REGISTRY.section
DEFAULT_TIMEOUT_S = REGISTRY.default_timeout_s
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """One registry, ready to be spoken to.

    url          normal: see `ryeos.remote.settings.normal_url`
    api_key      the value of ``key_env``; ``""`` where it is not set
    fingerprint  of the key that it must have; ``""`` where the first one counts
    """

    name: str
    url: str
    key_env: str = ""
    api_key: str = field(default="", repr=False)
    fingerprint: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def netloc(self) -> str:
        """Host and port, which its pin is kept under."""
        return netloc_of(self.url)


class Registries:
    """What user space and bundles say together; each registry is checked when it is asked for."""

    def __init__(self, layers: Sequence[Layer], environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._own = _merge_layers([layer for layer in layers if layer.label != PROJECT])
        self._projects = [layer.values for layer in layers if layer.label == PROJECT]

    @property
    def names(self) -> tuple[str, ...]:
        """Of every registry, sorted."""
        return tuple(sorted(self._own))

    def resolve(self, name: str | None = None) -> RegistryConfig:
        """A registry by name; ``default`` without one.

        Raises RyeError `REGISTRY_NOT_CONFIGURED`, `CONFIG_ERROR` or `REMOTE_INSECURE`.
        """
        name = name or DEFAULT_NAME
        if name not in self._own:
            raise _not_configured(name, self.names, self._offered_url(name))
        values = RemoteValues(f"{SECTION}.{name}", self._own[name], {}, REGISTRY)
        url, key_env = values.url(), values.variable("key_env")
        config = RegistryConfig(
            name=name,
            url=url,
            key_env=key_env,
            api_key=api_key_of(self._environ, key_env, REGISTRY),
            fingerprint=values.plain_text("fingerprint"),
            timeout_s=values.timeout_s(DEFAULT_TIMEOUT_S),
        )
        if config.fingerprint and not _FINGERPRINT.fullmatch(config.fingerprint):
            raise _config_error(f"{SECTION}.{name}.fingerprint", "expected 16 hex digits")
        require_encrypted(REGISTRY, name, url, config.api_key, values)
        return config

    def at(self, url: str) -> RegistryConfig:
        """The registry of an address that a lock names. Raises as `resolve`."""
        for name in self.names:
            if self._own[name].get("url") and self._url_of(name) == url:
                return self.resolve(name)
        raise _not_configured(netloc_of(url), self.names, url)

    def _url_of(self, name: str) -> str:
        try:
            return normal_url(str(self._own[name]["url"]))
        except ValueError:
            return ""

    def _offered_url(self, name: str) -> str:
        """The address that a project names, to be shown; ``""`` where none can be."""
        for values in self._projects:
            section = values.get(SECTION)
            entry = section.get(name) if isinstance(section, Mapping) else None
            url = entry.get("url") if isinstance(entry, Mapping) else None
            try:
                return normal_url(url) if isinstance(url, str) else ""
            except ValueError:
                return ""
        return ""


def _merge_layers(layers: Sequence[Layer]) -> dict[str, dict[str, object]]:
    merged: dict[str, dict[str, object]] = {}
    for layer in layers:
        declared = layer.values.get(SECTION)
        if declared is not None and not isinstance(declared, Mapping):
            raise _config_error(str(layer.path), f"{SECTION}: expected a mapping of names")
        for name, values in (declared or {}).items():
            if not is_name(str(name)) or not isinstance(values, Mapping):
                raise _config_error(
                    str(layer.path), f"{SECTION}.{name}: expected a name with its settings"
                )
            said = {str(key): value for key, value in values.items() if value is not None}
            merged.setdefault(str(name), {}).update(said)
    return merged


# --- settings file --------------------------------------------------------------------------------
# The user's own ``registry.yaml``: registries added and removed, the file signed as it was.

_NEW_TEXT = """\
version: "1.0.0"
category: registry

# Registries, by name; each has a url, and may have key_env, fingerprint, timeout.
registry:
"""


class RegistriesFile:
    """The file of a user space. ``key`` gives the user's signing key, or None."""

    def __init__(
        self, user: Space, verifier: Verifier, key: Callable[[], SigningKey | None]
    ) -> None:
        self._file = UserConfigFile(user, CONFIG_PATH, _NEW_TEXT, verifier, key)
        self.path = self._file.path

    def put(self, name: str, settings: Mapping[str, object]) -> None:
        """Write a registry, or replace it. Raises UneditableYamlError, IntegrityError."""
        with self._file.alone():
            text, is_signed = self._file.read()
            self._file.write(with_entry(text, SECTION, name, settings), is_signed=is_signed)

    def entry(self, name: str) -> Mapping[str, object]:
        """What the file says of a registry; empty where it says nothing."""
        text, _ = self._file.read()
        section = parse_yaml(text, str(self.path)).get(SECTION)
        said = section.get(name) if isinstance(section, dict) else None
        return said if isinstance(said, dict) else {}

    def remove(self, name: str) -> None:
        """Remove a registry. Raises RyeError `REGISTRY_NOT_CONFIGURED`, and as `put`."""
        with self._file.alone():
            text, is_signed = self._file.read()
            known = entries_of(parse_yaml(text, str(self.path)), SECTION)
            if name not in known:
                raise _not_configured(name, tuple(sorted(known)))
            self._file.write(without_entry(text, SECTION, name), is_signed=is_signed)


# --- ids ------------------------------------------------------------------------------------------
# What things in a registry are called: item ids, versions, bundle ids. Pure.

_FEWEST_SEGMENTS = 2
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")
_BUNDLE = re.compile(r"[a-z0-9][a-z0-9_-]{1,62}")
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{1,38}")
RESERVED_BUNDLES = "ryeos"
"""With this begin the ids of bundles that come with the program."""


def published_ref(reference: Reference) -> ItemRef:
    """The item of a registry that a reference means; without a kind it is a tool.

    Raises RegistryIdError.
    """
    kind = reference.kind or Kind.TOOL
    if kind not in EXECUTABLE_KINDS:
        raise RegistryIdError(str(reference), "expected a tool, a directive or knowledge")
    segments = reference.id.split("/")
    if len(segments) < _FEWEST_SEGMENTS or not all(map(_SEGMENT.fullmatch, segments)):
        raise RegistryIdError(
            str(reference),
            "expected at least two segments of letters, digits and . _ -",
        )
    return ItemRef(kind, reference.id)


def valid_version(version: str) -> str:
    """The version itself. Raises RegistryIdError."""
    if not _VERSION.fullmatch(version):
        raise RegistryIdError(version, "expected a version like 1.4.0")
    return version


def version_key(version: str) -> tuple[int, ...]:
    """What versions are compared by."""
    return tuple(map(int, valid_version(version).split(".")))


def valid_bundle_id(bundle_id: str) -> str:
    """The id itself, if a registry and an installation may have it. Raises RegistryIdError."""
    if not is_bundle_id(bundle_id):
        raise RegistryIdError(
            bundle_id, "expected 2 to 63 of a-z, 0-9, - and _, a letter or digit first"
        )
    if bundle_id.startswith(RESERVED_BUNDLES):
        raise RegistryIdError(bundle_id, f"ids that begin with {RESERVED_BUNDLES} are rye's own")
    return bundle_id


def is_bundle_id(word: str) -> bool:
    """Whether a word has the form of a bundle's id, also of one that is reserved."""
    return bool(_BUNDLE.fullmatch(word))


def valid_namespace(name: str) -> str:
    """The name itself. Raises RegistryIdError."""
    if not _NAMESPACE.fullmatch(name):
        raise RegistryIdError(
            name, "expected 2 to 39 of a-z, 0-9, - and _, a letter or digit first"
        )
    return name


# --- errors ---------------------------------------------------------------------------------------
# What can go wrong between this program and a registry: one class per failure.


def _config_error(where: str, problem: str) -> RemoteConfigError:
    """``registry.yaml`` has an invalid value; ``where`` is its path."""
    return RemoteConfigError(where, problem, peer=REGISTRY)


def _not_configured(name: str, known: Sequence[str], offered: str = "") -> RyeError:
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
    """What came is not what was asked for, or not what the registry's key signed."""
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
