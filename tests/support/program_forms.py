"""Both forms of the helper programs: the one in Python, and the compiled one."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lillux.values import dataclass
from packing.programs import compile_programs, file_name
from tests.support.programs import require_program

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
FORMS = ("python", "compiled")
_CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ryeos.cli import helper_programs; "


@dataclass(frozen=True, slots=True)
class Program:
    """A form of a program, to be run as a tool runs it."""

    argv: tuple[str, ...]

    def __call__(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The one answer that it prints; it ends with status 0 and prints nothing else."""
        ended = self.run(*arguments, stdin=stdin, env=env)
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert ended.stdout.endswith(b"\n")
        assert ended.stdout.count(b"\n") == 1
        answer: dict[str, Any] = json.loads(ended.stdout.decode("utf-8"))
        return answer

    def run(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        """The result of running it."""
        return subprocess.run(
            [*self.argv, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
            env={"PATH": os.environ["PATH"], **(env or {})},
        )

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """It, running."""
        argv = [*self.argv, *arguments]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


@cache
def program(name: str, form: str) -> Program:
    """A form of ``lillux-proc`` or ``lillux-watch``; the test is skipped without cargo."""
    if form == "python":
        function = name.replace("-", "_")
        code = f"{_CODE} sys.exit(helper_programs.{function}())"
        return Program((sys.executable, "-I", "-c", code, str(ROOT)))
    folder = compile_programs(ROOT, cargo=str(require_program("cargo")))
    assert folder is not None
    return Program((str(folder / file_name(name)),))
