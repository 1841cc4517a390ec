import json
import random
import subprocess
import sys
from hashlib import sha512
from itertools import accumulate, product, repeat
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import BadSignatureError

from lillux import ed25519
from lillux.ed25519 import verify

ROOT = Path(__file__).resolve().parent.parent.parent
WYCHEPROOF = ROOT / "tests" / "vectors" / "wycheproof-ed25519.json"

# RFC 8032, section 7.1, TEST 1 to 3: public key, both halves of the signature, message.
RFC_8032 = """
d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a
e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155
5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b


3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c
92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da
085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00
72

fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025
6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac
18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a
af82
"""


def rfc_8032_case(number: int) -> tuple[bytes, bytes, bytes]:
    """Public key, message and signature of TEST 1, 2 or 3."""
    lines = map(bytes.fromhex, RFC_8032.split("\n")[5 * number - 4 : 5 * number])
    public_key, r, s, message = lines
    return public_key, message, r + s


# --- the curve once more, in the plainest arithmetic, which shares nothing with the tested code ---

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SIGN_BIT = 1 << 255


class Point(NamedTuple):
    """Affine."""

    x: int
    y: int


NEUTRAL = Point(0, 1)
BASE = Point(
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)


def add(p: Point, q: Point) -> Point:
    k = D * p.x * q.x * p.y * q.y
    x = (p.x * q.y + q.x * p.y) * pow(1 + k, -1, P)
    y = (p.y * q.y + p.x * q.x) * pow(1 - k, -1, P)
    return Point(x % P, y % P)


