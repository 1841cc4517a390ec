"""Tries the built files against the public implementation, in both directions.

The public packages come from the package index into ``build/interop``, so no test does this. What
they do is only looked at from outside. Page: ``docs/remote.md``, The public implementation.
"""

import argparse
import base64
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from packing import BuildError
from packing.interop_peers import (
    Client,
    our_client,
    our_node,
    public_client,
    public_node,
    public_venv,
)

CHECKOUT = Path(__file__).resolve().parent.parent
KEYS = ".ai/config/keys/signing"
PUBLIC_KEY = f"{KEYS}/public_key.pem"
TOKEN = "PROBE_TOKEN"  # noqa: S105 - the name of one
_HEAD = """
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "probe"
__tool_description__ = "{name}"
"""
GREET = """
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": "world"}},
    "additionalProperties": False,
}


def execute(params, project_path):
    return {"greeting": "hello " + params["name"]}
"""
MAKE = """
import os
from pathlib import Path


def execute(params, project_path):
    page = Path(project_path, ".ai/knowledge/probe", params["name"] + ".md")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("made there")
    output = Path(project_path, ".ai/state/outputs", params["name"] + ".txt")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("left there")
    return {"made": params["name"], "token": len(os.environ.get("PROBE_TOKEN", ""))}
"""
GRAPH = """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: probe
description: one call
permissions: ["rye.execute.tool.probe.*"]
config:
  start: only
  nodes:
    only:
      action: {item_id: "tool:probe/greet", params: {name: graph}}
      assign: {said: "${result.greeting}"}
      next: done
    done: {type: return, output: {said: "${state.said}"}}
"""
ITEMS = ("tool:probe/greet", "tool:probe/make", "tool:probe/one")


def main() -> int:
    """Try both directions; the exit status."""
    parser = argparse.ArgumentParser(prog="interop", description="Try against the public peers.")
    parser.add_argument("--dist", type=Path, default=CHECKOUT / "dist", help="the built files")
    folder = CHECKOUT / "build" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    arguments = parser.parse_args()
    scratch = folder / "run"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        programs = public_venv(folder / "venv")
        try_our_client(scratch / "ours", programs, arguments.dist / "rye.pyz")
        try_public_client(scratch / "public", programs, arguments.dist / "rye-node.pyz")
    except LilluxError as error:
        print(f"interop: {error}", file=sys.stderr)
        return error.exit_status
    print(f"interop: both directions work; what was said is in {scratch}")
    return 0


def try_our_client(scratch: Path, programs: Path, file: Path) -> None:
    """Raises BuildError with the first step that does not do what it should."""
    ours = our_client(scratch / "home", scratch / "one" / "project", file)
    ours.run("keys", "generate")
    _write_items(ours)
    ours.run("sign", *ITEMS)
    key = (ours.home / PUBLIC_KEY).read_bytes()
    encoded = f"ed25519:{base64.b64encode(key).decode()}"
    with public_node(scratch / "node", programs, encoded) as url:
        _say(f"our client, the public node at {url}")
        ours.run("remote", "add", "default", url)
        _expect("push", ours.ask("remote", "push")["head_moved"], expected=True)
        _expect("push again", ours.ask("remote", "push")["head_moved"], expected=False)
        _try_our_runs(ours)
        _try_our_secrets(ours)
        _try_our_webhooks(ours)
        _try_two_of_ours(ours, our_client(ours.home, scratch / "two" / "project", file), url)


