"""Permissions of a directive as capability strings: ``rye.execute.tool.rye.bash.*``."""

from collections.abc import Mapping

from ryeos.items.directive_xml import directive_error
from ryeos.items.header_values import MetadataError, shown
from ryeos.items.xml_documents import Element

PRIMARIES = ("execute", "fetch", "sign", "search", "load")
"""The rights an item can ask for. ``search``, ``load`` are older words for parts of ``fetch``."""

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
