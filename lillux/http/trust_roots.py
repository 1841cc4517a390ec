"""Certificate authorities that a connection trusts."""

import ssl
from collections.abc import Mapping

from lillux.errors import ConfigurationError

CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The variables that name a file of authorities; the first one that is set counts."""


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Checks certificates and names, against the named authorities, else those of the system.

    Raises ConfigurationError for a file that cannot be read.
    """
    # (Not ``ssl.create_default_context``: it reads SSLKEYLOGFILE from the process.)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    name = next((name for name in CA_FILES if env.get(name)), None)
    if name is None:
        context.load_default_certs()
        return context
    try:
        context.load_verify_locations(cafile=env[name])
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(
            name,
            f"expected a PEM file of certificate authorities at {env[name]}: {error}",
            hint="unset it to trust what the system trusts",
        ) from error
    return context
