"""Settings of a node: the command line wins over the environment, that over ``node.yaml``.

Every name, default and meaning: ``docs/node.md``. Pure but for the reading of ``node.yaml``.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from lillux.files import read_bytes
from lillux.http.model import is_unencrypted
from lillux.uids import HIGHEST, UidRange
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.items.header_values import MetadataError
from ryeos.items.yaml import parse_yaml
from ryeos.remote.remote_values import normal_url

MIB, GIB = 1024**2, 1024**3
NANO_DOLLARS = 1_000_000_000
"""A dollar."""
CONFIG_FILE = "node.yaml"
_MAX_CONFIG_BYTES = 1 * MIB
_PREFIX = "RYE_NODE_"
_NO_SETTING = "RYE_NODE_ANCHOR"  # of tools for Node.js
_HIGHEST_PORT = 65_535
_PLACES = 8
DEFAULT_UIDS = UidRange(0x7000_0000, 0x7000_0FFF)
"""Behind the ids that systemd gives to containers: nothing that is known takes these."""
_LOWEST_UID, _UIDS = 1000, re.compile(r"(\d{1,10})-(\d{1,10})")
_MANY_DAYS = 36_500
_UNITS = {"": 1, "KiB": 1024, "MiB": MIB, "GiB": GIB}
_AMOUNT = re.compile(r"(\d{1,18}) ?(KiB|MiB|GiB)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ROLES = ("node", "registry")
LOCAL, CLUSTER = "local", "cluster"
QUEUES = (LOCAL, CLUSTER)
LOG_FORMATS = ("text", "json")
METRICS_MODES = ("closed", "key", "loopback", "open")


def setting_error(where: str, problem: str, *, hint: str = "") -> RyeError:
    """The error of a setting with a value that it cannot have. ``where`` is who said it."""
    hint = hint or "the settings are in docs/node.md"
    return RyeError(f"{where}: {problem}", code="CONFIG_ERROR", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a node, each with a value.

    data_dir                 everything the node keeps lies below
    name                     what clients call this node: part of the key of every head
    database_url             as SQLAlchemy takes it
    cas_base_path            holds a store for each user
    signing_key_dir          the node's own keys
    config_dir               ``node.yaml``
    max_request_bytes        of a body, after its Content-Encoding was taken off
    max_concurrent           executions at a time
    queue                    where executions wait: ``local``, or ``cluster`` for many machines
    execution_lease_s        how long a worker of a cluster may be silent until it counts as lost
    max_queued               further ones that wait for their turn
    queue_wait_s             how long a request for an answer waits for a place
    worker_timeout_s         an execution that takes longer is ended
    worker_memory_bytes      of each process of an execution; 0 sets no limit
    worker_file_bytes        of each file that it writes; 0 sets no limit, None is that of a store
    worker_disk_bytes        of all files of its workspace; 0 sets no limit, None is four stores
    run_memory_bytes         of all processes of an execution; 0 sets no limit, None is twice one
    run_processes            how many an execution may have at a time; 0 sets no limit
    run_uids                 user ids of executions where the node is root; None gives them none
    compatible_versions      ``MAJOR.MINOR`` of clients whose manifests are taken
    allow_unix_sockets       whether tools may open local sockets, which lead to other services
    allow_network            whether tools may open sockets to other machines, and to this one
    sandbox                  what tools may do at most: level, limits, rules, allow_private
    operator_space           the user space of the operator: providers and credentials of threads
    daily_spend              nano-dollars a day for all threads of a user, and of a team
    thread_spend             nano-dollars for one thread with its children
    open_webhooks            whether /execute takes deliveries of webhooks at all
    body_idle_timeout_s      how long the next part of a body may take
    shutdown_timeout_s       how long requests may take to end after TERM
    retain_executions_days   how long an execution that has ended is remembered; 0 for ever
    retain_audit_days        how long it is remembered who changed what may be done; 0 for ever
    open_sign_up             whether any visitor may make an account of a registry
    open_teams               whether each user of the node may make teams
    max_pushes_per_minute    of one account of a registry
    log_format               of the lines of the log: ``text``, ``json``
    trusted_proxies          networks whose word on where a request came from is believed
    metrics                  who may read ``/metrics``: one of `METRICS_MODES`
    public_url               the address that people and a sign-in provider know; "" as asked
    oidc_issuer              the OpenID provider that people sign in at; "" for none
    oidc_client_id           what it knows this node by; with ``oidc_client_secret``, if it has one
    oidc_allowed_domains     of verified addresses, whose people may use the node at once
    oidc_allowed_groups      of the claim ``groups``, as for domains
    store                    ``s3://bucket/prefix`` for object storage, ``""`` for folders
    store_endpoint           where that is served; ``""`` for AWS
    store_region             its region; ``""`` for the one of the environment
    store_credentials_file   in the form of ``~/.aws/credentials``; None for the environment
    store_cache_bytes        of the cache of what was read from there; 0 for none
    """

    data_dir: Path
    config_dir: Path
    database_url: str
    cas_base_path: Path
    signing_key_dir: Path
    host: str = "127.0.0.1"
    port: int = 8000
    name: str = "default"
    max_request_bytes: int = 50 * MIB
    max_user_storage_bytes: int = 1 * GIB
    max_concurrent: int = _PLACES
    queue: str = LOCAL
    execution_lease_s: int = 30
    max_queued: int = 1000
    queue_wait_s: int = 20
    worker_timeout_s: int = 300
    worker_memory_bytes: int = 4 * GIB
    worker_file_bytes: int | None = None
    worker_disk_bytes: int | None = None
    run_memory_bytes: int | None = None
    run_processes: int = 512
    run_uids: UidRange | None = DEFAULT_UIDS
    compatible_versions: tuple[str, ...] = ("0.1",)
    roles: tuple[str, ...] = ("node",)
    operator_space: Path = Path("~")
    daily_spend: int = 5 * NANO_DOLLARS
    thread_spend: int = 1 * NANO_DOLLARS
    open_webhooks: bool = True
    allow_unix_sockets: bool = False
    allow_network: bool = True
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    body_idle_timeout_s: int = 30
    shutdown_timeout_s: int = 30
    gc_interval_s: int = 6 * 3600
    gc_grace_s: int = 3600
    retain_executions_days: int = 90
    retain_audit_days: int = 365
    open_sign_up: bool = False
    open_teams: bool = True
    max_pushes_per_minute: int = 600
    log_format: str = "text"
    trusted_proxies: tuple[str, ...] = ()
    metrics: str = "key"
    public_url: str = ""
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_allowed_domains: tuple[str, ...] = ()
    oidc_allowed_groups: tuple[str, ...] = ()
    store: str = ""
    store_endpoint: str = ""
    store_region: str = ""
    store_credentials_file: Path | None = None
    store_cache_bytes: int = 2 * GIB

    @property
    def largest_file_bytes(self) -> int:
        """Of what an execution writes; 0 for no limit."""
        own = self.worker_file_bytes
        return self.max_user_storage_bytes if own is None else own

    @property
    def largest_workspace_bytes(self) -> int:
        """Of all files that an execution works on; 0 for no limit."""
        own = self.worker_disk_bytes
        return 4 * self.max_user_storage_bytes if own is None else own

    @property
    def largest_run_bytes(self) -> int:
        """Of the memory of all processes of an execution; 0 for no limit."""
        own = self.run_memory_bytes
        return 2 * self.worker_memory_bytes if own is None else own

    @property
    def is_cluster(self) -> bool:
        """Whether other machines serve the same data."""
        return self.queue == CLUSTER

    @property
    def registry_store_dir(self) -> Path:
        """The files of bundles of a registry; a cluster has them where its servers share files."""
        if self.is_cluster:
            return self.cas_base_path / ".registry"  # no user has such a name
        return self.data_dir / "registry"


