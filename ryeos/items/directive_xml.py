"""The XML header of a directive: found, made safe to parse, and parsed."""

import re

from ryeos.items.header_values import MetadataError
from ryeos.items.markdown import Fence, find_fence
from ryeos.items.xml_documents import Element, parse_xml

_END = "</directive>"
# What is inside of these is text, whatever it looks like. Comments and the like are only stepped
# over, so that nothing in them counts as such an element.
_OPENING = re.compile(
    r"(?P<opaque><(?P<tag>template|example|raw)(?=[\s/>])(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>)"
    r"|<!--|<!\[CDATA\[|<\?"
)
_CLOSED_BY = {
    "<!--": re.compile("-->"),
    "<![CDATA[": re.compile(r"\]\]>"),
    "<?": re.compile(r"\?>"),
}


def read_directive_element(text: str) -> tuple[Fence, Element]:
    """The first ```xml block of a directive's file and the ``<directive>`` in it.

    Raises MetadataError.
    """
    fence = find_fence(text, "xml")
    if fence is None:
        raise MetadataError(
            "directive",
            "no XML code block found, expected a closed ```xml block",
            hint="put the <directive> element between a line ```xml and a line ```",
        )
    # The interoperable signature covers the text up to the last "</directive>". An element that
    # ended otherwise, as "<directive/>" or with "</directive >", could stand behind the signed
    # one and be read in its place.
    if not fence.inside.rstrip().endswith(_END):
        last_line = fence.lines_above + fence.inside.rstrip().count("\n") + 1
        raise MetadataError(
            "directive", f"expected the XML block to end with {_END}, found another end", last_line
        )
    return fence, parse_xml("directive", mask_opaque(fence.inside), fence.lines_above)


def directive_error(element: Element, problem: str) -> MetadataError:
    """The error to raise for an element of the header."""
    return MetadataError("directive", problem, element.line)


def mask_opaque(xml: str) -> str:
    """The XML with the inside of ``template``, ``example`` and ``raw`` elements escaped.

    Parsed, these elements then hold as text exactly what was written in them.
    """
    pieces: list[str] = []
    position = 0
    while opening := _OPENING.search(xml, position):
        closing = _closing(opening).search(xml, opening.end())
        if closing is None:
            break
        inside = xml[opening.end() : closing.start()]
        pieces.append(xml[position : opening.end()])
        pieces.append(_escape(inside) if opening["opaque"] else inside)
        pieces.append(closing[0])
        position = closing.end()
    return "".join(pieces) + xml[position:]


def _closing(opening: re.Match[str]) -> re.Pattern[str]:
    if not opening["opaque"]:
        return _CLOSED_BY[opening[0]]
    if opening[0].endswith("/>"):
        return re.compile("")
    return re.compile(rf"</{opening['tag']}\s*>")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
