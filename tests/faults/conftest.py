"""A machine that talks to a node through a proxy that may stop either of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ryeos.items.refs import Space
from tests.support.built import BASE_PYTHON, built_pyz
from tests.support.node import Node, node, shared_node
from tests.support.node_proxy import Proxy, proxy_to
from tests.support.remote_client import Client, client_of

__all__ = ["built_pyz", "node", "shared_node"]

MakeClient = Callable[[str], Client]


@pytest.fixture
def proxy(shared_node: Node) -> Iterator[Proxy]:
    """The way to a node that many tests share."""
    with proxy_to(shared_node) as made:
        yield made


@pytest.fixture
def client(tmp_path: Path, bundle: Space, proxy: Proxy) -> Client:
    """A machine of a user of their own, which has pushed its project once."""
    made = client_of(tmp_path / "here", bundle, proxy.node, proxy.url)
    made.write({f"src/{number}.txt": f"{number}\n" for number in range(3)})
    return made


@pytest.fixture
def built_client(client: Client, built_pyz: Path) -> Client:
    """The same machine, with the built file instead of the checkout."""
    client.command = (str(BASE_PYTHON), str(built_pyz))
    return client


@pytest.fixture
def other(tmp_path: Path, bundle: Space, proxy: Proxy, client: Client) -> Client:
    """Another machine of the same user, which goes straight to the node."""
    return client_of(tmp_path / "there", bundle, proxy.node, proxy.node.url, client.user)
