"""``serve``: the settings, the services, the application, the socket; then the loop."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from rye_services.data_folder import make_data
from rye_services.node.application import create_app
from rye_services.node.services import NodeServices, open_services
from rye_services.public_keys import PublicKeyError
from rye_services.serving import listen, log_to_stderr, serve
from rye_services.settings import SettingError, settings_of
from ryeos.errors import UsageError
from ryeos.remote.remote_url import normal_url


def serve_node(parsed: argparse.Namespace, bundle: Path, environ: Mapping[str, str]) -> int:
    """Serve until asked to end; the exit status. Raises what the parts of a node cannot stand."""
    log_to_stderr(environ.get("RYE_LOG", "info"))
    shown_url = _url(parsed.url)
    settings = make_data(settings_of(parsed, environ))
    services = open_services(settings, bundle, environ=environ)
    _let_first_key_in(services, environ)
    listener = listen(settings.host, settings.port)
    app = create_app(services)

    def ready() -> None:
        _say(f"rye-node: ready on {listener.url} ({services.keys.node_id}, {settings.data_dir})")
        if not parsed.quiet:
            url = shown_url or listener.url
            node = services.keys.node_id
            _say(f"rye-node: on a client: rye remote add {settings.name} {url} --node-id {node}")

    serve(app, listener, settings, ready)
    services.database.close()
    _say("rye-node: ended")
    return 0


def _url(given: str | None) -> str:
    """What clients are told to reach the node by; ``""`` where nobody said. Raises UsageError."""
    try:
        return "" if given is None else normal_url(given)
    except ValueError as error:
        raise UsageError(
            f"--url: {error}, found {given!a:.200}", hint="like https://node.example"
        ) from None


def _let_first_key_in(services: NodeServices, environ: Mapping[str, str]) -> None:
    """What a node that nobody can log in to takes from its environment."""
    public_key = environ.get("BOOTSTRAP_PUBLIC_KEY")
    if public_key:
        label = environ.get("BOOTSTRAP_LABEL") or "bootstrap"
        try:
            services.authorized_keys.bootstrap(public_key, label)
        except PublicKeyError as error:
            raise SettingError(error.where, error.problem, hint=error.hint) from None


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
