"""Records of item files: header, text, and whether the signature fits."""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.files import read_bytes
from lillux.values import dataclass, field
from ryeos.items.refs import Kind, Location
from ryeos.trust.extractors import extract
from ryeos.trust.resolver import require_inside_space
from ryeos.trust.signature import form_for, form_of, split, text_of

MAX_SEARCHED_BYTES = 2 * 1024 * 1024
PREVIEW_CHARACTERS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Content of an item's file.

    header       its metadata, names without dunders
    read         gives the text without signature lines, ``""`` where it cannot be read any more
    verify       tells whether it may be used as it is
    modified_ns  when the file was changed last
    """

    location: Location
    header: Mapping[str, Any] = field(default_factory=dict, repr=False)
    read: Callable[[], str] = field(default=lambda: "", repr=False)
    verify: Callable[[], bool] = field(default=lambda: False, repr=False)
    modified_ns: int = 0

    @property
    def content(self) -> str:
        """The text of the file as it is now, without signature lines."""
        return self.read()

    @property
    def signed(self) -> bool:
        """True if a key that is trusted here signed the file as it is now, as this item."""
        return self.verify()

    @property
    def title(self) -> str:
        """The declared title, ``""`` if absent."""
        return as_text(self.header.get("title"))

    @property
    def description(self) -> str:
        """The declared description, ``""`` if absent."""
        return as_text(self.header.get("description"))

    @property
    def version(self) -> str:
        """The declared version, ``""`` if absent."""
        return as_text(self.header.get("version"))

    @property
    def tags(self) -> tuple[str, ...]:
        """The declared tags; one text is split at blanks and commas."""
        tags = self.header.get("tags")
        if isinstance(tags, str):
            return tuple(tags.replace(",", " ").split())
        return tuple(map(as_text, tags)) if isinstance(tags, list) else ()

    def value(self, name: str) -> object:
        """A metadata value: at the top level, else under ``metadata``, or None."""
        value = self.header.get(name)
        below = self.header.get("metadata")
        if value is None and isinstance(below, Mapping):
            return below.get(name)
        return value


def read_item(location: Location) -> tuple[str, Mapping[str, Any]]:
    """The text and the header of an item's file as it is now. Nothing is verified.

    Raises OSError, and LilluxError for what no item can be.
    """
    if location.path.is_symlink():
        require_inside_space(location)
    return parse_item(location, read_bytes(location.path, MAX_SEARCHED_BYTES))


def parse_item(location: Location, data: bytes) -> tuple[str, Mapping[str, Any]]:
    """The text without signature lines, and the header, of an item. Raises LilluxError."""
    kind, suffix, where = location.ref.kind, location.suffix, str(location.path)
    file_type = location.file_type
    form = form_of(file_type) if file_type else form_for(kind, suffix, where)
    signed = split(text_of(data, form, where), form, where)
    text = signed.shebang + signed.body
    return text, extract(kind, suffix, text, where, file_type)


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


def _body(location: Location, content: str) -> str:
    from ryeos.items.knowledge import parse_knowledge
    from ryeos.items.markdown import find_fence

    if location.ref.kind is Kind.KNOWLEDGE:
        return parse_knowledge(content, location.suffix).body or content
    fence = find_fence(content, "xml") if location.ref.kind is Kind.DIRECTIVE else None
    return f"{fence.before} {fence.after}" if fence else content
