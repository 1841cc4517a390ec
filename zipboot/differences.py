"""A file told as what it does not have in common with another: much shorter where both are alike.

Made by `packing.differences`. Layout, integers of four bytes, the least significant first: the
number of runs; of each run the place in the other file that it is like, and its length; then for
each byte of the file, run by run, what to add to its like, modulo 256, which is mostly nothing.
What a run takes from behind the other file's end is zero. No compiled module is packed for a
machine with another order of bytes. Page: ``docs/boot.md``.
"""

from __future__ import annotations

_RUN_BYTES = 8


def restored(base: bytes, difference: bytes) -> bytes:
    """The file that differs so from ``base``; nothing when the difference is damaged."""
    count = int.from_bytes(difference[:4], "little")
    begin = 4 + count * _RUN_BYTES
    if begin > len(difference):
        return b""
    numbers = memoryview(difference)[4:begin].cast("I")  # there is no other byte order, see above
    runs = list(zip(numbers[::2], numbers[1::2], strict=True))
    added = difference[begin:]
    if sum(length for _, length in runs) != len(added):
        return b""
    alike = (base[start : start + length].ljust(length, b"\0") for start, length in runs)
    return _sum(b"".join(alike), added)


def _sum(first: bytes, second: bytes) -> bytes:
    """Byte by byte, modulo 256: every other byte at once, its neighbours blanked for the carry."""
    mask = int.from_bytes(b"\xff\0" * (len(first) // 2 + 1), "little")
    one, other = int.from_bytes(first, "little"), int.from_bytes(second, "little")
    even = (one & mask) + (other & mask) & mask
    odd = ((one >> 8 & mask) + (other >> 8 & mask) & mask) << 8
    return (even | odd).to_bytes(len(first) + 2, "little")[: len(first)]
