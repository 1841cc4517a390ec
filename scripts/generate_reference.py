"""Write the pages of ``docs/reference/`` that repeat what the code and the bundle say.

``tests/test_reference.py`` fails while a page is not what this would write.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lillux.errors import LilluxError  # noqa: E402 - of this checkout, wherever we are started
from packing.bundle_reference import bundle_page  # noqa: E402
from packing.command_reference import commands_page, node_commands_page  # noqa: E402
from packing.route_reference import routes_page  # noqa: E402
from rye_services.operations.cli import open_node  # noqa: E402
from rye_services.process.data_folder import make_data  # noqa: E402
from rye_services.settings import read_settings  # noqa: E402
from ryeos.app.parameters import ABSENT, Parameter  # noqa: E402
from ryeos.app.topics import Face, text_for  # noqa: E402
from ryeos.app.verbs import TOOLS, Tool  # noqa: E402
from ryeos.items.error_table import ErrorRow, error_table  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
PACKAGES = ("lillux", "rye_services", "ryeos")

_INTRODUCTION = """\
# Errors

What Rye cannot do is an error: a stable `code`, the exit status of the command, and for embedders
a class where they can catch one. What a tool says about itself is a
[result](../running.md#results). Callers rely on codes, not on words.

HTTP is the status of the answer of a node or registry, and `-` where none answers with the code.
A few classes have another status for the same code.

This page is written by `scripts/generate_reference.py` from `ryeos/items/error_table.py`.

| status | code | HTTP | when | what to do | classes |
|---|---|---|---|---|---|
"""


_TOOLS_INTRODUCTION = """\
# The tools of agents

Six tools, called by these names, by `rye_NAME` and by `mcp__rye__NAME`. `five` lists all but fetch,
`node` lists fetch, execute and sign, `all` lists all; each is callable, listed or not. Every answer
is an [envelope](envelope.md). An argument that is not in the table, or does not fit, is
`INVALID_PARAMS` and says what would. Taken as well: an object as its JSON text, numbers and
booleans as text, null for what may be left out.

An item is named as `tool:a/b`, as `a/b` with `item_type`, or as `a/b` alone where only one kind has
it. Backslashes count as slashes, and a file suffix may be there. `project_path` is a folder; a
relative one starts at the server's project.

This page is written by `scripts/generate_reference.py` from `ryeos/app/verbs.py`.
"""


def errors_page() -> str:
    """The whole page."""
    table = error_table()
    classes: dict[tuple[int, str], list[str]] = {
        (row.exit_status, code): [] for code, row in table.items()
    }
    for error in sorted(_errors(), key=lambda error: error.__name__):
        classes.setdefault((error.exit_status, error.code), []).append(f"`{error.__name__}`")
    rows = (
        f"| {status} | `{code}` | {table[code].http_status or '-'} | {table[code].meaning}"
        f" | {_remedy(table[code])} | {', '.join(dict.fromkeys(names))} |\n"
        for (status, code), names in sorted(classes.items())
    )
    return _INTRODUCTION + "".join(rows)


def _remedy(row: ErrorRow) -> str:
    """What a person does about an error; in a cell, so a pipe is written as one."""
    lines = text_for("\n".join(row.remedies), Face.PERSON).splitlines()
    return "; ".join(line.replace("|", "\\|") for line in lines)


def tools_page() -> str:
    """The page of the tools of agents."""
    return _TOOLS_INTRODUCTION + "".join(map(_tool, TOOLS.values()))


def _tool(tool: Tool) -> str:
    rows = "".join(f"{_argument(row)}\n" for row in tool.parameters)
    hints = {
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent,
        "openWorldHint": tool.open_world,
    }
    held = ", ".join(f"`{name}`" for name, holds in hints.items() if holds) or "none"
    return (
        f"\n## {tool.name}\n\n{tool.description}\n\nHints that hold: {held}.\n\n"
        f"| argument | type | default | meaning |\n|---|---|---|---|\n{rows}"
    )


def _argument(row: Parameter) -> str:
    kind = ", ".join(f"`{word}`" for word in row.enum) or row.type
    default = "required" if row.required else "" if row.default is ABSENT else f"`{row.default!r}`"
    name = f"options.{row.name}" if row.is_rare else row.name
    return f"| `{name}` | {kind} | {default} | {row.description} |"


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


def openapi_document() -> dict[str, Any]:
    """That of a node which is a registry too, opened on a folder of its own and not served."""
    with TemporaryDirectory() as folder:
        given = {"data_dir": folder, "roles": "all", "open_sign_up": "true"}
        settings = make_data(read_settings(given, {}, Path(folder)))
        opened = open_node(settings, ROOT / "bundle.ai", {})
        try:
            document: dict[str, Any] = opened.app.openapi()
        finally:
            opened.database.close()
    return document


def pages() -> dict[str, str]:
    """Every page that is written, by the name of its file."""
    return {
        "errors.md": errors_page(),
        "mcp-tools.md": tools_page(),
        "bundle.md": bundle_page(ROOT / "bundle.ai"),
        "commands.md": commands_page(),
        "node-commands.md": node_commands_page(),
        "routes.md": routes_page(openapi_document()),
    }


if __name__ == "__main__":
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
