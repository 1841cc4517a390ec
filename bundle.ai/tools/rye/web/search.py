"""Searches the web, with the provider that the user has chosen."""

import json
import re
from collections.abc import Callable
from html import unescape
from urllib.parse import urlencode, urlsplit

from guarded import Guard, Refusal, environment, request
from readable import decoded

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/web"
__tool_description__ = "Search the web: titles, addresses and what they are about"
__tags__ = ["internet", "google", "online", "web"]

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG = {"timeout": 90}
CONFIG_RESOLVE = {"path": "web/search.yaml", "spaces": ["user", "system"]}
SANDBOX = {"network": "any", "env": ["{config.key_env}"]}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["query"],
    "additionalProperties": False,
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 400, "description": "Words"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 20,
            "default": 10,
            "description": "At most so many results",
        },
        "page": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10,
            "default": 1,
            "description": "The second page is what follows the first; not with tavily",
        },
    },
    "examples": [{"query": "content-addressed storage", "limit": 3}],
}
HINT = (
    "a person chooses one in .ai/config/web/search.yaml of user space: provider: searxng with url, "
    "or brave or tavily with key_env, the variable that holds the key"
)
MAX_BYTES, TIMEOUT_S, SNIPPET, OK = 2_000_000, 30, 500, 200
BRAVE = "https://api.search.brave.com/res/v1/web/search"
TAVILY = "https://api.tavily.com/search"


def execute(params: dict, project_path: str) -> dict:  # noqa: ARG001 - the seam
    """``results``, each with title, url and snippet, best first."""
    config = params.get("resolved_config") or {}
    try:
        results = [plain(one) for one in provider_of(config)(params, config)]
    except Refusal as refusal:
        return refusal.answer()
    kept = [one for one in results if one["url"].startswith(("http://", "https://"))]
    return {"success": True, "provider": config["provider"], "results": kept[: params["limit"]]}


def searxng(params: dict, config: dict) -> list:
    """An instance of SearXNG, whose settings allow the format json."""
    asked = {"q": params["query"], "format": "json", "pageno": params["page"]}
    found = ask(config, f"{address(config, '').rstrip('/')}/search?{urlencode(asked)}")
    return listed(found, "results", content="content", age="publishedDate")


def brave(params: dict, config: dict) -> list:
    """The web search of Brave."""
    asked = {"q": params["query"], "count": params["limit"], "offset": params["page"] - 1}
    headers = {"X-Subscription-Token": key(config)}
    found = ask(config, f"{address(config, BRAVE)}?{urlencode(asked)}", headers=headers)
    return listed(found.get("web") or {}, "results", content="description", age="age")


def tavily(params: dict, config: dict) -> list:
    """The search of Tavily."""
    headers = {"Authorization": f"Bearer {key(config)}", "Content-Type": "application/json"}
    body = json.dumps({"query": params["query"], "max_results": params["limit"]}).encode()
    found = ask(config, address(config, TAVILY), headers=headers, body=body)
    return listed(found, "results", content="content", age="published_date")


PROVIDERS = {"searxng": searxng, "brave": brave, "tavily": tavily}


def provider_of(config: dict) -> Callable[[dict, dict], list]:
    """The function that asks the chosen provider. Raises Refusal."""
    name = config.get("provider")
    if not isinstance(name, str) or name not in PROVIDERS:
        raise Refusal(f"provider: expected {', '.join(PROVIDERS)}, found {name!r}", HINT)
    return PROVIDERS[name]


def address(config: dict, usual: str) -> str:
    """Where the provider is. Raises Refusal."""
    url = config.get("url") or usual
    if not isinstance(url, str) or not url:
        raise Refusal("url: expected the address of the provider, found none", HINT)
    return url


def key(config: dict) -> str:
    """The provider's key. Raises Refusal."""
    name = config.get("key_env")
    if not isinstance(name, str) or not name:
        raise Refusal("key_env: expected the name of a variable, found none", HINT)
    return environment(name)


def ask(config: dict, url: str, *, headers: dict | None = None, body: bytes | None = None) -> dict:
    """The provider's answer. Its address was chosen by the user: it may be a private one."""
    parts = urlsplit(url)
    guard = Guard([parts.hostname or ""])
    # A redirect would carry the key elsewhere.
    reply = request(
        guard,
        "POST" if body else "GET",
        url,
        headers={"Accept": "application/json", **(headers or {})},
        body=body,
        timeout_s=TIMEOUT_S,
        max_bytes=MAX_BYTES,
        follow=False,
    )
    text = decoded(reply.body, reply.headers.get("content-type", ""))
    if reply.status != OK:
        raise Refusal(
            f"{config['provider']}: status {reply.status}: {' '.join(text.split())[:200]}"
        )
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refusal(f"{config['provider']}: expected a JSON object, found {text[:80]!r}", HINT)
    return found


def listed(found: object, name: str, *, content: str, age: str) -> list:
    """The rows of an answer, under our names."""
    rows = found.get(name) if isinstance(found, dict) else None
    return [
        {
            "title": row.get("title"),
            "url": row.get("url"),
            "snippet": row.get(content),
            "published": row.get(age),
        }
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    ]


def plain(row: dict) -> dict:
    """A row as text without tags; what is no text is left out."""
    texts = {name: value for name, value in row.items() if isinstance(value, str) and value}
    cleaned = {
        name: " ".join(unescape(re.sub(r"<[^<>]{0,200}>", "", value)).split())[:SNIPPET]
        for name, value in texts.items()
        if name != "url"
    }
    return {"title": "", "snippet": "", **cleaned, "url": texts.get("url", "")}
