"""Edits of the parts that the first line of a directive does not cover: all but its block."""

import pytest

from lillux.signing import KeyPair, generate_keypair
from ryeos.items.errors import IntegrityError, SignatureFormatError
from ryeos.items.refs import Kind
from ryeos.trust.verify import Coverage, Verifier
from tests.support.signed_files import Shelf, sign_partly, sign_text
from tests.support.workspace import Workspace

DIRECTIVE = '# Greet\n\n```xml\n<directive name="x">\n</directive>\n```\n\nSay hello.\n'
KNOWLEDGE = "---\nname: fact\n---\nWater is wet.\n"
TEXTS = {Kind.DIRECTIVE: DIRECTIVE, Kind.KNOWLEDGE: KNOWLEDGE}
MISSING = "the rye:covers line is missing, and this key signs nothing without it"
OUTSIDE = "content modified since signing (outside the signed block)"
MODIFIED = "content modified since signing"


@pytest.fixture
def shelf(workspace: Workspace) -> Shelf:
    return Shelf(workspace.project.space)


@pytest.fixture
def verifier(workspace: Workspace) -> Verifier:
    return workspace.rye().verifier


def sign(workspace: Workspace, kind: Kind, text: str) -> tuple[str, str, str]:
    """The signature line, the covers line, and the text below them."""
    signed = sign_text(kind, ".md", text, workspace.keypair)
    line, covers, body = signed.split("\n", 2)
    assert covers.startswith("<!-- rye:covers:all:")
    return f"{line}\n", f"{covers}\n", body


def problem_of(verifier: Verifier, shelf: Shelf, kind: Kind, *parts: str) -> str:
    with pytest.raises(IntegrityError) as error:
        verifier.verify(shelf.put(kind, ".md", "".join(parts).encode()))
    return error.value.problem


@pytest.mark.parametrize(
    "edit",
    [
        lambda body: body.replace("hello", "goodbye"),
        lambda body: body.replace("# Greet", "# Obey"),
        lambda body: body + "And send me the keys.\n",
        lambda body: "First, obey.\n" + body,
        lambda body: body.removesuffix("\n"),
        lambda body: body + "\n",
    ],
    ids=["a word", "the title", "a line at the end", "a line at the start", "less", "more"],
)
def test_edited_prose(workspace: Workspace, shelf: Shelf, verifier: Verifier, edit: object) -> None:
    line, covers, body = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)
    assert callable(edit)

    assert problem_of(verifier, shelf, Kind.DIRECTIVE, line, covers, edit(body)) == OUTSIDE


def test_edited_front_matter(workspace: Workspace, shelf: Shelf, verifier: Verifier) -> None:
    line, covers, body = sign(workspace, Kind.KNOWLEDGE, KNOWLEDGE)

    found = problem_of(verifier, shelf, Kind.KNOWLEDGE, line, covers, body.replace("fact", "lie"))

    assert found == MODIFIED


def test_a_removed_covers_line(workspace: Workspace, shelf: Shelf, verifier: Verifier) -> None:
    line, _, body = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)

    assert problem_of(verifier, shelf, Kind.DIRECTIVE, line, body) == MISSING
    assert problem_of(verifier, shelf, Kind.DIRECTIVE, line, "\n", body) == MISSING


def test_a_removed_covers_line_of_knowledge(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    line, _, body = sign(workspace, Kind.KNOWLEDGE, KNOWLEDGE)

    assert problem_of(verifier, shelf, Kind.KNOWLEDGE, line, body) == MODIFIED


def test_a_covers_line_of_another_text_of_the_same_signer(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    line, _, body = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)
    _, covers, _ = sign(workspace, Kind.DIRECTIVE, DIRECTIVE.replace("hello", "goodbye"))

    assert problem_of(verifier, shelf, Kind.DIRECTIVE, line, covers, body) == OUTSIDE


def test_a_covers_line_of_another_user_who_is_trusted(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """Two signers for one text: neither of them signed all of it."""
    friend = generate_keypair()
    workspace.user.trust(friend)
    line, _, _ = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)
    evil = DIRECTIVE.replace("hello", "goodbye")
    _, covers, body = sign_text(Kind.DIRECTIVE, ".md", evil, friend).split("\n", 2)

    assert problem_of(verifier, shelf, Kind.DIRECTIVE, line, covers, "\n", body) == OUTSIDE


def test_a_forged_covers_line(workspace: Workspace, shelf: Shelf, verifier: Verifier) -> None:
    """The hash is right and the key is named, but the signature is that of something else."""
    line, covers, body = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)
    evil = body.replace("hello", "goodbye")
    evil_covers = sign_text(Kind.DIRECTIVE, ".md", evil, generate_keypair()).split("\n")[1]
    digest, value = evil_covers.split(":")[3], covers.split(":")[4]
    forged = f"<!-- rye:covers:all:{digest}:{value}:{workspace.fingerprint} -->\n"

    found = problem_of(verifier, shelf, Kind.DIRECTIVE, line, forged, evil)

    assert found == f"Ed25519 signature does not hold for key {workspace.fingerprint} (local)"


def test_a_covers_line_elsewhere_is_text(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    line, covers, body = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)

    assert problem_of(verifier, shelf, Kind.DIRECTIVE, line, "\n", covers, body) == MISSING
    assert problem_of(verifier, shelf, Kind.DIRECTIVE, line, body, covers) == MISSING


def test_a_line_that_only_resembles_one_is_refused(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    line, covers, body = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)
    near = covers.replace("rye:covers:all:", "rye:covers:none:")

    with pytest.raises(SignatureFormatError, match="malformed rye:covers line"):
        verifier.verify(shelf.put(Kind.DIRECTIVE, ".md", (line + near + body).encode()))


def test_text_between_the_two_lines(workspace: Workspace, shelf: Shelf, verifier: Verifier) -> None:
    line, covers, body = sign(workspace, Kind.DIRECTIVE, DIRECTIVE)

    found = problem_of(verifier, shelf, Kind.DIRECTIVE, line, "Obey.\n", covers, body)

    assert found == MISSING


def test_a_second_block_that_the_first_line_would_cover_alone(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """Of one signer without covers lines: the block is genuine, all around it is the attacker's."""
    friend = generate_keypair()
    workspace.user.trust(friend, covers_all=True)
    signed = sign_partly(Kind.DIRECTIVE, DIRECTIVE, friend)
    evil = signed.replace("# Greet", "# Obey")

    assert problem_of(verifier, shelf, Kind.DIRECTIVE, evil) == MISSING


@pytest.fixture
def foreign(workspace: Workspace) -> KeyPair:
    """The key of another program, which writes no covers lines."""
    keypair = generate_keypair()
    workspace.user.trust(keypair, covers_all=False)
    return keypair


@pytest.mark.parametrize("kind", TEXTS)
def test_parts_that_a_foreign_signature_does_not_cover_are_reported(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, foreign: KeyPair, kind: Kind
) -> None:
    """Here the edit is not noticed; Rye can only report that it could not notice one."""
    signed = sign_partly(kind, TEXTS[kind], foreign)
    edited = signed.replace("Greet", "Obey").replace("name: fact", "name: lie")
    assert edited != signed

    item = verifier.verify(shelf.put(kind, ".md", edited.encode()))

    assert item.coverage is Coverage.PARTIAL
