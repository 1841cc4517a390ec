"""A signature that is genuine, but of another text."""

from pathlib import Path

import pytest

from ryeos.items.errors import IntegrityError, SignatureFormatError, UnsignedError
from ryeos.items.refs import Kind
from ryeos.trust.keys import upgrade_own_key
from ryeos.trust.signature import content_hash
from ryeos.trust.signing_key import SigningKey
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
    """The hashes are the same text; the covers line distinguishes them."""
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
    """The format, which other programs share, does not show that a whole signed file was moved."""
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


def test_detached_signatures_cannot_change_places(
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


@pytest.fixture
def own(workspace: Workspace) -> Workspace:
    """A user whose key names the item in all that it signs, as `rye init` lets it."""
    upgrade_own_key(SigningKey(workspace.keypair), workspace.user.space)
    return workspace


def moved(workspace: Workspace, path: Path, to: str) -> str:
    """The code that a file is refused with as another item."""
    other = workspace.project.space.ai / to
    other.parent.mkdir(parents=True, exist_ok=True)
    path.rename(other)
    with pytest.raises(IntegrityError) as error:
        workspace.rye().verifier.verify(workspace.project.target(other).verify_target)
    return error.value.code


@pytest.mark.parametrize(
    "place", ["tools/mine/b.py", "tools/a.py", "tools/mine/a.js", "config/mine/a.toml"]
)
def test_a_tool_is_refused_as_another_item(own: Workspace, place: str) -> None:
    path = own.project.signed_tool("mine/a")

    assert moved(own, path, place) in {"UNBOUND_SIGNATURE", "INTEGRITY", "UNSIGNED"}


def test_knowledge_that_looks_like_a_script_is_no_tool(own: Workspace) -> None:
    path = own.project.knowledge("mine/a", "touch /tmp/owned")
    own.project.sign(path)
    line, body = path.read_text("utf-8").split("\n", 1)
    own.project.write("tools/mine/a.sh", f"# {line[5:-4]}\n{body}")

    assert own.run("mine/a").metadata["error_code"] == "UNBOUND_SIGNATURE"


def test_a_text_that_was_signed_for_no_item_is_no_tool(own: Workspace) -> None:
    text = "touch /tmp/owned\n"
    value = SigningKey(own.keypair).digest_signature(content_hash(text))
    line = f"# rye:signed:2026-01-02T03:04:05Z:{content_hash(text)}:{value}:{own.fingerprint}\n"
    own.project.write("tools/claim.sh", line + text)

    assert own.run("claim").metadata["error_code"] == "UNBOUND_SIGNATURE"


def test_a_line_cannot_be_added_below_a_signature(own: Workspace) -> None:
    path = own.project.signed_tool("mine/a")
    text = path.read_text("utf-8")
    path.write_text(text.replace("mine/a:py", "mine/b:py"), encoding="utf-8")

    assert moved(own, path, "tools/mine/b.py") == "INTEGRITY"


def test_a_signature_beside_a_file_is_for_that_file(own: Workspace) -> None:
    path = own.project.signed("tools/mine/data.json", b"{}")
    other = own.project.write("tools/mine/settings.json", b"{}")
    other.with_name("settings.json.sig").write_bytes(beside(path).read_bytes())

    with pytest.raises(IntegrityError, match=r"signed as tool:mine/data\.json"):
        own.rye().verifier.verify(own.project.target(other).verify_target)


def test_the_line_beside_a_file_cannot_be_taken_away(own: Workspace) -> None:
    path = own.project.signed("tools/mine/data.json", b"{}")
    beside(path).write_bytes(beside(path).read_bytes().partition(b"\n")[0])

    with pytest.raises(IntegrityError, match=MODIFIED):
        own.rye().verifier.verify(own.project.target(path).verify_target)


def test_a_link_gives_no_other_id(own: Workspace) -> None:
    path = own.project.signed_tool("mine/a")
    path.with_name("b.py").symlink_to("a.py")

    assert own.run("mine/a").success
    assert own.run("mine/b").metadata["error_code"] == "UNBOUND_SIGNATURE"


def test_an_item_of_an_unmarked_key_is_refused_in_another_folder(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/a", "print(1)")
    workspace.project.sign_unchecked(path)
    other = workspace.project.write("tools/other/a.py", path.read_bytes())

    assert other.exists()
    assert workspace.run("mine/a").success
    assert workspace.run("other/a").metadata["error_code"] == "UNBOUND_SIGNATURE"


def test_a_text_of_an_unmarked_key_without_a_header_is_no_shell_tool(workspace: Workspace) -> None:
    path = workspace.project.write("tools/mine/name.sh", "touch owned\n")
    workspace.project.sign_unchecked(path)

    result = workspace.run("mine/name")

    assert "declares no executor" in str(result.error)
    assert not (workspace.project_path / "owned").exists()


def test_a_tool_may_be_called_encoding(own: Workspace) -> None:
    """Python takes ``coding:`` in the second line for its encoding."""
    path = own.project.signed_tool("mine/encoding", "print('it runs')")

    assert "mine/encodin%67:py" in path.read_text("utf-8")
    assert own.run("mine/encoding").data["stdout"] == "it runs\n"


def test_a_signature_beside_cannot_be_more_than_one_line(
    workspace: Workspace, verifier: Verifier, data_files: tuple[Path, Path]
) -> None:
    line = beside(data_files[0]).read_bytes()
    beside(data_files[0]).write_bytes(line + line)

    with pytest.raises(SignatureFormatError) as error:
        verifier.verify(workspace.project.target(data_files[0]).verify_target)

    assert str(error.value) == f"expected one rye:signed line: {beside(data_files[0])}"
