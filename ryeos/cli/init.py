"""``rye init``: user space, the own key, the project, and clients, each where it is missing.

Asks only at a terminal, and only about clients; overwrites nothing. A second run changes nothing
and says so. ``rye uninstall`` takes rye out of clients and empties its cache; what a person wrote,
and keys, it only names.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError, as_word
from lillux.files import create_file
from lillux.key_files import PRIVATE_KEY_FILE, save_keypair
from lillux.signing import generate_keypair
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.findings import (
    LEFT,
    MADE,
    REMOVED,
    THERE,
    WOULD_MAKE,
    WOULD_REMOVE,
    Step,
    space_folders,
    step_status,
)
from ryeos.cli.session import Session
from ryeos.items.errors import ApprovalRequiredError, UsageError
from ryeos.items.refs import AI_DIRECTORY, PROJECT, Space
from ryeos.trust.keys import require_user_space, trust_own_key
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import document_path

REPOSITORY_MARKS = (".git", ".hg", ".svn", ".jj", "_darcs", ".fslckout")
GITIGNORE = """\
# Written by rye init: what belongs to this machine only.
state/
outputs/
threads/
*.bak
config/keys/signing/
config/keys/receipts/
"""


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add(
        "-p",
        "--project",
        "--project-path",
        metavar="DIR",
        nargs="?",
        const=".",
        help="set up a project too: here, or in DIR (default: where .ai/ or a repository is)",
    )
    add("--user", action="store_true", help="user space only")
    add("--no-key", action="store_true", help="make no signing key")
    add("--client", action="append", metavar="NAME", help="add rye to a client's settings too")
    add("--dry-run", action="store_true", help="say what would be made")


def _run(session: Session) -> int:
    arguments = session.arguments
    if arguments.user and arguments.project:
        raise UsageError("--user, --project: expected one of them")
    from ryeos.cli.mcp_clients import chosen_clients, client_steps

    user = require_user_space(session.context)
    project = None if arguments.user else _project(session)
    clients = chosen_clients(session)
    make = not arguments.dry_run
    steps = [space_folders(user, make=make, mode=0o700)]
    if not arguments.no_key:
        steps += _key(session, user, make=make)
    if project:
        steps += [space_folders(project, make=make, mode=0o755), _gitignore(project, make=make)]
    steps += client_steps(session, clients, make=make)
    _show(session, steps, project)
    if project and make and not arguments.no_key:
        _offer_approval(session, project)
    return 0


def _offer_approval(session: Session, project: Space) -> None:
    """Ask about what the project brings; without a terminal, say how to."""
    from ryeos.cli.trust import approve_project

    try:
        approve_project(session, project, is_new=True)
    except ApprovalRequiredError:
        session.output.note("what the project brings is not used yet; to approve it: rye trust")


def _project(session: Session) -> Space | None:
    """The project to set up: the one that was named, else a folder that looks like one."""
    project = session.rye.space(PROJECT) if session.arguments.project else None
    found = project or session.context.spaces.project
    if found is None:
        return None
    if found.base.resolve() == session.context.spaces.user.base.resolve():
        raise UsageError(
            f"{found.base}: expected a project folder, found the base of user space",
            hint="change to the project's folder, or name it: --project DIR",
        )
    marks = (AI_DIRECTORY, *REPOSITORY_MARKS)
    looks_like_one = any((found.base / mark).exists() for mark in marks)
    return found if project or looks_like_one else None


def _key(session: Session, user: Space, *, make: bool) -> Iterator[Step]:
    directory = session.context.key_directory
    private = directory / PRIVATE_KEY_FILE
    if not private.exists() and not make:
        yield Step("signing key", private, WOULD_MAKE)
        return
    status = THERE
    if not private.exists():
        save_keypair(directory, generate_keypair())
        status = MADE
    key = session.rye.signing_key()
    yield Step(f"signing key {key.fingerprint}", private, status)
    yield _own_document(key, user, make=make)


def _own_document(key: SigningKey, user: Space, *, make: bool) -> Step:
    path = document_path(user, key.fingerprint)
    if not make:
        return Step("trust in it", path, step_status(missing=not path.is_file(), make=False))
    _, was_there = trust_own_key(key, user)
    return Step("trust in it", path, step_status(missing=not was_there, make=True))


def _gitignore(project: Space, *, make: bool) -> Step:
    path = project.ai / ".gitignore"
    if not make and not path.exists():
        return Step("ignore list", path, WOULD_MAKE)
    try:
        create_file(path, GITIGNORE.encode(), within=project.within)
    except FileExistsError:
        return Step("ignore list", path, THERE)
    return Step("ignore list", path, MADE)


def _show(session: Session, steps: list[Step], project: Space | None) -> None:
    from ryeos.cli.doctor import quick_checks
    from ryeos.cli.findings import OK

    checks = [] if session.arguments.dry_run else quick_checks(session)
    problems = [check for check in checks if check.status != OK]
    following = _next_command(session, project)
    agents = _agents(session)
    envelope = {
        "status": "success",
        "actions": [
            {"what": step.what, "path": str(step.path), "status": step.status} for step in steps
        ],
        "project": str(project.base) if project else None,
        "checks": [check.describe() for check in problems],
        "agents": agents,
        "next": following,
    }
    for check in problems:
        session.output.warn(f"{check.name}: {check.message}")
        if check.fix:
            session.output.note(f"  fix: {check.fix}")
    shown = steps if session.arguments.verbose else [s for s in steps if s.status != THERE]
    lines = [f"{step.status}: {step.what}, {step.path}" for step in shown]
    session.output.answer(envelope, "\n".join(lines or ["everything is there already"]))
    if agents and any(step.status in {MADE, WOULD_MAKE} for step in steps):
        session.output.note(
            f"what agents start may write: {', '.join(agents['write'])};"
            " to change that: agents in config/sandbox/policy.yaml, see docs/rights.md"
        )
    session.output.note(f"next: {following}")


def _agents(session: Session) -> dict[str, Any]:
    """What agents may write; a policy that is wrong is for the checks to show."""
    from ryeos.cli.chain import agents_may

    with suppress(LilluxError):
        return agents_may(session)
    return {}


def _next_command(session: Session, project: Space | None) -> str:
    if session.arguments.dry_run:
        return "rye init"
    if not (session.context.key_directory / PRIVATE_KEY_FILE).exists():
        return "rye keys generate"
    return "rye new tool mine/hello" if project else "rye init --project"


# --- uninstall ------------------------------------------------------------------------------------


def _configure_uninstall(parser: Arguments) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _uninstall(session: Session) -> int:
    is_dry = session.arguments.dry_run
    if not is_dry:
        steps = [step for step in _removals(session, make=False) if step.status != LEFT]
        shown = "".join(f"\n  {step.what}, {step.path}" for step in steps)
        if steps and not session.confirm(f"this removes:{shown}\nremove it?"):
            session.output.answer({"status": "success", "actions": []}, "nothing was removed")
            return 0
    steps = [*_removals(session, make=not is_dry), *_kept_by_user(session)]
    envelope = {
        "status": "success",
        "dry_run": bool(is_dry),
        "actions": [
            {"what": step.what, "path": str(step.path), "status": step.status} for step in steps
        ],
    }
    pastes = ("; to ", ": run: ")  # a line that pastes ends where its command ends
    lines = [
        f"{step.status}: {step.what}"
        + ("" if any(one in step.what for one in pastes) else f", {step.path}")
        for step in steps
    ]
    session.output.answer(envelope, "\n".join(lines))
    return 0


def _removals(session: Session, *, make: bool) -> Iterator[Step]:
    """Rye in each client, and its cache."""
    from ryeos.cli.mcp_clients import uninstall_for_user
    from ryeos.cli.session import packed_program
    from ryeos.imports.clients import CLIENTS

    for client in CLIENTS:
        try:
            step = uninstall_for_user(session, client, make=make)
        except LilluxError as error:
            session.output.warn(str(error))
            continue
        if step:
            yield step
    program = packed_program()
    kept = tuple(program.kept()) if program else ()
    if program and kept:
        for path in kept if make else ():
            with suppress(OSError):  # gone already; on Windows what is loaded cannot be removed
                program.remove(path)
        cache = Path(str(program.cache()))
        yield Step(f"{len(kept)} entries of the cache", cache, REMOVED if make else WOULD_REMOVE)


def _kept_by_user(session: Session) -> Iterator[Step]:
    """What stays: the program, user space with its keys, this project, shared settings, caches."""
    from ryeos.cli.mcp_clients import project_entries
    from ryeos.cli.session import program_path
    from ryeos.items.context import cache_root

    user, project = session.context.spaces.user, session.context.spaces.project
    program = program_path()
    if program:
        yield Step(f"this program; to remove it: rm {as_word(program)}", program, LEFT)
    if user.ai.is_dir():
        yield Step(f"your keys and items; to remove them: rm -r {as_word(user.ai)}", user.ai, LEFT)
    if project and project.ai.is_dir() and project.ai != user.ai:
        yield Step("the items of this project", project.ai, LEFT)
    yield from project_entries(session)
    for shell, path in completion_files(session.environ):
        if path.is_file():
            line = f"rm {as_word(path)}"
            yield Step(f"completion for {shell}; to remove it: {line}", path, LEFT)
    cache = cache_root(session.environ, session.context.platform)
    if cache and cache.is_dir() and any(cache.iterdir()):
        yield Step(f"the cache; to remove it: rm -r {as_word(cache)}", cache, LEFT)


def completion_files(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where `rye completion` says that its scripts of this user go, by shell."""
    home = environ.get("HOME", "")
    if home:
        yield "bash", Path(home, ".local/share/bash-completion/completions/rye")
        yield "zsh", Path(home, ".zfunc/_rye")
        yield "fish", Path(home, ".config/fish/completions/rye.fish")


UNINSTALL = CommandSpec(
    _configure_uninstall, _uninstall, ["rye uninstall --dry-run", "rye uninstall --yes"]
)
INIT = CommandSpec(
    _configure,
    _run,
    ["rye init", "rye init --project", "rye init --client cursor", "rye init --dry-run"],
)
