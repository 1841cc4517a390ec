"""The primitive ``http_client``: a tool that is one HTTP request.

What a config may say, how it is filled and what comes back is in ``docs/http.md``.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.http.client import HttpClient
from lillux.http.model import (
    MIB,
    SECRET_HEADERS,
    Backoff,
    HttpClientError,
    HttpRequest,
    HttpResponse,
    HttpStream,
    Retry,
    is_unencrypted,
    parse_address,
    validate_request,
)
from lillux.secret_names import says_secret
from lillux.sse import EventParser
from lillux.templating import Names, as_text, empty_variables, fill, unknown_names
from lillux.values import dataclass, field, replace
from ryeos import __version__
from ryeos.items.errors import SpecError
from ryeos.items.specs import type_name
from ryeos.run.calls import Call, MappedResult, Materials, OnStderr, Services, json_or, network_env
from ryeos.run.command import engine_values, template_names
from ryeos.run.http_bodies import FORM_TYPE, json_bytes, written_body
from ryeos.run.http_sinks import (
    EventSink,
    ReturnSink,
    StreamConfig,
    close_all,
    open_sinks,
    stream_config,
    validate_destinations,
    written_files,
)
from ryeos.run.http_styles import (
    COOKIE,
    HEADER,
    PATH,
    QUERY,
    SAY_ANOTHER,
    Entry,
    Style,
    joined_entries,
    quoted,
    style_of,
    wire_text,
)
from ryeos.run.parameters import valid_limit

if TYPE_CHECKING:
    from ryeos.run.confinement import CallRights

# --- http config ----------------------------------------------------------------------------------
# From the config of a signed chain to a request with nothing left to resolve. Pure.
#
# Templates come from the config, values from the environment and the caller. What a caller says is
# inserted last, never read as a template, and percent-encoded in an address (``docs/http.md``).

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
DEFAULT_MAX_RESPONSE_BYTES = 50 * MIB
MAX_ATTEMPTS = 20
MASK = "***"

# `{url}` in a config means the caller's: a config that names itself would never end.
OWN_KEYS = frozenset(
    {"auth", "body", "body_styles", "cookies", "headers", "max_output_bytes", "max_response_bytes"}
    | {"media_type", "method", "mode", "params", "query", "retry", "stream", "styles", "timeout"}
    | {"url"}
)
_LONE_NAME = re.compile(r"\s*\{([A-Za-z_][A-Za-z0-9_]*)\}\s*")
# An empty value in an address, until it is known whether it stands in the path. No encoded value
# and no variable of an environment has a NUL.
_EMPTY, _EMPTY_VALUE = "\0{}\0", re.compile("\0([^\0]*)\0")
_NAME = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)")
_COOKIE_NAME = re.compile(r"[!#%&'*+.^_`|~0-9A-Za-z-]+")
_NO_TOKEN = re.compile(r"[ \t\x80-\U0010ffff]")
_BASIC = re.compile(r"basic(?: (.*))?", re.IGNORECASE)
_COOKIE_VALUE = re.compile(r'"[!#-+\--:<-\[\]-~]*"|[!#-+\--:<-\[\]-~]*')
_NO_COOKIE = "expected a value of a cookie: no blanks, quotes, commas, semicolons or \\ in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlan:
    """A request, and what may be shown of it.

    description  for a person: secrets are masked
    """

    request: HttpRequest
    description: Mapping[str, Any]
    warnings: tuple[str, ...] = field(default_factory=tuple)


def http_plan(
    config: Mapping[str, Any],
    names: Names,
    *,
    optional: frozenset[str] = frozenset(),
    timeout_s: float | None,
    total_timeout_s: float | None = None,
) -> HttpPlan:
    """The request that a config asks for.

    ``optional`` are parameters that may be missing: an entry of the body, the query or the headers
    that is nothing but one of them is left out. Raises SpecError.
    """
    own = replace(names, hidden=names.hidden | OWN_KEYS)
    reader = _Reader(config, own, optional)
    headers, secret_headers = reader.headers()
    url = reader.url()
    secrets = sorted({*secret_headers, *_secret_variables(config)})
    if secrets:
        _require_fixed_host(config["url"], own)
    body, content_type = reader.body(headers)
    headers |= {"Content-Type": content_type} if content_type else {}
    request = HttpRequest(
        method=reader.method(),
        url=url,
        headers=headers,
        body=body,
        timeout_s=timeout_s,
        total_timeout_s=total_timeout_s,
        max_response_bytes=_max_response_bytes(config),
        secret_headers=secret_headers,
        retry=_retry(fill(config.get("retry"), own)),
    )
    shown = _Reader(config, replace(own, variables=_masked(own.variables)), optional)
    description: dict[str, Any] = {
        "method": request.method,
        "url": shown.url().replace(quoted(MASK, "url"), MASK),
        "headers": {
            name: MASK if name.lower() in secret_headers else value
            for name, value in {**headers, **shown.plain_headers()}.items()
        },
        "timeout_s": timeout_s,
    }
    if body is not None:
        description["body"] = shown.shown_body()
    return HttpPlan(
        request=request,
        description=description,
        warnings=_plain_text_warnings(url, secrets),
    )


class _Reader:
    """Fills the parts of one config from one set of names."""

    def __init__(self, config: Mapping[str, Any], names: Names, optional: frozenset[str]) -> None:
        self._config, self._names, self._optional = config, names, optional

    def method(self) -> str:
        value = self._fill(self._config.get("method", "GET"), "config.method")
        if not isinstance(value, str) or value.upper() not in METHODS:
            raise SpecError("config.method", f"expected one of {', '.join(METHODS)}, got {value!r}")
        return value.upper()

    def url(self) -> str:
        template = self._config.get("url")
        if not isinstance(template, str) or not template.strip():
            raise SpecError("config.url", "expected an address, got none")
        names = replace(self._names, quote=self._encoded)
        if self._is_callers(template):
            names = self._names
        url = _without_empty_segments(as_text(self._fill(template, "config.url", names)).strip())
        _require_no_dot_segments(url)
        query = self._query()
        if not query:
            return url
        address, mark, fragment = url.partition("#")
        joint = "&" if "?" in address else "?"
        return f"{address}{joint}{query}{mark}{fragment}"

    def _is_callers(self, template: str) -> bool:
        """Whether a template is nothing but what the caller says."""
        lone = _LONE_NAME.fullmatch(template)
        if lone is None or lone[1] in self._names.fixed:
            return False
        return lone[1] in self._names.hidden or lone[1] not in self._names.templates

    def _encoded(self, value: str, placeholder: str) -> str:
        """A value in an address, a list or object by the style of its parameter."""
        if placeholder.startswith("$"):
            return _variable_value(value, placeholder)
        name = placeholder.strip("{}")
        style = style_of(self._config.get("styles"), name, PATH, name)
        said = self._names.opaque.get(name)
        if style is not None:
            text = style.text(said)
        else:
            text = quoted(wire_text(said) if isinstance(said, float) else value, name)
        return text or _EMPTY.format(name)

    def _styled(self, template: object, where: str, name: str) -> tuple[Style, object] | None:
        """The style of a template that is nothing but a parameter, and the parameter's value."""
        lone = _LONE_NAME.fullmatch(template) if isinstance(template, str) else None
        style = style_of(self._config.get("styles"), lone[1], where, name) if lone else None
        if lone is None or style is None:
            return None
        return style, self._fill(template, f"config.{where}.{name}")

    def headers(self) -> tuple[dict[str, str], frozenset[str]]:
        """The headers with authorization, and the lower-case names of those that are secret."""
        templates = self._mapping("headers")
        secret = {
            name.lower()
            for name, template in templates.items()
            if name.lower() in SECRET_HEADERS or "${" in str(template)
        }
        for name, template in templates.items():
            if name.lower() in SECRET_HEADERS:
                self._require_variables(template, f"config.headers.{name}")
        headers = self.plain_headers()
        for name, value in headers.items():
            if name.lower() == "authorization":
                _require_basic_credentials(value, f"config.headers.{name}")
        cookies = self._cookies()
        if cookies:
            if "cookie" in {name.lower() for name in headers}:
                raise SpecError("config.cookies", "expected no header Cookie besides")
            headers["Cookie"] = cookies
            secret.add("cookie")
        for name, value in self._auth():
            if name.lower() in {given.lower() for given in headers}:
                raise SpecError("config.auth", f"expected {name} once, found it in headers too")
            headers[name] = value
            secret.add(name.lower())
        return headers, frozenset(secret & {name.lower() for name in headers})

    def plain_headers(self) -> dict[str, str]:
        """The headers that the config lists."""
        filled = dict[str, str]()
        for name, template in self._given("headers"):
            where = f"config.headers.{name}"
            styled = self._styled(template, HEADER, name)
            is_joined = name.lower() == "cookie" and not _LONE_NAME.fullmatch(str(template))
            names = replace(self._names, quote=_part_of_cookies) if is_joined else self._names
            value = styled[0].text(styled[1]) if styled else self._fill(template, where, names)
            if value is None:
                continue
            filled[name] = text = wire_text(value)
            if isinstance(template, str) and _NAME.search(template) and text != text.strip(" \t"):
                # (It may hold a secret besides: it is not shown.)
                problem = "expected a value without blanks around it"
                raise SpecError(where, problem, hint=SAY_ANOTHER)
        return filled

    def _cookies(self) -> str:
        """The header ``Cookie``; a variable stands there as it is, which is what was set."""
        entries = [self._cookie(name, template) for name, template in self._given("cookies")]
        pairs = joined_entries(entries, self._mapping("cookies"), "config.cookies")
        return "; ".join(f"{name}={value}" for name, value in pairs)

    def _cookie(self, name: str, template: object) -> Entry:
        where = f"config.cookies.{name}"
        if not _COOKIE_NAME.fullmatch(name):
            raise SpecError(where, "expected the name of a cookie")
        self._require_variables(template, where)
        styled = self._styled(template, COOKIE, name)
        if styled:
            return styled[0].entry(styled[1])
        value = self._fill(template, where)
        if value is None:
            return Entry(name=name, pairs=())
        text = wire_text(value)
        if not (isinstance(template, str) and "${" in template):
            return Entry(name=name, pairs=((name, quoted(text, where)),))
        if not _COOKIE_VALUE.fullmatch(text):
            # (The value is a secret: it is not shown.)
            raise SpecError(where, _NO_COOKIE, hint="correct the variable, or percent-encode it")
        return Entry(name=name, pairs=((name, text),))

    def body(self, headers: Mapping[str, str]) -> tuple[bytes | None, str]:
        """The body, and its media type if no header says it."""
        template = self._config.get("body")
        if template is None or isinstance(template, bytes):
            return template, ""
        if self._is_left_out(template):
            return None, ""
        said = next((headers[name] for name in headers if name.lower() == "content-type"), "")
        value, media_type = self._body_value(template), self._config.get("media_type")
        if media_type is not None:
            if said:
                raise SpecError("config.media_type", "expected no header Content-Type besides")
            return written_body(value, media_type, self._config.get("body_styles"))
        if isinstance(value, str) and isinstance(template, str):
            return value.encode("utf-8", "surrogatepass"), ""
        _require_no_form(said)
        return json_bytes(value), "" if said else "application/json"

    def shown_body(self) -> object:
        """The body as a person may see it."""
        template = self._config.get("body")
        if isinstance(template, bytes):
            return f"{len(template)} bytes"
        return self._body_value(template)

    def _body_value(self, template: object) -> object:
        value = self._pruned(template)
        return self._fill(value, "config.body")

    def _query(self) -> str:
        keys = ("query", "params")
        entries = [
            self._query_entry(key, name, template)
            for key in keys
            for name, template in self._given(key)
        ]
        names = {quoted(name, f"config.{key}") for key in keys for name in self._mapping(key)}
        pairs = joined_entries(entries, names, "config.query")
        return "&".join(f"{name}={value}" for name, value in pairs)

    def _query_entry(self, key: str, name: str, template: object) -> Entry:
        where = f"config.{key}.{name}"
        if any(map(says_secret, _VARIABLE.findall(str(template)))):
            self._require_variables(template, where)
        styled = self._styled(template, QUERY, name)
        if styled:
            return styled[0].entry(styled[1])
        value = self._fill(template, where)
        several = value if isinstance(value, list) else [value]
        own = quoted(name, where)
        texts = [quoted(wire_text(one), name) for one in several if one is not None]
        return Entry(name=own, pairs=[(own, text) for text in texts])

    def _auth(self) -> list[tuple[str, str]]:
        """The headers that authorize, and their values: one, or all of a list."""
        said = self._config.get("auth")
        listed = said if isinstance(said, list) else [] if said is None else [said]
        found: list[tuple[str, str]] = []
        for number, auth in enumerate(listed):
            where = f"config.auth[{number}]" if isinstance(said, list) else "config.auth"
            if not isinstance(auth, dict):
                raise SpecError(where, f"expected a mapping, got {type_name(auth)}")
            if auth:
                found.append(self._authorization(auth, where))
        return found

    def _authorization(self, auth: Mapping[str, Any], where: str) -> tuple[str, str]:
        kind = auth.get("type")
        if kind == "bearer":
            token = self._secret(auth, "token", where)
            if _NO_TOKEN.search(token):
                raise SpecError(f"{where}.token", "expected characters of ASCII without blanks")
            return "Authorization", f"Bearer {token}"
        if kind == "api_key":
            name = auth.get("header", "X-API-Key")
            if not isinstance(name, str) or not name:
                raise SpecError(f"{where}.header", "expected the name of a header")
            return name, self._secret(auth, "key", where)
        raise SpecError(f"{where}.type", f"expected bearer or api_key, got {kind!r}")

    def _secret(self, auth: Mapping[str, Any], key: str, place: str) -> str:
        where = f"{place}.{key}"
        template = auth.get(key)
        if not isinstance(template, str) or not template.strip():
            raise SpecError(where, "expected a secret such as '${API_TOKEN}', got none")
        self._require_variables(template, where)
        value = as_text(self._fill(template, where))
        if not value:
            raise SpecError(where, "expected a secret, got an empty one")
        if value != value.strip():
            raise SpecError(where, "expected a secret without blanks or ends of lines around it")
        return value

    def _require_variables(self, template: object, where: str) -> None:
        empty = empty_variables(template, self._names)
        if empty:
            raise SpecError(
                where,
                f"expected the environment variable {empty[0]}, which is not set",
                hint=f"set {empty[0]} in the environment or in the .env of the project",
            )

    def _mapping(self, key: str) -> dict[str, Any]:
        value = self._config.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise SpecError(f"config.{key}", f"expected a mapping, got {type_name(value)}")
        return value

    def _given(self, key: str) -> list[tuple[str, Any]]:
        """The entries of a mapping but those whose parameter may be missing, and is."""
        entries = self._mapping(key).items()
        return [(name, template) for name, template in entries if not self._is_left_out(template)]

    def _pruned(self, template: object) -> object:
        """A body without the entries whose parameter is optional and was not given."""
        match template:
            case dict():
                return {
                    key: self._pruned(value)
                    for key, value in template.items()
                    if not self._is_left_out(value)
                }
            case list():
                return [self._pruned(value) for value in template if not self._is_left_out(value)]
        return template

    def _is_left_out(self, template: object) -> bool:
        lone = _LONE_NAME.fullmatch(template) if isinstance(template, str) else None
        return (
            lone is not None
            and lone.group(1) in self._optional
            and bool(unknown_names(template, self._names))
        )

    def _fill(self, template: object, where: str, names: Names | None = None) -> object:
        return filled(template, where, names or self._names)


