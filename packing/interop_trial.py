"""Tries the built files against the public implementation, in both directions.

The public packages come from the package index into ``build/interop``, so no test does this. What
they do is only looked at from outside. Page: ``docs/remote.md``, The public implementation.
"""

import argparse
import base64
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from packing import BuildError

# --- interop peers --------------------------------------------------------------------------------
# The programs of an interoperability trial: ours as they are built, the public ones in a venv.
#
# Each has a home folder of its own, empty at first, and nothing of this machine's environment.

PACKAGES = (
    "ryeos-node==0.1.15",
    "ryeos-engine==0.1.27",
    "ryeos-core==0.1.46",
    "ryeos==0.1.30",
    "ryeos-cli==0.1.9",
    "lillux==0.2.1",
    "httpx",
)
_URL = re.compile(r"(http://127\.0\.0\.1:\d+)")
_MAX_SHOWN = 3000
_SECONDS_TO_END = 30
# The call that the public command line makes; its own `execute` takes no parameters.
_ASK = """
import asyncio, json, os, sys
from rye.actions.execute import ExecuteTool
call = ExecuteTool(os.environ["HOME"]).handle(
    item_id=sys.argv[1], project_path=os.getcwd(), parameters=json.loads(sys.argv[2]))
print(json.dumps(asyncio.run(call), default=str))
"""


def public_venv(folder: Path) -> Path:
    """The ``bin`` of a venv with the public packages, made or brought up to date in a folder."""
    if not (folder / "bin" / "python").exists():
        _done([sys.executable, "-m", "venv", str(folder)], folder.parent, None)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES]
    _done(pip, folder.parent, None)
    return folder / "bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A user at a project, with one of the two command lines.

    program  the words that start it
    path     further folders of its PATH
    """

    home: Path
    project: Path
    program: tuple[str, ...]
    path: str = ""

    def run(self, *words: str, stdin: str = "", **environ: str) -> str:
        """What a command wrote to its standard output. Raises BuildError for another status."""
        env = _environ(self.home, self.path) | environ
        return _done([*self.program, *words], self.project, env, stdin)

    def ask(self, *words: str, stdin: str = "", **environ: str) -> dict[str, Any]:
        """The answer of a command of ours, as JSON."""
        return _read(self.run(*words, "--json", stdin=stdin, **environ))

    def call(self, item_ref: str, **parameters: object) -> dict[str, Any]:
        """The data of a call of a public tool. Raises BuildError unless it succeeded."""
        python = str(Path(self.program[0]).with_name("python"))
        words = [python, "-c", _ASK, item_ref, json.dumps(parameters)]
        answer = _read(_done(words, self.project, _environ(self.home, self.path)))
        if answer.get("status") != "success":
            raise BuildError(item_ref, f"expected success, found {json.dumps(answer)[:_MAX_SHOWN]}")
        return dict(answer["data"])

    def remote(self, action: str, **parameters: object) -> dict[str, Any]:
        """The data of an action of the public tool for remotes."""
        return self.call("tool:rye/core/remote/remote", action=action, **parameters)

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def our_client(home: Path, project: Path, file: Path) -> Client:
    """A user of the built file."""
    _make(home, project)
    return Client(home=home, project=project, program=(sys.executable, str(file)))


def public_client(home: Path, project: Path, programs: Path) -> Client:
    """A user of the public command line."""
    _make(home, project)
    return Client(home=home, project=project, program=(str(programs / "rye"),), path=str(programs))


@contextmanager
def our_node(data: Path, file: Path, key: Path) -> Iterator[str]:
    """Our node, which lets a key in; its address."""
    _make(data)
    program = [sys.executable, str(file)]
    environ = _environ(data)
    _done([*program, "keys", "add", str(key), "--data", str(data)], data, environ)
    words = [*program, "serve", "--port", "0", "--data", str(data)]
    with _served(words, data, environ, data / "log") as url:
        yield url


@contextmanager
def public_node(data: Path, programs: Path, public_key: str) -> Iterator[str]:
    """The public node, which lets a key in (``ed25519:...``); its address."""
    _make(data)
    environ = _environ(data, str(programs)) | {
        "CAS_BASE_PATH": str(data / "cas"),
        "SIGNING_KEY_DIR": str(data / "cas" / "signing"),
        "BOOTSTRAP_PUBLIC_KEY": public_key,
    }
    python = str(programs / "python")
    _done([python, "-m", "ryeos_node.init", str(data / "cas")], data, environ)
    words = [python, "-m", "uvicorn", "ryeos_node.server:app", "--host", "127.0.0.1", "--port", "0"]
    with _served(words, data, environ, data / "log") as url:
        yield url


@contextmanager
def _served(
    words: Sequence[str], cwd: Path, environ: Mapping[str, str], log: Path
) -> Iterator[str]:
    """A server's address, once it says on standard error where it is. It is ended afterwards."""
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        said = ""
        for line in process.stderr or ():
            said += line
            found = _URL.search(line)
            if found:
                break
        else:
            raise BuildError(words[2], f"it did not start\n{said[-_MAX_SHOWN:]}")
        # From here on a file takes what it says: a full pipe would stop it.
        Thread(target=_keep, args=(process.stderr, log), daemon=True).start()
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_SECONDS_TO_END)


def _keep(said: IO[str] | None, log: Path) -> None:
    log.write_text(said.read() if said else "", encoding="utf-8")


def _make(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)


def _environ(home: Path, path: str = "") -> dict[str, str]:
    own = ":".join(folder for folder in (path, "/usr/local/bin", "/usr/bin", "/bin") if folder)
    return {"PATH": own, "HOME": str(home), "LANG": "C.UTF-8"}


def _done(
    words: Sequence[str], cwd: Path, environ: Mapping[str, str] | None, stdin: str = ""
) -> str:
    done = subprocess.run(
        words,
        cwd=cwd,
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-_MAX_SHOWN:]
        raise BuildError(" ".join(words[1:])[:200], f"status {done.returncode}\n{output}")
    return done.stdout


def _read(text: str) -> dict[str, Any]:
    return dict(json.loads(text))


# --- interop trial --------------------------------------------------------------------------------

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


# --- our client, the public node ------------------------------------------------------------------


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


# --- the public client, our node ------------------------------------------------------------------


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


# --- both -----------------------------------------------------------------------------------------


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
