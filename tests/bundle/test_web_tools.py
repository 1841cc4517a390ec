"""The web tools against real servers on loopback, run by the built file."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import Machine
from tests.support.certificates import authority_file, context_for
from tests.support.http_servers import Exchange, Server, closed_port, proxy

FETCH, SEARCH = "rye/web/fetch", "rye/web/search"
PAGE = b"""<!doctype html><html><head><title>Tea &amp; more</title><style>p{}</style></head>
<body><nav hidden>menu</nav><h1>Tea</h1><p>Green <b>tea</b>, <a href="/black?a=1">black tea</a>.</p>
<ul><li>one</li><li>two<ol><li>deeper</li></ol></li></ul><pre>a  b
 c</pre><script>alert("no")</script><table><tr><td>x</td><td>y</td></tr></table></body></html>"""
MARKDOWN = """# Tea

Green **tea**, [black tea]({url}/black?a=1).

- one
- two
  1. deeper

```
a  b
 c
```

 | x | y"""


def call(machine: Machine, tool: str, parameters: dict[str, Any], **environ: str) -> dict[str, Any]:
    """The envelope of a run."""
    arguments = ["run", tool, "--params", json.dumps(parameters), "--json"]
    ended = machine.run(*arguments, environ=machine.environ(**environ))
    envelope: dict[str, Any] = json.loads(ended.stdout)
    return envelope


def configure(base: Path, name: str, text: str) -> None:
    """Write a configuration of the web tools into a space."""
    path = base / ".ai/config/web" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'version: "1.0.0"\ncategory: web\n{text}', encoding="utf-8")


def served(exchange: Exchange) -> None:
    """A small site."""
    match exchange.seen.target:
        case "/tea":
            exchange.answer(200, PAGE, content_type="text/html; charset=utf-8")
        case "/packed":
            body = gzip.compress("grün".encode("latin-1"))
            kind = "text/plain; charset=latin-1"
            exchange.answer(200, body, content_type=kind, content_encoding="gzip")
        case "/bomb":
            body = gzip.compress(b"0" * 50_000_000)
            exchange.answer(200, body, content_type="text/plain", content_encoding="gzip")
        case "/moved":
            exchange.answer(302, location="/tea")
        case "/round":
            exchange.answer(302, location="/round")
        case "/away":
            exchange.answer(302, location="http://169.254.169.254/latest/meta-data/")
        case "/picture":
            exchange.answer(200, b"\x89PNG\0\0", content_type="image/png")
        case "/long":
            exchange.answer(200, b"0123456789" * 10, content_type="text/plain")
        case _:
            exchange.answer(404, b"nothing here", content_type="text/plain")


@pytest.fixture
def site(machine: Machine) -> Iterator[Server]:
    """A site that this user's tools may reach."""
    with Server(served) as server:
        configure(machine.home, "access", f'allow_private: ["127.0.0.1:{server.server_port}"]\n')
        yield server


@pytest.mark.heavy
def test_a_page_is_read_as_markdown(machine: Machine, site: Server) -> None:
    data = call(machine, FETCH, {"url": f"{site.url}/moved"})["data"]

    assert data["title"] == "Tea & more"
    assert data["text"] == MARKDOWN.format(url=site.url)
    assert (data["url"], data["status"]) == (f"{site.url}/tea", 200)
    assert site.requests[0].headers["user-agent"] == "rye-web/1.0"


@pytest.mark.heavy
def test_a_text_is_given_as_it_was_sent(machine: Machine, site: Server) -> None:
    assert call(machine, FETCH, {"url": f"{site.url}/packed"})["data"]["text"] == "grün"
    raw = call(machine, FETCH, {"url": f"{site.url}/tea", "format": "raw"})["data"]
    assert raw["text"] == PAGE.decode()


@pytest.mark.heavy
def test_a_long_text_comes_in_windows(machine: Machine, site: Server) -> None:
    data = call(machine, FETCH, {"url": f"{site.url}/long", "offset": 5, "max_chars": 8})["data"]
    cut = call(machine, FETCH, {"url": f"{site.url}/long", "max_bytes": 20})["data"]

    assert (data["text"], data["next_offset"], data["total_chars"]) == ("56789012", 13, 100)
    assert (len(cut["text"]), cut["truncated"]) == (20, True)


