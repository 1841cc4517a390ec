"""The product speaks plain English: words of our old dialect stay out of what people read.

A story of its own beside `tests.test_house`: it reads all texts of the tree, not its structure.
Why, and what to write instead: "How we write" in CONTRIBUTING.md.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What we do not say, and what a reader expects in its place.
DIALECT = {
    r"(?:no|any|some|every)body(?:'s)?": "name the person or program: a user, another process",
    r"who(?:m|so)?ever": "name the person or program: the caller, a user who",
    r"(?:is|are|was|were|be|been|being|not) told": "gets, reads, learns; or: X reports Y to Z",
    r"told (?:of|apart|by)": "reported, distinguished, recognised",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"harvest(?:s|ed|ing)?": "collect",
    r"(?:goes|going|gone|went) by(?! default)": "uses, follows, decides by",
    r"a thing that": "name the thing",
    r"and kin": "and similar",
    r"of its own accord": "by itself, automatically",
    r"lest": "so that ... not",
    r"thereof|therein|whence|thence|henceforth|hitherto": "say it in two sentences",
}
DIALECT_WORD = re.compile(rf"(?<![\w`])(?:{'|'.join(DIALECT)})(?![\w`])", re.IGNORECASE)

MADE = {"__pycache__", "node_modules", "target"}  # not written by us
QUOTES = ("'", '"', "`")
# A part of each entry of the table: most files have none, and are done with at a glance.
PARTS = (
    *("nobody", "anybody", "somebody", "everybody", "whoever", "whomever", "whosoever", "told"),
    *("mend", "harvest", "goes by", "going by", "gone by", "went by", "a thing that", "and kin"),
    *("of its own accord", "lest", "thereof", "therein", "whence", "thence", "henceforth"),
    "hitherto",
)

TEXTS = {".md", ".py", ".yaml", ".yml", ".html", ".rs", ".js", ".cjs", ".mjs", ".toml", ".sh"}
PRODUCT = ("bundle.ai", "lillux", "lillux_native", "packing", "rye_services", "ryeos", "zipboot")
PAGES = ("docs", "README.md", "GUIDE.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")


def texts(place: str) -> Iterator[Path]:
    """The files with words in a place of the checkout."""
    top = ROOT / place
    paths = sorted(top.rglob("*")) if top.is_dir() else [top]
    return (path for path in paths if path.suffix in TEXTS and not MADE & {*path.parts})


def found(path: Path) -> Iterator[str]:
    """``docs/trust.md:12: nobody``: each word of the dialect in a file."""
    text = path.read_text("utf-8")
    lower = text.lower()
    if not any(part in lower for part in PARTS):
        return
    for match in DIALECT_WORD.finditer(text):
        before, after = text[match.start() - 1 :][:1], text[match.end() :][:1]
        if before == after and before in QUOTES:
            continue  # a value or a name, not a sentence
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path.relative_to(ROOT).as_posix()}:{line}: {match[0]}"


@pytest.mark.parametrize("place", [*PRODUCT, *PAGES])
def test_product_and_pages_are_in_plain_words(place: str) -> None:
    dialect = [word for path in texts(place) for word in found(path)]

    assert dialect == []


def test_tests_have_plain_names() -> None:
    dialect = [
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path in texts("tests")
        for name in re.findall(
            r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE
        )
        if DIALECT_WORD.search(name.replace("_", " ").replace("bodys ", "body "))
    ]

    assert dialect == []
