"""Golden files: what the program says, recorded below ``tests/golden`` and compared line by line.

`scripts/record_golden` records them anew. What differs between two runs or two machines (folders,
keys, times, durations, digests of the bundle) is replaced by a name first.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from lillux.digests import sha256_hex
from ryeos import __version__
from tests.support.command_line import Done
from tests.support.workspace import ROOT

GOLDEN = ROOT / "tests" / "golden"
RECORD = "RYE_RECORD_GOLDEN"
"""The environment variable that makes `compare` write."""
_MOST_LINES = 120

_VARYING = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00| UTC)?"), "<time>"),
    (re.compile(r'("(?:duration|elapsed|queue)_ms": )[\d.]+'), r"\1<ms>"),
    (re.compile(r'("(?:pid|port)": )\d+'), r"\1<number>"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d{2,5}\b"), r"\1:<port>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r'(proposal/|\\?"id\\?": ?\\?")[0-9a-f]{12}\b'), r"\1<id>"),
    (re.compile(r"(?<![\w-])[\w-]{86}=="), "<signature>"),
)


_UNSEEN = re.compile(r"[^\n\t\x20-\x7e\u00a0-\ud7ff\ue000-\uffff]")


def compare(name: str, text: str) -> None:
    """Fail the test unless the golden file of this name holds the text; record it on request."""
    path = GOLDEN / f"{name}.txt"
    data = _UNSEEN.sub(_escape, f"{text.rstrip()}\n")
    if os.environ.get(RECORD):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode("utf-8"))
        return
    recorded = path.read_bytes().decode("utf-8") if path.exists() else ""
    if recorded != data:
        lines = difflib.unified_diff(
            recorded.splitlines(), data.splitlines(), f"recorded {name}", "now", lineterm="", n=2
        )
        shown = list(lines)
        more = f"\n... {len(shown) - _MOST_LINES} lines more" if len(shown) > _MOST_LINES else ""
        message = "\n".join(shown[:_MOST_LINES]) + more
        pytest.fail(f"{message}\nif this is meant: scripts/record_golden", pytrace=False)


def _escape(match: re.Match[str]) -> str:
    """A character that is not seen as its escape: golden files are texts for every program."""
    return match[0].encode("unicode_escape").decode("ascii")


class Names:
    """Names for what differs between two runs: the longest text is replaced first."""

    def __init__(self, names: Mapping[object, str]) -> None:
        given = {**names, ROOT: "<checkout>"}
        self._names = {str(text): name for text, name in given.items()}

    def replaced(self, text: str) -> str:
        """The text with names for folders, keys, times, durations and digests."""
        for value in sorted(self._names, key=len, reverse=True):
            text = text.replace(value, self._names[value])
        for pattern, name in _VARYING:
            text = pattern.sub(name, text)
        return re.sub(rf"(?<![\w.]){re.escape(__version__)}(?![\w.])", "<version>", text)


Form = Callable[[Sequence[str]], Sequence[str]]
"""Makes the command line that is carried out of the one that is shown."""


def as_text(words: Sequence[str]) -> Sequence[str]:
    """The command line as it is."""
    return words


def as_json(words: Sequence[str]) -> Sequence[str]:
    """The command line with ``--json``, which stands before ``--``."""
    place = words.index("--") if "--" in words else len(words)
    return [*words[:place], "--json", *words[place:]]


AS_JSON: Sequence[Form] = (as_json,)
"""Of a program whose commands take long: the text says nothing that the document does not."""


def shown_done(done: Done) -> str:
    """What a command wrote and its status, each stream with its mark."""
    lines = [f"status {done.status}"]
    for mark, text in (("", done.stdout), ("! ", done.stderr)):
        lines += [f"{mark}{line}".rstrip() for line in text.splitlines()]
    return "\n".join(lines)


def transcript(
    run: Callable[..., Done],
    program: str,
    commands: Iterable[Sequence[str]],
    names: Names,
    *,
    forms: Sequence[Form] = (as_text, as_json),
) -> str:
    """Each command in each of the forms: what was typed, the status, what it wrote."""
    parts = []
    for words in commands:
        typed = names.replaced(" ".join([program, *map(_quoted, words)]))
        shown = (shown_done(run(*form(words))) for form in forms)
        parts.append("\n".join([f"$ {typed}", *map(names.replaced, shown)]))
    return "\n\n".join(parts)


def _quoted(word: str) -> str:
    is_plain = word.isprintable() and not re.search(r"""[\s'"$]""", word)
    return word if word and is_plain else repr(word)


def digest_line(name: str, text: str) -> str:
    """A line for a text that is too long to record: its size and digest."""
    data = text.encode("utf-8")
    return f"{name}: {len(data)} bytes, sha256 {sha256_hex(data)}"
