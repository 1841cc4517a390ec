"""The examples of the documents are true: they run, and print what the page shows."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ryeos.items.refs import Space
from tests.support.documents import Example, Step, examples, prints, steps
from tests.support.programs import require_program

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# `rye`, for a shell: the command line of this checkout, with a bundle that this test run signed.
PROGRAM = """#!/bin/sh
exec '{python}' -c "
import sys
from pathlib import Path
root = Path(sys.argv.pop(1))
sys.path.insert(0, str(root))
from packing.checkout import tool_programs
from ryeos.trust.bundles import BundleFolder
from ryeos.cli.entry import main
bundle = BundleFolder(Path(sys.argv.pop(1)), lambda: tool_programs(root))
sys.exit(main(bundle=bundle))" '{root}' '{bundle}' "$@"
"""

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the examples are typed into a POSIX shell"),
    pytest.mark.heavy,
]


def pages() -> list[Path]:
    """The pages that have something to run."""
    return [page for page in sorted(DOCS.rglob("*.md")) if examples(page)]


@dataclass(frozen=True, slots=True)
class Reader:
    """A user with a key and a project who types the examples of one page, top to bottom."""

    project: Path
    env: Mapping[str, str]

    def does(self, example: Example) -> None:
        """Run a block; fails with its output where that differs from the page."""
        match example.language:
            case "console":
                for step in steps(example.text):
                    self.types(step)
            case "python":
                done = self._run([sys.executable, "-c", example.text], PYTHONPATH=str(ROOT))
                assert done.returncode == 0, f"line {example.line}\n{done.stdout}"
            case language:
                pytest.fail(f"line {example.line}: expected console or python, found {language}")

    def types(self, step: Step) -> None:
        """Run one command."""
        done = self._run(["bash", "-c", step.command])
        assert done.returncode == step.status, f"$ {step.command}\n{done.stdout}"
        assert prints(step.output, done.stdout), f"$ {step.command}\n{done.stdout}"

    def _run(self, argv: list[str], **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            argv,
            cwd=self.project,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )


@pytest.fixture
def reader(tmp_path: Path, bundle: Space) -> Reader:
    program = tmp_path / "bin" / "rye"
    program.parent.mkdir()
    text = PROGRAM.format(python=sys.executable, root=ROOT, bundle=bundle.base)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    project = tmp_path / "shop"
    (project / ".ai" / "tools").mkdir(parents=True)
    (project / ".ai" / "config").mkdir()
    folders = (program.parent, Path(sys.executable).parent)
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    someone = Reader(project, {"HOME": str(tmp_path), "PATH": path, "LANG": "C.UTF-8"})
    someone.types(Step(command="rye keys generate -q", output="...", status=0))
    return someone


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_example_of_a_page_has_the_result_that_the_page_shows(
    page: Path, reader: Reader
) -> None:
    left_out = set()
    for example in examples(page):
        missing = {name for name in example.needs if shutil.which(name) is None}
        left_out |= missing
        if not missing:
            reader.does(example)
    for name in sorted(left_out):
        require_program(name)
