"""File types that a project or a user adds to those that Rye knows, by signed extractors.

File types that a project or a user adds to those that Rye knows, by signed extractors.

An extractor is a tool of type ``extractor``, ``rye/core/extractors/tool/NAME_extractor.yaml``
among the tools of a space. It counts while a key that counts for that space has signed it, for
tools of this space and of those above. What it may say is a choice among what is here: no code of
it runs, and none of its texts becomes a pattern. What Rye knows already it cannot change. Page:
``docs/items.md``.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from lillux.contained_paths import is_inside
from lillux.errors import LilluxError
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.errors import SpecError
from ryeos.items.headers import COMMENT_PARSERS, NAMED_PARSERS, parse_header
from ryeos.items.refs import EXTRACTORS_FOLDER, FieldRule, FileType, Kind, Space
from ryeos.items.specs import EXTRACTOR_TYPE, type_name
from ryeos.items.unknown_keys import FOREIGN
from ryeos.trust.verify import Target, VerifiedItem, Verifier

MAX_EXTRACTORS = 32
MAX_SUFFIXES = 16
FILE_NAME = "_extractor.yaml"

# Comments that a signature line can stand in: the mark, and the end where there must be one. Not
# what begins a comment of many lines and does not end it: the line would hide the code below.
LINE_COMMENTS = ("#", "##", "//", "--", ";", ";;", "%", "%%", "!", "'", "REM")
BLOCK_COMMENTS: Mapping[str, str] = {
    "/*": "*/",
    "(*": "*)",
    "<!--": "-->",
    "{-": "-}",
    "--[[": "]]",
    "<#": "#>",
    "#|": "|#",
}
_SUFFIX = pattern(r"\.[a-z0-9][a-z0-9_+-]{0,15}")
# Suffixes that mean something else below ``.ai``, or to programs that look at every file.
_RESERVED = frozenset(
    {".sig", ".manifest", ".pem", ".key", ".lock", ".tmp", ".txt", ".bak", ".pyc"}
)
_KNOWN = frozenset(suffix for kind in Kind for suffix in kind.suffixes)
_FORMATS: Mapping[str, str] = {"semver": "semver", "snake_case": "snake_case"}
_SAID = frozenset({"name", "version", "tool_type", "executor_id", "category", "description"})
_KEYS = frozenset(
    {"extensions", "parser", "parsers", "comment", "signature_format", "signature_formats"}
    | {"extraction_rules", "search_fields", "validation_schema"}
)
_FORM_KEYS = frozenset({"prefix", "suffix", "after_shebang"})
_FIELD_KEYS = frozenset({"type", "required", "format", "match_filename", "match_path"})


def read_extractor(relative: str, header: Mapping[str, Any]) -> dict[str, FileType]:
    """The file types that an extractor adds, by suffix; ``relative`` is its path below ``.ai``.

    Raises SpecError for whatever it may not say.
    """
    folder = f"{Kind.TOOL.directory}/{EXTRACTORS_FOLDER}/{Kind.TOOL.value}"
    if os.path.dirname(relative) != folder or not relative.endswith(FILE_NAME):  # noqa: PTH120
        raise SpecError("tool_type", f"expected an extractor at {folder}/NAME{FILE_NAME}")
    if header.get("tool_type") != EXTRACTOR_TYPE or header.get("executor_id") is not None:
        raise SpecError("tool_type", f"expected {EXTRACTOR_TYPE} with the executor_id null")
    _only(header, _SAID | _KEYS | FOREIGN, "extractor")
    _mapping(header, "search_fields", "extractor")  # weights are those of the kind
    suffixes = _suffixes(header.get("extensions"))
    fields, rules = _taken_fields(header), read_rules(header)
    return {suffix: _file_type(suffix, header, fields, rules) for suffix in suffixes}


def read_rules(header: Mapping[str, Any]) -> tuple[FieldRule, ...]:
    """The rules of a ``validation_schema``. Raises SpecError."""
    schema = _mapping(header, "validation_schema", "extractor")
    _only(schema, {"fields"}, "validation_schema")
    fields = _mapping(schema, "fields", "validation_schema")
    return tuple(_rule(name, fields) for name in fields)


def _rule(name: str, fields: Mapping[str, Any]) -> FieldRule:
    where = f"validation_schema.fields.{name}"
    said = _mapping(fields, name, "validation_schema.fields")
    _only(said, _FIELD_KEYS, where)
    if said.get("type", "string") != "string":
        raise SpecError(f"{where}.type", f"expected string, got {said['type']!r}")
    matches = [word for word in ("match_filename", "match_path") if _truth(said, word, where)]
    checks = ["text", *matches]
    if "format" in said:
        checks.append(_one_of(said, "format", _FORMATS, where))
    is_required = _truth(said, "required", where) if "required" in said else False
    return FieldRule(name, required=is_required, checks=tuple(checks))


def _suffixes(value: object) -> list[str]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_SUFFIXES:
        raise SpecError("extensions", f"expected a list of 1 to {MAX_SUFFIXES} suffixes")
    for suffix in value:
        if not isinstance(suffix, str) or not _SUFFIX.fullmatch(suffix):
            problem = f"expected a suffix like .lua, in lower case, got {suffix!r:.80}"
            raise SpecError("extensions", problem)
        if suffix in _KNOWN | _RESERVED:
            hint = "an extractor adds types of files, it cannot change those that Rye knows"
            raise SpecError("extensions", f"{suffix} is taken", hint=hint)
    return value


def _file_type(
    suffix: str, header: Mapping[str, Any], fields: Mapping[str, str], rules: tuple[FieldRule, ...]
) -> FileType:
    own_form = _mapping(header, "signature_formats", "extractor").get(suffix)
    where = f"signature_formats.{suffix}" if own_form else "signature_format"
    form = own_form or header.get("signature_format")
    if not isinstance(form, dict):
        raise SpecError(where, f"expected a mapping with a prefix, got {type_name(form)}")
    _only(form, _FORM_KEYS, where)
    prefix, end = form.get("prefix"), form.get("suffix") or ""
    if not isinstance(prefix, str) or (prefix, end) not in _comments():
        known = ", ".join((*LINE_COMMENTS, *(f"{a} ... {b}" for a, b in BLOCK_COMMENTS.items())))
        raise SpecError(f"{where}.prefix", f"expected a comment ({known}), got {prefix!r:.80}")
    parser = _mapping(header, "parsers", "extractor").get(suffix) or header.get("parser")
    names = (*NAMED_PARSERS, *COMMENT_PARSERS)
    if parser not in names:
        raise SpecError("parser", f"expected one of {', '.join(names)}, got {parser!r:.80}")
    comment = header.get("comment", "" if end else prefix)
    if parser in COMMENT_PARSERS and comment not in LINE_COMMENTS:
        known = ", ".join(LINE_COMMENTS)
        raise SpecError("comment", f"expected what begins a line ({known}), got {comment!r:.80}")
    return FileType(
        suffix=suffix,
        prefix=prefix,
        end=end,
        after_shebang=_truth(form, "after_shebang", where),
        parser=parser,
        comment=comment,
        fields=fields,
        rules=rules,
    )


def _comments() -> set[tuple[str, str]]:
    return {(mark, "") for mark in LINE_COMMENTS} | set(BLOCK_COMMENTS.items())


def _taken_fields(header: Mapping[str, Any]) -> dict[str, str]:
    """Field -> key, of the rules that take a field from another key; others change nothing."""
    rules = _mapping(header, "extraction_rules", "extractor")
    taken = {}
    for name in rules:
        where = f"extraction_rules.{name}"
        rule = _mapping(rules, name, "extraction_rules")
        _only(rule, {"type", "key", "value", "default"}, where)
        kind = _one_of(rule, "type", {"path": "path", "filename": "", "constant": ""}, where)
        if kind and not isinstance(rule.get("key"), str):
            raise SpecError(f"{where}.key", f"expected a string, got {type_name(rule.get('key'))}")
        if kind:
            taken[name] = rule["key"]
    return taken


def _only(said: Mapping[str, Any], known: frozenset[str] | set[str], where: str) -> None:
    for key in said:
        if key not in known:
            raise SpecError(f"{where}.{key}"[:120], "unknown key")


def _mapping(said: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = said.get(key)
    if value is not None and not isinstance(value, dict):
        raise SpecError(f"{where}.{key}", f"expected a mapping, got {type_name(value)}")
    return value or {}


def _truth(said: Mapping[str, Any], key: str, where: str) -> bool:
    value = said.get(key, False)
    if not isinstance(value, bool):
        raise SpecError(f"{where}.{key}", f"expected true or false, got {type_name(value)}")
    return value


def _one_of(said: Mapping[str, Any], key: str, known: Mapping[str, str], where: str) -> str:
    value = said.get(key)
    if not isinstance(value, str) or value not in known:
        raise SpecError(f"{where}.{key}", f"expected one of {', '.join(known)}, got {value!r:.80}")
    return known[value]


@dataclass(frozen=True, slots=True)
class _ReadTypes:
    """Types read of extractors whose files were in a state; whether all of them count."""

    state: object
    types: Mapping[str, FileType]
    items: tuple[VerifiedItem, ...]
    is_whole: bool


class DeclaredTypes:
    """Reads the extractors of spaces, the last of which goes first where two claim a suffix.

    What was read is kept until a file or the word of a key changes; safe in threads. ``warn`` gets
    a line, once, for each extractor that does not count.
    """

    def __init__(
        self,
        spaces: Sequence[Space],
        verifier: Verifier,
        warn: Callable[[str], None],
        files: Callable[[Space], Iterator[Path]],
    ) -> None:
        self._spaces, self._verifier, self._warn, self._files = spaces, verifier, warn, files
        self._reported: set[str] = set()
        self._known: _ReadTypes | None = None

    def read(self) -> Mapping[str, FileType]:
        """The types by suffix, as the files are now."""
        files = [(space, list(self._with_state(space))) for space in self._spaces]
        state = [stated for _, found in files for stated in found]
        known = self._known
        is_known = known and known.is_whole and known.state == state
        if known and is_known and all(map(self._verifier.key_counts, known.items)):
            return known.types
        items: list[VerifiedItem] = []
        types: dict[str, FileType] = {}
        refused = 0
        for space, found in files:
            own, problems = self._read_space(space, [path for path, _ in found], items)
            types |= own
            refused += len(problems)
            for problem in problems:
                self._tell(problem)
        self._known = _ReadTypes(state, types, tuple(items), is_whole=not refused)
        return types

    def _read_space(
        self, space: Space, paths: Sequence[Path], items: list[VerifiedItem]
    ) -> tuple[dict[str, FileType], list[str]]:
        """The types of one space, and what is wrong with the rest of its extractors."""
        claims: dict[str, list[tuple[Path, FileType]]] = {}
        problems = []
        for path in paths[:MAX_EXTRACTORS]:
            try:
                item = self._verify_extractor(space, path)
                header = parse_header(path.suffix, item.text, str(path))
                types = read_extractor(path.relative_to(space.ai).as_posix(), header)
            except LilluxError as error:
                problems.append(f"the extractor {path} is not used: {error}")
                continue
            items.append(item)
            for suffix, added in types.items():
                claims.setdefault(suffix, []).append((path, added))
        if len(paths) > MAX_EXTRACTORS:
            problems.append(f"{space.ai}: expected at most {MAX_EXTRACTORS} extractors, found more")
        for suffix, claimed in claims.items():
            if len(claimed) > 1:
                names = " and ".join(path.name for path, _ in claimed)
                problems.append(f"{suffix} is not used in {space.base}: {names} claim it")
        return {suffix: one[0][1] for suffix, one in claims.items() if len(one) == 1}, problems

    def _verify_extractor(self, space: Space, path: Path) -> VerifiedItem:
        if not is_inside(path, space.directory(Kind.TOOL)):
            raise SpecError("path", f"expected a file in the {space.label} space, found a link")
        item = self._verifier.verify(Target(path=path, kind=Kind.TOOL, space=space))
        if not item.verified:
            raise SpecError("signature", "expected one that holds, in dev mode too")
        return item

    def _with_state(self, space: Space) -> Iterator[tuple[Path, object]]:
        """The extractors of a space, one too many at most, each with what a change would change."""
        named = (path for path in self._files(space) if path.name.endswith(FILE_NAME))
        for path in islice(named, MAX_EXTRACTORS + 1):
            try:
                found = path.stat()
            except OSError:
                continue
            yield path, (found.st_mtime_ns, found.st_size, found.st_ino)

    def _tell(self, problem: str) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            self._warn(problem)
