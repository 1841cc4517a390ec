"""What a runner is told on standard input: which thread it is, and what to run."""

import json
from pathlib import Path
from typing import Any

from lillux.values import dataclass
from ryeos.errors import UsageError
from ryeos.executor.model import Request
from ryeos.threads.place import ThreadsPlace

PARENT_VARIABLE = "RYE_PARENT_THREAD_ID"
LOCAL, INLINE = "local", "inline"


@dataclass(frozen=True, slots=True)
class Payload:
    """A run to be carried out. ``item_id`` is a canonical reference, like ``tool:mine/hello``."""

    thread_id: str
    item_id: str
    place: ThreadsPlace
    request: Request

    def dump(self) -> bytes:
        """The payload as JSON."""
        request = self.request
        document = {
            "thread_id": self.thread_id,
            "item_id": self.item_id,
            "parameters": request.parameters,
            "target": LOCAL,
            "thread": INLINE,
            "space": str(self.place.ai),
            "timeout_s": request.timeout_s,
            "at_most_s": request.at_most_s,
            "env": dict(request.extra_env),
            "trace": request.trace,
            "use_lockfile": request.use_lockfile,
        }
        return json.dumps(document).encode()


def parse_payload(data: bytes) -> Payload:
    """The payload that `Payload.dump` wrote. Raises UsageError for anything else."""
    try:
        document: dict[str, Any] = json.loads(data)
        thread_id, item_id = str(document["thread_id"]), str(document["item_id"])
        request = Request(
            item_id=item_id.partition(":")[2],
            parameters=document["parameters"],
            timeout_s=document["timeout_s"],
            at_most_s=document.get("at_most_s"),
            trace=document["trace"],
            use_lockfile=document["use_lockfile"],
            run_id=thread_id,
            extra_env={**document.get("env", {}), PARENT_VARIABLE: thread_id},
        )
        return Payload(thread_id, item_id, ThreadsPlace(Path(document["space"])), request)
    except (ValueError, KeyError, TypeError) as error:
        hint = "this command is for rye itself; start a background run with: rye run REF --async"
        raise UsageError("standard input: expected the payload of a thread", hint=hint) from error
