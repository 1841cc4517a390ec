"""``rye import`` and ``rye skill``: make items of existing files, which a person signs."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.foreign_text import one_line, without_control_characters
from lillux.values import replace
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.imports import (
    ENV_FILE,
    PlannedWrite,
    WriteState,
    plan_import,
    planned_writes,
    propose,
    write_items,
)
from ryeos.app.proposals import WAITING, Proposals
from ryeos.app.server_tools import RefreshOptions
from ryeos.app.skills import SkillState, export_skill, skills
from ryeos.cli.mcp_clients import machine_of
from ryeos.cli.mcp_servers import RefreshResult, bring_up_to_date
from ryeos.cli.review import is_agents
from ryeos.cli.session import Session, cancelled_by_signals, with_way_out
from ryeos.cli.sign import Mode, decide
from ryeos.imports.clients import NAMES as CLIENT_NAMES
from ryeos.imports.clients import client_of, find_client
from ryeos.imports.kinds import NAMES, ImportKind, find_kind, sources_at
from ryeos.imports.plan import MAX_ITEMS, ImportPlan, ImportSource, ProposedItem, shown_path
from ryeos.imports.server_items import SERVER_FOLDER
from ryeos.items.errors import RyeError, UsageError, error_envelope
from ryeos.items.refs import PROJECT, USER, Reference, Space, parse_reference
from ryeos.trust.keys import require_user_space
from ryeos.trust.sign_targets import ReadItem

_COLORS = {
    WriteState.NEW: "green",
    WriteState.REPLACED: "yellow",
    WriteState.CONFLICT: "red",
    WriteState.REFUSED: "red",
}
_WIDTH = 100
_AT_ONCE = 100
"""Proposals that are made before the first of them is decided."""


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("path", metavar="PATH", nargs="?", help="a file, or a folder to look in (default: .)")
    add(
        "--from",
        dest="kind",
        metavar="KIND",
        default="",
        help=f"what it is: {', '.join(NAMES)}, or a client",
    )
    add("--only", metavar="NAME", action="append", help="of what is there only this one")
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="default: project")
    add("--dry-run", action="store_true", help="show what would be made; start and write nothing")
    add("--server", metavar="URL", default="", help="of an OpenAPI document: where it is served")
    add("--force", action="store_true", help="replace items that are there; their text is kept")
    add("--replace", action="store_true", help="put rye in their place in the client's settings")
    add("--yes", action="store_true", help="write and sign all of it without asking")


def _run(session: Session) -> int:
    server = session.arguments.server
    if server and not re.fullmatch(r"https?://[^/?#@\s{}$]+(/[^?#\s{}$]*)?", server):
        raise UsageError(f"--server: expected https://HOST, found {server[:80]!r}")
    found = _sources(session, _space(session))
    return import_sources(
        session, [(kind, replace(source, server=server)) for kind, source in found]
    )


def import_sources(session: Session, found: Sequence[tuple[ImportKind, ImportSource]]) -> int:
    """Show what would be made of these, write it, and let a person sign it; the exit status."""
    arguments = session.arguments
    space = _space(session)
    project = space.base if space.tier == PROJECT else None
    sources = [(kind, replace(one, project=project, base=space.base)) for kind, one in found]
    plan = plan_import(sources, tuple(arguments.only or ()))
    env_file = session.context.spaces.user.ai / ENV_FILE
    writes = list(planned_writes(plan, space, env_file, force=arguments.force))
    envelope: dict[str, Any] = {
        "status": "success",
        "dry_run": arguments.dry_run,
        "items": [write.describe() for write in writes],
        "notes": list(plan.notes),
    }
    if plan.left_out:
        envelope["left_out"] = plan.left_out
        session.output.warn(f"{plan.left_out} more are left out: expected at most {MAX_ITEMS}")
    table = "\n".join(_table(session, plan, writes)) or "nothing to import"
    due = [write for write in writes if write.is_due]
    if arguments.replace and not due and not arguments.dry_run:
        session.output.note(table)
        envelope["replaced"] = _replaced(session, sources, writes)
        session.output.answer(envelope, _replaced_text(envelope["replaced"]))
        return 1 if plan.left_out or any(map(_is_refused, writes)) else 0
    if arguments.dry_run or not due:
        session.output.answer(envelope, table)
        is_refused = any(_is_refused(write) for write in writes)
        is_wrong = is_refused and not due and not arguments.dry_run
        return 1 if is_wrong or plan.left_out else 0
    if not _is_agreed(session, table, due):
        session.output.answer({**envelope, "status": "cancelled"}, "nothing was written")
        return 1
    if any(item.probe for item in plan.items):
        from ryeos.app.script_help import with_help

        session.output.note("asking scripts for their arguments, in a sandbox: --help")
        plan = with_help(session.rye, plan)
        writes = list(planned_writes(plan, space, env_file, force=arguments.force))
        envelope["items"] = [write.describe() for write in writes]
        for note in (item.notes[-1] for item in plan.items if item.probe and item.notes):
            session.output.note(one_line(note, 400))
    tried = _tried(session, plan, due)
    if tried is not plan:
        writes = list(planned_writes(tried, space, env_file, force=arguments.force))
        envelope["items"] = [write.describe() for write in writes]
    status = _write_and_ask(session, sources, writes, env_file, envelope)
    return status or (1 if plan.left_out else 0)


def _tried(session: Session, plan: ImportPlan, due: Sequence[PlannedWrite]) -> ImportPlan:
    """The plan, its local servers with what their rights keep them from: they were started once.

    A person agrees to that start; for an agent, and without a terminal to ask at, none is started.
    """
    from ryeos.app.server_trials import MAX_TRIALS, is_local_server, with_trial

    written = {write.item.ref for write in due}
    local = [item for item in plan.items if item.ref in written and is_local_server(item)]
    local = local[:MAX_TRIALS]
    may_ask = session.can_ask or session.arguments.yes
    if not local or not may_ask or is_agents(session):
        return plan
    names = ", ".join(one_line(item.name) for item in local)
    shown = [f"{one_line(item.name)}: {one_line(item.shown, _WIDTH)}" for item in local]
    if not session.confirm(f"start {names} once, confined, to try the rights?", shown):
        return plan
    cancellation, items, space = cancelled_by_signals(), list[ProposedItem](), _space(session)
    for item in plan.items:
        tried = with_trial(session.rye, item, space, cancellation) if item in local else item
        if tried is not item:
            session.output.warn(f"{one_line(item.name)}: {one_line(tried.notes[-1], 600)}")
        items.append(tried)
    return replace(plan, items=tuple(items))


def _write_and_ask(
    session: Session,
    sources: Sequence[tuple[ImportKind, ImportSource]],
    writes: list[PlannedWrite],
    env_file: Path,
    envelope: dict[str, Any],
) -> int:
    """Write the items, and let a person read and sign each of them."""
    kept: list[Path] = []
    items = write_items(writes, env_file, session.context.spaces.user, kept.append)
    targets = [item.target for item in items]
    if kept:
        envelope["prior_texts"] = [str(one) for one in kept]
        for one in kept:
            session.output.note(f"what was replaced: {one}")
    rows, unproposed, problem = _decided(session, items)
    if unproposed:
        # What an agent starts writes no proposals; the files are there for a person to sign.
        count = f"{len(unproposed)} of {len(items)}"
        session.output.note(with_way_out(session, f"written, and not proposed: {count}: {problem}"))
        following = f"rye sign {' '.join(one.target.label for one in unproposed)}"
        if not rows:
            session.output.answer({**envelope, "next": following}, f"next: {following}")
            return 1 if problem.code == "RESOURCE_EXCEEDED" else 0
        envelope["next"] = following
        session.output.note(f"next: {following}")
    envelope["proposals"] = rows
    lines = [f"{row['state']:<8} {one_line(row['ref'])}" for row in rows]
    if any(row["state"] == "waiting" for row in rows):
        session.output.note("next: rye approve")
    signed = {row["ref"] for row in rows if row["state"] == "signed"}
    servers = [
        target.ref.name
        for target in targets
        if target.ref and target.ref.category == SERVER_FOLDER and target.label in signed
    ]
    status = 1 if unproposed or any(row["state"] == "failed" for row in rows) else 0
    envelope["servers"] = {}
    for name in servers:
        said = _pinned(session, name)
        envelope["servers"][name] = said.envelope
        lines += said.lines
        status = status or (1 if said.envelope["status"] == "error" else 0)
    if session.arguments.replace:
        envelope["replaced"] = _replaced(session, sources, writes)
    session.output.answer(envelope, "\n".join(lines))
    return status


def _decided(
    session: Session, items: Sequence[ReadItem]
) -> tuple[list[dict[str, Any]], Sequence[ReadItem], LilluxError]:
    """What became of each item, those that could not be proposed, and why.

    A number of proposals may wait at once: more are made as others are decided.
    """
    rows: list[dict[str, Any]] = []
    mode = Mode.ALL if session.arguments.yes else Mode.ASK
    room = Proposals(session.context.spaces.user).room
    while len(rows) < len(items):
        left = items[len(rows) :]
        try:
            waiting = propose(session.rye, left[: min(max(room(), 1), _AT_ONCE)])
        except LilluxError as error:
            return rows, left, error
        rows += decide(session, waiting, mode)
        if any(row["state"] == WAITING for row in rows) and mode is Mode.ASK:
            mode = Mode.LIST  # no person is there, or the person stopped
    return rows, (), LilluxError("")


def _replaced(
    session: Session,
    sources: Sequence[tuple[ImportKind, ImportSource]],
    writes: Sequence[PlannedWrite],
) -> list[dict[str, Any]]:
    """Put Rye in the place of the servers whose items are signed: just now, or before."""
    signed = []
    for write in writes:
        ref = write.item.ref
        if _is_refused(write) or ref.category != SERVER_FOLDER:
            continue
        with suppress(LilluxError):
            found, _ = session.rye.load(Reference(ref.kind, ref.id))
            signed += [ref.name] if found.location.path == write.target.path else []
    return [_replace_servers(session, source, writes, signed) for _, source in sources]


def _replaced_text(changes: Sequence[dict[str, Any]]) -> str:
    done = [change for change in changes if change["done"]]
    if not done:
        return "nothing was replaced"
    return "\n".join(f"{change['path']}: rye for {', '.join(change['servers'])}" for change in done)


def _replace_servers(
    session: Session, source: ImportSource, writes: Sequence[PlannedWrite], signed: Sequence[str]
) -> dict[str, Any]:
    """Put Rye in the place of servers in a client's settings, after a diff; what was done.

    Servers that were not signed stay. The file as it was is kept in user space.
    """
    from difflib import unified_diff

    from ryeos.cli.client_settings import (
        SettingsScope,
        launch_for,
        read_settings,
        user_path,
        with_entry,
        without_servers,
        write_settings,
    )
    from ryeos.cli.mcp_clients import SETTINGS_MODES, server_launch

    machine = machine_of(session)
    client = find_client(source.client) if source.client else client_of(source.path, machine)
    if client is None or (client.user_is_its_own and source.path == user_path(client, machine)):
        problem = "only its client changes it" if client else "of no client that is known"
        session.output.warn(f"{source.path}: not changed: {problem}")
        return {"path": str(source.path), "done": False, "problem": problem}
    start = f"{shown_path(source.path, source.project)}: {'.'.join(client.container)}."
    items = [write.item for write in writes if write.item.ref.name in signed]
    names = [item.name for item in items if item.origin == f"{start}{item.name}"]
    is_project = source.project is not None and source.path.is_relative_to(source.project)
    scope = SettingsScope.PROJECT if is_project else SettingsScope.USER
    project = source.project if is_project else None
    settings = read_settings(client, source.path, project=project)
    launch = launch_for(client, server_launch(session), scope, project, is_named=False)
    _, text = with_entry(settings, launch)
    text = without_servers(settings, text, names)
    before, after = settings.text.splitlines(), text.splitlines()
    secrets = [one.value for write in writes for one in write.item.secrets]
    for line in unified_diff(before, after, str(source.path), "after", lineterm="", n=0):
        session.output.note(without_control_characters(_without_secrets(line, secrets)))
    if not names or not session.confirm(f"change {source.path}?"):
        return {"path": str(source.path), "done": False, "servers": names}
    backup = write_settings(
        settings, text, mode=SETTINGS_MODES[scope], user=session.context.spaces.user
    )
    kept = f"; as it was, with its secrets: {backup}" if backup else ""
    session.output.note(f"changed: {source.path}{kept}")
    change = {"path": str(source.path), "done": True, "servers": names}
    return change | {"backup": str(backup) if backup else None}


def _without_secrets(line: str, secrets: Sequence[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        for written in (json.dumps(secret)[1:-1], secret):
            line = line.replace(written, "***") if written else line
    return line


def _pinned(session: Session, name: str) -> RefreshResult:
    """Pin a server that was signed, and its tools; one that fails does not keep the others."""
    session.output.note(f"{name}: its package, and its tools")
    try:
        said = bring_up_to_date(session, name, RefreshOptions(update=True))
    except LilluxError as error:
        said = RefreshResult(error_envelope(error), ())
    if said.envelope["status"] != "error":
        return said
    problem = one_line(str(said.envelope.get("error")), 400)
    line = f"not pinned yet: {name}: {problem}; later: rye mcp refresh {name}"
    return RefreshResult(said.envelope, [line])


# --- sources --------------------------------------------------------------------------------------


def _space(session: Session) -> Space:
    if session.arguments.space == USER:
        return require_user_space(session.context)
    return session.rye.space(PROJECT)


def _sources(session: Session, space: Space) -> list[tuple[ImportKind, ImportSource]]:
    """The files to read. Raises UsageError, with the closest name for one that is not known."""
    arguments = session.arguments
    project = space.base if space.tier == PROJECT else None
    typed = arguments.path
    if typed is not None and "\0" in typed:
        raise UsageError("PATH: expected a path, found a NUL in it")
    path = session.context.cwd / Path(typed or ".").expanduser()
    if not arguments.kind:
        own = _own_skills(space) if typed is None else []
        try:
            found = [*sources_at(path), *own]
        except UsageError:
            if not own:
                raise
            found = own
        return [(kind, ImportSource(path=file, project=project)) for kind, file in found]
    if arguments.kind.lower() in CLIENT_NAMES:
        return _of_client(session, project, path if typed else None)
    kind = find_kind(arguments.kind)
    files = list(kind.found_in(path)) if path.is_dir() else [path]
    if typed is None and kind.name == "skill":
        files += [file for _, file in _own_skills(space)]
    if not files:
        raise UsageError(f"{path}: no {kind.title} here", hint="name the file itself")
    return [(kind, ImportSource(path=file, project=project)) for file in files]


def _own_skills(space: Space) -> list[tuple[ImportKind, Path]]:
    """The skills of a user, which clients keep in the home folder, for the user's own space."""
    kind = find_kind("skill")
    if space.tier != USER:
        return []
    return [(kind, file) for file in kind.found_in(space.base) if file.parent != space.base]


