"""Plans of imports: items that would be made, and what keeps others from being made. Pure.

A reader of a kind (`ryeos.imports.kinds`) looks at files and gives an `ImportPlan`. It starts
nothing, writes nothing, and asks nothing of the network: that a plan was made is never more than
that files were read. `ryeos.app.imports` writes what a person agreed to.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.contained_paths import require_plain_path
from lillux.digests import sha256_hex
from lillux.errors import UnsafePathError
from lillux.files import read_bytes
from lillux.values import dataclass, field, replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import ItemRef

if TYPE_CHECKING:
    from ryeos.imports.tool_texts import ToolParts
    from ryeos.run.packages import Block

MAX_SOURCE_BYTES = 4 * 1024 * 1024
"""Of one file that is imported from."""
MAX_ITEMS = 2000
"""In one plan: what is more is refused, and said to be."""


def source_error(path: str, problem: str, *, hint: str = "") -> RyeError:
    """A file cannot be read as what it seems to be; nothing was written."""
    return RyeError(
        f"{path}: {problem}",
        code="IMPORT_UNREADABLE",
        hint=hint or "fix the file, and import it again",
        path=path,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """The source that a reader looks at.

    path     a file or a folder
    project  the folder that it is imported into, None for user space
    client   the client whose settings these are, ``""`` where only the file is known
    base     the folder that holds the ``.ai`` of the space, for what is signed where it lies
    copies   whether what could stay where it lies is copied
    server   the address that a document without one is about
    """

    path: Path
    project: Path | None
    client: str = ""
    base: Path | None = None
    copies: bool = False
    server: str = ""


@dataclass(frozen=True, slots=True)
class MovedSecret:
    """A value that goes to a variable, which the item names. It is shown and signed nowhere."""

    variable: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptProbe:
    """A script whose arguments are read from its ``--help``, after a person agreed.

    ``block`` is what packages it needs, ``written`` what its tool says besides the arguments.
    """

    data: bytes = field(repr=False)
    block: "Block | None"
    written: "ToolParts" = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedItem:
    """An item that would be written, unsigned.

    name      what its source calls it: what ``--only`` selects
    ref       kind and id; with ``suffix`` they say where the file goes
    data      the bytes of the file
    files     further files, by their paths relative to ``.ai``
    origin    where it comes from, for a person: ``.mcp.json: mcpServers.github``
    shown     what it would run, one line for the table; no secret
    steps     everything that it would run, line by line, in order; ``()`` where ``shown`` says it
    held      what of it can be pinned, for the table; ``""`` where its text is all there is
    notes     what a person should know before signing
    secrets   values that were taken out of the text
    problems  why it cannot be made; one with problems is shown, and not written
    probe     a script to be asked for its arguments; None for any other item
    """

    name: str
    ref: ItemRef
    suffix: str
    data: bytes = field(repr=False)
    origin: str
    shown: str = ""
    steps: tuple[str, ...] = ()
    held: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    secrets: tuple[MovedSecret, ...] = ()
    problems: tuple[str, ...] = ()
    probe: ScriptProbe | None = None

    def describe(self) -> dict[str, Any]:
        """The item for ``--json``."""
        return {
            "name": self.name,
            "ref": str(self.ref),
            "suffix": self.suffix,
            "from": self.origin,
            "runs": self.shown,
            **({"steps": list(self.steps)} if self.steps else {}),
            "held": self.held,
            "files": sorted(self.files),
            "notes": list(self.notes),
            "variables": [secret.variable for secret in self.secrets],
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Everything that would be made.

    ``notes`` are about the whole. ``left_out`` counts what is beyond a limit, and no item.
    """

    items: tuple[ProposedItem, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def writable(self) -> tuple[ProposedItem, ...]:
        """The items without problems."""
        return tuple(item for item in self.items if not item.problems)

    def only(self, names: Sequence[str]) -> "ImportPlan":
        """The items of these names or ids alone. Raises RyeError for a name that none has."""
        if not names:
            return self
        known = [spelling for item in self.items for spelling in _spellings(item)]
        for name in names:
            if name not in known:
                from difflib import get_close_matches

                close = get_close_matches(name, known, 1, 0.5)
                there = ", ".join(item.name for item in self.items[:20]) or "nothing"
                raise RyeError(
                    f"--only {name[:80]!r}: nothing of this name is there",
                    code="ITEM_NOT_FOUND",
                    hint=f"did you mean {close[0]}?" if close else f"there is {there}",
                )
        chosen = set(names)
        kept = tuple(item for item in self.items if chosen & set(_spellings(item)))
        return ImportPlan(kept, self.notes, self.left_out)


def _spellings(item: ProposedItem) -> tuple[str, ...]:
    return (item.name, item.ref.id, str(item.ref))


def joined(plans: Iterable[ImportPlan]) -> ImportPlan:
    """Several plans as one, with what their items have against each other.

    (1) two items of one id, or of ids that differ in case alone: the second is not made
    (2) two ids that look alike, as ``c1`` and ``cl`` do: both say so
    """
    listed = list(plans)
    items = [item for plan in listed for item in plan.items]
    first: dict[str, ProposedItem] = {}
    alike = Counter(_skeleton(item.ref) for item in items)
    judged = []
    for item in items:
        spelt = str(item.ref).casefold()
        other = first.setdefault(spelt, item)
        if other is not item:  # (1)
            problem = f"{other.origin} has this id too, or one that differs in case alone"
            item = with_problem(item, problem)  # noqa: PLW2901
        elif alike[_skeleton(item.ref)] > 1:  # (2)
            note = "another id here looks like it: read both letter by letter"
            item = replace(item, notes=(*item.notes, note))  # noqa: PLW2901
        judged.append(item)
    return ImportPlan(
        tuple(judged),
        tuple(note for plan in listed for note in plan.notes),
        sum(plan.left_out for plan in listed),
    )


def with_problem(item: ProposedItem, problem: str) -> ProposedItem:
    """The item with one more reason not to make it."""
    return replace(item, problems=(*item.problems, problem))


_LOOKS = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "-": None, "_": None, ".": None})


