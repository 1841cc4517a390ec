"""Object storage: one folder of a bucket, by obstore. Its errors are ours.

The door of obstore, which the cluster edition brings. Settings: ``docs/store.md``, Object storage;
why obstore: ADR 0022. What an answer says is used to choose an error and is never shown: servers
put names of keys and texts of their own into it.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from lillux.errors import LilluxError
from lillux.store import MAX_BYTES
from lillux.values import dataclass
from rye_services.settings import MIB, Settings, setting_error
from ryeos.items.errors import RyeError

SCHEME = "s3"
CONNECT_S, REQUEST_S, ALL_TRIES_S = 3, 30, 40
"""How long a connection, one request, and a request with all its further tries may take."""

MAX_FILE_BYTES = MAX_BYTES + 16 * MIB
"""Of a file that is read as a whole: a content of the largest size, and what a pack says of it."""

_TRIES = 4
_CREDENTIALS_FRESH = timedelta(minutes=5)
_MAX_CREDENTIALS_BYTES = 64 * 1024
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._=-]*/)*[A-Za-z0-9][A-Za-z0-9._=-]*")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_DENIED_CODES = frozenset({"XAdminUserNotFound", "InvalidAccessKeyId"})
_FULL_CODES = frozenset({"XAdminStorageFull", "InsufficientStorage", "QuotaExceeded"})
_FULL_STATUS = "507"
_log = logging.getLogger(__name__)


# --- errors ---------------------------------------------------------------------------------------


class ObjectStorageError(LilluxError):
    """The object storage cannot be used. ``problem`` has nothing that a server wrote but its code.

    A later try of the same may go well: a request that meets this is answered with 503.
    """

    code, exit_status = "STORE_UNAVAILABLE", 6

    def __init__(self, shown: str, problem: str, *, hint: str = "") -> None:
        self.shown, self.problem = shown, problem
        super().__init__(f"{shown}: {problem}", hint=hint)


# --- addresses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """A folder of a bucket. ``prefix`` is without slashes at its ends, ``""`` for all of it."""

    bucket: str
    prefix: str

    @property
    def url(self) -> str:
        """As it is written in settings and in ``node.toml``; nothing in it is secret."""
        return f"{SCHEME}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def address_of_store(text: str, where: str = "store") -> StorageAddress:
    """The address in a setting like ``s3://bucket/prefix``. Raises RyeError `CONFIG_ERROR`."""
    expected = "expected s3://BUCKET or s3://BUCKET/PREFIX"
    scheme, separator, rest = text.partition("://")
    if not separator or scheme != SCHEME:
        raise setting_error(where, f"{expected}, found {_without_secrets(text)!a}")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    if "@" in bucket:
        raise setting_error(
            where,
            f"{expected}, found credentials in it",
            hint="credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a file",
        )
    if not _BUCKET.fullmatch(bucket):
        raise setting_error(where, f"{expected}, found the bucket {bucket[:80]!a}")
    if prefix and not _PREFIX.fullmatch(prefix):
        problem = "expected folders of letters, digits and . _ = -, found the prefix"
        raise setting_error(where, f"{problem} {prefix[:80]!a}")
    return StorageAddress(bucket, prefix)


def _without_secrets(text: str) -> str:
    return text.rpartition("@")[2][:80]


def require_endpoint(text: str) -> str:
    """The address of a server as it was given, without a slash at its end.

    Raises RyeError `CONFIG_ERROR`.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain or port == 0:
        found = _without_secrets(text)
        raise setting_error(
            "store_endpoint", f"expected like https://s3.example:9000, found {found!a}"
        )
    return text.rstrip("/")


# --- buckets --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a bucket. ``modified_s``: since the epoch, by the clock of the storage."""

    key: str
    size: int
    modified_s: float


class Bucket(Protocol):
    """Files by key below one folder of a bucket. Thread-safe. Methods raise ObjectStorageError.

    A file is there whole or not at all; what `put` has returned from is safe.
    """

    @property
    def shown(self) -> str:
        """Its address, for people."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write a file, in place of one that is there."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """Write a file unless there is one: whether it was made."""
        ...

    def get(self, key: str) -> bytes | None:
        """All bytes of a file; None for one that is not there."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some bytes of a file, fewer at its end; None for one that is not there."""
        ...

    def listed(self, prefix: str) -> Iterator[StoredFile]:
        """Every file whose key starts with a prefix, which ends with a slash."""
        ...

    def folders(self, prefix: str) -> tuple[str, ...]:
        """The names of the folders in a folder; ``prefix`` ends with a slash."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove these files, if they are there."""
        ...


