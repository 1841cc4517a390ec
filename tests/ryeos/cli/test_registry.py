"""The commands about registries, against a real one."""

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import pytest

from rye_services.people.credentials import ApiKeys
from rye_services.people.teams import Teams
from rye_services.registry.accounts import Accounts
from ryeos.remote.registry_lock import LOCK_NAME
from tests.support.command_line import CommandLine
from tests.support.registry import Account, Registry, item_text, registry_database

CONFIG = ".ai/config/registry/registry.yaml"


class Client:
    """A user with a key, an account, and a registry that was logged in to."""

    def __init__(self, cli: CommandLine, account: Account) -> None:
        self.cli, self.account = cli, account
        cli.env = {**cli.env, "REG_KEY": account.token}
        self.login = cli.json(
            *("registry", "login", "--url", account.registry.url, "--key-env", "REG_KEY")
        )

    def item_id(self, name: str = "upper") -> str:
        """An id below the account's own namespace."""
        return f"{self.account.name}/text/{name}"

    def file(self, name: str = "upper") -> Path:
        """Where the tool is in the project."""
        return self.cli.project_space.ai / "tools" / f"{self.item_id(name)}.py"

    def write(self, version: str = "1.0.0", words: str = "Says hello") -> Path:
        """A signed tool in the project."""
        path = self.file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(item_text("tool", self.item_id(), version, words), "utf-8")
        assert self.cli("sign", path).status == 0
        return path

    def publish(self, version: str = "1.0.0", words: str = "Says hello") -> Any:  # noqa: ANN401
        """Write the tool, push it, and remove it."""
        path = self.write(version, words)
        pushed = self.cli.json("registry", "push", self.item_id())
        path.unlink()
        return pushed

    @property
    def lock(self) -> Any:  # noqa: ANN401 - JSON
        """The project's list of pulled items."""
        return json.loads((self.cli.project_space.ai / LOCK_NAME).read_bytes())


@pytest.fixture
def client(signer: CommandLine, shared_registry: Registry) -> Client:
    """A user who may publish."""
    return Client(signer, shared_registry.account())


def test_a_login_pins_the_registry_and_writes_no_key(client: Client) -> None:
    cli, account = client.cli, client.account

    assert client.login["is_new"] is True
    assert client.login["account"] == account.name
    text = (cli.home / CONFIG).read_text("utf-8")
    assert text.startswith("# rye:signed:")
    assert account.token not in text
    netloc = account.registry.url.removeprefix("http://")
    pins = cli.json("registry", "pins")["pins"]
    assert [(pin["netloc"], pin["fingerprint"]) for pin in pins] == [
        (netloc, client.login["fingerprint"])
    ]
    [row] = cli.json("registry", "status")["registries"]
    assert (row["usable"], row["has_key"], row["trusted"]) == (True, True, False)


def test_a_wrong_api_key_leaves_no_registry_behind(
    signer: CommandLine, shared_registry: Registry
) -> None:
    done = signer(
        *("registry", "login", "--url", shared_registry.url, "--key-env", "REG_KEY", "--json"),
        REG_KEY="rye_sk_wrong",
    )

    assert (done.status, done.json["code"]) == (7, "REGISTRY_REFUSED")
    assert "rye_sk_wrong" not in done.stdout + done.stderr
    assert not (signer.home / CONFIG).exists()


@pytest.fixture
def member(signer: CommandLine, shared_registry: Registry) -> tuple[Client, str]:
    """A person with an account, and a team with one, in which they may do everything."""
    account, team = shared_registry.account(), f"team-{secrets.token_hex(4)}"
    database = registry_database(shared_registry)
    Teams(database).add(team, account.name)
    Accounts(database).add(team)
    database.close()
    return Client(signer, account), team


