"""``rye bundle create|verify|inspect``."""

from pathlib import Path
from typing import Any

import pytest

from lillux.signing import generate_keypair
from ryeos.items.yaml import parse_yaml
from tests.support.bundles import echo_tool
from tests.support.command_line import CommandLine, Stranger


@pytest.fixture
def maker(signer: CommandLine) -> CommandLine:
    """A user with two signed tools and a directive of cases beside one."""
    for name in ("upper", "lower"):
        path = signer.project / f".ai/tools/text/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(echo_tool("text", name), "utf-8")
    assert signer("sign", "tool:text/**", "--yes").status == 0
    return signer


def made(cli: CommandLine, *words: str) -> Any:  # noqa: ANN401 - JSON
    return cli("bundle", "create", *words, "--json").json


def folder(cli: CommandLine, name: str = "ada-tools") -> Path:
    return cli.project / name


def test_a_bundle_is_made_of_all_items_and_is_valid(maker: CommandLine) -> None:
    answer = made(maker, "ada-tools", "--release", "1.2.0", "--description", "Words")
    verified = maker("bundle", "verify", "ada-tools", "--json").json

    assert answer["items"] == ["tools/text/lower.yaml", "tools/text/upper.yaml"]
    assert (answer["bundle"], answer["version"]) == ("ada-tools", "1.2.0")
    assert verified["problems"] == []
    assert verified["covered_by"] == ["files.manifest", "manifest.yaml"]
    assert (verified["fingerprint"], verified["key_counts"]) == (answer["fingerprint"], True)


def test_items_of_a_bundle_can_be_chosen(maker: CommandLine) -> None:
    answer = made(maker, "ada-tools", "tool:text/upper", "text/upp*", "--out", "out/here")

    assert answer["items"] == ["tools/text/upper.yaml"]
    assert folder(maker, "out/here/public_key.pem").is_file()


def test_a_created_bundle_is_installed_and_runs(maker: CommandLine) -> None:
    made(maker, "ada-tools")
    installed = maker("bundle", "install", "./ada-tools")

    assert installed.status == 0, installed.stderr
    elsewhere = maker.project.parent / "elsewhere"
    elsewhere.mkdir()
    assert maker("run", "text/upper", cwd=elsewhere).stdout == "upper\n"


def test_other_programs_can_read_its_contents(maker: CommandLine) -> None:
    made(maker, "ada-tools", "--release", "1.2.0", "--entrypoint", "tool:text/upper")

    text = (folder(maker) / ".ai/bundles/ada-tools/manifest.yaml").read_text("utf-8")
    first, _, body = text.partition("\n")
    manifest = parse_yaml(body, "")
    assert first.startswith("# rye:signed:")
    assert manifest["bundle"]["entrypoint"] == "tool:text/upper"
    assert list(manifest["files"]) == [".ai/tools/text/lower.yaml", ".ai/tools/text/upper.yaml"]
    assert manifest["files"][".ai/tools/text/upper.yaml"]["inline_signed"] is True
    assert maker("verify", "ada-tools").status == 0


def test_a_file_that_another_user_changed_is_not_signed(maker: CommandLine) -> None:
    path = maker.project / ".ai/tools/text/upper.yaml"
    path.write_text(path.read_text("utf-8").replace("echo", "touch"), "utf-8")

    done = maker("bundle", "create", "ada-tools")

    assert done.status == 4
    assert [entry.name for entry in maker.project.iterdir()] == [".ai"]


def test_an_item_of_a_stranger_is_not_taken(maker: CommandLine) -> None:
    path = maker.project / ".ai/tools/text/other.yaml"
    path.write_text(echo_tool("text", "other"), "utf-8")

    assert maker("bundle", "create", "ada-tools").status == 4


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["ryeos-mine"], 2),
        (["../out"], 2),
        (["keys"], 4),
        (["ada-tools", "--release", "1"], 2),
        (["ada-tools", "text/none*"], 3),
        (["ada-tools", "tool:rye/bash/bash"], 2),
    ],
)
def test_an_invalid_bundle_is_not_made(maker: CommandLine, words: list[str], status: int) -> None:
    done = maker("bundle", "create", *words)

    assert done.status == status, done.stderr
    assert [entry.name for entry in maker.project.iterdir()] == [".ai"]


def test_an_existing_folder_is_not_written_to(maker: CommandLine) -> None:
    folder(maker).mkdir()

    assert maker("bundle", "create", "ada-tools").status == 1
    assert list(folder(maker).iterdir()) == []


def test_core_items_are_not_for_other_bundles(maker: CommandLine) -> None:
    path = maker.project / ".ai/tools/rye/mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(echo_tool("rye", "mine"), "utf-8")
    maker("sign", "tool:rye/mine")

    done = maker("bundle", "create", "ada-tools")

    assert done.status == 4
    assert "rye" in done.stderr
    assert not folder(maker).exists()


