"""Forgets nonces that no request can come with any more, so that their table does not grow."""

from contextlib import AbstractAsyncContextManager

from rye_services.node.periodic import every
from rye_services.node.services import NodeServices

_EVERY_S = 600


def running(services: NodeServices) -> AbstractAsyncContextManager[None]:
    """The sweep, at the start and from time to time."""
    return every(_EVERY_S, services.nonces.forget_old)