class BucketFigures:
    """What was asked of a bucket, for ``/metrics``. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.requests: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.bytes: dict[str, int] = {"read": 0, "written": 0}

    def count(self, operation: str, *, read: int = 0, written: int = 0) -> None:
        """Count a request that went well."""
        with self._lock:
            self.requests[operation] = self.requests.get(operation, 0) + 1
            self.bytes["read"] += read
            self.bytes["written"] += written

    def count_error(self, operation: str) -> None:
        """Count a request that did not."""
        with self._lock:
            self.errors[operation] = self.errors.get(operation, 0) + 1


class ObstoreBucket:
    """A `Bucket` over a store of obstore, of whatever kind."""

    def __init__(self, store: Any, shown: str, figures: BucketFigures | None = None) -> None:  # noqa: ANN401 - obstore's kinds have no common class
        self._store, self._shown = store, shown
        self.figures = figures or BucketFigures()

    @property
    def shown(self) -> str:
        """Its address, for people."""
        return self._shown

    def put(self, key: str, data: bytes) -> None:
        """Write a file, in place of one that is there."""
        import obstore

        # In one request: of several parts a server may keep some when the rest never comes.
        self._request("put", lambda: obstore.put(self._store, key, data, use_multipart=False))
        self.figures.count("put", written=len(data))

    def create(self, key: str, data: bytes) -> bool:
        """Write a file unless there is one: whether it was made."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        def ask() -> bool:
            try:
                obstore.put(self._store, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

        made = bool(self._request("put", ask))
        self.figures.count("put", written=len(data))
        return made

    def get(self, key: str) -> bytes | None:
        """All bytes of a file; None for one that is not there."""
        import obstore

        def ask() -> bytes:
            found = obstore.get(self._store, key)
            if found.meta["size"] > MAX_FILE_BYTES:  # others may write to a bucket
                raise ObjectStorageError(
                    self._shown,
                    f"a file has over {MAX_FILE_BYTES} bytes, which no node has written",
                    hint="see who may write to the bucket, and remove it",
                )
            return bytes(found.bytes())

        return self._read(ask)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        """Some bytes of a file, fewer at its end; None for one that is not there."""
        import obstore

        def ask() -> bytes:
            return bytes(obstore.get_range(self._store, key, start=start, length=length))

        return self._read(ask)

    def listed(self, prefix: str) -> Iterator[StoredFile]:
        """Every file whose key starts with a prefix, which ends with a slash."""
        import obstore

        # Read to its end here: an error in the middle must not look like the end.
        def ask() -> list[StoredFile]:
            return [
                StoredFile(one["path"], one["size"], one["last_modified"].timestamp())
                for chunk in obstore.list(self._store, prefix, chunk_size=1000)
                for one in chunk
            ]

        found = self._request("list", ask)
        self.figures.count("list")
        return iter(found)

    def folders(self, prefix: str) -> tuple[str, ...]:
        """The names of the folders in a folder; ``prefix`` ends with a slash."""
        import obstore

        found = self._request("list", lambda: obstore.list_with_delimiter(self._store, prefix))
        self.figures.count("list")
        names = (one.rstrip("/").rpartition("/")[2] for one in found["common_prefixes"])
        return tuple(sorted(names))

    def delete(self, keys: Iterable[str]) -> None:
        """Remove these files, if they are there."""
        import obstore

        gone = list(keys)
        if gone:
            self._request("delete", lambda: obstore.delete(self._store, gone), absent=True)
            self.figures.count("delete")

    def _read(self, ask: Callable[[], bytes]) -> bytes | None:
        data: bytes | None = self._request("get", ask, absent=True)
        self.figures.count("get", read=len(data or b""))
        return data

    def _request(self, operation: str, ask: Callable[[], Any], *, absent: bool = False) -> Any:  # noqa: ANN401 - what is asked
        """What the storage answers; None where ``absent`` says so for a file that is not there.

        Raises ObjectStorageError.
        """
        from obstore.exceptions import BaseError

        try:
            return ask()
        except FileNotFoundError as error:
            # A bucket that is not there is answered with 404 as well: only a key may be missing.
            if absent and _is_missing_key(str(error)):
                return None
            problem: Exception = error
        except (BaseError, OSError) as error:
            problem = error
        self.figures.count_error(operation)
        raised = _error_of(self._shown, operation, problem)
        _log.info("%s", raised)
        raise raised from None


def _is_missing_key(text: str) -> bool:
    code = _CODE.search(text)
    if code:
        return code[1] == "NoSuchKey"
    return not _STATUS.search(text)  # a storage in memory or on the disk answers without HTTP


def _error_of(shown: str, operation: str, error: Exception) -> ObjectStorageError:
    """What a request met with, as an error; of its text the code and the status."""
    text = str(error)
    code, status = _CODE.search(text), _STATUS.search(text)
    named = code[1] if code else (f"status {status[1]}" if status else "")
    if code and code[1] == "NoSuchBucket":
        words, hint = "the bucket is not there", "make it, or name another one: --store s3://BUCKET"
    elif _is_denied(error, code[1] if code else "", status[1] if status else ""):
        words = f"access is denied ({named or type(error).__name__})"
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may use this bucket"
    elif (code and code[1] in _FULL_CODES) or (status and status[1] == _FULL_STATUS):
        words, hint = f"there is no space left ({named})", "free some, or raise its quota"
    elif named:
        words, hint = f"{operation} failed with {named}", "see the log of the object storage"
    elif "checksum" in text.lower():
        words, hint = f"{operation} failed: the checksum is wrong", "try again"
    else:
        words, hint = f"no answer to {operation}", "is it there? --store-endpoint says where"
    return ObjectStorageError(shown, words, hint=hint)


def _is_denied(error: Exception, code: str, status: str) -> bool:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    kinds = (PermissionDeniedError, UnauthenticatedError)
    return isinstance(error, kinds) or code in _DENIED_CODES or status in {"401", "403"}


# --- opening --------------------------------------------------------------------------------------


def open_bucket(settings: Settings, environ: Mapping[str, str]) -> ObstoreBucket:
    """The bucket that the settings name. Nothing is asked of it yet.

    Credentials are those of ``environ`` (``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``,
    ``AWS_SESSION_TOKEN``), else those of the file of the setting, else what obstore finds for the
    machine. Raises RyeError `CONFIG_ERROR`.
    """
    address = address_of_store(settings.store)
    try:
        from obstore.store import S3Store
    except ImportError:
        raise RyeError(
            "store: expected the cluster edition of rye-node.pyz for object storage, found the"
            " ordinary one",
            code="CONFIG_ERROR",
            hint="build it: build_zipapp.py --node --edition cluster; or: pip install"
            " 'rye-node[cluster]'",
        ) from None
    config: dict[str, Any] = {
        "region": settings.store_region or environ.get("AWS_REGION") or "us-east-1",
        "checksum_algorithm": "SHA256",
    }
    endpoint = settings.store_endpoint or environ.get("AWS_ENDPOINT_URL_S3", "")
    endpoint = endpoint or environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        config["endpoint"] = require_endpoint(endpoint)
        config["virtual_hosted_style_request"] = False
    provider = None
    if settings.store_credentials_file is not None:
        provider = _credentials_of(settings.store_credentials_file)
        provider()  # a file that says nothing is refused at the start
    elif "AWS_ACCESS_KEY_ID" in environ:
        config |= _credentials_in(environ)
    store = S3Store(
        address.bucket,
        prefix=address.prefix or None,
        config=cast("Any", config),
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": f"{CONNECT_S}s",
            "timeout": f"{REQUEST_S}s",
        },
        retry_config={
            "max_retries": _TRIES - 1,
            "retry_timeout": timedelta(seconds=ALL_TRIES_S),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
        credential_provider=provider,
    )
    return ObstoreBucket(store, address.url)


def _credentials_in(environ: Mapping[str, str]) -> dict[str, str]:
    secret = environ.get("AWS_SECRET_ACCESS_KEY")
    if not secret:
        raise setting_error(
            "AWS_SECRET_ACCESS_KEY",
            "expected the secret that belongs to AWS_ACCESS_KEY_ID, found none",
            hint="set both, or name a file with both: --store-credentials FILE",
        )
    found = {"access_key_id": environ["AWS_ACCESS_KEY_ID"], "secret_access_key": secret}
    if token := environ.get("AWS_SESSION_TOKEN"):
        found["session_token"] = token
    return found


def _credentials_of(path: Path) -> Callable[[], Any]:
    """What reads the file of credentials again every five minutes: they may be renewed."""

    def read() -> dict[str, Any]:
        parser = ConfigParser(interpolation=None)
        try:
            with path.open("rb") as file:
                parser.read_string(file.read(_MAX_CREDENTIALS_BYTES).decode())
            section = parser["default"]
            return {
                "access_key_id": section["aws_access_key_id"],
                "secret_access_key": section["aws_secret_access_key"],
                "token": section.get("aws_session_token"),
                "expires_at": datetime.now(UTC) + _CREDENTIALS_FRESH,
            }
        except (OSError, ValueError, KeyError, ConfigParserError) as error:
            problem = (
                "expected [default] with aws_access_key_id and aws_secret_access_key, found"
                f" {type(error).__name__}"  # the text of the error may be a line of the file
            )
            raise setting_error(
                "store_credentials_file", f"{path}: {problem}", hint="as ~/.aws/credentials has it"
            ) from None

    return read
