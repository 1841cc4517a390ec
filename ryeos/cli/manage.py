"""``rye list``, ``info``, ``edit``, ``mv``, ``rm``, ``status``: a person's items, as files.

The prior text of what is moved or removed is kept in user space. Nothing is signed here.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError, as_word
from lillux.files import (
    create_file,
    file_system_error,
    make_directory,
    read_bytes,
    remove_file,
    write_atomic,
)
from lillux.foreign_text import one_line
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.workspace import Rye
from ryeos.cli.session import Session
from ryeos.items.errors import RyeError, SystemImmutableError, UsageError, target_exists_error
from ryeos.items.refs import (
    PROJECT,
    SYSTEM,
    TEST_SUFFIX,
    USER,
    ItemRef,
    Kind,
    Location,
    Space,
    parse_reference,
)
from ryeos.items.replaced import keep_replaced
from ryeos.run.chain import PACKAGES_SUFFIX
from ryeos.run.lockfiles import DEFAULT_VERSION
from ryeos.trust.extractors import extract
from ryeos.trust.resolver import candidates, locations
from ryeos.trust.sign_targets import SignTarget, read_item
from ryeos.trust.signature import MAX_ITEM_BYTES
from ryeos.trust.store import typed_fingerprint

_SHOWN_KINDS = (Kind.TOOL, Kind.DIRECTIVE, Kind.KNOWLEDGE)
_MOST_CHANGES = 20


# --- list -----------------------------------------------------------------------------------------


def _configure_list(parser: Arguments) -> None:
    add = parser.add_argument
    add("folder", metavar="FOLDER", nargs="?", help="only below, like mine or rye/core")
    add("--type", choices=[kind.value for kind in Kind], help="only of this kind")
    add("--space", choices=(PROJECT, USER, SYSTEM), help="default: project and user")
    add("--all", action="store_true", help="the items of bundles too")
    add("--signer", metavar="KEY", nargs="?", const="", help="show who signed; only of this key")


def _list(session: Session) -> int:
    arguments, rye = session.arguments, session.rye
    kinds = (Kind(arguments.type),) if arguments.type else _SHOWN_KINDS
    tiers = {arguments.space} if arguments.space else {PROJECT, USER}
    tiers |= {SYSTEM} if arguments.all else set()
    folder = (arguments.folder or "").strip("/")
    rows = [
        _row(rye, location)
        for space in rye.context.spaces
        if space.tier in tiers
        for kind in kinds
        for location in sorted(locations(space, kind, folder), key=lambda one: one.ref.id)
        if not location.ref.is_test
    ]
    if arguments.signer:
        wanted = typed_fingerprint(arguments.signer)
        rows = [row for row in rows if wanted in (row["fingerprint"], str(row["signer"]).lower())]
    width = max((len(row["ref"]) for row in rows), default=0)
    lines = [
        f"{row['state']:<9} {row['space']:<8} {one_line(row['ref']):<{width}}"
        f"{_signer_column(row) if arguments.signer is not None else ''}"
        f"  {one_line(row['description'], 80)}".rstrip()
        for row in rows
    ]
    session.output.answer({"status": "success", "items": rows}, "\n".join(lines))
    is_narrow = bool(folder or arguments.type or arguments.space or arguments.signer)
    if not rows and is_narrow and not session.no_project:
        session.output.note("no items there; all of them: rye list, those of bundles too: --all")
    elif not rows:
        where = session.no_project or f"no items in {rye.context.project_path}"
        session.output.note(
            f"{where}; write one with: rye new tool mine/hello"
            if where
            else "no project here: name one with --project DIR"
        )
    return 0


def _signer_column(row: dict[str, Any]) -> str:
    owner = f" ({one_line(row['signer'], 20)})" if row["signer"] else ""
    return f"  {row['fingerprint'] or '-':<16}{owner}"


def _row(rye: Rye, location: Location) -> dict[str, Any]:
    """An item as a list has it; one that does not verify says nothing of itself."""
    row = {"ref": str(location.ref), "space": location.space.tier, "path": str(location.path)}
    try:
        item = rye.verifier.verify_location(location)
    except LilluxError as error:
        state = error.code.lower().replace("_", " ")
        return {**row, "state": state, "description": "", "fingerprint": None, "signer": None}
    kind, where = location.ref.kind, str(location.path)
    header = item.header or extract(kind, location.suffix, item.text, where, location.file_type)
    about = header.get("description") or header.get("title") or ""
    signed = {
        "fingerprint": item.key.fingerprint if item.key else None,
        "signer": item.key.owner if item.key else None,
    }
    return {**row, "state": "signed", "description": str(about), **signed}


# --- info -----------------------------------------------------------------------------------------


def _configure_ref(parser: Arguments, offers: str = "own") -> None:
    what = "kind:id, an id, or the path of an item file"
    parser.add_argument("ref", metavar="REF", help=what, offers=offers)


def _configure_info(parser: Arguments) -> None:
    _configure_ref(parser, offers="refs")


def _info(session: Session) -> int:
    from ryeos.app.item_help import inputs_text

    envelope, text = inputs_text(session.rye, session.arguments.ref)
    ref = envelope["ref"]
    location = _location(session.rye, session.arguments.ref)
    item = session.rye.verifier.verify_location(location)
    facts = {
        "ref": ref,
        "path": str(location.path),
        "space": location.space.label,
        "version": session.rye.version_of(location, item),
        "signer": item.key.fingerprint if item.key else None,
        "sha256": item.content_hash,
        "file_sha256": item.sha256,
    }
    said = {name: value for name, value in facts.items() if not name.endswith("sha256")}
    said["sha256"] = f"{item.sha256}  (of the file)"
    said["signed"] = f"{item.content_hash}  (sha256 of the signed text)"
    lines = [f"{name + ':':<9} {value}" for name, value in said.items() if value]
    if location.ref.kind is Kind.TOOL:
        try:
            rights = session.rye.executor.rights(location.ref.id).describe()
        except LilluxError:  # a library, or a chain that is not whole
            rights = {}
        if rights:
            from ryeos.cli.chain import rights_text

            facts["sandbox"] = rights
            lines += rights_text(rights)
    schema = {"input_schema": envelope["input_schema"]} if envelope.get("input_schema") else {}
    session.output.answer({"status": "success", **facts, **schema}, "\n".join([*lines, "", text]))
    return 0


def _location(rye: Rye, text: str) -> Location:
    return rye.resolver.resolve(rye.reference(text)).location


def _own_location(rye: Rye, text: str) -> Location:
    """The place of an item of project or user space. Raises SystemImmutableError."""
    location = _location(rye, text)
    if location.space.tier == SYSTEM:
        raise SystemImmutableError(str(location.ref))
    return location


# --- edit -----------------------------------------------------------------------------------------


def _configure_edit(parser: Arguments) -> None:
    _configure_ref(parser)
    parser.add_argument("--sign", action="store_true", help="sign it when the editor has ended")


def _edit(session: Session) -> int:
    location = _own_location(session.rye, session.arguments.ref)
    environ = session.environ
    editor = environ.get("VISUAL") or environ.get("EDITOR") or ""
    if not editor:
        raise UsageError(
            "no editor: neither VISUAL nor EDITOR is set, or what they name lies in a project",
            hint=f"EDITOR=nano rye edit {location.ref}, or open {as_word(location.path)}",
        )
    target = SignTarget(
        path=location.path, kind=location.ref.kind, space=location.space, ref=location.ref
    )
    before = read_item(target)
    try:
        ended = subprocess.run([*shlex.split(editor), str(location.path)], check=False)
    except OSError as error:
        raise file_system_error(Path(shlex.split(editor)[0]), error) from error
    if ended.returncode:
        raise RyeError(f"{editor} ended with status {ended.returncode}", code="EXECUTION_FAILED")
    after = read_item(target)
    changed = after != before
    envelope = {"status": "success", "ref": str(location.ref), "changed": changed}
    if changed and session.arguments.sign:
        from ryeos.app.sign import follow, signing

        reports = list(signing(session.rye, (after,), dry_run=False, force=False))
        follow(session.rye, reports)
        if reports[0].error:
            raise reports[0].error
        session.output.answer({**envelope, "signed": True}, f"signed {location.ref}")
        return 0
    session.output.answer(envelope, str(location.path))
    if changed:
        session.output.note(f"next: rye sign {location.ref}")
    return 0


# --- mv and rm ------------------------------------------------------------------------------------


def _configure_mv(parser: Arguments) -> None:
    _configure_ref(parser)
    parser.add_argument("to", metavar="NEW_ID", help="folders and a name, in the same space")
    parser.add_argument("--dry-run", action="store_true", help="say what would change")


def _mv(session: Session) -> int:
    """Move an item: its file, its category and name, its lockfile, and what refers to it."""
    rye, arguments = session.rye, session.arguments
    old = _own_location(rye, session.arguments.ref)
    wanted = parse_reference(arguments.to)
    if wanted.kind not in (None, old.ref.kind):
        raise UsageError(f"{arguments.to}: expected a {old.ref.kind.value}, as {old.ref} is one")
    suffix = old.path.suffix
    new = ItemRef(old.ref.kind, wanted.id.removesuffix(suffix))
    if new == old.ref:
        raise UsageError(f"{new}: that is its name")
    path = _free_path(old.space, new, suffix)
    text = moved_text(_unsigned_text(old), old.ref, new)
    beside = {one: ItemRef(one.ref.kind, new.id + _ending(one, old)) for one in _beside(old)}
    # Each text and its place before anything is written: a place may be taken.
    further = [
        (_free_path(old.space, ref, one.path.suffix), _moved_text_beside(one, old.ref, ref, new))
        for one, ref in beside.items()
    ]
    changes = [one for one in _references(old) if one[1] not in {near.ref for near in beside}]
    envelope = {
        "status": "success",
        "ref": str(new),
        "path": str(path),
        "was": str(old.ref),
        "references": [str(one) for one, _, _ in changes],
    }
    if arguments.dry_run:
        session.output.answer({**envelope, "status": "validation_passed"}, str(path))
        return 0
    user, within = rye.context.spaces.user, old.space.within
    make_directory(path.parent, within=within)
    create_file(path, text.encode(), within=within)
    for place, said in further:
        create_file(place, said.encode(), within=within)
    for one in beside:
        _set_aside(one, user)
    kept = _set_aside(old, user)
    _move_lockfile(rye, old, new)
    for file, _, found in changes:
        prior = read_bytes(file, MAX_ITEM_BYTES, within=within)
        keep_replaced(user, file, prior)
        renamed = _renamed(found, old.ref, new).encode()
        write_atomic(file, renamed, expected=prior, within=within)
    session.output.answer({**envelope, "kept": str(kept)}, str(path))
    for space in rye.context.spaces:
        if space is not old.space and any(map(os.path.lexists, candidates(space, new))):
            session.output.note(f"{new} of {space.label} is hidden by it from now on")
    again = [str(ref) for ref in (new, *beside.values(), *(ref for _, ref, _ in changes))]
    session.output.note(f"the prior text is {kept}\nnext: rye sign {' '.join(again)}")
    return 0


def _ending(beside: Location, tool: Location) -> str:
    """What the id of a file beside a tool has behind that of the tool."""
    return beside.ref.id.removeprefix(tool.ref.id)


def _moved_text_beside(beside: Location, tool: ItemRef, ref: ItemRef, new: ItemRef) -> str:
    """The text of a file beside a tool, as ``ref``, where the tool is ``new``."""
    return _renamed(moved_text(_unsigned_text(beside), beside.ref, ref), tool, new)


def _beside(location: Location) -> Iterator[Location]:
    """What goes wherever a tool goes: its cases, and the list of its packages."""
    if location.ref.kind is not Kind.TOOL:
        return
    for ending in (TEST_SUFFIX, PACKAGES_SUFFIX):
        ref = ItemRef(Kind.TOOL, f"{location.ref.id}{ending}")
        for path in candidates(location.space, ref):
            if path.is_file() and not path.is_symlink():
                yield Location(ref=ref, space=location.space, path=path)


def _free_path(space: Space, ref: ItemRef, suffix: str) -> Path:
    """Where the file goes. Raises RyeError `CONFLICT` for an id that is taken, UnsafePathError."""
    from lillux.contained_paths import safe_join

    for path in candidates(space, ref):
        if os.path.lexists(path):
            raise target_exists_error(str(path), "an item of this id", "choose another id")
    return safe_join(space.directory(ref.kind), f"{ref.id}{suffix}")


def moved_text(text: str, old: ItemRef, new: ItemRef) -> str:
    """The text of an item under a new id: its category, and its name where the header has one."""
    category = re.compile(
        rf"((?:__category__\s*=\s*|\bcategory\"?:\s*)[\"']?|<category>){re.escape(old.category)}"
        r"(?=[\"']?\s*(?:;|,|$)|</category>)",
        re.MULTILINE,
    )
    text = category.sub(lambda found: f"{found[1]}{new.category}", text, count=1)
    if new.name == old.name or old.kind is Kind.TOOL:
        return text
    name = re.compile(
        rf"(<directive\s+name=[\"']|^name:\s*[\"']?){re.escape(old.name)}(?=[\"']|\s*$)",
        re.MULTILINE,
    )
    return name.sub(lambda found: f"{found[1]}{new.name}", text, count=1)


def _renamed(text: str, old: ItemRef, new: ItemRef) -> str:
    """A text that refers to an item, with its new name."""
    text = _mention(old).sub(new.id, text)
    dotted = f"rye.execute.{old.kind.value}.{old.id.replace('/', '.')}"
    return re.sub(
        rf"{re.escape(dotted)}(?![\w.*-])",
        f"rye.execute.{new.kind.value}.{new.id.replace('/', '.')}",
        text,
    )


def _mention(ref: ItemRef) -> re.Pattern[str]:
    """The id as a word of its own; one without a folder only behind its kind."""
    before = r"(?<![\w/.-])" if "/" in ref.id else rf"(?<=\b{ref.kind.value}:)"
    return re.compile(rf"{before}{re.escape(ref.id)}(?![\w/-]|\.\w)")


def _references(old: Location) -> Iterator[tuple[Path, ItemRef, str]]:
    """The other items of the same space that name an item: path, reference, unsigned text."""
    dotted = f"rye.execute.{old.ref.kind.value}.{old.ref.id.replace('/', '.')}"
    for kind in _SHOWN_KINDS:
        for location in locations(old.space, kind):
            if location.path == old.path or location.path.is_symlink():
                continue
            try:
                text = _unsigned_text(location)
            except LilluxError:
                continue
            if _mention(old.ref).search(text) or dotted in text:
                yield location.path, location.ref, text


def _unsigned_text(location: Location) -> str:
    """The text of an item without its signature lines. Raises LilluxError."""
    from ryeos.trust.signature import form_for, form_of, split, text_of

    where, file_type = str(location.path), location.file_type
    form = form_of(file_type) if file_type else form_for(location.ref.kind, location.suffix, where)
    signed = split(text_of(read_bytes(location.path, MAX_ITEM_BYTES), form, where), form, where)
    return signed.shebang + signed.body


def _set_aside(location: Location, user: Space) -> Path:
    """Remove an item's file; where its bytes are kept."""
    path, within = location.path, location.space.within
    kept = keep_replaced(user, path, read_bytes(path, MAX_ITEM_BYTES, within=within))
    try:
        remove_file(path, within=within)
    except OSError as error:
        raise file_system_error(path, error) from error
    return kept


