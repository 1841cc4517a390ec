import re
from pathlib import Path

import pytest

from lillux.signing import KeyPair, generate_keypair, verify_signature
from lillux.values import replace
from ryeos.items.errors import NoSignatureFormError, SignatureFormatError
from ryeos.items.refs import Kind
from ryeos.trust.signature import (
    FORMS,
    Signature,
    compose,
    content_hash,
    decode,
    detached_path,
    form_for,
    hashed_text,
    needs_covers,
    parse_core,
    split,
)
from tests.support.hash_rules import covered_by_the_rules
from tests.support.signed_files import (
    ITEM_TYPE_IDS,
    ITEM_TYPES,
    SEED_FINGERPRINT,
    seed_keypair,
    sign_text,
)

VECTOR_TEXT = '"""Say hello."""\n\n__version__ = "1.0.0"\n'
VECTOR_CORE = (
    "rye:signed:2026-01-02T03:04:05Z"
    ":61a0a341ba5987c0739b53c96d1edb02673d22d453f5411cd03e29bc252532e7"
    ":oJkKAkTvGVvvh9xRgSV7ob-11tKxAtJ7sVIfTd8nSlUZLynYBwqUktONM2vBk4BgTYrTaIl9qckwn1v6NCX-AA=="
    f":{SEED_FINGERPRINT}"
)
VECTOR = Signature(
    timestamp="2026-01-02T03:04:05Z",
    content_hash="61a0a341ba5987c0739b53c96d1edb02673d22d453f5411cd03e29bc252532e7",
    value=VECTOR_CORE.split(":")[-2],
    fingerprint=SEED_FINGERPRINT,
)
LINE = f"# {VECTOR_CORE}\n"
SLASH_LINE = f"// {VECTOR_CORE}\n"
MARKDOWN_LINE = f"<!-- {VECTOR_CORE} -->\n"
COVERS_LINE = f"<!-- rye:covers:all:{'0' * 64}:{VECTOR.value}:{SEED_FINGERPRINT} -->\n"
BLOCK = '<directive name="x">\n</directive>'
TOOL, CONFIG, DIRECTIVE, KNOWLEDGE = Kind.TOOL, Kind.CONFIG, Kind.DIRECTIVE, Kind.KNOWLEDGE


@pytest.fixture(scope="module")
def keypair() -> KeyPair:
    return generate_keypair()


def lines_of(kind: Kind, suffix: str, text: str) -> Signature | None:
    return split(text, form_for(kind, suffix), f"x{suffix}").signature


def covered(kind: Kind, suffix: str, text: str) -> str:
    signed = split(decode(text.encode(), f"x{suffix}"), form_for(kind, suffix), f"x{suffix}")
    return hashed_text(kind, signed, f"x{suffix}")


# --- the line -------------------------------------------------------------------------------------


def test_the_published_vector_is_written_to_the_byte() -> None:
    assert sign_text(TOOL, ".py", VECTOR_TEXT, seed_keypair()) == LINE + VECTOR_TEXT


def test_the_published_vector_verifies() -> None:
    signed = split(LINE + VECTOR_TEXT, form_for(TOOL, ".py"), "x.py")

    assert signed.signature == VECTOR
    assert content_hash(hashed_text(TOOL, signed, "x.py")) == VECTOR.content_hash
    assert verify_signature(VECTOR.content_hash, VECTOR.value, seed_keypair().public_pem)


def test_a_line_gives_its_fields_back() -> None:
    signature = replace(VECTOR, provenance="rye-registry@alice")

    assert parse_core(signature.core()) == signature
    assert signature.core() == f"{VECTOR_CORE}|rye-registry@alice"


@pytest.mark.parametrize(
    ("kind", "suffix", "line"),
    [
        *[(TOOL, s, LINE) for s in (".py", ".yaml", ".yml", ".json", ".sh", ".toml")],
        *[(TOOL, s, SLASH_LINE) for s in (".js", ".ts", ".mjs", ".cjs")],
        *[(CONFIG, s, LINE) for s in (".yaml", ".yml", ".toml")],
        (DIRECTIVE, ".md", MARKDOWN_LINE),
        *[(KNOWLEDGE, s, MARKDOWN_LINE) for s in (".md", ".yaml", ".yml")],
    ],
)
def test_every_file_type_has_its_comment(kind: Kind, suffix: str, line: str) -> None:
    assert VECTOR.line(form_for(kind, suffix)) == line
    assert lines_of(kind, suffix, line + "body") == VECTOR


