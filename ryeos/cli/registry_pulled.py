"""``rye registry verify|outdated|update``: what was pulled, as the lock of a space has it."""

from collections.abc import Iterator
from typing import Any

from lillux.errors import LilluxError
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.registry_items import runs_now
from ryeos.cli.registry_words import take_space
from ryeos.cli.session import Command, Session
from ryeos.cli.signals import cancelled_by_signals
from ryeos.errors import RyeError
from ryeos.items import PROJECT, USER, Space
from ryeos.moments import utc_now
from ryeos.registry.client import Registry
from ryeos.registry.errors import LocalEditError
from ryeos.registry.ids import published_ref, version_key
from ryeos.registry.lock import LockEntry, RegistryLock
from ryeos.registry.opening import open_registry, pins_of, registries_of
from ryeos.registry.placing import Placing, Replace
from ryeos.registry.pulled import check_pulled
from ryeos.registry.states import FINE, PulledState, State, state_of

_COLORS = {State.VALID: "green", State.SIGNED_HERE: "green", State.UNTRUSTED: "yellow"}


class NotPulledError(RyeError):
    """An item that no lock names."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, ref: str) -> None:
        self.ref = ref
        super().__init__(
            f"{ref}: not pulled from a registry, or not in this space",
            hint="see what was with: rye registry verify",
        )


def _configure(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", nargs="*", help="only these (default: all)")
    take_space(parser, "only this one (default: project and user)")


def _chosen(session: Session) -> list[tuple[Space, LockEntry]]:
    """The entries that are meant, by space. Raises NotPulledError, RegistryLockError."""
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
            raise NotPulledError(ref)
    return [(space, entry) for space, entry in entries if str(entry.ref) in wanted]


# --- verify ---------------------------------------------------------------------------------------


def _verify(session: Session) -> int:
    pins = pins_of(session.rye).list()
    states = [
        (space, state_of(entry, space, pins, session.rye.verifier))
        for space, entry in _chosen(session)
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


class _Opened:
    """Each registry that the locks name, opened once, by its address."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known = registries_of(session.rye)
        self._opened: dict[str, Registry] = {}
        self._cancellation = cancelled_by_signals()

    def at(self, url: str) -> Registry:
        """The registry of an address that the user configured. Raises as `Registries.at`."""
        if url not in self._opened:
            config = self._known.at(url)
            self._opened[url] = open_registry(self._session.rye, config, self._cancellation)
        return self._opened[url]


def _outdated(session: Session) -> int:
    opened = _Opened(session)
    rows = [_newer_row(opened, space, entry) for space, entry in _chosen(session)]
    found = [row for row in rows if row["state"] != "current"]
    lines = (f"{row['ref']}  {row['version']}  {row['latest'] or row['problem']}" for row in found)
    session.output.answer({"status": "success", "items": rows}, "\n".join(lines))
    return 0


def _newer_row(opened: _Opened, space: Space, entry: LockEntry) -> dict[str, Any]:
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
    opened = _Opened(session)
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


def _updates(session: Session, opened: _Opened) -> Iterator[dict[str, Any]]:
    key = session.rye.signing_key() if session.arguments.resign else None
    for space, entry in _chosen(session):
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
                **_updated(session, opened, Placing(space, key), entry),
            }
        except LocalEditError as error:
            yield {**row, "state": "kept", "problem": error.problem}
        except LilluxError as error:
            yield {**row, "state": "failed", "code": error.code, "problem": str(error)}


def _updated(
    session: Session, opened: _Opened, placing: Placing, entry: LockEntry
) -> dict[str, Any]:
    registry = opened.at(entry.registry)
    pin = registry.pin(entry.fingerprint)
    latest = registry.latest(entry.ref)
    item = check_pulled(registry.pull(entry.ref, latest), entry.ref, pin, version=latest)
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    placing.place(item, registry=registry.config.url, now=now, replace=Replace.UNTOUCHED)
    runs = runs_now(session, item, placing)
    return {"runs": runs, "author": item.author, "path": str(placing.path(item))}


COMMANDS = {
    "registry verify": Command(
        _configure, _verify, ["rye registry verify", "rye registry verify ada/text/upper"]
    ),
    "registry outdated": Command(_configure, _outdated, ["rye registry outdated"]),
    "registry update": Command(
        _configure_update, _update, ["rye registry update", "rye registry update ada/text/upper"]
    ),
}
