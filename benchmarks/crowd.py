"""Many simultaneous clients on one project of one node, and whether an update of one is lost.

``python -m benchmarks.crowd FOLDER FIRST LAST`` is a part of the crowd: a thread for each client.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

from benchmarks.timing import Figure
from lillux.key_files import save_keypair
from lillux.store import Store
from lillux.values import dataclass
from rye_services.node.store.objects import UserStores
from ryeos.remote.errors import HeadMovedError, RemoteError
from ryeos.remote.link import RemoteEnvironment, open_link
from ryeos.remote.pull import pull
from ryeos.remote.push import push
from ryeos.remote.run import RemoteRun, execute
from ryeos.sync.objects import manifest_of, snapshot_of
from ryeos.trust.bundles import embedded_bundle
from tests.support.node import Node
from tests.support.workspace import PLAIN_ENV, ROOT, VERSION, Workspace, publish

CLIENTS, PROCESSES = 50, 5
_TRIES = 100
_BUSY = 503
_PROJECT = "crowd"
_TOOL = "tool:crowd/make"
_RULES = "sync: {include: ['src/']}\n"
_MAKES = """

from pathlib import Path


def execute(params, project_path):
    folder = Path(project_path) / "src"
    folder.mkdir(exist_ok=True)
    (folder / (params["name"] + ".txt")).write_text(params["name"] + "\\n", encoding="utf-8")
    return {}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A change that the node has confirmed to a client.

    snapshot  of the project after it, or the unmerged snapshot of a run
    path      the file that it brought
    merge     how a run ended, ``""`` for a push
    thread    of a run
    """

    snapshot: str
    path: str
    merge: str = ""
    thread: str = ""


def crowd(
    folder: Path, node: Node, *, clients: int = CLIENTS, processes: int = PROCESSES
) -> Iterator[Figure]:
    """Rows for lost updates, and for the time of all clients."""
    workspace = _seeded(folder, node)
    started = perf_counter()
    updates = [Update(**row) for row in _crowd(folder, clients, processes)]
    elapsed_s = perf_counter() - started
    lost = lost_updates(updates, workspace, node)
    name = f"remote, {clients} clients on one project"
    yield Figure(f"{name}, lost", float(len(lost)), "updates", len(updates), "0 lost", "updates")
    yield Figure(name, elapsed_s, "updates", len(updates), "at most 60 s", "s")


def _seeded(folder: Path, node: Node) -> Workspace:
    """A user of the node whose project has the tool, pushed."""
    workspace = Workspace(folder / "seed", (publish(folder / "bundle"),))
    node.user(keypair=workspace.keypair)
    _save_user(workspace, node)
    workspace.project.write("config/cas/manifest.yaml", _RULES)
    workspace.project.signed_tool(
        "crowd/make", _MAKES, executor="rye/core/runtimes/python/function"
    )
    push(open_link(RemoteEnvironment(workspace=workspace.rye()), None))
    return workspace


def _save_user(workspace: Workspace, node: Node) -> None:
    """Write the private key and the address of the node for all clients of this user."""
    save_keypair(workspace.context().key_directory, workspace.keypair)
    remotes = f"project_path: {_PROJECT}\nremotes:\n  default: {{url: '{node.url}'}}\n"
    workspace.user.write("config/remotes/remotes.yaml", remotes)


def _crowd(folder: Path, clients: int, processes: int) -> Iterator[dict[str, str]]:
    """The confirmed changes of all clients."""
    each = clients // processes
    parts = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.crowd", str(folder), str(first), str(first + each)],
            cwd=ROOT,
            env={**PLAIN_ENV, "HOME": str(folder), "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for first in range(0, clients, each)
    ]
    for part in parts:
        output, _ = part.communicate()
        if part.returncode:
            raise RuntimeError(f"a part of the crowd: status {part.returncode}")
        yield from json.loads(output)


def lost_updates(updates: Iterable[Update], workspace: Workspace, node: Node) -> list[Update]:
    """The updates that are neither in the history of the head, with their file, nor a conflict.

    Read from the node's own store: what clients say is not used here.
    """
    store = UserStores(node.settings.cas_base_path).of(workspace.fingerprint)
    link = open_link(RemoteEnvironment(workspace=workspace.rye()), None)
    link.node.verify()
    head = link.node.head(link.project_path)
    if head is None:
        return [*updates]
    history = {*_ancestors(store, head.snapshot_hash)}
    manifest = manifest_of(store.get_object(head.project_manifest_hash), "manifest")

    def is_there(update: Update) -> bool:
        if update.merge in {"conflict", "retry_exhausted"}:
            row = link.node.thread(update.thread)
            kept = row["unmerged_snapshot_hash"]
            return (
                bool(row["merge_conflicts"])
                and kept == update.snapshot
                and (store.has_object(kept))
            )
        return update.snapshot in history and update.path in manifest.files

    return [update for update in updates if not is_there(update)]


def _ancestors(store: Store, snapshot_hash: str) -> Iterator[str]:
    """A snapshot and all its ancestors."""
    waiting, known = [snapshot_hash], set()
    while waiting:
        digest = waiting.pop()
        if digest in known:
            continue
        known.add(digest)
        yield digest
        waiting += snapshot_of(store.get_object(digest), digest).parent_hashes


def _part(folder: Path, first: int, last: int) -> list[Update]:
    updates: list[Update] = []
    failures: list[BaseException] = []

    def client(number: int) -> None:
        try:
            updates.extend(_client(folder, number))
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            failures.append(error)

    threads = [Thread(target=client, args=(number,)) for number in range(first, last)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return updates


def _client(folder: Path, number: int) -> Iterator[Update]:
    """Pull, bring a file, have the node make another one."""
    bundle = embedded_bundle(folder / "bundle", VERSION)
    here = Workspace(folder / f"client{number}", (bundle,))
    here.env["HOME"] = here.env["USER_SPACE"] = str(folder / "seed" / "home")
    here.project.write("config/cas/manifest.yaml", _RULES)
    link = open_link(RemoteEnvironment(workspace=here.rye()), None)
    _insist(lambda: pull(link))
    mine = here.project_path / "src" / f"pushed{number}.txt"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text(f"{number}\n", encoding="utf-8")
    pushed = _insist(lambda: push(link))
    yield Update(snapshot=pushed.snapshot_hash, path=f"src/{mine.name}")
    name = f"made{number}"
    run = RemoteRun(item_ref=_TOOL, parameters={"name": name}, applies=False)
    executed = _insist(lambda: execute(link, run)).executed
    if executed.status != "success":
        raise RuntimeError(f"client {number}: {executed.result}")
    yield Update(
        snapshot=executed.unmerged_snapshot or executed.snapshot_hash,
        path=f"src/{name}.txt",
        merge=executed.merge_type,
        thread=executed.thread_id,
    )


def _insist(action: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the action gives
    """Repeat the action while the head moves or the node is busy: it then had no effect."""
    for _ in range(_TRIES):
        try:
            return action()
        except HeadMovedError:
            continue
        except RemoteError as error:
            if error.status != _BUSY:
                raise
    raise RuntimeError(f"others were faster {_TRIES} times")


def main(arguments: list[str]) -> int:
    """Be a part of the crowd; print the confirmed changes of its clients, as JSON."""
    folder, first, last = arguments
    updates = _part(Path(folder), int(first), int(last))
    rows: list[Mapping[str, str]] = [
        {name: getattr(update, name) for name in ("snapshot", "path", "merge", "thread")}
        for update in updates
    ]
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
