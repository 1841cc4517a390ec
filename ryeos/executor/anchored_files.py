"""The files that a tool could import: all of them verified before anything starts."""

from collections.abc import Callable, Iterator
from pathlib import Path

from lillux.values import dataclass, field
from ryeos.dependencies import dependency_rules, verify_tree
from ryeos.executor.anchor import Anchor
from ryeos.executor.model import Chain
from ryeos.items import Space
from ryeos.verify import VerifiedItem, Verifier

_RUNTIME_LIB = "{runtime_lib}/"


@dataclass(frozen=True, slots=True)
class AnchoredFiles:
    """The verified files, and the hash of each by its path, as lockfiles pin it.

    Paths are relative to the anchor; those of a runtime's library begin with ``{runtime_lib}/``.
    """

    items: tuple[VerifiedItem, ...] = ()
    pins: dict[str, str] = field(default_factory=dict)


def verify_anchored_files(
    chain: Chain, anchor: Anchor, verifier: Verifier, warn: Callable[[str], None]
) -> AnchoredFiles:
    """What ``verify_deps`` of the chain asks for.

    The tool's own folders count while the anchor is active; the library of its runtime always
    does, for the runtime's command may name it. Raises SpecError, and IntegrityError at the first
    file that fails.
    """
    declared = chain.first_with("verify_deps")
    item = chain.tool.item
    if declared is None or item is None:
        return AnchoredFiles()
    rules = dependency_rules(declared[1])
    if not rules.enabled or rules.scope == "tool_file":
        return AnchoredFiles()
    tool_dir = item.target.path.parent
    items: list[VerifiedItem] = []
    pins: dict[str, str] = {}
    for prefix, folder, space in _folders(chain, anchor, rules.scope, tool_dir):
        base = folder.resolve()
        for found in verify_tree(base, rules, space, verifier, warn, kept=tool_dir.resolve()):
            items.append(found)
            pins[prefix + found.target.path.relative_to(base).as_posix()] = found.content_hash
    return AnchoredFiles(tuple(items), pins)


def _folders(
    chain: Chain, anchor: Anchor, scope: str, tool_dir: Path
) -> Iterator[tuple[str, Path, Space]]:
    item = chain.tool.item
    if item and anchor.active:
        yield "", anchor.path if scope == "anchor" else tool_dir, item.target.space
    # A runtime outside of the bundles may bring a library that nobody has looked at.
    runtime = next((e.item for e in chain.elements if (e.spec.anchor or {}).get("lib")), None)
    library = Path(anchor.names["runtime_lib"])
    if runtime and anchor.names["runtime_lib"] and library.is_dir():
        yield _RUNTIME_LIB, library, runtime.target.space