def read_settings(
    given: Mapping[str, Any], environ: Mapping[str, str], default_data_dir: Path
) -> Settings:
    """The settings of a node that is about to be used.

    ``given`` is the command line's share: a name that is None was not given. Raises RyeError
    `CONFIG_ERROR`, also for a ``node.yaml`` that is no YAML; FileSystemError, FileTooLargeError.
    """
    said = {name: value for name, value in given.items() if value is not None}
    said = _from_environment(environ) | {
        name: (f"--{name.replace('_', '-')}", one) for name, one in said.items()
    }
    data_dir = _path(*said.pop("data_dir", ("data_dir", str(default_data_dir))))
    config_dir = _path(*said.pop("config_dir", ("config_dir", str(data_dir / "config"))))
    said = _from_file(config_dir / CONFIG_FILE) | said
    values: dict[str, Any] = {
        name: _READERS[name](where, value) for name, (where, value) in said.items()
    }
    _require_enough_uids(values)
    values.setdefault("database_url", f"sqlite:///{data_dir / 'node.db'}")
    values.setdefault("cas_base_path", data_dir / "cas")
    values.setdefault("signing_key_dir", data_dir / "signing")
    values.setdefault("operator_space", Path("~").expanduser().absolute())
    return Settings(data_dir=data_dir, config_dir=config_dir, **values)


