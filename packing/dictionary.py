"""What many modules have in common, said once: a preset dictionary for deflating their code.

A module is a few kilobytes, too little for its own words to come back often. The dictionary holds
the names and texts that five modules or more use, those that save most at its end, where deflate
reaches them with the shortest references. Made from the sources, so that every builder's Python
makes the same one for every interpreter.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

MAX_BYTES = 32 * 1024 - 262  # what deflate can reach back to
MIN_MODULES = 5
MAX_WORD = 100
_SHORT_ASCII_INTERNED = 0xDA  # how `marshal` begins most of them, with the length behind it


def dictionary(sources: Iterable[Path]) -> bytes:
    """The dictionary for the modules of these files. Raises SyntaxError for one that is none."""
    modules = Counter[str]()
    for source in sources:
        modules.update(set(_words(ast.parse(source.read_bytes()))))
    saving = sorted(
        (count * len(word), word)
        for word, count in modules.items()
        if count >= MIN_MODULES and len(word) < MAX_WORD
    )
    return b"".join(_as_marshalled(word) for _, word in saving)[-MAX_BYTES:]


def _as_marshalled(word: str) -> bytes:
    data = word.encode("utf-8", "surrogatepass")
    return bytes((_SHORT_ASCII_INTERNED, len(data) & 0xFF)) + data


def _words(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=word)
                | ast.Attribute(attr=word)
                | ast.arg(arg=word)
                | ast.FunctionDef(name=word)
                | ast.ClassDef(name=word)
                | ast.alias(name=word)
                | ast.keyword(arg=str(word))
                | ast.ImportFrom(module=str(word))
                | ast.Constant(value=str(word))
            ):
                yield word