def test_every_suffix_of_an_item_has_a_form() -> None:
    assert all(set(kind.suffixes) <= FORMS[kind].keys() for kind in Kind)


def test_a_file_type_without_comments_has_no_form() -> None:
    with pytest.raises(NoSignatureFormError) as error:
        form_for(TOOL, ".rs", "tools/x.rs")

    assert str(error.value) == "tools/x.rs: no signature form for files ending in '.rs'"


def test_a_detached_signature_is_a_file_beside_the_item() -> None:
    assert detached_path(Path("data/x.json")) == Path("data/x.json.sig")


@pytest.mark.parametrize(
    "line",
    [
        VECTOR_CORE.replace("2026-01-02T03:04:05Z", "2026-01-02 03:04:05Z"),
        VECTOR_CORE.replace("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
        VECTOR_CORE.replace("2026-01-02T03:04:05Z", "٢026-01-02T03:04:05Z"),
        VECTOR_CORE.replace(VECTOR.content_hash, VECTOR.content_hash.upper()),
        VECTOR_CORE.replace(VECTOR.content_hash, VECTOR.content_hash[1:]),
        VECTOR_CORE.replace(VECTOR.value, VECTOR.value + "="),
        VECTOR_CORE.replace(VECTOR.value, "+" + VECTOR.value[1:]),
        VECTOR_CORE.replace(VECTOR.fingerprint, VECTOR.fingerprint.upper()),
        VECTOR_CORE.replace(VECTOR.fingerprint, VECTOR.fingerprint[1:]),
        VECTOR_CORE.replace("rye:signed", "RYE:signed"),
        "rye:signed:2026-02-10T02:00:00Z:placeholder:unsigned:unsigned",
        "rye:unsigned",
    ],
)
def test_a_line_of_another_shape_is_not_a_signature(line: str) -> None:
    assert parse_core(line) is None
    assert lines_of(TOOL, ".py", f"# {line}\nbody") is None
    assert lines_of(KNOWLEDGE, ".md", f"<!-- {line} -->\nbody") is None


@pytest.mark.parametrize(
    "text",
    [
        f"\n{LINE}body",
        f" {LINE}body",
        f"#  {VECTOR_CORE}\nbody",
        f"#{VECTOR_CORE}\nbody",
        f"\ufeff{LINE}body",
        f"# x\n{LINE}body",
        f"#! /bin/sh\n{LINE}body",
    ],
)
def test_a_signature_line_anywhere_else_is_ignored(text: str) -> None:
    assert lines_of(TOOL, ".py", text) is None


def test_a_shebang_may_stand_above_the_line_only_where_the_file_type_needs_it() -> None:
    assert lines_of(TOOL, ".py", f"#!/bin/x\n{LINE}body") == VECTOR
    assert lines_of(TOOL, ".js", f"#!/bin/x\n{SLASH_LINE}body") is None
    assert lines_of(CONFIG, ".yaml", f"#!/bin/x\n{LINE}body") is None


def test_a_signature_without_padding_is_accepted() -> None:
    unpadded = LINE.replace("==", "")

    signature = lines_of(TOOL, ".py", unpadded + VECTOR_TEXT)

    assert signature is not None
    assert verify_signature(signature.content_hash, signature.value, seed_keypair().public_pem)


def test_a_longer_fingerprint_of_a_later_format_is_cut() -> None:
    assert lines_of(TOOL, ".py", LINE.replace("\n", "0123456789abcdef\n") + "body") == VECTOR


@pytest.mark.parametrize("tail", [" x", "\t", " ", "g", "|", "|x", "|x@", "\x0b", "\u2028x"])
def test_text_after_the_signature_is_refused(tail: str) -> None:
    with pytest.raises(SignatureFormatError) as error:
        lines_of(TOOL, ".py", LINE.replace("\n", f"{tail}\n") + "body")

    assert str(error.value) == (
        "text behind the signature on its line, which no signature covers: x.py"
    )
    assert error.value.hint == "delete what follows the key's fingerprint on that line"


@pytest.mark.parametrize("end", [" --> x", " -->\t", "-->", "  -->", "", " --"])
def test_a_markdown_line_ends_with_its_comment(end: str) -> None:
    with pytest.raises(SignatureFormatError, match="text behind the signature"):
        lines_of(DIRECTIVE, ".md", MARKDOWN_LINE.replace(" -->", end) + BLOCK)


@pytest.mark.parametrize(
    ("kind", "suffix", "text"),
    [
        (TOOL, ".py", LINE + LINE),
        (TOOL, ".py", LINE + "# rye:signed:anything\n"),
        (TOOL, ".py", f"#!/bin/x\n{LINE}{LINE}"),
        (TOOL, ".py", f"{LINE}#!/bin/x\n{LINE}"),
        (TOOL, ".py", f"#!/bin/x\n{LINE}#!/bin/y\n{LINE}"),
        (TOOL, ".js", SLASH_LINE + SLASH_LINE),
        (CONFIG, ".toml", LINE + LINE),
        (KNOWLEDGE, ".md", MARKDOWN_LINE + MARKDOWN_LINE),
        (KNOWLEDGE, ".md", MARKDOWN_LINE + COVERS_LINE + COVERS_LINE),
        (KNOWLEDGE, ".md", MARKDOWN_LINE + COVERS_LINE + MARKDOWN_LINE),
        (TOOL, ".py", "# rye:signed:x:placeholder\n" + LINE),
        (TOOL, ".py", "# rye:validated:x\n" + LINE),
        (KNOWLEDGE, ".md", COVERS_LINE + MARKDOWN_LINE),
    ],
)
def test_two_signature_lines_are_refused(kind: Kind, suffix: str, text: str) -> None:
    with pytest.raises(SignatureFormatError) as error:
        lines_of(kind, suffix, text + "body")

    assert str(error.value) == f"two signature lines, expected one: x{suffix}"
    assert error.value.hint == "delete both lines and sign the file again"


def test_a_file_with_only_a_signature_line_is_unsigned() -> None:
    signed = split(LINE.removesuffix("\n"), form_for(TOOL, ".py"), "x.py")

    assert signed.signature is None
    assert signed.body == LINE.removesuffix("\n")


# --- covers lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        COVERS_LINE.replace(" -->", "  -->"),
        COVERS_LINE.replace(" -->", " --> x"),
        COVERS_LINE.replace("covers:all", "covers:some"),
        COVERS_LINE.replace("0" * 64, "0" * 63),
        COVERS_LINE.replace("\n", "|x@y\n"),
        COVERS_LINE.removesuffix("\n"),
    ],
)
@pytest.mark.parametrize("above", [MARKDOWN_LINE, ""], ids=["signed", "alone"])
def test_a_covers_line_is_exact(line: str, above: str) -> None:
    with pytest.raises(SignatureFormatError) as error:
        lines_of(KNOWLEDGE, ".md", above + line)

    assert str(error.value) == "malformed rye:covers line: x.md"
    assert error.value.hint == "delete the line and sign the file again"


