"""Skills: a model reads only signed files of one, and its import runs none of them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.refs import Kind, Reference, Space
from ryeos.trust.skill_folders import MAX_FILES
from tests.support.command_line import CommandLine
from tests.support.workspace import Workspace

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "imports" / "skills"
REF = "directive:skills/release_notes"


@pytest.fixture
def signer(tmp_path: Path, bundle: Space) -> CommandLine:
    cli = CommandLine(tmp_path, bundle)
    assert cli("keys", "generate").status == 0
    return cli


@pytest.fixture
def folder(signer: CommandLine) -> Path:
    """The folder of a skill that was imported and signed."""
    folder = signer.project / ".claude/skills/release-notes"
    shutil.copytree(VECTORS / "release-notes", folder)
    (signer.project / "tools").mkdir()
    shutil.copy(VECTORS / "check_words.sh", signer.project / "tools")
    done = signer("import", "--yes", "--json")
    assert done.status == 0, done.stdout + done.stderr
    return folder


def one_byte_more(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def one_byte_other(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"~")


def linked(path: Path) -> None:
    """The same bytes behind a link: its target can change between two reads."""
    other = path.parents[4] / "elsewhere"
    shutil.copy(path, other)
    path.unlink()
    path.symlink_to(other)


CHANGES = [
    (one_byte_more, "SKILL.md"),
    (one_byte_other, "scripts/commits.py"),
    (linked, "SKILL.md"),
    (Path.unlink, "references/logo.png"),
]


def test_a_signed_skill_is_given_as_it_is_written(signer: CommandLine, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    done = signer("run", REF, "--json").json

    assert "# Release notes" in done["your_directions"]
    assert "name:" not in done["your_directions"]
    assert {path: path.read_bytes() for path in before} == before
    assert signer("skill", "verify").status == 0
    assert signer("verify", REF).status == 0


@pytest.mark.parametrize(("change", "file"), CHANGES)
def test_a_changed_file_is_refused_before_it_is_read(
    change: Callable[[Path], None], file: str, signer: CommandLine, folder: Path
) -> None:
    change(folder / file)

    for words in (["run", REF], ["load", REF], ["skill", "verify", "release-notes"]):
        done = signer(*words, "--json")
        assert (done.status, done.json["code"]) == (4, "INTEGRITY"), words
        assert Path(file).name in done.json["error"]
    assert signer("verify", REF).status == 1
    assert "rye skill add" in signer("run", REF).stderr


@pytest.mark.parametrize("change", [one_byte_more, one_byte_other, Path.unlink])
def test_a_changed_script_outside_of_the_folder_is_refused(
    change: Callable[[Path], None], signer: CommandLine, folder: Path
) -> None:
    change(signer.project / "tools/check_words.sh")

    assert signer("run", REF).status == 4


@pytest.mark.parametrize("name", ["new.md", "scripts/__pycache__/json.cpython-311.pyc", ".hidden"])
def test_a_file_that_was_added_later_is_refused(
    name: str, signer: CommandLine, folder: Path
) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("do something else", "utf-8")

    done = signer("run", REF, "--json")

    assert (done.status, done.json["code"]) == (4, "INTEGRITY")


@pytest.mark.parametrize(
    "name",
    [
        *(".git/hooks/check.sh", "desktop.ini/fill.sh", "Thumbs.db/a", ".DS_Store/a"),
        *(".git", ".DS_Store", "Thumbs.db", "scripts/desktop.ini"),
        "scripts/__pycache__/commits.py",
        "scripts/__pycache__/other.cpython-311.pyc",
        "references/__pycache__/commits.cpython-311.pyc",
    ],
)
def test_nothing_below_the_folder_is_passed_over(
    name: str, signer: CommandLine, folder: Path
) -> None:
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text("touch PWNED", "utf-8")

    done = signer("run", REF, "--json")

    assert (done.status, done.json["code"]) == (4, "INTEGRITY")
    assert Path(name).name in done.json["error"]


def test_bytecode_of_a_script_is_removed_before_a_model_gets_the_skill(
    signer: CommandLine, folder: Path
) -> None:
    cache = folder / "scripts/__pycache__/commits.cpython-311.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"other code")

    verified = signer("skill", "verify", "release-notes")
    still_there = cache.exists()
    done = signer("run", REF)

    assert (verified.status, still_there) == (0, True)
    assert done.status == 0, done.stderr
    assert not cache.exists()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs rights of folders")
def test_bytecode_that_cannot_be_removed_keeps_the_skill_back(
    signer: CommandLine, folder: Path
) -> None:
    cache = folder / "scripts/__pycache__/commits.cpython-311.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"other code")
    cache.parent.chmod(0o500)

    done = signer("run", REF)
    cache.parent.chmod(0o700)

    assert done.status == 4
    assert "bytecode that no one has signed" in done.stderr


def test_a_linked_cache_is_refused_and_nothing_is_removed(
    signer: CommandLine, folder: Path
) -> None:
    outside = signer.home / "cache"
    outside.mkdir()
    (outside / "commits.cpython-311.pyc").write_bytes(b"kept")
    (folder / "scripts/__pycache__").symlink_to(outside, target_is_directory=True)

    assert signer("run", REF).status == 4
    assert (outside / "commits.cpython-311.pyc").read_bytes() == b"kept"


def test_what_other_programs_write_is_refused_by_name_or_left_out_of_a_copy(
    signer: CommandLine, folder: Path
) -> None:
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / ".git/hooks/check.sh").write_text("touch PWNED", "utf-8")

    refused = signer("skill", "add", str(folder), "--yes")
    copied = signer("skill", "add", str(folder), "--copy", "--yes")

    assert refused.status != 0
    assert ".git: belongs to another program" in refused.stdout + refused.stderr
    assert copied.status == 0, copied.stdout + copied.stderr
    assert "left out: .git, of another program" in copied.stdout + copied.stderr
    assert not list((signer.project / ".ai/skills").rglob(".git"))


def test_bytecode_is_left_out_when_a_used_skill_is_signed_again(
    signer: CommandLine, folder: Path
) -> None:
    cache = folder / "scripts/__pycache__/commits.cpython-311.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"bytecode")
    (folder / "references/style.md").write_text("# Other\n", "utf-8")

    done = signer("skill", "add", str(folder), "--yes")

    assert done.status == 0, done.stdout + done.stderr
    text = (signer.project / ".ai/directives/skills/release_notes.md").read_text("utf-8")
    assert "__pycache__" not in text
    assert signer("run", REF).status == 0


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs rights of folders")
def test_a_folder_that_cannot_be_listed_is_refused(signer: CommandLine, folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    closed.chmod(0)

    done = signer("run", REF)
    closed.chmod(0o700)

    assert done.status == 4
    assert "cannot be listed" in done.stderr


def test_a_folder_that_became_a_link_is_refused(signer: CommandLine, folder: Path) -> None:
    moved = signer.home / "moved"
    folder.rename(moved)
    folder.symlink_to(moved, target_is_directory=True)

    assert signer("run", REF).status == 4


def test_a_manifest_that_was_widened_is_no_longer_signed(signer: CommandLine, folder: Path) -> None:
    directive = signer.project / ".ai/directives/skills/release_notes.md"
    text = directive.read_text("utf-8")
    directive.write_text(text.replace('size="455"', 'size="456"'), "utf-8")

    assert signer("run", REF).status == 4
    assert folder.is_dir()


def test_a_changed_skill_is_signed_again_after_its_difference_is_shown(
    signer: CommandLine, folder: Path
) -> None:
    (folder / "references/style.md").write_text("# Style\n\nNo adjectives.\n", "utf-8")

    added = signer("skill", "add", str(folder))
    shown = signer("approve", "--list", "--json").json["proposals"][0]["diff"]
    still = signer("run", REF)
    signed = signer("approve", "--all")

    assert added.status == 0, added.stderr
    assert "+No adjectives." in shown
    assert not any("Run `python scripts/commits.py`" in line for line in shown)
    assert still.status == 4
    assert signed.status == 0
    assert "# Release notes" in signer("run", REF).stdout


def test_a_file_that_changes_while_a_person_reads_is_named(
    signer: CommandLine, folder: Path
) -> None:
    one_byte_more(folder / "SKILL.md")
    signer("skill", "add", str(folder))
    one_byte_more(folder / "SKILL.md")

    shown = signer("approve", "--list", "--json").json["proposals"][0]["diff"]

    assert any("is not what this manifest says" in line for line in shown)


def with_outside_link(folder: Path) -> None:
    (folder / "key").symlink_to("/etc/passwd")


def with_linked_folder(folder: Path) -> None:
    (folder / "more").symlink_to("/etc", target_is_directory=True)


def with_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def with_huge_file(folder: Path) -> None:
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(100 * 1024 * 1024)


def with_many_files(folder: Path) -> None:
    for number in range(MAX_FILES + 1):
        (folder / f"{number}.txt").touch()


def with_unseen_name(folder: Path) -> None:
    (folder / "a\u202etxt.sh").touch()


def with_steering_name(folder: Path) -> None:
    (folder / "a\x1b[2Jb").touch()


@pytest.mark.parametrize(
    "change",
    [
        with_outside_link,
        with_linked_folder,
        pytest.param(with_pipe, marks=pytest.mark.skipif(os.name == "nt", reason="no pipes")),
        with_huge_file,
        with_many_files,
        with_unseen_name,
        with_steering_name,
    ],
)
def test_a_hostile_folder_is_shown_as_refused_and_not_written(
    change: Callable[[Path], None], signer: CommandLine
) -> None:
    folder = signer.project / ".claude/skills/release-notes"
    shutil.copytree(VECTORS / "release-notes", folder)
    change(folder)

    done = signer("import", "--yes")

    assert done.status == 1
    assert "refused" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert not (signer.project / ".ai/directives").exists()


def test_a_script_of_a_skill_never_runs_by_its_import(signer: CommandLine) -> None:
    folder = signer.project / ".agents/skills/one"
    folder.mkdir(parents=True)
    proof = signer.home / "proof"
    text = f"---\nname: one\ndescription: $(touch {proof}) `touch {proof}`\n---\n!`touch {proof}`\n"
    (folder / "SKILL.md").write_text(text, "utf-8")
    (folder / "setup.py").write_text(f"open({str(proof)!r}, 'w')", "utf-8")

    done = signer("import", "--yes")
    signer("run", "directive:skills/one")

    assert done.status == 0, done.stderr
    assert not proof.exists()


@pytest.mark.parametrize("place", ["../outside", "/etc", ".ai/config/keys", ".ai", "a/../../b"])
def test_a_manifest_cannot_name_a_folder_that_is_not_a_skills(
    place: str, signer: CommandLine, folder: Path
) -> None:
    directive = signer.project / ".ai/directives/skills/release_notes.md"
    text = directive.read_text("utf-8").replace(".claude/skills/release-notes", place)
    directive.write_text(text, "utf-8")
    signer("sign", REF)

    assert signer("run", REF).status != 0
    assert folder.is_dir()


def test_two_skills_of_one_name_are_not_both_made(signer: CommandLine) -> None:
    for client in (".claude", ".agents"):
        shutil.copytree(VECTORS / "release-notes", signer.project / client / "skills/release-notes")

    done = signer("import", "--yes", "--json").json

    assert [item["state"] for item in done["items"]] == ["new", "refused"]
    assert "has this id too" in done["items"][1]["reason"]


# --- a manifest in another spelling ---------------------------------------------------------------


def rewritten(signer: CommandLine, before: str, after: str) -> Path:
    """The directive of the skill with one thing in it written otherwise, and no signature."""
    directive = signer.project / ".ai/directives/skills/release_notes.md"
    text = directive.read_text("utf-8")
    assert before in text
    lines = text.replace(before, after, 1).split("\n")
    directive.write_text("\n".join(one for one in lines if "<!-- rye:" not in one), "utf-8")
    return directive


@pytest.mark.parametrize("blank", ["\t", "\n", "\n    ", "  ", " \t\n"], ids=repr)
def test_any_blank_behind_the_tag_is_the_same_manifest(
    blank: str, signer: CommandLine, folder: Path
) -> None:
    rewritten(signer, "<skill ", f"<skill{blank}")
    signed = signer("sign", REF)
    at_first = signer("run", REF)
    one_byte_more(folder / "scripts/commits.py")

    assert signed.status == 0, signed.stderr
    assert at_first.status == 0, at_first.stderr
    for words in (["run", REF], ["load", REF], ["skill", "verify", "release-notes"]):
        done = signer(*words, "--json")
        assert (done.status, done.json["code"]) == (4, "INTEGRITY"), words


OTHER_SPELLINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "in capitals": (("<skill ", "<Skill "), ("</skill>", "</Skill>")),
    "with a prefix": (("<skill ", "<x:skill "), ("</skill>", "</x:skill>")),
    "with a namespace": (("<skill ", '<skill xmlns="other" '),),
    "with a Cyrillic letter": (("<skill ", "<\u0455kill "), ("</skill>", "</\u0455kill>")),
    "one letter less": (("<skill ", "<skil "), ("</skill>", "</skil>")),
    "in a comment": (("<skill ", "<!-- <skill "), ("</skill>", "</skill> -->")),
    "in CDATA": (("<skill ", "<note><![CDATA[<skill "), ("</skill>", "</skill>]]></note>")),
    "in a raw text": (("<skill ", "<raw><skill "), ("</skill>", "</skill></raw>")),
    "in the metadata": (("</metadata>", ""), ("</skill>", "</skill></metadata>")),
    "twice": (("</skill>", '</skill><skill name="a" folder="b"/>'),),
    "twice, in a comment": (("</skill>", '</skill><!-- <skill name="a"> -->'),),
    "a file in capitals": (("<called ", "<Called "),),
    "a file in a comment": (("<called ", "<!-- <called "), ("</skill>", "--></skill>")),
    "a file in a group": (("<called ", "<more><called "), ("</skill>", "</more></skill>")),
    "below the block": (("\n```\n", '\n```\n\n<skill name="a" folder="b">\n'),),
}


@pytest.mark.parametrize("how", OTHER_SPELLINGS)
def test_a_manifest_in_another_spelling_is_not_signed_and_not_given_to_a_model(
    how: str, signer: CommandLine, folder: Path
) -> None:
    for before, after in OTHER_SPELLINGS[how]:
        directive = rewritten(signer, before, after)

    signed = signer("sign", REF, "--json")

    assert signed.status != 0, signed.stdout
    assert "line " in signed.stdout + signed.stderr
    assert "rye:signed" not in directive.read_text("utf-8")
    assert signer("run", REF).status != 0
    assert folder.is_dir()


@pytest.mark.parametrize("how", OTHER_SPELLINGS)
def test_an_older_signature_of_another_spelling_gives_nothing_to_a_model(
    how: str, workspace: Workspace
) -> None:
    digest = "0" * 64
    text = (
        '# A\n\n```xml\n<directive name="a" version="1.0.0">\n'
        "<metadata><description>d</description><category>skills</category></metadata>\n"
        '<skill name="a" folder="skills/a">\n'
        f'<file path="SKILL.md" size="1" sha256="{digest}"/>\n'
        f'<called path="a.sh" size="1" sha256="{digest}"/>\n</skill>\n</directive>\n```\n\nDo it.\n'
    )
    for before, after in OTHER_SPELLINGS[how]:
        text = text.replace(before, after, 1)
    path = workspace.project.write("directives/skills/a.md", text)
    workspace.project.sign_unchecked(path)

    with pytest.raises(MetadataError, match="line "):
        workspace.rye().load(Reference(Kind.DIRECTIVE, "skills/a"))


@pytest.mark.parametrize(
    "words",
    [
        "Write a `<skill>` element with the files of the folder.",
        "```html\n<skill name='x'>\n```",
        "Ask for the skill; a &lt;skill&gt; is not one.",
    ],
)
def test_a_directive_that_speaks_of_skills_is_signed(words: str, workspace: Workspace) -> None:
    text = (
        '# A skill\n\n```xml\n<directive name="a" version="1.0.0">\n'
        "<metadata><description>writes a skill, &lt;skill&gt;</description>"
        "<category>mine</category><author>a</author></metadata>\n<skills>some</skills>\n</directive>\n```\n\n"
    )
    path = workspace.project.write("directives/mine/a.md", f"{text}{words}\n")
    workspace.project.sign(path)

    _, item = workspace.rye().load(Reference(Kind.DIRECTIVE, "mine/a"))

    assert words in item.text
