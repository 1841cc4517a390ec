"""A signature that is genuine, but of another text."""

from pathlib import Path

import pytest

from ryeos.items.errors import IntegrityError, SignatureFormatError, UnsignedError
from ryeos.items.refs import Kind
from ryeos.trust.verify import Verifier
from tests.support.signed_files import DIRECTIVE_BLOCK, Shelf, sign_text
from tests.support.workspace import Workspace

MODIFIED = "content modified since signing"


@pytest.fixture
def shelf(workspace: Workspace) -> Shelf:
    return Shelf(workspace.project.space)


@pytest.fixture
def verifier(workspace: Workspace) -> Verifier:
    return workspace.rye().verifier


def line_of(workspace: Workspace, kind: Kind, suffix: str, text: str) -> str:
    """The signature line that the user's own key gives a text."""
    return sign_text(kind, suffix, text, workspace.keypair).partition("\n")[0] + "\n"


def test_the_line_of_one_tool_signs_no_other(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    line = line_of(workspace, Kind.TOOL, ".py", "good = 1\n")
    target = shelf.put(Kind.TOOL, ".py", f"{line}evil = 1\n".encode())

    with pytest.raises(IntegrityError, match=MODIFIED):
        verifier.verify(target)


def test_the_line_of_an_empty_file_signs_nothing_else(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    line = line_of(workspace, Kind.TOOL, ".py", "")

    with pytest.raises(IntegrityError, match=MODIFIED):
        verifier.verify(shelf.put(Kind.TOOL, ".py", f"{line}evil = 1\n".encode()))


def test_the_line_of_a_directive_signs_no_knowledge(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    signed = sign_text(Kind.DIRECTIVE, ".md", f"{DIRECTIVE_BLOCK}\nprose\n", workspace.keypair)

    with pytest.raises(IntegrityError, match=MODIFIED):
        verifier.verify(shelf.put(Kind.KNOWLEDGE, ".md", signed.encode()))


def test_knowledge_that_is_a_block_is_no_whole_directive(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """The hashes are the same text; the covers line tells them apart."""
    signed = sign_text(Kind.KNOWLEDGE, ".md", DIRECTIVE_BLOCK, workspace.keypair)

    with pytest.raises(IntegrityError, match="the rye:covers line is missing"):
        verifier.verify(shelf.put(Kind.DIRECTIVE, ".md", signed.encode()))


def test_front_matter_put_above_signed_knowledge_is_not_covered(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """By the rules of the first line the text below a ``---`` block is the whole text."""
    line = line_of(workspace, Kind.KNOWLEDGE, ".md", "Water is wet.")
    forged = f"{line}---\nname: evil\n---\nWater is wet."

    with pytest.raises(IntegrityError, match="the rye:covers line is missing"):
        verifier.verify(shelf.put(Kind.KNOWLEDGE, ".md", forged.encode()))


@pytest.mark.parametrize("order", ["own first", "own last"])
def test_a_second_line_above_or_below_the_genuine_one_is_refused(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, order: str
) -> None:
    """Readers that strip the first line and readers that verify the last would disagree."""
    genuine = sign_text(Kind.TOOL, ".py", "good = 1\n", workspace.keypair)
    other = line_of(workspace, Kind.TOOL, ".py", genuine)
    line, _, body = genuine.partition("\n")
    text = other + genuine if order == "own first" else f"{line}\n{other}{body}"

    with pytest.raises(SignatureFormatError, match="two signature lines, expected one"):
        verifier.verify(shelf.put(Kind.TOOL, ".py", text.encode()))


def test_a_genuine_line_further_down_is_no_signature(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    genuine = sign_text(Kind.TOOL, ".py", "good = 1\n", workspace.keypair)

    with pytest.raises(UnsignedError):
        verifier.verify(shelf.put(Kind.TOOL, ".py", f"evil = 1\n{genuine}".encode()))


def test_a_signature_is_about_a_text_and_not_about_its_place(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """What the format, which others share, cannot tell: a whole signed file that was moved."""
    signed = sign_text(Kind.TOOL, ".py", "good = 1\n", workspace.keypair).encode()

    moved = verifier.verify(shelf.put(Kind.TOOL, ".py", signed, name="elsewhere/other"))

    assert moved.verified


# --- signatures beside their files ----------------------------------------------------------------


@pytest.fixture
def data_files(workspace: Workspace) -> tuple[Path, Path]:
    """Two data files with their signatures beside them."""
    paths = [workspace.project.write(f"tools/{n}.json", f'{{"n": "{n}"}}\n') for n in ("a", "b")]
    for path in paths:
        workspace.project.sign(path)
    return paths[0], paths[1]


def beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def test_signatures_beside_two_files_cannot_change_places(
    workspace: Workspace, verifier: Verifier, data_files: tuple[Path, Path]
) -> None:
    one, two = data_files
    mine, theirs = beside(one).read_bytes(), beside(two).read_bytes()
    beside(one).write_bytes(theirs)
    beside(two).write_bytes(mine)

    for path in data_files:
        with pytest.raises(IntegrityError, match=MODIFIED):
            verifier.verify(workspace.project.target(path).verify_target)


def test_the_files_cannot_change_places_either(
    workspace: Workspace, verifier: Verifier, data_files: tuple[Path, Path]
) -> None:
    one, two = data_files
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)

    for path in data_files:
        with pytest.raises(IntegrityError, match=MODIFIED):
            verifier.verify(workspace.project.target(path).verify_target)


def test_the_line_of_a_tool_does_not_sign_a_file_beside_it(
    workspace: Workspace, verifier: Verifier, data_files: tuple[Path, Path]
) -> None:
    line = line_of(workspace, Kind.TOOL, ".py", "x = 1\n")
    beside(data_files[0]).write_text(line.removeprefix("# "), encoding="ascii")

    with pytest.raises(IntegrityError, match=MODIFIED):
        verifier.verify(workspace.project.target(data_files[0]).verify_target)


def test_a_signature_beside_cannot_be_more_than_one_line(
    workspace: Workspace, verifier: Verifier, data_files: tuple[Path, Path]
) -> None:
    line = beside(data_files[0]).read_bytes()
    beside(data_files[0]).write_bytes(line + line)

    with pytest.raises(SignatureFormatError) as error:
        verifier.verify(workspace.project.target(data_files[0]).verify_target)

    assert str(error.value) == f"expected one rye:signed line: {beside(data_files[0])}"
