"""What ``.gitignore`` files leave out (https://git-scm.com/docs/gitignore), and globs."""

import os
import re

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/file-system/lib"
__tool_description__ = "Rules of .gitignore, and globs"

MAX_RULES_BYTES, MAX_GLOBS = 1 << 17, 256
BRACKETS = re.compile(r"([!^]?+)(\]?+(?:\\.|[^\]\\])*)\]", re.DOTALL)


class Rules:
    """The rules of one ``.gitignore``, for paths below its folder.

    Most names match no rule: ``plain`` holds names, ``suffixes`` their ends, and ``others`` every
    remaining rule in one expression, so that one look tells.
    """

    def __init__(self, text: str) -> None:
        self.rules = [rule for line in text.splitlines() if (rule := parsed(line))]
        simple = [rule for rule in self.rules if rule.is_name]
        self.plain = {rule.glob for rule in simple if not set(rule.glob) & set("*?[\\")}
        ends = {rule.glob[1:] for rule in simple if re.fullmatch(r"\*\.[^*?\[\\.]+", rule.glob)}
        self.suffixes = ends
        rest = [
            rule.source
            for rule in self.rules
            if not rule.is_name or (rule.glob not in self.plain and rule.glob[1:] not in ends)
        ]
        self.others = re.compile("|".join(rest), re.DOTALL).fullmatch if rest else None

    def verdict(self, path: str, name: str, *, is_folder: bool) -> object:
        """True to leave out, False to keep, None when no rule says."""
        dot = name.rfind(".")
        if not (
            name in self.plain
            or (dot >= 0 and name[dot:] in self.suffixes)
            or (self.others and self.others(path))
        ):
            return None
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and rule.matches(path):
                return not rule.is_negated
        return None


class Rule:
    """One line."""

    def __init__(self, glob: str, *, is_negated: bool, folders_only: bool) -> None:
        self.is_negated, self.folders_only = is_negated, folders_only
        self.is_name = "/" not in glob
        self.glob = glob.removeprefix("/")
        self.source = ("(?:.*/)?" if self.is_name else "") + translated(self.glob)
        self.expression = None

    def matches(self, path: str) -> bool:
        """Whether the rule is about a path; few rules are ever asked."""
        if self.expression is None:
            self.expression = re.compile(self.source, re.DOTALL)
        return bool(self.expression.fullmatch(path))


def parsed(line: str) -> object:
    """The rule of a line, None without one."""
    line = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    glob = line[is_negated:]
    folders_only = glob.endswith("/")
    glob = glob.removesuffix("/")
    if not glob:
        return None
    if re.search(r"(?<!\\)(\\\\)*\\$", glob):
        return None  # as for git
    return Rule(glob, is_negated=is_negated, folders_only=folders_only)


def translated(glob: str) -> str:
    """A glob as a regular expression for whole relative paths; a star never takes a slash.

    Between two stars the first place that fits is as good as any later one: atomic groups there
    keep a glob of many stars from taking exponential time.
    """
    runs: list = [[]]
    for segment in segments(glob):
        if len(segment) > 1 and not segment.strip("*"):
            runs.append([])
        else:
            runs[-1].append(segment_source(segment) + "/")
    first, inner, last = "".join(runs[0]), runs[1:-1], "".join(runs[-1])
    if len(runs) == 1:
        return first.removesuffix("/")
    middle = "".join(f"(?>(?:[^/]+/)*?{''.join(run)})" for run in inner if run)
    return first + middle + (f"(?:[^/]+/)*{last}".removesuffix("/") if last else ".+")


def segments(glob: str) -> list:
    """The names of a glob. A slash in brackets ends none, and matches nothing, as for git."""
    found, at = [""], 0
    while at < len(glob):
        bracket = BRACKETS.match(glob, at + 1) if glob[at] == "[" else None
        end = bracket.end() if bracket else at + 1 + (glob[at] == "\\")
        if glob[at:end] in ("/", "\\/"):
            found.append("")
        else:
            found[-1] += glob[at:end]
        at = end
    return found


def segment_source(segment: str) -> str:
    """One name of a glob as a regular expression."""
    parts, at = [""], 0
    while at < len(segment):
        mark = segment[at]
        at += 1
        if mark == "*":
            parts += [""] if parts[-1] or len(parts) == 1 else []
        elif mark == "?":
            parts[-1] += "[^/]"
        elif mark == "[":
            found = BRACKETS.match(segment, at)
            if not found:
                return "(?!)"  # as for git
            members = members_source(re.findall(r"\\?(.)(?:(-)(?:\\?(.))?)?", found[2]))
            one_of = f"(?!/)[{members}]" if members else "(?!)"
            parts[-1] += f"[^/{members}]" if found[1] else one_of
            at = found.end()
        elif mark == "\\" and at < len(segment):
            parts[-1] += re.escape(segment[at])
            at += 1
        else:
            parts[-1] += re.escape(mark)
    if len(parts) == 1:
        return parts[0]
    inner = "".join(f"(?>[^/]*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{inner}[^/]*{parts[-1]}"


def members_source(members: list) -> str:
    """What stands in brackets, ``(first, dash, last)`` of each, for a regular expression."""
    out = []
    for first, dash, last in members:
        out.append(re.escape(first))
        if dash and not last:
            out.append(r"\-")
        elif dash and first <= last:
            out.append(f"-{re.escape(last)}")
    return "".join(out)


def rules_in(folder: object) -> object:
    """The rules of an open folder (a descriptor, or a path), None without any."""
    name, at = (
        (".gitignore", folder)
        if isinstance(folder, int)
        else (
            os.path.join(folder, ".gitignore"),
            None,
        )
    )
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        fd = os.open(name, flags | getattr(os, "O_CLOEXEC", 0), dir_fd=at)
    except OSError:
        return None
    try:
        text = os.read(fd, MAX_RULES_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
    rules = Rules(text.decode("utf-8", "replace").removeprefix("\ufeff"))
    return rules if rules.rules else None


def braces(glob: str) -> list:
    """``a{b,c}`` as ``ab`` and ``ac``, also nested. Raises ValueError for very many."""
    done, todo = [], [glob]
    while todo:
        one = todo.pop()
        found = re.search(r"(?<!\\)\{([^{}]*,[^{}]*)\}", one)
        if not found:
            done.append(one)
        else:
            todo += [
                one[: found.start()] + part + one[found.end() :] for part in found[1].split(",")
            ]
        if len(todo) + len(done) > MAX_GLOBS:
            raise ValueError(f"{glob}: expected braces for at most {MAX_GLOBS} globs")
    return done


class Glob:
    """Paths that match one of some globs; ``!`` before one takes paths out again.

    A glob without a slash is about names at any depth if ``anywhere`` is set, as in .gitignore.
    """

    def __init__(self, globs: list, *, anywhere: bool) -> None:
        wanted = [part for glob in globs if not glob.startswith("!") for part in braces(glob)]
        others = [part for glob in globs if glob.startswith("!") for part in braces(glob[1:])]
        self.wanted = expression(wanted, anywhere=anywhere)
        self.others = expression(others, anywhere=anywhere)

    def __call__(self, path: str) -> bool:
        """Whether a relative path is meant."""
        if self.others and self.others(path):
            return False
        return not self.wanted or bool(self.wanted(path))


def expression(globs: list, *, anywhere: bool) -> object:
    """What tells whether a path matches one of them, None without any."""
    sources = [
        ("(?:.*/)?" if anywhere and "/" not in glob else "") + translated(glob.lstrip("/"))
        for glob in globs
    ]
    return re.compile("|".join(sources), re.DOTALL).fullmatch if sources else None
