import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.digests import decode_base64url
from lillux.sealing import (
    SealingError,
    box_fingerprint,
    box_public,
    decode_box_key,
    decrypt,
    encode_box_key,
    encrypt,
    generate_box_pair,
    hkdf_sha256,
    open_sealed,
    seal,
)
from tests.support.wire_vectors import BOX_PRIVATE, VECTORS

VECTOR = VECTORS["sealed_envelope"]
INFO = b"execution-secrets/v1"


def test_a_box_key_is_known_by_its_public_half() -> None:
    public = box_public(BOX_PRIVATE)

    assert encode_box_key(public) == VECTOR["box_pub_file_content"]
    assert box_fingerprint(public) == VECTOR["recipient_fingerprint"]


def test_a_box_key_is_read_back_with_or_without_a_line_end() -> None:
    private, public = generate_box_pair()

    assert decode_box_key(encode_box_key(private)) == private
    assert decode_box_key(f"{encode_box_key(public)}\n") == public


@pytest.mark.parametrize("text", ["", "AAAA", "-----BEGIN PRIVATE KEY-----", "é" * 43])
def test_another_text_is_no_box_key(text: str) -> None:
    with pytest.raises(SealingError) as error:
        decode_box_key(text, "box_key.pem")

    assert str(error.value) == (
        "box_key.pem: expected 43 base64url characters, found something else"
    )


def test_the_derived_key_is_that_of_the_vector() -> None:
    shared = bytes.fromhex(VECTOR["shared_secret_hex"])

    assert hkdf_sha256(shared, INFO).hex() == VECTOR["derived_key_hex"]


def test_the_vector_opens() -> None:
    envelope = VECTOR["envelope"]
    enc, ciphertext = (decode_base64url(envelope[name]) or b"" for name in ("enc", "ciphertext"))

    opened = open_sealed(enc, ciphertext, BOX_PRIVATE, aad=VECTOR["aad"].encode(), info=INFO)

    assert opened == VECTOR["plaintext"].encode()


def test_a_second_vector_opens() -> None:
    enc = decode_base64url("eaYx7t4b-cmPEgMs3q3Q56B5OY_HhriMyEbsia-FpRo=") or b""
    ciphertext = decode_base64url("x-VOxiuELWdaZt4nosrPzvmdwWoZHapK3_9WVh2kK8eb8w==") or b""
    aad = b'{"kind":"execution-secrets/v1","recipient":"fp:a0289810032eb417"}'

    opened = open_sealed(enc, ciphertext, bytes(range(32, 64)), aad=aad, info=INFO)

    assert opened == b'{"API_KEY":"sk-1"}'


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_a_sealed_message_opens(plaintext: bytes, aad: bytes) -> None:
    enc, ciphertext = seal(plaintext, box_public(BOX_PRIVATE), aad=aad, info=INFO)

    assert open_sealed(enc, ciphertext, BOX_PRIVATE, aad=aad, info=INFO) == plaintext


def test_no_two_messages_have_one_key() -> None:
    public = box_public(BOX_PRIVATE)

    assert seal(b"x", public, aad=b"", info=INFO) != seal(b"x", public, aad=b"", info=INFO)


@given(st.integers(0, 35), st.integers(1, 255))
def test_a_changed_byte_does_not_open(position: int, difference: int) -> None:
    enc, ciphertext = seal(b"four", box_public(BOX_PRIVATE), aad=b"a", info=INFO)
    changed = bytearray(enc[:16] + ciphertext)
    changed[position] ^= difference

    with pytest.raises(SealingError):
        open_sealed(
            bytes(changed[:16]) + enc[16:], bytes(changed[16:]), BOX_PRIVATE, aad=b"a", info=INFO
        )


@pytest.mark.parametrize(("aad", "info"), [(b"b", INFO), (b"a", b"another purpose")])
def test_another_purpose_does_not_open(aad: bytes, info: bytes) -> None:
    enc, ciphertext = seal(b"text", box_public(BOX_PRIVATE), aad=b"a", info=INFO)

    with pytest.raises(SealingError) as error:
        open_sealed(enc, ciphertext, BOX_PRIVATE, aad=aad, info=info)

    assert str(error.value) == "sealed bytes: made for another key, or changed since"


@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31)])
def test_a_key_that_every_key_agrees_with_is_refused(point: bytes) -> None:
    with pytest.raises(SealingError) as error:
        seal(b"text", point, aad=b"", info=INFO)

    assert str(error.value) == "public box key: expected a point of full order, found another"


def test_a_key_of_another_size_is_refused() -> None:
    with pytest.raises(SealingError) as error:
        seal(b"text", b"short", aad=b"", info=INFO)

    assert str(error.value) == "public box key: expected 32 bytes, found 5"


@given(st.binary(max_size=200))
def test_an_encrypted_message_is_decrypted(plaintext: bytes) -> None:
    assert decrypt(b"secret", encrypt(b"secret", plaintext, info=INFO), info=INFO) == plaintext


@pytest.mark.parametrize("cut", [0, 5, 12, 27])
def test_a_part_is_not_decrypted(cut: int) -> None:
    data = encrypt(b"secret", b"text", info=INFO)

    with pytest.raises(SealingError) as error:
        decrypt(b"secret", data[:cut], info=INFO)

    assert str(error.value) == "sealed bytes: cut short"


def test_another_secret_does_not_decrypt() -> None:
    data = encrypt(b"secret", b"text", info=INFO)

    with pytest.raises(SealingError) as error:
        decrypt(b"other", data, info=INFO)

    assert "text" not in str(error.value)
