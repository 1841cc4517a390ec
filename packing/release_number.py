"""Number of a release, in each file that names it."""

import re
from pathlib import Path

from lillux.files import write_atomic
from packing import BuildError

_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_UNRELEASED = "unreleased"
# Where the number stands; the pattern's only group is the number.
_PLACES = {
    "ryeos/__init__.py": r'^__version__ = "([^"]+)"$',
    "packing/rye-node/pyproject.toml": r'^  "rye-workspace==([^"]+)",$',
    "lillux_native/Cargo.toml": r'^version = "([^"]+)"$',
    "lillux_native/Cargo.lock": r'^name = "lillux-(?:proc|watch)"\nversion = "([^"]+)"$',
}
_HEADING = re.compile(r"^## \[([^\]]+)\] - (.+)$", re.MULTILINE)


def prepare(checkout: Path, version: str, today: str) -> tuple[str, ...]:
    """Write the version and its date where they belong; the paths that changed.

    ``today`` is a date as 2026-11-24. Nothing is written unless all of it can be.
    Raises BuildError for an invalid version, or one that is not above the last one that has a date.
    """
    if not _VERSION.fullmatch(version):
        raise BuildError("version", f"expected three numbers, such as 1.2.0, found {version!r}")
    texts = {name: _with_version(checkout, name, version) for name in _PLACES}
    texts["CHANGELOG.md"] = _dated(_read(checkout, "CHANGELOG.md"), version, today)
    changed = [name for name, text in texts.items() if text != _read(checkout, name)]
    for name in changed:
        write_atomic(checkout / name, texts[name].encode("utf-8"))
    return tuple(changed)


def _with_version(checkout: Path, name: str, version: str) -> str:
    text = _read(checkout, name)
    found = list(re.finditer(_PLACES[name], text, re.MULTILINE))
    if not found:
        raise BuildError(name, f"expected a line like {_PLACES[name]}, found none")
    for match in reversed(found):
        text = text[: match.start(1)] + version + text[match.end(1) :]
    return text


def _dated(changelog: str, version: str, today: str) -> str:
    """The changelog with the version and its date in its first heading."""
    heading = _HEADING.search(changelog)
    if heading is None or heading[2] != _UNRELEASED:
        raise BuildError(
            "CHANGELOG.md",
            f"expected the first heading to be unreleased, found {heading[0] if heading else ''!r}",
            hint=f"write what changed under a heading ## [{version}] - {_UNRELEASED}",
        )
    for released, date in _HEADING.findall(changelog):
        if date != _UNRELEASED and _numbers(released) >= _numbers(version):
            raise BuildError("version", f"expected one above {released}, found {version}")
    line = f"## [{version}] - {today}"
    return changelog[: heading.start()] + line + changelog[heading.end() :]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def released_version(checkout: Path) -> str:
    """The version that this checkout is a release of.

    Raises BuildError where the changelog gives it no date, or another number.
    """
    heading = _HEADING.search(_read(checkout, "CHANGELOG.md"))
    stated = re.search(
        _PLACES["ryeos/__init__.py"], _read(checkout, "ryeos/__init__.py"), re.MULTILINE
    )
    number = stated[1] if stated else ""
    if heading is None or heading[1] != number or heading[2] == _UNRELEASED:
        raise BuildError(
            "CHANGELOG.md",
            f"expected the first heading to be [{number}] with a date,"
            f" found {heading[0] if heading else ''!r}",
            hint=f"scripts/release prepare {number}",
        )
    return number


def _read(checkout: Path, name: str) -> str:
    return (checkout / name).read_text("utf-8")
