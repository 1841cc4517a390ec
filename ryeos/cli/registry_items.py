"""``rye registry push|pull|search|info|delete|visibility|verify|outdated|update``."""

from collections.abc import Iterator, Mapping
from typing import Any

from lillux.errors import LilluxError, as_word
from lillux.foreign_text import one_line
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.output import utc_text
from ryeos.cli.registry import (
    page_of,
    reference_of,
    registry_of,
    take_page,
    take_registry,
    take_space,
    take_team,
    tell_new_pin,
    total_of,
    word,
)
from ryeos.cli.session import Session, cancelled_by_signals
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import EXECUTABLE_KINDS, PROJECT, USER, Space
from ryeos.remote.placed_items import (
    FINE,
    ItemPlacer,
    PlacementState,
    PulledState,
    PulledStatus,
    Replace,
    state_of,
)
from ryeos.remote.registry import RegistryClient, open_registry, pins_of, registries_of
from ryeos.remote.registry_errors import LocalEditError
from ryeos.remote.registry_ids import published_ref, valid_version, version_key
from ryeos.remote.registry_items import PulledItem, draft_of, verify_pulled
from ryeos.remote.registry_lock import LockEntry, RegistryLock
from ryeos.trust.verify import Target

KINDS = tuple(kind.value for kind in EXECUTABLE_KINDS)
VISIBILITIES = ("public", "unlisted")
_RUNS_HINT = (
    "it does not run yet: read it, then sign it with your own key (rye sign {path}),"
    " or trust the registry's key (rye registry trust {fingerprint})"
)


# --- push -----------------------------------------------------------------------------------------


def _configure_push(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="an item of your own, namespace/.../name", offers="own")
    add("--release", metavar="X.Y.Z", help="expected in its text")
    add("--changelog", metavar="TEXT", default="", help="what is new in it")
    add("--unlisted", action="store_true", help="searches do not find it")
    take_space(parser, "where it is taken from (default: project, then user)")
    take_team(parser)
    take_registry(parser)


def _push(session: Session) -> int:
    arguments = session.arguments
    reference = session.rye.reference(arguments.ref)
    source = arguments.space or PROJECT
    draft = draft_of(session.rye, reference, source=source, version=arguments.release or "")
    registry = registry_of(session)
    reply = registry.push(
        draft.ref,
        draft.content,
        draft.version,
        suffix=draft.suffix,
        changelog=arguments.changelog,
    )
    tell_new_pin(session, registry)
    visibility = "public"
    if arguments.unlisted:
        visibility = "unlisted"
        registry.set_visibility(draft.ref, visibility)
    is_skipped = reply.get("skipped") is True
    envelope = {
        "status": "success",
        "ref": str(draft.ref),
        "version": draft.version,
        "registry": registry.config.url,
        "skipped": is_skipped,
        **({"visibility": visibility} if arguments.unlisted else {}),
        "signature": reply.get("signature"),
    }
    done = "is there already" if is_skipped else "published"
    session.output.answer(envelope, f"{draft.ref} {draft.version}: {done} ({registry.config.url})")
    return 0


# --- pull -----------------------------------------------------------------------------------------


