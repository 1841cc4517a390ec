"""The files around a tool, verified before anything starts (``verify_deps``).

Every regular file with a listed suffix below the base must be signed like a tool, or have its
signature beside it, and must really lie below the base. Links to folders are refused: what they
lead to would be importable but never looked at.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.contained_paths import is_inside
from lillux.errors import as_word
from lillux.values import dataclass
from ryeos.items.errors import IntegrityError, NoSignatureFormError, SpecError
from ryeos.items.refs import Kind, Space
from ryeos.items.specs import type_name
from ryeos.trust.signature import detached_path
from ryeos.trust.verify import Target, VerifiedItem, Verifier

DEFAULT_EXCLUDED = ("__pycache__", ".venv", "node_modules", ".git")
# Written by package managers, not by tool authors; nothing imports them as code.
MANAGED_JSON = frozenset({"package.json", "package-lock.json", "tsconfig.json"})
_REFUSED, _LEFT_OUT = "refused", "left_out"
_SCOPES = ("anchor", "tool_dir", "tool_siblings", "tool_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyRules:
    """The checked form of a ``verify_deps`` block.

    ``leaves_out``: a file that fails is not there for the tool, where it else refuses the run.
    """

    enabled: bool = False
    leaves_out: bool = False
    scope: str = "anchor"
    recursive: bool = True
    extensions: tuple[str, ...] = ()
    exclude_dirs: tuple[str, ...] = DEFAULT_EXCLUDED


def dependency_rules(config: Mapping[str, Any]) -> DependencyRules:
    """Make the value from metadata. Raises SpecError."""
    scope = config.get("scope", "anchor")
    if scope not in _SCOPES:
        raise SpecError("verify_deps.scope", f"expected one of {', '.join(_SCOPES)}, got {scope!r}")
    unverified = config.get("unverified", _REFUSED)
    if unverified not in (_REFUSED, _LEFT_OUT):
        problem = f"expected {_REFUSED} or {_LEFT_OUT}, got {unverified!r:.60}"
        raise SpecError("verify_deps.unverified", problem)
    return DependencyRules(
        enabled=config.get("enabled") is True,
        leaves_out=unverified == _LEFT_OUT,
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
    text: str = "",
) -> tuple[VerifiedItem, ...]:
    """Every file that the rules name below ``base``, verified, in path order.

    ``warn`` gets a line for each file that is passed over; for one that the rules leave out only if
    ``text``, that of the tool, names it. No folder that leads to ``kept`` is
    excluded. Raises IntegrityError at the first file that fails.
    """
    verified = []
    for path in _files(base.resolve(), rules, kept or base):
        if path.name in MANAGED_JSON and not detached_path(path).exists():
            problem = "unsigned and not verified; nothing may rely on what it says"
            warn(f"{path}: {problem} (rye sign {as_word(str(path))})")
            continue
        try:
            verified.append(_verify_file(path, space, verifier))
        except IntegrityError as error:
            if not rules.leaves_out:
                raise
            if path.name in text:
                line = f"rye sign {as_word(str(path))}"
                warn(f"{path}: {error.problem}; the tool does not find it ({line})")
    return tuple(verified)


def _verify_file(path: Path, space: Space, verifier: Verifier) -> VerifiedItem:
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
        for name in folders if not rules.leaves_out else ():
            if os.path.islink(Path(folder, name)):  # noqa: PTH114 - raises for no name
                raise _escape(Path(folder, name), "a link to a folder")
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix in rules.extensions:
                if is_inside(path, base):
                    yield path
                elif not rules.leaves_out:
                    raise _escape(path, f"resolves to {os.path.realpath(path)}")
        if not rules.recursive:
            return


def _unreadable(error: OSError) -> None:
    """`os.walk` would pass over a folder that it cannot list."""
    raise IntegrityError(
        str(error.filename),
        f"cannot be listed, so nothing below it can be verified ({error.strerror})",
        hint="fix its permissions, or move it out of the tool's folder",
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
