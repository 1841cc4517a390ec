"""Pins of a server in its own item: digests of its tools and files, its package."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lillux.files import create_file, make_directory, write_atomic
from lillux.foreign_text import one_line
from lillux.values import replace
from ryeos.app.server_tools import RefreshOptions, ToolChange, ToolState, body_at, body_of
from ryeos.app.shown_text import shown_text
from ryeos.app.workspace import Rye
from ryeos.imports.server_items import SUFFIX, with_config
from ryeos.items.refs import ItemRef, Kind, Location, Space
from ryeos.items.yaml import parse_yaml
from ryeos.run.chain import PACKAGES_SUFFIX
from ryeos.run.server_command import PROJECT_PLACE, NamedFile, files_of_config, server_folder
from ryeos.run.server_packages import (
    PACKAGE,
    ServerInstaller,
    newest,
    read_package,
    server_list_text,
)
from ryeos.run.server_pins import PINS, ServerPins, files_digest, read_pins, tool_pins
from ryeos.trust.signature import decode, form_for, split


def pin_tools(
    rye: Rye, server: Location, tools: Sequence[Mapping[str, Any]], wish: RefreshOptions
) -> ToolChange | None:
    """The server's item with its tools as they are now; None if it says so already.

    Without ``update`` what is pinned stays, and what is new is added. Raises UneditableYamlError,
    SpecError.
    """
    body, before = _signed_body(rye, server)
    config = _config_of(server, body)
    pins = read_pins(config)
    now, known = tool_pins(tools), dict(pins.tools or {})
    if pins.tools is None or (wish.update and not wish.only):
        pinned = now
    else:
        chosen = set(wish.only) if wish.only else now.keys()
        fresh = {name: now[name] for name in now if name in chosen}
        pinned = {**known, **fresh} if wish.update else {**fresh, **known}
    said: dict[str, Any] = {"tools": dict(sorted(pinned.items()))}
    said |= pins.described_files()
    if said == config.get(PINS):
        return None
    return _server_change(server, before, with_config(body, {PINS: said}))


def _signed_body(rye: Rye, server: Location) -> tuple[str, bytes]:
    """The text of a server's item as it is signed, and the bytes that a change may replace.

    What is pinned is written into a text that a person signed, and into no other one: what another
    person wrote there is never signed on the way. Raises IntegrityError.
    """
    item = rye.verifier.verify_location(server)
    where = str(server.path)
    return split(decode(item.data, where), form_for(Kind.TOOL, SUFFIX), where).body, item.data


def _config_of(server: Location, body: str) -> Mapping[str, Any]:
    config = parse_yaml(body, str(server.path)).get("config")
    return config if isinstance(config, dict) else {}


def _server_change(server: Location, before: bytes | None, text: str) -> ToolChange:
    return ToolChange(
        state=ToolState.CHANGED,
        tool=server.ref.name,
        ref=server.ref,
        path=server.path,
        text=text,
        before=before,
        reason="what is pinned of the server",
    )


def _file_pins(rye: Rye, config: Mapping[str, Any], tier: str) -> ServerPins:
    """The local files that a server's command line names, and their digest; empty for none."""
    project = rye.context.project_path
    if PACKAGE in config or project is None:
        return ServerPins()
    env = rye.context.process_env
    home = env.get("USERPROFILE" if rye.context.platform == "win32" else "HOME", "")
    chosen = str(config.get("cwd") or "").replace(PROJECT_PLACE, str(project))
    user = str(rye.context.spaces.user.base)
    cwd = server_folder(chosen, tier, project=str(project), user=user)
    named = files_of_config(config, cwd, project=str(project), home=home)
    digest, count = files_digest(named, project)
    if not count:
        return ServerPins()
    words = [config["command"], *(config.get("args") or ())]
    file, *also = (_written(one, words, project) for one in named)
    return ServerPins(file=file, files=digest, also=tuple(also))


