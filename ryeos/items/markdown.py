"""Headers and steps of Markdown items: fences, XML blocks, inputs."""

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from lillux.values import dataclass, field
from ryeos.items.header_values import (
    MAX_DEPTH,
    MetadataError,
    require_parsable_text,
    shown,
)
from ryeos.items.yaml import parse_yaml

if TYPE_CHECKING:
    from ryeos.items.header_names import Unread

_SHORTEST_HIDING_FENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced block of a Markdown text, and what stands around it.

    before, after   the text around the block, without blanks at its ends
    inside          the lines of the block
    lines_above     how many lines of the file stand above ``inside``
    """

    before: str
    inside: str
    after: str
    lines_above: int


def find_fence(text: str, language: str) -> Fence | None:
    """The first block that a line of three backticks and the language opens; None without one.

    It ends at the next line of three backticks. A block inside a longer fence, of four or more
    backticks, is an example and not looked at. Signature lines at the top belong to no part.
    """
    lines = text.split("\n")
    opening = _opening_line(lines, f"```{language}")
    if opening is None:
        return None
    closing = _next_line(lines, "```", opening + 1)
    if closing is None:
        return None
    return Fence(
        before="\n".join(lines[count_signature_lines(lines) : opening]).strip(),
        inside="\n".join(lines[opening + 1 : closing]),
        after="\n".join(lines[closing + 1 :]).strip(),
        lines_above=opening + 1,
    )


def count_signature_lines(lines: list[str]) -> int:
    """How many lines at the top sign the file: comments that begin with ``<!-- rye:``."""
    count = 0
    while count < len(lines) and lines[count].startswith("<!-- rye:"):
        count += 1
    return count


def _opening_line(lines: list[str], mark: str) -> int | None:
    hiding = 0
    for number, line in enumerate(lines):
        backticks = len(line) - len(line.lstrip("`"))
        if hiding:
            closes = backticks >= hiding and not line[backticks:].strip()
            hiding = 0 if closes else hiding
        elif backticks >= _SHORTEST_HIDING_FENCE:
            hiding = backticks
        elif line.rstrip() == mark:
            return number
    return None


def _next_line(lines: list[str], words: str, start: int) -> int | None:
    for number in range(start, len(lines)):
        if lines[number].rstrip() == words:
            return number
    return None


# --- knowledge ------------------------------------------------------------------------------------
# Knowledge items: a YAML header and a text for people and models.

_PLACE = "knowledge header"
_FRONT_MATTER = "---"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A knowledge item: its metadata, and its text without them (``""`` for a YAML file)."""

    metadata: Mapping[str, Any]
    body: str


def parse_knowledge(text: str, suffix: str) -> Knowledge:
    """The metadata and the body of a knowledge item, by the suffix of its file's name.

    ``.yaml`` and ``.yml``   the whole text is metadata
    any other                the first block that ```yaml opens, or front matter: a
                             first line ``---`` and all up to the next ``---``

    Lines ``<!-- rye:...`` at the top are skipped. The rest of the text is the body. Examples:
    docs/items.md.

    Raises MetadataError.
    """
    require_parsable_text("knowledge", text)
    lines = text.split("\n")
    signed = count_signature_lines(lines)
    if suffix.lower() in {".yaml", ".yml"}:
        return Knowledge(_metadata(lines, signed, len(lines)), "")
    if [line.rstrip() for line in lines[signed : signed + 1]] == [_FRONT_MATTER]:
        return _with_front_matter(lines, signed)
    fence = find_fence(text, "yaml")
    if fence is None:
        raise MetadataError(
            "knowledge",
            "expected a closed ```yaml block or --- front matter, found neither",
            hint="put the metadata into a ```yaml block at the top of the file",
        )
    body = "\n\n".join(part for part in (fence.before, fence.after) if part)
    return Knowledge(parse_yaml("\n" * fence.lines_above + fence.inside, _PLACE), body)


def _with_front_matter(lines: list[str], opening: int) -> Knowledge:
    rest = range(opening + 1, len(lines))
    closing = next((n for n in rest if lines[n].rstrip() == _FRONT_MATTER), None)
    if closing is None:
        raise MetadataError(
            "knowledge",
            "expected a line --- to close the front matter, found the end of the file",
            opening + 1,
        )
    body = "\n".join(lines[closing + 1 :]).strip()
    if body.startswith("```yaml\n"):
        # Which of the two a reader takes depends on the reader, and they are signed differently.
        raise MetadataError(
            "knowledge", "expected one header, found front matter and a ```yaml block", closing + 1
        )
    return Knowledge(_metadata(lines, opening + 1, closing), body)


