"""Interleaved measurement: every contender once per round, in random order, medians at the end."""

import gc
import random
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

MS = 1000.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table: a measurement, its floor, and the promised ratio."""

    name: str
    measured: float
    floor_name: str
    floor: float
    wanted: str = ""
    unit: str = "ms"

    @property
    def ratio(self) -> float:
        """Multiple of the floor."""
        return self.measured / self.floor

    @property
    def difference(self) -> float:
        """Time above the floor."""
        return self.measured - self.floor


def medians(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    before: Callable[[], object] = lambda: None,
    *,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, float]:
    """The median time of each contender in milliseconds, over ``rounds`` interleaved rounds.

    ``before`` is done before each of them, and not measured. ``clock`` gives seconds: by default
    those that pass, with ``time.process_time`` those of the processor in this process.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        names = list(contenders)
        random.shuffle(names)
        for name in names:
            before()
            times[name].append(elapsed_ms(contenders[name], clock))
    return {name: statistics.median(values) for name, values in times.items()}


def elapsed_ms(action: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Time that an action takes, the garbage collector held still."""
    gc.collect()
    gc.disable()
    started = clock()
    action()
    elapsed = (clock() - started) * MS
    gc.enable()
    return elapsed


def process(
    argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path
) -> Callable[[], object]:
    """An action that runs a program to its end and insists that it ends well."""
    command = [str(argument) for argument in argv]

    def run() -> None:
        null = subprocess.DEVNULL
        subprocess.run(command, env=dict(env), cwd=cwd, check=True, capture_output=True, stdin=null)

    return run


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned text."""
    rows = [("figure", "measured", "floor", "measured", "ratio", "difference", "wanted")]
    rows += [
        (
            figure.name,
            f"{figure.measured:.2f} {figure.unit}",
            figure.floor_name,
            f"{figure.floor:.2f} {figure.unit}",
            f"{figure.ratio:.2f}",
            f"{figure.difference:+.2f} {figure.unit}",
            figure.wanted,
        )
        for figure in figures
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
