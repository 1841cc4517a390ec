"""Searching many items: the first time in a process, again, and as a command of its own."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from benchmarks.timing import Figure, elapsed_ms, medians
from ryeos.search.catalog import Catalog
from ryeos.search.search import SearchRequest, search
from tests.support.workspace import Workspace, publish

COUNTS = (1000, 10_000)
ROUNDS, FIRST_STARTS = 7, 3
QUERIES = {
    "a rare word": "word77",
    "a common word": "print",
    "three words": "print test tool",
    "absent words": "zzzzzz yyyyyy",
    "a phrase": '"word1 word2"',
}
_WANTED = {1000: ("at most 250 ms", "at most 60 ms"), 10_000: ("at most 2.5 s", "at most 60 ms")}
_WANTED_MEDIAN, _WANTED_STARTS = "at most 30 ms", ("at most 2.5 s", "at most 0.25 s")
_LONG_AGO = 1_500_000_000


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for 1,000 and 10,000 items of three kinds, about 40 words each."""
    bundle = publish(scratch / "search-bundle")
    for count in COUNTS:
        workspace = Workspace(scratch / f"search-{count}", (bundle,))
        write_items(workspace, count)
        yield from _figures(workspace, count)
    yield from _starts(pyz, workspace)


def _figures(workspace: Workspace, count: int) -> Iterator[Figure]:
    floor_name = f"reading {count} files"

    def cold() -> None:
        rye = workspace.rye()
        _search(Catalog(rye.context.spaces, rye.verifier), "print")

    rye = workspace.rye()
    catalog = Catalog(rye.context.spaces, rye.verifier)
    _search(catalog, "print")
    # What was read within a tick of the clock is read once more; from here on it is warm.
    time.sleep(0.1)
    _search(catalog, "print")
    actions = {name: _warm(catalog, text) for name, text in QUERIES.items()}
    found = medians({"read": lambda: _read_all(workspace.project_path), **actions}, ROUNDS)
    cold_ms = sorted(elapsed_ms(cold) for _ in range(3))[1]
    wanted_cold, wanted_warm = _WANTED[count]
    yield Figure(f"search {count} items, cold", cold_ms, floor_name, found["read"], wanted_cold)
    for name in QUERIES:
        label = f"search {count} items, warm, {name}"
        yield Figure(label, found[name], floor_name, found["read"], wanted_warm)
    median = statistics.median(found[name] for name in QUERIES)
    label = f"search {count} items, warm, the median of these"
    yield Figure(label, median, floor_name, found["read"], _WANTED_MEDIAN)


def _starts(pyz: Path, workspace: Workspace) -> Iterator[Figure]:
    """A search of 10,000 items by a command: with nothing kept, and as the next one."""
    cache = workspace.home / ".cache" / "rye" / "search"
    env = {"HOME": str(workspace.home), "PATH": os.environ["PATH"]}
    python = [sys.executable, "-I", "-S"]

    def start(*words: str) -> Callable[[], object]:
        command, folder = [*python, *words], workspace.project_path
        return lambda: subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True)

    search = start(str(pyz), "search", "print")
    search()
    first = []
    for _ in range(FIRST_STARTS):
        shutil.rmtree(cache)
        first.append(elapsed_ms(search))
    found = medians({"python": start("-c", "pass"), "again": search}, ROUNDS)
    name, floor = f"search {COUNTS[-1]} items, a start", found["python"]
    wanted_first, wanted_again = _WANTED_STARTS
    yield Figure(f"{name}, first", statistics.median(first), "python", floor, wanted_first)
    yield Figure(f"{name}, again", found["again"], "python", floor, wanted_again)


def _warm(catalog: Catalog, query: str) -> Callable[[], None]:
    return lambda: _search(catalog, query)


def _search(catalog: Catalog, query: str) -> None:
    search(catalog, SearchRequest(query=query), lambda _: ())


def _read_all(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            Path(folder, name).read_bytes()


def write_items(workspace: Workspace, count: int) -> None:
    """Half of them tools, a quarter each knowledge and directives."""
    random = Random(1)  # noqa: S311 - the same words each time
    for number in range(count):
        words = " ".join(f"word{random.randint(1, 4000)}" for _ in range(40))
        item_id = f"many{number % 40}/t{number}"
        match number % 4:
            case 0:
                path = workspace.project.knowledge(item_id, words)
            case 1:
                path = workspace.project.directive(item_id, words)
            case _:
                path = workspace.project.tool(item_id, f"# {words}\nprint({number})\n")
        os.utime(path, (_LONG_AGO, _LONG_AGO))