def _metadata(lines: list[str], start: int, stop: int) -> dict[str, Any]:
    """The YAML in these lines, below empty ones so that messages count the lines of the file."""
    return parse_yaml("\n" * start + "\n".join(lines[start:stop]), _PLACE)


# --- xml documents --------------------------------------------------------------------------------
# XML as plain elements: no document type, no entities but the five of XML itself.


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
"""What an element that is not there says: nothing."""


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


# --- directive ------------------------------------------------------------------------------------
# Directives: a prompt with an XML header that says what it needs, takes and may do.


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveInput:
    """An input that a directive declares.

    type       as written (``string``, ``integer`` ...); None when the file does not say
    required   whether a caller must give it
    default    as written, still text; None without one
    """

    name: str
    type: str | None
    required: bool
    default: str | None
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveOutput:
    """An output that a directive promises; its fields are those of an input."""

    name: str
    type: str | None
    required: bool
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveAction:
    """A call that a directive asks for.

    primary      ``execute``, ``fetch`` or ``sign``, in older files also ``search`` and ``load``
    attributes   of the element, like ``item_id``
    params       name -> value, as text
    """

    primary: str
    attributes: Mapping[str, str]
    params: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DirectiveStep:
    """A named step of a directive, as text for the model that follows it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """A directive as its file declares it; nothing is filled in and nothing interpolated.

    name, version   of the ``<directive>`` element, ``""`` when it has none
    extends         the id of the directive it builds on
    category        ``""`` when given empty, None when not given; as author and model
    limits          name -> number, or text where no number was written
    permissions     capability strings, like ``rye.execute.tool.rye.file-system.*``
    acknowledged    risk -> the words that acknowledge it
    context         ``system``, ``before``, ``after``, ``suppress`` -> item ids
    hooks           the elements inside ``<hooks>``
    runtime         name -> boolean, number or text
    extra           every other child of ``<metadata>`` -> its text
    body            the prompt: the text below the header
    preamble        the text above it
    xml             the header itself, as written
    """

    name: str
    version: str
    extends: str | None
    description: str
    category: str | None
    author: str | None
    model: Mapping[str, str] | None
    limits: Mapping[str, int | float | str]
    permissions: tuple[str, ...]
    acknowledged: Mapping[str, str]
    context: Mapping[str, tuple[str, ...]]
    hooks: tuple[Element, ...]
    runtime: Mapping[str, bool | int | float | str]
    extra: Mapping[str, str]
    inputs: tuple[DirectiveInput, ...]
    outputs: tuple[DirectiveOutput, ...]
    actions: tuple[DirectiveAction, ...]
    steps: tuple[DirectiveStep, ...]
    body: str
    preamble: str
    xml: str


def parse_directive(text: str) -> Directive:
    """The directive that a Markdown file declares in its first ```xml block.

    The inside of ``template``, ``example`` and ``raw`` elements is text, whatever it looks like.
    Examples: docs/items.md.

    Raises MetadataError, naming the line of the file.
    """
    require_parsable_text("directive", text)
    fence, root = read_directive_element(text)
    metadata = metadata_children(root)
    permissions = metadata.get("permissions", EMPTY)
    model = metadata.get("model", metadata.get("model_class"))
    outside = tuple(_outside_metadata(root))
    return Directive(
        name=root.attributes.get("name", ""),
        version=root.attributes.get("version", ""),
        extends=root.attributes.get("extends"),
        description=description_of(root, metadata),
        category=_text(metadata, "category"),
        author=_text(metadata, "author"),
        model=None if model is None else model.attributes,
        limits=limits_of(metadata.get("limits", EMPTY)),
        permissions=capabilities(permissions),
        acknowledged=acknowledged_risks(permissions),
        context=context_of(metadata.get("context", EMPTY)),
        hooks=metadata.get("hooks", EMPTY).children,
        runtime=runtime_of(metadata.get("runtime", EMPTY)),
        extra={tag: child.text for tag, child in metadata.items() if tag not in FIELDS},
        inputs=_inputs(root),
        outputs=_outputs(root),
        actions=tuple(_action(element) for element in outside if element.tag in PRIMARIES),
        steps=tuple(_step(element) for element in outside if element.tag == "step"),
        body=fence.after,
        preamble=fence.before,
        xml=fence.inside.strip(),
    )


def _outside_metadata(root: Element) -> Iterator[Element]:
    for child in root.children:
        if child.tag != "metadata":
            yield child
            yield from child.descendants()


def _text(metadata: Mapping[str, Element], tag: str) -> str | None:
    return metadata[tag].text if tag in metadata else None


def _inputs(root: Element) -> tuple[DirectiveInput, ...]:
    inputs: dict[str, DirectiveInput] = {}
    for element in _inside(root, "inputs"):
        if element.tag != "input":
            raise directive_error(element, f"inputs: expected <input>, found <{element.tag[:60]}>")
        name = _name(element, "inputs", inputs)
        inputs[name] = DirectiveInput(
            name=name,
            type=element.attributes.get("type"),
            required=_is_required(element, name),
            default=element.attributes.get("default"),
            description=element.text,
        )
    return tuple(inputs.values())


def _outputs(root: Element) -> tuple[DirectiveOutput, ...]:
    outputs: dict[str, DirectiveOutput] = {}
    for element in _inside(root, "outputs"):
        # Older files name an output by its tag: <success>what then is there</success>.
        name = _name(element, "outputs", outputs) if element.tag == "output" else element.tag
        outputs[name] = DirectiveOutput(
            name=name,
            type=element.attributes.get("type"),
            required=_is_required(element, name),
            description=element.text,
        )
    return tuple(outputs.values())


def _inside(root: Element, tag: str) -> Iterator[Element]:
    for block in root.children:
        if block.tag == tag:
            yield from block.children


def _name(element: Element, place: str, taken: Mapping[str, object]) -> str:
    name = element.attributes.get("name", "")
    if not name:
        raise directive_error(element, f"{place}: expected a name on <{element.tag}>, found none")
    if name in taken:
        raise directive_error(
            element, f"{place}: expected the name {shown(name)} once, found it twice"
        )
    return name


def _is_required(element: Element, name: str) -> bool:
    written = element.attributes.get("required", "false")
    if written.lower() not in BOOLEANS:
        problem = f"{shown(name)}: expected required to be true or false, found {shown(written)}"
        raise directive_error(element, problem)
    return BOOLEANS[written.lower()]


def _action(element: Element) -> DirectiveAction:
    params: dict[str, str] = {}
    for child in element.children:
        if child.tag == "param":
            name = _name(child, element.tag, params)
            params[name] = child.attributes.get("value", child.text)
    return DirectiveAction(primary=element.tag, attributes=element.attributes, params=params)


def _step(element: Element) -> DirectiveStep:
    return DirectiveStep(element.attributes.get("name", ""), element.text)


# --- directive metadata ---------------------------------------------------------------------------
# The ``<metadata>`` of a directive: limits, context and the like, as values.

BOOLEANS: Mapping[str, bool] = {"true": True, "false": False}

FIELDS = frozenset(
    {"description", "category", "author", "model", "model_class", "limits"}
    | {"permissions", "context", "hooks", "runtime"}
)
"""The children of ``<metadata>`` that mean something to Rye; others are kept as text."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]{1,300}\.[0-9]{0,300}|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,5})?")


def metadata_children(root: Element) -> dict[str, Element]:
    """The children of ``<metadata>`` by tag. Raises MetadataError for one that is there twice."""
    found: dict[str, Element] = {}
    for block in root.children:
        for child in block.children if block.tag == "metadata" else ():
            if child.tag in found:
                problem = f"metadata: expected <{child.tag[:60]}> once, found it twice"
                raise directive_error(child, problem)
            found[child.tag] = child
    return found


def description_of(root: Element, metadata: Mapping[str, Element]) -> str:
    """The text of ``<description>``, which may stand in ``<directive>`` or in ``<metadata>``."""
    for child in root.children:
        if child.tag == "description":
            return child.text
    return metadata.get("description", EMPTY).text


def limits_of(limits: Element) -> Mapping[str, int | float | str]:
    """The attributes of ``<limits>``, numbers as numbers. Raises MetadataError for content."""
    if limits.children or limits.text:
        # A limit that is not read would be a limit that does not hold.
        raise directive_error(limits, "limits: expected attributes only, found content")
    return {name: _number_or_text(value) for name, value in limits.attributes.items()}


def runtime_of(runtime: Element) -> Mapping[str, bool | int | float | str]:
    """The attributes and children of ``<runtime>``, booleans and numbers as what they are."""
    written = dict(runtime.attributes) | {child.tag: child.text for child in runtime.children}
    return {
        name: BOOLEANS[value] if value in BOOLEANS else _number_or_text(value)
        for name, value in written.items()
    }


def context_of(context: Element) -> Mapping[str, tuple[str, ...]]:
    """The texts inside ``<context>``, by tag: the items that an LLM thread is to be given."""
    items: dict[str, list[str]] = {}
    for child in context.children:
        items.setdefault(child.tag, []).append(child.text)
    return {tag: tuple(texts) for tag, texts in items.items()}


def _number_or_text(text: str) -> int | float | str:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and isfinite(float(text)):
        return float(text)
    return text


# --- directive xml --------------------------------------------------------------------------------
# The XML header of a directive: found, made safe to parse, and parsed.

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


# --- permissions ----------------------------------------------------------------------------------
# The permissions of a directive as capability strings: ``rye.execute.tool.rye.bash.*``.

PRIMARIES = ("execute", "fetch", "sign", "search", "load")
"""What an item can ask for. ``search`` and ``load`` are older words for parts of ``fetch``."""

_PART_OF_FETCH = frozenset({"search", "load"})
_ACKNOWLEDGE = "acknowledge"


def capabilities(permissions: Element) -> tuple[str, ...]:
    """The capability strings of a ``<permissions>`` element, in its order, each once.

    ``*``                                        ``rye.*``
    ``<execute>*</execute>``                     ``rye.execute.*``
    ``<execute><tool>a.b.*</tool></execute>``    ``rye.execute.tool.a.b.*``
    ``<load>...</load>``                         ``rye.load...`` and ``rye.fetch...``

    Raises MetadataError for an element or a text that means none of these.
    """
    granted: list[str] = []
    if _own_text(permissions):
        granted.append(f"rye.{_pattern(permissions, allowed='*')}")
    for child in permissions.children:
        if child.tag == _ACKNOWLEDGE:
            continue
        if child.tag not in PRIMARIES:
            known = ", ".join((*PRIMARIES, _ACKNOWLEDGE))
            raise _permissions_error(child, f"expected one of {known}, found <{child.tag[:60]}>")
        found = _granted_by(child)
        granted.extend(found)
        if child.tag == "fetch":  # a search of the same items takes none of it away
            granted.extend(
                one.replace("fetch", "load", 1) for one in found if _has_search(permissions)
            )
    return tuple(dict.fromkeys(granted))


def _has_search(permissions: Element) -> bool:
    return any(child.tag == "search" for child in permissions.children)


def acknowledged_risks(permissions: Element) -> Mapping[str, str]:
    """The risks that a ``<permissions>`` element acknowledges, each with the words it gives."""
    risks: dict[str, str] = {}
    for child in permissions.children:
        if child.tag == _ACKNOWLEDGE:
            risk = child.attributes.get("risk", "")
            if not risk:
                raise _permissions_error(
                    child, "expected a risk attribute on <acknowledge>, found none"
                )
            risks[risk] = child.text
    return risks


def _granted_by(primary: Element) -> list[str]:
    patterns = [f"{kind.tag}.{_pattern(kind)}" for kind in primary.children]
    if _own_text(primary) or not patterns:
        patterns.insert(0, _pattern(primary))
    words = [primary.tag, "fetch"] if primary.tag in _PART_OF_FETCH else [primary.tag]
    return [f"rye.{word}.{pattern}" for word in words for pattern in patterns]


def _own_text(element: Element) -> str:
    return "".join(part for part in element.content if isinstance(part, str)).strip()


def _pattern(element: Element, allowed: str = "") -> str:
    pattern = _own_text(element)
    if len(pattern.split()) != 1 or (allowed and pattern != allowed):
        expected = allowed or "one pattern like rye.bash.*"
        raise _permissions_error(
            element, f"expected {expected} in <{element.tag[:60]}>, found {shown(pattern)}"
        )
    return pattern


def _permissions_error(element: Element, problem: str) -> MetadataError:
    return directive_error(element, f"permissions: {problem}")


# --- input references -----------------------------------------------------------------------------
# How a text of an item asks for an input: ``{input:k}``, with an optional default.
#
# ``{input:k?}`` is empty where the input is not given, ``{input:k:default}`` and
# ``{input:k|default}`` are the default then.

PATTERN = r"\{input:(?P<input>[A-Za-z_][\w-]*)(?:(?P<optional>\?)|[:|](?P<default>[^{}]*))?\}"
"""A part of a regular expression; its groups are ``input``, ``optional`` and ``default``."""


# --- unread parts ---------------------------------------------------------------------------------
# What looks like a header of a Markdown item and is not the one that is read.

_OTHER_FENCE = re.compile(r"[ \t]{0,3}(?:`{3,}|~{3,})[ \t]*(\w*)")
_KEY_LINE = re.compile(r"[ \t]*[\"']?[A-Za-z_][\w-]*[\"']?[ \t]*:(?:[ \t].*)?")
_DIRECTIVE_TAG = re.compile(r"[ \t]*<(?:[\w-]+:)?directive[\s/>]", re.IGNORECASE)
_OF_DIRECTIVE = frozenset({"name", "version", "extends"})
_BLOCKS = frozenset({"metadata", "inputs", "outputs", "description"})
_SHORT_TAG = 5
_RIGHTS_TAG = re.compile(
    r"[ \t]*<(?:[\w-]+:)?(permissions|limits|metadata|sandbox)[\s/>]", re.IGNORECASE
)
_ONLY_IN_METADATA = FIELDS - {"description"}
_NO_SANDBOX = "is not read; the tools that a directive calls have a sandbox, a directive has none"
_RIGHTS = frozenset({"metadata", "permissions", "limits"})
"""What gives rights or holds a budget where it is read, and looks so wherever it stands."""


