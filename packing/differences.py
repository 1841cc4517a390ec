"""What a file does not have in common with another: the making of what `zipboot` restores.

After bsdiff (Colin Percival, "Naive differences of executable code"): code that was compiled for
another version of Python is the same code elsewhere, with other addresses in it. So runs of the new
file are laid over the place of the old one that they are like, and the bytes' differences, mostly
zero, are deflated.
"""

from collections.abc import Iterator

_WORD = 12
_GAIN = 8
_STRIDE = 4
_LEAP = 256

Run = tuple[int, int]  # the place in the base that it is like, its length


def difference(base: bytes, data: bytes) -> bytes:
    """What `zipboot.differences.restored` makes ``data`` of, given ``base``."""
    runs = list(_runs(base, data))
    alike = b"".join(base[start : start + size].ljust(size, b"\0") for start, size in runs)
    added = bytes((new - old) & 0xFF for new, old in zip(data, alike, strict=True))
    numbers = [number for run in runs for number in run]
    return b"".join(number.to_bytes(4, "little") for number in (len(runs), *numbers)) + added


def _runs(base: bytes, data: bytes) -> Iterator[Run]:
    """Runs that cover the data: another begins where that is like far more of what follows."""
    places = _places(base)
    begin = shift = at = 0
    while at < len(data):
        word = data[at : at + _WORD]
        place = places.get(word)
        if place is None or place == at - shift or base.startswith(word, at - shift):
            at += 1 if place is None else _WORD
            continue
        size = _common(base, place, data, at)
        if size > _alike(base, at - shift, data[at : at + size]) + _GAIN:
            if at > begin:
                yield begin - shift, at - begin
            begin, shift = at, at - place
        at += size
    if at > begin:
        yield begin - shift, len(data) - begin


def _places(base: bytes) -> dict[bytes, int]:
    """The first place of words of the base, at every fourth byte."""
    starts = range((len(base) - _WORD) // _STRIDE * _STRIDE, -1, -_STRIDE)
    return {base[start : start + _WORD]: start for start in starts}


def _common(base: bytes, place: int, data: bytes, at: int) -> int:
    """How many bytes are the same from these places on."""
    longest = min(len(base) - place, len(data) - at)
    size = _WORD
    while size < longest:
        step = min(_LEAP, longest - size)
        if base[place + size : place + size + step] == data[at + size : at + size + step]:
            size += step
            continue
        pairs = zip(
            base[place + size : place + size + step],
            data[at + size : at + size + step],
            strict=True,
        )
        return size + next(index for index, (old, new) in enumerate(pairs) if old != new)
    return size


def _alike(base: bytes, place: int, piece: bytes) -> int:
    """How many bytes of the piece are those of the base at the place."""
    return sum(
        old == new for old, new in zip(base[place : place + len(piece)], piece, strict=False)
    )
