"""The package of an MCP server: one version with its hashes in the signed item, installed once.

``list`` is the digest of the whole tree, which lies beside as ``NAME.packages.yaml``: a lock of
npm, or requirements with hashes. Both ecosystems install from it what has these hashes and
nothing else, and run no script of a package: npm by ``npm ci --ignore-scripts``, Python as
`ryeos.run.packages` does. What was installed lies in user space, named by that digest.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.contained_paths import require_plain_path
from lillux.digests import sha256_hex
from lillux.errors import UnsafePathError
from lillux.file_locks import locked
from lillux.files import make_directory, write_atomic
from lillux.process.model import Command, ProcessRunner
from lillux.program_files import find_on_path
from lillux.values import dataclass
from ryeos.items.errors import SpecError
from ryeos.run.installed import InstalledTree
from ryeos.run.package_installer import Installer, with_own_caches
from ryeos.run.packages import Block, PackageList, PackagesError

NPM, PYPI = "npm", "pypi"
PACKAGE = "package"
_KEYS = frozenset({NPM, PYPI, "program", "integrity", "bin", "list"})
_INSTALL_S = 600.0
_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_PACKAGES = 2000
_LEFT_OUT = ("funding", "license", "dev", "deprecated")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPackage:
    """The package of a server item. ``digest`` is ``""`` while it is not pinned.

    ``server`` is the name of the server, for hints.
    """

    ecosystem: str
    spec: str
    program: str = ""
    bin: str = ""
    digest: str = ""
    server: str = "NAME"

    @property
    def name(self) -> str:
        """The package without its version."""
        return self.spec[: self.spec.rfind("@")] if self.spec.rfind("@") > 0 else self.spec


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPackage:
    """A package in one version: the config that pins it, and the list of all that it needs."""

    config: Mapping[str, str]
    requirements: tuple[str, ...]
    made_for: str = ""


def read_package(config: Mapping[str, Any], server: str) -> ServerPackage | None:
    """The package of a server's config, None for none. Raises SpecError."""
    said = config.get(PACKAGE)
    if said is None:
        return None
    is_texts = isinstance(said, Mapping) and all(isinstance(one, str) for one in said.values())
    ecosystems = [name for name in (NPM, PYPI) if name in said] if is_texts else []
    if len(ecosystems) != 1 or set(said) - _KEYS:
        raise SpecError("config.package", f"expected {NPM} or {PYPI} with a package")
    return ServerPackage(
        ecosystem=ecosystems[0],
        spec=said[ecosystems[0]],
        program=said.get("program", ""),
        bin=said.get("bin", ""),
        digest=said.get("list", ""),
        server=server.rpartition("/")[2],
    )


def newest(package: ServerPackage) -> ServerPackage:
    """The package to resolve: a pinned one without its version, any other as asked for."""
    from lillux.values import replace

    if not package.digest:
        return package
    name = package.name if package.ecosystem == NPM else package.spec.partition("==")[0]
    return replace(package, spec=name, digest="")


def list_digest(requirements: Sequence[str]) -> str:
    """The digest of a list, as the server item has it."""
    return sha256_hex("\n".join(requirements).encode())


