import zlib
from pathlib import Path

from packing.modules import MAX_BYTES, MIN_MODULES, dictionary
from tests.support.built import ROOT


def write(folder: Path, text: str, count: int) -> list[Path]:
    """So many files of one text."""
    paths = [folder / f"m{number}.py" for number in range(count)]
    for path in paths:
        path.write_text(text, "utf-8")
    return paths


def test_a_dictionary_has_the_words_of_many_modules(tmp_path: Path) -> None:
    text = "def often(name_of_it):\n    return name_of_it.attribute('a text')\n"

    words = dictionary(write(tmp_path, text, MIN_MODULES))

    assert {b"often", b"name_of_it", b"attribute", b"a text"} == set(_split(words))


def test_words_of_few_modules_are_left_out(tmp_path: Path) -> None:
    assert dictionary(write(tmp_path, "rare = 1\n", MIN_MODULES - 1)) == b""


def test_words_that_save_most_come_last(tmp_path: Path) -> None:
    paths = write(tmp_path, "short = much_longer = 1\n", MIN_MODULES)

    assert _split(dictionary(paths)) == [b"short", b"much_longer"]


def test_code_of_this_project_takes_less_with_it() -> None:
    sources = sorted((ROOT / "ryeos" / "cli").glob("*.py"))
    common = dictionary(sources)
    text = sources[0].read_bytes()

    deflate = zlib.compressobj(9, zdict=common)

    assert 0 < len(common) <= MAX_BYTES
    assert len(deflate.compress(text) + deflate.flush()) < len(zlib.compress(text, 9))


def _split(words: bytes) -> list[bytes]:
    found = []
    while words:
        size = words[1]
        found.append(words[2 : 2 + size])
        words = words[2 + size :]
    return found
