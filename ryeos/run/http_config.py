"""The config of a signed chain as an HTTP request with nothing left to resolve. Pure.

Templates come from the config, values from the environment and the caller. What a caller says is
inserted last, never read as a template, and percent-encoded in an address (``docs/http.md``).
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from lillux.http.model import MIB, HttpRequest, is_unencrypted
from lillux.http.redirects import SECRET_HEADERS
from lillux.http.retries import Backoff, Retry
from lillux.secret_names import says_secret
from lillux.templating import Names, as_text, empty_variables, fill, unknown_names
from lillux.values import dataclass, field, replace
from ryeos.items.errors import SpecError
from ryeos.items.specs import type_name
from ryeos.run.http_bodies import FORM_TYPE, json_bytes, written_body
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
        """True if a template is nothing but what the caller says."""
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
    """The value of a variable as a part of the address that it stands in."""
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