@pytest.mark.heavy
def test_a_small_body_that_unpacks_to_a_large_one_is_cut(machine: Machine, site: Server) -> None:
    data = call(machine, FETCH, {"url": f"{site.url}/bomb", "max_bytes": 1000})["data"]

    assert (data["bytes"], data["truncated"]) == (1000, True)


@pytest.mark.heavy
def test_a_binary_body_is_described(machine: Machine, site: Server) -> None:
    data = call(machine, FETCH, {"url": f"{site.url}/picture"})["data"]

    assert "text" not in data
    assert (data["content_type"], data["bytes"]) == ("image/png", 6)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/nowhere", "status 404"),
        ("/round", "more than 5 redirects"),
        ("/away", "169.254.169.254 is no address of the public network"),
    ],
)
def test_a_page_that_cannot_be_read_is_a_failure(
    machine: Machine, site: Server, path: str, error: str
) -> None:
    envelope = call(machine, FETCH, {"url": site.url + path})

    assert envelope["code"] == "EXECUTION_FAILED"
    assert error in envelope["error"]


def in_the_long_pass(*urls: str) -> list[Any]:
    """More forms of the same address: each costs a run of the tool."""
    return [pytest.param(url, marks=pytest.mark.heavy) for url in urls]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/tea",
        *in_the_long_pass(
            "http://localhost:{port}/tea",
            "http://2130706433:{port}/tea",
            "http://0x7f.1:{port}/tea",
            "http://[::ffff:127.0.0.1]:{port}/tea",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[::1]/",
            "http://[fe80::1]/",
            "http://10.0.0.1/",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://224.0.0.1/",
        ),
    ],
)
def test_no_private_address_is_reached(machine: Machine, url: str) -> None:
    with Server(served) as server:
        envelope = call(machine, FETCH, {"url": url.format(port=server.server_port)})

    assert "is no address of the public network" in envelope["error"]
    assert server.requests == []


@pytest.mark.heavy
def test_a_project_cannot_allow_itself_a_private_address(machine: Machine) -> None:
    with Server(served) as server:
        configure(machine.project, "access", 'allow_private: ["127.0.0.1"]\n')
        envelope = call(machine, FETCH, {"url": f"{server.url}/tea"})

    assert "is no address of the public network" in envelope["error"]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        *in_the_long_pass(
            "ftp://example.com/",
            "http://",
            "example.com",
            "http://user:secret@example.com/",
            "http://example.com/a\r\nHost: evil",
            "http://example.com:99999/",
            "http://exa mple.com/",
            "http://" + "a" * 9000 + ".com/",
        ),
    ],
)
def test_an_invalid_address_is_refused(machine: Machine, url: str) -> None:
    envelope = call(machine, FETCH, {"url": url})

    assert envelope["error"].startswith("url: ")
    assert "secret" not in json.dumps(envelope)


@pytest.mark.heavy
def test_a_server_of_another_name_is_refused(machine: Machine, tmp_path: Path) -> None:
    configure(machine.home, "access", "allow_private: [localhost, 127.0.0.1]\n")
    with Server(served, context_for("localhost")) as server:
        trusted = {"SSL_CERT_FILE": str(authority_file(tmp_path))}
        right = call(machine, FETCH, {"url": f"{server.url}/long"}, **trusted)
        other = server.url.replace("localhost", "127.0.0.1")
        wrong = call(machine, FETCH, {"url": f"{other}/long"}, **trusted)
        unknown = call(machine, FETCH, {"url": f"{server.url}/long"})

    assert right["data"]["total_chars"] == 100
    assert "certificate" in wrong["error"].lower()
    assert "certificate" in unknown["error"].lower()


