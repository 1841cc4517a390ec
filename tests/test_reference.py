"""Pages that repeat the code: tables and names match it."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from ryeos.app.commands import TABLE
from ryeos.imports.clients import CLIENTS, Format, Machine
from ryeos.items.refs import Kind
from ryeos.trust.extractors import EXTRACTORS
from ryeos.trust.signature import FORMS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    """The text of a page below ``docs/``."""
    return (DOCS / name).read_text("utf-8")


def rows(name: str, heading: str) -> list[tuple[str, ...]]:
    """The cells of the table under a heading row that begins with these words."""
    _, _, below = page(name).partition(f"\n| {heading}")
    lines = below.split("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in line[1:-1].split(" | ")) for line in lines]


def code(cell: str) -> list[str]:
    """The texts in backquotes in a cell."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name",
    ["errors.md", "mcp-tools.md", "bundle.md", "commands.md", "node-commands.md", "routes.md"],
)
def test_generated_pages_are_up_to_date(name: str) -> None:
    generate = runpy.run_path(str(ROOT / "scripts" / "generate_reference.py"))

    assert page(f"reference/{name}") == generate["pages"]()[name], (
        "run: build/venv/bin/python scripts/generate_reference.py"
    )


def test_the_table_of_required_fields_matches_the_extractors() -> None:
    known = [
        (kind.value, rule.field, "yes" if rule.required else "no", ", ".join(rule.checks))
        for kind, extractor in EXTRACTORS.items()
        for rule in extractor.rules
    ]

    assert rows("items.md", "kind | field") == known


def test_the_table_of_kinds_has_their_folders_and_suffixes_in_order() -> None:
    known = [(kind.value, [f"{kind.directory}/"], list(kind.suffixes)) for kind in Kind]

    shown = [(kind, code(folder), code(suffixes)) for kind, folder, suffixes, _ in kinds()]

    assert shown == known


def kinds() -> list[tuple[str, ...]]:
    """The rows of the table of kinds."""
    return rows("items.md", "kind | folder")


def test_the_table_of_line_forms_matches_the_signatures() -> None:
    shown = {
        (kind, suffix): code(line)[0]
        for kind, suffixes, line, _ in rows("signatures.md", "kind | suffixes | line")
        for suffix in code(suffixes)
    }

    assert shown == {
        (kind.value, suffix): form.prefix
        for kind, forms in FORMS.items()
        for suffix, form in forms.items()
    }


def test_every_environment_variable_is_documented() -> None:
    pages = page("running.md") + page("building.md")

    named = {name for path in sources() for name in re.findall(r"\bRYE_[A-Z_]+\b", text_of(path))}

    assert sorted(name for name in named if f"`{name}" not in pages) == []


def sources() -> Iterator[Path]:
    """The modules of the program, without those that start it."""
    for layer in ("lillux", "ryeos"):
        yield from sorted((ROOT / layer).rglob("*.py"))


def text_of(path: Path) -> str:
    """The text of a module."""
    return path.read_text("utf-8")


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = re.findall(r"`(\w[\w/]*/test_\w+\.py)`", page("threat-model.md"))

    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_the_table_of_commands_has_every_command_once() -> None:
    shown = [word for _, commands in rows("cli.md", "for | commands") for word in code(commands)]

    shown.remove("execute")
    assert sorted(shown) == sorted(entry.words for entry in TABLE)


def test_the_table_of_clients_has_every_client_with_its_files() -> None:
    written = {Format.JSON: "JSON", Format.JSONC: "JSON with comments", Format.TOML: "TOML"}
    known = [
        (
            client.name,
            client.title,
            f"`{client.project}`" if client.project else "-",
            f"{written[client.format]}, `{'.'.join(client.container)}`",
        )
        for client in CLIENTS
    ]

    shown = [
        (code(name)[0], title, project, form)
        for name, title, _, project, form in rows("clients.md", "name | client")
    ]

    assert shown == known


def test_the_table_of_clients_names_the_user_s_files() -> None:
    here = Machine("linux", {"HOME": "/home/me"})
    users = {code(name)[0]: user for name, _, user, *_ in rows("clients.md", "name | client")}

    for client in CLIENTS:
        path = client.user(here) if client.user else None
        if path and not client.user_is_its_own:
            assert path.name in users[client.name]
