"""Cost of a search by the bundle's ``grep``, through a warm engine, against ``rg``."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.timing import Figure, medians
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import Workspace, publish

ROUNDS = 15
WITHOUT = "no text to look for"  # Python's expressions alone: no promise
FOLDERS, FILES, WORDS, LINES = 200, 50, 9, 55

# name, arguments of rg, parameters of the tool
SEARCHES: tuple[tuple[str, list[str], dict[str, Any]], ...] = (
    ("text", ["-F", "word1234"], {"pattern": "word1234", "literal": True}),
    ("expression", [r"word12\d4\b"], {"pattern": r"word12\d4\b"}),
    ("no case", ["-i", "WORD1234"], {"pattern": "WORD1234", "ignore_case": True}),
    ("one of two", ["word1234|word2999 "], {"pattern": "word1234|word2999 "}),
    (WITHOUT, [r"\b[a-z]+[0-9]{5}\b"], {"pattern": r"\b[a-z]+[0-9]{5}\b"}),
    ("nothing", ["-F", "absent"], {"pattern": "absent", "literal": True}),
)


def figures(scratch: Path) -> Iterator[Figure]:
    """A row for each kind of search; none where there is no rg."""
    program = shutil.which("rg")
    if not program:
        sys.stderr.write("benchmarks: no rg on the PATH (apt-get install ripgrep): no grep rows\n")
        return
    workspace = Workspace(scratch / "grep", (publish(scratch / "grep-bundle"),))
    tree = workspace.project.space.base
    make_tree(tree)
    host = FunctionHost()
    executor = workspace.rye(functions=host).executor

    def ours(params: dict[str, Any]) -> Callable[[], object]:
        request = ExecutionRequest(
            item_id="rye/file-system/grep", parameters={**params, "mode": "count"}
        )

        def search() -> int:
            result = executor.execute(request)
            if not isinstance(result.data, dict) or not result.success:
                raise RuntimeError(result.error)
            return int(result.data["matches"])

        return search

    def theirs(words: list[str]) -> Callable[[], object]:
        argv = [program, "--no-config", "-c", *words, str(tree)]

        def search() -> int:
            done = subprocess.run(argv, capture_output=True, check=False)
            counts = (line.rpartition(b":")[2] for line in done.stdout.splitlines())
            return sum(map(int, counts))

        return search

    for name, words, params in SEARCHES:
        contenders = {"grep": ours(params), "rg": theirs(words)}
        if contenders["grep"]() != contenders["rg"]():
            raise RuntimeError(f"{name}: grep and rg do not find the same")
        found = medians(contenders, ROUNDS)
        wanted = "" if name == WITHOUT else "3.0"
        yield Figure(f"grep tool, {name}", found["grep"], "rg", found["rg"], wanted)
    host.close()


def make_tree(folder: Path) -> None:
    """10,000 files of words, 40 MB."""
    made = random.Random(8)  # noqa: S311 - text, no secret
    words = [f"word{number}" for number in range(3000)]
    for number in range(FOLDERS):
        inner = folder / f"d{number % 20}" / f"s{number}"
        inner.mkdir(parents=True)
        for file in range(FILES):
            lines = (" ".join(made.choices(words, k=WORDS)) for _ in range(LINES))
            (inner / f"f{file}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