def _move_lockfile(rye: Rye, old: Location, new: ItemRef) -> None:
    """Move what pins a tool to its new id, where signing finds it and writes it anew."""
    if old.ref.kind is not Kind.TOOL:
        return
    from ryeos.run.lockfiles import lockfile_path

    path = lockfile_path(old.space, old.ref.id)
    text = path.read_text("utf-8") if path.is_file() and not path.is_symlink() else ""
    _drop_lockfile(rye, old)
    if text:
        target, within = lockfile_path(old.space, new.id), old.space.within
        make_directory(target.parent, within=within)
        moved = text.replace(json.dumps(old.ref.id), json.dumps(new.id))
        write_atomic(target, moved.encode(), mode=0o644, within=within)


def _drop_lockfile(rye: Rye, location: Location) -> None:
    """Remove what pins a tool under an id that it no longer has."""
    if location.ref.kind is Kind.TOOL:
        with suppress(SystemImmutableError):  # only a bundle has one
            rye.executor.lockfiles.delete_lockfile(location.ref.id, DEFAULT_VERSION)


def _configure_rm(parser: Arguments) -> None:
    _configure_ref(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _rm(session: Session) -> int:
    rye = session.rye
    location = _own_location(rye, session.arguments.ref)
    own = {near.ref for near in _beside(location)}
    named_by = [str(ref) for _, ref, _ in _references(location) if ref not in own]
    if named_by:
        session.output.warn(f"{location.ref} is named by {', '.join(named_by[:_MOST_CHANGES])}")
    if not session.confirm(f"remove {location.ref} ({location.path})?"):
        session.output.note("nothing was removed")
        return 1
    user = rye.context.spaces.user
    for one in _beside(location):
        _set_aside(one, user)
    kept = _set_aside(location, user)
    _drop_lockfile(rye, location)
    envelope = {
        "status": "success",
        "ref": str(location.ref),
        "kept": str(kept),
        "named_by": named_by,
    }
    session.output.answer(envelope, f"removed {location.ref}")
    session.output.note(f"its text is {kept}")
    return 0


# --- status ---------------------------------------------------------------------------------------


def _status(session: Session) -> int:
    """What there is to do here: unsigned items, proposals, runs."""
    rye = session.rye
    project = rye.context.project_path
    rows = [
        row
        for space in rye.context.spaces
        if space.tier != SYSTEM
        for kind in _SHOWN_KINDS
        for location in locations(space, kind)
        if not location.ref.is_test
        for row in (_row(rye, location),)
    ]
    changed = [row for row in rows if row["state"] != "signed"]
    waiting = _proposals(rye)
    running = [one.thread_id for one in rye.threads.active()] if project else []
    resumable = _resumable(rye) if project else []
    envelope = {
        "status": "success",
        "project": str(project) if project else None,
        "items": len(rows),
        "not_signed": [{"ref": row["ref"], "state": row["state"]} for row in changed],
        "proposals": waiting,
        "running": running,
        "resumable": resumable,
    }
    lines = [session.no_project or f"project: {project}", f"items: {len(rows)}"]
    lines += [f"  {row['state']}: {one_line(row['ref'])}" for row in changed[:_MOST_CHANGES]]
    if len(changed) > _MOST_CHANGES:
        lines.append(f"  and {len(changed) - _MOST_CHANGES} more: rye list")
    lines += [f"proposals: {len(waiting)}"] if waiting else []
    lines += [f"running: {', '.join(running)}"] if running else []
    lines += [
        f"can be resumed: {one['run_id']} ({one_line(str(one['graph']))}, {one['status']}"
        f" at {one_line(one['node'], 40)})"
        for one in resumable
    ]
    session.output.answer(envelope, "\n".join(lines))
    if changed:
        session.output.note(f"next, after you have read it: rye sign {changed[0]['ref']}")
    if waiting:
        session.output.note("next: rye approve")
    if resumable:
        named = f" {resumable[0]['run_id']}" if len(resumable) > 1 else ""
        session.output.note(f"next: rye graph resume{named}")
    return 0


def _resumable(rye: Rye) -> list[dict[str, Any]]:
    """The latest runs of graphs that stopped and can go on."""
    if not rye.threads.place.registry.is_file():
        return []
    from ryeos.graph.resumable_runs import resumable_runs

    try:
        return [one.describe() for one in islice(resumable_runs(rye, rye.threads), _MOST_CHANGES)]
    except LilluxError:
        return []


def _proposals(rye: Rye) -> list[str]:
    from ryeos.app.proposals import Proposals

    try:
        return [one.label for one in Proposals(rye.context.spaces.user).all()]
    except LilluxError:
        return []


LIST = CommandSpec(_configure_list, _list, ["rye list", "rye list mine --all"])
INFO = CommandSpec(_configure_info, _info, ["rye info mine/hello"])
EDIT = CommandSpec(_configure_edit, _edit, ["rye edit mine/hello --sign"], has_spinner=False)
MV = CommandSpec(_configure_mv, _mv, ["rye mv mine/hello shop/greet"])
RM = CommandSpec(_configure_rm, _rm, ["rye rm mine/hello"])
STATUS = CommandSpec(no_arguments, _status, ["rye status", "rye status --json"])
