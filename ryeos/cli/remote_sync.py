"""``rye remote push``, ``pull``, ``diff`` and ``resolve``: a project here and on a node."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.remote_words import (
    check_thread_id,
    linked,
    listed,
    marked,
    short,
    take_remote,
)
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError
from ryeos.remote.apply import Applied
from ryeos.remote.difference import (
    ADDED,
    CHANGED,
    EXCLUDED,
    REMOVED,
    Comparison,
    Difference,
    Replaced,
)
from ryeos.remote.link import Link

MARKS = {ADDED: "+", CHANGED: "~", REMOVED: "-", EXCLUDED: "x", None: " "}
_MAX_MERGED_BYTES = 256 * 1024 * 1024


def _configure_push(parser: Arguments) -> None:
    take_remote(parser)
    add = parser.add_argument
    add("--force", action="store_true", help="replace what others brought there")
    add("--drop-excluded", action="store_true", help="remove there what no longer travels")
    add("--new-project", action="store_true", help="push under another name than before")


def _configure_pull(parser: Arguments) -> None:
    parser.add_argument("digests", metavar="DIGEST", nargs="*", help="only this content")
    parser.add_argument(
        "--thread", metavar="ID", help="what this run changed and the node could not merge"
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
        pushed = push(
            link,
            force=session.arguments.force,
            drops_excluded=session.arguments.drop_excluded,
            is_new_project=session.arguments.new_project,
        )
    envelope = {
        "status": "success",
        "remote_name": link.node.name,
        "project_path": link.project_path,
        "snapshot_hash": pushed.snapshot_hash,
        "project_manifest_hash": pushed.project_manifest_hash,
        "user_manifest_hash": pushed.user_manifest_hash or None,
        "objects_synced": pushed.objects_sent,
        "total_objects": pushed.objects_total,
        "ref_published": True,
        "head_moved": pushed.is_new,
        "user_space_pushed": pushed.is_user_space_new,
        "pulled": list(pushed.merged.paths),
        "replaced": _replaced(pushed.replaced),
    }
    what = f"{link.project_path} on {link.node.name}: {short(pushed.snapshot_hash)}"
    if not pushed.is_new:
        text = f"{what}, nothing new"
    else:
        text = f"{what}, {pushed.objects_sent} of {pushed.objects_total} objects sent"
    session.output.answer(envelope | {"message": text}, text)
    if pushed.replaced and not session.output.as_json:
        _note_replaced(session, link, pushed.replaced)
    return 0


def _replaced(replaced: Replaced | None) -> dict[str, Any] | None:
    if replaced is None:
        return None
    found = replaced.differences
    paths = None if found is None else [one.path for one in found]
    return {"snapshot_hash": replaced.snapshot_hash, "paths": paths}


def _note_replaced(session: Session, link: Link, replaced: Replaced) -> None:
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
    envelope = _pulled(link, pulled.snapshot_hash, applied)
    if not pulled.snapshot_hash:
        text = f"{link.node.name} has no project {link.project_path!r} yet; next: rye remote push"
    elif applied.written or applied.removed:
        text = "\n".join(marked(applied))
    else:
        text = f"nothing new on {link.node.name}"
    session.output.answer(envelope | {"message": text}, text)
    return 0


def _pull_run(session: Session, run: str) -> int:
    from ryeos.remote.unmerged import pull_run

    check_thread_id(run)
    with linked(session) as link:
        pulled = pull_run(link, run)
    envelope = _pulled(link, pulled.snapshot_hash, pulled.applied)
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


def _pulled(link: Link, snapshot_hash: str, applied: Applied) -> dict[str, Any]:
    return {
        "status": "success",
        "remote_name": link.node.name,
        "project_path": link.project_path,
        "snapshot_hash": snapshot_hash or None,
        "written": list(applied.written),
        "added": list(applied.added),
        "removed": list(applied.removed),
    }


def _fetch(session: Session) -> int:
    from lillux.store_files import check_digest
    from ryeos.remote.errors import ContentNotThereError
    from ryeos.remote.transfer import fetch_available

    digests = [check_digest(digest) for digest in session.arguments.digests]
    with linked(session) as link:
        link.node.verify()
        fetched, missing = fetch_available(link.node, digests, link.store, link.progress)
    if missing:
        raise ContentNotThereError(link.node.name, missing)
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
    session: Session, link: Link, compared: Comparison, reasons: Mapping[str, str]
) -> None:
    note = session.output.note
    if not compared.snapshot_hash:
        note(f"{link.node.name} has no project {link.project_path!r} yet")
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
    from ryeos.remote.opening import Surroundings, remotes_of
    from ryeos.remote.resolve import Choice, resolve

    arguments = session.arguments
    given = [
        choice
        for choice, is_given in (
            (Choice.OURS, arguments.ours),
            (Choice.THEIRS, arguments.theirs),
            (Choice.MERGED, arguments.merged is not None),
        )
        if is_given
    ]
    if len(given) != 1:
        raise UsageError("expected one of --ours, --theirs and --merged FILE")
    if given[0] is Choice.MERGED and len(arguments.paths) > 1:
        raise UsageError("--merged: expected one path")
    merged = None
    if given[0] is Choice.MERGED:
        try:
            merged = read_bytes(Path(arguments.merged), _MAX_MERGED_BYTES)
        except FileNotFoundError:
            raise UsageError(f"--merged: {arguments.merged}: there is no such file") from None
    space = session.rye.space("project")
    remote = remotes_of(Surroundings(workspace=session.rye)).resolve(arguments.remote)
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


COMMANDS = {
    "remote push": Command(
        _configure_push, _push, ["rye remote push", "rye remote push --remote gpu --json"]
    ),
    "remote pull": Command(
        _configure_pull,
        _pull,
        [
            "rye remote pull",
            "rye remote pull --thread rye-remote-tool:mine-train-1767323045000",
        ],
    ),
    "remote diff": Command(_configure_diff, _diff, ["rye remote diff", "rye remote diff --json"]),
    "remote resolve": Command(
        _configure_resolve,
        _resolve,
        [
            "rye remote resolve src/a.txt --theirs",
            "rye remote resolve src/a.txt --merged a-merged.txt",
        ],
    ),
}
