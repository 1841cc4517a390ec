"""Changes lines of a text by the ids that `read` showed: all edits or none."""

import os
from itertools import pairwise

from confined import RefusedError, answered, digest
from texts import line_ids, text_of

__version__ = "1.1.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/file-system"
__tool_description__ = "Edit a file: replace a text, or replace, insert and delete lines"
__tags__ = "edit replace rename symbol refactor patch apply insert line change"

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG_RESOLVE = {"path": "file-system/access.yaml", "spaces": ["user", "system"]}
SANDBOX = {
    "read": ["{project}", "{config.allow}"],
    "write": ["{project}", "{config.allow}"],
    "env": ["USER_SPACE"],
}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["path", "edits"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the project"},
        "hash": {
            "type": "string",
            "description": "The file's hash from read: needed for lines that are there twice",
        },
        "encoding": {"type": "string", "description": "As it was given to read"},
        "dry_run": {"type": "boolean", "default": False, "description": "Only show the diff"},
        "edits": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "description": "Applied together; their lines must not overlap",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "old_text": {
                        "type": "string",
                        "minLength": 1,
                        "description": "A text that is there once; instead of action, line",
                    },
                    "new_text": {
                        "type": "string",
                        "description": "What takes the place of old_text; empty deletes it",
                    },
                    "action": {
                        "type": "string",
                        "enum": ["replace", "delete", "insert_after", "insert_before"],
                        "description": "What to do at the line",
                    },
                    "line": {
                        "type": "string",
                        "description": "A number with hash, or an id of read with ids; for inserts"
                        " also start or end, of the file",
                    },
                    "to": {
                        "type": "string",
                        "description": "replace, delete: the id of the last line of a range",
                    },
                    "text": {
                        "type": "string",
                        "description": "The new lines, separated by newlines",
                    },
                },
            },
        },
    },
    "examples": [
        {
            "path": "README.md",
            "edits": [{"action": "insert_after", "line": "end", "text": "A last line."}],
        },
    ],
}

AROUND, MAX_DIFF = 3, 30000
MAX_COMPARED, MAX_SHOWN, MAX_PLACES = 2000, 200, 10


def execute(params: dict, project_path: str) -> dict:
    """The new ids, hash and a unified diff."""
    return answered(edit, params, project_path)


def edit(params: dict, folders: object) -> dict:
    """As `execute`. Raises RefusedError, OSError."""
    with folders.writable(params["path"]) as place:
        data, status = place.read()
        try:
            text = text_of(data, params.get("encoding", ""))
        except (LookupError, UnicodeError) as error:
            raise RefusedError(f"encoding: {error}") from None
        if text is None:
            raise RefusedError(f"{place.shown}: expected a text, found bytes that are none")
        given, found = params.get("hash"), digest(data)
        edits = placed(
            params, text.lines, is_same=given == found, is_stale=given not in (None, found)
        )
        lines, ends = applied(edits, text)
        try:
            changed = text.encoded(lines, ends)
        except UnicodeEncodeError as error:
            problem = f"{error.object[error.start : error.end]!r} cannot be written in it"
            raise RefusedError(
                f"{place.shown}: its encoding is {text.encoding}; {problem}"
            ) from None
        if changed != data and not params["dry_run"]:
            if place.read()[0] != data:
                raise RefusedError(f"{place.shown}: it was changed meanwhile", "read it again")
            owner = (status.st_uid, status.st_gid) if hasattr(os, "geteuid") else None
            place.replace(changed, mode=status.st_mode, owner=owner)
    diff = "".join(unified(place.shown, text, edits)) if changed != data else ""
    cut = {"truncated": True} if len(diff) > MAX_DIFF else {}
    told = {"path": place.shown, "hash": digest(changed), "changed": changed != data}
    return told | {"lines": new_lines(edits, lines), "diff": diff[:MAX_DIFF], **cut}