def _of_client(
    session: Session, project: Path | None, path: Path | None
) -> list[tuple[ImportKind, ImportSource]]:
    """The settings of a client: a file that was named, else those of the project and the user's."""
    client = find_client(session.arguments.kind)
    own = client.user(machine_of(session)) if client.user else None
    in_project = project / client.project if project and client.project else None
    places = [path] if path else [place for place in (in_project, own) if place]
    found = [place for place in places if place.is_file()]
    if not found:
        looked = ", ".join(map(str, places)) or "no place is known"
        hint = f"name the file: rye import FILE --from {client.name}"
        raise UsageError(f"{client.title}: no settings found ({looked})", hint=hint)
    kind = find_kind("mcp")
    return [(kind, ImportSource(path=one, project=project, client=client.name)) for one in found]


# --- table ----------------------------------------------------------------------------------------


def _table(session: Session, plan: ImportPlan, writes: list[PlannedWrite]) -> list[str]:
    """What would be made, a line for each item and one for each thing to know about it."""
    width = max((len(str(write.item.ref)) for write in writes), default=0)
    lines = []
    for write in writes:
        item = write.item
        state = f"{write.state.value:<13}"
        color = _COLORS.get(write.state, "dim")
        ref = one_line(str(item.ref)).ljust(min(width, 60))
        lines.append(f"{session.output.paint(state, color)}  {ref}  {one_line(item.origin, 60)}")
        lines += [f"{'':<13}    {one_line(step)}" for step in item.steps]
        shown = "" if item.steps else item.shown
        notes = [shown, item.held and f"pinned: {item.held}", write.reason, *item.notes]
        notes += [f"its value goes to the variable {one.variable}" for one in item.secrets]
        lines += [f"{'':<13}    {one_line(text, _WIDTH)}" for text in notes if text]
    return [*lines, *(one_line(note, _WIDTH) for note in plan.notes)]


