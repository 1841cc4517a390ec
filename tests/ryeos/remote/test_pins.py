import os
import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest

from lillux.errors import FileSystemError
from lillux.sealing import encode_box_key, generate_box_pair
from lillux.signing import KeyPair, generate_keypair
from lillux.values import replace
from ryeos.items.errors import RyeError
from ryeos.remote.identity import NodeIdentity, identity_document, read_identity
from ryeos.remote.pins import Pin, PinMismatchError, Pins, PinState
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import TRUSTED_FOLDER
from tests.support.errors import coded
from tests.support.signed_files import put_key_document
from tests.support.workspace import Workspace

NETLOC = "gpu.example:8443"


def identity(key: SigningKey) -> NodeIdentity:
    return read_identity(identity_document(key, generate_box_pair()[1], "2026-01-01T00:00:00Z"))


@pytest.fixture
def node() -> NodeIdentity:
    return identity(SigningKey(generate_keypair()))


@pytest.fixture
def imposter() -> NodeIdentity:
    return identity(SigningKey(generate_keypair()))


@pytest.fixture
def own() -> SigningKey:
    return SigningKey(generate_keypair())


def check(
    pins: Pins, node: NodeIdentity, *, name: str = "gpu", expected: str | None = None
) -> PinState:
    return pins.check(name, NETLOC, node, expected=expected)


def is_unreadable(error: RyeError) -> bool:
    """Whether an error says that the pin cannot be read, and how to replace it."""
    hint = "to pin its new key: rye remote forget gpu"
    return (error.code, error.hint) == ("INTEGRITY", hint)


def pin_file(user: Path) -> Path:
    return next((user / ".ai/node/pins").glob("*.toml"))


def test_the_first_node_is_pinned_and_then_known(tmp_path: Path, node: NodeIdentity) -> None:
    assert check(Pins(tmp_path), node) is PinState.NEW
    assert check(Pins(tmp_path), node) is PinState.KNOWN
    assert Pins(tmp_path).list() == (
        Pin(
            name="gpu",
            netloc=NETLOC,
            public_pem=node.public_key_pem,
            second_key=encode_box_key(node.box_public),
            path=pin_file(tmp_path),
        ),
    )


def test_another_node_is_refused(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity
) -> None:
    check(Pins(tmp_path), node)

    with pytest.raises(PinMismatchError) as error:
        check(Pins(tmp_path), imposter)

    assert str(error.value) == (
        f"remote gpu ({NETLOC}): expected the node fp:{node.fingerprint},"
        f" found fp:{imposter.fingerprint}"
    )
    assert error.value.hint.endswith("has a new key: rye remote forget gpu")
    assert check(Pins(tmp_path), node) is PinState.KNOWN


def test_a_second_name_of_a_known_node_is_pinned_too(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity
) -> None:
    pins = Pins(tmp_path)
    check(pins, node)

    assert check(pins, node, name="other") is PinState.NEW
    with pytest.raises(PinMismatchError):
        check(pins, imposter, name="other")


def test_a_pin_is_of_one_address(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity
) -> None:
    pins = Pins(tmp_path)
    check(pins, node)

    assert pins.check("gpu", "gpu.example", imposter, expected=None) is PinState.NEW


@pytest.mark.parametrize("prefix", ["", "fp:"])
def test_the_node_must_be_the_configured_one(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity, prefix: str
) -> None:
    pins = Pins(tmp_path)

    with pytest.raises(PinMismatchError) as error:
        check(pins, imposter, expected=f"{prefix}{node.fingerprint}")

    assert error.value.hint.endswith("change node_id of gpu in remotes.yaml")
    assert pins.list() == ()
    assert check(pins, node, expected=f"{prefix}{node.fingerprint}") is PinState.NEW


def test_a_forgotten_node_is_pinned_again(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity
) -> None:
    pins = Pins(tmp_path)
    check(pins, node)

    assert pins.forget("gpu", NETLOC)
    assert not pins.forget("gpu", NETLOC)
    assert check(pins, imposter) is PinState.NEW