def test_a_covers_line_without_a_signature_is_text() -> None:
    signed = split(COVERS_LINE + BLOCK, form_for(DIRECTIVE, ".md"), "x.md")

    assert signed.signature is None
    assert signed.body == BLOCK


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (DIRECTIVE, BLOCK, True),
        (KNOWLEDGE, "---\na: b\n---\ntext", True),
        (KNOWLEDGE, "---", True),
        (KNOWLEDGE, "```yaml\n```\ntext", False),
        (TOOL, "---\nx", False),
        (CONFIG, "---\nx", False),
    ],
)
def test_only_text_outside_of_the_first_signature_needs_a_covers_line(
    kind: Kind, body: str, expected: object
) -> None:
    assert needs_covers(kind, body) is expected


def test_a_directive_gets_both_lines_and_loses_old_ones(keypair: KeyPair) -> None:
    once = sign_text(DIRECTIVE, ".md", f"# X\n{BLOCK}\nprose\n", keypair)

    assert once.count("rye:signed:") == 1
    assert once.split("\n")[1].startswith("<!-- rye:covers:all:")
    assert sign_text(DIRECTIVE, ".md", once, keypair) == once


# --- shebangs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shebang",
    ["#!/usr/bin/env python3", "#!/bin/bash -eu", "#!/x\tcoding: utf-8", "#!/x coding=UTF8 é"],
)
def test_the_line_stands_below_a_shebang(keypair: KeyPair, shebang: str) -> None:
    plain = shebang.removesuffix(" é")

    signed = sign_text(TOOL, ".py", f"{plain}\nprint()\n", keypair)

    assert signed.startswith(f"{plain}\n# rye:signed:")


