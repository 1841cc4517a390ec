"""``rye skill``."""

import shutil
from pathlib import Path

from tests.support.command_line import CommandLine

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "imports" / "skills"


def test_a_folder_from_elsewhere_is_copied_and_listed(signer: CommandLine, tmp_path: Path) -> None:
    shutil.copytree(VECTORS / "release-notes", tmp_path / "got/release-notes")

    added = signer("skill", "add", str(tmp_path / "got/release-notes"), "--yes")
    listed = signer("skill", "list", "--json").json["skills"]

    assert added.status == 0, added.stderr
    assert [(one["name"], one["state"]) for one in listed] == [("release-notes", "valid")]
    script = signer.project / ".ai/skills/release-notes/scripts/commits.py"
    assert script.stat().st_mode & 0o111
    assert signer("run", "directive:skills/release_notes").status == 0


def test_a_folder_that_is_no_skill_is_named(signer: CommandLine) -> None:
    assert "expected a folder with a SKILL.md" in signer("skill", "add", ".").stderr
    assert signer("skill", "verify", "none").status == 3
    assert signer("skill", "verify").stdout == "no skills\n"


def test_a_directive_is_written_as_a_skill_and_overwrites_no_file(signer: CommandLine) -> None:
    signer("new", "directive", "mine/review_code")
    signer("sign", "directive:mine/review_code", "--yes")

    done = signer("skill", "export", "mine/review_code", "--to", "out")
    again = signer("skill", "export", "mine/review_code", "--to", "out")
    text = (signer.project / "out/review-code/SKILL.md").read_text("utf-8")

    assert done.status == 0, done.stderr
    assert text.startswith('---\nname: "review-code"\ndescription: "')
    assert again.status != 0
    assert "name another folder" in again.stderr


def test_an_unsigned_directive_is_not_exported(signer: CommandLine) -> None:
    signer("new", "directive", "mine/review_code")

    assert signer("skill", "export", "mine/review_code").status == 4
    assert not (signer.project / "review-code").exists()


def test_skills_of_the_home_folder_are_found_for_user_space(signer: CommandLine) -> None:
    shutil.copytree(VECTORS / "release-notes", signer.home / ".claude/skills/release-notes")

    done = signer("import", "--space", "user", "--yes", "--json").json

    assert [row["state"] for row in done["proposals"]] == ["signed"]
    found = signer("skill", "list", "--json").json["skills"]
    assert [one["space"] for one in found] == ["user"]
