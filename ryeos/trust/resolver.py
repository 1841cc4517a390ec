"""Resolves a reference to a file: precedence, shadowing, short ids, suggestions.

The order is fixed (``docs/items.md``): space by space, suffix by suffix, the first regular file
wins. A miss then tries the alias table and the two spellings ``x/y`` and ``x/y/y``.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, islice
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.contained_paths import is_inside
from lillux.values import replace
from ryeos.items.errors import AmbiguousItemError, IntegrityError, ItemNotFoundError
from ryeos.items.refs import (
    EXECUTABLE_KINDS,
    EXTRACTORS_FOLDER,
    PROJECT,
    SYSTEM,
    ItemRef,
    Kind,
    Location,
    Reference,
    Resolution,
    Space,
    Spaces,
    is_part,
    rank_of,
)

if TYPE_CHECKING:
    from ryeos.items.context import Context
    from ryeos.items.refs import FileType
    from ryeos.trust.file_types import DeclaredTypes
    from ryeos.trust.verify import Verifier

CORE_PREFIXES = tuple(
    f"rye/core/{folder}/"
    for folder in ("primitives", "runtimes", "parsers", "processors", "extractors")
)
_EXECUTOR_FOLDERS = ("rye/core/primitives", "rye/core/runtimes", "")
_OWN_EXECUTOR_FOLDERS = (*_EXECUTOR_FOLDERS[:2], "core/primitives", "core/runtimes")
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", ".venv", ".git", "state"})
_MAX_SUGGESTIONS = 3
_LONG_NAME = 5
_SHORT_NAME = 3
_ALIKE = 0.75

Aliases = Callable[[], Mapping[ItemRef, str]]
# What runs is found by its file name alone; what runs it, and what it imports, is not meant.
_STEM_KINDS = (Kind.TOOL, Kind.DIRECTIVE)
_NOT_BY_STEM = ("rye/core/primitives/", "rye/core/runtimes/", "rye/core/extractors/")
_LIBRARY_FOLDER = "lib"


class Resolver:
    """Finds items in the spaces of one invocation.

    ``aliases`` gives the table of short ids when it is first needed; the table is data in the
    bundle, so reading it is the caller's business. ``require_visible`` raises for an item that a
    caller may not have.
    """

    def __init__(
        self,
        spaces: Spaces,
        aliases: Aliases = dict,
        require_visible: Callable[[ItemRef], None] = lambda _ref: None,
    ) -> None:
        self.spaces = spaces
        self._aliases = aliases
        self._require_visible = require_visible

    def resolve(self, reference: Reference, start: str = PROJECT) -> Resolution:
        """The winning file for a reference, seen from space ``start``.

        Of several kinds or files that a bare id means, the one of the highest tier wins. Raises
        ItemNotFoundError with suggestions, AmbiguousItemError for several in one tier,
        IntegrityError for a link that leaves its space.
        """
        found = [
            resolution
            for ref in reference.refs()
            if (resolution := self.find(ref, start)) is not None
        ]
        winner = _highest(reference.id, found) or self._by_stem(reference, start)
        if winner is None:
            raise ItemNotFoundError(
                str(reference), self.searched(start), self.suggest(reference, start)
            )
        self._require_visible(winner.location.ref)
        return winner

    def find(self, ref: ItemRef, start: str = PROJECT) -> Resolution | None:
        """The winning file for one item, its other spellings included, or None."""
        missed: list[Path] = []
        for candidate in self._spellings(ref):
            hits = list(self._hits(candidate, start, missed))
            if hits:
                hidden = self._hidden_by(hits[0], start) if candidate == ref else []
                return self._resolution(ref, hits, missed, hidden)
        return None

    def _hidden_by(self, winner: Location, start: str) -> list[Location]:
        """Other items that an id means, in spaces below that of a project or a user."""
        ref, rank = winner.ref, rank_of(winner.space.label)
        below = [one for one in self.spaces.seen_from(start) if rank_of(one.label) < rank]
        if winner.space.tier == SYSTEM or not below:
            return []
        others = [*_doubled(ref)]
        if "/" not in ref.id or ref.id.startswith("rye/"):  # else the table is not needed
            others = [*self._alias(ref), *others]
        hits = [self._hits(other, below[0].label, []) for other in others]
        return [location for found in hits for location in found]

    def _by_stem(self, reference: Reference, start: str) -> Resolution | None:
        """The tool or directive whose file has this name, wherever it is."""
        if "/" in reference.id:
            return None
        named = [
            location
            for kind in _STEM_KINDS
            if reference.kind in {None, kind}
            for location in self._named(kind, reference.id, start)
            if _is_found_by_stem(location.ref)
        ]
        return self._first_of(reference.id, named, start)

    def find_executor(self, executor_id: str, start: str) -> Resolution | None:
        """Find a tool as `find`; a name without slashes may also be a file name.

        A runtime or primitive of this name in a project or in user space, for items that may use
        these, comes before an alias.
        """
        ref = ItemRef(Kind.TOOL, executor_id)
        found = self.find(ref, start)
        if "/" in executor_id or (found and found.location.ref == ref):
            return found
        missed: list[Path] = []
        own = self._own_executor(executor_id, start, missed)
        if own:
            return _with_hidden(own, [found.location] if found else [])
        if found:
            return replace(found, missed=(*found.missed, *missed))
        for folder in _EXECUTOR_FOLDERS:
            named = [*self._named(Kind.TOOL, executor_id, start, folder)]
            winner = self._first_of(executor_id, named, start)
            if winner:
                return winner
        return None

    def _own_executor(self, name: str, start: str, missed: list[Path]) -> Resolution | None:
        """The runtime or primitive with this file name in a project or in user space.

        Raises AmbiguousItemError for several in one space; misses above the first are noted.
        """
        for space in self.spaces.seen_from(start):
            if space.tier == SYSTEM:
                break
            named = [
                location
                for folder in _OWN_EXECUTOR_FOLDERS
                for location in locations(space, Kind.TOOL, folder)
                if location.ref.name == name and self._counts(location)
            ]
            if named:
                found = self._first_of(name, named, start)
                return replace(found, missed=(*found.missed, *missed)) if found else None
            missed += _where_one_may_appear(space, name)
        return None

    def _named(self, kind: Kind, name: str, start: str, below: str = "") -> Iterator[Location]:
        """The items of a kind whose file has this name, each where it is found."""
        return (one for one in self._known(kind, start, below) if one.ref.name == name)

    def _first_of(self, name: str, named: list[Location], start: str) -> Resolution | None:
        """The resolution of the one in the highest tier; the others count as hidden by it.

        Raises AmbiguousItemError for several of that tier.
        """
        top = _of_highest_tier(named)
        if len(top) > 1:
            raise AmbiguousItemError(name, sorted(str(one.ref) for one in top))
        found = self.find(top[0].ref, start) if top else None
        return _with_hidden(found, [one for one in named if one not in top]) if found else None

    def known(self, kind: Kind, start: str = PROJECT, below: str = "") -> Iterator[ItemRef]:
        """Every item of a kind, each once, by walking the folders below ``below``."""
        return (location.ref for location in self._known(kind, start, below))

    def _known(self, kind: Kind, start: str, below: str) -> Iterator[Location]:
        """The items of `known`, each where the highest space has it."""
        seen = set()
        for space in self.spaces.seen_from(start):
            for location in locations(space, kind, below):
                if location.ref not in seen and self._counts(location):
                    seen.add(location.ref)
                    yield location

    def _counts(self, location: Location) -> bool:
        """True if a file may be found: core items only in bundles, where the core is protected."""
        is_protected = self.spaces.protect_core and location.space.tier != SYSTEM
        return not (is_protected and _is_core(location.ref))

    def suggest(self, reference: Reference, start: str = PROJECT) -> tuple[str, ...]:
        """Up to three references the user may have meant, best first."""
        found = (ref for kind in EXECUTABLE_KINDS for ref in self.known(kind, start))
        return suggestions(reference, ((str(ref), ref.id) for ref in found))

    def searched(self, start: str = PROJECT) -> tuple[str, ...]:
        """The labels of the spaces that a search from ``start`` looks into."""
        return tuple(space.label for space in self.spaces.seen_from(start))

    def _spellings(self, ref: ItemRef) -> Iterator[ItemRef]:
        yield ref
        yield from self._alias(ref)
        yield from _doubled(ref)

    def _alias(self, ref: ItemRef) -> Iterator[ItemRef]:
        """The item that an id means as a short one, if it is one."""
        alias = self._aliases().get(ref) if ref.kind in _STEM_KINDS else None
        if alias:
            yield ItemRef(ref.kind, alias)

    def _hits(self, ref: ItemRef, start: str, missed: list[Path]) -> Iterator[Location]:
        """The winner of each space that holds the item; misses above the first are noted.

        Where the folder is missing, it is the miss: most spaces have none for most items.
        """
        found = False
        for space in self._searchable(ref, start):
            folder = Path(f"{space.directory(ref.kind)}{os.sep}{ref.category}")
            if not folder.is_dir():
                if not found:
                    missed.append(folder)
                continue
            for path in candidates(space, ref):
                if is_regular_file(path):
                    found = True
                    yield Location(ref=ref, space=space, path=path)
                    break
                if not found:
                    missed.append(path)

    def _searchable(self, ref: ItemRef, start: str) -> Iterable[Space]:
        seen = self.spaces.seen_from(start)
        if self.spaces.protect_core and _is_core(ref):
            return [space for space in seen if space.tier == SYSTEM]
        return seen

    def _resolution(
        self,
        requested: ItemRef,
        hits: list[Location],
        missed: list[Path],
        hidden: list[Location],
    ) -> Resolution:
        """``hidden``: what would have been found by the id as a short one."""
        winner, *shadowed = (*hits, *hidden)
        require_inside_space(winner)
        return Resolution(
            location=winner,
            requested=requested,
            shadowed=tuple(shadowed),
            missed=tuple(missed),
            warnings=tuple(_warnings(winner, shadowed)),
        )


def suggestions(reference: Reference, known: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Up to three of the known references that may have been meant, best first.

    ``known`` gives each as a text, with its id. Parts of other items are not among them, unless
    one was asked for.
    """
    from lillux.spelling import edit_distance

    requested = {str(ref) for ref in reference.refs()}
    # In any case of letters: Rye/Bash is a slip like any other.
    wanted = reference.id.lower()
    wants_part = is_part(wanted)
    ids = {
        text: item_id.lower()
        for text, item_id in known
        if item_id.isprintable() and text not in requested and (wants_part or not is_part(item_id))
    }
    category, _, name = wanted.rpartition("/")
    # Of one or two letters every other name would be near.
    limit = 2 if len(name) >= _LONG_NAME else int(len(name) >= _SHORT_NAME)
    slips = {
        text: edit_distance(name, item_id.rpartition("/")[2], limit)
        for text, item_id in ids.items()
    }
    close = _alike(wanted, ids)
    near = sorted((n, text not in close, text) for text, n in slips.items() if n <= limit)
    named_so = [text for n, _, text in near if n == 0]
    beside = [text for _, _, text in near if ids[text].rpartition("/")[0] == category]
    best = named_so or beside or [text for _, _, text in near]
    return tuple(dict.fromkeys([*best, *close]))[:_MAX_SUGGESTIONS]


