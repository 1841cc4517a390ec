"""Imported scripts: an import runs them only confined, and a changed script does not run."""

import shutil
import socket
from pathlib import Path

import pytest

from ryeos.items.refs import Space
from tests.support.command_line import CommandLine

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "imports" / "scripts"
BLOCK = "# /// script\n# dependencies = []\n# ///\n"


@pytest.fixture
def signer(tmp_path: Path, bundle: Space) -> CommandLine:
    cli = CommandLine(tmp_path, bundle)
    assert cli("keys", "generate").status == 0
    return cli


def test_a_script_is_imported_run_changed_and_refused(signer: CommandLine) -> None:
    place = signer.project / "scripts/report.py"
    place.parent.mkdir()
    shutil.copy(VECTORS / "report.py", place)
    (signer.project / "notes.txt").write_text("a\n\nb\n", "utf-8")

    made = signer("import", "--yes", "--json")
    ran = signer("run", "scripts/report", "path=notes.txt", "blank:=true", "--json").json
    again = signer("import", "--yes", "--json").json
    place.write_bytes(place.read_bytes() + b"#")
    refused = signer("run", "scripts/report", "path=notes.txt")
    kept = signer("import", "--yes", "--json").json
    shown = signer("import", "--force", "--json").json["proposals"][0]["diff"]

    assert made.status == 0, made.stdout + made.stderr
    assert ran["data"] == {"notes.txt": 3}
    assert [item["state"] for item in again["items"]] == ["there already"]
    assert refused.status == 1
    assert "changed since it was signed" in refused.stderr
    assert [item["state"] for item in kept["items"]] == ["conflict"]
    assert r"+#\(no newline)" in shown


def test_a_script_that_is_run_for_its_help_reaches_nothing(signer: CommandLine) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    secret = signer.home / "secret"
    secret.write_text("s3cr3t", "utf-8")
    proof = signer.project / "proof"
    text = f"""{BLOCK}
import os, socket, subprocess
found = []
def attempt(name, call):
    try: call()
    except BaseException as error: pass
    else: found.append(name)
attempt("write", lambda: open({str(proof)!r}, "w"))
attempt("temporary", lambda: open("/tmp/rye-proof-of-import", "w"))
attempt("read", lambda: open({str(secret)!r}).read())
attempt("project", lambda: os.listdir({str(signer.project)!r}))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", {port}), 2))
attempt("spawn", lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True))
print("usage: x [-h] --" + "-".join(["did", *found, "nothing"]) + " X")
print()
print("options:")
print("  --" + "-".join(["did", *found, "nothing"]) + " X   what it could do")
"""
    (signer.project / "evil.py").write_text(text, "utf-8")

    done = signer("import", "--yes", "--json")

    tool = (signer.project / ".ai/tools/scripts/evil.py").read_text("utf-8")
    assert done.status == 0, done.stdout + done.stderr
    assert "did_nothing" in tool
    assert not proof.exists()
    listener.close()


def test_a_dry_run_runs_no_script(signer: CommandLine) -> None:
    (signer.project / "evil.py").write_text(f"{BLOCK}import time\ntime.sleep(60)\n", "utf-8")

    done = signer("import", "--dry-run")

    assert done.status == 0
    assert "tool:scripts/evil" in done.stdout


@pytest.mark.parametrize(
    "end",
    [
        "print('usage: x\\n\\noptions:\\n  --a \\x1b[2Jtext')",
        "print('x' * 10_000_000)",
        "raise SystemExit(3)",
        "import os; os.kill(os.getpid(), 9)",
    ],
)
def test_a_script_that_lies_about_its_arguments_steers_nothing(
    end: str, signer: CommandLine
) -> None:
    (signer.project / "odd.py").write_text(f"{BLOCK}{end}\n", "utf-8")

    done = signer("import", "--yes")

    assert done.status == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    tool = (signer.project / ".ai/tools/scripts/odd.py").read_text("utf-8")
    assert tool.isascii()


def test_a_huge_script_is_not_read(signer: CommandLine) -> None:
    with (signer.project / "huge.py").open("wb") as file:
        file.write(BLOCK.encode())
        file.truncate(100 * 1024 * 1024)

    done = signer("import", "huge.py", "--yes")

    assert done.status == 1
    assert "refused" in done.stdout


def test_a_word_that_looks_like_an_option_is_not_one(signer: CommandLine) -> None:
    shutil.copy(VECTORS / "report.py", signer.project / "report.py")
    (signer.project / "--blank").write_text("a\n\nb\n", "utf-8")
    signer("import", "--yes")

    done = signer("run", "scripts/report", "path=--blank", "--json").json

    assert done["data"] == {"--blank": 2}
