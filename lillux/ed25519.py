"""Ed25519 verification without any compiled library: some 1 ms a signature.

For the start of a process, and for platforms without libsodium. The verdict on every input is
the one of libsodium's ``crypto_sign_open``; `docs/signatures.md` lists what is refused. Only
verification: Python's integers take a time that depends on their value, so no private key may
ever come here.

Field elements are integers modulo `_P`, not always fully reduced. Points of the curve
``-x^2 + y^2 = 1 + d x^2 y^2`` have three forms (Hisil, Wong, Carter, Dawson 2008):

extended   ``(x, y, z, t)``: the affine point (x/z, y/z), and t = x y / z
completed  ``(e, f, g, h)``: what `_double` and `_add` return; `_extended` makes a point of it
addend     ``(y + x, y - x, 2 z, 2 d t)``: a point made ready for being added again and again

On the start-up path: imports nothing but a SHA-512 that needs no OpenSSL.
"""

from __future__ import annotations

try:
    from _sha2 import sha512  # type: ignore[import-not-found,unused-ignore]  # CPython 3.12 on
except ImportError:
    try:
        from _sha512 import sha512  # type: ignore[import-not-found,unused-ignore]  # CPython 3.11
    except ImportError:
        from hashlib import sha512

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64

# RFC 8032, section 5.1: the field, the order of the group, the curve constant, the base point.
_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_BASE_Y = 4 * pow(5, -1, _P) % _P

_SQRT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
_SIGN_BIT = 1 << 255
_Y_MASK = _SIGN_BIT - 1

# Ordinates of the eight points whose order divides 8: the neutral element, the point of order 2,
# those of order 4 and those of order 8.
_ORDER_8_Y = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER_Y = frozenset({1, _P - 1, 0, _ORDER_8_Y, _P - _ORDER_8_Y})

_KEY_WINDOW = 5
_BASE_WINDOW = 6  # the table of a process, so larger; 7 pays only after some ten signatures

