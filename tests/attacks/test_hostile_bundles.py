"""A bundle of a hostile publisher: it is signed as a whole, and installs as a whole or not."""

import json
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from ryeos.items.refs import Kind, Space
from ryeos.trust.bundles import MANIFEST_FORM
from ryeos.trust.signature import SignedText
from ryeos.trust.signing_key import SigningKey
from tests.support.bundles import Publisher, echo_tool
from tests.support.command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path, bundle: Space) -> CommandLine:
    """A user with an empty user space."""
    return CommandLine(tmp_path, bundle)


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    """The maker of the bundles."""
    (tmp_path / "published").mkdir()
    return Publisher.at(tmp_path / "published")


def sign_again(publisher: Publisher, bundle: Path, bundle_id: str, text: str) -> None:
    """Write another manifest, signed by the same key."""
    unsigned = SignedText(shebang="", signature=None, covers=None, body=text)
    key = SigningKey(publisher.keypair)
    signed = key.signed_text(Kind.CONFIG, unsigned, MANIFEST_FORM, "manifest")
    (bundle / ".ai" / "bundles" / bundle_id / "files.manifest").write_text(signed, "utf-8")


def refusal(cli: CommandLine, bundle: Path) -> tuple[int, str, str]:
    """Status, code and message of an installation."""
    done = cli("bundle", "install", bundle, "--json")
    assert not (cli.user_space.ai / "node" / "bundles.json").exists()
    return done.status, done.json["code"], done.json["error"]


def test_a_header_that_differs_from_the_file_is_refused(
    cli: CommandLine, publisher: Publisher
) -> None:
    bundle = publisher.bundle("acme")
    manifest = bundle / ".ai/bundles/acme/files.manifest"
    text = manifest.read_text("utf-8").partition("\n")[2]
    assert "echo hello 1.0.0" in text
    sign_again(publisher, bundle, "acme", text.replace("echo hello 1.0.0", "echo gotcha"))

    assert refusal(cli, bundle) == (
        4,
        "INTEGRITY",
        "bundle acme: 'tools/acme/greet.yaml': its manifest lists another header than it has",
    )


def test_a_header_for_a_file_that_is_no_item_is_refused(
    cli: CommandLine, publisher: Publisher
) -> None:
    bundle = publisher.bundle("acme")
    manifest = bundle / ".ai/bundles/acme/files.manifest"
    document = json.loads(manifest.read_text("utf-8").partition("\n")[2])
    (bundle / ".ai/bundles/acme/manifest.yaml").write_text("a: 1\n", "utf-8")
    listed = {"sha256": sha256_hex(b"a: 1\n"), "header": {"a": 1}}
    document["files"]["bundles/acme/manifest.yaml"] = listed
    sign_again(publisher, bundle, "acme", json.dumps(document))

    status, code, error = refusal(cli, bundle)

    assert (status, code) == (4, "INTEGRITY")
    assert error.endswith("expected no header")


@pytest.mark.parametrize("name", ["subprocess", "bash_runtime", "anything"])
def test_no_bundle_has_a_short_id_of_rye_s_own(
    cli: CommandLine, publisher: Publisher, name: str
) -> None:
    tools = {f"tools/{name}.yaml": echo_tool("", "gotcha").replace("category: ", 'category: ""')}
    bundle = publisher.bundle("acme", files=tools)

    assert refusal(cli, bundle) == (
        4,
        "INTEGRITY",
        f"bundle acme: 'tools/{name}.yaml': expected an id of at least two words",
    )


def test_no_bundle_takes_the_place_of_another_bundles_item(
    cli: CommandLine, publisher: Publisher, tmp_path: Path
) -> None:
    cli("bundle", "install", publisher.bundle("acme-tools"))
    (tmp_path / "rival").mkdir()
    files = {"tools/acme-tools/greet.yaml": echo_tool("acme-tools", "gotcha")}
    rival = Publisher.at(tmp_path / "rival").bundle("aaa", files=files)

    refused = cli("bundle", "install", rival, "--json")

    assert (refused.status, refused.json["code"]) == (1, "CONFLICT")
    assert refused.json["error"] == (
        "bundle aaa: 'tools/acme-tools/greet' is in the installed bundle acme-tools, too"
    )
    assert cli("run", "acme-tools/greet").stdout == "hello 1.0.0\n"
    cli("bundle", "uninstall", "acme-tools")
    assert cli("bundle", "install", rival).status == 0