def header_lines(text: str) -> str:
    """The YAML of a knowledge item below as many empty lines as stand above it."""
    lines = text.split("\n")
    signed = count_signature_lines(lines)
    if lines[signed : signed + 1] and lines[signed].rstrip() == _FRONT_MATTER:
        closing = next(
            (n for n in range(signed + 1, len(lines)) if lines[n].rstrip() == _FRONT_MATTER),
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
            yield from _unread_name(child, _BLOCKS | FIELDS)
    yield from _unread_metadata(inside)
    blocks = [child for child in root.children if child.tag != "metadata"]
    for block in (*blocks, *inside):
        yield from _unread_inside(block)


def _unread_metadata(inside: list[Element]) -> "Iterator[Unread]":
    for child in inside:
        if child.tag.casefold() in _OF_DIRECTIVE:
            yield _unread(child, f'is not read; write {child.tag.casefold()}="..." at <directive>')
        elif child.tag.casefold() in _BLOCKS - FIELDS:
            yield _unread(child, f"is not read here; write <{child.tag.casefold()}> below it")
        elif child.tag not in FIELDS:
            yield from _unread_name(child, FIELDS)


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
        if name not in own and small in _OF_DIRECTIVE | FIELDS:
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
    if not (lines[signed : signed + 1] and lines[signed].rstrip() == _FRONT_MATTER):
        fence = find_fence(text, "yaml")
        counting = f"line {fence.lines_above + 1} counts" if fence else "none counts"
        yield from _front_matter_of(text, counting)
        if fence:
            closing = fence.lines_above + fence.inside.count("\n") + 1
            yield from _directly_below(lines, closing, counting)
        return
    closing = next(
        (n for n in range(signed + 1, len(lines)) if lines[n].rstrip() == _FRONT_MATTER), len(lines)
    )
    yield from _directly_below(lines, closing, f"line {signed + 1} counts")


def _directly_below(lines: list[str], closing: int, counting: str) -> "Iterator[Unread]":
    """Front matter that begins below the last line of a header, with nothing between."""
    below = [n for n in range(closing + 1, len(lines)) if lines[n].strip()]
    if below and lines[below[0]].rstrip() == _FRONT_MATTER:
        yield from _keys_between(lines, below[0], counting)


def _front_matter_of(text: str, counting: str) -> "Iterator[Unread]":
    """Front matter above a header that is read from a block."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if _says_something(line)), len(lines))
    if first < len(lines) and lines[first].strip() == _FRONT_MATTER:
        yield from _keys_between(lines, first, counting)


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("<!-- rye:")


def _keys_between(lines: list[str], opening: int, counting: str) -> "Iterator[Unread]":
    """A front matter from a line ``---`` to the next, if there are keys between them."""
    for number in range(opening + 1, len(lines)):
        if lines[number].rstrip() == _FRONT_MATTER:
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
            is_hidden = len(mark) >= _SHORTEST_HIDING_FENCE or fence[1].lower() not in {"", "xml"}
        elif fence and line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            mark, is_hidden = "", False
        if not is_hidden:
            yield number, line
