"""Bundles installed from folders and from a real registry."""

import gzip
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ryeos.trust.installed_bundles import PINS_NAME
from tests.support.bundles import Publisher, echo_tool
from tests.support.command_line import CommandLine
from tests.support.registry import Registry


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    """A user who makes bundles."""
    folder = tmp_path / "published"
    folder.mkdir()
    return Publisher.at(folder)


def installed(cli: CommandLine, bundle_id: str = "acme") -> Path:
    """Where an installed bundle lies."""
    return cli.user_space.ai / "bundles" / bundle_id


def test_a_bundle_in_a_folder_is_installed_and_runs(cli: CommandLine, publisher: Publisher) -> None:
    done = cli.json("bundle", "install", publisher.bundle("acme"))

    assert (done["state"], done["version"], done["is_new_key"]) == ("installed", "1.0.0", True)
    assert done["fingerprint"] == publisher.fingerprint
    ran = cli.json("run", "acme/greet")
    assert ran["data"]["stdout"] == "hello 1.0.0\n"
    assert ran["chain"][0]["space"] == "system:acme"
    [row] = cli.json("bundle", "list")["bundles"]
    assert (row["bundle"], row["state"]) == ("acme", "valid")


def packed(folder: Path, archive: Path, top: str) -> Path:
    with tarfile.open(archive, "w") as file:
        file.add(folder, top)
    return archive


@pytest.mark.parametrize("top", [".", "acme-1.0.0"])
def test_a_bundle_in_a_tar_file_is_installed_and_runs(
    cli: CommandLine, publisher: Publisher, tmp_path: Path, top: str
) -> None:
    archive = packed(publisher.bundle("acme"), tmp_path / "acme.tar", top)

    done = cli.json("bundle", "install", archive, "--key", f"fp:{publisher.fingerprint}")

    assert (done["state"], done["source"]) == ("installed", str(archive))
    assert cli.json("run", "acme/greet")["data"]["stdout"] == "hello 1.0.0\n"


def _with_link(archive: Path) -> None:
    with tarfile.open(archive, "a") as file:
        member = tarfile.TarInfo(".ai/tools/acme/link.yaml")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(member)


def _with_path_outside(archive: Path) -> None:
    with tarfile.open(archive, "a") as file:
        file.addfile(tarfile.TarInfo(".ai/../../outside"))


def _cut(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:700])


def _compressed(archive: Path) -> None:
    archive.write_bytes(gzip.compress(archive.read_bytes()))


def _with_changed_file(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes().replace(b"hello", b"jello"))


