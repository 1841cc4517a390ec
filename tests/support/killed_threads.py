"""Threads that are killed at random moments and gone on with, until each of them ends.

``python -m tests.support.killed_threads FOLDER URL SEED KILLS`` prints a line of JSON for each.
A process that has imported everything forks one for each beginning and each resumption, and kills
it: so that a kill costs no start of an interpreter.
"""

import json
import os
import random
import select
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from ryeos.agent.limits import FIELDS
from ryeos.agent.records import JOURNAL, AgentRecords
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.refs import Kind, Reference
from tests.support.agent_threads import directive, echo, provider, threads
from tests.support.workspace import Workspace, publish

PRICED = (
    "{prices: {input: 1000, output: 5000}, context: 100000, max_output: 600, features: [tools]}"
)
INPUT_PRICE, OUTPUT_PRICE = 1000, 5000
DIRECTIVES = 8
_EFFECT = """
    CONFIG_SCHEMA = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    SANDBOX = {"read": ["{project}"], "write": ["{project}"], "network": "none", "programs": "none"}


    def execute(params, project_path):
        with open(project_path + "/effects", "a", encoding="utf-8") as effects:
            effects.write(params["text"] + "\\n")
        return {"done": params["text"]}
"""
_OUTPUTS = '<outputs><output name="sum" type="integer" required="true">Sum</output></outputs>'
_LONGEST_S = 60.0


def prepared(folder: Path, url: str, seed: int) -> Workspace:
    """A workspace with tools whose effects are counted, and directives with random limits."""
    workspace = Workspace(folder, (publish(folder / "bundle"),))
    chance = random.Random(seed)  # noqa: S311 - limits
    provider(workspace, url, model=PRICED)
    echo(workspace, "ops/once", body=_EFFECT)
    echo(workspace, "ops/again", body=_EFFECT, extra="    __retryable__ = True\n")
    echo(workspace)
    permissions = """<execute><tool>ops.once</tool><tool>ops.again</tool><tool>ops.echo</tool>
        <directive>ops.inner</directive><directive>ops.innermost</directive></execute>"""
    body = "Do {input:what}."
    for name, spawns in (("innermost", 0), ("inner", 2)):
        directive(
            workspace,
            f"ops/{name}",
            permissions=permissions,
            limits=f'<limits turns="3" spawns="{spawns}" spend="0.04" tokens="20000"/>',
            body=body,
        )
    for number in range(DIRECTIVES):
        limits = {
            "turns": chance.randint(4, 20),
            "spend": f"0.{chance.randint(30, 200):03d}",
            "tool_calls": chance.randint(2, 20),
            "spawns": chance.randint(0, 5),
            "tokens": chance.randint(20_000, 120_000),
        }
        said = " ".join(f'{name}="{value}"' for name, value in limits.items())
        directive(
            workspace,
            f"ops/d{number}",
            permissions=permissions,
            limits=f"<limits {said}/>",
            outputs=chance.choice(["", _OUTPUTS]),
            body=body,
        )
    return workspace


class Killer:
    """Forks, and kills what it forked. ``kills`` counts those that did not end before."""

    def __init__(self, seed: int) -> None:
        self.kills, self.chance = 0, random.Random(seed)  # noqa: S311 - moments
        self._usual_s = 1.0

    def run(self, act: Callable[[], object], *, is_killed: bool) -> bool:
        """Whether the function ended by itself, in a process of its own."""
        began = monotonic()
        child = os.fork()
        if child == 0:
            _ended(act)
        watched = os.pidfd_open(child)
        waiting = select.poll()
        waiting.register(watched, select.POLLIN)
        within_s = self.chance.uniform(0.0, self._usual_s) if is_killed else _LONGEST_S
        has_ended = bool(waiting.poll(within_s * 1000))
        if not has_ended:
            os.kill(child, signal.SIGKILL)
            self.kills += 1
        os.close(watched)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if has_ended and is_killed:
            self._usual_s = 0.8 * self._usual_s + 0.2 * (monotonic() - began)
        if not is_killed and not has_ended:
            raise TimeoutError("a thread does not end")
        if has_ended and status:
            raise RuntimeError(f"status {status}")
        return has_ended