def _require_enough_uids(values: Mapping[str, Any]) -> None:
    numbers, places = values.get("run_uids"), values.get("max_concurrent", _PLACES)
    if numbers is not None and len(numbers) < places:
        problem = f"expected at least {places} numbers (max_concurrent), found {len(numbers)}"
        raise setting_error("run_uids", problem)


_FLAGS = ("host", "port", "name", "store", "store_endpoint", "store_region")


def settings_of(parsed: Namespace, environ: Mapping[str, str]) -> Settings:
    """The settings that a parsed command line and the environment ask for. As `read_settings`."""
    given = {
        "data_dir": parsed.data,
        **{name: getattr(parsed, name, None) for name in _FLAGS},
        "roles": getattr(parsed, "role", None),
        "max_concurrent": getattr(parsed, "max_concurrent", None),
        "trusted_proxies": getattr(parsed, "trusted_proxies", None),
    }
    return read_settings(given, environ, Path("~/.rye-node"))


GivenSettings = dict[str, tuple[str, Any]]
"""By the name of a setting: who said it, and what."""


def _from_environment(environ: Mapping[str, str]) -> GivenSettings:
    """What the environment says. An empty variable says nothing."""
    said: GivenSettings = {}
    variables = {
        name: (f"{_PREFIX}{name.upper()}", *_OTHER_VARIABLES.get(name, ()))
        for name in (*_READERS, "data_dir", "config_dir")
    }
    _refuse_unknown(environ, [one for names in variables.values() for one in names])
    for name, known in variables.items():
        for variable in known:
            if environ.get(variable):
                said[name] = (variable, environ[variable])
                break
    return said