def placed(params: dict, lines: list, *, is_same: bool, is_stale: bool = False) -> list:
    """Edits as ``(first, after, new lines)`` in the order of the file. Raises RefusedError."""
    names = LineNames(lines, is_same=is_same, is_stale=is_stale)
    texts = [number for number, one in enumerate(params["edits"]) if "old_text" in one]
    if is_stale and texts:
        problem = "the file has changed since the one of this hash was read"
        raise RefusedError(
            f"edits[{texts[0]}].old_text: {problem}", "read it again, or leave hash out"
        )
    found = [
        region(one, f"edits[{number}]", names.find, lines)
        for number, one in enumerate(params["edits"])
    ]
    found.sort(key=lambda entry: entry[:2])
    for one, other in pairwise(found):
        if other[0] < one[1]:
            raise RefusedError(f"edits: two of them change line {other[0] + 1}")
    return found


class LineNames:
    """What lines may be called: an id, ``NUMBER:ID``, or a number while the file is the same."""

    def __init__(self, lines: list, *, is_same: bool, is_stale: bool) -> None:
        self.lines, self.is_same, self.is_stale = lines, is_same, is_stale
        self.ids = line_ids(lines)
        self.where = {name: at for at, name in enumerate(self.ids)}
        doubles = {name.partition(".")[0] for name in self.ids if "." in name}
        self.twice = set() if is_same else doubles

    def find(self, name: str, label: str) -> int:
        """The index of the line. Raises RefusedError."""
        number, colon, line_id = name.partition(":")
        if number.isascii() and number.isdecimal() and (colon or name not in self.where):
            return self._numbered(int(number), line_id, label)
        hint = "read the file again, and give its hash"
        if name not in self.where:
            problem = f"{label}: expected the id of a line, found {name!r}: it is gone"
            raise RefusedError(problem, hint)
        if name.partition(".")[0] in self.twice:
            problem = f"there are several such lines, and {self._hash_problem()}"
            raise RefusedError(f"{label}: {name!r} is ambiguous: {problem}", hint)
        return self.where[name]

    def _hash_problem(self) -> str:
        changed = "the file has changed since the one of this hash was read"
        return changed if self.is_stale else "hash is not given"

    def _numbered(self, number: int, line_id: str, label: str) -> int:
        count = len(self.lines)
        if not 1 <= number <= count:
            raise RefusedError(f"{label}: expected a line from 1 to {count}, found {number}")
        found = self.ids[number - 1]
        if line_id and found != line_id:
            problem = f"line {number} is now {found}|{self.lines[number - 1][:80]}"
            raise RefusedError(f"{label}: expected {line_id}: {problem}", "read the file again")
        if not line_id and not self.is_same:
            problem = "a number counts with the hash of the file"
            hint = "give hash, or NUMBER:ID, as read shows them with ids"
            if self.is_stale:
                problem, hint = f"{problem}, and {self._hash_problem()}", "read it again"
            raise RefusedError(f"{label}: {problem}", hint)
        return number - 1


def replaced(one: dict, label: str, lines: list) -> tuple:
    """The region that ``old_text`` is, whole lines or a part of some; it must be there once."""
    if one.keys() != {"old_text", "new_text"}:
        raise RefusedError(f"{label}: expected old_text and new_text alone, or action and line")
    old = new_text(one["old_text"])
    places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    if len(places) == 1:
        new = new_text(one["new_text"]) if one["new_text"] else []
        return places[0], places[0] + len(old), new
    whole, part = "\n".join(lines), one["old_text"].replace("\r\n", "\n")
    count = len(places) or whole.count(part)
    if count != 1:
        found = f"found it {count} times" if count else "found none"
        hint = more_of_it(part, whole) if count else nearest(part, lines)
        raise RefusedError(f"{label}.old_text: expected it once, {found}", hint)
    start = whole.index(part)
    first = whole.count("\n", 0, start)
    after = first + part.count("\n") + 1
    column = start - (whole.rfind("\n", 0, start) + 1)
    taken = "\n".join(lines[first:after])
    rest = taken[column + len(part) :]
    changed = taken[:column] + one["new_text"].replace("\r\n", "\n") + rest
    return first, after, changed.split("\n")


def more_of_it(part: str, whole: str) -> str:
    """The lines where a text begins that is there several times."""
    numbers, at = [], whole.find(part)
    while at >= 0 and len(numbers) <= MAX_PLACES:
        numbers.append(whole.count("\n", 0, at) + 1)
        at = whole.find(part, at + 1)
    shown = ", ".join(map(str, dict.fromkeys(numbers[:MAX_PLACES])))
    more = ", ..." if len(numbers) > MAX_PLACES else ""
    return f"it is at lines {shown}{more}: give more of it, or action and line with the file's hash"


