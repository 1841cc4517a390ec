import re
from html import unescape
from urllib.parse import urlencode

import pytest

from rye_services.people.credentials import ApiKeys
from rye_services.storage.database import Database
from tests.support.node import Node, Reply, User
from tests.support.page_contents import PROJECT, THREAD, Contents

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}


def posted(node: Node, path: str, fields: dict[str, str], **headers: str) -> Reply:
    return node.ask("POST", path, urlencode(fields).encode(), headers={**FORM, **headers})


def logged_in(user: User) -> dict[str, str]:
    """The header of a user who logged in."""
    reply = posted(user.node, "/page/login", {"key": user.token})
    assert reply.status == 303, reply.body
    return {"Cookie": reply.headers["set-cookie"].partition(";")[0]}


def token_in(page: bytes) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page.decode())
    assert found is not None
    return found[1]


def test_a_visitor_without_a_session_sees_only_the_login(shared_node: Node) -> None:
    first = shared_node.ask("GET", "/")

    assert first.status == 200
    assert b'type="password"' in first.body
    assert shared_node.keys.node_id.encode() not in first.body
    for path in ("/page/executions", f"/page/project?path={PROJECT}", f"/page/thread?id={THREAD}"):
        assert shared_node.ask("GET", path).status == 401


def test_a_login_sets_a_cookie_hidden_from_scripts_and_other_sites(
    shared_node: Node,
) -> None:
    user = shared_node.user()

    reply = posted(shared_node, "/page/login", {"key": user.token})

    assert (reply.status, reply.headers["location"]) == (303, "/")
    value, *attributes = reply.headers["set-cookie"].split("; ")
    assert {each.lower() for each in attributes} >= {"httponly", "samesite=strict", "path=/"}
    assert user.token not in value
    assert (
        shared_node.keys.node_id.encode()
        in shared_node.ask("GET", "/", headers=logged_in(user)).body
    )


def test_behind_a_tls_proxy_the_cookie_is_secure(shared_node: Node) -> None:
    reply = posted(
        shared_node,
        "/page/login",
        {"key": shared_node.user().token},
        **{"X-Forwarded-Proto": "https"},
    )

    assert "; Secure" in reply.headers["set-cookie"]


@pytest.mark.parametrize("key", ["", "rye_sk_" + "x" * 43, "no key at all", "\N{SNOWMAN}" * 500])
def test_a_wrong_key_is_reported(shared_node: Node, key: str) -> None:
    reply = posted(shared_node, "/page/login", {"key": key})

    assert reply.status == 401
    assert b'role="alert"' in reply.body
    assert "set-cookie" not in reply.headers


def test_a_refused_login_names_the_missing_scope(shared_node: Node) -> None:
    user = shared_node.user(scopes=("remote:push",))

    reply = posted(shared_node, "/page/login", {"key": user.token})

    assert reply.status == 403
    assert b"remote:threads" in reply.body


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"}],
)
def test_a_form_of_another_site_does_not_log_in(shared_node: Node, headers: dict[str, str]) -> None:
    reply = posted(shared_node, "/page/login", {"key": shared_node.user().token}, **headers)

    assert reply.status == 403
    assert "set-cookie" not in reply.headers


def test_the_origin_header_decides_where_sec_fetch_site_is_missing(shared_node: Node) -> None:
    fields = urlencode({"key": shared_node.user().token}).encode()
    form = {"Content-Type": FORM["Content-Type"]}

    foreign = shared_node.ask(
        "POST", "/page/login", fields, headers={**form, "Origin": "http://evil.example"}
    )
    own = shared_node.ask(
        "POST", "/page/login", fields, headers={**form, "Origin": shared_node.url}
    )

    assert (foreign.status, own.status) == (403, 303)


def test_logging_out_needs_the_token_of_the_page(shared_node: Node) -> None:
    cookie = logged_in(shared_node.user())
    token = token_in(shared_node.ask("GET", "/", headers=cookie).body)

    refused = posted(shared_node, "/page/logout", {"token": "another"}, **cookie)
    ended = posted(shared_node, "/page/logout", {"token": token}, **cookie)

    assert refused.status == 403
    assert ended.status == 303
    assert 'rye_session=""' in ended.headers["set-cookie"]


@pytest.mark.heavy
def test_an_ended_session_stays_ended_after_a_restart(node: Node) -> None:
    user = node.user()
    left, kept = logged_in(user), logged_in(user)
    token = token_in(node.ask("GET", "/", headers=left).body)

    posted(node, "/page/logout", {"token": token}, **left)
    before = [node.ask("GET", "/page/executions", headers=each).status for each in (left, kept)]
    node.end()
    node.start()
    after = [node.ask("GET", "/page/executions", headers=each).status for each in (left, kept)]

    assert before == [401, 200], "only the one that was logged out of"
    assert after == [401, 200]


def test_a_revoked_key_ends_its_sessions(shared_node: Node) -> None:
    user = shared_node.user()
    cookie = logged_in(user)
    database = Database(shared_node.settings.database_url)
    keys = ApiKeys(database)
    (key,) = (each for each in keys.all() if each.user_id == user.user_id)

    keys.revoke(key.id)
    database.close()

    assert shared_node.ask("GET", "/page/executions", headers=cookie).status == 401


def test_a_forged_cookie_opens_no_session(shared_node: Node) -> None:
    cookie = logged_in(shared_node.user())["Cookie"]

    for forged in (cookie[:-1] + ("A" if cookie[-1] != "A" else "B"), "rye_session=v1.e30.x"):
        reply = shared_node.ask("GET", "/page/executions", headers={"Cookie": forged})
        assert reply.status == 401


