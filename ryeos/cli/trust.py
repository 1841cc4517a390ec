"""``rye trust``: what a project brings besides signed items, shown and approved in one step."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.foreign_text import one_line
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.session import Session
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import AI_DIRECTORY, PROJECT, Space
from ryeos.trust.approvals import NETWORK_SETTINGS, Part, parts_of, read_part
from ryeos.trust.key_states import KeyState, key_states
from ryeos.trust.store import FINGERPRINT_DIGITS
from ryeos.trust.verify import Target
from ryeos.trust.versions import Edition

MAX_INDEX_BYTES = 256 * 1024 * 1024
MAX_OUTSIDE = 8
MAX_COMPUTED = 8
_NOT_COVERED = (
    "not compared: packages that are not imported at each start, and what they load",
    "not compared: it lies outside of the project",
    "it loads what no import statement names: not compared",
    "compared when a tool starts; not again when that tool starts such a program by the PATH",
)
_KINDS = {
    "interpreter": "programs that run the project's tools",
    "packages": "node_modules, which tools of the project may import",
    "version": "chooses among installed interpreters",
    "env": "variables for tools",
    "remotes": "nodes that the project names",
    "registries": "registries that the project names",
    "key": "a key whose items count here",
}


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("path", metavar="FOLDER", nargs="*", help="further folders with programs of this project")
    add("--yes", action="store_true", help="approve all of it without asking")
    add("--show", action="store_true", help="show what is approved, and what changed since")
    add("--revoke", action="store_true", help="approve nothing of this project any longer")
    add("--older", metavar="REF", help="accept the version of an item that is here, though lower")
    add("--env-by-path", action="store_true", help="approve .env whatever it says from now on")


def _run(session: Session) -> int:
    arguments, project = session.arguments, session.rye.space(PROJECT)
    chosen = [arguments.show, arguments.revoke, bool(arguments.older)]
    if sum(chosen) > 1:
        raise UsageError("--show, --revoke, --older: expected at most one of them")
    if arguments.older:
        return _accept_older(session)
    if arguments.revoke:
        return _revoke(session, project)
    if arguments.show:
        return _show(session, project)
    return approve_project(session, project)


def approve_project(session: Session, project: Space, *, is_new: bool = False) -> int:
    """Show all parts, ask once, write the document. ``is_new`` says nothing where there is none."""
    more = tuple(_folder(project, path) for path in getattr(session.arguments, "path", ()))
    seen = [_by_path(session, project, part) for part in parts_of(project.base, more)]
    shown = [_with_addresses(session, part) for part in seen]
    found = [part for part, _ in shown]
    keys = _carried_keys(session, project)
    approved = session.rye.approval.parts()
    new = [part for part in found if approved.get(part.path) != part and not part.problem]
    envelope: dict[str, Any] = {
        "status": "success",
        "project": str(project.base),
        "parts": [_described(part, project.base) for part in found],
        "keys": [{"fingerprint": key.fingerprint, "owner": key.owner} for key in keys],
        "unchanged": not new and not keys and approved.keys() <= {part.path for part in found},
    }
    if envelope["unchanged"]:
        if not is_new:
            text = "all of it is approved already" if found else "there is nothing to approve"
            session.output.answer(envelope, text)
        return 0
    addresses = {part.path: names for part, names in shown}
    envelope["addresses"] = {path: names for path, names in addresses.items() if names}
    lines = _lines(project.base, found, keys, new, addresses)
    question = f"approve all of this for {project.base}?"
    if not session.confirm(question, lines, "rye trust --yes"):
        session.output.answer({**envelope, "status": "cancelled"}, "nothing was approved")
        return 1
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    path = session.rye.approval.approve(tuple(found), session.rye.signing_key(), now)
    for key in keys:
        session.rye.approvals.approve(project.base, key.digest)
    words = f"approved: {len(found)} parts and {len(keys)} keys of {project.base}"
    if is_new:
        session.output.note(words)
    else:
        session.output.answer({**envelope, "path": str(path)}, words)
    return 0


def _with_addresses(session: Session, part: Part) -> tuple[Part, dict[str, str]]:
    """The part, and what settings of remotes or registries lead to, by name: of the same bytes.

    Raises IntegrityError for settings that were changed after they were signed.
    """
    if part.kind not in NETWORK_SETTINGS:
        return part, {}
    layers = session.rye.config.layers(part.path.removeprefix(f"{AI_DIRECTORY}/config/"))
    layer = next((layer for layer in layers if layer.label == PROJECT), None)
    if layer is None:
        return part, {}
    named = layer.values.get("remotes" if part.kind == "remotes" else "registry")
    entries = named.items() if isinstance(named, Mapping) else ()
    addresses = {
        str(name): " ".join(f"{key}={value}" for key, value in entry.items())
        for name, entry in entries
        if isinstance(entry, Mapping)
    }
    return Part(part.kind, part.path, sha256_hex(layer.data)), addresses


def _described(part: Part, project: Path) -> dict[str, Any]:
    """A part as JSON, with what its approval would not cover."""
    described: dict[str, Any] = dict(part.describe())
    if part.problem:
        described["problem"] = part.problem
    not_covered = list(_not_covered(part, project))
    if not_covered:
        described["not_covered"] = not_covered
    return described


def _not_covered(part: Part, project: Path) -> Iterator[str]:
    """What may change in an approved part without a question, a line each."""
    if part.programs:
        yield _NOT_COVERED[0]
    if part.kind == "interpreter" and part.digest and not part.problem:
        yield _NOT_COVERED[3]
    for path in part.outside[:MAX_OUTSIDE]:
        yield f"{one_line(path, 80)}: {_NOT_COVERED[1]}"
    if len(part.outside) > MAX_OUTSIDE:
        yield f"{len(part.outside) - MAX_OUTSIDE} more outside of the project: not compared"
    if part.programs:
        yield from _not_followed(part, project)


def _not_followed(part: Part, project: Path) -> Iterator[str]:
    """Places where a start of an environment loads what was not compared, a line each."""
    from ryeos.trust.computed_imports import computed_imports

    found = computed_imports(part.sources, part.names)
    end = ", so it fails at the start" if part.is_held else ""
    for path, line, name in found[:MAX_COMPUTED]:
        file = path.removeprefix(f"{project.resolve()}/")
        yield f"{one_line(file, 120)}, line {line}, {name}: {_NOT_COVERED[2]}{end}"
    if len(found) > MAX_COMPUTED:
        yield f"{len(found) - MAX_COMPUTED} more places that load what no import statement names"


def _lines(
    project: Path,
    found: list[Part],
    keys: list[KeyState],
    new: list[Part],
    addresses: Mapping[str, Mapping[str, str]],
) -> list[str]:
    lines = []
    for part in found:
        state = "new or changed" if part in new else "approved"
        digest = part.digest[:16] or "by its path"
        what = f"{one_line(part.path, 60)}  {digest}"
        if part.problem:
            what, state = one_line(part.path, 60), f"cannot be approved, {part.problem}"
        lines.append(f"{part.kind:<12} {what}  {state}: {_KINDS[part.kind]}")
        lines += [f"{'':<12} {line}" for line in _not_covered(part, project)]
        for name, said in addresses[part.path].items():
            lines.append(f"{'':<12} {one_line(name, 30)}  {one_line(said, 160)}")
    for key in keys:
        owner = one_line(key.owner, 30) or "-"
        lines.append(f"{'key':<12} {key.fingerprint}  {owner}  new: {_KINDS['key']}")
    return lines


def _folder(project: Space, typed: str) -> str:
    """A folder of programs that was named, by its path below the project. Raises UsageError."""
    path = Path(typed).absolute()
    if not path.is_relative_to(project.base) or not path.is_dir():
        raise UsageError(f"{typed}: expected a folder of the project, found none there")
    return path.relative_to(project.base).as_posix()


def _by_path(session: Session, project: Space, part: Part) -> Part:
    """The part without its digest, where the user wants ``.env`` whatever it says."""
    if part.kind != "env" or not getattr(session.arguments, "env_by_path", False):
        known = session.rye.approval.parts().get(part.path)
        return known if known is not None and known.kind == "env" and not known.digest else part
    if is_tracked(project.base, part.path):
        raise RyeError(
            f"{part.path}: expected a file that version control does not track",
            code="CONFLICT",
            hint="what a pull can change is approved by its digest: rye trust",
        )
    return Part(part.kind, part.path, "")


def is_tracked(project: Path, relative: str) -> bool:
    """Whether git may have a file in its index; no program is run in a project to find out."""
    git = project / ".git"
    if not git.exists():
        return any((project / other).exists() for other in (".hg", ".svn", ".jj"))
    try:
        index = (git / "index").read_bytes()[:MAX_INDEX_BYTES]
    except FileNotFoundError:
        return not git.is_dir()
    except OSError:
        return True
    name = relative.encode("utf-8", "surrogateescape")
    is_plain = index[:4] == b"DIRC" and int.from_bytes(index[4:8], "big") in (2, 3)
    return not is_plain or len(name).to_bytes(1, "big") + name + b"\0" in index


def _carried_keys(session: Session, project: Space) -> list[KeyState]:
    """Keys whose document is in the project and good, and that the user has not approved."""
    states = key_states(session.rye.trust, session.rye.approvals)
    return [
        state
        for state in states
        if state.space == project.label and state.problem == "not approved for this project"
    ]


def _show(session: Session, project: Space) -> int:
    approved = session.rye.approval.parts()
    rows = []
    for part in approved.values():
        now = read_part(project.base, part.kind, part.path)
        state = "approved" if not part.digest or now == part else "changed"
        rows.append({**part.describe(), "state": state if now.digest or now.problem else "gone"})
    named = approved.keys()
    more = [part for part in parts_of(project.base) if part.path not in named]
    rows += [{**part.describe(), "state": "not approved"} for part in more]
    envelope = {"status": "success", "project": str(project.base), "parts": rows}
    lines = [f"{row['state']:<13} {row['kind']:<12} {one_line(row['path'])}" for row in rows]
    session.output.answer(envelope, "\n".join(lines or ["nothing to approve, nothing approved"]))
    return 0


def _revoke(session: Session, project: Space) -> int:
    was_there = session.rye.approval.revoke()
    withdrawn = [
        digest[:FINGERPRINT_DIGITS]
        for path, digest in session.rye.approvals.all()
        if path == str(project.base.resolve())
        and session.rye.approvals.withdraw(project.base, digest)
    ]
    envelope: dict[str, Any] = {"status": "success", "project": str(project.base)}
    envelope |= {"keys": withdrawn, "unchanged": not was_there and not withdrawn}
    is_done = was_there or withdrawn
    words = "nothing of this project counts any longer" if is_done else "nothing was approved"
    session.output.answer(envelope, words)
    return 0


def _accept_older(session: Session) -> int:
    """Accept the version of an item that is here in this project."""
    reference = session.rye.reference(session.arguments.older)
    location = session.rye.resolver.resolve(reference).location
    item = session.rye.verifier.verify(
        Target(path=location.path, kind=location.ref.kind, space=location.space)
    )
    version = session.rye.version_of(location, item)
    edition = Edition.of(location.ref, item, version)
    is_new = bool(item.signer) and session.rye.executor.versions.accept(edition)
    envelope = {"status": "success", "ref": str(location.ref), "version": version}
    words = "counts in this project now" if is_new else "counts already"
    session.output.answer(
        {**envelope, "unchanged": not is_new},
        f"{location.ref} {version or 'as it is here'} {words}",
    )
    return 0


TRUST = CommandSpec(
    _configure,
    _run,
    [
        "rye trust",
        "rye trust --yes",
        "rye trust --show",
        "rye trust --revoke",
        "rye trust --older tool:shop/total",
        "rye trust .ai/tools/shop/node_modules/.bin",
    ],
)
