"""Searches the contents of files, with as many processes as there are processors.

A file is read whole and searched as bytes: what the pattern cannot do without is looked for first,
and lines are made only around what is found.
"""

import os
import re

from confined import FILE, FOLDER, MAX_BYTES, NO_FOLLOW, RefusedError, answered, close_all, kind_of
from ignored import Glob
from patterns import Pattern
from walk import Walk, printable

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/file-system"
__tool_description__ = "Search the project's files for text, code or a regular expression"
__tags__ = "find text files string code regex symbol usages function rename where"

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG = {"timeout": 60}
CONFIG_RESOLVE = {"path": "file-system/access.yaml", "spaces": ["user", "system"]}
SANDBOX = {"read": ["{project}", "{config.allow}"], "env": ["USER_SPACE"]}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["pattern"],
    "additionalProperties": False,
    "properties": {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "description": "A regular expression of Python, for single lines",
        },
        "literal": {
            "type": "boolean",
            "default": False,
            "description": "The pattern is text, no expression",
        },
        "ignore_case": {"type": "boolean", "default": False, "description": "a is A"},
        "path": {"type": "string", "default": ".", "description": "A folder, or one file"},
        "globs": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Only such files, like *.py or src/**; ! before one takes files out",
        },
        "mode": {
            "type": "string",
            "enum": ["content", "files", "count"],
            "default": "content",
            "description": "Lines, names of files, or how many lines of each",
        },
        "context": {
            "type": "integer",
            "minimum": 0,
            "maximum": 20,
            "default": 0,
            "description": "So many lines before and after each",
        },
        "hidden": {
            "type": "boolean",
            "default": False,
            "description": "Names that begin with a dot too",
        },
        "ignored": {
            "type": "boolean",
            "default": False,
            "description": "What .gitignore leaves out too",
        },
        "binary": {"type": "boolean", "default": False, "description": "Binary files too"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10000,
            "default": 200,
            "description": "At most so many lines, or files",
        },
        "max_bytes": {
            "type": "integer",
            "minimum": 1000,
            "maximum": 1000000,
            "default": 50000,
            "description": "At most so many bytes of lines",
        },
    },
    "examples": [{"pattern": "def \\w+_path", "globs": ["*.py"], "context": 1}],
}

# Below 128 KiB memory comes from the heap, not page by page from the system: five times faster.
READ, BATCH, FEW, MAX_WORKERS = 1 << 16, 32, 256, 8


def execute(params: dict, project_path: str) -> dict:
    """The lines found by file, in the order of paths, and how many there are in all."""
    return answered(grep, params, project_path)


def grep(params: dict, folders: object) -> dict:
    """As `execute`. Raises RefusedError, OSError."""
    try:
        glob = Glob(params["globs"], anywhere=True) if params["globs"] else None
        pattern = Pattern(
            params["pattern"], literal=params["literal"], ignore_case=params["ignore_case"]
        )
    except (ValueError, re.error) as error:
        raise RefusedError(
            f"{error if isinstance(error, ValueError) else f'pattern: {error}'}",
            "literal: true searches for the text as it is",
        ) from None
    with folders.readable(params["path"]) as place:
        status = place.status()
        kind = kind_of(status.st_mode) if status else "nothing"
        if kind not in ("file", "folder"):
            raise RefusedError(f"{place.shown}: expected a file or folder, found {kind}")
        if kind == "file":
            top, batches, is_cut = place.fd, [((), [place.name])], False
            found, files = searched(top, batches, pattern, params, (0, 1)), 1
        else:
            top = place.open_folder()
            try:
                batches, is_cut = gathered(place, glob, params)
                files = sum(len(names) for _, names in batches)
                found = search_all(top, batches, pattern, params)
            finally:
                if isinstance(top, int):
                    os.close(top)
    base = place.root if place.root != folders.roots[0] else ""
    above = [] if place.shown == "." else place.parts[:-1] if kind == "file" else place.parts
    hits, skipped = found
    shown = [(os.path.join(base, *above, path), count, lines) for _, path, count, lines in hits]
    answer = {"files_searched": files, **summary(shown, params)}
    if skipped:
        answer["skipped"] = (
            f"{skipped} files are larger than {MAX_BYTES} bytes, or not ours to read"
        )
    if is_cut:
        answer |= {"truncated": True, "hint": "there are too many files: search a folder below"}
    return answer


def gathered(place: object, glob: object, params: dict) -> tuple:
    """The files to search as ``(folders on the way, names)``, few enough to share out."""
    walk = Walk(hidden=params["hidden"], ignored=params["ignored"])
    batches = []
    for path, _, _, files in walk.folders(place):
        names = [entry.name for entry in files if not entry.is_symlink()]
        if glob:
            names = [name for name in names if glob(path + name)]
        folders = tuple(path.split("/")[:-1])
        batches += [(folders, names[at : at + BATCH]) for at in range(0, len(names), BATCH)]
    return batches, walk.is_cut


def search_all(top: object, batches: list, pattern: object, params: dict) -> tuple:
    """What `searched` gives for all batches, from several processes if that is worth it."""
    import marshal

    count = sum(len(names) for _, names in batches)
    workers = min(processors(), MAX_WORKERS, count // FEW + 1) if hasattr(os, "fork") else 1
    pipes = []
    for number in range(1, workers):
        source, sink = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with open(sink, "wb") as file:
                    found = searched(top, batches, pattern, params, (number, workers))
                    marshal.dump(found, file)
                status = 0
            finally:
                os._exit(status)
        os.close(sink)
        pipes.append((pid, source))
    hits, skipped = searched(top, batches, pattern, params, (0, workers))
    for pid, source in pipes:
        with open(source, "rb") as file:
            data = file.read()
        if os.waitpid(pid, 0)[1]:
            raise RefusedError("a process that searched has died", "search a folder below")
        more = marshal.loads(data)  # noqa: S302 - of our own process
        hits, skipped = hits + more[0], skipped + more[1]
    return sorted(hits, key=lambda hit: hit[0]), skipped


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def searched(top: object, batches: list, pattern: object, params: dict, share: tuple) -> tuple:
    """``(number, path, matches, lines)`` of each file that has some, and how many were not read.

    Only as many lines are kept as an answer can hold; the rest is counted. ``share``
    is ``(first, step)`` of the batches; numbers put together what several processes found.
    """
    hits, skipped = [], 0
    room, left = params["max_bytes"], params["limit"]
    wants_lines, wants_count = params["mode"] == "content", params["mode"] != "files"
    for number, way, folder, name in opened_files(top, batches, *share):
        data = content(folder, name)
        if data is None:
            skipped += 1
            continue
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            data = data.decode("utf-16", "replace").encode("utf-8", "replace")
        if not pattern.may_match(data) or (not params["binary"] and b"\0" in data[:8192]):
            continue
        if wants_lines and room > 0 and left > 0:
            count, lines = pattern.lines(data, params["context"], left, room)
            room -= sum(len(text) + 8 for _, _, text in lines)
            left -= count
        else:
            count, lines = pattern.count(data) if wants_count else pattern.has(data), []
        if count:
            hits.append((number, printable("/".join((*way, name))), count, lines))
    return hits, skipped


def opened_files(top: object, batches: list, first: int, step: int) -> object:
    """``(number of the batch, names of folders, folder, name)`` of each file.

    Folders are opened one in another, never through a link.
    """
    open_names, open_folders = (), []
    try:
        for number in range(first, len(batches), step):
            way, names = batches[number]
            if not isinstance(top, int):
                folder = os.path.join(top, *way) if top else ""
            else:
                same = 0
                while same < min(len(way), len(open_names)) and way[same] == open_names[same]:
                    same += 1
                while len(open_folders) > same:
                    os.close(open_folders.pop())
                open_names = way[:same]
                try:
                    for name in way[same:]:
                        above = open_folders[-1] if open_folders else top
                        open_folders.append(os.open(name, FOLDER | NO_FOLLOW, dir_fd=above))
                        open_names = (*open_names, name)
                except OSError:
                    continue  # gone, or a link by now
                folder = open_folders[-1] if open_folders else top
            for name in names:
                yield number, way, folder, name
    finally:
        close_all(open_folders)


def content(folder: object, name: str) -> object:
    """The bytes of a file, None for one that is too large or cannot be read."""
    try:
        if isinstance(folder, int):
            fd = os.open(name, FILE | NO_FOLLOW, dir_fd=folder)
        else:
            fd = os.open(os.path.join(folder, name), FILE | NO_FOLLOW)
    except OSError:
        return None
    try:
        data = os.read(fd, READ)
        if len(data) < READ:
            return data
        pieces, size = [data], len(data)
        while size <= MAX_BYTES and (piece := os.read(fd, 1 << 22)):
            pieces.append(piece)
            size += len(piece)
        return None if size > MAX_BYTES else b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(fd)


def summary(hits: list, params: dict) -> dict:
    """The answer, cut to what was asked for."""
    told = {"files": len(hits), "matches": sum(lines for _, lines, _ in hits)}
    limit, mode = params["limit"], params["mode"]
    if mode == "files":
        del told["matches"]
        answer = {"paths": [path for path, _, _ in hits[:limit]]}
        is_cut = len(hits) > limit
    elif mode == "count":
        answer = {"counts": {path: lines for path, lines, _ in hits[:limit]}}
        is_cut = len(hits) > limit
    else:
        answer, is_cut = content_of(hits, params)
    cut = {"truncated": True, "hint": "a narrower pattern, path or globs, or a higher limit"}
    return {**told, **answer, **(cut if is_cut else {})}


def content_of(hits: list, params: dict) -> tuple:
    """``{path, lines}`` of each file, and whether that is not all."""
    left, room, results = params["limit"], params["max_bytes"], []
    for path, _, lines in hits:
        kept = []
        for number, is_match, text in lines:
            room -= len(text) + 8
            left -= is_match
            if room < 0 or left < 0:
                break
            kept.append(f"{number}{':' if is_match else '-'}{text}")
        if kept:
            results.append({"path": path, "lines": kept})
        if not lines or room < 0 or left < 0:
            return {"results": results}, True
    listed = params["limit"] - left
    return {"results": results}, listed < sum(count for _, count, _ in hits)
