import binascii
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.pem import (
    PemError,
    decode_private,
    decode_public,
    encode_private,
    encode_public,
    stored_public_half,
)
from tests.support.programs import require_program

ROOT = Path(__file__).resolve().parent.parent.parent

SEED = bytes(range(32))
PUBLIC_KEY = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")

PRIVATE_V1 = b"""\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
"""
PRIVATE_V2 = b"""\
-----BEGIN PRIVATE KEY-----
MFECAQEwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
gSEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=
-----END PRIVATE KEY-----
"""
PUBLIC = b"""\
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=
-----END PUBLIC KEY-----
"""

PRIVATE_HINT = "openssl genpkey -algorithm ed25519 writes what is expected"
PUBLIC_HINT = "openssl pkey -in private_key.pem -pubout writes what is expected"

keys = st.binary(min_size=32, max_size=32)


def armoured(label: bytes, der: bytes) -> bytes:
    base64 = binascii.b2a_base64(der, newline=False)
    body = b"".join(base64[i : i + 64] + b"\n" for i in range(0, len(base64), 64))
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label, body, label)


def private_der(version: int) -> bytes:
    text = PRIVATE_V1 if version == 1 else PRIVATE_V2
    return binascii.a2b_base64(b"".join(text.split(b"\n")[1:-2]))


# --- the three forms ------------------------------------------------------------------------------


def test_a_private_key_is_written_as_version_1() -> None:
    assert encode_private(SEED) == PRIVATE_V1
    assert len(PRIVATE_V1) == 119


def test_a_public_key_is_written_as_one_line_of_base64() -> None:
    assert encode_public(PUBLIC_KEY) == PUBLIC
    assert len(PUBLIC) == 113


@pytest.mark.parametrize("text", [PRIVATE_V1, PRIVATE_V2], ids=["v1", "v2"])
def test_both_versions_of_a_private_key_are_read(text: bytes) -> None:
    assert decode_private(text) == SEED


def test_only_version_2_stores_the_public_half() -> None:
    assert stored_public_half(PRIVATE_V1) is None
    assert stored_public_half(PRIVATE_V2) == PUBLIC_KEY


@pytest.mark.property
@given(key=keys)
def test_an_encoded_key_is_decoded(key: bytes) -> None:
    assert decode_private(encode_private(key)) == key
    assert decode_public(encode_public(key)) == key


@pytest.mark.property
@given(seed=keys, public_key=keys)
def test_both_halves_of_version_2_are_found(seed: bytes, public_key: bytes) -> None:
    der = private_der(2).replace(SEED, seed).replace(PUBLIC_KEY, public_key)

    text = armoured(b"PRIVATE KEY", der)

    assert (decode_private(text), stored_public_half(text)) == (seed, public_key)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_key_of_another_size_is_not_encoded(size: int) -> None:
    with pytest.raises(PemError) as private_error:
        encode_private(bytes(size))
    with pytest.raises(PemError) as public_error:
        encode_public(bytes(size))

    assert str(private_error.value) == f"private key: expected a seed of 32 bytes, found {size}"
    assert str(public_error.value) == f"public key: expected a key of 32 bytes, found {size}"


# --- openssl --------------------------------------------------------------------------------------


def openssl(*arguments: str, stdin: bytes = b"") -> bytes:
    program = require_program("openssl")
    done = subprocess.run([program, *arguments], input=stdin, capture_output=True, check=True)
    return done.stdout


def test_keys_made_by_openssl_are_read_and_written_byte_for_byte() -> None:
    for _ in range(5):
        private_pem = openssl("genpkey", "-algorithm", "ed25519")
        public_pem = openssl("pkey", "-pubout", stdin=private_pem)

        assert encode_private(decode_private(private_pem)) == private_pem
        assert encode_public(decode_public(public_pem)) == public_pem


