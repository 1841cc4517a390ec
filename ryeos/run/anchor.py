"""The anchor of a tool: the folder of its own modules, and its effect on the environment.

Names available to templates: ``tool_path``, ``tool_dir``, ``tool_parent``, ``anchor_path``,
``runtime_lib``, ``project_path``, ``user_space``, ``system_space``; ``tool_sha256``, the digest of
the tool's bytes, and ``tool_source``, where a shell reads these very bytes; ``approved_packages``,
the project's ``node_modules`` if a tool of the project may use it; ``null_device``, below which no
file can ever be. See ``docs/running.md``.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.process.model import SEALED_PATH, can_seal
from lillux.values import dataclass, field, replace
from ryeos.items.context import Context
from ryeos.items.errors import SpecError
from ryeos.items.refs import PROJECT, Kind, Space
from ryeos.items.specs import type_name
from ryeos.run.model import Chain
from ryeos.trust.approvals import PACKAGE_LISTS
from ryeos.trust.dependencies import DependencyRules, dependency_rules, verify_tree
from ryeos.trust.verify import VerifiedItem, Verifier

_MODES = ("auto", "always", "never")
_SHAPES = {"markers_any": list, "env_paths": dict, "env": dict, "cwd": str, "root": str, "lib": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """An anchor decision.

    names      the template names listed above, all text
    active     whether the anchor applies; ``verify_deps`` and the rest depend on it
    env_paths  variable -> (prepended, appended) path entries
    env        variables that are set while the anchor is active
    cwd        where the tool shall run, ``""`` when the anchor does not say
    """

    names: Mapping[str, str]
    active: bool = False
    env_paths: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""

    @property
    def path(self) -> Path:
        """The anchor folder."""
        return Path(self.names["anchor_path"])

    def with_programs(self, allows: Callable[[str], bool]) -> "Anchor":
        """The same with those folders alone on the PATH that count."""
        if "PATH" not in self.env_paths:
            return self
        front, back = (tuple(filter(allows, part)) for part in self.env_paths["PATH"])
        return replace(self, env_paths={**self.env_paths, "PATH": (front, back)})

    def apply_to(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables with the anchor's path entries joined in; present entries stay put."""
        changed = {**variables, **self.env}
        for name, (prepended, appended) in self.env_paths.items():
            current = [entry for entry in changed.get(name, "").split(os.pathsep) if entry]
            front = [entry for entry in dict.fromkeys(prepended) if entry not in current]
            back = [e for e in dict.fromkeys(appended) if e not in current and e not in front]
            entries = [*front, *current, *back]
            if entries:
                changed[name] = os.pathsep.join(entries)
        return changed


def anchor_of(chain: Chain, context: Context) -> Anchor:
    """The anchor of a chain: the first element that declares one decides. Raises SpecError.

    But ``env`` of the others counts too, for variables that it does not name: by variables a
    runtime keeps out bytecode that was not verified, also of a tool with an anchor of its own.
    """
    item = chain.tool.item
    if item is None:
        return Anchor(names=_names(Path(), "", context))
    tool_path = item.target.path
    names = _names(tool_path, _runtime_lib(chain), context)
    names["tool_sha256"] = item.sha256
    names["approved_packages"] = _approved_packages(chain, item, context)
    if can_seal(context.platform):
        names["tool_source"] = SEALED_PATH
    declared = chain.first_with("anchor")
    if declared is None:
        return Anchor(names=names)
    config = _validated_config(declared[1])
    root = _active_root(config, item, context)
    if root is None:
        return Anchor(names=names)
    names["anchor_path"] = str(root)
    return Anchor(
        names=names,
        active=True,
        env_paths=dict(_env_paths(config.get("env_paths") or {}, names)),
        env={name: _fill_text(value, names) for name, value in _env(chain)},
        cwd=_fill_text(config.get("cwd") or "", names),
    )