def test_every_difference_is_reported(maker: CommandLine) -> None:
    made(maker, "ada-tools")
    tools = folder(maker) / ".ai/tools/text"
    (tools / "upper.yaml").write_text("changed: true\n", "utf-8")
    (tools / "lower.yaml").unlink()
    (tools / "more.yaml").write_text("more: true\n", "utf-8")

    done = maker("bundle", "verify", "ada-tools", "--json")

    assert done.status == 1
    assert sorted(done.json["problems"]) == [
        "tools/text/lower.yaml: listed, and not there",
        "tools/text/more.yaml: not listed",
        "tools/text/upper.yaml: not what was signed",
    ]


def test_a_bundle_of_another_program_is_checked_by_its_own_manifest(maker: CommandLine) -> None:
    made(maker, "ada-tools", "--release", "1.2.0")
    (folder(maker) / "public_key.pem").unlink()
    (folder(maker) / ".ai/bundles/ada-tools/files.manifest").unlink()

    before = maker("bundle", "verify", "ada-tools", "--json").json
    path = folder(maker) / ".ai/tools/text/upper.yaml"
    path.write_text(path.read_text("utf-8") + "# more\n", "utf-8")
    after = maker("bundle", "verify", "ada-tools", "--json").json

    assert (before["covered_by"], before["version"]) == (["manifest.yaml"], "1.2.0")
    assert (before["problems"], before["key_counts"]) == ([], True)
    assert after["problems"] == ["tools/text/upper.yaml: not what was signed"]


def test_a_readable_manifest_of_a_stranger_does_not_count(
    maker: CommandLine, stranger: Stranger
) -> None:
    made(maker, "ada-tools")
    (folder(maker) / "public_key.pem").unlink()
    path = folder(maker) / ".ai/bundles/ada-tools/manifest.yaml"
    own = made_by(maker)
    path.write_text(path.read_text("utf-8").replace(own, stranger.fingerprint), "utf-8")

    answer = maker("bundle", "verify", "ada-tools", "--json").json

    said = f"signed by {stranger.fingerprint}, a key that is not trusted here"
    assert answer["problems"] == [f"bundles/ada-tools/manifest.yaml: {said}"]


def made_by(cli: CommandLine) -> str:
    fingerprint: str = cli("keys", "show", "--json").json["fingerprint"]
    return fingerprint


def test_another_key_than_the_expected_one_is_a_mismatch(
    maker: CommandLine, stranger: Stranger
) -> None:
    made(maker, "ada-tools")

    done = maker("bundle", "verify", "ada-tools", "--key", stranger.fingerprint)

    assert done.status == 4
    assert (
        "PIN_MISMATCH"
        in maker("bundle", "verify", "ada-tools", "--key", stranger.fingerprint, "--json").stdout
    )
    assert maker("bundle", "verify", "ada-tools", "--key", "nonsense").status == 2


def test_a_key_laid_beside_it_does_not_make_it_valid(maker: CommandLine) -> None:
    made(maker, "ada-tools")
    (folder(maker) / "public_key.pem").write_bytes(generate_keypair().public_pem)

    assert maker("bundle", "verify", "ada-tools").status == 4


def test_a_link_in_a_bundle_is_refused(maker: CommandLine) -> None:
    made(maker, "ada-tools")
    path = folder(maker) / ".ai/tools/text/upper.yaml"
    path.unlink()
    path.symlink_to("/etc/hostname")

    assert maker("bundle", "verify", "ada-tools").status == 4


def test_the_bundle_of_the_program_is_verified(maker: CommandLine) -> None:
    verified = maker("bundle", "verify", "ryeos", "--json").json
    inspected = maker("bundle", "inspect", "ryeos", "--json").json

    assert (verified["problems"], verified["key_counts"]) == ([], True)
    refs = {item["ref"]: item for item in inspected["items"]}
    assert refs["tool:rye/bash/bash"]["tool_type"] == "bash"
    assert inspected["kinds"]["tool"] > 10


def test_texts_of_a_bundle_are_shown_on_one_line(maker: CommandLine) -> None:
    made(maker, "ada-tools", "--description", "two\n\x1b[31mlines")

    shown = maker("bundle", "inspect", "ada-tools").stdout

    assert shown.splitlines()[0] == r"two \u001b[31mlines"
    assert "tool:text/upper  says who it is" in shown.splitlines()


def test_a_missing_folder_is_not_found(maker: CommandLine) -> None:
    assert maker("bundle", "verify", "nothing").status == 3
    folder(maker, "empty").mkdir()
    assert maker("bundle", "inspect", "empty").status == 4
