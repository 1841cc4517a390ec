"""Tools of MCP servers as items: discover them, write and refresh their files."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.cancellation import Cancellation
from lillux.digests import sha256_hex
from lillux.errors import LilluxError, UnsafePathError
from lillux.files import (
    create_file,
    locked,
    make_directory,
    read_bytes,
    require_plain_path,
    write_atomic,
)
from lillux.schema import validate_schema
from lillux.values import dataclass, field
from ryeos.app.workspace import Rye
from ryeos.items.errors import Answer, RyeError, UsageError
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Location, Reference, Space
from ryeos.items.yaml import yaml_text
from ryeos.run.calls import OnStderr
from ryeos.run.model import ExecutionRequest
from ryeos.trust.file_types import extract
from ryeos.trust.keys import SigningKey
from ryeos.trust.resolver import candidates, locations
from ryeos.trust.sign import SignTarget, require_writable, validate_item
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split

# --- documents ------------------------------------------------------------------------------------
# The text of the items that are written, and whether somebody has edited one since. Pure.
#
# The last line of such a text has the digest of all above it. A text whose digest is another was
# edited, whoever has signed it since.

FIRST_VERSION = "1.0.0"
_DIGEST = re.compile(r'^x-mcp-digest: "([0-9a-f]{64})"\n', re.MULTILINE)
_VERSION = re.compile(r'^version: "(\d+)\.(\d+)\.(\d+)"$', re.MULTILINE)


def generated(comment: str, values: Mapping[str, object]) -> str:
    """A text with a mark that it was not edited. Raises ValueError for no JSON."""
    text = f"# {comment}\n{yaml_text(values)}"
    return f'{text}x-mcp-digest: "{_digest(text)}"\n'


def is_untouched(body: str) -> bool:
    """Whether a text is as it was generated."""
    above, found, below = _taken_apart(body)
    return not below and found == _digest(above)


def version_of(body: str) -> str:
    """The version in a generated text."""
    found = _VERSION.search(body)
    return ".".join(found.groups()) if found else FIRST_VERSION


def next_version(version: str) -> str:
    """The version after this one."""
    rest, _, last = version.rpartition(".")
    return f"{rest}.{int(last) + 1}"


def _taken_apart(body: str) -> tuple[str, str, str]:
    for found in list(_DIGEST.finditer(body))[-1:]:
        return body[: found.start()], found[1], body[found.end() :]
    return body, "", ""


def _digest(text: str) -> str:
    return sha256_hex(text.encode())


# --- names ----------------------------------------------------------------------------------------
# Names of items for the tools of a server, whatever the server calls them. Pure.

SERVER_FOLDER = "mcp/servers"
_MAX_CHARACTERS = 64
_SERVER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")
_MARK_DIGITS = 8


def valid_server_id(name: str) -> str:
    """The id of a server's item. Raises UsageError for a name that no folder should have."""
    if not _SERVER.fullmatch(name) or name == "servers" or not _is_file_name(name):
        raise UsageError(
            f"server {name[:80]!r}: expected small letters, digits, '-' and '_', at most 64",
            hint="choose a name of your own, like github; servers is the folder of them all",
        )
    return f"{SERVER_FOLDER}/{name}"


def item_names(tools: Sequence[str]) -> Mapping[str, str]:
    """A file name for each tool: its own where that is one, else with a mark made from its own.

    Names that differ only in the case of letters are all marked: some file systems do not tell
    them apart.
    """
    plain = {tool: _OTHERS.sub("_", tool).strip("_-")[:_MAX_CHARACTERS] for tool in tools}
    alike = Counter(name.lower() for name in plain.values())
    return {
        tool: name
        if name == tool and alike[name.lower()] == 1 and _is_file_name(name)
        # The mark says which tool it is, so that no other one can take its place.
        else f"{name[: _MAX_CHARACTERS - _MARK_DIGITS - 1] or 'tool'}-{_mark(tool)}"
        for tool, name in plain.items()
    }


def _mark(tool: str) -> str:
    return sha256_hex(tool.encode("utf-8", "surrogatepass"))[:_MARK_DIGITS]


def _is_file_name(name: str) -> bool:
    try:
        require_plain_path(name)
    except UnsafePathError:
        return False
    return bool(name)


# --- offers ---------------------------------------------------------------------------------------
# What a server offers, tool by tool, as texts of items. Pure: nothing that it says is believed.
#
# Its words are data: names become names of files by `names`, descriptions are one line of bounded
# length, schemas must be ones that values can be judged by.

MAX_DESCRIPTION_CHARACTERS = 1000
MAX_TEXT_BYTES = 256 * 1024
MAX_NAME_CHARACTERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool of a server. ``problem`` says why it cannot be an item, ``""`` where it can."""

    tool: str
    item_id: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str = ""

    def text(self, version: str = FIRST_VERSION) -> str:
        """The item's text."""
        return generated(
            "Written by rye mcp from what the server says; once you edit it, it is left alone.",
            {"version": version, **self.values},
        )


