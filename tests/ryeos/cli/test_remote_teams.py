"""``rye remote teams``, ``keys``, ``tokens``, ``move`` against a real node, as people type them."""

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from lillux.key_files import load_keypair
from rye_services.storage.database import Database, sign_ins
from ryeos.items.refs import Space
from tests.support.command_line import CommandLine
from tests.support.endings import wait_until
from tests.support.node import Node

pytest_plugins = ("tests.support.node",)
Person = Callable[..., CommandLine]


@pytest.fixture
def person(shared_node: Node, tmp_path: Path, bundle: Space) -> Person:
    """Makes a user whose key the node knows, with a project ``app`` of one file."""

    def make(name: str, *, is_known: bool = True) -> CommandLine:
        folder = tmp_path / name
        folder.mkdir()
        cli = CommandLine(folder, bundle)
        cli.json("keys", "generate")
        if is_known:
            shared_node.user(keypair=load_keypair(cli.key_directory), scopes=("*",))
        cli.json("remote", "add", "default", shared_node.url)
        include = cli.project / ".ai/config/cas/manifest.yaml"
        include.parent.mkdir(parents=True)
        include.write_text("sync: {include: ['src/']}\n", "utf-8")
        (cli.project / "src").mkdir()
        (cli.project / "src/a.txt").write_text(f"{name}\n", "utf-8")
        return cli

    return make


def call_it(cli: CommandLine, name: str) -> None:
    path = cli.project / ".ai/config/remotes/remotes.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'project_path: "{name}"\n', "utf-8")


def own_id(cli: CommandLine) -> str:
    return str(cli.json("remote", "whoami")["user_id"])


@pytest.fixture
def team() -> str:
    """A name that no other test has."""
    return f"team-{secrets.token_hex(4)}"


def test_two_people_share_a_project_of_a_team(person: Person, team: str) -> None:
    ada, bob = person("ada"), person("bob")
    call_it(ada, "app")
    ada.json("remote", "push")
    ada.json("remote", "teams", "create", team)
    moved = ada.json("remote", "move", f"@{team}")
    invited = ada.json("remote", "teams", "invite", team, "--role", "push")
    joined = bob.json("remote", "teams", "join", invited["invitation"])
    for cli in (ada, bob):
        call_it(cli, f"@{team}/app")
    ada.json("remote", "push")
    (bob.project / "src/a.txt").unlink()

    bob.json("remote", "pull")
    (bob.project / "src/b.txt").write_text("of bob\n", "utf-8")
    pushed = bob.json("remote", "push")
    ada.json("remote", "pull")

    assert moved["project"] == pushed["project_path"] == f"@{team}/app"
    assert (joined["team_id"], joined["role"]) == (team, "push")
    assert (ada.project / "src/b.txt").read_text("utf-8") == "of bob\n"
    listed = bob.json("remote", "projects", "--team", team)["projects"]
    assert [one["project_path"] for one in listed] == ["app"]
    assert ada.json("remote", "projects")["projects"] == []


def test_a_refused_push_names_the_required_role(person: Person, team: str) -> None:
    ada, bob = person("ada"), person("bob")
    ada.json("remote", "teams", "create", team)
    call_it(ada, f"@{team}/app")
    ada.json("remote", "push")
    bob_id = own_id(bob)
    ada.json("remote", "teams", "set-role", team, bob_id, "read")
    call_it(bob, f"@{team}/app")

    pulled, pushed = bob("remote", "diff", "--json"), bob("remote", "push", "--force")

    assert pulled.status == 0
    assert pushed.status == 7
    words = f"team {team}: this needs the role push, and {bob_id} has the role read"
    assert words in pushed.stderr
    assert f"hint: roles are given by the admins of {team}" in pushed.stderr