def _configure_pull(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF[@X.Y.Z]", help="kind:namespace/.../name; without a kind a tool")
    add("--release", metavar="X.Y.Z", help="this version; also: --version X.Y.Z, REF@X.Y.Z")
    add("--overwrite", action="store_true", help="replace another file; it is kept in user space")
    add("--resign", action="store_true", help="sign it with your own key, so that it runs")
    add("--print", action="store_true", dest="only_print", help="show it, and write nothing")
    take_space(parser, "where it is written (default: project)")
    take_registry(parser)


def _pull(session: Session) -> int:
    arguments = session.arguments
    text, at, behind = arguments.ref.partition("@")
    if at and arguments.release:
        raise UsageError(f"{arguments.ref}: expected REF@X.Y.Z or --release, found both")
    release = behind if at else arguments.release
    version = valid_version(release) if at or release else None
    ref = published_ref(reference_of(text))
    registry = registry_of(session)
    pin = registry.pin()
    tell_new_pin(session, registry)
    item = verify_pulled(registry.pull(ref, version or ""), ref, pin, version=version or "")
    if arguments.only_print:
        text = item.data.decode()
        session.output.answer({**_item_envelope(item, registry), "content": text}, text)
        return 0
    key = session.rye.signing_key() if arguments.resign else None
    placing = ItemPlacer(
        session.rye.space(arguments.space or PROJECT), session.context.spaces.user, key
    )
    replace = Replace.ANYTHING if arguments.overwrite else Replace.NOTHING
    placed = placing.place(item, registry=registry.config.url, now=_now(), replace=replace)
    _show_pulled(session, item, registry, placing, placed)
    return 0


def _show_pulled(
    session: Session,
    item: PulledItem,
    registry: RegistryClient,
    placing: ItemPlacer,
    placed: PlacementState,
) -> None:
    path = placing.path(item)
    runs = runs_now(session, item, placing)
    envelope = {
        **_item_envelope(item, registry),
        "path": str(path),
        "space": placing.space.label,
        "placed": placed.value,
        "lock": str(placing.lock.path),
        "runs": runs,
    }
    if placing.kept:
        envelope["prior_text"] = str(placing.kept)
        session.output.note(f"what was replaced: {placing.kept}")
    if not item.covers_all:
        session.output.warn(f"{item.ref}: the registry's signature covers only a part of the text")
    if not runs:
        hint = _RUNS_HINT.format(path=as_word(path), fingerprint=item.fingerprint)
        envelope["hint"] = hint
        session.output.note(hint)
    session.output.answer(
        envelope, f"{item.ref} {item.version} by {item.author}: {placed.value} {path}"
    )


def runs_now(session: Session, item: PulledItem, placing: ItemPlacer) -> bool:
    """Whether the key that a pulled item is signed with counts where it is."""
    target = Target(path=placing.path(item), kind=item.ref.kind, space=placing.space)
    try:
        return session.rye.verifier.verify(target).verified
    except LilluxError:
        return False


def _item_envelope(item: PulledItem, registry: RegistryClient) -> dict[str, Any]:
    return {
        "status": "success",
        "ref": str(item.ref),
        "version": item.version,
        "author": item.author,
        "registry": registry.config.url,
        "fingerprint": item.fingerprint,
        "integrity": item.text_hash,
        "coverage": "full" if item.covers_all else "partial",
    }


# --- search, info ---------------------------------------------------------------------------------


def _configure_search(parser: Arguments) -> None:
    add = parser.add_argument
    add("query", metavar="WORD", nargs="*", help="what to look for; without one all there is")
    add("--type", choices=KINDS, help="only items of this kind")
    add("--namespace", metavar="NAME", help="only what is published below it")
    add("--category", metavar="PATH", help="only this category of a namespace")
    add("--mine", action="store_true", help="your own too, unlisted ones as well")
    take_page(parser)
    take_registry(parser)


def _search(session: Session) -> int:
    arguments = session.arguments
    filters = {
        "query": " ".join(arguments.query),
        "item_type": arguments.type,
        "namespace": arguments.namespace,
        "category": arguments.category,
        "include_mine": "true" if arguments.mine else None,
    }
    query = [(key, value) for key, value in filters.items() if value]
    registry = registry_of(session)
    if arguments.mine and not registry.config.api_key:
        raise UsageError("--mine: expected an API key", hint="see: rye registry login --help")
    reply = registry.search([*query, *page_of(session)])
    rows = reply["results"]
    total = total_of(reply, len(rows))
    envelope = {
        "status": "success",
        "registry": registry.config.url,
        "results": rows,
        "total": total,
        "limit": reply.get("limit"),
        "offset": reply.get("offset"),
    }
    session.output.answer(envelope, "\n".join(map(_line, rows)))
    if total > len(rows) and not session.output.as_json:
        session.output.note(f"{len(rows)} of {total}; see more with --offset and --limit")
    return 0


def _line(row: Mapping[str, Any]) -> str:
    ref = f"{word(row, 'item_type')}:{word(row, 'item_id')}"
    return f"{ref}  {word(row, 'version')}  {word(row, 'author')}  {word(row, 'description', 80)}"


def _configure_ref(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="kind:namespace/.../name")
    take_registry(parser)


def _info(session: Session) -> int:
    ref = published_ref(reference_of(session.arguments.ref))
    registry = registry_of(session)
    facts = registry.info(ref)
    envelope = {
        "status": "success",
        "ref": str(ref),
        "registry": registry.config.url,
        "item": facts,
    }
    shown = ("version", "author", "title", "description", "visibility", "download_count")
    lines = [f"{ref}", *(f"  {key}: {word(facts, key, 200)}" for key in shown if facts.get(key))]
    for row in facts["versions"]:
        gone = "  deleted" if row.get("deleted") else f"  {word(row, 'changelog', 80)}"
        lines.append(f"  {word(row, 'version')}  {utc_text(word(row, 'created_at'))}{gone}")
    session.output.answer(envelope, "\n".join(lines))
    return 0


# --- delete, visibility ---------------------------------------------------------------------------


def _configure_delete(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:namespace/.../name")
    add("--release", metavar="X.Y.Z", help="only this one")
    add("--all", action="store_true", help="every version of it")
    take_team(parser)
    take_registry(parser)


def _delete(session: Session) -> int:
    arguments = session.arguments
    ref = published_ref(reference_of(arguments.ref))
    if bool(arguments.release) is arguments.all:
        raise UsageError("--release, --all: expected one of them: what is deleted stays deleted")
    version = arguments.release and valid_version(arguments.release)
    registry = registry_of(session)
    reply = registry.delete(ref, version or "")
    gone = [str(one) for one in reply.get("deleted_versions") or () if isinstance(one, str)]
    envelope = {"status": "success", "ref": str(ref), "deleted_versions": gone}
    session.output.answer(envelope, f"deleted {ref} {one_line(' '.join(gone))}".rstrip())
    return 0


def _configure_visibility(parser: Arguments) -> None:
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:namespace/.../name, or bundle:ID")
    add("visibility", choices=VISIBILITIES, help="whether searches find it")
    take_team(parser)
    take_registry(parser)


def _visibility(session: Session) -> int:
    from ryeos.remote.registry_ids import valid_bundle_id

    arguments = session.arguments
    registry = registry_of(session)
    kind, _, bundle_id = arguments.ref.partition(":")
    if kind == "bundle":
        name = f"bundle:{valid_bundle_id(bundle_id)}"
        reply = registry.set_bundle_visibility(bundle_id, arguments.visibility)
    else:
        ref = published_ref(reference_of(arguments.ref))
        name = str(ref)
        reply = registry.set_visibility(ref, arguments.visibility)
    before = word(reply, "previous_visibility")
    envelope = {
        "status": "success",
        "ref": name,
        "visibility": arguments.visibility,
        "previous_visibility": before,
    }
    session.output.answer(envelope, f"{name} is {arguments.visibility} now (was {before})")
    return 0


def _now() -> str:
    return utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")


# --- registry pulled ------------------------------------------------------------------------------
# ``rye registry verify|outdated|update``: what was pulled, as the lock of a space has it.

_COLORS = {
    PulledStatus.VALID: "green",
    PulledStatus.SIGNED_HERE: "green",
    PulledStatus.UNTRUSTED: "yellow",
}


def _configure(parser: Arguments) -> None:
    what = "only these (default: all)"
    parser.add_argument("ref", metavar="REF", nargs="*", help=what, offers="own")
    take_space(parser, "only this one (default: project and user)")


def _chosen_entries(session: Session) -> list[tuple[Space, LockEntry]]:
    """The entries that are meant, by space.

    Raises RyeError `ITEM_NOT_FOUND` or `LOCKFILE_INVALID`.
    """
    arguments = session.arguments
    labels = (arguments.space,) if arguments.space else (PROJECT, USER)
    spaces = [space for space in session.context.spaces if space.label in labels]
    if arguments.space and not spaces:
        spaces = [session.rye.space(arguments.space)]
    entries = [(s, entry) for s in spaces for entry in RegistryLock(s).entries().values()]
    if not arguments.ref:
        return entries
    wanted = [str(published_ref(session.rye.reference(ref))) for ref in arguments.ref]
    for ref in wanted:
        if all(ref != str(entry.ref) for _, entry in entries):
            raise RyeError(
                f"{ref}: not pulled from a registry, or not in this space",
                code="ITEM_NOT_FOUND",
                hint="see what was with: rye registry verify",
            )
    return [(space, entry) for space, entry in entries if str(entry.ref) in wanted]


# --- verify ---------------------------------------------------------------------------------------


def _verify(session: Session) -> int:
    pins = pins_of(session.rye).list()
    states = [
        (space, state_of(entry, space, pins, session.rye.verifier))
        for space, entry in _chosen_entries(session)
    ]
    rows = [_state_row(space, state) for space, state in states]
    lines = [_state_line(session, state) for _, state in states]
    is_fine = all(state.state in FINE for _, state in states)
    envelope: dict[str, Any] = {"status": "success" if is_fine else "error", "items": rows}
    if not is_fine:
        envelope |= {"error": "not all is as it was pulled", "code": "INTEGRITY"}
    session.output.answer(envelope, "\n".join(lines))
    if not rows and not session.output.as_json:
        session.output.note("nothing was pulled from a registry")
    return 0 if is_fine else 1


def _state_row(space: Space, state: PulledState) -> dict[str, Any]:
    entry = state.entry
    return {
        "ref": str(entry.ref),
        "version": entry.version,
        "state": state.state.value,
        "runs": state.runs,
        "space": space.label,
        "path": str(state.path),
        "registry": entry.registry,
        "author": entry.author,
        "fingerprint": entry.fingerprint,
    }


def _state_line(session: Session, state: PulledState) -> str:
    word = f"{state.state.value:<13}"
    painted = session.output.paint(word, _COLORS.get(state.state, "red"))
    return f"{painted} {state.entry.ref} {state.entry.version} ({one_line(state.entry.author, 60)})"


# --- outdated, update -----------------------------------------------------------------------------


class _OpenedRegistries:
    """Each registry that the locks name, opened once, by its address."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known = registries_of(session.rye)
        self._opened: dict[str, RegistryClient] = {}
        self._cancellation = cancelled_by_signals()

    def at(self, url: str) -> RegistryClient:
        """The registry of an address that the user configured. Raises as `Registries.at`."""
        if url not in self._opened:
            config = self._known.at(url)
            self._opened[url] = open_registry(self._session.rye, config, self._cancellation)
        return self._opened[url]


def _outdated(session: Session) -> int:
    opened = _OpenedRegistries(session)
    rows = [_newer_row(opened, space, entry) for space, entry in _chosen_entries(session)]
    found = [row for row in rows if row["state"] != "current"]
    lines = (f"{row['ref']}  {row['version']}  {row['latest'] or row['problem']}" for row in found)
    session.output.answer({"status": "success", "items": rows}, "\n".join(lines))
    return 0


def _newer_row(opened: _OpenedRegistries, space: Space, entry: LockEntry) -> dict[str, Any]:
    row: dict[str, Any] = {"ref": str(entry.ref), "version": entry.version, "space": space.label}
    try:
        latest = opened.at(entry.registry).latest(entry.ref)
    except LilluxError as error:
        return {**row, "state": "unknown", "latest": None, "problem": str(error)}
    is_newer = version_key(latest) > version_key(entry.version)
    return {**row, "state": "outdated" if is_newer else "current", "latest": latest}


def _configure_update(parser: Arguments) -> None:
    _configure(parser)
    parser.add_argument("--resign", action="store_true", help="sign them with your own key")


def _update(session: Session) -> int:
    """Bring what is outdated to its latest version; what was changed here stays."""
    opened = _OpenedRegistries(session)
    rows = list(_updates(session, opened))
    failed = [row for row in rows if row["state"] == "failed"]
    envelope: dict[str, Any] = {"status": "error" if failed else "success", "items": rows}
    if failed:
        envelope |= {"error": str(failed[0]["problem"]), "code": failed[0]["code"]}
    lines = (f"{row['state']:<8} {row['ref']} {row['version']}{_tail(row)}" for row in rows)
    session.output.answer(envelope, "\n".join(lines))
    waiting = [row for row in rows if row["state"] == "updated" and not row["runs"]]
    if waiting and not session.output.as_json:
        session.output.note("read what is new, then: rye sign REF, or update with --resign")
    return 1 if failed else 0


def _tail(row: dict[str, Any]) -> str:
    return f" -> {row['latest']}" if row["state"] == "updated" else f"  {row.get('problem', '')}"


def _updates(session: Session, opened: _OpenedRegistries) -> Iterator[dict[str, Any]]:
    key = session.rye.signing_key() if session.arguments.resign else None
    for space, entry in _chosen_entries(session):
        row = _newer_row(opened, space, entry)
        if row["state"] == "current":
            continue
        if row["state"] == "unknown":
            yield {**row, "state": "failed", "code": "REGISTRY_REFUSED"}
            continue
        try:
            yield {
                **row,
                "state": "updated",
                **_updated(
                    session, opened, ItemPlacer(space, session.context.spaces.user, key), entry
                ),
            }
        except LocalEditError as error:
            yield {**row, "state": "kept", "problem": error.problem}
        except LilluxError as error:
            yield {**row, "state": "failed", "code": error.code, "problem": str(error)}


def _updated(
    session: Session, opened: _OpenedRegistries, placing: ItemPlacer, entry: LockEntry
) -> dict[str, Any]:
    registry = opened.at(entry.registry)
    pin = registry.pin(entry.fingerprint)
    latest = registry.latest(entry.ref)
    item = verify_pulled(registry.pull(entry.ref, latest), entry.ref, pin, version=latest)
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    placing.place(item, registry=registry.config.url, now=now, replace=Replace.UNTOUCHED)
    runs = runs_now(session, item, placing)
    return {"runs": runs, "author": item.author, "path": str(placing.path(item))}


PUSH = CommandSpec(
    _configure_push,
    _push,
    ["rye registry push ada/text/upper", "rye registry push ada/text/upper --changelog faster"],
)
PULL = CommandSpec(
    _configure_pull,
    _pull,
    [
        "rye registry pull ada/text/upper",
        "rye registry pull directive:ada/review/code@1.2.0 --space user",
        "rye registry pull ada/text/upper --print",
    ],
    own_meaning={"--version": "--release"},  # alone it shows the version of this program
)
SEARCH = CommandSpec(
    _configure_search,
    _search,
    ["rye registry search upper case", "rye registry search --namespace ada --type tool"],
)
INFO = CommandSpec(_configure_ref, _info, ["rye registry info ada/text/upper"])
DELETE = CommandSpec(
    _configure_delete, _delete, ["rye registry delete ada/text/upper --release 1.0.1"]
)
VISIBILITY = CommandSpec(
    _configure_visibility, _visibility, ["rye registry visibility ada/text/upper unlisted"]
)
VERIFY = CommandSpec(
    _configure, _verify, ["rye registry verify", "rye registry verify ada/text/upper"]
)
OUTDATED = CommandSpec(_configure, _outdated, ["rye registry outdated"])
UPDATE = CommandSpec(
    _configure_update, _update, ["rye registry update", "rye registry update ada/text/upper"]
)
