"""Hostile texts that a page shows: of tools, pushes, publishers, labels, names of files.

Nothing of it becomes an element, an attribute or an address of its own, and nothing turns what is
written around it over. That the policy would stop it anyway is another line of defence.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest

from tests.support.node import Node, User
from tests.support.page_contents import AT, Contents
from tests.support.registry import Account, Registry, bundle_body

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)' x='",
    "</pre></code></title></textarea><svg onload=alert(1)>",
    "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
    "[x](javascript:alert(1)) ![x](data:image/svg+xml;base64,PHN2Zz4=) <javascript:alert(1)>",
    "{{ 7 * 7 }}{% include 'node/login.html' %}${7*7}",
    "safe\u202egnp.exe\u2066\x1b[31m",
    "]]><!-- --><style>*{display:none}</style>",
    "&#106;avascript:alert(1) &lt;script&gt;",
    "hx-get=/page/logout hx-trigger=load",
)
TAGS = {
    *("a", "blockquote", "body", "br", "button", "caption", "circle", "code", "dd"),
    *("del", "details", "div", "dl", "dt", "em", "figcaption", "figure", "footer"),
    *("form", "g", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html"),
    *("input", "label", "li", "link", "main", "mark", "meta", "meter", "nav"),
    *("noscript", "ol", "option", "p", "path", "polyline", "pre", "rect", "s"),
    *("script", "section", "select", "span", "strong", "summary", "svg", "table"),
    *("tbody", "td", "text", "th", "thead", "time", "title", "tr", "ul"),
}
SCRIPTS = {f"{place}/files/{name}" for place in ("/page", "/browse") for name in ("page.js",)} | {
    "/page/files/htmx.min.js"
}
LIVE = ("/page/executions", "/page/thread/part")


class Page(HTMLParser):
    """The elements of a page, as a browser makes them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))


def require_harmless(source: str) -> None:
    """Fail unless a page holds only elements of its templates."""
    page = Page(source)
    assert {tag for tag, _ in page.elements} <= TAGS
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        if tag == "script":
            assert attributes.get("src") in SCRIPTS
        for name in ("href", "src", "action", "hx-get"):
            require_own_address(tag, attributes.get(name, "#"), attributes)
        if "hx-get" in attributes:
            assert attributes["hx-get"].startswith(LIVE)
    assert not set(source) & set("\u202e\u2066\x1b\x00")


def require_own_address(tag: str, address: str, attributes: dict[str, str]) -> None:
    """Fail for an address that is neither of this server nor a link of a text to a web page."""
    if address.startswith(("https://", "http://", "mailto:")):
        assert (tag, attributes["rel"]) == ("a", "nofollow noopener noreferrer")
    else:
        assert address[0] in "/#"
        assert not address.startswith("//")


# --- a node ---------------------------------------------------------------------------------------


def pages_of(user: User, *addresses: str) -> Iterator[str]:
    """The pages at these addresses, for a user who is logged in."""
    reply = user.node.ask(
        "POST", "/page/login", urlencode({"key": user.token}).encode(), headers=FORM
    )
    cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}
    for address in addresses:
        found = user.node.ask("GET", address, headers=cookie)
        assert found.status == 200, (address, found.body)
        yield found.body.decode()


def hostile_run(contents: Contents, text: str, **more: object) -> str:
    """A run of which every text is hostile; its id."""
    predicate = {
        "parameters": {"sha256": text, "values": {text: text}},
        "caller": {"kind": text, text: text},
        "chain": [dict.fromkeys(("id", "version", "space", "signer", "sha256"), text), text],
        "rights": {text: [text], "network": text},
        "snapshot": text,
    }
    payload = b64encode(json.dumps({"predicate": predicate}).encode()).decode()
    receipt = {"envelope": {"payload": payload, "signatures": [{"keyid": text}]}}
    answer = {"status": "error", "data": {text: text}, "hint": text, text: text, "receipt": receipt}
    step = {"node": text, "status": text, "error": text, "elapsed_s": 1.0}
    lines = (
        {"event_type": "graph_started", "timestamp": 1.0, "payload": {"graph_id": text}},
        {"event_type": "step_completed", "timestamp": 2.0, "payload": step},
    )
    transcript = "\n".join(json.dumps(one) for one in lines).encode()
    files = {
        ".ai/state/graphs/x/transcript.jsonl": contents.store.put_blob(transcript),
        f".ai/state/{text.replace('/', '_')}": contents.store.put_blob(text.encode()),
    }
    bundle = {
        "schema": 2,
        "kind": "runtime_outputs_bundle",
        "remote_thread_id": text,
        "execution_snapshot_hash": "",
        "files": {path: digest for path, digest in files.items() if path.isprintable()},
    }
    side = contents.store.put_blob(text.encode())
    thread_id = f"run-{text}-{contents.user_id}"
    contents.log(thread_id, text, stream=text[:10])
    contents.thread(
        thread_id,
        state=more.pop("state", "error"),
        item_id=f"tool:{text}",
        project_path=text,
        error_message=text,
        error_phase=text[:40],
        system_version=text,
        warnings=[text],
        cancelled_by=text[:64],
        merge_conflicts={text: {"ours": side, "theirs": side, "base": text, "type": text}},
        result_hash=contents.store.put_object({"kind": "node_result", "result": answer}),
        runtime_outputs_bundle_hash=contents.store.put_object(bundle),
        **more,
    )
    return thread_id


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_tool_or_a_push_gets_out_of_its_place(shared_node: Node, text: str) -> None:
    user = shared_node.user()
    contents = Contents(user)
    thread_id = hostile_run(contents, text, completed_at=AT)
    live = hostile_run(contents, f"{text} live", state="running")
    name = text.replace("\x1b", "")
    first = contents.snapshot(source=text, at=text, files={"a.md": text, name: "x"})
    second = contents.snapshot(
        first,
        source="execution",
        detail=text,
        thread_id=text,
        at=text,
        files={"a.md": f"{text}\n2"},
    )
    contents.head(second, project_path=text)
    path = quote(text)

    for source in pages_of(
        user,
        "/",
        f"/?{urlencode({'q': text, 'item': text, 'project': text, 'state': text[:40]})}",
        f"/page/executions?{urlencode({'q': text})}",
        f"/page/thread?id={quote(thread_id)}",
        f"/page/thread?id={quote(live)}",
        f"/page/project?path={path}",
        f"/page/diff?path={path}&to={second}",
        f"/page/file?path={path}&snapshot={first}&file=a.md",
        f"/page/output?id={quote(thread_id)}&file=.ai/state/graphs/x/transcript.jsonl",
    ):
        require_harmless(source)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_address_that_a_user_made_up_gets_out_of_its_place(shared_node: Node, text: str) -> None:
    for address in ("/page/thread?id=", "/page/project?path=", "/?since=", "/?user="):
        reply = shared_node.ask("GET", f"{address}{quote(text)}")
        require_harmless(reply.body.decode())


