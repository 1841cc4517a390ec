"""The hash rules of ``docs/signatures.md`` a second time, as plain operations on strings.

An oracle for property tests: shares no line with `ryeos.trust.signature`, uses no regular
expression for a rule in words, and raises no errors: a text that Rye refuses has a
hash here too.
"""

from hashlib import sha256

from ryeos.items.refs import Kind

HASH_PREFIX, SLASH_PREFIX = "# ", "// "
MARKDOWN_PREFIX = "<!-- "
SLASH_SUFFIXES = (".js", ".ts", ".mjs", ".cjs")
SIGNATURE_WORDS = tuple(
    f"{who}:{what}:" for who in ("rye", "kiwi-mcp") for what in ("validated", "signed")
)


def hash_by_the_rules(kind: Kind, suffix: str, data: bytes) -> str | None:
    """The hash that a signature line of this file must state; None where there is none."""
    text = "\n".join(data.decode("utf-8").replace("\r\n", "\n").split("\r"))
    covered = covered_by_the_rules(kind, suffix, text)
    return None if covered is None else sha256(covered.encode("utf-8")).hexdigest()


def covered_by_the_rules(kind: Kind, suffix: str, text: str) -> str | None:
    """The text that the hash is taken of."""
    if kind is Kind.DIRECTIVE:
        return _directive(text)
    if kind is Kind.KNOWLEDGE:
        return _knowledge(text)
    return _tool(text, SLASH_PREFIX if suffix in SLASH_SUFFIXES else HASH_PREFIX)


def _tool(text: str, prefix: str) -> str:
    """(1) set a shebang aside (2) drop one line (3) only if there was none, drop a shebang now."""
    shebang, rest = _cut_shebang(text)
    line, newline, below = rest.partition("\n")
    words = tuple(prefix + word for word in SIGNATURE_WORDS)
    if newline and any(line.startswith(word) and line != word for word in words):
        rest = below
    return rest if shebang else _cut_shebang(rest)[1]


def _cut_shebang(text: str) -> tuple[str, str]:
    line, newline, rest = text.partition("\n")
    return (line + newline, rest) if line.startswith("#!/") and newline else ("", text)


def _directive(text: str) -> str | None:
    """The first start tag to the last end tag, without the blanks around them."""
    start = text.find("<directive")
    if start < 0 or ">" not in text[start:] or "</directive>" not in text:
        return None
    end = text.rindex("</directive>")
    return text[start : end + len("</directive>")].strip() if end >= start else None


def _knowledge(text: str) -> str:
    """(1) drop one leading comment (2) what stands below a ``---`` block (3) else everything."""
    for word in SIGNATURE_WORDS:
        opening = MARKDOWN_PREFIX + word
        end = text.find(">")
        if text.startswith(opening) and text[:end].endswith("--") and text[end + 1 :][:1] == "\n":
            text = text[end + 2 :]
            break
    if text.startswith("---") and "---" in text[3:]:
        return text[3:].partition("---")[2].strip()
    return text
