import tomllib
from pathlib import Path

import pytest

from packing.crates import Crate, linked_crates, notices_text, spdx
from tests.support.programs import require_program

ROOT = Path(__file__).resolve().parents[2]


def crate(name: str, *notices: str) -> Crate:
    return Crate(
        name=name, version="1.0", licence="MIT", sha256="", users=("lillux-proc",), notices=notices
    )


@pytest.mark.parametrize(
    ("stated", "licence"),
    [("MIT", "MIT"), ("MIT OR Apache-2.0", "MIT OR Apache-2.0"), ("A/B", "A OR B")],
)
def test_a_licence_is_reported_in_the_words_of_spdx(stated: str, licence: str) -> None:
    assert spdx(stated) == licence


def test_a_text_that_several_crates_have_is_there_once() -> None:
    text = notices_text([crate("a", "one"), crate("b", "two"), crate("c", "one")])

    assert text == "a 1.0: MIT\nc 1.0: MIT\n\none\n\nb 1.0: MIT\n\ntwo\n"


def test_without_cargo_no_crates_are_known() -> None:
    assert linked_crates(ROOT, cargo="/no/such/cargo") == ()


def test_every_crate_that_is_linked_is_locked_and_has_a_licence_and_its_text() -> None:
    found = linked_crates(ROOT, cargo=str(require_program("cargo")))

    lock = tomllib.loads((ROOT / "lillux_native" / "Cargo.lock").read_text("utf-8"))
    locked = {(one["name"], one["version"], one.get("checksum")) for one in lock["package"]}
    assert {(one.name, one.version, one.sha256) for one in found} <= locked
    assert [one.name for one in found if not one.notices or "/" in one.licence] == []


def test_crates_for_builds_or_tests_are_not_linked() -> None:
    found = linked_crates(ROOT, cargo=str(require_program("cargo")))

    names = {one.name for one in found}
    assert {"lexopt", "rusqlite", "serde"} <= names
    assert names.isdisjoint({"cc", "serde_derive", "syn", "tempfile", "lillux-proc"})