def filled(template: object, where: str, names: Names) -> object:
    """The template with every placeholder replaced. Raises SpecError."""
    missing = unknown_names(template, names)
    if missing:
        name = missing[0]
        problem = f"expected the parameter {name!r}, which was not given"
        raise SpecError(where, problem, hint=f"give it: {name}=...")
    return fill(template, names)


def _variable_value(value: str, placeholder: str) -> str:
    """What the environment gives inside an address is a part of the address."""
    _, has_default, default = placeholder[:-1].partition(":-")
    return value or (default if has_default else "")


def _part_of_cookies(value: str, placeholder: str) -> str:
    """A value inside of a header Cookie, where it must not begin a cookie of its own."""
    text = _variable_value(value, placeholder) if placeholder.startswith("$") else value
    if not _COOKIE_VALUE.fullmatch(text):
        raise SpecError(placeholder.strip("${}"), _NO_COOKIE, hint="percent-encode it")
    return text


def _require_basic_credentials(value: str, where: str) -> None:
    """Credentials as they are typed would be read as base64, which they are not."""
    match = _BASIC.fullmatch(value)
    if match is None:
        return
    try:
        said = b64decode(match[1] or "", validate=True)
    except ValueError:
        said = b""
    if b":" not in said:
        raise SpecError(where, "expected user:password in base64 after Basic, found something else")