def _written(named: NamedFile, words: Sequence[object], project: Path) -> str:
    """A path as the item has it: the word itself, else from the project, else the whole path."""
    word = str(words[named.at]).removeprefix(named.prefix) if named.at >= 0 else ""
    if word and not named.module and Path(word).name == named.path.name:
        return word
    if named.path.is_relative_to(project):
        return f"{PROJECT_PLACE}/{named.path.relative_to(project).as_posix()}"
    return str(named.path)


def pin_files(rye: Rye, server: Location, *, again: bool = False) -> list[ToolChange]:
    """The server's item with its local files as they are now.

    Nothing where there are none, and where some are pinned, unless ``again`` is set.
    """
    body, before = _signed_body(rye, server)
    config = _config_of(server, body)
    pins = read_pins(config)
    now = _file_pins(rye, config, server.space.tier)
    said = now.described_files()
    if not said or (pins.files and not again) or said == pins.described_files():
        return []
    tools = {"tools": dict(pins.tools)} if pins.tools is not None else {}
    text = with_config(body, {PINS: {**tools, **said}})
    return [replace(_server_change(server, before, text), reason="the files of the server")]


def uncovered(rye: Rye, server: Location) -> str:
    """Parts of a server's program that no pin holds, in one line; ``""`` for one at an address."""
    body, _ = _signed_body(rye, server)
    config = _config_of(server, body)
    command = config.get("command")
    if PACKAGE in config or not isinstance(command, str):
        return ""
    if not read_pins(config).files:
        return f"its program: {command} and what that loads; its tools alone are pinned"
    return (
        "what its files load by other ways than an import of code beside them, the data that they"
        f" read, and {command} itself with its packages"
    )


def pin_package(rye: Rye, server: Location, *, again: bool = False) -> list[ToolChange]:
    """The server's item with its package in one version, and the list of all that this needs.

    Nothing for a server without a package, or one that is pinned, unless ``again`` asks for the
    newest version that fits. No code of a package runs for it. Raises PackagesError.
    """
    import sys
    from tempfile import TemporaryDirectory

    from lillux.process import ProcessManager
    from ryeos.run.packages import list_path

    body, before = _signed_body(rye, server)
    package = read_package(_config_of(server, body), server.ref.name)
    if package is None or (package.digest and not again):
        return []
    installer = ServerInstaller(ProcessManager(), rye.context.own_environment, rye.context.platform)
    with TemporaryDirectory(prefix="rye-packages-") as folder:
        found = installer.resolve(newest(package), sys.executable, Path(folder))
    if found.config["list"] == package.digest:
        return []
    name = next(iter(found.config.values()))
    path = list_path(server.path)
    ref = ItemRef(Kind.TOOL, f"{server.ref.id}{PACKAGES_SUFFIX}")
    _, there = body_at(path)
    listed = ToolChange(
        state=ToolState.ADDED if there is None else ToolState.CHANGED,
        tool=name,
        ref=ref,
        path=path,
        text=server_list_text(server.ref.id, found),
        before=there,
        reason=f"{len(found.requirements)} packages with their hashes",
    )
    return [listed, _server_change(server, before, with_config(body, {PACKAGE: found.config}))]


def difference(change: ToolChange) -> list[str]:
    """All changes of an item, as lines of a diff without control characters."""
    body = body_of(change.path, change.before) if change.path and change.before else ""
    after = "" if change.state is ToolState.REMOVED else change.text
    before, now = (shown_text(text.encode(), SUFFIX).lines for text in (body, after))
    name = f"approved {one_line(str(change.ref))}"
    return list(unified_diff(before, now, name, "now", lineterm="", n=2))


def write_unsigned(change: ToolChange, space: Space) -> ItemRef | None:
    """Write a change for a person to sign; None where there is nothing to write.

    Raises FileChangedError, FileSystemError.
    """
    if change.path is None or not change.text or change.ref is None:
        return None
    make_directory(change.path.parent, within=space.within)
    if change.before is None:
        create_file(change.path, change.text.encode(), within=space.within)
    else:
        write_atomic(change.path, change.text.encode(), expected=change.before, within=space.within)
    return change.ref