@pytest.mark.parametrize(
    "shebang",
    [
        "#!/bin/x\u2028evil: yes",
        "#!/bin/x\u2029evil: yes",
        "#!/bin/x\u0085evil: yes",
        "#!/bin/x\x0cevil",
        "#!/bin/x\x00",
        "#!/bin/é",
        "#!/bin/python # -*- coding: latin-1 -*-",
        "#!/bin/python coding=utf-7",
        "#!/bin/python coding: utf-16",
        "#!/bin/python coding:utf-8 coding:utf-7",
        "#!/bin/python coding:",
    ],
)
@pytest.mark.parametrize("above", ["", LINE], ids=["above", "below"])
def test_a_shebang_with_more_than_a_program_is_refused(shebang: str, above: str) -> None:
    with pytest.raises(SignatureFormatError) as error:
        lines_of(TOOL, ".py", f"{above}{shebang}\nbody")

    assert str(error.value) == (
        "the shebang line, which no signature covers, holds more than a program: x.py"
    )


# --- covered text ---------------------------------------------------------------------------------

HASHED = [
    # kind, suffix, file, covered text; from the rules of docs/signatures.md, by hand
    (TOOL, ".py", "", ""),
    (TOOL, ".py", "x", "x"),
    (TOOL, ".py", "x\n", "x\n"),
    (TOOL, ".py", " x \n\n", " x \n\n"),
    (TOOL, ".py", "a\r\nb\rc\n\r", "a\nb\nc\n\n"),
    (TOOL, ".py", f"{LINE}x\n", "x\n"),
    (TOOL, ".py", f"{LINE}\nx\n", "\nx\n"),
    (TOOL, ".py", LINE, ""),
    (TOOL, ".py", "#!/bin/x\nx\n", "x\n"),
    (TOOL, ".py", "#!/bin/x", "#!/bin/x"),
    (TOOL, ".py", "#! /bin/x\nx\n", "#! /bin/x\nx\n"),
    (TOOL, ".py", "#!/a\n#!/b\nx\n", "#!/b\nx\n"),
    (TOOL, ".py", f"#!/bin/x\n{LINE}x\n", "x\n"),
    (TOOL, ".py", f"{LINE}#!/bin/x\nx\n", "x\n"),
    (TOOL, ".py", f"#!/a\n{LINE}#!/b\nx\n", "#!/b\nx\n"),
    (TOOL, ".py", "\ufeffx", "\ufeffx"),
    (TOOL, ".py", "# rye:validated:x:y\nx\n", "x\n"),
    (TOOL, ".py", "# kiwi-mcp:validated:x\nx\n", "x\n"),
    (TOOL, ".py", "# kiwi-mcp:signed:x\nx\n", "x\n"),
    (TOOL, ".py", "# rye:signed:placeholder\nx\n", "x\n"),
    (TOOL, ".py", "# rye:signed:placeholder", "# rye:signed:placeholder"),
    (TOOL, ".py", "# rye:signed:\nx\n", "# rye:signed:\nx\n"),
    (TOOL, ".py", "# rye:validated:\nx\n", "# rye:validated:\nx\n"),
    (TOOL, ".py", "# rye:unsigned\nx\n", "# rye:unsigned\nx\n"),
    (TOOL, ".py", f"x\n{LINE}", f"x\n{LINE}"),
    (TOOL, ".js", f"{SLASH_LINE}x\n", "x\n"),
    (TOOL, ".js", f"{LINE}x\n", f"{LINE}x\n"),
    (TOOL, ".js", "#!/bin/x\nx\n", "x\n"),
    (TOOL, ".js", f"{SLASH_LINE}#!/bin/x\nx\n", "x\n"),
    (CONFIG, ".yaml", f"{LINE}a: b\n", "a: b\n"),
    (CONFIG, ".yaml", f"{LINE}#!/bin/x\na: b\n", "a: b\n"),
    (DIRECTIVE, ".md", BLOCK, BLOCK),
    (DIRECTIVE, ".md", f"{MARKDOWN_LINE}# T\n```xml\n {BLOCK} \n```\nprose\n", BLOCK),
    (DIRECTIVE, ".md", f"{MARKDOWN_LINE}{COVERS_LINE}{BLOCK}\nprose\n", BLOCK),
    (DIRECTIVE, ".md", f"{BLOCK} and </directive> x", f"{BLOCK} and </directive>"),
    (DIRECTIVE, ".md", f"<directives>{BLOCK}", f"<directives>{BLOCK}"),
    (DIRECTIVE, ".md", f"<directive\n{BLOCK}", f"<directive\n{BLOCK}"),
    (KNOWLEDGE, ".md", "text\n", "text\n"),
    (KNOWLEDGE, ".md", f"{MARKDOWN_LINE}\n```yaml\n```\n", "\n```yaml\n```\n"),
    (KNOWLEDGE, ".md", f"{MARKDOWN_LINE}---\na: b\n---\n\n text \n", "text"),
    (KNOWLEDGE, ".md", "---\na: b-----c", "--c"),
    (KNOWLEDGE, ".md", "------ text", "text"),
    (KNOWLEDGE, ".md", "--- a: b\n", "--- a: b\n"),
    (KNOWLEDGE, ".md", " ---\na: b\n---\n", " ---\na: b\n---\n"),
    (KNOWLEDGE, ".md", "<!-- rye:validated:x -->\ntext", "text"),
    (KNOWLEDGE, ".yaml", f"{MARKDOWN_LINE}a: b\n", "a: b\n"),
    (KNOWLEDGE, ".md", f"{MARKDOWN_LINE}{COVERS_LINE}---\n---\n", f"{COVERS_LINE}---\n---\n"),
]


