"""Tools of MCP servers as items: discover them, write and refresh their files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.files import (
    create_file,
    locked,
    make_directory,
    read_bytes,
    remove_file,
    write_atomic,
)
from lillux.foreign_text import one_line
from lillux.values import dataclass, replace
from ryeos.app.shown_text import shown_text
from ryeos.app.sign import follow_locks
from ryeos.app.workspace import Rye
from ryeos.imports.server_items import (
    RUNTIMES,
    SERVER_FOLDER,
    SUFFIX,
    ServerTool,
    is_untouched,
    next_version,
    offered_tools,
    valid_server_id,
    version_of,
    with_config,
)
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Location, Reference, Space
from ryeos.items.yaml import parse_yaml
from ryeos.run.calls import OnStderr
from ryeos.run.chain import PACKAGES_SUFFIX
from ryeos.run.model import ExecutionRequest
from ryeos.run.server_command import PROJECT_PLACE, NamedFile, files_of_config, server_folder
from ryeos.run.server_pins import (
    NPM,
    PACKAGE,
    PINS,
    PYPI,
    ServerInstaller,
    ServerPins,
    files_digest,
    newest,
    read_package,
    read_pins,
    server_list_text,
    tool_pins,
)
from ryeos.trust.file_types import extract
from ryeos.trust.keys import SigningKey
from ryeos.trust.resolver import candidates, locations
from ryeos.trust.sign import SignTarget, require_writable, validate_item
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split

# --- servers --------------------------------------------------------------------------------------
# The items of servers: found, listed.


class ServerNotFoundError(RyeError):
    """An MCP server that is configured in no space."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        from difflib import get_close_matches

        self.name = name
        self.suggestions = tuple(get_close_matches(name, known, 2))
        meant = f"did you mean {' or '.join(self.suggestions)}? or " if self.suggestions else ""
        super().__init__(
            f"MCP server {name!r}: not found; configured: {', '.join(known) or 'none'}",
            hint=f"{meant}add it: rye mcp add {name} -- PROGRAM",
        )


def server_location(rye: Rye, name: str) -> Location:
    """Where the item of a server is, in a space that can be written.

    Raises UsageError, ServerNotFoundError.
    """
    ref = ItemRef(Kind.TOOL, valid_server_id(name))
    found = rye.resolver.find(ref)
    if found is None or found.location.space.tier == SYSTEM:
        raise ServerNotFoundError(name, sorted(one["name"] for one in described_servers(rye)))
    return found.location


def described_servers(rye: Rye) -> Iterator[dict[str, Any]]:
    """Every server there is, with what keeps it from being used."""
    seen: set[ItemRef] = set()
    for space in rye.context.spaces:
        for location in locations(space, Kind.TOOL, SERVER_FOLDER):
            if location.ref not in seen and not location.ref.id.endswith(PACKAGES_SUFFIX):
                seen.add(location.ref)
                yield _describe_server(rye, location)


def _describe_server(rye: Rye, location: Location) -> dict[str, Any]:
    name = location.ref.name
    described: dict[str, Any] = {
        "name": name,
        "ref": str(location.ref),
        "space": location.space.label,
        "path": str(location.path),
    }
    try:
        item = rye.verifier.verify_location(location)
        header = item.header or extract(Kind.TOOL, location.suffix, item.text, str(location.path))
    except LilluxError as error:
        return described | {"problem": str(error)}
    config = header.get("config")
    config = config if isinstance(config, dict) else {}
    shown = {key: config[key] for key in ("transport", "command", "args", "url") if key in config}
    package = config.get(PACKAGE)
    if isinstance(package, dict):
        shown["command"] = " ".join(
            f"{name} {package[name]}" for name in (NPM, PYPI) if name in package
        )
    tools = sum(1 for _ in locations(location.space, Kind.TOOL, f"mcp/{name}"))
    return described | shown | {"tools": tools}


# --- writing --------------------------------------------------------------------------------------
# Items written and signed in one step: no reader ever meets one without its signature.