def test_a_member_publishes_claims_and_signs_as_the_team_and_not_as_themselves(
    member: tuple[Client, str],
) -> None:
    (client, team), item = member, "shout"
    path = client.cli.project_space.ai / "tools" / team / "text" / f"{item}.py"
    path.parent.mkdir(parents=True)
    path.write_text(item_text("tool", f"{team}/text/{item}"), "utf-8")
    assert client.cli("sign", path).status == 0
    ref = f"{team}/text/{item}"

    own = client.cli("registry", "push", ref, "--json")
    pushed = client.cli.json("registry", "push", ref, "--team", team)
    claimed = client.cli.json("registry", "namespaces", "claim", f"{team}-more", "--team", team)
    names = {
        who: {
            one["name"]
            for one in client.cli.json("registry", "namespaces", "list", *who)["namespaces"]
        }
        for who in ((), ("--team", f"@{team}"))
    }
    signer = client.cli.json("registry", "signers", "add", "--team", team)["fingerprint"]
    signers = [
        client.cli.json("registry", "signers", "list", *who)["signing_keys"]
        for who in ((), ("--team", team))
    ]
    hidden = client.cli("registry", "visibility", ref, "unlisted", "--team", team)

    assert (own.status, own.json["code"]) == (7, "REGISTRY_REFUSED")
    assert (pushed["skipped"], claimed["unchanged"], hidden.status) == (False, False, 0)
    assert names["--team", f"@{team}"] == {team, f"{team}-more"}
    assert not names[()] & names["--team", f"@{team}"]
    assert [signer in str(one) for one in signers] == [False, True]


def test_a_member_without_an_account_logs_in_and_publishes_as_the_team(
    signer: CommandLine, shared_registry: Registry
) -> None:
    team, person = (f"{one}-{secrets.token_hex(4)}" for one in ("team", "person"))
    database = registry_database(shared_registry)
    scopes = ("registry:read", "registry:write")
    token, _ = ApiKeys(database).create(person, name="x", scopes=scopes)
    Teams(database).add(team, person)
    Accounts(database).add(team)
    database.close()
    signer.env = {**signer.env, "REG_KEY": token}
    login = ("registry", "login", "--url", shared_registry.url, "--key-env", "REG_KEY")

    alone = signer(*login, "--json")
    done = signer.json(*login, "--team", team)
    path = signer.project_space.ai / "tools" / team / "text" / "shout.py"
    path.parent.mkdir(parents=True)
    path.write_text(item_text("tool", f"{team}/text/shout"), "utf-8")
    assert signer("sign", path).status == 0
    pushed = signer.json("registry", "push", f"{team}/text/shout", "--team", team)

    assert (alone.status, alone.json["code"]) == (7, "REGISTRY_REFUSED")
    assert "--team TEAM" in alone.json["hint"]
    assert (done["account"], pushed["skipped"]) == (team, False)


@pytest.mark.parametrize("team", ["unknown-team", "../x", "A B"])
def test_a_user_who_is_no_member_of_a_team_is_refused(client: Client, team: str) -> None:
    client.write()

    done = client.cli("registry", "push", client.item_id(), "--team", team, "--json")

    assert (done.status, done.json["code"]) in ((7, "REGISTRY_REFUSED"), (2, "INVALID_PARAMS"))
    assert client.cli("registry", "info", client.item_id()).status != 0


def test_a_pushed_item_is_found_shown_and_pulled(client: Client) -> None:
    cli, ref = client.cli, f"tool:{client.item_id()}"
    assert client.publish(words="Shouts aardvark")["skipped"] is False

    [row] = cli.json("registry", "search", "aardvark", "--namespace", client.account.name)[
        "results"
    ]
    info = cli.json("registry", "info", client.item_id())
    pulled = cli.json("registry", "pull", client.item_id())

    assert (row["item_id"], row["version"]) == (client.item_id(), "1.0.0")
    assert [one["version"] for one in info["item"]["versions"]] == ["1.0.0"]
    assert (pulled["ref"], pulled["author"]) == (ref, client.account.name)
    assert (pulled["placed"], pulled["runs"]) == ("written", False)
    assert f"|rye-registry@{client.account.name}\n" in client.file().read_text("utf-8")
    entry = client.lock["items"][ref]
    assert entry["registry"] == client.account.registry.url
    assert entry["path"] == f"tools/{client.item_id()}.py"
    assert entry["fingerprint"] == client.login["fingerprint"]


def test_an_id_of_two_parts_is_published_found_and_pulled(client: Client) -> None:
    """``my/heavy-compute``: a namespace and a name, without a category between them."""
    cli, item_id = client.cli, f"{client.account.name}/heavy-compute"
    path = cli.project_space.ai / "tools" / f"{item_id}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(item_text("tool", item_id), "utf-8")
    assert cli("sign", path).status == 0

    pushed = cli.json("registry", "push", item_id)
    path.unlink()
    found = cli.json("registry", "search", "--namespace", client.account.name)
    pulled = cli.json("registry", "pull", item_id)

    assert pushed["skipped"] is False
    assert [one["item_id"] for one in found["results"]] == [item_id]
    assert pulled["placed"] == "written"
    assert path.is_file()


