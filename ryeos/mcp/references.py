"""Which project and which item the arguments of a call mean."""

from collections.abc import Mapping

from ryeos.app import Rye
from ryeos.items import EXECUTABLE_KINDS, Kind, Reference, parse_reference


def rye_of(rye: Rye, arguments: Mapping[str, object]) -> Rye:
    """The Rye of the named project, else the server's own. Raises NoProjectError."""
    project = arguments.get("project_path")
    return rye.at(str(project)) if project else rye


def project_of(rye: Rye) -> str | None:
    """The project that an answer is about, for the answer; None outside of one."""
    return str(rye.context.project_path) if rye.context.project_path else None


def item_reference(rye: Rye, item_id: str, item_type: str | None) -> Reference:
    """The item that ``tool:a/b``, ``a/b`` with a type, or ``a/b`` alone means.

    Backslashes count as slashes, and a file suffix is left out where that names an item. Raises
    InvalidRefError.
    """
    reference = parse_reference(_slashed(item_id), item_type)
    stem, dot, suffix = reference.id.rpartition(".")
    kinds = (reference.kind,) if reference.kind else EXECUTABLE_KINDS
    named = [kind for kind in kinds if dot and _names_files(rye, kind, f".{suffix}")]
    shorter = [Reference(kind, stem) for kind in named]
    if any(rye.resolver.find(ref) for short in shorter for ref in short.refs()):
        return Reference(reference.kind, stem)
    return reference


def _names_files(rye: Rye, kind: Kind, suffix: str) -> bool:
    return any(space.has_suffix(kind, suffix) for space in rye.context.spaces)


def _slashed(item_id: str) -> str:
    """The id with forward slashes, as some systems do not write paths."""
    kind, colon, path = item_id.rpartition(":")
    path = path.replace("\\", "/")
    while path.startswith("./"):
        path = path.removeprefix("./")
    return f"{kind}{colon}{path}"