class ToolState(StrEnum):
    """What is, or is to be done, with a tool of a server."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    CONFLICT = "conflict"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """One tool. ``text`` is what its item is to hold, ``before`` the bytes that are there."""

    state: ToolState
    tool: str
    ref: ItemRef | None = None
    path: Path | None = None
    text: str = ""
    before: bytes | None = None
    reason: str = ""

    def describe(self, *, done: bool) -> dict[str, Any]:
        """The change as commands show it; ``done`` where it has been carried out."""
        described: dict[str, Any] = {"state": self.state.value, "tool": self.tool}
        described |= {"ref": str(self.ref)} if self.ref else {}
        described |= {"path": str(self.path)} if self.path else {}
        described |= {"reason": self.reason} if self.reason else {}
        return described | {"done": done}


def changes(space: Space, server: str, offered: Sequence[ServerTool]) -> Iterator[ToolChange]:
    """The changes to the items of a server; items whose tool is gone are among them."""
    known = set()
    for offer in offered:
        change = _change(space, offer)
        known.add(change.path)
        yield change
    for location in locations(space, Kind.TOOL, f"mcp/{server}"):
        if location.path not in known and not location.ref.is_test:
            yield change_without_tool(location)


def change_without_tool(location: Location) -> ToolChange:
    """The change of an item whose tool is gone: removed, or a conflict if it was edited."""
    body, before = _body_at(location.path)
    state = ToolState.REMOVED if is_untouched(body) else ToolState.CONFLICT
    reason = "the server does not have it"
    return ToolChange(
        state=state,
        tool=location.ref.name,
        ref=location.ref,
        path=location.path,
        before=before,
        reason=reason if state is ToolState.REMOVED else f"{reason}, and it was edited",
    )


def write_signed(
    rye: Rye, key: SigningKey, target: SignTarget, text: str, before: bytes | None
) -> None:
    """Write an item with its signature; ``before`` is what is there, None for nothing.

    Raises what signing raises, FileChangedError, FileExistsError.
    """
    require_writable(target)
    valid = validate_item(target, text.encode())
    form = form_for(target.kind, SUFFIX)
    if valid.signed is None:  # a suffix with its signature beside it, which ours is not
        raise AssertionError(target.label)
    where = str(target.path)
    data = key.signed_text(target.kind, valid.signed, form, where, valid.identity).encode()
    within = target.space.within
    with locked(target.space.lock("sign"), within=within):
        make_directory(target.path.parent, within=within)
        if before is None:
            create_file(target.path, data, within=within)
        else:
            write_atomic(target.path, data, expected=before, within=within)
        written = rye.verifier.verify(target.verify_target)
    if written.signature and written.identity and target.ref:  # signing decides for this version
        rye.note_signed(target.ref, target.space, written.signature, written.identity.version)


def write_change(rye: Rye, key: SigningKey, space: Space, change: ToolChange) -> ToolChange:
    """Write an added or changed tool; one that cannot be is reported with its reason."""
    if change.path is None:
        return change
    target = SignTarget(path=change.path, kind=Kind.TOOL, space=space, ref=change.ref)
    try:
        write_signed(rye, key, target, change.text, change.before)
    except (LilluxError, FileExistsError) as error:
        return ToolChange(
            state=ToolState.SKIPPED,
            tool=change.tool,
            ref=change.ref,
            path=change.path,
            reason=str(error),
        )
    return change


def remove_untouched(change: ToolChange, space: Space) -> bool:
    """Remove an item that is as it was written; whether it was."""
    if change.path is None or change.before is None:
        return False
    if read_bytes(change.path, MAX_ITEM_BYTES, within=space.within) != change.before:
        return False
    remove_file(change.path, within=space.within)
    return True


def target_of(space: Space, item_id: str) -> SignTarget:
    """The file of an item that we write."""
    ref = ItemRef(Kind.TOOL, item_id)
    path = Path(f"{space.directory(Kind.TOOL) / item_id}{SUFFIX}")
    return SignTarget(path=path, kind=Kind.TOOL, space=space, ref=ref)


def _change(space: Space, offer: ServerTool) -> ToolChange:
    if offer.problem:
        return ToolChange(state=ToolState.SKIPPED, tool=offer.tool, reason=offer.problem)
    target = target_of(space, offer.item_id)
    others = [p.name for p in candidates(space, ItemRef(Kind.TOOL, offer.item_id)) if p.exists()]
    if others not in ([], [target.path.name]):
        reason = f"{', '.join(others)}: another item has this id"
        return ToolChange(state=ToolState.CONFLICT, tool=offer.tool, ref=target.ref, reason=reason)
    body, before = _body_at(target.path)
    state, text, reason = _compare_tool(offer, body, is_there=before is not None)
    return ToolChange(
        state=state,
        tool=offer.tool,
        ref=target.ref,
        path=target.path,
        text=text,
        before=before,
        reason="; ".join(filter(None, (reason, *offer.notes))),
    )


def _compare_tool(offer: ServerTool, body: str, *, is_there: bool) -> tuple[ToolState, str, str]:
    if not is_there:
        return ToolState.ADDED, offer.text(), ""
    if not is_untouched(body):
        return ToolState.CONFLICT, "", "it was edited, or not written from this server"
    version = version_of(body)
    if offer.text(version) == body:
        return ToolState.UNCHANGED, "", ""
    return ToolState.CHANGED, offer.text(next_version(version)), "the server describes it otherwise"


def _body_at(path: Path) -> tuple[str, bytes | None]:
    """The text without signature lines, and the bytes; nothing where no file is."""
    try:
        data = read_bytes(path, MAX_ITEM_BYTES)
    except FileNotFoundError:
        return "", None
    return _body_of(path, data), data


def _body_of(path: Path, data: bytes) -> str:
    """The text without signature lines; nothing of a text that cannot be read."""
    try:
        where = str(path)
        return split(decode(data, where), form_for(Kind.TOOL, SUFFIX), where).body
    except LilluxError:
        return ""


# --- discovery ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOptions:
    """What is to be done about the tools of a server, beside adding new ones.

    update  write anew what the server describes otherwise
    prune   remove what it no longer has
    upgrade takes the newest version of its package
    propose writes it unsigned, for a person to sign
    only    names of tools; all without
    """

    update: bool = False
    prune: bool = False
    dry_run: bool = False
    upgrade: bool = False
    propose: bool = False
    only: Sequence[str] = ()


def ask_server(
    rye: Rye,
    server: Location,
    *,
    cancellation: Cancellation | None = None,
    on_stderr: OnStderr | None = None,
) -> Answer:
    """The server's list of tools, as `Rye.execute` gives it."""
    request = ExecutionRequest(item_id=server.ref.id, use_lockfile=False)
    return rye.execute(
        Reference(Kind.TOOL, server.ref.id),
        request,
        cancellation=cancellation,
        on_stderr=on_stderr,
    )