def _is_refused(write: PlannedWrite) -> bool:
    return write.state in (WriteState.REFUSED, WriteState.CONFLICT)


def _is_agreed(session: Session, table: str, due: list[PlannedWrite]) -> bool:
    """Whether to write. Without a terminal there is no question: nothing unsigned runs."""
    question = f"write {len(due)} items, unsigned, and read each before signing?"
    if session.arguments.yes or not session.can_ask:
        session.output.note(table)
        return True
    return session.confirm(question, table.split("\n"))


# --- skills ---------------------------------------------------------------------------------------
# ``rye skill``: sign skills with all their files, verify them, write directives as skills.


def _configure_add(parser: Arguments) -> None:
    add = parser.add_argument
    add("path", metavar="FOLDER", nargs="+", help="a folder with a SKILL.md")
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="default: project")
    add("--copy", action="store_true", help="copy it to .ai/skills, though it lies in the space")
    add("--dry-run", action="store_true", help="show what would be made, write nothing")
    add("--yes", action="store_true", help="write and sign all of it without asking")


def _add(session: Session) -> int:
    arguments = session.arguments
    arguments.only, arguments.force, arguments.replace = None, True, False
    kind, sources = find_kind("skill"), []
    for typed in arguments.path:
        folder = session.context.cwd / Path(typed).expanduser()
        folder = folder.parent if folder.name == "SKILL.md" else folder
        if not (folder / "SKILL.md").is_file():
            raise UsageError(
                f"{typed}: expected a folder with a SKILL.md",
                hint="look for skills here with: rye import --from skill --dry-run",
            )
        sources.append((kind, ImportSource(path=folder, project=None, copies=arguments.copy)))
    return import_sources(session, sources)


