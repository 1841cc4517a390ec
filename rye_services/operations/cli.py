"""``rye-node``: find the command, carry it out, turn what happened into text and a status.

Contract: ``docs/node.md``. What only one command needs is imported by it: help and the version load
no database and no server.
"""

import argparse
import atexit
import gc
import json
import logging
import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError
from lillux.first_steps import begin
from lillux.shapes import write
from lillux.values import dataclass
from rye_services.operations.commands import GROUPS, TABLE, declare_shared
from rye_services.operations.operator_commands import (
    CommandAnswer,
    columns,
    declare_scopes,
    progress_of,
    say_line,
    shown_scopes,
    typed_pem,
    typed_scopes,
    unix_user,
)
from rye_services.people.actors import Actor, acting
from rye_services.settings import Settings, setting_error, settings_of
from ryeos import __version__
from ryeos.app.argument_parser import Parser, ProgramParser, add_commands, declare_version
from ryeos.app.command_line import Arguments, CommandEntry, CommandSpec, no_arguments
from ryeos.app.output import Output, interrupted_status, report, utc_text
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.own_code import begin_node
from ryeos.remote.remote_values import normal_url
from ryeos.trust.bundles import BundleHome, own_bundle

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rye_services.people.credentials import AuthorizedKeys
    from rye_services.process.server import ServerPart
    from rye_services.storage.database import Database

# --- key commands ---------------------------------------------------------------------------------
# ``keys`` and ``api-keys``: who may use a node, said by a user who can write its files.

_SECRET_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LONGEST_DAYS = 36_500


# --- keys -----------------------------------------------------------------------------------------


def _configure_add_key(parser: Arguments) -> None:
    parser.add_argument(
        "key", metavar="KEY", help="a PEM file, or ed25519:... as /public-key shows it"
    )
    parser.add_argument("--label", metavar="TEXT", default="", help="whose it is")
    declare_scopes(parser)
    parser.add_argument("--expires-days", metavar="N", type=_days, help="let it in for so long")
    parser.add_argument(
        "--publish", metavar="PATTERN", action="append", help="namespaces it may publish below"
    )


def _configure_revoke_key(parser: Arguments) -> None:
    parser.add_argument("fingerprint", metavar="FINGERPRINT")


def _configure_export_keys(parser: Arguments) -> None:
    parser.add_argument("secret", metavar="SECRET", help="its name, like rye-node-keys")


def _add_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    public_pem = typed_pem(parsed.key)  # first: a slip is no reason to make a database
    key = _authorized_keys(parsed, environ).authorize(
        public_pem,
        label=parsed.label,
        scopes=typed_scopes(parsed, publishes=bool(parsed.publish)),
        via="command",
        expires_at=_expires_at(parsed.expires_days),
        publish_namespaces=parsed.publish or (),
    )
    shown = {"fingerprint": f"fp:{key.fingerprint}", "label": key.label, "scopes": list(key.scopes)}
    text = f"authorised fp:{key.fingerprint} for {','.join(key.scopes)}"
    return CommandAnswer({"status": "success", **shown}, text)


def _list_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    found = _authorized_keys(parsed, environ).all()
    rows = [(f"fp:{key.fingerprint}", ",".join(key.scopes), key.label) for key in found]
    shown = [
        {
            "fingerprint": f"fp:{key.fingerprint}",
            "label": key.label,
            "scopes": list(key.scopes),
            "created_via": key.created_via,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
        }
        for key in found
    ]
    return CommandAnswer({"status": "success", "keys": shown}, columns(rows) or "no keys")


def _revoke_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    fingerprint = parsed.fingerprint.removeprefix("fp:")
    _authorized_keys(parsed, environ).revoke(fingerprint)
    text = f"revoked fp:{fingerprint}"
    return CommandAnswer({"status": "success", "revoked": f"fp:{fingerprint}"}, text)