def planned_changes(
    server: Location, listed: Answer, wish: RefreshOptions
) -> list[tuple[ToolChange, bool]]:
    """Each change of a tool, and whether it is to be carried out."""
    data = listed.envelope["data"]
    runtime = next(
        (e["item_id"] for e in listed.envelope["chain"] if e["item_id"] in RUNTIMES.values()),
        RUNTIMES["stdio"],
    )
    offered = [
        offer
        for offer in offered_tools(server.ref.name, runtime, data["tools"])
        if not wish.only or offer.tool in wish.only
    ]
    planned = []
    for change in changes(server.space, server.ref.name, offered):
        if change.state is ToolState.REMOVED and (wish.only or data["truncated"]):
            continue  # it may well be there
        is_due = change.state is ToolState.ADDED and (not wish.only or change.tool in wish.only)
        is_due |= change.state is ToolState.CHANGED and wish.update
        is_due |= change.state is ToolState.REMOVED and wish.prune
        planned.append((change, is_due))
    return planned


def carry_out(
    rye: Rye,
    space: Space,
    planned: Sequence[tuple[ToolChange, bool]],
    on_lock: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[ToolChange, bool]]:
    """Write and sign what is due; each change, and whether it was carried out.

    Lockfiles that pin what was written follow: ``on_lock`` gets the tool of each.
    """
    key = rye.signing_key()
    names: set[str] = set()
    paths: set[Path] = set()
    for change, is_due in planned:
        if not is_due:
            yield change, False
        elif change.state is ToolState.REMOVED:
            yield change, remove_untouched(change, space)
        else:
            written = write_change(rye, key, space, change)
            if written is change and change.ref and change.path:
                names |= {change.ref.id, change.path.name}
                paths.add(change.path.resolve())
            yield written, written is change
    for item_id in follow_locks(rye, names, paths):
        on_lock(item_id)


# --- pins -----------------------------------------------------------------------------------------
# What of a server is written into its own item: the digests of its tools and files, its package.


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
    """What of a server's program no pin holds, in one line; ``""`` for one at an address."""
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
    _, there = _body_at(path)
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
    """What a change does to an item, all of it, as lines of a diff that steer no terminal."""
    body = _body_of(change.path, change.before) if change.path and change.before else ""
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
