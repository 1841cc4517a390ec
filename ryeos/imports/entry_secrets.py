"""Secrets in entries of clients, which become variables."""

import re
from collections.abc import Iterator, Sequence

from lillux.secret_names import says_secret
from ryeos.imports.launches import EntryError
from ryeos.imports.placeholders import VARIABLE_REFERENCE
from ryeos.imports.plan import MovedSecret

_SECRET_SHAPE = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|sk-|[srp]k_(?:live|test)_|xox[a-z]-|xapp-|AKIA|ASIA|AIza"
    r"|ya29\.|npm_|pypi-|dop_v1_|hf_|shpat_|lin_api_|ntn_|figd_|pat-|patt?[A-Za-z0-9]{10}|SG\."
    r"|eyJ[\w-]{8,}\.)[\w.-]{8,}|-----BEGIN "
)
_LONG = re.compile(r"[A-Za-z0-9+/=_.-]{20,}")
_IN_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*://[^/\s@]*:[^/\s@]+@|[?&#][^=\s]*=")
_HARMLESS = re.compile(
    r"true|false|on|off|yes|no|null|[0-9]{1,6}|[0-9]+\.[0-9]+|[a-z]{1,16}|[A-Z]{1,10}"
    r"|(?:~|\.{0,2}|[A-Za-z]:)[/\\][\w .@+~/\\-]*"
    r"|https?://[\w.-]+(?::\d+)?(?:/[\w.-]{0,20})*|[\w-]+(?:\.[\w-]+)+(?::\d+)?"
)
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):\s*(\S.*)")
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w-]*)=(.+)", re.DOTALL)
_OF_A_FILE = re.compile(r"(?i)(file|path|dir|folder|name|id|type|alg\w*)$")
_PLAIN_HEADERS = frozenset({"accept", "content-type", "user-agent", "accept-language"})


def is_secret(value: str, name: str = "") -> bool:
    """True if a value looks like a secret: by what it is called, or by what it looks like."""
    rest = VARIABLE_REFERENCE.sub("", value)
    if rest.strip().lower() in ("", "bearer", "basic", "token"):
        return False  # it is a reference already
    if _SECRET_SHAPE.search(rest) or _IN_ADDRESS.search(rest):
        return True
    if says_secret(name) and not _OF_A_FILE.search(name):
        return True
    return any(_is_random(found) for found in _LONG.findall(rest))


def _is_random(text: str) -> bool:
    """True if a long word mixes letters and digits as no name or path does."""
    words = re.split(r"[/=_.+-]", text)
    longest = max(words, key=len)
    has_both = any(c.isdigit() for c in longest) and any(c.isalpha() for c in longest)
    return len(longest) >= 20 and has_both  # noqa: PLR2004


class Secrets:
    """Collects what is taken out of one entry, and says which variable stands in its place."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._values: dict[str, str] = {}
        self.prompted_variables: list[str] = []

    @property
    def moved(self) -> tuple[MovedSecret, ...]:
        """The values, by their variables."""
        return tuple(MovedSecret(name, value) for name, value in self._values.items())

    def variable_for_prompt(self, name: str) -> str:
        """The variable for what a client asks its user for: there is no value of it yet."""
        variable = self._variable_named(name)
        if variable not in self.prompted_variables:
            self.prompted_variables.append(variable)
        return variable

    def move(self, value: str, name: str, where: str) -> str:
        """The placeholder for a value. Raises EntryError for one with placeholders in it."""
        if VARIABLE_REFERENCE.search(value):
            raise EntryError(f"{where}: a secret and a variable in one value; put both in one")
        for variable, known in self._values.items():
            if known == value:
                return f"${{{variable}}}"
        variable, number = self._variable_named(name), 1
        while variable in self._values:
            number += 1
            variable = f"{self._variable_named(name)}_{number}"
        self._values[variable] = value
        return f"${{{variable}}}"

    def variable_value(self, name: str, value: str, where: str) -> str:
        """A value of ``env``: only what is harmless stays in the text: step (3)."""
        if not is_secret(value, name) and (
            VARIABLE_REFERENCE.search(value) or _HARMLESS.fullmatch(value)
        ):
            return value
        return self.move(value, name, where) if VARIABLE_REFERENCE.sub("", value) else value

    def header_value(self, name: str, value: str, where: str) -> str:
        """A value of ``headers``; the word before a token stays."""
        rest = VARIABLE_REFERENCE.sub("", value).strip().lower()
        if name.lower() in _PLAIN_HEADERS or (
            VARIABLE_REFERENCE.search(value) and not is_secret(value)
        ):
            return value
        scheme, blank, token = value.partition(" ")
        if blank and scheme.lower() in ("bearer", "basic", "token") and token.strip():
            return f"{scheme} {self.move(token.strip(), name, where)}"
        return self.move(value, name, where) if rest else value

    def words(self, words: Sequence[str]) -> Iterator[str]:
        """The arguments, with placeholders for what looks like a secret."""
        flag = ""
        for number, word in enumerate(words):
            where = f"args[{number}]"
            assigned, header = _ASSIGNED.fullmatch(word), _HEADER.fullmatch(word)
            is_address = "://" in word
            if assigned and not is_address and is_secret(assigned[2], assigned[1]):
                yield f"{assigned[1]}={self.move(assigned[2], assigned[1], where)}"
            elif header and not is_address and is_secret(header[2], header[1]):
                value = self.header_value(header[1], header[2], where)
                yield word[: word.index(header[2])] + value
            elif not word.startswith("-") and is_secret(word, flag):
                yield self.move(word, flag or "arg", where)
            else:
                yield word
            flag = word if word.startswith("-") and "=" not in word else ""

    def address(self, url: str) -> str:
        """An address; secrets in its path and behind its question mark become placeholders."""
        start, mark, query = url.partition("?")
        scheme, slashes, rest = start.partition("://")
        if "@" in rest.partition("/")[0]:
            raise EntryError("url: a password in an address; send it as a header")
        host, *segments = rest.split("/")
        path = [
            self.move(part, "path", "url")
            if _is_random(part) or _SECRET_SHAPE.search(part)
            else part
            for part in segments
        ]
        pairs = (pair.partition("=") for pair in query.split("&")) if mark else ()
        kept = [
            f"{name}{equals}{self.move(value, name, 'url') if is_secret(value, name) else value}"
            for name, equals, value in pairs
        ]
        return f"{scheme}{slashes}{'/'.join([host, *path])}{mark}{'&'.join(kept)}"

    def _variable_named(self, name: str) -> str:
        plain = "".join(
            c if c.isascii() and c.isalnum() else "_" for c in f"MCP_{self._server}_{name}".upper()
        )
        return re.sub("__+", "_", plain).strip("_")[:100]
