"""A team on a cluster, from the built files in empty homes: people, roles, tokens, a registry.

Two servers behind a proxy, so that each request meets another one; a worker; a real provider of
sign-in, and Chromium for what people do on pages.
"""

import json
import os
import re
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from lillux.signing import compute_key_fingerprint
from packing.local_cluster import LocalCluster
from tests.support.browser import Browser, chromium
from tests.support.built import BASE_PYTHON, Machine
from tests.support.databases import database_url
from tests.support.endings import wait_until
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, real_provider

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.skipif(
        os.environ.get("RYE_TEST_DATABASE") == "postgresql",
        reason="a cluster has a PostgreSQL of its own in the pass of SQLite already",
    ),
    pytest.mark.e2e,
    pytest.mark.heavy,
]

NONE: Mapping[str, str] = MappingProxyType({})
TOTAL = '''\
"""Adds up numbers."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "{category}"
__tool_description__ = "Adds up numbers"

CONFIG_SCHEMA = {{
    "type": "object",
    "properties": {{"numbers": {{"type": "array", "items": {{"type": "number"}}}}}},
    "required": ["numbers"],
}}


def execute(params, project_path):
    return {{"total": sum(params["numbers"])}}
'''
NOTE = '''\
"""Writes a note."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "app"
__tool_description__ = "Writes a note"

CONFIG_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}

from pathlib import Path


def execute(params, project_path):
    Path(project_path, "src", "note.txt").write_text(params["text"])
    return {"written": True}
'''


