"""``rye registry login|logout|status|pin|pins|forget|trust``: what is known of registries."""

from typing import Any

from lillux.errors import LilluxError
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.registry_words import config_of, registry_of, take_registry, tell_new_pin
from ryeos.cli.session import Command, Session
from ryeos.errors import RyeError, UsageError
from ryeos.items import USER
from ryeos.keys import OfferedKey, require_user_space, trust_key, trust_own_key
from ryeos.registry.errors import RegistryRefusedError
from ryeos.registry.opening import key_if_any, pins_of, registries_of
from ryeos.registry.settings import DEFAULT_NAME, RegistryConfig
from ryeos.registry.settings_file import RegistriesFile
from ryeos.remote.remote_url import is_loopback, normal_url
from ryeos.remote.remote_values import RemoteConfigError, check_setting, is_name

_WRONG_KEY = (401, 403)
TRUSTED_OWNER = "rye-registry"
"""Other programs know a registry's key among the trusted ones by this owner."""


class RegistryPinNotFoundError(RyeError):
    """No registry was pinned for an address."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"registry {name[:80]!a}: no key is pinned for it",
            hint="see those that are: rye registry pins",
        )


def _configure_registry(parser: Arguments) -> None:
    take_registry(parser)


def _configure_nothing(_: Arguments) -> None:
    """No arguments of its own."""


# --- login, logout --------------------------------------------------------------------------------


def _configure_login(parser: Arguments) -> None:
    add = parser.add_argument
    add("--url", metavar="URL", help="its address, https://... (kept where it is known already)")
    add("--key-env", metavar="VARIABLE", help="holds your API key; needed to publish")
    add("--fingerprint", metavar="HEX", help="of its key, 16 digits; else its first key counts")
    add("--timeout", metavar="S", type=float, help="seconds for one request (default: 60)")
    add("--allow-insecure", action="store_true", help="send the API key over plain http, too")
    take_registry(parser)


def _login(session: Session) -> int:
    """Ask first, write afterwards: a wrong address or key leaves nothing behind."""
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
        "fingerprint": arguments.fingerprint and arguments.fingerprint.lower(),
        "timeout": arguments.timeout,
        "allow_insecure": arguments.allow_insecure or None,
    }
    given = {key: value for key, value in said.items() if value is not None}
    for key, value in given.items():
        try:
            check_setting("", key, value)
        except RemoteConfigError as error:  # not shown: some would type the API key itself
            raise UsageError(f"--{key.replace('_', '-')}: {error.problem}") from None
    known = dict(file.entry(name))
    if "url" in given and given["url"] != known.get("url"):
        known = {}  # what was said of another registry is not said of this one
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
    """What these settings will come to. Raises RegistryConfigError, InsecureRegistryError."""
    from pathlib import Path

    from ryeos.config import Layer
    from ryeos.registry.settings import SECTION, Registries

    url = str(settings["url"])
    if url.startswith("http:") and not is_loopback(url):
        session.output.warn(f"{url}: what is sent there can be read on the way; use https")
    layer = Layer(USER, Path(), {SECTION: {name: settings}})
    return Registries([layer], session.environ).resolve(name)


def _account_of(session: Session, config: RegistryConfig) -> str | None:
    """Whose API key it is; None without one, or where the registry does not say.

    Raises RegistryRefusedError for a key that is not the registry's.
    """
    if not config.api_key:
        variable = config.key_env or "an API key, named with --key-env,"
        session.output.note(f"you can search and pull; to publish, {variable} has to be set")
        return None
    try:
        return str(registry_of(session, config).account()["name"])
    except RegistryRefusedError as error:
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
    lines = "\n".join(_line(session, row) for row in rows)
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


def _line(session: Session, row: dict[str, Any]) -> str:
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
    """Pin a registry, if its key is the one that somebody told."""
    fingerprint = session.arguments.fingerprint.lower()
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
    removed = pins_of(session.rye).forget(netloc)
    if removed is None:
        raise RegistryPinNotFoundError(name)
    envelope = {"status": "success", "netloc": netloc, "removed": str(removed)}
    session.output.answer(envelope, f"forgot {netloc}; the next key that it shows is pinned")
    return 0


# --- trust ----------------------------------------------------------------------------------------


def _configure_trust(parser: Arguments) -> None:
    parser.add_argument("fingerprint", metavar="FINGERPRINT", help="of its key, as it is pinned")
    take_registry(parser)


def _trust(session: Session) -> int:
    """Let all that a registry signs run here: whoever typed the fingerprint has seen it."""
    config = config_of(session)
    typed = session.arguments.fingerprint.lower()
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
        f"whatever {config.url} signs runs here from now on, whoever published it;"
        f" take it back with: rye keys untrust {pin.fingerprint}"
    )
    session.output.answer(envelope, f"{pin.fingerprint} ({TRUSTED_OWNER}) counts now")
    return 0


def _file(session: Session) -> RegistriesFile:
    user = require_user_space(session.context)
    return RegistriesFile(user, session.rye.verifier, lambda: key_if_any(session.rye))


COMMANDS = {
    "registry login": Command(
        _configure_login,
        _login,
        [
            "rye registry login --url https://registry.example --key-env REGISTRY_KEY",
            "rye registry login --registry work --url https://rye.work.example",
        ],
    ),
    "registry logout": Command(_configure_registry, _logout, ["rye registry logout"]),
    "registry status": Command(
        _configure_registry, _status, ["rye registry status", "rye registry status --json"]
    ),
    "registry pin": Command(_configure_pin, _pin, ["rye registry pin 07097e6443239d36"]),
    "registry pins": Command(_configure_nothing, _pins, ["rye registry pins"]),
    "registry forget": Command(_configure_forget, _forget, ["rye registry forget default"]),
    "registry trust": Command(_configure_trust, _trust, ["rye registry trust 07097e6443239d36"]),
}
