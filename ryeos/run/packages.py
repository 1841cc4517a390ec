"""Packages of Python tools: what a PEP 723 block asks for, pinned by hash and kept apart.

(1) a tool says what it needs: a block ``# /// script`` with ``dependencies``
(2) signing it resolves that, and writes ``NAME.packages.yaml`` beside it: each package in one
    version with the hashes of its files. It is signed as well, and holds for that block alone
(3) a run makes an environment of it once, in user space, named by a digest of the list and the
    interpreter; nothing is installed whose hash is not in the list

Only wheels: whatever else a package index has runs code when it is built. ``uv`` does the work
where it is installed, else the interpreter's own ``pip``. Page: ``docs/writing-tools.md``.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import as_word
from lillux.values import dataclass
from ryeos.items.errors import ChainError, SpecError
from ryeos.items.version_order import COMPARISONS, compare_versions
from ryeos.run.chain import PACKAGES_MARK, PACKAGES_SUFFIX
from ryeos.run.model import Chain, ChainElement
from ryeos.trust.verify import VerifiedItem

PYTHON, PROJECT_PYTHON = "RYE_PYTHON", "PROJECT_VENV_PYTHON"
"""The variables that name a Python tool's interpreter."""
ENVIRONMENTS = "state/environments"
"""The place of environments, below the ``.ai`` of user space."""
_OPENED = re.compile(r"(?m)^# /// script$")
_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+?)^# ///$")
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*\s*(\[[\w., -]*\])?\s*((===?|~=|!=|[<>]=?)\s*[\w.*+!-]+\s*,?\s*)*(;[^\n]*)?"
)
PINNED = re.compile(
    r"^([A-Za-z0-9][\w.-]*==[\w.+!-]+)((?:\s*\\?\s*--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)
HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_DEPENDENCIES, _MAX_REQUIREMENT = 200, 200
_VERSION_RULE = re.compile(r"(>=|<=|>|<|==|!=)\s*([0-9]+(?:\.[0-9]+)*)")
_ALLOWS: Mapping[str, Callable[[int], bool]] = {
    **COMPARISONS,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
}


class PackagesError(ChainError):
    """The packages of a tool cannot be found, or cannot be installed here."""

    code = "PACKAGES_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class Block:
    """The packages that a tool asks for. ``digest`` is that of the block's text."""

    dependencies: tuple[str, ...]
    requires_python: str
    digest: str


def read_block(text: str, where: str) -> Block | None:
    """The block of a tool that needs packages; None without one. Raises SpecError."""
    content = _block_content(text, where)
    if content is None:
        return None
    said = _block_values(content, where)
    dependencies, python = said.get("dependencies", []), said.get("requires-python", "")
    if not isinstance(dependencies, list) or not isinstance(python, str):
        raise SpecError(
            f"{where}: {PACKAGES_MARK}",
            "expected dependencies as a list, requires-python as a text",
        )
    for one in dependencies:
        is_short = isinstance(one, str) and len(one) <= _MAX_REQUIREMENT
        if not is_short or not _REQUIREMENT.fullmatch(one.strip()):
            raise SpecError(
                f"{where}: dependencies",
                f"expected a package with versions, found {one!r:.80}",
                hint='like "rich>=13,<15"; addresses and paths are not taken',
            )
    if len(dependencies) > _MAX_DEPENDENCIES:
        raise SpecError(f"{where}: dependencies", f"expected at most {_MAX_DEPENDENCIES}")
    return (
        Block(tuple(dependencies), python, sha256_hex(content.encode())) if dependencies else None
    )


def required_python(text: str, where: str) -> str:
    """The Python that a block asks for, whether it names packages or none.

    Raises SpecError.
    """
    content = _block_content(text, where)
    python = _block_values(content, where).get("requires-python") if content is not None else ""
    return python if isinstance(python, str) else ""


def allows_python(required: str, version: str) -> bool:
    """True if a rule like ``>=3.11`` allows a version of Python. Raises SpecError."""
    for part in filter(None, map(str.strip, required.split(","))):
        found = _VERSION_RULE.fullmatch(part)
        if found is None:
            raise SpecError("requires-python", f"expected versions like >=3.11, found {part!r:.40}")
        if not _ALLOWS[found[1]](compare_versions(version, found[2])):
            return False
    return True


def _block_content(text: str, where: str) -> str | None:
    found = [match["content"] for match in _BLOCK.finditer(text)]
    if not found and _OPENED.search(text):
        raise SpecError(f"{where}: {PACKAGES_MARK}", "expected a line # /// that ends the block")
    if len(found) > 1:
        raise SpecError(where, f"expected one block {PACKAGES_MARK}, found {len(found)}")
    return found[0] if found else None


def _block_values(content: str, where: str) -> dict[str, Any]:
    import tomllib

    lines = (line[2:] if line.startswith("# ") else line[1:] for line in content.splitlines())
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{where}: {PACKAGES_MARK}", f"expected TOML: {error}") from None


@dataclass(frozen=True, slots=True)
class PackageList:
    """A verified list, and what it pins: a line of a requirements file for each package.

    ``item`` is None for a list that was just resolved, and is kept nowhere.
    ``made_for`` is the platform whose files it has (`Installer.platform_of`); ``""`` for all.
    """

    item: VerifiedItem | None
    requirements: tuple[str, ...]
    made_for: str = ""


def list_path(tool_path: Path) -> Path:
    """The path of the list of a tool's packages."""
    return tool_path.with_name(f"{tool_path.stem}{PACKAGES_SUFFIX}.yaml")


def list_text(tool_id: str, block: Block, requirements: Sequence[str], made_for: str = "") -> str:
    """The text of a list, to be signed; ``made_for`` as in `PackageList`."""
    platform = f"  made_for: {json.dumps(made_for)}\n" if made_for else ""
    lines = "".join(f"    - {json.dumps(line)}\n" for line in requirements)
    return (
        'version: "1.0.0"\n'
        "tool_type: library\n"
        "executor_id: null\n"
        f"category: {json.dumps(tool_id.rpartition('/')[0])}\n"
        f"description: {json.dumps(f'The packages of tool:{tool_id}, written by rye sign')}\n"
        "config:\n"
        f"  block: {block.digest}\n{platform}"
        f"  requirements:\n{lines}"
    )


def package_list(
    chain: Chain, companion_at: Callable[[Path, ChainElement], ChainElement | None]
) -> PackageList | None:
    """The packages that a tool needs; None for one that needs none.

    Raises SpecError, PackagesError for a list that is missing or of another block, IntegrityError.
    """
    item = chain.tool.item
    block = read_block(item.text, str(item.target.path)) if item else None
    if item is None or block is None:
        return None
    path = list_path(item.target.path)
    found = companion_at(path, chain.tool) if path.is_file() else None
    config = found.spec.config if found and found.space == chain.tool.space else {}
    requirements = config.get("requirements")
    is_of_block = config.get("block") == block.digest
    if not (found and found.item and is_of_block and isinstance(requirements, list)):
        problem = "of another block" if config else "not there"
        raise PackagesError(
            f"{path}: the list of packages is {problem}",
            hint=f"rye sign --force tool:{as_word(chain.tool.item_id)}",
        )
    made_for = str(config.get("made_for") or "")
    return PackageList(found.item, tuple(map(str, requirements)), made_for)