def _require_no_form(media_type: str) -> None:
    """A mapping under the name of a form would be JSON that says it is something else."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind == FORM_TYPE or kind.startswith("multipart/"):
        raise SpecError(
            "config.headers.Content-Type",
            f"expected a text as body, found a mapping or list, which is no {kind}",
            hint=f"media_type: {FORM_TYPE}, in place of the header, writes a mapping as a form",
        )


def _without_empty_segments(url: str) -> str:
    """The address. ``/users/{id}`` without an id would be another one, that of all users."""
    found = _EMPTY_VALUE.search(re.split(r"[?#]", url, maxsplit=1)[0])
    if found:
        problem = "expected a value, found an empty one: it is a part of the path"
        raise SpecError(found[1], problem, hint=f"give it: {found[1]}=...")
    return _EMPTY_VALUE.sub("", url)


def _require_no_dot_segments(url: str) -> None:
    """``/users/{id}`` with an id of ``..`` would be another address altogether."""
    path = re.split(r"[?#]", url.partition("://")[2], maxsplit=1)[0]
    if {".", ".."} & set(path.split("/")):
        raise SpecError("config.url", "expected a path without . and .. in it")


def _require_fixed_host(template: str, names: Names) -> None:
    """Secrets go where the signed config says, or its environment, never where a caller says."""
    fixed = as_text(fill(template, replace(names, opaque={})))
    scheme, mark, rest = fixed.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not mark or "{" in scheme or "{" in authority:
        raise SpecError(
            "config.url",
            "expected a server that the caller does not choose, because secrets are sent to it",
            hint="write scheme and host into the config, and leave the path to parameters",
        )


def _secret_variables(config: Mapping[str, Any]) -> set[str]:
    """Variables in the address or the body whose names speak of secrets."""
    templates = [config.get(key) for key in ("url", "query", "params", "body", "cookies")]
    names = _VARIABLE.findall(json.dumps(templates, default=str))
    return {name for name in names if says_secret(name)}


def _plain_text_warnings(url: str, secrets: Sequence[str]) -> tuple[str, ...]:
    try:
        host = urlsplit(url).hostname or ""
        is_open = is_unencrypted(url)
    except ValueError:
        return ()
    if not secrets or not is_open:
        return ()
    names = ", ".join(secrets)
    return (f"secrets ({names}) go to {host} over http, where others can read them: use https",)


def _masked(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be shown."""
    return {
        name: MASK if value and says_secret(name) else value for name, value in variables.items()
    }


