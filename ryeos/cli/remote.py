"""``rye remote push|pull|diff|resolve|execute|status|threads|thread|logs|cancel|history``."""

import json
import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from lillux.foreign_text import one_line, without_control_characters
from lillux.signing import compute_key_digest
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.output import field_text, utc_text
from ryeos.cli import run
from ryeos.cli.remote_run import (
    limit_of,
    linked,
    listed,
    marked,
    remote_environment,
    run_on,
    short,
    take_limit,
    take_remote,
    valid_remote_thread_id,
)
from ryeos.cli.session import Session
from ryeos.items.errors import TOOL_FAILED, RyeError, UsageError
from ryeos.items.refs import PROJECT, USER
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.difference import (
    ADDED,
    CHANGED,
    EXCLUDED,
    REMOVED,
    Difference,
    HeadComparison,
    ReplacedHead,
)
from ryeos.remote.link import Link, open_link
from ryeos.remote.run import RemoteOptions
from ryeos.remote.settings import Remotes
from ryeos.run.model import ExecutionRequest
from ryeos.trust.keys import OfferedKey, require_user_space, trust_key, trust_own_key
from ryeos.trust.store import FINGERPRINT_DIGITS

_THREADS, _HISTORY = 20, 20


def _configure_execute(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:id, or an id", offers="refs")
    add("pairs", metavar="k=v", nargs="*", help="text k=v, JSON k:=JSON, a file's text k@FILE")
    add("--params", metavar="JSON|@FILE|-", help="all parameters as one JSON object")
    add("--stdin", action="store_true", help="parameters as JSON on standard input")
    add("--timeout", metavar="S", type=float, help="seconds to wait for the reply; 0: no limit")
    add("--async", dest="detached", action="store_true", help="do not wait for its end")
    add("--thread", choices=("inline", "fork"), help="how it runs there")
    add("--vault-keys", metavar="NAME,...", help="only these of the node's secrets (all)")
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
    add("--timeout", metavar="S", type=float, help="seconds to wait at most (no limit)")
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
    request = ExecutionRequest(
        item_id=reference.id,
        parameters=run.parameters(
            arguments,
            lambda: session.rye.schema_of(reference),
            place=run.in_project(session),
        ),
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
    written = run.ToolOutput()
    answer, was_shown = run_on(
        session, arguments.remote, reference, request, options, written=written
    )
    return run.show_elsewhere(session, answer, written if was_shown else None)


def _status(session: Session) -> int:
    """What is known here: nothing is asked over the network."""
    from ryeos import __version__
    from ryeos.remote.conflicts import ConflictFolder, project_store
    from ryeos.remote.link import RemoteEnvironment, remotes_of, working_tree_of
    from ryeos.remote.local_heads import LocalHeads

    around = RemoteEnvironment(workspace=session.rye)
    remotes = remotes_of(around)
    working_tree, space = working_tree_of(around), session.rye.space("project")
    tree, user = working_tree.project_tree(), working_tree.user_tree()
    heads = LocalHeads(project_store(space.ai))
    rows: dict[str, Any] = {}
    for name in remotes.names:
        head, kept = heads.read(name), ConflictFolder(space.ai, name).read()
        known = _remote_facts(remotes, name)
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


def _remote_facts(remotes: Remotes, name: str) -> dict[str, Any]:
    """The address of a remote, and its problem if it has one, which hides no other remote."""
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
    from ryeos.remote.pull import MergedRuns
    from ryeos.remote.unmerged_runs import UNMERGED

    with linked(session) as link:
        project = "" if session.arguments.all else session.arguments.of or link.project_path
        rows = link.node.threads(limit_of(session, _THREADS), project)
    envelope = {"status": "success", "remote_name": link.node.name, "threads": list(rows)}
    merged = MergedRuns(link.conflicts).all()
    unmerged = [str(digest) for row in rows if (digest := row.get(UNMERGED))]
    lines = [
        f"{_cell(row, 'state'):<10} {_time_cell(row):<23}  {_cell(row, 'thread_id')}"
        f"{_merge_words(row.get(UNMERGED), merged)}"
        for row in rows
    ]
    session.output.answer(envelope, "\n".join(lines))
    if not rows and not session.output.as_json:
        session.output.note(f"no runs of {link.name!r} on {link.node.name}")
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


def _time_cell(row: dict[str, Any]) -> str:
    """When a run began; of one that has ended, the public node lists only when that was."""
    return utc_text(_cell(row, "created_at") or _cell(row, "completed_at"))


def _thread(session: Session) -> int:
    from ryeos.remote.run_waits import RUN_COMPLETED, wait_for_run

    arguments = session.arguments
    thread_id, timeout_s = valid_remote_thread_id(arguments.thread), arguments.timeout
    if timeout_s is not None and not (arguments.wait and 0 <= timeout_s < float("inf")):
        raise UsageError("--timeout: expected seconds from 0 up, and --wait beside it")
    with remote_environment(session) as around:
        node = open_link(around, arguments.remote).node
        if arguments.wait:
            row = wait_for_run(node, thread_id, timeout_s, around.cancellation)
        else:
            row = node.thread(thread_id)
    _show_thread(session, row)
    if not arguments.wait or row.get("state") == RUN_COMPLETED:
        return 0
    return TOOL_FAILED


def _configure_logs(parser: Arguments) -> None:
    add = parser.add_argument
    add("thread", metavar="ID", help="a run on the node")
    add("-f", "--follow", action="store_true", help="go on until it has ended")
    take_remote(parser)


def _logs(session: Session) -> int:
    """What programs of a run wrote: each stream to its own one here."""
    from ryeos.remote.run_waits import follow_log

    arguments, output = session.arguments, session.output
    thread_id = valid_remote_thread_id(arguments.thread)
    kept: list[dict[str, Any]] = []
    with remote_environment(session) as around:
        node = open_link(around, arguments.remote).node
        pieces = follow_log(
            node, thread_id, goes_on=arguments.follow, cancellation=around.cancellation
        )
        for piece in pieces:
            if output.as_json:
                kept.append(piece)
            else:
                _write_piece(piece)
    if output.as_json:
        output.answer({"status": "success", "thread_id": thread_id, "pieces": kept}, "")
    return 0


def _write_piece(piece: dict[str, Any]) -> None:
    """A node's text, on a terminal without what would steer it."""
    stream = sys.stderr if piece.get("stream") == "stderr" else sys.stdout
    text = str(piece.get("text", ""))
    stream.write(without_control_characters(text) if stream.isatty() else text)
    stream.flush()


def _configure_cancel(parser: Arguments) -> None:
    parser.add_argument("thread", metavar="ID", help="a run on the node")
    take_remote(parser)


def _cancel(session: Session) -> int:
    arguments = session.arguments
    thread_id = valid_remote_thread_id(arguments.thread)
    with remote_environment(session) as around:
        node = open_link(around, arguments.remote).node
        state = str(node.cancel(thread_id).get("state"))
    words = f"{thread_id} is being ended" if state == "running" else f"{thread_id}: {state}"
    envelope = {"status": "success", "thread_id": thread_id, "state": state}
    session.output.answer(envelope, one_line(words, 400))
    return 0


def _show_thread(session: Session, row: dict[str, Any]) -> None:
    """The fields of a run, a line each, and its result below, as of a thread of this machine."""
    width = max((len(str(name)) for name in row), default=0) + 1
    lines = [
        f"{one_line(str(name)) + ':':<{width}} {field_text(str(name), value)}"
        for name, value in row.items()
        if value is not None and name != "result"
    ]
    answer = row.get("result")
    data = answer.get("data") if isinstance(answer, dict) else answer
    if data is not None:
        lines += ["result:", json.dumps(data, ensure_ascii=True, indent=2)]
    session.output.answer({"status": "success", "thread": row}, "\n".join(lines))


def _configure_trust_items(parser: Arguments) -> None:
    add = parser.add_argument
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="where it counts (project)")
    add("--yes", action="store_true", help="trust it without asking")
    take_remote(parser)


def _trust_items(session: Session) -> int:
    """Let what a node signs run here: its key for items, which is not the one it is known by."""
    with linked(session) as link:
        identity = link.node.verify()
    name = link.node.name
    if not identity.items_pem:
        raise RyeError(
            f"remote {name}: the node names no key for items",
            code="ITEM_NOT_FOUND",
            hint="it signs nothing for its users; sign with your own key: rye sign",
        )
    key, space = session.rye.signing_key(), session.rye.space(session.arguments.space)
    user, digest = require_user_space(session.context), compute_key_digest(identity.items_pem)
    fingerprint = digest[:FINGERPRINT_DIGITS]
    where = f"in {space.base}" if space.tier == PROJECT else "in every project"
    if not session.confirm(f"let what {identity.node_id} signs with {fingerprint} run {where}?"):
        session.output.answer({"status": "cancelled"}, "nothing changed")
        return 1
    trust_own_key(key, user)
    # What a node of ours signs, it signs whole, and for one item.
    offered = OfferedKey(
        fingerprint=fingerprint, public_pem=identity.items_pem, covers_all=True, binds_identity=True
    )
    known = session.rye.trust.get_key(fingerprint, space.label)
    document = trust_key(offered, space, key, owner=f"items:{name}", known=known)
    if space.tier == PROJECT:
        session.rye.approvals.approve(space.base, digest)
    envelope = {
        "status": "success",
        "remote_name": name,
        "node_id": identity.node_id,
        "fingerprint": fingerprint,
        "space": space.label,
        "path": str(document),
    }
    session.output.note(f"take it back with: rye keys untrust {fingerprint}")
    session.output.answer(envelope, f"what {name} signs with {fingerprint} runs {where} now")
    return 0


def _history(session: Session) -> int:
    with linked(session) as link:
        rows = link.node.history(link.project_path, limit_of(session, _HISTORY))
    envelope = {
        "status": "success",
        "remote_name": link.node.name,
        "project_path": link.name,
        "snapshots": list(rows),
    }
    lines = [
        f"{short(str(row.get('_hash')))}  {utc_text(_cell(row, 'timestamp'))}"
        f"  {_cell(row, 'source'):<10} {_cell(row, 'source_detail')}".rstrip()
        for row in rows
    ]
    session.output.answer(envelope, "\n".join(lines))
    return 0


def _cell(row: dict[str, Any], name: str) -> str:
    return one_line(str(row.get(name) or ""))


# --- remote sync ----------------------------------------------------------------------------------
# ``rye remote push``, ``pull``, ``diff`` and ``resolve``: a project here and on a node.

MARKS = {ADDED: "+", CHANGED: "~", REMOVED: "-", EXCLUDED: "x", None: " "}
_MAX_MERGED_BYTES = 256 * 1024 * 1024


def _configure_push(parser: Arguments) -> None:
    take_remote(parser)
    add = parser.add_argument
    add("--force", action="store_true", help="replace what others brought there")
    add("--drop-excluded", action="store_true", help="remove there what no longer travels")
    add("--new-project", action="store_true", help="push under another name than before")
    add(
        "--repository",
        action="store_true",
        help="from now on take all files but those that .gitignore names, not .ai alone",
    )


def _configure_pull(parser: Arguments) -> None:
    parser.add_argument("digests", metavar="DIGEST", nargs="*", help="only this content")
    parser.add_argument(
        "--thread", metavar="ID", help="what this run changed and the node could not merge"
    )
    parser.add_argument(
        "--accept",
        metavar="PATH",
        action="append",
        default=[],
        help="take this new file or pattern, though other programs take orders from it",
    )
    take_remote(parser)


def _configure_diff(parser: Arguments) -> None:
    take_remote(parser)


def _configure_resolve(parser: Arguments) -> None:
    add = parser.add_argument
    add("paths", metavar="PATH", nargs="+", help="paths in conflict, as diff shows them")
    add("--ours", action="store_true", help="keep the file as it is here now")
    add("--theirs", action="store_true", help="take the file of the node")
    add("--merged", metavar="FILE", help="take this file")
    take_remote(parser)


def _push(session: Session) -> int:
    from ryeos.remote.push import push

    with linked(session) as link:
        _take_repository(session, link)
        pushed = push(
            link,
            force=session.arguments.force,
            drops_excluded=session.arguments.drop_excluded,
            is_new_project=session.arguments.new_project,
        )
    envelope = {
        "status": "success",
        "remote_name": link.node.name,
        "project_path": link.name,
        "snapshot_hash": pushed.snapshot_hash,
        "project_manifest_hash": pushed.project_manifest_hash,
        "user_manifest_hash": pushed.user_manifest_hash or None,
        "objects_synced": pushed.objects_sent,
        "total_objects": pushed.objects_total,
        "ref_published": True,
        "head_moved": pushed.is_new,
        "user_space_pushed": pushed.is_user_space_new,
        "pulled": list(pushed.merged.paths),
        "replaced": _replaced_as_json(pushed.replaced),
    }
    what = f"{link.name} on {link.node.name}: {short(pushed.snapshot_hash)}"
    if not pushed.is_new:
        text = f"{what}, nothing new"
    else:
        text = f"{what}, {pushed.objects_sent} of {pushed.objects_total} objects sent"
    session.output.answer(envelope | {"message": text}, text)
    if pushed.replaced and not session.output.as_json:
        _note_replaced(session, link, pushed.replaced)
    return 0


def _take_repository(session: Session, link: Link) -> None:
    """Let all files of the project travel where that was asked for; at a first push, ask."""
    from ryeos.remote.repository import offered, take

    if session.arguments.repository:
        take(link)
        return
    found = offered(link)
    if found is None:
        return
    size = f"{found.count} files, {found.size / 1e6:.1f} MB"
    if not session.can_ask:
        session.output.note(
            f"only .ai travels; with the other {size}: rye remote push --repository"
        )
        return
    from ryeos.cli.asking import is_agreed

    question = f"Only .ai travels. Take the other files too, but what .gitignore names ({size})?"
    if is_agreed(session.terminal, (), question):
        session.output.note(f"written: {one_line(str(take(link)))}")


def _replaced_as_json(replaced: ReplacedHead | None) -> dict[str, Any] | None:
    if replaced is None:
        return None
    found = replaced.differences
    paths = None if found is None else [one.path for one in found]
    return {"snapshot_hash": replaced.snapshot_hash, "paths": paths}


def _note_replaced(session: Session, link: Link, replaced: ReplacedHead) -> None:
    """What others had done, and where it still is."""
    kept = f"it stays in the history of {link.node.name}"
    note = f"replaced {short(replaced.snapshot_hash)}; {kept}"
    if replaced.differences:
        lines = [f"{MARKS[one.there]} {one.path}" for one in replaced.differences]
        note = f"{note}; others had done:\n{listed(lines)}"
    session.output.note(note)


def _pull(session: Session) -> int:
    run = session.arguments.thread
    if session.arguments.digests:
        if run is not None:
            raise UsageError("expected --thread ID or digests, found both")
        return _fetch(session)
    if run is not None:
        return _pull_run(session, run)
    from ryeos.remote.pull import pull

    with linked(session) as link:
        pulled = pull(link)
    applied = pulled.applied
    envelope = _pull_envelope(link, pulled.snapshot_hash, applied)
    if not pulled.snapshot_hash:
        text = f"{link.node.name} has no project {link.name!r} yet; next: rye remote push"
    elif applied.written or applied.removed:
        text = "\n".join(marked(applied))
    else:
        text = f"nothing new on {link.node.name}"
    session.output.answer(envelope | {"message": text}, text)
    return 0


def _pull_run(session: Session, run: str) -> int:
    from ryeos.remote.unmerged_runs import pull_run

    valid_remote_thread_id(run)
    with linked(session) as link:
        pulled = pull_run(link, run)
    envelope = _pull_envelope(link, pulled.snapshot_hash, pulled.applied)
    envelope["was_merged"] = pulled.was_merged
    if pulled.was_merged:
        text = f"{run} was merged here before: nothing to do"
    else:
        text = "\n".join(marked(pulled.applied)) or f"nothing of {run} is new here"
    session.output.answer(envelope | {"message": text}, text)
    if not session.output.as_json:
        remote = f"--remote {link.node.name}"
        session.output.note(
            f"to merge it once more: rye remote pull --thread {pulled.snapshot_hash} {remote}"
            if pulled.was_merged
            else f"merged here; next: rye remote push {remote}"
        )
    return 0


def _pull_envelope(link: Link, snapshot_hash: str, applied: AppliedChanges) -> dict[str, Any]:
    return {
        "status": "success",
        "remote_name": link.node.name,
        "project_path": link.name,
        "snapshot_hash": snapshot_hash or None,
        "written": list(applied.written),
        "added": list(applied.added),
        "removed": list(applied.removed),
    }


def _fetch(session: Session) -> int:
    from lillux.store_layout import valid_digest
    from ryeos.remote.errors import listed
    from ryeos.remote.transfer import fetch_available

    digests = [valid_digest(digest) for digest in session.arguments.digests]
    with linked(session) as link:
        link.node.verify()
        fetched, missing = fetch_available(link.node, digests, link.store, link.progress)
    if missing:
        name = link.node.name
        raise RyeError(
            f"remote {name}: not there: {listed(missing)}",
            code="OBJECT_NOT_FOUND",
            hint=f"snapshots of this project: rye remote history --remote {name}",
        )
    envelope = {"status": "success", "fetched": fetched, "hashes": digests}
    text = f"{fetched} fetched into {link.store.root}"
    session.output.answer(envelope | {"message": text}, text)
    return 0


def _diff(session: Session) -> int:
    from ryeos.remote.difference import compare

    with linked(session) as link:
        compared = compare(link)
    kept = link.conflicts.read()
    reasons = kept.reasons() if kept else {}
    envelope = {
        "status": "success",
        "remote_name": link.node.name,
        "snapshot_hash": compared.snapshot_hash or None,
        "has_base": compared.has_base,
        "differences": [
            {"path": one.path, "here": one.here, "there": one.there} for one in compared.differences
        ],
        "conflicts": list(reasons),
        "reasons": reasons,
    }
    session.output.answer(envelope, "\n".join(map(_line, compared.differences)))
    if not session.output.as_json:
        _note_difference(session, link, compared, reasons)
    return 0


def _line(one: Difference) -> str:
    """``here there path``: who added, changed or removed it."""
    return f"{MARKS[one.here]} {MARKS[one.there]}  {one_line(one.path)}"


def _note_difference(
    session: Session, link: Link, compared: HeadComparison, reasons: Mapping[str, str]
) -> None:
    note = session.output.note
    if not compared.snapshot_hash:
        note(f"{link.node.name} has no project {link.name!r} yet")
    elif not compared.differences:
        note(f"the same here and on {link.node.name}")
    else:
        note(f"left: changed here; right: on {link.node.name} ({short(compared.snapshot_hash)})")
    left = [one.path for one in compared.differences if one.here == EXCLUDED]
    if left:
        note(f"x: here, but it no longer travels by .ai/config/cas/manifest.yaml: {len(left)}")
    if reasons:
        note(f"to be settled with rye remote resolve:\n{listed(_with_reasons(reasons))}")


def _with_reasons(reasons: Mapping[str, str]) -> list[str]:
    return [f"{path}: {reason}" for path, reason in reasons.items()]


def _resolve(session: Session) -> int:
    from lillux.files import read_bytes
    from ryeos.remote.conflicts import ConflictFolder
    from ryeos.remote.link import RemoteEnvironment, remotes_of
    from ryeos.remote.settle import VersionChoice, resolve

    arguments = session.arguments
    given = [
        choice
        for choice, is_given in (
            (VersionChoice.OURS, arguments.ours),
            (VersionChoice.THEIRS, arguments.theirs),
            (VersionChoice.MERGED, arguments.merged is not None),
        )
        if is_given
    ]
    if len(given) != 1:
        raise UsageError("expected one of --ours, --theirs and --merged FILE")
    if given[0] is VersionChoice.MERGED and len(arguments.paths) > 1:
        raise UsageError("--merged: expected one path")
    merged = None
    if given[0] is VersionChoice.MERGED:
        try:
            merged = read_bytes(Path(arguments.merged), _MAX_MERGED_BYTES)
        except FileNotFoundError:
            raise UsageError(f"--merged: {arguments.merged}: there is no such file") from None
    space = session.rye.space("project")
    remote = remotes_of(RemoteEnvironment(workspace=session.rye)).resolve(arguments.remote)
    folder = ConflictFolder(space.ai, remote.name)
    paths = [_in_project(path, space.base, session.context.cwd) for path in arguments.paths]
    record = resolve(folder, space.base, remote.name, paths, choice=given[0], merged=merged)
    left = record.reasons()
    envelope: dict[str, Any] = {
        "status": "success",
        "settled": paths,
        "conflicts": list(left),
        "reasons": left,
    }
    settled = [f"settled {path}: {record.conflicts[path].describe()}" for path in paths]
    session.output.answer(envelope, "\n".join(map(one_line, settled)))
    if not session.output.as_json:
        next_step = (
            f"left:\n{listed(_with_reasons(left))}"
            if left
            else "all are settled; next: rye remote push"
        )
        session.output.note(next_step)
    return 0


def _in_project(path: str, project: Path, cwd: Path) -> str:
    """A path as manifests have it, also when it was typed in a folder of the project."""
    if (project / path).exists() or not (cwd / path).exists():
        return Path(path).as_posix() if not Path(path).is_absolute() else _relative(path, project)
    return _relative(str(cwd / path), project)


def _relative(path: str, project: Path) -> str:
    absolute = Path(path).absolute()
    return absolute.relative_to(project).as_posix() if absolute.is_relative_to(project) else path


EXECUTE = CommandSpec(
    _configure_execute,
    _execute,
    [
        "rye remote execute tool:mine/train epochs:=3 --remote gpu",
        "rye remote execute mine/report --vault-keys API_TOKEN --resign",
    ],
)
STATUS = CommandSpec(no_arguments, _status, ["rye remote status", "rye remote status --json"])
THREADS = CommandSpec(_configure_threads, _threads, ["rye remote threads --limit 5"])
THREAD = CommandSpec(
    _configure_thread,
    _thread,
    [
        "rye remote thread rye-remote-tool:mine-train-1767323045000",
        "rye remote thread rye-remote-tool:mine-train-1767323045000 --wait --timeout 600",
    ],
)
LOGS = CommandSpec(
    _configure_logs,
    _logs,
    ["rye remote logs rye-remote-tool:mine-train-1767323045000 -f"],
)
CANCEL = CommandSpec(
    _configure_cancel,
    _cancel,
    ["rye remote cancel rye-remote-tool:mine-train-1767323045000"],
)
TRUST_ITEMS = CommandSpec(
    _configure_trust_items,
    _trust_items,
    ["rye remote trust-items", "rye remote trust-items --remote gpu --space user --yes"],
)
HISTORY = CommandSpec(_configure_history, _history, ["rye remote history"])
PUSH = CommandSpec(
    _configure_push, _push, ["rye remote push", "rye remote push --remote gpu --json"]
)
PULL = CommandSpec(
    _configure_pull,
    _pull,
    [
        "rye remote pull",
        "rye remote pull --thread rye-remote-tool:mine-train-1767323045000",
    ],
)
DIFF = CommandSpec(_configure_diff, _diff, ["rye remote diff", "rye remote diff --json"])
RESOLVE = CommandSpec(
    _configure_resolve,
    _resolve,
    [
        "rye remote resolve src/a.txt --theirs",
        "rye remote resolve src/a.txt --merged a-merged.txt",
    ],
)