def test_openssl_reads_our_keys() -> None:
    assert openssl("pkey", stdin=encode_private(SEED)) == PRIVATE_V1
    assert openssl("pkey", "-pubout", stdin=encode_private(SEED)) == PUBLIC
    assert openssl("pkey", "-pubin", stdin=encode_public(PUBLIC_KEY)) == PUBLIC


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ("-algorithm", "x25519"),
            "expected the DER of an Ed25519 key, 48 or 83 bytes, found 48 bytes of other DER",
        ),
        (
            ("-algorithm", "ed448"),
            "expected the DER of an Ed25519 key, 48 or 83 bytes, found 73 bytes of other DER",
        ),
        (
            ("-algorithm", "ed25519", "-aes256", "-pass", "pass:secret"),
            "expected -----BEGIN PRIVATE KEY-----, found -----BEGIN ENCRYPTED PRIVATE KEY-----",
        ),
        (
            ("-algorithm", "ed25519", "-outform", "DER"),
            "expected -----BEGIN PRIVATE KEY-----, found a line that is not PEM armour",
        ),
    ],
    ids=["x25519", "ed448", "encrypted", "der"],
)
def test_other_keys_of_openssl_are_refused(options: tuple[str, ...], problem: str) -> None:
    key = openssl("genpkey", *options)

    with pytest.raises(PemError) as error:
        decode_private(key)

    assert str(error.value) == f"private key: {problem}"


# --- accepted variants ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.removesuffix(b"\n"),
        lambda text: text.replace(b"\n", b"\r\n").removesuffix(b"\r\n"),
        lambda text: b"\n\n" + text,
        lambda text: text + b"\n\n",
        lambda text: b"\r\n \t\r\n" + text + b"\t \r\n",
    ],
    ids=["crlf", "no final newline", "crlf cut", "blank before", "blank after", "blanks around"],
)
@pytest.mark.parametrize("text", [PRIVATE_V1, PRIVATE_V2, PUBLIC], ids=["v1", "v2", "public"])
def test_changes_by_editors_and_mail_are_accepted(
    text: bytes, change: Callable[[bytes], bytes]
) -> None:
    decode = decode_public if text == PUBLIC else decode_private

    assert decode(change(text)) == decode(text)


# --- refused --------------------------------------------------------------------------------------

BEGIN = "expected -----BEGIN PUBLIC KEY-----, found"
END = "expected -----END PUBLIC KEY----- at the end, found"
BASE64 = "expected base64 in lines of 64, found something else"
DER = "expected the DER of an Ed25519 key, 44 bytes, found"
BODY = PUBLIC.split(b"\n")[1]
SPKI = binascii.a2b_base64(BODY)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", f"{BEGIN} nothing"),
        (b" \r\n", f"{BEGIN} nothing"),
        (b"\0" * 100, f"{BEGIN} a line that is not PEM armour"),
        (b"\xef\xbb\xbf" + PUBLIC, f"{BEGIN} a line that is not PEM armour"),
        (BODY, f"{BEGIN} a line that is not PEM armour"),
        (PRIVATE_V1, f"{BEGIN} -----BEGIN PRIVATE KEY-----"),
        (PUBLIC.replace(b"PUBLIC", b"RSA PUBLIC"), f"{BEGIN} -----BEGIN RSA PUBLIC KEY-----"),
        (PUBLIC.replace(b"PUBLIC", b"SECRET42"), f"{BEGIN} a line that is not PEM armour"),
        (PUBLIC.replace(b"PUBLIC", b"public"), f"{BEGIN} a line that is not PEM armour"),
        (PUBLIC.replace(b"-----\n", b"----- \n", 1), f"{BEGIN} a line that is not PEM armour"),
        (PUBLIC.replace(b"\n", b"\r"), f"{BEGIN} a line that is not PEM armour"),
        (b"# key\n" + PUBLIC, f"{BEGIN} a line that is not PEM armour"),
        (b"-----BEGIN PUBLIC KEY-----", f"{END} nothing"),
        (PUBLIC + b"more", f"{END} a line that is not PEM armour"),
        (PUBLIC.replace(b"END PUBLIC", b"END PRIVATE"), f"{END} -----END PRIVATE KEY-----"),
        (armoured(b"PUBLIC KEY", b""), f"{DER} 0 bytes of other DER"),
        (PUBLIC + PUBLIC, BASE64),
        (PUBLIC.replace(b"MCow", b"MC\now"), BASE64),
        (PUBLIC.replace(b"MCow", b"MC ow"), BASE64),
        (PUBLIC.replace(b"MCow", b" MCow"), BASE64),
        (PUBLIC.replace(b"MCow", b"\nMCow"), BASE64),
        (PUBLIC.replace(b"/", b"_"), BASE64),
        (PUBLIC.replace(b"=", b""), BASE64),
        (PUBLIC.replace(b"=", b"=="), BASE64),
        (PUBLIC.replace(b"Mbg=", b"Mbh="), BASE64),
        (PUBLIC.replace(b"Mbg=", b"Mb=g"), BASE64),
        (armoured(b"PUBLIC KEY", SPKI[:-1]), f"{DER} 43 bytes of other DER"),
        (armoured(b"PUBLIC KEY", SPKI + b"\0"), f"{DER} 45 bytes of other DER"),
        (armoured(b"PUBLIC KEY", private_der(1)), f"{DER} 48 bytes of other DER"),
        (PUBLIC + b"\n" * 4096, "expected at most 4096 bytes of PEM, found 4209"),
    ],
)
def test_any_other_text_is_refused_with_the_expected_form(text: bytes, problem: str) -> None:
    with pytest.raises(PemError) as error:
        decode_public(text)

    assert str(error.value) == f"public key: {problem}"
    assert error.value.hint == PUBLIC_HINT
    assert (error.value.code, error.value.exit_status) == ("CONFIG_ERROR", 6)