def _max_response_bytes(config: Mapping[str, Any]) -> int:
    for key in ("max_response_bytes", "max_output_bytes"):
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SpecError(f"config.{key}", f"expected a number of bytes, got {value!r}")
        return value
    return DEFAULT_MAX_RESPONSE_BYTES


def _retry(value: object) -> Retry:
    if value is None:
        return Retry()
    if not isinstance(value, dict):
        raise SpecError("config.retry", f"expected a mapping, got {type_name(value)}")
    attempts = value.get("max_attempts", 1)
    if isinstance(attempts, bool) or not isinstance(attempts, int):
        raise SpecError("config.retry.max_attempts", f"expected a number, got {attempts!r}")
    if not 1 <= attempts <= MAX_ATTEMPTS:
        raise SpecError("config.retry.max_attempts", f"expected 1 to {MAX_ATTEMPTS}")
    backoff = value.get("backoff", "exponential")
    if backoff not in {kind.value for kind in Backoff}:
        raise SpecError("config.retry.backoff", f"expected exponential or linear, got {backoff!r}")
    statuses = value.get("on_status", [])
    if not isinstance(statuses, list) or not all(type(one) is int for one in statuses):
        raise SpecError("config.retry.on_status", f"expected a list of statuses, got {statuses!r}")
    longest = value.get("max_delay_s", Retry().max_delay_s)
    if isinstance(longest, bool) or not isinstance(longest, (int, float)) or longest < 0:
        raise SpecError("config.retry.max_delay_s", f"expected seconds, got {longest!r}")
    return Retry(
        max_attempts=attempts,
        backoff=Backoff(backoff),
        on_status=tuple(statuses),
        max_delay_s=float(longest),
    )