def test_a_pulled_item_runs_after_it_was_signed_here(client: Client) -> None:
    client.publish()
    client.cli("registry", "pull", client.item_id())

    refused = client.cli("run", client.item_id(), "--json")
    assert (refused.status, refused.json["code"]) == (4, "UNTRUSTED_KEY")
    hint = f"it came from a registry: read it, then: rye sign {client.file()}"
    assert refused.json["hint"] == hint
    [before] = client.cli.json("registry", "verify")["items"]
    assert (before["state"], before["runs"]) == ("untrusted-key", False)

    assert client.cli("sign", client.file()).status == 0
    assert client.cli("run", client.item_id()).stdout == "hello\n"
    [after] = client.cli.json("registry", "verify")["items"]
    assert (after["state"], after["runs"]) == ("signed-here", True)


def test_a_pulled_item_can_be_signed_as_it_comes(client: Client) -> None:
    client.publish()

    pulled = client.cli.json("registry", "pull", client.item_id(), "--resign")

    assert pulled["runs"] is True
    assert client.cli("run", client.item_id()).stdout == "hello\n"


def test_items_signed_by_a_trusted_registry_run(client: Client) -> None:
    client.publish()
    client.cli("registry", "pull", client.item_id())

    wrong = client.cli("registry", "trust", "0" * 16, "--json")
    assert (wrong.status, wrong.json["code"]) == (4, "PIN_MISMATCH")
    trusted = client.cli("registry", "trust", client.login["fingerprint"])

    assert "runs here from now on" in trusted.stderr
    assert client.cli("run", client.item_id()).stdout == "hello\n"
    [row] = client.cli.json("registry", "verify")["items"]
    assert (row["state"], row["runs"]) == ("valid", True)
    assert client.cli("keys", "untrust", client.login["fingerprint"]).status == 0
    assert client.cli("run", client.item_id()).status == 4


def test_pulling_again_changes_nothing(client: Client) -> None:
    client.publish()
    client.cli("registry", "pull", client.item_id())

    assert client.cli.json("registry", "pull", client.item_id())["placed"] == "unchanged"


def test_a_signature_of_ones_own_stays(client: Client) -> None:
    client.publish()
    client.cli("registry", "pull", client.item_id(), "--resign")
    before = client.file().read_bytes()

    pulled = client.cli.json("registry", "pull", client.item_id())

    assert (pulled["placed"], pulled["runs"]) == ("unchanged", True)
    assert client.file().read_bytes() == before


def test_another_file_is_never_replaced_without_consent(client: Client) -> None:
    client.publish()
    mine = client.write(words="My own words")
    before = mine.read_bytes()

    refused = client.cli("registry", "pull", client.item_id(), "--json")
    assert (refused.status, refused.json["code"]) == (1, "CONFLICT")
    assert mine.read_bytes() == before

    replaced = client.cli.json("registry", "pull", client.item_id(), "--overwrite")
    assert replaced["placed"] == "replaced"
    assert Path(replaced["prior_text"]).read_bytes() == before
    assert list(mine.parent.glob("*.bak*")) == []


def test_a_file_of_another_type_with_the_same_id_is_in_the_way(client: Client) -> None:
    client.publish()
    other = client.file().with_suffix(".yaml")
    other.write_text("version: 1.0.0\n", "utf-8")

    refused = client.cli("registry", "pull", client.item_id(), "--json")

    assert refused.json["error"].startswith(f"{other}: another file that is tool:")


def test_showing_an_item_writes_no_file(client: Client) -> None:
    client.publish()

    shown = client.cli("registry", "pull", client.item_id(), "--print")

    assert "|rye-registry@" in shown.stdout
    assert not client.file().exists()


