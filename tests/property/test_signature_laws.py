"""Laws for every text, kind and suffix."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lillux.values import replace
from ryeos.items.errors import IntegrityError, SignatureFormatError
from ryeos.items.refs import Kind
from ryeos.trust.signature import (
    Covers,
    Signature,
    SignedText,
    compose,
    form_for,
    hashed_text,
    split,
)
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.verify import Verifier
from tests.support.hash_rules import covered_by_the_rules, hash_by_the_rules
from tests.support.signed_files import (
    DIRECTIVE_BLOCK,
    ITEM_TYPE_IDS,
    ITEM_TYPES,
    Shelf,
    seed_keypair,
    sign_text,
)
from tests.support.workspace import Workspace, fixed_clock

pytestmark = pytest.mark.property

KEYPAIR = seed_keypair()
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
FINGERPRINTS = st.text("0123456789abcdef", min_size=16, max_size=16)
NAMES = st.text("ABCxyz019_-", min_size=1, max_size=8)
VALUES = st.tuples(st.text("ABCxyz019_-", min_size=86, max_size=86), st.sampled_from(["==", ""]))
SIGNATURES = st.builds(
    Signature,
    timestamp=st.datetimes().map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)),
    content_hash=DIGESTS,
    value=VALUES.map("".join),
    fingerprint=FINGERPRINTS,
    provenance=st.just("") | st.tuples(NAMES, NAMES).map("@".join),
)
COVERS = st.builds(Covers, DIGESTS, VALUES.map("".join), FINGERPRINTS)
SHEBANGS = st.sampled_from(["", "#!/bin/sh\n", "#!/usr/bin/env python3 -x\n"])

# Texts with the marks of the rules at the start, in the middle and cut short.
PIECES = st.sampled_from(
    [
        "\n",
        "\r\n",
        "\r",
        "---",
        "---\n",
        "#!/bin/sh\n",
        "#!/x",
        "# ",
        "// ",
        "<!-- ",
        "rye:signed:2026-02-10T02:00:00Z:placeholder:unsigned:unsigned",
        "rye:validated:x:0",
        " -->\n",
        "<directive",
        '<directive name="x">',
        "</directive>",
        DIRECTIVE_BLOCK,
        "\ufeff",
        "\u2028",
        "\x85",
        "\x00",
        "é",
        " ",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join)
BODIES = TEXTS | st.tuples(TEXTS, st.just(DIRECTIVE_BLOCK), TEXTS).map("".join) | st.text()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shelf, Verifier]:
    workspace = Workspace(tmp_path_factory.mktemp("laws"), ())
    workspace.user.trust(KEYPAIR, owner="seed", covers_all=True)
    return Shelf(workspace.project.space), workspace.rye().verifier


@given(
    item_type=st.sampled_from(ITEM_TYPES),
    signature=st.none() | SIGNATURES,
    covers=st.none() | COVERS,
    shebang=SHEBANGS,
    signature_first=st.booleans(),
    body=BODIES,
)
def test_splitting_a_composed_text_gives_its_parts_back(  # noqa: PLR0917 - drawn by name
    item_type: tuple[Kind, str],
    signature: Signature | None,
    covers: Covers | None,
    shebang: str,
    signature_first: bool,  # noqa: FBT001
    body: str,
) -> None:
    kind, suffix = item_type
    form = form_for(kind, suffix)
    markdown = form.end != ""
    below = bool(signature and shebang and (signature_first or not form.after_shebang))
    parts = SignedText(
        shebang="" if markdown else shebang,
        signature=signature,
        covers=covers if markdown and signature else None,
        body=body,
        signature_first=below and not markdown,
    )
    # A body must not go on with what belongs into a line above it.
    bare = SignedText(shebang="", signature=None, covers=None, body=body)
    try:
        assume(split(body, form, "x") == bare)
    except SignatureFormatError:
        assume(False)  # noqa: FBT003 - a body that no file may have

    assert split(compose(parts, form), form, "x") == parts


@given(item_type=st.sampled_from(ITEM_TYPES), text=BODIES)
def test_composing_a_split_text_loses_at_most_a_line_that_signs_nothing(
    item_type: tuple[Kind, str], text: str
) -> None:
    kind, suffix = item_type
    form = form_for(kind, suffix)
    try:
        signed = split(text, form, "x")
    except SignatureFormatError:
        return

    composed = compose(signed, form)

    lines, kept = text.split("\n"), composed.split("\n")
    dropped = [n for n in (0, 1) if lines[:n] + lines[n + 1 :] == kept]
    assert composed == text or any("rye:" in lines[n] for n in dropped)


@given(item_type=st.sampled_from(ITEM_TYPES), text=BODIES)
def test_the_covered_text_is_that_of_the_rules_written_down_twice(
    item_type: tuple[Kind, str], text: str
) -> None:
    kind, suffix = item_type
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    expected = covered_by_the_rules(kind, suffix, text)

    form = form_for(kind, suffix)
    if expected is None:
        with pytest.raises(SignatureFormatError):
            hashed_text(kind, split(text, form, "x"), "x")
        return
    with suppress(SignatureFormatError):  # the rules have a hash for refused texts, too
        assert hashed_text(kind, split(text, form, "x"), "x") == expected


@pytest.mark.parametrize(("kind", "suffix"), ITEM_TYPES, ids=ITEM_TYPE_IDS)
@given(body=BODIES, shebang=SHEBANGS)
def test_a_signed_text_verifies_and_comes_back_as_it_was(
    ground: tuple[Shelf, Verifier], kind: Kind, suffix: str, body: str, shebang: str
) -> None:
    shelf, verifier = ground
    form = form_for(kind, suffix)
    text = (shebang if form.after_shebang else "") + body
    normalised = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        bare = replace(split(normalised, form, "x"), signature=None, covers=None)
        signed = SigningKey(KEYPAIR, fixed_clock).signed_text(kind, bare, form, "x")
    except SignatureFormatError:
        assume(False)  # noqa: FBT003 - refused when signing
    if form.after_shebang is False and bare.shebang:
        return  # refused when signing: the line would stand above a shebang

    item = verifier.verify(shelf.put(kind, suffix, signed.encode()))

    assert item.verified
    assert item.text == signed
    assert item.content_hash == hash_by_the_rules(kind, suffix, signed.encode())
    assert item.coverage == "full"


@pytest.mark.parametrize(("kind", "suffix"), ITEM_TYPES, ids=ITEM_TYPE_IDS)
@given(body=BODIES)
def test_other_line_ends_verify_too_except_in_shell_scripts(
    ground: tuple[Shelf, Verifier], kind: Kind, suffix: str, body: str
) -> None:
    shelf, verifier = ground
    try:
        signed = sign_text(kind, suffix, DIRECTIVE_BLOCK + body.replace("\r", ""), KEYPAIR)
    except SignatureFormatError:
        assume(False)  # noqa: FBT003 - refused when signing
    target = shelf.put(kind, suffix, signed.replace("\n", "\r\n").encode())

    if suffix == ".sh":
        with pytest.raises(IntegrityError, match="carriage return in a shell script"):
            verifier.verify(target)
    else:
        assert verifier.verify(target).verified


@given(data=st.binary(max_size=200), suffix=st.sampled_from([".json", ".txt", ".rs"]))
def test_a_detached_signature_holds_for_the_very_bytes(
    ground: tuple[Shelf, Verifier], data: bytes, suffix: str
) -> None:
    shelf, verifier = ground
    try:
        data.decode()
    except UnicodeDecodeError:
        assume(suffix != ".json")
    target = shelf.put(Kind.TOOL, suffix, data)
    line = SigningKey(KEYPAIR, fixed_clock).detached_line(data)
    Path(f"{target.path}.sig").write_text(line, encoding="ascii")

    assert verifier.verify(target).verified