def test_a_second_machine_of_a_person_has_a_key_of_its_own(person: Person) -> None:
    laptop, desk = person("laptop"), person("desk", is_known=False)
    call_it(laptop, "app")
    laptop.json("remote", "push")
    laptop.json("remote", "keys", "add", desk.key_directory / "public_key.pem", "--label", "desk")

    seen = desk.json("remote", "projects")["projects"]

    assert [one["project_path"] for one in seen] == ["app"]
    assert own_id(desk) == own_id(laptop)
    (key,) = laptop.json("remote", "keys", "list")["keys"]
    laptop.json("remote", "keys", "remove", key["fingerprint"])
    assert desk("remote", "whoami").status == 7


def test_a_token_of_a_team_pulls_and_cannot_push(
    person: Person, team: str, shared_node: Node
) -> None:
    ada, machine = person("ada"), person("machine", is_known=False)
    ada.json("remote", "teams", "create", team)
    call_it(ada, f"@{team}/app")
    ada.json("remote", "push")
    made = ada.json("remote", "tokens", "create", "ci", "--team", team, "--role", "read")
    machine.json("remote", "add", "default", shared_node.url, "--key-env", "CI_TOKEN", "--replace")
    call_it(machine, f"@{team}/app")
    (machine.project / "src/a.txt").unlink()
    token = {"CI_TOKEN": made["token"]}

    pulled = machine("remote", "pull", **token)
    pushed = machine("remote", "push", "--force", **token)

    assert pulled.status == 0, pulled.stderr
    assert (machine.project / "src/a.txt").read_text("utf-8") == "ada\n"
    assert pushed.status == 7
    (listed,) = ada.json("remote", "tokens", "list", "--team", team)["tokens"]
    assert made["token"] not in str(listed)
    ada.json("remote", "tokens", "revoke", listed["id"], "--team", team)
    assert machine("remote", "pull", **token).status == 7


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("teams", "create"), "rye remote teams create: expected one TEAM, found 0"),
        (("teams", "create", "../x"), "TEAM: expected a name of a-z, 0-9, - and _"),
        (("teams", "set-role", "acme", "bob", "boss"), "ROLE: expected read, run, push, admin"),
        (("teams", "remove", "acme", "../x"), "USER: expected letters, digits"),
        (("tokens", "create", "ci", "--role", "push"), "--role: expected --team TEAM beside it"),
        (("tokens", "create", "ci", "--expires-days", "0"), "--expires-days: expected 1 to"),
        (("projects", "--team", "A B"), "--team: expected the name of a team"),
    ],
)
def test_a_typing_mistake_is_refused_before_a_request_is_sent(
    cli: CommandLine, argv: tuple[str, ...], problem: str
) -> None:
    cli.json("keys", "generate")
    cli.json("remote", "add", "default", "http://127.0.0.1:9")

    done = cli("remote", *argv)

    assert done.status == 2
    assert problem in done.stderr


def test_a_machine_is_let_in_by_its_person_on_a_page(person: Person, shared_node: Node) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from urllib.parse import urlencode

    machine, ada = person("machine", is_known=False), shared_node.user(scopes=("*",))
    form_of = {"Content-Type": "application/x-www-form-urlencoded"}

    def waiting() -> str:
        database = Database(shared_node.settings.database_url)
        try:
            with database.reading() as connection:
                rows = connection.execute(select(sign_ins)).all()
        finally:
            database.close()
        return next((row.user_code for row in rows if row.facts.get("label") == label), "")

    def approve() -> int:
        wait_until(lambda: bool(waiting()))
        key = urlencode({"key": ada.token}).encode()
        entered = shared_node.ask("POST", "/page/login", key, headers=form_of)
        cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
        page = shared_node.ask("GET", f"/page/device?code={waiting()}", headers=cookie)
        token = page.body.decode().split('name="token" value="')[1].partition('"')[0]
        yes = urlencode({"token": token, "code": waiting(), "answer": "yes"}).encode()
        return shared_node.ask("POST", "/page/device", yes, headers={**form_of, **cookie}).status

    label = f"machine-{secrets.token_hex(4)}"
    with ThreadPoolExecutor(1) as pool:
        approved = pool.submit(approve)
        done = machine.json("remote", "login", "--label", label)

    assert approved.result(30) == 200
    assert done["user_id"] == ada.user_id
    assert own_id(machine) == ada.user_id