@dataclass(frozen=True, slots=True)
class BuiltCluster:
    """The cluster, and the commands of its operator."""

    cluster: LocalCluster
    operator: Machine

    @property
    def url(self) -> str:
        """Where people find it."""
        return self.cluster.url

    def command(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        """The envelope of a command of the operator, on a machine with a data folder of its own."""
        ended = self.operator.run(*words, "--data", str(self.operator.home / "node"), "--json")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def built(built_cluster_pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("t")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = (str(BASE_PYTHON), "-I", str(built_cluster_pyz))
    with real_provider(f"http://127.0.0.1:{port}/page/sign-in/back", folder) as issuer:
        (folder / "home").mkdir()
        cluster = LocalCluster(
            folder / "cluster",
            servers=2,
            workers=1,
            command=command,
            database_url=database_url(folder, "postgresql"),
            port=port,
            settings={
                "HOME": str(folder / "home"),
                "RYE_NODE_SHUTDOWN_TIMEOUT_S": "1",
                "RYE_NODE_OIDC_ISSUER": issuer,
                "RYE_NODE_OIDC_CLIENT_ID": CLIENT_ID,
                "RYE_NODE_OIDC_CLIENT_SECRET": CLIENT_SECRET,
                "RYE_NODE_PUBLIC_URL": f"http://127.0.0.1:{port}",
            },
        )
        (folder / "operator").mkdir()
        operator = Machine(folder / "operator", *command)
        operator.variables = {**cluster.environ, "HOME": str(operator.home)}
        try:
            cluster.start()
            yield BuiltCluster(cluster, operator)
        finally:
            cluster.stop()


@dataclass(frozen=True, slots=True)
class Person:
    """A machine of a person: an empty home, and Rye."""

    machine: Machine

    def __call__(self, *words: str, status: int = 0, variables: Mapping[str, str] = NONE) -> Any:  # noqa: ANN401 - JSON
        """The envelope of a command, which ends with this status."""
        environ = {**self.machine.environ(), **variables}
        ended = self.machine.run(*words, "--json", environ=environ)
        assert ended.returncode == status, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    @property
    def public_key(self) -> Path:
        """The file of their public key."""
        return self.machine.home / ".ai/config/keys/signing/public_key.pem"

    @property
    def fingerprint(self) -> str:
        """The fingerprint of their key."""
        return compute_key_fingerprint(self.public_key.read_bytes())

    def write(self, path: str, text: str) -> Path:
        """Have a file in their project."""
        written = self.machine.project / path
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(text, encoding="utf-8")
        return written

    def call_project(self, name: str) -> None:
        """Have their project be this one of the node."""
        self.write(".ai/config/remotes/remotes.yaml", f'project_path: "{name}"\n')


@pytest.fixture
def person(built: BuiltCluster, built_pyz: Path, tmp_path: Path) -> Callable[..., Person]:
    """Makes a person with a key; the operator lets it in, unless they sign in on the page."""

    def make(name: str, *, is_let_in: bool = True) -> Person:
        folder = tmp_path / name
        folder.mkdir()
        made = Person(Machine(folder, BASE_PYTHON, built_pyz))
        made("keys", "generate")
        if is_let_in:
            built.command("keys", "add", str(made.public_key), "--label", name, "--admin")
        made("remote", "add", "default", built.url)
        made.write(".ai/config/cas/manifest.yaml", "sync: {include: ['src/']}\n")
        return made

    return make


@pytest.fixture
def team() -> str:
    return f"team-{secrets.token_hex(4)}"


def own_project(person: Person) -> None:
    """A project ``app`` with a file and two signed tools, pushed as a person's own."""
    person.call_project("app")
    person.write("src/a.txt", "first\n")
    person.write(".ai/tools/app/total.py", TOTAL.format(category="app"))
    person.write(".ai/tools/app/note.py", NOTE)
    for item in ("app/total", "app/note"):
        person("sign", f"tool:{item}")
    person("remote", "push")


def run_there(person: Person, item: str, *words: str, status: int = 0) -> Any:  # noqa: ANN401 - JSON
    """The answer of a run on the node."""
    return person("run", item, *words, "--target", "remote", status=status)


# --- roles ----------------------------------------------------------------------------------------


def test_a_person_with_one_key_needs_no_team(person: Callable[..., Person]) -> None:
    ada = person("ada")
    own_project(ada)

    assert run_there(ada, "app/total", "numbers:=[1, 2]")["data"] == {"total": 3}
    run_there(ada, "app/note", "text=mine")
    assert (ada.machine.project / "src/note.txt").read_text("utf-8") == "mine"
    (one,) = ada("remote", "projects")["projects"]
    assert one["project_path"] == "app"
    assert ada("remote", "whoami")["teams"] == []


def test_each_role_has_its_own_rights_and_no_more(person: Callable[..., Person], team: str) -> None:
    ada, ben = person("ada"), person("ben")
    own_project(ada)
    ada("remote", "teams", "create", team)
    assert ada("remote", "move", f"@{team}")["project"] == f"@{team}/app"
    ada.call_project(f"@{team}/app")
    ada("remote", "push")
    invitation = ada("remote", "teams", "invite", team, "--role", "read")["invitation"]
    ben.call_project(f"@{team}/app")
    refused = ben("remote", "pull", status=7)
    assert "is no member of a team" in refused["error"]
    ben("keys", "trust", str(ada.public_key))
    assert ben("remote", "teams", "join", invitation)["role"] == "read"

    ben("remote", "pull")  # read
    assert (ben.machine.project / "src/a.txt").read_text("utf-8") == "first\n"
    for words in (("app/total", "numbers:=[1]"), ("app/note", "text=x")):
        assert "needs the role run" in run_there(ben, *words, status=7)["error"]

    set_role(ada, ben, team, "run")
    assert run_there(ben, "app/total", "numbers:=[4, 5]")["data"] == {"total": 9}
    run_there(ben, "app/note", "text=of ben")  # it ran, and its change was not taken
    ada("remote", "pull")
    assert not (ada.machine.project / "src/note.txt").exists()
    ben.write("src/b.txt", "of ben\n")
    assert "needs the role push" in ben("remote", "push", status=7)["error"]

    set_role(ada, ben, team, "push")
    ben("remote", "push")
    ada("remote", "pull")
    assert (ada.machine.project / "src/b.txt").read_text("utf-8") == "of ben\n"
    denied = ben("remote", "teams", "invite", team, status=7)
    assert "needs the role admin" in denied["error"]
    assert "needs the role admin" in ben("remote", "move", "mine", status=7)["error"]

    set_role(ada, ben, team, "admin")
    assert ben("remote", "teams", "invite", team)["team_id"] == team
    assert ben("remote", "move", "mine")["project"] == "app"  # and back to a person
    assert ada("remote", "projects", "--team", team)["projects"] == []
    ben.call_project("app")
    ben("remote", "move", f"@{team}")
    ada("remote", "teams", "remove", team, whoami(ben))
    ben.call_project(f"@{team}/app")
    assert "is no member of a team" in ben("remote", "pull", status=7)["error"]
    ada("remote", "pull")


def whoami(person: Person) -> str:
    return str(person("remote", "whoami")["user_id"])


def set_role(admin: Person, member: Person, team: str, role: str) -> None:
    admin("remote", "teams", "set-role", team, whoami(member), role)


def test_a_build_machine_has_a_token_of_the_team_and_no_key(
    person: Callable[..., Person], built: BuiltCluster, team: str
) -> None:
    ada, machine = person("ada"), person("ci", is_let_in=False)
    own_project(ada)
    ada("remote", "teams", "create", team)
    ada("remote", "move", f"@{team}")
    ada.call_project(f"@{team}/app")
    ada("remote", "push")
    made = ada("remote", "tokens", "create", "ci", "--team", team, "--role", "run")
    machine("remote", "add", "default", built.url, "--key-env", "CI_TOKEN", "--replace")
    machine.call_project(f"@{team}/app")
    machine("keys", "trust", str(ada.public_key))
    token = {"CI_TOKEN": str(made["token"])}

    machine("remote", "pull", variables=token)
    done = machine("run", "app/total", "numbers:=[2, 2]", "--target", "remote", variables=token)
    machine.write("src/c.txt", "of ci\n")
    refused = machine("remote", "push", status=7, variables=token)
    ada("remote", "tokens", "revoke", str(made["id"]), "--team", team)
    late = machine("remote", "pull", status=7, variables=token)

    assert done["data"] == {"total": 4}
    assert "needs the role push" in refused["error"]
    assert "401" in late["error"]


# --- a registry -----------------------------------------------------------------------------------


def test_a_member_publishes_for_the_team_and_another_pulls_it(
    person: Callable[..., Person], built: BuiltCluster, team: str
) -> None:
    ada, ben = person("ada"), person("ben")
    ada("remote", "teams", "create", team)
    ada("remote", "teams", "set-role", team, whoami(ben), "read")
    built.command("accounts", "add", team)
    scopes = ("--scope", "registry:read", "--scope", "registry:write")
    tokens = {
        one: {"REG_KEY": str(one("remote", "tokens", "create", "reg", *scopes)["token"])}
        for one in (ada, ben)
    }
    login = ("registry", "login", "--url", built.url, "--key-env", "REG_KEY")
    assert "--team TEAM" in ada(*login, status=7, variables=tokens[ada])["hint"]
    for one in (ada, ben):
        assert one(*login, "--team", team, variables=tokens[one])["account"] == team
    item = f"{team}/text/total"
    ada.write(f".ai/tools/{item}.py", TOTAL.format(category=f"{team}/text"))
    ada("sign", f"tool:{item}")

    ada("registry", "push", item, "--team", team, variables=tokens[ada])
    ben("registry", "pull", item, variables=tokens[ben])
    ben("sign", f"tool:{item}", "--yes")
    done = ben("run", item, "numbers:=[1, 1]")
    ben.write(f".ai/tools/{team}/text/more.py", TOTAL.format(category=f"{team}/text"))
    ben("sign", f"tool:{team}/text/more")
    refused = ben(
        "registry", "push", f"{team}/text/more", "--team", team, status=7, variables=tokens[ben]
    )
    found = ben("registry", "search", "numbers", variables=tokens[ben])

    assert done["data"] == {"total": 2}
    assert "needs the role push" in refused["error"]
    assert item in json.dumps(found)


# --- sign-in --------------------------------------------------------------------------------------


def sign_in(browser: Browser, url: str, login: str, invitation: str = "") -> None:
    """Sign in as a person does, at the provider, and come back."""
    browser.open(url)
    if invitation:
        browser.find("#invitation").type(invitation)
    browser.find("form[action='/page/sign-in'] button").click()
    browser.find("input[name=login]").type(login)
    browser.find("input[name=password]").type("x")
    browser.find("button[type=submit]").click()
    browser.find("input[name=prompt][value=consent]")
    browser.find("button[type=submit]").click()
    wait_until(lambda: browser.url.startswith(f"{url}/"), 60)


def test_a_person_signs_in_with_an_invitation_and_lets_a_machine_of_theirs_sign(
    person: Callable[..., Person], built: BuiltCluster, team: str, browser: Browser, driver: int
) -> None:
    ada, laptop = person("ada"), person("grace", is_let_in=False)
    own_project(ada)
    ada("remote", "teams", "create", team)
    ada("remote", "move", f"@{team}")
    ada.call_project(f"@{team}/app")
    ada("remote", "push")
    name = f"grace-{secrets.token_hex(4)}"
    with chromium(driver) as stranger:
        sign_in(stranger, built.url, f"eve-{secrets.token_hex(4)}")
        assert "may not use this node yet" in stranger.find("main").text
        stranger.open(built.url)
        stranger.find("#key")  # no session was begun
    invitation = ada("remote", "teams", "invite", team, "--role", "push")["invitation"]

    sign_in(browser, built.url, name, invitation)
    browser.open(f"{built.url}/page/team?id={team}")
    assert name in browser.find("main").text
    code, login = machine_login(laptop)
    browser.open(f"{built.url}/page/device")
    browser.find("#code").type(code)
    browser.find("main button").click()
    assert laptop.fingerprint in browser.find("main .facts").text
    browser.find("button[value=yes]").click()
    browser.find_xpath("//p[contains(., 'may sign for you now')]")
    done = login()

    assert done["user_id"] == name
    laptop.call_project(f"@{team}/app")
    laptop("keys", "trust", str(ada.public_key))
    laptop("remote", "pull")
    laptop.write("src/g.txt", "of grace\n")
    laptop("remote", "push")
    ada("remote", "pull")
    assert (ada.machine.project / "src/g.txt").read_text("utf-8") == "of grace\n"

    built.command("users", "close", name)

    assert "401" in laptop("remote", "pull", status=7)["error"]
    browser.open(f"{built.url}/page/teams")
    browser.find("#key")  # the log-in


def machine_login(laptop: Person) -> tuple[str, Callable[[], Any]]:
    """Begin ``rye remote login``: its code, and the process that waits for the answer."""
    machine = laptop.machine
    process = subprocess.Popen(
        [*machine.rye, "remote", "login", "--label", "laptop"],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stderr is not None
    found = None
    while found is None:
        line = process.stderr.readline()
        assert line, process.communicate()
        found = re.search(r"type ([A-Z0-9]{4}-[A-Z0-9]{4})", line)

    def end() -> Any:  # noqa: ANN401 - JSON
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
        return laptop("remote", "whoami")

    return found[1], end


def test_an_answer_of_the_provider_may_come_to_another_server(
    built: BuiltCluster, browser: Browser
) -> None:
    before = dict(built.cluster.proxy.requests)
    login = f"heidi-{secrets.token_hex(4)}"

    sign_in(browser, built.url, login)

    assert f"{login} may not use this node yet" in browser.find("main").text
    requests = {port: count - before[port] for port, count in built.cluster.proxy.requests.items()}
    assert min(requests.values()) > 0
    built.command("users", "open", login)
    browser.open(built.url)
    browser.find("form[action='/page/sign-in'] button").click()  # the provider knows them
    browser.find_xpath("//header//button")


def test_people_sign_in_at_once_on_different_servers(built: BuiltCluster, driver: int) -> None:
    logins = [f"ivan-{secrets.token_hex(4)}" for _ in range(2)]

    def one(login: str) -> str:
        with chromium(driver) as window:
            sign_in(window, built.url, login)
            return window.find("main").text

    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(one, logins))

    for login, text in zip(logins, texts, strict=True):
        assert f"{login} may not use this node yet" in text
