"""Projects that an agent may name: that of its server, and what user policy lists.

``projects`` of ``config/agents/policy.yaml`` are folders, or patterns of folders: ``~/shops/*``.
The home folder, and what contains it, is none: everything of its user lies below it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lillux.contained_paths import path_inside
from ryeos.items.context import Context
from ryeos.items.errors import RyeError
from ryeos.trust.sign_targets import glob_matcher

_GLOB = frozenset("*?[")


def require_project(path: Path, context: Context, listed: Sequence[str], policy: Path) -> None:
    """Refuse a folder that an agent names as its project, unless one of ``listed`` is for it.

    ``path`` is real, of no links. Raises RyeError `PERMISSION_DENIED`.
    """
    home = next((one for one in _homes(context) if path_inside(one, path) is not None), None)
    if home is not None:
        raise RyeError(
            f"project_path: {path} is the home folder of your user, or contains it",
            code="PERMISSION_DENIED",
            hint="name a project of its own; no policy allows this one",
            path=str(path),
        )
    if any(_is_for(pattern, path, context.process_env) for pattern in listed):
        return
    own = context.project_path
    raise RyeError(
        f"project_path: {path}: expected"
        f" {f'the project of this server, {own}' if own else 'a project that policy lists'}, or one"
        f" that your user allows",
        code="PERMISSION_DENIED",
        hint=f"your user allows it by this line in {policy}: projects: [{_quoted(path)}]",
        path=str(path),
    )


def without_home(context: Context) -> Context:
    """The same without a project where that is the home folder: an agent's it can never be."""
    from lillux.values import replace

    own = context.project_path
    if own is None or not any(_is_same(own, home) for home in _homes(context)):
        return context
    return replace(context, spaces=replace(context.spaces, project=None))


def valid_pattern(pattern: object) -> bool:
    """True if policy may say this: an absolute path, or one that begins with ``~/``."""
    return isinstance(pattern, str) and (pattern.startswith("~/") or Path(pattern).is_absolute())


def _homes(context: Context) -> Sequence[Path]:
    """The folder that contains user space, and the home folder of the environment."""
    variable = "USERPROFILE" if context.platform == "win32" else "HOME"
    named = context.process_env.get(variable, "")
    home = [Path(named)] if os.path.isabs(named) else []  # noqa: PTH117 - "" is not absolute
    return [context.spaces.user.base, *home]


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _is_for(pattern: str, path: Path, env: Mapping[str, str]) -> bool:
    """True if a pattern means a folder; links before its first wildcard are followed."""
    if pattern.startswith("~/"):
        pattern = env.get("HOME", "") + pattern[1:]
    parts = Path(pattern).parts
    wild = next((n for n, part in enumerate(parts) if _GLOB & set(part)), len(parts))
    fixed = Path(os.path.realpath(Path(*parts[:wild])))
    if wild == len(parts):
        return fixed == path
    if not path.is_relative_to(fixed) or path == fixed:
        return False
    below = path.relative_to(fixed).as_posix()
    return glob_matcher("/".join((".", *parts[wild:])))(f"./{below}")


def _quoted(path: Path) -> str:
    import json

    return json.dumps(str(path), ensure_ascii=False)