def _skeleton(ref: ItemRef) -> str:
    """An id without differences that people do not see."""
    plain = str(ref).casefold().translate(_LOOKS)
    return plain.replace("rn", "m").replace("vv", "w")


_MAX_NAME, _MARK_DIGITS = 64, 8
_OTHERS = re.compile(r"[^a-z0-9_-]+")


def plain_name(name: str) -> str:
    """A file name for whatever a source calls something: small letters, digits, ``-`` and ``_``.

    A name that is invalid, and not just for its capitals, blanks or dots, gets a mark made from the
    whole of it: so no other name can take its place, however much it looks like it.
    """
    spelt = re.sub(r"[\s./:@]+", "-", name.strip().lower()).strip("-_")
    plain = _OTHERS.sub("_", spelt).strip("_-")[:_MAX_NAME]
    if plain == spelt and _is_file_name(plain):
        return plain
    mark = sha256_hex(name.encode("utf-8", "surrogatepass"))[:_MARK_DIGITS]
    return f"{plain[: _MAX_NAME - _MARK_DIGITS - 1].strip('_-') or 'item'}-{mark}"


def _is_file_name(name: str) -> bool:
    try:
        require_plain_path(name)
    except UnsafePathError:
        return False
    return bool(name)


def source_text(path: Path, max_bytes: int = MAX_SOURCE_BYTES) -> str:
    """The text of a file that is imported from.

    Raises RyeError `IMPORT_UNREADABLE`, FileTooLargeError.
    """
    try:
        return read_bytes(path, max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise source_error(str(path), f"expected UTF-8: {error.reason}") from None
    except FileNotFoundError:
        raise source_error(str(path), "expected a file, found none") from None


def shown_path(path: Path, project: Path | None) -> str:
    """A path as the table shows it: relative to the project where it lies in it."""
    if project and path.is_relative_to(project):
        return path.relative_to(project).as_posix() or "."
    return str(path)