def _ended(act: Callable[[], object]) -> None:
    """Do it, and end this process without what its parent would do at its end."""
    status = 1
    try:
        act()
        status = 0
    except BaseException:  # noqa: BLE001 - shown, and the parent sees the status
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def one_thread(workspace: Workspace, killer: Killer, name: str) -> dict[str, Any]:
    """Carry one directive out under kills; what became of it."""
    number = killer.chance.randrange(DIRECTIVES)
    reference = Reference(Kind.DIRECTIVE, f"ops/d{number}")
    kills = killer.chance.randint(1, 5)
    records = threads(workspace).records

    def act(thread_id: str) -> None:
        found = threads(workspace)
        if _has_begun(records, thread_id):
            found.resume(thread_id)
        else:
            found.start(reference, ThreadWish(parameters={"what": name}, thread_id=thread_id))

    thread_id = name
    for left in range(kills, -1, -1):
        if not _has_begun(records, thread_id):  # killed too early to have begun
            thread_id = f"{name}-{left}"
        has_ended = killer.run(partial(act, thread_id), is_killed=left > 0)
        # A journal can be read at any time after its first event.
        if has_ended or (_has_begun(records, thread_id) and records.read(thread_id).ended):
            break
    return {"run": name, **described(records, thread_id)}


def _has_begun(records: AgentRecords, thread_id: str) -> bool:
    """Whether its first event is written."""
    if not records.has(thread_id):
        return False
    return b"\n" in (records.folder_of(thread_id) / JOURNAL).read_bytes()


def described(records: AgentRecords, name: str) -> dict[str, Any]:
    """What the journals of a thread and of its children say, and what is wrong with them."""
    thread = records.read(name)
    ids = [one for one in records.ids() if _has_begun(records, one)]
    family = [one for one in ids if _root(records, one) == name]
    problems = [problem for one in family for problem in wrong_with(records, one)]
    called = [text for one in family for text in _called_texts(records, one)]
    return {
        "state": thread.ended.state if thread.ended else "",
        "code": thread.ended.code if thread.ended else "",
        "used": thread.purse.used.as_dict(),
        "threads": len(family),
        "called": called,
        "problems": problems,
    }


def _root(records: AgentRecords, thread_id: str) -> str:
    """The thread that has no parent."""
    while parent := records.read(thread_id).start.parent:
        thread_id = parent
    return thread_id


def wrong_with(records: AgentRecords, thread_id: str) -> Iterator[str]:
    """Limits that are broken, and calls that were answered and made again."""
    thread = records.read(thread_id)
    for name in FIELDS:
        if name in {"duration_s", "depth"}:
            continue
        used, limit = thread.purse.used.of(name), thread.purse.limits.of(name)
        if used > limit:
            yield f"{thread_id}: {name}: used {used} of {limit}"
    answered: set[str] = set()
    digest = ""
    for event in records.events(thread_id):
        if event.event_type == "asked":
            digest = event.payload["digest"]
            if digest in answered:
                yield f"{thread_id}: an answered call was made again"
        elif event.event_type == "answered":
            answered.add(digest)


def _called_texts(records: AgentRecords, thread_id: str) -> Iterator[str]:
    """The texts of the calls that began."""
    texts: dict[str, str] = {}
    for event in records.events(thread_id):
        if event.event_type == "answered":
            texts = {one["id"]: one["arguments"] for one in event.payload["calls"]}
        elif event.event_type == "called" and event.payload["item"] == "tool:ops/once":
            yield json.loads(texts[event.payload["call_id"]])["text"]


def main(arguments: list[str]) -> int:
    """Kill so often, and print what became of each thread."""
    folder, url, seed, kills = Path(arguments[0]), arguments[1], *map(int, arguments[2:4])
    workspace = prepared(folder, url, seed)
    killer = Killer(seed)
    # What is imported, and kept in files, is there before the first fork.
    threads(workspace).start(
        Reference(Kind.DIRECTIVE, "ops/d0"), ThreadWish(parameters={"what": "warm"})
    )
    number = 0
    while killer.kills < kills:
        said = one_thread(workspace, killer, f"r{seed}-{number}")
        sys.stdout.write(json.dumps(said) + "\n")
        number += 1
    sys.stdout.write(json.dumps({"kills": killer.kills, "threads": number}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
