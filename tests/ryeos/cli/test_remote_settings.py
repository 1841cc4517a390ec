import pytest

from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair
from ryeos.remote.identity import identity_document, read_identity
from ryeos.remote.pins import Pins
from ryeos.trust.signing_key import SigningKey
from tests.support.command_line import CommandLine

URL = "https://gpu.example:8443"
CONFIG = ".ai/config/remotes/remotes.yaml"


@pytest.fixture
def pinned(cli: CommandLine) -> str:
    """The id of a node that was spoken to as gpu."""
    document = identity_document(SigningKey(generate_keypair()), generate_box_pair()[1], "")
    identity = read_identity(document)
    Pins(cli.home).check("gpu", "gpu.example:8443", identity, expected=None)
    return identity.node_id


def test_without_remotes_it_says_how_to_add_one(cli: CommandLine) -> None:
    done = cli("remote", "list")

    assert (done.status, done.stdout) == (0, "")
    assert done.stderr == "no remotes; add one with: rye remote add NAME URL\n"


def test_an_added_remote_is_listed(cli: CommandLine) -> None:
    cli("keys", "generate")
    added = cli.json(
        *("remote", "add", "gpu", "HTTPS://GPU.example:8443/"),
        *("--key-env", "GPU_KEY", "--timeout", "60", "--role", "registry", "--role", "runs"),
    )

    assert added == {
        "status": "success",
        "name": "gpu",
        "remote": {
            "url": URL,
            "key_env": "GPU_KEY",
            "timeout": 60.0,
            "roles": ["registry", "runs"],
        },
        "path": str(cli.home / CONFIG),
    }
    assert (cli.home / CONFIG).read_text("utf-8").startswith("# rye:signed:")
    row = {
        "name": "gpu",
        "url": URL,
        "source": "user",
        "usable": True,
        "auth": "signed",
        "key_env": "GPU_KEY",
        "node_id": None,
        "pinned": None,
        "timeout_s": 60.0,
        "roles": ["registry", "runs"],
    }
    assert cli.json("remote", "list")["remotes"] == [row]
    with_key = cli.json("remote", "list", GPU_KEY="rye_sk_1")["remotes"]
    assert with_key == [{**row, "auth": "bearer"}]


def test_a_key_is_never_shown(cli: CommandLine) -> None:
    cli("remote", "add", "gpu", URL, "--key-env", "GPU_KEY")

    for arguments in (["remote", "list"], ["remote", "list", "--json"]):
        done = cli(*arguments, GPU_KEY="rye_sk_secret")
        assert done.status == 0
        assert "rye_sk_secret" not in done.stdout + done.stderr


def test_adding_names_missing_settings(cli: CommandLine) -> None:
    done = cli("remote", "add", "gpu", "http://gpu.example", "--key-env", "GPU_KEY")

    assert done.status == 0
    assert done.stdout == "added remote gpu: http://gpu.example\n"
    assert done.stderr.splitlines() == [
        "warning: http://gpu.example: what is sent there can be read on the way; use https",
        "GPU_KEY is not set: without it, requests are signed",
        "the node that answers first is pinned; --node-id names it beforehand",
    ]


def test_a_remote_is_replaced_only_on_request(cli: CommandLine) -> None:
    cli("remote", "add", "gpu", URL)

    refused = cli("remote", "add", "gpu", "https://other.example")
    replaced = cli("remote", "add", "gpu", "https://other.example", "--replace")

    assert refused.status == 1
    assert "remote gpu is already there" in refused.stderr
    assert "hint: replace it: rye remote add gpu https://other.example --replace" in refused.stderr
    assert replaced.status == 0
    assert cli.json("remote", "list")["remotes"][0]["url"] == "https://other.example"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["gpu", "gpu.example"], 2, "URL: expected a URL that begins with https:// or http://"),
        (["gpu", "https://me:pw@x"], 2, "URL: expected no user or password in it"),
        (["a b", URL], 2, "NAME: expected letters, digits, . _ - (at most 64"),
        (["gpu", URL, "--node-id", "x"], 2, "--node-id: expected fp: and 16 hex digits"),
        (["gpu", URL, "--timeout", "0"], 2, "--timeout: expected seconds"),
        (["gpu", URL, "--key-env", "rye_sk-1"], 2, "--key-env: expected the name"),
    ],
)
def test_unusable_settings_are_not_written(
    cli: CommandLine, arguments: list[str], status: int, message: str
) -> None:
    done = cli("remote", "add", *arguments)

    assert done.status == status
    assert "remotes.yaml" not in done.stderr
    assert "rye_sk-1" not in done.stderr
    assert f"error: {message}" in done.stderr
    assert not (cli.home / CONFIG).exists()


