"""Rust libraries that are linked into the helper programs, and their licences.

Reported by cargo about the sources that it has just built from: what only builds, tests or runs
inside the compiler is left out, and so is what other systems need.
"""

import json
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packing import BuildError
from packing.programs import NAMES, WORKSPACE, host_of, working_cargo

NOTICES = "LICENSES-OF-CRATES.txt"
"""The file of the sources that has the licence texts, in the order of the names."""

_TEXTS = ("LICENSE", "COPYING", "UNLICENSE", "NOTICE", "COPYRIGHT")
_MIT = "LICENSE-MIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crate:
    """A library. ``sha256`` is of its file in the index, ``users`` the programs that have it."""

    name: str
    version: str
    licence: str
    sha256: str
    users: tuple[str, ...]
    notices: tuple[str, ...]


def linked_crates(checkout: Path, *, cargo: str | None = None) -> tuple[Crate, ...]:
    """Those of the programs of this machine, by name; none where there is no cargo that works.

    Raises BuildError when cargo cannot tell.
    """
    cargo = working_cargo(cargo)
    if cargo is None:
        return ()
    workspace = checkout / WORKSPACE
    metadata = _metadata(cargo, workspace)
    lock = tomllib.loads((workspace / "Cargo.lock").read_text("utf-8"))
    sums = {(one["name"], one["version"]): one.get("checksum", "") for one in lock["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    ours = {package["name"]: key for key, package in packages.items() if package["name"] in NAMES}
    linked = {name: _reachable(ours[name], nodes, packages) for name in NAMES}
    found = {key for keys in linked.values() for key in keys} - set(ours.values())
    return tuple(
        _crate(packages[key], sums, tuple(name for name in NAMES if key in linked[name]))
        for key in sorted(found, key=lambda key: (packages[key]["name"], packages[key]["version"]))
    )


def notices_text(crates: Sequence[Crate]) -> str:
    """The licence texts, each below the names of the crates that have this very text."""
    owners: dict[str, list[str]] = {}
    for crate in crates:
        for text in crate.notices:
            owners.setdefault(text, []).append(f"{crate.name} {crate.version}: {crate.licence}")
    return "\n".join("\n".join(names) + f"\n\n{text}\n" for text, names in owners.items())


def spdx(licence: str) -> str:
    """A licence as crates state it, in the words of SPDX: some have ``/`` for ``OR``."""
    return " OR ".join(part.strip() for part in licence.split("/"))


def _metadata(cargo: str, workspace: Path) -> dict[str, Any]:
    command = [cargo, "metadata", "--locked", "--format-version", "1"]
    command += ["--filter-platform", host_of(cargo)]
    ended = subprocess.run(command, cwd=workspace, capture_output=True, check=False)
    if ended.returncode:
        words = ended.stderr.decode("utf-8", "replace").strip()
        raise BuildError(" ".join(["cargo", *command[1:]]), words)
    metadata: dict[str, Any] = json.loads(ended.stdout)
    return metadata


def _reachable(start: str, nodes: Mapping[str, Any], packages: Mapping[str, Any]) -> frozenset[str]:
    """Everything that a package is made with, through any number of others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        key = waiting.pop()
        if key not in found and not _is_for_the_compiler(packages[key]):
            found.add(key)
            waiting += [dep["pkg"] for dep in nodes[key]["deps"] if _is_linked(dep)]
    return frozenset(found)


def _is_linked(dependency: Mapping[str, Any]) -> bool:
    return any(kind["kind"] is None for kind in dependency["dep_kinds"])


def _is_for_the_compiler(package: Mapping[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def _crate(
    package: Mapping[str, Any], sums: Mapping[tuple[str, str], str], users: tuple[str, ...]
) -> Crate:
    name, version = package["name"], package["version"]
    folder = Path(package["manifest_path"]).parent
    notices = tuple(_notices(folder))
    if not notices:
        raise BuildError(f"{name} {version}", "expected a text of its licence, found none")
    return Crate(
        name=name,
        version=version,
        licence=spdx(package["license"] or "NOASSERTION"),
        sha256=sums[name, version],
        users=users,
        notices=notices,
    )


def _notices(folder: Path) -> Iterator[str]:
    """Of several licences to choose from the shortest, which is MIT's, is taken."""
    texts = sorted(path for path in folder.iterdir() if path.name.upper().startswith(_TEXTS))
    chosen = [path for path in texts if path.name.upper() == _MIT] or texts
    for path in chosen:
        if path.is_file():
            yield "\n".join(path.read_text("utf-8").split("\r\n")).strip()