def _try_our_runs(ours: Client) -> None:
    greeted = ours.ask("remote", "execute", "tool:probe/greet")
    _expect("a run, with a default", greeted["data"], {"greeting": "hello world"})
    _expect("its merge", greeted["remote"]["merge_type"], "no-op")
    made = ours.ask("remote", "execute", "tool:probe/make", "name=a")["remote"]
    _expect("a run that changes something", made["applied"], [".ai/knowledge/probe/a.md"])
    _expect("its outputs", made["outputs_materialized"], [".ai/state/outputs/a.txt"])
    graph = ours.ask("remote", "execute", "tool:probe/one")
    _expect("a graph", graph["data"]["output"], {"said": "hello graph"})
    started = ours.ask("remote", "execute", "tool:probe/make", "name=b", "--async")
    ended = ours.ask("remote", "thread", started["thread_id"], "--wait")["thread"]
    _expect("a run that is not waited for", ended["state"], "completed")
    ours.run("remote", "pull")
    _expect("pull", (ours.project / ".ai/knowledge/probe/b.md").read_text("utf-8"), "made there")
    _expect("threads", len(ours.ask("remote", "threads")["threads"]), 4)
    _expect("history", len(ours.ask("remote", "history")["snapshots"]), 4)


def _try_our_secrets(ours: Client) -> None:
    ours.run("remote", "secrets", "set", TOKEN, "--stdin", stdin="12345")
    _expect("secrets", ours.ask("remote", "secrets", "list")["secrets"], [TOKEN])
    words = ("remote", "execute", "tool:probe/make", "name=a")
    _expect("a run with one", ours.ask(*words, "--vault-keys", TOKEN)["data"]["token"], 5)
    ours.run("remote", "secrets", "delete", TOKEN)
    _expect("none left", ours.ask("remote", "secrets", "list")["secrets"], [])
    ours.run("remote", "secrets", "set", TOKEN, "--stdin", "--local", stdin="123")
    _expect("a sealed one", ours.ask(*words)["data"]["token"], 3)


def _try_our_webhooks(ours: Client) -> None:
    made = ours.ask("remote", "webhooks", "create", "tool:probe/greet")
    words = ("remote", "webhooks", "trigger", made["hook_id"], "name=w", "--delivery-id", "once")
    first = ours.ask(*words, WEBHOOK_SECRET=made["hmac_secret"])
    _expect("a webhook", _data(first["result"]), {"greeting": "hello w"})
    again = ours.ask(*words, WEBHOOK_SECRET=made["hmac_secret"])
    _expect("the same delivery again", again["triggered"], expected=False)
    ours.run("remote", "webhooks", "delete", made["hook_id"])
    (listed,) = ours.ask("remote", "webhooks", "list")["bindings"]
    _expect("a webhook that was deleted", bool(listed["revoked_at"]), expected=True)


def _try_two_of_ours(one: Client, two: Client, url: str) -> None:
    two.run("remote", "add", "default", url, "--replace")
    two.run("remote", "pull")
    _expect("a second machine", (two.project / ".ai/tools/probe/one.yaml").exists(), expected=True)
    two.write(".ai/knowledge/probe/two.md", "of two\n")
    two.run("remote", "push")
    one.write(".ai/knowledge/probe/one.md", "of one\n")
    pulled = one.ask("remote", "push")["pulled"]
    _expect("a push that merges", pulled, [".ai/knowledge/probe/two.md"])


def try_public_client(scratch: Path, programs: Path, file: Path) -> None:
    """Raises BuildError with the first step that does not do what it should."""
    public = public_client(scratch / "home", scratch / "project", programs)
    public.call("tool:rye/core/keys/keys", action="generate")
    with suppress(BuildError):  # 0.1.46 does it, and reports an error of its own afterwards
        public.call("tool:rye/core/keys/keys", action="trust")
    _write_items(public)
    with our_node(scratch / "node", file, public.home / PUBLIC_KEY) as url:
        _say(f"the public client, our node at {url}")
        key = (scratch / "node" / "signing" / "public_key.pem").read_bytes()
        _write_remote(public, url, key)
        for item in (*ITEMS, "config:remotes/remotes"):
            public.run("sign", item)
        _expect(
            "a private key to be pushed",
            (public.home / KEYS / "box_key.pem").exists(),
            expected=True,
        )
        _expect("push", public.remote("push")["ref_published"], expected=True)
        _expect("push again", public.remote("push")["ref_published"], expected=True)
        _try_public_runs(public)
        _try_public_secrets(public)
        _try_public_webhooks(public)


