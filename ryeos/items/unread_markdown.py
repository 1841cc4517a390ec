"""Parts of a Markdown item that look like its header and are not read."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ryeos.items.directive_xml import read_directive_element
from ryeos.items.directives import DIRECTIVE_FIELDS
from ryeos.items.knowledge import FRONT_MATTER
from ryeos.items.markdown import SHORTEST_HIDING_FENCE, count_signature_lines, find_fence
from ryeos.items.xml_documents import Element

if TYPE_CHECKING:
    from ryeos.items.header_names import Unread


_OTHER_FENCE = re.compile(r"[ \t]{0,3}(?:`{3,}|~{3,})[ \t]*(\w*)")
_KEY_LINE = re.compile(r"[ \t]*[\"']?[A-Za-z_][\w-]*[\"']?[ \t]*:(?:[ \t].*)?")
_DIRECTIVE_TAG = re.compile(r"[ \t]*<(?:[\w-]+:)?directive[\s/>]", re.IGNORECASE)
_OF_DIRECTIVE = frozenset({"name", "version", "extends"})
_BLOCKS = frozenset({"metadata", "inputs", "outputs", "description"})
_SHORT_TAG = 5
_RIGHTS_TAG = re.compile(
    r"[ \t]*<(?:[\w-]+:)?(permissions|limits|metadata|sandbox)[\s/>]", re.IGNORECASE
)
_ONLY_IN_METADATA = DIRECTIVE_FIELDS - {"description"}
_NO_SANDBOX = "is not read; the tools that a directive calls have a sandbox, a directive has none"
_RIGHTS = frozenset({"metadata", "permissions", "limits"})
"""Elements that give rights or hold a budget, and look so wherever they stand."""


def header_lines(text: str) -> str:
    """The YAML of a knowledge item below as many empty lines as stand above it."""
    lines = text.split("\n")
    signed = count_signature_lines(lines)
    if lines[signed : signed + 1] and lines[signed].rstrip() == FRONT_MATTER:
        closing = next(
            (n for n in range(signed + 1, len(lines)) if lines[n].rstrip() == FRONT_MATTER),
            len(lines),
        )
        return "\n" * (signed + 1) + "\n".join(lines[signed + 1 : closing])
    fence = find_fence(text, "yaml")
    return "\n" * fence.lines_above + fence.inside if fence else ""


def unread_directive_parts(text: str) -> "Iterator[Unread]":
    """A second header of a directive, and parts of the header that stand where none is read.

    Raises MetadataError.
    """
    fence, root = read_directive_element(text)
    first, last = fence.lines_above, fence.lines_above + fence.inside.count("\n") + 1
    if root.tag != "directive":
        yield _unread(root, "is not read; write <directive>")
    for number, line in shown_lines(text):
        if _DIRECTIVE_TAG.match(line) and not first < number <= last:
            problem = f"begins a second header; line {root.line} counts; remove one"
            yield _unread_line(line=number, name="<directive>", field="directive", problem=problem)
    for number, line in _lines_without_fences(text):
        if (found := _RIGHTS_TAG.match(line)) and not first < number <= last:
            name, problem = (
                found[1].lower(),
                f"is not read here; line {root.line} begins the header",
            )
            yield _unread_line(line=number, name=f"<{found[1]}>", field=name, problem=problem)
    yield from _front_matter_of(text, f"line {root.line} counts")
    yield from _unread_elements(root)


def _unread_elements(root: Element) -> "Iterator[Unread]":
    """Elements that are there twice, outside of ``<metadata>``, or in other letters."""
    metadata = [child for child in root.children if child.tag == "metadata"]
    inside = [one for block in metadata for one in block.children]
    descriptions = [one for one in (*root.children, *inside) if one.tag == "description"]
    for first, *more in filter(None, (metadata, descriptions)):
        problem = f"is there twice; line {first.line} counts; remove one"
        yield from (_unread(one, problem) for one in more)
    for block in (root, *metadata):
        yield from _unread_attributes(block)
    for child in root.children:
        small = child.tag.casefold()
        if small in _ONLY_IN_METADATA:
            yield _unread(child, f"is not read here; write <{small}> inside of <metadata>")
        elif small in _OF_DIRECTIVE:
            yield _unread(child, f'is not read; write {small}="..." into <directive>')
        elif child.tag not in _BLOCKS:
            yield from _unread_name(child, _BLOCKS | DIRECTIVE_FIELDS)
    yield from _unread_metadata(inside)
    blocks = [child for child in root.children if child.tag != "metadata"]
    for block in (*blocks, *inside):
        yield from _unread_inside(block)


def _unread_metadata(inside: list[Element]) -> "Iterator[Unread]":
    for child in inside:
        if child.tag.casefold() in _OF_DIRECTIVE:
            yield _unread(child, f'is not read; write {child.tag.casefold()}="..." at <directive>')
        elif child.tag.casefold() in _BLOCKS - DIRECTIVE_FIELDS:
            yield _unread(child, f"is not read here; write <{child.tag.casefold()}> below it")
        elif child.tag not in DIRECTIVE_FIELDS:
            yield from _unread_name(child, DIRECTIVE_FIELDS)


def _unread_inside(block: Element) -> "Iterator[Unread]":
    """Rights and budgets inside of an element that is no place of theirs."""
    from ryeos.items.header_names import seems_sandbox

    for element in block.descendants():
        if name := _near(element.tag, _RIGHTS):
            place = "<directive>" if name == "metadata" else "<metadata>"
            problem = f"is not read inside of <{block.tag}>; write <{name}> directly in {place}"
            yield _unread(element, problem)
        elif seems_sandbox(_without_prefix(element.tag)):
            yield _unread(element, _NO_SANDBOX)


def _unread_name(element: Element, known: frozenset[str]) -> "Iterator[Unread]":
    """An element whose name is not read, and is nearly that of another one."""
    from ryeos.items.header_names import seems_sandbox

    if seems_sandbox(_without_prefix(element.tag)):
        yield _unread(element, _NO_SANDBOX)
    elif near := _near(element.tag, known):
        yield _unread(element, f"is not read; write <{near}>")


def _unread_attributes(element: Element) -> "Iterator[Unread]":
    """Attributes of the header's elements that are a field's name, and are none of theirs."""
    own = _OF_DIRECTIVE if element.tag == "directive" else frozenset[str]()
    for name in element.attributes:
        small = name.casefold()
        if name not in own and small in _OF_DIRECTIVE | DIRECTIVE_FIELDS:
            place = "<directive>" if small in _OF_DIRECTIVE else f"<{small}> inside of <metadata>"
            problem = f"is an attribute that is not read; write it as {place} has it, or remove it"
            yield _unread_line(line=element.line, name=name, field=small, problem=problem)


def _near(tag: str, known: frozenset[str]) -> str:
    """The known tag that another one is in other letters, or for long ones with one slip."""
    from ryeos.items.header_names import is_one_slip, squashed

    word = squashed(_without_prefix(tag))
    return next(
        (
            one
            for one in sorted(known)
            if word == squashed(one) or (len(one) > _SHORT_TAG and is_one_slip(word, one))
        ),
        "",
    )


def _without_prefix(tag: str) -> str:
    """The name of an element without that of a namespace: Rye knows none."""
    return tag.rpartition(":")[2]


def _unread(element: Element, problem: str) -> "Unread":
    return _unread_line(
        line=element.line, name=f"<{element.tag}>", field=element.tag.casefold(), problem=problem
    )


def _unread_line(*, line: int, name: str, field: str, problem: str) -> "Unread":
    from ryeos.items.header_names import Unread

    return Unread(line=line, name=name, field=field, problem=problem)


def unread_knowledge_parts(text: str) -> "Iterator[Unread]":
    """A second header of a knowledge item. Raises MetadataError."""
    lines = text.split("\n")
    signed = count_signature_lines(lines)
    if not (lines[signed : signed + 1] and lines[signed].rstrip() == FRONT_MATTER):
        fence = find_fence(text, "yaml")
        counting = f"line {fence.lines_above + 1} counts" if fence else "none counts"
        yield from _front_matter_of(text, counting)
        if fence:
            closing = fence.lines_above + fence.inside.count("\n") + 1
            yield from _directly_below(lines, closing, counting)
        return
    closing = next(
        (n for n in range(signed + 1, len(lines)) if lines[n].rstrip() == FRONT_MATTER), len(lines)
    )
    yield from _directly_below(lines, closing, f"line {signed + 1} counts")


def _directly_below(lines: list[str], closing: int, counting: str) -> "Iterator[Unread]":
    """Front matter that begins below the last line of a header, with nothing between."""
    below = [n for n in range(closing + 1, len(lines)) if lines[n].strip()]
    if below and lines[below[0]].rstrip() == FRONT_MATTER:
        yield from _keys_between(lines, below[0], counting)


def _front_matter_of(text: str, counting: str) -> "Iterator[Unread]":
    """Front matter above a header that is read from a block."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if _has_content(line)), len(lines))
    if first < len(lines) and lines[first].strip() == FRONT_MATTER:
        yield from _keys_between(lines, first, counting)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("<!-- rye:")


