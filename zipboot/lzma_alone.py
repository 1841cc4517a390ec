"""Unpacks LZMA in a Python that was built without it, so that such a Python signs too.

Slow: some seconds for a compiled module, once a machine, since the cache keeps what is unpacked.
The format is that of ``.lzma`` files, which Python calls ``FORMAT_ALONE``: a byte of properties,
the sizes of the dictionary and of the data, the data with an end marker. Written after Igor
Pavlov's LZMA specification, which is in the public domain. Page: ``docs/building.md``.
"""

from __future__ import annotations

_HEADER_BYTES = 13
# A probability is in 2048ths that the next bit is 0; every one begins at a half.
_HALF = 1 << 10
_NORMAL = 1 << 24
_NO_MORE = 0xFFFFFFFF
_BYTE_IS_COMPLETE = 1 << 8
# Distances are given by a slot: below the first number it is the distance itself, from the second
# on most bits are as likely as not.
_EXACT_SLOTS, _DIRECT_BITS_FROM = 4, 14
# The state after a literal, by the one before; and the first one whose last was a repetition.
_AFTER_LITERAL = (0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 4, 5)
_REPEATED = 7


def decompress(data: bytes, enough: int | None = None) -> bytes:
    """Content that was packed, up to ``enough`` bytes or a few more.

    Raises ValueError or IndexError when it is damaged.
    """
    return _Decoder(data[0], _Bits(data, _HEADER_BYTES)).run(enough)


