"""``rye registry login|logout|status|pin|pins|forget|trust|keys|signers|namespaces``."""

import re
from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.foreign_text import one_line
from lillux.http.model import is_unencrypted
from ryeos.app.command_line import Action, Arguments, CommandSpec, no_arguments
from ryeos.app.output import utc_text
from ryeos.cli.session import Session, cancelled_by_signals
from ryeos.items.context import utc_now
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import PROJECT, USER, Reference, parse_reference
from ryeos.remote.errors import RemoteError
from ryeos.remote.registry import RegistryClient, key_if_any, open_registry, pins_of, registries_of
from ryeos.remote.registry_ids import valid_namespace
from ryeos.remote.registry_settings import RegistriesFile, RegistryConfig
from ryeos.remote.remote_values import RemoteConfigError, is_name, normal_url, validate_setting
from ryeos.remote.settings import DEFAULT_NAME
from ryeos.trust.keys import OfferedKey, require_user_space, trust_key, trust_own_key
from ryeos.trust.store import typed_fingerprint

_WRONG_KEY, _NO_ACCOUNT = (401, 403), 403
TRUSTED_OWNER = "rye-registry"
"""Other programs know a registry's key among the trusted ones by this owner."""


def _configure_registry(parser: Arguments) -> None:
    take_registry(parser)


# --- login, logout --------------------------------------------------------------------------------


def _configure_login(parser: Arguments) -> None:
    add = parser.add_argument
    add("--url", metavar="URL", help="its address, https://... (kept where it is known already)")
    add("--key-env", metavar="VARIABLE", help="holds your API key; needed to publish")
    add("--fingerprint", metavar="HEX", help="of its key, 16 digits; else its first key is pinned")
    add("--timeout", metavar="S", type=float, help="seconds for one request (default: 60)")
    add("--allow-insecure", action="store_true", help="send the API key over plain http, too")
    take_team(parser)
    take_registry(parser)


def _login(session: Session) -> int:
    """Verify the registry first, then save: a wrong address or key is not saved."""
    name = session.arguments.registry or DEFAULT_NAME
    if not is_name(name):
        raise UsageError(f"--registry: expected letters, digits, . _ -, found {name[:80]!a}")
    file = _file(session)
    settings = _settings(session, file, name)
    config = _config(session, name, settings)
    registry = registry_of(session, config)
    pin = registry.pin()
    tell_new_pin(session, registry)
    account = _account_of(session, config)
    file.put(name, settings)
    envelope = {
        "status": "success",
        "name": name,
        "registry": settings,
        "fingerprint": pin.fingerprint,
        "is_new": registry.is_new,
        "account": account,
        "path": str(file.path),
    }
    session.output.answer(envelope, f"registry {name}: {config.url}, its key is {pin.fingerprint}")
    return 0


def _settings(session: Session, file: RegistriesFile, name: str) -> dict[str, object]:
    arguments = session.arguments
    said = {
        "url": _url(arguments.url),
        "key_env": arguments.key_env,
        "fingerprint": arguments.fingerprint and typed_fingerprint(arguments.fingerprint),
        "timeout": arguments.timeout,
        "allow_insecure": arguments.allow_insecure or None,
    }
    given = {key: value for key, value in said.items() if value is not None}
    for key, value in given.items():
        try:
            validate_setting("", key, value)
        except RemoteConfigError as error:  # not shown: some would type the API key itself
            raise UsageError(f"--{key.replace('_', '-')}: {error.problem}") from None
    known = dict(file.entry(name))
    if "url" in given and given["url"] != known.get("url"):
        known = {}  # settings of another registry do not apply to this one
    settings = {**known, **given}
    if "url" not in settings:
        raise UsageError("--url: expected the address of the registry, found none")
    return settings


def _url(typed: str | None) -> str | None:
    try:
        return None if typed is None else normal_url(typed)
    except ValueError as error:
        raise UsageError(
            f"--url: {error}, found {typed[:200] if typed else ''!a}",
            hint="like https://registry.example",
        ) from None


