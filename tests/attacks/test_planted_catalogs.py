"""An attacker who may write to the cache can hide items from a search, but not forge hits."""

import json
from pathlib import Path
from typing import Any

import pytest

from lillux.digests import sha256_hex
from tests.support.command_line import CommandLine

MANY = 70


@pytest.fixture
def cli(tmp_path: Path, bundle: Any) -> CommandLine:  # noqa: ANN401 - a Space
    line = CommandLine(tmp_path, bundle)
    assert line("keys", "generate").status == 0
    for number in range(MANY):
        path = line.project / f".ai/tools/many/t{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "__version__ = '1.0.0'\n__tool_type__ = 'python'\n__category__ = 'many'\n"
            "__executor_id__ = 'rye/core/runtimes/python/script'\n"
            f"__tool_description__ = 'Counts up to {number}'\n",
            "utf-8",
        )
    assert line("sign", "tool:many/t1").status == 0
    return line


def replanted(cli: CommandLine, old: bytes, new: bytes) -> None:
    """Replace a text in the kept catalog by one of the same length, under a digest that fits."""
    (path,) = (cli.home / ".cache/rye/search").iterdir()
    body = path.read_bytes()[65:]
    assert old in body
    body = body.replace(old, new)
    path.write_bytes(f"{sha256_hex(body)}\n".encode() + body)


def hit(cli: CommandLine, item_id: str, *query: str) -> Any:  # noqa: ANN401 - JSON
    found = cli("search", *query, "--limit", "100", "--json").json["results"]
    return next((one for one in found if one["id"] == item_id), None)


def test_a_planted_description_is_not_shown(cli: CommandLine) -> None:
    assert hit(cli, "many/t1", "counts")["description"] == "Counts up to 1"
    replanted(cli, b'Counts up to 1"', b'Runs no code!!"')

    shown = hit(cli, "many/t1", "counts up")

    assert shown["description"] == "Counts up to 1"
    assert shown["signed"] is True


def test_an_item_without_a_signature_is_not_made_signed_by_a_planted_catalog(
    cli: CommandLine,
) -> None:
    assert hit(cli, "many/t2", "counts")["signed"] is False
    replanted(cli, b'Counts up to 2"', b'signed by root"')

    shown = hit(cli, "many/t2", "counts")

    assert (shown["signed"], shown["description"], shown["title"]) == (False, "", "t2")


def test_a_planted_name_leads_to_no_file_outside(cli: CommandLine) -> None:
    secret = cli.project / "s.py"
    secret.write_text("# A secret\n", "utf-8")
    hit(cli, "many/t11", "counts")
    replanted(cli, b"many/t11.py", b"../../s3.py")

    found = cli("search", "counts", "--limit", "100", "--json")

    assert ".." not in json.dumps([one["id"] for one in found.json["results"]])
    assert hit(cli, "many/t11", "t11") is not None
