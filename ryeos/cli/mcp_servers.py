"""``rye mcp add|servers|discover|refresh|remove``: tools of MCP servers as signed items."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.files import read_bytes
from ryeos.app.output import one_line
from ryeos.app.server_tools import (
    RefreshOptions,
    ToolChange,
    ToolState,
    ask_server,
    bring_up_to_date,
    change_without_tool,
    changes,
    described_servers,
    remove_untouched,
    server_location,
    target_of,
    write_signed,
)
from ryeos.cli.arguments import Arguments
from ryeos.cli.run import live_stderr, show
from ryeos.cli.session import CommandSpec, Session, cancelled_by_signals
from ryeos.imports.server_items import RUNTIMES, ServerOptions, server_text, valid_server_id
from ryeos.items.errors import ExecutorNotFoundError, TargetExistsError, UsageError
from ryeos.items.refs import PROJECT, USER
from ryeos.trust.keys import require_user_space
from ryeos.trust.signature import MAX_ITEM_BYTES

_NEEDS_RUNTIME = (
    "a server that can be asked has a runtime as its executor_id,"
    f" {' or '.join(RUNTIMES.values())}: rye mcp add writes it so"
)
_COLORS = {ToolState.ADDED: "green", ToolState.CHANGED: "yellow", ToolState.CONFLICT: "red"}


def _configure_add(parser: Arguments) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="what the server is called here")
    add("words", metavar="WORD", nargs="*", help="a program and its words, after --")
    add("--url", metavar="URL", default="", help="the address of a server, in place of a program")
    add("--env", metavar="VARIABLE", action="append", help="a variable that the program gets")
    add("--header", metavar="NAME=VARIABLE", action="append", help="a header, and what holds it")
    add("--bearer", metavar="VARIABLE", default="", help="the variable that holds a token")
    add("--timeout", metavar="S", type=float, default=0, help="seconds for a call, default 60")
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="default: project")
    add("--replace", action="store_true", help="in place of a server of this name")


def _add(session: Session) -> int:
    arguments = session.arguments
    if not 0 <= arguments.timeout < float("inf"):
        raise UsageError(f"--timeout: expected seconds from 0 up, found {arguments.timeout}")
    text = server_text(arguments.name, _options(session))
    space = session.rye.space(arguments.space)
    if arguments.space == USER:
        require_user_space(session.context)
    target = target_of(space, valid_server_id(arguments.name))
    key = session.rye.signing_key()
    before = None
    with suppress(FileNotFoundError):
        before = read_bytes(target.path, MAX_ITEM_BYTES)
    if before is not None and not arguments.replace:
        hint = "choose another name, or give --replace"
        raise TargetExistsError(str(target.path), "a server of this name", hint)
    write_signed(session.rye, key, target, text, before)
    following = f"rye mcp discover {arguments.name}"
    envelope = {
        "status": "success",
        "server": arguments.name,
        "ref": target.label,
        "path": str(target.path),
        "signed_by": key.fingerprint,
        "next": following,
    }
    session.output.answer(envelope, f"wrote and signed {target.path}")
    session.output.note(f"next: {following}")
    return 0


def _options(session: Session) -> ServerOptions:
    arguments = session.arguments
    pairs = [header.partition("=") for header in arguments.header or ()]
    return ServerOptions(
        words=tuple(arguments.words or ()),
        url=arguments.url,
        env=tuple(arguments.env or ()),
        headers={name: variable for name, _, variable in pairs},
        bearer=arguments.bearer,
        timeout_s=arguments.timeout,
    )


def _configure_nothing(_: Arguments) -> None:
    """No arguments of its own."""


def _servers(session: Session) -> int:
    servers = list(described_servers(session.rye))
    lines = [_server_line(server) for server in servers]
    session.output.answer({"status": "success", "servers": servers}, "\n".join(lines))
    return 0


def _server_line(server: dict[str, Any]) -> str:
    if "problem" in server:
        name, problem = one_line(server["name"]), one_line(server["problem"])
        return f"{name}  ({server['space']})  {problem}"
    words = [server.get("url") or server.get("command", ""), *server.get("args", [])]
    where = one_line(" ".join(map(str, words)), 80)
    return f"{one_line(server['name'])}  ({server['space']}, {server['tools']} tools)  {where}"


def _configure_discover(parser: Arguments) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="a server")
    add("--only", metavar="TOOL", action="append", help="of its tools only this one")
    add("--dry-run", action="store_true", help="ask the server, write nothing")


def _configure_refresh(parser: Arguments) -> None:
    _configure_discover(parser)
    parser.add_argument("--prune", action="store_true", help="remove what the server has not")


def _discover(session: Session) -> int:
    return _bring_up_to_date(session, update=False, prune=False)


def _refresh(session: Session) -> int:
    return _bring_up_to_date(session, update=True, prune=session.arguments.prune)


def _bring_up_to_date(session: Session, *, update: bool, prune: bool) -> int:
    arguments, rye = session.arguments, session.rye
    server = server_location(rye, arguments.name)
    if not arguments.dry_run:
        rye.signing_key()  # before a program is started for nothing
    listed = ask_server(rye, server, cancellation=cancelled_by_signals(), on_stderr=live_stderr)
    if listed.exit_status:
        show(session, listed)
        if listed.envelope.get("code") == ExecutorNotFoundError.code:
            session.output.note(_NEEDS_RUNTIME)
        return listed.exit_status
    only, dry_run = tuple(arguments.only or ()), arguments.dry_run
    wish = RefreshOptions(update=update, prune=prune, dry_run=dry_run, only=only)
    done = list(bring_up_to_date(rye, server, listed, wish))
    counts = Counter(change.state.value for change, _ in done)
    envelope = {
        "status": "success",
        "server": arguments.name,
        "dry_run": dry_run,
        "tools": [change.describe(done=is_done) for change, is_done in done],
        "counts": {state.value: counts[state.value] for state in ToolState},
        "truncated": listed.envelope["data"]["truncated"],
    }
    if not dry_run:
        envelope["signed_by"] = rye.signing_key().fingerprint
    lines = [_change_line(session, change, is_done) for change, is_done in done]
    session.output.answer(envelope, "\n".join(lines) or "the server has no tools")
    _note_what_is_left(session, done, update=update, prune=prune)
    return 0


def _change_line(session: Session, change: ToolChange, is_done: bool) -> str:  # noqa: FBT001
    state = session.output.paint(change.state.value, _COLORS.get(change.state, "dim"))
    what = one_line(str(change.ref)) if change.ref else one_line(change.tool, 80)
    reason = f": {one_line(change.reason)}" if change.reason else ""
    return f"{state}  {what}{reason}{' (written and signed)' if is_done and change.text else ''}"


def _note_what_is_left(
    session: Session, done: list[tuple[ToolChange, bool]], *, update: bool, prune: bool
) -> None:
    left = {change.state for change, is_done in done if not is_done}
    name = session.arguments.name
    if ToolState.CHANGED in left and not update:
        session.output.note(f"to update what has changed: rye mcp refresh {name}")
    if ToolState.REMOVED in left and not prune:
        session.output.note(f"to remove what it no longer has: rye mcp refresh {name} --prune")
    if ToolState.CONFLICT in left:
        session.output.note("edited files stay; to write one again, delete it and refresh")


def _configure_remove(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME", help="a server")


def _remove(session: Session) -> int:
    server = server_location(session.rye, session.arguments.name)
    found = [*changes(server.space, server.ref.name, ()), change_without_tool(server)]
    removed: list[str] = []
    kept: list[str] = []
    for change in found:
        is_gone = change.state is ToolState.REMOVED and remove_untouched(change)
        (removed if is_gone else kept).append(str(change.ref))
    folder = Path(server.path.parent.parent, server.ref.name)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    envelope = {
        "status": "success",
        "server": server.ref.name,
        "removed": removed,
        "kept": kept,
    }
    lines = [f"removed {one_line(ref)}" for ref in removed]
    lines += [f"kept {one_line(ref)}: it was edited" for ref in kept]
    session.output.answer(envelope, "\n".join(lines))
    return 0


COMMANDS = {
    "mcp add": CommandSpec(
        _configure_add,
        _add,
        [
            "rye mcp add time -- uvx mcp-server-time",
            "rye mcp add github --url https://api.example.com/mcp --bearer GITHUB_TOKEN",
        ],
    ),
    "mcp servers": CommandSpec(_configure_nothing, _servers, ["rye mcp servers"]),
    "mcp discover": CommandSpec(
        _configure_discover, _discover, ["rye mcp discover time", "rye mcp discover time --dry-run"]
    ),
    "mcp refresh": CommandSpec(_configure_refresh, _refresh, ["rye mcp refresh time --prune"]),
    "mcp remove": CommandSpec(_configure_remove, _remove, ["rye mcp remove time"]),
}