def _config(session: Session, name: str, settings: dict[str, object]) -> RegistryConfig:
    """The registry of these settings. Raises RyeError `CONFIG_ERROR` or `REMOTE_INSECURE`."""
    from pathlib import Path

    from ryeos.remote.registry_settings import SECTION, Registries
    from ryeos.trust.config import Layer

    url = str(settings["url"])
    if is_unencrypted(url):
        session.output.warn(f"{url}: what is sent there can be read on the way; use https")
    layer = Layer(USER, Path(), {SECTION: {name: settings}})
    return Registries([layer], session.environ).resolve(name)


def _account_of(session: Session, config: RegistryConfig) -> str | None:
    """Whose API key it is; None without one, or where the registry does not say.

    Raises RemoteError for a key that is not the registry's.
    """
    if not config.api_key:
        variable = config.key_env or "an API key, named with --key-env,"
        session.output.note(f"you can search and pull; to publish, {variable} has to be set")
        return None
    try:
        return str(registry_of(session, config).account()["name"])
    except RemoteError as error:
        if error.status == _NO_ACCOUNT and not session.arguments.team:
            error.hint = "a member of a team, without an account of one's own: add --team TEAM"
        if error.status in _WRONG_KEY:
            raise
        return None


def _logout(session: Session) -> int:
    name = session.arguments.registry or DEFAULT_NAME
    file = _file(session)
    file.remove(name)
    envelope = {"status": "success", "name": name, "path": str(file.path)}
    session.output.answer(
        envelope, f"removed registry {name}; its pin stays, see: rye registry pins"
    )
    return 0


# --- status ---------------------------------------------------------------------------------------


def _status(session: Session) -> int:
    """Whether each registry answers, and is the one that was pinned."""
    registries = registries_of(session.rye)
    named = session.arguments.registry
    if named:
        registries.resolve(named)
    rows = [_row(session, name) for name in registries.names if named in (None, name)]
    lines = "\n".join(_registry_line(session, row) for row in rows)
    is_fine = all(row["usable"] for row in rows)
    envelope = {"status": "success" if is_fine else "error", "registries": rows}
    if not is_fine:
        envelope |= {"error": "a registry cannot be used", "code": "REMOTE_UNREACHABLE"}
    session.output.answer(envelope, lines)
    if not rows and not session.output.as_json:
        session.output.note("no registry is configured; see: rye registry login --help")
    return 0 if is_fine else 7


def _row(session: Session, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name}
    try:
        config = registries_of(session.rye).resolve(name)
        row |= {"url": config.url, "key_env": config.key_env or None}
        row |= {"has_key": bool(config.api_key)}
        registry = registry_of(session, config)
        pin = registry.pin()
        row |= {"fingerprint": pin.fingerprint, "version": registry.health().get("version")}
    except LilluxError as error:
        return {**row, "usable": False, "problem": str(error), "hint": error.hint}
    trusted = session.rye.trust.get_key(pin.fingerprint, USER) is not None
    return {**row, "usable": True, "trusted": trusted}


def _registry_line(session: Session, row: dict[str, Any]) -> str:
    head = f"{row['name']:<12}  {row.get('url', '-')}"
    if not row["usable"]:
        mark = session.output.paint("not used", "red")
        return f"{head}  {mark}: {row['problem']}\n{'':14}hint: {row['hint']}"
    key = f"API key of {row['key_env']}" if row["has_key"] else "no API key"
    trusted = ", a trusted signer" if row["trusted"] else ""
    return f"{head}  {row['fingerprint']}  {key}{trusted}"


# --- pins -----------------------------------------------------------------------------------------


def _configure_pin(parser: Arguments) -> None:
    parser.add_argument("fingerprint", metavar="FINGERPRINT", help="of its key, 16 hex digits")
    take_registry(parser)


def _pin(session: Session) -> int:
    """Pin a registry, if its key is the one that its operator gave."""
    fingerprint = typed_fingerprint(session.arguments.fingerprint)
    registry = registry_of(session)
    pin = registry.pin(fingerprint)
    envelope = {
        "status": "success",
        "name": registry.name,
        "netloc": pin.netloc,
        "fingerprint": pin.fingerprint,
        "path": str(pin.path),
    }
    session.output.answer(envelope, f"{pin.netloc} is pinned: {pin.fingerprint}")
    return 0


