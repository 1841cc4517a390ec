"""Verification of the files around a tool, before anything starts (``verify_deps``).

Every regular file with a listed suffix below the base must be signed like a tool, or have its
signature beside it, and must really lie below the base. Links to folders are refused: what they
lead to would be importable but never looked at.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.files import is_inside
from lillux.values import dataclass
from ryeos.errors import IntegrityError, NoSignatureFormError, SpecError
from ryeos.items import Kind, Space
from ryeos.signature import detached_path
from ryeos.specs import type_name
from ryeos.verify import Target, VerifiedItem, Verifier

DEFAULT_EXCLUDED = ("__pycache__", ".venv", "node_modules", ".git")
# Written by package managers, not by tool authors; nothing imports them as code.
MANAGED_JSON = frozenset({"package.json", "package-lock.json", "tsconfig.json"})
_SCOPES = ("anchor", "tool_dir", "tool_siblings", "tool_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyRules:
    """The checked form of a ``verify_deps`` block."""

    enabled: bool = False
    scope: str = "anchor"
    recursive: bool = True
    extensions: tuple[str, ...] = ()
    exclude_dirs: tuple[str, ...] = DEFAULT_EXCLUDED


def dependency_rules(config: Mapping[str, Any]) -> DependencyRules:
    """Make the value from metadata. Raises SpecError."""
    scope = config.get("scope", "anchor")
    if scope not in _SCOPES:
        raise SpecError("verify_deps.scope", f"expected one of {', '.join(_SCOPES)}, got {scope!r}")
    return DependencyRules(
        enabled=config.get("enabled") is True,
        scope=scope,
        recursive=config.get("recursive", True) is not False and scope != "tool_siblings",
        extensions=_texts(config, "extensions", ()),
        exclude_dirs=_texts(config, "exclude_dirs", DEFAULT_EXCLUDED),
    )


def verify_tree(
    base: Path,
    rules: DependencyRules,
    space: Space,
    verifier: Verifier,
    warn: Callable[[str], None],
    *,
    kept: Path | None = None,
) -> tuple[VerifiedItem, ...]:
    """Every file that the rules name below ``base``, verified, in path order.

    ``warn`` gets a line for each file that is passed over. No folder that leads to ``kept`` is
    excluded. Raises IntegrityError at the first file that fails.
    """
    verified = []
    for path in _files(base.resolve(), rules, kept or base):
        if path.name in MANAGED_JSON and not detached_path(path).exists():
            warn(f"{path}: unsigned and not verified; nothing may rely on what it says")
        else:
            verified.append(_verified(path, space, verifier))
    return tuple(verified)


def _verified(path: Path, space: Space, verifier: Verifier) -> VerifiedItem:
    try:
        return verifier.verify(Target(path=path, kind=Kind.TOOL, space=space))
    except NoSignatureFormError:
        raise IntegrityError(
            str(path),
            "a file that cannot be signed, where every file must be",
            hint="delete it, or move it out of the folders that the tool's modules are in",
        ) from None


def _files(base: Path, rules: DependencyRules, kept: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(base, onerror=_unreadable):
        folders[:] = sorted(
            name
            for name in folders
            if name not in rules.exclude_dirs or kept.is_relative_to(Path(folder, name))
        )
        for name in folders:
            if os.path.islink(Path(folder, name)):  # noqa: PTH114 - raises for no name
                raise _escape(Path(folder, name), "a link to a folder")
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix in rules.extensions:
                if not is_inside(path, base):
                    raise _escape(path, f"resolves to {os.path.realpath(path)}")
                yield path
        if not rules.recursive:
            return


def _unreadable(error: OSError) -> None:
    """`os.walk` would pass over a folder that it cannot list."""
    raise IntegrityError(
        str(error.filename),
        f"cannot be listed, so nothing below it can be verified ({error.strerror})",
        hint="mend its permissions, or move it out of the tool's folder",
    )


def _escape(path: Path, problem: str) -> IntegrityError:
    return IntegrityError(
        str(path),
        f"Symlink escape ({problem})",
        hint="put the files themselves beside the tool and sign them",
    )


def _texts(config: Mapping[str, Any], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise SpecError(
            f"verify_deps.{name}", f"expected a list of strings, got {type_name(value)}"
        )
    return tuple(value)
