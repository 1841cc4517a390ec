"""Write ``docs/reference/errors.md`` from the error classes.

``tests/test_reference.py`` fails while the page is not what this would write.
"""  # noqa: INP001 - a program, not a module of a package

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lillux.errors import LilluxError  # noqa: E402 - of this checkout, wherever we are started

ERRORS_PAGE = ROOT / "docs" / "reference" / "errors.md"
PACKAGES = ("lillux", "ryeos")

_INTRODUCTION = """\
# Errors

What Rye cannot do is an error: a class, a stable `code`, the exit status of the command. What a
tool says about itself is a [result](../executor.md#results). Callers rely on codes, not on words.

This page is written by `scripts/generate_reference.py` from the classes.

| status | code | class | when |
|---|---|---|---|
"""


def errors_page() -> str:
    """The whole page."""
    return _INTRODUCTION + "".join(f"{_row(error)}\n" for error in sorted(_errors(), key=_order))


def _errors() -> set[type[LilluxError]]:
    for package in PACKAGES:
        _import_all(package)
    return {LilluxError, *_below(LilluxError)}


def _import_all(package: str) -> None:
    paths = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(paths, f"{package}."):
        importlib.import_module(module.name)


def _below(parent: type[LilluxError]) -> Iterator[type[LilluxError]]:
    for child in parent.__subclasses__():
        if child.__module__.partition(".")[0] in PACKAGES:  # a test may have defined others
            yield child
            yield from _below(child)


def _order(error: type[LilluxError]) -> tuple[int, str, str]:
    return error.exit_status, error.code, error.__name__


def _row(error: type[LilluxError]) -> str:
    first_line = inspect.cleandoc(error.__doc__ or "").partition("\n")[0].replace("``", "`")
    when = first_line.replace("|", r"\|")
    return f"| {error.exit_status} | `{error.code}` | `{error.__name__}` | {when} |"


if __name__ == "__main__":
    ERRORS_PAGE.parent.mkdir(parents=True, exist_ok=True)
    ERRORS_PAGE.write_text(errors_page(), encoding="utf-8")
