"""Signature lines: their form in each file type, and the text they cover. Pure.

The formats, with examples and vectors, are in ``docs/signatures.md``. Nothing here checks a
signature: that is `ryeos.trust.verify`.

What a line does not cover is kept too small to matter: the time, the provenance, and the shebang.
So each of them may hold only plain characters. A text after the fingerprint could declare a Python
source encoding, a shebang with an exotic line separator could smuggle in a line of YAML.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.digests import sha256_hex
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.errors import NoSignatureFormError, SignatureFormatError
from ryeos.items.refs import Kind

if TYPE_CHECKING:
    from ryeos.items.refs import FileType

MAX_ITEM_BYTES = 8 * 1024 * 1024

CORE_PATTERN = (
    r"rye:signed:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
    r":([0-9a-f]{64}):([A-Za-z0-9_-]+={0,2}):([0-9a-f]{16})(\|[A-Za-z0-9_-]+@[A-Za-z0-9_-]+)?"
)
_COVERS = pattern(r"<!-- rye:covers:all:([0-9a-f]{64}):([A-Za-z0-9_-]+={0,2}):([0-9a-f]{16}) -->\n")
_CORE = pattern(CORE_PATTERN)
_PARTS = 4
_IDENTITY_WORD = "rye:item:"
_READ_AS_ENCODING = r"(?i)(?<=codin)g(?==|\Z)"
_SUFFIX_MARKS, _VERSION_MARKS = "_+-", ".+-"
_SHEBANG = pattern(r"#!/[^\n]*\n")
_PLAIN_SHEBANG = pattern(r"#!/[\t\x20-\x7e]*\n")
_ENCODING_DECLARATION = pattern(r"coding[:=](?!\s*utf-?8\b)", re.IGNORECASE)
_DIRECTIVE_START = "<directive"
_DIRECTIVE_END = "</directive>"
_FRONT_MATTER = "---"
_SIGNATURE_WORDS = ("rye:signed:", "rye:validated:", "kiwi-mcp:signed:", "kiwi-mcp:validated:")


@dataclass(frozen=True, slots=True)
class CommentForm:
    """The form of the line in a file type: comment prefix, comment end, place beside a shebang.

    ``is_added`` for a type that Rye does not know: what its language makes of a carriage return or
    of ``#!`` below the first line is not known either, so the one is refused, the other covered.
    """

    prefix: str
    end: str = ""
    after_shebang: bool = False
    is_added: bool = False


_HASH_TOOL = CommentForm("# ", after_shebang=True)
_HASH_CONFIG = CommentForm("# ")
_SLASHES = CommentForm("// ")
_MARKDOWN = CommentForm("<!-- ", " -->")

FORMS: dict[Kind, dict[str, CommentForm]] = {
    Kind.TOOL: {
        **dict.fromkeys((".py", ".yaml", ".yml", ".json", ".sh", ".toml"), _HASH_TOOL),
        **dict.fromkeys((".js", ".ts", ".mjs", ".cjs"), _SLASHES),
    },
    Kind.CONFIG: dict.fromkeys((".yaml", ".yml", ".toml", ".manifest"), _HASH_CONFIG),
    Kind.DIRECTIVE: {".md": _MARKDOWN},
    Kind.KNOWLEDGE: dict.fromkeys((".md", ".yaml", ".yml"), _MARKDOWN),
}
# JSON knows no comments: a line inside would break every other reader of the file.
DETACHED_SUFFIXES = frozenset({".json"})


def form_for(kind: Kind, suffix: str, where: str = "") -> CommentForm:
    """The form of the line for a kind and a lower-case suffix. Raises NoSignatureFormError."""
    try:
        return FORMS[kind][suffix]
    except KeyError:
        raise NoSignatureFormError(where, suffix) from None


def form_of(file_type: "FileType") -> CommentForm:
    """The form of the line in files of a type that a space has added."""
    end = f" {file_type.end}" if file_type.end else ""
    return CommentForm(f"{file_type.prefix} ", end, file_type.after_shebang, is_added=True)


def detached_path(path: Path) -> Path:
    """The path of a file's detached signature: ``data.json`` -> ``data.json.sig``."""
    return path.with_name(f"{path.name}.sig")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The fields of a ``rye:signed`` line.

    timestamp     UTC, whole seconds, ``2026-02-26T05:52:24Z``; not covered by the signature
    content_hash  64 hex digits: SHA-256 of the covered text
    value         base64url Ed25519 signature over those 64 ASCII characters
    fingerprint   16 hex digits naming the public key
    provenance    ``provider@user`` when a registry re-signed the item; not covered
    """

    timestamp: str
    content_hash: str
    value: str
    fingerprint: str
    provenance: str = ""

    def core(self) -> str:
        """The line without its comment marks."""
        tail = f"|{self.provenance}" if self.provenance else ""
        fields = (self.timestamp, self.content_hash, self.value, self.fingerprint)
        return f"rye:signed:{':'.join(fields)}{tail}"

    def line(self, form: CommentForm) -> str:
        """The whole line with its newline."""
        return f"{form.prefix}{self.core()}{form.end}\n"


@dataclass(frozen=True, slots=True)
class Covers:
    """The second line of a directive: a signature over everything below it."""

    content_hash: str
    value: str
    fingerprint: str

    def line(self) -> str:
        """The whole line with its newline."""
        return f"<!-- rye:covers:all:{self.content_hash}:{self.value}:{self.fingerprint} -->\n"


@dataclass(frozen=True, slots=True)
class Identity:
    """The item that a signature is for, named by the line below it, inside the covered text.

    suffix   without its dot
    version  that of the header, ``""`` where it names none
    """

    kind: str
    id: str
    suffix: str
    version: str = ""

    def core(self) -> str:
        """The line without its comment marks.

        Python takes ``coding:`` in the second line for its encoding, so ``g`` is ``%67`` there.
        """
        spelled = re.sub(_READ_AS_ENCODING, _percent, self.id.replace("%", "%25"))
        return f"{_IDENTITY_WORD}{self.kind}:{spelled}:{self.suffix}:{self.version}"

    def line(self, form: CommentForm, where: str) -> str:
        """The whole line with its newline. Raises SignatureFormatError for an id it cannot hold."""
        if parse_identity(self.core()) != self:
            raise SignatureFormatError(
                where,
                f"{self.id!r:.80} cannot be named in a rye:item line",
                hint="rename the file: no colons, no line ends",
            )
        return f"{form.prefix}{self.core()}{form.end}\n"

    def is_for(self, other: "Identity") -> bool:
        """True if both name the same item, in whatever version."""
        return (self.kind, self.id, self.suffix) == (other.kind, other.id, other.suffix)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedText:
    """A file's text taken apart. ``shebang`` + ``body`` is the file without Rye's lines.

    ``signature_first`` says that the signature line stands above the shebang. ``identity_line`` is
    the whole line with its newline, ``""`` where there is none; it is part of what is covered.
    """

    shebang: str
    signature: Signature | None
    covers: Covers | None
    body: str
    signature_first: bool = False
    identity_line: str = ""

    @property
    def covered(self) -> str:
        """The text below the signature lines."""
        return self.identity_line + self.body

    @property
    def identity(self) -> Identity | None:
        """The identity that the line names; None without one."""
        return parse_identity(self.identity_line)


def parse_identity(line: str) -> Identity | None:
    """The item that a line names, with comment marks or without; None where it names none.

    Without patterns: each run reads such a line, and compiling one takes longer.
    """
    _, _, core = line.rstrip("\n").partition(_IDENTITY_WORD)
    parts = core.split(":")
    if len(parts) != _PARTS or "\n" in core or "\r" in core:
        return None
    kind, spelled, suffix, tail = parts
    version = tail.partition(" ")[0]
    is_named = kind.isalpha() and spelled and _has_only(suffix, _SUFFIX_MARKS)
    if not is_named or not _has_only(version, _VERSION_MARKS):
        return None
    item_id = re.sub("%(25|47|67)", _character, spelled) if "%" in spelled else spelled
    return Identity(kind, item_id, suffix, version)


def _has_only(text: str, marks: str) -> bool:
    """True if a text has only ASCII letters, digits and these marks."""
    bare = text.translate(dict.fromkeys(map(ord, marks)))
    return text.isascii() and (not bare or bare.isalnum())


def _percent(match: re.Match[str]) -> str:
    return f"%{ord(match.group()):x}"


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def decode(data: bytes, where: str) -> str:
    """The text of an item file: UTF-8, line ends made line feeds. Raises SignatureFormatError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SignatureFormatError(
            where,
            f"expected UTF-8 text, found another byte at offset {error.start}",
            hint="save the file as UTF-8, then sign it again",
        ) from None
    if "\r" not in text:
        return text
    if where.lower().endswith(".sh"):
        raise SignatureFormatError(
            where,
            "carriage return in a shell script",
            hint="a shell reads it as part of a word, so other commands would run than were"
            " signed; save the file with LF line ends",
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def text_of(data: bytes, form: CommentForm, where: str) -> str:
    """Decode as `decode`, for a file whose line has this form. Raises SignatureFormatError."""
    if form.is_added and b"\r" in data:
        raise SignatureFormatError(
            where,
            "carriage return in a file of an added type",
            hint="it may end a line for one reader and not for another; save the file with LF"
            " line ends",
        )
    return decode(data, where)


def split(text: str, form: CommentForm, where: str) -> SignedText:
    """Take a normalised text apart. No signature line where one belongs means an unsigned text.

    Old, placeholder and left-over lines count as no signature, and are not part of the text either.
    Raises SignatureFormatError for a second signature line, for text behind the signature on its
    line, and for a shebang that is more than a program and its arguments.
    """
    shebang, rest = _take_shebang(text, where) if form.after_shebang else ("", text)
    signature, below = _take_signature(rest, form, where)
    has_line, rest = len(below) < len(rest), below
    signature_first = False
    if not shebang and form is not _MARKDOWN and not form.is_added:
        shebang, rest = _take_shebang(rest, where)
        signature_first = bool(shebang and signature)
    covers, rest = _take_covers(rest, form, where)
    identity_line, rest = _take_identity(rest, form, where)
    if (has_line or covers) and _starts_signed(rest, form):
        raise SignatureFormatError(
            where,
            "two signature lines, expected one",
            hint="delete both lines and sign the file again",
        )
    return SignedText(
        shebang=shebang,
        signature=signature,
        covers=covers,
        body=rest,
        signature_first=signature_first,
        identity_line=identity_line,
    )


def hashed_text(kind: Kind, signed: SignedText, where: str) -> str:
    """The part of the text that the signature's hash covers. Raises SignatureFormatError."""
    match kind:
        case Kind.TOOL | Kind.CONFIG:
            return signed.covered
        case Kind.DIRECTIVE:
            return _directive_block(signed.body, where)
        case Kind.KNOWLEDGE:
            covers = signed.covers.line() if signed.covers else ""
            return _after_front_matter(covers + signed.covered)


def content_hash(text: str) -> str:
    """Lower-case hex SHA-256 of a text in UTF-8."""
    return sha256_hex(text.encode("utf-8"))


def needs_covers(kind: Kind, body: str) -> bool:
    """True if the first line alone would leave part of the text uncovered."""
    if kind is Kind.DIRECTIVE:
        return True
    return kind is Kind.KNOWLEDGE and body.startswith(_FRONT_MATTER)


def compose(signed: SignedText, form: CommentForm) -> str:
    """The file's text with its signature lines in their places; the inverse of `split`."""
    signature = signed.signature.line(form) if signed.signature else ""
    covers = signed.covers.line() if signed.covers else ""
    if form.after_shebang and not signed.signature_first:
        return signed.shebang + signature + covers + signed.covered
    return signature + covers + signed.shebang + signed.covered


def parse_core(text: str) -> Signature | None:
    """The signature in a line without comment marks, or None if it has another shape."""
    match = _CORE.fullmatch(text)
    return _from_match(match) if match else None


def _take_shebang(text: str, where: str) -> tuple[str, str]:
    match = _SHEBANG.match(text)
    if not match:
        return "", text
    line = match.group()
    if not _PLAIN_SHEBANG.fullmatch(line) or _ENCODING_DECLARATION.search(line):
        raise SignatureFormatError(
            where,
            "the shebang line, which no signature covers, holds more than a program",
            hint="keep only plain ASCII and no encoding declaration on that line",
        )
    return line, text[match.end() :]


def _take_signature(text: str, form: CommentForm, where: str) -> tuple[Signature | None, str]:
    line, newline, rest = text.partition("\n")
    if not newline or not _is_signature_line(line, form):
        return None, text
    match = _CORE.match(line, len(form.prefix))
    if not match:
        return None, rest
    if not _ends_well(line[match.end() :], form):
        raise SignatureFormatError(
            where,
            "text behind the signature on its line, which no signature covers",
            hint="delete what follows the key's fingerprint on that line",
        )
    return _from_match(match), rest


def _is_signature_line(line: str, form: CommentForm) -> bool:
    words = (form.prefix + word for word in _SIGNATURE_WORDS)
    return any(line.startswith(word) and line != word for word in words)


def _ends_well(tail: str, form: CommentForm) -> bool:
    """A later format wrote longer fingerprints; more hex digits cannot do harm."""
    if form.end:
        return tail == form.end
    return not tail.strip("0123456789abcdef")


def _take_covers(text: str, form: CommentForm, where: str) -> tuple[Covers | None, str]:
    if form is not _MARKDOWN or not text.startswith("<!-- rye:covers:"):
        return None, text
    match = _COVERS.match(text)
    if not match:
        raise SignatureFormatError(
            where,
            "malformed rye:covers line",
            hint="delete the line and sign the file again",
        )
    return Covers(*match.groups()), text[match.end() :]


def _take_identity(text: str, form: CommentForm, where: str) -> tuple[str, str]:
    if not text.startswith(form.prefix + _IDENTITY_WORD):
        return "", text
    line, newline, rest = text.partition("\n")
    core = line[len(form.prefix) : len(line) - len(form.end)]
    identity = parse_identity(core)
    if not newline or not line.endswith(form.end) or not identity or identity.core() != core:
        raise SignatureFormatError(
            where,
            "malformed rye:item line",
            hint="delete the line and sign the file again",
        )
    return line + newline, rest


def _starts_signed(text: str, form: CommentForm) -> bool:
    """True if a whole line with a signature's beginning comes first, as for `_take_signature`."""
    shebang = _SHEBANG.match(text)
    start = shebang.end() if shebang else 0
    words = ("rye:signed:", "rye:covers:") if form is _MARKDOWN else ("rye:signed:",)
    begins = text.startswith(tuple(form.prefix + word for word in words), start)
    return begins and "\n" in text[start:]


def _from_match(match: re.Match[str]) -> Signature:
    timestamp, digest, value, fingerprint, provenance = match.groups()
    return Signature(
        timestamp=timestamp,
        content_hash=digest,
        value=value,
        fingerprint=fingerprint,
        provenance=(provenance or "")[1:],
    )


def _directive_block(text: str, where: str) -> str:
    start, end = text.find(_DIRECTIVE_START), text.rfind(_DIRECTIVE_END)
    if start < 0 or end < start or text.find(">", start) < 0:
        raise SignatureFormatError(
            where,
            "no <directive> block in the file",
            hint="a directive holds one XML block, <directive name=... version=...>",
        )
    return text[start : end + len(_DIRECTIVE_END)].strip()


def _after_front_matter(text: str) -> str:
    """Interoperable rule: the text below a ``---`` block, else all of it."""
    if not text.startswith(_FRONT_MATTER):
        return text
    end = text.find(_FRONT_MATTER, len(_FRONT_MATTER))
    return text if end < 0 else text[end + len(_FRONT_MATTER) :].strip()
