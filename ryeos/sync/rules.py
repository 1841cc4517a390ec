"""Rules of the files that belong to a space's manifest: ``.ai/config/cas/manifest.yaml``.

Format and meaning: ``docs/store.md``, Which files travel. The same files have to come out on the
machine that sends a project and on the node that ran it: else what one leaves out, the other takes
for removed. So only the text of the files counts, and not whose key this machine trusts: ADR 0020.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from logging import getLogger
from pathlib import Path
from typing import Any

from lillux.contained_paths import safe_join
from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.ignored import MAX_BYTES, NAME, IgnoredPaths
from lillux.patterns import pattern as late_pattern
from lillux.regex_search import SearchPattern, TextTooLongError, compile_pattern, search, tries
from lillux.regex_syntax import PatternError
from lillux.values import dataclass, replace
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.refs import AI_DIRECTORY
from ryeos.items.specs import type_name

PLACE = ".ai/config/cas/manifest.yaml"
_MAX_BYTES = 256 * 1024
_MAX_ENTRIES, _MAX_IGNORE_FILES = 1000, 500
_CACHED_RULES = 16
_log = getLogger(__name__)

# Never taken away by a configuration, only added to.
FLOOR: Mapping[str, Mapping[str, Any]] = {
    "manifest": {
        "skip_dirs": ["state", "node_modules", ".venv", "__pycache__", ".git"],
        "hard_exclude": {
            "names": ["private_key.pem", "box_key.pem"],
            "patterns": [r"^\.env$", r"^\.env\.", r".*\.secrets?$"],
        },
    },
    "sync": {
        "include": [".ai/"],
        "exclude": [".ai/state/", "node_modules/", ".venv/", "__pycache__/", ".git/"],
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRules:
    """The rules of all spaces together.

    skip_dirs   names of folders right below ``.ai`` that are not looked into
    names       names of files that never travel, whichever folder they are in
    patterns    of `re`, anchored at the start of such a name
    include     which files outside ``.ai`` travel
    exclude     which of them do not, after all
    ignored     folder and text of each ``.gitignore`` that counts: none unless ``gitignore`` is on

    ``include`` and ``exclude`` hold prefixes of the relative path, which end in ``/``, and globs
    of the whole path, whose ``*`` crosses ``/``.
    """

    skip_dirs: tuple[str, ...]
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    ignored: tuple[tuple[str, str], ...] = ()

    @property
    def takes_files(self) -> bool:
        """True if anything outside ``.ai`` travels."""
        return bool(self._file_includes())

    def file_rules(self) -> tuple["PathPatterns", "KeptOut"]:
        """Patterns that files outside ``.ai`` must match, and must not."""
        return PathPatterns(self._file_includes()), KeptOut((".ai/", *self.exclude), self.ignored)

    def _file_includes(self) -> tuple[str, ...]:
        return tuple(entry for entry in self.include if not entry.startswith(".ai/"))


class NameRules:
    """Choice of the files that may travel, by name; `ManifestRules` made ready to be asked."""

    def __init__(self, rules: ManifestRules) -> None:
        self._names = frozenset(rules.names)
        self._texts = rules.patterns
        self._patterns: NamePatterns | None = None  # read when the first name is asked about

    def forbids(self, name: str) -> bool:
        """True if a file of this name, the last segment, never travels."""
        if self._patterns is None:
            self._patterns = _name_patterns(self._texts)
        return name in self._names or self._patterns.match(name)


class KeptOut:
    """Files outside ``.ai`` that stay here: by the rules, and by ``.gitignore`` files."""

    def __init__(self, exclude: Iterable[str], ignored: Iterable[tuple[str, str]]) -> None:
        self._patterns, self._ignored = PathPatterns(exclude), IgnoredPaths(ignored)

    def match(self, path: str) -> bool:
        """True if a relative path stays here. Of a folder the path ends in ``/``."""
        return self._patterns.match(path) or self._ignored.match(path)


class PathPatterns:
    """Prefixes and globs as one question."""

    def __init__(self, entries: Iterable[str]) -> None:
        known = tuple(entries)
        self._prefixes = tuple(entry for entry in known if entry.endswith("/"))
        globs = [translate(entry) for entry in known if not entry.endswith("/")]
        self._globs = re.compile("|".join(globs)) if globs else None

    def match(self, path: str) -> bool:
        """True if one matches a relative path. Of a folder the path ends in ``/``."""
        if path.startswith(self._prefixes):
            return True
        return self._globs is not None and self._globs.match(path) is not None


def rules_of(configs: Iterable[tuple[str, Mapping[str, Any]]]) -> ManifestRules:
    """The rules of some files, each with its name, on top of the floor. Lists are joined.

    Raises SpecError that names the file and the key.
    """
    lists: dict[str, dict[str, None]] = {key: {} for key in _KEYS}
    for where, values in (("the floor", FLOOR), *configs):
        for key, known in lists.items():
            known.update(dict.fromkeys(_texts(values, key, where)))
    skip_dirs, names, patterns, include, exclude = (tuple(lists[key]) for key in _KEYS)
    return ManifestRules(
        skip_dirs=skip_dirs, names=names, patterns=patterns, include=include, exclude=exclude
    )


_PATTERNS = "manifest.hard_exclude.patterns"
_OF_THE_FLOOR = frozenset(FLOOR["manifest"]["hard_exclude"]["patterns"])
_KEYS = (
    "manifest.skip_dirs",
    "manifest.hard_exclude.names",
    _PATTERNS,
    "sync.include",
    "sync.exclude",
)


def read_rules(
    *, bundles: Sequence[Path], user: Path | None, project: Path, is_strict: bool = False
) -> ManifestRules:
    """The rules for a project, from the folders that contain the ``.ai`` of each space.

    A file that cannot be read, or is no YAML, is passed over with a warning; the floor holds
    anyhow. With ``is_strict`` it is an error: what it lets travel would be taken for removed. One
    with a wrong value always is: what it was to keep at home would travel. Raises SpecError,
    RyeError `CONFIG_ERROR`.
    """
    spaces = [*bundles, *([user] if user else []), project]
    read = [(f"{base / PLACE}", _read(base, is_strict=is_strict)) for base in spaces]
    said = [(where, values) for where, values in read if values is not None]
    rules = rules_of(said)
    switches = [_is_on(values, "sync.gitignore", where) for where, values in said]
    if not any(switches):
        return rules
    return replace(rules, ignored=tuple(_ignore_files(project, rules)))


def with_repository(rules: ManifestRules, project: Path) -> ManifestRules:
    """The rules with all files of a project but those that its ``.gitignore`` files name."""
    wide = replace(rules, include=(*rules.include, "*"))
    return replace(wide, ignored=tuple(_ignore_files(project, wide)))


def _is_on(values: Mapping[str, Any], key: str, where: str) -> bool:
    """True if a switch is on; each file may put it on. Raises SpecError."""
    block, _, name = key.partition(".")
    section = values.get(block)
    value = section.get(name) if isinstance(section, Mapping) else None
    if value is not None and not isinstance(value, bool):
        raise SpecError(f"{where}: {key}", f"expected true or false, got {type_name(value)}")
    return value is True


def _ignore_files(project: Path, rules: ManifestRules) -> Iterator[tuple[str, str]]:
    """Folder and text of each ``.gitignore`` in folders that are not left out themselves.

    The outer ones come first: they decide which folders are looked into. Raises SpecError for
    more than can be read: what they keep at home would travel.
    """
    found: list[tuple[str, str]] = []
    kept_out = rules.file_rules()[1]
    for place, folders, names in os.walk(project):
        folder = os.path.relpath(place, project).replace(os.sep, "/")
        folder = "" if folder == "." else folder
        if NAME in names:
            try:
                text = read_bytes(Path(place, NAME), MAX_BYTES, within=project)
            except (LilluxError, OSError) as error:
                raise SpecError(f"{folder}/{NAME}".lstrip("/"), str(error)) from error
            found.append((folder, text.decode("utf-8", "replace")))
            if len(found) > _MAX_IGNORE_FILES:
                raise SpecError("sync.gitignore", f"expected at most {_MAX_IGNORE_FILES} files")
            kept_out = replace(rules, ignored=tuple(found)).file_rules()[1]
        above = f"{folder}/" if folder else ""
        folders[:] = sorted(one for one in folders if not kept_out.match(f"{above}{one}/"))
    yield from found


def _read(base: Path, *, is_strict: bool) -> Mapping[str, Any] | None:
    try:
        path = safe_join(base / AI_DIRECTORY, PLACE.removeprefix(f"{AI_DIRECTORY}/"))
        text = read_bytes(path, _MAX_BYTES).decode("utf-8")
        if all(line.lstrip()[:1] in {"", "#"} for line in text.splitlines()):
            return None
        return _parse_rules(path.suffix, text, str(path))
    except FileNotFoundError:
        return None
    except (LilluxError, UnicodeDecodeError) as error:
        if is_strict:
            place, problem = str(base / PLACE), str(error)
            raise RyeError(
                problem if place in problem else f"{place}: {problem}",
                code="CONFIG_ERROR",
                hint="correct it: it says which files travel, so nothing was sent or compared",
                path=place,
            ) from error
        _log.warning("%s is not used: %s", base / PLACE, error)
        return None


@lru_cache(maxsize=_CACHED_RULES)
def _parse_rules(suffix: str, text: str, where: str) -> Mapping[str, Any]:
    """The values of a file: a push asks for the rules of project and user space, which share some.

    Raises as `parse_header`.
    """
    from ryeos.items.headers import parse_header

    return parse_header(suffix, text, where)


def _texts(values: Mapping[str, Any], key: str, where: str) -> list[str]:
    """The list of strings at a dotted key; nothing where a key on the way is not there."""
    found: Any = values
    passed = ""
    for step in key.split("."):
        if not isinstance(found, Mapping):
            raise SpecError(f"{where}: {passed}", f"expected a mapping, got {type_name(found)}")
        passed = f"{passed}.{step}" if passed else step
        found = found.get(step)
        if found is None:
            return []
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise SpecError(f"{where}: {key}", "expected a list of strings")
    if len(found) > _MAX_ENTRIES:
        raise SpecError(f"{where}: {key}", f"expected at most {_MAX_ENTRIES}, got {len(found)}")
    if key == _PATTERNS:
        _validate_patterns(found, where)
    return found


def _validate_patterns(patterns: Sequence[str], where: str) -> None:
    for index, pattern in enumerate(patterns):
        if pattern in _OF_THE_FLOOR:
            continue
        try:
            NamePatterns([pattern])
        except PatternError as error:
            raise SpecError(
                f"{where}: {_PATTERNS}[{index}]", f"expected a pattern: {error}"
            ) from error


# Patterns that names of files are held against: `re` where it ends soon, else in one reading.
#
# A configuration may come with a project, or from another user of a node: no pattern of it may keep
# a machine busy.

_LONGEST_NAME = 255
_FEW_TRIES = 300_000
_FLAGS = late_pattern(r"\(\?[a-zA-Z]+\)")


class NamePatterns:
    """Patterns, each anchored at the start of a name. Raises PatternError."""

    def __init__(self, patterns: Iterable[str]) -> None:
        quick: list[str] = []
        self._slow: list[SearchPattern] = []
        room = _FEW_TRIES
        for pattern in patterns:
            compiled = _anchored(pattern)
            cost = tries(compiled, _LONGEST_NAME)
            if compiled.simple and cost <= room and not _FLAGS.match(pattern):
                room -= cost
                quick.append(f"(?:{pattern})")
            else:
                self._slow.append(compiled)
        self._quick = re.compile("|".join(quick)) if quick else None

    def match(self, name: str) -> bool:
        """True if one of them matches. A name too long to tell does, to be left out."""
        if self._quick and self._quick.match(name):
            return True
        if not self._slow:
            return False
        try:
            return any(search(pattern, name) for pattern in self._slow)
        except TextTooLongError:
            return True


@lru_cache(maxsize=_CACHED_RULES)
def _name_patterns(patterns: tuple[str, ...]) -> NamePatterns:
    """The rules of a set, cached: few sets are used, and often."""
    return NamePatterns(patterns)


def _anchored(pattern: str) -> SearchPattern:
    flags = _FLAGS.match(pattern)
    start = flags.end() if flags else 0
    compile_pattern(pattern)  # by itself: a bracket too many must not pair up with ours
    return compile_pattern(f"{pattern[:start]}\\A(?:{pattern[start:]})")