_Quadruple = tuple[int, int, int, int]


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """True if ``signature`` (R, S: 64 bytes) over ``message`` is by ``public_key`` (A: 32 bytes).

    False for keys and signatures of any other size; never raises. RFC 8032, section 5.1.7,
    without the cofactor, and with the stricter refusals that libsodium makes:

    1. A and R must not be of small order.
    2. S must be less than the order of the group, else each signature had several forms.
    3. A must be the canonical encoding of a point.
    4. The encoding of ``S B - SHA-512(R, A, message) A`` must be R, byte for byte.
    """
    if len(public_key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    # (1) Refused even though the equation can hold: such a key accepts any signature.
    encoded_r = signature[:32]
    if _ordinate(public_key) in _SMALL_ORDER_Y or _ordinate(encoded_r) in _SMALL_ORDER_Y:
        return False
    # (2) The group does not see multiples of its order, so S + L would do as well as S.
    s = int.from_bytes(signature[32:], "little")
    if s >= _L:
        return False
    # (3) Costs a tenth of the whole, so it comes after what costs nothing.
    point = _decode(public_key)
    if point is None:
        return False
    # (4) A is subtracted by adding its negative, and R compared without being decoded.
    digest = sha512(encoded_r + public_key + message).digest()
    challenge = int.from_bytes(digest, "little") % _L
    x, y = point
    minus_a = (_P - x, y, 1, (_P - x) * y % _P)
    return _encode(_sum_of_multiples(s, challenge, minus_a)) == encoded_r


def _ordinate(encoded: bytes) -> int:
    return int.from_bytes(encoded, "little") & _Y_MASK


def _decode(encoded: bytes) -> tuple[int, int] | None:
    """The affine point of a canonical encoding (RFC 8032, section 5.1.3), else None.

    The caller has refused y = 1 and y = -1, the only points whose x is 0.
    """
    y = _ordinate(encoded)
    if y >= _P:
        return None
    u, v = y * y - 1, _D * y * y + 1
    v3 = v * v * v % _P
    x = u * v3 * pow(u * v3 * v3 * v % _P, (_P - 5) // 8, _P) % _P
    error = (v * x * x - u) % _P
    if error:
        if (error + 2 * u) % _P:
            return None  # u / v has no square root: no point has this y
        x = x * _SQRT_OF_MINUS_ONE % _P
    is_odd = encoded[31] >> 7
    return (x if x & 1 == is_odd else _P - x), y


def _encode(completed: _Quadruple) -> bytes:
    """The 32 bytes of a point."""
    x, y, z, _ = _extended(completed)
    inverse = pow(z, -1, _P)
    is_odd = x * inverse % _P & 1
    return (y * inverse % _P | is_odd << 255).to_bytes(32, "little")


def _sum_of_multiples(s: int, challenge: int, minus_a: _Quadruple) -> _Quadruple:
    """``s B + challenge (-A)``: one pass of doublings that both multiples share."""
    addends: dict[int, list[_Quadruple]] = {}
    key_multiples = _odd_multiples(minus_a, _KEY_WINDOW)
    for position, digit in _signed_digits(challenge, _KEY_WINDOW):
        addends.setdefault(position, []).append(key_multiples[digit])
    for position, digit in _signed_digits(s, _BASE_WINDOW):
        addends.setdefault(position, []).append(_BASE_MULTIPLES[digit])

    completed = (0, 1, 1, 1)  # the neutral element
    for position in range(max(addends, default=-1), -1, -1):
        e, f, g, h = completed
        completed = _double(e * f % _P, g * h % _P, f * g % _P)
        for addend in addends.get(position, ()):
            completed = _add(_extended(completed), addend)
    return completed


def _signed_digits(scalar: int, width: int) -> list[tuple[int, int]]:
    """Pairs (position, digit), where scalar is the sum of ``digit * 2**position``.

    Each digit is odd and within ``2**(width - 1)``; two positions are at least ``width`` apart.
    """
    digits = []
    position = 0
    modulus = 1 << width
    while scalar:
        zeros = (scalar & -scalar).bit_length() - 1
        scalar >>= zeros
        position += zeros
        digit = scalar & (modulus - 1)
        if digit > modulus >> 1:
            digit -= modulus
        digits.append((position, digit))
        scalar -= digit
    return digits


def _odd_multiples(point: _Quadruple, width: int) -> dict[int, _Quadruple]:
    """The addends of 1, -1, 3, -3, 5 ... times ``point``: all digits of `_signed_digits`."""
    multiples = {}
    x, y, z, _ = point
    twice = _addend(_extended(_double(x, y, z)))
    for digit in range(1, 1 << (width - 1), 2):
        if digit > 1:
            point = _extended(_add(point, twice))
        sum_, difference, double_z, t = _addend(point)
        multiples[digit] = sum_, difference, double_z, t
        multiples[-digit] = difference, sum_, double_z, -t
    return multiples


def _double(x: int, y: int, z: int) -> _Quadruple:
    xx, yy, xy = x * x % _P, y * y % _P, x + y
    h = xx + yy
    g = xx - yy
    return (h - xy * xy) % _P, (2 * z * z + g) % _P, g, h


def _add(point: _Quadruple, addend: _Quadruple) -> _Quadruple:
    x, y, z, t = point
    sum_, difference, double_z, scaled_t = addend
    a, b = (y - x) * difference % _P, (y + x) * sum_ % _P
    c, d = t * scaled_t % _P, z * double_z % _P
    return b - a, d - c, d + c, b + a


def _extended(completed: _Quadruple) -> _Quadruple:
    e, f, g, h = completed
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _addend(point: _Quadruple) -> _Quadruple:
    x, y, z, t = point
    return (y + x) % _P, (y - x) % _P, 2 * z, 2 * _D * t % _P


_BASE_MULTIPLES = _odd_multiples((_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P), _BASE_WINDOW)
