"""XML as plain elements: no document type, no entities but the five of XML itself."""

from collections.abc import Callable, Iterator, Mapping

from lillux.values import dataclass, field
from ryeos.items.header_values import MAX_DEPTH, MetadataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An XML element. ``content`` is its text and its child elements, in order."""

    tag: str
    attributes: Mapping[str, str]
    content: tuple["str | Element", ...]
    line: int

    @property
    def children(self) -> tuple["Element", ...]:
        """The elements directly inside."""
        return tuple(part for part in self.content if isinstance(part, Element))

    @property
    def text(self) -> str:
        """All text inside, that of elements further down too, without blanks at its ends."""
        return "".join(_texts(self)).strip()

    def descendants(self) -> Iterator["Element"]:
        """Every element inside, at any depth, in the order of the document."""
        for child in self.children:
            yield child
            yield from child.descendants()


EMPTY = Element(tag="", attributes={}, content=(), line=0)
"""Stands for an element that is not there: it says nothing."""


def _texts(element: Element) -> Iterator[str]:
    for part in element.content:
        if isinstance(part, str):
            yield part
        else:
            yield from _texts(part)


def parse_xml(parser: str, xml: str, lines_above: int) -> Element:
    """The root element of an XML text.

    ``parser`` is the word for messages; ``lines_above`` is added to every line number.

    Raises MetadataError for bad XML, for a document type (the only place where XML declares
    entities, and so the beginning of every attack with them) and for nesting beyond `MAX_DEPTH`.
    """
    from xml.parsers import expat

    reader = expat.ParserCreate()
    builder = _Builder(parser, lambda: lines_above + reader.CurrentLineNumber)
    reader.buffer_text = True
    reader.StartElementHandler = builder.start
    reader.EndElementHandler = builder.end
    reader.CharacterDataHandler = builder.add
    reader.StartDoctypeDeclHandler = builder.refuse_doctype
    try:
        reader.Parse(xml, True)  # noqa: FBT003 - expat's own signature
    except expat.ExpatError as error:
        problem = f"invalid XML: {expat.ErrorString(error.code)}"
        raise MetadataError(parser, problem, lines_above + error.lineno) from error
    return builder.root()


class _Builder:
    """Turns expat's calls into elements. The innermost open element is the last in the list."""

    def __init__(self, parser: str, current_line: Callable[[], int]) -> None:
        self._parser, self._current_line = parser, current_line
        self._open: list[_OpenElement] = [_OpenElement("", {}, 0)]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self._current_line()
        if len(self._open) > MAX_DEPTH:
            problem = f"expected at most {MAX_DEPTH} levels of nesting, found more"
            raise MetadataError(self._parser, problem, line)
        self._open.append(_OpenElement(tag, attributes, line))

    def end(self, _: str) -> None:
        done = self._open.pop()
        self._open[-1].content.append(
            Element(
                tag=done.tag,
                attributes=done.attributes,
                content=tuple(done.content),
                line=done.line,
            )
        )

    def add(self, text: str) -> None:
        self._open[-1].content.append(text)

    def refuse_doctype(self, *_: object) -> None:
        problem = "expected an element, found a document type"
        raise MetadataError(self._parser, problem, self._current_line())

    def root(self) -> Element:
        (element,) = (part for part in self._open[0].content if isinstance(part, Element))
        return element


@dataclass(slots=True)
class _OpenElement:
    tag: str
    attributes: dict[str, str]
    line: int
    content: list[str | Element] = field(default_factory=list)