def test_a_pin_is_signed_by_the_user(tmp_path: Path, node: NodeIdentity, own: SigningKey) -> None:
    check(Pins(tmp_path, own), node)

    text = pin_file(tmp_path).read_text(encoding="utf-8")
    assert text.startswith("# rye:signed:")
    assert 'category = "remotes/pins"' in text
    assert f'owner = "remote:gpu:{NETLOC}"' in text
    assert check(Pins(tmp_path, own), node) is PinState.KNOWN


def test_a_changed_pin_is_refused(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity, own: SigningKey
) -> None:
    check(Pins(tmp_path, own), node)
    path = pin_file(tmp_path)
    changed = path.read_text(encoding="utf-8").replace(
        node.public_key_pem.decode(), imposter.public_key_pem.decode()
    )
    path.write_text(changed, encoding="utf-8")

    with pytest.raises(RyeError, check=coded("INTEGRITY")) as error:
        check(Pins(tmp_path, own), imposter)

    assert str(error.value) == f"{path}: changed since it was signed"
    assert error.value.hint == "to pin its new key: rye remote forget gpu"


def test_a_pin_with_an_untrusted_signature_is_refused(
    tmp_path: Path, node: NodeIdentity, own: SigningKey
) -> None:
    check(Pins(tmp_path, SigningKey(generate_keypair())), node)

    with pytest.raises(RyeError, check=coded("INTEGRITY"), match=r": changed since it was signed$"):
        check(Pins(tmp_path, own), node)


def test_a_pin_stays_valid_without_the_key_that_signed_it(
    workspace: Workspace, node: NodeIdentity, own: SigningKey
) -> None:
    user = workspace.user.space.base
    former = generate_keypair()
    put_key_document(workspace.user.space, former, former)
    check(Pins(user, SigningKey(former)), node)

    assert check(Pins(user, own), node) is PinState.KNOWN


def test_a_file_that_is_not_a_pin_is_reported(tmp_path: Path, node: NodeIdentity) -> None:
    check(Pins(tmp_path), node)
    path = pin_file(tmp_path)
    path.write_text("cut", encoding="utf-8")

    with pytest.raises(RyeError, check=is_unreadable):
        check(Pins(tmp_path), node)

    assert Pins(tmp_path).list() == ()


def test_a_pin_of_another_remote_under_this_name_is_reported(
    tmp_path: Path, node: NodeIdentity
) -> None:
    check(Pins(tmp_path), node)
    gpu = pin_file(tmp_path)
    data = gpu.read_bytes()
    gpu.unlink()
    check(Pins(tmp_path), node, name="other")
    pin_file(tmp_path).write_bytes(data)

    with pytest.raises(RyeError, check=coded("INTEGRITY")) as error:
        check(Pins(tmp_path), node, name="other")

    assert str(error.value) == f"{pin_file(tmp_path)}: the pin of another remote"


def test_a_pin_of_another_program_is_used(workspace: Workspace, imposter: NodeIdentity) -> None:
    keypair = generate_keypair()
    owner = f"remote:gpu:{NETLOC}"
    path = put_key_document(workspace.user.space, keypair, keypair, owner=owner)
    pins = Pins(workspace.user.space.base)

    with pytest.raises(PinMismatchError):
        check(pins, imposter)
    assert [(pin.path, pin.second_key) for pin in pins.list()] == [(path, "")]
    assert check(pins, identity(SigningKey(keypair))) is PinState.KNOWN
    assert pins.forget("gpu", NETLOC)
    assert not path.exists()
    assert pins.list() == ()


def with_other_box(node: NodeIdentity) -> NodeIdentity:
    return replace(node, box_public=generate_box_pair()[1])


def without_box_key(user: Path) -> None:
    """Remove the box key from the pin, as in pins of older versions."""
    path = pin_file(user)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("box_key", "# rye:signed:"))]
    path.write_text("".join(kept), encoding="utf-8")