def _names(tool_path: Path, runtime_lib: str, context: Context) -> dict[str, str]:
    system = context.spaces.system_base
    return {
        "tool_path": str(tool_path),
        "tool_dir": str(tool_path.parent),
        "tool_parent": str(tool_path.parent.parent),
        "tool_sha256": "",
        "approved_packages": "",
        "tool_source": str(tool_path),
        "anchor_path": str(tool_path.parent),
        "runtime_lib": runtime_lib,
        "project_path": str(context.working_directory),
        "user_space": str(context.spaces.user.base),
        "system_space": str(system) if system else "",
        "null_device": os.devnull,
    }


def _approved_packages(chain: Chain, item: VerifiedItem, context: Context) -> str:
    """The packages of an approved project, for its own tools and where their runtime asks."""
    asks = any("{approved_packages}" in str(one.spec.env_config) for one in chain.elements)
    if not asks or item.target.space.tier != PROJECT:
        return ""
    is_approved = any(map(context.approves, PACKAGE_LISTS))
    return str(context.working_directory / "node_modules") if is_approved else ""


def _runtime_lib(chain: Chain) -> str:
    for element in chain.elements:
        lib = (element.spec.anchor or {}).get("lib")
        if isinstance(lib, str) and element.path:
            return str(element.path.parent / lib)
    return ""


def _validated_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    mode = config.get("mode", "auto")
    if mode not in _MODES:
        raise SpecError("anchor.mode", f"expected one of {', '.join(_MODES)}, got {mode!r}")
    for name, kind in _SHAPES.items():
        value = config.get(name)
        if value is not None and not isinstance(value, kind):
            raise SpecError(
                f"anchor.{name}", f"expected a {type_name(kind())}, got {type_name(value)}"
            )
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
    tool_dir = item.target.path.parent
    above = (folder for folder in tool_dir.parents if top in folder.parents)
    for folder in (tool_dir, *above):
        if any(os.path.exists(folder / marker) for marker in markers):  # noqa: PTH110 - see below
            return folder
    if config.get("siblings") is not True:
        return None
    if item.target.suffix == ".sh":
        return _folder_of_script(item, top)
    return tool_dir if _imports_sibling(item) else None


_OWN_PATH = r"\$\{?0\b|BASH_SOURCE"
"""The forms in which a shell script asks for its own path."""


def _folder_of_script(item: VerifiedItem, top: Path) -> Path | None:
    """Folders that a shell script finds by its path: its own, with ``..`` all folders of tools."""
    if not re.search(_OWN_PATH, item.text):
        return None
    return top if "/.." in item.text else item.target.path.parent


# Compiled when a Python tool without a marker first asks.
_IMPORT = r"(?m)(?:^|[;:])[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([\w., \t]+))"


def _imports_sibling(item: VerifiedItem) -> bool:
    """True if a Python tool imports a module beside it, by a name that Python has not."""
    if item.target.suffix != ".py":
        return False
    folder = item.target.path.parent
    for of, several in re.findall(_IMPORT, item.text):
        for name in (of, *(part.split()[0] for part in several.split(",") if part.strip())):
            module = name.partition(".")[0]
            if not module or module in sys.stdlib_module_names:
                continue
            for own in (f"{module}.py", f"{module}/__init__.py"):
                if os.path.isfile(folder / own):  # noqa: PTH113 - see below
                    return True
    return False


