"""Imported tasks: an import runs none, and values of a caller reach no shell as code."""

import shutil
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from ryeos.app.review import review_of
from ryeos.items.errors import ItemValidationError
from ryeos.items.refs import Space
from ryeos.trust.sign_targets import read_item
from tests.support.command_line import CommandLine
from tests.support.programs import require_program
from tests.support.workspace import Workspace

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "imports" / "tasks"


@pytest.fixture
def signer(tmp_path: Path, bundle: Space) -> CommandLine:
    cli = CommandLine(tmp_path, bundle)
    assert cli("keys", "generate").status == 0
    for file in VECTORS.iterdir():
        shutil.copy(file, cli.project)
    return cli


CALLS = [
    ("make", "Makefile", "tasks/make/test", "mode=slow", "testing slow", "parts.mk"),
    ("npm", "package.json", "tasks/npm/build", 'args:=["x"]', "built x", "package.json"),
    ("just", "justfile", "tasks/just/build", "target=x", "building x", "more.just"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_a_task_is_imported_run_changed_and_refused(
    call: tuple[str, ...], signer: CommandLine
) -> None:
    program, file, ref, word, said, part = call
    require_program(program)
    made = signer("import", file, "--yes", "--json")
    ran = signer("run", ref, word)
    place = signer.project / part
    place.write_bytes(place.read_bytes() + b"\n")
    refused = signer("run", ref, word)

    assert made.status == 0, made.stdout + made.stderr
    assert said in ran.stdout, ran.stderr
    assert refused.status == 1
    assert f"{part}: changed since it was signed" in refused.stderr


@pytest.mark.parametrize(
    ("program", "ref", "word"),
    [
        ("make", "tasks/make/test", "mode=$(shell touch proof)"),
        ("make", "tasks/make/test", "mode=x; touch proof"),
        ("npm", "tasks/npm/build", 'args:=["$(touch proof)"]'),
        ("npm", "tasks/npm/build", 'args:=["x\\ntouch proof"]'),
        ("just", "tasks/just/build", "target=x; touch proof"),
        ("just", "tasks/just/build", "target=`touch proof`"),
    ],
)
def test_values_of_a_caller_are_no_commands(
    program: str, ref: str, word: str, signer: CommandLine
) -> None:
    require_program(program)
    signer("import", "--from", "task", "--yes")

    done = signer("run", ref, word)

    assert done.status == 1
    assert "expected letters" in done.stderr
    assert not (signer.project / "proof").exists()


def test_an_import_runs_no_task_and_evaluates_nothing(signer: CommandLine) -> None:
    proof = signer.project / "proof"
    (signer.project / "Makefile").write_text(
        f"X := $(shell touch {proof})\n!include x\nall:\n\ttouch {proof}\n", "utf-8"
    )
    (signer.project / "justfile").write_text(
        f"x := `touch {proof}`\nexport Y := shell('touch {proof}')\na:\n    touch {proof}\n",
        "utf-8",
    )
    (signer.project / "mise.toml").write_text(
        f"[env]\nX = \"{{{{exec(command='touch {proof}')}}}}\"\n[tasks.a]\nrun = 'touch {proof}'\n",
        "utf-8",
    )

    done = signer("import", "--yes")

    assert done.status == 0, done.stderr
    assert not proof.exists()


def test_descriptions_steer_no_terminal(signer: CommandLine) -> None:
    (signer.project / "Makefile").write_text("all: ## a\x1b[2Jb\u202ec\n\techo\n", "utf-8")
    (signer.project / "package.json").write_text(
        '{"scripts": {"a": "echo \\u001b[2J", "\\u001b[2J": "x"}}', "utf-8"
    )

    done = signer("import", "--yes")

    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr


def test_a_huge_file_is_not_read(signer: CommandLine) -> None:
    for name in ("package.json", "Makefile", "justfile", "mise.toml"):
        with (signer.project / name).open("wb") as file:
            file.truncate(100 * 1024 * 1024)
        assert signer("import", name).status == 6


def test_names_that_differ_in_case_alone_are_not_both_made(signer: CommandLine) -> None:
    (signer.project / "Makefile").write_text("all:\n\techo\nAll:\n\techo\n", "utf-8")

    done = signer("import", "Makefile", "--yes", "--json").json

    assert [item["state"] for item in done["items"]] == ["new", "refused"]


# --- lists of files in another spelling -----------------------------------------------------------

DIGEST = sha256_hex(b"honest\n")
ROW = f'("run.sh", "{DIGEST}")'
HEADER = (
    '__version__ = "1.0.0"\n__tool_type__ = "python"\n'
    '__executor_id__ = "rye/core/runtimes/python/script"\n__category__ = "mine"\n'
    '__tool_description__ = "d"\n'
)
SAME_LISTS = {
    "as it is imported": f"FILES = [{ROW}]\n",
    "without blanks": f"FILES=[{ROW}]\n",
    "with a type": f"FILES: list = [{ROW}]\n",
    "as a tuple": f"FILES = ({ROW},)\n",
    "on two lines": f"FILES = [\n    {ROW},\n]\n",
    "with a comment": f"FILES = [{ROW}]  # mine\n",
    "in full-width letters": f"\uff26\uff29\uff2c\uff25\uff33 = [{ROW}]\n",
    "behind a semicolon": f"x = 1; FILES = [{ROW}]\n",
}
OTHER_LISTS = {
    "in a branch": f"if True:\n    FILES = [{ROW}]\n",
    "computed": f"FILES = list([{ROW}])\n",
    "with another name": f"FILES = OTHER = [{ROW}]\n",
    "of mappings": f'FILES = [{{"path": "run.sh", "sha256": "{DIGEST}"}}]\n',
    "as a mapping": f'FILES = {{"run.sh": "{DIGEST}"}}\n',
    "appended": f"FILES = []\nFILES.append({ROW})\n",
    "added": f"FILES = []\nFILES += [{ROW}]\n",
    "by its name": f'globals()["FILES"] = [{ROW}]\n',
    "by a walrus": f"print(FILES := [{ROW}])\n",
    "twice": f"FILES = [{ROW}]\nFILES = [{ROW}]\n",
    "replaced": f"FILES = [{ROW}]\nFILES = []\n",
    "changed": f"FILES = [{ROW}]\nFILES[0] = 1\n",
    "extended": f"FILES = [{ROW}]\nFILES.extend([])\n",
    "by a loop": f"FILES = [{ROW}]\nfor FILES in []:\n    pass\n",
    "imported": f"FILES = [{ROW}]\nfrom os import name as FILES\n",
    "replaced by its name": f'FILES = [{ROW}]\nglobals()["FILES"] = []\n',
}


@pytest.mark.parametrize("how", SAME_LISTS)
def test_the_files_of_a_tool_are_shown_however_its_list_is_written(
    how: str, workspace: Workspace
) -> None:
    (workspace.project_path / "run.sh").write_bytes(b"honest\n")
    path = workspace.project.write("tools/mine/x.py", HEADER + SAME_LISTS[how])

    review = review_of(workspace.rye(), read_item(workspace.project.target(path)))

    assert [(one.path, one.data) for one in review.files] == [("run.sh", b"honest\n")]
    assert workspace.project.sign(path).error is None


@pytest.mark.parametrize("how", OTHER_LISTS)
def test_a_list_of_files_that_is_not_one_literal_is_not_signed(
    how: str, workspace: Workspace
) -> None:
    path = workspace.project.write("tools/mine/x.py", HEADER + OTHER_LISTS[how])

    with pytest.raises(ItemValidationError, match=r"line [67]: FILES .*; write FILES = \["):
        workspace.project.sign(path)


@pytest.mark.parametrize(
    "text",
    [
        'FILES = ["a.txt", "b.txt"]\nFILES.append("c")\n',
        "import glob\nFILES = glob.glob('*')\n",
        f'KNOWN = {{"run.sh": "{DIGEST}"}}\n',
        f'FILES = "a"\nprint("{DIGEST}")\n',
    ],
)
def test_other_tools_may_name_files(text: str, workspace: Workspace) -> None:
    path = workspace.project.write("tools/mine/x.py", HEADER + text)

    review = review_of(workspace.rye(), read_item(workspace.project.target(path)))

    assert not review.files
    assert workspace.project.sign(path).error is None


def test_a_tool_that_only_quotes_the_list_is_not_taken_for_the_imported_one(
    signer: CommandLine,
) -> None:
    tool = signer.project / ".ai/tools/tasks/make/test.py"
    tool.parent.mkdir(parents=True)
    earlier = (VECTORS.parent / "earlier_task.txt").read_text("utf-8")
    quoted = "\n".join(
        line for line in earlier.split("\n") if line.startswith(("FILES", "COMM", "ABS"))
    )
    tool.write_text(f'{HEADER}TEXT = """\n{quoted}\n"""\n', "utf-8")

    done = signer("import", "Makefile", "--dry-run", "--json").json

    (state,) = [one["state"] for one in done["items"] if one["ref"] == "tool:tasks/make/test"]
    assert state == "conflict"


@pytest.mark.parametrize(
    "mark",
    [
        *("#/// script", "# ///script", "# /// Script", "# /// script ", "#  /// script"),
        *("#\t/// script", "    # /// script", "# //// script", "# /// \u0455cript"),
        *("## /// script", "# ///  script", f"#{' ' * 300}/// script"),
    ],
)
def test_a_list_of_packages_in_another_spelling_is_not_signed(
    mark: str, workspace: Workspace
) -> None:
    block = f'{mark}\n# dependencies = ["rich"]\n# ///\n'
    path = workspace.project.write("tools/mine/x.py", HEADER + block)

    with pytest.raises(ItemValidationError, match="line 6: seems to begin a list of packages"):
        workspace.project.sign(path)


def test_a_string_and_prose_may_speak_of_such_a_block(workspace: Workspace) -> None:
    text = 'TEXT = """\n    # /// script\n"""\n# a "# /// script" block\n'
    path = workspace.project.write("tools/mine/x.py", HEADER + text)

    assert workspace.project.sign(path).error is None
