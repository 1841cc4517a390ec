"""Which files of cases are meant: those of a tool, of ids that match, or of the whole project."""

from collections.abc import Iterable, Iterator, Sequence

from ryeos.app import Rye
from ryeos.errors import ItemNotFoundError
from ryeos.items import TEST_SUFFIX, ItemRef, Kind, Location, Space
from ryeos.resolver import locations
from ryeos.sign_targets import GLOB_CHARACTERS, glob_matcher
from ryeos.testing.errors import NoCasesError

_SUFFIXES = (".yaml", ".yml")


def case_files(rye: Rye, asked: Sequence[str]) -> list[Location]:
    """The files of cases that the words are for, each once; without words those of the project.

    A word is the reference of a tool or of such a file, or a pattern for ids of tools in every
    space, where the nearest file of an id counts. Raises ItemNotFoundError, NoCasesError.
    """
    if asked:
        found = [location for word in asked for location in _named(rye, word)]
    else:
        project = rye.context.spaces.project
        found = list(_files_in([project] if project else []))
    if not found:
        raise NoCasesError(", ".join(asked) or "none in this project")
    return list({location.ref: location for location in found}.values())


def _named(rye: Rye, word: str) -> Iterator[Location]:
    if GLOB_CHARACTERS & set(word):
        matches = glob_matcher(word.removeprefix(f"{Kind.TOOL}:"))
        seen: set[ItemRef] = set()
        for location in _files_in(rye.context.spaces):
            is_new = location.ref not in seen
            seen.add(location.ref)
            if is_new and matches(location.ref.id.removesuffix(TEST_SUFFIX)):
                yield location
        return
    reference = rye.reference(word)
    found = rye.resolver.find(ItemRef(Kind.TOOL, _test_id(rye, reference.id)))
    if found is None:
        raise NoCasesError(word)
    yield found.location


def _test_id(rye: Rye, item_id: str) -> str:
    """The id of the file beside a tool, whose id may be a short one."""
    if item_id.endswith(TEST_SUFFIX):
        return item_id
    tool = rye.resolver.find(ItemRef(Kind.TOOL, item_id))
    beside = f"{tool.location.ref.id if tool else item_id}{TEST_SUFFIX}"
    if tool is None and rye.resolver.find(ItemRef(Kind.TOOL, beside)) is None:
        suggested = rye.resolver.suggest(rye.reference(f"{Kind.TOOL}:{item_id}"))
        raise ItemNotFoundError(f"{Kind.TOOL}:{item_id}", rye.resolver.searched(), suggested)
    return beside


def _files_in(spaces: Iterable[Space]) -> Iterator[Location]:
    for space in spaces:
        for location in locations(space, Kind.TOOL):
            if location.suffix in _SUFFIXES and location.ref.is_test:
                yield location
