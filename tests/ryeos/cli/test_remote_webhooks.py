import json

import pytest

from lillux.key_files import load_keypair
from tests.support.command_line import CommandLine
from tests.support.node import Node

TOOL = """#!/usr/bin/env bash
# version: "1.0.0"
# tool_type: bash
# executor_id: rye/core/runtimes/bash/bash
# category: mine
# description: says hello, and how long a secret is
echo "hello ${#TOKEN} $TOKEN"
"""


@pytest.fixture
def on_node(cli: CommandLine, shared_node: Node) -> CommandLine:
    """The command line of a user whose key the node knows, with a tool of their own."""
    cli("keys", "generate")
    shared_node.user(keypair=load_keypair(cli.home / ".ai/config/keys/signing"))
    cli("remote", "add", "default", shared_node.url, "--node-id", shared_node.keys.node_id)
    path = cli.project / ".ai/tools/mine/hello.sh"
    path.parent.mkdir(parents=True)
    path.write_text(TOOL, encoding="utf-8")
    done = cli("sign", "tool:mine/hello")
    assert done.status == 0, done.stderr
    return cli


def test_a_webhook_is_made_listed_and_revoked(on_node: CommandLine) -> None:
    arguments = ["mine/hello", "--description", "of a test", "--vault-keys", "A, B"]
    made = on_node.json("remote", "webhooks", "create", *arguments)
    hook_id = made["hook_id"]
    listed = on_node.json("remote", "webhooks", "list")["bindings"]
    text = on_node("remote", "webhooks", "list").stdout
    revoked = on_node("remote", "webhooks", "delete", hook_id)
    again = on_node("remote", "webhooks", "delete", hook_id)

    assert made["item_id"] == "tool:mine/hello"
    assert made["hmac_secret"].startswith("whsec_")
    assert [row["hook_id"] for row in listed] == [hook_id]
    assert listed[0]["vault_keys"] == ["A", "B"]
    assert "hmac_secret" not in listed[0]
    assert text == f"{hook_id}  active   tool:mine/hello of project  (of a test)\n"
    assert (revoked.status, revoked.stdout) == (0, f"revoked {hook_id}\n")
    assert "revoked" in on_node("remote", "webhooks", "list").stdout
    assert again.status in {0, 3}


def test_only_an_item_that_could_run_gets_a_webhook(on_node: CommandLine) -> None:
    path = on_node.project / ".ai/tools/mine/hello.sh"
    path.write_text(path.read_text(encoding="utf-8") + "rm -rf /\n", encoding="utf-8")

    done = on_node("remote", "webhooks", "create", "mine/hello")

    assert done.status == 4
    assert on_node.json("remote", "webhooks", "list")["bindings"] == []


@pytest.mark.parametrize("hook_id", ["wh_0", "../x", "a b"])
def test_a_missing_webhook_is_not_found(on_node: CommandLine, hook_id: str) -> None:
    done = on_node("remote", "webhooks", "delete", hook_id)

    assert done.status == 3
    assert "not found on remote default" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trigger"], "rye remote webhooks trigger: expected HOOK k=v..., found 0"),
        (["trigger", "wh_0"], "WEBHOOK_SECRET: expected the secret of the webhook"),
        (["create"], "rye remote webhooks create: expected one REF, found 0"),
        (["list", "x"], "rye remote webhooks list: expected nothing behind it, found 1"),
    ],
)
def test_an_invalid_command_names_the_valid_form(
    cli: CommandLine, arguments: list[str], message: str
) -> None:
    done = cli("remote", "webhooks", *arguments)

    assert done.status == 2
    assert message in done.stderr


def test_a_delivery_with_another_secret_is_refused(on_node: CommandLine) -> None:
    hook_id = on_node.json("remote", "webhooks", "create", "mine/hello")["hook_id"]

    done = on_node("remote", "webhooks", "trigger", hook_id, WEBHOOK_SECRET="whsec_0")

    assert done.status == 7
    assert "refused with status 401" in done.stderr


def test_a_delivery_runs_the_item_once_with_the_secrets_it_was_given(
    on_node: CommandLine,
) -> None:
    pushed = on_node("remote", "push")
    on_node("remote", "secrets", "set", "TOKEN", "--stdin", stdin=b"sk-value-of-the-test")
    made = on_node.json("remote", "webhooks", "create", "mine/hello", "--vault-keys", "TOKEN")
    trigger = ["remote", "webhooks", "trigger", made["hook_id"], "--delivery-id", "d-1"]

    first = on_node.json(*trigger, WEBHOOK_SECRET=made["hmac_secret"])
    again = on_node.json(*trigger, WEBHOOK_SECRET=made["hmac_secret"])

    assert pushed.status == 0, pushed.stderr
    assert first["triggered"]
    assert first["result"]["result"]["data"]["stdout"] == "hello 20 ***\n"
    assert not again["triggered"]
    delivered = on_node(*trigger, WEBHOOK_SECRET=made["hmac_secret"])
    assert delivered.stdout == "d-1 was delivered before\n"
    assert len(on_node.json("remote", "threads")["threads"]) == 1


def test_secrets_of_the_user_are_sent_with_a_run(on_node: CommandLine) -> None:
    on_node("remote", "secrets", "set", "TOKEN", "--stdin", "--local", stdin=b"my-own-value")

    done = on_node("remote", "execute", "mine/hello")

    assert (done.status, done.stdout) == (0, "hello 12 ***\n")
    assert on_node.json("remote", "secrets", "list")["secrets"] == []


def test_a_delivery_whose_run_fails_is_a_failure(on_node: CommandLine) -> None:
    path = on_node.project / ".ai/tools/mine/hello.sh"
    path.write_text(TOOL + "exit 3\n", encoding="utf-8")
    on_node("sign", "tool:mine/hello")
    on_node("remote", "push")
    made = on_node.json("remote", "webhooks", "create", "mine/hello")
    trigger = ["remote", "webhooks", "trigger", made["hook_id"]]

    done = on_node(*trigger, WEBHOOK_SECRET=made["hmac_secret"])
    shown = on_node(*trigger, "--json", WEBHOOK_SECRET=made["hmac_secret"])

    assert (done.status, shown.status) == (1, 1)
    assert "; the run failed: " in done.stdout
    envelope = json.loads(shown.stdout)
    assert (envelope["status"], envelope["triggered"]) == ("error", True)
    assert envelope["error"]