def test_a_removed_remote_is_gone(cli: CommandLine) -> None:
    cli("remote", "add", "gpu", URL)

    done = cli("remote", "remove", "gpu")
    again = cli("remote", "remove", "gpu")

    assert done.status == 0
    assert cli.json("remote", "list")["remotes"] == []
    assert again.status == 3
    assert "error: remote 'gpu': not found; configured: none" in again.stderr


def test_a_remote_of_the_project_comes_with_a_command_to_add_it(cli: CommandLine) -> None:
    path = cli.project / CONFIG
    path.parent.mkdir(parents=True)
    path.write_text(f"remotes: {{gpu: {{url: '{URL}', key_env: AWS_KEY}}}}\n", encoding="utf-8")

    row = cli.json("remote", "list")["remotes"][0]
    assert (row["usable"], row["source"]) == (False, "project")
    command, _, other = row["hint"].partition("; or ")
    assert command == f"if you know it: rye remote add gpu {URL} --key-env AWS_KEY"
    assert other == "approve what the project says: rye trust"

    status = cli.json("remote", "status")["remotes"]["gpu"]
    assert (status["url"], status["problem"]) == (None, row["problem"])

    command = command.removeprefix("if you know it: rye ").split()
    assert cli(*command).status == 0
    assert cli.json("remote", "list")["remotes"][0]["usable"]


def test_pins_are_listed_and_forgotten(cli: CommandLine, pinned: str) -> None:
    cli("remote", "add", "gpu", URL)

    listed = cli.json("remote", "pins")["pins"]
    row = cli.json("remote", "list")["remotes"][0]
    forgotten = cli("remote", "forget", "gpu")
    again = cli("remote", "forget", "gpu")

    assert [(pin["name"], pin["netloc"], pin["node_id"]) for pin in listed] == [
        ("gpu", "gpu.example:8443", pinned)
    ]
    assert row["pinned"] == pinned
    assert forgotten.status == 0
    assert cli.json("remote", "pins")["pins"] == []
    assert again.status == 3
    assert "error: remote 'gpu': no node is pinned under this name" in again.stderr


def test_a_pin_that_cannot_be_read_is_forgotten_too(cli: CommandLine, pinned: str) -> None:
    assert pinned
    path = next((cli.home / ".ai/node/pins").glob("*.toml"))
    path.write_text("cut", encoding="utf-8")

    assert cli.json("remote", "forget", "gpu")["removed"] == [str(path)]


def test_a_word_that_is_an_alias_elsewhere_is_an_argument_here(cli: CommandLine) -> None:
    done = cli("remote", "execute")

    assert done.status == 2
    assert "rye remote execute: the following arguments are required: REF" in done.stderr


def test_the_hint_on_removing_an_unknown_remote_is_not_to_add_it(cli: CommandLine) -> None:
    cli("remote", "add", "gpu", URL)

    far, near = cli("remote", "remove", "nope"), cli("remote", "remove", "gpuu")

    assert (far.status, near.status) == (3, 3)
    assert "hint: see: rye remote list" in far.stderr
    assert "did you mean gpu? or see: rye remote list" in near.stderr


def test_only_missing_required_words_are_requested(cli: CommandLine) -> None:
    done = cli("remote", "execute")

    assert done.status == 2
    assert "the following arguments are required: REF\n" in done.stderr
