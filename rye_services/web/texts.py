"""Texts of users, code and differences as markup without active content.

The door of markdown-it-py, nh3 and Pygments, which are imported when a page first needs them. What
comes out is `markupsafe.Markup`; all else on a page is escaped by its template.
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from lillux.foreign_text import without_control_characters
from lillux.values import dataclass
from ryeos.sync.text_merge import changed_hunks, split_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

# --- texts of people ------------------------------------------------------------------------------

MAX_MARKDOWN_CHARACTERS = 30_000
"""A longer text is shown as it was written."""

_SCHEMES = frozenset({"http", "https", "mailto"})
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
_TAGS = frozenset(
    {
        *("a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol"),
        *("p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
    }
)
_TOP_LEVEL, _LAST_LEVEL = 3, 6


def markdown(text: str) -> "Markup":
    """A text of a user as markup: no HTML of theirs, no picture, links to elsewhere only.

    Its headings begin below those of a page.
    """
    from markupsafe import Markup, escape

    shown = _unix_lines(text)
    if len(shown) > MAX_MARKDOWN_CHARACTERS:
        return Markup('<pre class="source">{}</pre>').format(escape(shown))
    return _rendered(shown)


@lru_cache(maxsize=128)
def _rendered(text: str) -> "Markup":
    import nh3
    from markupsafe import Markup

    made = nh3.clean(
        _markdown().render(text),
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        url_schemes=set(_SCHEMES),
        url_relative="deny",
        link_rel="nofollow noopener noreferrer",
    )
    return Markup(made)  # noqa: S704 - nh3 made it


@cache
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.disable("image")
    made.core.ruler.push("levels", _lower_headings)
    return made


def _lower_headings(state: object) -> None:
    for token in state.tokens:  # type: ignore[attr-defined]
        if token.type in {"heading_open", "heading_close"}:
            level = min(int(token.tag[1:]) + _TOP_LEVEL - 1, _LAST_LEVEL)
            token.tag = f"h{level}"


# --- code -----------------------------------------------------------------------------------------

MAX_COLOURED_CHARACTERS = 60_000
"""A longer text is shown without colours: finding them takes its time."""

MAX_COLOURED_LINE = 2_000
"""A text with a longer line has no colours: one pattern may look at it again and again."""

COLOURING_S = 0.3
"""What takes longer stays without colours from there on: some texts take Pygments a minute."""

_LEXERS = {
    ".bash": "bash", ".css": "css", ".diff": "diff", ".html": "html", ".ini": "ini",
    ".js": "javascript", ".json": "json", ".jsonl": "json", ".md": "markdown", ".mjs": "javascript",
    ".py": "python", ".rs": "rust", ".sh": "bash", ".sql": "sql", ".toml": "toml",
    ".ts": "typescript", ".xml": "xml", ".yaml": "yaml", ".yml": "yaml",
}  # fmt: skip


def code(text: str, suffix: str) -> "Markup":
    """The text of a file with this suffix, coloured where its type is known."""
    from markupsafe import Markup, escape

    shown = _unix_lines(text)
    name = _LEXERS.get(suffix.lower())
    is_plain = name is None or len(shown) > MAX_COLOURED_CHARACTERS or _has_long_line(shown)
    inner = escape(shown) if is_plain else _coloured(shown, str(name))
    return Markup('<pre class="source" tabindex="0">\n{}</pre>').format(inner)


@lru_cache(maxsize=64)
def _coloured(text: str, lexer_name: str) -> "Markup":
    from markupsafe import Markup
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(lexer_name, stripnl=False, ensurenl=False)
    made = StringIO()
    HtmlFormatter(nowrap=True).format(_tokens(text, lexer, monotonic() + COLOURING_S), made)
    inner = made.getvalue()  # whose last line ends in any case
    return Markup(inner if text.endswith("\n") else inner.removesuffix("\n"))  # noqa: S704 - Pygments escapes


def _tokens(text: str, lexer: Any, until_s: float) -> Iterator[tuple[Any, str]]:  # noqa: ANN401 - of Pygments
    """The tokens of a text; once the time is over, all that is left as one without a colour."""
    from pygments.token import Text

    at = 0
    for kind, value in lexer.get_tokens(text):
        yield kind, value
        at += len(value)
        if monotonic() > until_s:
            yield Text, text[at:]
            return


def _has_long_line(text: str) -> bool:
    return max(map(len, text.split("\n"))) > MAX_COLOURED_LINE


def _unix_lines(text: str) -> str:
    return without_control_characters(text.replace("\r\n", "\n"))


# --- differences ----------------------------------------------------------------------------------
# Two versions of a text, line by line. Values only: a template draws them.

CONTEXT_LINES = 3
MAX_DIFF_LINES = 5_000
"""Of each version: longer ones are not compared."""

LineKind = Literal["same", "added", "removed", "gap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a difference, with its number in both versions; None where it is in one only.

    A ``gap`` stands for ``text`` lines that both have.
    """

    kind: LineKind
    text: str
    before: int | None = None
    after: int | None = None


