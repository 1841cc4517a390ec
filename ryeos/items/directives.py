"""Directives: a prompt with an XML header that says what it needs, takes and may do.

A text of it asks for an input by ``{input:k}``. ``{input:k?}`` is empty where the input is not
given, ``{input:k:default}`` and ``{input:k|default}`` are the default then.
"""

import re
from collections.abc import Iterator, Mapping
from math import isfinite

from lillux.values import dataclass
from ryeos.items.directive_xml import directive_error, read_directive_element
from ryeos.items.header_values import require_parsable_text, shown
from ryeos.items.permissions import PRIMARIES, acknowledged_risks, capabilities
from ryeos.items.xml_documents import EMPTY, Element


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
        extra={tag: child.text for tag, child in metadata.items() if tag not in DIRECTIVE_FIELDS},
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


BOOLEANS: Mapping[str, bool] = {"true": True, "false": False}

DIRECTIVE_FIELDS = frozenset(
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


INPUT_PATTERN = r"\{input:(?P<input>[A-Za-z_][\w-]*)(?:(?P<optional>\?)|[:|](?P<default>[^{}]*))?\}"
"""A part of a regular expression; its groups are ``input``, ``optional`` and ``default``."""
