"""Providers of models, their prices, and the settings of threads: signed configuration.

``config/agent/providers/NAME.yaml``, ``prices/NAME.yaml`` and ``agent.yaml`` of bundles and user
space. Those of a project never count: they would choose to whom prompts and keys are sent. Page:
``docs/agents.md``.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lillux.errors import LilluxError
from lillux.http.model import is_unencrypted
from lillux.http.urls import parse_address
from lillux.patterns import pattern
from lillux.spelling import likely_meant
from lillux.values import dataclass, field, replace
from ryeos.agent.ledger import DAILY_SPEND
from ryeos.agent.limits import Limits, read_limits
from ryeos.agent.prices import Price, price_of
from ryeos.agent.provider_schemas import AGENT_SCHEMA, PRICES_SCHEMA, PROVIDER_SCHEMA, Schema
from ryeos.agent.purse import IMAGE_TOKENS, MIN_OUTPUT, OVERHEAD
from ryeos.items.errors import RyeError
from ryeos.items.refs import SYSTEM, USER, Kind, Spaces
from ryeos.run.credentials import (
    FOLDER,
    Credential,
    Credentials,
    LoadedConfig,
    loaded_config,
    names_in,
    problems_of,
    require_fit,
    require_signed,
)
from ryeos.trust.config import ConfigReader, Layer, merge_layers

PROVIDERS = "agent/providers"
PRICES = "agent/prices"
AGENT_PATH = "agent/agent.yaml"
ANY_MODEL = "*"
"""The entry below ``models`` for those that are not named."""
_TIERS = (SYSTEM, USER)
_DATED = pattern(r"(.+?)-(?:20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2}|latest)")


def file_problems(relative: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Problems of a file of this path below ``config``; none for one that is not ours."""
    schema = _schema_of(relative)
    if schema is not None:
        yield from _problems(relative, values, schema)


def _schema_of(relative: str) -> Schema | None:
    if relative.startswith(f"{PROVIDERS}/"):
        return PROVIDER_SCHEMA
    if relative.startswith(f"{PRICES}/"):
        return PRICES_SCHEMA
    return AGENT_SCHEMA if relative == AGENT_PATH else None