def offered_tools(
    server: str, runtime: str, tools: Sequence[Mapping[str, Any]]
) -> Iterator[ServerTool]:
    """The tools that a server has listed, of two with one name the first."""
    named: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS:
            shown = repr(name)[:80]
            yield ServerTool(
                tool=shown, problem=f"name: expected 1 to {MAX_NAME_CHARACTERS} characters"
            )
        elif name in named:
            yield ServerTool(tool=name, problem="name: another tool of the server has it too")
        else:
            named[name] = tool
    names = item_names(list(named))
    for name, tool in named.items():
        yield _offer(server, runtime, f"mcp/{server}/{names[name]}", tool)


def _offer(server: str, runtime: str, item_id: str, tool: Mapping[str, Any]) -> ServerTool:
    name, schema = tool["name"], tool.get("inputSchema", {"type": "object"})
    problem = _schema_problem(schema)
    if problem:
        return ServerTool(tool=name, item_id=item_id, problem=f"inputSchema: {problem}")
    values = {
        "tool_type": "mcp",
        "executor_id": runtime,
        "category": f"mcp/{server}",
        "description": _description(tool) or f"{_one_line(name)} of the server {server}",
        "config": {"server": f"{SERVER_FOLDER}/{server}", "tool_name": name},
        "input_schema": schema,
    }
    offer = ServerTool(tool=name, item_id=item_id, values=values)
    try:
        size = len(offer.text().encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        return ServerTool(tool=name, item_id=item_id, problem=str(error))
    if size > MAX_TEXT_BYTES:
        found = f"expected an item of at most {MAX_TEXT_BYTES} bytes, found {size}"
        return ServerTool(tool=name, item_id=item_id, problem=found)
    return offer


def _schema_problem(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return f"expected an object, found {type(schema).__name__}"
    if schema.get("type", "object") != "object":
        return "expected the type object"
    try:
        validate_schema(schema)
    except (LilluxError, RecursionError) as error:
        return str(error)[:300]
    return ""


def _description(tool: Mapping[str, Any]) -> str:
    text = tool.get("description") or tool.get("title")
    return _one_line(text) if isinstance(text, str) else ""


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    if len(plain) <= MAX_DESCRIPTION_CHARACTERS:
        return plain
    return f"{plain[: MAX_DESCRIPTION_CHARACTERS - 1]}…"


# --- servers --------------------------------------------------------------------------------------
# The items of servers: written, listed, removed.

RUNTIMES = {"stdio": "rye/core/runtimes/mcp/stdio", "http": "rye/core/runtimes/mcp/http"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class ServerNotFoundError(RyeError):
    """An MCP server that no space has written down."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, name: str, known: Sequence[str]) -> None:
        from difflib import get_close_matches

        self.name = name
        self.suggestions = tuple(get_close_matches(name, known, 2))
        meant = f"did you mean {' or '.join(self.suggestions)}? or " if self.suggestions else ""
        super().__init__(
            f"MCP server {name!r}: not found; configured: {', '.join(known) or 'none'}",
            hint=f"{meant}add it: rye mcp add {name} -- PROGRAM",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a server is reached: a program and its words, or an address.

    env      names of variables that the program gets
    headers  header -> name of the variable that holds it
    bearer   the variable that holds a token, "" for none
    """

    words: Sequence[str] = ()
    url: str = ""
    env: Sequence[str] = ()
    headers: Mapping[str, str] = {}
    bearer: str = ""
    timeout_s: float = 0


def server_text(name: str, options: ServerOptions) -> str:
    """The text of a server's item. Raises UsageError, InvalidUrlError."""
    valid_server_id(name)
    if bool(options.words) == bool(options.url):
        hint = f"rye mcp add {name} -- python3 server.py, or: rye mcp add {name} --url URL"
        found = "both" if options.url else "neither"
        raise UsageError(f"expected the program of a server or --url, found {found}", hint=hint)
    config = _stdio(options) if options.words else _http(options)
    if options.timeout_s:
        config["timeout"] = options.timeout_s
    values = {
        "version": FIRST_VERSION,
        "tool_type": "mcp_server",
        "executor_id": RUNTIMES[config["transport"]],
        "category": SERVER_FOLDER,
        "description": f"The MCP server {name}; run it, and it says which tools it has",
        "config": config,
    }
    return generated("Written by rye mcp add.", values)


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
            if location.ref not in seen:
                seen.add(location.ref)
                yield _described(rye, location)


def _described(rye: Rye, location: Location) -> dict[str, Any]:
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
    told = config if isinstance(config, dict) else {}
    shown = {key: told[key] for key in ("transport", "command", "args", "url") if key in told}
    tools = sum(1 for _ in locations(location.space, Kind.TOOL, f"mcp/{name}"))
    return described | shown | {"tools": tools}


def _stdio(options: ServerOptions) -> dict[str, Any]:
    if options.headers or options.bearer:
        raise UsageError("--header, --bearer: expected with --url, found a program")
    command, *args = options.words
    env = {_variable(name): f"${{{name}}}" for name in options.env}
    config: dict[str, Any] = {"transport": "stdio", "command": command, "args": args}
    return config | ({"env": env} if env else {})


def _http(options: ServerOptions) -> dict[str, Any]:
    from lillux.http.model import parse_address

    if options.env:
        raise UsageError("--env: expected with a program, found --url")
    parse_address(options.url)
    headers = {}
    for name, variable in options.headers.items():
        if not _HEADER.fullmatch(name):
            raise UsageError(f"--header: expected NAME=VARIABLE, found {name[:80]!r}")
        headers[name] = f"${{{_variable(variable)}}}"
    if options.bearer:
        headers["Authorization"] = f"Bearer ${{{_variable(options.bearer)}}}"
    config: dict[str, Any] = {"transport": "http", "url": options.url}
    return config | ({"headers": headers} if headers else {})


def _variable(name: str) -> str:
    """Never its value: what is written here is read by everybody who reads the project."""
    if not _VARIABLE.fullmatch(name):
        raise UsageError(
            f"expected the name of a variable, found {name[:80]!r}",
            hint="set the variable to the secret, and name the variable here",
        )
    return name


# --- writing --------------------------------------------------------------------------------------
# Items written and signed in one step: no reader ever meets one without its signature.

SUFFIX = ".yaml"


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
    """What the items of a server would have to become, and those that nothing stands for."""
    known = set()
    for offer in offered:
        change = _change(space, offer)
        known.add(change.path)
        yield change
    for location in locations(space, Kind.TOOL, f"mcp/{server}"):
        if location.path not in known and not location.ref.is_test:
            yield change_without_tool(location)


def change_without_tool(location: Location) -> ToolChange:
    """What becomes of an item that nothing stands for: removed, or a conflict if it was edited."""
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
    with locked(target.space.ai / "state" / "sign.lock"):
        make_directory(target.path.parent)
        if before is None:
            create_file(target.path, data)
        else:
            write_atomic(target.path, data, expected=before)
        rye.verifier.verify(target.verify_target)


def write_change(rye: Rye, key: SigningKey, space: Space, change: ToolChange) -> ToolChange:
    """Write an added or changed tool; one that cannot be is told with its reason."""
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


def remove_untouched(change: ToolChange) -> bool:
    """Remove an item that is as it was written; whether it was."""
    if change.path is None or change.before is None:
        return False
    if read_bytes(change.path, MAX_ITEM_BYTES) != change.before:
        return False
    change.path.unlink()
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
    state, text, reason = _compared(offer, body, is_there=before is not None)
    return ToolChange(
        state=state,
        tool=offer.tool,
        ref=target.ref,
        path=target.path,
        text=text,
        before=before,
        reason=reason,
    )


def _compared(offer: ServerTool, body: str, *, is_there: bool) -> tuple[ToolState, str, str]:
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
    try:
        where = str(path)
        return split(decode(data, where), form_for(Kind.TOOL, SUFFIX), where).body, data
    except LilluxError:
        return "", data


# --- discovery ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOptions:
    """What is to be done about the tools of a server, beside adding new ones.

    update  write anew what the server describes otherwise
    prune   remove what it no longer has
    only    names of tools; all without
    """

    update: bool = False
    prune: bool = False
    dry_run: bool = False
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


def bring_up_to_date(
    rye: Rye, server: Location, listed: Answer, wish: RefreshOptions
) -> Iterator[tuple[ToolChange, bool]]:
    """Each change, and whether it was carried out. Raises NoSigningKeyError."""
    data, space = listed.envelope["data"], server.space
    runtime = next(
        (e["item_id"] for e in listed.envelope["chain"] if e["item_id"] in RUNTIMES.values()),
        RUNTIMES["stdio"],
    )
    offered = [
        offer
        for offer in offered_tools(server.ref.name, runtime, data["tools"])
        if not wish.only or offer.tool in wish.only
    ]
    key = None if wish.dry_run else rye.signing_key()
    for change in list(changes(space, server.ref.name, offered)):
        is_meant = not wish.only or change.tool in wish.only
        if change.state is ToolState.REMOVED and (wish.only or data["truncated"]):
            continue  # it may well be there
        is_written = change.state is ToolState.ADDED or (
            wish.update and change.state is ToolState.CHANGED
        )
        if key and is_written and is_meant:
            written = write_change(rye, key, space, change)
            yield written, written is change
        elif key and wish.prune and change.state is ToolState.REMOVED:
            yield change, remove_untouched(change)
        else:
            yield change, False
