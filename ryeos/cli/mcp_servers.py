"""``rye mcp add|servers|discover|refresh|remove``: tools of MCP servers as signed items.

What a server offers is written into items, and its digests into the item of the server, after a
person has seen what changed: at a terminal, or by ``--yes``. Without either `refresh` writes
nothing; with ``--propose`` it writes what waits, unsigned, for ``rye approve``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import (
    suppress,
)
from pathlib import Path
from typing import Any

from lillux.beneath import open_folder
from lillux.errors import as_word
from lillux.files import read_bytes, remove_file
from lillux.foreign_text import one_line
from lillux.values import dataclass
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.imports import propose
from ryeos.app.server_pins import (
    difference,
    pin_files,
    pin_package,
    pin_tools,
    uncovered,
    write_unsigned,
)
from ryeos.app.server_tools import (
    RefreshOptions,
    ToolChange,
    ToolState,
    ask_server,
    carry_out,
    change_without_tool,
    changes,
    planned_changes,
    remove_untouched,
    target_of,
    write_signed,
)
from ryeos.app.servers import described_servers, server_location
from ryeos.app.workspace import Rye
from ryeos.cli.asking import is_agreed, painted
from ryeos.cli.review import is_agents, needs_person
from ryeos.cli.run import live_stderr, show
from ryeos.cli.session import Session, cancelled_by_signals
from ryeos.imports.server_items import RUNTIMES, ServerOptions, server_text, valid_server_id
from ryeos.items.errors import (
    Answer,
    ApprovalRequiredError,
    ExecutorNotFoundError,
    UsageError,
    target_exists_error,
)
from ryeos.items.refs import PROJECT, USER, Location
from ryeos.items.replaced import keep_replaced
from ryeos.run.packages import list_path
from ryeos.run.server_command import words_from_anywhere
from ryeos.trust.keys import require_user_space
from ryeos.trust.sign_targets import ReadItem, target_of_path
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
        raise target_exists_error(str(target.path), "a server of this name", hint)
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
    words = tuple(arguments.words or ())
    if arguments.space == USER:
        words = words_from_anywhere(words, session.context.cwd)
    pairs = [header.partition("=") for header in arguments.header or ()]
    return ServerOptions(
        words=words,
        url=arguments.url,
        env=tuple(arguments.env or ()),
        headers={name: variable for name, _, variable in pairs},
        bearer=arguments.bearer,
        timeout_s=arguments.timeout,
    )


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
    add("--yes", action="store_true", help="sign what changed without asking")


def _configure_refresh(parser: Arguments) -> None:
    _configure_discover(parser)
    add = parser.add_argument
    add("--prune", action="store_true", help="remove what the server has not")
    add("--upgrade", action="store_true", help="take the newest version of its package")
    add("--propose", action="store_true", help="sign nothing: write what rye approve then shows")


def _discover(session: Session) -> int:
    arguments = session.arguments
    only, dry_run = tuple(arguments.only or ()), arguments.dry_run
    wish = RefreshOptions(dry_run=dry_run, only=only)
    return _show_result(session, bring_up_to_date(session, arguments.name, wish))


def _refresh(session: Session) -> int:
    arguments = session.arguments
    wish = RefreshOptions(
        update=True,
        prune=arguments.prune,
        dry_run=arguments.dry_run,
        upgrade=arguments.upgrade,
        propose=arguments.propose,
        only=tuple(arguments.only or ()),
    )
    return _show_result(session, bring_up_to_date(session, arguments.name, wish))


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What became of a server, as JSON and for a person; ``failed`` is why it gave no list."""

    envelope: Mapping[str, Any]
    lines: Sequence[str]
    failed: Answer | None = None


def _show_result(session: Session, refreshed: RefreshResult) -> int:
    """Answer with what became of a server; the exit status."""
    failed = refreshed.failed
    if failed is None:
        session.output.answer(refreshed.envelope, "\n".join(refreshed.lines))
        return 0
    show(session, failed)
    if failed.envelope.get("code") == ExecutorNotFoundError.code:
        session.output.note(_NEEDS_RUNTIME)
    return failed.exit_status


