"""A provider of models that says what a test wrote down, and a workspace that uses it."""

from collections.abc import Iterator

import pytest

from tests.support.agent_threads import directive, echo, provider
from tests.support.model_server import ModelServer
from tests.support.workspace import Workspace


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def ready(workspace: Workspace, server: ModelServer) -> Workspace:
    """A workspace with a provider that costs nothing, a tool and a directive."""
    provider(workspace, server.url)
    echo(workspace)
    directive(workspace)
    return workspace