def test_no_label_name_or_description_gets_out_of_its_place_on_pages_of_managers(
    shared_node: Node,
) -> None:
    owner = shared_node.owner
    contents = Contents(owner)
    for text in HOSTILE:
        if text.isprintable():
            shared_node.user(name=text)
        project = f"hooks {text}".encode("ascii", "ignore").decode().replace("\x1b", "")
        contents.head(contents.snapshot(), project_path=project)
        body = {"item_id": "tool:a/b", "project_path": project, "description": text}
        assert owner.ask("POST", "/webhook-bindings", body).status == 200
        (page,) = pages_of(owner, f"/page/project?path={quote(project)}")
        require_harmless(page)

        contents.audit(text)

    for source in pages_of(owner, "/page/admin"):
        require_harmless(source)


# --- a registry -----------------------------------------------------------------------------------


def hostile_tool(account: Account, number: int, text: str) -> str:
    """A published tool of which every text is hostile; its id."""
    item_id = f"{account.name}/evil/t{number}"
    schema = {
        "type": "object",
        "properties": {
            text: {"type": "string", "description": text, "default": text, "enum": [text]}
        },
    }
    for version in ("1.0.0", "1.1.0"):
        content = (
            f'__version__ = "{version}"\n__tool_type__ = "python"\n'
            '__executor_id__ = "rye/core/runtimes/python/script"\n'
            f"__category__ = {f'{account.name}/evil'!r}\n__tool_description__ = {text!r}\n"
            f"CONFIG_SCHEMA = {schema!r}\n# {version}\n"
        )
        reply = account.push(item_id, version, content=content, changelog=text)
        assert reply.status == 200, reply.json
    return item_id


@pytest.mark.parametrize(("number", "text"), list(enumerate(HOSTILE)))
def test_no_text_of_a_publisher_gets_out_of_its_place(
    shared_registry: Registry, number: int, text: str
) -> None:
    account = shared_registry.account(with_key=True)
    item_id = hostile_tool(account, number, text)
    name = account.name.replace("tester", "evil")
    readme = {"README.md": f"# {text}\n\n{text}\n\n- {text}\n\n```\n{text}\n```\n"}
    body = bundle_body(account.key, name, readme)
    assert account.ask("POST", "/v1/bundle/push", body).status == 200

    for address in (
        f"/browse?{urlencode({'query': text})}",
        f"/browse?{urlencode({'query': account.name})}",
        f"/browse/item/tool/{item_id}",
        f"/browse/diff/tool/{item_id}?from=1.0.0&to=1.1.0",
        f"/browse/person/{account.name}",
        f"/browse/namespace/{account.name}",
        f"/browse/bundle/{name}",
        f"/browse/bundle/{name}/file?version=1.0.0&file=README.md",
        "/browse/bundles",
    ):
        reply = shared_registry.ask("GET", address)
        assert reply.status == 200, (address, reply.body)
        require_harmless(reply.body.decode())


@pytest.mark.parametrize("text", HOSTILE)
def test_no_address_of_a_registry_gets_out_of_its_place(
    shared_registry: Registry, text: str
) -> None:
    for place in ("item/tool/a/b/", "bundle/", "person/", "namespace/", "diff/tool/a/b/"):
        reply = shared_registry.ask("GET", f"/browse/{place}{quote(text, safe='')}?from=1.0.0&to=x")
        assert reply.status == 404
        require_harmless(reply.body.decode())
