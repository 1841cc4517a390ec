"""A cloned project, or a node, tries to get data that it should not get, or to be believed."""

from pathlib import Path

import pytest

from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair
from ryeos.items.errors import RyeError, UntrustedKeyError
from ryeos.items.refs import USER
from ryeos.remote.identity import identity_document, read_identity
from ryeos.remote.pins import PinMismatchError, Pins
from ryeos.remote.registry import registries_of
from ryeos.remote.remote_values import CONFIG_PATH
from ryeos.remote.remotes_file import RemotesFile
from ryeos.remote.settings import Remotes, read_remotes
from ryeos.trust.signing_key import SigningKey
from tests.support.errors import coded
from tests.support.signed_files import put_key_document
from tests.support.workspace import Workspace

ENVIRON = {"AWS_SECRET_ACCESS_KEY": "secret", "GPU_KEY": "rye_sk_1"}


def remotes(workspace: Workspace) -> Remotes:
    """As a command reads them."""
    return read_remotes(workspace.rye().network_layers(CONFIG_PATH), ENVIRON)


def say(workspace: Workspace, text: str) -> Path:
    return workspace.project.write(f"config/{CONFIG_PATH}", text)


def is_refused(error: RyeError) -> bool:
    """Whether an error is about the project's settings of a remote."""
    return error.code in {"CONFIG_ERROR", "REMOTE_NOT_APPROVED"}


@pytest.fixture
def gpu(workspace: Workspace) -> None:
    """The user's own remote, with a key."""
    file = RemotesFile(workspace.user.space, workspace.rye().verifier, lambda: None)
    file.add("gpu", {"url": "https://gpu.example", "key_env": "GPU_KEY"})


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    "text",
    [
        "remotes: {gpu: {url: 'https://evil.example'}}",
        "remotes: {gpu: {url: 'https://gpu.example:444'}}",
        "remotes: {gpu: {url: 'http://gpu.example'}}",
        "remotes: {gpu: {url: 'https://gpu.example/evil'}}",
        "remotes: {gpu: {url: 'https://gpu.example.evil.example'}}",
        "remotes: {gpu: {key_env: AWS_SECRET_ACCESS_KEY}}",
    ],
)
def test_a_clone_cannot_send_a_key_elsewhere(workspace: Workspace, text: str) -> None:
    say(workspace, text)

    with pytest.raises(RyeError, check=coded("REMOTE_NOT_APPROVED")):
        remotes(workspace).resolve("gpu")


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://evil.example#@localhost",
        "http://localhost@evil.example",
        "http://2130706433.evil.example",
        "http://0.0.0.0:1",
    ],
)
def test_a_clone_cannot_make_another_machine_look_like_this_one(
    workspace: Workspace, url: str
) -> None:
    say(workspace, f"remotes: {{default: {{url: '{url}', key_env: GPU_KEY}}}}")

    with pytest.raises(RyeError, check=is_refused):
        remotes(workspace).resolve()


def test_a_signature_of_a_key_that_counts_here_is_no_approval(workspace: Workspace) -> None:
    path = say(workspace, "remotes: {default: {url: 'https://evil.example'}}\n")
    workspace.project.sign_unchecked(path)

    with pytest.raises(RyeError, check=coded("REMOTE_NOT_APPROVED")):
        remotes(workspace).resolve()


def test_remotes_of_a_project_count_as_long_as_they_are_as_approved(workspace: Workspace) -> None:
    say(workspace, "remotes: {default: {url: 'https://team.example', key_env: GPU_KEY}}\n")
    workspace.approve()
    assert remotes(workspace).resolve().url == "https://team.example"

    say(workspace, "remotes: {default: {url: 'https://evil.example', key_env: GPU_KEY}}\n")

    with pytest.raises(RyeError, check=coded("REMOTE_NOT_APPROVED"), match=r"evil\.example"):
        remotes(workspace).resolve()


def test_a_registry_of_a_project_counts_once_it_is_approved(workspace: Workspace) -> None:
    said = "registry: {default: {url: 'https://team.example'}}\n"
    workspace.project.write("config/registry/registry.yaml", said)
    with pytest.raises(RyeError, check=coded("REGISTRY_NOT_CONFIGURED"), match="not configured"):
        registries_of(workspace.rye()).resolve()

    workspace.approve()

    assert registries_of(workspace.rye()).resolve().url == "https://team.example"


def test_a_node_behind_a_taken_over_address_is_refused(workspace: Workspace) -> None:
    user = workspace.user.space.base
    box = generate_box_pair()[1]
    node, thief = (
        read_identity(identity_document(SigningKey(generate_keypair()), box, "")) for _ in range(2)
    )
    Pins(user).check("gpu", "gpu.example", node, expected=None)

    for name in ("gpu", "gpu"):
        with pytest.raises(PinMismatchError):
            Pins(user).check(name, "gpu.example", thief, expected=None)


def test_a_node_that_has_another_box_key_is_refused(workspace: Workspace) -> None:
    """A user who got a document signed by the node could read messages sealed to the node."""
    user, key = workspace.user.space.base, SigningKey(generate_keypair())
    node, forged = (
        read_identity(identity_document(key, generate_box_pair()[1], "")) for _ in range(2)
    )
    Pins(user).check("gpu", "gpu.example", node, expected=None)

    for expected in (None, node.node_id):
        with pytest.raises(PinMismatchError, match="expected the box key"):
            Pins(user).check("gpu", "gpu.example", forged, expected=expected)


def test_a_pinned_node_signs_no_items(workspace: Workspace) -> None:
    """Also where another program has written the pin among the trusted keys."""
    node = generate_keypair()
    put_key_document(workspace.user.space, node, node, owner="remote:gpu:gpu.example")
    identity = read_identity(identity_document(SigningKey(node), generate_box_pair()[1], ""))
    Pins(workspace.user.space.base).check("gpu", "gpu.example", identity, expected=None)
    path = workspace.user.tool("from/node")
    workspace.user.sign_unchecked(path, node)

    with pytest.raises(UntrustedKeyError):
        workspace.rye().verifier.verify(workspace.user.target(path).verify_target)

    assert workspace.rye().trust.get_key(SigningKey(node).fingerprint, USER) is None
