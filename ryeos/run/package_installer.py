"""The installer of packages: resolves what a tool asks for, and installs what is pinned.

See `ryeos.run.packages` for the list that it makes and reads.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import as_word
from lillux.file_locks import locked
from lillux.files import make_directory, write_atomic
from lillux.process.model import Command, ProcessRunner
from lillux.program_files import find_on_path
from lillux.values import dataclass
from ryeos.run.chain import PACKAGES_SUFFIX
from ryeos.run.installed import InstalledTree
from ryeos.run.packages import HASH, PINNED, Block, PackageList, PackagesError, allows_python

_TELL_PLATFORM = (
    "import sys, sysconfig;"
    " print(f'{sysconfig.get_platform()}, Python {sys.version_info[0]}.{sys.version_info[1]}')"
)
_TELL_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_RESOLVE_S, _INSTALL_S = 300.0, 600.0
_OUTPUT_BYTES = 16 * 1024 * 1024
_OWN_CACHES = {"npm_config_cache": "npm", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}


@dataclass(frozen=True, slots=True)
class Installer:
    """Finds and installs packages: by ``uv`` where it is on the PATH, else by pip.

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
                " ".join((line, *(f"--hash={one}" for one in HASH.findall(hashes))))
                for line, hashes in PINNED.findall(output)
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
