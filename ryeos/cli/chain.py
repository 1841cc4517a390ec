"""``rye chain``: what runs a tool, element by element."""

import itertools
from typing import Any

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError
from ryeos.executor.model import Chain, ChainElement
from ryeos.executor.validator import ChainValidator
from ryeos.graph.mermaid import mermaid
from ryeos.graph.picture import Arrow, Box, Picture
from ryeos.items import Kind


def _configure(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="a tool")
    parser.add_argument("--mermaid", action="store_true", help="a picture, as Mermaid text")


def _run(session: Session) -> int:
    reference = session.rye.reference(session.arguments.ref)
    if reference.kind not in (None, Kind.TOOL):
        raise UsageError(f"{reference}: only tools have a chain")
    chain = session.rye.executor.build_chain(reference.id)
    result = ChainValidator().validate_chain(chain.elements)
    for warning in (*chain.warnings, *result.warnings):
        session.output.warn(warning)
    envelope: dict[str, Any] = {
        "status": "success" if result.valid else "error",
        "item_id": chain.tool.item_id,
        "digest": chain.digest,
        "chain": [_describe(element) for element in chain.elements],
        "issues": list(result.issues),
    }
    if not result.valid:
        envelope |= {"error": "; ".join(result.issues), "code": "CHAIN_INVALID"}
    if session.arguments.mermaid:
        picture = mermaid(picture_of(chain))
        envelope["mermaid"] = picture
        session.output.answer(envelope, picture)
    else:
        text = "\n".join(_text(session, chain, envelope["issues"]))
        session.output.answer(envelope, text)
    return 0 if result.valid else 5


def _describe(element: ChainElement) -> dict[str, Any]:
    key = element.item.key if element.item else None
    return element.describe() | {
        "path": str(element.path) if element.path else None,
        "fingerprint": key.fingerprint if key else None,
        "signer": key.owner if key else None,
        "shadows": [
            {"path": str(location.path), "space": location.space.label}
            for location in element.shadowed
        ],
    }


def _text(session: Session, chain: Chain, issues: list[str]) -> list[str]:
    lines = []
    for depth, element in enumerate(chain.elements):
        arrow = "   " * (depth - 1) + "└─ " if depth else ""
        indent = "   " * depth
        name = session.output.paint(element.item_id, "bold")
        lines.append(f"{arrow}{name}  ({element.space}, {element.spec.tool_type or 'tool'})")
        if element.item:
            key = element.item.key
            signer = f"{key.fingerprint} ({key.owner})" if key else "nobody: NOT VERIFIED"
            lines.append(f"{indent}   file    {element.path}")
            lines.append(f"{indent}   sha256  {element.integrity}")
            lines.append(f"{indent}   signer  {signer}")
        else:
            lines.append(f"{indent}   built into the engine")
        lines += [f"{indent}   shadows {hidden.path}" for hidden in element.shadowed]
    return lines + [f"issue: {issue}" for issue in issues]


def picture_of(chain: Chain) -> Picture:
    """The chain as boxes grouped by nothing but order."""
    boxes = [
        Box(key=f"e{number}", lines=(element.item_id, element.space))
        for number, element in enumerate(chain.elements)
    ]
    arrows = [Arrow(source=box.key, target=other.key) for box, other in itertools.pairwise(boxes)]
    return Picture(title=chain.tool.item_id, boxes=boxes, arrows=arrows)


COMMANDS = {
    "chain": Command(_configure, _run, ["rye chain rye/bash/bash", "rye chain mine/x --mermaid"])
}
