"""A change of any byte of a signed file is refused, but for a few uncovered bytes.

Those are, and each has its test: the digits of the time, the names in the provenance, and what
stands in a shebang behind ``#!/``.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.errors import LilluxError
from ryeos.items.refs import Kind
from ryeos.trust.verify import Target, Verifier
from tests.support.signed_files import (
    DIRECTIVE_BLOCK,
    ITEM_TYPE_IDS,
    ITEM_TYPES,
    Shelf,
    seed_keypair,
    sign_text,
)
from tests.support.workspace import Workspace

KEYPAIR = seed_keypair()
FLIPS = (0x01, 0x20, 0x80)  # the next character, the other case, no UTF-8
BODIES = {
    Kind.TOOL: "a = 1\n",
    Kind.CONFIG: "a: 1\n",
    Kind.DIRECTIVE: f"# T\n{DIRECTIVE_BLOCK}\nprose\n",
    Kind.KNOWLEDGE: "---\na: 1\n---\ntext\n",
}
TIME = re.compile(rb"rye:signed:(....-..-..T..:..:..Z)")
PROVENANCE = re.compile(rb"\|([\w-]+)@([\w-]+)")
SHEBANG = re.compile(rb"\A#!/(.*)\n")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("bytes"), ())
    made.user.trust(KEYPAIR, owner="seed", covers_all=True)
    return made


@pytest.fixture(scope="module")
def verifier(workspace: Workspace) -> Verifier:
    return workspace.rye().verifier


@pytest.fixture(scope="module")
def shelf(workspace: Workspace) -> Shelf:
    return Shelf(workspace.project.space)


def changes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Every position, with the file in which that byte is another one."""
    for position, byte in enumerate(data):
        for flip in FLIPS:
            yield position, data[:position] + bytes([byte ^ flip]) + data[position + 1 :]


def is_valid(verifier: Verifier, target: Target, path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        return verifier.verify(target).verified
    except LilluxError:
        return False


def positions(pattern: re.Pattern[bytes], data: bytes) -> set[int]:
    """Where the groups of a pattern stand."""
    found = pattern.search(data)
    groups = range(1, pattern.groups + 1) if found else ()
    return {at for group in groups for at in range(*found.span(group))} if found else set(groups)


def accepted_changes(verifier: Verifier, target: Target) -> set[int]:
    """The positions at which some other byte was accepted."""
    original = target.path.read_bytes()
    assert verifier.verify(target).verified
    return {
        position
        for position, changed in changes(original)
        if is_valid(verifier, target, target.path, changed)
    }


@pytest.mark.parametrize(("kind", "suffix"), ITEM_TYPES, ids=ITEM_TYPE_IDS)
def test_only_digits_of_the_time_can_change(
    shelf: Shelf, verifier: Verifier, kind: Kind, suffix: str
) -> None:
    signed = sign_text(kind, suffix, BODIES[kind], KEYPAIR).encode()
    target = shelf.put(kind, suffix, signed)
    digits = {at for at in positions(TIME, signed) if chr(signed[at]).isdigit()}

    assert accepted_changes(verifier, target) == digits


def test_of_a_shebang_only_the_text_behind_the_slash_can_change(
    shelf: Shelf, verifier: Verifier
) -> None:
    signed = sign_text(Kind.TOOL, ".py", "#!/bin/x -y\na = 1\n", KEYPAIR).encode()
    target = shelf.put(Kind.TOOL, ".py", signed)
    digits = {at for at in positions(TIME, signed) if chr(signed[at]).isdigit()}

    assert accepted_changes(verifier, target) == digits | positions(SHEBANG, signed)


def test_of_a_provenance_only_its_names_can_change(shelf: Shelf, verifier: Verifier) -> None:
    line, newline, body = sign_text(Kind.TOOL, ".py", "a = 1\n", KEYPAIR).partition("\n")
    signed = f"{line}|rye-registry@alice{newline}{body}".encode()
    target = shelf.put(Kind.TOOL, ".py", signed)
    digits = {at for at in positions(TIME, signed) if chr(signed[at]).isdigit()}
    names = positions(PROVENANCE, signed)

    accepted = accepted_changes(verifier, target)

    # A dash has no neighbour that a name may hold: flipped, it is a comma, a control character ...
    assert accepted == digits | {at for at in names if chr(signed[at]).isalnum()}


@pytest.mark.parametrize("suffix", [".json", ".txt"])
def test_of_a_detached_signature_only_digits_of_the_time_can_change(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, suffix: str
) -> None:
    target = shelf.put(Kind.TOOL, suffix, b'{"a": 1}\n')
    workspace.project.sign(target.path, KEYPAIR)
    beside = Path(f"{target.path}.sig")
    line, data = beside.read_bytes(), target.path.read_bytes()
    digits = {at for at in positions(TIME, line) if chr(line[at]).isdigit()}

    in_line = {at for at, x in changes(line) if is_valid(verifier, target, beside, x)}
    beside.write_bytes(line)
    in_data = {at for at, x in changes(data) if is_valid(verifier, target, target.path, x)}

    assert in_line - {len(line) - 1} == digits  # the newline at the end may be another blank
    assert in_data == set()


@pytest.mark.parametrize(("kind", "suffix"), ITEM_TYPES, ids=ITEM_TYPE_IDS)
def test_no_byte_can_be_dropped(shelf: Shelf, verifier: Verifier, kind: Kind, suffix: str) -> None:
    signed = sign_text(kind, suffix, BODIES[kind], KEYPAIR).encode()
    target = shelf.put(kind, suffix, signed)

    shorter = {at: signed[:at] + signed[at + 1 :] for at in range(len(signed))}

    assert not any(is_valid(verifier, target, target.path, data) for data in shorter.values())


@pytest.mark.parametrize(("kind", "suffix"), ITEM_TYPES, ids=ITEM_TYPE_IDS)
@pytest.mark.parametrize("byte", [b"\n", b" ", b"x", b"#", b"\r", b"\x00"])
def test_no_byte_can_be_put_in(
    shelf: Shelf, verifier: Verifier, kind: Kind, suffix: str, byte: bytes
) -> None:
    signed = sign_text(kind, suffix, BODIES[kind], KEYPAIR).encode()
    target = shelf.put(kind, suffix, signed)
    # A carriage return before a line feed is the same line end, but not to a shell.
    same = {at for at in range(len(signed)) if signed[at : at + 1] == b"\n"}
    harmless = same if byte == b"\r" and suffix != ".sh" else set()

    accepted = {
        at
        for at in range(len(signed) + 1)
        if is_valid(verifier, target, target.path, signed[:at] + byte + signed[at:])
    }

    assert accepted == harmless