def _configure_list(parser: Arguments) -> None:
    """No arguments."""


def _list(session: Session) -> int:
    found = list(skills(session.rye))
    envelope = {"status": "success", "skills": [one.describe() for one in found]}
    session.output.answer(envelope, "\n".join(map(_line, found)) or "no skills: rye import")
    return 0


def _configure_verify(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME", nargs="*", help="a skill or its id (default: all)")


def _verify(session: Session) -> int:
    found = list(skills(session.rye))
    for name in session.arguments.name:
        if not any(name in _names(one) for one in found):
            raise RyeError(
                f"{name[:80]}: no such skill", code="ITEM_NOT_FOUND", hint="rye skill list"
            )
    wanted = session.arguments.name
    chosen = [one for one in found if not wanted or set(wanted) & set(_names(one))]
    refused = [one for one in chosen if one.problem]
    envelope = {
        "status": "error" if refused else "success",
        "skills": [one.describe() for one in chosen],
    }
    if refused:
        envelope |= {"error": refused[0].problem, "code": refused[0].code}
    lines = [_line(one) for one in chosen]
    lines += [one_line(f"hint: {one.hint}", 400) for one in refused if one.hint]
    session.output.answer(envelope, "\n".join(lines) or "no skills")
    return 4 if refused else 0


def _names(one: SkillState) -> tuple[str, ...]:
    return (one.manifest.name, one.location.ref.id, str(one.location.ref))


def _line(one: SkillState) -> str:
    state = "refused" if one.problem else "valid"
    text = one.problem or f"{len(one.manifest.files)} files in {one.manifest.folder}"
    return one_line(f"{state:<8} {one.location.ref}  {text}", 400)


def _configure_export(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="DIRECTIVE", help="like mine/review")
    parser.add_argument("--to", metavar="FOLDER", default=".", help="default: this folder")


def _export(session: Session) -> int:
    reference = parse_reference(session.arguments.ref, "directive")
    folder = session.context.cwd / Path(session.arguments.to).expanduser()
    written = [str(path) for path in export_skill(session.rye, reference, folder)]
    session.output.answer({"status": "success", "files": written}, "\n".join(written))
    return 0


IMPORT = CommandSpec(
    _configure,
    _run,
    [
        "rye import --dry-run",
        "rye import .mcp.json",
        "rye import .mcp.json --only github",
        "rye import --from cursor --space user --replace",
        "rye import --from skill --space user",
    ],
)
ADD = CommandSpec(
    _configure_add,
    _add,
    ["rye skill add .claude/skills/pdf-forms", "rye skill add ~/downloads/pdf-forms"],
)
LIST = CommandSpec(_configure_list, _list, ["rye skill list", "rye skill list --json"])
VERIFY = CommandSpec(_configure_verify, _verify, ["rye skill verify", "rye skill verify pdf-forms"])
EXPORT = CommandSpec(
    _configure_export, _export, ["rye skill export mine/review --to .claude/skills"]
)
