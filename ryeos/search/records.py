"""What a search knows about an item file: its header, its text, whether its signature fits.

No signature is checked but the manifest's of a bundle: a search shows, it runs nothing.
"""

from collections.abc import Mapping
from typing import Any

from lillux.digests import sha256_hex
from lillux.files import read_bytes
from lillux.values import dataclass, field
from ryeos.extractors import extract
from ryeos.items import SYSTEM, Kind, Location
from ryeos.resolver import check_inside
from ryeos.signature import (
    DETACHED_SUFFIXES,
    SignedText,
    content_hash,
    detached_path,
    form_for,
    form_of,
    hashed_text,
    parse_core,
    split,
    text_of,
)
from ryeos.verify import MAX_DETACHED_BYTES, Verifier

MAX_SEARCHED_BYTES = 2 * 1024 * 1024
PREVIEW_CHARACTERS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the file of an item says.

    header       its metadata, names without dunders
    content      the text without signature lines
    signed       it has a signature line, and the hash in it is that of the text
    modified_ns  when the file was changed last
    """

    location: Location
    header: Mapping[str, Any] = field(default_factory=dict, repr=False)
    content: str = field(default="", repr=False)
    signed: bool = False
    modified_ns: int = 0

    @property
    def title(self) -> str:
        """The declared title, ``""`` for none."""
        return as_text(self.header.get("title"))

    @property
    def description(self) -> str:
        """The declared description, ``""`` for none."""
        return as_text(self.header.get("description"))

    @property
    def version(self) -> str:
        """The declared version, ``""`` for none."""
        return as_text(self.header.get("version"))

    @property
    def tags(self) -> tuple[str, ...]:
        """The declared tags; one text is split at blanks and commas."""
        tags = self.header.get("tags")
        if isinstance(tags, str):
            return tuple(tags.replace(",", " ").split())
        return tuple(map(as_text, tags)) if isinstance(tags, list) else ()

    def value(self, name: str) -> object:
        """A metadata value: at the top level, else under ``metadata``; None for none."""
        value = self.header.get(name)
        below = self.header.get("metadata")
        if value is None and isinstance(below, Mapping):
            return below.get(name)
        return value


def read_record(location: Location, verifier: Verifier, modified_ns: int = 0) -> Record:
    """Read an item's file, once. Raises OSError, and LilluxError for what no item can be."""
    content, header, signed = _read(location, verifier)
    return Record(
        location=location, header=header, content=content, signed=signed, modified_ns=modified_ns
    )


def preview(location: Location, content: str) -> str:
    """The first characters of an item's text, on one line, its header left out where it has one."""
    text = " ".join(_body(location, content).split())
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 1]}…"


def as_text(value: object) -> str:
    """A metadata value as text; that of a list or a mapping is all that is in it."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return str(value).lower()
        case list() | tuple():
            return " ".join(map(as_text, value))
        case Mapping():
            return " ".join(map(as_text, value.values()))
    return str(value)


def _read(location: Location, verifier: Verifier) -> tuple[str, Mapping[str, Any], bool]:
    """An item's text without signature lines, its header, and whether it is signed."""
    kind, suffix, where = location.ref.kind, location.suffix, str(location.path)
    file_type = location.file_type
    form = form_of(file_type) if file_type else form_for(kind, suffix, where)
    if location.space.tier == SYSTEM:
        item = verifier.verify_location(location)
        data, header, is_signed = item.data, item.header, item.verified
        signed = split(text_of(data, form, where), form, where)
    else:
        if location.path.is_symlink():
            check_inside(location)
        data, header = read_bytes(location.path, MAX_SEARCHED_BYTES), None
        signed = split(text_of(data, form, where), form, where)
        is_signed = _is_signed(location, signed, data)
    text = signed.shebang + signed.body
    return text, header or extract(kind, suffix, text, where, file_type), is_signed


def _is_signed(location: Location, signed: SignedText, data: bytes) -> bool:
    if signed.signature:
        covered = content_hash(hashed_text(location.ref.kind, signed, str(location.path)))
        return signed.signature.content_hash == covered
    if location.suffix not in DETACHED_SUFFIXES:
        return False
    try:
        line = read_bytes(detached_path(location.path), MAX_DETACHED_BYTES).decode(
            "ascii", "replace"
        )
    except FileNotFoundError:
        return False
    beside = parse_core(line.strip())
    return beside is not None and beside.content_hash == sha256_hex(data)


def _body(location: Location, content: str) -> str:
    from ryeos.metadata.knowledge import parse_knowledge
    from ryeos.metadata.markdown import find_fence

    if location.ref.kind is Kind.KNOWLEDGE:
        return parse_knowledge(content, location.suffix).body or content
    fence = find_fence(content, "xml") if location.ref.kind is Kind.DIRECTIVE else None
    return f"{fence.before} {fence.after}" if fence else content