# --- http primitive -------------------------------------------------------------------------------

DEFAULT_TIMEOUT_S = 30
USER_AGENT = f"rye/{__version__}"
_MODES = ("sync", "stream")
_EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResult:
    """What a request gave: the shape of direct library use.

    status_code          0 when there was no response
    body                 see `parsed_body`; of a stream the events that were kept
    stream_destinations  the names of the sinks' classes
    """

    success: bool
    status_code: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    duration_ms: int = 0
    error: str | None = None
    stream_events_count: int | None = None
    stream_destinations: tuple[str, ...] | None = None


class HttpClientPrimitive:
    """Sends a request. See `ryeos.run.calls.Primitive`, and `execute` for use without a chain.

    process_env  for ``${VARIABLE}``, proxies and authorities, without a chain
    """

    def __init__(self, process_env: Mapping[str, str] | None = None) -> None:
        self._process_env = dict(process_env or {})

    def prepare(self, materials: Materials, services: Services) -> Call:
        """The call that ``config.protocol`` asks for. Raises SpecError, HttpClientError."""
        match materials.config.get("protocol", "http"):
            case "http":
                return self._request_call(materials, services)
            case "mcp":
                from ryeos.run.mcp import mcp_http_call

                return mcp_http_call(materials, services)
            case other:
                raise SpecError("config.protocol", f"expected http or mcp, got {other!r}")

    def _request_call(self, materials: Materials, services: Services) -> "HttpCall":
        names = template_names(materials, engine_values(materials))
        schema = materials.chain.tool.spec.config_schema or {}
        own = replace(names, hidden=OWN_KEYS)
        mode = _mode(filled(materials.config.get("mode", "sync"), "config.mode", own))
        plan = http_plan(
            materials.config,
            names,
            optional=frozenset(schema.get("properties") or ()),
            timeout_s=materials.timeout_s,
            total_timeout_s=materials.caller_timeout_s,
        )
        validate_request(plan.request)
        place = parse_address(plan.request.url)
        materials.rights.require_host(place.host, place.port)
        project_path = Path(materials.anchor.names["project_path"])
        stream = None
        if mode == "stream":
            stream = stream_config(filled(materials.config.get("stream"), "config.stream", own))
            validate_destinations(stream, project_path)
            for path in written_files(stream, project_path):
                materials.rights.require_writable(path)
        return HttpCall(
            plan=plan,
            stream=stream,
            project_path=project_path,
            network_env=network_env(materials, services),
            rights=materials.rights,
        )

    def execute(
        self, config: Mapping[str, Any], params: Mapping[str, Any] | None = None
    ) -> HttpResult:
        """Send a request without a chain.

        ``params`` fill ``{name}``; ``mode`` is ``sync`` or ``stream``, ``__sinks`` a list of sinks
        for the events of a stream. What could not be sent is a result with ``status_code`` 0.
        Raises ValueError for another mode.
        """
        given = dict(params or {})
        mode = given.pop("mode", "sync")
        sinks = tuple(given.pop("__sinks", None) or ())
        if mode not in _MODES:
            raise ValueError(f"Unknown mode: {mode}")
        with _closing(sinks):
            try:
                request = self._request(config, given)
                with HttpClient(self._process_env, user_agent=USER_AGENT) as client:
                    if mode == "sync":
                        return _send(client, request, None).result
                    return _streamed(client, request, sinks or (ReturnSink(),), None).result
            except HttpClientError as error:
                return _transport_failure(error).result
            except LilluxError as error:
                return HttpResult(
                    success=False, status_code=0, body=None, error=f"Unexpected error: {error}"
                )

    def _request(self, config: Mapping[str, Any], params: Mapping[str, Any]) -> HttpRequest:
        timeout_s = valid_limit("config.timeout", config.get("timeout", DEFAULT_TIMEOUT_S))
        names = Names(variables=self._process_env, opaque=params)
        return http_plan(config, names, timeout_s=timeout_s).request


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request and where its events go. See `ryeos.run.calls.Call`.

    stream       None for a response that is read as a whole
    network_env  names proxies and certificate authorities
    """

    plan: HttpPlan
    stream: StreamConfig | None
    project_path: Path
    network_env: Mapping[str, str] = field(repr=False)
    rights: "CallRights"

    @property
    def program(self) -> str:
        """Empty: no program is started."""
        return ""

    @property
    def confinement(self) -> None:
        """None: no program is started."""
        return

    def describe(self) -> dict[str, Any]:
        """The request, its limit, and where events would go; secrets are masked."""
        shown: dict[str, Any] = {"request": dict(self.plan.description)}
        if self.stream:
            shown["stream"] = [sink.type for sink in self.stream.destinations] or ["return"]
        return shown | {"sandbox": self.rights.describe()} | self._warnings()

    def run(
        self,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: OnStderr | None = None,  # noqa: ARG002 - there is no program that would write
    ) -> MappedResult:
        """Send it. A request that failed is a result, as a program's failure is."""
        request = self.plan.request
        with HttpClient(self.rights.own_network(self.network_env), user_agent=USER_AGENT) as client:
            sinks = open_sinks(self.stream, self.project_path) if self.stream else ()
            with _closing(sinks):
                try:
                    if self.stream is None:
                        ending = _send(client, request, cancellation)
                    else:
                        ending = _streamed(client, request, sinks, cancellation)
                except HttpClientError as error:
                    ending = _transport_failure(error)
        return self._mapped(ending, sinks)

    def _mapped(self, ending: "_HttpEnding", sinks: Sequence[EventSink]) -> MappedResult:
        result = ending.result
        metadata: dict[str, Any] = self._warnings()
        if ending.attempts > 1:
            metadata["attempts"] = ending.attempts
        if result.stream_events_count is not None:
            dropped = sum(sink.dropped for sink in sinks if isinstance(sink, ReturnSink))
            metadata["stream"] = {
                "events": result.stream_events_count,
                "destinations": list(result.stream_destinations or ()),
                "dropped": dropped,
            }
        return MappedResult(
            success=result.success,
            data={
                "status_code": result.status_code,
                "body": result.body,
                "headers": dict(result.headers),
            },
            error=result.error,
            code="" if result.success else ending.code,
            metadata=metadata,
        )

    def _warnings(self) -> dict[str, Any]:
        return {"warnings": list(self.plan.warnings)} if self.plan.warnings else {}