def _alike(wanted: str, ids: Mapping[str, str]) -> list[str]:
    """The references of the ids that have most letters in common with one, in their order."""
    from difflib import get_close_matches

    # No more letters can be in common than those that both have: most ids need no closer look.
    counts = Counter(wanted)
    letters, count_of = frozenset(counts), counts.__getitem__
    by_id = {
        item_id: text
        for text, item_id in ids.items()
        if 2 * sum(map(count_of, letters.intersection(item_id)))
        >= _ALIKE * (len(wanted) + len(item_id))
    }
    return [by_id[one] for one in get_close_matches(wanted, by_id, _MAX_SUGGESTIONS, _ALIKE)]


class AddedTypes:
    """The file types that extractors of some spaces add, at each call.

    Without a folder for extractors, asking is one look for it in each space.
    """

    def __init__(
        self,
        spaces: tuple[Space, ...],
        verifier: "Callable[[], Verifier]",
        warn: Callable[[str], None],
    ) -> None:
        self._spaces, self._verifier, self._warn = spaces, verifier, warn
        folders = (space.directory(Kind.TOOL) for space in spaces)
        self._folders = [f"{folder}{os.sep}{EXTRACTORS_FOLDER}" for folder in folders]
        self._declared: DeclaredTypes | None = None

    def __call__(self) -> "Mapping[str, FileType]":
        """The types by suffix."""
        if not any(map(os.path.isdir, self._folders)):
            return {}
        if self._declared is None:
            from ryeos.trust.file_types import DeclaredTypes

            self._declared = DeclaredTypes(
                self._spaces, self._verifier(), self._warn, extractor_files
            )
        return self._declared.read()


