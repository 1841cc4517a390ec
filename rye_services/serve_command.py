"""``serve``: the settings, the services, the application, the socket; then the loop."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from rye_services.node.application import create_app
from rye_services.node.services import NodeServices, open_services
from rye_services.serving import listen, log_to_stderr, serve
from rye_services.settings import settings_of


def serve_node(parsed: argparse.Namespace, bundle: Path, environ: Mapping[str, str]) -> int:
    """Serve until asked to end; the exit status. Raises what the parts of a node cannot stand."""
    log_to_stderr(environ.get("RYE_LOG", "info"))
    settings = settings_of(parsed, environ)
    services = open_services(settings, bundle, environ=environ)
    _let_first_key_in(services, environ)
    listener = listen(settings.host, settings.port)
    app = create_app(services)

    def ready() -> None:
        _say(f"rye-node: ready on {listener.url} ({services.keys.node_id}, {settings.data_dir})")
        if not parsed.quiet:
            url = parsed.url or listener.url
            node = services.keys.node_id
            _say(f"rye-node: on a client: rye remote add {settings.name} {url} --node-id {node}")

    serve(app, listener, settings, ready)
    services.database.close()
    _say("rye-node: ended")
    return 0


def _let_first_key_in(services: NodeServices, environ: Mapping[str, str]) -> None:
    """What a node that nobody can log in to takes from its environment."""
    public_key = environ.get("BOOTSTRAP_PUBLIC_KEY")
    if public_key:
        label = environ.get("BOOTSTRAP_LABEL") or "bootstrap"
        services.authorized_keys.bootstrap(public_key, label)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
