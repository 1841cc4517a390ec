"""Which files a user means to sign: by reference, by glob, by path. Looks at names only."""

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from pathlib import Path

from lillux.files import is_directory
from lillux.values import dataclass
from ryeos.collecting import Exclusions
from ryeos.errors import InvalidRefError, ItemNotFoundError
from ryeos.items import (
    AI_DIRECTORY,
    ItemRef,
    Kind,
    Reference,
    Space,
    Spaces,
    kind_of_directory,
)
from ryeos.resolver import candidates, is_regular_file, locations
from ryeos.verify import Target

GLOB_CHARACTERS = frozenset("*?[")
NO_EXCLUSIONS = Exclusions()
SKIPPED_FILES = frozenset({"package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SignTarget:
    """A file to sign. ``ref`` is None for a data file that is no item."""

    path: Path
    kind: Kind
    space: Space
    ref: ItemRef | None

    @property
    def label(self) -> str:
        """How reports name it."""
        return str(self.ref) if self.ref else str(self.path)

    @property
    def verify_target(self) -> Target:
        """The same file for the verifier."""
        return Target(path=self.path, kind=self.kind, space=self.space)


def targets_of_reference(reference: Reference, space: Space) -> tuple[SignTarget, ...]:
    """The file that a reference names in one space. Raises ItemNotFoundError, InvalidRefError."""
    found = []
    for ref in reference.refs(tuple(Kind)):
        for path in candidates(space, ref):
            if is_regular_file(path):
                found.append(SignTarget(path=path, kind=ref.kind, space=space, ref=ref))
                break
    if len({target.kind for target in found}) > 1:
        raise InvalidRefError(
            str(reference), f"several kinds have it: {', '.join(t.label for t in found)}"
        )
    if not found:
        _check_not_a_folder(reference, space)
        raise ItemNotFoundError(str(reference), [space.label])
    return tuple(found)


def targets_of_glob(
    kind: Kind | None, pattern: str, space: Space, excluded: Exclusions = NO_EXCLUSIONS
) -> tuple[SignTarget, ...]:
    """Every item of a space whose id matches, by id. Raises ItemNotFoundError for none.

    Without a slash the pattern is for the last segment at any depth; with one it starts at the
    kind's folder, ``*`` stays within a segment and ``**`` stands for any number of them.
    """
    matches = glob_matcher(pattern)
    kinds = (kind,) if kind else (Kind.TOOL, Kind.DIRECTIVE, Kind.KNOWLEDGE)
    found = [
        SignTarget(path=location.path, kind=one, space=space, ref=location.ref)
        for one in kinds
        for location in locations(space, one)
        if location.path.name not in SKIPPED_FILES
        and matches(location.ref.id)
        and not excluded.leave_out(location.path, space, one)
    ]
    if not found:
        raise ItemNotFoundError(f"{kind.value}:{pattern}" if kind else pattern, [space.label])
    return tuple(sorted(found, key=lambda target: str(target.ref)))


def target_of_path(path: Path, spaces: Spaces) -> SignTarget:
    """The file at a path, which must lie in a space. Raises InvalidRefError otherwise."""
    for absolute in _spellings(path):
        for space in spaces:
            target = _target_below(absolute, space)
            if target:
                return target
    raise InvalidRefError(
        str(path),
        f"expected a file below {AI_DIRECTORY}/ of the project or user space"
        f" (tools, directives, knowledge, config), found one outside",
    )


def _spellings(path: Path) -> tuple[Path, ...]:
    """As it is typed, and with every link followed; one with ``..`` only as the system reads it."""
    absolute = path.absolute()
    try:
        real = absolute.resolve()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links that lead in a circle
        return ()
    return (real,) if ".." in absolute.parts else (absolute, real)


def _target_below(path: Path, space: Space) -> SignTarget | None:
    for root in (space.ai, space.ai.resolve()):
        if path.is_relative_to(root):
            folder, _, rest = path.relative_to(root).as_posix().partition("/")
            kind = kind_of_directory(folder)
            if kind and rest:
                is_item = path.suffix.lower() in kind.suffixes
                ref = ItemRef(kind, Path(rest).with_suffix("").as_posix()) if is_item else None
                return SignTarget(path=path, kind=kind, space=space, ref=ref)
    return None


def _check_not_a_folder(reference: Reference, space: Space) -> None:
    for ref in reference.refs(tuple(Kind)):
        if is_directory(space.directory(ref.kind) / ref.id):
            raise InvalidRefError(
                str(reference), f"names a folder; for all items in it: {reference}/**"
            )


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether an id is one that a pattern is for, see `targets_of_glob`."""
    segments = pattern.split("/") if "/" in pattern else ["**", pattern]
    if segments[-1] == "**":
        segments.append("*")  # what stands before is a folder, and not meant itself
    rules = [None if segment == "**" else re.compile(translate(segment)) for segment in segments]
    return lambda item_id: _matches(rules, item_id.split("/"))


def _matches(rules: Sequence[re.Pattern[str] | None], segments: Sequence[str]) -> bool:
    """Whether the rules, None for any number of segments, use up all segments.

    Goes over the rules once, with every number of segments that may be used up by then.
    """
    used = {0}
    for rule in rules:
        if rule is None:
            used = set(range(min(used), len(segments) + 1)) if used else used
        else:
            used = {n + 1 for n in used if n < len(segments) and rule.match(segments[n])}
    return len(segments) in used
