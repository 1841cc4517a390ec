"""Imported tasks: an import runs none, and values of a caller reach no shell as code."""

import shutil
from pathlib import Path

import pytest

from ryeos.items.refs import Space
from tests.support.command_line import CommandLine
from tests.support.programs import require_program

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