def test_the_same_node_with_another_box_key_is_refused(
    tmp_path: Path, node: NodeIdentity, own: SigningKey
) -> None:
    pins, other = Pins(tmp_path, own), with_other_box(node)
    check(pins, node)

    with pytest.raises(PinMismatchError) as error:
        check(pins, other, expected=node.node_id)

    assert str(error.value) == (
        f"remote gpu ({NETLOC}): expected the box key {encode_box_key(node.box_public)},"
        f" found {encode_box_key(other.box_public)}"
    )
    assert error.value.hint.endswith("has a new key: rye remote forget gpu")
    assert check(pins, node) is PinState.KNOWN
    pins.forget("gpu")
    assert check(pins, other) is PinState.NEW


def test_a_pin_without_a_box_key_is_completed(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity
) -> None:
    pins = Pins(tmp_path)
    check(pins, node)
    without_box_key(tmp_path)

    with pytest.raises(PinMismatchError):
        check(pins, imposter)
    assert [pin.second_key for pin in pins.list()] == [""]
    assert check(pins, node) is PinState.KNOWN
    assert [pin.second_key for pin in pins.list()] == [encode_box_key(node.box_public)]
    with pytest.raises(PinMismatchError):
        check(pins, with_other_box(node))


def test_the_box_key_of_another_programs_pin_is_kept_beside_it(workspace: Workspace) -> None:
    keypair = generate_keypair()
    path = put_key_document(workspace.user.space, keypair, keypair, owner=f"remote:gpu:{NETLOC}")
    before = path.read_bytes()
    pins, node = Pins(workspace.user.space.base), identity(SigningKey(keypair))
    check(pins, node)

    with pytest.raises(PinMismatchError):
        check(pins, with_other_box(node))
    assert path.read_bytes() == before


def test_a_pin_with_an_invalid_box_key_is_refused(tmp_path: Path, node: NodeIdentity) -> None:
    check(Pins(tmp_path), node)
    path = pin_file(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(encode_box_key(node.box_public), "short"), encoding="utf-8")

    with pytest.raises(RyeError, check=is_unreadable):
        check(Pins(tmp_path), node)

    assert Pins(tmp_path).list() == ()


def test_keys_of_people_are_not_listed_as_pins(workspace: Workspace, node: NodeIdentity) -> None:
    keypair: KeyPair = generate_keypair()
    path = put_key_document(workspace.user.space, keypair, keypair)
    pins = Pins(workspace.user.space.base)

    assert pins.list() == ()
    assert check(pins, node) is PinState.NEW
    assert len(pins.list()) == 1
    assert not pins.forget("other", NETLOC)
    assert path.exists()
    assert not (workspace.user.space.ai / TRUSTED_FOLDER / f"{node.fingerprint}.toml").exists()


def test_of_two_simultaneous_nodes_one_is_pinned(tmp_path: Path) -> None:
    nodes = [identity(SigningKey(generate_keypair())) for _ in range(4)]
    barrier = Barrier(len(nodes))
    pinned: list[str] = []
    refused: list[str] = []

    def speak(node: NodeIdentity) -> None:
        barrier.wait()
        try:
            check(Pins(tmp_path), node)
        except PinMismatchError:
            refused.append(node.fingerprint)
        else:
            pinned.append(node.fingerprint)

    threads = [Thread(target=speak, args=[node]) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(pinned) == 1
    assert len(refused) == 3
    assert [pin.fingerprint for pin in Pins(tmp_path).list()] == pinned


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not hold for this user"
)
def test_in_a_read_only_home_a_pinned_node_is_known(
    tmp_path: Path, node: NodeIdentity, imposter: NodeIdentity
) -> None:
    check(Pins(tmp_path), node)
    folder = pin_file(tmp_path).parent
    folder.chmod(0o500)

    try:
        assert check(Pins(tmp_path), node) is PinState.KNOWN
        without_box_key(tmp_path)
        assert check(Pins(tmp_path), node) is PinState.KNOWN
        with pytest.raises(FileSystemError):
            check(Pins(tmp_path), imposter, name="other")
        expected = imposter.fingerprint
        assert check(Pins(tmp_path), imposter, name="other", expected=expected) is PinState.NEW
    finally:
        folder.chmod(0o700)