def _export_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    """A manifest of Kubernetes; its keys are the paths of files, with dots for slashes."""
    from rye_services.people.audit import Audit
    from rye_services.process.data_folder import has_database, make_data, open_database
    from rye_services.process.keys import exported_files, open_keys

    if not _SECRET_NAME.fullmatch(parsed.secret):
        expected = "expected a name of a-z, 0-9, - and ., like rye-node-keys"
        raise UsageError(f"SECRET: {expected}, found {parsed.secret[:80]!a}")
    settings = make_data(settings_of(parsed, environ))
    files = exported_files(settings.signing_key_dir)
    node_id = open_keys(settings.signing_key_dir).node_id
    if has_database(settings):
        database = open_database(settings)
        parsed.held.callback(database.close)
        Audit(database).note("keys.export", node_id)
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": parsed.secret},
        "type": "Opaque",
        "immutable": True,
        "data": {path.replace("/", "."): b64encode(data).decode() for path, data in files.items()},
    }
    note = f"it is secret: a machine that has it can act as the node {node_id}"
    envelope = {"status": "success", "node_id": node_id, "secret": manifest}
    return CommandAnswer(envelope, json.dumps(manifest, indent=2), (note,))


# --- API keys -------------------------------------------------------------------------------------


def _configure_create_api_key(parser: Arguments) -> None:
    parser.add_argument("--user", metavar="ID", help="default: the one authorised key there is")
    parser.add_argument("--name", metavar="TEXT", required=True, help="what it is for")
    parser.add_argument("--scope", metavar="S", action="append", help="default remote:*")
    parser.add_argument("--expires-days", metavar="N", type=_days, help="how long it is valid")