@dataclass(frozen=True, slots=True)
class ServerInstaller:
    """Resolves and installs packages of servers. ``env`` is that of this process, never a .env."""

    runner: ProcessRunner
    env: Mapping[str, str]
    platform: str

    def resolve(self, package: ServerPackage, python: str, folder: Path) -> ResolvedPackage:
        """The newest version that fits, with hashes; ``folder`` is an empty one to work in.

        Raises PackagesError.
        """
        if package.ecosystem == PYPI:
            return self._resolve_python(package, python, folder)
        return self._resolve_npm(package, folder)

    def program(
        self,
        package: ServerPackage,
        listed: Callable[[], PackageList],
        interpreter: str,
        place: Path,
        *,
        make: bool,
    ) -> tuple[tuple[str, ...], Path]:
        """The words that start a pinned server, and the folder that it is installed in.

        ``listed`` gives the list; it is asked where nothing is installed yet. With ``make``
        that is done then. Raises PackagesError, SpecError, FileSystemError, and IntegrityError
        where a file of it was changed.
        """
        if not package.digest:
            raise PackagesError(
                f"{package.ecosystem} {package.spec}: its version is not pinned yet",
                hint=f"to find the version, and approve it: rye mcp refresh {package.server}",
            )
        if package.ecosystem == PYPI:
            return self._python_program(package, listed, interpreter, place, make=make)
        folder = place / f"npm-{package.digest[:32]}"
        started = folder / "node_modules" / package.name / _plain(package.bin)
        tree = InstalledTree(folder)
        if make and not tree.is_made:
            self._install_npm(_require_pinned(package, listed()).requirements, folder)
        elif tree.is_made:
            tree.require_unchanged()
        return (interpreter, str(started)), folder

    def _resolve_npm(self, package: ServerPackage, folder: Path) -> ResolvedPackage:
        version = package.spec[len(package.name) + 1 :] or "latest"
        _write_json(
            folder / "package.json", {"private": True, "dependencies": {package.name: version}}
        )
        self._npm("install", "--package-lock-only", folder=folder, what="resolve")
        try:
            lock = json.loads((folder / "package-lock.json").read_text("utf-8"))
            entries: dict[str, dict[str, Any]] = lock["packages"]
            own = entries[f"node_modules/{package.name}"]
            bins = own["bin"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PackagesError(
                f"npm {package.spec}: it has no program to start: {error}"
            ) from None
        if len(entries) > MAX_PACKAGES:
            raise PackagesError(f"npm {package.spec}: expected at most {MAX_PACKAGES} packages")
        for path, entry in entries.items():
            is_pinned = str(entry.get("resolved", "")).startswith(("https://", "http://"))
            is_pinned = is_pinned and bool(entry.get("integrity"))
            if path and not is_pinned and not entry.get("inBundle"):
                raise PackagesError(
                    f"npm {package.spec}: {path[:80]} does not come from an index with a hash"
                )
        wanted = package.program or package.name.rpartition("/")[2]
        program = bins.get(wanted) or (next(iter(bins.values())) if len(bins) == 1 else "")
        requirements = _lock_lines(entries)
        return ResolvedPackage(
            config={
                NPM: f"{package.name}@{own['version']}",
                "integrity": own["integrity"],
                "bin": _plain(program),
                "list": list_digest(requirements),
                **({"program": package.program} if package.program else {}),
            },
            requirements=requirements,
        )

    def _install_npm(self, requirements: Sequence[str], folder: Path) -> None:
        tree = InstalledTree(folder)
        make_directory(folder.parent, mode=0o700)
        with locked(folder.with_suffix(".lock"), timeout_s=_INSTALL_S):
            if tree.is_made:
                tree.require_unchanged()
                return
            tree.remove()  # of a process that was ended in the middle
            make_directory(folder, mode=0o700)
            entries = dict(_lock_entry(line) for line in requirements)
            needed = entries.get("", {}).get("dependencies", {})
            _write_json(folder / "package.json", {"private": True, "dependencies": needed})
            lock = {"lockfileVersion": 3, "requires": True, "packages": entries}
            _write_json(folder / "package-lock.json", lock)
            self._npm("ci", folder=folder, what="install")
            tree.seal()

    def _npm(self, *words: str, folder: Path, what: str) -> None:
        npm = find_on_path("npm", self.env.get("PATH", ""), platform=self.platform)
        if not npm:
            raise PackagesError("npm: not on the PATH", hint="install Node.js, or use another way")
        env = with_own_caches(self.env, folder if what == "resolve" else folder.parent)
        flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
        outcome = self.runner.run(
            Command(
                argv=(npm, *words, *flags, "--loglevel=error"),
                env={**env, "npm_config_ignore_scripts": "true"},
                cwd=folder,
                timeout_s=_INSTALL_S,
                max_output_bytes=_OUTPUT_BYTES,
            )
        )
        if outcome.exit_code == 0:
            return
        said = (outcome.stderr.data or outcome.stdout.data).decode("utf-8", "replace")
        lines = [re.sub(r"^npm (ERR!|error)\s*", "", line).strip() for line in said.splitlines()]
        raise PackagesError(
            f"npm: cannot {what} it: {' '.join(filter(None, lines))[:400] or 'it gave no reason'}",
            hint="it needs an index that answers, and that has this package with this hash",
        )

    def _resolve_python(self, package: ServerPackage, python: str, folder: Path) -> ResolvedPackage:
        block = Block((package.spec,), "", "")
        requirements = self._python.resolve(block, python, folder)
        name = re.split(r"[\[=<>~!;@ ]", package.spec)[0]
        wanted = re.sub(r"[-_.]+", "-", name).lower()
        for line in requirements:
            found, _, version = line.partition(" ")[0].partition("==")
            if re.sub(r"[-_.]+", "-", found).lower() == wanted:
                config = {PYPI: f"{found}=={version}", "program": package.program or found}
                config["list"] = list_digest(requirements)
                made_for = self._python.platform_of(python, folder)
                return ResolvedPackage(config=config, requirements=requirements, made_for=made_for)
        raise PackagesError(f"pypi {package.spec}: the resolver did not name it")

    def _python_program(
        self,
        package: ServerPackage,
        listed: Callable[[], PackageList],
        python: str,
        place: Path,
        *,
        make: bool,
    ) -> tuple[tuple[str, ...], Path]:
        _plain(package.program)
        marked = place / f"pypi-{package.digest[:32]}-{sha256_hex(os.fsencode(python))[:8]}"
        known = _text(marked)
        tree = InstalledTree(Path(known).parent.parent) if known else None
        if tree and tree.is_made and tree.folder.parent == place:
            tree.require_unchanged()
        elif make:
            checked = _require_pinned(package, listed())
            known = self._python.python_with(checked, python, place, make=True)
            write_atomic(marked, known.encode("utf-8", "surrogateescape"))
        program = Path(known or place / "python")
        if self.platform == "win32":
            return (str(program.with_name(f"{package.program}.exe")),), program.parent.parent
        return (str(program), str(program.with_name(package.program))), program.parent.parent

    @property
    def _python(self) -> Installer:
        return Installer(self.runner, self.env, self.platform)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _require_pinned(package: ServerPackage, listed: PackageList) -> PackageList:
    """The list, if it is the one that the signed item names. Raises PackagesError."""
    if list_digest(listed.requirements) != package.digest:
        raise PackagesError(
            f"{package.ecosystem} {package.spec}: its list of packages is another one",
            hint=f"to find it anew, and approve it: rye mcp refresh {package.server}",
        )
    return listed


def _plain(relative: str) -> str:
    """A path inside of a package. Raises PackagesError for one that leads out."""
    path = relative.removeprefix("./")
    try:
        require_plain_path(path)
    except UnsafePathError as error:
        raise PackagesError(f"its program {relative[:80]!r}: {error}") from None
    return path


def _lock_lines(entries: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """A lock as lines: a path and what npm says of it, less what installing does not need."""
    return tuple(
        f"{path} {canonical_json(_without(entry)).decode()}"
        for path, entry in sorted(entries.items())
    )


def _without(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in _LEFT_OUT}


def _lock_entry(line: str) -> tuple[str, dict[str, Any]]:
    path, _, said = line.partition(" {")
    try:
        return path, json.loads("{" + said)
    except ValueError as error:
        raise PackagesError(f"its list of packages cannot be read: {error}") from None


def _write_json(path: Path, value: object) -> None:
    write_atomic(path, json.dumps(value).encode())


def server_list_text(server_id: str, found: ResolvedPackage) -> str:
    """The text of a list, to be signed beside its server."""
    lines = "".join(f"    - {json.dumps(line)}\n" for line in found.requirements)
    package = next(iter(found.config.values()))
    about = f"The packages of {package}, written by rye mcp refresh"
    platform = f"  made_for: {json.dumps(found.made_for)}\n" if found.made_for else ""
    return (
        'version: "1.0.0"\n'
        "tool_type: library\n"
        "executor_id: null\n"
        f"category: {json.dumps(server_id.rpartition('/')[0])}\n"
        f"description: {json.dumps(about)}\n"
        f"config:\n{platform}"
        f"  requirements:\n{lines}"
    )