def bring_up_to_date(session: Session, name: str, wish: RefreshOptions) -> RefreshResult:
    """Pin a server as it is now, once a person agreed; what became of it.

    (1) its package in one version, or its local files: before it is started
    (2) it is asked for its tools
    (3) the person sees what changed
    (4) the tools are written, and their digests into the server's own item, last: until then calls
        are refused
    """
    rye, server = session.rye, server_location(session.rye, name)

    def told(item_id: str) -> None:
        session.output.note(f"the lockfile of {one_line(item_id)} follows")

    if not wish.dry_run and not wish.propose:
        rye.signing_key()  # before a program is started for nothing
    rye.verifier.verify_location(server)
    started = [] if wish.dry_run else _pins_before_start(rye, server, wish)  # (1)
    if started and wish.propose:
        return _propose(session, server, started)
    if started:
        is_new = not wish.update
        _require_yes(session, name, started, "run this, and ask it for its tools", is_new=is_new)
        list(carry_out(rye, server.space, [(change, True) for change in started], told))
    listed = ask_server(rye, server, cancellation=cancelled_by_signals(), on_stderr=live_stderr)
    if listed.exit_status:  # (2)
        return RefreshResult(listed.envelope, (), failed=listed)
    planned = planned_changes(server, listed, wish)
    pins = pin_tools(rye, server, listed.envelope["data"]["tools"], wish)
    due = [change for change, is_due in planned if is_due] + ([pins] if pins else [])
    if due and wish.propose:
        return _propose(session, server, due)
    if wish.dry_run:
        _show_differences(session, due)
        done = [(change, False) for change, _ in planned]
        _note_what_is_left(session, name, done, wish)
        return _report(session, name, listed, done, (pins, False))
    if due:
        _require_yes(
            session, name, due, f"sign what {name} offers now", is_new=not wish.update
        )  # (3)
    every = [*planned, *([(pins, True)] if pins else [])]
    done = list(carry_out(rye, server.space, every, told))[: len(planned)]  # (4)
    _note_what_is_left(session, name, done, wish)
    return _report(session, name, listed, done, (pins, True))


def _pins_before_start(rye: Rye, server: Location, wish: RefreshOptions) -> list[ToolChange]:
    """What has to be pinned of a server before it may be started."""
    package = pin_package(rye, server, again=wish.upgrade)
    return package or pin_files(rye, server, again=wish.update)


def _report(
    session: Session,
    name: str,
    listed: Answer,
    done: list[tuple[ToolChange, bool]],
    pins: tuple[ToolChange | None, bool],
) -> RefreshResult:
    """What became of each tool, and of the pins."""
    pinned, is_pinned = pins
    not_covered = uncovered(session.rye, server_location(session.rye, name))
    counts = Counter(change.state.value for change, _ in done)
    envelope = {
        "status": "success",
        "server": name,
        "dry_run": not is_pinned,
        "tools": [change.describe(done=is_done) for change, is_done in done],
        "counts": {state.value: counts[state.value] for state in ToolState},
        "pins": {
            "changed": pinned is not None,
            "done": pinned is not None and is_pinned,
            "not_covered": not_covered,
        },
        "truncated": listed.envelope["data"]["truncated"],
    }
    if is_pinned:
        envelope["signed_by"] = session.rye.signing_key().fingerprint
    if not_covered:
        session.output.note(f"no pin holds {one_line(not_covered)}")
    lines = [_change_line(session, change, is_done) for change, is_done in done]
    if pinned and is_pinned:
        session.output.note(f"pinned in {one_line(str(pinned.ref))}: each tool, by its digest")
    return RefreshResult(envelope, lines or ["the server has no tools"])


def _require_yes(
    session: Session, name: str, due: Sequence[ToolChange], question: str, *, is_new: bool = False
) -> None:
    """Show what changed, all of it, and have a person agree to it.

    The command that pins a server for the first time names it, as ``rye sign REF`` does. Raises
    ApprovalRequiredError.
    """
    command = "discover" if is_new else "refresh"
    line = f"rye mcp {command} {as_word(name)} --yes"
    try:
        is_asked = needs_person(session, question, line, is_named=is_new)
    except ApprovalRequiredError:
        _show_differences(session, due)
        raise
    shown = [one for change in due for one in difference(change)]
    if is_asked and not is_agreed(session.terminal, shown, f"{question}?"):
        raise ApprovalRequiredError(question, hint="nothing was signed")
    if not is_asked and session.arguments.verbose:
        _show_differences(session, due)


def _show_differences(session: Session, due: Sequence[ToolChange]) -> None:
    lines = [line for change in due for line in difference(change)]
    for line in painted(session.output, lines):
        session.output.note(line)


