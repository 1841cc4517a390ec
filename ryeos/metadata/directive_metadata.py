"""The ``<metadata>`` of a directive: limits, context and the like, as values."""

import re
from collections.abc import Mapping
from math import isfinite

from ryeos.metadata.directive_xml import directive_error
from ryeos.metadata.xml_documents import EMPTY, Element

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