def diff_lines(before: str, after: str) -> tuple[DiffLine, ...] | None:
    """What changed, with some lines around it; None for texts that take too long to compare."""
    old, new = split_lines(before), split_lines(after)
    if max(len(old), len(new)) > MAX_DIFF_LINES:
        return None
    hunks = changed_hunks(old, new)
    if hunks is None:
        return None
    if not hunks:
        return ()
    lines: list[DiffLine] = []
    at_old = at_new = 0
    for number, hunk in enumerate(hunks):
        lines += _kept(old[at_old : hunk.start], at_old, at_new, is_first=not number)
        at_new += hunk.start - at_old
        lines += _removed_lines(old[hunk.start : hunk.end], hunk.start)
        lines += _added_lines(hunk.lines, at_new)
        at_old, at_new = hunk.end, at_new + len(hunk.lines)
    lines += _kept_at_end(old[at_old:], at_old, at_new)
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class MarkedPart:
    """Lines of one version that follow each other; ``is_changed``: the other has others there."""

    text: str
    is_changed: bool


def marked_sides(
    ours: str, theirs: str
) -> tuple[tuple[MarkedPart, ...], tuple[MarkedPart, ...]] | None:
    """Both versions whole, marked where they differ; None as for `diff_lines`."""
    left, right = split_lines(ours), split_lines(theirs)
    if max(len(left), len(right)) > MAX_DIFF_LINES:
        return None
    hunks = changed_hunks(left, right)
    if hunks is None:
        return None
    ours_parts: list[MarkedPart] = []
    theirs_parts: list[MarkedPart] = []
    at = 0
    for hunk in hunks:
        same = "".join(left[at : hunk.start])
        for parts, changed in (
            (ours_parts, left[hunk.start : hunk.end]),
            (theirs_parts, hunk.lines),
        ):
            parts += [
                MarkedPart(same, is_changed=False),
                MarkedPart("".join(changed), is_changed=True),
            ]
        at = hunk.end
    rest = MarkedPart("".join(left[at:]), is_changed=False)
    return _with_text([*ours_parts, rest]), _with_text([*theirs_parts, rest])


def _with_text(parts: Sequence[MarkedPart]) -> tuple[MarkedPart, ...]:
    return tuple(part for part in parts if part.text)


def _kept(lines: Sequence[str], old: int, new: int, *, is_first: bool) -> Iterator[DiffLine]:
    """Lines before a change: the last of them, and after another change also the first ones."""
    head = 0 if is_first else CONTEXT_LINES
    if len(lines) <= head + CONTEXT_LINES:
        yield from _same(lines, old, new)
        return
    hidden = len(lines) - head - CONTEXT_LINES
    yield from _same(lines[:head], old, new)
    yield DiffLine(kind="gap", text=str(hidden))
    yield from _same(lines[-CONTEXT_LINES:], old + head + hidden, new + head + hidden)


def _kept_at_end(lines: Sequence[str], old: int, new: int) -> Iterator[DiffLine]:
    yield from _same(lines[:CONTEXT_LINES], old, new)
    if len(lines) > CONTEXT_LINES:
        yield DiffLine(kind="gap", text=str(len(lines) - CONTEXT_LINES))


def _same(lines: Sequence[str], old: int, new: int) -> Iterator[DiffLine]:
    for place, line in enumerate(lines, 1):
        yield DiffLine(kind="same", text=line, before=old + place, after=new + place)


def _removed_lines(lines: Sequence[str], old: int) -> Iterator[DiffLine]:
    for place, line in enumerate(lines, 1):
        yield DiffLine(kind="removed", text=line, before=old + place)


def _added_lines(lines: Sequence[str], new: int) -> Iterator[DiffLine]:
    for place, line in enumerate(lines, 1):
        yield DiffLine(kind="added", text=line, after=new + place)