def _configure_revoke_api_key(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID", help="its id, or the 8 characters it is listed with")


def _create_api_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.credentials import DEFAULT_SCOPES

    token, key = _api_keys(parsed, environ).create(
        (parsed.user or _only_user(parsed, environ)).removeprefix("fp:"),
        name=parsed.name,
        scopes=tuple(parsed.scope or DEFAULT_SCOPES),
        expires_after=timedelta(days=parsed.expires_days) if parsed.expires_days else None,
    )
    shown = {"key": token, "id": key.id, "user_id": key.user_id, "name": key.name}
    envelope = {"status": "success", **shown, "expires_at": key.expires_at}
    return CommandAnswer(envelope, token, ("keep it safe: it cannot be shown again",))


def _list_api_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    found = _api_keys(parsed, environ).all()
    shown = [
        {
            "id": key.id,
            "user_id": key.user_id,
            "name": key.name,
            "key_prefix": key.key_prefix,
            "scopes": None if key.scopes is None else list(key.scopes),
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "revoked_at": key.revoked_at,
            "last_used_at": key.last_used_at,
        }
        for key in found
    ]
    rows = [
        (
            key.id,
            key.key_prefix,
            key.user_id,
            "revoked" if key.revoked_at else "counts",
            shown_scopes(key.scopes),
            key.name,
        )
        for key in found
    ]
    return CommandAnswer({"status": "success", "keys": shown}, columns(rows) or "no API keys")


def _revoke_api_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    key = _api_keys(parsed, environ).revoke(parsed.id)
    return CommandAnswer({"status": "success", "revoked": key.id}, f"revoked {key.id} ({key.name})")


def _only_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> str:
    known = tuple(key.fingerprint for key in _authorized_keys(parsed, environ).all())
    if len(known) != 1:
        found = ", ".join(known) or "none"
        raise UsageError(
            f"user: expected one, as there is not exactly one authorised key (found {found})",
            hint="name one: --user FINGERPRINT, so that both ways to authenticate see one store",
        )
    only: str = known[0]
    return only


# --- shared ---------------------------------------------------------------------------------------


def _authorized_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - imported late
    """The authorised keys. The first one may be let in before the node's first start."""
    from rye_services.people.credentials import AuthorizedKeys
    from rye_services.process.data_folder import has_database, open_database

    settings = _settings(parsed, environ)
    make = parsed.spec is ADD_KEY and not has_database(settings)
    database = open_database(settings, make=make)
    parsed.held.callback(database.close)
    return AuthorizedKeys(database)


def _api_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - imported late
    from rye_services.people.credentials import ApiKeys
    from rye_services.process.data_folder import open_database

    database = open_database(_settings(parsed, environ))
    parsed.held.callback(database.close)
    return ApiKeys(database)


def _settings(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - imported late
    """The settings. Only what adds something may be the first to write to the data folder."""
    from rye_services.process.data_folder import make_data, require_data

    looked_at = make_data if parsed.spec is ADD_KEY else require_data
    return looked_at(settings_of(parsed, environ))


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) <= _LONGEST_DAYS:
        raise argparse.ArgumentTypeError(f"expected days from 1 to {_LONGEST_DAYS}, found {text!r}")
    return int(text)


def _expires_at(days: int | None) -> str | None:
    if days is None:
        return None
    return (utc_now() + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- commands -------------------------------------------------------------------------------------

_EXAMPLES = """\
examples:
  rye-node.pyz serve --data /var/lib/rye-node --port 8000
  rye-node.pyz keys add ~/.ai/config/keys/signing/public_key.pem --label "Ada's laptop" --admin
  rye-node.pyz keys add ben.pem --label ben
  rye-node.pyz api-keys create --user 3d4c030534b1c1c6 --name ci --expires-days 90

statuses: 0 done, 2 usage, 3 not found, 6 configuration, 130 interrupted; docs/node.md
"""


def main(argv: list[str] | None = None, bundle: BundleHome | None = None) -> int:
    """Run the command line; the exit status. ``bundle`` is where the standard bundle lies."""
    if argv is None:
        begin()
        named = (os.environ.get(name) for name in ("RYE_NODE_DATA_DIR", "RYE_NODE_DATA"))
        begin_node(os.environ, next(filter(None, named), ""))
    arguments = sys.argv[1:] if argv is None else argv
    # What is left then goes with the process: looking for garbage among it would take 0.5 s.
    atexit.register(gc.freeze)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        return _status_of(arguments, bundle or own_bundle())
    except (KeyboardInterrupt, BrokenPipeError) as error:
        return interrupted_status(error, as_json="--json" in arguments)


def _status_of(arguments: list[str], bundle: BundleHome) -> int:
    """The status of the command; a failure is written as the answer."""
    try:
        return _run(arguments, bundle)
    except BrokenPipeError:
        raise
    except SystemExit:  # of --help and --version, whose text may lie in the buffer still
        sys.stdout.flush()
        raise
    except Exception as error:  # noqa: BLE001 - the outermost door
        return report(error, as_json="--json" in arguments, environ=os.environ)


def _run(arguments: list[str], bundle: BundleHome) -> int:
    parsed = command_parser().parse_args(arguments)
    output = Output(as_json=parsed.json, quiet=parsed.quiet, environ=os.environ)
    spec: CommandSpec = parsed.spec
    if spec in (SERVE, WORK):
        return serve_node(parsed, Path(bundle.locate()), os.environ)
    with acting(Actor(f"command:{unix_user()}")), ExitStack() as parsed.held:
        answer: CommandAnswer = spec.carry_out(parsed, "rye-node.pyz", parsed, os.environ)
    for note in answer.notes:
        output.note(note)
    output.answer(answer.envelope, answer.text)
    return 0


def _init(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    """What the first start would make; of an older version the tables of this one."""
    from rye_services.node.store.stores import open_stores
    from rye_services.process.data_folder import address_of, make_data, open_database
    from rye_services.process.keys import REGISTRY_FOLDER, open_keys, open_pair

    settings = make_data(settings_of(parsed, environ))
    keys = open_keys(settings.signing_key_dir)
    if "registry" in settings.roles:
        open_pair(settings.signing_key_dir / REGISTRY_FOLDER)
    database = open_database(settings, make=True)
    parsed.held.callback(database.close)
    storage = open_stores(settings, database, environ, make=True).storage
    facts = {
        "node_id": keys.node_id,
        "data": str(settings.data_dir),
        "database": address_of(settings.database_url, settings.data_dir),
        "store": storage.bucket.shown if storage else str(settings.cas_base_path),
    }
    text = f"{keys.node_id}: {facts['data']}, {facts['database']}"
    return CommandAnswer({"status": "success", **facts}, text)


def _doctor(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    """What keeps executions of different users apart here, for the user who types it."""
    from lillux.landlock import landlock_version
    from lillux.seccomp import can_filter
    from lillux.supervisor import can_supervise
    from rye_services.node.worker.isolation import WantedUids
    from rye_services.node.worker.process import WorkerLaunch

    settings = settings_of(parsed, environ)
    wanted = WantedUids(numbers=settings.run_uids, root=settings.data_dir / "workspaces")
    isolation = WorkerLaunch(environ=environ).isolation(wanted)
    files = f"Landlock {landlock_version()}" if landlock_version() else ""
    calls = "seccomp" if can_filter() else ""
    hosts = "decided connections" if can_supervise() else ""
    held = [*filter(None, (files, calls, hosts)), *isolation.held()]
    lacking = [
        *([] if files else ["the files of each other are closed by owner only: no Landlock"]),
        *([] if calls else ["system calls are not filtered: no seccomp"]),
        *([] if hosts else ["connections to hosts are refused: pidfd_getfd is forbidden"]),
        *isolation.lacking(),
    ]
    rows = [*(("has", one) for one in held), *(("lacks", one) for one in lacking)]
    facts = {"user": unix_user(), "has": held, "lacks": lacking}
    return CommandAnswer({"status": "success", **facts}, columns(rows))


def _version(_: argparse.Namespace, __: Mapping[str, str]) -> CommandAnswer:
    facts: dict[str, Any] = {
        "name": "rye-node",
        "version": __version__,
        "python": sys.version.split()[0],
        "platform": sys.platform,
    }
    return CommandAnswer({"status": "success", **facts}, f"rye-node {__version__}")


# --- arguments ------------------------------------------------------------------------------------


class NodeParser(ProgramParser):
    """The parser of ``rye-node``, or of one of its commands."""

    flags = "--data DIR"

    def _likely_meant(self, typed: str, known: list[str]) -> str:
        from difflib import get_close_matches

        return "".join(get_close_matches(typed, known, 1, 0.5))


def command_parser() -> NodeParser:
    """The parser of every command of ``rye-node``."""
    parser = NodeParser(
        prog="rye-node.pyz",
        description="Serve Rye to others: their items, their runs, their keys.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    declare_version(parser, "rye-node")
    add_commands(parser, TABLE, _declare, GROUPS)
    return parser


def _declare(parser: Parser, entry: CommandEntry) -> None:
    spec = entry.spec()
    declare_shared(parser)
    spec.declare(parser)
    parser.set_defaults(spec=spec)


def _configure_serve(parser: Arguments) -> None:
    add = parser.add_argument
    add("--host", metavar="H", help="the address to listen on (default 127.0.0.1)")
    add("--port", metavar="N", help="the port to listen on (default 8000; 0 takes a free one)")
    add("--name", metavar="NAME", help="what clients call this node (default: default)")
    add("--role", metavar="ROLE", help="node, registry or all (default node)")
    add("--url", metavar="URL", help="the address that clients use, for the ready line")
    add("--trusted-proxies", metavar="NETS", help="networks that may say where requests come from")


def _configure_work(parser: Arguments) -> None:
    add = parser.add_argument
    add("--places", metavar="N", dest="max_concurrent", help="executions at a time (default 8)")
    add("--host", metavar="H", help="the address of /live, /ready, /metrics (default 127.0.0.1)")
    add("--port", metavar="N", default="0", help="their port (default: a free one)")


# --- serve command --------------------------------------------------------------------------------
# ``serve``: the settings, the services, the application, the socket; then the loop.

_LOG_IN = "rye registry login --url {url}"


def serve_node(parsed: argparse.Namespace, bundle: Path, environ: Mapping[str, str]) -> int:
    """Serve until asked to end; the exit status. Raises what the parts of a node cannot stand."""
    from rye_services.logs import log_as_json, log_to_stderr
    from rye_services.process.data_folder import make_data
    from rye_services.process.server import listen, serve

    log_to_stderr(environ.get("RYE_LOG", "info"))
    is_worker = parsed.spec is WORK
    shown_url = "" if is_worker else _url(parsed.url)
    settings = make_data(settings_of(parsed, environ))
    say = _log_line if settings.log_format == "json" else say_line
    if settings.log_format == "json":
        log_as_json()
    if is_worker:
        served = _worker(settings, bundle, environ)
    elif settings.roles == ("registry",):
        served = _registry(settings, environ)
    else:
        served = open_node(settings, bundle, environ)
    if public_key := environ.get("BOOTSTRAP_PUBLIC_KEY"):
        _let_first_key_in(served.authorized_keys, public_key, environ)
    listener = listen(settings.host, settings.port)

    def ready() -> None:
        say(f"rye-node: ready on {listener.url} ({served.node_id}, {settings.data_dir})")
        if not parsed.quiet:
            url = shown_url or listener.url
            for words in served.on_a_client:
                say(f"rye-node: on a client: {words.format(url=url)}")

    serve(served.app, listener, settings, ready)
    served.database.close()
    say("rye-node: ended")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNode:
    """What is served, in whatever role. ``on_a_client``: what to type there, ``{url}`` in it."""

    app: "FastAPI"
    node_id: str
    database: "Database"
    authorized_keys: "AuthorizedKeys"
    on_a_client: tuple[str, ...]


def open_node(settings: Settings, bundle: Path, environ: Mapping[str, str]) -> ServedNode:
    """A node, and a registry in its database where it has both roles."""
    from rye_services.node.application import create_app
    from rye_services.node.services import open_services

    services = open_services(settings, bundle, environ=environ)
    beside: tuple[ServerPart, ...] = ()
    words: tuple[str, ...] = (
        f"rye remote add {settings.name} {{url}} --node-id {services.keys.node_id}",
    )
    if "registry" in settings.roles:
        from rye_services.registry.application import part_of
        from rye_services.registry.services import open_registry

        registry = open_registry(
            settings,
            database=services.database,
            keys=services.keys,
            authenticator=services.authenticator,
            stores=services.all_stores,
            durable=services.sync.durable,
        )
        beside = (part_of(registry, services.watch.health),)
        words = (*words, _LOG_IN)
    return ServedNode(
        app=create_app(services, *beside),
        node_id=services.keys.node_id,
        database=services.database,
        authorized_keys=services.authorized_keys,
        on_a_client=words,
    )


def _worker(settings: Settings, bundle: Path, environ: Mapping[str, str]) -> ServedNode:
    """A process that carries out what waits in the queue of a cluster."""
    from rye_services.node.application import create_worker_app
    from rye_services.node.services import open_services

    services = open_services(settings, bundle, environ=environ, process="worker")
    return ServedNode(
        app=create_worker_app(services),
        node_id=services.keys.node_id,
        database=services.database,
        authorized_keys=services.authorized_keys,
        on_a_client=(),
    )


def _registry(settings: Settings, environ: Mapping[str, str]) -> ServedNode:
    from rye_services.registry.application import create_app as create_registry
    from rye_services.registry.services import open_registry_alone

    services = open_registry_alone(settings, make=True, environ=environ)
    return ServedNode(
        app=create_registry(services, environ),
        node_id=services.keys.node_id,
        database=services.database,
        authorized_keys=services.authorized_keys,
        on_a_client=(_LOG_IN,),
    )


def _url(given: str | None) -> str:
    """The address at which clients reach the node; ``""`` where none is set. Raises UsageError."""
    try:
        return "" if given is None else normal_url(given)
    except ValueError as error:
        raise UsageError(
            f"--url: {error}, found {given!a:.200}", hint="like https://node.example"
        ) from None


def _let_first_key_in(
    authorized_keys: "AuthorizedKeys", public_key: str, environ: Mapping[str, str]
) -> None:
    """What a node that no person can log in to takes from its environment."""
    from rye_services.people.credentials import PublicKeyError

    label = environ.get("BOOTSTRAP_LABEL") or "bootstrap"
    try:
        authorized_keys.bootstrap(public_key, label)
    except PublicKeyError as error:
        raise setting_error(error.where, error.problem, hint=error.hint) from None


def _log_line(line: str) -> None:
    """Write a line in the form of the log, whatever its level."""
    logger = logging.getLogger("rye_node")
    logger.setLevel(logging.INFO)
    logger.info("%s", line)


# --- storage command ------------------------------------------------------------------------------
# ``gc``: the removal of what nothing names, said by a user who can write the node's files.


class GarbageKeptError(RyeError):
    """Of some users nothing was removed, as something that is still needed cannot be read."""

    code = "INTEGRITY"

    def __init__(
        self, users: Sequence[Mapping[str, Any]], problems: Sequence[str], hint: str
    ) -> None:
        self.users = tuple(users)
        self.details = tuple(problems)
        self.facts = {"users": list(users)}
        super().__init__(
            f"nothing was removed of {len(problems)} of {len(users)} users: {problems[0]}",
            hint=hint,
        )


def _configure_collect(parser: Arguments) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only count it")


def _collect(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.admin_routes import shown
    from rye_services.node.storage import open_sync
    from rye_services.node.store.servers import SERVERS, ServerLease
    from rye_services.node.store.stores import open_stores
    from rye_services.people.audit import Audit
    from rye_services.process.data_folder import open_database, require_data

    settings = require_data(settings_of(parsed, environ))
    database = open_database(settings)
    try:
        stores = open_stores(settings, database, environ).users
        presence = ServerLease(settings.data_dir / SERVERS)
        storage = open_sync(settings, database, stores, utc_now, presence).storage
        found = storage.collect(dry_run=parsed.dry_run)
        if not parsed.dry_run:
            audit = Audit(database)
            audit.note("gc", "", {"removed": sum(one.removed for one in found)})
            audit.forget_old(settings.retain_audit_days)
    finally:
        database.close()
    users = [shown(one) for one in found]
    refused = [one for one in found if one.state == "refused"]
    if refused:
        problems = [f"{one.user_id}: {one.problem}" for one in refused]
        raise GarbageKeptError(users, problems, refused[0].hint)
    envelope = {"status": "success", "dry_run": parsed.dry_run, "users": users}
    return CommandAnswer(envelope, _storage_lines(users) or "no users")


def _storage_lines(users: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{one['user_id']}  {one['state']}  {one['removed']} removed, {one['freed_bytes']} bytes; "
        f"{one['kept']} kept, {one['stored_bytes']} bytes"
        + (f"; {one['forgotten_executions']} executions" if one["forgotten_executions"] else "")
        for one in users
    )


# --- upkeep commands ------------------------------------------------------------------------------
# ``fsck``: whether everything that a node has stored is there and sound, and what can be repaired.
# ``backup`` and ``restore``: all of a node in a folder, and back.

_OTHER_DATABASE = (
    "the database knows none of the users who have a store: is it the one that the server uses?"
)


def _configure_fsck(parser: Arguments) -> None:
    parser.add_argument("--repair", action="store_true", help="put right what can be, here")
    parser.add_argument("--user", metavar="ID", help="the store of this user only")
    parser.add_argument(
        "--from", dest="backup", metavar="BACKUP", help="with --repair: a backup to take from"
    )
    parser.add_argument(
        "--accept-loss",
        dest="accepted",
        metavar="DIGEST",
        nargs="+",
        help="say of losses, or of all, that they stay: sweeps no longer wait for them",
    )
    parser.add_argument("--yes", action="store_true", help="with --accept-loss: do not ask")


def _fsck(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.store.stores import open_stores
    from rye_services.operations.fsck import DamagedStorageError, Fsck, shown
    from rye_services.process.data_folder import open_database, require_data

    backup = None if parsed.backup is None else _backup_folder(parsed)
    if parsed.accepted and parsed.repair:
        raise UsageError("--accept-loss: not beside --repair", hint="fsck --repair comes first")
    settings = require_data(settings_of(parsed, environ))
    database = open_database(settings)
    try:
        with _storage_alone(settings, database):
            fsck = Fsck(
                settings,
                database,
                utc_now,
                progress=progress_of(parsed),
                stores=open_stores(settings, database, environ),
                backup=backup,
            )
            reports = _examine_stores(fsck, parsed)
            knows_anybody = fsck.knows_anybody()
            if parsed.accepted:
                return _accept_losses(fsck, parsed, reports)
    finally:
        database.close()
    losses = [loss for one in reports for loss in one.losses]
    if not knows_anybody or any(one.state == "damaged" for one in reports):
        hint = losses[0].repair if losses else "rye-node.pyz fsck --repair sets them aside"
        if not parsed.json:
            Output(environ=environ).text(_report_text(reports))
        raise DamagedStorageError(reports, hint if knows_anybody else _OTHER_DATABASE)
    notes = tuple(
        f"{one.user_id}: the database knows nothing of this user: no sweep removes their files"
        for one in reports
        if one.state == "unknown"
    )
    envelope = {"status": "success", "stores": [shown(one) for one in reports]}
    return CommandAnswer(envelope, _report_text(reports), notes)


def _accept_losses(fsck: Any, parsed: argparse.Namespace, reports: Sequence[Any]) -> CommandAnswer:  # noqa: ANN401 - imported late
    """Accept losses, after a person has said so. Raises RyeError, UsageError."""
    from dataclasses import asdict

    from rye_services.operations.fsck import REGISTRY, loss_line

    found = [(one.user_id, loss) for one in reports for loss in one.losses]
    wanted = _wanted_losses(parsed.accepted, found)
    for user, loss in wanted:
        if user == REGISTRY:
            hint = "have its publisher publish it again, or take it down: rye-node.pyz take-down"
            raise RyeError(f"{loss_line(loss)}: no loss of a registry is accepted", hint=hint)
        if loss.state == "damaged":
            hint = "rye-node.pyz fsck --repair sets it aside first"
            raise RyeError(f"{loss_line(loss)}: still there, and damaged", hint=hint)
    lines = [f"{user}: {loss_line(loss)}" for user, loss in wanted]
    _require_yes(parsed, lines)
    for user in dict.fromkeys(user for user, _ in wanted):
        fsck.accept(user, [loss for one, loss in wanted if one == user])
    shown = [{"user_id": user, **asdict(loss)} for user, loss in wanted]
    words = "\n".join(f"accepted as lost: {line}" for line in lines)
    note = (
        "sweeps go on, and remove what only these led to; history behind a lost snapshot stays,"
        " below refs/lost of its store"
    )
    return CommandAnswer({"status": "success", "accepted": shown}, words, (note,))


def _wanted_losses(
    digests: Sequence[str], found: Sequence[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """The losses of these digests, ``all`` for all. Raises RyeError for one that is no loss."""
    if not found:
        raise RyeError("--accept-loss: nothing is lost", code="ITEM_NOT_FOUND")
    if "all" in digests:
        return list(found)
    known = {loss.digest for _, loss in found}
    for digest in digests:
        if digest not in known:
            raise RyeError(
                f"--accept-loss {digest[:80]!a}: expected the digest of a loss, found none of it",
                code="ITEM_NOT_FOUND",
                hint="rye-node.pyz fsck names each loss with its digest of 64 characters",
            )
    return [(user, loss) for user, loss in found if loss.digest in digests]


def _require_yes(parsed: argparse.Namespace, lines: Sequence[str]) -> None:
    """Ask at a terminal; without one ``--yes`` has to be there. Raises UsageError."""
    if parsed.yes:
        return
    hint = "--yes says that nothing can bring it back"
    if parsed.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"--accept-loss: would give up {len(lines)}: {lines[0]}", hint=hint)
    for line in lines:
        say_line(f"lost for good: {line}")
    say_line("No backup or machine that still has it can bring it back after the next sweep.")
    sys.stderr.write(f"Accept the loss of {len(lines)}? Type yes: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != "yes":
        raise UsageError("--accept-loss: nothing was accepted", hint=hint)


def _report_text(reports: Sequence[Any]) -> str:
    from rye_services.operations.fsck import lines_of

    return "\n".join(line for one in reports for line in lines_of(one))


def _configure_back_up(parser: Arguments) -> None:
    parser.add_argument("target", metavar="TARGET", help="an empty folder, or one of backups")


def _configure_restore(parser: Arguments) -> None:
    parser.add_argument("source", metavar="SOURCE", help="the folder of a backup")


class IncompleteError(RyeError):
    """A backup, or what was restored, lacks something: it was lost before."""

    code = "INTEGRITY"

    def __init__(self, what: str, lost: Sequence[str], facts: Mapping[str, Any], hint: str) -> None:
        self.details, self.facts = tuple(lost), facts
        super().__init__(f"{what}, but {len(lost)} files were lost before: {lost[0]}", hint=hint)


def _back_up(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.store.stores import open_stores
    from rye_services.operations.backup import back_up
    from rye_services.people.audit import Audit
    from rye_services.process.data_folder import open_database, require_data

    target = Path(parsed.target).expanduser().absolute()
    settings = require_data(settings_of(parsed, environ))
    database = open_database(settings)
    try:
        with _storage_alone(settings, database):
            done = back_up(
                settings,
                database,
                target,
                environ,
                stores=open_stores(settings, database, environ),
                version=__version__,
                clock=utc_now,
                progress=progress_of(parsed),
            )
            Audit(database).note("backup", str(target))
    finally:
        database.close()
    facts = {"target": str(target), **write(done)}
    if done.lost:
        hint = "rye-node.pyz fsck names all that is lost, and what brings it back"
        raise IncompleteError(f"{target} has a backup now", done.lost, facts, hint)
    words = f"{done.copied} files copied, {done.copied_bytes} bytes; {done.kept} were there"
    return CommandAnswer({"status": "success", **facts}, f"{target}: {done.state}, {words}")


def _restore(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.operations.backup import lost_words, restore

    if parsed.data is None:
        raise UsageError("restore: expected --data DIR", hint="restore SOURCE --data DIR")
    source, folder = (Path(one).expanduser().absolute() for one in (parsed.source, parsed.data))
    done = restore(source, folder, environ, clock=utc_now, progress=progress_of(parsed))
    facts = {"data": str(folder), "made_at": done.facts.made_at, "node": done.facts.node}
    _note_restore(parsed, environ, source, done.facts.made_at)
    lost = lost_words(done)
    if lost:
        hint = f"rye-node.pyz fsck --data {folder} names all, and what brings it back"
        raise IncompleteError(f"{folder} is restored", lost, facts, hint)
    files = sum(one.files for one in done.reports)
    words = f"the backup of {utc_text(done.facts.made_at)}, {files} files, all of them sound"
    return CommandAnswer({"status": "success", "files": files, **facts}, f"{folder}: {words}")


def _note_restore(
    parsed: argparse.Namespace, environ: Mapping[str, str], source: Path, made_at: str
) -> None:
    """Record the restoration in the audit that was restored; tables of an older version wait."""
    from rye_services.people.audit import Audit
    from rye_services.process.data_folder import open_database, require_data

    try:
        database = open_database(require_data(settings_of(parsed, environ)))
    except LilluxError as error:
        logging.getLogger(__name__).warning("not in the audit: %s", error)
        return
    parsed.held.callback(database.close)
    Audit(database).note("restore", str(source), {"made_at": made_at})


def _examine_stores(fsck: Any, parsed: argparse.Namespace) -> list[Any]:  # noqa: ANN401 - imported late
    """A report of each store. Raises RyeError for a user without one."""
    users = fsck.users()
    if parsed.user is not None:
        user = parsed.user.removeprefix("fp:")
        if user not in users:
            known = ", ".join(users) or "none"
            raise RyeError(
                f"--user {parsed.user}: expected a user who has a store, found {known}",
                code="ITEM_NOT_FOUND",
                hint="without --user every store is read",
            )
        users = (user,)
    of_user = fsck.repair if parsed.repair else fsck.examine
    of_registry = fsck.repair_registry if parsed.repair else fsck.examine_registry
    reports = [of_user(user) for user in users]
    return reports if parsed.user is not None else [*reports, of_registry()]


def _backup_folder(parsed: argparse.Namespace) -> Path:
    """The backup that a repair takes from. Raises UsageError."""
    folder = Path(parsed.backup).expanduser().absolute()
    if not parsed.repair:
        raise UsageError("--from: expected --repair beside it", hint="fsck --repair --from BACKUP")
    if not (folder / "cas").is_dir():
        raise UsageError(
            f"--from {folder}: expected a backup with the folder cas, found none",
            hint="a folder that rye-node.pyz backup made, or a copy of a data folder",
        )
    return folder


@contextmanager
def _storage_alone(settings: Settings, database: "Database") -> Iterator[None]:
    """No sweep, backup or other repair works on the stores. Raises RyeError `CONFLICT`."""
    from rye_services.node.storage import LOCK, storage_alone

    with ExitStack() as held:
        try:
            held.enter_context(storage_alone(database, settings.data_dir / LOCK))
        except LockTimeoutError as error:
            raise RyeError(
                "another command, or a sweep of the server, is at work on the stores",
                code="CONFLICT",
                hint="wait for it to end, and try again",
            ) from error
        yield


ADD_KEY = CommandSpec(_configure_add_key, _add_key)
LIST_KEYS = CommandSpec(no_arguments, _list_keys)
REVOKE_KEY = CommandSpec(_configure_revoke_key, _revoke_key)
EXPORT_KEYS = CommandSpec(_configure_export_keys, _export_keys)
CREATE_API_KEY = CommandSpec(_configure_create_api_key, _create_api_key)
LIST_API_KEYS = CommandSpec(no_arguments, _list_api_keys)
REVOKE_API_KEY = CommandSpec(_configure_revoke_api_key, _revoke_api_key)
COLLECT = CommandSpec(_configure_collect, _collect)
FSCK = CommandSpec(_configure_fsck, _fsck)
BACK_UP = CommandSpec(_configure_back_up, _back_up)
RESTORE = CommandSpec(_configure_restore, _restore)
SERVE = CommandSpec(_configure_serve, serve_node)
WORK = CommandSpec(_configure_work, serve_node)
INIT = CommandSpec(no_arguments, _init)
DOCTOR = CommandSpec(no_arguments, _doctor)
VERSION = CommandSpec(no_arguments, _version)
