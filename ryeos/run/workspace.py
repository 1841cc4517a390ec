"""The part of the public API that graphs, remotes and registries need.

A file of its own because it is a seam: `ryeos.app.workspace.Rye` implements it, and the folders
below `app` may import no class of `app`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lillux.cancellation import Cancellation
    from ryeos.items.context import Context
    from ryeos.items.errors import Answer
    from ryeos.items.refs import Reference, Resolution, Space
    from ryeos.run.engine import PrimitiveExecutor
    from ryeos.run.model import ExecutionRequest
    from ryeos.run.receipts import Receipts
    from ryeos.run.threads.registry import ThreadRegistry
    from ryeos.run.threads.seals import RunnerSeals
    from ryeos.trust.config import ConfigReader, Layer
    from ryeos.trust.resolver import Resolver
    from ryeos.trust.signing_key import SigningKey
    from ryeos.trust.store import TrustStore
    from ryeos.trust.verify import VerifiedItem, Verifier


class Workspace(Protocol):
    """A project, the user space and the bundles, ready to run items."""

    context: "Context"
    config: "ConfigReader"
    trust: "TrustStore"
    verifier: "Verifier"
    resolver: "Resolver"
    warn: Callable[[str], None]
    caller: Callable[[], Mapping[str, Any]]

    @property
    def executor(self) -> "PrimitiveExecutor":
        """Runs tools."""

    @property
    def receipts(self) -> "Receipts":
        """The receipts of the user's runs."""

    @property
    def threads(self) -> "ThreadRegistry":
        """The background runs."""

    @property
    def runner_seals(self) -> "RunnerSeals":
        """Proves that this user's Rye has written a file or started a process."""

    def execute(
        self,
        reference: "Reference",
        request: "ExecutionRequest",
        *,
        cancellation: "Cancellation | None" = None,
    ) -> "Answer":
        """Run a tool, render a directive, or give a knowledge text."""

    def check(self, reference: "Reference", request: "ExecutionRequest") -> "Answer":
        """Find out if an execution would begin, here or on another machine."""

    def start_here(self, reference: "Reference", request: "ExecutionRequest") -> "Answer":
        """Run a tool in the background, by this program."""

    def load(
        self, reference: "Reference", *, source: str = ""
    ) -> "tuple[Resolution, VerifiedItem]":
        """The verified item that a reference names."""

    def space(self, label: str) -> "Space":
        """The project or user space. Raises RyeError `NO_PROJECT` outside a project."""

    def network_layers(self, path: str) -> "tuple[Layer, ...]":
        """The layers of settings that say where things are sent."""

    def signing_key(self) -> "SigningKey":
        """The user's private key. Raises NoSigningKeyError where there is none."""

    def fingerprint(self, item_id: str) -> str | None:
        """A digest of all files that a tool runs; None for a graph."""
