"""``rye __complete``: the words that completion scripts offer. No user calls it.

Only names of files and folders are looked at, and for parameters the item that is to run, which is
verified: nothing is asked over the network. Those names are foreign, and bash puts what it
offers on the command line as it is: a name with a character that means something to any shell, or
cannot be seen, is never offered. Page: ``docs/cli.md``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace

from ryeos.app.command_line import (
    DASHES,
    FLAG,
    VALUE,
    walk,
)
from ryeos.app.commands import (
    ALIASES,
    COMPLETE,
    GLOBAL_FLAGS,
    PROJECT_FLAGS,
    TABLE,
    USER_SPACE_FLAGS,
)
from ryeos.app.output import Output
from ryeos.cli.session import Session
from ryeos.items.refs import EXECUTABLE_KINDS, MAX_REF_BYTES, SYSTEM, TEST_SUFFIX, Kind, Space

TYPE_CHECKING = False  # importing `typing` would slow completion
if TYPE_CHECKING:
    from ryeos.trust.bundles import BundleHome

MAX_FILES, MAX_FOLDERS = 20_000, 4_000
"""So many of a folder are looked at: a key press must not wait for a huge one."""

_SAFE = re.compile(r"\w[\w./+-]*")
_ITEM = "item:"


def print_candidates(arguments: Sequence[str], bundle: BundleHome | None) -> int:
    """Print what begins with TYPED, a name a line; the exit status.

    The other words of the command line say which project and user space are meant.
    """
    from lillux.errors import LilluxError

    if bundle is None:
        from ryeos.trust.bundles import own_bundle

        bundle = own_bundle()
    place = arguments.index(COMPLETE)
    what, typed = (*arguments[place + 1 : place + 3], "", "")[:2]
    words = [*arguments[:place], *arguments[place + 3 :]]
    session = Session(
        SimpleNamespace(
            project=_value(words, PROJECT_FLAGS),
            user_space=_value(words, USER_SPACE_FLAGS),
            words=words,
        ),
        Output(as_json=False, environ=os.environ),
        bundle,
    )
    try:
        found = sorted(set(names(session, what, typed)))
    except LilluxError as error:
        from ryeos.app.output import report

        # Never as JSON, whatever the line has: standard output would be offered.
        return report(error, as_json=False, environ=os.environ)
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(os.fsencode(name) + b"\n" for name in found))
    sys.stdout.flush()
    return 0


def names(session: Session, what: str, typed: str) -> Iterator[str]:
    """The names of a sort, see `SORTS`, that begin with what was typed."""
    if what not in SORTS:
        from ryeos.items.errors import UsageError

        raise UsageError(
            f"{COMPLETE}: expected one of {', '.join(SORTS)}, found {what[:60]!r}",
            hint="this is for the scripts of: rye completion SHELL",
        )
    for name in SORTS[what](session, typed):
        if name.startswith(typed):
            yield name


def _value(words: Sequence[str], flags: tuple[str, ...]) -> str | None:
    """What follows the last of these flags."""
    value = None
    for place, kind, word in walk(words, GLOBAL_FLAGS):
        flag, is_joined, joined = word.partition("=")
        if kind is FLAG and flag in flags:
            value = joined if is_joined else "".join(words[place + 1 : place + 2])
    return value or None


def _refs(session: Session, typed: str) -> Iterator[str]:
    """Items of every space."""
    return _items(session.context.spaces, EXECUTABLE_KINDS, typed)


def _tools(session: Session, typed: str) -> Iterator[str]:
    return _items(session.context.spaces, (Kind.TOOL,), typed)


def _signable_items(session: Session, typed: str) -> Iterator[str]:
    """Items that may be signed: those of the project and the user."""
    spaces = [space for space in session.context.spaces if space.tier != SYSTEM]
    return _items(spaces, tuple(Kind), typed)


def _items(spaces: Iterable[Space], kinds: tuple[Kind, ...], typed: str) -> Iterator[str]:
    """References; ids without a kind too, once it is clear that such a one is typed."""
    spaces = list(spaces)
    word, colon, _ = typed.partition(":")
    for kind in kinds:
        if kind.value == word if colon else kind.value.startswith(word):
            yield from (f"{kind.value}:{item_id}" for item_id in _ids(spaces, kind))
        if typed and not colon:
            yield from _ids(spaces, kind)


def _ids(spaces: Iterable[Space], kind: Kind) -> Iterator[str]:
    for space in spaces:
        for above, file in _files(str(space.directory(kind))):
            stem, suffix = os.path.splitext(file)  # noqa: PTH122 - a Path for each takes long
            is_item = suffix.lower() in kind.suffixes and file[0] not in "._"
            # Cases are signed like tools, but are not run by themselves.
            is_hidden = space.tier == SYSTEM and stem.endswith(TEST_SUFFIX)
            if is_item and not is_hidden and _is_safe(above + stem):
                yield above + stem


class _TypedWords:
    """The words of a run's command line before the word that is typed."""

    def __init__(self, words: Sequence[str], own: Mapping[str, bool]) -> None:
        self.plain: list[str] = []
        self.given: set[str] = set()
        self.flag = ""
        """A flag of the item right before the word, whose value may be typed."""
        self.is_behind_dashes = False
        for _, kind, word in walk(words, own):
            self.flag = ""
            if kind is DASHES:
                self.is_behind_dashes = True
            elif kind is VALUE or (kind is FLAG and word in own):
                continue
            elif word.startswith("--"):
                name, equals, _ = word.removeprefix("--").partition("=")
                self.flag = "" if equals else name
                self.given |= {name, name.replace("-", "_")}
            elif not word.startswith("-"):
                self.plain.append(word)
                self.given.add(word.partition("=")[0].removesuffix(":"))