def test_an_update_replaces_unchanged_files(client: Client) -> None:
    client.publish()
    client.cli("registry", "pull", client.item_id(), "--resign")
    assert client.cli.json("registry", "outdated")["items"][0]["state"] == "current"
    kept = client.file().read_bytes()
    client.publish("1.10.0", "Newer")
    client.file().write_bytes(kept)

    [row] = client.cli.json("registry", "outdated")["items"]
    assert (row["state"], row["latest"]) == ("outdated", "1.10.0")
    [updated] = client.cli.json("registry", "update", client.item_id())["items"]

    assert (updated["state"], updated["runs"]) == ("updated", False)
    assert client.lock["items"][f"tool:{client.item_id()}"]["version"] == "1.10.0"
    assert client.cli.json("registry", "update")["items"] == []


def test_an_update_keeps_local_changes(client: Client) -> None:
    client.publish()
    client.cli("registry", "pull", client.item_id())
    pulled = client.file().read_text("utf-8")
    client.publish("1.1.0", "Newer")
    client.file().write_text(pulled + "# mine\n", "utf-8")

    [state] = client.cli("registry", "verify", "--json").json["items"]
    [row] = client.cli.json("registry", "update")["items"]

    assert state["state"] == "edited"
    assert row["state"] == "kept"
    assert client.file().read_text("utf-8") == pulled + "# mine\n"


@pytest.mark.parametrize("kind", ["directive", "knowledge"])
def test_texts_are_covered_whole(client: Client, kind: str) -> None:
    folder = client.cli.project_space.ai / {"directive": "directives"}.get(kind, kind)
    path = folder / f"{client.item_id('about')}.md"
    path.parent.mkdir(parents=True)
    path.write_text(item_text(kind, client.item_id("about")), "utf-8")
    assert client.cli("sign", path).status == 0
    ref = f"{kind}:{client.item_id('about')}"
    client.cli.json("registry", "push", ref)
    path.unlink()

    assert client.cli.json("registry", "pull", ref)["coverage"] == "full"
    client.cli("registry", "trust", client.login["fingerprint"])
    assert client.cli("run", ref).status == 0

    path.write_text(path.read_text("utf-8") + "And something else.\n", "utf-8")
    assert client.cli("run", ref).status == 4
    [row] = client.cli("registry", "verify", "--json").json["items"]
    assert row["state"] == "edited"


def test_versions_are_never_changed(client: Client) -> None:
    client.publish()
    assert client.publish()["skipped"] is True
    client.write(words="Something else")

    refused = client.cli("registry", "push", client.item_id(), "--json")

    assert (refused.status, refused.json["code"]) == (7, "REGISTRY_REFUSED")
    assert refused.json["http_status"] == 409


@pytest.mark.parametrize("way", ["@1.0.0", "--version", "--version=1.0.0", "--release"])
def test_a_version_is_named_in_the_ways_that_people_try(client: Client, way: str) -> None:
    client.publish()
    client.publish("1.1.0", "Newer")
    flags = [way] if "=" in way else [way, "1.0.0"]
    ref = client.item_id()
    words = [f"{ref}{way}"] if way.startswith("@") else [ref, *flags]

    client.cli.json("registry", "pull", *words, "--overwrite")
    both = client.cli("registry", "pull", f"{ref}@1.0.0", "--release", "1.1.0")
    none = client.cli("registry", "pull", f"{ref}@")

    assert '"1.0.0"' in client.file().read_text("utf-8")
    assert (both.status, none.status) == (2, 2)


def test_a_deleted_item_is_gone_for_good(client: Client) -> None:
    client.publish()

    assert client.cli("registry", "delete", client.item_id()).status == 2
    gone = client.cli.json("registry", "delete", client.item_id(), "--release", "1.0.0")
    missing = client.cli("registry", "pull", client.item_id(), "--json")

    assert gone["deleted_versions"] == ["1.0.0"]
    assert (missing.status, missing.json["code"]) == (3, "ITEM_NOT_FOUND")


def test_unlisted_items_are_pulled_and_not_found(client: Client) -> None:
    client.publish()
    changed = client.cli.json("registry", "visibility", client.item_id(), "unlisted")
    assert changed["previous_visibility"] == "public"

    mine = ["registry", "search", "--namespace", client.account.name]
    assert client.cli.json(*mine)["total"] == 0
    assert client.cli.json(*mine, "--mine")["total"] == 1
    assert client.cli("registry", "pull", client.item_id()).status == 0