def test_a_user_sees_their_projects_history_executions_and_conflicts(shared_node: Node) -> None:
    user = shared_node.user()
    cookie = logged_in(user)
    contents = Contents(user)
    contents.merged_history()
    sides = {
        "base": contents.item("soil\n"),
        "ours": contents.item("soil\nseeds\n"),
        "theirs": contents.item("soil\nwater\n"),
        "type": "content",
    }
    contents.thread(
        f"{THREAD}-{user.user_id}",
        state="completed",
        merge_conflicts={".ai/knowledge/garden/plan.md": sides},
        merge_type="conflict",
    )

    home = shared_node.ask("GET", "/", headers=cookie).body.decode()
    history = shared_node.ask("GET", f"/page/project?path={PROJECT}", headers=cookie).body.decode()
    thread = shared_node.ask(
        "GET", f"/page/thread?id={THREAD}-{user.user_id}", headers=cookie
    ).body.decode()

    assert "1 conflict" in home
    assert PROJECT in home
    assert history.count("<circle") == 4
    assert "run of tool:garden/water" in history
    assert "<mark>seeds\n</mark>" in thread
    assert "<mark>water\n</mark>" in thread


def test_a_missing_page_and_one_of_another_user_are_not_found(shared_node: Node) -> None:
    owner, other = shared_node.user(), shared_node.user()
    Contents(owner).thread(f"{THREAD}-{owner.user_id}")
    Contents(owner).merged_history()
    cookie = logged_in(other)

    for path in (f"/page/thread?id={THREAD}-{owner.user_id}", f"/page/project?path={PROJECT}"):
        assert shared_node.ask("GET", path, headers=cookie).status == 404


def test_a_side_of_a_conflict_that_cannot_be_shown_says_why(shared_node: Node) -> None:
    user = shared_node.user()
    contents = Contents(user)
    binary, large = contents.store.put_blob(b"\x00\xff"), contents.store.put_blob(b"x" * 200_001)
    thread_id = f"{THREAD}-{user.user_id}"
    conflicts = {
        "a.bin": {"base": None, "ours": binary, "theirs": large, "type": "add/add"},
        "gone.txt": {"base": "f" * 64, "ours": None, "theirs": "../../x", "type": "delete/modify"},
    }
    contents.thread(thread_id, merge_conflicts=conflicts)

    page = shared_node.ask("GET", f"/page/thread?id={thread_id}", headers=logged_in(user))

    for words in ("not text", "too long to show", "no longer in the store", "not there"):
        assert words in page.body.decode()


def test_lists_and_pages_are_limited_for_any_rows(shared_node: Node) -> None:
    user = shared_node.user()
    contents = Contents(user)
    side = contents.store.put_blob(b"y" * 190_000)
    one = {"base": side, "ours": side, "theirs": side, "type": "modify/modify"}
    thread_id, error = f"{THREAD}-{user.user_id}", "x" * 3_000_000
    conflicts = {f"{number:04}.txt": one for number in range(100)}
    contents.thread(thread_id, state="error", error_message=error, merge_conflicts=conflicts)
    cookie = logged_in(user)

    listed = user.ask("GET", "/threads")
    (row,) = listed.json["threads"]
    whole = user.ask("GET", f"/threads/{thread_id}").json

    assert len(listed.body) < 8_000
    assert row["error_message"] == "x" * 999 + "…"
    assert list(row["merge_conflicts"]) == sorted(conflicts)[: len(row["merge_conflicts"])]
    assert 0 < len(row["merge_conflicts"]) < 100
    assert (whole["error_message"], whole["merge_conflicts"]) == (error, conflicts)
    for path, most in (("/", 20_000), (f"/page/thread?id={thread_id}", 6_000_000)):
        page = shared_node.ask("GET", path, headers=cookie)
        assert page.status == 200
        assert len(page.body) < most


def test_pages_have_the_content_policy_and_are_not_cached(shared_node: Node) -> None:
    for path in ("/", "/docs", "/page/project", "/page/nothing", "/page/files/nothing"):
        headers = shared_node.ask("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"


def test_the_files_of_the_page_have_their_types(shared_node: Node) -> None:
    for name, kind in (
        ("style.css", "text/css; charset=utf-8"),
        ("page.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ):
        reply = shared_node.ask("GET", f"/page/files/{name}")
        assert (reply.status, reply.headers["content-type"]) == (200, kind)
    assert shared_node.ask("GET", "/page/files/..%2fshell.py").status == 404


def test_the_api_page_lists_every_route_of_the_document(shared_node: Node) -> None:
    document = shared_node.ask("GET", "/openapi.json").json
    page = shared_node.ask("GET", "/docs").body.decode()

    missing = [
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if f"{method.upper()} {path}" not in page
    ]
    assert missing == []
    assert "<code>/mcp</code>" in page
    assert "cdn" not in page


def test_each_route_has_a_page_with_the_schemas_of_its_body_and_answers(shared_node: Node) -> None:
    page = shared_node.ask("GET", "/docs?route=POST%20/execute").body.decode()
    missing = shared_node.ask("GET", "/docs?route=GET%20/nothing")

    words = unescape(re.sub(r"<[^>]+>", "", page))
    assert "Answer 200" in words
    assert '"secret_envelope"' in words
    assert "$ref" not in words
    assert '"item_id": "tool:me/build"' in words
    assert 'data-try="POST" data-path="/execute"' in page
    assert missing.status == 404