def with_added_types(
    context: "Context", verifier: "Callable[[], Verifier]", warn: Callable[[str], None]
) -> "Context":
    """The context, its spaces of user and project with the file types that they may use.

    Core items of these spaces do not count where the core is protected, and extractors are such.
    """
    spaces = context.spaces
    if spaces.protect_core:
        return context
    user, project = spaces.user, spaces.project
    own = replace(user, added=AddedTypes((user,), verifier, warn))
    if project:
        project = replace(project, added=AddedTypes((user, project), verifier, warn))
    return replace(context, spaces=replace(spaces, user=own, project=project))


def candidates(space: Space, ref: ItemRef) -> Iterator[Path]:
    """The paths that may hold an item in a space, in order of preference."""
    stem = f"{space.directory(ref.kind)}{os.sep}{ref.id}"
    for suffix in ref.kind.suffixes:
        yield Path(stem + suffix)
    if ref.kind is Kind.TOOL:
        for suffix in space.added():  # asked when none of the others is there
            yield Path(stem + suffix)


def is_regular_file(path: Path) -> bool:
    """True if a regular file is there, links followed; False where that cannot be read."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def require_inside_space(location: Location) -> None:
    """Refuse a file that a link takes out of its space. Raises IntegrityError."""
    if not is_inside(location.path, location.space.directory(location.ref.kind)):
        raise escaped(location.path, location.space)


def escaped(path: Path, space: Space) -> IntegrityError:
    """The refusal of a file that a link takes out of its space."""
    return IntegrityError(
        str(path),
        f"symlink escape: the file lies outside the {space.label} space",
        hint="put the file itself into the space instead of a link",
    )


def locations(
    space: Space, kind: Kind, below: str = "", *, modules: bool = False
) -> Iterator[Location]:
    """Every item file of a kind in a space, sorted by path; hidden ones left out.

    With ``modules`` also those like ``__init__.py``, which no reference finds by itself.
    """
    root = space.directory(kind)
    for _, found in item_folders(space, kind, below, modules=modules):
        for item_id, suffix in found:
            path = Path(f"{root}{os.sep}{item_id}{suffix}")
            yield Location(ref=ItemRef(kind, item_id), space=space, path=path)


def item_folders(
    space: Space, kind: Kind, below: str = "", *, modules: bool = False
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Every folder that may hold items of a kind, with the id and the suffix of each in it."""
    root, suffixes = str(space.directory(kind)), space.suffixes(kind)
    hidden = "." if modules else "._"
    for folder, names in folders_below(f"{root}{os.sep}{below}" if below else root):
        category = folder[len(root) + 1 :].replace(os.sep, "/")
        found: list[tuple[str, str]] = []
        for name in names:
            stem, dot, end = name.rpartition(".")
            if name[0] not in hidden and f"{dot}{end}".lower() in suffixes:
                found.append((f"{category}/{stem}" if category else stem, f"{dot}{end}"))
        yield folder, found


