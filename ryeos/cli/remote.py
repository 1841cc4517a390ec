"""``rye remote execute``, ``status``, ``threads``, ``thread`` and ``history``: runs on a node."""

import json
from collections.abc import Container
from typing import Any

from ryeos.cli import run
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.remote_run import run_on
from ryeos.cli.remote_words import (
    check_thread_id,
    limit_of,
    linked,
    short,
    surroundings,
    take_limit,
    take_remote,
)
from ryeos.cli.session import Command, Session
from ryeos.envelope import TOOL_FAILED
from ryeos.errors import RyeError, UsageError
from ryeos.executor.model import Request
from ryeos.remote.opening import open_link
from ryeos.remote.options import RemoteOptions
from ryeos.remote.remotes import Remotes

_THREADS, _HISTORY = 20, 20


def _configure_execute(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:id, or an id")
    add("pairs", metavar="k=v", nargs="*", help="text k=v, JSON k:=JSON, a file's text k@FILE")
    add("--params", metavar="JSON|@FILE|-", help="all parameters as one JSON object")
    add("--stdin", action="store_true", help="parameters as JSON on standard input")
    add("--timeout", metavar="S", type=float, help="seconds to wait for the reply; 0: no limit")
    add("--async", dest="detached", action="store_true", help="do not wait for its end")
    add("--thread", choices=("inline", "fork"), help="how it runs there")
    add("--vault-keys", metavar="NAME,...", help="secrets of the node that it may see")
    add("--no-secrets", action="store_true", help="send none of your own secrets")
    add("--no-apply", action="store_true", help="leave what it changes on the node")
    add("--resign", action="store_true", help="sign the pages that come back with your key")
    take_remote(parser)


def _configure_threads(parser: Arguments) -> None:
    take_limit(parser, _THREADS)
    parser.add_argument("--all", action="store_true", help="of every project")
    parser.add_argument("--of", metavar="PROJECT", help="of another project of the node")
    take_remote(parser)


def _configure_thread(parser: Arguments) -> None:
    add = parser.add_argument
    add("thread", metavar="ID", help="a run on the node")
    add("--wait", action="store_true", help="until it has ended")
    add("--timeout", metavar="S", type=float, help="seconds to wait at most (for ever)")
    take_remote(parser)


def _configure_history(parser: Arguments) -> None:
    take_limit(parser, _HISTORY)
    take_remote(parser)


def _execute(session: Session) -> int:
    arguments = session.arguments
    if arguments.detached and arguments.resign:
        raise UsageError(
            "--async, --resign: expected one of them",
            hint="the pages come back with a run that is waited for",
        )
    reference = session.rye.reference(arguments.ref)
    request = Request(
        item_id=reference.id,
        parameters=run.parameters(arguments),
        timeout_s=run.timeout(arguments.timeout),
    )
    names = (arguments.vault_keys or "").split(",")
    options = RemoteOptions(
        thread=arguments.thread or "",
        is_async=arguments.detached,
        vault_keys=tuple(name.strip() for name in names if name.strip()),
        sends_secrets=not arguments.no_secrets,
        applies=not arguments.no_apply,
        resigns=arguments.resign,
    )
    answer = run_on(session, arguments.remote, reference, request, options)
    return run.show_elsewhere(session, answer)


def _status(session: Session) -> int:
    """What is known here: nothing is asked over the network."""
    from ryeos import __version__
    from ryeos.remote.conflicts import ConflictFolder
    from ryeos.remote.heads import LocalHeads
    from ryeos.remote.opening import Surroundings, remotes_of, working_tree_of
    from ryeos.remote.places import project_store

    around = Surroundings(workspace=session.rye)
    remotes = remotes_of(around)
    working_tree, space = working_tree_of(around), session.rye.space("project")
    tree, user = working_tree.project_tree(), working_tree.user_tree()
    heads = LocalHeads(project_store(space.ai))
    rows: dict[str, Any] = {}
    for name in remotes.names:
        head, kept = heads.read(name), ConflictFolder(space.ai, name).read()
        known = _known(remotes, name)
        project_path = known["project_path"] or remotes.project_name(space.base)
        pushed_as = head.project_path or None if head and head.url == known["url"] else None
        rows[name] = {
            **known,
            "project_path": project_path,
            "pushed_as": pushed_as,
            "snapshot_hash": head.snapshot_hash if head else None,
            "is_pushed": bool(head and head.project_manifest_hash == tree.manifest_hash)
            and pushed_as in {None, project_path},
            "conflicts": kept.open_paths() if kept else [],
        }
    envelope = {
        "status": "success",
        "project_path": remotes.project_name(space.base),
        "project_manifest_hash": tree.manifest_hash,
        "user_manifest_hash": user.manifest_hash,
        "system_version": __version__,
        "total_objects": len({*tree.item_sources, *tree.blobs}) + 1,
        "project_items": len(tree.manifest.items),
        "project_files": len(tree.manifest.files),
        "user_items": len(user.manifest.items),
        "remotes": rows,
    }
    counts = f"{len(tree.manifest.items)} items, {len(tree.manifest.files)} other files"
    lines = [
        f"{envelope['project_path']}: {short(tree.manifest_hash)}, {counts}",
        *(
            f"  {name:<12} {_state(row):<24} {one_line(row['url'] or row['problem'])}"
            for name, row in rows.items()
        ),
    ]
    session.output.answer(envelope, "\n".join(lines))
    if not rows and not session.output.as_json:
        session.output.note("no remote is configured; add one: rye remote add NAME URL")
    return 0


def _known(remotes: Remotes, name: str) -> dict[str, Any]:
    """Where a remote is, and what keeps it from being used: that of one is no other's matter."""
    try:
        remote = remotes.resolve(name)
    except RyeError as error:
        return {"url": None, "node_id": None, "project_path": None, "problem": str(error)}
    return {
        "url": remote.url,
        "node_id": remote.node_id or None,
        "project_path": remote.project_path,
        "problem": None,
    }


def _state(row: dict[str, Any]) -> str:
    if row["problem"]:
        return "not used"
    if row["conflicts"]:
        return f"{len(row['conflicts'])} conflicts"
    if not row["snapshot_hash"]:
        return "never pushed"
    if row["pushed_as"] not in {None, row["project_path"]}:
        return f"pushed as {one_line(row['pushed_as'], 30)}"
    return "pushed" if row["is_pushed"] else f"changed since {short(row['snapshot_hash'])}"


def _threads(session: Session) -> int:
    from ryeos.remote.merged_runs import MergedRuns
    from ryeos.remote.unmerged import UNMERGED

    with linked(session) as link:
        project = "" if session.arguments.all else session.arguments.of or link.project_path
        rows = link.node.threads(limit_of(session, _THREADS), project)
    envelope = {"status": "success", "remote_name": link.node.name, "threads": list(rows)}
    merged = MergedRuns(link.conflicts.folder.parent).all()
    unmerged = [str(digest) for row in rows if (digest := row.get(UNMERGED))]
    lines = [
        f"{_cell(row, 'state'):<10} {_moment(row)[:19]:<19}  {_cell(row, 'thread_id')}"
        f"{_merge_words(row.get(UNMERGED), merged)}"
        for row in rows
    ]
    session.output.answer(envelope, "\n".join(lines))
    if not rows and not session.output.as_json:
        session.output.note(f"no runs of {link.project_path!r} on {link.node.name}")
    if set(unmerged) - merged and not session.output.as_json:
        session.output.note(
            "not merged: what the run changed is in conflict with the head; merge it here:"
            f" rye remote pull --thread ID --remote {link.node.name}"
        )
    return 0


def _merge_words(unmerged: object, merged: Container[str]) -> str:
    if not unmerged:
        return ""
    return "  merged here" if str(unmerged) in merged else "  not merged"


def _moment(row: dict[str, Any]) -> str:
    """When a run began; of one that has ended, the public node lists only when that was."""
    return _cell(row, "created_at") or _cell(row, "completed_at")


def _thread(session: Session) -> int:
    from ryeos.remote.waiting import RUN_COMPLETED, wait_for_run

    arguments = session.arguments
    thread_id, timeout_s = check_thread_id(arguments.thread), arguments.timeout
    if timeout_s is not None and not (arguments.wait and 0 <= timeout_s < float("inf")):
        raise UsageError("--timeout: expected seconds from 0 up, and --wait beside it")
    with surroundings(session) as around:
        node = open_link(around, arguments.remote).node
        if arguments.wait:
            row = wait_for_run(node, thread_id, timeout_s, around.cancellation)
        else:
            row = node.thread(thread_id)
    _show_thread(session, row)
    if not arguments.wait or row.get("state") == RUN_COMPLETED:
        return 0
    return TOOL_FAILED


def _show_thread(session: Session, row: dict[str, Any]) -> None:
    width = max((len(str(name)) for name in row), default=0) + 1
    lines = [
        f"{one_line(str(name)) + ':':<{width}} {one_line(_text(value))}"
        for name, value in row.items()
        if value is not None
    ]
    session.output.answer({"status": "success", "thread": row}, "\n".join(lines))


def _history(session: Session) -> int:
    with linked(session) as link:
        rows = link.node.history(link.project_path, limit_of(session, _HISTORY))
    envelope = {
        "status": "success",
        "remote_name": link.node.name,
        "project_path": link.project_path,
        "snapshots": list(rows),
    }
    lines = [
        f"{short(str(row.get('_hash')))}  {_cell(row, 'timestamp')[:19]}"
        f"  {_cell(row, 'source'):<10} {_cell(row, 'source_detail')}".rstrip()
        for row in rows
    ]
    session.output.answer(envelope, "\n".join(lines))
    return 0


def _cell(row: dict[str, Any], name: str) -> str:
    return one_line(str(row.get(name) or ""))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)


COMMANDS = {
    "remote execute": Command(
        _configure_execute,
        _execute,
        [
            "rye remote execute tool:mine/train epochs:=3 --remote gpu",
            "rye remote execute mine/report --vault-keys API_TOKEN --resign",
        ],
    ),
    "remote status": Command(
        lambda _: None, _status, ["rye remote status", "rye remote status --json"]
    ),
    "remote threads": Command(_configure_threads, _threads, ["rye remote threads --limit 5"]),
    "remote thread": Command(
        _configure_thread,
        _thread,
        [
            "rye remote thread rye-remote-tool:mine-train-1767323045000",
            "rye remote thread rye-remote-tool:mine-train-1767323045000 --wait --timeout 600",
        ],
    ),
    "remote history": Command(_configure_history, _history, ["rye remote history"]),
}
