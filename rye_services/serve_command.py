"""``serve``: the settings, the services, the application, the socket; then the loop."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI

from lillux.values import dataclass
from rye_services.authorized_keys import AuthorizedKeys
from rye_services.data_folder import make_data
from rye_services.database import Database
from rye_services.node.application import create_app
from rye_services.node.assembly import Part
from rye_services.node.services import open_services
from rye_services.public_keys import PublicKeyError
from rye_services.serving import listen, log_to_stderr, serve
from rye_services.settings import SettingError, Settings, settings_of
from ryeos.items.errors import UsageError
from ryeos.remote.settings import normal_url

_LOG_IN = "rye registry login --url {url}"


def serve_node(parsed: argparse.Namespace, bundle: Path, environ: Mapping[str, str]) -> int:
    """Serve until asked to end; the exit status. Raises what the parts of a node cannot stand."""
    log_to_stderr(environ.get("RYE_LOG", "info"))
    shown_url = _url(parsed.url)
    settings = make_data(settings_of(parsed, environ))
    served = _registry(settings) if settings.roles == ("registry",) else None
    served = served or _node(settings, bundle, environ)
    if public_key := environ.get("BOOTSTRAP_PUBLIC_KEY"):
        _let_first_key_in(served.authorized_keys, public_key, environ)
    listener = listen(settings.host, settings.port)

    def ready() -> None:
        _say(f"rye-node: ready on {listener.url} ({served.node_id}, {settings.data_dir})")
        if not parsed.quiet:
            url = shown_url or listener.url
            for words in served.on_a_client:
                _say(f"rye-node: on a client: {words.format(url=url)}")

    serve(served.app, listener, settings, ready)
    served.database.close()
    _say("rye-node: ended")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """What is served, in whatever role. ``on_a_client``: what to type there, ``{url}`` in it."""

    app: FastAPI
    node_id: str
    database: Database
    authorized_keys: AuthorizedKeys
    on_a_client: tuple[str, ...]


def _node(settings: Settings, bundle: Path, environ: Mapping[str, str]) -> _Served:
    """A node, and a registry in its database where it has both roles."""
    services = open_services(settings, bundle, environ=environ)
    beside: tuple[Part, ...] = ()
    words: tuple[str, ...] = (
        f"rye remote add {settings.name} {{url}} --node-id {services.keys.node_id}",
    )
    if "registry" in settings.roles:
        from rye_services.registry.application import part_of
        from rye_services.registry.services import open_registry

        registry = open_registry(
            settings,
            database=services.database,
            keys=services.keys,
            authenticator=services.authenticator,
            stores=services.stores,
            durable=services.sync.durable,
        )
        beside, words = (part_of(registry),), (*words, _LOG_IN)
    return _Served(
        app=create_app(services, *beside),
        node_id=services.keys.node_id,
        database=services.database,
        authorized_keys=services.authorized_keys,
        on_a_client=words,
    )


def _registry(settings: Settings) -> _Served:
    from rye_services.registry.application import create_app as create_registry
    from rye_services.registry.services import open_registry_alone

    services = open_registry_alone(settings)
    return _Served(
        app=create_registry(services),
        node_id=services.keys.node_id,
        database=services.database,
        authorized_keys=services.authorized_keys,
        on_a_client=(_LOG_IN,),
    )


def _url(given: str | None) -> str:
    """What clients are told to reach the node by; ``""`` where nobody said. Raises UsageError."""
    try:
        return "" if given is None else normal_url(given)
    except ValueError as error:
        raise UsageError(
            f"--url: {error}, found {given!a:.200}", hint="like https://node.example"
        ) from None


def _let_first_key_in(
    authorized_keys: AuthorizedKeys, public_key: str, environ: Mapping[str, str]
) -> None:
    """What a node that nobody can log in to takes from its environment."""
    label = environ.get("BOOTSTRAP_LABEL") or "bootstrap"
    try:
        authorized_keys.bootstrap(public_key, label)
    except PublicKeyError as error:
        raise SettingError(error.where, error.problem, hint=error.hint) from None


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