def passed_over(
    space: Space, kind: Kind, matches: Callable[[str], bool], *, modules: bool = False
) -> Iterator[str]:
    """The files that `locations` leaves out although their ids match, below the kind's folder.

    Of a folder that is left out with all its files there is one line, with a slash at its end.
    """
    root, suffixes = str(space.directory(kind)), space.suffixes(kind)
    hidden = "." if modules else "._"

    def is_meant(folder: str, name: str) -> bool:
        stem, dot, end = name.rpartition(".")
        path = os.path.relpath(f"{folder}{os.sep}{stem}", root).replace(os.sep, "/")
        return bool(stem) and f"{dot}{end}".lower() in suffixes and matches(path)

    for folder, folders, files in os.walk(root):
        left = [one for one in folders if one in _SKIPPED_FOLDERS or one[0] == "."]
        folders[:] = sorted({*folders} - {*left})
        for name in sorted(left):
            inside = os.walk(f"{folder}{os.sep}{name}")
            if any(is_meant(below, one) for below, _, names in inside for one in names):
                left_out = os.path.relpath(f"{folder}{os.sep}{name}", root)
                yield f"{left_out}/".replace(os.sep, "/")
        for name in sorted(files):
            if name[0] in hidden and is_meant(folder, name):
                yield os.path.relpath(f"{folder}{os.sep}{name}", root).replace(os.sep, "/")