def test_an_item_that_does_not_verify_is_not_pushed(client: Client) -> None:
    path = client.write()
    path.write_text(path.read_text("utf-8") + "# changed\n", "utf-8")

    refused = client.cli("registry", "push", client.item_id(), "--json")

    assert (refused.status, refused.json["code"]) == (4, "INTEGRITY")


def test_a_bundles_item_is_not_pushed(client: Client) -> None:
    refused = client.cli("registry", "push", "rye/bash/bash", "--json")

    assert (refused.status, refused.json["code"]) == (2, "UNSUPPORTED")


def test_api_keys_are_made_and_revoked(client: Client) -> None:
    made = client.cli.json("registry", "keys", "create", "ci", "--read-only", "--days", "7")
    listed = client.cli("registry", "keys", "list")
    revoked = client.cli.json("registry", "keys", "revoke", "ci")

    assert made["key"].startswith("rye_sk_")
    assert made["scopes"] == ["registry:read"]
    assert "ci" in listed.stdout
    assert made["key"] not in listed.stdout
    assert revoked["name"] == "ci"


def test_an_api_key_is_revoked_by_its_beginning_as_the_list_shows_it(client: Client) -> None:
    made = client.cli.json("registry", "keys", "create", "laptop")
    listed = client.cli("registry", "keys", "list").stdout
    beginning = next(line.split()[1] for line in listed.splitlines() if "laptop" in line)
    assert made["key"].startswith(beginning) or beginning in made["key"]

    assert client.cli.json("registry", "keys", "revoke", beginning)["name"] == "laptop"


def test_a_namespace_is_claimed_once(client: Client, shared_registry: Registry) -> None:
    name = f"{client.account.name}-two"

    assert client.cli.json("registry", "namespaces", "claim", name)["unchanged"] is False
    assert client.cli.json("registry", "namespaces", "claim", name)["unchanged"] is True
    assert name in client.cli("registry", "namespaces", "list").stdout
    other = shared_registry.account()
    refused = client.cli("registry", "namespaces", "claim", name, "--json", REG_KEY=other.token)
    assert (refused.status, refused.json["code"]) == (7, "REGISTRY_REFUSED")


def test_a_pushed_item_can_be_bound_to_the_key_of_its_user(client: Client) -> None:
    added = client.cli.json("registry", "signers", "add")["fingerprint"]

    assert client.cli.json("registry", "signers", "list")["signing_keys"] == [added]
    assert client.publish()["skipped"] is False
    client.cli("registry", "signers", "remove", added)
    assert client.cli.json("registry", "signers", "list")["signing_keys"] == []


def test_a_project_names_no_registry(signer: CommandLine, shared_registry: Registry) -> None:
    path = signer.project / CONFIG
    path.parent.mkdir(parents=True)
    path.write_text(
        f"registry:\n  default:\n    url: {shared_registry.url}\n    key_env: HOME\n", "utf-8"
    )

    done = signer("registry", "search", "x", "--json")

    assert (done.status, done.json["code"]) == (3, "REGISTRY_NOT_CONFIGURED")
    assert f"the project names {shared_registry.url}" in done.json["hint"]


def test_a_lock_leads_to_no_registry_that_the_user_does_not_name(client: Client) -> None:
    client.publish()
    client.cli("registry", "pull", client.item_id())
    path = client.cli.project_space.ai / LOCK_NAME
    path.write_text(path.read_text("utf-8").replace("127.0.0.1", "evil.example"), "utf-8")

    [row] = client.cli.json("registry", "outdated")["items"]

    assert row["state"] == "unknown"
    assert "not configured" in row["problem"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_no_file_is_written_through_a_link(client: Client, tmp_path: Path) -> None:
    client.publish()
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = client.file().parent.parent
    shutil.rmtree(folder)
    folder.symlink_to(outside)

    refused = client.cli("registry", "pull", client.item_id(), "--json")

    assert refused.status != 0
    assert f"{folder}: a link to {outside}" in refused.json["error"]
    assert list(outside.rglob("*")) == []


def test_a_logout_removes_the_login(client: Client) -> None:
    assert client.cli("registry", "logout").status == 0
    assert client.cli.json("registry", "status")["registries"] == []
    netloc = client.account.registry.url.removeprefix("http://")
    assert client.cli("registry", "forget", netloc).status == 0
    assert client.cli("registry", "forget", netloc).status == 3