@pytest.mark.parametrize("size", [*range(48), 49, 50, 51, 82, 84])
def test_a_private_key_of_another_length_is_refused(size: int) -> None:
    der = (private_der(1) if size < 51 else private_der(2)) + b"\0"
    text = armoured(b"PRIVATE KEY", der.ljust(size, b"\0")[:size])

    with pytest.raises(PemError) as error:
        decode_private(text)

    assert error.value.hint == PRIVATE_HINT


@pytest.mark.parametrize(
    ("version", "position"),
    [*((1, i) for i in range(16)), *((2, i) for i in (*range(16), 48, 49, 50))],
)
def test_no_byte_around_the_key_may_differ(version: int, position: int) -> None:
    der = bytearray(private_der(version))
    der[position] ^= 1

    with pytest.raises(PemError) as error:
        decode_private(armoured(b"PRIVATE KEY", bytes(der)))

    assert str(error.value) == (
        "private key: expected the DER of an Ed25519 key, 48 or 83 bytes, "
        f"found {len(der)} bytes of other DER"
    )


@pytest.mark.property
@given(text=st.binary() | st.text().map(str.encode))
def test_arbitrary_bytes_are_refused_and_nothing_else_happens(text: bytes) -> None:
    for decode in (decode_private, decode_public, stored_public_half):
        with pytest.raises(PemError):
            decode(text)


# --- secrets --------------------------------------------------------------------------------------


def shown_by(decode: Callable[[bytes], bytes], text: bytes) -> str:
    """Every text of the error that a program or a traceback could show."""
    try:
        decode(text)
    except PemError as error:
        return f"{error} {error!r} {error.hint} {vars(error)} {error.__context__!r}"
    return ""


@pytest.mark.property
@given(data=st.data(), version=st.sampled_from([PRIVATE_V1, PRIVATE_V2]))
def test_no_message_shows_a_part_of_a_damaged_private_key(
    data: st.DataObject, version: bytes
) -> None:
    start = data.draw(st.integers(0, len(version)))
    end = data.draw(st.integers(start, min(len(version), start + 40)))
    damaged = version[:start] + data.draw(st.binary(max_size=5)) + version[end:]
    secret = version.split(b"\n")[1][22:].decode()  # the base64 of the seed
    parts = {secret[i : i + 6] for i in range(len(secret) - 5)}

    shown = shown_by(decode_private, damaged) + shown_by(decode_public, damaged)

    assert [part for part in parts if part in shown] == []
