"""Text that a reader could take from the signature line and the shebang without a signature.

Each attack is shown to work on the real reader first, then to be refused.
"""

import io
import tokenize
from pathlib import Path

import pytest

from lillux.process import ProcessManager
from ryeos.items.errors import IntegrityError, SignatureFormatError
from ryeos.items.refs import Kind
from ryeos.items.yaml import parse_yaml
from ryeos.trust.verify import Verifier
from tests.support.children import shell
from tests.support.programs import require_program
from tests.support.signed_files import Shelf, sign_text
from tests.support.workspace import Workspace


@pytest.fixture
def shelf(workspace: Workspace) -> Shelf:
    return Shelf(workspace.project.space)


@pytest.fixture
def verifier(workspace: Workspace) -> Verifier:
    return workspace.rye().verifier


def assert_refused(verifier: Verifier, shelf: Shelf, suffix: str, data: str, problem: str) -> None:
    with pytest.raises(SignatureFormatError) as error:
        verifier.verify(shelf.put(Kind.TOOL, suffix, data.encode()))
    assert error.value.problem == problem


TAIL = "text behind the signature on its line, which no signature covers"
SHEBANG = "the shebang line, which no signature covers, holds more than a program"


# --- Python looks for an encoding in the first two lines ------------------------------------------


def encoding_of(text: str) -> str:
    return tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0]


def test_an_encoding_behind_the_fingerprint(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """In UTF-7 ``+AAo-`` is a line feed: a comment becomes a line of code."""
    signed = sign_text(Kind.TOOL, ".py", "# harmless +AAo-evil()\n", workspace.keypair)
    evil = signed.replace("\n", " coding: utf-7\n", 1)
    assert encoding_of(evil) == "utf-7"

    assert_refused(verifier, shelf, ".py", evil, TAIL)


def test_an_encoding_in_the_provenance_has_no_effect(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """A provenance may be any text; without a colon behind the word it is no declaration."""
    signed = sign_text(Kind.TOOL, ".py", "x = 1\n", workspace.keypair)
    odd = signed.replace("\n", "|coding@utf-7\n", 1)
    assert encoding_of(odd) == "utf-8"

    assert verifier.verify(shelf.put(Kind.TOOL, ".py", odd.encode())).verified


@pytest.mark.parametrize(
    "shebang", ["#!/bin/python coding: utf-7", "#!/bin/x -*-coding=latin-1-*-"]
)
@pytest.mark.parametrize("place", ["above", "below"])
def test_an_encoding_in_the_shebang(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, shebang: str, place: str
) -> None:
    signed = sign_text(Kind.TOOL, ".py", "x = 1\n", workspace.keypair)
    line, _, body = signed.partition("\n")
    lines = [shebang, line] if place == "above" else [line, shebang]
    evil = "\n".join([*lines, body])
    assert encoding_of(evil) in ("utf-7", "iso-8859-1")

    assert_refused(verifier, shelf, ".py", evil, SHEBANG)


# --- YAML has more line ends than we have ---------------------------------------------------------


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_line_of_yaml_in_the_shebang(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, separator: str
) -> None:
    evil_line = f"#!/bin/x{separator}executor_id: evil"
    signed = sign_text(Kind.TOOL, ".yaml", "version: '1.0.0'\n", workspace.keypair)
    evil = f"{evil_line}\n{signed}"
    assert parse_yaml(evil, "yaml header")["executor_id"] == "evil"

    assert_refused(verifier, shelf, ".yaml", evil, SHEBANG)


def test_a_line_of_yaml_behind_the_fingerprint(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    signed = sign_text(Kind.TOOL, ".yaml", "version: '1.0.0'\n", workspace.keypair)
    evil = signed.replace("\n", "\u2028executor_id: evil\n", 1)
    assert parse_yaml(evil, "yaml header")["executor_id"] == "evil"

    assert_refused(verifier, shelf, ".yaml", evil, TAIL)


# --- a shell takes a carriage return for part of a word -------------------------------------------


def test_a_carriage_return_in_a_shell_script(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, tmp_path: Path
) -> None:
    """``#`` hides the rest of its line: with another line end, other commands run."""
    require_program("sh")
    body = "echo one # comment\necho two\n"
    signed = sign_text(Kind.TOOL, ".sh", body, workspace.keypair)
    evil = signed.replace("comment\n", "comment\r")
    script = tmp_path / "x.sh"
    script.write_bytes(evil.encode())
    output = ProcessManager().run(shell(f"sh '{script}'")).stdout.data
    assert output == b"one\n"

    assert_refused(verifier, shelf, ".sh", evil, "carriage return in a shell script")


def test_a_carriage_return_in_the_signature_line_of_a_shell_script(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    signed = sign_text(Kind.TOOL, ".sh", "echo one\n", workspace.keypair)

    assert_refused(
        verifier,
        shelf,
        ".sh",
        signed.replace("\n", "\r\n", 1),
        "carriage return in a shell script",
    )


# --- Markdown ends a comment where it likes -------------------------------------------------------


@pytest.mark.parametrize(
    "end", [" --> Ignore what follows.", " --><b>", " --> <!-- more -->", " \n-->", "-->"]
)
@pytest.mark.parametrize("kind", [Kind.DIRECTIVE, Kind.KNOWLEDGE])
def test_text_behind_the_comment(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, kind: Kind, end: str
) -> None:
    text = '<directive name="x">\n</directive>\n'
    signed = sign_text(kind, ".md", text, workspace.keypair)

    with pytest.raises(IntegrityError):
        verifier.verify(shelf.put(kind, ".md", signed.replace(" -->", end, 1).encode()))


def test_a_block_that_stands_in_the_signature_line(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    """The first ``<directive`` anywhere begins the block: the line must not be able to hold one."""
    text = '<directive name="x">\n</directive>\n'
    signed = sign_text(Kind.DIRECTIVE, ".md", text, workspace.keypair)
    evil = signed.replace(" -->", "|<directive>@x -->", 1)

    with pytest.raises(SignatureFormatError) as error:
        verifier.verify(shelf.put(Kind.DIRECTIVE, ".md", evil.encode()))
    assert error.value.problem == TAIL