class _Bits:
    """A range decoder: gives one bit after the other, each by a probability that learns from it."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._next = data, start + 5
        self._range, self._code = 0xFFFFFFFF, int.from_bytes(data[start + 1 : start + 5], "big")

    def bit(self, odds: list[int], at: int) -> int:
        """The bit whose probability is ``odds[at]``."""
        odd = odds[at]
        bound = (self._range >> 11) * odd
        if self._code < bound:
            self._range = bound
            odds[at] = odd + (2048 - odd >> 5)
            found = 0
        else:
            self._range -= bound
            self._code -= bound
            odds[at] = odd - (odd >> 5)
            found = 1
        if self._range < _NORMAL:
            self._fill()
        return found

    def number(self, odds: list[int], bits: int) -> int:
        """A number of so many bits, the most significant first."""
        node = 1
        for _ in range(bits):
            node = node << 1 | self.bit(odds, node)
        return node - (1 << bits)

    def reversed_number(self, odds: list[int], bits: int, base: int = 0) -> int:
        """A number of so many bits, the least significant first."""
        node, found = 1, 0
        for place in range(bits):
            bit = self.bit(odds, base + node)
            node = node << 1 | bit
            found |= bit << place
        return found

    def plain_number(self, bits: int) -> int:
        """A number whose bits are all as likely."""
        found = 0
        for _ in range(bits):
            self._range >>= 1
            bit = int(self._code >= self._range)
            self._code -= self._range * bit
            found = found << 1 | bit
            if self._range < _NORMAL:
                self._fill()
        return found

    def _fill(self) -> None:
        self._range <<= 8
        self._code = self._code << 8 | self._data[self._next]
        self._next += 1


class _Lengths:
    """The probabilities of how long a repetition is."""

    def __init__(self) -> None:
        self._choices = [_HALF] * 2
        self._short = [[_HALF] * 8 for _ in range(16)]
        self._middle = [[_HALF] * 8 for _ in range(16)]
        self._long = [_HALF] * 256

    def read(self, bits: _Bits, position: int) -> int:
        """The next one; ``position`` is the low bits of the place in the data."""
        if not bits.bit(self._choices, 0):
            return 2 + bits.number(self._short[position], 3)
        if not bits.bit(self._choices, 1):
            return 10 + bits.number(self._middle[position], 3)
        return 18 + bits.number(self._long, 8)


class _Decoder:
    """Decoder, in the words of the format: literals and repetitions, each by what came before it.

    ``_state`` is one of twelve: which kinds the last four were. ``_back`` are the last four
    distances of repetitions, less one.
    """

    def __init__(self, properties: int, bits: _Bits) -> None:
        rest, self._literal_bits = divmod(properties, 9)
        position_bits, literal_places = divmod(rest, 5)
        self._position_mask = (1 << position_bits) - 1
        self._literal_mask = (1 << literal_places) - 1
        self._bits = bits
        self._out = bytearray()
        self._state = 0
        self._back = [0, 0, 0, 0]
        self._literals = [
            [_HALF] * 0x300 for _ in range(1 << (self._literal_bits + literal_places))
        ]
        self._is_repetition = [_HALF] * (12 << 4)
        self._is_known, self._is_older = [_HALF] * 12, [[_HALF] * 12 for _ in range(3)]
        self._is_longer = [_HALF] * (12 << 4)
        self._lengths, self._known_lengths = _Lengths(), _Lengths()
        self._slots = [[_HALF] * 64 for _ in range(4)]
        self._distances, self._aligned = [_HALF] * 128, [_HALF] * 16

    def run(self, enough: int | None) -> bytes:
        """Everything up to the end marker, or at least ``enough`` bytes."""
        out, bits, repeats = self._out, self._bits, self._is_repetition
        while enough is None or len(out) < enough:
            position = len(out) & self._position_mask
            if not bits.bit(repeats, self._state << 4 | position):
                out.append(self._literal())
                continue
            length = self._repetition(position)
            if not length:
                return bytes(out)
            start = len(out) - self._back[0] - 1
            if start < 0:
                raise ValueError("a repetition of nothing")
            like = out[start : start + length]
            out += like * (length // len(like)) + like[: length % len(like)]
        return bytes(out)

    def _literal(self) -> int:
        """A byte that is no repetition."""
        bits, state = self._bits, self._state
        before = self._out[-1] if self._out else 0
        place = (len(self._out) & self._literal_mask) << self._literal_bits
        odds = self._literals[place + (before >> 8 - self._literal_bits)]
        node = 1
        if state >= _REPEATED:  # after a repetition: not what the next byte there is
            like = self._out[-self._back[0] - 1]
            while node < _BYTE_IS_COMPLETE:
                expected = like >> 7
                like = like << 1 & 0xFF
                found = bits.bit(odds, (1 + expected << 8) + node)
                node = node << 1 | found
                if found != expected:
                    break
        while node < _BYTE_IS_COMPLETE:
            node = node << 1 | bits.bit(odds, node)
        self._state = _AFTER_LITERAL[state]
        return node & 0xFF

    def _repetition(self, position: int) -> int:
        """Length of a copy, its distance put first; 0 for the end marker."""
        bits, state, back = self._bits, self._state, self._back
        if not bits.bit(self._is_known, state):
            self._state = 7 if state < _REPEATED else 10
            length = self._lengths.read(bits, position)
            distance = self._distance(min(length - 2, 3))
            back[:] = distance, *back[:3]
            return 0 if distance == _NO_MORE else length
        if not bits.bit(self._is_older[0], state):
            if not bits.bit(self._is_longer, state << 4 | position):
                self._state = 9 if state < _REPEATED else 11
                return 1
        elif not bits.bit(self._is_older[1], state):
            back.insert(0, back.pop(1))
        else:
            back.insert(0, back.pop(2 + bits.bit(self._is_older[2], state)))
        self._state = 8 if state < _REPEATED else 11
        return self._known_lengths.read(bits, position)

    def _distance(self, kind: int) -> int:
        bits = self._bits
        slot = bits.number(self._slots[kind], 6)
        if slot < _EXACT_SLOTS:
            return slot
        low = (slot >> 1) - 1
        high = (2 | slot & 1) << low
        if slot < _DIRECT_BITS_FROM:
            return high + bits.reversed_number(self._distances, low, high - slot)
        return high + (bits.plain_number(low - 4) << 4) + bits.reversed_number(self._aligned, 4)
