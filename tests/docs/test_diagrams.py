"""The diagrams of the documentation are drawn from their sources (scripts/draw_diagrams)."""

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.built import ROOT
from tests.support.programs import require_program

PICTURES = ROOT / "docs" / "pictures"
SOURCES = sorted(PICTURES.glob("*.dot"))


def words(svg: bytes) -> list[str]:
    """The texts of a picture; where they stand depends on the fonts of a machine."""
    texts = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 - ours
    return sorted("".join(text.itertext()) for text in texts)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_diagram_is_drawn_from_its_source(source: Path) -> None:
    dot = require_program("dot")

    drawn = subprocess.run([dot, "-Tsvg", source], capture_output=True, check=True).stdout

    assert words(drawn) == words(source.with_suffix(".svg").read_bytes())


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_page_shows_each_diagram(source: Path) -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]

    shown = [
        page.name
        for page in pages
        if re.search(rf"pictures/{source.stem}\.svg\)", page.read_text("utf-8"))
    ]

    assert shown
