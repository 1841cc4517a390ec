"""The text of a file as lines that have ids: what `read` shows and `edit_lines` finds again.

An id is the beginning of the hash of a line's content, followed by ``.N`` for the N-th of lines
with the same one. So it stays what it is when lines are added or taken away elsewhere.
"""

import base64
import codecs
import hashlib
import re
import sys

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/file-system/lib"
__tool_description__ = "Texts of files as lines with ids"

ID_LETTERS = 6
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\x7fELF", "application/x-elf"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
)
CONTROLS = bytes({*range(8), *range(14, 27), *range(28, 32), 127})


class Text:
    """A text: its lines without their ends, the end of each, and how it was encoded.

    Lines and ends are of one length; the last end is empty without a final newline.
    """

    def __init__(self, data: bytes, encoding: str, bom: bytes = b"") -> None:
        self.encoding, self.bom = encoding, bom
        text = data[len(bom) :].decode(encoding)
        pieces = re.split(r"(\r\n|\n)" if "\n" in text else r"(\r)", text)
        self.lines, self.ends = pieces[::2], [*pieces[1::2], ""]
        if not self.lines[-1]:
            del self.lines[-1], self.ends[-1]

    @property
    def line_end(self) -> str:
        """The end that most lines have."""
        return max(("\n", "\r\n", "\r"), key=self.ends.count)

    @property
    def is_ended(self) -> bool:
        """Whether the last line has an end."""
        return not self.ends or bool(self.ends[-1])

    def encoded(self, lines: list, ends: list) -> bytes:
        """Other lines as this text is encoded."""
        text = "".join(part for pair in zip(lines, ends, strict=True) for part in pair)
        return self.bom + text.encode(self.encoding)

    def describe(self) -> dict:
        """Encoding and ends for an answer."""
        ends = {"\n": "lf", "\r\n": "crlf", "\r": "cr"}
        bom = {"byte_order_mark": True} if self.bom else {}
        mixed = len({end for end in self.ends if end}) > 1
        return {
            "encoding": self.encoding,
            **bom,
            "line_end": "mixed" if mixed else ends[self.line_end],
            "final_newline": self.is_ended,
        }


def text_of(data: bytes, encoding: str = "") -> object:
    """The text, None for bytes that are not text. Raises UnicodeError, LookupError."""
    bom, marked = next((pair for pair in BOMS if data.startswith(pair[0])), (b"", ""))
    if encoding:
        same = bool(marked) and codecs.lookup(encoding).name.startswith(marked[:6])
        text = Text(data, marked if same else encoding, bom if same else b"")
        if text.encoded(text.lines, text.ends) != data:
            raise UnicodeError(f"{encoding} does not give the same bytes again")
        return text
    if marked:
        try:
            return Text(data, marked, bom)
        except UnicodeDecodeError:
            return None
    if b"\0" in data[:8192]:
        return None
    try:
        return Text(data, "utf-8")
    except UnicodeDecodeError:
        controls = len(data[:8192]) - len(data[:8192].translate(None, CONTROLS))
        return None if controls else Text(data, "latin-1")


def media_type(data: bytes) -> str:
    """What bytes are that are no text, as far as their beginning says."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "application/x-riff")
    return next(
        (name for start, name in KINDS if data.startswith(start)), "application/octet-stream"
    )


def line_ids(lines: list) -> list:
    """The id of each line."""
    seen: dict = {}
    ids = []
    for line in lines:
        hashed = hashlib.sha256(line.encode("utf-8", "surrogatepass")).digest()
        name = base64.b32encode(hashed[:5]).decode("ascii")[:ID_LETTERS].lower()
        seen[name] = times = seen.get(name, 0) + 1
        ids.append(sys.intern(name) if times == 1 else f"{name}.{times}")
    return ids
