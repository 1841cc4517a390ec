"""The overhead of the helper programs, and the delay until they see a change."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from sqlite3 import connect
from statistics import median
from time import perf_counter, sleep

from benchmarks.timing import MS, Figure, medians
from packing.programs import compile_programs, file_name
from tests.support.threads_database import ThreadsDatabase

ROOT = Path(__file__).resolve().parents[1]
ROUNDS, CHANGES = 100, 15
# The watcher is asleep by then.
SETTLED_S = 0.3


def figures(scratch: Path) -> Iterator[Figure]:
    """Rows for both programs in both forms; the compiled ones where cargo is."""
    for form, folder in _forms():
        exec_true = (*_argv(folder, "lillux-proc"), "exec", "--cmd", "true")
        found = medians(
            {
                "exec": partial(_run, exec_true),
                "true": partial(_run, ("true",)),
            },
            ROUNDS,
        )
        wanted = "at most +2 ms" if folder else ""
        yield Figure(f"lillux-proc exec, {form}", found["exec"], "true", found["true"], wanted)
        database = ThreadsDatabase(scratch / f"{form}.db").make()
        argv = (*_argv(folder, "lillux-watch"), "--db", str(database.path))
        seen, write = _lateness(argv, database)
        yield Figure(f"lillux-watch, {form}", seen, "the write itself", write, "at most +50 ms")


def _run(argv: tuple[str, ...]) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def _forms() -> Iterator[tuple[str, Path | None]]:
    compiled = compile_programs(ROOT)
    if compiled:
        yield "compiled", compiled
    yield "python", None


def _argv(folder: Path | None, name: str) -> tuple[str, ...]:
    if folder:
        return (str(folder / file_name(name)),)
    function = name.replace("-", "_")
    code = f"import sys; from ryeos.cli.helper_programs import {function}; sys.exit({function}())"
    return (sys.executable, "-c", code)


def _lateness(argv: tuple[str, ...], database: ThreadsDatabase) -> tuple[float, float]:
    """From before a write until its answer is read, and the write alone, in milliseconds."""
    seen, written = [], []
    for number in range(CHANGES):
        thread = f"t{number}"
        database.set(thread, "running")
        command = [*argv, "--thread-id", thread, "--timeout", "30"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            sleep(SETTLED_S)
            with closing(connect(database.path)) as connection:
                started = perf_counter()
                connection.execute("REPLACE INTO threads VALUES (?, 'completed')", (thread,))
                connection.commit()
                written.append((perf_counter() - started) * MS)
            answer = json.loads(process.communicate()[0])
            seen.append((perf_counter() - started) * MS)
        if answer["status"] != "completed":
            raise RuntimeError(str(answer))
    return median(seen), median(written)