def square_root(square: int) -> int:
    candidate = pow(square, (P + 3) // 8, P)
    for root in (candidate, candidate * pow(2, (P - 1) // 4, P) % P):
        if root * root % P == square % P:
            return root
    raise AssertionError


def order_8_point() -> Point:
    """Its double has y = 0: so x^2 = -y^2, and the curve says d y^4 + 2 y^2 = 1."""
    for root in (square_root(1 + D), -square_root(1 + D)):
        y_squared = (root - 1) * pow(D, -1, P) % P
        if pow(y_squared, (P - 1) // 2, P) == 1:
            y = square_root(y_squared)
            return Point(square_root(-y_squared), y)
    raise AssertionError


def encode(point: Point) -> bytes:
    return (point.y | (point.x & 1) << 255).to_bytes(32, "little")


def scalar(number: int) -> bytes:
    return number.to_bytes(32, "little")


TORSION = (NEUTRAL, *accumulate(repeat(order_8_point(), 7), add))
"""The points whose order divides 8; the i-th is i times a point of order 8."""

MULTIPLES = (NEUTRAL, *accumulate(repeat(BASE, 40), add))
"""The i-th is i times the base point."""


# --- comparison with libsodium --------------------------------------------------------------------


def libsodium_accepts(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        crypto_sign_open(signature + message, public_key)
    except BadSignatureError:
        return False
    return True


def keypair(seed: int) -> tuple[bytes, bytes]:
    return crypto_sign_seed_keypair(seed.to_bytes(32, "little"))


def sign(message: bytes, secret: bytes) -> bytes:
    return crypto_sign(message, secret)[:64]


# --- vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_signatures_of_the_rfc_are_valid(number: int) -> None:
    assert verify(*rfc_8032_case(number))


def test_every_verdict_of_wycheproof_is_ours_and_that_of_libsodium() -> None:
    groups = json.loads(WYCHEPROOF.read_text("utf-8"))["testGroups"]
    cases = [
        (
            case["tcId"],
            case["result"] == "valid",
            bytes.fromhex(group["publicKey"]["pk"]),
            bytes.fromhex(case["msg"]),
            bytes.fromhex(case["sig"]),
        )
        for group in groups
        for case in group["tests"]
    ]

    pure = {case_id: verify(*case) for case_id, _, *case in cases}
    native = {
        case_id: len(signature) == 64 and libsodium_accepts(public_key, message, signature)
        for case_id, _, public_key, message, signature in cases
    }

    assert len(cases) == 151
    assert pure == {case_id: is_valid for case_id, is_valid, *_ in cases}
    assert native == pure


# --- changed bits ---------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("part", ["public key", "message", "signature"])
def test_no_bit_of_a_signature_its_message_or_its_key_can_be_changed(part: str) -> None:
    public_key, secret = keypair(1)
    message = b"0123456789abcdef"
    parts = {"public key": public_key, "message": message, "signature": sign(message, secret)}
    untouched = parts[part]
    accepted = []

    for bit in range(8 * len(untouched)):
        flipped = bytearray(untouched)
        flipped[bit // 8] ^= 1 << bit % 8
        if verify(*(parts | {part: bytes(flipped)}).values()):
            accepted.append(bit)

    assert verify(*parts.values())
    assert accepted == []


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_key_of_another_size_verifies_nothing(size: int) -> None:
    public_key, secret = keypair(1)
    signature = sign(b"text", secret)

    assert not verify((public_key * 2)[:size], b"text", signature)


@pytest.mark.parametrize("size", [0, 1, 32, 63, 65, 128])
def test_a_signature_of_another_size_is_refused(size: int) -> None:
    public_key, secret = keypair(1)
    signature = sign(b"text", secret)

    assert not verify(public_key, b"text", (signature * 2)[:size])


# --- the refusals of libsodium --------------------------------------------------------------------


def test_a_signature_has_no_second_form() -> None:
    public_key, secret = keypair(1)
    signature = sign(b"text", secret)
    s = int.from_bytes(signature[32:], "little")

    second_forms = [signature[:32] + scalar(s + k * L) for k in range(1, 16) if s + k * L < 2**256]

    assert len(second_forms) >= 14
    assert [form for form in second_forms if verify(public_key, b"text", form)] == []


@pytest.mark.parametrize("order_8_multiple", range(8))
def test_a_key_of_small_order_signs_nothing(order_8_multiple: int) -> None:
    # Such a key is its own forger: with S = 0, R only has to be a multiple of it.
    public_key = encode(TORSION[order_8_multiple])

    forgeries = [
        (message, encode(r) + scalar(0)) for message in (b"a", b"b", b"c", b"d") for r in TORSION
    ]

    assert [forged for forged in forgeries if verify(public_key, *forged)] == []
    assert [forged for forged in forgeries if libsodium_accepts(public_key, *forged)] == []


def test_encodings_at_the_edges_are_judged_as_by_libsodium() -> None:
    # Small orders, numbers that are not reduced, numbers that are the y of no point: both signs.
    numbers = {point.y for point in TORSION} | {P, P + 1, P + 2, P + 3, P + 18, 2, 3, BASE.y}
    encodings = [scalar(y | sign) for y in sorted(numbers) for sign in (0, SIGN_BIT)]
    scalars = [scalar(s) for s in (0, 1, L - 1, L, L + 1, 2**256 - 1)]
    cases = [(a, b"text", r + s) for a, r, s in product(encodings, encodings, scalars)]

    differing = [case for case in cases if verify(*case) != libsodium_accepts(*case)]

    assert len(cases) > 3000
    assert differing == []


def test_r_is_compared_and_not_decoded() -> None:
    # S B - h A is the neutral element here, and it has a second encoding that is not canonical.
    a, r = MULTIPLES[2], NEUTRAL
    for encoded_r in (encode(r), scalar(P + 1), scalar(1 | SIGN_BIT)):
        challenge = int.from_bytes(sha512(encoded_r + encode(a) + b"text").digest(), "little") % L
        signature = encoded_r + scalar(challenge * 2 % L)

        assert not verify(encode(a), b"text", signature)
        assert not libsodium_accepts(encode(a), b"text", signature)


@pytest.mark.heavy
def test_points_of_mixed_order_are_judged_without_the_cofactor() -> None:
    # A = a B + i T and R = r B + j T, T of order 8: S B - h A is R only if h i + j is 0 modulo 8.
    source = random.Random(8032)  # noqa: S311 - the same cases every time
    accepted = 0
    for _ in range(400):
        a, r = source.randrange(1, 40), source.randrange(1, 40)
        i, j = source.randrange(8), source.choice((0, 0, 0, 1, 2, 4, 7))
        public_key = encode(add(MULTIPLES[a], TORSION[i]))
        encoded_r = encode(add(MULTIPLES[r], TORSION[j]))
        message = source.randbytes(20)
        digest = sha512(encoded_r + public_key + message).digest()
        challenge = int.from_bytes(digest, "little") % L
        signature = encoded_r + scalar((r + challenge * a) % L)

        verdict = verify(public_key, message, signature)

        assert verdict == ((challenge * i + j) % 8 == 0)
        assert verdict == libsodium_accepts(public_key, message, signature)
        accepted += verdict
    assert 50 < accepted < 200


@pytest.mark.parametrize(("s", "challenge"), [(0, 0), (1, 0), (0, 1), (1, 1), (31, 40), (40, 33)])
def test_the_sum_is_that_of_plain_arithmetic_also_when_it_has_no_addends(
    s: int, challenge: int
) -> None:
    a = MULTIPLES[1]
    expected = add(MULTIPLES[s], MULTIPLES[challenge])

    summed = ed25519._sum_of_multiples(s, challenge, (a.x, a.y, 1, a.x * a.y % P))

    assert ed25519._encode(summed) == encode(expected)


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.property
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=300))
def test_signatures_of_libsodium_are_valid(seed: bytes, message: bytes) -> None:
    public_key, secret = crypto_sign_seed_keypair(seed)

    assert verify(public_key, message, sign(message, secret))


@pytest.mark.property
@given(public_key=st.binary(max_size=70), message=st.binary(), signature=st.binary(max_size=70))
def test_arbitrary_bytes_get_a_verdict(public_key: bytes, message: bytes, signature: bytes) -> None:
    assert not verify(public_key, message, signature)


@pytest.mark.property
@given(
    public_key=st.binary(min_size=32, max_size=32), signature=st.binary(min_size=64, max_size=64)
)
def test_arbitrary_bytes_of_the_right_sizes_get_the_verdict_of_libsodium(
    public_key: bytes, signature: bytes
) -> None:
    assert verify(public_key, b"text", signature) == libsodium_accepts(
        public_key, b"text", signature
    )


# --- the start-up path ----------------------------------------------------------------------------


def run_python(code: str) -> str:
    """The output of the code in a fresh interpreter, with the checkout on its path."""
    prelude = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    command = [sys.executable, "-I", "-S", "-c", prelude + code]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def test_only_a_hash_function_is_imported() -> None:
    printed = run_python(
        "before = set(sys.modules)\n"
        "import lillux.ed25519\n"
        "print(*sorted(set(sys.modules) - before))"
    )

    assert set(printed.split()) <= {
        "__future__",
        "_sha2",
        "_sha512",
        "lillux",
        "lillux.ed25519",
    }


def test_an_interpreter_without_its_own_sha512_uses_that_of_hashlib() -> None:
    case = rfc_8032_case(3)

    printed = run_python(
        "import hashlib\n"
        "sys.modules['_sha2'] = sys.modules['_sha512'] = None\n"
        "from lillux.ed25519 import sha512, verify\n"
        f"print(verify(*{case!r}), sha512 is hashlib.sha512)"
    )

    assert printed == "True True\n"