def folders_below(root: Path | str) -> Iterator[tuple[str, list[str]]]:
    """A folder and all below it that belong to items, each with the names of its files."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(n for n in folders if n not in _SKIPPED_FOLDERS and n[0] != ".")
        yield folder, sorted(files)


def extractor_files(space: Space) -> Iterator[Path]:
    """The files among the extractors of a space, sorted in each folder; hidden ones left out."""
    for folder, names in folders_below(space.directory(Kind.TOOL) / EXTRACTORS_FOLDER):
        yield from (Path(folder, name) for name in names if name[0] not in "._")


def _where_one_may_appear(space: Space, name: str) -> Iterator[Path]:
    """The paths at which a runtime or primitive of this name would be found."""
    for below in _OWN_EXECUTOR_FOLDERS:
        folders = [folder for folder, _ in item_folders(space, Kind.TOOL, below)]
        if not folders:
            yield space.directory(Kind.TOOL) / below
        for folder in folders:
            category = Path(folder).relative_to(space.directory(Kind.TOOL)).as_posix()
            yield from candidates(space, ItemRef(Kind.TOOL, f"{category}/{name}"))


def _doubled(ref: ItemRef) -> Iterator[ItemRef]:
    """``x/y/y`` for ``x/y``, then ``x/y`` for ``x/y/y``."""
    category, _, name = ref.id.rpartition("/")
    yield ItemRef(ref.kind, f"{ref.id}/{name}")
    if category.rpartition("/")[2] == name:
        yield ItemRef(ref.kind, category)


def _of_highest_tier(found: Sequence[Location]) -> list[Location]:
    """Those that lie in the highest tier of all."""
    highest = max((rank_of(one.space.label) for one in found), default=0)
    return [one for one in found if rank_of(one.space.label) == highest]


def _highest(name: str, found: list[Resolution]) -> Resolution | None:
    """The one of the highest tier, the others hidden. Raises AmbiguousItemError for several."""
    locations = _of_highest_tier([one.location for one in found])
    top = [one for one in found if one.location in locations]
    if len(top) > 1:
        raise AmbiguousItemError(name, [str(one.location.ref) for one in top])
    others = [one.location for one in found if one not in top]
    return _with_hidden(top[0], others) if top else None


def _with_hidden(found: Resolution, others: list[Location]) -> Resolution:
    """The item that was found, with what else its name would have meant."""
    winner = found.location
    others = [one for one in others if one not in found.shadowed]
    notes = [
        f"{winner.ref}: the {winner.space.label} space has a file of this name, which wins over"
        f" {other.ref} of {other.space.label}"
        for other in others
    ]
    return replace(
        found,
        shadowed=(*found.shadowed, *others),
        warnings=(*found.warnings, *notes),
    )


def _is_found_by_stem(ref: ItemRef) -> bool:
    folders = ref.category.split("/")
    return not (ref.is_test or ref.id.startswith(_NOT_BY_STEM) or _LIBRARY_FOLDER in folders)


def _is_core(ref: ItemRef) -> bool:
    """In any case of letters: some file systems do not tell them apart."""
    return ref.id.lower().startswith(CORE_PREFIXES)


def _warnings(winner: Location, shadowed: list[Location]) -> Iterator[str]:
    paths = dropwhile(lambda path: path != winner.path, candidates(winner.space, winner.ref))
    twins = [path.name for path in islice(paths, 1, None) if is_regular_file(path)]
    if twins:
        yield f"{winner.ref}: {winner.path.name} wins over {', '.join(twins)} beside it"
    system = [location for location in shadowed if location.space.tier == SYSTEM]
    renamed = [location for location in system if location.ref != winner.ref]
    if renamed:
        yield (
            f"{winner.ref}: the {winner.space.label} space has an item of this id, which wins over"
            f" the short id of {renamed[0].ref}"
        )
    if system and winner.space.tier != SYSTEM and _is_core(winner.ref):
        yield (
            f"{winner.ref}: the {winner.space.label} space replaces a core item"
            f" of {system[0].space.label}"
        )
