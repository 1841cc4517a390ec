"""The pages of a node about real runs, and the changes by their forms."""

import os
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from random import Random
from time import perf_counter
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from sqlalchemy import select

from lillux.store_layout import ObjectKind
from rye_services.node.pages import routes
from rye_services.node.storage import AcceptedLosses
from rye_services.node.store.objects import UserStores
from rye_services.storage.database import Database, threads
from rye_services.web import page
from ryeos.items.context import utc_now
from tests.support.endings import wait_until
from tests.support.node import Node, Reply, User
from tests.support.page_contents import AT, PROJECT, THREAD, Contents
from tests.support.remote_projects import ECHO, FUNCTION, RemoteProject
from tests.support.workspace import Workspace

posix = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: ""
description: test graph
permissions: ["rye.*"]
config:
  start: first
  nodes:
    first:
      action: {item_id: "tool:echo", params: {text: hello}}
      assign: {said: "${result.said}"}
      next: second
    second:
      action: {item_id: "tool:echo", params: {text: again}}
      assign: {said: "${result.said}"}
"""


class Visitor:
    """A user who is logged in."""

    def __init__(self, user: User) -> None:
        self.user = user
        body = urlencode({"key": user.token}).encode()
        reply = user.node.ask("POST", "/page/login", body, headers=FORM)
        self.cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}

    def ask(self, address: str) -> Reply:
        """Go to an address."""
        return self.user.node.ask("GET", address, headers=self.cookie)

    def source(self, address: str) -> str:
        """The page at an address."""
        reply = self.ask(address)
        assert reply.status == 200, reply.body
        return reply.body.decode()

    def read(self, address: str) -> str:
        """The words of a page."""
        return words_of(self.source(address))

    @property
    def token(self) -> str:
        """The token in the forms of this session."""
        found = re.search(r'name="token" value="([^"]+)"', self.source("/"))
        assert found is not None
        return found[1]

    def send(
        self,
        address: str,
        fields: Mapping[str, str],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Reply:
        """Send a form of a page."""
        sent = urlencode({"token": self.token, **fields}).encode()
        return self.user.node.ask("POST", address, sent, headers={**FORM, **self.cookie, **headers})


def words_of(source: str) -> str:
    without_inline = re.sub(r"</?(?:a|code|em|mark|span|strong)\b[^>]*>", "", source)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without_inline)).split())


def run_page(thread_id: str) -> str:
    return f"/page/thread?id={quote(thread_id)}"


@pytest.fixture
def project(workspace: Workspace, shared_node: Node) -> RemoteProject:
    return RemoteProject.with_tools(workspace, shared_node.user())


@pytest.fixture
def visitor(project: RemoteProject) -> Visitor:
    return Visitor(project.user)


# --- a run ----------------------------------------------------------------------------------------


@posix
def test_the_page_of_a_run_shows_its_answer_its_changes_and_its_receipt(
    project: RemoteProject, visitor: Visitor
) -> None:
    head = project.head
    answer = project.execute("tool:write", parameters={"path": "src/x.txt", "text": "one\nnew\n"})

    page = visitor.read(run_page(answer["thread_id"]))

    assert '"written": "src/x.txt"' in page
    assert "changed src/x.txt" in page
    assert "-two" in page
    assert "+new" in page
    assert f"From {str(head)[:12]} to {answer['snapshot_hash'][:12]}" in page
    assert '"text": "one\\nnew\\n"' in page  # its parameters
    assert f"user {project.user.user_id}" in page.replace("caller: ", "")
    assert "What ran, as the receipt says" in page
    assert f"rye remote pull --thread {answer['thread_id']}" in page


@posix
def test_a_run_that_failed_shows_its_error(project: RemoteProject, visitor: Visitor) -> None:
    reply = project.script("echo went wrong >&2; exit 3")

    page = visitor.read(run_page(reply.json["thread_id"]))

    assert "error in" in page
    assert "went wrong" in page


@posix
def test_a_graph_shows_its_steps_over_time_and_its_outputs(
    project: RemoteProject, visitor: Visitor
) -> None:
    project.workspace.project.signed("tools/g.yaml", GRAPH)
    project.push()
    answer = project.execute("tool:g")

    source = visitor.source(run_page(answer["thread_id"]))
    link = unescape(re.findall(r'href="(/page/output[^"]+transcript[^"]+)"', source)[0])

    assert source.count("<rect") == 2
    assert re.search(r"<title>first: \d\.\d+ s, completed ?</title>", source)
    assert "graph_started" in visitor.read(link)


@posix
def test_a_run_of_a_graph_shows_its_picture_and_what_each_step_called_and_gave(
    project: RemoteProject, visitor: Visitor
) -> None:
    failing = GRAPH + '      next: third\n    third:\n      action: {item_id: "tool:none"}\n'
    project.workspace.project.signed("tools/g.yaml", failing)
    project.push()
    thread_id = project.ask("tool:g").json["thread_id"]

    source = visitor.source(run_page(thread_id))
    picture = visitor.ask(f"/page/thread/picture?id={quote(thread_id)}")
    words = words_of(source)

    assert f'src="/page/thread/picture?id={quote(thread_id, safe="")}"' in source
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.body.startswith(b"<svg")
    assert b"third" in picture.body
    assert 'tool:echo { "text": "hello" }' in words
    assert '"said": "again"' in words
    stranger = Visitor(project.user.node.user())
    assert stranger.ask(f"/page/thread/picture?id={quote(thread_id)}").status == 404


@posix
def test_the_page_of_a_graph_shows_of_each_step_what_its_own_tool_printed(
    project: RemoteProject, visitor: Visitor
) -> None:
    says = "import sys\n\ndef execute(params, project_path):\n"
    says += "    print('looked at', params['text'])\n"
    says += "    print('<b>rest</b>', params['text'], 'sword-fish', file=sys.stderr)\n"
    says += "    return {'said': params['text']}\n"
    project.workspace.project.signed_tool("echo", says, executor=FUNCTION)
    project.workspace.project.signed("tools/g.yaml", GRAPH)
    project.push()
    secret = {"secrets": [{"name": "FISH", "value": "sword-fish"}]}
    assert project.user.ask("POST", "/secrets", secret).status == 200
    thread_id = project.execute("tool:g")["thread_id"]

    source = visitor.source(run_page(thread_id))
    first, second = re.findall(r'aria-label="Log of \w+">([^<]*)</pre>', source)

    assert "looked at hello" in unescape(first)
    assert "<b>rest</b> hello ***" in unescape(first)
    assert "again" not in first
    assert "looked at again" in unescape(second)


@posix
def test_a_run_of_another_item_has_no_picture(project: RemoteProject, visitor: Visitor) -> None:
    thread_id = project.execute("tool:echo")["thread_id"]

    assert "/page/thread/picture" not in visitor.source(run_page(thread_id))
    assert visitor.ask(f"/page/thread/picture?id={quote(thread_id)}").status == 404


@posix
def test_a_run_whose_parameters_are_known_is_run_again(
    project: RemoteProject, visitor: Visitor
) -> None:
    first = project.execute("tool:echo", parameters={"text": "again"})["thread_id"]
    assert "Run again" in visitor.read(run_page(first))

    reply = visitor.send("/page/thread/retry", {"id": first})

    assert reply.status == 303
    second = unescape(reply.headers["location"]).partition("id=")[2].replace("%3A", ":")
    assert second != first
    row = project.ended(second)
    assert (row["item_id"], row["state"]) == ("tool:echo", "completed")
    assert row["parameters"] == {"text": "again"}
    assert row["result"]["data"] == {"said": "again"}


@posix
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"text": "x", "pin": "4711"}, "Not kept, as they are secret: pin."),  # says its schema
        ({"text": "x", "api_key": "4711"}, "Not kept, as they are secret: api_key."),
        ({"text": "sword-fish"}, "Not kept, as they are secret: text."),  # it is in the vault
        ({"text": "x" * 17_000}, "larger than 16 KiB together"),
    ],
)
def test_a_run_with_incomplete_parameters_is_not_repeated(
    project: RemoteProject, visitor: Visitor, parameters: dict[str, str], words: str
) -> None:
    schema = {"properties": {"pin": {"type": "string", "writeOnly": True}}}
    source = f"CONFIG_SCHEMA = {schema!r}\n{ECHO}"
    project.workspace.project.signed_tool("guarded", source, executor=FUNCTION)
    project.push()
    secret = {"secrets": [{"name": "FISH", "value": "sword-fish"}]}
    assert project.user.ask("POST", "/secrets", secret).status == 200
    thread_id = project.execute("tool:guarded", parameters=parameters)["thread_id"]

    page = visitor.read(run_page(thread_id))
    reply = visitor.send("/page/thread/retry", {"id": thread_id})

    assert words in page
    assert not {"4711", "sword-fish"} & set(re.findall(r"[\w-]+", page))
    assert reply.status == 409
    assert "not all it was given is kept" in words_of(reply.body.decode())
    assert len(project.user.ask("GET", "/threads").json["threads"]) == 1


@posix
def test_the_database_has_no_secret_parameter_of_a_run_that_ended(
    project: RemoteProject,
) -> None:
    given = {"text": "x", "password": "four-seven-eleven"}
    row = project.ended(
        project.ask("tool:echo", parameters=given, **{"async": True}).json["thread_id"]
    )

    assert (row["parameters"], row["parameters_left_out"]) == ({"text": "x"}, ["password"])
    database = Database(project.user.node.settings.database_url)
    with database.reading() as connection:
        query = select(threads).where(threads.c.thread_id == row["thread_id"])
        kept = repr(connection.execute(query).all())
    database.close()
    assert "four-seven-eleven" not in kept


@posix
def test_a_run_with_sealed_secrets_is_not_repeated(
    project: RemoteProject, visitor: Visitor
) -> None:
    thread_id = project.script("true").json["thread_id"]

    assert "Run again" not in visitor.read(run_page(thread_id))
    assert visitor.send("/page/thread/retry", {"id": thread_id}).status == 409


@posix
def test_a_run_is_repeated_with_the_secrets_of_the_vault_that_it_had(
    project: RemoteProject, visitor: Visitor
) -> None:
    secrets = [{"name": "SCRIPT", "value": "true"}, {"name": "OTHER", "value": "other-value"}]
    assert project.user.ask("POST", "/secrets", {"secrets": secrets}).status == 200
    first = project.execute("tool:sh", vault_keys=["SCRIPT"])["thread_id"]
    assert "these secrets of your vault: SCRIPT" in visitor.read(run_page(first))

    location = visitor.send("/page/thread/retry", {"id": first}).headers["location"]

    second = unescape(location).partition("id=")[2].replace("%3A", ":")
    assert project.ended(second)["state"] == "completed"
    assert "these secrets of your vault: SCRIPT" in visitor.read(run_page(second))


@posix
def test_a_run_is_cancelled_on_its_page_and_shows_its_output(
    project: RemoteProject, visitor: Visitor
) -> None:
    thread_id = project.begun("echo '<b>begun</b>'; echo oh >&2")
    wait_until(lambda: "<b>begun</b>" in visitor.read(run_page(thread_id)))
    assert '<span class="bad">oh\n</span>' in visitor.source(run_page(thread_id))

    other = Visitor(project.user.node.user()).send("/page/thread/cancel", {"id": thread_id})
    reply = visitor.send("/page/thread/cancel", {"id": thread_id})
    project.ended(thread_id)

    assert (other.status, reply.status) == (404, 303)
    page = visitor.read(run_page(thread_id))
    assert f"cancelled by {project.user.user_id}" in page
    assert "<b>begun</b>" in page
    assert 'action="/page/thread/cancel"' not in visitor.source(run_page(thread_id))


@posix
def test_the_page_of_a_run_refreshes_itself_until_the_run_has_ended(
    project: RemoteProject, visitor: Visitor
) -> None:
    thread_id = project.begun("true")

    while_it_runs = visitor.source(run_page(thread_id))
    project.release()
    project.ended(thread_id)
    afterwards = visitor.source(run_page(thread_id))

    assert "hx-get" in while_it_runs
    assert "htmx.min.js" in while_it_runs
    assert "hx-get" not in afterwards
    assert "htmx.min.js" not in afterwards


# --- a project ------------------------------------------------------------------------------------


@posix
def test_a_project_shows_the_files_and_the_changes_of_each_snapshot(
    project: RemoteProject, visitor: Visitor
) -> None:
    first = str(project.head)
    project.execute("tool:write", parameters={"path": "src/new.txt", "text": "fresh\n"})

    now = visitor.source(f"/page/project?path={project.name}&folder=src")
    then = visitor.source(f"/page/project?path={project.name}&folder=src&snapshot={first}")
    file = unescape(re.findall(r'href="(/page/file[^"]+new\.txt)"', now)[0])
    diff = unescape(re.findall(r'href="(/page/diff[^"]+)"', now)[0])

    assert ">new.txt</a>" in now
    assert ">new.txt</a>" not in then
    assert "run of tool:write: src/new.txt" in words_of(now)
    assert "fresh" in visitor.read(file)
    assert "added src/new.txt" in visitor.read(diff)


def test_any_two_snapshots_are_compared(shared_node: Node) -> None:
    user = shared_node.user()
    contents, visitor = Contents(user), Visitor(user)
    first = contents.snapshot(files={"a.txt": "one\n", "gone.txt": "x\n"})
    second = contents.snapshot(first, files={"a.txt": "two\n"})
    third = contents.snapshot(second, files={"a.txt": "three\n", "b\0.txt": "y\n"})
    contents.head(third)

    page = visitor.read(f"/page/diff?path={PROJECT}&from={first}&to={third}")

    assert "changed a.txt" in page
    assert "-one" in page
    assert "+three" in page
    assert "removed gone.txt" in page
    for begin, to in ((first, "f" * 64), ("f" * 64, third), ("../x", third)):
        assert visitor.ask(f"/page/diff?path={PROJECT}&from={begin}&to={to}").status == 404


def test_files_that_are_slow_to_compare_are_given_up(shared_node: Node) -> None:
    user = shared_node.user()
    contents, visitor = Contents(user), Visitor(user)
    chance = Random(1)  # noqa: S311 - not for secrets
    before, after = ("".join(chance.choices(["a\n", "b\n"], k=2_000)) for _ in range(2))
    first = contents.snapshot(files={f"{number:03}.txt": before for number in range(100)})
    second = contents.snapshot(first, files={f"{number:03}.txt": after for number in range(100)})

    began_s = perf_counter()
    page = visitor.read(f"/page/diff?path={PROJECT}&to={second}")

    assert perf_counter() - began_s < 15
    assert "changed 099.txt too many changes to compare" in page


def test_a_snapshot_of_another_user_is_not_found(shared_node: Node) -> None:
    owner, other = shared_node.user(), Visitor(shared_node.user())
    snapshot = Contents(owner).snapshot(files={"a.txt": "secret\n"})
    Contents(other.user).head(Contents(other.user).snapshot())

    for address in (
        f"/page/diff?path={PROJECT}&to={snapshot}",
        f"/page/file?path={PROJECT}&snapshot={snapshot}&file=a.txt",
        f"/page/project?path={PROJECT}&snapshot={snapshot}",
    ):
        assert other.ask(address).status == 404


def test_webhooks_are_listed_and_revoked_by_their_owner(shared_node: Node) -> None:
    owner = shared_node.user()
    Contents(owner).head(Contents(owner).snapshot())
    body = {"item_id": "tool:a/b", "project_path": PROJECT, "description": "from <b>CI</b>"}
    hook_id = owner.ask("POST", "/webhook-bindings", body).json["hook_id"]
    visitor = Visitor(owner)
    address = f"/page/project?path={PROJECT}"
    assert "tool:a/b from <b>CI</b>" in visitor.read(address)

    reply = visitor.send("/page/webhooks/revoke", {"hook_id": hook_id, "path": PROJECT})

    assert (reply.status, reply.headers["location"]) == (303, address)
    assert hook_id not in visitor.read(address)
    again = visitor.send("/page/webhooks/revoke", {"hook_id": hook_id, "path": PROJECT})
    assert again.status == 404


# --- forms ----------------------------------------------------------------------------------------

CHANGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("/page/thread/retry", {"id": "x"}),
    ("/page/thread/cancel", {"id": "x"}),
    ("/page/webhooks/revoke", {"hook_id": "x"}),
    ("/page/start", {"path": "x", "item": "tool:x"}),
    ("/page/secrets/set", {"name": "X", "value": "x"}),
    ("/page/secrets/delete", {"name": "x"}),
    ("/page/admin/collect", {}),
    ("/page/admin/keys/revoke", {"fingerprint": "x"}),
    ("/page/admin/api-keys/revoke", {"id": "x"}),
)


@pytest.mark.parametrize(("address", "fields"), CHANGES)
def test_a_form_needs_session_token_origin_and_scope(
    shared_node: Node, address: str, fields: dict[str, str]
) -> None:
    visitor, reader = (
        Visitor(shared_node.owner),
        Visitor(shared_node.user(scopes=("remote:threads",))),
    )
    body = urlencode({**fields, "token": visitor.token}).encode()

    assert shared_node.ask("POST", address, body, headers=FORM).status == 401
    assert visitor.send(address, {**fields, "token": "another"}).status == 403
    foreign = visitor.send(address, fields, {"Sec-Fetch-Site": "cross-site"})
    assert foreign.status == 403
    lacking = reader.send(address, fields)
    assert lacking.status == 403
    assert "lacks the scope" in words_of(lacking.body.decode())
    assert visitor.ask(address).status in {404, 405}


def changing_routes() -> set[str]:
    """The addresses of all forms of pages, but for the one that begins a session."""
    folder = Path(routes.__file__).parent
    text = "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))
    names = re.findall(r"routes\.post\((\w+)\)", text)
    return {getattr(page, name) for name in names} - {page.LOGIN}


def test_every_form_of_a_session_needs_its_token_and_no_other_site(shared_node: Node) -> None:
    visitor = Visitor(shared_node.owner)
    token = visitor.token
    foreign: list[tuple[str, dict[str, str]]] = [
        ("", {}),  # a program that says nothing of a site has to have the token as well
        ("another", {"Sec-Fetch-Site": "same-origin"}),
        (token, {"Origin": "null"}),
        (token, {"Origin": "https://evil.example"}),
        (token, {"Sec-Fetch-Site": "same-site"}),
        (token, {"Sec-Fetch-Site": "cross-site", "Origin": shared_node.url}),
    ]
    addresses = changing_routes()
    assert {page.SET_SECRET, page.LOGOUT, page.DEVICE, page.CHANGE_TEAMS} <= addresses

    for address in sorted(addresses):
        for sent, headers in foreign:
            fields = {"token": sent, "name": "FISH", "value": "x"}
            sender = {"Content-Type": FORM["Content-Type"], **visitor.cookie, **headers}
            reply = shared_node.ask("POST", address, urlencode(fields).encode(), headers=sender)
            assert reply.status == 403, (address, headers)
            assert b"did not come from a page of this node" in reply.body


# --- lists ----------------------------------------------------------------------------------------


@pytest.fixture
def listed(shared_node: Node) -> Visitor:
    """A user with some runs of different kinds."""
    user = shared_node.user()
    contents = Contents(user)
    for number, (state, item, at) in enumerate(
        [
            ("completed", "tool:garden/water", "2026-11-20T12:00:00.000000+00:00"),
            ("completed", "tool:garden/weed", "2026-11-21T12:00:00.000000+00:00"),
            ("error", "tool:garden/weed", "2026-11-22T12:00:00.000000+00:00"),
        ]
    ):
        contents.thread(
            f"{THREAD}-{user.user_id}-{number}",
            state=state,
            item_id=item,
            created_at=at,
            completed_at=at,
            project_path="100% garden" if number == 0 else PROJECT,
            error_message="no_hoe" if state == "error" else None,
        )
    contents.thread(f"{THREAD}-{user.user_id}-w", item_id="tool:garden/wait", started_at=None)
    return Visitor(user)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, {"water", "weed", "wait"}),
        ({"state": "completed"}, {"water", "weed"}),
        ({"state": "error"}, {"weed"}),
        ({"state": "waiting"}, {"wait"}),
        ({"item": "tool:garden/water"}, {"water"}),
        ({"project": "100% garden"}, {"water"}),
        ({"q": "0% g"}, {"water"}),
        ({"q": "o_h"}, {"weed"}),
        ({"q": "oxh"}, set()),
        ({"q": "WEED"}, {"weed"}),
        ({"since": "2026-11-22"}, {"weed"}),
        ({"until": "2026-11-20"}, {"water"}),
        ({"since": "2026-11-21", "until": "2026-11-21"}, {"weed", "wait"}),
        ({"state": "nothing'; --"}, set()),
    ],
)
def test_a_list_is_filtered_by_its_address(
    listed: Visitor, query: dict[str, str], found: set[str]
) -> None:
    page = listed.source(f"/page/executions?{urlencode(query)}")

    assert set(re.findall(r">tool:garden/(\w+)</a>", page)) == found


def test_pages_of_a_list_keep_its_filter(listed: Visitor) -> None:
    first = listed.source("/?item=tool%3Agarden%2Fweed&size=1")
    older = unescape(re.findall(r'rel="next" href="([^"]+)"', first)[0])
    second = listed.source(older)

    assert ("error" in first, "no_hoe" in first) == (True, True)
    assert "2 runs, page 2 of 2" in words_of(second)
    assert "no_hoe" not in second
    assert 'rel="next"' not in second


def test_a_day_that_does_not_exist_is_reported(listed: Visitor) -> None:
    reply = listed.ask("/?since=2026-02-31")

    assert reply.status == 400
    assert "since: expected a day like 2026-11-21, found '2026-02-31'" in words_of(
        reply.body.decode()
    )


def test_texts_that_a_database_cannot_store_are_refused(listed: Visitor) -> None:
    for address in ("/?q=a%00b", "/page/thread?id=%00", "/page/project?path=%00"):
        assert listed.ask(address).status == 400


def test_the_home_page_counts_successful_and_waiting_runs(shared_node: Node) -> None:
    user = shared_node.user()
    contents, now = Contents(user), utc_now().isoformat()
    for number, state in enumerate(["completed", "completed", "error"]):
        thread_id = f"{THREAD}-{user.user_id}-{number}"
        contents.thread(thread_id, state=state, created_at=now, completed_at=now)
    contents.thread(f"{THREAD}-{user.user_id}-w", created_at=now, started_at=None)

    page = Visitor(user).source("/")

    assert "67 % of 3 runs in 30 days succeeded" in words_of(page)
    assert "1 waiting, " in words_of(page)
    assert page.count('<svg class="spark"') == 2
    assert "last 24 hours: at most 4" in page


def test_a_manager_sees_runs_of_others_without_their_results(
    shared_node: Node,
) -> None:
    user = shared_node.user()
    thread_id = f"{THREAD}-{user.user_id}"
    Contents(user).thread(thread_id, state="error", completed_at=AT, error_message="their secret")

    refused = Visitor(shared_node.user()).ask(f"/?user={user.user_id}")
    page = Visitor(shared_node.owner).source(f"/?user={user.user_id}")

    assert refused.status == 403
    assert "tool:garden/water" in page
    assert "their secret" not in page
    assert thread_id not in page
    assert Visitor(shared_node.owner).ask(run_page(thread_id)).status == 404


# --- admin ----------------------------------------------------------------------------------------


def test_a_manager_sees_users_keys_and_current_runs(shared_node: Node) -> None:
    user = shared_node.user()
    Contents(user).thread(f"{THREAD}-{user.user_id}", item_id="tool:garden/long")

    page = Visitor(shared_node.owner).read("/page/admin")

    assert f"running {user.user_id} tool:garden/long" in page
    assert f"fp:{user.user_id} a test's remote:*" in page
    assert page.count(user.user_id) >= 4
    assert Visitor(user).ask("/page/admin").status == 403


def test_a_manager_revokes_keys(shared_node: Node) -> None:
    manager, user = Visitor(shared_node.owner), shared_node.user()
    key_id = re.findall(
        rf'{user.user_id}</code>(?:.|\n)*?name="id" value="(\w+)"',
        manager.source("/page/admin").partition('id="api-keys"')[2],
    )[0]

    assert manager.send("/page/admin/keys/revoke", {"fingerprint": user.user_id}).status == 303
    assert manager.send("/page/admin/api-keys/revoke", {"id": key_id}).status == 303

    assert user.ask("GET", "/threads").status == 401
    assert shared_node.ask("GET", "/threads", headers=user.bearer).status == 401
    assert manager.send("/page/admin/keys/revoke", {"fingerprint": user.user_id}).status == 404


def test_a_page_does_not_revoke_the_last_managing_key(node: Node) -> None:
    reply = Visitor(node.owner).send("/page/admin/keys/revoke", {"fingerprint": node.owner.user_id})

    assert reply.status == 409
    assert "the last one that may manage keys" in words_of(reply.body.decode())


def test_a_history_shows_an_accepted_loss_and_its_date(
    project: RemoteProject, visitor: Visitor
) -> None:
    settings, oldest = project.user.node.settings, project.head
    project.write("src/x.txt", "2\n")
    lost = project.push()
    project.write("src/x.txt", "3\n")
    newest = project.push()
    UserStores(settings.cas_base_path).of(project.user.user_id).remove(ObjectKind.OBJECT, lost)

    def history() -> Any:  # noqa: ANN401 - JSON
        return project.user.ask("GET", f"/history?project_path={project.name}").json

    before, address = history(), f"/page/project?path={project.name}"
    page = visitor.read(address)
    database = Database(settings.database_url)
    AcceptedLosses(database).accept(project.user.user_id, [(lost, "object", "a test")])
    database.close()

    assert [one["_hash"] for one in before["snapshots"]] == [newest]
    assert before["lost"] == {"hash": lost, "accepted_at": None}
    assert f"History ends here: snapshot {lost[:12]} is lost" in page
    assert history()["lost"]["accepted_at"] > utc_now().isoformat()[:10]
    assert "The operator of this node accepted that" in visitor.read(address)
    for kind in ("project?", "diff?to=", "file?file=src/x.txt&"):
        part = f"{kind}{lost}" if kind.endswith("=") else f"{kind}snapshot={lost}"
        gone = visitor.ask(f"/page/{part}&path={project.name}")
        assert (gone.status, f"Snapshot {lost[:12]} was lost" in gone.body.decode()) == (410, True)
    assert oldest is not None
    assert visitor.ask(f"{address}&snapshot={oldest}").status == 200
    assert visitor.ask(f"{address}&snapshot={'a' * 64}").status == 404


def test_garbage_is_removed_and_counted(shared_node: Node) -> None:
    user = shared_node.user()
    Contents(user).snapshot()

    reply = Visitor(shared_node.owner).send("/page/admin/collect", {})

    assert reply.status == 200
    assert f"{user.user_id} done 0" in words_of(reply.body.decode())


# --- speed ----------------------------------------------------------------------------------------


def test_a_page_of_200_runs_takes_at_most_ten_times_as_long_as_one_of_20(
    shared_node: Node,
) -> None:
    user = shared_node.user()
    contents, visitor = Contents(user), Visitor(user)
    for number in range(200):
        thread_id = f"{THREAD}-{user.user_id}-{number}"
        contents.thread(thread_id, state="completed", completed_at=AT, error_message="x" * 200)
    times: dict[int, list[float]] = {20: [], 200: []}

    for size in (20, 200) * 5:
        began_s = perf_counter()
        page = visitor.source(f"/?size={size}")
        times[size].append(perf_counter() - began_s)
        assert page.count('class="state') == size

    assert min(times[200]) <= 10 * min(times[20]), times