@pytest.mark.heavy
def test_a_proxy_of_the_environment_is_used(machine: Machine, site: Server) -> None:
    with proxy() as between:
        through = call(machine, FETCH, {"url": f"{site.url}/long"}, http_proxy=between.url)
        private = call(machine, FETCH, {"url": "http://[::1]/"}, http_proxy=between.url)

    assert through["data"]["total_chars"] == 100
    assert site.url in between.lines[0]
    assert "is no address of the public network" in private["error"]


# ---------------------------------------------------------------------------------- searching

ROWS: list[dict[str, Any]] = [
    {"title": "A <b>b</b>", "url": "https://a.example/", "content": "x &amp; y", "score": 0.9},
    {"title": "Evil", "url": "javascript:alert(1)", "content": "no"},
    {"title": None, "url": "https://c.example/", "content": ["no text"]},
]
FOUND = [
    {"title": "A b", "snippet": "x & y", "url": "https://a.example/"},
    {"title": "", "snippet": "", "url": "https://c.example/"},
]


@pytest.mark.heavy
@pytest.mark.parametrize("provider", ["searxng", "brave", "tavily"])
def test_each_provider_gets_requests_of_its_own_form(machine: Machine, provider: str) -> None:
    rows = [{**row, "description": row["content"]} for row in ROWS]
    body = json.dumps({"results": ROWS, "web": {"results": rows}}).encode()
    with Server(lambda exchange: exchange.answer(200, body)) as server:
        settings = f"provider: {provider}\nurl: {server.url}/api\nkey_env: MY_KEY\n"
        configure(machine.home, "search", settings)
        envelope = call(machine, SEARCH, {"query": "tea & cake", "limit": 2}, MY_KEY="k-1")

    assert envelope["data"]["results"] == FOUND
    [seen] = server.requests
    match provider:
        case "searxng":
            assert seen.target == "/api/search?q=tea+%26+cake&format=json&pageno=1"
        case "brave":
            assert seen.target == "/api?q=tea+%26+cake&count=2&offset=0"
            assert seen.headers["x-subscription-token"] == "k-1"
        case _:
            assert json.loads(seen.body) == {"query": "tea & cake", "max_results": 2}
            assert seen.headers["authorization"] == "Bearer k-1"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("", "provider: expected searxng, brave, tavily, found ''"),
        ("provider: bing\n", "provider: expected searxng, brave, tavily, found 'bing'"),
        ("provider: searxng\n", "url: expected the address of the provider"),
        ("provider: brave\n", "key_env: expected the name of a variable"),
        ("provider: tavily\nkey_env: NOT_SET\n", "NOT_SET: expected a key in this variable"),
    ],
)
def test_a_provider_that_is_not_set_up_is_reported(
    machine: Machine, settings: str, error: str
) -> None:
    if settings:
        configure(machine.home, "search", settings)

    assert error in call(machine, SEARCH, {"query": "tea"})["error"]


@pytest.mark.heavy
def test_a_project_does_not_choose_the_provider(machine: Machine) -> None:
    with Server(served) as server:
        configure(machine.project, "search", f"provider: searxng\nurl: {server.url}\n")
        envelope = call(machine, SEARCH, {"query": "tea"})

    assert "provider: expected" in envelope["error"]
    assert server.requests == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b"bad key", "status 401: bad key"),
        (302, b"", "status 302"),
        (200, b"<html>", "expected a JSON object"),
        (200, b"[]", "expected a JSON object"),
    ],
)
def test_a_provider_that_does_not_answer_is_reported(
    machine: Machine, status: int, body: bytes, error: str
) -> None:
    with Server(lambda exchange: exchange.answer(status, body, location="/x")) as server:
        configure(machine.home, "search", f"provider: searxng\nurl: {server.url}\n")
        envelope = call(machine, SEARCH, {"query": "tea"})

    assert error in envelope["error"]


@pytest.mark.heavy
def test_an_unknown_person_at_the_provider_is_reported(machine: Machine) -> None:
    configure(machine.home, "search", f"provider: searxng\nurl: http://127.0.0.1:{closed_port()}\n")

    assert "refused" in call(machine, SEARCH, {"query": "tea"})["error"]