@pytest.mark.parametrize(("kind", "suffix", "text", "expected"), HASHED)
def test_the_covered_text_follows_the_rules(
    kind: Kind, suffix: str, text: str, expected: str
) -> None:
    assert covered(kind, suffix, text) == expected


@pytest.mark.parametrize(("kind", "suffix", "text", "expected"), HASHED)
def test_the_oracle_of_the_property_tests_agrees(
    kind: Kind, suffix: str, text: str, expected: str
) -> None:
    normalised = re.sub("\r\n?", "\n", text)

    assert covered_by_the_rules(kind, suffix, normalised) == expected


@pytest.mark.parametrize(
    "text", ["", "prose", "<directive", "<directive>", "</directive><directive>", "</directive>"]
)
def test_a_directive_without_its_block_has_no_covered_text(text: str) -> None:
    with pytest.raises(SignatureFormatError) as error:
        covered(DIRECTIVE, ".md", text)

    assert str(error.value) == "no <directive> block in the file: x.md"
    assert covered_by_the_rules(DIRECTIVE, ".md", text) is None


def test_a_hash_is_lower_case_hex_of_the_text_in_utf_8() -> None:
    digest = "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"

    assert content_hash("é") == digest


@pytest.mark.parametrize(("kind", "suffix"), ITEM_TYPES, ids=ITEM_TYPE_IDS)
def test_composing_a_split_text_restores_it(keypair: KeyPair, kind: Kind, suffix: str) -> None:
    form = form_for(kind, suffix)
    text = sign_text(kind, suffix, f"{BLOCK}\nbody", keypair)

    assert compose(split(text, form, "x"), form) == text


def test_a_signature_above_the_shebang_stays_there_when_composed() -> None:
    text = f"{LINE}#!/bin/x\nbody"
    form = form_for(TOOL, ".py")

    assert compose(split(text, form, "x"), form) == text


# --- bytes ----------------------------------------------------------------------------------------


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(SignatureFormatError) as error:
        decode(b"abc\xff", "x.py")

    assert str(error.value) == "expected UTF-8 text, found another byte at offset 3: x.py"


@pytest.mark.parametrize("name", ["x.sh", "X.SH"])
@pytest.mark.parametrize("data", [b"a\r\nb\n", b"a\rb\n", b"a\r"])
def test_a_shell_script_with_a_carriage_return_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(SignatureFormatError) as error:
        decode(data, name)

    assert str(error.value) == f"carriage return in a shell script: {name}"