def _pins(session: Session) -> int:
    rows = [
        {"netloc": pin.netloc, "fingerprint": pin.fingerprint, "path": str(pin.path)}
        for pin in pins_of(session.rye).list()
    ]
    lines = (f"{row['fingerprint']}  {row['netloc']}" for row in rows)
    session.output.answer({"status": "success", "pins": rows}, "\n".join(lines))
    if not rows and not session.output.as_json:
        session.output.note("no registry is pinned; the first answer of one pins it")
    return 0


def _configure_forget(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME|HOST", help="the name of a registry, or its address")


def _forget(session: Session) -> int:
    name = session.arguments.name
    registries = registries_of(session.rye)
    netloc = registries.resolve(name).netloc if name in registries.names else name
    removed = pins_of(session.rye).forget(name, netloc)
    if not removed:
        raise RyeError(
            f"registry {name[:80]!a}: no key is pinned for it",
            code="ITEM_NOT_FOUND",
            hint="see those that are: rye registry pins",
        )
    envelope = {"status": "success", "netloc": netloc, "removed": str(removed[0])}
    session.output.answer(envelope, f"forgot {netloc}; the next key that it shows is pinned")
    return 0


# --- trust ----------------------------------------------------------------------------------------


def _configure_trust(parser: Arguments) -> None:
    parser.add_argument("fingerprint", metavar="FINGERPRINT", help="of its key, as it is pinned")
    take_registry(parser)


def _trust(session: Session) -> int:
    """Trust all that a registry signs: typing the fingerprint is the approval."""
    config = config_of(session)
    typed = typed_fingerprint(session.arguments.fingerprint)
    key = session.rye.signing_key()
    pin = registry_of(session, config).pin(typed)
    user = require_user_space(session.context)
    trust_own_key(key, user)
    offered = OfferedKey(
        fingerprint=pin.fingerprint,
        public_pem=pin.public_pem,
        covers_all=True,  # what a registry signs in part, it did not sign as registries do
    )
    known = session.rye.trust.get_key(pin.fingerprint, USER)
    document = trust_key(offered, user, key, owner=TRUSTED_OWNER, known=known)
    envelope = {
        "status": "success",
        "name": config.name,
        "fingerprint": pin.fingerprint,
        "owner": TRUSTED_OWNER,
        "path": str(document),
    }
    session.output.warn(
        f"whatever {config.url} signs runs here from now on, of every publisher;"
        f" take it back with: rye keys untrust {pin.fingerprint}"
    )
    session.output.answer(envelope, f"{pin.fingerprint} ({TRUSTED_OWNER}) is trusted now")
    return 0


def _file(session: Session) -> RegistriesFile:
    user = require_user_space(session.context)
    return RegistriesFile(user, session.rye.verifier, lambda: key_if_any(session.rye))


# --- registry words -------------------------------------------------------------------------------
# What the commands about registries share: their flags, the registry itself, and words for it.

MAX_ROWS = 100
_SHOWN_ROWS = 20


def take_registry(parser: Arguments) -> None:
    """Declare which registry is meant."""
    parser.add_argument("--registry", metavar="NAME", help="the registry (default)")


def take_team(parser: Arguments) -> None:
    """Declare which team's account is meant."""
    parser.add_argument("--team", metavar="TEAM", help="as this team, under its account")


def take_page(parser: Arguments) -> None:
    """Declare which part of a long list is shown."""
    parser.add_argument(
        "--limit", metavar="N", type=int, help=f"at most so many ({_SHOWN_ROWS}, up to {MAX_ROWS})"
    )
    parser.add_argument("--offset", metavar="N", type=int, help="leave out so many before")


def take_space(parser: Arguments, what: str) -> None:
    """Declare a space."""
    parser.add_argument("--space", choices=(PROJECT, USER), help=what)


def config_of(session: Session) -> RegistryConfig:
    """The registry that was named. Raises RyeError `REGISTRY_NOT_CONFIGURED` or `CONFIG_ERROR`."""
    return registries_of(session.rye).resolve(session.arguments.registry)


def registry_of(session: Session, config: RegistryConfig | None = None) -> RegistryClient:
    """The registry that was named, or the one given; nothing is asked yet."""
    team = ""
    if getattr(session.arguments, "team", None):
        from ryeos.cli.remote_run import team_of

        team = team_of(session)
    config = config or config_of(session)
    return open_registry(session.rye, config, cancelled_by_signals(), team=team)


def tell_new_pin(session: Session, registry: RegistryClient) -> None:
    """Report that a registry was pinned just now, and its key."""
    if registry.is_new:
        session.output.note(
            f"pinned the registry {registry.config.netloc}: its key is {registry.pin().fingerprint}"
        )


def page_of(session: Session) -> list[tuple[str, str]]:
    """The part of a list that was asked for. Raises UsageError."""
    limit, offset = session.arguments.limit, session.arguments.offset
    limit = _SHOWN_ROWS if limit is None else limit
    if not 1 <= limit <= MAX_ROWS:
        raise UsageError(f"--limit: expected a number from 1 to {MAX_ROWS}, found {limit}")
    if offset is not None and offset < 0:
        raise UsageError(f"--offset: expected a number from 0 up, found {offset}")
    return [("limit", str(limit)), ("offset", str(offset or 0))]


def reference_of(text: str) -> Reference:
    """The item of a registry that was typed. Raises InvalidRefError."""
    return parse_reference(text)


def total_of(reply: Mapping[str, Any], shown: int) -> int:
    """How many there are in all, as far as the registry says so."""
    total = reply.get("total")
    return total if isinstance(total, int) and total >= shown else shown


def word(row: Mapping[str, Any], key: str, width: int = 0) -> str:
    """A value that a registry sent, safe to show."""
    value = row.get(key)
    return one_line(str(value), width) if value not in (None, "") else "-"


# --- registry account -----------------------------------------------------------------------------
# ``rye registry keys|signers|namespaces``: what an account has on a registry.

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
SCOPES = ("registry:read", "registry:write")


def _configure_keys(parser: Arguments) -> None:
    add = parser.add_argument
    add("words", metavar="NAME", nargs="?", help="create, revoke: what the key is called")
    add("--read-only", action="store_true", help="create: it may not publish")
    add("--days", metavar="N", type=int, help="create: it ends after so many days")
    take_registry(parser)


def _create(session: Session, name: str) -> int:
    arguments = session.arguments
    if arguments.days is not None and arguments.days < 1:
        raise UsageError(f"--days: expected a number from 1 up, found {arguments.days}")
    scopes = list(SCOPES[:1] if arguments.read_only else SCOPES)
    reply = registry_of(session).create_key(_api_key_name(name), scopes, arguments.days)
    session.output.note("it is shown this once: put it where your shell finds it")
    session.output.answer({"status": "success", **_without_status(reply)}, word(reply, "key"))
    return 0


def _list(session: Session) -> int:
    rows = registry_of(session).keys()
    session.output.answer({"status": "success", "keys": rows}, "\n".join(map(_api_key_line, rows)))
    return 0


def _end(row: Mapping[str, Any]) -> str:
    ends = row.get("expires_at")
    return f"until {utc_text(word(row, 'expires_at'))}" if ends else "without end"


def _api_key_line(row: Mapping[str, Any]) -> str:
    scopes = row.get("scopes")
    said = ",".join(map(str, scopes)) if isinstance(scopes, list) else ""
    state = "revoked" if row.get("revoked_at") else _end(row)
    return f"{word(row, 'name'):<16}  {word(row, 'key_prefix')}  {word({'s': said}, 's')}  {state}"


def _revoke(session: Session, typed: str) -> int:
    name, registry = _api_key_name(typed), registry_of(session)
    keys = registry.keys()
    if name not in {row.get("name") for row in keys}:  # as the list shows it beside the name
        found = {str(row.get("name")) for row in keys if row.get("key_prefix") == name}
        name = found.pop() if len(found) == 1 else name
    reply = registry.revoke_key(name)
    session.output.answer({"status": "success", **_without_status(reply)}, f"revoked {name}")
    return 0


def _api_key_name(name: str) -> str:
    if not is_name(name):
        raise UsageError(
            f"NAME: expected the name of an API key, of letters, digits, . _ -, found {name!a:.80}"
        )
    return name


def _without_status(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in reply.items() if key != "status"}


_KEY_ACTIONS = {
    "create": Action(_create, "NAME"),
    "list": Action(_list),
    "revoke": Action(_revoke, "NAME"),
}


# --- keys that the account signs with -------------------------------------------------------------


def _configure_signing(parser: Arguments) -> None:
    add = parser.add_argument
    add("words", metavar="FINGERPRINT", nargs="?", help="remove: which key")
    take_team(parser)
    take_registry(parser)


def _add_signer(session: Session) -> None:
    registry, now = registry_of(session), utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    key = session.rye.signing_key()
    fingerprint = word(registry.add_signing_key(key, now), "fingerprint")
    text = f"what you push is checked by your key {key.fingerprint} from now on"
    session.output.answer({"status": "success", "fingerprint": fingerprint}, text)


def _list_signers(session: Session) -> None:
    keys = registry_of(session).account().get("signing_keys", [])
    text = "\n".join(word({"f": one}, "f") for one in keys)
    session.output.answer({"status": "success", "signing_keys": keys}, text)


def _remove_signer(session: Session, typed: str) -> None:
    registry = registry_of(session)
    fingerprint = typed_fingerprint(typed)
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise UsageError(f"FINGERPRINT: expected 16 hex digits, found {fingerprint[:60]!a}")
    registry.remove_signing_key(fingerprint)
    owner = "the team" if session.arguments.team else "your account"
    text = f"{fingerprint} is no longer a key of {owner}"
    session.output.answer({"status": "success", "fingerprint": fingerprint}, text)


_SIGNER_ACTIONS = {
    "add": Action(_add_signer),
    "list": Action(_list_signers),
    "remove": Action(_remove_signer, "FINGERPRINT"),
}


# --- namespaces -----------------------------------------------------------------------------------


def _configure_namespaces(parser: Arguments) -> None:
    add = parser.add_argument
    add("words", metavar="NAME", nargs="?", help="claim: which one")
    take_team(parser)
    take_registry(parser)


def _claim_namespace(session: Session, typed: str) -> None:
    name, team = valid_namespace(typed), session.arguments.team
    is_known = registry_of(session).claim_namespace(name).get("skipped") is True
    envelope = {"status": "success", "name": name, "unchanged": is_known}
    owner = f"the team {team}'s" if team else "yours"
    session.output.answer(envelope, f"{name} is {owner}")


def _list_namespaces(session: Session) -> None:
    rows = registry_of(session).namespaces()
    lines = (f"{word(row, 'name'):<24}  {utc_text(word(row, 'claimed_at'))}" for row in rows)
    session.output.answer({"status": "success", "namespaces": rows}, "\n".join(lines))


_NAMESPACE_ACTIONS = {
    "claim": Action(_claim_namespace, "NAME"),
    "list": Action(_list_namespaces),
}


LOGIN = CommandSpec(
    _configure_login,
    _login,
    [
        "rye registry login --url https://registry.example --key-env REGISTRY_KEY",
        "rye registry login --registry work --url https://rye.work.example",
    ],
)
LOGOUT = CommandSpec(_configure_registry, _logout, ["rye registry logout"])
STATUS = CommandSpec(
    _configure_registry, _status, ["rye registry status", "rye registry status --json"]
)
PIN = CommandSpec(_configure_pin, _pin, ["rye registry pin 07097e6443239d36"])
PINS = CommandSpec(no_arguments, _pins, ["rye registry pins"])
FORGET = CommandSpec(_configure_forget, _forget, ["rye registry forget default"])
TRUST = CommandSpec(_configure_trust, _trust, ["rye registry trust 07097e6443239d36"])
KEYS = CommandSpec(
    _configure_keys,
    _KEY_ACTIONS,
    ["rye registry keys list", "rye registry keys create ci --days 90"],
)
SIGNERS = CommandSpec(
    _configure_signing, _SIGNER_ACTIONS, ["rye registry signers add", "rye registry signers list"]
)
NAMESPACES = CommandSpec(
    _configure_namespaces,
    _NAMESPACE_ACTIONS,
    ["rye registry namespaces list", "rye registry namespaces claim ada"],
)