def _refuse_unknown(environ: Mapping[str, str], known: Sequence[str]) -> None:
    unknown = sorted(
        name
        for name, value in environ.items()
        if value and name.startswith(_PREFIX) and name not in {*known, _NO_SETTING}
    )
    if unknown:
        close = get_close_matches(unknown[0], known, 1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise setting_error(unknown[0], "there is no such setting", hint=hint)


def _from_file(path: Path) -> GivenSettings:
    try:
        text = read_bytes(path, _MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    try:
        values = parse_yaml(text, str(path))
    except MetadataError as error:
        at = "" if error.line is None else f", line {error.line}"
        raise setting_error(f"{path}{at}", error.problem) from error
    identity = values.pop("identity", None)  # where older nodes keep their name
    if isinstance(identity, dict) and "name" in identity:
        values.setdefault("name", identity["name"])
    unknown = sorted(values.keys() - _READERS.keys())
    if unknown:
        close = get_close_matches(unknown[0], _READERS, 1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise setting_error(f"{path}: {unknown[0]}", "there is no such setting", hint=hint)
    return {name: (f"{path}: {name}", value) for name, value in values.items()}


# --- readers: (who said it, what) -> the value ----------------------------------------------------


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise setting_error(where, f"expected a text, found {value!r}")
    return value


def _path(where: str, value: object) -> Path:
    return Path(_text(where, value)).expanduser().absolute()


def _name(where: str, value: object) -> str:
    text = _text(where, value)
    if not _NAME.fullmatch(text):
        expected = "expected letters, digits and . _ - (at most 64, a letter or digit first)"
        raise setting_error(where, f"{expected}, found {text[:80]!r}")
    return text


def _whole(lowest: int, highest: int | None = None) -> Callable[[str, object], int]:
    words = f"from {lowest} on" if highest is None else f"from {lowest} to {highest}"

    def read(where: str, value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:19])
        wrong = not isinstance(value, int) or isinstance(value, bool)
        if wrong or value < lowest or (highest is not None and value > highest):  # type: ignore[operator]
            raise setting_error(where, f"expected a whole number {words}, found {value!r}")
        return value  # type: ignore[return-value]

    return read


def _amount(where: str, value: object) -> int:
    """Bytes: a whole number, or one with ``KiB``, ``MiB`` or ``GiB`` behind it."""
    matched = _AMOUNT.fullmatch(value if isinstance(value, str) else str(value))
    if not matched or isinstance(value, bool):
        raise setting_error(where, f"expected bytes, like 52428800 or 50 MiB, found {value!r}")
    return int(matched[1]) * _UNITS[matched[2] or ""]


def bytes_of(where: str, text: str) -> int:
    """The bytes of a text like ``5 GiB``, as settings have them. Raises RyeError `CONFIG_ERROR`."""
    return _amount(where, text)


def _dollars(where: str, value: object) -> int:
    """Nano-dollars of a text or a number like 0.5."""
    from ryeos.agent.prices import nano_dollars

    amount = nano_dollars(value)
    if amount is None:
        raise setting_error(where, f"expected dollars, like 0.5 or 20, found {value!r:.80}")
    return amount


def _flag(where: str, value: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in words:
        raise setting_error(where, f"expected true or false, found {value!r}")
    return words[value.lower()]


def _uids(where: str, value: object) -> UidRange | None:
    """A range like ``200000-204095``; None for ``off``."""
    if value == "off" or value is False:  # as YAML reads that word
        return None
    matched = _UIDS.fullmatch(value) if isinstance(value, str) else None
    numbers = UidRange(int(matched[1]), int(matched[2])) if matched else UidRange(0, 0)
    if not _LOWEST_UID <= numbers.first <= numbers.last <= HIGHEST:
        expected = f"expected off, or numbers from {_LOWEST_UID} on like {DEFAULT_UIDS}"
        raise setting_error(where, f"{expected}, found {value!r:.80}")
    return numbers


def _words(where: str, value: object) -> tuple[str, ...]:
    """A list, or a text with commas."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise setting_error(where, f"expected a list of texts, found {value!r}")
    return tuple(one.strip() for one in found if one.strip())


def _roles(where: str, value: object) -> tuple[str, ...]:
    found = _words(where, value)
    found = ROLES if found == ("all",) else found
    if not found or set(found) - set(ROLES):
        raise setting_error(where, f"expected node, registry or all, found {value!r}")
    return found


def _one_of(*words: str) -> Callable[[str, object], str]:
    def read(where: str, value: object) -> str:
        if value not in words:
            raise setting_error(where, f"expected one of {', '.join(words)}, found {value!r:.80}")
        return str(value)

    return read


def _networks(where: str, value: object) -> tuple[str, ...]:
    found = _words(where, value)
    for text in found:
        try:
            ip_network(text)
        except ValueError:
            expected = "expected addresses or networks like 10.0.0.0/8, fd00::/8"
            raise setting_error(where, f"{expected}, found {text[:80]!r}") from None
    return found


def _url(where: str, value: object) -> str:
    """An address as it was written: an issuer is compared letter by letter."""
    text = _text(where, value)
    try:
        url = normal_url(text)
    except ValueError as error:
        raise setting_error(where, f"{error}, found {text[:80]!r}") from None
    if is_unencrypted(url):
        raise setting_error(where, f"expected https://..., found {text[:80]!r}")
    return text


def _sandbox(where: str, value: object) -> Mapping[str, Any]:
    """A mapping as in a policy of user space; a word alone is its level."""
    from lillux.errors import LilluxError
    from ryeos.run.sandbox_policy import operator_policy_from

    said = {"level": value} if isinstance(value, str) else value
    if not isinstance(said, dict):
        raise setting_error(where, f"expected a level, or a mapping with one, found {value!r:.80}")
    try:
        operator_policy_from(said, where)
    except LilluxError as error:
        raise setting_error(where, str(error), hint="the page is docs/rights.md") from error
    return said


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "host": _text,
    "port": _whole(0, _HIGHEST_PORT),
    "name": _name,
    "database_url": _text,
    "cas_base_path": _path,
    "signing_key_dir": _path,
    "max_request_bytes": _amount,
    "max_user_storage_bytes": _amount,
    "max_concurrent": _whole(1, 1024),
    "queue": _one_of(*QUEUES),
    "execution_lease_s": _whole(3, 3600),
    "max_queued": _whole(0, 1_000_000),
    "queue_wait_s": _whole(0, 3600),
    "worker_timeout_s": _whole(1),
    "worker_memory_bytes": _amount,
    "worker_file_bytes": _amount,
    "worker_disk_bytes": _amount,
    "run_memory_bytes": _amount,
    "run_processes": _whole(0, 1_000_000),
    "run_uids": _uids,
    "compatible_versions": _words,
    "roles": _roles,
    "operator_space": _path,
    "daily_spend": _dollars,
    "thread_spend": _dollars,
    "open_webhooks": _flag,
    "allow_unix_sockets": _flag,
    "allow_network": _flag,
    "sandbox": _sandbox,
    "body_idle_timeout_s": _whole(1),
    "shutdown_timeout_s": _whole(0),
    "gc_interval_s": _whole(1),
    "gc_grace_s": _whole(60),
    "retain_executions_days": _whole(0, _MANY_DAYS),
    "retain_audit_days": _whole(0, _MANY_DAYS),
    "open_sign_up": _flag,
    "open_teams": _flag,
    "max_pushes_per_minute": _whole(1),
    "log_format": _one_of(*LOG_FORMATS),
    "trusted_proxies": _networks,
    "metrics": _one_of(*METRICS_MODES),
    "public_url": _url,
    "oidc_issuer": _url,
    "oidc_client_id": _text,
    "oidc_client_secret": _text,
    "oidc_allowed_domains": _words,
    "oidc_allowed_groups": _words,
    "store": _text,
    "store_endpoint": _text,
    "store_region": _text,
    "store_credentials_file": _path,
    "store_cache_bytes": _amount,
}

# What hosting platforms and older nodes call them. `HOST` is not among them: some shells export
# the machine's name under it.
_OTHER_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "data_dir": ("RYE_NODE_DATA",),
    "config_dir": ("NODE_CONFIG_DIR",),
    "port": ("PORT",),
    "name": ("RYE_REMOTE_NAME",),
    "database_url": ("DATABASE_URL",),
    "cas_base_path": ("CAS_BASE_PATH",),
    "signing_key_dir": ("SIGNING_KEY_DIR",),
    "max_request_bytes": ("MAX_REQUEST_BYTES",),
    "max_user_storage_bytes": ("MAX_USER_STORAGE_BYTES",),
    "max_concurrent": ("MAX_CONCURRENT",),
}
