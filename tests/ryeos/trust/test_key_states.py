from pathlib import Path

import pytest

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from ryeos.trust.key_states import KeyState, key_states
from ryeos.trust.store import TrustStore
from tests.support.command_line import key_document, place_document
from tests.support.signed_files import put_key_document
from tests.support.workspace import SpaceFolder, Workspace

A, B, C = "a", "b", "c"


@pytest.fixture
def pairs() -> dict[str, KeyPair]:
    """Three people's keys."""
    return {name: generate_keypair() for name in (A, B, C)}


def state_of(workspace: Workspace, keypair: KeyPair) -> KeyState:
    """The state of a key's only document."""
    rye = workspace.rye()
    states = key_states(rye.trust, rye.approvals)
    fingerprint = compute_key_fingerprint(keypair.public_pem)
    (state,) = [state for state in states if state.path.stem == fingerprint]
    return state


def place(
    space: SpaceFolder, pairs: dict[str, KeyPair], name: str, signed_by: str | None = None
) -> Path:
    """Put a person's document into a space, signed by one of the others, or not."""
    text = key_document(pairs[name], pairs[signed_by] if signed_by else None, owner=name)
    return place_document(space.space, pairs[name], text)


def agrees_with_the_store(workspace: Workspace, state: KeyState) -> bool:
    """Whether the store, which decides, trusts the key exactly if the state says so."""
    rye = workspace.rye()
    store = TrustStore(workspace.context().spaces, rye.approvals)
    return (store.get_key(state.path.stem, state.space) is not None) == state.counts


@pytest.mark.parametrize("signed_by", [None, A])
def test_an_unsigned_or_self_signed_document_is_trusted_in_user_space(
    workspace: Workspace, pairs: dict[str, KeyPair], signed_by: str | None
) -> None:
    place(workspace.user, pairs, A, signed_by)

    state = state_of(workspace, pairs[A])

    assert state.counts
    assert (state.owner, state.space, state.problem, state.hint) == ("a", "user", "", "")
    assert agrees_with_the_store(workspace, state)


def test_a_chain_of_documents_is_trusted_if_its_root_is(
    workspace: Workspace, pairs: dict[str, KeyPair]
) -> None:
    place(workspace.user, pairs, A, B)
    place(workspace.user, pairs, B, C)
    place(workspace.user, pairs, C)

    state = state_of(workspace, pairs[A])

    assert state.counts
    assert agrees_with_the_store(workspace, state)


def test_a_document_by_an_unknown_signer_says_whose_key_is_missing(
    workspace: Workspace, pairs: dict[str, KeyPair]
) -> None:
    place(workspace.user, pairs, A, B)

    state = state_of(workspace, pairs[A])

    signer = compute_key_fingerprint(pairs[B].public_pem)
    assert state.problem == f"signed by {signer}, which is not trusted"
    assert agrees_with_the_store(workspace, state)


@pytest.mark.parametrize("names", [[A, B], [A, B, C]])
def test_documents_that_vouch_for_each_other_are_reported_as_a_circle(
    workspace: Workspace, pairs: dict[str, KeyPair], names: list[str]
) -> None:
    for name, signer in zip(names, names[1:] + names[:1], strict=True):
        place(workspace.user, pairs, name, signer)

    state = state_of(workspace, pairs[A])

    signer = compute_key_fingerprint(pairs[B].public_pem)
    assert state.problem == (f"signed by {signer} in a circle of keys that vouch for each other")
    assert agrees_with_the_store(workspace, state)


def test_a_changed_document_is_reported(workspace: Workspace, pairs: dict[str, KeyPair]) -> None:
    path = place(workspace.user, pairs, A, A)
    path.write_text(path.read_text("utf-8").replace('owner = "a"', 'owner = "b"'), "utf-8")

    state = state_of(workspace, pairs[A])

    assert state.problem == "changed since it was signed"
    assert agrees_with_the_store(workspace, state)


def test_a_signature_of_another_document_does_not_hold(
    workspace: Workspace, pairs: dict[str, KeyPair]
) -> None:
    path = place(workspace.user, pairs, A, A)
    fingerprint = compute_key_fingerprint(pairs[A].public_pem)
    by_b = key_document(pairs[A], pairs[B], owner="a")
    by_b = by_b.replace(compute_key_fingerprint(pairs[B].public_pem), fingerprint)
    path.write_text(by_b, "utf-8")

    state = state_of(workspace, pairs[A])

    assert state.problem == f"its signature by {fingerprint} does not hold"
    assert agrees_with_the_store(workspace, state)


def test_a_document_under_a_wrong_name_says_both_names(
    workspace: Workspace, pairs: dict[str, KeyPair]
) -> None:
    path = place(workspace.user, pairs, A)
    wrong = path.with_name(f"{compute_key_fingerprint(pairs[B].public_pem)}.toml")
    path.rename(wrong)

    state = state_of(workspace, pairs[B])

    fingerprint = compute_key_fingerprint(pairs[A].public_pem)
    assert state.problem == f"the file is named {wrong.stem}, but its key is {fingerprint}"
    assert agrees_with_the_store(workspace, state)


@pytest.mark.parametrize("content", [b"", b"\xff", b"owner = 3", b"= nothing", b"x" * 100_000])
def test_an_unreadable_document_says_why(
    workspace: Workspace, pairs: dict[str, KeyPair], content: bytes
) -> None:
    path = place(workspace.user, pairs, A)
    path.write_bytes(content)

    state = state_of(workspace, pairs[A])

    assert not state.counts
    assert not state.problem.startswith(str(path))
    assert agrees_with_the_store(workspace, state)


def test_a_folder_in_the_place_of_a_document_is_not_trusted(workspace: Workspace) -> None:
    path = workspace.user.space.ai / "config/keys/trusted/0123456789abcdef.toml"
    path.mkdir()

    rye = workspace.rye()
    states = {state.path: state for state in key_states(rye.trust, rye.approvals)}

    assert not states[path].counts


def test_a_carried_document_waits_for_its_approval(
    workspace: Workspace, pairs: dict[str, KeyPair]
) -> None:
    place(workspace.project, pairs, A)
    before = state_of(workspace, pairs[A])

    fingerprint = compute_key_fingerprint(pairs[A].public_pem)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint)

    after = state_of(workspace, pairs[A])
    assert before.problem == "not approved for this project"
    assert before.hint == f"if you know whose key it is: rye keys trust {fingerprint}"
    assert after.counts
    assert agrees_with_the_store(workspace, after)


def test_a_carried_document_may_be_signed_by_a_key_of_the_user(
    workspace: Workspace, pairs: dict[str, KeyPair]
) -> None:
    place(workspace.user, pairs, B)
    place(workspace.project, pairs, A, B)
    fingerprint = compute_key_fingerprint(pairs[A].public_pem)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint)

    state = state_of(workspace, pairs[A])

    assert state.counts
    assert agrees_with_the_store(workspace, state)


def test_the_pin_of_a_node_cannot_sign_items(workspace: Workspace) -> None:
    node = generate_keypair()
    put_key_document(workspace.user.space, node, node, owner="remote:gpu:gpu.example")

    rye = workspace.rye()
    state = next(s for s in key_states(rye.trust, rye.approvals) if s.owner.startswith("remote:"))

    assert not state.counts
    assert state.problem == "the pin of a remote node, which signs no items"