def _propose(session: Session, server: Location, due: Sequence[ToolChange]) -> RefreshResult:
    """Write what changed, unsigned, and let it wait for a person.

    What an agent starts can keep no copy of the text that is there, so it replaces none: the agent
    gets the new one, to propose it by the tool sign.
    """
    name = server.ref.name
    if is_agents(session):
        return _left_to_agent(session, server, due)
    items = [
        ReadItem(target_of_path(change.path, session.context.spaces), change.text.encode())
        for change in due
        if change.path
    ]
    waiting = [one.id for one in propose(session.rye, items, f"rye mcp refresh {name}")]
    for change in due:
        if change.path is not None and change.before is not None:
            keep_replaced(session.context.spaces.user, change.path, change.before)
    refs = [ref for change in due if (ref := write_unsigned(change, server.space))]
    envelope = {
        "status": "approval_required",
        "server": name,
        "refs": [str(ref) for ref in refs],
        "proposals": waiting,
        "next": "rye approve",
    }
    lines = [f"written, not signed: {one_line(str(ref))}" for ref in refs]
    session.output.note(f"next: rye approve; then: rye mcp refresh {name}")
    return RefreshResult(envelope, lines)


def _left_to_agent(session: Session, server: Location, due: Sequence[ToolChange]) -> RefreshResult:
    """New files, written unsigned, and the texts that would replace others."""
    name = server.ref.name
    replacing = {str(one.ref): one.text for one in due if one.before is not None and one.text}
    new = [
        ref
        for change in due
        if change.before is None and (ref := write_unsigned(change, server.space))
    ]
    words = [*map(str, new), *(f"{ref} with its content" for ref in replacing)]
    envelope = {
        "status": "approval_required",
        "server": name,
        "refs": [*map(str, new), *replacing],
        "contents": replacing,
        "proposals": [],
        "next": f"sign {', '.join(words)}",
    }
    lines = [f"written, not signed: {one_line(str(ref))}" for ref in new]
    lines += [f"to sign with its new content: {one_line(ref)}" for ref in replacing]
    session.output.note(f"next: the tool sign, for each; then refresh {name} again")
    return RefreshResult(envelope, lines)


def _change_line(session: Session, change: ToolChange, is_done: bool) -> str:  # noqa: FBT001
    state = session.output.paint(change.state.value, _COLORS.get(change.state, "dim"))
    what = one_line(str(change.ref)) if change.ref else one_line(change.tool, 80)
    reason = f": {one_line(change.reason)}" if change.reason else ""
    return f"{state}  {what}{reason}{' (written and signed)' if is_done and change.text else ''}"


def _note_what_is_left(
    session: Session, name: str, done: list[tuple[ToolChange, bool]], wish: RefreshOptions
) -> None:
    left = {change.state for change, is_done in done if not is_done}
    if ToolState.CHANGED in left and not wish.update:
        session.output.note(f"to update what has changed: rye mcp refresh {name}")
    if ToolState.REMOVED in left and not wish.prune:
        session.output.note(f"to remove what it no longer has: rye mcp refresh {name} --prune")
    if ToolState.CONFLICT in left:
        session.output.note("edited files stay; to write one again, delete it and refresh")


def _configure_remove(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME", help="a server")


def _remove(session: Session) -> int:
    """Remove a server and its tools: what a person says by this command, and no agent."""
    server = server_location(session.rye, session.arguments.name)
    if is_agents(session):
        raise ApprovalRequiredError(f"remove {server.ref}, and the tools of it")
    found = [*changes(server.space, server.ref.name, ()), change_without_tool(server)]
    removed: list[str] = []
    kept: list[str] = []
    for change in found:
        is_gone = change.state is ToolState.REMOVED and remove_untouched(change, server.space)
        (removed if is_gone else kept).append(str(change.ref))
    with suppress(FileNotFoundError):
        remove_file(list_path(server.path), within=server.space.within)
    folder = Path(server.path.parent.parent, server.ref.name)
    with suppress(OSError), open_folder(folder.parent, server.space.within) as above:
        above.remove_folder(folder.name)  # one that is empty
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


ADD = CommandSpec(
    _configure_add,
    _add,
    [
        "rye mcp add time -- uvx mcp-server-time",
        "rye mcp add github --url https://api.example.com/mcp --bearer GITHUB_TOKEN",
    ],
)
SERVERS = CommandSpec(no_arguments, _servers, ["rye mcp servers"])
DISCOVER = CommandSpec(
    _configure_discover, _discover, ["rye mcp discover time", "rye mcp discover time --dry-run"]
)
REFRESH = CommandSpec(_configure_refresh, _refresh, ["rye mcp refresh time --prune"])
REMOVE = CommandSpec(_configure_remove, _remove, ["rye mcp remove time"])