def _write_remote(public: Client, url: str, key: bytes) -> None:
    from lillux.signing import compute_key_fingerprint

    node_id = f"fp:{compute_key_fingerprint(key)}"
    entry = f'  default: {{url: "{url}", node_id: "{node_id}"}}\n'
    text = f'version: "1.0.0"\ncategory: remotes\nremotes:\n{entry}'
    public.write(".ai/config/remotes/remotes.yaml", text)


def _data(ran: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """The data of a run on a node. Raises BuildError for one that failed."""
    result = ran["result"]
    if result.get("status") != "success":
        raise BuildError("a run", f"expected success, found {result}")
    return result["data"]


def _try_public_runs(public: Client) -> None:
    run = {"item_id": "tool:probe/greet", "thread": "inline", "parameters": {"name": "Ada"}}
    greeted = public.remote("execute", **run)
    _expect("a run of a closed tool", _data(greeted), {"greeting": "hello Ada"})
    run = {"item_id": "tool:probe/make", "thread": "inline", "parameters": {"name": "a"}}
    _expect("a run with outputs", public.remote("execute", **run)["outputs_materialized"], 1)
    graph = public.remote("execute", item_id="tool:probe/one", thread="inline")
    _expect("a graph", _data(graph)["output"], {"said": "hello graph"})
    started = public.remote("execute", **run, **{"async": True})
    row = public.remote("thread_status", thread_id=started["thread_id"])
    _expect("a run that is not waited for", row["state"] in {"running", "completed"}, expected=True)
    _expect("threads", len(public.remote("threads")["threads"]), 4)
    fetched = public.remote("pull", hashes=[greeted["execution_snapshot_hash"]])
    _expect("pull", fetched["fetched"], 1)
    public.write(".ai/knowledge/probe/later.md", "later\n")
    _expect("a push after runs", public.remote("push")["ref_published"], expected=True)


def _try_public_secrets(public: Client) -> None:
    public.remote("vault_set", secret_name=TOKEN, secret_value="12345")  # noqa: S106 - worth nothing
    _expect("secrets", public.remote("vault_list")["names"], [TOKEN])
    run = {"item_id": "tool:probe/make", "thread": "inline", "parameters": {"name": "a"}}
    ran = public.remote("execute", **run, vault_keys=[TOKEN])
    _expect("a run with one", _data(ran)["token"], 5)
    _expect("one less", public.remote("vault_delete", secret_name=TOKEN)["deleted"], TOKEN)


def _try_public_webhooks(public: Client) -> None:
    made = public.remote("webhook_create", item_id="tool:probe/greet", description="d")
    hook = {"hook_id": made["hook_id"]}
    ran = public.remote(
        "webhook_trigger", **hook, secret=made["hmac_secret"], parameters={"name": "w"}
    )
    _expect("a webhook", _data(ran["result"]), {"greeting": "hello w"})
    _expect("one less", public.remote("webhook_delete", **hook)["revoked"], made["hook_id"])
    (listed,) = public.remote("webhooks")["bindings"]
    _expect("a webhook that was deleted", bool(listed["revoked_at"]), expected=True)


def _write_items(client: Client) -> None:
    client.write(".ai/tools/probe/greet.py", _HEAD.format(name="greet").lstrip() + GREET)
    client.write(".ai/tools/probe/make.py", _HEAD.format(name="make").lstrip() + MAKE)
    client.write(".ai/tools/probe/one.yaml", GRAPH.lstrip())


def _expect(title: str, found: object, expected: object) -> None:
    if found != expected:
        raise BuildError(title, f"expected {expected!r}, found {found!r}")
    _say(f"  ok  {title}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