@pytest.mark.parametrize(
    "damage", [_with_link, _with_path_outside, _cut, _compressed, _with_changed_file]
)
def test_a_tar_file_that_is_not_a_bundle_as_it_was_signed_is_refused(
    cli: CommandLine, publisher: Publisher, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    archive = packed(publisher.bundle("acme"), tmp_path / "acme.tar", ".")
    damage(archive)

    refused = cli("bundle", "install", archive, "--json")

    assert (refused.status, refused.json["code"]) == (4, "INTEGRITY")
    assert not installed(cli).exists()
    assert not (tmp_path / "outside").exists()


def test_an_installed_bundle_is_no_trusted_signer_elsewhere(
    cli: CommandLine, publisher: Publisher
) -> None:
    bundle = publisher.bundle("acme")
    cli("bundle", "install", bundle)
    stolen = cli.project_space.ai / "tools" / "other" / "greet.yaml"
    stolen.parent.mkdir(parents=True)
    shutil.copy(bundle / ".ai/tools/acme/greet.yaml", stolen)

    done = cli("run", "other/greet", "--json")

    assert (done.status, done.json["code"]) == (4, "UNTRUSTED_KEY")


def test_a_newer_version_takes_the_place_of_the_older(
    cli: CommandLine, publisher: Publisher
) -> None:
    cli("bundle", "install", publisher.bundle("acme"))
    newer = publisher.bundle("acme", "1.10.0")

    done = cli.json("bundle", "install", newer)

    assert (done["state"], done["previous"]) == ("updated", "1.0.0")
    assert cli("run", "acme/greet").stdout == "hello 1.10.0\n"
    assert cli.json("bundle", "install", newer)["state"] == "unchanged"
    assert [path.name for path in installed(cli).parent.iterdir()] == ["acme"]


def test_a_bundle_by_another_key_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = Publisher.at(tmp_path / "a"), Publisher.at(tmp_path / "b")
    cli("bundle", "install", first.bundle("acme"))
    other = second.bundle("acme", "2.0.0")

    refused = cli("bundle", "install", other, "--json")
    assert (refused.status, refused.json["code"]) == (4, "PIN_MISMATCH")
    assert cli("run", "acme/greet").stdout == "hello 1.0.0\n"

    cli("bundle", "uninstall", "acme")  # whose key is known is not forgotten with it
    assert cli("bundle", "install", other).status == 4
    assert cli("bundle", "uninstall", "acme", "--forget").status == 0
    assert cli("bundle", "install", other, "--key", second.fingerprint).status == 0


def test_a_key_that_was_named_must_be_the_publishers(
    cli: CommandLine, publisher: Publisher
) -> None:
    refused = cli("bundle", "install", publisher.bundle("acme"), "--key", "0" * 16, "--json")

    assert (refused.status, refused.json["code"]) == (4, "PIN_MISMATCH")
    assert not installed(cli).exists()


def test_an_uninstalled_bundle_is_gone(cli: CommandLine, publisher: Publisher) -> None:
    cli("bundle", "install", publisher.bundle("acme"))

    assert cli("bundle", "uninstall", "acme").status == 0

    assert not installed(cli).exists()
    assert cli("run", "acme/greet").status == 3
    assert cli.json("bundle", "list")["bundles"] == []
    assert cli("bundle", "uninstall", "acme").status == 3


def test_a_changed_file_of_an_installed_bundle_is_refused(
    cli: CommandLine, publisher: Publisher
) -> None:
    cli("bundle", "install", publisher.bundle("acme"))
    tool = installed(cli) / ".ai/tools/acme/greet.yaml"
    tool.write_text(tool.read_text("utf-8").replace("hello", "goodbye"), "utf-8")

    ran = cli("run", "acme/greet", "--json")
    listed = cli("bundle", "list", "--json")

    assert (ran.status, ran.json["code"]) == (4, "INTEGRITY")
    assert (listed.status, listed.json["bundles"][0]["state"]) == (1, "tampered")


def test_a_bundle_with_a_key_of_its_own_beside_it_is_refused(
    cli: CommandLine, publisher: Publisher, tmp_path: Path
) -> None:
    """An attacker who replaces the whole folder, key and manifest too, is not the publisher."""
    cli("bundle", "install", publisher.bundle("acme"))
    (tmp_path / "other").mkdir()
    shutil.rmtree(installed(cli))
    shutil.copytree(Publisher.at(tmp_path / "other").bundle("acme"), installed(cli))

    ran = cli("run", "acme/greet", "--json")

    assert (ran.status, ran.json["code"]) == (4, "INTEGRITY")


def test_a_folder_that_was_not_installed_does_not_count(
    cli: CommandLine, publisher: Publisher
) -> None:
    installed(cli).parent.mkdir(parents=True)
    shutil.copytree(publisher.bundle("acme"), installed(cli))

    assert cli("run", "acme/greet").status == 3


def test_pins_that_cannot_be_read_leave_the_program_working(
    cli: CommandLine, publisher: Publisher
) -> None:
    cli("bundle", "install", publisher.bundle("acme"))
    (cli.user_space.ai / PINS_NAME).write_text("{", "utf-8")

    assert cli("run", "rye/bash/bash", "command=echo fine").stdout == "fine\n"
    assert cli("run", "acme/greet").status == 3
    assert cli("bundle", "list").status == 6


def test_the_programs_own_items_come_first(cli: CommandLine, publisher: Publisher) -> None:
    """An installed bundle cannot even hold an id of Rye's own."""
    tool = {"tools/rye/bash/bash.yaml": echo_tool("rye/bash", "evil")}

    refused = cli("bundle", "install", publisher.bundle("acme", files=tool), "--json")

    assert (refused.status, refused.json["code"]) == (4, "INTEGRITY")
    assert refused.json["error"].endswith("ids below rye/ are rye's own")


def test_a_project_may_use_items_of_a_bundle(cli: CommandLine, publisher: Publisher) -> None:
    cli("keys", "generate")
    cli("bundle", "install", publisher.bundle("acme"))

    assert cli("load", "acme/greet", "--to", "project").status == 0
    assert cli("run", "acme/greet").stdout == "hello 1.0.0\n"
    assert cli("verify", "tool:acme/greet").status == 0


def test_the_program_is_reported_apart_from_installed_bundles(
    cli: CommandLine, publisher: Publisher
) -> None:
    before = cli.json("version")
    cli("bundle", "install", publisher.bundle("acme", "9.9.9"))

    assert cli.json("version") == before
    where = cli.json("self", "where")
    assert where["other_bundles"] == [str(installed(cli))]


def test_folders_of_a_killed_program_are_swept(cli: CommandLine, publisher: Publisher) -> None:
    left = installed(cli).with_name(".new-0123456789ab")
    left.mkdir(parents=True)
    (left / "file").touch()

    cli("bundle", "install", publisher.bundle("acme"))

    assert [path.name for path in installed(cli).parent.iterdir()] == ["acme"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_links_are_no_part_of_a_bundle(cli: CommandLine, publisher: Publisher) -> None:
    bundle = publisher.bundle("acme")
    (bundle / ".ai/tools/acme/secret.yaml").symlink_to("/etc/passwd")

    refused = cli("bundle", "install", bundle, "--json")

    assert refused.json["error"].endswith("expected no links")


# --- from a registry ------------------------------------------------------------------------------


class Shared:
    """A user with an account on a registry, and an id for a bundle that no other user has."""

    def __init__(self, cli: CommandLine, registry: Registry, publisher: Publisher) -> None:
        account = registry.account()
        self.cli, self.publisher, self.registry = cli, publisher, registry
        self.bundle_id = f"{account.name}-tools"
        cli.env = {**cli.env, "REG_KEY": account.token}
        cli.json("registry", "login", "--url", registry.url, "--key-env", "REG_KEY")

    def push(self, version: str = "1.0.0") -> Any:  # noqa: ANN401 - JSON
        """Publish a version."""
        return self.cli.json("bundle", "push", self.publisher.bundle(self.bundle_id, version))


@pytest.fixture
def shared(signer: CommandLine, shared_registry: Registry, publisher: Publisher) -> Shared:
    """A user who may publish bundles."""
    return Shared(signer, shared_registry, publisher)


def test_a_published_bundle_is_found_installed_and_updated(shared: Shared) -> None:
    cli, bundle_id = shared.cli, shared.bundle_id
    assert shared.push()["skipped"] is False

    found = cli.json("bundle", "search", "--namespace", bundle_id.removesuffix("-tools"))
    assert [row["bundle_id"] for row in found["results"]] == [bundle_id]
    done = cli.json("bundle", "install", bundle_id, "--key", shared.publisher.fingerprint)
    assert (done["state"], done["source"]) == ("installed", shared.registry.url)
    assert cli("run", f"{bundle_id}/greet").stdout == "hello 1.0.0\n"

    shared.push("1.1.0")
    assert cli.json("bundle", "install", bundle_id)["state"] == "updated"
    older = cli.json("bundle", "install", bundle_id, "--release", "1.0.0")
    assert (older["previous"], older["version"]) == ("1.1.0", "1.0.0")


def test_a_bundle_is_pulled_to_be_read(shared: Shared) -> None:
    shared.push()

    pulled = shared.cli.json("bundle", "pull", shared.bundle_id, "--to", "look")

    assert (Path(pulled["path"]) / ".ai/tools" / shared.bundle_id / "greet.yaml").is_file()
    assert shared.cli("run", f"{shared.bundle_id}/greet").status == 3
    again = shared.cli("bundle", "pull", shared.bundle_id, "--to", "look", "--json")
    assert (again.status, again.json["code"]) == (1, "CONFLICT")


def test_a_folder_with_the_name_of_a_bundle_is_not_installed_in_its_place(
    shared: Shared, tmp_path: Path
) -> None:
    shared.push()
    (tmp_path / "theirs").mkdir()
    planted = Publisher.at(tmp_path / "theirs").bundle(shared.bundle_id, "9.0.0")
    shutil.copytree(planted, shared.cli.project / shared.bundle_id)  # as a clone brings it along

    done = shared.cli("bundle", "install", shared.bundle_id, "--json")

    assert done.json["source"] == shared.registry.url
    assert done.json["fingerprint"] == shared.publisher.fingerprint
    assert f"if you mean it: ./{shared.bundle_id}" in done.stderr
    meant = shared.cli("bundle", "install", f"./{shared.bundle_id}", "--json")
    assert (meant.status, meant.json["code"]) == (4, "PIN_MISMATCH")


def test_a_missing_bundle_is_not_installed(shared: Shared) -> None:
    missing = shared.cli("bundle", "install", "no-such-bundle", "--json")

    assert (missing.status, missing.json["code"]) == (3, "ITEM_NOT_FOUND")
    assert not (shared.cli.user_space.ai / PINS_NAME).exists()


def test_another_account_cannot_publish_a_bundle_of_this_name(
    shared: Shared, tmp_path: Path
) -> None:
    shared.push()
    (tmp_path / "other").mkdir()
    other = Publisher.at(tmp_path / "other").bundle(shared.bundle_id, "2.0.0")
    token = shared.registry.account().token

    refused = shared.cli("bundle", "push", other, "--json", REG_KEY=token)

    assert (refused.status, refused.json["code"]) == (7, "REGISTRY_REFUSED")


def test_the_list_of_pins_is_for_its_owner_only(cli: CommandLine, publisher: Publisher) -> None:
    cli("bundle", "install", publisher.bundle("acme"))
    path = cli.user_space.ai / PINS_NAME

    assert json.loads(path.read_bytes())["bundles"]["acme"]["version"] == "1.0.0"
    assert os.name == "nt" or path.stat().st_mode & 0o077 == 0