def _parameters(session: Session, typed: str) -> Iterator[str]:
    """Parameters of the item on the command line that were not given yet.

    ``name=``, or ``--name`` once that is begun; the values that one may have, where its schema
    lists them.
    """
    from contextlib import suppress

    from lillux.errors import LilluxError
    from ryeos.cli.run import colliding_parameter, own_flags

    words = session.arguments.words
    own = own_flags()
    line = _TypedWords(words[:-1] if words and words[-1] == typed else words, own)
    entry = TABLE.find(line.plain[:1])
    if entry is None or len(line.plain) < 2 or not entry.spec().takes_item_flags:  # noqa: PLR2004 - run REF
        return
    with suppress(LilluxError):
        schema = session.rye.schema_of(session.rye.reference(line.plain[1]))
        found = schema.get("properties")
        rules: Mapping[str, object] = found if isinstance(found, Mapping) else {}
        before = next((n for n in (line.flag, line.flag.replace("-", "_")) if n in rules), "")
        if before and not _is_boolean(rules[before]):
            yield from filter(None, _offered(session, before, rules[before], typed))
            return
        ours = {} if line.is_behind_dashes else own
        refused = (
            {colliding_parameter(flag, schema) for flag in ours} if typed.startswith("-") else set()
        )
        for name, rule in rules.items():
            if name in line.given or name in refused or not _is_safe(name):
                continue
            flag = "--" if typed.startswith("-") else ""
            if flag and ("=" not in typed or _is_boolean(rule)):
                yield f"--{name}"
                continue
            start = f"{flag}{name}="
            value = typed.removeprefix(start) if typed.startswith(start) else None
            yield from (f"{start}{one}" for one in _offered(session, name, rule, value))


def _offered(session: Session, name: str, rule: object, typed: str | None) -> Iterable[str]:
    """What a parameter may be; files, once the value of one that is a path is being typed."""
    base = None if typed is None else _base_of_paths(session, name, rule)
    if typed is None or base is None:
        return _values(rule)
    return sorted(_paths(base, typed))


def _base_of_paths(session: Session, name: str, rule: object) -> str | None:
    """The folder that a path of this parameter starts at; None where it is no path."""
    rule = rule if isinstance(rule, Mapping) else {}
    if rule.get("format") == "path":
        return os.getcwd()  # noqa: PTH109 - as `in_shell` of a run
    is_text = rule.get("type", "string") == "string" and "enum" not in rule
    if is_text and (name in {"path", "file", "folder", "directory"} or name.endswith("_path")):
        project = session.context.project_path
        return str(project) if project else None
    return None


def _paths(base: str, typed: str) -> Iterator[str]:
    """Files and folders that begin as a path that is typed; a folder ends with a slash."""
    above, _, start = typed.rpartition("/")
    above = f"{above}/" if "/" in typed else ""
    folder = os.path.join(base, os.path.expanduser(above))  # noqa: PTH111, PTH118 - as they are typed
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_FILES:
                    return
                is_hidden = entry.name.startswith(".") and not start.startswith(".")
                if entry.name.startswith(start) and not is_hidden and _is_safe_file(entry.name):
                    yield f"{above}{entry.name}{'/' if entry.is_dir() else ''}"
    except OSError:
        return


def _is_safe_file(name: str) -> bool:
    return _is_safe(name.removeprefix("."))


def _is_boolean(rule: object) -> bool:
    return isinstance(rule, Mapping) and rule.get("type") == "boolean"


def _values(rule: object) -> list[str]:
    """What a parameter may be, where its schema lists that; else a single ``""``."""
    rule = rule if isinstance(rule, Mapping) else {}
    if _is_boolean(rule):
        return ["true", "false"]
    listed = rule.get("enum")
    values = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return [one for one in values if _is_safe(one)] or [""]


def _threads(session: Session, _: str) -> Iterator[str]:
    """The threads that have left a document."""
    from ryeos.run.threads.place import DOCUMENT, threads_place

    place = threads_place(session.context.spaces)
    place.require_inside()
    for above, file in _files(str(place.folder)):
        if file == DOCUMENT and _is_safe(above[:-1]):
            yield above[:-1]


def _topics(session: Session, typed: str) -> Iterator[str]:
    """Commands and topics; items by ``item:REF``."""
    from ryeos.app.topics import OVERVIEW
    from ryeos.cli.help import TOPICS

    if typed.startswith(_ITEM):
        typed_ref = typed.removeprefix(_ITEM)
        yield from (f"{_ITEM}{ref}" for ref in _refs(session, typed_ref))
    else:
        yield from (*TOPICS, *TABLE.first_words(), *ALIASES, OVERVIEW, _ITEM)


def _files(root: str) -> Iterator[tuple[str, str]]:
    """Files below a folder: the POSIX path of their folder, ``""`` or with a slash, and a name."""
    from ryeos.trust.resolver import folders_below

    seen = 0
    for number, (folder, files) in enumerate(folders_below(root), 1):
        below = folder[len(root) + 1 :].replace(os.sep, "/")
        yield from ((f"{below}/" if below else "", file) for file in files)
        seen += len(files)
        if seen > MAX_FILES or number >= MAX_FOLDERS:
            return


def _is_safe(name: str) -> bool:
    """Letters and digits of any script, ``_ - . / +``: the same word in every shell."""
    return _SAFE.fullmatch(name) is not None and len(os.fsencode(name)) <= MAX_REF_BYTES


SORTS: Mapping[str, Callable[[Session, str], Iterator[str]]] = {
    "refs": _refs,
    "tools": _tools,
    "own": _signable_items,
    "parameters": _parameters,
    "threads": _threads,
    "topics": _topics,
}
"""What can be asked for."""
