"""``rye-node.pyz users``, ``quota``, ``jobs`` and ``audit``, beside a running node."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from lillux.signing import compute_key_fingerprint, generate_keypair
from rye_services.node.store.objects import QuotaExceededError, Usage, UserStores
from rye_services.operations.cli import main
from rye_services.people.audit import Audit
from rye_services.process.data_folder import open_database
from rye_services.refusal import RefusedError
from rye_services.registry.accounts import Accounts, reserve
from rye_services.settings import read_settings
from rye_services.storage.database import Database, thread_logs, threads
from ryeos.items.context import utc_now
from tests.support.databases import database_environ
from tests.support.errors import coded
from tests.support.node import Node, User

MIB = 1024**2


class Console:
    """Commands on the data of a node."""

    def __init__(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data, self._capsys = data, capsys

    def text(self, *arguments: str) -> tuple[int, str]:
        """Status and standard output; of a failure standard error."""
        self._capsys.readouterr()
        status = main([*arguments, "--data", str(self.data)])
        captured = self._capsys.readouterr()
        return status, captured.out if status == 0 else captured.err

    def json(self, *arguments: str) -> Any:  # noqa: ANN401 - JSON
        """The document of a command that has to succeed."""
        status, text = self.text(*arguments, "--json")
        assert status == 0, text
        return json.loads(text)

    def database(self) -> Database:
        """The database of the node, to be closed."""
        settings = read_settings(
            {"data_dir": str(self.data)}, database_environ(self.data), self.data
        )
        return open_database(settings)


@pytest.fixture
def console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Console:
    """Commands on the data of a node that is stopped."""
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in database_environ(tmp_path / "node").items():
        monkeypatch.setenv(name, value)
    assert main(["init", "-q", "--data", str(tmp_path / "node")]) == 0
    return Console(tmp_path / "node", capsys)


@pytest.fixture
def ada(console: Console) -> str:
    """A user with an API key."""
    console.json("api-keys", "create", "--user", "ada", "--name", "ci")
    return "ada"


def test_users_are_listed_with_their_counts(console: Console, ada: str) -> None:
    _execution(console, "t1", state="completed")
    _execution(console, "t2", started_at="2001-02-03T04:05:07.000000+00:00")

    (user,) = console.json("users", "list")["users"]
    shown = console.json("users", "show", "ada")["user"]

    assert shown == user
    assert (user["executions"], user["running"], user["heads"]) == (2, 2 - 1, 0)
    assert user["last_seen"] == "2001-02-03T04:05:06.000000+00:00"
    assert (user["quota_bytes"], user["allowed_bytes"]) == (None, 1024 * MIB)


def test_sweeps_of_the_past_are_listed_the_newest_first(console: Console) -> None:
    assert console.text("jobs", "sweeps") == (0, "no sweeps\n")
    console.json("gc")
    console.json("gc", "--dry-run")

    (swept,) = console.json("jobs", "sweeps")["sweeps"]
    _, text = console.text("jobs", "sweeps", "--limit", "1")

    assert swept["started_by"].startswith("command:")
    assert (swept["stores"], swept["removed"], swept["left_alone"]) == (0, 0, [])
    assert "0 of 0 stores" in text


def test_an_unknown_user_is_not_found(console: Console) -> None:
    status, output = console.text("users", "show", "eve")

    assert (status, output.splitlines()[0]) == (
        3,
        "error: user 'eve': expected a user known to this node, found none",
    )


def test_what_lists_print_is_accepted_where_a_user_or_an_execution_is_asked(
    console: Console, ada: str, tmp_path: Path
) -> None:
    _execution(console, "mine/t-1795828942509", state="completed")
    _execution(console, "mine/t-1795828942777", state="completed")
    pair = generate_keypair()
    fingerprint = compute_key_fingerprint(pair.public_pem)
    pem = tmp_path / "ben.pem"
    pem.write_bytes(pair.public_pem)
    console.json("keys", "add", str(pem), "--label", "Ben's laptop")

    for typed in (fingerprint, f"fp:{fingerprint}", fingerprint[:8], "Ben's laptop"):
        user = console.json("users", "show", typed)["user"]
        assert (user["id"], user["stored_bytes"]) == (fingerprint, 0)
    assert console.json("users", "show", "ad")["user"]["id"] == ada
    assert console.text("jobs", "logs", "mine/t-17958289425")[0] == 0
    status, error = console.text("jobs", "logs", "mine/t-1795828942")
    assert status == 2
    assert "expected one, it may be any of mine/t-1795828942509, mine/t-1795828942777" in error


def test_times_of_a_user_are_shown_as_people_read_them(console: Console, ada: str) -> None:
    _execution(console, "t1", state="completed")

    _, text = console.text("users", "show", ada)

    assert "last seen      2001-02-03 04:05:06 UTC" in text
    assert "T04:05" not in text


def test_a_quota_applies_to_one_user_and_can_be_reset(console: Console, ada: str) -> None:
    database = console.database()
    usage, store = Usage(database, utc_now), UserStores(console.data / "cas").of("ada")

    console.json("quota", "set", "ada", "1 MiB")
    with pytest.raises(QuotaExceededError, match=f"{MIB} bytes allowed"):
        usage.reserve("ada", MIB + 1, max_bytes=1024 * MIB, store=store)
    usage.reserve("bob", MIB + 1, max_bytes=1024 * MIB, store=store)
    listed = console.json("quota", "list")
    console.json("quota", "set", "ada", "default")
    usage.reserve("ada", MIB + 1, max_bytes=1024 * MIB, store=store)

    assert listed["quotas"] == [{"user_id": "ada", "quota_bytes": MIB, "stored_bytes": 0}]
    entries = console.json("audit", "--action", "quota")["entries"]
    assert [one["details"] for one in entries] == [
        {"before": MIB, "bytes": None},
        {"before": None, "bytes": MIB},
    ]
    database.close()


def test_a_quota_applies_to_published_items(console: Console) -> None:
    database = console.database()
    Accounts(database).add("bob")

    console.json("quota", "set", "bob", "10")

    with database.writing() as connection:
        reserve(connection, "bob", 10, max_bytes=5)
        with pytest.raises(
            RefusedError, match="storage quota exceeded", check=coded("RESOURCE_EXCEEDED")
        ):
            reserve(connection, "bob", 1, max_bytes=1000)
    database.close()


@pytest.mark.parametrize(
    ("user", "quota", "expected"),
    [
        ("eve", "1 MiB", "user 'eve': expected a user known to this node, found none"),
        ("ada", "much", "BYTES: expected bytes, like 52428800 or 50 MiB, found 'much'"),
        ("ada", "1.5 MiB", "BYTES: expected bytes"),
        ("ada", "999999999999999999 GiB", "BYTES: expected at most"),
        ("../x", "1", "user '../x': expected 1 to 64"),
    ],
)
def test_a_quota_of_another_form_is_refused(
    console: Console, ada: str, user: str, quota: str, expected: str
) -> None:
    status, output = console.text("quota", "set", user, quota)

    assert status != 0
    assert output.startswith(f"error: {expected}")


def test_jobs_of_every_user_are_listed_by_state(console: Console) -> None:
    _execution(console, "done", state="completed")
    _execution(console, "waits")
    _execution(console, "runs", started_at="2001-02-03T04:05:07.000000+00:00", user_id="bob")

    def ids(*narrowing: str) -> list[str]:
        return sorted(one["thread_id"] for one in console.json("jobs", "list", *narrowing)["jobs"])

    assert ids() == ["done", "runs", "waits"]
    assert (ids("--state", "waiting"), ids("--state", "running")) == (["waits"], ["runs"])
    assert ids("--user", "bob", "--state", "waiting") == []


def test_a_job_that_waits_is_cancelled_by_name(console: Console) -> None:
    _execution(console, "waits")

    answer = console.json("jobs", "cancel", "waits")
    (job,) = console.json("jobs", "list")["jobs"]
    (entry,) = console.json("audit", "--action", "executions.cancel")["entries"]

    assert (answer["state"], job["state"]) == ("cancelled", "cancelled")
    assert job["cancelled_by"] == entry["actor"]
    assert entry["actor"].startswith("command:")
    assert (entry["target"], entry["details"]) == ("waits", {"user_id": "ada"})


def test_an_unknown_job_cannot_be_cancelled(console: Console) -> None:
    assert console.text("jobs", "cancel", "x")[0] == 3


def test_a_log_is_shown_without_terminal_control_characters(console: Console) -> None:
    _execution(console, "t1", state="completed")
    database = console.database()
    with database.writing() as connection:
        for number, text in enumerate(("one\n", "t\x1b[2Jwo\n"), 1):
            row = {"thread_id": "t1", "number": number, "stream": "stdout", "text": text}
            connection.execute(insert(thread_logs).values(**row, written_at="x"))
    database.close()

    status, text = console.text("jobs", "logs", "t1", "-f")
    pieces = console.json("jobs", "logs", "t1")["pieces"]

    assert (status, text.startswith("one\nt"), "\x1b" in text) == (0, True, False)
    assert [one["text"] for one in pieces] == ["one\n", "t\x1b[2Jwo\n"]


def test_the_audit_shows_hostile_texts_on_their_own_lines(console: Console) -> None:
    database = console.database()
    Audit(database).note("gc", "a\nb\x1b[2J", {"x": "\u202e\n"})
    database.close()

    status, text = console.text("audit")

    assert (status, len(text.splitlines()), "\x1b" in text) == (0, 1, False)
    assert "\u202e" not in text


def test_commands_that_change_keys_are_in_the_audit(console: Console) -> None:
    key = "ed25519:" + _public_key()

    added = console.json("keys", "add", key, "--label", "Ada's")
    console.json("keys", "revoke", added["fingerprint"])
    console.json("gc")

    entries = console.json("audit")["entries"]
    assert [one["action"] for one in entries] == ["gc", "keys.revoke", "keys.add"]
    assert {one["actor"].partition(":")[0] for one in entries} == {"command"}


# --- a running node -------------------------------------------------------------------------------


def test_the_audit_route_shows_actor_and_address(node: Node) -> None:
    owner = node.owner
    owner.ask("POST", "/secrets", {"secrets": [{"name": "TOKEN", "value": "very-secret"}]})
    owner.ask("POST", "/gc", auth="bearer")

    reply = owner.ask("GET", "/admin/audit?limit=2")
    older = owner.ask("GET", f"/admin/audit?limit=2&before={reply.json['next']}")

    gc, put = reply.json["entries"]
    assert (gc["action"], put["action"], put["target"]) == ("gc", "secrets.put", owner.user_id)
    assert {one["actor"] for one in (gc, put)} == {owner.user_id}
    assert {one["address"] for one in (gc, put)} == {"127.0.0.1"}
    assert set(gc["details"]) == {"key", "removed"}  # by an API key
    assert [one["action"] for one in older.json["entries"]] == ["api-keys.create", "keys.add"]
    assert b"very-secret" not in reply.body


def test_the_audit_is_for_managers_only(shared_node: Node) -> None:
    assert shared_node.user().ask("GET", "/admin/audit").status == 403
    assert shared_node.ask("GET", "/admin/audit").status == 401


@pytest.mark.parametrize(
    "query", ["since=x", "limit=0", "limit=1001", "before=-1", "before=99999999999999999999"]
)
def test_an_invalid_audit_query_is_refused(owner: User, query: str) -> None:
    assert owner.ask("GET", f"/admin/audit?{query}").status == 422


@pytest.mark.parametrize("query", ["action=%00", "actor=a%00b", "action=%25", "actor=%F0%9F%98%80"])
def test_an_audit_query_with_odd_text_finds_no_entry(owner: User, query: str) -> None:
    reply = owner.ask("GET", f"/admin/audit?{query}")

    assert reply.status in (200, 400)  # a NUL may be refused at the door
    assert reply.json.get("entries", []) == []


def test_successful_and_failed_page_logins_are_recorded(node: Node) -> None:
    owner = node.owner
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    node.ask("POST", "/page/login", b"key=rye_sk_wrong", headers=form)
    node.ask("POST", "/page/login", f"key={owner.token}".encode(), headers=form)

    entries = owner.ask("GET", "/admin/audit?action=log-in").json["entries"]

    assert [(one["action"], one["actor"], one["address"]) for one in entries] == [
        ("log-in", owner.user_id, "127.0.0.1"),
        ("log-in.failed", "nobody", "127.0.0.1"),
    ]


@pytest.fixture
def owner(shared_node: Node) -> User:
    """A user who may do everything."""
    return shared_node.user(scopes=("*",))


def _execution(console: Console, thread_id: str, **values: object) -> None:
    database = console.database()
    row = {
        "thread_id": thread_id,
        "user_id": "ada",
        "item_type": "tool",
        "item_id": "tool:a",
        "remote_name": "default",
        "project_path": "ada/p",
        "state": "running",
        "is_async": True,
        "created_at": "2001-02-03T04:05:06.000000+00:00",
    }
    with database.writing() as connection:
        connection.execute(insert(threads).values(**{**row, **values}))
    database.close()


def _public_key() -> str:
    from ryeos.remote.identity import encode_public_key

    return encode_public_key(generate_keypair().public_pem).removeprefix("ed25519:")