def _problems(relative: str, values: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    found = tuple(problems_of(values, schema))
    yield from found
    if found:
        return
    try:
        if schema is PROVIDER_SCHEMA:
            _provider(Path(relative).stem, Path(relative), values, {})
        elif schema is AGENT_SCHEMA:
            _settings(values, relative)
        else:
            for model, said in (values.get("models") or {}).items():
                price_of(said, f"{Path(relative).stem}/{model}")
    except LilluxError as error:
        yield str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of a provider. ``context`` and ``max_output`` are 0 where they are not known."""

    provider: str
    id: str
    price: Price
    context: int = 0
    max_output: int = 0
    features: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Its name in configuration and headers."""
        return f"{self.provider}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider. ``usage``, ``schema`` and ``retry`` are laid over the dialect's own."""

    name: str
    path: Path
    dialect: str
    base_url: str
    headers: Mapping[str, str]
    credential: str
    models: Mapping[str, Mapping[str, Any]]
    prices: Mapping[str, Mapping[str, Any]]
    usage: Mapping[str, Any]
    schema: Mapping[str, Any]
    retry: Mapping[str, Any]
    digest: str = ""

    def model(self, model_id: str) -> Model:
        """A model. Raises RyeError `PRICE_UNKNOWN` for one without a price that is not free."""
        own, others = self.models.get(model_id, {}), self.models.get(ANY_MODEL, {})
        said = {**others, **own}
        listed = self._listed(model_id)
        name = f"{self.name}/{model_id}"
        # The nearest word on money counts: what is free for all others has no price of its own.
        of_own = {"free": True} if own.get("free") else own.get("prices")
        of_others = {"free": True} if others.get("free") else others.get("prices")
        try:
            price = price_of(of_own or listed or of_others, name)
        except RyeError as error:
            if meant := likely_meant(model_id, self.model_ids()):
                error.hint = f"did you mean {self.name}/{meant}? {error.hint}"
            raise
        return Model(
            provider=self.name,
            id=model_id,
            price=price,
            context=int(said.get("context") or listed.get("context") or 0),
            max_output=int(said.get("max_output") or listed.get("max_output") or 0),
            features=frozenset(said.get("features") or ()),
        )

    def _listed(self, model_id: str) -> Mapping[str, Any]:
        """The price in the list; a dated name costs what the one without a date does."""
        found = self.prices.get(model_id)
        dated = None if found else _DATED.fullmatch(model_id)
        return found or (self.prices.get(dated[1]) if dated else None) or {}

    def key(self, credentials: Credentials) -> Credential | None:
        """The credential that it names, None for none.

        Raises RyeError `PERMISSION_DENIED` where its address is none of the credential's hosts.
        """
        if not self.credential:
            return None
        credential = credentials.get(self.credential)
        if credential.serves(self.base_url):
            return credential
        raise RyeError(
            f"{self.path}: base_url: expected a host of the credential {credential.name}"
            f" ({', '.join(credential.hosts)}), found {self.base_url:.200}",
            code="PERMISSION_DENIED",
            path=str(self.path),
            hint=f"its value is for these hosts alone; more can be named in {credential.path}",
        )

    def frozen(self, model: Model) -> dict[str, Any]:
        """All that a thread uses of it, as JSON: what is frozen when the thread starts."""
        return {
            "provider": self.name,
            "digest": self.digest,
            "dialect": self.dialect,
            "base_url": self.base_url,
            "headers": dict(self.headers),
            "credential": self.credential,
            "usage": dict(self.usage),
            "schema": dict(self.schema),
            "retry": dict(self.retry),
            "model": model.id,
            "context": model.context,
            "max_output": model.max_output,
            "features": sorted(model.features),
            "prices": model.price.described(),
        }

    def model_ids(self) -> tuple[str, ...]:
        """The models that are named, sorted."""
        return tuple(sorted({*self.models, *self.prices} - {ANY_MODEL}))


class Choice(NamedTuple):
    """A model that can be used, and the credential that it needs; None for none."""

    provider: Provider
    model: Model
    credential: Credential | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The content of agent.yaml.

    daily          the nano-dollars of a day
    ceiling_files  the file that each ceiling is from
    """

    tiers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Limits = field(default_factory=Limits)
    ceilings: Mapping[str, int] = field(default_factory=dict)
    ceiling_files: Mapping[str, str] = field(default_factory=dict)
    daily: int = DAILY_SPEND
    compact: str = ""
    min_output: int = MIN_OUTPUT
    overhead: int = OVERHEAD
    image_tokens: int = IMAGE_TOKENS


def loaded_agent_config(config: ConfigReader, spaces: Spaces) -> LoadedConfig:
    """All that threads use of bundles and a user space, read now. Raises as reading it."""
    return loaded_config(config, spaces, (PROVIDERS, PRICES, FOLDER), (AGENT_PATH,))


class Providers:
    """The providers of bundles and user space. ``notes`` name files of the project: none counts."""

    def __init__(self, config: ConfigReader | LoadedConfig, spaces: Spaces) -> None:
        self._config, self._spaces = config, spaces

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each file of the project that a person may have meant to count."""
        project = self._spaces.project
        if project is None:
            return ()
        folder = project.directory(Kind.CONFIG)
        found = [AGENT_PATH] if (folder / AGENT_PATH).is_file() else []
        for below in (PROVIDERS, PRICES, "credentials"):
            there = folder / below
            found += [f"{below}/{one.name}" for one in sorted(there.glob("*.yaml"))]
        return tuple(
            f".ai/config/{name} of the project does not count: providers, credentials and limits"
            " of threads come from user space and bundles"
            for name in found
        )

    def names(self) -> tuple[str, ...]:
        """The names of all providers, sorted."""
        return names_in(self._config, self._spaces, PROVIDERS)

    def get(self, name: str) -> Provider:
        """A provider. A file of user space takes the place of a bundle's.

        Raises RyeError `MODEL_NOT_FOUND`, `CONFIG_ERROR`, IntegrityError.
        """
        names = self.names()
        if name not in names:
            meant = likely_meant(name, names)
            raise RyeError(
                f"provider {name[:80]!a}: expected one of {', '.join(names) or 'none yet'}",
                code="MODEL_NOT_FOUND",
                hint=f"did you mean {meant}?" if meant else _WRITE_PROVIDER,
            )
        layer = require_signed(self._config.layers(f"{PROVIDERS}/{name}.yaml", tiers=_TIERS)[-1])
        values = require_fit(layer, PROVIDER_SCHEMA)
        return _provider(name, layer.path, values, self.prices(name).get("models") or {}, layer)

    def prices(self, name: str) -> Mapping[str, Any]:
        """The list of prices of a provider: that of user space over the bundle's, by model."""
        return self._merged(f"{PRICES}/{name}.yaml", PRICES_SCHEMA, _by_model)

    def settings(self) -> Settings:
        """Content of agent.yaml, user space's over the bundle's. Raises RyeError `CONFIG_ERROR`."""
        layers = self._layers(AGENT_PATH, AGENT_SCHEMA)
        files = {name: str(one.path) for one in layers for name in one.values.get("ceilings") or ()}
        return replace(_settings(merge_layers(layers), AGENT_PATH), ceiling_files=files)

    def models(self, name: str) -> tuple[str, ...]:
        """The models, as PROVIDER/MODEL, that a tier or a model's name stands for, in order.

        Raises RyeError `MODEL_NOT_FOUND`.
        """
        tiers = self.settings().tiers
        if name in tiers:
            return tiers[name]
        if "/" in name:
            return (name,)
        meant = likely_meant(name, tiers)
        raise RyeError(
            f"model {name[:80]!a}: expected PROVIDER/MODEL, or a tier:"
            f" {', '.join(tiers) or 'none yet'}",
            code="MODEL_NOT_FOUND",
            hint=f"did you mean {meant}?"
            if meant
            else "tiers stand in .ai/config/agent/agent.yaml",
        )

    def model(self, name: str) -> tuple[Provider, Model]:
        """The provider and the model of PROVIDER/MODEL. Raises as `get` and `Provider.model`."""
        provider_name, _, model_id = name.partition("/")
        provider = self.get(provider_name)
        return provider, provider.model(model_id)

    def choices(self, name: str, credentials: Credentials) -> tuple["Choice", ...]:
        """The models that a thread may use for a name, the first one first, each with its key.

        Left out are those of a tier whose credential has no value. Raises RyeError
        `CREDENTIAL_NOT_FOUND` where none is left, and as `model` for a model that is named.
        """
        found, missing = [], []
        for one in self.models(name):
            provider, model = self.model(one)
            credential = provider.key(credentials)
            if credential is None or credentials.has_value(credential):
                found.append(Choice(provider, model, credential))
            else:
                missing.append(f"{one}: {credential.place}")
        if found:
            return tuple(found)
        raise RyeError(
            f"model {name}: no credential has a value: {'; '.join(missing)}",
            code="CREDENTIAL_NOT_FOUND",
            hint="set one of these, name another model, or store a key: rye agent set-up",
        )

    def _merged(self, path: str, schema: Schema, merge: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a function of layers
        merged: Mapping[str, Any] = merge(self._layers(path, schema))
        return merged

    def _layers(self, path: str, schema: Schema) -> tuple[Layer, ...]:
        layers = tuple(map(require_signed, self._config.layers(path, tiers=_TIERS)))
        for layer in layers:
            require_fit(layer, schema)
        return layers


_WRITE_PROVIDER = "write .ai/config/agent/providers/NAME.yaml in your home, and sign it"


def _by_model(layers: tuple[Layer, ...]) -> Mapping[str, Any]:
    """Lists of prices over each other: a model's entry as a whole, so that no two prices mix."""
    merged: dict[str, Any] = {}
    for layer in layers:
        models = {**merged.get("models", {}), **(layer.values.get("models") or {})}
        merged = {**merged, **layer.values, "models": models}
    return merged


def _provider(
    name: str,
    path: Path,
    values: Mapping[str, Any],
    prices: Mapping[str, Any],
    layer: Layer | None = None,
) -> Provider:
    from lillux.digests import sha256_hex

    base_url = str(values["base_url"]).rstrip("/")
    address = parse_address(base_url)
    if is_unencrypted(address.text) and values.get("allow_plain") is not True:
        raise RyeError(
            f"{path}: base_url: expected https://, or http:// of this machine,"
            f" found {base_url:.200}",
            code="CONFIG_ERROR",
            path=str(path),
            hint="prompts and keys would travel in plain text; where that is meant:"
            " allow_plain: true",
        )
    provider = Provider(
        name=name,
        path=path,
        dialect=values["dialect"],
        base_url=base_url,
        headers=values.get("headers") or {},
        credential=values.get("credential") or "",
        models=values.get("models") or {},
        prices=prices,
        usage=values.get("usage") or {},
        schema=values.get("schema") or {},
        retry=values.get("retry") or {},
        digest=sha256_hex(layer.data) if layer else "",
    )
    for model_id, said in provider.models.items():
        if said.get("prices"):  # a slip shows when it is signed, not when it is paid
            price_of(said["prices"], f"{name}/{model_id}")
    return provider


def _settings(values: Mapping[str, Any], where: str) -> Settings:
    named = {
        key: read_limits(values.get(key) or {}, f"{where}: {key}")
        for key in ("defaults", "ceilings", "daily")
    }
    counts: dict[str, Any] = {
        key: int(values[key])
        for key in ("min_output", "overhead", "image_tokens")
        if values.get(key) is not None
    }
    return Settings(
        tiers={
            tier: (said,) if isinstance(said, str) else tuple(said)
            for tier, said in (values.get("tiers") or {}).items()
        },
        defaults=Limits().with_named(named["defaults"]),
        ceilings=named["ceilings"],
        daily=named["daily"].get("spend", DAILY_SPEND),
        compact=values.get("compact") or "",
        **counts,
    )
