"""The anchor: where a tool's own modules are, and what that does to its environment.

Names available to templates: ``tool_path``, ``tool_dir``, ``tool_parent``, ``anchor_path``,
``runtime_lib``, ``project_path``, ``user_space``, ``system_space``. See ``docs/executor.md``.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ryeos.context import Context
from ryeos.errors import SpecError
from ryeos.executor.model import Chain
from ryeos.items import Kind
from ryeos.specs import type_name
from ryeos.verify import VerifiedItem

_MODES = ("auto", "always", "never")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """An anchor decision.

    names      the template names listed above, all text
    active     whether the anchor applies; ``verify_deps`` and the rest depend on it
    env_paths  variable -> (prepended, appended) path entries
    cwd        where the tool shall run, ``""`` when the anchor does not say
    """

    names: Mapping[str, str]
    active: bool = False
    env_paths: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    cwd: str = ""

    @property
    def path(self) -> Path:
        """The anchor folder."""
        return Path(self.names["anchor_path"])

    def apply_to(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables with the anchor's path entries joined in; present entries stay put."""
        changed = dict(variables)
        for name, (prepended, appended) in self.env_paths.items():
            current = [entry for entry in changed.get(name, "").split(os.pathsep) if entry]
            front = [entry for entry in dict.fromkeys(prepended) if entry not in current]
            back = [e for e in dict.fromkeys(appended) if e not in current and e not in front]
            entries = [*front, *current, *back]
            if entries:
                changed[name] = os.pathsep.join(entries)
        return changed


def anchor_of(chain: Chain, context: Context) -> Anchor:
    """The anchor of a chain: the first element that declares one decides. Raises SpecError."""
    item = chain.tool.item
    if item is None:
        return Anchor(names=_names(Path(), "", context))
    tool_path = item.target.path
    names = _names(tool_path, _runtime_lib(chain), context)
    declared = chain.first_with("anchor")
    if declared is None:
        return Anchor(names=names)
    config = _checked(declared[1])
    root = _active_root(config, item, context)
    if root is None:
        return Anchor(names=names)
    names["anchor_path"] = str(root)
    return Anchor(
        names=names,
        active=True,
        env_paths=dict(_env_paths(config.get("env_paths", {}), names)),
        cwd=_filled(config.get("cwd", ""), names),
    )


def _names(tool_path: Path, runtime_lib: str, context: Context) -> dict[str, str]:
    system = context.spaces.system_base
    return {
        "tool_path": str(tool_path),
        "tool_dir": str(tool_path.parent),
        "tool_parent": str(tool_path.parent.parent),
        "anchor_path": str(tool_path.parent),
        "runtime_lib": runtime_lib,
        "project_path": str(context.working_directory),
        "user_space": str(context.spaces.user.base),
        "system_space": str(system) if system else "",
    }


def _runtime_lib(chain: Chain) -> str:
    for element in chain.elements:
        lib = (element.spec.anchor or {}).get("lib")
        if isinstance(lib, str) and element.path:
            return str(element.path.parent / lib)
    return ""


def _checked(config: Mapping[str, Any]) -> Mapping[str, Any]:
    mode = config.get("mode", "auto")
    if mode not in _MODES:
        raise SpecError("anchor.mode", f"expected one of {', '.join(_MODES)}, got {mode!r}")
    for name, kind in (("markers_any", list), ("env_paths", dict), ("cwd", str), ("root", str)):
        value = config.get(name)
        if value is not None and not isinstance(value, kind):
            raise SpecError(f"anchor.{name}", f"expected a {kind.__name__}, got {type_name(value)}")
    return config


def _active_root(config: Mapping[str, Any], item: VerifiedItem, context: Context) -> Path | None:
    """The anchor folder, or None when the anchor stays inactive."""
    mode = config.get("mode", "auto")
    if config.get("enabled") is not True or mode == "never":
        return None
    tool_dir = item.target.path.parent
    marked = tool_dir if mode == "always" else _marked_folder(config, item)
    if marked is None:
        return None
    roots = {"tool_parent": tool_dir.parent, "project_path": context.working_directory}
    return roots.get(str(config.get("root", "tool_dir")), marked)


def _marked_folder(config: Mapping[str, Any], item: VerifiedItem) -> Path | None:
    """The nearest folder with a marker, from the tool's own up to below the tools folder."""
    markers = [str(marker) for marker in config.get("markers_any") or ()]
    top = item.target.space.directory(Kind.TOOL)
    for folder in (item.target.path.parent, *item.target.path.parent.parents):
        if folder == top or not folder.is_relative_to(top):
            return None
        if any((folder / marker).exists() for marker in markers):
            return folder
    return None


def _env_paths(
    declared: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[tuple[str, tuple[tuple[str, ...], tuple[str, ...]]]]:
    for variable, entry in declared.items():
        if not isinstance(entry, dict):
            raise SpecError(
                f"anchor.env_paths.{variable}", f"expected a mapping, got {type_name(entry)}"
            )
        sides = (tuple(_existing(entry.get(side) or (), names)) for side in ("prepend", "append"))
        prepended, appended = sides
        yield variable, (prepended, appended)


def _existing(entries: Any, names: Mapping[str, str]) -> Iterator[str]:  # noqa: ANN401 - YAML
    for entry in entries:
        path = _filled(str(entry), names)
        if path and Path(path).is_dir():
            yield path


def _filled(template: str, names: Mapping[str, str]) -> str:
    from lillux.templating import Names, as_text, fill

    return as_text(fill(template, Names(variables={}, fixed=names)))
