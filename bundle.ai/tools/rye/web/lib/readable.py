"""Pages as texts: what a reader sees of HTML, in Markdown. Pure."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/web/lib"
__tool_description__ = "HTML as Markdown, and bytes as text"

# What is not text, or not the page's.
LEFT_OUT = "script style noscript template svg math iframe object canvas select textarea head"
LEFT_OUT = frozenset(LEFT_OUT.split())
BLOCKS = (
    "p div section article main header footer aside nav figure figcaption form fieldset address "
    "table tr ul ol dl dt dd blockquote details summary h1 h2 h3 h4 h5 h6 pre li"
)
BLOCKS = frozenset(BLOCKS.split())
VOID = "area base br col embed hr img input link meta source track wbr"
VOID = frozenset(VOID.split())
CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
MAX_DEPTH, MAX_LINKS_CHARS = 500, 1_000_000
# What stands before the text of a tag.
BEFORE = {f"h{level}": "#" * level + " " for level in range(1, 7)} | {
    "blockquote": "> ",
    "td": " | ",
    "th": " | ",
    "tr": "\n",
    "strong": "**",
    "b": "**",
}


def decoded(body: bytes, content_type: str) -> str:
    """Bytes as text: by the header, the page's own word, UTF-8; what does not fit is replaced."""
    said = re.search(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", content_type, re.IGNORECASE)
    name = said[1] if said else ""
    if not name and (found := CHARSET.search(body[:4_096])):
        name = found[1].decode("ascii")
    for encoding in filter(None, (name, "utf-8")):
        try:
            return body.decode(encoding, "strict" if encoding != name else "replace")
        except (LookupError, UnicodeError):
            continue
    return body.decode("cp1252", "replace")


def is_text(content_type: str, body: bytes) -> bool:
    """Whether a body is something to read."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith("text/") or kind.endswith(("+xml", "+json")):
        return True
    if kind in {
        "application/json",
        "application/xml",
        "application/javascript",
        "application/yaml",
    }:
        return True
    return kind in {"", "application/octet-stream"} and b"\0" not in body[:8_192]


def as_markdown(html: str, url: str) -> tuple:
    """The title of a page, and what it says."""
    page = Page(url)
    page.feed(html)
    page.close()
    text = "".join(page.parts)
    text = re.sub(r"(?<![ \t])[ \t]+\n", "\n", text)
    return " ".join(page.title.split()), re.sub(r"\n{3,}", "\n\n", text).strip()


class Page(HTMLParser):
    """Collects ``parts`` of Markdown while a page is read."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts, self.title = [], ""
        self._base, self._open = url, []
        self._hidden, self._pre, self._lists = 0, 0, []
        self._links, self._links_room = [], MAX_LINKS_CHARS

    def handle_starttag(self, tag: str, attrs: list) -> None:
        """A tag begins."""
        given = {name: value or "" for name, value in attrs}
        if tag == "base" and given.get("href"):
            self._base = urljoin(self._base, given["href"])
        if tag in VOID:
            self._void(tag, given)
            return
        if len(self._open) < MAX_DEPTH:
            self._open.append(tag)
        if tag in LEFT_OUT or "hidden" in given or given.get("aria-hidden") == "true":
            self._hidden = self._hidden or len(self._open)
        if not self._hidden:
            self._begin(tag, given)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        """A tag that ends at once; of HTML's own only those without content do."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """A tag ends; those in it that were left open with it."""
        if tag not in self._open:
            return
        while self._open:
            last = self._open.pop()
            if not self._hidden:
                self._end(last)
            if self._hidden > len(self._open):
                self._hidden = 0
            if last == tag:
                break

    def handle_data(self, data: str) -> None:
        """Text between tags."""
        if self._open and self._open[-1] == "title":
            self.title += data[:1_000]
        elif self._hidden:
            return
        elif self._pre:
            self.parts.append(data)
        else:
            text = re.sub(r"\s+", " ", data)
            if text == " " and (not self.parts or self.parts[-1].endswith(("\n", " "))):
                return
            self.parts.append(text.lstrip() if self._at_start() else text)

    def _at_start(self) -> bool:
        return not self.parts or self.parts[-1].endswith("\n")

    def _void(self, tag: str, given: dict) -> None:
        if self._hidden:
            return
        if tag == "br":
            self.parts.append("\n")
        elif tag == "hr":
            self.parts.append("\n\n---\n\n")
        elif tag == "img" and given.get("alt", "").strip():
            self.parts.append(f"![{' '.join(given['alt'].split())[:200]}]")

    def _begin(self, tag: str, given: dict) -> None:
        if tag in BLOCKS and tag not in {"li", "tr", "pre"}:
            self.parts.append("" if tag in {"ul", "ol"} and self._lists else "\n\n")
        if tag in {"ul", "ol"}:
            self._lists.append([tag, 0])
        elif tag == "li":
            self._item()
        elif tag == "pre":
            self._pre += 1
            self.parts.append("\n\n```\n")
        elif tag == "code" and not self._pre:
            self.parts.append("`")
        elif tag == "a":
            self._links.append((len(self.parts), given.get("href", "").strip()))
        elif tag in BEFORE:
            self.parts.append(BEFORE[tag])

    def _item(self) -> None:
        kind = self._lists[-1] if self._lists else ["ul", 0]
        kind[1] += 1
        mark = "-" if kind[0] == "ul" else f"{kind[1]}."
        self.parts.append("\n" + "  " * min(max(len(self._lists) - 1, 0), 10) + mark + " ")

    def _end(self, tag: str) -> None:
        if tag in {"ul", "ol"} and self._lists:
            self._lists.pop()
            self.parts.append("\n")
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self.parts.append("\n```\n\n")
        elif tag == "code" and not self._pre:
            self.parts.append("`")
        elif tag in {"strong", "b"}:
            self.parts.append("**")
        elif tag == "a" and self._links:
            self._link(*self._links.pop())
        elif tag in BLOCKS and tag not in {"li", "tr"}:
            self.parts.append("\n\n")

    def _link(self, start: int, href: str) -> None:
        label = " ".join("".join(self.parts[start:]).split())
        if not label or not href or href.startswith(("#", "javascript:", "data:")):
            return
        try:
            whole = urljoin(self._base, href)
        except ValueError:
            return
        # A long base makes each of many short links long: further ones are only their text.
        self._links_room -= len(whole)
        if self._links_room < 0:
            return
        del self.parts[start:]
        self.parts.append(f"[{label}]({whole})")