def _mode(value: object) -> str:
    if value not in _MODES:
        raise SpecError("config.mode", f"expected {' or '.join(_MODES)}, got {value!r}")
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _HttpEnding:
    """A result, the code of a failure, and the number of attempts."""

    result: HttpResult
    code: str = "EXECUTION_FAILED"
    attempts: int = 1


def _send(
    client: HttpClient, request: HttpRequest, cancellation: Cancellation | None
) -> _HttpEnding:
    response = client.send(request, cancellation)
    return _HttpEnding(result=_result(response), attempts=response.attempts)


def _result(response: HttpResponse) -> HttpResult:
    return HttpResult(
        success=is_success(response.status),
        status_code=response.status,
        body=parsed_body(response.body, response.headers),
        headers=response.headers,
        duration_ms=ceil(response.duration_ms),
        error=status_error(response.status, response.reason),
    )


def _transport_failure(error: HttpClientError) -> _HttpEnding:
    times = "attempt" if error.attempts == 1 else "attempts"
    words = f"Request failed after {error.attempts} {times}: {error}"
    result = HttpResult(success=False, status_code=0, body=None, error=words)
    return _HttpEnding(result=result, code=error.code, attempts=error.attempts)


def _streamed(
    client: HttpClient,
    request: HttpRequest,
    sinks: Sequence[EventSink],
    cancellation: Cancellation | None,
) -> _HttpEnding:
    """The events of a response go to the sinks; another response is taken as a whole."""
    started = monotonic()
    with client.stream(_accepting_events(request), cancellation) as stream:
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not is_success(stream.status) or kind != _EVENT_STREAM:
            return _HttpEnding(result=replace(_whole(stream, started), stream_events_count=0))
        count, broken = _pump(stream, sinks)
    kept = next((sink for sink in sinks if isinstance(sink, ReturnSink)), None)
    result = HttpResult(
        success=broken is None,
        status_code=stream.status,
        body=kept.get_events() if kept else None,
        headers=stream.headers,
        duration_ms=ceil((monotonic() - started) * 1000),
        error=f"the stream ended early: {broken}" if broken else None,
        stream_events_count=count,
        stream_destinations=tuple(type(sink).__name__ for sink in sinks),
    )
    return _HttpEnding(result=result, code=broken.code if broken else "")


