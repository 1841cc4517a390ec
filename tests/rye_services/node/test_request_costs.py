"""The cost of each request to a cluster, so that a change is noticed. See ``docs/scale.md``."""

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count

import pytest

from ryeos.sync.entries import ContentEntry, encode
from tests.support.databases import database_url
from tests.support.object_storage import versity
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.request_costs import Cost, CountedNode
from tests.support.workspace import Workspace, publish

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.skipif(
        os.environ.get("RYE_TEST_DATABASE") == "postgresql",
        reason="a cluster has a PostgreSQL of its own in the pass of SQLite already",
    ),
    pytest.mark.heavy,
]
NUMBERS = count(1)
HASHES = [sha256(str(number).encode()).hexdigest() for number in range(100)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteProject]:
    folder = tmp_path_factory.mktemp("costs")
    bundle = publish(folder / "bundle")
    with versity(folder / "s3", "rye") as stored:
        environ = {
            **stored,
            "DATABASE_URL": database_url(folder, "postgresql"),
            "RYE_NODE_QUEUE": "cluster",
            "SIGNING_KEY_DIR": str(folder / "signing"),
            "NODE_CONFIG_DIR": str(folder / "config"),
        }
        node = CountedNode(folder / "server", bundle.base, environ)
        try:
            workspace = Workspace(folder / "here", (bundle,))
            workspace.project.signed_tool(
                "noop", "def execute(params, project_path):\n    return {}\n", executor=FUNCTION
            )
            yield RemoteProject.with_tools(workspace, node.user())  # as most users have it
        finally:
            node.close()


def cost(project: RemoteProject, ask: Callable[[], object]) -> Cost:
    """The cost of a repeated request, with filled caches."""
    ask()
    ask()
    node = project.user.node
    assert isinstance(node, CountedNode)
    return node.last


def put(project: RemoteProject, numbers: Iterator[int]) -> object:
    """Store 100 contents of 4 KiB that are new."""
    first = next(numbers)
    contents = [f"{first} {number} ".encode().ljust(4096, b"x") for number in range(100)]
    entries = [encode(ContentEntry(sha256(one).hexdigest(), "blob", one)) for one in contents]
    return project.user.ask("POST", "/objects/put", {"entries": entries})


def push(project: RemoteProject, numbers: Iterator[int]) -> None:
    """Push one changed file."""
    project.write("src/x.txt", f"{next(numbers)}\n")
    project.push()


def deferred(project: RemoteProject, item_id: str = "tool:noop", **body: object) -> str:
    """Defer an execution. The id of its thread."""
    reply = project.ask(item_id, **{"async": True}, **body)
    assert reply.status == 202, reply.json
    return str(reply.json["thread_id"])


def carried_out(project: RemoteProject, thread_id: str) -> None:
    """Let a worker execute it."""
    node = project.user.node
    assert isinstance(node, CountedNode)
    node.carry_out(thread_id)
    cost = node.last
    assert project.thread(thread_id)["state"] == "completed"
    node.last = cost


def written(project: RemoteProject, numbers: Iterator[int]) -> None:
    """Let a worker execute a tool that writes a file, which becomes part of HEAD."""
    path = {"path": f"src/w{next(numbers)}.txt", "text": "x"}
    carried_out(project, deferred(project, "tool:write", parameters=path))


# Each row: the request; round trips to the database, and the statements among them; requests to
# the object storage. A change of a number is fine where it is meant; docs/scale.md says it then.
COSTS: dict[str, tuple[Callable[[RemoteProject, Iterator[int]], object], int, int, int]] = {
    "GET /public-key": (lambda one, _: one.user.ask("GET", "/public-key"), 0, 0, 0),
    "GET /threads": (lambda one, _: one.user.ask("GET", "/threads"), 3, 3, 0),
    "GET /threads, API key": (
        lambda one, _: one.user.ask("GET", "/threads", auth="bearer"),
        *(2, 2, 0),
    ),
    "GET /history": (lambda one, _: one.history(), 4, 4, 0),
    "GET /account": (lambda one, _: one.user.ask("GET", "/account"), 3, 3, 0),
    "POST /objects/has, 100": (
        lambda one, _: one.user.ask("POST", "/objects/has", {"hashes": HASHES}),
        *(5, 5, 0),
    ),
    "POST /objects/put, 100 of 4 KiB": (put, 9, 7, 1),
    "POST /push": (push, 19, 15, 1),
    "POST /execute, async": (lambda one, _: deferred(one), 15, 13, 0),
    "a worker, no change": (lambda one, _: carried_out(one, deferred(one)), 24, 18, 1),
    "a worker, one file changed": (written, 40, 30, 2),
}


@pytest.mark.parametrize("name", COSTS)
def test_each_request_costs_as_much_as_its_row_of_the_table_says(
    project: RemoteProject, name: str
) -> None:
    ask, *expected = COSTS[name]
    numbers = count(next(NUMBERS) * 100)

    found = cost(project, lambda: ask(project, numbers))

    assert [found.round_trips, found.statements, found.requests] == expected


def test_more_contents_in_a_request_cost_no_more_statements(project: RemoteProject) -> None:
    user = project.user
    few = cost(project, lambda: user.ask("POST", "/objects/has", {"hashes": HASHES[:1]}))
    many = cost(project, lambda: user.ask("POST", "/objects/has", {"hashes": HASHES}))

    assert (few.round_trips, few.statements) == (many.round_trips, many.statements)
