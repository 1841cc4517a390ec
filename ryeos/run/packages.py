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
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import as_word
from lillux.files import locked, make_directory, write_atomic
from lillux.interpreter_searches import find_on_path
from lillux.process.model import Command, ProcessRunner
from lillux.values import dataclass
from ryeos.items.errors import ChainError, SpecError
from ryeos.items.specs import COMPARISONS, compare_versions
from ryeos.run.chain import PACKAGES_MARK, PACKAGES_SUFFIX
from ryeos.run.installed import InstalledTree
from ryeos.run.model import Chain, ChainElement
from ryeos.trust.verify import VerifiedItem

PYTHON, PROJECT_PYTHON = "RYE_PYTHON", "PROJECT_VENV_PYTHON"
"""The variables that name a Python tool's interpreter."""
ENVIRONMENTS = "state/environments"
"""Where environments are, below the ``.ai`` of user space."""
_OPENED = re.compile(r"(?m)^# /// script$")
_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+?)^# ///$")
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*\s*(\[[\w., -]*\])?\s*((===?|~=|!=|[<>]=?)\s*[\w.*+!-]+\s*,?\s*)*(;[^\n]*)?"
)
_PINNED = re.compile(
    r"^([A-Za-z0-9][\w.-]*==[\w.+!-]+)((?:\s*\\?\s*--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_DEPENDENCIES, _MAX_REQUIREMENT = 200, 200
_TELL_PLATFORM = (
    "import sys, sysconfig;"
    " print(f'{sysconfig.get_platform()}, Python {sys.version_info[0]}.{sys.version_info[1]}')"
)
_TELL_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_VERSION_RULE = re.compile(r"(>=|<=|>|<|==|!=)\s*([0-9]+(?:\.[0-9]+)*)")
_ALLOWS: Mapping[str, Callable[[int], bool]] = {
    **COMPARISONS,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
}
_RESOLVE_S, _INSTALL_S = 300.0, 600.0
_OUTPUT_BYTES = 16 * 1024 * 1024
_OWN_CACHES = {"npm_config_cache": "npm", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}


class PackagesError(ChainError):
    """The packages of a tool cannot be found, or cannot be installed here."""

    code = "PACKAGES_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class Block:
    """What a tool asks for. ``digest`` is that of the block's text."""

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
    """What a block says of the Python that runs the script, with packages or without.

    Raises SpecError.
    """
    content = _block_content(text, where)
    python = _block_values(content, where).get("requires-python") if content is not None else ""
    return python if isinstance(python, str) else ""


def allows_python(required: str, version: str) -> bool:
    """Whether a rule like ``>=3.11`` allows a version of Python. Raises SpecError."""
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


# --- the list -------------------------------------------------------------------------------------


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
    """Where the list of a tool's packages is."""
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


# --- resolving ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Installer:
    """What finds and installs packages: ``uv`` where it is on the PATH, else pip.

    ``env`` is that of this process: a project's ``.env`` names no package index.
    """

    runner: ProcessRunner
    env: Mapping[str, str]
    platform: str

    def resolve(self, block: Block, python: str, folder: Path) -> tuple[str, ...]:
        """Each package that the block needs, in one version, with hashes. Raises PackagesError.

        ``folder`` is an empty one to work in: settings files of a project are not read.
        """
        self._require_version(block, python, folder)
        requirements = folder / "requirements.in"
        write_atomic(requirements, "".join(f"{one}\n" for one in block.dependencies).encode())
        uv = self._uv()
        if uv:
            output = self._run(
                *(uv, "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"),
                *(
                    "--generate-hashes",
                    "--only-binary",
                    ":all:",
                    "--python",
                    python,
                    str(requirements),
                ),
                folder=folder,
                what="resolve",
            )
            pinned = [
                " ".join((line, *(f"--hash={one}" for one in _HASH.findall(hashes))))
                for line, hashes in _PINNED.findall(output)
            ]
        else:
            report = self._run(
                *(python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--no-input", "--dry-run", "--ignore-installed", "--only-binary", ":all:"),
                *("--report", "-", "-r", str(requirements)),
                folder=folder,
                what="resolve",
            )
            pinned = _from_report(report)
        if not pinned:
            raise PackagesError("packages: the resolver named none")
        return tuple(sorted(pinned))

    def platform_of(self, python: str, folder: Path) -> str:
        """The platform that a list is made for: ``""``, all, by ``uv``; pip lists its own alone."""
        if self._uv():
            return ""
        return self._run(python, "-I", "-c", _TELL_PLATFORM, folder=folder, what="resolve").strip()

    def _require_version(self, block: Block, python: str, folder: Path) -> None:
        """Refuse an interpreter that the block does not allow. Raises PackagesError, SpecError."""
        if not block.requires_python:
            return
        said = self._run(python, "-I", "-c", _TELL_VERSION, folder=folder, what="resolve").strip()
        if not allows_python(block.requires_python, said):
            raise PackagesError(
                f"packages: expected Python {block.requires_python}, found {said} ({python})",
                hint="run rye with such a Python, or change requires-python",
            )

    def python_with(self, listed: PackageList, python: str, place: Path, *, make: bool) -> str:
        """The interpreter of the environment with these packages, made if it is missing.

        ``""`` for one that is missing and not to be made. Raises PackagesError, FileSystemError,
        and IntegrityError where a file of it was changed.
        """
        real = os.path.realpath(python)
        text = "\n".join((*listed.requirements, real))
        folder = place / sha256_hex(text.encode("utf-8", "surrogateescape"))[:32]
        below = ("Scripts", "python.exe") if self.platform == "win32" else ("bin", "python")
        program, tree = folder.joinpath(*below), InstalledTree(folder)
        if tree.is_made:
            tree.require_unchanged()
            return str(program)
        if not make:
            return ""
        make_directory(place, mode=0o700)
        with locked(folder.with_suffix(".lock"), timeout_s=_INSTALL_S):
            if not tree.is_made:
                tree.remove()  # of a process that was ended in the middle
                self._install(listed, python, folder, program)
                tree.seal()
        return str(program)

    def _install(self, listed: PackageList, python: str, folder: Path, program: Path) -> None:
        make_directory(folder, mode=0o700)
        pinned = folder / "requirements.txt"
        uv = self._uv()
        what = "install"
        if uv:
            made = (uv, "venv", "--quiet", "--no-config", "--allow-existing", "--python", python)
            self._run(*made, str(folder), folder=folder, what=what)
            installs: tuple[str, ...] = (uv, "pip", "install", "--quiet", "--no-config")
            # A link would share its bytes with the cache of uv, which others write.
            installs += ("--link-mode", "copy", "--compile-bytecode")
            installs += ("--python", str(program))
        else:
            self._run(python, "-I", "-m", "venv", str(folder), folder=folder, what=what)
            installs = (str(program), "-I", "-m", "pip", "install", "--quiet", "--no-input")
            installs += ("--disable-pip-version-check",)
        write_atomic(pinned, "".join(f"{line}\n" for line in listed.requirements).encode())
        installs += ("--require-hashes", "--no-deps", "--only-binary", ":all:")
        try:
            self._run(*installs, "-r", str(pinned), folder=folder, what=what)
        except PackagesError as error:
            raise self._of_another_platform(listed, python, folder, error) from error

    def _of_another_platform(
        self, listed: PackageList, python: str, folder: Path, error: PackagesError
    ) -> PackagesError:
        """The error of an installation, or that the list has the files of another platform."""
        here = self._run(python, "-I", "-c", _TELL_PLATFORM, folder=folder, what="install").strip()
        if listed.item is None or listed.made_for in {"", here}:
            return error
        path = listed.item.target.path
        tool = path.with_name(path.name.replace(f"{PACKAGES_SUFFIX}.yaml", ".py"))
        return PackagesError(
            f"{path}: the list of packages was made by pip for {listed.made_for}, this is {here};"
            f" {error}",
            hint=f"make it for here: rye sign --force {as_word(str(tool))};"
            " where uv is installed, a list is for all platforms",
        )

    def _uv(self) -> str:
        return find_on_path("uv", self.env.get("PATH", ""), platform=self.platform) or ""

    def _run(self, *argv: str, folder: Path, what: str) -> str:
        outcome = self.runner.run(
            Command(
                argv=argv,
                env=with_own_caches(self.env, folder if what == "resolve" else folder.parent),
                cwd=folder,
                timeout_s=_RESOLVE_S if what == "resolve" else _INSTALL_S,
                max_output_bytes=_OUTPUT_BYTES,
            )
        )
        if outcome.exit_code == 0:
            return outcome.stdout.data.decode("utf-8", "replace")
        said = (outcome.stderr.data or outcome.stdout.data).decode("utf-8", "replace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise PackagesError(
            f"packages: cannot {what} them: {' '.join(errors[:3])[:500] or 'no reason was given'}",
            hint="it needs a package index that answers, and wheels of every package there",
        )


def with_own_caches(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment of a package manager with caches below a folder that no agent writes.

    What is found there decides which version and digest a package has: the cache of the user's
    own npm, pip or uv, which agents may write, would let them decide. That a variable names a
    cache says nothing of who writes it: npm names the user's own to all that it starts.
    """
    caches = {name: str(folder / "downloads" / kind) for name, kind in _OWN_CACHES.items()}
    replaced = {_as_setting(name) for name in caches}
    kept = {name: text for name, text in env.items() if _as_setting(name) not in replaced}
    return {**kept, **caches}


def _as_setting(name: str) -> str:
    """A variable's name as npm reads it: in any case, ``-`` and ``_`` alike."""
    return name.upper().replace("-", "_")


def _from_report(report: str) -> list[str]:
    """The pinned packages in a report of pip."""
    try:
        installed: list[dict[str, Any]] = json.loads(report)["install"]
        return [
            f"{one['metadata']['name']}=={one['metadata']['version']}"
            f" --hash=sha256:{one['download_info']['archive_info']['hashes']['sha256']}"
            for one in installed
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise PackagesError(f"packages: expected a report of pip, found another: {error}") from None