def _pump(stream: HttpStream, sinks: Sequence[EventSink]) -> tuple[int, LilluxError | None]:
    """How many events went to the sinks, and what ended the stream before its end."""
    parser = EventParser()
    count = 0
    try:
        for chunk in stream.chunks():
            for event in parser.feed(chunk):
                if event.data:
                    count += 1
                    for sink in sinks:
                        sink.write(event.data)
    except LilluxError as error:
        return count, error
    return count, None


def _whole(stream: HttpStream, started: float) -> HttpResult:
    body = b"".join(stream.chunks())
    return _result(
        HttpResponse(
            status=stream.status,
            reason=stream.reason,
            headers=stream.headers,
            body=body,
            url=stream.url,
            duration_ms=(monotonic() - started) * 1000,
        )
    )


def _accepting_events(request: HttpRequest) -> HttpRequest:
    if "accept" in {name.lower() for name in request.headers}:
        return request
    return replace(request, headers={**request.headers, "Accept": _EVENT_STREAM})


@contextmanager
def _closing(sinks: Sequence[EventSink]) -> Iterator[None]:
    try:
        yield
    finally:
        close_all(tuple(sinks))


# --- http results ---------------------------------------------------------------------------------
# From a response to a result. Pure.
#
# A body is what its JSON means, whatever its type is called; else text; else, when it is neither,
# ``{"encoding": "base64", "content_type": ..., "data": ...}``.

_TEXT_ENDINGS = ("json", "xml", "/javascript", "/x-www-form-urlencoded")


def parsed_body(body: bytes, headers: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON passes through
    """The body as a JSON value."""
    content_type = headers.get("content-type", "")
    text = _text(body, content_type)
    if text is not None:
        return json_or(text, text)
    data = b64encode(body).decode("ascii")
    return {"encoding": "base64", "content_type": content_type, "data": data}


def is_success(status: int) -> bool:
    """Whether a status counts as success: it is one, or says where to look."""
    return 200 <= status < 400  # noqa: PLR2004 - the classes of statuses


def status_error(status: int, reason: str) -> str | None:
    """What went wrong, by the status; None for nothing."""
    return None if is_success(status) else f"HTTP {status}: {reason or 'no reason given'}"


def _text(body: bytes, content_type: str) -> str | None:
    """The body as text; None for one that is something else."""
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    charset = _charset(parameters)
    if charset or kind.startswith("text/") or kind.endswith(_TEXT_ENDINGS):
        try:
            return body.decode(charset or "utf-8", "replace")
        except LookupError:
            return body.decode("utf-8", "replace")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"')
    return ""