def _env_paths(
    declared: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[tuple[str, tuple[tuple[str, ...], tuple[str, ...]]]]:
    for variable, entry in declared.items():
        where = f"anchor.env_paths.{variable}"
        if not isinstance(entry, dict):
            raise SpecError(where, f"expected a mapping, got {type_name(entry)}")
        prepended = tuple(_folders(entry.get("prepend"), f"{where}.prepend", names))
        appended = tuple(_folders(entry.get("append"), f"{where}.append", names))
        yield variable, (prepended, appended)


def _folders(entries: object, where: str, names: Mapping[str, str]) -> Iterator[str]:
    """Those of the entries that are folders. `os.path` is false for names that no system takes."""
    if not isinstance(entries, list | None):
        raise SpecError(where, f"expected a list, got {type_name(entries)}")
    for entry in entries or ():
        path = _fill_text(str(entry), names)
        if path and os.path.isdir(path):  # noqa: PTH112 - see above
            yield path


def _env(chain: Chain) -> Iterator[tuple[str, str]]:
    """The variables of all anchors that are on, those of the tool last."""
    for element in reversed(chain.elements):
        config = _validated_config(element.spec.anchor or {})
        if config.get("enabled") is not True:
            continue
        for name, value in (config.get("env") or {}).items():
            if not isinstance(value, str):
                raise SpecError(f"anchor.env.{name}", f"expected a string, got {type_name(value)}")
            yield name, value


def _fill_text(template: str, names: Mapping[str, str]) -> str:
    from lillux.templating import Names, as_text, fill

    return as_text(fill(template, Names(variables={}, fixed=names)))


# The files that a tool could import: all of them verified before anything starts.

_RUNTIME_LIB = "{runtime_lib}/"


@dataclass(frozen=True, slots=True)
class AnchoredFiles:
    """The verified files, and the hash of each by its path, as lockfiles pin it.

    Paths are relative to the anchor; those of a runtime's library begin with ``{runtime_lib}/``.

    folders  the real path of each folder that code may come from, by the path that names it: what
             is no item is not loaded from there
    places   the file of each pin
    """

    items: tuple[VerifiedItem, ...] = ()
    pins: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    rules: DependencyRules = field(default_factory=DependencyRules)
    places: dict[str, Path] = field(default_factory=dict)

    def with_item(self, item: VerifiedItem) -> "AnchoredFiles":
        """The same and a file beside the tool."""
        path = item.target.path
        pins = {**self.pins, path.name: item.content_hash}
        places = {**self.places, path.name: path}
        return replace(self, items=(*self.items, item), pins=pins, places=places)


def verify_anchored_files(
    chain: Chain, anchor: Anchor, verifier: Verifier, warn: Callable[[str], None]
) -> AnchoredFiles:
    """Verify the files that ``verify_deps`` of the chain asks for.

    The tool's own folders count while the anchor is active; the library of its runtime always
    does, for the runtime's command may name it. Raises SpecError, and IntegrityError at the first
    file that fails.
    """
    declared = chain.first_with("verify_deps")
    item = chain.tool.item
    if declared is None or item is None:
        return AnchoredFiles()
    rules = dependency_rules(declared[1])
    if not rules.enabled or rules.scope == "tool_file":
        return AnchoredFiles()
    tool_dir = item.target.path.parent
    items: list[VerifiedItem] = []
    pins: dict[str, str] = {}
    places: dict[str, Path] = {}
    # Of these the tool's own file alone was verified, unless they come again below.
    folders = {str(one): os.path.realpath(one) for one in {tool_dir, anchor.path}}
    for prefix, folder, space in _dependency_folders(chain, anchor, rules.scope, tool_dir):
        base = folder.resolve()
        folders[str(folder)] = str(base)
        kept = tool_dir.resolve()
        for found in verify_tree(base, rules, space, verifier, warn, kept=kept, text=item.text):
            items.append(found)
            name = prefix + found.target.path.relative_to(base).as_posix()
            pins[name], places[name] = found.content_hash, found.target.path
    return AnchoredFiles(tuple(items), pins, folders, rules, places)


def _dependency_folders(
    chain: Chain, anchor: Anchor, scope: str, tool_dir: Path
) -> Iterator[tuple[str, Path, Space]]:
    item = chain.tool.item
    if item and anchor.active:
        yield "", anchor.path if scope == "anchor" else tool_dir, item.target.space
    # A runtime outside of the bundles may bring a library that was not verified.
    runtime = next((e.item for e in chain.elements if (e.spec.anchor or {}).get("lib")), None)
    library = Path(anchor.names["runtime_lib"])
    if runtime and anchor.names["runtime_lib"] and library.is_dir():
        yield _RUNTIME_LIB, library, runtime.target.space
