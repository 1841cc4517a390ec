"""A real registry: ``rye-node serve --role registry`` in a process of its own, on loopback.

``registry`` is a fixture with a registry of its own for each test; ``shared_registry`` is one for
all tests of a process, each of which makes accounts of its own with `Registry.account`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lillux.canonical_json import compute_integrity
from lillux.digests import sha256_hex
from lillux.signing import KeyPair, generate_keypair
from rye_services.registry.services import open_registry_alone
from rye_services.storage.database import Database
from ryeos.items.refs import Kind
from ryeos.sync.item_files import item_source
from ryeos.trust.bundles import MANIFEST_FORM
from ryeos.trust.signature import Identity, SignedText, form_for
from ryeos.trust.signing_key import SigningKey
from tests.support.node import CHECKOUT_COMMAND, Reply, node_at, until_killed

_NUMBERS = count(1)
SCOPES = ("registry:read", "registry:write")


@dataclass(frozen=True, slots=True)
class Account:
    """An account that may publish, with an API key and a signing key."""

    registry: "Registry"
    name: str
    token: str = field(repr=False)
    keypair: KeyPair = field(repr=False)

    @property
    def bearer(self) -> dict[str, str]:
        """The header that holds the API key."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def key(self) -> SigningKey:
        """Its signing key; registered only if the account was made with it."""
        return SigningKey(self.keypair)

    def ask(self, method: str, target: str, body: object = None) -> Reply:
        """Send a request with the API key."""
        return self.registry.node.ask(method, target, body, headers=self.bearer)

    def push(
        self,
        item_id: str,
        version: str = "1.0.0",
        *,
        item_type: str = "tool",
        content: str = "",
        **fields: Any,  # noqa: ANN401 - of the body
    ) -> Reply:
        """Publish an item: a small one of its type unless there is a content."""
        body = {
            "item_type": item_type,
            "item_id": item_id,
            "version": version,
            "content": content or item_text(item_type, item_id, version),
        }
        return self.ask("POST", "/v1/push", {**body, **fields})


class Registry:
    """A registry that can be started and ended; `node` is its process."""

    def __init__(
        self,
        data: Path,
        *,
        role: str = "registry",
        command: Sequence[str] = CHECKOUT_COMMAND,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = {"RYE_NODE_ROLES": role, **(environ or {})}
        self.node = node_at(data, command=command, environ=environ)

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return self.node.url

    def account(
        self,
        name: str = "",
        *,
        scopes: Sequence[str] = SCOPES,
        with_key: bool = False,
        reserved: bool = False,
    ) -> Account:
        """A new account, made as the command line does it; ``with_key``: its key is registered."""
        pair = generate_keypair()
        services = open_registry_alone(self.node.settings)
        try:
            made = services.accounts.add(name or f"tester{next(_NUMBERS)}", reserved=reserved)
            if with_key:
                services.accounts.add_key(made.name, pair.public_pem)
            token, _ = services.api_keys.create(made.name, name="first", scopes=tuple(scopes))
        finally:
            services.database.close()
        return Account(self, made.name, token, pair)

    def ask(self, method: str, target: str, body: object = None) -> Reply:
        """Send a request without credentials."""
        return self.node.ask(method, target, body)


def item_text(
    item_type: str, item_id: str, version: str = "1.0.0", words: str = "Says hello"
) -> str:
    """The text of a sound item, unsigned."""
    category, _, name = item_id.rpartition("/")
    if item_type == "tool":
        return (
            f'__version__ = "{version}"\n__tool_type__ = "python"\n'
            '__executor_id__ = "rye/core/runtimes/python/script"\n'
            f'__category__ = "{category}"\n__tool_description__ = "{words}"\n\n'
            'print("hello")\n'
        )
    if item_type == "knowledge":
        return (
            f"```yaml\nname: {name}\ntitle: {words}\nversion: {version}\nentry_type: note\n"
            f"category: {category}\n```\n\n{words}.\n"
        )
    return (
        f'# {name}\n\n```xml\n<directive name="{name}" version="{version}">\n  <metadata>\n'
        f"    <description>{words}</description>\n    <category>{category}</category>\n"
        "    <author>tester</author>\n  </metadata>\n</directive>\n```\n\nSay hello.\n"
    )


def signed_item(key: SigningKey, item_id: str, text: str = "") -> str:
    """The text of a tool, a small one unless it is given, signed."""
    body = text or item_text("tool", item_id)
    unsigned = SignedText(shebang="", signature=None, covers=None, body=body)
    form = form_for(Kind.TOOL, ".py")
    return key.signed_text(Kind.TOOL, unsigned, form, ".py", Identity("tool", item_id, "py"))


def bundle_body(
    key: SigningKey | None, bundle_id: str, files: Mapping[str, str], version: str = "1.0.0"
) -> dict[str, Any]:
    """A body that publishes a bundle of these files; ``key`` signs the manifest, if any."""
    sent = {}
    for path, text in files.items():
        source = item_source(path, text.encode())
        sent[path] = {
            "content": text,
            "object_hash": compute_integrity(source.as_object())
            if source
            else sha256_hex(text.encode()),
            "inline_signed": source is not None and source.signature_info is not None,
        }
    listed = {
        path: {name: one[name] for name in ("object_hash", "inline_signed")}
        for path, one in sent.items()
    }
    about = {"id": bundle_id, "version": version, "description": "Some tools"}
    manifest = json.dumps({"bundle": about, "files": listed}, indent=1) + "\n"
    if key is not None:
        unsigned = SignedText(shebang="", signature=None, covers=None, body=manifest)
        manifest = key.signed_text(Kind.TOOL, unsigned, MANIFEST_FORM, "manifest")
    return {"bundle_id": bundle_id, "version": version, "manifest": manifest, "files": sent}


@contextmanager
def running_registry(
    data: Path,
    *,
    role: str = "registry",
    command: Sequence[str] = CHECKOUT_COMMAND,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Registry]:
    """A registry while a block runs."""
    made = Registry(data, role=role, command=command, environ=environ)
    with until_killed(made.node):
        yield made


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry for one test, which may end it."""
    with running_registry(tmp_path / "registry") as running:
        yield running


@pytest.fixture(scope="session")
def shared_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry for every test of this process: make an account for each, and end nothing."""
    with running_registry(tmp_path_factory.mktemp("shared-registry") / "registry") as running:
        yield running


@pytest.fixture(scope="session")
def shared_both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A node that is a registry as well, for every test of this process."""
    folder = tmp_path_factory.mktemp("shared-both") / "node"
    with running_registry(folder, role="all") as running:
        yield running


def registry_database(registry: Registry) -> Database:
    """Its database, opened by the test itself."""
    return Database(registry.node.settings.database_url)
