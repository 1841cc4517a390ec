"""What ``rye doctor`` finds about the remotes of ``remotes/remotes.yaml``: does one answer."""

import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from ryeos.cli.findings import OK, WARN, Check
from ryeos.cli.output import one_line
from ryeos.cli.session import Session
from ryeos.items import PROJECT

CONFIG_PATH = "remotes/remotes.yaml"
TIMEOUT_S = 3.0
_PORTS = {"http": 80, "https": 443}


def remotes(session: Session) -> Iterator[Check]:
    """Whether each remote that the user configured takes a connection; nothing is sent.

    Those that only the project names are not asked: to look at a project must tell nobody.
    """
    for name, (url, tier) in _configured(session).items():
        shown = f"{one_line(name, 60)}, {one_line(url, 200)}"
        if tier == PROJECT:
            yield Check("remote", OK, f"{shown}: named by the project, not asked")
        elif session.arguments.offline:
            yield Check("remote", OK, f"{shown}: not asked, --offline")
        else:
            yield remote_finding(shown, url)


def _configured(session: Session) -> dict[str, tuple[str, str]]:
    """The URL of each remote, and the tier that says it last."""
    found: dict[str, tuple[str, str]] = {}
    for layer in session.rye.config.layers(CONFIG_PATH):
        declared = layer.values.get("remotes")
        for name, remote in (declared if isinstance(declared, Mapping) else {}).items():
            if isinstance(remote, Mapping) and "url" in remote:
                found[str(name)] = (str(remote["url"]), layer.label)
    return found


def remote_finding(shown: str, url: str) -> Check:
    """What is to be said of one URL."""
    try:
        parts = urlsplit(url)
        address = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
    except (ValueError, KeyError):
        message = f"{shown}: expected a URL that begins with https:// or http://"
        return Check("remote", WARN, message, f"mend it in {CONFIG_PATH}")
    try:
        socket.create_connection(address, TIMEOUT_S).close()
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        fix = "is it running? behind a proxy this says nothing; --offline does not ask"
        return Check("remote", WARN, f"{shown}: no connection: {str(problem).lower()}", fix)
    return Check("remote", OK, f"{shown}: takes connections")


PROBES = (("remote", remotes),)