def nearest(part: str, lines: list) -> str:
    """The lines that may have been meant by a text that is not there."""
    from difflib import get_close_matches

    first = part.strip().partition("\n")[0]
    stripped = {line.strip(): at for at, line in reversed(list(enumerate(lines[:MAX_COMPARED], 1)))}
    close = get_close_matches(first, stripped, 2)
    if close and len(first) <= MAX_SHOWN:
        numbers = sorted(stripped[one] for one in close)
        return "; ".join(f"line {at} is: {lines[at - 1][:MAX_SHOWN]}" for at in numbers)
    return "as it is in the file, without ids of lines"


def region(one: dict, label: str, find: object, lines: list) -> tuple:
    """The lines that one edit takes, and those that it puts there."""
    if "old_text" in one or "new_text" in one:
        return replaced(one, label, lines)
    if "action" not in one or "line" not in one:
        raise RefusedError(f"{label}: expected action and line, or old_text and new_text")
    action, name, count = one["action"], one["line"], len(lines)
    if (action == "delete") is ("text" in one):
        wanted = "no text" if action == "delete" else "text"
        raise RefusedError(f"{label}: expected {wanted} with {action}")
    new = new_text(one["text"]) if "text" in one else []
    if action.startswith("insert"):
        if "to" in one:
            raise RefusedError(f"{label}: expected no to with {action}")
        ends = {"start": 0, "end": count}
        at = ends.get(name)
        if at is None:
            at = find(name, f"{label}.line") + (action == "insert_after")
        return at, at, new
    first = find(name, f"{label}.line")
    last = find(one["to"], f"{label}.to") if "to" in one else first
    if last < first:
        raise RefusedError(f"{label}: expected to at or below line, found it above")
    return first, last + 1, new


def new_text(text: str) -> list:
    """Its lines; a newline at its end begins no further one."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def applied(edits: list, text: object) -> tuple:
    """The lines and ends with all edits made. What is not edited keeps its ends."""
    lines, ends, at = [], [], 0
    for first, after, new in edits:
        lines += [*text.lines[at:first], *new]
        ends += [*text.ends[at:first], *[text.line_end] * len(new)]
        at = after
    lines += text.lines[at:]
    ends += text.ends[at:]
    ends = [end or text.line_end for end in ends]
    if ends and not text.is_ended:
        ends[-1] = ""
    return lines, ends


def new_lines(edits: list, lines: list) -> str:
    """Each changed region of the new file, as `read` shows it."""
    ids, shift, shown = line_ids(lines), 0, []
    for first, after, new in edits:
        start = first + shift
        shown += [f"{at + 1}:{ids[at]}|{lines[at]}\n" for at in range(start, start + len(new))]
        shift += len(new) - (after - first)
    return "".join(shown)[:MAX_DIFF]


def unified(name: str, text: object, edits: list) -> object:
    """A unified diff, straight from the edits."""
    yield f"--- a/{name}\n+++ b/{name}\n"
    hunks: list = []
    for entry in edits:
        if hunks and entry[0] - hunks[-1][-1][1] <= 2 * AROUND:
            hunks[-1].append(entry)
        else:
            hunks.append([entry])
    shift = 0
    for hunk in hunks:
        start, end = max(0, hunk[0][0] - AROUND), min(len(text.lines), hunk[-1][1] + AROUND)
        growth = sum(len(new) - (after - first) for first, after, new in hunk)
        old, new_size = end - start, end - start + growth
        yield f"@@ -{start + (old > 0)},{old} +{start + shift + (new_size > 0)},{new_size} @@\n"
        shift += growth
        at = start
        for first, after, new in hunk:
            yield from (f" {line}\n" for line in text.lines[at:first])
            yield from (f"-{line}\n" for line in text.lines[first:after])
            yield from (f"+{line}\n" for line in new)
            at = after
        yield from (f" {line}\n" for line in text.lines[at:end])