def _keys_between(lines: list[str], opening: int, counting: str) -> "Iterator[Unread]":
    """A front matter from a line ``---`` to the next, if there are keys between them."""
    for number in range(opening + 1, len(lines)):
        if lines[number].rstrip() == FRONT_MATTER:
            between = [line for line in lines[opening + 1 : number] if line.strip()]
            if between and all(_KEY_LINE.fullmatch(line) or line[:1] in " #-" for line in between):
                problem = f"begins front matter that is not read; {counting}; remove one"
                yield _unread_line(line=opening + 1, name="---", field="header", problem=problem)
            return


def _lines_without_fences(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text that are in no fence."""
    mark = ""
    for number, line in shown_lines(text):
        bare = line.strip()
        if not mark and _OTHER_FENCE.match(line):
            mark = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        elif mark and bare.startswith(mark) and not bare.strip(mark[0]):
            mark = ""
        elif not mark:
            yield number, line


def shown_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are neither in a longer fence nor in one of another language than XML."""
    mark, is_hidden = "", False
    for number, line in enumerate(text.split("\n"), 1):
        fence = _OTHER_FENCE.match(line)
        if fence and not mark:
            bare = line.strip()
            mark = bare[: len(bare) - len(bare.lstrip(bare[0]))]
            is_hidden = len(mark) >= SHORTEST_HIDING_FENCE or fence[1].lower() not in {"", "xml"}
        elif fence and line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            mark, is_hidden = "", False
        if not is_hidden:
            yield number, line
