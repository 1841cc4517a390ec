import sys
from pathlib import Path

import pytest

from lillux.signing import generate_keypair
from ryeos.trust.signing_key import SigningKey
from tests.support.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[3]


def test_where_names_every_place(signer: CommandLine) -> None:
    found = signer.json("self", "where")

    assert found == {
        "status": "success",
        "program": None,
        "python": sys.executable,
        "modules": str(ROOT),
        "cache": None,
        "bundle": str(signer.bundle.base),
        "user_space": str(signer.user_space.ai),
        "project": str(signer.project),
        "key_directory": str(signer.key_directory),
        "project_reason": "the current folder, without .ai yet",
        "other_bundles": [],
    }


def test_where_is_a_line_for_each_place(cli: CommandLine) -> None:
    lines = cli("self", "where", cwd=cli.home).stdout.splitlines()

    assert f"user space     {cli.user_space.ai}" in lines
    assert "project        -" in lines


def test_where_follows_the_settings(cli: CommandLine, tmp_path: Path) -> None:
    keys = str(tmp_path / "keys")

    found = cli.json("self", "where", "--user-space", str(tmp_path), RYE_SIGNING_KEY_DIR=keys)

    assert found["user_space"] == str(tmp_path / ".ai")
    assert found["key_directory"] == keys


@pytest.mark.parametrize("typed", ["where ", "were"])
def test_a_mistyped_action_gets_a_suggestion(cli: CommandLine, typed: str) -> None:
    refused = cli("self", typed)

    assert refused.status == 2
    assert refused.stderr.endswith("hint: did you mean: rye self where\n")


# --- without rye.pyz ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["clean"], "only rye.pyz keeps anything in a cache"),
        (["extract", "inside"], "the sources are there already"),
        (["verify"], "name a file: rye self verify FILE"),
    ],
)
def test_commands_about_the_file_report_that_no_file_runs(
    command: list[str], hint: str, cli: CommandLine
) -> None:
    refused = cli("self", *command)

    assert refused.status == 2
    assert refused.stderr == (
        f"error: not run from rye.pyz: the modules of this program are in {ROOT}\n  hint: {hint}\n"
    )
    assert list(cli.project.iterdir()) == []


def test_a_checkout_can_verify_a_file(cli: CommandLine, tmp_path: Path) -> None:
    key = SigningKey(generate_keypair())
    file, pem = tmp_path / "rye.pyz", tmp_path / "publisher.pem"
    file.write_bytes(b"a program")
    pem.write_bytes(key.public_pem)
    file.with_name("rye.pyz.sig").write_text(key.detached_line(b"a program"), "utf-8")

    valid = cli.json("self", "verify", file, "--key", pem)
    foreign = cli("self", "verify", file, "--json")

    assert (valid["signed_by"], valid["sha256_file"]) == (key.fingerprint, None)
    assert (foreign.status, foreign.json["code"]) == (4, "UNTRUSTED_KEY")
