import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.digests import decode_base64, decode_base64url, encode_base64, encode_base64url


@given(st.binary(max_size=64))
def test_encoded_bytes_are_decoded(data: bytes) -> None:
    padded = encode_base64(data)

    assert decode_base64(padded) == data
    assert decode_base64url(encode_base64url(data)) == data
    assert decode_base64url(padded.replace("+", "-").replace("/", "_")) == data


@given(st.text("AQgw-_+/= \n=é", max_size=12))
def test_each_value_has_one_text_but_for_padding(text: str) -> None:
    standard, for_urls = decode_base64(text), decode_base64url(text)

    assert standard is None or encode_base64(standard) == text
    assert for_urls is None or encode_base64url(for_urls) == text.rstrip("=")


@pytest.mark.parametrize(
    "text", ["a", "ab", "ab=", "ab===", "a-b_", "aa\n==", " aaa", "aéaa", "ab=="]
)
def test_other_texts_of_the_standard_alphabet_are_refused(text: str) -> None:
    assert decode_base64(text) is None


@pytest.mark.parametrize(
    "text", ["a", "aQ=", "aQ===", "a+b/", "aa\n", "a a", "aR", "aR==", "=", "===="]
)
def test_other_texts_of_the_alphabet_for_urls_are_refused(text: str) -> None:
    assert decode_base64url(text) is None
