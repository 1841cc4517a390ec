"""Knowledge items: a YAML header and a text for people and models.

A file of its own, imported late: no run of a tool reads one.
"""

from collections.abc import Mapping
from typing import Any

from lillux.values import dataclass
from ryeos.items.header_values import MetadataError, require_parsable_text
from ryeos.items.markdown import count_signature_lines, find_fence
from ryeos.items.yaml import parse_yaml

_PLACE = "knowledge header"
FRONT_MATTER = "---"


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
    if [line.rstrip() for line in lines[signed : signed + 1]] == [FRONT_MATTER]:
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
    closing = next((n for n in rest if lines[n].rstrip() == FRONT_MATTER), None)
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
